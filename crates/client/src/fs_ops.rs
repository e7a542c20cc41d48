//! Operations on paths, named as in `std::fs`.

use crate::access::{Access, Checks};
use crate::client::Client;
use crate::cred::Cred;
use crate::dir::ReadDir;
use crate::error::Result;
use crate::file::File;
use crate::meta::{Metadata, PERMISSION_BITS};
use crate::node::Node;
use crate::open::OpenOptions;
use crate::rpc::New;
use crate::walk::{self, Links, Place, Tail};
use fusewire_sync::Arc;
use fusewire_wire::abi::{EntryOut, FileKind};
use fusewire_wire::{InitFlags, Target as LinkTarget};
use rustix::fs::RenameFlags;
use rustix::io::Errno;
use std::ffi::OsString;
use std::io::{Read, Write};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

type Outcome<T> = std::result::Result<T, Errno>;

impl Client {
    /// Opens a file for reading.
    ///
    /// # Errors
    /// As [`OpenOptions::open`].
    pub fn open(&self, path: impl AsRef<Path>) -> Result<File> {
        OpenOptions::new().read(true).open(self, path)
    }

    /// Opens a file for writing; makes it if it is missing and empties it if it is not.
    ///
    /// # Errors
    /// As [`OpenOptions::open`].
    pub fn create(&self, path: impl AsRef<Path>) -> Result<File> {
        let mut options = OpenOptions::new();
        options.write(true).create(true).truncate(true);
        options.open(self, path)
    }

    /// Makes a file and opens it for reading and writing; EEXIST if anything is there.
    ///
    /// # Errors
    /// As [`OpenOptions::open`].
    pub fn create_new(&self, path: impl AsRef<Path>) -> Result<File> {
        let mut options = OpenOptions::new();
        options.read(true).write(true).create_new(true);
        options.open(self, path)
    }

    /// The whole contents of a file.
    ///
    /// # Errors
    /// As [`OpenOptions::open`], or what the daemon says to READ.
    pub fn read(&self, path: impl AsRef<Path>) -> Result<Vec<u8>> {
        let path = path.as_ref();
        let mut file = self.open(path)?;
        let mut contents = Vec::new();
        file.read_to_end(&mut contents)
            .map_err(|error| self.fail("read", path)(errno_of(&error)))?;
        Ok(contents)
    }

    /// Makes `contents` the whole contents of a file.
    ///
    /// # Errors
    /// As [`OpenOptions::open`], or what the daemon says to WRITE and FLUSH.
    pub fn write(&self, path: impl AsRef<Path>, contents: impl AsRef<[u8]>) -> Result<()> {
        let path = path.as_ref();
        let mut file = self.create(path)?;
        file.write_all(contents.as_ref())
            .map_err(|error| self.fail("write", path)(errno_of(&error)))?;
        file.close()
    }

    /// Attributes of what `path` leads to.
    ///
    /// # Errors
    /// ENOENT, ENOTDIR, ELOOP, ENAMETOOLONG, or what the daemon says.
    pub fn metadata(&self, path: impl AsRef<Path>) -> Result<Metadata> {
        self.stat(path.as_ref(), Links::Follow)
    }

    /// Attributes of what is at `path`, a symbolic link itself included.
    ///
    /// # Errors
    /// As [`Client::metadata`].
    pub fn symlink_metadata(&self, path: impl AsRef<Path>) -> Result<Metadata> {
        self.stat(path.as_ref(), Links::NoFollow)
    }

    fn stat(&self, path: &Path, links: Links) -> Result<Metadata> {
        self.resolve(path, links)
            .and_then(|node| Ok(Metadata::new(&node, node.attr(&self.cred, None)?)))
            .map_err(self.fail("stat", path))
    }

    /// Whether `path` leads to something.
    ///
    /// # Errors
    /// As [`Client::metadata`], except ENOENT and ENOTDIR, which mean no.
    pub fn exists(&self, path: impl AsRef<Path>) -> Result<bool> {
        match self.metadata(path) {
            Ok(_) => Ok(true),
            Err(error)
                if [Errno::NOENT, Errno::NOTDIR]
                    .iter()
                    .any(|e| e.raw_os_error() == error.errno()) =>
            {
                Ok(false)
            }
            Err(error) => Err(error),
        }
    }

