//! The FUSE protocol between a request's bytes and a [`FileSystem`].

use crate::answer::{fits, write_error, write_message, write_reply};
use crate::fs::{Call, Errno, FileSystem, Reply, Result};
use crate::io::Io;
use crate::locks::{LockKeeper, Wait};
use crate::serve::ServerOptions;
use fusewire_sync::Arc;
use fusewire_sync::atomic::{AtomicU64, Ordering};
use fusewire_transport::DeviceRequest;
use fusewire_wire::abi::{
    InHeader, InitIn, InitOut, KERNEL_MINOR_VERSION, KERNEL_VERSION, PAGE_BYTES,
};
use fusewire_wire::init::MINOR_MIN;
use fusewire_wire::request::parse_header;
use fusewire_wire::{
    Caller, Extensions, InitFlags, MAX_HEAD_BYTES, Opcode, OpenOutFlags, Replies, Request,
    SetattrValid,
};
use rustix::fs::OFlags;
use zerocopy::IntoBytes;

/// Memory for one request's head. Aligned, because lists in a message are read in place.
#[repr(align(8))]
pub(crate) struct HeadBuffer([u8; MAX_HEAD_BYTES]);

impl HeadBuffer {
    pub(crate) fn new() -> Box<Self> {
        Box::new(HeadBuffer([0; MAX_HEAD_BYTES]))
    }

    /// Copies the head of `request`, once; what is parsed is the copy.
    pub(crate) fn read(&mut self, request: &DeviceRequest) -> Head<'_> {
        let start = size_of::<InHeader>();
        let n = request.copy_readable(0, &mut self.0[..start]);
        let Ok(header) = parse_header(&self.0[..n]) else {
            return Head::Unreadable;
        };
        let len = header.len as usize;
        if len != request.readable_len() || len < start {
            return Head::Malformed(header, Errno::INVAL);
        }
        let want = len.min(head_limit(header.opcode));
        let n = start + request.copy_readable(start, &mut self.0[start..want]);
        match Request::parse(&self.0[..n]) {
            Ok((header, request, extensions)) => Head::Parsed(header, request, extensions),
            Err(error) => Head::Malformed(header, Errno::from_raw_os_error(error.errno())),
        }
    }
}

/// What the head of a request says.
pub(crate) enum Head<'a> {
    Parsed(InHeader, Request<'a>, Extensions<'a>),
    /// The header could be read, the rest is wrong.
    Malformed(InHeader, Errno),
    /// Not even a header: there is nothing that an answer could refer to.
    Unreadable,
}

/// How many bytes of a message can belong to its head: the rest, payload, is not copied here.
fn head_limit(opcode: u32) -> usize {
    match Opcode::try_from(opcode) {
        Ok(Opcode::Write | Opcode::NotifyReply | Opcode::Ioctl) => 80,
        // Arguments, and the longest name with its NUL.
        Ok(Opcode::Setxattr) => 40 + 16 + 256,
        _ => MAX_HEAD_BYTES,
    }
}

const OPCODES: usize = Opcode::CopyFileRange64 as usize + 1;
/// Set in `Session::granted` once INIT was answered.
const READY: u64 = 1 << 63;

/// What has become of a request.
enum Handled {
    /// The reply has that many bytes.
    Written(usize),
    /// It is to be put aside.
    Waits(Wait),
}

/// One client's session with a file system.
#[derive(Debug)]
pub(crate) struct Session<F> {
    pub(crate) fs: Arc<F>,
    /// `None`: locks are left to the client.
    locks: Option<LockKeeper>,
    /// Granted beyond what the file system grants.
    grant: InitFlags,
    /// Not granted.
    without: InitFlags,
    /// Flags of open files and of open directories, in place of the file system's.
    open_flags: [Option<OpenOutFlags>; 2],
    granted: AtomicU64,
    counts: [AtomicU64; OPCODES],
}

impl<F: FileSystem> Session<F> {
    pub(crate) fn new(fs: Arc<F>, options: &ServerOptions) -> Self {
        Session {
            fs,
            locks: options.locks.then(LockKeeper::new),
            grant: options.grant,
            without: options.without,
            open_flags: [options.file_flags, options.dir_flags],
            granted: AtomicU64::new(0),
            counts: std::array::from_fn(|_| AtomicU64::new(0)),
        }
    }

    /// How many requests of that kind were handled.
    pub(crate) fn count(&self, opcode: Opcode) -> u64 {
        self.counts
            .get(opcode as usize)
            .map_or(0, |n| n.load(Ordering::Relaxed))
    }

