//! Open files, in the shape of `std::fs::File`.

use crate::client::Client;
use crate::cred::Cred;
use crate::error::{Error, Result};
use crate::fs_attr;
use crate::handle::Handle;
use crate::io::{Data, at_most};
use crate::iomode::Parallel;
use crate::meta::{Metadata, Time, Times};
use crate::turn::Taken;
use fusewire_sync::{Arc, Mutex, Rank};
use fusewire_wire::OpenOutFlags;
use fusewire_wire::abi::SetattrIn;
use rustix::fd::BorrowedFd;
use rustix::fs::OFlags;
use rustix::io::Errno;
use std::fs::Permissions;
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

type Outcome<T> = std::result::Result<T, Errno>;

/// Bytes that reading to the end asks for at once: a size that the daemon claims is no reason to
/// allocate as much.
const READ_STEP_BYTES: usize = 1 << 20;
/// The least that it asks for first, twice as much each time: some daemons say 0 of every file.
const READ_STEP_MIN_BYTES: usize = 4096;

/// An open file. Each clone is closed when it is dropped, as each descriptor of a file is by
/// close(2); what that reports is seen with [`File::close`] only. The daemon is told that the file
/// is no longer open when the last clone is gone.
#[derive(Debug)]
pub struct File {
    inner: Arc<Inner>,
    /// FLUSH was sent for this clone.
    flushed: bool,
}

#[derive(Debug)]
struct Inner {
    /// Taken by `drop` alone.
    handle: Option<Arc<Handle>>,
    path: PathBuf,
    position: Mutex<u64>,
    // Last: the connection outlives the file.
    client: Client,
}

/// The right to write now, until it is dropped.
#[derive(Debug)]
struct WriteTurn<'a> {
    _beside_others: Option<Parallel<'a>>,
    _alone: Option<Taken<'a>>,
}

impl Drop for Inner {
    fn drop(&mut self) {
        if let Some(handle) = self.handle.take() {
            handle.close();
        }
    }
}

impl Clone for File {
    fn clone(&self) -> Self {
        File {
            inner: Arc::clone(&self.inner),
            flushed: false,
        }
    }
}

impl Drop for File {
    fn drop(&mut self) {
        if !self.flushed {
            let _ = self.flush_at_close();
        }
    }
}

impl File {
    pub(crate) fn new(client: &Client, path: &Path, handle: Arc<Handle>) -> Self {
        File {
            inner: Arc::new(Inner {
                handle: Some(handle),
                path: path.to_path_buf(),
                position: Mutex::new(Rank::FILE_POSITION, 0),
                client: client.clone(),
            }),
            flushed: false,
        }
    }

    /// Bytes between the position and the end, as far as is known.
    fn remaining_hint(&self) -> u64 {
        let position = *self.inner.position.lock();
        let size = self.handle().node().size_hint();
        size.saturating_sub(position)
    }

    pub(crate) fn handle(&self) -> &Arc<Handle> {
        match &self.inner.handle {
            Some(handle) => handle,
            None => unreachable!("taken by drop alone, and we hold a reference"),
        }
    }

    fn flush_at_close(&self) -> Outcome<()> {
        let handle = self.handle();
        let told = if handle.open().granted.contains(OpenOutFlags::NOFLUSH) {
            Ok(false)
        } else {
            let owner = self.cred().lock_owner;
            self.inner.client.rpc().flush(handle, handle.open(), owner)
        };
        self.end_record_locks(*told.as_ref().unwrap_or(&true));
        told.map(drop)
    }

    pub(crate) fn cred(&self) -> &Cred {
        &self.inner.client.cred
    }

