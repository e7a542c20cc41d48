//! A file system in memory, gone when it is dropped.
//!
//! It does what a Linux file system does, errno by errno, and is deterministic: node ids count up
//! and are never reused, directories are read in the order in which names were made, and with
//! [`TimeSource::Logical`] even the time stamps are. A capacity can be set, to see a full disk.
//! Reading does not change access times.

mod attributes;
mod blocks;
mod directories;
mod files;
mod inode;
mod names;
mod special;
mod state;
mod xattr;

use crate::caching::{CacheMode, Caching};
use crate::fs::{Call, Errno, Features, FileSystem, Reply, Result, Usage};
use fusewire_sync::atomic::{AtomicU64, Ordering};
use fusewire_sync::{Rank, RwLock, time};
use fusewire_wire::abi::{EntryOut, ROOT_ID};
use fusewire_wire::{InitFlags, Request};
use inode::Time;
use state::State;

/// Where time stamps come from.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum TimeSource {
    /// The system's clock.
    #[default]
    Wall,
    /// A counter: the n-th time stamp is n seconds after 1970.
    Logical,
}

/// Options of a [`Memory`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MemOptions {
    /// What the client may cache. Default [`Caching::auto`].
    pub caching: Caching,
    /// Whether the client may cache writes. Default off.
    pub writeback: bool,
    /// Whether READDIRPLUS is offered; never with [`CacheMode::Never`]. Default on.
    pub readdirplus: bool,
    /// Whether every change is refused with EROFS. Default off.
    pub read_only: bool,
    /// Bytes of file contents there is room for, in blocks of 4 KiB; ENOSPC past it. Memory is
    /// only taken as it is used. Default 4 GiB.
    pub capacity_bytes: u64,
    /// Files and directories there is room for, the root included; ENOSPC past it. Default
    /// 1,048,576.
    pub max_inodes: u64,
    /// Where time stamps come from. Default the system's clock.
    pub time: TimeSource,
    /// Whether OPEN, OPENDIR and CREATE are answered with ENOSYS, and requests then served by their
    /// nodes alone, as by a daemon that keeps no state of what is open. Default off.
    pub stateless: bool,
    /// Whether new files get the security label that the client sends along, as an extended
    /// attribute. Default off.
    pub security_ctx: bool,
    /// User and group of the root directory. Default those of this process, so that it may create
    /// files there.
    pub owner: (u32, u32),
}

impl Default for MemOptions {
    fn default() -> Self {
        MemOptions {
            caching: Caching::auto(),
            writeback: false,
            readdirplus: true,
            read_only: false,
            capacity_bytes: 4 << 30,
            max_inodes: 1 << 20,
            time: TimeSource::Wall,
            stateless: false,
            security_ctx: false,
            owner: (
                rustix::process::geteuid().as_raw(),
                rustix::process::getegid().as_raw(),
            ),
        }
    }
}

/// A file system in memory; see the [module](self).
///
/// Files belong to the caller that makes them; set-group-id directories hand their group on.
#[derive(Debug)]
pub struct Memory {
    options: MemOptions,
    clock: AtomicU64,
    state: RwLock<State>,
}

impl Memory {
    /// An empty file system: a root directory with mode 0755.
    #[must_use]
    pub fn new(options: MemOptions) -> Self {
        let clock = AtomicU64::new(0);
        let now = tick(options.time, &clock);
        let mut state = State::new(options.capacity_bytes, options.max_inodes, now);
        let root = state.inode_mut(ROOT_ID);
        (root.uid, root.gid) = options.owner;
        if options.stateless {
            state.make_stateless();
        }
        Memory {
            options,
            clock,
            state: RwLock::new(Rank::LEAF, state),
        }
    }

    /// The most of each that a client has held at once, since it began.
    #[must_use]
    pub fn peak(&self) -> Usage {
        self.state.read().peak()
    }

    fn now(&self) -> Time {
        tick(self.options.time, &self.clock)
    }

    /// Counts a lookup and says what there is to know.
    fn enter(&self, state: &mut State, ino: u64) -> EntryOut {
        state.remember(ino);
        self.options.caching.entry(ino, state.inode(ino).attr(ino))
    }
}

fn tick(source: TimeSource, clock: &AtomicU64) -> Time {
    match source {
        TimeSource::Wall => time::wall_clock(),
        TimeSource::Logical => (clock.fetch_add(1, Ordering::Relaxed) as i64 + 1, 0),
    }
}

/// Longest name, in bytes.
const NAME_MAX: usize = 255;
/// Largest file, in bytes.
const SIZE_MAX: u64 = i64::MAX as u64;

