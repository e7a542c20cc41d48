//! A transport in memory for the tests and model checkers of the engine, and an engine over it.

use super::*;
use fusewire_sync::Condvar;
use fusewire_transport::{Death, Inbox, Limits, PeerFault, Submission};
use fusewire_wire::abi::{AttrOut, OutHeader};
use std::collections::VecDeque;
use std::time::Duration;
use zerocopy::IntoBytes;

/// One orphan is tolerated among so many.
pub(super) const SLOTS: u32 = 4;

/// Answers GETATTR in whatever order the model runs it.
#[derive(Debug)]
pub(super) struct Ring {
    state: Mutex<RingState>,
    called: Condvar,
    kicked: Condvar,
    arena: Arc<Arena>,
}

#[derive(Debug, Default)]
struct RingState {
    sent: VecDeque<(u32, u64)>,
    answered: VecDeque<(u32, u64)>,
    woken: bool,
    closed: bool,
    /// For how many more messages without an answer there is room; `None`: for any.
    room: Option<u32>,
}

impl Ring {
    pub(super) fn new() -> Arc<Self> {
        Arc::new(Ring {
            state: Mutex::new(Rank::RING, RingState::default()),
            called: Condvar::new(),
            kicked: Condvar::new(),
            arena: Arena::new(1).unwrap(),
        })
    }

    /// Messages without an answer find room for so many, and no more.
    #[cfg(not(any(fusewire_sync = "loom", fusewire_sync = "shuttle")))]
    pub(super) fn set_room(&self, messages: u32) {
        self.state.lock().room = Some(messages);
    }

    /// The peer answers the next request; false when there will be none.
    #[cfg(any(fusewire_sync = "loom", fusewire_sync = "shuttle"))]
    pub(super) fn answer_one(&self) -> bool {
        let mut state = self.state.lock();
        while state.sent.is_empty() {
            if state.closed {
                return false;
            }
            state = self.kicked.wait(state);
        }
        let request = state.sent.pop_front().unwrap();
        state.answered.push_back(request);
        self.called.notify_one();
        true
    }
}

impl Transport for Ring {
    fn limits(&self) -> Limits {
        Limits {
            max_in_flight: SLOTS,
            max_segments: 1,
            max_payload_bytes: 4096,
            interrupts: false,
            sync_release: false,
        }
    }

    fn arena(&self) -> &Arc<Arena> {
        &self.arena
    }

    fn submit(&self, request: &Submission<'_>) -> Result<(), SubmitError> {
        let header = fusewire_wire::request::parse_header(request.head).unwrap();
        self.state
            .lock()
            .sent
            .push_back((request.tag, header.unique));
        Ok(())
    }

    fn submit_oneway(&self, _head: &[u8]) -> Result<(), SubmitError> {
        match &mut self.state.lock().room {
            Some(0) => return Err(SubmitError::Full),
            Some(room) => *room -= 1,
            None => {}
        }
        Ok(())
    }

    fn kick(&self) {
        self.kicked.notify_all();
    }

    fn reap(&self, sink: &mut dyn FnMut(Completion<'_>)) -> Result<usize, PeerFault> {
        let answered = std::mem::take(&mut self.state.lock().answered);
        let count = answered.len();
        for (tag, unique) in answered {
            let header = OutHeader {
                len: (size_of::<OutHeader>() + size_of::<AttrOut>()) as u32,
                error: 0,
                unique,
            };
            let mut head = header.as_bytes().to_vec();
            head.extend_from_slice(AttrOut::default().as_bytes());
            sink(Completion {
                tag,
                head: &head,
                payload_bytes: 0,
            });
        }
        Ok(count)
    }

    fn wait(&self) {
        let mut state = self.state.lock();
        while state.answered.is_empty() && !state.woken && !state.closed {
            state = self.called.wait(state);
        }
        state.woken = false;
    }

    fn wake(&self) {
        self.state.lock().woken = true;
        self.called.notify_all();
    }

    fn listen(&self, _inbox: Weak<dyn Inbox>) {}

    fn watch(&self) -> Death {
        Death::Closed
    }

    fn close(&self) {
        self.state.lock().closed = true;
        self.called.notify_all();
        self.kicked.notify_all();
    }
}

pub(super) fn engine(ring: &Arc<Ring>, clock: &Clock) -> Arc<Engine> {
    let timeouts = Timeouts {
        metadata: Some(Duration::from_secs(1)),
        data: None,
    };
    let timer = Timer::manual(clock.clone());
    let ring = Arc::clone(ring) as Arc<dyn Transport>;
    Engine::new(ring, clock.clone(), timer, timeouts, WaitPolicy::Sleep).unwrap()
}
