//! What the engine counts. Plain counters: they order nothing.

use fusewire_sync::Counter;
use fusewire_wire::Opcode;

const OPCODES: usize = 64;

/// Counters of one connection.
#[derive(Debug)]
pub(super) struct Counters {
    requests: [Counter; OPCODES],
    errors: [Counter; OPCODES],
    pub(super) bytes_out: Counter,
    pub(super) bytes_in: Counter,
    pub(super) forgets: Counter,
    pub(super) interrupts: Counter,
    pub(super) notifications: Counter,
    pub(super) timeouts: Counter,
    pub(super) late_replies: Counter,
    pub(super) ring_full: Counter,
    pub(super) spins: Counter,
    pub(super) spin_hits: Counter,
    pub(super) sleeps: Counter,
}

impl Counters {
    pub(super) fn new() -> Self {
        Counters {
            requests: [const { Counter::new() }; OPCODES],
            errors: [const { Counter::new() }; OPCODES],
            bytes_out: Counter::new(),
            bytes_in: Counter::new(),
            forgets: Counter::new(),
            interrupts: Counter::new(),
            notifications: Counter::new(),
            timeouts: Counter::new(),
            late_replies: Counter::new(),
            ring_full: Counter::new(),
            spins: Counter::new(),
            spin_hits: Counter::new(),
            sleeps: Counter::new(),
        }
    }

    pub(super) fn request(&self, opcode: Opcode) {
        if let Some(count) = self.requests.get(opcode as usize) {
            count.count();
        }
    }

    pub(super) fn error(&self, opcode: Opcode) {
        if let Some(count) = self.errors.get(opcode as usize) {
            count.count();
        }
    }

    pub(super) fn by_opcode(&self) -> Vec<OpcodeStats> {
        (0..OPCODES)
            .filter_map(|number| {
                let requests = self.requests[number].get();
                let opcode = Opcode::try_from(number as u32).ok()?;
                (requests > 0).then(|| OpcodeStats {
                    opcode: opcode.name(),
                    requests,
                    errors: self.errors[number].get(),
                })
            })
            .collect()
    }
}

/// Requests of one kind.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct OpcodeStats {
    /// Name of the operation in the protocol, such as `LOOKUP`.
    pub opcode: &'static str,
    /// Requests sent.
    pub requests: u64,
    /// Requests that ended with an error, ENOENT of a LOOKUP included.
    pub errors: u64,
}

/// What a connection has done so far, and what it holds now.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct EngineStats {
    /// Operations used so far, by number in the protocol.
    pub by_opcode: Vec<OpcodeStats>,
    /// Payload bytes sent (WRITE).
    pub bytes_out: u64,
    /// Payload bytes received (READ, READDIR, READLINK).
    pub bytes_in: u64,
    /// References given back to the peer by FORGET: number of messages.
    pub forgets: u64,
    /// INTERRUPTs sent.
    pub interrupts: u64,
    /// Notifications received, those that were refused included.
    pub notifications: u64,
    /// Requests that were not answered in time.
    pub timeouts: u64,
    /// Replies that came after their caller had gone.
    pub late_replies: u64,
    /// Submissions that found the ring full and had to queue.
    pub ring_full: u64,
    /// Waits that began by spinning.
    pub spins: u64,
    /// Of those, waits that ended while spinning.
    pub spin_hits: u64,
    /// Times a waiting thread went to sleep.
    pub sleeps: u64,
    /// Gauge: slots in use now, unanswered requests without a caller included.
    pub slots_busy: u64,
    /// Gauge: requests in flight whose caller has given up.
    pub orphans: u64,
    /// Gauge: FORGETs not sent yet.
    pub forgets_queued: u64,
    /// Gauge: INTERRUPTs and answers to RETRIEVE not sent yet.
    pub oneway_queued: u64,
}
