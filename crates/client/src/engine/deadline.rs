//! Deadlines as events: the timer ends a request like a reply would.
//!
//! No request arms a timer of its own. The timer has one date per connection, the earliest
//! deadline when it was set; a request with a later one, the usual case, does nothing.

use super::slot::{PeerUse, State};
use super::{Ended, Engine};
use fusewire_sync::Weak;
use fusewire_sync::atomic::Ordering;
use fusewire_sync::timer::Fire;
use rustix::io::Errno;

impl Fire for Engine {
    fn fire(&self, now_ns: u64) {
        if self.forgets.len() > 0 {
            self.flush_forgets();
        }
        if self.oneway.len() > 0 {
            self.flush_oneway();
        }
        self.reaper.wake_quiesce();
        if now_ns >= self.next_scan_ns.load(Ordering::Acquire) {
            self.expire(now_ns);
        }
    }
}

impl Engine {
    /// Makes sure that the timer comes by at `deadline_ns` at the latest.
    pub(super) fn watch_deadline(&self, deadline_ns: u64) {
        if deadline_ns < self.next_scan_ns.load(Ordering::Acquire)
            && deadline_ns < self.next_scan_ns.fetch_min(deadline_ns, Ordering::AcqRel)
        {
            self.arm_timer(deadline_ns);
        }
    }

    pub(super) fn arm_timer(&self, at_ns: u64) {
        let me: Weak<dyn Fire> = Weak::clone(&self.me) as _;
        self.timer.arm(at_ns, me);
    }

    /// Ends every request whose deadline has passed, and the connection when too many of them are
    /// still with the peer.
    fn expire(&self, now_ns: u64) {
        // A request sent from here on with an earlier deadline than all others arms again.
        self.next_scan_ns.store(u64::MAX, Ordering::Release);
        let mut next_ns = u64::MAX;
        let (mut expired, mut overdue) = (false, 0);
        for tag in 0..self.slots.len() {
            let mut slot = self.slots.lock(tag);
            if !matches!(slot.state, State::Queued | State::Sent | State::Orphan) {
                continue;
            }
            if slot.deadline_ns > now_ns {
                next_ns = next_ns.min(slot.deadline_ns);
                continue;
            }
            overdue += u32::from(!matches!(slot.state, State::Queued));
            if matches!(slot.state, State::Orphan) {
                continue;
            }
            expired = true;
            self.counters.timeouts.count();
            if matches!(slot.state, State::Queued) {
                let owner = slot.finish(Err(Errno::TIMEDOUT), PeerUse::Over);
                drop(slot);
                owner.wake();
                continue;
            }
            self.make_orphan(&mut slot, State::Orphan);
            let owner = slot.take_waiter();
            self.queue_interrupt(&mut slot);
            drop(slot);
            self.reaper.appoint();
            owner.wake();
        }
        if next_ns != u64::MAX {
            self.watch_deadline(next_ns);
        }
        if expired {
            // The owner may be the one who waits in the transport.
            self.transport.wake();
            self.flush_oneway();
        }
        // A peer that leaves this much unanswered will not recover, and takes slots and frames
        // with it.
        if overdue > self.slots.len() / 4 {
            self.abort(Ended::Unresponsive { overdue });
        }
    }
}
