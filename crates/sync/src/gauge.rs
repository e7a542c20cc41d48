//! Plain counters: of things that must all be gone at the end, and of events.

use std::sync::atomic::{AtomicU64, Ordering};

/// A level that rises and falls: requests in flight, live nodes, allocated frames. Every gauge is
/// 0 once its owner is closed; tests assert it. It orders nothing: never use it to synchronise.
#[derive(Debug, Default)]
pub struct Gauge(AtomicU64);

impl Gauge {
    /// A gauge at 0.
    #[must_use]
    pub const fn new() -> Self {
        Gauge(AtomicU64::new(0))
    }

    /// Raises the level by `n`.
    pub fn add(&self, n: u64) {
        self.0.fetch_add(n, Ordering::Relaxed);
    }

    /// Lowers the level by `n`.
    ///
    /// # Panics
    /// In debug builds, when the level would fall below 0.
    pub fn sub(&self, n: u64) {
        let before = self.0.fetch_sub(n, Ordering::Relaxed);
        debug_assert!(before >= n, "gauge below zero: {before} - {n}");
    }

    /// The level now.
    #[must_use]
    pub fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// A count of events. It orders nothing: never use it to synchronise.
#[derive(Debug, Default)]
pub struct Counter(AtomicU64);

impl Counter {
    /// A counter at 0.
    #[must_use]
    pub const fn new() -> Self {
        Counter(AtomicU64::new(0))
    }

    /// Counts `n` more.
    pub fn add(&self, n: u64) {
        self.0.fetch_add(n, Ordering::Relaxed);
    }

    /// Counts one more.
    pub fn count(&self) {
        self.add(1);
    }

    /// Counts one more and returns its number, from 0.
    pub fn next(&self) -> u64 {
        self.0.fetch_add(1, Ordering::Relaxed)
    }

    /// Events so far.
    #[must_use]
    pub fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}
