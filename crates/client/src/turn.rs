//! Turns: what one caller does at a time, for as long as its request takes.
//!
//! Not a mutex, because whoever waits for a daemon can be cancelled, and so can whoever waits for
//! somebody who does. A thread has one turn at most, and takes it after every other lock but that of
//! a file's position.

use crate::engine::Token;
use fusewire_sync::{Condvar, Mutex, Rank};
use rustix::io::Errno;

#[derive(Debug)]
pub(crate) struct Turn {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct State {
    taken: bool,
    waiting: u32,
}

/// A turn; the next one comes when it is dropped.
#[derive(Debug)]
pub(crate) struct Taken<'a> {
    turn: &'a Turn,
}

impl Turn {
    pub(crate) fn new() -> Self {
        Turn {
            state: Mutex::new(Rank::LEAF, State::default()),
            changed: Condvar::new(),
        }
    }

    /// Waits for the turn.
    ///
    /// # Errors
    /// EINTR when the caller is cancelled or interrupted before it comes.
    pub(crate) fn take(&self, token: &Token) -> Result<Taken<'_>, Errno> {
        let patience = token.patience();
        let mut state = self.state.lock();
        while state.taken {
            // Who has the turn wakes the next one, also if we were meant.
            patience.check()?;
            state.waiting += 1;
            state = self.changed.wait(state);
            state.waiting -= 1;
        }
        state.taken = true;
        Ok(Taken { turn: self })
    }

    /// Has those who wait look whether they still want to.
    pub(crate) fn wake_waiting(&self) {
        // Under the lock: nobody is between looking and waiting.
        let state = self.state.lock();
        if state.waiting > 0 {
            self.changed.notify_all();
        }
    }
}

impl Drop for Taken<'_> {
    fn drop(&mut self) {
        let mut state = self.turn.state.lock();
        state.taken = false;
        let wanted = state.waiting > 0;
        drop(state);
        if wanted {
            self.turn.changed.notify_one();
        }
    }
}

#[cfg(all(test, not(any(fusewire_sync = "loom", fusewire_sync = "shuttle"))))]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicU32, Ordering};

    #[test]
    fn one_has_it_at_a_time() {
        let (turn, token) = (Turn::new(), Token::new());
        let (inside, done) = (AtomicU32::new(0), AtomicU32::new(0));
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    for _ in 0..500 {
                        let taken = turn.take(&token).unwrap();
                        assert_eq!(inside.fetch_add(1, Ordering::SeqCst), 0);
                        std::thread::yield_now();
                        assert_eq!(inside.fetch_sub(1, Ordering::SeqCst), 1);
                        drop(taken);
                        done.fetch_add(1, Ordering::SeqCst);
                    }
                });
            }
        });
        assert_eq!(done.into_inner(), 2000);
    }

    /// Whoever is cancelled while others wait, too, leaves nobody waiting for ever.
    #[test]
    fn who_is_cancelled_stops_waiting() {
        let (turn, patient, cancelled) = (Turn::new(), Token::new(), Token::new());
        std::thread::scope(|scope| {
            let taken = turn.take(&patient).unwrap();
            let gives_up = scope.spawn(|| turn.take(&cancelled).map(drop));
            let waits = scope.spawn(|| turn.take(&patient).map(drop));
            while turn.state.lock().waiting < 2 {
                std::thread::yield_now();
            }
            cancelled.cancel();
            turn.wake_waiting();
            assert_eq!(gives_up.join().unwrap(), Err(Errno::INTR));
            drop(taken);
            assert_eq!(waits.join().unwrap(), Ok(()));
        });
        assert!(!turn.state.lock().taken);
        assert_eq!(
            turn.take(&cancelled).map(drop),
            Ok(()),
            "nobody is in the way"
        );
    }
}

#[cfg(all(test, fusewire_sync = "loom"))]
mod loom_tests {
    use super::*;
    use fusewire_sync::{Arc, thread};

    /// Somebody goes on, and two wait, one of whom is cancelled meanwhile: the other gets the turn,
    /// whichever of them was woken. A turn that is lost is a deadlock, which loom reports.
    #[test]
    fn loom_a_turn_is_not_lost_with_who_is_cancelled() {
        loom::model(|| {
            let turn = Arc::new(Turn::new());
            let (patient, cancelled) = (Token::new(), Arc::new(Token::new()));
            let taken = turn.take(&patient).unwrap();
            let gives_up = {
                let (turn, token) = (Arc::clone(&turn), Arc::clone(&cancelled));
                thread::spawn("gives up", move || match turn.take(&token).map(drop) {
                    Ok(()) | Err(Errno::INTR) => {}
                    Err(errno) => panic!("{errno}"),
                })
            };
            let waits = {
                let turn = Arc::clone(&turn);
                thread::spawn("waits", move || {
                    turn.take(&Token::new()).map(drop).unwrap();
                })
            };
            cancelled.cancel();
            turn.wake_waiting();
            drop(taken);
            gives_up.unwrap().join().unwrap();
            waits.unwrap().join().unwrap();
            assert!(!turn.state.lock().taken);
        });
    }
}
