//! Buddy allocator over frame numbers: pure bookkeeping, no memory is touched.

const NONE: u32 = u32::MAX;
/// Mark of a frame that does not start a free block.
const NOT_FREE: u8 = u8::MAX;

/// Blocks of 2^order frames, each aligned to its size, handed out most recently freed first: a
/// frame that was just used is in the caches of both sides, and a cold one costs three times as
/// much.
#[derive(Debug)]
pub(crate) struct Buddy<const ORDERS: usize> {
    /// First free block of each order.
    heads: [u32; ORDERS],
    /// Neighbours in the free list, for each frame that starts a free block.
    links: Vec<Link>,
    /// Order of the free block that starts at each frame, or [`NOT_FREE`].
    free_order: Vec<u8>,
    free_frames: u32,
}

#[derive(Clone, Copy, Debug)]
struct Link {
    prev: u32,
    next: u32,
}

impl<const ORDERS: usize> Buddy<ORDERS> {
    /// All of `frames` free, lowest first.
    pub(crate) fn new(frames: u32) -> Self {
        let mut buddy = Buddy {
            heads: [NONE; ORDERS],
            links: vec![
                Link {
                    prev: NONE,
                    next: NONE
                };
                frames as usize
            ],
            free_order: vec![NOT_FREE; frames as usize],
            free_frames: frames,
        };
        // Largest aligned blocks from the top down, so that the lowest ends up first in its list.
        let mut end = frames;
        while end > 0 {
            let mut order = (ORDERS - 1) as u8;
            // A block may end at `end` only if its start is aligned and not below 0.
            while 1u32 << order > end || !end.is_multiple_of(1 << order) {
                order -= 1;
            }
            end -= 1 << order;
            buddy.push(end, order);
        }
        buddy
    }

    pub(crate) fn free_frames(&self) -> u32 {
        self.free_frames
    }

    /// Takes a block of 2^order frames and returns its first frame.
    pub(crate) fn alloc(&mut self, order: u8) -> Option<u32> {
        let mut have = (order as usize..ORDERS).find(|o| self.heads[*o] != NONE)? as u8;
        let first = self.heads[have as usize];
        self.unlink(first);
        while have > order {
            have -= 1;
            self.push(first + (1 << have), have);
        }
        self.free_frames -= 1 << order;
        Some(first)
    }

    /// Gives a block back and merges it with its free buddies.
    pub(crate) fn free(&mut self, first: u32, order: u8) {
        debug_assert_eq!(
            self.free_order[first as usize], NOT_FREE,
            "frame {first} freed twice"
        );
        self.free_frames += 1 << order;
        let (mut first, mut order) = (first, order);
        while (order as usize) < ORDERS - 1 {
            let buddy = first ^ (1 << order);
            if self.free_order.get(buddy as usize) != Some(&order) {
                break;
            }
            self.unlink(buddy);
            first = first.min(buddy);
            order += 1;
        }
        self.push(first, order);
    }

    fn push(&mut self, first: u32, order: u8) {
        let next = self.heads[order as usize];
        if next != NONE {
            self.links[next as usize].prev = first;
        }
        self.links[first as usize] = Link { prev: NONE, next };
        self.heads[order as usize] = first;
        self.free_order[first as usize] = order;
    }

    fn unlink(&mut self, first: u32) {
        let Link { prev, next } = self.links[first as usize];
        let order = self.free_order[first as usize];
        if prev == NONE {
            self.heads[order as usize] = next;
        } else {
            self.links[prev as usize].next = next;
        }
        if next != NONE {
            self.links[next as usize].prev = prev;
        }
        self.free_order[first as usize] = NOT_FREE;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn the_last_block_freed_is_the_next_given() {
        let mut buddy = Buddy::<10>::new(4096);
        let a = buddy.alloc(8).unwrap();
        let b = buddy.alloc(8).unwrap();
        let _c = buddy.alloc(8).unwrap();
        buddy.free(b, 8);
        assert_eq!(buddy.alloc(8), Some(b));
        buddy.free(a, 8);
        assert_eq!(buddy.alloc(8), Some(a));
    }

    proptest! {
        #[test]
        fn blocks_are_aligned_disjoint_and_all_come_back(
            frames in 1u32..3000,
            ops in prop::collection::vec((0u8..10, any::<prop::sample::Index>(), any::<bool>()), 1..300),
        ) {
            let mut buddy = Buddy::<10>::new(frames);
            let mut held: Vec<(u32, u8)> = Vec::new();
            let mut owner = vec![false; frames as usize];
            for (order, pick, give_back) in ops {
                if give_back && !held.is_empty() {
                    let (first, order) = held.swap_remove(pick.index(held.len()));
                    for f in first..first + (1 << order) { owner[f as usize] = false; }
                    buddy.free(first, order);
                } else if let Some(first) = buddy.alloc(order) {
                    prop_assert_eq!(first % (1 << order), 0);
                    for f in first..first + (1 << order) {
                        prop_assert!(!owner[f as usize], "frame {} given twice", f);
                        owner[f as usize] = true;
                    }
                    held.push((first, order));
                }
                let used: u32 = held.iter().map(|(_, o)| 1u32 << o).sum();
                prop_assert_eq!(buddy.free_frames(), frames - used);
            }
            for (first, order) in held { buddy.free(first, order); }
            prop_assert_eq!(buddy.free_frames(), frames);
            // Merged again: as many of the largest blocks as fit.
            for _ in 0..frames >> 9 { prop_assert!(buddy.alloc(9).is_some()); }
            prop_assert!(buddy.alloc(9).is_none());
        }
    }
}
