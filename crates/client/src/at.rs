//! Paths that begin in a directory: what directory descriptors are to the `*at` system calls.

use crate::client::Client;
use crate::error::Result;
use crate::meta::Metadata;
use crate::open::OpenOptions;
use crate::walk::{Bounds, Links, Start};
use fusewire_sync::Arc;
use rustix::fs::{AtFlags, OFlags, RenameFlags};
use rustix::io::Errno;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

impl Client {
    /// A handle of this client whose relative paths begin in the directory at `path`, as those of
    /// the `*at` system calls do with a descriptor of it. It stays that directory, whatever becomes
    /// of its name, and so nobody can lead it elsewhere by renaming what is above. `/` is still the
    /// root of the served tree.
    ///
    /// Every operation can be made through it:
    ///
    /// ```
    /// # use fusewire::Client;
    /// # use fusewire_server::{ServerOptions, mem, start};
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let files = mem::Memory::new(mem::MemOptions::default());
    /// # let (transport, _server) = start(files, &ServerOptions::default())?;
    /// # let client = Client::builder().connect(transport)?;
    /// client.create_dir_all("/a/b")?;
    /// let dir = client.at("/a/b")?;
    /// dir.write("file", "text")?;
    /// client.rename("/a", "/elsewhere")?;
    /// assert_eq!(dir.read("file")?, b"text");
    /// assert_eq!(client.read("/elsewhere/b/file")?, b"text");
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// ENOTDIR when it is no directory; else as [`Client::metadata`].
    pub fn at(&self, path: impl AsRef<Path>) -> Result<Self> {
        let path = path.as_ref();
        self.start
            .at(&self.cred, path.as_os_str().as_bytes())
            .map(|start| self.beginning(start))
            .map_err(self.fail("open directory", path))
    }

    /// The same handle for paths that do not lead out of the directory where they begin: absolute
    /// ones, those with too many `..`, and symbolic links that hold such are EXDEV, as with
    /// RESOLVE_BENEATH of openat2(2).
    #[must_use]
    pub fn beneath(&self) -> Self {
        self.bounded(|bounds| bounds.beneath = true)
    }

    /// The same handle for paths that do not lead through symbolic links: they are ELOOP, as with
    /// RESOLVE_NO_SYMLINKS of openat2(2).
    #[must_use]
    pub fn no_symlinks(&self) -> Self {
        self.bounded(|bounds| bounds.no_links = true)
    }

    fn bounded(&self, set: impl FnOnce(&mut Bounds)) -> Self {
        let mut bounds = self.start.bounds();
        set(&mut bounds);
        self.beginning(self.start.bounded(bounds))
    }

    pub(crate) fn beginning(&self, start: Start) -> Self {
        Client {
            start,
            cred: Arc::clone(&self.cred),
            shared: Arc::clone(&self.shared),
        }
    }

    /// Whether relative paths of both handles begin in one and the same directory, of the same
    /// client: whoever goes down a tree finds out so that a directory is inside itself.
    #[must_use]
    pub fn is_same_dir(&self, other: &Client) -> bool {
        Arc::ptr_eq(self.start.dir(), other.start.dir())
    }

    /// Attributes of the directory where relative paths begin, whatever has its name: fstat(2) of a
    /// directory descriptor.
    ///
    /// # Errors
    /// ESTALE, or what the daemon says.
    pub fn dir_metadata(&self) -> Result<Metadata> {
        let dir = self.start.dir();
        dir.attr(&self.cred, None)
            .map(|attr| Metadata::new(dir, attr))
            .map_err(self.fail("stat", Path::new("")))
    }

    /// renameat2(2): `from` begins in this handle's directory and `to` in that of `other`, a handle
    /// of the same client. `flags` are those of renameat2(2): RENAME_NOREPLACE, RENAME_EXCHANGE,
    /// RENAME_WHITEOUT.
    ///
    /// # Errors
    /// EINVAL for flags that do not go together or that the daemon does not know; EXDEV for a handle
    /// of another client; else as [`Client::rename`].
    pub fn rename_at(
        &self,
        from: impl AsRef<Path>,
        other: &Client,
        to: impl AsRef<Path>,
        flags: u32,
    ) -> Result<()> {
        let (from, to) = (from.as_ref(), to.as_ref());
        let flags = RenameFlags::from_bits_retain(flags);
        let known = RenameFlags::NOREPLACE | RenameFlags::EXCHANGE | RenameFlags::WHITEOUT;
        let alone = flags.contains(RenameFlags::EXCHANGE) && flags != RenameFlags::EXCHANGE;
        if alone || !known.contains(flags) {
            return Err(self.fail("rename", from)(Errno::INVAL));
        }
        if !Arc::ptr_eq(self.core(), other.core()) {
            return Err(self.fail("rename", from)(Errno::XDEV));
        }
        self.rename_with(from, other, to, flags)
    }

    /// linkat(2): `original` begins in this handle's directory and `link` in that of `other`, a
    /// handle of the same client. `flags` are those of linkat(2): with AT_SYMLINK_FOLLOW the new name
    /// is one of what a symbolic link at `original` leads to, else one of the link itself. For
    /// AT_EMPTY_PATH see [`Client::link_file`].
    ///
    /// # Errors
    /// EINVAL for other flags; EXDEV for a handle of another client; else as [`Client::hard_link`].
    pub fn link_at(
        &self,
        original: impl AsRef<Path>,
        other: &Client,
        link: impl AsRef<Path>,
        flags: u32,
    ) -> Result<()> {
        let (original, link) = (original.as_ref(), link.as_ref());
        let links = match AtFlags::from_bits_retain(flags) {
            AtFlags::SYMLINK_FOLLOW => Links::Follow,
            flags if flags.is_empty() => Links::NoFollow,
            _ => return Err(self.fail("link", original)(Errno::INVAL)),
        };
        let node = self
            .resolve(original, links)
            .map_err(self.fail("link", original))?;
        if !Arc::ptr_eq(self.core(), other.core()) {
            return Err(other.fail("link", link)(Errno::XDEV));
        }
        other.link_node(&node, link)
    }
}

impl OpenOptions {
    /// The options that open(2) has as `O_*` flags, with the mode of a file that is made.
    ///
    /// # Errors
    /// EINVAL for an access mode that is none, and for O_PATH and O_TMPFILE, which open something
    /// else than the data of a file: see [`Client::at`] and [`OpenOptions::open_unnamed`]. For the
    /// same reason a directory is EISDIR, also with O_DIRECTORY.
    pub fn from_flags(flags: u32, mode: u32) -> Result<Self> {
        let flags = OFlags::from_bits_retain(flags);
        let elsewhere = OFlags::PATH | (OFlags::TMPFILE - OFlags::DIRECTORY);
        let (read, write) = match flags & OFlags::RWMODE {
            OFlags::RDONLY => (true, false),
            OFlags::WRONLY => (false, true),
            OFlags::RDWR => (true, true),
            _ => (false, false),
        };
        if flags.intersects(elsewhere) || !(read || write) {
            return Err(crate::Error::new("open", "", Errno::INVAL));
        }
        Ok(OpenOptions::from_parts(read, write, flags, mode))
    }
}
