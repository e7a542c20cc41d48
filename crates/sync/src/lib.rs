//! Locks, atomics, time and threads of fusewire behind one facade over std, loom and shuttle.
//!
//! Every other crate takes its synchronisation from here, so that one global switch,
//! `--cfg fusewire_sync="loom"` or `"shuttle"`, puts the whole stack under a model checker. The
//! switch is a `--cfg` and not a Cargo feature: features and `cfg(test)` do not reach a dependency
//! when another crate is tested, and a checker that explores half of the program passes planted
//! bugs. `tests/loom_canary.rs` and `tests/shuttle_canary.rs` hold one planted bug each; the jobs
//! fail when the checker does not find it.
//!
//! Neither checker explores timed waits, so there are none: [`Condvar::wait`] and
//! [`thread::park`] wait for an event, and time is one [`timer::Timer`] that turns a deadline into
//! such an event.

#![forbid(unsafe_code)]

mod errseq;
mod gauge;
mod imp;
mod lock;
mod park;
mod rank;
pub mod thread;
pub mod time;
pub mod timer;

pub use errseq::{ErrSeq, ErrSeqCursor};
pub use gauge::{Counter, Gauge};
pub use lock::{Condvar, Mutex, MutexGuard, RwLock, RwLockReadGuard, RwLockWriteGuard};
pub use rank::Rank;

/// Reference counting is std's under every checker: loom's `Arc` has neither `Weak` nor unsized
/// values, and no protocol here rests on the order of reference counts.
pub use std::sync::{Arc, OnceLock, Weak};

/// Atomics of the chosen backend.
pub mod atomic {
    pub use crate::imp::atomic::{
        AtomicBool, AtomicU8, AtomicU16, AtomicU32, AtomicU64, AtomicUsize, Ordering, fence,
    };
}

/// Hints of the chosen backend.
pub mod hint {
    pub use crate::imp::spin_loop;
}
