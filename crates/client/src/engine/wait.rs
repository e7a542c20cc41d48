//! Waiting for a reply: reap if nobody does, else sleep until woken.

use super::reaper::Role;
use super::slot::{PeerUse, Reply, Slot, State};
use super::{Engine, Gone, Payload};
use fusewire_sync::thread;
use rustix::io::Errno;

impl Engine {
    /// The reply or the errno, unless the request was taken from its owner.
    pub(super) fn wait(
        &self,
        tag: u32,
        unique: u64,
        spin_budget_ns: u64,
    ) -> Result<Result<Reply, Errno>, Gone> {
        let mut entered = false;
        let result = loop {
            if let Some(result) = self.take(tag, unique) {
                break result;
            }
            entered = true;
            match self.reaper.enter(unique) {
                Role::Reaper => self.reap_until_settled(tag, unique, spin_budget_ns),
                Role::Sleeper => {
                    if self.enlist(tag, unique) {
                        self.counters.sleeps.count();
                        thread::park();
                    }
                }
            }
        };
        if entered {
            self.reaper.leave(unique);
        }
        result
    }

    /// Reaps, as the holder of the token, until the request has ended for its owner.
    fn reap_until_settled(&self, tag: u32, unique: u64, spin_budget_ns: u64) {
        if spin_budget_ns > 0 && self.spin(tag, unique, spin_budget_ns) {
            return;
        }
        loop {
            self.reap();
            if settled(&self.slots.lock(tag), unique) {
                return;
            }
            self.counters.sleeps.count();
            self.transport.wait();
        }
    }

    /// Looks for completions until the request has ended (true) or there was none for as long as the
    /// budget lasts. Those of others count: as long as they come, looking costs less than being
    /// called for each.
    fn spin(&self, tag: u32, unique: u64, budget_ns: u64) -> bool {
        self.counters.spins.count();
        let mut until_ns = self.clock.now_ns() + budget_ns;
        loop {
            if self.reap() {
                if settled(&self.slots.lock(tag), unique) {
                    self.counters.spin_hits.count();
                    return true;
                }
                until_ns = self.clock.now_ns() + budget_ns;
            }
            if self.clock.now_ns() >= until_ns {
                return false;
            }
            // The peer may be queued behind us on this very CPU.
            thread::yield_now();
        }
    }

    /// Has the owner woken when the request ends; false if it has ended already.
    fn enlist(&self, tag: u32, unique: u64) -> bool {
        let mut slot = self.slots.lock(tag);
        if settled(&slot, unique) {
            return false;
        }
        slot.waiter = Some(thread::current());
        true
    }

    /// Takes the outcome, if the request has ended for its owner.
    fn take(&self, tag: u32, unique: u64) -> Option<Result<Result<Reply, Errno>, Gone>> {
        let mut slot = self.slots.lock(tag);
        if !settled(&slot, unique) {
            return None;
        }
        let State::Done(outcome, peer) = &slot.state else {
            // An orphan, or its slot has gone to another request since.
            return Some(Err(Gone));
        };
        if slot.unique != unique {
            return Some(Err(Gone));
        }
        let outcome = *outcome;
        if *peer == PeerUse::Possible {
            let keeps = slot.abandon();
            drop(slot);
            drop(keeps);
            return Some(Ok(outcome.map(|(head, _)| Reply {
                head,
                payload: None,
            })));
        }
        let (payload, keeps) = slot.clear();
        drop(slot);
        self.free_slot(tag);
        // May send a FORGET, so no lock is held here.
        drop(keeps);
        Some(Ok(outcome.map(|(head, payload_bytes)| Reply {
            head,
            payload: match payload {
                Payload::In(frames, _) | Payload::Both(frames, ..) => {
                    Some((frames, payload_bytes as usize))
                }
                Payload::Out(..) | Payload::None => None,
            },
        })))
    }

    /// The owner of a request will not wait for it.
    pub(super) fn give_up(&self, tag: u32, unique: u64) {
        let mut slot = self.slots.lock(tag);
        if slot.unique != unique {
            return;
        }
        match slot.state {
            State::Queued => {
                let held = slot.clear();
                drop(slot);
                self.free_slot(tag);
                drop(held);
            }
            State::Sent => {
                self.make_orphan(&mut slot, State::Orphan);
                drop(slot);
                self.reaper.appoint();
            }
            State::Done(_, PeerUse::Possible) => {
                let keeps = slot.abandon();
                drop(slot);
                drop(keeps);
            }
            State::Done(outcome, PeerUse::Over) => {
                self.make_orphan(&mut slot, State::Late(outcome));
                drop(slot);
                self.queue_late(tag);
            }
            State::Free | State::Orphan | State::Late(_) | State::Abandoned => {}
        }
    }

    /// Nobody waits for the request any more. If it is in flight, a reaper is appointed next.
    pub(super) fn make_orphan(&self, slot: &mut Slot, state: State) {
        self.reaper.count_detached();
        slot.state = state;
    }
}

/// Whether the request has ended for its owner.
fn settled(slot: &Slot, unique: u64) -> bool {
    slot.unique != unique || !matches!(slot.state, State::Queued | State::Sent)
}