    /// The entries of a directory.
    ///
    /// # Errors
    /// ENOTDIR when it is none, else as [`Client::metadata`].
    pub fn read_dir(&self, path: impl AsRef<Path>) -> Result<ReadDir> {
        self.list(path.as_ref(), Links::Follow)
    }

    /// The entries of a directory, which a symbolic link at `path` is not: for whoever goes down a
    /// tree in which others may put a link in the place of a directory.
    ///
    /// # Errors
    /// As [`Client::read_dir`].
    pub fn read_dir_no_follow(&self, path: impl AsRef<Path>) -> Result<ReadDir> {
        self.list(path.as_ref(), Links::NoFollow)
    }

    fn list(&self, path: &Path, links: Links) -> Result<ReadDir> {
        self.resolve(path, links)
            .and_then(|node| ReadDir::open(self, path, node))
            .map_err(self.fail("open directory", path))
    }

    /// Where a symbolic link leads.
    ///
    /// # Errors
    /// EINVAL when it is none, else as [`Client::metadata`].
    pub fn read_link(&self, path: impl AsRef<Path>) -> Result<PathBuf> {
        let path = path.as_ref();
        self.resolve(path, Links::NoFollow)
            .and_then(|node| {
                if node.kind() != FileKind::Symlink {
                    return Err(Errno::INVAL);
                }
                self.rpc().readlink(&node)
            })
            .map(|target| PathBuf::from(OsString::from_vec(target)))
            .map_err(self.fail("read link", path))
    }

    /// Makes a directory with the rights 0777 less the umask.
    ///
    /// # Errors
    /// EEXIST, ENOENT (of its parent), ENOTDIR, or what the daemon says.
    pub fn create_dir(&self, path: impl AsRef<Path>) -> Result<()> {
        self.create_dir_with_mode(path, 0o777)
    }

    /// Makes a directory with the rights `mode` less the umask.
    ///
    /// # Errors
    /// As [`Client::create_dir`].
    pub fn create_dir_with_mode(&self, path: impl AsRef<Path>, mode: u32) -> Result<()> {
        let mode = mode & PERMISSION_BITS;
        let kind = FileKind::Directory;
        self.make("make directory", path.as_ref(), kind, mode, |new| {
            self.rpc().mkdir(new)
        })
    }

    /// Makes a directory and the missing ones above it. It may exist already.
    ///
    /// # Errors
    /// EEXIST when it is something else, a symbolic link that leads nowhere included; ENOTDIR when
    /// something else is in the way; or what the daemon says.
    pub fn create_dir_all(&self, path: impl AsRef<Path>) -> Result<()> {
        let path = path.as_ref();
        let mut missing = Vec::new();
        let mut at = Some(path);
        while let Some(dir) = at.filter(|dir| !dir.as_os_str().is_empty()) {
            match self.metadata(dir) {
                Ok(found) if found.is_dir() => break,
                Err(error) if error.errno() == Errno::NOENT.raw_os_error() => {
                    missing.push(dir);
                    at = dir.parent();
                }
                Err(error)
                    if ![Errno::NOTDIR, Errno::LOOP]
                        .iter()
                        .any(|e| e.raw_os_error() == error.errno()) =>
                {
                    return Err(error);
                }
                // Says what is wrong.
                _ => {
                    self.create_dir(dir)?;
                    break;
                }
            }
        }
        for dir in missing.into_iter().rev() {
            let is_there = || self.metadata(dir).is_ok_and(|found| found.is_dir());
            match self.create_dir(dir) {
                // Somebody else was faster.
                Err(error) if error.errno() == Errno::EXIST.raw_os_error() && is_there() => {}
                result => result?,
            }
        }
        Ok(())
    }

