//! One monotonic clock, which tests can drive.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Instant, SystemTime, UNIX_EPOCH};

/// Nanoseconds of one second.
pub const NS_PER_SEC: u64 = 1_000_000_000;

/// A monotonic clock in nanoseconds. Clones show the same time.
#[derive(Clone, Debug)]
pub struct Clock(Source);

#[derive(Clone, Debug)]
enum Source {
    Monotonic(Instant),
    Manual(Arc<AtomicU64>),
}

impl Clock {
    /// The system's monotonic clock, starting at 1 s now (so that 0 can mean "never").
    #[must_use]
    pub fn monotonic() -> Self {
        Clock(Source::Monotonic(Instant::now()))
    }

    /// A clock that stands still until [`Clock::advance`], starting at 1 s.
    #[must_use]
    pub fn manual() -> Self {
        Clock(Source::Manual(Arc::new(AtomicU64::new(NS_PER_SEC))))
    }

    /// Nanoseconds now. Never goes back; never 0.
    #[must_use]
    pub fn now_ns(&self) -> u64 {
        match &self.0 {
            Source::Monotonic(start) => {
                NS_PER_SEC + u64::try_from(start.elapsed().as_nanos()).unwrap_or(u64::MAX / 2)
            }
            Source::Manual(now) => now.load(Ordering::Acquire),
        }
    }

    /// Moves a manual clock on by `ns`; a monotonic one is left alone.
    pub fn advance(&self, ns: u64) {
        if let Source::Manual(now) = &self.0 {
            now.fetch_add(ns, Ordering::AcqRel);
        }
    }
}

/// Wall-clock time as (seconds, nanoseconds) since 1970, for time stamps a client sets itself.
#[must_use]
pub fn wall_clock() -> (i64, u32) {
    match SystemTime::now().duration_since(UNIX_EPOCH) {
        Ok(since) => (
            i64::try_from(since.as_secs()).unwrap_or(i64::MAX),
            since.subsec_nanos(),
        ),
        Err(before) => (
            -i64::try_from(before.duration().as_secs()).unwrap_or(i64::MAX),
            0,
        ),
    }
}
