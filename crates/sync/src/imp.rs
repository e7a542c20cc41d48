//! The backend: std, or a model checker's stand-ins of the same shape.

#[cfg(not(any(fusewire_sync = "loom", fusewire_sync = "shuttle")))]
mod backend {
    pub use std::hint::spin_loop;
    pub use std::sync::atomic;
    pub use std::sync::{Condvar, Mutex, MutexGuard, RwLock, RwLockReadGuard, RwLockWriteGuard};
    pub use std::thread;
}

#[cfg(fusewire_sync = "loom")]
mod backend {
    pub use loom::hint::spin_loop;
    pub use loom::sync::atomic;
    pub use loom::sync::{Condvar, Mutex, MutexGuard, RwLock, RwLockReadGuard, RwLockWriteGuard};
    pub use loom::{thread, thread_local};
}

#[cfg(fusewire_sync = "shuttle")]
mod backend {
    pub use shuttle::hint::spin_loop;
    pub use shuttle::sync::atomic;
    pub use shuttle::sync::{
        Condvar, Mutex, MutexGuard, RwLock, RwLockReadGuard, RwLockWriteGuard,
    };
    pub use shuttle::{thread, thread_local};
}

pub use backend::*;

/// Whether a model checker runs the threads.
pub(crate) const MODELLED: bool = cfg!(any(fusewire_sync = "loom", fusewire_sync = "shuttle"));
