//! Open files and directories, and their data.

use super::{Opened, Peer, Rpc, Target, malformed};
use crate::engine::{Keep, Payload, Pending, Reply, Ticket};
use fusewire_mem::Frames;
use fusewire_sync::Arc;
use fusewire_wire::abi::{FlushIn, FsyncIn, ReadIn, ReleaseIn, WriteIn};
use fusewire_wire::{Caller, FsyncFlags, InitFlags, Opcode, ReleaseFlags, Request, reply};
use rustix::io::Errno;

impl Peer {
    /// Closes an open file or directory; waits for it where the transport wants that. Whatever the
    /// peer says, the handle is gone.
    pub(crate) fn release(&self, on: &impl Target, open: &Opened) {
        let Some(request) = at_end(open) else {
            return;
        };
        if !self.engine.transport().limits().sync_release {
            self.release_later(on.nodeid(), on.keep(), open);
        } else if let Ok(ticket) = self.engine.reserve(None) {
            let keeps = [Some(on.keep()), None];
            let rpc = self.rpc(Caller::default(), None);
            let sent = rpc.start(ticket, on.nodeid(), keeps, request, Payload::None);
            let _ = sent.and_then(Pending::wait);
        }
    }

    /// As [`Peer::release`], without waiting for anything.
    pub(crate) fn release_later(&self, nodeid: u64, keep: Arc<dyn Keep>, open: &Opened) {
        if let Some(request) = at_end(open) {
            self.engine.send_later(nodeid, request, keep);
        }
    }

    /// Whether the peer has READDIRPLUS and agreed to it.
    pub(crate) fn has_readdirplus(&self) -> bool {
        self.negotiated.flags.contains(InitFlags::DO_READDIRPLUS)
            && self.negotiated.allows(Opcode::Readdirplus)
    }
}

impl<'p> Rpc<'p> {
    pub(crate) fn open(&self, on: &impl Target, flags: u32) -> Result<Opened, Errno> {
        self.open_with(
            on,
            flags,
            Request::Open {
                flags,
                open_flags: 0,
            },
        )
    }

    pub(crate) fn opendir(&self, on: &impl Target, flags: u32) -> Result<Opened, Errno> {
        self.open_with(
            on,
            flags,
            Request::Opendir {
                flags,
                open_flags: 0,
            },
        )
    }

    fn open_with(
        &self,
        on: &impl Target,
        flags: u32,
        request: Request<'_>,
    ) -> Result<Opened, Errno> {
        let directory = matches!(request, Request::Opendir { .. });
        let reply = match self.call(on, request) {
            Err(Errno::NOSYS) if self.peer.remembers(request.opcode()) => {
                return Ok(Opened::stateless(flags, directory));
            }
            reply => reply?,
        };
        let open = reply::open(reply.head.body()).map_err(malformed)?;
        Ok(Opened::new(&open, flags, directory))
    }

    /// Returns whether the peer knows FLUSH: one without it has nothing to flush.
    pub(crate) fn flush(
        &self,
        on: &impl Target,
        open: &Opened,
        lock_owner: u64,
    ) -> Result<bool, Errno> {
        let arg = FlushIn {
            fh: open.fh,
            lock_owner,
            ..FlushIn::default()
        };
        let request = Request::Flush(arg);
        match self.done(on, request) {
            // Whoever is cancelled closes all the same, and the peer has to know of that.
            Err(Errno::INTR) if self.is_cancelled() => {
                self.engine().send_later(on.nodeid(), request, on.keep());
                Err(Errno::INTR)
            }
            Err(Errno::NOSYS) => Ok(false),
            result => result.map(|()| true),
        }
    }

    /// FSYNC, or FSYNCDIR for a directory. A peer that has neither has nothing to write.
    pub(crate) fn fsync(
        &self,
        on: &impl Target,
        open: &Opened,
        data_only: bool,
    ) -> Result<(), Errno> {
        let flags = if data_only {
            FsyncFlags::FDATASYNC
        } else {
            FsyncFlags::empty()
        };
        let arg = FsyncIn {
            fh: open.fh,
            fsync_flags: flags.bits(),
            padding: 0,
        };
        let request = if open.directory {
            Request::Fsyncdir(arg)
        } else {
            Request::Fsync(arg)
        };
        match self.done(on, request) {
            Err(Errno::NOSYS) => Ok(()),
            result => result,
        }
    }

    /// One batch of entries from `offset` on, at most `size` bytes of them.
    pub(crate) fn readdir(
        &self,
        on: &impl Target,
        open: &Opened,
        offset: u64,
        size: u32,
        plus: bool,
    ) -> Result<Vec<u8>, Errno> {
        let arg = ReadIn {
            fh: open.fh,
            offset,
            size,
            flags: open.flags,
            ..ReadIn::default()
        };
        let request = if plus {
            Request::Readdirplus(arg)
        } else {
            Request::Readdir(arg)
        };
        let (frames, len) = self.read_payload(on, size, request)?;
        Ok(frames.bytes(0, len).to_vec())
    }

    /// Starts a READ into `frames`.
    pub(crate) fn start_read(
        &self,
        ticket: Ticket<'p>,
        on: &impl Target,
        open: &Opened,
        offset: u64,
        frames: Frames,
        len: u32,
    ) -> Result<Pending<'p>, Errno> {
        let arg = ReadIn {
            fh: open.fh,
            offset,
            size: len,
            flags: open.flags,
            ..ReadIn::default()
        };
        let keeps = [Some(on.keep()), None];
        let payload = Payload::In(frames, len);
        self.start(ticket, on.nodeid(), keeps, Request::Read(arg), payload)
    }

    /// Starts a WRITE of the first `len` bytes of `frames`.
    pub(crate) fn start_write(
        &self,
        ticket: Ticket<'p>,
        on: &impl Target,
        open: &Opened,
        offset: u64,
        frames: Frames,
        len: u32,
    ) -> Result<Pending<'p>, Errno> {
        let arg = WriteIn {
            fh: open.fh,
            offset,
            size: len,
            flags: open.flags,
            ..WriteIn::default()
        };
        let keeps = [Some(on.keep()), None];
        let payload = Payload::Out(frames, len);
        self.start(ticket, on.nodeid(), keeps, Request::Write(arg), payload)
    }
}

/// What the peer has to be told at the end of what is open: a RELEASE, or that locks end which no
/// RELEASE does.
fn at_end(open: &Opened) -> Option<Request<'static>> {
    match (open.at_peer, open.flock_owner) {
        (true, _) => Some(release_request(open)),
        (false, 0) => None,
        (false, owner) => Some(super::lock::end_of_flock(open, owner)),
    }
}

fn release_request(open: &Opened) -> Request<'static> {
    let release_flags = match open.flock_owner {
        0 => ReleaseFlags::empty(),
        _ => ReleaseFlags::FLOCK_UNLOCK,
    };
    let arg = ReleaseIn {
        fh: open.fh,
        flags: open.flags,
        release_flags: release_flags.bits(),
        lock_owner: open.flock_owner,
    };
    if open.directory {
        Request::Releasedir(arg)
    } else {
        Request::Release(arg)
    }
}

/// Bytes a WRITE reply says were taken, of `sent`.
///
/// # Errors
/// EIO when it claims more than was sent.
pub(crate) fn written(reply: &Reply, sent: u32) -> Result<u32, Errno> {
    let out = reply::write(reply.head.body()).map_err(malformed)?;
    if out.size > sent {
        return Err(Errno::IO);
    }
    Ok(out.size)
}
