//! Where a file's data lies: holes, allocation, copies inside the daemon, stable storage.

use crate::client::Client;
use crate::dir::ReadDir;
use crate::error::Result;
use crate::file::File;
use crate::handle::Handle;
use crate::walk::Links;
use fusewire_sync::Arc;
use rustix::fs::{FallocateFlags, OFlags};
use rustix::io::Errno;
use std::path::Path;

type Outcome<T> = std::result::Result<T, Errno>;

/// `whence` of LSEEK, as in lseek(2).
const SEEK_DATA: u32 = 3;
const SEEK_HOLE: u32 = 4;

/// Largest size of a file.
const MAX_OFFSET: u64 = i64::MAX as u64;

/// What to do with a range of a file; see fallocate(2).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Allocate {
    /// Reserve space; the file grows to its end.
    Extend,
    /// Reserve space and leave the size alone.
    KeepSize,
    /// Make it a hole, which reads as zeroes; the size stays.
    PunchHole,
    /// Make it read as zeroes, keeping the space; the file grows to its end.
    Zero,
    /// As [`Allocate::Zero`], and leave the size alone.
    ZeroKeepSize,
}

impl Allocate {
    fn flags(self) -> FallocateFlags {
        match self {
            Allocate::Extend => FallocateFlags::empty(),
            Allocate::KeepSize => FallocateFlags::KEEP_SIZE,
            Allocate::PunchHole => FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE,
            Allocate::Zero => FallocateFlags::ZERO_RANGE,
            Allocate::ZeroKeepSize => FallocateFlags::ZERO_RANGE | FallocateFlags::KEEP_SIZE,
        }
    }

    fn keeps_size(self) -> bool {
        self.flags().contains(FallocateFlags::KEEP_SIZE)
    }
}

impl File {
    /// Offset of the first byte of data at or after `offset`; `None` when only a hole follows, or
    /// the file ends. A daemon that does not know its holes says that all is data.
    ///
    /// # Errors
    /// What the daemon says.
    pub fn seek_data(&self, offset: u64) -> Result<Option<u64>> {
        self.find(offset, SEEK_DATA).map_err(self.fail("seek data"))
    }

    /// Offset of the first hole at or after `offset`, with the end of the file for one; `None`
    /// beyond the end.
    ///
    /// # Errors
    /// What the daemon says.
    pub fn seek_hole(&self, offset: u64) -> Result<Option<u64>> {
        self.find(offset, SEEK_HOLE).map_err(self.fail("seek hole"))
    }

    fn find(&self, offset: u64, whence: u32) -> Outcome<Option<u64>> {
        if offset > MAX_OFFSET {
            return Ok(None);
        }
        let handle = self.handle();
        let rpc = handle.node().core().rpc(self.cred());
        match rpc.lseek(handle, handle.open(), offset, whence) {
            Ok(found) => Ok(Some(found)),
            Err(Errno::NXIO) => Ok(None),
            Err(Errno::NOSYS) => {
                let size = handle.node().attr(self.cred(), Some(handle))?.size;
                let found = if whence == SEEK_DATA { offset } else { size };
                Ok((offset < size).then_some(found))
            }
            Err(errno) => Err(errno),
        }
    }

    /// Reserves, zeroes or frees `len` bytes at `offset`.
    ///
    /// # Errors
    /// EINVAL when `len` is 0, or either is over 2⁶³ − 1; EBADF when not open for writing; EFBIG
    /// when both together are; EOPNOTSUPP when the daemon cannot; ENOSPC, or what else the daemon says.
    pub fn allocate(&self, offset: u64, len: u64, how: Allocate) -> Result<()> {
        let allocate = || {
            if len == 0 || offset > MAX_OFFSET || len > MAX_OFFSET {
                return Err(Errno::INVAL);
            }
            self.check_access(OFlags::WRONLY)?;
            let end = offset + len;
            if end > MAX_OFFSET {
                return Err(Errno::FBIG);
            }
            let handle = self.handle();
            let _turn = handle.node().turn.take(&self.cred().token)?;
            handle.node().drop_set_id(self.cred())?;
            let size = handle.node().change_size();
            let rpc = handle.node().core().rpc(self.cred());
            rpc.fallocate(handle, handle.open(), offset, len, how.flags().bits())?;
            if how.keeps_size() {
                handle.node().expire_attr();
            } else {
                size.extend(end);
            }
            Ok(())
        };
        allocate().map_err(self.fail("allocate"))
    }