    /// Makes a device, pipe, socket or empty file: `mode` is its type and its rights less the
    /// umask.
    ///
    /// # Errors
    /// EINVAL for a type mknod(2) does not make; EEXIST, ENOENT, ENOTDIR, or what the daemon says.
    pub fn mknod(&self, path: impl AsRef<Path>, mode: u32, rdev: u32) -> Result<()> {
        let path = path.as_ref();
        let kind = match FileKind::from_mode(mode) {
            None | Some(FileKind::Directory | FileKind::Symlink) => {
                return Err(self.fail("make node", path)(Errno::INVAL));
            }
            Some(kind) => kind,
        };
        self.make("make node", path, kind, mode, |new| {
            self.rpc().mknod(new, rdev)
        })
    }

    /// Makes a symbolic link at `link` that leads to `target`.
    ///
    /// # Errors
    /// ENOENT for an empty target, ENAMETOOLONG for one over 4095 bytes; EEXIST, ENOTDIR, or what
    /// the daemon says.
    pub fn symlink(&self, target: impl AsRef<Path>, link: impl AsRef<Path>) -> Result<()> {
        let link = link.as_ref();
        let target = LinkTarget::new(target.as_ref().as_os_str().as_bytes())
            .map_err(|error| Errno::from_raw_os_error(error.errno()))
            .map_err(self.fail("make link", link))?;
        self.make("make link", link, FileKind::Symlink, 0o777, |new| {
            self.rpc().symlink(new, target)
        })
    }

    /// Makes something new at `path` and caches it.
    fn make(
        &self,
        operation: &'static str,
        path: &Path,
        kind: FileKind,
        mode: u32,
        request: impl Fn(&New<'_, Arc<Node>>) -> Outcome<EntryOut>,
    ) -> Result<()> {
        let make = || {
            let Place {
                dir,
                tail,
                wants_dir,
                ..
            } = self.place(path)?;
            let Tail::Name(name) = tail else {
                return Err(Errno::EXIST);
            };
            if wants_dir && kind != FileKind::Directory {
                // As mknod(2) and its like say of a name with a slash behind it.
                return Err(match walk::lookup(&self.cred, &dir, &name)? {
                    Some(_) => Errno::EXIST,
                    None => Errno::NOENT,
                });
            }
            self.make_in(&self.new_in(&dir, &name, mode)?, kind, &request)
        };
        make().map(drop).map_err(self.fail(operation, path))
    }

    /// Makes something of that kind by `request` and caches it.
    pub(crate) fn make_in(
        &self,
        new: &New<'_, Arc<Node>>,
        kind: FileKind,
        request: impl Fn(&New<'_, Arc<Node>>) -> Outcome<EntryOut>,
    ) -> Outcome<Arc<Node>> {
        let (dir, name) = (new.dir, new.name.as_bytes());
        let (sampled, version) = (self.core().attr_version(), dir.children_version());
        let entry = self.core().with_descriptors(|| request(new));
        dir.expire_attr();
        let entry = match entry {
            Ok(entry) => entry,
            Err(errno) => {
                dir.forget_child(name);
                return Err(errno);
            }
        };
        let node = walk::take_entry(dir, &entry, sampled)?;
        if node.kind() != kind {
            return Err(Errno::IO);
        }
        dir.adopt_child(name, &node, entry.entry_timeout(), version);
        Ok(node)
    }

    /// A new object in `dir`, its rights less the umask as the daemon wants them.
    pub(crate) fn new_in<'a>(
        &self,
        dir: &'a Arc<Node>,
        name: &'a [u8],
        mode: u32,
    ) -> Outcome<New<'a, Arc<Node>>> {
        dir.check_fresh()?;
        if !dir.is_dir() {
            return Err(Errno::NOTDIR);
        }
        let writable = dir.permit(&self.cred, Access::WRITE.and(Access::SEARCH));
        if writable == Err(Errno::ACCESS) && walk::lookup(&self.cred, dir, name)?.is_some() {
            return Err(Errno::EXIST);
        }
        writable?;
        let umask = self.cred.umask;
        let flags = self.core().peer.negotiated().flags;
        // A daemon with default ACLs applies the umask itself.
        let mode = if flags.contains(InitFlags::DONT_MASK) {
            mode
        } else {
            mode & !umask
        };
        Ok(New {
            dir,
            name: walk::checked(name)?,
            mode,
            umask,
            parent_group: self.cred.identity.supplementary(dir.group_hint()),
        })
    }

