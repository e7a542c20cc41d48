//! Lock ranks: the lock order, written down once and asserted in debug builds.

use crate::imp;
use std::cell::RefCell;

/// Place of a lock in the global order. A thread may only take a lock of a higher rank than every
/// lock that it holds; debug builds assert it. `docs/LOCKING.md` names the function behind each
/// edge.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Rank {
    level: u8,
    name: &'static str,
}

macro_rules! ranks {
    ($($(#[$doc:meta])* $name:ident = $level:literal;)*) => {
        impl Rank {
            $($(#[$doc])* pub const $name: Rank = Rank { level: $level, name: stringify!($name) };)*
            /// Every rank, lowest (outermost) first.
            pub const ALL: &'static [Rank] = &[$(Rank::$name),*];
        }
    };
}

ranks! {
    /// Position of an open file; held across a whole `Read` or `Write` call.
    FILE_POSITION = 5;
    /// Names below one directory node.
    NODE_CHILDREN = 20;
    /// Attributes, size and version of one node.
    NODE_ATTR = 30;
    /// Eviction order of cached names.
    DENTRY_LRU = 35;
    /// The table of known nodes.
    NODE_TABLE = 40;
    /// FORGETs not yet sent.
    FORGET_QUEUE = 45;
    /// Requests the ring had no room for.
    SUBMIT_QUEUE = 50;
    /// Free request slots.
    SLOT_FREE = 52;
    /// Who reaps completions.
    REAPER = 60;
    /// One request slot.
    SLOT = 70;
    /// Late answers waiting for the completion thread.
    LATE = 72;
    /// Deadlines of the timer actor.
    TIMER = 75;
    /// Driver side of one virtqueue.
    RING = 80;
    /// Frame allocator.
    ARENA = 85;
    /// A lock under which no other is ever taken.
    LEAF = 100;
}

impl Rank {
    /// Name as in `docs/LOCKING.md`.
    #[must_use]
    pub const fn name(self) -> &'static str {
        self.name
    }

    /// Position in the order; higher is taken later.
    #[must_use]
    pub const fn level(self) -> u8 {
        self.level
    }
}

/// Whether ranks are checked: in debug builds, but not under a model checker, whose threads share
/// one OS thread and with it the list of held ranks.
const CHECKED: bool = cfg!(debug_assertions) && !imp::MODELLED;

thread_local! {
    static HELD: RefCell<Vec<Rank>> = const { RefCell::new(Vec::new()) };
}

/// Proof that a rank is on this thread's list of held locks.
#[derive(Debug)]
pub(crate) struct Held(Rank);

impl Held {
    #[inline]
    #[track_caller]
    pub(crate) fn enter(rank: Rank) -> Self {
        if CHECKED {
            HELD.with_borrow_mut(|held| {
                if let Some(top) = held.iter().max() {
                    assert!(
                        rank.level > top.level,
                        "lock order: {} taken while {} is held; see docs/LOCKING.md",
                        rank.name,
                        top.name
                    );
                }
                held.push(rank);
            });
        }
        Held(rank)
    }
}

impl Drop for Held {
    #[inline]
    fn drop(&mut self) {
        if CHECKED {
            // Guards may go in any order, so the newest entry of this rank is removed.
            let _ = HELD.try_with(|held| {
                let mut held = held.borrow_mut();
                if let Some(at) = held.iter().rposition(|r| *r == self.0) {
                    held.remove(at);
                }
            });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranks_are_listed_in_order_and_unique() {
        assert!(Rank::ALL.windows(2).all(|w| w[0].level < w[1].level));
    }

    #[test]
    fn taking_a_lower_rank_is_caught_where_ranks_are_checked() {
        let result = std::panic::catch_unwind(|| {
            let _slot = Held::enter(Rank::SLOT);
            let _reaper = Held::enter(Rank::REAPER);
        });
        assert_eq!(result.is_err(), CHECKED);
        // The unwound guards are gone again.
        let _reaper = Held::enter(Rank::REAPER);
        let _slot = Held::enter(Rank::SLOT);
    }
}
