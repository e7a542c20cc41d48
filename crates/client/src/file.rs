//! Open files, in the shape of `std::fs::File`.

use crate::client::{Client, Shared};
use crate::error::{Error, Result};
use crate::fs_ops;
use crate::io::Data;
use crate::meta::{Metadata, PERMISSION_BITS, Times};
use crate::node::Node;
use crate::rpc::Opened;
use crate::walk::{self, End, Found, Links};
use fusewire_sync::atomic::{AtomicBool, Ordering};
use fusewire_sync::{Arc, Mutex, Rank};
use fusewire_wire::abi::{FileKind, SetattrIn};
use fusewire_wire::{InitFlags, OpenOutFlags};
use rustix::fd::BorrowedFd;
use rustix::fs::OFlags;
use rustix::io::Errno;
use std::fs::Permissions;
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

type Outcome<T> = std::result::Result<T, Errno>;

/// How often a file that comes and goes between two requests is tried again.
const OPEN_RACES: u32 = 8;

/// How to open a file; as `std::fs::OpenOptions`.
#[derive(Clone, Debug)]
pub struct OpenOptions {
    read: bool,
    write: bool,
    append: bool,
    truncate: bool,
    create: bool,
    create_new: bool,
    mode: u32,
    custom_flags: u32,
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
        custom_flags: u32
    }

    /// Opens the file at `path`.
    ///
    /// # Errors
    /// EINVAL for options that do not go together; ENOENT, EEXIST, EISDIR, ENOTDIR, ELOOP, ENXIO
    /// (a device, pipe or socket, which has nothing behind it here), or what the daemon says to
    /// LOOKUP, OPEN and CREATE.
    pub fn open(&self, client: &Client, path: impl AsRef<Path>) -> Result<File> {
        let path = path.as_ref();
        self.open_at(client, path)
            .map_err(client.fail("open", path))
    }

    fn open_at(&self, client: &Client, path: &Path) -> Outcome<File> {
        let flags = self.flags()?;
        let links = if self.create_new || flags & OFlags::NOFOLLOW.bits() != 0 {
            Links::NoFollow
        } else {
            Links::Follow
        };
        let end = if self.creates() {
            End::MakeFile
        } else {
            End::Find
        };
        let root = &client.shared.root;
        for _ in 0..OPEN_RACES {
            let opened = match walk::find(root, path.as_os_str().as_bytes(), links, end)? {
                Found::Node(_) if self.create_new => return Err(Errno::EXIST),
                Found::Node(node) => self.open_node(client, &node, flags).map(|o| (node, o)),
                Found::Missing { dir, name } if self.creates() => {
                    self.create_in(client, &dir, &name, flags)
                }
                Found::Missing { .. } => return Err(Errno::NOENT),
            };
            match opened {
                Ok((node, open)) => return Ok(File::new(client, path, node, open)),
                // It came or went between the two requests.
                Err(Errno::EXIST) if !self.create_new => {}
                Err(Errno::NOENT) if self.creates() => {}
                Err(errno) => return Err(errno),
            }
        }
        Err(Errno::AGAIN)
    }

    fn creates(&self) -> bool {
        self.create || self.create_new
    }

    /// The options as `O_*` flags.
    fn flags(&self) -> Outcome<u32> {
        let writes = self.write || self.append;
        let access = match (self.read, writes) {
            (true, false) => OFlags::RDONLY,
            (false, true) => OFlags::WRONLY,
            (true, true) => OFlags::RDWR,
            (false, false) => return Err(Errno::INVAL),
        };
        // As in std: what changes the file needs a way to write, and only a file that is made
        // may be both emptied and appended to.
        let changes = self.truncate || self.creates();
        if changes && !writes || self.append && self.truncate && !self.create_new {
            return Err(Errno::INVAL);
        }
        let ours = OFlags::RWMODE | OFlags::CREATE | OFlags::EXCL | OFlags::TRUNC | OFlags::APPEND;
        let mut flags = (OFlags::from_bits_retain(self.custom_flags) - ours) | access;
        flags.set(OFlags::APPEND, self.append);
        flags.set(OFlags::CREATE, self.creates());
        flags.set(OFlags::EXCL, self.create_new);
        flags.set(OFlags::TRUNC, self.truncate && !self.create_new);
        Ok(flags.bits())
    }

    /// Opens a file that is there.
    fn open_node(&self, client: &Client, node: &Arc<Node>, flags: u32) -> Outcome<Opened> {
        match node.kind() {
            FileKind::Regular => {}
            FileKind::Directory => return Err(Errno::ISDIR),
            FileKind::Symlink => return Err(Errno::LOOP),
            _ => return Err(Errno::NXIO),
        }
        node.check_fresh()?;
        let rpc = &client.core().rpc;
        let atomic = rpc.negotiated().flags.contains(InitFlags::ATOMIC_O_TRUNC);
        let not_for_open = OFlags::CREATE | OFlags::EXCL | OFlags::NOCTTY;
        let mut sent = OFlags::from_bits_retain(flags) - not_for_open;
        if !atomic {
            sent -= OFlags::TRUNC;
        }
        if !self.truncate {
            return rpc.open(node, sent.bits());
        }
        if atomic {
            let size = node.change_size();
            let open = rpc.open(node, sent.bits())?;
            size.set(0);
            return Ok(open);
        }
        let open = rpc.open(node, sent.bits())?;
        if let Err(errno) = fs_ops::set_size(node, 0, Some(open.fh)) {
            rpc.release(node, &open, false);
            return Err(errno);
        }
        Ok(open)
    }

    /// Makes a file and opens it in one.
    fn create_in(
        &self,
        client: &Client,
        dir: &Arc<Node>,
        name: &[u8],
        flags: u32,
    ) -> Outcome<(Arc<Node>, Opened)> {
        let core = client.core();
        let sampled = core.attr_version();
        let mode = FileKind::Regular.mode_bits() | (self.mode & PERMISSION_BITS);
        let new = client.new_in(dir, name, mode)?;
        let flags = OFlags::from_bits_retain(flags) - OFlags::NOCTTY;
        let created = core.rpc.create(&new, flags.bits());
        dir.expire_attr();
        let (entry, open) = match created {
            Ok(created) => created,
            Err(errno) => {
                dir.forget_child(name);
                return Err(errno);
            }
        };
        let node = walk::take_entry(dir, &entry, sampled)?;
        if node.kind() != FileKind::Regular {
            core.rpc.release(&node, &open, false);
            return Err(Errno::IO);
        }
        dir.adopt_child(name, Some(&node), entry.entry_timeout());
        Ok((node, open))
    }
}

