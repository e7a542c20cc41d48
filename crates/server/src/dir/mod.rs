//! A directory of the host, served in process and without root.
//!
//! Every node the client knows is held by an `O_PATH` descriptor, so renames and removals on the
//! host never make a node mean another file, and hard links share one node. Names are resolved one
//! component at a time, never following a symbolic link and never leaving the parent directory;
//! files are opened through `/proc/self/fd`, so a file swapped for another on the host is never
//! opened by mistake.
//!
//! The number of nodes is bounded ([`DirOptions::max_nodes`]). At the limit, LOOKUP and everything
//! that creates answers ENFILE until the client forgets some nodes, and READDIRPLUS answers entries
//! without nodes.
//!
//! Locks are between the clients of this server: it takes none on the host, and sees none of its.

mod attributes;
mod creds;
mod directories;
mod files;
mod handles;
mod names;
mod nodes;
mod special;
mod stream;
mod xattr;

use crate::caching::{CacheMode, Caching};
use crate::fs::{Call, Errno, Features, FileSystem, Reply, Result, Usage};
use creds::AsCaller;
use fusewire_wire::abi::{Attr, FileKind};
use fusewire_wire::{InitFlags, Request};
use handles::Handles;
use nodes::{Ident, Node, Nodes};
use rustix::fd::{AsFd, OwnedFd};
use rustix::fs::{AtFlags, Mode, OFlags, ResolveFlags, Statx, StatxFlags};
use rustix::path::DecInt;
use rustix::process::Resource;
use std::io;
use std::path::Path;
use stream::DirStream;

/// Options of a [`Directory`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DirOptions {
    /// What the client may cache. Default [`Caching::auto`].
    pub caching: Caching,
    /// Whether the client may cache writes. Files opened for writing only are then opened for
    /// reading too where permissions allow it, and `O_APPEND` is the client's affair. Default off.
    pub writeback: bool,
    /// Whether READDIRPLUS is offered; never with [`CacheMode::Never`]. Default on.
    pub readdirplus: bool,
    /// Whether every change is refused with EROFS. Default off.
    pub read_only: bool,
    /// Whether extended attributes are served; ENOSYS when not. Default off.
    pub xattr: bool,
    /// Whether new files get the security label that the client sends along, as an extended
    /// attribute; what cannot be labelled is not made. Default off.
    pub security_ctx: bool,
    /// Whether OPEN, OPENDIR and CREATE are answered with ENOSYS, and requests then served by their
    /// nodes alone, as by a daemon that keeps no state of what is open. Default off.
    pub stateless: bool,
    /// Most nodes the client may know at once, one descriptor each. Never more than three quarters
    /// of the descriptors that this process may open: the rest is for open files. Default 65,536.
    pub max_nodes: usize,
}

impl Default for DirOptions {
    fn default() -> Self {
        DirOptions {
            caching: Caching::auto(),
            writeback: false,
            readdirplus: true,
            read_only: false,
            xattr: false,
            security_ctx: false,
            stateless: false,
            max_nodes: 65_536,
        }
    }
}

/// A file system that is a directory of the host; see the [module](self).
///
/// Files are created with the caller's user and group when the process is root, else as the
/// process. Everything else runs as the process.
#[derive(Debug)]
pub struct Directory {
    options: DirOptions,
    nodes: Nodes,
    files: Handles<OwnedFd>,
    dirs: Handles<DirStream>,
    /// `/proc/self/fd`, through which held files are opened.
    proc_fd: OwnedFd,
    /// Whether the kernel has openat2(2) and lets us call it.
    openat2: bool,
}

impl Directory {
    /// Serves the directory at `path`.
    ///
    /// # Errors
    /// What opening it says (ENOENT, ENOTDIR, EACCES); ENOENT with its own message when `/proc` is
    /// not mounted.
    pub fn new(path: impl AsRef<Path>, options: DirOptions) -> io::Result<Self> {
        let path = path.as_ref();
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let named = |what: &Path, remedy: &str| {
            let what = what.display().to_string();
            let remedy = remedy.to_owned();
            move |errno: Errno| {
                let error = io::Error::from(errno);
                io::Error::new(error.kind(), format!("{what}: {error}; {remedy}"))
            }
        };
        let root = rustix::fs::open(path, flags, Mode::empty())
            .map_err(named(path, "name a directory that this user may enter"))?;
        let proc_path = Path::new("/proc/self/fd");
        let proc_fd = rustix::fs::open(proc_path, flags, Mode::empty()).map_err(named(
            proc_path,
            "mount /proc, through which served files are opened",
        ))?;
        let openat2 = rustix::fs::openat2(&root, ".", flags, Mode::empty(), RESOLVE).is_ok();
        let (_, ident, _) = stat(&root)?;
        let descriptors = rustix::process::getrlimit(Resource::Nofile).current;
        let most = descriptors.map_or(u64::MAX, |n| n / 4 * 3);
        let max_nodes =
            usize::try_from(most).map_or(options.max_nodes, |n| n.min(options.max_nodes));
        Ok(Directory {
            nodes: Nodes::new(root, ident, max_nodes),
            files: Handles::new(1),
            dirs: Handles::new(2),
            options,
            proc_fd,
            openat2,
        })
    }

