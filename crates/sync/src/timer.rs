//! The timer actor: it turns a deadline into an event, so that no other wait is timed.

use crate::lock::Mutex;
use crate::rank::Rank;
use crate::thread::JoinHandle;
use crate::time::Clock;
use std::collections::BTreeMap;
use std::io;
use std::sync::{Arc, OnceLock, Weak};

/// What happens at a deadline. Runs on the timer's thread, with no timer lock held: it must be short
/// and must not wait.
pub trait Fire: Send + Sync {
    /// Called once per [`Timer::arm`], at or after the deadline, with the time it is.
    fn fire(&self, now_ns: u64);
}

/// Deadlines and, unless manual, the thread that waits for them.
pub struct Timer {
    shared: Arc<Shared>,
    thread: Mutex<Option<JoinHandle<()>>>,
}

impl std::fmt::Debug for Timer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Timer").finish_non_exhaustive()
    }
}

struct Shared {
    clock: Clock,
    state: Mutex<State>,
    wake: alarm::Alarm,
    /// The timer's thread.
    runner: OnceLock<std::thread::ThreadId>,
}

#[derive(Default)]
struct State {
    sequence: u64,
    due: BTreeMap<(u64, u64), Weak<dyn Fire>>,
    stop: bool,
}

impl Timer {
    /// Starts the timer thread over `clock`.
    ///
    /// # Errors
    /// EAGAIN when no thread can be started.
    pub fn start(clock: Clock) -> io::Result<Self> {
        let timer = Timer::manual(clock);
        let shared = Arc::clone(&timer.shared);
        let thread = crate::thread::spawn("fw-timer", move || shared.run())?;
        *timer.thread.lock() = Some(thread);
        Ok(timer)
    }

    /// A timer without a thread: [`Timer::run_due`] fires what is due.
    #[must_use]
    pub fn manual(clock: Clock) -> Self {
        Timer {
            shared: Arc::new(Shared {
                clock,
                state: Mutex::new(Rank::TIMER, State::default()),
                wake: alarm::Alarm::default(),
                runner: OnceLock::new(),
            }),
            thread: Mutex::new(Rank::LEAF, None),
        }
    }

    /// Has `task` fired once at `at_ns` of the timer's clock. A task that is gone by then is
    /// skipped.
    pub fn arm(&self, at_ns: u64, task: Weak<dyn Fire>) {
        let first = {
            let mut state = self.shared.state.lock();
            state.sequence += 1;
            let key = (at_ns, state.sequence);
            state.due.insert(key, task);
            state.due.keys().next() == Some(&key)
        };
        if first {
            self.shared.wake.ring();
        }
    }

    /// Fires, on the calling thread, everything that is due now.
    pub fn run_due(&self) {
        self.shared.run_due();
    }

    /// Ends the thread, which fires nothing more, and waits until it is gone; called by a task
    /// that the timer is firing, it does not wait. Dropping the timer does the same, but its last
    /// owner may be such a task: whoever needs the thread to be gone stops the timer before.
    pub fn stop(&self) {
        self.shared.state.lock().stop = true;
        self.shared.wake.ring();
        let thread = self.thread.lock().take();
        if let Some(thread) = thread
            && self.shared.runner.get() != Some(&std::thread::current().id())
        {
            let _ = thread.join();
        }
    }
}

impl Drop for Timer {
    fn drop(&mut self) {
        self.stop();
    }
}

impl Shared {
    fn run_due(&self) {
        loop {
            let now_ns = self.clock.now_ns();
            let task = {
                let mut state = self.state.lock();
                match state.due.first_entry() {
                    Some(first) if first.key().0 <= now_ns => first.remove(),
                    _ => return,
                }
            };
            if let Some(task) = task.upgrade() {
                task.fire(now_ns);
            }
        }
    }