    /// Handles a request and answers it, at once or when it has got what it waits for.
    pub(crate) fn perform(&self, request: DeviceRequest, buffer: &mut HeadBuffer) {
        match self.try_handle(&request, buffer, usize::MAX) {
            Handled::Written(written) => request.complete(written),
            Handled::Waits(wait) => {
                if let Some(locks) = &self.locks {
                    locks.put_aside(request, wait);
                }
            }
        }
    }

    /// Handles a request and writes the reply; returns its length, 0 for none. READ, READDIR and
    /// WRITE move at most `limit` bytes. What would have to wait is refused with EAGAIN.
    pub(crate) fn handle(
        &self,
        request: &DeviceRequest,
        buffer: &mut HeadBuffer,
        limit: usize,
    ) -> usize {
        match self.try_handle(request, buffer, limit) {
            Handled::Written(written) => written,
            Handled::Waits(wait) => write_error(request, wait.unique(), Errno::AGAIN),
        }
    }

    /// How many SETLKW wait.
    pub(crate) fn waiting(&self) -> usize {
        self.locks.as_ref().map_or(0, LockKeeper::waiting)
    }

    fn try_handle(
        &self,
        request: &DeviceRequest,
        buffer: &mut HeadBuffer,
        limit: usize,
    ) -> Handled {
        let written = match buffer.read(request) {
            Head::Unreadable => 0,
            Head::Malformed(header, errno) => {
                let silent = Opcode::try_from(header.opcode)
                    .is_ok_and(|opcode| opcode.replies() == Replies::Never);
                if silent {
                    0
                } else {
                    write_error(request, header.unique, errno)
                }
            }
            Head::Parsed(header, parsed, extensions) => {
                if let Some(count) = self.counts.get(header.opcode as usize) {
                    count.fetch_add(1, Ordering::Relaxed);
                }
                if let Some(locks) = &self.locks
                    && let Request::Setlkw(arg) = &parsed
                    && self.is_ready()
                {
                    match locks.set(header.nodeid, header.unique, arg, true) {
                        Ok(Some(wait)) => return Handled::Waits(wait),
                        Ok(None) => write_message(request, header.unique, &[]),
                        Err(errno) => write_error(request, header.unique, errno),
                    }
                } else {
                    self.answer(request, &header, parsed, extensions, limit)
                }
            }
        };
        Handled::Written(written)
    }

    fn is_ready(&self) -> bool {
        self.granted.load(Ordering::Acquire) & READY != 0
    }

    /// Locks, if they are kept here.
    fn lock(&self, header: &InHeader, request: &Request<'_>) -> Option<Result<Reply>> {
        let locks = self.locks.as_ref()?;
        match request {
            Request::Getlk(arg) => Some(locks.test(header.nodeid, arg)),
            Request::Setlk(arg) => {
                let set = locks.set(header.nodeid, header.unique, arg, false);
                Some(set.map(|_| Reply::Done))
            }
            _ => {
                locks.ended(header.nodeid, request);
                None
            }
        }
    }

    fn answer(
        &self,
        request: &DeviceRequest,
        header: &InHeader,
        parsed: Request<'_>,
        extensions: Extensions<'_>,
        limit: usize,
    ) -> usize {
        match parsed {
            // After DESTROY, too: FORGET has a queue of its own, and may be overtaken.
            Request::Forget { nlookup } => {
                self.fs.forget(header.nodeid, nlookup);
                return 0;
            }
            Request::BatchForget(list) => {
                for one in list {
                    self.fs.forget(one.nodeid, one.nlookup);
                }
                return 0;
            }
            // Nothing but locks waits, and nothing is ever retrieved.
            Request::Interrupt { unique } => {
                if let Some(locks) = &self.locks {
                    locks.interrupt(unique);
                }
                return 0;
            }
            Request::NotifyReply(_) => return 0,
            Request::Init(arg) => return self.init(request, header.unique, &arg),
            _ => {}
        }
        let shape = parsed.reply();
        let room = request.writable_len();
        let result = if !self.is_ready() || room < shape.head_bytes as usize {
            Err(Errno::IO)
        } else if matches!(parsed, Request::Destroy) {
            self.granted.store(0, Ordering::Release);
            Ok(Reply::Done)
        } else if self.fs.features().read_only && changes_something(&parsed) {
            Err(Errno::ROFS)
        } else if let Some(result) = self.lock(header, &parsed) {
            result
        } else {
            let in_len = parsed.payload_out_bytes() as usize;
            let call = Call {
                node: header.nodeid,
                caller: Caller {
                    uid: header.uid,
                    gid: header.gid,
                    pid: header.pid,
                },
                request: parsed,
                extensions,
                granted: InitFlags::from_bits_retain(self.granted.load(Ordering::Relaxed) & !READY),
                io: Io::new(
                    request,
                    (header.len as usize - in_len, in_len.min(limit)),
                    (
                        shape.head_bytes as usize,
                        (shape.payload_max_bytes as usize).min(limit),
                    ),
                ),
            };
            self.fs.call(&call).and_then(|reply| {
                if fits(&reply, &parsed) {
                    Ok(self.with_open_flags(reply, &parsed))
                } else {
                    Err(Errno::IO)
                }
            })
        };
        match result {
            Ok(reply) => write_reply(request, header.unique, &reply),
            Err(errno) => write_error(request, header.unique, errno),
        }
    }

