//! Reading a chain of descriptors that a driver made, believing nothing.

use crate::ring::layout::{DESC_BYTES, RingLayout};
use crate::ring::memory::RingMemory;
use crate::ring::parts::{F_INDIRECT, F_NEXT, F_WRITE};

/// Longest chain that is followed.
const MAX_CHAIN: u32 = 1024;

/// What is wrong with a ring or a chain.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum DriverFault {
    #[error("avail index moved from {from} to {to}, more than the queue holds")]
    IndexJump { from: u16, to: u16 },
    #[error("descriptor {0} is outside the queue")]
    OutOfRange(u16),
    #[error("descriptor {0} was made available twice")]
    Twice(u16),
    #[error("chain {0} loops or is too long")]
    TooLong(u16),
    #[error("chain {0} has a readable buffer behind a writable one")]
    Order(u16),
    #[error("chain {0} has an empty buffer")]
    Empty(u16),
    #[error("chain {0} leaves the shared memory")]
    OutOfBounds(u16),
    #[error("chain {0} has an indirect table that is not alone, nested, empty or of a broken size")]
    Indirect(u16),
}

/// A buffer in memory that both sides share.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Buffer {
    pub(crate) region: RegionId,
    pub(crate) offset: u64,
    pub(crate) len: u32,
}

/// Which shared region.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RegionId {
    Ring,
    Arena,
}

/// A chain's buffers, the readable ones first.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Buffers {
    pub(crate) all: Vec<Buffer>,
    /// How many of them are readable.
    pub(crate) readable: usize,
    pub(crate) readable_bytes: usize,
    pub(crate) writable_bytes: usize,
}

#[derive(Clone, Copy)]
struct Descriptor {
    addr: u64,
    len: u32,
    flags: u16,
    next: u16,
}

fn read<M: RingMemory>(memory: &M, at: u64) -> Descriptor {
    Descriptor {
        addr: memory.load_u64(at),
        len: memory.load_u32(at + 8),
        flags: memory.load_u16(at + 12),
        next: memory.load_u16(at + 14),
    }
}

/// A table of descriptors: the queue's own or an indirect one.
#[derive(Clone, Copy)]
struct Table {
    at: u64,
    len: u32,
}

/// The chain that starts at descriptor `head` of `ring`. `locate` finds the
/// shared memory behind an address, in one piece, or `None`.
pub(crate) fn follow<M: RingMemory>(
    memory: &M,
    ring: RingLayout,
    head: u16,
    locate: impl Fn(u64, u32) -> Option<Buffer>,
) -> Result<Buffers, DriverFault> {
    let mut buffers = Buffers::default();
    let mut table = Table {
        at: ring.desc,
        len: u32::from(ring.size),
    };
    let mut index = head;
    let mut seen = 0;
    loop {
        if u32::from(index) >= table.len {
            return Err(DriverFault::OutOfRange(index));
        }
        let desc = read(memory, table.at + DESC_BYTES * u64::from(index));
        if desc.flags & F_INDIRECT != 0 {
            let alone = seen == 0 && table.at == ring.desc && desc.flags == F_INDIRECT;
            let entries = desc.len / DESC_BYTES as u32;
            let whole = desc.len.is_multiple_of(DESC_BYTES as u32);
            if !alone || !whole || entries == 0 || entries > MAX_CHAIN {
                return Err(DriverFault::Indirect(head));
            }
            let found = locate(desc.addr, desc.len)
                .filter(|b| b.region == RegionId::Ring && b.offset.is_multiple_of(8))
                .ok_or(DriverFault::OutOfBounds(head))?;
            table = Table {
                at: found.offset,
                len: entries,
            };
            index = 0;
            continue;
        }
        seen += 1;
        if seen > table.len.min(MAX_CHAIN) {
            return Err(DriverFault::TooLong(head));
        }
        let writable = desc.flags & F_WRITE != 0;
        if !writable && buffers.readable < buffers.all.len() {
            return Err(DriverFault::Order(head));
        }
        if desc.len == 0 {
            return Err(DriverFault::Empty(head));
        }
        let buffer = locate(desc.addr, desc.len).ok_or(DriverFault::OutOfBounds(head))?;
        buffers.all.push(buffer);
        let total = if writable {
            &mut buffers.writable_bytes
        } else {
            buffers.readable += 1;
            &mut buffers.readable_bytes
        };
        *total += buffer.len as usize;
        if desc.flags & F_NEXT == 0 {
            return Ok(buffers);
        }
        index = desc.next;
    }
}