    /// The most of each that a client has held at once, since it began; of open files and of open
    /// directories each their most.
    #[must_use]
    pub fn peak(&self) -> Usage {
        Usage {
            open_handles: self.files.peak() + self.dirs.peak(),
            ..self.nodes.peak()
        }
    }

    /// Opens `name` in `dir`, one component, with `O_PATH` and without following a link.
    fn resolve(&self, dir: &Node, name: &[u8]) -> Result<OwnedFd> {
        let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        if self.openat2 {
            rustix::fs::openat2(dir, name, flags, Mode::empty(), RESOLVE)
        } else {
            // Names that reach this have one component and are not "..": nothing to leave by.
            rustix::fs::openat(dir, name, flags, Mode::empty())
        }
    }

    /// Opens the file that `held` holds.
    fn reopen(&self, held: impl AsFd, flags: OFlags) -> Result<OwnedFd> {
        rustix::fs::openat(
            &self.proc_fd,
            DecInt::from_fd(held),
            flags | OFlags::CLOEXEC,
            Mode::empty(),
        )
    }

    /// Opens what `held` holds, which is of kind `have` and must be of kind `want`: opening a pipe
    /// or a device could block or do things.
    fn reopen_as(
        &self,
        held: impl AsFd,
        have: FileKind,
        want: FileKind,
        flags: OFlags,
    ) -> Result<OwnedFd> {
        match (have, want) {
            (have, want) if have == want => self.reopen(held, flags),
            (FileKind::Directory, _) => Err(Errno::ISDIR),
            (_, FileKind::Directory) => Err(Errno::NOTDIR),
            (FileKind::Symlink, _) => Err(Errno::LOOP),
            _ => Err(Errno::NXIO),
        }
    }

    /// For the system call that creates something: its owner is the caller of `call`.
    fn as_caller(&self, call: &Call<'_>) -> Result<AsCaller> {
        self.nodes.check_room()?;
        AsCaller::enter(call.caller, call.extensions.supp_groups)
    }

    /// Counts a lookup of the file that `fd` (`O_PATH`) holds.
    fn enter(&self, fd: OwnedFd) -> Result<fusewire_wire::abi::EntryOut> {
        let (attr, ident, kind) = stat(&fd)?;
        let id = self.nodes.remember(fd, ident, kind)?;
        Ok(self.options.caching.entry(id, attr))
    }

    fn call_node(&self, call: &Call<'_>, node: &Node) -> Result<Reply> {
        match call.request {
            Request::Lookup { name } => self.lookup(node, name),
            Request::Getattr { fh } => self.getattr(node, fh),
            Request::Statx(arg) => self.statx(node, &arg),
            Request::Setattr(arg) => self.setattr(node, &arg),
            Request::Readlink => self.readlink(call, node),
            Request::Symlink { name, target } => self.symlink(call, node, name, target),
            Request::Mknod {
                name, mode, rdev, ..
            } => self.mknod(call, node, name, mode, rdev),
            Request::Mkdir { name, mode, .. } => self.mkdir(call, node, name, mode),
            Request::Unlink { name } => self.unlink(node, name, AtFlags::empty()),
            Request::Rmdir { name } => self.unlink(node, name, AtFlags::REMOVEDIR),
            Request::Rename {
                new_dir,
                name,
                new_name,
            } => self.rename(node, name, new_dir, new_name, 0),
            Request::Rename2 {
                new_dir,
                flags,
                name,
                new_name,
            } => self.rename(node, name, new_dir, new_name, flags),
            Request::Link { old_node, new_name } => self.link(node, new_name, old_node),
            Request::Open { flags, open_flags } => self.open(call, node, flags, open_flags),
            Request::Create {
                name,
                flags,
                mode,
                open_flags,
                ..
            } => self.create(call, node, name, flags, mode, open_flags),
            Request::Tmpfile { flags, mode, .. } => self.tmpfile(call, node, flags, mode),
            Request::Opendir { .. } => self.opendir(node),
            Request::Readdir(arg) => self.readdir(call, node, &arg),
            Request::Readdirplus(arg) => self.readdirplus(call, node, &arg),
            Request::Statfs => self.statfs(node),
            Request::Syncfs => self.syncfs(node),
            Request::Access { mask } => self.access(call, node, mask),
            _ if self.options.xattr => self.xattr(call, node),
            _ => Err(Errno::NOSYS),
        }
    }

