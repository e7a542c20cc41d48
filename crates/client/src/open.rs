//! Opening and making files.

use crate::access::Access;
use crate::client::Client;
use crate::error::Result;
use crate::file::File;
use crate::fs_attr;
use crate::handle::Handle;
use crate::meta::PERMISSION_BITS;
use crate::node::{Cached, Node};
use crate::rpc::{New, Target};
use crate::walk::{self, End, Found, Links, Place, Tail};
use fusewire_sync::Arc;
use fusewire_wire::InitFlags;
use fusewire_wire::abi::FileKind;
use rustix::fs::OFlags;
use rustix::io::Errno;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

type Outcome<T> = std::result::Result<T, Errno>;

/// How often a file that comes and goes between two requests is tried again.
const OPEN_RACES: u32 = 8;

/// What OPEN is not told: it is done with when a file is there.
const NOT_FOR_OPEN: OFlags = OFlags::CREATE.union(OFlags::EXCL).union(OFlags::NOCTTY);

/// How to open a file; as `std::fs::OpenOptions`.
#[derive(Clone, Debug)]
pub struct OpenOptions {
    read: bool,
    write: bool,
    append: bool,
    truncate: bool,
    create: bool,
    create_new: bool,
    pub(crate) mode: u32,
    custom_flags: i32,
    /// As open(2) has it, not as std.
    exact: bool,
}

impl Default for OpenOptions {
    fn default() -> Self {
        Self::new()
    }
}