#[cfg(all(test, not(any(fusewire_sync = "loom", fusewire_sync = "shuttle"))))]
mod tests {
    use super::*;
    use fusewire_mem::Region;
    use proptest::prelude::*;

    /// A ring in a region, and a second region of 64 KiB that stands for the arena at address
    /// [`ARENA`].
    struct Memory {
        region: Region,
        ring: RingLayout,
    }

    const ARENA: u64 = 1 << 40;
    const ARENA_BYTES: u64 = 64 << 10;
    const SIZE: u16 = 8;
    /// Where the tests put indirect tables.
    const TABLE: u64 = 4096;

    impl Memory {
        fn new() -> Self {
            let region = Region::new("test", 8192).unwrap();
            let (ring, end) = RingLayout::new(SIZE, 0);
            assert!(end <= TABLE);
            Memory { region, ring }
        }

        fn put(&self, at: u64, addr: u64, len: u32, flags: u16, next: u16) {
            self.region.store_u64(at, addr);
            self.region.store_u32(at + 8, len);
            self.region.store_u16(at + 12, flags);
            self.region.store_u16(at + 14, next);
        }

        fn desc(&self, id: u16, addr: u64, len: u32, flags: u16, next: u16) -> &Self {
            self.put(self.ring.desc_at(id), addr, len, flags, next);
            self
        }

        fn entry(&self, i: u64, addr: u64, len: u32, flags: u16, next: u16) -> &Self {
            self.put(TABLE + 16 * i, addr, len, flags, next);
            self
        }

        /// The address of offset `at` of the ring's region, which lies at 0.
        fn follow(&self, head: u16) -> Result<Buffers, DriverFault> {
            let locate = |addr: u64, len: u32| {
                let found = |region, base: u64, bytes: u64| {
                    let offset = addr.checked_sub(base)?;
                    let end = offset.checked_add(u64::from(len))?;
                    (end <= bytes).then_some(Buffer {
                        region,
                        offset,
                        len,
                    })
                };
                found(RegionId::Ring, 0, self.region.len() as u64)
                    .or_else(|| found(RegionId::Arena, ARENA, ARENA_BYTES))
            };
            follow(&self.region, self.ring, head, locate)
        }
    }

    #[test]
    fn a_sound_chain_is_read_in_order() {
        let memory = Memory::new();
        memory
            .desc(3, TABLE, 40, F_NEXT, 1)
            .desc(1, ARENA, 4096, F_NEXT, 7)
            .desc(7, ARENA + 4096, 16, F_WRITE, 0);
        let buffers = memory.follow(3).unwrap();
        assert_eq!(buffers.readable, 2);
        assert_eq!((buffers.readable_bytes, buffers.writable_bytes), (4136, 16));
        let offsets: Vec<_> = buffers.all.iter().map(|b| (b.region, b.offset)).collect();
        assert_eq!(
            offsets,
            [
                (RegionId::Ring, TABLE),
                (RegionId::Arena, 0),
                (RegionId::Arena, 4096)
            ]
        );
        memory.desc(0, TABLE, 32, F_INDIRECT, 0);
        memory.entry(0, ARENA, 1, F_NEXT, 1);
        memory.entry(1, ARENA, 2, F_WRITE, 9);
        let buffers = memory.follow(0).unwrap();
        assert_eq!((buffers.readable_bytes, buffers.writable_bytes), (1, 2));
    }

