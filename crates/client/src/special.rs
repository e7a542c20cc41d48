//! What few file systems have: files without names, birth times, device control, block numbers.

use crate::access::{Access, Checks};
use crate::client::Client;
use crate::error::Result;
use crate::file::File;
use crate::handle::Handle;
use crate::meta::{PERMISSION_BITS, system_time};
use crate::node::Node;
use crate::open::OpenOptions;
use crate::rpc::Target;
use crate::walk::{self, Links};
use fusewire_sync::Arc;
use fusewire_wire::abi::{FileKind, Statx};
use rustix::fs::OFlags;
use rustix::io::Errno;
use std::path::Path;
use std::time::SystemTime;

type Outcome<T> = std::result::Result<T, Errno>;

/// Field of statx(2): the birth time is there.
const STATX_BTIME: u32 = 0x800;

/// Commands of ioctl(2) for the flags of an inode; see ioctl_iflags(2).
const FS_IOC_GETFLAGS: u32 = 0x8008_6601;
const FS_IOC_SETFLAGS: u32 = 0x4008_6602;
/// The same for XFS's kind of flags, which come first in its argument.
const FS_IOC_FSSETXATTR: u32 = 0x401c_5820;

/// Flags of an inode by which nobody can change it, or only append to it, and the same of XFS.
const IMMUTABLE: u32 = 0x10;
const APPEND: u32 = 0x20;
const XFS_IMMUTABLE: u32 = 0x8;
const XFS_APPEND: u32 = 0x10;

/// Directions in the number of a command.
const IOC_WRITE: u32 = 1 << 30;
const IOC_READ: u32 = 2 << 30;

/// Length of a command's argument, in bytes.
const fn argument_bytes(cmd: u32) -> usize {
    match cmd {
        // Their numbers say `long`, but what they take is an `int`.
        FS_IOC_GETFLAGS | FS_IOC_SETFLAGS => 4,
        _ => (cmd >> 16 & 0x3fff) as usize,
    }
}

/// Which flags for a privileged few a command would leave an inode with, as those of
/// `FS_IOC_GETFLAGS`. `None`: it sets no flags.
fn privileged_flags(cmd: u32, argument: &[u8]) -> Option<u32> {
    let flags = argument
        .first_chunk()
        .map(|first| u32::from_ne_bytes(*first));
    match cmd {
        FS_IOC_SETFLAGS => Some(flags? & (IMMUTABLE | APPEND)),
        FS_IOC_FSSETXATTR => {
            let (flags, mut wanted) = (flags?, 0);
            if flags & XFS_IMMUTABLE != 0 {
                wanted |= IMMUTABLE;
            }
            if flags & XFS_APPEND != 0 {
                wanted |= APPEND;
            }
            Some(wanted)
        }
        _ => None,
    }
}

impl Client {
    /// Whether this client's identity may access what `path` leads to so; as faccessat(2) with
    /// AT_EACCESS.
    ///
    /// ```
    /// # use fusewire::Client;
    /// # use fusewire_server::{ServerOptions, mem, start};
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let fs = mem::Memory::new(mem::MemOptions::default());
    /// # let (transport, _server) = start(fs, &ServerOptions::default())?;
    /// # let client = Client::builder().connect(transport)?;
    /// use fusewire::Access;
    /// client.write("/notes", b"")?;
    /// client.access("/notes", Access::READ.and(Access::WRITE))?;
    /// assert!(client.access("/notes", Access::EXECUTE).is_err());
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// EACCES when it may not; else as [`Client::metadata`].
    pub fn access(&self, path: impl AsRef<Path>, access: Access) -> Result<()> {
        let path = path.as_ref();
        let check = || {
            let node = self.resolve(path, Links::Follow)?;
            match self.core().checks {
                Checks::Client => self
                    .cred
                    .identity
                    .may(&node.attr(&self.cred, None)?, access),
                Checks::Daemon => self.rpc().access(&node, access.bits()),
            }
        };
        check().map_err(self.fail("access", path))
    }

    /// When what `path` leads to was made; `None` when the daemon does not know.
    ///
    /// # Errors
    /// As [`Client::metadata`].
    pub fn created(&self, path: impl AsRef<Path>) -> Result<Option<SystemTime>> {
        let path = path.as_ref();
        self.resolve(path, Links::Follow)
            .and_then(|node| birth_time(&node, self.rpc().statx(&node, None)))
            .map_err(self.fail("stat", path))
    }

