//! The end of a connection: every request ends, once, and nothing waits any more.

use super::Engine;
use super::slot::{PeerUse, State};
use fusewire_sync::Weak;
use fusewire_sync::atomic::Ordering;
use rustix::io::Errno;
use std::fmt;

/// Why a connection has ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Ended {
    /// By our own shutdown, after everything was sent.
    Closed,
    /// By our own decision, at once.
    Aborted,
    /// The peer went away.
    PeerGone(String),
    /// The peer broke the transport.
    Fault(String),
    /// The peer left too many requests unanswered.
    Unresponsive { overdue: u32 },
}

impl fmt::Display for Ended {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Ended::Closed => f.write_str("the client was shut down"),
            Ended::Aborted => f.write_str("the client was aborted"),
            Ended::PeerGone(how) => write!(f, "the daemon is gone: {how}"),
            Ended::Fault(what) => write!(f, "the daemon broke the protocol: {what}"),
            Ended::Unresponsive { overdue } => {
                write!(f, "the daemon left {overdue} requests unanswered")
            }
        }
    }
}

impl Engine {
    /// Why the connection has ended, if it has.
    pub(crate) fn ended(&self) -> Option<&Ended> {
        self.ended.get()
    }

    /// Ends the connection: requests in flight get ECONNABORTED, later ones ENOTCONN. The first
    /// reason stands.
    pub(crate) fn abort(&self, why: Ended) {
        let peer = match why {
            Ended::PeerGone(_) => PeerUse::Over,
            // It may be alive and hold descriptors that name our frames: they are never reused.
            _ => PeerUse::Possible,
        };
        if self.ended.set(why).is_err() {
            return;
        }
        self.transport.close();
        self.slots.close();
        self.arena().close();
        self.forgets.clear();
        self.oneway.clear();
        for tag in 0..self.slots.len() {
            let mut slot = self.slots.lock(tag);
            match slot.state {
                State::Queued if slot.detached => {
                    slot.state = State::Abandoned;
                    drop(slot);
                    self.reaper.detached_ended();
                }
                State::Queued | State::Sent => {
                    let peer = match slot.state {
                        State::Sent => peer,
                        _ => PeerUse::Over,
                    };
                    let owner = slot.finish(Err(Errno::CONNABORTED), peer);
                    drop(slot);
                    owner.wake();
                }
                State::Orphan if peer == PeerUse::Possible => {
                    slot.state = State::Abandoned;
                    drop(slot);
                    self.reaper.detached_ended();
                }
                State::Orphan | State::Late(_) => {
                    let held = slot.clear();
                    drop(slot);
                    self.reaper.detached_ended();
                    self.free_slot(tag);
                    drop(held);
                }
                State::Free | State::Done(..) | State::Abandoned => {}
            }
        }
        self.transport.wake();
        self.wake_completion();
        self.reaper.wake_quiesce();
        if let Some(who) = self.notified.get().and_then(Weak::upgrade) {
            who.ended();
        }
    }

    /// Has the completion thread end.
    pub(crate) fn stop(&self) {
        self.stopping.store(true, Ordering::Release);
        self.transport.wake();
        self.wake_completion();
    }

    /// Lets go of what requests hold that ended with the connection, and of those that were never
    /// sent; the last thing, when the threads are gone. It refers to the connection, which would
    /// keep itself alive.
    pub(crate) fn let_go(&self) {
        self.drop_deferred();
        for tag in 0..self.slots.len() {
            let mut slot = self.slots.lock(tag);
            if matches!(slot.state, State::Abandoned) {
                let keeps = slot.abandon();
                drop(slot);
                drop(keeps);
            }
        }
    }

    /// Ends the timer's thread and waits for it: no deadline passes and nothing is flushed any more.
    pub(crate) fn stop_timer(&self) {
        self.timer.stop();
    }
}