    /// Whether the name of `node` may be taken out of `dir`.
    fn permit_removal(&self, dir: &Arc<Node>, node: &Arc<Node>) -> Outcome<()> {
        dir.check_fresh()?;
        if node.is_submount() {
            return Err(Errno::BUSY);
        }
        dir.permit(&self.cred, Access::WRITE.and(Access::SEARCH))?;
        let identity = &self.cred.identity;
        if self.core().checks == Checks::Daemon || identity.changes_everything() {
            return Ok(());
        }
        identity.may_remove(&dir.attr(&self.cred, None)?, &node.attr(&self.cred, None)?)
    }

    pub(crate) fn place(&self, path: &Path) -> Outcome<Place> {
        walk::place(&self.cred, &self.start, path.as_os_str().as_bytes())
    }

    /// Removes a name that is not a directory's.
    ///
    /// # Errors
    /// ENOENT, EISDIR, ENOTDIR (a slash behind the name), or what the daemon says.
    pub fn remove_file(&self, path: impl AsRef<Path>) -> Result<()> {
        let path = path.as_ref();
        let remove = || {
            let Place {
                dir,
                tail,
                wants_dir,
                ..
            } = self.place(path)?;
            let Tail::Name(name) = tail else {
                return Err(Errno::ISDIR);
            };
            looking_again(&dir, &name, || {
                let node = known(&self.cred, &dir, &name)?;
                match node.kind() {
                    FileKind::Directory if wants_dir => return Err(Errno::ISDIR),
                    _ if wants_dir => return Err(Errno::NOTDIR),
                    _ => {}
                }
                self.permit_removal(&dir, &node)?;
                if node.is_dir() {
                    return Err(Errno::ISDIR);
                }
                let result = self.rpc().unlink(&dir, walk::checked(&name)?);
                removed(&dir, &name, &node, result)
            })
        };
        remove().map_err(self.fail("remove", path))
    }

    /// Removes an empty directory.
    ///
    /// # Errors
    /// ENOTEMPTY, ENOENT, ENOTDIR, EBUSY (the root), EINVAL (a path that ends in `.`), or what the
    /// daemon says.
    pub fn remove_dir(&self, path: impl AsRef<Path>) -> Result<()> {
        let path = path.as_ref();
        let remove = || {
            let Place { dir, tail, .. } = self.place(path)?;
            let name = match tail {
                Tail::Name(name) => name,
                Tail::Root => return Err(Errno::BUSY),
                Tail::Dot => return Err(Errno::INVAL),
                Tail::DotDot => return Err(Errno::NOTEMPTY),
            };
            looking_again(&dir, &name, || {
                let node = known(&self.cred, &dir, &name)?;
                self.permit_removal(&dir, &node)?;
                if !node.is_dir() {
                    return Err(Errno::NOTDIR);
                }
                let result = self.rpc().rmdir(&dir, walk::checked(&name)?);
                removed(&dir, &name, &node, result)
            })
        };
        remove().map_err(self.fail("remove directory", path))
    }

    /// Gives something another name; replaces what has it already, as rename(2) does.
    ///
    /// # Errors
    /// ENOENT, ENOTDIR, EISDIR, ENOTEMPTY, EBUSY (the root, `.` or `..`), EINVAL (into itself), or
    /// what the daemon says.
    pub fn rename(&self, from: impl AsRef<Path>, to: impl AsRef<Path>) -> Result<()> {
        self.rename_with(from.as_ref(), self, to.as_ref(), RenameFlags::empty())
    }

    /// As [`Client::rename`], but replaces nothing.
    ///
    /// # Errors
    /// EEXIST when something has the name already; EINVAL when the daemon cannot promise that; else
    /// as [`Client::rename`].
    pub fn rename_no_replace(&self, from: impl AsRef<Path>, to: impl AsRef<Path>) -> Result<()> {
        self.rename_with(from.as_ref(), self, to.as_ref(), RenameFlags::NOREPLACE)
    }

