//! Ending calls from outside: what signals are to calls of the kernel's client.
//!
//! Calls are told apart by the [`Token`] of the client handle that makes them. An interrupt is a
//! signal that has a handler: the peer is told, and whatever it answers counts. A cancellation is
//! a fatal one: the call ends at once, and what the peer makes of it is undone.

use super::Engine;
use super::slot::{PeerUse, Slot, State, Waiter};
use fusewire_sync::atomic::{AtomicBool, AtomicU64, Ordering};
use rustix::io::Errno;

/// What the calls of one client handle have in common.
#[derive(Debug)]
pub(crate) struct Token {
    cancelled: AtomicBool,
    /// How often its calls were interrupted.
    interrupts: AtomicU64,
}

/// Identifies a token as long as one of its calls is under way, which borrows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct TokenId(usize);

impl TokenId {
    /// Of requests that nobody can cancel.
    pub(super) const NONE: TokenId = TokenId(0);

    pub(super) fn of(token: Option<&Token>) -> Self {
        token.map_or(TokenId::NONE, |token| {
            TokenId(std::ptr::from_ref(token).addr())
        })
    }
}

impl Token {
    pub(crate) fn new() -> Self {
        Token {
            cancelled: AtomicBool::new(false),
            interrupts: AtomicU64::new(0),
        }
    }

    pub(crate) fn is_cancelled(&self) -> bool {
        self.cancelled.load(Ordering::Acquire)
    }

    /// How often calls were interrupted, for those that wait for something else than the peer.
    pub(crate) fn interrupts(&self) -> u64 {
        self.interrupts.load(Ordering::Acquire)
    }

    /// How long a call that begins now waits for something else than the peer.
    pub(crate) fn patience(&self) -> Patience<'_> {
        Patience {
            token: self,
            interrupts: self.interrupts(),
        }
    }

    /// Later calls end with EINTR.
    pub(crate) fn cancel(&self) {
        self.cancelled.store(true, Ordering::Release);
    }

    /// Calls may be made again.
    pub(crate) fn reset(&self) {
        self.cancelled.store(false, Ordering::Release);
    }
}

/// Of a call that waits for something else than the peer.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Patience<'a> {
    token: &'a Token,
    interrupts: u64,
}

impl Patience<'_> {
    /// # Errors
    /// EINTR when the call was cancelled or interrupted since it began.
    pub(crate) fn check(&self) -> Result<(), Errno> {
        if self.token.is_cancelled() || self.token.interrupts() != self.interrupts {
            return Err(Errno::INTR);
        }
        Ok(())
    }
}

impl Engine {
    /// Ends the calls of `token` with EINTR, and later ones, too, until [`Token::reset`].
    pub(crate) fn cancel(&self, token: &Token) {
        // Before the sweep: a request is either seen by it or sees this, under its slot's lock.
        token.cancel();
        self.slots.wake_waiting();
        self.arena().wake_waiting();
        self.each_call_of(token, |engine, slot| match slot.state {
            State::Queued => Some(slot.finish(Err(Errno::INTR), PeerUse::Over)),
            _ => {
                engine.make_orphan(slot, State::Orphan);
                Some(slot.take_waiter())
            }
        });
        // The owner may be the one who waits in the transport.
        self.transport.wake();
    }

    /// Tells the peer to end the calls of `token`; those that it has not seen yet end with EINTR.
    pub(crate) fn interrupt(&self, token: &Token) {
        token.interrupts.fetch_add(1, Ordering::AcqRel);
        self.each_call_of(token, |_, slot| match slot.state {
            State::Queued => Some(slot.finish(Err(Errno::INTR), PeerUse::Over)),
            _ => None,
        });
        self.transport.wake();
    }

    /// Has `end` look at each request of `token` that somebody waits for, and interrupts those that
    /// the peer has. `end` returns whom it has ended.
    fn each_call_of(&self, token: &Token, end: impl Fn(&Self, &mut Slot) -> Option<Waiter>) {
        let by = TokenId::of(Some(token));
        for tag in 0..self.slots.len() {
            let mut slot = self.slots.lock(tag);
            let sent = matches!(slot.state, State::Sent);
            if slot.by != by || !(sent || matches!(slot.state, State::Queued)) {
                continue;
            }
            let owner = end(self, &mut slot);
            if sent {
                self.queue_interrupt(&mut slot);
            }
            let orphaned = matches!(slot.state, State::Orphan);
            drop(slot);
            if orphaned {
                self.reaper.appoint();
            }
            if let Some(owner) = owner {
                owner.wake();
            }
        }
        self.flush_oneway();
    }
}
