//! Calls for locks that their callers gave up while the peer still had them.
//!
//! A lock that is granted to nobody is given back when the answer comes. Until that has been done,
//! nobody else of the same owner asks for one: it would be given back instead.

use crate::engine::{Keep, Token};
use crate::handle::Handle;
use fusewire_locks::{Class, Request};
use fusewire_sync::atomic::{AtomicBool, Ordering};
use fusewire_sync::{Arc, Condvar, Mutex, Rank};
use rustix::io::Errno;
use std::collections::HashMap;

/// A node, and an owner of locks on it.
type Owner = (u64, Class, u64);

fn owner(wanted: &Request) -> Owner {
    (wanted.node, wanted.class, wanted.owner)
}

#[derive(Debug)]
pub(crate) struct Attempts {
    /// How many of each owner are still at the peer.
    given_up: Mutex<HashMap<Owner, u64>>,
    changed: Condvar,
}

impl Attempts {
    pub(crate) fn new() -> Self {
        Attempts {
            given_up: Mutex::new(Rank::LEAF, HashMap::new()),
            changed: Condvar::new(),
        }
    }

    /// Waits until nothing that the owner gave up is at the peer.
    ///
    /// # Errors
    /// EAGAIN instead of waiting, unless `wait` is set; EINTR when the caller is cancelled or
    /// interrupted; ENOTCONN when `over` says that the connection has ended.
    pub(crate) fn settle(
        &self,
        wanted: &Request,
        wait: bool,
        token: &Token,
        over: impl Fn() -> bool,
    ) -> Result<(), Errno> {
        let interrupts = token.interrupts();
        let mut given_up = self.given_up.lock();
        while given_up.contains_key(&owner(wanted)) {
            if !wait {
                return Err(Errno::AGAIN);
            }
            if token.is_cancelled() || token.interrupts() != interrupts {
                return Err(Errno::INTR);
            }
            if over() {
                return Err(Errno::NOTCONN);
            }
            given_up = self.changed.wait(given_up);
        }
        Ok(())
    }

    /// Has those who wait look whether they still want to.
    pub(crate) fn wake_waiting(&self) {
        // Under the lock: nobody is between looking and waiting.
        let _given_up = self.given_up.lock();
        self.changed.notify_all();
    }
}

/// A call for a lock. The request holds it, and what gives the lock back does, too.
#[derive(Debug)]
pub(crate) struct Attempt {
    handle: Arc<Handle>,
    owner: Owner,
    given_up: AtomicBool,
}

impl Attempt {
    pub(crate) fn new(handle: &Arc<Handle>, wanted: &Request) -> Arc<Self> {
        Arc::new(Attempt {
            handle: Arc::clone(handle),
            owner: owner(wanted),
            given_up: AtomicBool::new(false),
        })
    }

    fn attempts(&self) -> &Attempts {
        &self.handle.node().core().locks.attempts
    }

    /// The caller goes without an answer, or with one that may not be the peer's.
    pub(crate) fn give_up(&self) {
        *self
            .attempts()
            .given_up
            .lock()
            .entry(self.owner)
            .or_default() += 1;
        self.given_up.store(true, Ordering::Release);
    }
}

impl Keep for Attempt {
    /// What a lock that is granted late needs, the engine does.
    fn answered_late(&self) {}
}

impl Drop for Attempt {
    fn drop(&mut self) {
        if !self.given_up.load(Ordering::Acquire) {
            return;
        }
        let attempts = self.attempts();
        {
            let mut given_up = attempts.given_up.lock();
            if let Some(count) = given_up.get_mut(&self.owner) {
                *count -= 1;
                if *count == 0 {
                    given_up.remove(&self.owner);
                }
            }
        }
        attempts.changed.notify_all();
    }
}
