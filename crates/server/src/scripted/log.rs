//! What a scripted peer has received.

use crate::dispatch::{Head, HeadBuffer};
use crate::fs::Result;
use crate::io::Io;
use fusewire_sync::{Condvar, Mutex, Rank};
use fusewire_transport::DeviceRequest;
use fusewire_wire::abi::InHeader;
use fusewire_wire::{Opcode, Request};
use std::collections::HashMap;

/// A request, as it was received.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Seen {
    /// Its place among all requests, from 0.
    pub index: u64,
    /// Its place among those of its kind, from 1.
    pub nth: u64,
    /// The operation; `None` when it is none of FUSE 7.45, or there was no header to read.
    pub opcode: Option<Opcode>,
    /// Matches the reply.
    pub unique: u64,
    /// Node.
    pub node: u64,
    /// User id of the caller.
    pub uid: u32,
    /// Whether the rest of the head could be read too; if not, what follows is empty.
    pub well_formed: bool,
    /// File handle, of operations that have one.
    pub fh: Option<u64>,
    /// Offset of READ, WRITE, READDIR, READDIRPLUS, FALLOCATE, LSEEK and NOTIFY_REPLY.
    pub offset: u64,
    /// Bytes asked for or sent by these, by SETXATTR and GETXATTR; bytes sent by IOCTL; lookups
    /// given back by FORGET.
    pub size: u64,
    /// Flags of OPEN, CREATE and RENAME2; `valid` of SETATTR; `write_flags` of WRITE;
    /// `setxattr_flags` of SETXATTR; command of IOCTL; flags of POLL.
    pub flags: u32,
    /// Number that a POLL_WAKEUP is to name, of POLL.
    pub kh: Option<u64>,
    /// The request that an INTERRUPT is about.
    pub about: Option<u64>,
    /// What a NOTIFY_REPLY brought.
    pub data: Option<Vec<u8>>,
    /// First name, of operations that have one.
    pub name: Option<Vec<u8>>,
}

#[derive(Debug)]
pub(super) struct Log {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct State {
    seen: Vec<Seen>,
    counts: HashMap<Option<Opcode>, u64>,
    received: u64,
    told: Vec<Result<()>>,
    ended: bool,
}

impl Default for Log {
    fn default() -> Self {
        Log {
            state: Mutex::new(Rank::LEAF, State::default()),
            changed: Condvar::new(),
        }
    }
}

impl Log {
    /// Reads and numbers a request; it is not in the log yet.
    pub fn seen(&self, request: &DeviceRequest, buffer: &mut HeadBuffer) -> Seen {
        let mut seen = match buffer.read(request) {
            Head::Parsed(header, parsed, _) => {
                let mut seen = of_header(&header);
                seen.well_formed = true;
                add_arguments(&mut seen, &parsed);
                if let Request::NotifyReply(_) = parsed {
                    let in_len = parsed.payload_out_bytes() as usize;
                    let at = header.len as usize - in_len;
                    seen.data = Some(Io::new(request, (at, in_len), (0, 0)).in_to_vec());
                }
                seen
            }
            Head::Malformed(header, _) => of_header(&header),
            Head::Unreadable => Seen::default(),
        };
        let mut state = self.state.lock();
        seen.index = state.received;
        state.received += 1;
        let count = state.counts.entry(seen.opcode).or_default();
        *count += 1;
        seen.nth = *count;
        seen
    }

    pub fn push(&self, seen: Seen) {
        self.state.lock().seen.push(seen);
        self.changed.notify_all();
    }

    /// What the client said of a notification.
    pub fn told(&self, result: Result<()>) {
        self.state.lock().told.push(result);
    }

    pub fn told_so_far(&self) -> Vec<Result<()>> {
        self.state.lock().told.clone()
    }

    /// Nothing more will come.
    pub fn end(&self) {
        self.state.lock().ended = true;
        self.changed.notify_all();
    }

    pub fn snapshot(&self) -> Vec<Seen> {
        self.state.lock().seen.clone()
    }

    pub fn wait_for(&self, done: impl Fn(&[Seen]) -> bool) -> bool {
        let mut state = self.state.lock();
        loop {
            if done(&state.seen) {
                return true;
            }
            if state.ended {
                return false;
            }
            state = self.changed.wait(state);
        }
    }
}

fn of_header(header: &InHeader) -> Seen {
    Seen {
        opcode: Opcode::try_from(header.opcode).ok(),
        unique: header.unique,
        node: header.nodeid,
        uid: header.uid,
        ..Seen::default()
    }
}

fn add_arguments(seen: &mut Seen, request: &Request<'_>) {
    match request {
        Request::Lookup { name }
        | Request::Symlink { name, .. }
        | Request::Mknod { name, .. }
        | Request::Mkdir { name, .. }
        | Request::Unlink { name }
        | Request::Rmdir { name }
        | Request::Rename { name, .. }
        | Request::Link { new_name: name, .. } => seen.name = Some(name.as_bytes().to_vec()),
        Request::Rename2 { name, flags, .. } | Request::Create { name, flags, .. } => {
            seen.name = Some(name.as_bytes().to_vec());
            seen.flags = *flags;
        }
        Request::Open { flags, .. }
        | Request::Opendir { flags, .. }
        | Request::Tmpfile { flags, .. } => seen.flags = *flags,
        Request::Getattr { fh } => seen.fh = *fh,
        Request::Setattr(arg) => {
            (seen.fh, seen.size, seen.flags) = (Some(arg.fh), arg.size, arg.valid);
        }
        Request::Read(arg) | Request::Readdir(arg) | Request::Readdirplus(arg) => {
            (seen.fh, seen.offset, seen.size) = (Some(arg.fh), arg.offset, arg.size.into());
        }
        Request::Write(arg) => {
            (seen.fh, seen.offset, seen.size) = (Some(arg.fh), arg.offset, arg.size.into());
            seen.flags = arg.write_flags;
        }
        Request::Fallocate(arg) => {
            (seen.fh, seen.offset, seen.size) = (Some(arg.fh), arg.offset, arg.length);
        }
        Request::Lseek(arg) => (seen.fh, seen.offset) = (Some(arg.fh), arg.offset),
        Request::Flush(arg) => seen.fh = Some(arg.fh),
        Request::Fsync(arg) | Request::Fsyncdir(arg) => seen.fh = Some(arg.fh),
        Request::Release(arg) | Request::Releasedir(arg) => seen.fh = Some(arg.fh),
        Request::Forget { nlookup } => seen.size = *nlookup,
        Request::Getxattr { name, size } => {
            seen.name = Some(name.as_bytes().to_vec());
            seen.size = (*size).into();
        }
        Request::Setxattr {
            name,
            size,
            setxattr_flags,
            ..
        } => {
            seen.name = Some(name.as_bytes().to_vec());
            (seen.size, seen.flags) = ((*size).into(), *setxattr_flags);
        }
        Request::Removexattr { name } => seen.name = Some(name.as_bytes().to_vec()),
        Request::Ioctl(arg) => {
            (seen.fh, seen.size, seen.flags) = (Some(arg.fh), arg.in_size.into(), arg.cmd);
        }
        Request::Poll(arg) => {
            (seen.fh, seen.kh, seen.flags) = (Some(arg.fh), Some(arg.kh), arg.flags);
        }
        Request::Interrupt { unique } => seen.about = Some(*unique),
        Request::NotifyReply(arg) => (seen.offset, seen.size) = (arg.offset, arg.size.into()),
        _ => {}
    }
}
