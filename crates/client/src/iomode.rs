//! Whether a file is written by one at a time or by several: the rules of FOPEN_DIRECT_IO and
//! FOPEN_PARALLEL_DIRECT_WRITES (Linux `fs/fuse/iomode.c`; semantics C7).
//!
//! A file is in cached use while it is open without DIRECT_IO, and in uncached use while writes go
//! on side by side; never in both. Whoever opens it for cached use waits for such writes to end, and
//! from then on writes take turns.

use crate::engine::Token;
use fusewire_sync::{Condvar, Mutex, Rank};
use rustix::io::Errno;

#[derive(Debug)]
pub(crate) struct IoMode {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct State {
    /// Above 0: so many cached opens. Below: so many writes side by side.
    users: i64,
    /// Cached opens that wait for those.
    waiting: u32,
}

impl State {
    fn may_write_in_parallel(&self) -> bool {
        self.users <= 0 && self.waiting == 0
    }
}

impl IoMode {
    pub(crate) fn new() -> Self {
        IoMode {
            state: Mutex::new(Rank::LEAF, State::default()),
            changed: Condvar::new(),
        }
    }

    /// A cached open begins; waits for writes that go on side by side.
    ///
    /// # Errors
    /// EINTR when the caller is cancelled or interrupted before they have ended.
    pub(crate) fn enter_cached(&self, token: &Token) -> Result<(), Errno> {
        let patience = token.patience();
        let mut state = self.state.lock();
        state.waiting += 1;
        let mut entered = Ok(());
        while state.users < 0 && entered.is_ok() {
            entered = patience.check();
            if entered.is_ok() {
                state = self.changed.wait(state);
            }
        }
        state.waiting -= 1;
        if entered.is_ok() {
            state.users += 1;
        }
        entered
    }

    /// Has those who wait look whether they still want to.
    pub(crate) fn wake_waiting(&self) {
        // Under the lock: nobody is between looking and waiting.
        let state = self.state.lock();
        if state.waiting > 0 {
            self.changed.notify_all();
        }
    }

    pub(crate) fn leave_cached(&self) {
        self.state.lock().users -= 1;
    }

    /// Begins a write beside others, if the file is in no cached use.
    pub(crate) fn write_in_parallel(&self) -> Option<Parallel<'_>> {
        let mut state = self.state.lock();
        if !state.may_write_in_parallel() {
            return None;
        }
        state.users -= 1;
        Some(Parallel { mode: self })
    }
}

/// A write beside others.
#[derive(Debug)]
pub(crate) struct Parallel<'a> {
    mode: &'a IoMode,
}

impl Drop for Parallel<'_> {
    fn drop(&mut self) {
        let mut state = self.mode.state.lock();
        state.users += 1;
        let last = state.users == 0;
        drop(state);
        if last {
            self.mode.changed.notify_all();
        }
    }
}

#[cfg(all(test, not(any(fusewire_sync = "loom", fusewire_sync = "shuttle"))))]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicBool, Ordering};

    #[test]
    fn cached_and_parallel_use_exclude_each_other() {
        let (mode, token) = (IoMode::new(), Token::new());
        let one = mode.write_in_parallel().unwrap();
        let other = mode.write_in_parallel().unwrap();
        drop((one, other));
        mode.enter_cached(&token).unwrap();
        mode.enter_cached(&token).unwrap();
        assert!(mode.write_in_parallel().is_none());
        mode.leave_cached();
        assert!(mode.write_in_parallel().is_none());
        mode.leave_cached();
        assert!(mode.write_in_parallel().is_some());
    }

    #[test]
    fn a_cached_open_waits_and_lets_no_new_writes_pass() {
        let (mode, token) = (IoMode::new(), Token::new());
        let opened = AtomicBool::new(false);
        std::thread::scope(|scope| {
            let running = mode.write_in_parallel().unwrap();
            scope.spawn(|| {
                mode.enter_cached(&token).unwrap();
                opened.store(true, Ordering::SeqCst);
            });
            // From when it waits on, writes take turns.
            while mode.write_in_parallel().is_some() {
                std::thread::yield_now();
            }
            assert!(!opened.load(Ordering::SeqCst));
            drop(running);
        });
        assert!(opened.load(Ordering::SeqCst));
        assert!(mode.write_in_parallel().is_none());
    }

    #[test]
    fn a_cached_open_that_is_cancelled_leaves_the_writes_alone() {
        let (mode, token) = (IoMode::new(), Token::new());
        let running = mode.write_in_parallel().unwrap();
        std::thread::scope(|scope| {
            let opening = scope.spawn(|| mode.enter_cached(&token));
            while mode.state.lock().waiting == 0 {
                std::thread::yield_now();
            }
            token.cancel();
            mode.wake_waiting();
            assert_eq!(opening.join().unwrap(), Err(Errno::INTR));
        });
        drop(mode.write_in_parallel().unwrap());
        drop(running);
        assert_eq!(mode.state.lock().users, 0);
    }
}
