//! Sparse contents of a file.

use core::ops::Range;
use std::collections::BTreeMap;

/// Unit of allocation, in bytes.
pub(super) const BLOCK_BYTES: u64 = 4096;

type Block = Box<[u8; BLOCK_BYTES as usize]>;

/// How much of the capacity is taken, in blocks.
#[derive(Clone, Copy, Debug)]
pub(super) struct Space {
    pub used: u64,
    pub max: u64,
}

impl Space {
    fn take(&mut self) -> bool {
        let fits = self.used < self.max;
        self.used += u64::from(fits);
        fits
    }

    pub fn free(&self) -> u64 {
        self.max.saturating_sub(self.used)
    }
}

/// A part of what is read.
#[derive(Clone, Copy, Debug)]
pub(super) enum Part<'a> {
    Data(&'a [u8]),
    /// So many zeroes.
    Hole(usize),
}

/// Blocks by number; what is missing is a hole and reads as zeroes. Bytes past the end of the file
/// are zero in every block, so growing needs no clearing.
#[derive(Debug, Default)]
pub(super) struct Blocks(BTreeMap<u64, Block>);

/// The parts of `range` block by block: number, start in the block, length.
fn parts(range: Range<u64>) -> impl Iterator<Item = (u64, usize, usize)> {
    let mut at = range.start;
    core::iter::from_fn(move || {
        (at < range.end).then(|| {
            let start = at % BLOCK_BYTES;
            let len = (BLOCK_BYTES - start).min(range.end - at);
            let part = (at / BLOCK_BYTES, start as usize, len as usize);
            at += len;
            part
        })
    })
}

fn zeroed() -> Block {
    Box::new([0; BLOCK_BYTES as usize])
}

impl Blocks {
    /// How many blocks there are.
    pub fn len(&self) -> u64 {
        self.0.len() as u64
    }

