//! A few threads that do what one finds.

use std::collections::VecDeque;
use std::io;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

/// Jobs that may wait. Each may hold a directory open.
const CAPACITY: usize = 64;

/// Jobs left when a feeder that found the queue full goes on: once for many jobs, because each
/// change of threads costs as much as the copy of a small file.
const REFILL_AT: usize = CAPACITY / 2;

/// Jobs on their way to the workers.
#[derive(Debug)]
pub struct Queue<J> {
    state: Mutex<State<J>>,
    /// There is a job, or there will be none.
    filled: Condvar,
    /// There is room.
    emptied: Condvar,
}

#[derive(Debug)]
struct State<J> {
    jobs: VecDeque<J>,
    idle_workers: usize,
    closed: bool,
}

type Locked<'q, J> = MutexGuard<'q, State<J>>;

impl<J> Queue<J> {
    fn new() -> Self {
        Queue {
            state: Mutex::new(State {
                jobs: VecDeque::with_capacity(CAPACITY),
                idle_workers: 0,
                closed: false,
            }),
            filled: Condvar::new(),
            emptied: Condvar::new(),
        }
    }

    fn lock(&self) -> Locked<'_, J> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn wait<'q>(condition: &Condvar, state: Locked<'q, J>) -> Locked<'q, J> {
        condition
            .wait(state)
            .unwrap_or_else(PoisonError::into_inner)
    }

    /// Hands a job over; waits while too many wait already. Only one thread may push.
    pub fn push(&self, job: J) {
        let mut state = self.lock();
        if state.jobs.len() >= CAPACITY {
            while state.jobs.len() > REFILL_AT {
                state = Self::wait(&self.emptied, state);
            }
        }
        state.jobs.push_back(job);
        if state.idle_workers > 0 {
            self.filled.notify_one();
        }
    }

    /// The next job; waits for one. `None` when there will be none.
    fn pop(&self) -> Option<J> {
        let mut state = self.lock();
        loop {
            if let Some(job) = state.jobs.pop_front() {
                if state.jobs.len() == REFILL_AT {
                    self.emptied.notify_one();
                }
                return Some(job);
            }
            if state.closed {
                return None;
            }
            state.idle_workers += 1;
            state = Self::wait(&self.filled, state);
            state.idle_workers -= 1;
        }
    }

    fn close(&self) {
        self.lock().closed = true;
        self.filled.notify_all();
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