    fn run(&self) {
        let _ = self.runner.set(std::thread::current().id());
        loop {
            self.run_due();
            let next_ns = {
                let state = self.state.lock();
                if state.stop {
                    return;
                }
                state.due.keys().next().map(|key| key.0)
            };
            let wait_ns = next_ns.map(|at| at.saturating_sub(self.clock.now_ns()));
            self.wake.wait(wait_ns);
        }
    }
}

/// The one timed wait of the project, on std in every build.
mod alarm {
    use std::sync::{Condvar, Mutex, PoisonError};
    use std::time::Duration;

    #[derive(Default)]
    pub(super) struct Alarm {
        rung: Mutex<bool>,
        cond: Condvar,
    }

    impl Alarm {
        pub(super) fn ring(&self) {
            *self.rung.lock().unwrap_or_else(PoisonError::into_inner) = true;
            self.cond.notify_one();
        }

        /// Waits until rung, or for `ns`.
        pub(super) fn wait(&self, ns: Option<u64>) {
            let mut rung = self.rung.lock().unwrap_or_else(PoisonError::into_inner);
            if !*rung {
                rung = match ns {
                    None => self.cond.wait(rung).unwrap_or_else(PoisonError::into_inner),
                    Some(ns) => {
                        self.cond
                            .wait_timeout(rung, Duration::from_nanos(ns))
                            .unwrap_or_else(PoisonError::into_inner)
                            .0
                    }
                };
            }
            *rung = false;
        }
    }
}

#[cfg(all(test, not(any(fusewire_sync = "loom", fusewire_sync = "shuttle"))))]
mod tests {
    use super::*;
    use std::sync::mpsc;

    struct Note(mpsc::Sender<u64>);
    impl Fire for Note {
        fn fire(&self, now_ns: u64) {
            let _ = self.0.send(now_ns);
        }
    }

    #[test]
    fn a_manual_timer_fires_what_is_due_in_order() {
        let clock = Clock::manual();
        let timer = Timer::manual(clock.clone());
        let (tx, rx) = mpsc::channel();
        let task: Arc<dyn Fire> = Arc::new(Note(tx));
        let start_ns = clock.now_ns();
        timer.arm(start_ns + 20, Arc::downgrade(&task));
        timer.arm(start_ns + 10, Arc::downgrade(&task));
        timer.run_due();
        assert!(rx.try_recv().is_err());
        clock.advance(10);
        timer.run_due();
        assert_eq!(rx.try_recv(), Ok(start_ns + 10));
        assert!(rx.try_recv().is_err());
        clock.advance(1000);
        timer.run_due();
        assert_eq!(rx.try_recv(), Ok(start_ns + 1010));
    }

    #[test]
    fn a_running_timer_fires_and_stops() {
        let clock = Clock::monotonic();
        let timer = Timer::start(clock.clone()).unwrap();
        let (tx, rx) = mpsc::channel();
        let task: Arc<dyn Fire> = Arc::new(Note(tx));
        let at_ns = clock.now_ns() + 1_000_000;
        timer.arm(u64::MAX, Arc::downgrade(&task));
        timer.arm(at_ns, Arc::downgrade(&task));
        assert!(rx.recv().unwrap() >= at_ns);
        drop(timer);
        assert!(rx.try_recv().is_err());
    }

    #[test]
    fn a_stopped_timer_fires_no_more() {
        let clock = Clock::monotonic();
        let timer = Timer::start(clock).unwrap();
        let (tx, rx) = mpsc::channel();
        let task: Arc<dyn Fire> = Arc::new(Note(tx));
        timer.stop();
        timer.arm(1, Arc::downgrade(&task));
        timer.stop();
        assert!(rx.try_recv().is_err());
    }

    #[test]
    fn a_task_that_is_gone_is_skipped() {
        let clock = Clock::manual();
        let timer = Timer::manual(clock.clone());
        let (tx, rx) = mpsc::channel();
        let task: Arc<dyn Fire> = Arc::new(Note(tx));
        timer.arm(1, Arc::downgrade(&task));
        drop(task);
        timer.run_due();
        assert!(rx.recv().is_err());
    }
}