    /// Gives each the name of the other, at once.
    ///
    /// # Errors
    /// ENOENT when either is missing; EINVAL when the daemon cannot; else as [`Client::rename`].
    pub fn exchange(&self, one: impl AsRef<Path>, other: impl AsRef<Path>) -> Result<()> {
        self.rename_with(one.as_ref(), self, other.as_ref(), RenameFlags::EXCHANGE)
    }

    /// Renames; `to` begins where paths of `other` do.
    pub(crate) fn rename_with(
        &self,
        from: &Path,
        other: &Client,
        to: &Path,
        flags: RenameFlags,
    ) -> Result<()> {
        let from_place = self.place(from).map_err(self.fail("rename", from))?;
        let to_place = other.place(to).map_err(self.fail("rename", to))?;
        let Tail::Name(old) = &from_place.tail else {
            return Err(self.fail("rename", from)(Errno::BUSY));
        };
        if !matches!(to_place.tail, Tail::Name(_)) {
            let errno = if flags.contains(RenameFlags::NOREPLACE) {
                Errno::EXIST
            } else {
                Errno::BUSY
            };
            return Err(self.fail("rename", from)(errno));
        }
        looking_again(&from_place.dir, old, || {
            self.rename_places(&from_place, &to_place, flags)
        })
        .map_err(self.fail("rename", from))
    }

    fn rename_places(&self, from: &Place, to: &Place, flags: RenameFlags) -> Outcome<()> {
        let (Tail::Name(old), Tail::Name(new)) = (&from.tail, &to.tail) else {
            return Err(Errno::BUSY);
        };
        if from.dir.mount() != to.dir.mount() {
            return Err(Errno::XDEV);
        }
        let moved = known(&self.cred, &from.dir, old)?;
        let replaced = walk::lookup(&self.cred, &to.dir, new)?;
        let exchange = flags.contains(RenameFlags::EXCHANGE);
        match &replaced {
            Some(_) if flags.contains(RenameFlags::NOREPLACE) => return Err(Errno::EXIST),
            None if exchange => return Err(Errno::NOENT),
            Some(other) if exchange && to.wants_dir && !other.is_dir() => {
                return Err(Errno::NOTDIR);
            }
            _ => {}
        }
        if !moved.is_dir() && (from.wants_dir || to.wants_dir && !exchange) {
            return Err(Errno::NOTDIR);
        }
        let is_on = |node: &Arc<Node>, way: &[Arc<Node>]| way.iter().any(|n| Arc::ptr_eq(n, node));
        if is_on(&moved, &to.way) {
            // Into itself.
            return Err(Errno::INVAL);
        }
        if replaced
            .as_ref()
            .is_some_and(|other| is_on(other, &from.way))
        {
            return Err(if exchange {
                Errno::INVAL
            } else {
                Errno::NOTEMPTY
            });
        }
        if replaced
            .as_ref()
            .is_some_and(|other| Arc::ptr_eq(other, &moved))
        {
            // Two names of one file: rename(2) does nothing, and calls it done.
            return Ok(());
        }
        self.permit_removal(&from.dir, &moved)?;
        match &replaced {
            Some(other) => {
                self.permit_removal(&to.dir, other)?;
                match (moved.is_dir(), other.is_dir()) {
                    (true, false) if !exchange => return Err(Errno::NOTDIR),
                    (false, true) if !exchange => return Err(Errno::ISDIR),
                    _ => {}
                }
            }
            None => to
                .dir
                .permit(&self.cred, Access::WRITE.and(Access::SEARCH))?,
        }
        if moved.is_dir() && !Arc::ptr_eq(&from.dir, &to.dir) {
            // Its `..` changes.
            moved.permit(&self.cred, Access::WRITE)?;
        }
        if let Some(other) = &replaced
            && exchange
            && other.is_dir()
            && !Arc::ptr_eq(&from.dir, &to.dir)
        {
            other.permit(&self.cred, Access::WRITE)?;
        }
        to.dir.check_fresh()?;
        let result = self.rpc().rename(
            (&from.dir, walk::checked(old)?),
            (&to.dir, walk::checked(new)?),
            flags.bits(),
        );
        if may_have_happened(&result) {
            for (dir, name) in [(&from.dir, old), (&to.dir, new)] {
                dir.expire_attr();
                dir.forget_child(name);
            }
            for node in [Some(moved), replaced].into_iter().flatten() {
                node.expire_attr();
            }
        }
        result
    }