    #[test]
    fn each_way_to_break_a_chain_is_named() {
        let memory = Memory::new();
        assert_eq!(memory.follow(8), Err(DriverFault::OutOfRange(8)));
        memory.desc(0, ARENA, 1, F_NEXT, 8);
        assert_eq!(memory.follow(0), Err(DriverFault::OutOfRange(8)));
        memory.desc(0, ARENA, 1, F_NEXT, 0);
        assert_eq!(memory.follow(0), Err(DriverFault::TooLong(0)));
        memory
            .desc(0, ARENA, 1, F_WRITE | F_NEXT, 1)
            .desc(1, ARENA, 1, 0, 0);
        assert_eq!(memory.follow(0), Err(DriverFault::Order(0)));
        memory.desc(0, ARENA, 0, 0, 0);
        assert_eq!(memory.follow(0), Err(DriverFault::Empty(0)));
        for (addr, len) in [
            (ARENA + ARENA_BYTES, 1),
            (ARENA - 1, 2),
            (u64::MAX, 2),
            (ARENA, u32::MAX),
        ] {
            memory.desc(0, addr, len, 0, 0);
            assert_eq!(memory.follow(0), Err(DriverFault::OutOfBounds(0)));
        }
    }

    #[test]
    fn each_way_to_break_a_table_is_named() {
        let memory = Memory::new();
        let broken = Err(DriverFault::Indirect(0));
        for len in [0, 8, 17, 16 * (MAX_CHAIN + 1)] {
            memory.desc(0, TABLE, len, F_INDIRECT, 0);
            assert_eq!(memory.follow(0), broken);
        }
        memory.desc(0, TABLE, 16, F_INDIRECT | F_NEXT, 1);
        assert_eq!(memory.follow(0), broken);
        memory
            .desc(0, ARENA, 1, F_NEXT, 1)
            .desc(1, TABLE, 16, F_INDIRECT, 0);
        assert_eq!(memory.follow(0), broken);
        memory.desc(0, TABLE, 16, F_INDIRECT, 0);
        memory.entry(0, TABLE, 16, F_INDIRECT, 0);
        assert_eq!(memory.follow(0), broken);
        memory.entry(0, ARENA, 1, F_NEXT, 1);
        assert_eq!(memory.follow(0), Err(DriverFault::OutOfRange(1)));
        memory.entry(0, ARENA, 1, F_NEXT, 0);
        assert_eq!(memory.follow(0), Err(DriverFault::TooLong(0)));
        for addr in [ARENA, TABLE + 4, 8192, u64::MAX] {
            memory.desc(0, addr, 16, F_INDIRECT, 0);
            assert_eq!(memory.follow(0), Err(DriverFault::OutOfBounds(0)));
        }
    }

    proptest! {
        #[test]
        fn garbage_never_escapes(
            descriptors in prop::collection::vec(
                (
                    prop_oneof![0u64..9000, ARENA - 10..ARENA + ARENA_BYTES + 10, any::<u64>()],
                    prop_oneof![0u32..200, any::<u32>()],
                    0u16..8,
                    prop_oneof![0u16..10, any::<u16>()],
                ),
                24,
            ),
            head in 0u16..10,
        ) {
            let memory = Memory::new();
            for (i, (addr, len, flags, next)) in (0u16..).zip(descriptors) {
                if i < SIZE {
                    memory.desc(i, addr, len, flags, next);
                } else {
                    memory.entry(u64::from(i - SIZE), addr, len, flags, next);
                }
            }
            if let Ok(buffers) = memory.follow(head) {
                prop_assert!(!buffers.all.is_empty());
                let total: usize = buffers.all.iter().map(|b| b.len as usize).sum();
                prop_assert_eq!(total, buffers.readable_bytes + buffers.writable_bytes);
            }
        }
    }
}
