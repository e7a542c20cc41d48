//! File data straight through READ and WRITE: split by the limits, several in flight, in order.
//!
//! Data passes through frames of the arena, because a peer never sees the caller's own memory.
//! Only the first request of a pipeline waits for a slot or for frames; the others take what is
//! free, so that callers who hold some never wait for each other.

use crate::cred::Cred;
use crate::engine::{Pending, Reply, Ticket};
use crate::handle::Handle;
use crate::node::Node;
use crate::rpc::{self, Opened};
use fusewire_mem::{FRAME_BYTES, Frames, MAX_ORDER, SharedBytes, order_for};
use fusewire_sync::Arc;
use fusewire_wire::OpenOutFlags;
use rustix::io::Errno;
use std::collections::VecDeque;

/// Requests of one call in flight. More gains nothing with one queue at the peer.
const DEPTH: usize = 4;

/// Largest offset of a byte in a file.
const MAX_OFFSET: u64 = i64::MAX as u64;

/// An open file, as far as its data is concerned.
#[derive(Clone, Copy)]
pub(crate) struct Data<'a> {
    pub(crate) handle: &'a Arc<Handle>,
    pub(crate) cred: &'a Cred,
}

/// A request of a pipeline.
struct Chunk<'e> {
    pending: Pending<'e>,
    offset: u64,
    len: u32,
}

