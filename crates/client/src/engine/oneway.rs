//! Messages to the peer that are no requests: INTERRUPT and NOTIFY_REPLY.
//!
//! An INTERRUPT may overtake its request on the way. The peer then answers EAGAIN, and it is sent
//! again, a bounded number of times: a peer that has forgotten the request would say so for ever.

use super::Engine;
use super::slot::{Slot, State};
use fusewire_sync::atomic::{AtomicBool, Ordering};
use fusewire_sync::{Mutex, Rank};
use fusewire_transport::SubmitError;
use fusewire_wire::abi::NotifyRetrieveIn;
use fusewire_wire::{Caller, Extensions, Head, Opcode, Request};
use rustix::io::Errno;
use std::collections::VecDeque;

/// How often an INTERRUPT is sent again when the peer does not know its request.
pub(super) const MAX_TRIES: u8 = 8;
/// How long the first time waits, in nanoseconds; each further one twice as long.
const RETRY_NS: u64 = 1_000_000;
/// Most replies to RETRIEVE that may wait for room in the transport.
const MAX_REPLIES: usize = 64;
const ONEWAY_BYTES: usize = 128;

/// What waits to be sent.
#[derive(Debug)]
pub(super) struct OnewayQueue {
    messages: Mutex<VecDeque<Oneway>>,
    /// The peer does not know INTERRUPT.
    no_interrupt: AtomicBool,
}

#[derive(Debug)]
enum Oneway {
    Interrupt { unique: u64, not_before_ns: u64 },
    Reply { notify_unique: u64, nodeid: u64 },
}

impl OnewayQueue {
    pub(super) fn new() -> Self {
        OnewayQueue {
            messages: Mutex::new(Rank::LEAF, VecDeque::new()),
            no_interrupt: AtomicBool::new(false),
        }
    }

    pub(super) fn len(&self) -> usize {
        self.messages.lock().len()
    }

    pub(super) fn clear(&self) {
        self.messages.lock().clear();
    }
}

/// Whether an operation is one that a caller can want to end: Linux forces the others through.
fn may_be_interrupted(opcode: Opcode) -> bool {
    !matches!(
        opcode,
        Opcode::Init | Opcode::Destroy | Opcode::Release | Opcode::Releasedir
    )
}

impl Engine {
    /// Queues the INTERRUPT of a request that the peer has, the first time. It goes out with the
    /// next [`Engine::flush_oneway`].
    pub(super) fn queue_interrupt(&self, slot: &mut Slot) {
        if !may_be_interrupted(slot.opcode)
            || std::mem::replace(&mut slot.interrupted, true)
            || !self.transport.limits().interrupts
            || self.oneway.no_interrupt.load(Ordering::Relaxed)
        {
            return;
        }
        self.push_interrupt(slot.unique, 0);
    }

    fn push_interrupt(&self, unique: u64, not_before_ns: u64) {
        let mut messages = self.oneway.messages.lock();
        // One of them says it all, so the queue is no longer than there are slots.
        let queued = messages
            .iter()
            .any(|message| matches!(message, Oneway::Interrupt { unique: other, .. } if *other == unique));
        if !queued {
            messages.push_back(Oneway::Interrupt {
                unique,
                not_before_ns,
            });
        }
    }

    /// The peer has answered the INTERRUPT of `unique`, which it does only to say no.
    ///
    /// # Errors
    /// ENOENT when no such request is in flight; EINVAL for another error.
    pub(super) fn interrupt_answered(&self, unique: u64, errno: Errno) -> Result<(), Errno> {
        if errno == Errno::NOSYS {
            self.oneway.no_interrupt.store(true, Ordering::Relaxed);
            return Ok(());
        }
        if errno != Errno::AGAIN {
            return Err(Errno::INVAL);
        }
        let tries = {
            let mut slot = self.slots.lock(self.tag_of(unique));
            let in_flight = matches!(slot.state, State::Sent | State::Orphan);
            if slot.unique != unique || !in_flight {
                return Err(Errno::NOENT);
            }
            slot.interrupt_tries = slot.interrupt_tries.saturating_add(1);
            slot.interrupt_tries
        };
        if tries <= MAX_TRIES {
            let at_ns = self.clock.now_ns() + (RETRY_NS << (tries - 1));
            self.push_interrupt(unique, at_ns);
            self.arm_timer(at_ns);
        }
        Ok(())
    }

    /// Queues the answer to a RETRIEVE: nothing is cached.
    ///
    /// # Errors
    /// ENOMEM when too many wait already.
    pub(crate) fn reply_to_retrieve(&self, notify_unique: u64, nodeid: u64) -> Result<(), Errno> {
        {
            let mut messages = self.oneway.messages.lock();
            let replies = messages
                .iter()
                .filter(|m| matches!(m, Oneway::Reply { .. }));
            if replies.count() >= MAX_REPLIES {
                return Err(Errno::NOMEM);
            }
            messages.push_back(Oneway::Reply {
                notify_unique,
                nodeid,
            });
        }
        self.flush_oneway();
        Ok(())
    }

    /// Sends what waits and is due, as far as there is room; the timer comes for the rest.
    pub(super) fn flush_oneway(&self) {
        let now_ns = self.clock.now_ns();
        let (mut sent, mut later) = (false, VecDeque::new());
        let mut next_ns = u64::MAX;
        loop {
            // Without the lock while sending: the transport has locks of its own.
            let Some(message) = self.oneway.messages.lock().pop_front() else {
                break;
            };
            match self.send_oneway(&message, now_ns) {
                Ok(went) => sent |= went,
                Err(at_ns) => {
                    next_ns = next_ns.min(at_ns);
                    later.push_back(message);
                }
            }
        }
        if sent {
            self.transport.kick();
        }
        if !later.is_empty() && self.ended.get().is_none() {
            self.oneway.messages.lock().append(&mut later);
            self.arm_timer(next_ns);
        }
    }

    /// Sends one message, and says whether there was still a reason to.
    ///
    /// # Errors
    /// When to try again.
    fn send_oneway(&self, message: &Oneway, now_ns: u64) -> Result<bool, u64> {
        let (unique, nodeid, request) = match *message {
            Oneway::Interrupt {
                unique,
                not_before_ns,
            } => {
                if not_before_ns > now_ns {
                    return Err(not_before_ns);
                }
                let slot = self.slots.lock(self.tag_of(unique));
                let in_flight = matches!(slot.state, State::Sent | State::Orphan);
                if slot.unique != unique || !in_flight {
                    // It has been answered.
                    return Ok(false);
                }
                (unique | 1, 0, Request::Interrupt { unique })
            }
            Oneway::Reply {
                notify_unique,
                nodeid,
            } => {
                let nothing = NotifyRetrieveIn::default();
                (notify_unique, nodeid, Request::NotifyReply(nothing))
            }
        };
        let head = Head {
            unique,
            nodeid,
            caller: Caller::default(),
        };
        let mut bytes = [0; ONEWAY_BYTES];
        let encoded = request.encode(&head, &Extensions::default(), &mut bytes);
        let Ok(len) = encoded else {
            // A number that cannot be encoded was never one of the peer's.
            return Ok(false);
        };
        match self.transport.submit_oneway(&bytes[..len]) {
            Ok(()) => {
                if matches!(message, Oneway::Interrupt { .. }) {
                    self.counters.interrupts.count();
                }
                Ok(true)
            }
            Err(SubmitError::Full) => Err(now_ns + RETRY_NS),
            Err(SubmitError::Dead) => Ok(false),
        }
    }
}
