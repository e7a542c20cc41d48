//! Who reaps completions: one thread at a time, and never nobody.
//!
//! Every request in flight has either an owner, a thread that will come to [`Reaper::enter`] before
//! it sleeps, or it is *detached* (its owner gave up, or never was). The token is always with
//! somebody awake or blocked in the transport, unless all in flight is owned by threads that have
//! not come yet, which then find the token free. So a completion in the ring with everybody asleep
//! cannot be: an owner that finds the token taken enrols, and a holder that leaves hands the token
//! to an enrolled owner, else to the completion thread if anything is detached.

use fusewire_sync::atomic::{AtomicU32, Ordering};
use fusewire_sync::thread::{self, Thread};
use fusewire_sync::{Condvar, Mutex, MutexGuard, Rank};

/// The token and those who want it.
#[derive(Debug)]
pub(super) struct Reaper {
    state: Mutex<State>,
    /// Requests in flight that no thread waits for.
    detached: AtomicU32,
    quiet: Mutex<()>,
    quieter: Condvar,
}

#[derive(Debug)]
struct State {
    holder: Holder,
    /// Owners asleep, by the `unique` they wait for.
    sleepers: Vec<(u64, Thread)>,
    /// Set by the completion thread when it starts.
    completion: Option<Thread>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Holder {
    Nobody,
    /// The thread that waits for this request.
    Owner(u64),
    Completion,
}

/// What a waiter has to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Role {
    /// Reap until the own request has ended, then [`Reaper::leave`].
    Reaper,
    /// Park until unparked, then look again; [`Reaper::leave`] in the end.
    Sleeper,
}

impl Reaper {
    pub(super) fn new() -> Self {
        Reaper {
            state: Mutex::new(
                Rank::REAPER,
                State {
                    holder: Holder::Nobody,
                    sleepers: Vec::new(),
                    completion: None,
                },
            ),
            detached: AtomicU32::new(0),
            quiet: Mutex::new(Rank::LEAF, ()),
            quieter: Condvar::new(),
        }
    }

    /// Takes the token for the owner of `unique` if it is free or was handed to it; else enrols
    /// the calling thread.
    pub(super) fn enter(&self, unique: u64) -> Role {
        let mut state = self.state.lock();
        match state.holder {
            Holder::Nobody => {
                state.holder = Holder::Owner(unique);
                Role::Reaper
            }
            Holder::Owner(owner) if owner == unique => Role::Reaper,
            _ => {
                if !state.sleepers.iter().any(|(owner, _)| *owner == unique) {
                    state.sleepers.push((unique, thread::current()));
                }
                Role::Sleeper
            }
        }
    }

    /// The owner of `unique` waits no longer: gives the token on, if it has it.
    pub(super) fn leave(&self, unique: u64) {
        let mut state = self.state.lock();
        if state.holder == Holder::Owner(unique) {
            self.hand_over(state);
        } else if let Some(at) = state
            .sleepers
            .iter()
            .position(|(owner, _)| *owner == unique)
        {
            state.sleepers.swap_remove(at);
        }
    }

    /// Gives the token on, and wakes who gets it when the state is unlocked: the first thing it
    /// does is to lock it.
    fn hand_over(&self, mut state: MutexGuard<'_, State>) {
        let next = if let Some((owner, thread)) = state.sleepers.pop() {
            state.holder = Holder::Owner(owner);
            Some(thread)
        } else if self.detached() > 0
            && let Some(completion) = state.completion.clone()
        {
            state.holder = Holder::Completion;
            Some(completion)
        } else {
            state.holder = Holder::Nobody;
            None
        };
        drop(state);
        if let Some(next) = next {
            next.unpark();
        }
    }

    /// Requests in flight that no thread waits for.
    pub(super) fn detached(&self) -> u32 {
        self.detached.load(Ordering::Acquire)
    }

    /// A request in flight loses its owner; [`Reaper::appoint`] follows. Counted first, while
    /// nobody can see that it is detached, so that the number never falls below zero.
    pub(super) fn count_detached(&self) {
        self.detached.fetch_add(1, Ordering::AcqRel);
    }

    /// Somebody has to reap for a request that was detached.
    pub(super) fn appoint(&self) {
        let state = self.state.lock();
        if state.holder == Holder::Nobody {
            self.hand_over(state);
        }
    }

    /// A detached request has ended.
    pub(super) fn detached_ended(&self) {
        if self.detached.fetch_sub(1, Ordering::AcqRel) == 1 {
            self.wake_quiesce();
        }
    }

    /// Waits while `busy` says so, looking whenever no request is detached any more and whenever
    /// [`Reaper::wake_quiesce`] is called.
    pub(super) fn quiesce(&self, busy: impl Fn() -> bool) {
        let mut quiet = self.quiet.lock();
        while busy() {
            quiet = self.quieter.wait(quiet);
        }
    }

    /// Has [`Reaper::quiesce`] look again.
    pub(super) fn wake_quiesce(&self) {
        let _quiet = self.quiet.lock();
        self.quieter.notify_all();
    }

    /// The calling thread is the completion thread from now on.
    pub(super) fn register_completion(&self) {
        let mut state = self.state.lock();
        state.completion = Some(thread::current());
        if state.holder == Holder::Nobody && self.detached() > 0 {
            self.hand_over(state);
        }
    }

    /// Whether the token was handed to the completion thread.
    pub(super) fn completion_holds(&self) -> bool {
        self.state.lock().holder == Holder::Completion
    }

    /// The completion thread gives the token on. A request detached meanwhile gets it back.
    pub(super) fn completion_leaves(&self) {
        let state = self.state.lock();
        if state.holder == Holder::Completion {
            self.hand_over(state);
        }
    }

    /// Wakes the completion thread for other work. True if it has the token, and so may be blocked
    /// in the transport instead.
    pub(super) fn wake_completion(&self) -> bool {
        let state = self.state.lock();
        if let Some(completion) = &state.completion {
            completion.unpark();
        }
        state.holder == Holder::Completion
    }
}
