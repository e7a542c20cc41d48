//! Errors that every observer sees once: a sequence of error reports.
//!
//! One word holds an errno, a *seen* bit and a counter. An observer keeps a cursor, the word as it
//! last saw it. A new error replaces the errno; the counter moves only if somebody has seen the
//! previous value, so that a storm of errors with nobody looking does not wrap it. (After the
//! idea behind Linux `lib/errseq.c`; the rule that each open file sees an error exactly once is
//! the one of fsync(2).)

use crate::atomic::{AtomicU32, Ordering};

const ERRNO_BITS: u32 = 12;
const ERRNO_MASK: u32 = (1 << ERRNO_BITS) - 1;
const SEEN: u32 = 1 << ERRNO_BITS;
const COUNT_ONE: u32 = 1 << (ERRNO_BITS + 1);

/// Where an observer stands in an [`ErrSeq`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ErrSeqCursor(u32);

/// The latest error and whether anybody has seen it.
///
/// Its one weakness: after 2¹⁹ errors, each seen in between, the counter wraps, and an observer
/// that slept through exactly that many misses one report.
#[derive(Debug)]
pub struct ErrSeq(AtomicU32);

impl Default for ErrSeq {
    fn default() -> Self {
        Self::new()
    }
}

impl ErrSeq {
    /// No error yet.
    #[must_use]
    pub fn new() -> Self {
        ErrSeq(AtomicU32::new(0))
    }

    /// Records `errno` (1..=4095). Never blocks.
    ///
    /// # Panics
    /// In debug builds, when `errno` is out of range.
    pub fn set(&self, errno: u32) {
        debug_assert!((1..=ERRNO_MASK).contains(&errno), "errno {errno}");
        let mut old = self.0.load(Ordering::Relaxed);
        loop {
            let mut new = (old & !(ERRNO_MASK | SEEN)) | (errno & ERRNO_MASK);
            if old & SEEN != 0 {
                new = new.wrapping_add(COUNT_ONE);
            }
            if new == old {
                return;
            }
            match self
                .0
                .compare_exchange(old, new, Ordering::AcqRel, Ordering::Relaxed)
            {
                Ok(_) => return,
                Err(now) => old = now,
            }
        }
    }

    /// A cursor for a new observer. An error that nobody has seen yet is still reported to it: an
    /// open file must not miss an error that was recorded before it was opened and never read.
    #[must_use]
    pub fn sample(&self) -> ErrSeqCursor {
        let now = self.0.load(Ordering::Acquire);
        if now & SEEN == 0 {
            ErrSeqCursor(0)
        } else {
            ErrSeqCursor(now)
        }
    }

    /// The errno recorded since `cursor`, without counting as a report.
    #[must_use]
    pub fn check(&self, cursor: ErrSeqCursor) -> Option<u32> {
        let now = self.0.load(Ordering::Acquire);
        if now | SEEN == cursor.0 | SEEN && now & !SEEN == cursor.0 & !SEEN {
            return None;
        }
        Some(now & ERRNO_MASK).filter(|errno| *errno != 0)
    }

    /// Reports the errno recorded since `cursor` and moves the cursor past it: the same error is
    /// reported to each cursor once.
    pub fn check_and_advance(&self, cursor: &mut ErrSeqCursor) -> Option<u32> {
        let mut now = self.0.load(Ordering::Acquire);
        loop {
            if now == cursor.0 {
                return None;
            }
            let seen = now | SEEN;
            if seen != now
                && let Err(changed) =
                    self.0
                        .compare_exchange(now, seen, Ordering::AcqRel, Ordering::Acquire)
            {
                now = changed;
                continue;
            }
            let moved = seen != cursor.0 | SEEN;
            cursor.0 = seen;
            return moved
                .then_some(seen & ERRNO_MASK)
                .filter(|errno| *errno != 0);
        }
    }
}

#[cfg(all(test, not(any(fusewire_sync = "loom", fusewire_sync = "shuttle"))))]
mod tests {
    use super::*;

    #[test]
    fn each_observer_sees_an_error_once() {
        let seq = ErrSeq::new();
        let mut a = seq.sample();
        let mut b = seq.sample();
        assert_eq!(seq.check_and_advance(&mut a), None);
        seq.set(5);
        assert_eq!(seq.check(a), Some(5));
        assert_eq!(seq.check_and_advance(&mut a), Some(5));
        assert_eq!(seq.check_and_advance(&mut a), None);
        assert_eq!(seq.check(a), None);
        assert_eq!(seq.check_and_advance(&mut b), Some(5));
        assert_eq!(seq.check_and_advance(&mut b), None);
    }

    #[test]
    fn the_same_errno_again_is_a_new_error() {
        let seq = ErrSeq::new();
        let mut a = seq.sample();
        seq.set(28);
        assert_eq!(seq.check_and_advance(&mut a), Some(28));
        seq.set(28);
        assert_eq!(seq.check_and_advance(&mut a), Some(28));
    }

    #[test]
    fn a_new_observer_sees_an_unseen_error_but_not_a_seen_one() {
        let seq = ErrSeq::new();
        seq.set(5);
        let mut early = seq.sample();
        assert_eq!(seq.check_and_advance(&mut early), Some(5));
        let mut late = seq.sample();
        assert_eq!(seq.check_and_advance(&mut late), None);
    }

    #[test]
    fn unseen_errors_do_not_move_the_counter() {
        let seq = ErrSeq::new();
        for _ in 0..10_000 {
            seq.set(5);
            seq.set(28);
        }
        let mut a = seq.sample();
        assert_eq!(seq.check_and_advance(&mut a), Some(28));
        assert_eq!(seq.check_and_advance(&mut a), None);
    }
}