    /// Gives the open `file` another name, or its first: linkat(2) with AT_EMPTY_PATH.
    ///
    /// # Errors
    /// EXDEV for a file of another client; ENOENT for one that was removed, or made to stay without
    /// a name; else as [`Client::hard_link`].
    pub fn link_file(&self, file: &File, link: impl AsRef<Path>) -> Result<()> {
        let link = link.as_ref();
        let node = file.handle().node();
        if !Arc::ptr_eq(node.core(), self.core()) {
            return Err(self.fail("link", link)(Errno::XDEV));
        }
        self.link_node(node, link)
    }
}

impl OpenOptions {
    /// Makes a file without a name in the directory at `dir`, and opens it: O_TMPFILE. It goes when
    /// it is closed, unless [`Client::link_file`] gives it a name. With `create_new` it never gets
    /// one.
    ///
    /// ```
    /// # use fusewire::Client;
    /// # use fusewire_server::{ServerOptions, mem, start};
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let fs = mem::Memory::new(mem::MemOptions::default());
    /// # let (transport, _server) = start(fs, &ServerOptions::default())?;
    /// # let client = Client::builder().connect(transport)?;
    /// use fusewire::OpenOptions;
    /// use std::io::Write;
    /// let mut file = OpenOptions::new().write(true).open_unnamed(&client, "/")?;
    /// file.write_all(b"complete, or not there")?;
    /// client.link_file(&file, "/report")?;
    /// assert_eq!(client.read("/report")?, b"complete, or not there");
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// EINVAL unless `write` is set; EOPNOTSUPP when the daemon has no such files; ENOTDIR, EACCES,
    /// ENOENT, or what else the daemon says.
    pub fn open_unnamed(&self, client: &Client, dir: impl AsRef<Path>) -> Result<File> {
        let dir = dir.as_ref();
        let make = || {
            let node = client.resolve(dir, Links::Follow)?;
            let flags = OFlags::from_bits_retain(self.flags()?) - (OFlags::CREATE | OFlags::NOCTTY);
            if flags & OFlags::RWMODE == OFlags::RDONLY {
                return Err(Errno::INVAL);
            }
            let handle = make_unnamed(client, &node, flags.bits(), self.mode)?;
            Ok(File::new(client, dir, handle))
        };
        make().map_err(client.fail("open", dir))
    }
}

fn make_unnamed(client: &Client, dir: &Arc<Node>, flags: u32, mode: u32) -> Outcome<Arc<Handle>> {
    let core = client.core();
    let sampled = core.attr_version();
    let mode = FileKind::Regular.mode_bits() | (mode & PERMISSION_BITS);
    if !dir.is_dir() {
        return Err(Errno::NOTDIR);
    }
    dir.permit(&client.cred, Access::WRITE.and(Access::SEARCH))?;
    // The name is not sent; it has to be one.
    let new = client.new_in(dir, b"-", mode)?;
    let (entry, open) = core.with_descriptors(|| client.rpc().tmpfile(&new, flags))?;
    let node = match walk::take_entry(dir, &entry, sampled) {
        Ok(node) => node,
        Err(errno) => {
            core.peer.release_later(entry.nodeid, dir.keep(), &open);
            return Err(errno);
        }
    };
    let handle = Handle::of_file(&client.cred, Arc::clone(&node), open)?;
    if node.kind() != FileKind::Regular {
        handle.close();
        return Err(Errno::IO);
    }
    Ok(handle)
}

/// The birth time in the answer to STATX.
fn birth_time(node: &Arc<Node>, answer: Outcome<Statx>) -> Outcome<Option<SystemTime>> {
    let stat = match answer {
        Err(Errno::NOSYS) => return Ok(None),
        stat => stat?,
    };
    if FileKind::from_mode(u32::from(stat.mode)) != Some(node.kind()) {
        return Err(Errno::IO);
    }
    let known = stat.mask & STATX_BTIME != 0;
    Ok(known.then(|| system_time(stat.btime.tv_sec, stat.btime.tv_nsec)))
}

impl File {
    /// When the file was made; `None` when the daemon does not know.
    ///
    /// # Errors
    /// What the daemon says.
    pub fn created(&self) -> Result<Option<SystemTime>> {
        let handle = self.handle();
        let rpc = handle.node().core().rpc(self.cred());
        birth_time(handle.node(), rpc.statx(handle, Some(handle.open().fh)))
            .map_err(self.fail("stat"))
    }

