//! A doorbell inside one process.

use fusewire_sync::{Condvar, Mutex, Rank};

/// Ends one wait for each time, or several times in a row, that it is rung.
#[derive(Debug)]
pub(crate) struct Bell {
    rung: Mutex<bool>,
    ring: Condvar,
}

impl Bell {
    pub(crate) fn new() -> Self {
        Bell {
            rung: Mutex::new(Rank::LEAF, false),
            ring: Condvar::new(),
        }
    }

    /// Ends the current or the next wait.
    pub(crate) fn ring(&self) {
        // The lock is free again before the sleeper wakes and wants it.
        *self.rung.lock() = true;
        self.ring.notify_one();
    }

    /// Blocks until rung.
    pub(crate) fn wait(&self) {
        let mut rung = self.rung.lock();
        while !*rung {
            rung = self.ring.wait(rung);
        }
        *rung = false;
    }
}
