//! How the words of a ring are accessed.

use core::sync::atomic::{AtomicU16, AtomicU32, AtomicU64, Ordering, fence};
use fusewire_mem::Region;

/// The words of a ring in shared memory. Offsets are aligned to the word and inside the memory.
///
/// Indices are published with release and read with acquire order; everything else is unordered by
/// itself. The unordered ones are relaxed atomics, which are plain loads and stores that the
/// compiler neither splits nor repeats, and which no concurrent writer can make undefined.
pub(crate) trait RingMemory {
    fn load_u16_acquire(&self, at: u64) -> u16;
    fn store_u16_release(&self, at: u64, value: u16);
    fn load_u16(&self, at: u64) -> u16;
    fn store_u16(&self, at: u64, value: u16);
    fn load_u32(&self, at: u64) -> u32;
    fn store_u32(&self, at: u64, value: u32);
    fn load_u64(&self, at: u64) -> u64;
    fn store_u64(&self, at: u64, value: u64);
    /// Orders every access before it against every access after it: the store of an index against
    /// the load of the other side's event, and the other way round.
    fn full_fence(&self);
}

/// A reference to the word at an offset of a region, as an atomic.
macro_rules! word {
    ($region:expr, $at:expr, $atomic:ty, $bytes:literal) => {{
        let (region, at): (&Region, u64) = ($region, $at);
        let place = region.bytes(at, $bytes).as_ptr();
        assert!(at.is_multiple_of($bytes), "unaligned word at {at}");
        // SAFETY: in bounds of the mapping (checked above), aligned (the base is page-aligned), and
        // mapped as long as the region lives; ring words are only accessed as atomics of this size.
        unsafe { <$atomic>::from_ptr(place.cast()) }
    }};
}

impl RingMemory for Region {
    fn load_u16_acquire(&self, at: u64) -> u16 {
        Region::load_u16_acquire(self, at)
    }

    fn store_u16_release(&self, at: u64, value: u16) {
        Region::store_u16_release(self, at, value);
    }

    fn load_u16(&self, at: u64) -> u16 {
        word!(self, at, AtomicU16, 2).load(Ordering::Relaxed)
    }

    fn store_u16(&self, at: u64, value: u16) {
        word!(self, at, AtomicU16, 2).store(value, Ordering::Relaxed);
    }

    fn load_u32(&self, at: u64) -> u32 {
        word!(self, at, AtomicU32, 4).load(Ordering::Relaxed)
    }

    fn store_u32(&self, at: u64, value: u32) {
        word!(self, at, AtomicU32, 4).store(value, Ordering::Relaxed);
    }

    fn load_u64(&self, at: u64) -> u64 {
        word!(self, at, AtomicU64, 8).load(Ordering::Relaxed)
    }

    fn store_u64(&self, at: u64, value: u64) {
        word!(self, at, AtomicU64, 8).store(value, Ordering::Relaxed);
    }

    fn full_fence(&self) {
        fence(Ordering::SeqCst);
    }
}

/// Ring words as atomics of the model checker: one for each 16-bit place, wide enough for any
/// word, because a place is always accessed with the same width.
#[cfg(all(test, fusewire_sync = "loom"))]
pub(crate) mod model {
    use super::RingMemory;
    use fusewire_sync::atomic::{AtomicU64, Ordering, fence};
    use std::collections::BTreeMap;

    #[derive(Debug)]
    pub(crate) struct ModelMemory(BTreeMap<u64, AtomicU64>);

    impl ModelMemory {
        /// Memory with a zero word at each of `places`, and nothing elsewhere.
        pub(crate) fn new(places: impl IntoIterator<Item = u64>) -> Self {
            ModelMemory(
                places
                    .into_iter()
                    .map(|at| (at, AtomicU64::new(0)))
                    .collect(),
            )
        }

        fn at(&self, at: u64) -> &AtomicU64 {
            &self.0[&at]
        }
    }

    impl RingMemory for ModelMemory {
        fn load_u16_acquire(&self, at: u64) -> u16 {
            self.at(at).load(Ordering::Acquire) as u16
        }
        fn store_u16_release(&self, at: u64, value: u16) {
            self.at(at).store(value.into(), Ordering::Release);
        }
        fn load_u16(&self, at: u64) -> u16 {
            self.at(at).load(Ordering::Relaxed) as u16
        }
        fn store_u16(&self, at: u64, value: u16) {
            self.at(at).store(value.into(), Ordering::Relaxed);
        }
        fn load_u32(&self, at: u64) -> u32 {
            self.at(at).load(Ordering::Relaxed) as u32
        }
        fn store_u32(&self, at: u64, value: u32) {
            self.at(at).store(value.into(), Ordering::Relaxed);
        }
        fn load_u64(&self, at: u64) -> u64 {
            self.at(at).load(Ordering::Relaxed)
        }
        fn store_u64(&self, at: u64, value: u64) {
            self.at(at).store(value, Ordering::Relaxed);
        }
        fn full_fence(&self) {
            fence(Ordering::SeqCst);
        }
    }
}