    /// Device control: ioctl(2), as far as a command's number says all about its argument.
    /// `argument` is as long as the number says (4 bytes for `FS_IOC_GETFLAGS` and
    /// `FS_IOC_SETFLAGS`, whatever theirs say); it is what the daemon gets (`_IOW`), what it fills
    /// in (`_IOR`), or both. Returns the result of the call, 0 or more.
    ///
    /// # Errors
    /// EINVAL when the argument is of another size; EPERM for setting flags of an inode as
    /// [`File::set_inode_flags`]; ENOTTY when the daemon has no such command; EIO when it wants
    /// more of the caller's memory; or what else it says.
    pub fn ioctl(&self, cmd: u32, argument: &mut [u8]) -> Result<i32> {
        let mut ioctl = || {
            if argument.len() != argument_bytes(cmd) {
                return Err(Errno::INVAL);
            }
            self.control(cmd, argument).map(|(result, _)| result)
        };
        ioctl().map_err(self.fail("ioctl"))
    }

    /// Returns the result and how many bytes of the argument were filled in.
    fn control(&self, cmd: u32, argument: &mut [u8]) -> Outcome<(i32, usize)> {
        let handle = self.handle();
        let rpc = handle.node().core().rpc(self.cred());
        if let Some(wanted) = privileged_flags(cmd, argument) {
            self.permit_inode_flags(wanted)?;
        }
        let input: &[u8] = if cmd & IOC_WRITE != 0 { argument } else { &[] };
        let room = if cmd & IOC_READ != 0 {
            argument.len() as u32
        } else {
            0
        };
        let answer = rpc.ioctl(handle, handle.open(), cmd, input, room);
        if cmd & IOC_WRITE != 0 {
            // Some commands change attributes.
            handle.node().expire_attr();
        }
        let (result, output) = answer?;
        if result < 0 {
            return Err(match result.unsigned_abs() {
                errno @ 1..=4095 => Errno::from_raw_os_error(errno as i32),
                _ => Errno::IO,
            });
        }
        argument[..output.len()].copy_from_slice(&output);
        Ok((result, output.len()))
    }

    /// Whether the flags of the inode may be set to ones with `wanted` of the privileged ones. Linux
    /// asks this whoever checks permissions, and so does the client.
    fn permit_inode_flags(&self, wanted: u32) -> Outcome<()> {
        let (cred, handle) = (self.cred(), self.handle());
        let identity = &cred.identity;
        identity.may_set_inode_flags(&handle.node().attr(cred, Some(handle))?)?;
        if !identity.capabilities.linux_immutable
            && self.read_inode_flags()? & (IMMUTABLE | APPEND) != wanted
        {
            return Err(Errno::PERM);
        }
        Ok(())
    }

    fn read_inode_flags(&self) -> Outcome<u32> {
        let mut flags = [0; 4];
        match self.control(FS_IOC_GETFLAGS, &mut flags)? {
            (_, 4) => Ok(u32::from_ne_bytes(flags)),
            _ => Err(Errno::IO),
        }
    }

    /// Flags of the inode, such as immutable or append-only; see ioctl_iflags(2).
    ///
    /// # Errors
    /// ENOTTY when the daemon has none, or what else it says.
    pub fn inode_flags(&self) -> Result<u32> {
        self.read_inode_flags()
            .map_err(self.fail("get inode flags"))
    }

    /// Sets the flags of the inode.
    ///
    /// # Errors
    /// EPERM for anybody but the owner, and for changing the flags immutable and append-only without
    /// CAP_LINUX_IMMUTABLE; EOPNOTSUPP for flags that cannot be set; else as
    /// [`File::inode_flags`].
    pub fn set_inode_flags(&self, flags: u32) -> Result<()> {
        self.control(FS_IOC_SETFLAGS, &mut flags.to_ne_bytes())
            .map(drop)
            .map_err(self.fail("set inode flags"))
    }

    /// Block of the device that holds a block of the file, both counted in blocks of `block_bytes`;
    /// `None` for a hole, or when the daemon has no device.
    ///
    /// # Errors
    /// What the daemon says.
    pub fn bmap(&self, block: u64, block_bytes: u32) -> Result<Option<u64>> {
        let handle = self.handle();
        let rpc = handle.node().core().rpc(self.cred());
        rpc.bmap(handle, block, block_bytes)
            .map(|block| (block != 0).then_some(block))
            .map_err(self.fail("map block"))
    }
}