/// An open file. Dropping the last clone closes it, and so ends with what close(2) does; errors
/// that the daemon reports only then are seen with [`File::close`].
#[derive(Clone, Debug)]
pub struct File {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    node: Arc<Node>,
    open: Opened,
    path: PathBuf,
    position: Mutex<u64>,
    closed: AtomicBool,
    // Last: the connection outlives the file.
    client: Client,
}

impl Inner {
    /// FLUSH and RELEASE, once.
    fn close(&self) -> Outcome<()> {
        if self.closed.swap(true, Ordering::AcqRel) {
            return Ok(());
        }
        let rpc = &self.client.core().rpc;
        let flushed = if self.open.granted.contains(OpenOutFlags::NOFLUSH) {
            Ok(())
        } else {
            rpc.flush(&self.node, &self.open)
        };
        rpc.release(&self.node, &self.open, false);
        self.client.core().open_handles.sub(1);
        flushed
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        let _ = self.close();
    }
}

impl File {
    fn new(client: &Client, path: &Path, node: Arc<Node>, open: Opened) -> Self {
        client.core().open_handles.add(1);
        File {
            inner: Arc::new(Inner {
                node,
                open,
                path: path.to_path_buf(),
                position: Mutex::new(Rank::FILE_POSITION, 0),
                closed: AtomicBool::new(false),
                client: Client {
                    shared: Arc::<Shared>::clone(&client.shared),
                },
            }),
        }
    }

