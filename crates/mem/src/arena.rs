//! One client's memory: frames out of one shared region.

use crate::FRAME_BYTES;
use crate::buddy::Buddy;
use crate::region::{HUGE_BYTES, Region};
use crate::shared::SharedBytes;
use fusewire_sync::atomic::{AtomicBool, Ordering};
use fusewire_sync::{Arc, Mutex, Rank};
use std::io;

/// Largest order: 2^9 frames, 2 MiB.
pub const MAX_ORDER: u8 = 9;

const ORDERS: usize = MAX_ORDER as usize + 1;

/// A run of bytes in an arena, as it goes into a descriptor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Segment {
    /// First byte, counted from the start of the arena's region.
    pub offset: u64,
    /// Length in bytes.
    pub len: u32,
}

/// The memory of one client: a region cut into 4 KiB frames. What peers may see of the client's
/// data is exactly this; two clients never share one.
#[derive(Debug)]
pub struct Arena {
    region: Region,
    buddy: Mutex<State>,
    huge: AtomicBool,
}

#[derive(Debug)]
struct State {
    buddy: Buddy<ORDERS>,
    /// For each 2 MiB of the region: whether it was ever handed out.
    used: Vec<bool>,
}

impl Arena {
    /// An arena of `bytes`, rounded up to whole 2 MiB. Memory is taken from the system as frames
    /// are first used, in 2 MiB pages where the system grants them.
    ///
    /// # Errors
    /// EINVAL when `bytes` is 0 or needs more than 2³¹ frames; else as [`Region::new`].
    pub fn new(bytes: usize) -> io::Result<Arc<Self>> {
        let bytes = bytes
            .checked_next_multiple_of(HUGE_BYTES)
            .filter(|b| *b > 0 && b / FRAME_BYTES <= 1 << 31)
            .ok_or_else(|| {
                io::Error::new(
                    io::ErrorKind::InvalidInput,
                    format!("an arena of {bytes} bytes: choose 2 MiB to 8 TiB"),
                )
            })?;
        let region = Region::new("fusewire-arena", bytes)?;
        Ok(Arc::new(Arena {
            region,
            buddy: Mutex::new(
                Rank::ARENA,
                State {
                    buddy: Buddy::new((bytes / FRAME_BYTES) as u32),
                    used: vec![false; bytes / HUGE_BYTES],
                },
            ),
            huge: AtomicBool::new(true),
        }))
    }

    /// The region behind it, to be shared with a peer.
    #[must_use]
    pub fn region(&self) -> &Region {
        &self.region
    }

    /// Frames not handed out now.
    #[must_use]
    pub fn free_frames(&self) -> usize {
        self.buddy.lock().buddy.free_frames() as usize
    }

    /// Frames in all.
    #[must_use]
    pub fn total_frames(&self) -> usize {
        self.region.len() / FRAME_BYTES
    }

    /// 2^order adjacent frames with whatever they held before, or `None` when there is no such
    /// run. Does not block.
    ///
    /// # Panics
    /// When `order` is above [`MAX_ORDER`].
    #[must_use]
    pub fn alloc(self: &Arc<Self>, order: u8) -> Option<Frames> {
        assert!(order <= MAX_ORDER, "order {order}");
        let (first, fresh) = {
            let mut state = self.buddy.lock();
            let first = state.buddy.alloc(order)?;
            let huge = first as usize * FRAME_BYTES / HUGE_BYTES;
            (first, !std::mem::replace(&mut state.used[huge], true))
        };
        let frames = Frames {
            arena: Arc::clone(self),
            first,
            order,
        };
        if fresh && self.huge.load(Ordering::Relaxed) {
            let huge = frames.offset() / HUGE_BYTES as u64 * HUGE_BYTES as u64;
            if self.region.collapse(huge).is_err() {
                // Denied or exhausted: go on in 4 KiB pages, without asking again each time.
                self.huge.store(false, Ordering::Relaxed);
            }
        }
        Some(frames)
    }

    /// The smallest run that holds `bytes`, or `None` when there is none or `bytes` exceeds 2 MiB.
    #[must_use]
    pub fn alloc_bytes(self: &Arc<Self>, bytes: usize) -> Option<Frames> {
        let frames = bytes.div_ceil(FRAME_BYTES).max(1).next_power_of_two();
        let order = u8::try_from(frames.trailing_zeros()).ok()?;
        (order <= MAX_ORDER).then(|| self.alloc(order)).flatten()
    }
}

/// A run of 2^order adjacent frames; goes back to its arena when dropped.
#[derive(Debug)]
pub struct Frames {
    arena: Arc<Arena>,
    first: u32,
    order: u8,
}

impl Frames {
    /// First byte, counted from the start of the arena's region.
    #[must_use]
    pub fn offset(&self) -> u64 {
        u64::from(self.first) * FRAME_BYTES as u64
    }

    /// Length in bytes.
    #[must_use]
    pub fn len(&self) -> usize {
        FRAME_BYTES << self.order
    }

    /// Always false: there is no empty run.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        false
    }

    /// The first `len` bytes, as they go into a descriptor: one segment, however many frames.
    ///
    /// # Panics
    /// When there are not that many.
    #[must_use]
    pub fn segment(&self, len: u32) -> Segment {
        assert!(len as usize <= self.len(), "{len} of {}", self.len());
        Segment {
            offset: self.offset(),
            len,
        }
    }

    /// `len` bytes at `start` of the run.
    ///
    /// # Panics
    /// When they are not all inside.
    #[must_use]
    pub fn bytes(&self, start: usize, len: usize) -> SharedBytes<'_> {
        self.arena
            .region
            .bytes(self.offset(), self.len())
            .slice(start, len)
    }
}

impl Drop for Frames {
    fn drop(&mut self) {
        self.arena.buddy.lock().buddy.free(self.first, self.order);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_come_back_and_do_not_overlap() {
        let arena = Arena::new(4 << 20).unwrap();
        let total = arena.total_frames();
        assert_eq!(total, 1024);
        let a = arena.alloc(0).unwrap();
        let b = arena.alloc_bytes(1 << 20).unwrap();
        assert_eq!(b.len(), 1 << 20);
        a.bytes(0, 4096).copy_from(&[1; 4096]);
        b.bytes(0, 1 << 20).copy_from(&vec![2; 1 << 20]);
        assert_eq!(a.bytes(4000, 96).to_vec(), [1; 96]);
        assert_eq!(arena.free_frames(), total - 1 - 256);
        assert!(arena.alloc_bytes((2 << 20) + 1).is_none());
        drop((a, b));
        assert_eq!(arena.free_frames(), total);
    }

    #[test]
    fn an_exhausted_arena_says_so() {
        let arena = Arena::new(1).unwrap();
        let all = arena.alloc(MAX_ORDER).unwrap();
        assert!(arena.alloc(0).is_none());
        drop(all);
        assert!(arena.alloc(0).is_some());
        assert!(Arena::new(0).is_err());
        assert!(Arena::new(usize::MAX).is_err());
    }
}
