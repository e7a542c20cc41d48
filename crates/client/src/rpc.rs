//! One typed function per operation: arguments in, checked reply out.
//!
//! Nothing here knows what a node is beyond its number: a [`Target`] is a number and the object
//! that must stay until the peer has answered.

use crate::engine::{Call, Engine, Keep, Keeps, Payload, Pending, Reply, Ticket};
use fusewire_mem::{Frames, order_for};
use fusewire_sync::Arc;
use fusewire_wire::abi::{
    AttrOut, EntryOut, FlushIn, FsyncIn, Kstatfs, OpenOut, ReadIn, ReleaseIn, SetattrIn, WriteIn,
};
use fusewire_wire::init::{self, InitError, LocalLimits, Negotiated, Offer};
use fusewire_wire::reply::{self, ReplyError};
use fusewire_wire::{
    Caller, Extensions, FsyncFlags, Name, Opcode, OpenOutFlags, Request, Target as LinkTarget,
};
use rustix::io::Errno;

/// Something a request is about.
pub(crate) trait Target {
    /// Its number at the peer.
    fn nodeid(&self) -> u64;
    /// What must stay until the peer has answered.
    fn keep(&self) -> Arc<dyn Keep>;
}

/// An open file or directory as the peer knows it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Opened {
    pub(crate) fh: u64,
    /// `O_*` flags it was opened with.
    pub(crate) flags: u32,
    /// What the peer allows or asks for.
    pub(crate) granted: OpenOutFlags,
    pub(crate) directory: bool,
}

impl Opened {
    fn new(open: &OpenOut, flags: u32, directory: bool) -> Self {
        Opened {
            directory,
            fh: open.fh,
            flags,
            granted: OpenOutFlags::from_bits_retain(open.open_flags),
        }
    }
}

/// A new object: where, under which name, and with which rights.
pub(crate) struct New<'a, T: Target> {
    pub(crate) dir: &'a T,
    pub(crate) name: Name<'a>,
    pub(crate) mode: u32,
    pub(crate) umask: u32,
}

/// The protocol over one engine.
#[derive(Debug)]
pub(crate) struct Rpc {
    engine: Arc<Engine>,
    negotiated: Negotiated,
    caller: Caller,
}

/// Sends INIT and works out what was agreed.
///
/// # Errors
/// What the engine says, or that the versions do not go together.
pub(crate) fn negotiate(
    engine: &Engine,
    offer: &Offer,
    limits: &LocalLimits,
) -> Result<Negotiated, NegotiateError> {
    let call = Call {
        nodeid: 0,
        request: Request::Init(offer.to_init_in()),
        caller: Caller::default(),
        extensions: Extensions::default(),
        payload: Payload::None,
        keeps: [None, None],
    };
    let reply = engine.call(call).map_err(NegotiateError::Call)?;
    init::negotiate(offer, limits, reply.head.body()).map_err(NegotiateError::Init)
}

/// Why a connection could not begin.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum NegotiateError {
    #[error("INIT failed: {0}")]
    Call(Errno),
    #[error(transparent)]
    Init(InitError),
}

impl Rpc {
    pub(crate) fn new(engine: Arc<Engine>, negotiated: Negotiated, caller: Caller) -> Self {
        Rpc {
            engine,
            negotiated,
            caller,
        }
    }

    pub(crate) fn engine(&self) -> &Arc<Engine> {
        &self.engine
    }

    pub(crate) fn negotiated(&self) -> &Negotiated {
        &self.negotiated
    }