    /// Whether the client caches writes.
    fn writeback(call: &Call<'_>) -> bool {
        call.granted.contains(InitFlags::WRITEBACK_CACHE)
    }
}

/// Below the parent, and not through the magic links of procfs.
const RESOLVE: ResolveFlags = ResolveFlags::BENEATH.union(ResolveFlags::NO_MAGICLINKS);

fn statx(fd: impl AsFd) -> Result<Statx> {
    let wanted = StatxFlags::BASIC_STATS | StatxFlags::BTIME;
    rustix::fs::statx(fd, "", AtFlags::EMPTY_PATH, wanted)
}

fn stat(fd: impl AsFd) -> Result<(Attr, Ident, FileKind)> {
    let st = statx(fd)?;
    let kind = FileKind::from_mode(st.stx_mode.into()).ok_or(Errno::IO)?;
    let ident = Ident {
        dev: u64::from(st.stx_dev_major) << 32 | u64::from(st.stx_dev_minor),
        ino: st.stx_ino,
    };
    Ok((attributes::attr_of(&st), ident, kind))
}

impl FileSystem for Directory {
    fn features(&self) -> Features {
        let mut flags = crate::fs::COMMON_FLAGS | InitFlags::CREATE_SUPP_GROUP;
        if self.options.readdirplus && self.options.caching.mode != CacheMode::Never {
            flags |= InitFlags::DO_READDIRPLUS | InitFlags::READDIRPLUS_AUTO;
        }
        if self.options.writeback {
            flags |= InitFlags::WRITEBACK_CACHE;
        }
        if self.options.security_ctx {
            flags |= InitFlags::SECURITY_CTX;
        }
        if self.options.stateless {
            flags |= InitFlags::NO_OPEN_SUPPORT | InitFlags::NO_OPENDIR_SUPPORT;
        }
        Features {
            flags,
            max_write_bytes: crate::fs::MAX_WRITE_BYTES,
            time_gran_ns: 1,
            read_only: self.options.read_only,
        }
    }

    fn begin(&self) {
        self.files.remove_all();
        self.dirs.remove_all();
        self.nodes.forget_all();
    }

    fn call(&self, call: &Call<'_>) -> Result<Reply> {
        match call.request {
            Request::Open { .. } | Request::Opendir { .. } | Request::Create { .. }
                if self.options.stateless =>
            {
                Err(Errno::NOSYS)
            }
            Request::Read(arg) => self.read(call, &arg),
            Request::Write(arg) => self.write(call, &arg),
            Request::Flush(arg) => self.flush(call, &arg),
            Request::Fsync(arg) => self.fsync(call, &arg),
            Request::Release(arg) => self.files.remove(arg.fh).map(|()| Reply::Done),
            Request::Fallocate(arg) => self.fallocate(call, &arg),
            Request::Lseek(arg) => self.lseek(call, &arg),
            Request::CopyFileRange(arg) => self
                .copy_file_range(call, &arg, arg.len.min(crate::fs::MAX_COPY_BYTES))
                .map(|n| Reply::Written(n as u32)),
            Request::CopyFileRange64(arg) => {
                self.copy_file_range(call, &arg, arg.len).map(Reply::Copied)
            }
            Request::Fsyncdir(arg) => self.fsyncdir(call, &arg),
            Request::Releasedir(arg) => self.dirs.remove(arg.fh).map(|()| Reply::Done),
            Request::Poll(arg) => self.poll(call, &arg),
            Request::Ioctl(arg) => self.ioctl(call, &arg),
            // The rest needs the node; the above go on with a handle alone.
            _ => self.call_node(call, &*self.nodes.get(call.node)?),
        }
    }

    fn forget(&self, node: u64, nlookup: u64) {
        self.nodes.forget(node, nlookup);
    }

    fn usage(&self) -> Usage {
        Usage {
            open_handles: self.files.len() + self.dirs.len(),
            ..self.nodes.usage()
        }
    }
}