    /// Gives the file at `original` (a symbolic link itself, if it is one) a second name at
    /// `link`.
    ///
    /// # Errors
    /// ENOENT, EEXIST, EPERM (a directory, or the daemon has no hard links), EXDEV, or what the
    /// daemon says.
    pub fn hard_link(&self, original: impl AsRef<Path>, link: impl AsRef<Path>) -> Result<()> {
        let (original, link) = (original.as_ref(), link.as_ref());
        let node = self
            .resolve(original, Links::NoFollow)
            .map_err(self.fail("link", original))?;
        self.link_node(&node, link)
    }

    pub(crate) fn link_node(&self, node: &Arc<Node>, link: &Path) -> Result<()> {
        let make = || {
            let Place {
                dir,
                tail,
                wants_dir,
                ..
            } = self.place(link)?;
            let Tail::Name(name) = tail else {
                return Err(Errno::EXIST);
            };
            // As linkat(2): that the new name is taken comes before everything else.
            match walk::lookup(&self.cred, &dir, &name)? {
                Some(_) => return Err(Errno::EXIST),
                None if wants_dir => return Err(Errno::NOENT),
                None if node.mount() != dir.mount() => return Err(Errno::XDEV),
                None => {}
            }
            if self.core().checks == Checks::Client {
                self.cred.identity.may_link(&node.attr(&self.cred, None)?)?;
            }
            let new = self.new_in(&dir, &name, 0)?;
            if node.is_dir() {
                return Err(Errno::PERM);
            }
            let made = self.make_in(&new, node.kind(), |new| {
                self.rpc().link(node, new.dir, new.name)
            });
            // Its link count has changed.
            node.expire_attr();
            made
        };
        make().map(drop).map_err(self.fail("link", link))
    }
}

/// Whether an operation on a name has changed what the name means, or somebody else has.
fn may_have_happened(result: &Outcome<()>) -> bool {
    matches!(result, Ok(()) | Err(Errno::NOENT | Errno::INTR))
}

/// Caches that `name`, which was `node`, is gone from `dir`, if it is. The node may have other
/// names, and its count of them has changed.
fn removed(dir: &Arc<Node>, name: &[u8], node: &Node, result: Outcome<()>) -> Outcome<()> {
    if may_have_happened(&result) {
        dir.expire_attr();
        dir.forget_child(name);
        node.expire_attr();
    }
    result
}

/// How often an operation that takes a name away is tried when the daemon does not know what the
/// name stands for.
const LOOKS: u32 = 3;

/// Carries out an operation that looks `name` up in `dir` and takes it away. virtiofsd in C answers
/// EIO when the name has come to mean something else in between, so then it is looked up anew.
fn looking_again(dir: &Arc<Node>, name: &[u8], operation: impl Fn() -> Outcome<()>) -> Outcome<()> {
    let mut looks = 1;
    loop {
        match operation() {
            Err(Errno::IO) if looks < LOOKS => {
                dir.forget_child(name);
                looks += 1;
            }
            result => return result,
        }
    }
}

/// What is called `name` in `dir`, for an operation that takes the name away.
///
/// The peer must know the node until it has answered: daemons are used to a kernel that looks
/// every name up before it removes or moves it, and virtiofsd in C answers EIO if it did not.
fn known(cred: &Cred, dir: &Arc<Node>, name: &[u8]) -> Outcome<Arc<Node>> {
    walk::lookup(cred, dir, name)?.ok_or(Errno::NOENT)
}

/// The errno in an error made by [`File`]'s reading and writing.
fn errno_of(error: &std::io::Error) -> Errno {
    error
        .get_ref()
        .and_then(|inner| inner.downcast_ref::<crate::Error>())
        .map(|inner| Errno::from_raw_os_error(inner.errno()))
        .or_else(|| Errno::from_io_error(error))
        .unwrap_or(Errno::IO)
}