    /// Copies up to `len` bytes at `offset` to `to_offset` of `to`, an open file of the same
    /// client, without moving them through it; returns how many. 0 means the end of this file.
    /// `len` may be more than there is, and is cut where no file can go on.
    ///
    /// # Errors
    /// EBADF when the files are not open for reading and writing, or `to` is open to append; EINVAL
    /// when both are one file and the ranges overlap, or an offset is over 2⁶³ − 1; EFBIG for
    /// `to_offset` 2⁶³ − 1, where no byte can be;
    /// EXDEV for a file of another client; EOPNOTSUPP when the daemon cannot; ENOSPC, or what else
    /// the daemon says.
    pub fn copy_range(&self, offset: u64, to: &File, to_offset: u64, len: u64) -> Result<u64> {
        let copy = || {
            self.check_access(OFlags::RDONLY)?;
            to.check_access(OFlags::WRONLY)?;
            let (from, to) = (self.handle(), to.handle());
            if to.open().flags & OFlags::APPEND.bits() != 0 {
                return Err(Errno::BADF);
            }
            let core = from.node().core();
            if !Arc::ptr_eq(core, to.node().core()) {
                return Err(Errno::XDEV);
            }
            if offset > MAX_OFFSET || to_offset > MAX_OFFSET {
                return Err(Errno::INVAL);
            }
            if to_offset == MAX_OFFSET {
                return Err(Errno::FBIG);
            }
            // A file has nothing behind its end to copy.
            let size = from.node().attr(self.cred(), Some(from))?.size;
            let there = size.min(MAX_OFFSET).saturating_sub(offset);
            let len = len.min(there).min(MAX_OFFSET - to_offset);
            let overlap = to_offset < offset + len && offset < to_offset + len;
            if Arc::ptr_eq(from.node(), to.node()) && overlap {
                return Err(Errno::INVAL);
            }
            if len == 0 {
                return Ok(0);
            }
            let _turn = to.node().turn.take(&self.cred().token)?;
            to.node().drop_set_id(self.cred())?;
            let size = to.node().change_size();
            let copied = core.rpc(self.cred()).copy_file_range(
                (from, from.open(), offset),
                (to, to.open(), to_offset),
                len,
            )?;
            size.extend(to_offset + copied);
            Ok(copied)
        };
        copy().map_err(self.fail("copy"))
    }
}

impl Client {
    /// Waits until the entries of the directory at `path` are on stable storage.
    ///
    /// # Errors
    /// ENOTDIR, EIO, or as [`Client::metadata`].
    pub fn sync_dir(&self, path: impl AsRef<Path>) -> Result<()> {
        let path = path.as_ref();
        let sync = || {
            let node = self.resolve(path, Links::Follow)?;
            let handle: Arc<Handle> = ReadDir::open_handle(&self.cred, &node)?;
            let result = self.rpc().fsync(&handle, handle.open(), false);
            handle.close();
            result
        };
        sync().map_err(self.fail("sync directory", path))
    }

    /// Waits until everything the daemon has written is on stable storage. A daemon that cannot
    /// say has nothing to wait for.
    ///
    /// # Errors
    /// EIO, or what else the daemon says.
    pub fn sync_fs(&self) -> Result<()> {
        self.rpc()
            .syncfs(&self.shared.root)
            .map_err(self.fail("sync", Path::new("/")))
    }
}
