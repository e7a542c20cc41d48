//! A transport whose peer is the test itself.

use crate::{Completion, Death, Inbox, Limits, PeerFault, Submission, SubmitError, Transport};
use fusewire_mem::Arena;
use fusewire_sync::{Arc, Mutex, Rank, Weak};
use fusewire_wire::{Caller, Extensions, Head, Name, Request, reply};
use std::io::{self, Write};
use std::sync::atomic::{AtomicUsize, Ordering};
use zerocopy::IntoBytes;

#[derive(Debug)]
pub(super) struct Fake {
    arena: Arc<Arena>,
    tags: u32,
    state: Mutex<State>,
    wakes: AtomicUsize,
}

#[derive(Debug, Default)]
struct State {
    /// `unique` of each request in flight, by tag.
    in_flight: Vec<(u32, u64)>,
    ready: Vec<(u32, Vec<u8>, u32)>,
    refuse: Option<SubmitError>,
}

impl Fake {
    pub(super) fn new(tags: u32) -> Self {
        Fake {
            arena: Arena::new(1).expect("an arena"),
            tags,
            state: Mutex::new(Rank::RING, State::default()),
            wakes: AtomicUsize::new(0),
        }
    }

    /// Tags in flight at the peer.
    pub(super) fn in_flight(&self) -> Vec<u32> {
        let state = self.state.lock();
        state.in_flight.iter().map(|(tag, _)| *tag).collect()
    }

    pub(super) fn refuse(&self, error: SubmitError) {
        self.state.lock().refuse = Some(error);
    }

    pub(super) fn wakes(&self) -> usize {
        self.wakes.load(Ordering::SeqCst)
    }

    pub(super) fn reply(&self, tag: u32, head: &[u8], payload_bytes: u32) {
        let mut state = self.state.lock();
        state.in_flight.retain(|(other, _)| *other != tag);
        state.ready.push((tag, head.to_vec(), payload_bytes));
    }

    pub(super) fn reply_error(&self, tag: u32, errno: i32) {
        let unique = self.unique(tag);
        self.reply(tag, reply::failure(unique, errno).as_bytes(), 0);
    }

    /// A successful reply with a payload and nothing else.
    pub(super) fn reply_payload(&self, tag: u32, payload_bytes: u32) {
        let header = reply::success(self.unique(tag), payload_bytes as usize).expect("it fits");
        self.reply(tag, header.as_bytes(), payload_bytes);
    }

    fn unique(&self, tag: u32) -> u64 {
        let state = self.state.lock();
        let found = state.in_flight.iter().find(|(other, _)| *other == tag);
        found.expect("the tag is in flight").1
    }
}

impl Transport for Fake {
    fn limits(&self) -> Limits {
        Limits {
            max_in_flight: self.tags,
            max_segments: 8,
            max_payload_bytes: 1 << 20,
            interrupts: true,
            sync_release: false,
        }
    }

    fn arena(&self) -> &Arc<Arena> {
        &self.arena
    }

    fn submit(&self, request: &Submission<'_>) -> Result<(), SubmitError> {
        let mut state = self.state.lock();
        if let Some(error) = state.refuse {
            return Err(error);
        }
        let header = fusewire_wire::request::parse_header(request.head).expect("a header");
        assert!(state.in_flight.iter().all(|(tag, _)| *tag != request.tag));
        state.in_flight.push((request.tag, header.unique));
        Ok(())
    }

    fn submit_oneway(&self, _head: &[u8]) -> Result<(), SubmitError> {
        Ok(())
    }

    fn kick(&self) {}

    fn reap(&self, sink: &mut dyn FnMut(Completion<'_>)) -> Result<usize, PeerFault> {
        let ready = std::mem::take(&mut self.state.lock().ready);
        for (tag, head, payload_bytes) in &ready {
            sink(Completion {
                tag: *tag,
                head,
                payload_bytes: *payload_bytes,
            });
        }
        Ok(ready.len())
    }

    fn wait(&self) {}

    fn wake(&self) {
        self.wakes.fetch_add(1, Ordering::SeqCst);
    }

    fn listen(&self, _inbox: Weak<dyn Inbox>) {}

    fn watch(&self) -> Death {
        Death::Closed
    }

    fn close(&self) {
        self.state.lock().refuse = Some(SubmitError::Dead);
    }
}

fn send(
    transport: &impl Transport,
    tag: u32,
    unique: u64,
    request: &Request<'_>,
) -> Result<(), SubmitError> {
    let mut head = [0; 256];
    let len = encode(request, unique, 1, &mut head);
    transport.submit(&Submission {
        tag,
        head: &head[..len],
        payload_out: &[],
        reply_head_bytes: request.reply().head_bytes,
        payload_in: &[],
    })
}

fn encode(request: &Request<'_>, unique: u64, nodeid: u64, head: &mut [u8]) -> usize {
    let fixed = Head {
        unique,
        nodeid,
        caller: Caller::default(),
    };
    let encoded = request.encode(&fixed, &Extensions::default(), head);
    encoded.expect("it can be encoded")
}

pub(super) fn lookup(
    transport: &impl Transport,
    tag: u32,
    unique: u64,
    name: &[u8],
) -> Result<(), SubmitError> {
    let name = Name::new(name).expect("a name");
    send(transport, tag, unique, &Request::Lookup { name })
}

pub(super) fn read(transport: &impl Transport, tag: u32, unique: u64) -> Result<(), SubmitError> {
    let read = fusewire_wire::abi::ReadIn {
        size: 4096,
        ..Default::default()
    };
    send(transport, tag, unique, &Request::Read(read))
}

/// Sends a FORGET.
pub(super) fn release(transport: &impl Transport, nodeid: u64) {
    let mut head = [0; 64];
    let len = encode(&Request::Forget { nlookup: 1 }, 0, nodeid, &mut head);
    transport.submit_oneway(&head[..len]).expect("it is taken");
}

/// A sink whose text can be looked at.
#[derive(Clone, Default)]
pub(super) struct Shared(std::sync::Arc<std::sync::Mutex<SharedState>>);

#[derive(Default)]
struct SharedState {
    bytes: Vec<u8>,
    writes: usize,
    fails: bool,
}

impl Shared {
    pub(super) fn failing() -> Self {
        let shared = Shared::default();
        shared.0.lock().unwrap().fails = true;
        shared
    }

    pub(super) fn text(&self) -> String {
        String::from_utf8(self.0.lock().unwrap().bytes.clone()).unwrap()
    }

    pub(super) fn writes(&self) -> usize {
        self.0.lock().unwrap().writes
    }
}

impl Write for Shared {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let mut state = self.0.lock().unwrap();
        state.writes += 1;
        if state.fails {
            return Err(io::ErrorKind::BrokenPipe.into());
        }
        state.bytes.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