    fn data(&self) -> Data<'_> {
        Data {
            handle: self.handle(),
            cred: self.cred(),
        }
    }

    pub(crate) fn fail(&self, operation: &'static str) -> impl FnOnce(Errno) -> Error {
        self.inner.client.fail(operation, &self.inner.path)
    }

    /// Closes this clone of the file and reports what close(2) would: that data could not be
    /// written after all. It is closed either way.
    ///
    /// # Errors
    /// What the daemon says to FLUSH, typically EIO, ENOSPC or EDQUOT.
    pub fn close(mut self) -> Result<()> {
        self.flushed = true;
        self.flush_at_close().map_err(self.fail("close"))
    }

    /// Reads into `buf` from byte `offset` on; returns how many bytes, 0 at the end of the file.
    /// Leaves the position alone.
    ///
    /// # Errors
    /// EBADF when not open for reading, EINVAL beyond offset 2⁶³ − 1, or what the daemon says.
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
    /// EBADF when not open for writing, EINVAL beyond offset 2⁶³ − 1, or what the daemon says, typically
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
        if buf.is_empty() {
            return Ok((offset, 0));
        }
        let _turn = self.write_turn(offset, buf.len() as u64)?;
        let offset = self.write_offset(offset)?;
        let written = self.data().write(offset, buf.len() as u64, |at, room| {
            let start = (at - offset) as usize;
            room.copy_from(&buf[start..start + room.len()]);
            Ok(room.len())
        })?;
        Ok((offset, written as usize))
    }

    fn appends(&self) -> bool {
        self.handle().open().flags & OFlags::APPEND.bits() != 0
    }

    /// Writes to a file take turns, as on Linux, so that each call's data stays in one piece, and
    /// from finding the end to writing there nothing comes between. A daemon may allow those that
    /// change no size to go on side by side, while nobody has the file in cached use.
    fn write_turn(&self, offset: u64, len: u64) -> Outcome<WriteTurn<'_>> {
        let (handle, node) = (self.handle(), self.handle().node());
        let wanted = OpenOutFlags::DIRECT_IO | OpenOutFlags::PARALLEL_DIRECT_WRITES;
        let extends = offset.saturating_add(len) > node.size_hint();
        let beside = handle.open().granted.contains(wanted) && !self.appends() && !extends;
        let beside = beside.then(|| node.io_mode.write_in_parallel()).flatten();
        let alone = match beside {
            Some(_) => None,
            None => Some(node.turn.take(&self.cred().token)?),
        };
        Ok(WriteTurn {
            _alone: alone,
            _beside_others: beside,
        })
    }

    fn write_offset(&self, offset: u64) -> Outcome<u64> {
        if !self.appends() {
            return Ok(offset);
        }
        let attr = self
            .handle()
            .node()
            .attr(self.cred(), Some(self.handle()))?;
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
    /// without a buffer in between; returns how many until the end of the file, beyond which `len` may
    /// go.
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
                self.data().read(offset, at_most(len, offset), |at, bytes| {
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
    /// without a buffer in between; returns how many until the end of `from`, beyond which `len` may
    /// go.
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
                let _turn = self.write_turn(offset, len)?;
                let offset = self.write_offset(offset)?;
                self.data().write(offset, at_most(len, offset), |at, room| {
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

    /// EBADF unless the file is open for `access` (read-only or write-only).
    pub(crate) fn check_access(&self, access: OFlags) -> Outcome<()> {
        let have = OFlags::from_bits_retain(self.handle().open().flags) & OFlags::RWMODE;
        let allowed = have == OFlags::RDWR || have == access;
        if !allowed {
            return Err(Errno::BADF);
        }
        Ok(())
    }

    /// Attributes of the file.
    ///
    /// # Errors
    /// What the daemon says.
    pub fn metadata(&self) -> Result<Metadata> {
        let node = self.handle().node();
        node.attr(self.cred(), Some(self.handle()))
            .map(|attr| Metadata::new(node, attr))
            .map_err(self.fail("stat"))
    }

    /// Sets the size: cut off, or filled up with zeroes.
    ///
    /// # Errors
    /// EINVAL when not open for writing, or `size` is over 2⁶³ − 1, as ftruncate(2) says; or what the daemon says.
    pub fn set_len(&self, len: u64) -> Result<()> {
        self.check_access(OFlags::WRONLY)
            .map_err(|_| Errno::INVAL)
            .and_then(|()| {
                fs_attr::set_size(self.cred(), self.handle().node(), len, Some(self.handle()))
            })
            .map_err(self.fail("truncate"))
    }

    /// Sets the permission bits.
    ///
    /// # Errors
    /// EPERM, or what the daemon says.
    pub fn set_permissions(&self, permissions: Permissions) -> Result<()> {
        let change = fs_attr::mode_change(permissions.mode());
        fs_attr::setattr(self.cred(), self.handle().node(), change)
            .map_err(self.fail("set permissions"))
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
        fs_attr::setattr(self.cred(), self.handle().node(), change).map_err(self.fail("set times"))
    }

    /// Sets the time of the last change of the contents, and leaves that of the last access alone.
    ///
    /// # Errors
    /// As [`File::set_times`].
    pub fn set_modified(&self, modified: impl Into<Time>) -> Result<()> {
        self.set_times(Times {
            modified: Some(modified.into()),
            ..Times::default()
        })
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
        let (rpc, handle) = (self.inner.client.rpc(), self.handle());
        rpc.fsync(handle, handle.open(), data_only)
            .map_err(self.fail("sync"))
    }

    /// A second handle of the same open file, position and all: what `clone` does, under the name
    /// that [`std::fs::File`] has for it.
    ///
    /// # Errors
    /// None.
    pub fn try_clone(&self) -> Result<Self> {
        Ok(self.clone())
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

    /// Reads in large steps from the start; std would begin with 32 bytes, a request each time.
    fn read_to_end(&mut self, buf: &mut Vec<u8>) -> io::Result<usize> {
        let before = buf.len();
        let mut least = READ_STEP_MIN_BYTES;
        loop {
            let filled = buf.len();
            // One byte more than is expected, so that the end shows at once.
            let expected = self.remaining_hint().saturating_add(1);
            let step = expected.clamp(least as u64, READ_STEP_BYTES as u64) as usize;
            least = (2 * least).min(READ_STEP_BYTES);
            buf.resize(filled + step, 0);
            let read = self.read(&mut buf[filled..]);
            buf.truncate(filled + *read.as_ref().unwrap_or(&0));
            if read? == 0 {
                return Ok(buf.len() - before);
            }
        }
    }

    fn read_to_string(&mut self, text: &mut String) -> io::Result<usize> {
        let mut bytes = Vec::new();
        self.read_to_end(&mut bytes)?;
        let read = std::str::from_utf8(&bytes)
            .map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error))?;
        text.push_str(read);
        Ok(read.len())
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
        if self.handle().open().granted.intersects(nonseekable) {
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

    fn read_to_end(&mut self, buf: &mut Vec<u8>) -> io::Result<usize> {
        (&*self).read_to_end(buf)
    }

    fn read_to_string(&mut self, text: &mut String) -> io::Result<usize> {
        (&*self).read_to_string(text)
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
