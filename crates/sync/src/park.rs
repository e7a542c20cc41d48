//! Parking: a thread sleeps until another unparks it, before or after.

#[cfg(not(any(fusewire_sync = "loom", fusewire_sync = "shuttle")))]
pub use std::thread::{Thread, current, park};

#[cfg(any(fusewire_sync = "loom", fusewire_sync = "shuttle"))]
pub use modelled::{Thread, current, park};

/// Parking by mutex and condition variable: loom's own forgets an unpark that comes while the
/// thread is blocked in a mutex, and so reports deadlocks that std does not have.
#[cfg(any(fusewire_sync = "loom", fusewire_sync = "shuttle"))]
mod modelled {
    use crate::imp::{self, Condvar, Mutex};
    use std::sync::{Arc, PoisonError};

    /// Handle of a thread, to unpark it.
    #[derive(Clone, Debug)]
    pub struct Thread(Arc<Seat>);

    #[derive(Debug)]
    struct Seat {
        unparked: Mutex<bool>,
        cond: Condvar,
    }

    imp::thread_local! {
        static ME: Thread = Thread(Arc::new(Seat {
            unparked: Mutex::new(false),
            cond: Condvar::new(),
        }));
    }

    /// The calling thread.
    #[must_use]
    pub fn current() -> Thread {
        ME.with(Thread::clone)
    }

    /// Blocks until the calling thread is unparked; at once if it was since the last time.
    pub fn park() {
        let Thread(seat) = current();
        let mut unparked = seat.unparked.lock().unwrap_or_else(PoisonError::into_inner);
        while !*unparked {
            unparked = seat
                .cond
                .wait(unparked)
                .unwrap_or_else(PoisonError::into_inner);
        }
        *unparked = false;
    }

    impl Thread {
        /// Ends the thread's current or next park.
        pub fn unpark(&self) {
            *self
                .0
                .unparked
                .lock()
                .unwrap_or_else(PoisonError::into_inner) = true;
            self.0.cond.notify_one();
        }
    }
}
