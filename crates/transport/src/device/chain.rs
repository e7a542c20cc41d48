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