    fn data(&self) -> Data<'_> {
        Data {
            node: &self.inner.node,
            open: &self.inner.open,
        }
    }

    fn fail(&self, operation: &'static str) -> impl FnOnce(Errno) -> Error {
        self.inner.client.fail(operation, &self.inner.path)
    }

    /// Closes the file for all its clones and reports what close(2) would: that data could not be
    /// written after all. The file is closed either way.
    ///
    /// # Errors
    /// What the daemon says to FLUSH, typically EIO, ENOSPC or EDQUOT.
    pub fn close(self) -> Result<()> {
        self.inner.close().map_err(self.fail("close"))
    }

    /// Reads into `buf` from byte `offset` on; returns how many bytes, 0 at the end of the file.
    /// Leaves the position alone.
    ///
    /// # Errors
    /// EBADF when not open for reading, or what the daemon says.
    pub fn read_at(&self, buf: &mut [u8], offset: u64) -> Result<usize> {
        let (len, mut filled) = (buf.len() as u64, 0);
        self.check_access(OFlags::RDONLY)
            .and_then(|()| {
                self.data().read(offset, len, |_, bytes| {
                    bytes.copy_to(&mut buf[filled..filled + bytes.len()]);
                    filled += bytes.len();
                    Ok(())
                })
            })
            .map(|read| read as usize)
            .map_err(self.fail("read"))
    }

    /// Reads exactly `buf.len()` bytes from byte `offset` on.
    ///
    /// # Errors
    /// `UnexpectedEof` when there are fewer, else as [`File::read_at`].
    pub fn read_exact_at(&self, mut buf: &mut [u8], mut offset: u64) -> io::Result<()> {
        while !buf.is_empty() {
            match self.read_at(buf, offset)? {
                0 => return Err(io::ErrorKind::UnexpectedEof.into()),
                n => {
                    buf = &mut buf[n..];
                    offset += n as u64;
                }
            }
        }
        Ok(())
    }

    /// Writes bytes of `buf` at byte `offset` (at the end, if opened to append); returns how many
    /// the daemon took. Leaves the position alone.
    ///
    /// # Errors
    /// EBADF when not open for writing, EFBIG beyond 2⁶³ − 1, or what the daemon says, typically
    /// ENOSPC or EIO. With several requests in flight, parts behind the first that failed may have
    /// been written.
    pub fn write_at(&self, buf: &[u8], offset: u64) -> Result<usize> {
        self.check_access(OFlags::WRONLY)
            .and_then(|()| self.write_here(buf, offset))
            .map(|(_, written)| written)
            .map_err(self.fail("write"))
    }

    /// Writes and says where: at `offset`, or at the end if opened to append.
    fn write_here(&self, buf: &[u8], offset: u64) -> Outcome<(u64, usize)> {
        let offset = self.write_offset(offset)?;
        let written = self.data().write(offset, buf.len() as u64, |at, room| {
            let start = (at - offset) as usize;
            room.copy_from(&buf[start..start + room.len()]);
            Ok(room.len())
        })?;
        Ok((offset, written as usize))
    }

    fn write_offset(&self, offset: u64) -> Outcome<u64> {
        if self.inner.open.flags & OFlags::APPEND.bits() == 0 {
            return Ok(offset);
        }
        let attr = self.inner.node.attr(Some(self.inner.open.fh))?;
        Ok(attr.size)
    }

    /// Writes all of `buf` at byte `offset`.
    ///
    /// # Errors
    /// `WriteZero` when the daemon takes nothing, else as [`File::write_at`].
    pub fn write_all_at(&self, mut buf: &[u8], mut offset: u64) -> io::Result<()> {
        while !buf.is_empty() {
            match self.write_at(buf, offset)? {
                0 => return Err(io::ErrorKind::WriteZero.into()),
                n => {
                    buf = &buf[n..];
                    offset += n as u64;
                }
            }
        }
        Ok(())
    }

    /// Copies up to `len` bytes from byte `offset` on to the descriptor `to` at `to_offset`,
    /// without a buffer in between; returns how many until the end of the file.
    ///
    /// # Errors
    /// As [`File::read_at`], or what pwrite(2) says of `to`.
    pub fn read_to_fd(
        &self,
        offset: u64,
        len: u64,
        to: BorrowedFd<'_>,
        to_offset: u64,
    ) -> Result<u64> {
        self.check_access(OFlags::RDONLY)
            .and_then(|()| {
                self.data().read(offset, len, |at, bytes| {
                    let mut done = 0;
                    while done < bytes.len() {
                        let rest = bytes.slice(done, bytes.len() - done);
                        let to_at = to_offset + (at - offset) + done as u64;
                        match rest.pwrite_to(to, to_at) {
                            Ok(0) => return Err(Errno::IO),
                            Ok(n) => done += n,
                            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                            Err(error) => {
                                return Err(Errno::from_io_error(&error).unwrap_or(Errno::IO));
                            }
                        }
                    }
                    Ok(())
                })
            })
            .map_err(self.fail("read"))
    }

    /// Copies up to `len` bytes from the descriptor `from` at `from_offset` to byte `offset` on,
    /// without a buffer in between; returns how many until the end of `from`.
    ///
    /// # Errors
    /// As [`File::write_at`], or what pread(2) says of `from`.
    pub fn write_from_fd(
        &self,
        offset: u64,
        len: u64,
        from: BorrowedFd<'_>,
        from_offset: u64,
    ) -> Result<u64> {
        self.check_access(OFlags::WRONLY)
            .and_then(|()| {
                let offset = self.write_offset(offset)?;
                self.data().write(offset, len, |at, room| {
                    let mut done = 0;
                    while done < room.len() {
                        let rest = room.slice(done, room.len() - done);
                        let from_at = from_offset + (at - offset) + done as u64;
                        match rest.pread_from(from, from_at) {
                            Ok(0) => break,
                            Ok(n) => done += n,
                            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                            Err(error) => {
                                return Err(Errno::from_io_error(&error).unwrap_or(Errno::IO));
                            }
                        }
                    }
                    Ok(done)
                })
            })
            .map_err(self.fail("write"))
    }

    /// EBADF unless the file is open, and for `access` (read-only or write-only).
    fn check_access(&self, access: OFlags) -> Outcome<()> {
        let have = OFlags::from_bits_retain(self.inner.open.flags) & OFlags::RWMODE;
        let allowed = have == OFlags::RDWR || have == access;
        if !allowed || self.inner.closed.load(Ordering::Acquire) {
            return Err(Errno::BADF);
        }
        Ok(())
    }

    /// Attributes of the file.
    ///
    /// # Errors
    /// What the daemon says.
    pub fn metadata(&self) -> Result<Metadata> {
        let node = &self.inner.node;
        node.attr(Some(self.inner.open.fh))
            .map(|attr| Metadata::new(attr, node.kind()))
            .map_err(self.fail("stat"))
    }

    /// Sets the size: cut off, or filled up with zeroes.
    ///
    /// # Errors
    /// EBADF when not open for writing, EFBIG, or what the daemon says.
    pub fn set_len(&self, len: u64) -> Result<()> {
        self.check_access(OFlags::WRONLY)
            .and_then(|()| fs_ops::set_size(&self.inner.node, len, Some(self.inner.open.fh)))
            .map_err(self.fail("truncate"))
    }

    /// Sets the permission bits.
    ///
    /// # Errors
    /// EPERM, or what the daemon says.
    pub fn set_permissions(&self, permissions: Permissions) -> Result<()> {
        let change = fs_ops::mode_change(permissions.mode());
        fs_ops::setattr(&self.inner.node, change).map_err(self.fail("set permissions"))
    }

    /// Sets times.
    ///
    /// # Errors
    /// EINVAL for nanoseconds of a second or more; EPERM, or what the daemon says.
    pub fn set_times(&self, times: Times) -> Result<()> {
        if !times.is_valid() {
            return Err(self.fail("set times")(Errno::INVAL));
        }
        let mut change = SetattrIn::default();
        times.put(&mut change);
        fs_ops::setattr(&self.inner.node, change).map_err(self.fail("set times"))
    }

    /// Waits until data and attributes are on stable storage.
    ///
    /// # Errors
    /// EIO, ENOSPC, or what else the daemon says to FSYNC.
    pub fn sync_all(&self) -> Result<()> {
        self.sync(false)
    }

    /// Waits until the data is on stable storage, with the attributes needed to find it.
    ///
    /// # Errors
    /// As [`File::sync_all`].
    pub fn sync_data(&self) -> Result<()> {
        self.sync(true)
    }

    fn sync(&self, data_only: bool) -> Result<()> {
        let inner = &self.inner;
        inner
            .client
            .core()
            .rpc
            .fsync(&inner.node, &inner.open, data_only)
            .map_err(self.fail("sync"))
    }

    /// A second handle of the same open file: position and all.
    #[must_use]
    pub fn try_clone(&self) -> Self {
        self.clone()
    }
}

