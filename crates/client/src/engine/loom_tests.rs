//! loom: slots, the reaper token and deadlines, over a transport in memory.
//!
//! A lost wake-up shows as a deadlock, which loom reports. A completion in the ring with every
//! thread asleep is such a deadlock.

use super::*;
use fusewire_sync::{Condvar, thread};
use fusewire_transport::{Death, Inbox, Limits, PeerFault, Submission};
use fusewire_wire::abi::{AttrOut, OutHeader};
use std::collections::VecDeque;
use std::time::Duration;
use zerocopy::IntoBytes;

/// One orphan is tolerated among so many.
const SLOTS: u32 = 4;

/// Answers GETATTR in whatever order the model runs it.
#[derive(Debug)]
struct Ring {
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
}

impl Ring {
    fn new() -> Arc<Self> {
        Arc::new(Ring {
            state: Mutex::new(Rank::RING, RingState::default()),
            called: Condvar::new(),
            kicked: Condvar::new(),
            arena: Arena::new(1).unwrap(),
        })
    }

    /// The peer answers the next request.
    fn answer_one(&self) {
        let mut state = self.state.lock();
        while state.sent.is_empty() {
            if state.closed {
                return;
            }
            state = self.kicked.wait(state);
        }
        let request = state.sent.pop_front().unwrap();
        state.answered.push_back(request);
        self.called.notify_one();
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

fn engine(ring: &Arc<Ring>, clock: &Clock) -> Arc<Engine> {
    let timeouts = Timeouts {
        metadata: Some(Duration::from_secs(1)),
        data: None,
    };
    let timer = Timer::manual(clock.clone());
    let ring = Arc::clone(ring) as Arc<dyn Transport>;
    Engine::new(ring, clock.clone(), timer, timeouts, WaitPolicy::Sleep).unwrap()
}

fn getattr() -> Call<'static> {
    Call {
        nodeid: 1,
        request: Request::Getattr { fh: None },
        caller: Caller::default(),
        extensions: Extensions::default(),
        payload: Payload::None,
        keeps: [None, None],
        token: None,
    }
}

fn spawn(f: impl FnOnce() + Send + 'static) -> thread::JoinHandle<()> {
    thread::spawn("model", f).unwrap()
}

/// Blocks until every slot is free, which is a deadlock if one is lost.
fn all_slots_come_back(engine: &Engine) {
    let tickets: Vec<_> = (0..SLOTS).map(|_| engine.reserve(None).unwrap()).collect();
    drop(tickets);
}

/// Two callers at once: each gets its own answer, whoever reaps it.
#[test]
fn loom_two_callers_share_the_token() {
    loom::model(|| {
        let ring = Ring::new();
        let engine = engine(&ring, &Clock::manual());
        let peer = {
            let ring = Arc::clone(&ring);
            spawn(move || {
                ring.answer_one();
                ring.answer_one();
            })
        };
        let other = {
            let engine = Arc::clone(&engine);
            spawn(move || {
                engine.call(getattr()).unwrap();
            })
        };
        engine.call(getattr()).unwrap();
        other.join().unwrap();
        peer.join().unwrap();
        assert_eq!(engine.slots.busy(), 0);
    });
}

/// A deadline and the answer at the same time: the caller gets exactly one of them, and once the
/// completion thread has run, the slot is free in both cases.
#[test]
fn loom_deadline_against_answer() {
    loom::model(|| {
        let ring = Ring::new();
        let clock = Clock::manual();
        let engine = engine(&ring, &clock);
        let completion = {
            let engine = Arc::clone(&engine);
            spawn(move || engine.run_completion())
        };
        let ticket = engine.reserve(None).unwrap();
        let pending = engine.send(ticket, getattr()).unwrap();
        clock.advance(2_000_000_000);
        let peer = {
            let ring = Arc::clone(&ring);
            spawn(move || ring.answer_one())
        };
        let timer = {
            let engine = Arc::clone(&engine);
            spawn(move || engine.timer.run_due())
        };
        match pending.wait() {
            Ok(_) | Err(Errno::TIMEDOUT) => {}
            Err(errno) => panic!("{errno}"),
        }
        peer.join().unwrap();
        timer.join().unwrap();
        all_slots_come_back(&engine);
        engine.stop();
        completion.join().unwrap();
        assert_eq!(engine.reaper.detached(), 0);
    });
}

/// An abort against a call in any state: the call ends, with its answer or with an error.
#[test]
fn loom_abort_ends_every_call() {
    loom::model(|| {
        let ring = Ring::new();
        let engine = engine(&ring, &Clock::manual());
        let peer = {
            let ring = Arc::clone(&ring);
            spawn(move || ring.answer_one())
        };
        let caller = {
            let engine = Arc::clone(&engine);
            spawn(move || match engine.call(getattr()) {
                Ok(_) | Err(Errno::CONNABORTED | Errno::NOTCONN) => {}
                Err(errno) => panic!("{errno}"),
            })
        };
        engine.abort(Ended::Aborted);
        caller.join().unwrap();
        peer.join().unwrap();
        assert!(matches!(engine.call(getattr()), Err(Errno::NOTCONN)));
    });
}

/// A caller that gives up hands its request to the completion thread, which frees the slot.
#[test]
fn loom_a_request_given_up_is_reaped() {
    loom::model(|| {
        let ring = Ring::new();
        let engine = engine(&ring, &Clock::manual());
        let completion = {
            let engine = Arc::clone(&engine);
            spawn(move || engine.run_completion())
        };
        let peer = {
            let ring = Arc::clone(&ring);
            spawn(move || ring.answer_one())
        };
        let ticket = engine.reserve(None).unwrap();
        drop(engine.send(ticket, getattr()).unwrap());
        peer.join().unwrap();
        all_slots_come_back(&engine);
        engine.stop();
        completion.join().unwrap();
        assert_eq!(engine.reaper.detached(), 0);
    });
}
