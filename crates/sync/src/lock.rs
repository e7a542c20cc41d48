//! Ranked locks without poisoning.
//!
//! A panic in a critical section is a bug that the panicking thread reports; the other threads go
//! on with the data as it stands, which every critical section here keeps consistent at each step.

use crate::imp;
use crate::rank::{Held, Rank};
use std::ops::{Deref, DerefMut};

/// A mutual-exclusion lock with a [`Rank`].
#[derive(Debug)]
pub struct Mutex<T> {
    rank: Rank,
    inner: imp::Mutex<T>,
}

/// Access to the data of a [`Mutex`], until dropped.
#[derive(Debug)]
pub struct MutexGuard<'a, T> {
    // Dropped in this order: the lock first, then its place in the list of held ranks.
    inner: imp::MutexGuard<'a, T>,
    held: Held,
}

impl<T> Mutex<T> {
    /// A lock at `rank` over `value`.
    pub fn new(rank: Rank, value: T) -> Self {
        Mutex {
            rank,
            inner: imp::Mutex::new(value),
        }
    }

    /// Takes the lock; blocks until it is free.
    ///
    /// # Panics
    /// In debug builds, when this thread holds a lock of the same or a higher rank.
    #[track_caller]
    pub fn lock(&self) -> MutexGuard<'_, T> {
        let held = Held::enter(self.rank);
        let inner = self
            .inner
            .lock()
            .unwrap_or_else(std::sync::PoisonError::into_inner);
        MutexGuard { inner, held }
    }

    /// The data, without locking: exclusive access proves that nobody else has it.
    pub fn get_mut(&mut self) -> &mut T {
        self.inner
            .get_mut()
            .unwrap_or_else(std::sync::PoisonError::into_inner)
    }
}

impl<T> Deref for MutexGuard<'_, T> {
    type Target = T;
    fn deref(&self) -> &T {
        &self.inner
    }
}

impl<T> DerefMut for MutexGuard<'_, T> {
    fn deref_mut(&mut self) -> &mut T {
        &mut self.inner
    }
}

/// A condition variable for one [`Mutex`]. There is no timed wait; see [`crate::timer`].
#[derive(Debug)]
pub struct Condvar {
    inner: imp::Condvar,
}

impl Default for Condvar {
    fn default() -> Self {
        Self::new()
    }
}

impl Condvar {
    /// A condition variable nobody waits on.
    #[must_use]
    pub fn new() -> Self {
        Condvar {
            inner: imp::Condvar::new(),
        }
    }

    /// Releases the lock, waits for a notification, and takes the lock again. May wake without
    /// one: callers re-check their condition in a loop.
    #[must_use]
    pub fn wait<'a, T>(&self, guard: MutexGuard<'a, T>) -> MutexGuard<'a, T> {
        let MutexGuard { inner, held } = guard;
        let inner = self
            .inner
            .wait(inner)
            .unwrap_or_else(std::sync::PoisonError::into_inner);
        MutexGuard { inner, held }
    }

    /// Wakes one waiter, if there is one.
    pub fn notify_one(&self) {
        self.inner.notify_one();
    }

    /// Wakes every waiter.
    pub fn notify_all(&self) {
        self.inner.notify_all();
    }
}

/// A reader-writer lock with a [`Rank`].
#[derive(Debug)]
pub struct RwLock<T> {
    rank: Rank,
    inner: imp::RwLock<T>,
}

/// Shared access to the data of a [`RwLock`], until dropped.
#[derive(Debug)]
pub struct RwLockReadGuard<'a, T> {
    inner: imp::RwLockReadGuard<'a, T>,
    _held: Held,
}

/// Exclusive access to the data of a [`RwLock`], until dropped.
#[derive(Debug)]
pub struct RwLockWriteGuard<'a, T> {
    inner: imp::RwLockWriteGuard<'a, T>,
    _held: Held,
}

impl<T> RwLock<T> {
    /// A lock at `rank` over `value`.
    pub fn new(rank: Rank, value: T) -> Self {
        RwLock {
            rank,
            inner: imp::RwLock::new(value),
        }
    }

    /// The data, without locking: exclusive access proves that nobody else has it.
    pub fn get_mut(&mut self) -> &mut T {
        self.inner
            .get_mut()
            .unwrap_or_else(std::sync::PoisonError::into_inner)
    }

    /// Takes the lock shared; blocks while a writer holds it.
    ///
    /// # Panics
    /// In debug builds, when this thread holds a lock of the same or a higher rank.
    #[track_caller]
    pub fn read(&self) -> RwLockReadGuard<'_, T> {
        let held = Held::enter(self.rank);
        let inner = self
            .inner
            .read()
            .unwrap_or_else(std::sync::PoisonError::into_inner);
        RwLockReadGuard { inner, _held: held }
    }

    /// Takes the lock exclusively; blocks while anyone holds it.
    ///
    /// # Panics
    /// In debug builds, when this thread holds a lock of the same or a higher rank.
    #[track_caller]
    pub fn write(&self) -> RwLockWriteGuard<'_, T> {
        let held = Held::enter(self.rank);
        let inner = self
            .inner
            .write()
            .unwrap_or_else(std::sync::PoisonError::into_inner);
        RwLockWriteGuard { inner, _held: held }
    }
}

impl<T> Deref for RwLockReadGuard<'_, T> {
    type Target = T;
    fn deref(&self) -> &T {
        &self.inner
    }
}

impl<T> Deref for RwLockWriteGuard<'_, T> {
    type Target = T;
    fn deref(&self) -> &T {
        &self.inner
    }
}

impl<T> DerefMut for RwLockWriteGuard<'_, T> {
    fn deref_mut(&mut self) -> &mut T {
        &mut self.inner
    }
}