impl Read for &File {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        let mut position = self.inner.position.lock();
        let offset = if self.data().is_stream() {
            0
        } else {
            *position
        };
        let read = self.read_at(buf, offset)?;
        *position += read as u64;
        Ok(read)
    }
}

impl Write for &File {
    fn write(&mut self, buf: &[u8]) -> io::Result<usize> {
        let mut position = self.inner.position.lock();
        let offset = if self.data().is_stream() {
            0
        } else {
            *position
        };
        let (at, written) = self
            .check_access(OFlags::WRONLY)
            .and_then(|()| self.write_here(buf, offset))
            .map_err(self.fail("write"))?;
        *position = at + written as u64;
        Ok(written)
    }

    /// Nothing to do: nothing is buffered on this side.
    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Seek for &File {
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        let nonseekable = OpenOutFlags::NONSEEKABLE | OpenOutFlags::STREAM;
        if self.inner.open.granted.intersects(nonseekable) {
            return Err(self.fail("seek")(Errno::SPIPE).into());
        }
        let mut position = self.inner.position.lock();
        let new = match to {
            SeekFrom::Start(offset) => i64::try_from(offset).ok(),
            SeekFrom::Current(delta) => position.cast_signed().checked_add(delta),
            SeekFrom::End(delta) => self.metadata()?.len().cast_signed().checked_add(delta),
        };
        let new = new
            .filter(|offset| *offset >= 0)
            .ok_or_else(|| self.fail("seek")(Errno::INVAL))?;
        *position = new.cast_unsigned();
        Ok(*position)
    }
}

impl Read for File {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        (&*self).read(buf)
    }
}

impl Write for File {
    fn write(&mut self, buf: &[u8]) -> io::Result<usize> {
        (&*self).write(buf)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Seek for File {
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        (&*self).seek(to)
    }
}