impl FileSystem for Memory {
    fn features(&self) -> Features {
        let mut flags = crate::fs::COMMON_FLAGS | InitFlags::HAS_IOCTL_DIR;
        if self.options.readdirplus && self.options.caching.mode != CacheMode::Never {
            flags |= InitFlags::DO_READDIRPLUS | InitFlags::READDIRPLUS_AUTO;
        }
        if self.options.writeback {
            flags |= InitFlags::WRITEBACK_CACHE;
        }
        if self.options.stateless {
            flags |= InitFlags::NO_OPEN_SUPPORT | InitFlags::NO_OPENDIR_SUPPORT;
        }
        if self.options.security_ctx {
            flags |= InitFlags::SECURITY_CTX;
        }
        Features {
            flags,
            max_write_bytes: crate::fs::MAX_WRITE_BYTES,
            time_gran_ns: 1,
            read_only: self.options.read_only,
        }
    }

    fn begin(&self) {
        self.state.write().forget_client();
    }

    fn call(&self, call: &Call<'_>) -> Result<Reply> {
        let node = call.node;
        match call.request {
            Request::Open { .. } | Request::Opendir { .. } | Request::Create { .. }
                if self.options.stateless =>
            {
                Err(Errno::NOSYS)
            }
            Request::Read(arg) => self.read(call, &arg),
            Request::Write(arg) => self.write(call, &arg),
            Request::Getattr { fh } => self.getattr(node, fh),
            Request::Lookup { name } => self.lookup(node, name),
            Request::Statx(arg) => self.statx(node, &arg),
            Request::Setattr(arg) => self.setattr(node, &arg),
            Request::Readlink => self.readlink(call),
            Request::Symlink { name, target } => self.symlink(call, name, target),
            Request::Mknod {
                name, mode, rdev, ..
            } => self.mknod(call, name, mode, rdev),
            Request::Mkdir { name, mode, .. } => self.mkdir(call, name, mode),
            Request::Unlink { name } => self.unlink(node, name),
            Request::Rmdir { name } => self.rmdir(node, name),
            Request::Rename {
                new_dir,
                name,
                new_name,
            } => self.rename(call, (node, name), (new_dir, new_name), 0),
            Request::Rename2 {
                new_dir,
                flags,
                name,
                new_name,
            } => self.rename(call, (node, name), (new_dir, new_name), flags),
            Request::Link { old_node, new_name } => self.link(node, new_name, old_node),
            Request::Open { flags, open_flags } => self.open(call, flags, open_flags),
            Request::Create {
                name,
                flags,
                mode,
                open_flags,
                ..
            } => self.create(call, name, flags, mode, open_flags),
            Request::Tmpfile { flags, mode, .. } => self.tmpfile(call, flags, mode),
            Request::Flush(arg) => self.state.read().handle(node, arg.fh).map(|_| Reply::Done),
            Request::Fsync(arg) => self.state.read().handle(node, arg.fh).map(|_| Reply::Done),
            Request::Fsyncdir(arg) => self.state.read().handle(node, arg.fh).map(|_| Reply::Done),
            Request::Release(arg) => self.state.write().close(arg.fh).map(|()| Reply::Done),
            Request::Releasedir(arg) => self.state.write().close(arg.fh).map(|()| Reply::Done),
            Request::Fallocate(arg) => self.fallocate(call, &arg),
            Request::Lseek(arg) => self.lseek(call, &arg),
            Request::CopyFileRange(arg) => self
                .copy_file_range(call, &arg, arg.len.min(crate::fs::MAX_COPY_BYTES))
                .map(|n| Reply::Written(n as u32)),
            Request::CopyFileRange64(arg) => {
                self.copy_file_range(call, &arg, arg.len).map(Reply::Copied)
            }
            Request::Opendir { .. } => self.opendir(node),
            Request::Readdir(arg) => self.readdir(call, &arg),
            Request::Readdirplus(arg) => self.readdirplus(call, &arg),
            Request::Statfs => self.statfs(),
            Request::Syncfs => Ok(Reply::Done),
            Request::Getxattr { name, size } => self.getxattr(call, name, size),
            Request::Listxattr { size } => self.listxattr(call, size),
            Request::Setxattr { name, flags, .. } => self.setxattr(call, name, flags),
            Request::Removexattr { name } => self.removexattr(node, name),
            Request::Access { mask } => self.access(call, mask),
            Request::Poll(arg) => self.poll(node, &arg),
            Request::Ioctl(arg) => self.ioctl(call, &arg),
            _ => Err(Errno::NOSYS),
        }
    }

    fn forget(&self, node: u64, nlookup: u64) {
        self.state.write().forget(node, nlookup);
    }

    fn usage(&self) -> Usage {
        self.state.read().usage()
    }
}