    fn with_open_flags(&self, mut reply: Reply, request: &Request<'_>) -> Reply {
        let [file, dir] = self.open_flags;
        let flags = match request {
            Request::Opendir { .. } => dir,
            _ => file,
        };
        if let (Reply::Open(open) | Reply::Created(_, open), Some(flags)) = (&mut reply, flags) {
            open.open_flags = flags.bits();
        }
        reply
    }

    fn init(&self, request: &DeviceRequest, unique: u64, arg: &InitIn) -> usize {
        if arg.major < KERNEL_VERSION || (arg.major == KERNEL_VERSION && arg.minor < MINOR_MIN) {
            return write_error(request, unique, Errno::PROTO);
        }
        let features = self.fs.features();
        let mut out = InitOut {
            major: KERNEL_VERSION,
            minor: KERNEL_MINOR_VERSION,
            ..InitOut::default()
        };
        // A newer major version: the client tries again with ours, and only then it begins.
        if arg.major == KERNEL_VERSION {
            let offered = InitFlags::from_halves(arg.flags, arg.flags2);
            let mut flags = features.flags | self.grant | InitFlags::INIT_EXT;
            if let Some(locks) = &self.locks {
                locks.begin();
                flags |= InitFlags::POSIX_LOCKS | InitFlags::FLOCK_LOCKS;
            }
            let mut flags = (flags & offered).difference(self.without);
            if !flags.contains(InitFlags::INIT_EXT) {
                flags = InitFlags::from_halves(flags.low(), 0);
            }
            out.max_readahead = arg.max_readahead;
            out.flags = flags.low();
            out.flags2 = flags.high();
            out.max_write = features.max_write_bytes;
            out.time_gran = features.time_gran_ns;
            out.max_pages =
                u16::try_from(features.max_write_bytes.div_ceil(PAGE_BYTES)).unwrap_or(u16::MAX);
            self.fs.begin();
            self.granted.store(flags.bits() | READY, Ordering::Release);
        }
        // Before 7.23 the structure ended after `max_write`.
        let body = &out.as_bytes()[..if arg.minor < 23 {
            24
        } else {
            size_of::<InitOut>()
        }];
        write_message(request, unique, body)
    }
}

/// Whether a read-only file system has to refuse the request.
fn changes_something(request: &Request<'_>) -> bool {
    let writes = |flags: u32| {
        let flags = OFlags::from_bits_retain(flags);
        flags & OFlags::ACCMODE != OFlags::RDONLY || flags.contains(OFlags::TRUNC)
    };
    match request {
        // Only the client's lock owner or handle: nothing of the file.
        Request::Setattr(arg) => !(SetattrValid::from_bits_retain(arg.valid)
            - (SetattrValid::FH | SetattrValid::LOCKOWNER))
            .is_empty(),
        Request::Open { flags, .. } => writes(*flags),
        Request::Symlink { .. }
        | Request::Mknod { .. }
        | Request::Mkdir { .. }
        | Request::Unlink { .. }
        | Request::Rmdir { .. }
        | Request::Rename { .. }
        | Request::Rename2 { .. }
        | Request::Link { .. }
        | Request::Create { .. }
        | Request::Tmpfile { .. }
        | Request::Write(_)
        | Request::Setxattr { .. }
        | Request::Removexattr { .. }
        | Request::Fallocate(_)
        | Request::CopyFileRange(_)
        | Request::CopyFileRange64(_) => true,
        _ => false,
    }
}
