//! Whether a connection has ended, and how.

use crate::types::Death;
use fusewire_sync::atomic::{AtomicBool, Ordering};
use fusewire_sync::{Condvar, Mutex, Rank};

/// Ends once; the first reason stays.
#[derive(Debug)]
pub(crate) struct Life {
    ended: AtomicBool,
    death: Mutex<Option<Death>>,
    changed: Condvar,
}

impl Life {
    pub(crate) fn new() -> Self {
        Life {
            ended: AtomicBool::new(false),
            death: Mutex::new(Rank::LEAF, None),
            changed: Condvar::new(),
        }
    }

    /// Ends it for this reason; returns whether it had not ended before.
    pub(crate) fn end(&self, reason: Death) -> bool {
        let mut death = self.death.lock();
        if death.is_some() {
            return false;
        }
        *death = Some(reason);
        self.ended.store(true, Ordering::Release);
        self.changed.notify_all();
        true
    }

    pub(crate) fn ended(&self) -> bool {
        self.ended.load(Ordering::Acquire)
    }

    /// How it ended, if it has.
    pub(crate) fn death(&self) -> Option<Death> {
        self.death.lock().clone()
    }

    /// Blocks until it has ended.
    pub(crate) fn wait(&self) -> Death {
        let mut death = self.death.lock();
        loop {
            if let Some(reason) = &*death {
                return reason.clone();
            }
            death = self.changed.wait(death);
        }
    }
}
