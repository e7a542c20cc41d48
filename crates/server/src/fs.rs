//! What a file system is to this crate.

use crate::io::Io;
use fusewire_wire::abi::{AttrOut, EntryOut, LkOut, OpenOut, StatfsOut, StatxOut};
use fusewire_wire::{Caller, Extensions, InitFlags, Request};
pub use rustix::io::Errno;

/// Result of an operation; the error becomes the reply's errno.
pub type Result<T> = core::result::Result<T, Errno>;

/// A request that asks for an answer.
#[derive(Debug)]
pub struct Call<'a> {
    /// Node the request is on.
    pub node: u64,
    /// On whose behalf.
    pub caller: Caller,
    /// The operation.
    pub request: Request<'a>,
    /// What a creating request carries beyond its arguments.
    pub extensions: Extensions<'a>,
    /// What INIT has granted.
    pub granted: InitFlags,
    /// The payload in both directions.
    pub io: Io<'a>,
}

/// The answer to a [`Call`]. It must be of the kind that the request asks for; another one is sent
/// as EIO.
#[derive(Clone, Copy, Debug)]
pub enum Reply {
    /// Success, nothing to say.
    Done,
    /// A node, counted as one lookup unless `nodeid` is 0.
    Entry(EntryOut),
    /// Attributes.
    Attr(AttrOut),
    /// An open file or directory.
    Open(OpenOut),
    /// A new file, counted as one lookup, and open.
    Created(EntryOut, OpenOut),
    /// That many bytes of payload have been put into [`Call::io`].
    Payload(usize),
    /// WRITE and COPY_FILE_RANGE took that many bytes.
    Written(u32),
    /// COPY_FILE_RANGE_64 took that many bytes.
    Copied(u64),
    /// LSEEK found this offset.
    Offset(u64),
    /// Bytes of an extended attribute, or of the list of them.
    Size(u32),
    /// The lock in the way.
    Lock(LkOut),
    /// Numbers of the file system.
    Statfs(StatfsOut),
    /// Attributes in the shape of statx(2).
    Statx(StatxOut),
    /// Events of poll(2) that an open file is ready for.
    Ready(u32),
    /// Result of an ioctl(2), with that many bytes of output in [`Call::io`].
    Ioctl {
        /// What ioctl(2) returns, not an error.
        result: i32,
        /// Bytes of output.
        len: usize,
    },
}

/// What INIT says on behalf of a file system.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Features {
    /// Capabilities to grant where the client offers them.
    pub flags: InitFlags,
    /// Largest WRITE, in bytes.
    pub max_write_bytes: u32,
    /// Granularity of time stamps, in nanoseconds.
    pub time_gran_ns: u32,
    /// Whether everything that changes something is refused with EROFS before it gets here.
    pub read_only: bool,
}

/// What a file system holds on behalf of its client. All 0 when the client has given back all that
/// it got.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    /// Nodes the client knows, without the root.
    pub live_nodes: u64,
    /// Lookups that were not given back by FORGET, without the root's.
    pub lookups: u64,
    /// Open files and directories.
    pub open_handles: u64,
}

impl Usage {
    /// The larger one of each number.
    #[must_use]
    pub fn most(self, other: Usage) -> Usage {
        Usage {
            live_nodes: self.live_nodes.max(other.live_nodes),
            lookups: self.lookups.max(other.lookups),
            open_handles: self.open_handles.max(other.open_handles),
        }
    }
}

/// A file system behind node ids. Node 1 is the root and always known.
///
/// Calls come from all worker threads at once. Permissions are the client's to check, as with
/// every FUSE daemon that does not say otherwise.
pub trait FileSystem: Send + Sync + 'static {
    /// What INIT says.
    fn features(&self) -> Features;

    /// A client begins: whatever an earlier one still holds is forgotten.
    fn begin(&self);

    /// Answers one request. INIT, DESTROY, FORGET, BATCH_FORGET, INTERRUPT, NOTIFY_REPLY and the
    /// locks do not get here.
    ///
    /// # Errors
    /// Any errno; ENOSYS for an operation that is not implemented.
    fn call(&self, call: &Call<'_>) -> Result<Reply>;

    /// Takes `nlookup` lookups of `node` back. An unknown node is ignored.
    fn forget(&self, node: u64, nlookup: u64);

    /// What the client holds now.
    fn usage(&self) -> Usage;
}

/// Largest WRITE of the file systems here: 256 pages, as virtiofsd's.
pub(crate) const MAX_WRITE_BYTES: u32 = 1 << 20;

/// What every file system here grants.
pub(crate) const COMMON_FLAGS: InitFlags = InitFlags::ASYNC_READ
    .union(InitFlags::ATOMIC_O_TRUNC)
    .union(InitFlags::BIG_WRITES)
    .union(InitFlags::AUTO_INVAL_DATA)
    .union(InitFlags::ASYNC_DIO)
    .union(InitFlags::PARALLEL_DIROPS)
    .union(InitFlags::HANDLE_KILLPRIV_V2)
    .union(InitFlags::MAX_PAGES)
    .union(InitFlags::SETXATTR_EXT);

/// `mode` as a write by somebody else leaves it: without set-user-id, and without set-group-id
/// where the group may execute (without that bit it means mandatory locking, not privilege).
pub(crate) fn without_suidgid(mode: u32) -> u32 {
    let kept = mode & !0o4000;
    if mode & 0o010 != 0 {
        kept & !0o2000
    } else {
        kept
    }
}

/// `whence` of LSEEK: the next data.
pub(crate) const SEEK_DATA: u32 = 3;
/// `whence` of LSEEK: the next hole.
pub(crate) const SEEK_HOLE: u32 = 4;

/// Most bytes of a COPY_FILE_RANGE whose result has 32 bits: whole pages, as Linux clips it.
pub(crate) const MAX_COPY_BYTES: u64 = 0xffff_f000;

/// What regular files and directories are always ready for (poll(2)): POLLIN, POLLOUT, POLLRDNORM
/// and POLLWRNORM.
pub(crate) const ALWAYS_READY: u32 = 0x1 | 0x4 | 0x40 | 0x100;
