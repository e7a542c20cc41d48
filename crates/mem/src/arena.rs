//! One client's memory: frames out of one shared region.

use crate::FRAME_BYTES;
use crate::buddy::Buddy;
use crate::region::{HUGE_BYTES, Region};
use crate::shared::SharedBytes;
use fusewire_sync::atomic::{AtomicBool, Ordering};
use fusewire_sync::{Arc, Condvar, Mutex, Rank};
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
    freed: Condvar,
    huge: AtomicBool,
}

#[derive(Debug)]
struct State {
    buddy: Buddy<ORDERS>,
    /// For each 2 MiB of the region: whether it was ever handed out.
    used: Vec<bool>,
    waiting: usize,
    closed: bool,
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
                    waiting: 0,
                    closed: false,
                },
            ),
            freed: Condvar::new(),
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
        let first = self.buddy.lock().take(order)?;
        Some(self.frames(first, order))
    }

    /// 2^order adjacent frames, or the largest run below that there is; waits while there is not
    /// one frame.
    ///
    /// Only callers that hold no frames may wait here: else threads that each hold some could wait
    /// for each other for ever.
    ///
    /// # Errors
    /// [`Denied::Closed`] once the arena is closed; [`Denied::Stopped`] when `stop` says so, which is
    /// asked before each wait.
    ///
    /// # Panics
    /// When `order` is above [`MAX_ORDER`].
    pub fn alloc_or_wait(
        self: &Arc<Self>,
        order: u8,
        stop: impl Fn() -> bool,
    ) -> Result<Frames, Denied> {
        assert!(order <= MAX_ORDER, "order {order}");
        let mut state = self.buddy.lock();
        let (first, order) = loop {
            if state.closed {
                return Err(Denied::Closed);
            }
            let found = (0..=order)
                .rev()
                .find_map(|order| Some((state.take(order)?, order)));
            if let Some(found) = found {
                break found;
            }
            if stop() {
                return Err(Denied::Stopped);
            }
            state.waiting += 1;
            state = self.freed.wait(state);
            state.waiting -= 1;
        };
        drop(state);
        Ok(self.frames(first, order))
    }

    /// Has those who wait for frames ask again whether to stop.
    pub fn wake_waiting(&self) {
        // Under the lock: nobody is between asking and waiting.
        let _state = self.buddy.lock();
        self.freed.notify_all();
    }

    /// Ends every wait in [`Arena::alloc_or_wait`], now and later: what is held may never come
    /// back, because a peer may still use it.
    pub fn close(&self) {
        self.buddy.lock().closed = true;
        self.freed.notify_all();
    }

    /// Makes the handle of a run just taken.
    fn frames(self: &Arc<Self>, (first, fresh): (u32, bool), order: u8) -> Frames {
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
        frames
    }
}

/// Why nobody waits for frames any more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Denied {
    /// The arena is closed: what is held may never come back.
    Closed,
    /// Whoever waited was told to stop.
    Stopped,
}

impl State {
    /// A run of 2^order frames, and whether its 2 MiB are used for the first time.
    fn take(&mut self, order: u8) -> Option<(u32, bool)> {
        let first = self.buddy.alloc(order)?;
        let huge = first as usize * FRAME_BYTES / HUGE_BYTES;
        Some((first, !std::mem::replace(&mut self.used[huge], true)))
    }
}

/// The smallest order whose runs hold `bytes`, at most [`MAX_ORDER`].
#[must_use]
pub fn order_for(bytes: usize) -> u8 {
    let frames = bytes.div_ceil(FRAME_BYTES).max(1);
    (0..MAX_ORDER)
        .find(|order| frames <= 1 << order)
        .unwrap_or(MAX_ORDER)
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
        let mut state = self.arena.buddy.lock();
        state.buddy.free(self.first, self.order);
        if state.waiting > 0 {
            self.arena.freed.notify_all();
        }
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
        let b = arena.alloc(order_for(1 << 20)).unwrap();
        assert_eq!(b.len(), 1 << 20);
        a.bytes(0, 4096).copy_from(&[1; 4096]);
        b.bytes(0, 1 << 20).copy_from(&vec![2; 1 << 20]);
        assert_eq!(a.bytes(4000, 96).to_vec(), [1; 96]);
        assert_eq!(arena.free_frames(), total - 1 - 256);
        assert_eq!(order_for((2 << 20) + 1), MAX_ORDER);
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
        let waiter = {
            let arena = Arc::clone(&arena);
            let all = arena.alloc(MAX_ORDER).unwrap();
            let waiter =
                std::thread::spawn(move || arena.alloc_or_wait(3, || false).map(|f| f.len()));
            drop(all);
            waiter
        };
        assert_eq!(waiter.join().unwrap().unwrap(), 8 * FRAME_BYTES);
        let _all = arena.alloc(MAX_ORDER).unwrap();
        assert!(matches!(
            arena.alloc_or_wait(0, || true),
            Err(Denied::Stopped)
        ));
        arena.close();
        assert!(matches!(
            arena.alloc_or_wait(0, || false),
            Err(Denied::Closed)
        ));
        assert!(Arena::new(0).is_err());
        assert!(Arena::new(usize::MAX).is_err());
    }
}