impl<'a> Data<'a> {
    fn node(&self) -> &'a Arc<Node> {
        self.handle.node()
    }

    fn open(&self) -> &'a Opened {
        self.handle.open()
    }

    /// Reads up to `len` bytes from `offset` on and hands them to `take`, in order; returns how
    /// many there were. Fewer than `len` means the end of the file, or an error after the first
    /// bytes, which the next call meets again.
    ///
    /// # Errors
    /// What the peer says to the first READ, or what `take` says.
    pub(crate) fn read(
        &self,
        offset: u64,
        len: u64,
        mut take: impl FnMut(u64, SharedBytes<'_>) -> Result<(), Errno>,
    ) -> Result<u64, Errno> {
        let end = end_of(offset, len)?;
        let limit = self.max_read_bytes();
        // Further requests go out early only where data is known to be.
        let likely_end = self.node().size_hint().min(end);
        let mut flying: VecDeque<Chunk<'a>> = VecDeque::new();
        let (mut next, mut done) = (offset, offset);
        let outcome = loop {
            while next < end && flying.len() < DEPTH && (flying.is_empty() || next < likely_end) {
                let want = limit.min(u32::try_from(end - next).unwrap_or(u32::MAX));
                let Some((ticket, frames)) = self.resources(want, flying.is_empty())? else {
                    break;
                };
                let len = want.min(frames.len() as u32);
                let rpc = self.node().core().rpc(self.cred);
                let pending =
                    rpc.start_read(ticket, self.handle, self.open(), next, frames, len)?;
                let offset = next;
                flying.push_back(Chunk {
                    pending,
                    offset,
                    len,
                });
                next += u64::from(len);
            }
            let Some(chunk) = flying.pop_front() else {
                break Ok(());
            };
            let reply = match chunk.pending.wait() {
                Ok(reply) => reply,
                Err(errno) => break Err(errno),
            };
            let Some((frames, got)) = reply.payload else {
                break Err(Errno::IO);
            };
            let got = got.min(chunk.len as usize);
            if let Err(errno) = take(chunk.offset, frames.bytes(0, got)) {
                break Err(errno);
            }
            done += got as u64;
            if got < chunk.len as usize {
                break Ok(());
            }
        };
        settle(flying);
        match outcome {
            Err(errno) if done == offset => Err(errno),
            _ => Ok(done - offset),
        }
    }

    /// Writes up to `len` bytes at `offset`, which `fill` puts into the memory it is given (and
    /// says how many, fewer meaning the end); returns how many the peer took, in order, without a
    /// gap.
    ///
    /// # Errors
    /// What the peer says to the first WRITE, or what `fill` says before anything was written.
    pub(crate) fn write(
        &self,
        offset: u64,
        len: u64,
        mut fill: impl FnMut(u64, SharedBytes<'_>) -> Result<usize, Errno>,
    ) -> Result<u64, Errno> {
        let end = end_of(offset, len)?;
        let limit = self.max_write_bytes();
        let depth = if self.is_append() { 1 } else { DEPTH };
        self.node().drop_set_id(self.cred)?;
        let change = self.node().change_size();
        let mut flying: VecDeque<Chunk<'a>> = VecDeque::new();
        let (mut next, mut done) = (offset, offset);
        let mut filled_all = false;
        let outcome = loop {
            let mut failed = None;
            while next < end && flying.len() < depth && !filled_all {
                let want = limit.min(u32::try_from(end - next).unwrap_or(u32::MAX));
                let Some((ticket, frames)) = self.resources(want, flying.is_empty())? else {
                    break;
                };
                let want = want.min(frames.len() as u32);
                let filled = match fill(next, frames.bytes(0, want as usize)) {
                    Ok(filled) => filled.min(want as usize) as u32,
                    Err(errno) => {
                        failed = Some(errno);
                        filled_all = true;
                        break;
                    }
                };
                filled_all = filled < want;
                if filled == 0 {
                    break;
                }
                let rpc = self.node().core().rpc(self.cred);
                let pending =
                    rpc.start_write(ticket, self.handle, self.open(), next, frames, filled)?;
                flying.push_back(Chunk {
                    pending,
                    offset: next,
                    len: filled,
                });
                next += u64::from(filled);
            }
            let Some(chunk) = flying.pop_front() else {
                break failed.map_or(Ok(()), Err);
            };
            let taken = chunk
                .pending
                .wait()
                .and_then(|reply: Reply| rpc::written(&reply, chunk.len));
            match taken {
                Ok(taken) => {
                    done = chunk.offset + u64::from(taken);
                    change.extend(done);
                    if taken < chunk.len {
                        break Ok(());
                    }
                }
                Err(errno) => break Err(errno),
            }
        };
        settle(flying);
        match outcome {
            Err(errno) if done == offset => Err(errno),
            _ => Ok(done - offset),
        }
    }

    fn is_append(&self) -> bool {
        self.open().flags & rustix::fs::OFlags::APPEND.bits() != 0
    }

    /// Whether the file has no position: every READ and WRITE is at 0.
    pub(crate) fn is_stream(&self) -> bool {
        self.open().granted.contains(OpenOutFlags::STREAM)
    }

    fn max_read_bytes(&self) -> u32 {
        let core = self.node().core();
        let pages = u32::from(core.peer.negotiated().max_pages);
        let limits = core.peer.engine().transport().limits();
        (pages * FRAME_BYTES as u32)
            .min(limits.max_payload_bytes)
            .min((FRAME_BYTES as u32) << MAX_ORDER)
    }

    fn max_write_bytes(&self) -> u32 {
        let max = self.node().core().peer.negotiated().max_write_bytes;
        self.max_read_bytes().min(max)
    }

    /// A slot and frames for up to `bytes`; waits for them only when `wait` says so.
    fn resources(&self, bytes: u32, wait: bool) -> Result<Option<(Ticket<'a>, Frames)>, Errno> {
        let engine = self.node().core().peer.engine();
        let order = order_for(bytes as usize);
        if wait {
            let token = &self.cred.token;
            let frames = engine
                .arena()
                .alloc_or_wait(order, || token.is_cancelled())
                .map_err(rpc::denial)?;
            return Ok(Some((engine.reserve(Some(token))?, frames)));
        }
        let Some(frames) = engine.arena().alloc(order) else {
            return Ok(None);
        };
        Ok(engine.try_reserve().map(|ticket| (ticket, frames)))
    }
}

/// As many of `len` bytes as a file can have from `offset` on.
pub(crate) fn at_most(len: u64, offset: u64) -> u64 {
    len.min(MAX_OFFSET.saturating_sub(offset))
}

/// The end of a range that a call is about.
///
/// # Errors
/// EINVAL beyond the last offset, as pread(2) and pwrite(2) say.
fn end_of(offset: u64, len: u64) -> Result<u64, Errno> {
    let end = offset.checked_add(len).filter(|end| *end <= MAX_OFFSET);
    end.ok_or(Errno::INVAL)
}

/// Waits for what is still in flight, so that nothing of a call outlives it.
fn settle(flying: VecDeque<Chunk<'_>>) {
    for chunk in flying {
        let _ = chunk.pending.wait();
    }
}
