//! Locks that the peer leaves to its client: those of one client exclude each other.

use crate::attempts::Attempts;
use crate::engine::Token;
use fusewire_locks::{Class, Kind, Lock, Locks, Request};
use fusewire_sync::{Condvar, Mutex, Rank};
use rustix::io::Errno;

#[derive(Debug)]
pub(crate) struct LocalLocks {
    /// Of locks that the peer keeps.
    pub(crate) attempts: Attempts,
    locks: Mutex<Locks>,
    changed: Condvar,
}

impl LocalLocks {
    pub(crate) fn new() -> Self {
        LocalLocks {
            attempts: Attempts::new(),
            locks: Mutex::new(Rank::LEAF, Locks::new()),
            changed: Condvar::new(),
        }
    }

    /// Takes a lock, and waits for it if `wait` is set.
    ///
    /// # Errors
    /// EAGAIN when another is in the way; EDEADLK when waiting would never end; EINTR when the
    /// caller is cancelled or interrupted; ENOTCONN when `over` says that the connection has ended.
    pub(crate) fn take(
        &self,
        wanted: &Request,
        kind: Kind,
        wait: bool,
        token: &Token,
        over: impl Fn() -> bool,
    ) -> Result<(), Errno> {
        let interrupts = token.interrupts();
        let mut locks = self.locks.lock();
        while locks.take(wanted, kind).is_err() {
            if !wait {
                return Err(Errno::AGAIN);
            }
            if token.is_cancelled() || token.interrupts() != interrupts {
                return Err(Errno::INTR);
            }
            if over() {
                return Err(Errno::NOTCONN);
            }
            locks.wait(wanted, kind).map_err(|_| Errno::DEADLK)?;
            locks = self.changed.wait(locks);
            locks.stop_waiting(wanted);
        }
        drop(locks);
        // What was a write lock may be a read lock now.
        self.changed.notify_all();
        Ok(())
    }

    pub(crate) fn in_the_way(&self, wanted: &Request, kind: Kind) -> Option<Lock> {
        self.locks.lock().in_the_way(wanted, kind).cloned()
    }

    pub(crate) fn give_up(&self, wanted: &Request) {
        if self.locks.lock().give_up(wanted) {
            self.changed.notify_all();
        }
    }

    pub(crate) fn give_up_all(&self, node: u64, class: Class, owner: u64) {
        if self.locks.lock().give_up_all(node, class, owner) {
            self.changed.notify_all();
        }
    }

    /// Has those who wait look whether they still want to.
    pub(crate) fn wake_waiting(&self) {
        self.attempts.wake_waiting();
        // Under the lock: nobody is between looking and waiting.
        let _locks = self.locks.lock();
        self.changed.notify_all();
    }
}