    /// Hands `len` bytes at `offset` to `sink`, block by block, each with its place among the
    /// `len`: bytes, or a hole.
    pub fn read(&self, offset: u64, len: usize, mut sink: impl FnMut(usize, Part<'_>)) {
        let mut done = 0;
        for (number, start, n) in parts(offset..offset + len as u64) {
            match self.0.get(&number) {
                Some(block) => sink(done, Part::Data(&block[start..start + n])),
                None => sink(done, Part::Hole(n)),
            }
            done += n;
        }
    }

    /// Lets `source` fill `len` bytes at `offset`, block by block, each with its place among the
    /// `len`; returns for how many there was room.
    pub fn write(
        &mut self,
        offset: u64,
        len: usize,
        space: &mut Space,
        mut source: impl FnMut(usize, &mut [u8]),
    ) -> usize {
        let mut done = 0;
        for (number, start, n) in parts(offset..offset + len as u64) {
            let Some(block) = self.block(number, space) else {
                break;
            };
            source(done, &mut block[start..start + n]);
            done += n;
        }
        done
    }

    fn block(&mut self, number: u64, space: &mut Space) -> Option<&mut Block> {
        use std::collections::btree_map::Entry;
        match self.0.entry(number) {
            Entry::Occupied(entry) => Some(entry.into_mut()),
            Entry::Vacant(entry) => space.take().then(|| entry.insert(zeroed())),
        }
    }

    /// How many blocks [`reserve`](Self::reserve) would add.
    pub fn missing(&self, range: &Range<u64>) -> u64 {
        let (first, end) = (range.start / BLOCK_BYTES, range.end.div_ceil(BLOCK_BYTES));
        end - first - self.0.range(first..end).count() as u64
    }

    /// Allocates all of `range`; the caller has made sure that there is room.
    pub fn reserve(&mut self, range: Range<u64>, space: &mut Space) {
        for (number, _, _) in parts(range) {
            self.block(number, space);
        }
    }

    /// Makes `range` read as zeroes, giving whole blocks back.
    pub fn clear(&mut self, range: Range<u64>, space: &mut Space) {
        let whole = range.start.div_ceil(BLOCK_BYTES)..range.end / BLOCK_BYTES;
        if whole.start < whole.end {
            self.drop_blocks(whole, space);
        }
        // What is left are the parts at both ends, in blocks that stay.
        let first = range.start..range.end.min(range.start.next_multiple_of(BLOCK_BYTES));
        let last = first.end.max(range.end - range.end % BLOCK_BYTES)..range.end;
        for (number, start, len) in parts(first).chain(parts(last)) {
            if let Some(block) = self.0.get_mut(&number) {
                block[start..start + len].fill(0);
            }
        }
    }

    /// Drops everything from `size` on.
    pub fn truncate(&mut self, size: u64, space: &mut Space) {
        self.drop_blocks(size.div_ceil(BLOCK_BYTES)..u64::MAX, space);
        let tail = (size % BLOCK_BYTES) as usize;
        if tail > 0
            && let Some(block) = self.0.get_mut(&(size / BLOCK_BYTES))
        {
            block[tail..].fill(0);
        }
    }

    fn drop_blocks(&mut self, numbers: Range<u64>, space: &mut Space) {
        let mut tail = self.0.split_off(&numbers.start);
        let mut rest = tail.split_off(&numbers.end);
        self.0.append(&mut rest);
        space.used -= tail.len() as u64;
    }

    /// First byte at or after `offset` that is in a block.
    pub fn next_data(&self, offset: u64) -> Option<u64> {
        let (number, _) = self.0.range(offset / BLOCK_BYTES..).next()?;
        Some(offset.max(number * BLOCK_BYTES))
    }

    /// First byte at or after `offset` that is in no block.
    pub fn next_hole(&self, offset: u64) -> u64 {
        let mut number = offset / BLOCK_BYTES;
        for (have, _) in self.0.range(number..) {
            if *have != number {
                break;
            }
            number += 1;
        }
        offset.max(number * BLOCK_BYTES)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[derive(Clone, Debug)]
    enum Op {
        Write(u64, usize, u8),
        Clear(u64, u64),
        Truncate(u64),
        Reserve(u64, u64),
    }

    const SIZE: u64 = 5 * BLOCK_BYTES;

    fn op() -> impl Strategy<Value = Op> + Clone {
        let edge = prop_oneof![
            0..SIZE,
            (0..5_u64).prop_map(|n| n * BLOCK_BYTES),
            (1..5_u64).prop_map(|n| n * BLOCK_BYTES - 1),
        ];
        prop_oneof![
            (edge.clone(), 0..9000_usize, 1..255_u8).prop_map(|(at, len, byte)| Op::Write(
                at,
                len.min((SIZE - at) as usize),
                byte
            )),
            (edge.clone(), edge.clone()).prop_map(|(a, b)| Op::Clear(a.min(b), a.max(b))),
            edge.clone().prop_map(Op::Truncate),
            (edge.clone(), edge).prop_map(|(a, b)| Op::Reserve(a.min(b), a.max(b))),
        ]
    }

    proptest! {
        #[test]
        fn blocks_hold_what_a_plain_vector_holds(ops in prop::collection::vec(op(), 1..40)) {
            let mut blocks = Blocks::default();
            let mut space = Space { used: 0, max: u64::MAX };
            let mut model = vec![0_u8; SIZE as usize];
            for op in ops {
                match op {
                    Op::Write(at, len, byte) => {
                        let done = blocks.write(at, len, &mut space, |_, to| to.fill(byte));
                        prop_assert_eq!(done, len);
                        model[at as usize..at as usize + len].fill(byte);
                    }
                    Op::Clear(start, end) => {
                        blocks.clear(start..end, &mut space);
                        model[start as usize..end as usize].fill(0);
                    }
                    Op::Truncate(size) => {
                        blocks.truncate(size, &mut space);
                        model[size as usize..].fill(0);
                    }
                    Op::Reserve(start, end) => {
                        let missing = blocks.missing(&(start..end));
                        let before = blocks.len();
                        blocks.reserve(start..end, &mut space);
                        if start < end {
                            prop_assert_eq!(blocks.len() - before, missing);
                        }
                    }
                }
                prop_assert_eq!(space.used, blocks.len());
                let mut all = vec![1; SIZE as usize];
                blocks.read(0, SIZE as usize, |at, part| match part {
                    Part::Data(bytes) => all[at..at + bytes.len()].copy_from_slice(bytes),
                    Part::Hole(n) => all[at..at + n].fill(0),
                });
                prop_assert_eq!(&all, &model);
                for at in [0, 1, BLOCK_BYTES, SIZE - 1] {
                    let hole = blocks.next_hole(at).min(SIZE);
                    let data = blocks.next_data(at).unwrap_or(SIZE);
                    prop_assert!(hole == at || data == at);
                    prop_assert!(model[at as usize..data as usize].iter().all(|b| *b == 0));
                }
            }
        }
    }
}