    fn start<'e>(
        &'e self,
        ticket: Ticket<'e>,
        nodeid: u64,
        keeps: Keeps,
        request: Request<'_>,
        payload: Payload,
    ) -> Result<Pending<'e>, Errno> {
        if !self.negotiated.allows(request.opcode()) {
            return Err(Errno::NOSYS);
        }
        let call = Call {
            nodeid,
            extensions: Extensions::default(),
            request,
            caller: self.caller,
            payload,
            keeps,
        };
        self.engine.send(ticket, call)
    }

    fn call(&self, on: &impl Target, request: Request<'_>) -> Result<Reply, Errno> {
        self.call_on_two(on, None, request)
    }

    fn call_on_two(
        &self,
        on: &impl Target,
        second: Option<Arc<dyn Keep>>,
        request: Request<'_>,
    ) -> Result<Reply, Errno> {
        let keeps = [Some(on.keep()), second];
        let ticket = self.engine.reserve()?;
        self.start(ticket, on.nodeid(), keeps, request, Payload::None)?
            .wait()
    }

    fn entry(&self, on: &impl Target, request: Request<'_>) -> Result<EntryOut, Errno> {
        let reply = self.call(on, request)?;
        reply::entry(reply.head.body()).map_err(malformed)
    }

    fn done(&self, on: &impl Target, request: Request<'_>) -> Result<(), Errno> {
        let reply = self.call(on, request)?;
        reply::empty(reply.head.body()).map_err(malformed)
    }

    /// `nodeid` 0 in the result: the name does not exist, and that may be cached.
    pub(crate) fn lookup(&self, dir: &impl Target, name: Name<'_>) -> Result<EntryOut, Errno> {
        self.entry(dir, Request::Lookup { name })
    }

    pub(crate) fn getattr(&self, on: &impl Target, fh: Option<u64>) -> Result<AttrOut, Errno> {
        let reply = self.call(on, Request::Getattr { fh })?;
        reply::attr(reply.head.body()).map_err(malformed)
    }

    pub(crate) fn setattr(&self, on: &impl Target, change: SetattrIn) -> Result<AttrOut, Errno> {
        let reply = self.call(on, Request::Setattr(change))?;
        reply::attr(reply.head.body()).map_err(malformed)
    }

    pub(crate) fn readlink(&self, on: &impl Target) -> Result<Vec<u8>, Errno> {
        let room = Request::Readlink.reply().payload_max_bytes;
        let (frames, len) = self.read_payload(on, room, Request::Readlink)?;
        let target = frames.bytes(0, len).to_vec();
        // An empty target, or one with a NUL, cannot have come from symlink(2).
        if target.is_empty() || target.contains(&0) {
            return Err(Errno::IO);
        }
        Ok(target)
    }

    pub(crate) fn symlink(
        &self,
        new: &New<'_, impl Target>,
        target: LinkTarget<'_>,
    ) -> Result<EntryOut, Errno> {
        let name = new.name;
        self.entry(new.dir, Request::Symlink { name, target })
    }

    pub(crate) fn mknod(&self, new: &New<'_, impl Target>, rdev: u32) -> Result<EntryOut, Errno> {
        let request = Request::Mknod {
            name: new.name,
            mode: new.mode,
            rdev,
            umask: new.umask,
        };
        self.entry(new.dir, request)
    }

    pub(crate) fn mkdir(&self, new: &New<'_, impl Target>) -> Result<EntryOut, Errno> {
        let request = Request::Mkdir {
            name: new.name,
            mode: new.mode,
            umask: new.umask,
        };
        self.entry(new.dir, request)
    }

    pub(crate) fn create(
        &self,
        new: &New<'_, impl Target>,
        flags: u32,
    ) -> Result<(EntryOut, Opened), Errno> {
        let request = Request::Create {
            name: new.name,
            flags,
            mode: new.mode,
            umask: new.umask,
            open_flags: 0,
        };
        let reply = self.call(new.dir, request)?;
        let (entry, open) = reply::create(reply.head.body()).map_err(malformed)?;
        Ok((entry, Opened::new(&open, flags, false)))
    }

    pub(crate) fn unlink(&self, dir: &impl Target, name: Name<'_>) -> Result<(), Errno> {
        self.done(dir, Request::Unlink { name })
    }

    pub(crate) fn rmdir(&self, dir: &impl Target, name: Name<'_>) -> Result<(), Errno> {
        self.done(dir, Request::Rmdir { name })
    }

    /// RENAME, or RENAME2 when there are flags.
    pub(crate) fn rename(
        &self,
        from: (&impl Target, Name<'_>),
        to: (&impl Target, Name<'_>),
        flags: u32,
    ) -> Result<(), Errno> {
        let (new_dir, name, new_name) = (to.0.nodeid(), from.1, to.1);
        let request = if flags == 0 {
            Request::Rename {
                new_dir,
                name,
                new_name,
            }
        } else {
            Request::Rename2 {
                new_dir,
                flags,
                name,
                new_name,
            }
        };
        let result = self.call_on_two(from.0, Some(to.0.keep()), request);
        match result {
            // As rename(2) says of a file system that does not know the flags.
            Err(Errno::NOSYS) if flags != 0 => Err(Errno::INVAL),
            Err(errno) => Err(errno),
            Ok(reply) => reply::empty(reply.head.body()).map_err(malformed),
        }
    }

    pub(crate) fn link(
        &self,
        original: &impl Target,
        dir: &impl Target,
        new_name: Name<'_>,
    ) -> Result<EntryOut, Errno> {
        let request = Request::Link {
            old_node: original.nodeid(),
            new_name,
        };
        match self.call_on_two(dir, Some(original.keep()), request) {
            // As link(2) says of a file system without hard links.
            Err(Errno::NOSYS) => Err(Errno::PERM),
            Err(errno) => Err(errno),
            Ok(reply) => reply::entry(reply.head.body()).map_err(malformed),
        }
    }

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
        let reply = self.call(on, request)?;
        let open = reply::open(reply.head.body()).map_err(malformed)?;
        let directory = matches!(request, Request::Opendir { .. });
        Ok(Opened::new(&open, flags, directory))
    }

    pub(crate) fn flush(&self, on: &impl Target, open: &Opened) -> Result<(), Errno> {
        let arg = FlushIn {
            fh: open.fh,
            ..FlushIn::default()
        };
        match self.done(on, Request::Flush(arg)) {
            // A daemon without FLUSH has nothing to flush.
            Err(Errno::NOSYS) => Ok(()),
            result => result,
        }
    }

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
        match self.done(on, Request::Fsync(arg)) {
            Err(Errno::NOSYS) => Ok(()),
            result => result,
        }
    }

    /// Closes an open file or directory at the peer; waits for it where the transport wants that.
    /// Whatever the peer says, the handle is gone.
    pub(crate) fn release(&self, on: &impl Target, open: &Opened) {
        if !self.engine.transport().limits().sync_release {
            self.release_later(on.nodeid(), on.keep(), open);
        } else if let Ok(ticket) = self.engine.reserve() {
            let keeps = [Some(on.keep()), None];
            let request = release_request(open);
            let sent = self.start(ticket, on.nodeid(), keeps, request, Payload::None);
            let _ = sent.and_then(Pending::wait);
        }
    }

    /// As [`Rpc::release`], without waiting for anything.
    pub(crate) fn release_later(&self, nodeid: u64, keep: Arc<dyn Keep>, open: &Opened) {
        self.engine.send_later(nodeid, release_request(open), keep);
    }

    pub(crate) fn statfs(&self, on: &impl Target) -> Result<Kstatfs, Errno> {
        let reply = self.call(on, Request::Statfs)?;
        let statfs = reply::statfs(reply.head.body()).map_err(malformed)?;
        Ok(statfs.st)
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

    /// A call whose reply is up to `room` bytes of payload.
    fn read_payload(
        &self,
        on: &impl Target,
        room: u32,
        request: Request<'_>,
    ) -> Result<(Frames, usize), Errno> {
        let frames = self.frames(room)?;
        let ticket = self.engine.reserve()?;
        let keeps = [Some(on.keep()), None];
        let payload = Payload::In(frames, room);
        let reply = self
            .start(ticket, on.nodeid(), keeps, request, payload)?
            .wait()?;
        reply.payload.ok_or(Errno::IO)
    }

    /// Frames for exactly `bytes`; waits for them.
    fn frames(&self, bytes: u32) -> Result<Frames, Errno> {
        let order = order_for(bytes as usize);
        let frames = self.engine.arena().alloc_or_wait(order);
        match frames.ok_or(Errno::NOTCONN)? {
            frames if frames.len() >= bytes as usize => Ok(frames),
            // Fragmented by data in flight.
            _ => Err(Errno::NOMEM),
        }
    }

    /// Starts a READ into `frames`.
    pub(crate) fn start_read<'e>(
        &'e self,
        ticket: Ticket<'e>,
        on: &impl Target,
        open: &Opened,
        offset: u64,
        frames: Frames,
        len: u32,
    ) -> Result<Pending<'e>, Errno> {
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
    pub(crate) fn start_write<'e>(
        &'e self,
        ticket: Ticket<'e>,
        on: &impl Target,
        open: &Opened,
        offset: u64,
        frames: Frames,
        len: u32,
    ) -> Result<Pending<'e>, Errno> {
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

    /// Whether the peer has READDIRPLUS and agreed to it.
    pub(crate) fn has_readdirplus(&self) -> bool {
        self.negotiated
            .flags
            .contains(fusewire_wire::InitFlags::DO_READDIRPLUS)
            && self.negotiated.allows(Opcode::Readdirplus)
    }
}

fn release_request(open: &Opened) -> Request<'static> {
    let arg = ReleaseIn {
        fh: open.fh,
        flags: open.flags,
        ..ReleaseIn::default()
    };
    if open.directory {
        Request::Releasedir(arg)
    } else {
        Request::Release(arg)
    }
}

/// Says goodbye; the peer may answer or not.
pub(crate) fn destroy(engine: &Engine) {
    let call = Call {
        nodeid: 0,
        request: Request::Destroy,
        caller: Caller::default(),
        extensions: Extensions::default(),
        payload: Payload::None,
        keeps: [None, None],
    };
    let _ = engine.call(call);
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

fn malformed(_: ReplyError) -> Errno {
    Errno::IO
}
