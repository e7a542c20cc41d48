//! A few threads that do what one finds.

use std::collections::VecDeque;
use std::io;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

/// Jobs that may wait. Each may hold a directory open.
const CAPACITY: usize = 64;

/// Jobs on their way to the workers.
#[derive(Debug)]
pub struct Queue<J> {
    state: Mutex<State<J>>,
    changed: Condvar,
}

#[derive(Debug)]
struct State<J> {
    jobs: VecDeque<J>,
    closed: bool,
}

impl<J> Queue<J> {
    fn new() -> Self {
        Queue {
            state: Mutex::new(State {
                jobs: VecDeque::with_capacity(CAPACITY),
                closed: false,
            }),
            changed: Condvar::new(),
        }
    }

    fn lock(&self) -> MutexGuard<'_, State<J>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn wait<'a>(&self, state: MutexGuard<'a, State<J>>) -> MutexGuard<'a, State<J>> {
        self.changed
            .wait(state)
            .unwrap_or_else(PoisonError::into_inner)
    }

    /// Hands a job over; waits while too many wait already.
    pub fn push(&self, job: J) {
        let mut state = self.lock();
        while state.jobs.len() >= CAPACITY {
            state = self.wait(state);
        }
        state.jobs.push_back(job);
        drop(state);
        self.changed.notify_all();
    }

    /// The next job; waits for one. `None` when there will be none.
    fn pop(&self) -> Option<J> {
        let mut state = self.lock();
        loop {
            if let Some(job) = state.jobs.pop_front() {
                drop(state);
                self.changed.notify_all();
                return Some(job);
            }
            if state.closed {
                return None;
            }
            state = self.wait(state);
        }
    }

    fn close(&self) {
        self.lock().closed = true;
        self.changed.notify_all();
    }
}

/// Closes the queue even when the feeder panics, so that the workers end.
struct CloseOnDrop<'a, J>(&'a Queue<J>);

impl<J> Drop for CloseOnDrop<'_, J> {
    fn drop(&mut self) {
        self.0.close();
    }
}

/// Runs `feed` here and `work` on up to `workers` threads, until every job is done.
///
/// # Errors
/// What the system says when it can start no thread at all; then nothing was done.
pub fn run<J: Send>(
    workers: usize,
    work: impl Fn(J) + Sync,
    feed: impl FnOnce(&Queue<J>),
) -> io::Result<()> {
    let queue = Queue::new();
    std::thread::scope(|scope| {
        let _close = CloseOnDrop(&queue);
        for started in 0..workers {
            let worker = || {
                while let Some(job) = queue.pop() {
                    work(job);
                }
            };
            let name = format!("copy-{started}");
            match std::thread::Builder::new()
                .name(name)
                .spawn_scoped(scope, worker)
            {
                Ok(_) => {}
                Err(error) if started == 0 => return Err(error),
                // Fewer do, too.
                Err(_) => break,
            }
        }
        feed(&queue);
        Ok(())
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicUsize, Ordering};

    #[test]
    fn every_job_is_done_once() {
        let done: Vec<AtomicUsize> = (0..1000).map(|_| AtomicUsize::new(0)).collect();
        run(
            3,
            |job: usize| {
                done[job].fetch_add(1, Ordering::Relaxed);
            },
            |queue| (0..1000).for_each(|job| queue.push(job)),
        )
        .unwrap();
        assert!(done.iter().all(|count| count.load(Ordering::Relaxed) == 1));
    }

    #[test]
    fn a_panic_of_the_feeder_does_not_hang_the_workers() {
        let result = std::panic::catch_unwind(|| {
            let _ = run(2, |_: ()| {}, |_| panic!("on purpose"));
        });
        assert!(result.is_err());
    }
}
