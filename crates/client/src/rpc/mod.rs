//! One typed function per operation: arguments in, checked reply out.
//!
//! Nothing here knows what a node is beyond its number: a [`Target`] is a number and the object
//! that must stay until the peer has answered.
//!
//! An operation that the peer does not know is asked for once: [`Peer`] remembers ENOSYS for those
//! that the protocol says so of, and answers later calls itself.

mod files;
mod lock;
mod names;
mod space;
mod special;
mod xattr;

pub(crate) use files::written;
pub(crate) use names::New;
pub(crate) use xattr::XATTR_MAX_BYTES;

use crate::engine::{Call, Engine, Keep, Keeps, Payload, Pending, Reply, Ticket, Token};
use fusewire_mem::{Denied, Frames, order_for};
use fusewire_sync::Arc;
use fusewire_sync::atomic::{AtomicU64, Ordering};
use fusewire_wire::abi::{EntryOut, OpenOut};
use fusewire_wire::init::{self, InitError, LocalLimits, Negotiated, Offer};
use fusewire_wire::reply::{self, ReplyError};
use fusewire_wire::{Caller, Extensions, InitFlags, Opcode, OpenOutFlags, Request};
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
    /// Owner of the flock(2) locks that end with it, 0 for none.
    pub(crate) flock_owner: u64,
    /// Whether the peer was asked to open it, and so has to be told of the end: one that keeps no
    /// state of open files says ENOSYS, and gets `fh` 0 from then on.
    pub(crate) at_peer: bool,
}

impl Opened {
    fn new(open: &OpenOut, flags: u32, directory: bool) -> Self {
        Opened {
            directory,
            fh: open.fh,
            flags,
            granted: OpenOutFlags::from_bits_retain(open.open_flags),
            flock_owner: 0,
            at_peer: true,
        }
    }

    /// Of a peer that keeps no state of what is open. What it serves may be cached over opens, as
    /// on Linux.
    fn stateless(flags: u32, directory: bool) -> Self {
        let granted = if directory {
            OpenOutFlags::KEEP_CACHE | OpenOutFlags::CACHE_DIR
        } else {
            OpenOutFlags::KEEP_CACHE
        };
        Opened {
            fh: 0,
            flags,
            granted,
            directory,
            flock_owner: 0,
            at_peer: false,
        }
    }
}

/// One peer: its engine, and what is known of it.
#[derive(Debug)]
pub(crate) struct Peer {
    engine: Arc<Engine>,
    negotiated: Negotiated,
    /// Operations the peer has answered with ENOSYS, by number.
    unknown: AtomicU64,
}

/// The protocol with one peer, on behalf of one caller.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Rpc<'p> {
    peer: &'p Peer,
    caller: Caller,
    token: Option<&'p Token>,
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
        token: None,
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

impl Peer {
    pub(crate) fn new(engine: Arc<Engine>, negotiated: Negotiated) -> Self {
        Peer {
            engine,
            negotiated,
            unknown: AtomicU64::new(0),
        }
    }

    /// The protocol, on behalf of `caller`, who may be cancelled by `token`.
    pub(crate) fn rpc<'p>(&'p self, caller: Caller, token: Option<&'p Token>) -> Rpc<'p> {
        Rpc {
            peer: self,
            caller,
            token,
        }
    }

    pub(crate) fn engine(&self) -> &Arc<Engine> {
        &self.engine
    }

    pub(crate) fn negotiated(&self) -> &Negotiated {
        &self.negotiated
    }

    /// Whether the peer is known not to have an operation.
    pub(crate) fn lacks(&self, opcode: Opcode) -> bool {
        !self.negotiated.allows(opcode) || self.unknown.load(Ordering::Relaxed) & bit(opcode) != 0
    }

    /// Whether ENOSYS to an operation means that it will always be ENOSYS.
    fn remembers(&self, opcode: Opcode) -> bool {
        let flags = self.negotiated.flags;
        match opcode {
            Opcode::Open => flags.contains(InitFlags::NO_OPEN_SUPPORT),
            Opcode::Opendir => flags.contains(InitFlags::NO_OPENDIR_SUPPORT),
            _ => is_remembered(opcode),
        }
    }

    /// The peer does not know an operation. Several callers may find out at once; they set the same
    /// bit.
    fn learn_unknown(&self, opcode: Opcode) {
        self.unknown.fetch_or(bit(opcode), Ordering::Relaxed);
    }
}

