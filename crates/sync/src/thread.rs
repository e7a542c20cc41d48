//! Threads: named, counted, and with a failed start as an error.

use crate::imp;
use std::io;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

pub use crate::imp::thread::yield_now;
pub use crate::park::{Thread, current, park};

/// Sleeps. Under a model checker, which knows no time, lets others run.
pub fn sleep(duration: Duration) {
    if imp::MODELLED {
        yield_now();
    } else {
        std::thread::sleep(duration);
    }
}

/// A running thread; join it to be sure that it is gone.
#[derive(Debug)]
pub struct JoinHandle<T>(imp::thread::JoinHandle<T>);

impl<T> JoinHandle<T> {
    /// Waits for the thread's end.
    ///
    /// # Errors
    /// The panic payload, when the thread panicked.
    pub fn join(self) -> std::thread::Result<T> {
        self.0.join()
    }
}

// A plain std counter under every backend: it is a teardown check, not part of any protocol.
static LIVE: AtomicUsize = AtomicUsize::new(0);

/// How many threads started by [`spawn`] have not ended yet. Tests require 0 at their end.
#[must_use]
pub fn live() -> usize {
    LIVE.load(Ordering::Acquire)
}

struct Counted;

impl Counted {
    fn new() -> Self {
        LIVE.fetch_add(1, Ordering::AcqRel);
        Counted
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        LIVE.fetch_sub(1, Ordering::AcqRel);
    }
}

/// Starts a thread called `name` (at most 15 bytes are shown by the system).
///
/// # Errors
/// What the system says when it cannot start one, usually EAGAIN (limit of threads reached).
pub fn spawn<T, F>(name: &str, f: F) -> io::Result<JoinHandle<T>>
where
    F: FnOnce() -> T + Send + 'static,
    T: Send + 'static,
{
    let counted = Counted::new();
    imp::thread::Builder::new()
        .name(name.to_owned())
        .spawn(move || {
            let _counted = counted;
            f()
        })
        .map(JoinHandle)
}

#[cfg(all(test, not(any(fusewire_sync = "loom", fusewire_sync = "shuttle"))))]
mod tests {
    #[test]
    fn a_thread_is_named_and_counted() {
        let handle = super::spawn("fw-test", || {
            assert!(super::live() >= 1);
            std::thread::current().name().map(str::to_owned)
        })
        .expect("a thread can be started");
        assert_eq!(handle.join().unwrap().as_deref(), Some("fw-test"));
    }
}