macro_rules! option {
    ($(#[$doc:meta])* $name:ident: $type:ty) => {
        $(#[$doc])*
        pub fn $name(&mut self, $name: $type) -> &mut Self {
            self.$name = $name;
            self
        }
    };
}

impl OpenOptions {
    /// Nothing chosen yet.
    #[must_use]
    pub fn new() -> Self {
        OpenOptions {
            read: false,
            write: false,
            append: false,
            truncate: false,
            create: false,
            create_new: false,
            mode: 0o666,
            custom_flags: 0,
            exact: false,
        }
    }

    /// What open(2) makes of its flags.
    pub(crate) fn from_parts(read: bool, write: bool, flags: OFlags, mode: u32) -> Self {
        let creates = flags.contains(OFlags::CREATE);
        OpenOptions {
            read,
            write,
            append: flags.contains(OFlags::APPEND),
            truncate: flags.contains(OFlags::TRUNC),
            create: creates,
            create_new: creates && flags.contains(OFlags::EXCL),
            mode,
            custom_flags: flags.bits().cast_signed(),
            exact: true,
        }
    }

    option! {
        /// For reading.
        read: bool
    }
    option! {
        /// For writing.
        write: bool
    }
    option! {
        /// For writing at the end of the file, wherever that is at the time.
        append: bool
    }
    option! {
        /// Emptied, if it is there. Needs `write`, and does not go with `append`.
        truncate: bool
    }
    option! {
        /// Made, if it is not there. Needs `write` or `append`.
        create: bool
    }
    option! {
        /// Made; EEXIST if anything is there, a symbolic link included. Needs `write` or `append`.
        create_new: bool
    }
    option! {
        /// Rights of a file that is made, less the umask. Default 0666.
        mode: u32
    }
    option! {
        /// Further `O_*` flags for the daemon, such as `O_SYNC`, `O_DIRECT` or `O_NOFOLLOW`; those
        /// that the other options stand for are ignored.
        custom_flags: i32
    }

    /// Opens the file at `path`.
    ///
    /// # Errors
    /// EINVAL for options that do not go together, and for `O_PATH` and `O_TMPFILE` (see
    /// [`OpenOptions::open_unnamed`]); EPERM for `O_NOATIME` on a file of somebody
    /// else's; EACCES, ENOENT, EEXIST, EISDIR, ENOTDIR, ELOOP, ENXIO
    /// (a device, pipe or socket, which has nothing behind it here), or what the daemon says to
    /// LOOKUP, OPEN and CREATE.
    pub fn open(&self, client: &Client, path: impl AsRef<Path>) -> Result<File> {
        let path = path.as_ref();
        self.open_at(client, path)
            .map_err(client.fail("open", path))
    }

    fn open_at(&self, client: &Client, path: &Path) -> Outcome<File> {
        let flags = self.flags()?;
        check_custom(flags)?;
        if self.create_new {
            return self.create_at(client, path, flags);
        }
        let links = if flags & OFlags::NOFOLLOW.bits() != 0 {
            Links::NoFollow
        } else {
            Links::Follow
        };
        let end = if self.create {
            End::MakeFile
        } else {
            End::Find
        };
        let mut last = Errno::AGAIN;
        for _ in 0..OPEN_RACES {
            let opened = match walk::find(
                &client.cred,
                &client.start,
                path.as_os_str().as_bytes(),
                links,
                end,
            )? {
                Found::Node(node) => self.open_node(client, &node, flags),
                Found::Missing { dir, name } if self.create => {
                    self.create_in(client, &dir, &name, flags)
                }
                Found::Missing { .. } => return Err(Errno::NOENT),
            };
            match opened {
                Ok(handle) => return Ok(File::new(client, path, handle)),
                // It came or went between the two requests.
                Err(Errno::EXIST) => last = Errno::AGAIN,
                // Or the directory is gone, which shows in nothing else.
                Err(Errno::NOENT) if self.create => last = Errno::NOENT,
                Err(errno) => return Err(errno),
            }
        }
        Err(last)
    }

    /// Makes a file that must not be there: the daemon finds out, so no name is looked up first.
    fn create_at(&self, client: &Client, path: &Path, flags: u32) -> Outcome<File> {
        let Place {
            dir,
            tail,
            wants_dir,
            ..
        } = client.place(path)?;
        let Tail::Name(name) = tail else {
            return Err(Errno::EXIST);
        };
        if wants_dir {
            return Err(Errno::ISDIR);
        }
        if matches!(dir.cached_child(&name), Cached::Node(_)) {
            return Err(Errno::EXIST);
        }
        let handle = self.create_in(client, &dir, &name, flags)?;
        Ok(File::new(client, path, handle))
    }

    fn creates(&self) -> bool {
        self.create || self.create_new
    }

    /// The options as `O_*` flags.
    pub(crate) fn flags(&self) -> Outcome<u32> {
        let writes = self.write || self.append && !self.exact;
        let access = match (self.read, writes) {
            (true, false) => OFlags::RDONLY,
            (false, true) => OFlags::WRONLY,
            (true, true) => OFlags::RDWR,
            (false, false) => return Err(Errno::INVAL),
        };
        // As in std: what changes the file needs a way to write, and only a file that is made
        // may be both emptied and appended to.
        let changes = self.truncate || self.creates();
        let odd = changes && !writes || self.append && self.truncate && !self.create_new;
        if odd && !self.exact {
            return Err(Errno::INVAL);
        }
        let ours = OFlags::RWMODE | OFlags::CREATE | OFlags::EXCL | OFlags::TRUNC | OFlags::APPEND;
        let mut flags =
            (OFlags::from_bits_retain(self.custom_flags.cast_unsigned()) - ours) | access;
        flags.set(OFlags::APPEND, self.append);
        flags.set(OFlags::CREATE, self.creates());
        flags.set(OFlags::EXCL, self.create_new);
        flags.set(OFlags::TRUNC, self.truncate && !self.create_new);
        Ok(flags.bits())
    }

    /// Opens a file that is there.
    fn open_node(&self, client: &Client, node: &Arc<Node>, flags: u32) -> Outcome<Arc<Handle>> {
        let flags = OFlags::from_bits_retain(flags);
        if flags.contains(OFlags::DIRECTORY) && !node.is_dir() {
            return Err(Errno::NOTDIR);
        }
        let changes = flags.intersects(OFlags::WRONLY | OFlags::RDWR | OFlags::CREATE);
        match node.kind() {
            FileKind::Directory if changes || self.truncate => return Err(Errno::ISDIR),
            FileKind::Symlink => return Err(Errno::LOOP),
            _ => {}
        }
        node.check_fresh()?;
        let mut access = match flags & OFlags::RWMODE {
            OFlags::RDONLY => Access::READ,
            OFlags::WRONLY => Access::WRITE,
            _ => Access::READ.and(Access::WRITE),
        };
        if self.truncate {
            access = access.and(Access::WRITE);
        }
        node.permit(&client.cred, access)?;
        // What nothing is behind here, whoever asks.
        match node.kind() {
            FileKind::Regular => {}
            FileKind::Directory => return Err(Errno::ISDIR),
            _ => return Err(Errno::NXIO),
        }
        if flags.contains(OFlags::NOATIME) {
            let identity = &client.cred.identity;
            identity.may_open_with(&node.attr(&client.cred, None)?, flags)?;
        }
        let core = client.core();
        let granted = core.peer.negotiated().flags;
        let atomic = granted.contains(InitFlags::ATOMIC_O_TRUNC);
        let mut sent = flags - NOT_FOR_OPEN;
        if !atomic {
            sent -= OFlags::TRUNC;
        }
        let open = || {
            let open = core.with_descriptors(|| client.rpc().open(node, sent.bits()))?;
            Handle::of_file(&client.cred, Arc::clone(node), open)
        };
        if !self.truncate {
            return open();
        }
        let size = node.change_size();
        let handle = open()?;
        if atomic && handle.open().at_peer {
            size.set(0);
        } else {
            drop(size);
        }
        let truncated = if atomic && handle.open().at_peer {
            node.drop_set_id(&client.cred)
        } else {
            fs_attr::set_size(&client.cred, node, 0, Some(&handle))
        };
        match truncated {
            Ok(()) => Ok(handle),
            Err(errno) => {
                handle.close();
                Err(errno)
            }
        }
    }

    /// Makes a file and opens it in one.
    fn create_in(
        &self,
        client: &Client,
        dir: &Arc<Node>,
        name: &[u8],
        flags: u32,
    ) -> Outcome<Arc<Handle>> {
        let core = client.core();
        let (sampled, version) = (core.attr_version(), dir.children_version());
        let mode = FileKind::Regular.mode_bits() | (self.mode & PERMISSION_BITS);
        let new = client.new_in(dir, name, mode)?;
        // Always exclusive: daemons rarely see CREATE of what is there, as a kernel looks first, and
        // virtiofsd in C dies of it. What came between the two requests is opened by its own.
        let flags = (OFlags::from_bits_retain(flags) | OFlags::EXCL) - OFlags::NOCTTY;
        let created = core.with_descriptors(|| client.rpc().create(&new, flags.bits()));
        if matches!(created, Err(Errno::NOSYS)) {
            return self.make_and_open(client, &new, flags.bits());
        }
        dir.expire_attr();
        let (entry, open) = match created {
            Ok(created) => created,
            Err(errno) => {
                dir.forget_child(name);
                return Err(errno);
            }
        };
        let node = match walk::take_entry(dir, &entry, sampled) {
            Ok(node) => node,
            Err(errno) => {
                // There is no node to hold the handle that came with it.
                core.peer.release_later(entry.nodeid, dir.keep(), &open);
                return Err(errno);
            }
        };
        let handle = Handle::of_file(&client.cred, Arc::clone(&node), open)?;
        if node.kind() != FileKind::Regular {
            handle.close();
            return Err(Errno::IO);
        }
        dir.adopt_child(name, &node, entry.entry_timeout(), version);
        Ok(handle)
    }

    /// Makes a file and opens it, in two, for a daemon without CREATE.
    fn make_and_open(
        &self,
        client: &Client,
        new: &New<'_, Arc<Node>>,
        flags: u32,
    ) -> Outcome<Arc<Handle>> {
        let node = client.make_in(new, FileKind::Regular, |new| client.rpc().mknod(new, 0))?;
        // It is empty, and whoever makes a file may write it whatever its rights.
        let sent = OFlags::from_bits_retain(flags) - (NOT_FOR_OPEN | OFlags::TRUNC);
        let core = client.core();
        let open = core.with_descriptors(|| client.rpc().open(&node, sent.bits()))?;
        Handle::of_file(&client.cred, node, open)
    }
}

/// # Errors
/// EINVAL for flags that open something else than the data of a file, or make a directory.
fn check_custom(flags: u32) -> Outcome<()> {
    let flags = OFlags::from_bits_retain(flags);
    let unnamed = OFlags::TMPFILE - OFlags::DIRECTORY;
    if flags.intersects(OFlags::PATH | unnamed)
        || flags.contains(OFlags::CREATE | OFlags::DIRECTORY)
    {
        return Err(Errno::INVAL);
    }
    Ok(())
}