impl<'p> Rpc<'p> {
    fn engine(&self) -> &'p Arc<Engine> {
        &self.peer.engine
    }

    fn is_cancelled(&self) -> bool {
        self.token.is_some_and(Token::is_cancelled)
    }

    fn negotiated(&self) -> &'p Negotiated {
        &self.peer.negotiated
    }

    fn start(
        &self,
        ticket: Ticket<'p>,
        nodeid: u64,
        keeps: Keeps,
        request: Request<'_>,
        payload: Payload,
    ) -> Result<Pending<'p>, Errno> {
        let call = Call {
            nodeid,
            extensions: Extensions::default(),
            request,
            caller: self.caller,
            payload,
            keeps,
            token: self.token,
        };
        self.send(ticket, call)
    }

    fn send(&self, ticket: Ticket<'p>, call: Call<'_>) -> Result<Pending<'p>, Errno> {
        if self.peer.lacks(call.request.opcode()) {
            return Err(Errno::NOSYS);
        }
        self.engine().send(ticket, call)
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
        self.call_with(on.nodeid(), keeps, request, Extensions::default())
    }

    fn call_with(
        &self,
        nodeid: u64,
        keeps: Keeps,
        request: Request<'_>,
        extensions: Extensions<'_>,
    ) -> Result<Reply, Errno> {
        let call = Call {
            nodeid,
            extensions,
            request,
            caller: self.caller,
            payload: Payload::None,
            keeps,
            token: self.token,
        };
        let ticket = self.engine().reserve(self.token)?;
        self.finish(self.send(ticket, call)?, request)
    }

    /// Waits for the reply to `request`.
    fn finish(&self, pending: Pending<'_>, request: Request<'_>) -> Result<Reply, Errno> {
        let result = pending.wait();
        if matches!(result, Err(Errno::NOSYS)) && self.peer.remembers(request.opcode()) {
            self.peer.learn_unknown(request.opcode());
        }
        result
    }

    fn entry(&self, on: &impl Target, request: Request<'_>) -> Result<EntryOut, Errno> {
        let reply = self.call(on, request)?;
        reply::entry(reply.head.body()).map_err(malformed)
    }

    fn done(&self, on: &impl Target, request: Request<'_>) -> Result<(), Errno> {
        let reply = self.call(on, request)?;
        reply::empty(reply.head.body()).map_err(malformed)
    }

    /// A call whose reply is up to `room` bytes of payload.
    fn read_payload(
        &self,
        on: &impl Target,
        room: u32,
        request: Request<'_>,
    ) -> Result<(Frames, usize), Errno> {
        let frames = self.frames(room)?;
        let ticket = self.engine().reserve(self.token)?;
        let keeps = [Some(on.keep()), None];
        let payload = Payload::In(frames, room);
        let pending = self.start(ticket, on.nodeid(), keeps, request, payload)?;
        let reply = self.finish(pending, request)?;
        reply.payload.ok_or(Errno::IO)
    }

    /// Frames for exactly `bytes`; waits for them.
    fn frames(&self, bytes: u32) -> Result<Frames, Errno> {
        let order = order_for(bytes as usize);
        let arena = self.engine().arena();
        match arena.alloc_or_wait(order, || self.is_cancelled()) {
            Ok(frames) if frames.len() >= bytes as usize => Ok(frames),
            // Fragmented by data in flight.
            Ok(_) => Err(Errno::NOMEM),
            Err(denied) => Err(denial(denied)),
        }
    }
}

/// Place of an operation in a set of them.
fn bit(opcode: Opcode) -> u64 {
    1u64.checked_shl(opcode as u32).unwrap_or(0)
}

/// Operations for which ENOSYS means that it will always be ENOSYS (semantics of Linux
/// `fs/fuse`, where each has a `no_…` flag).
fn is_remembered(opcode: Opcode) -> bool {
    matches!(
        opcode,
        Opcode::Fsync
            | Opcode::Fsyncdir
            | Opcode::Flush
            | Opcode::Getxattr
            | Opcode::Setxattr
            | Opcode::Listxattr
            | Opcode::Removexattr
            | Opcode::Access
            | Opcode::Bmap
            | Opcode::Create
            | Opcode::Poll
            | Opcode::Statx
            | Opcode::Tmpfile
            | Opcode::Link
            | Opcode::Rename2
            | Opcode::Fallocate
            | Opcode::Lseek
            | Opcode::CopyFileRange
            | Opcode::CopyFileRange64
            | Opcode::Syncfs
    )
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
        token: None,
    };
    let _ = engine.call(call);
}

/// Why there are no frames to be had.
pub(crate) fn denial(denied: Denied) -> Errno {
    match denied {
        Denied::Closed => Errno::NOTCONN,
        Denied::Stopped => Errno::INTR,
    }
}

fn malformed(_: ReplyError) -> Errno {
    Errno::IO
}

/// ENOSYS as callers of what an operation is for expect it.
fn unsupported<T>(result: Result<T, Errno>) -> Result<T, Errno> {
    match result {
        Err(Errno::NOSYS) => Err(Errno::OPNOTSUPP),
        result => result,
    }
}
