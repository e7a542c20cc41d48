//! Open files.

use super::{Directory, Node};
use crate::fs::{Call, Errno, Reply, Result};
use crate::io::{errno_of, transfer};
use fusewire_sync::Arc;
use fusewire_wire::abi::{
    CopyFileRangeIn, FallocateIn, FileKind, FlushIn, FsyncIn, LseekIn, OpenOut, ReadIn, WriteIn,
};
use fusewire_wire::{FsyncFlags, Name, OpenInFlags, WriteFlags};
use rustix::fd::{AsFd, BorrowedFd, IntoRawFd, OwnedFd};
use rustix::fs::{AtFlags, FallocateFlags, Mode, OFlags, SeekFrom};

/// Flags of open(2) that are the client's to choose. Creation goes by its own operation;
/// `O_DIRECT` would impose alignments that payloads do not have.
const PASSED_ON: OFlags = OFlags::ACCMODE
    .union(OFlags::APPEND)
    .union(OFlags::TRUNC)
    .union(OFlags::SYNC)
    .union(OFlags::DSYNC)
    .union(OFlags::NOATIME)
    .union(OFlags::NONBLOCK);

/// The flags to open a file with. A client that caches writes reads a block before it changes a
/// part of it, and finds the end of the file itself: it needs reading, and no `O_APPEND`.
fn open_flags(call: &Call<'_>, flags: u32) -> Result<OFlags> {
    let mut flags = OFlags::from_bits_retain(flags) & PASSED_ON;
    if flags & OFlags::ACCMODE == OFlags::ACCMODE {
        return Err(Errno::INVAL);
    }
    if Directory::writeback(call) {
        flags.remove(OFlags::APPEND);
        if flags & OFlags::ACCMODE == OFlags::WRONLY {
            flags = (flags - OFlags::WRONLY) | OFlags::RDWR;
        }
    }
    Ok(flags)
}

impl Directory {
    fn opened(&self, file: OwnedFd) -> OpenOut {
        OpenOut {
            fh: self.files.add(file),
            open_flags: self.options.caching.file_flags().bits(),
            backing_id: 0,
        }
    }

    /// Opens what `held` holds, of kind `kind`, with `flags`, which come from [`open_flags`].
    fn open_held(
        &self,
        (held, kind): (BorrowedFd<'_>, FileKind),
        wanted: u32,
        flags: OFlags,
        how: u32,
    ) -> Result<OwnedFd> {
        let open = |flags| self.reopen_as(held, kind, FileKind::Regular, flags);
        let file = match open(flags) {
            // May be written but not read: whole blocks can still be written, and a partial one
            // fails in the client with this very error.
            Err(Errno::ACCESS)
                if flags & OFlags::ACCMODE == OFlags::RDWR
                    && OFlags::from_bits_retain(wanted) & OFlags::ACCMODE == OFlags::WRONLY =>
            {
                open((flags - OFlags::RDWR) | OFlags::WRONLY)?
            }
            result => result?,
        };
        let how = OpenInFlags::from_bits_retain(how);
        if flags.contains(OFlags::TRUNC) && how.contains(OpenInFlags::KILL_SUIDGID) {
            self.kill_suidgid(file.as_fd())?;
        }
        Ok(file)
    }

    pub(super) fn open(
        &self,
        call: &Call<'_>,
        node: &Node,
        wanted: u32,
        how: u32,
    ) -> Result<Reply> {
        let file = self.open_held(
            (node.as_fd(), node.kind),
            wanted,
            open_flags(call, wanted)?,
            how,
        )?;
        Ok(Reply::Open(self.opened(file)))
    }

    /// Makes the file, or opens the one that is there: only what was made here is the caller's.
    pub(super) fn create(
        &self,
        call: &Call<'_>,
        dir: &Node,
        name: Name<'_>,
        wanted: u32,
        mode: u32,
        how: u32,
    ) -> Result<Reply> {
        let flags = open_flags(call, wanted)?;
        let made = {
            let _caller = self.as_caller(call)?;
            let exclusive = OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
            let mode = Mode::from_raw_mode(mode & 0o7777);
            rustix::fs::openat(dir, name.as_bytes(), flags | exclusive, mode)
        };
        let exclusive = OFlags::from_bits_retain(wanted).contains(OFlags::EXCL);
        let (entry, file) = match made {
            Ok(file) => {
                self.undo_umask(dir, &file, mode)?;
                self.label_or_remove(call, file.as_fd(), dir, name, AtFlags::empty())?;
                (self.enter(self.reopen(&file, OFlags::PATH)?)?, file)
            }
            Err(Errno::EXIST) if !exclusive => {
                let held = self.resolve(dir, name.as_bytes())?;
                let (_, _, kind) = super::stat(&held)?;
                let file = self.open_held((held.as_fd(), kind), wanted, flags, how)?;
                // After it was opened: that may have truncated it.
                (self.enter(held)?, file)
            }
            Err(errno) => return Err(errno),
        };
        Ok(Reply::Created(entry, self.opened(file)))
    }

    pub(super) fn tmpfile(
        &self,
        call: &Call<'_>,
        dir: &Node,
        wanted: u32,
        mode: u32,
    ) -> Result<Reply> {
        let mut flags = open_flags(call, wanted)? | OFlags::TMPFILE | OFlags::CLOEXEC;
        if OFlags::from_bits_retain(wanted).contains(OFlags::EXCL) {
            // The file can then never get a name.
            flags |= OFlags::EXCL;
        }
        let file = {
            let _caller = self.as_caller(call)?;
            rustix::fs::openat(dir, ".", flags, Mode::from_raw_mode(mode & 0o7777))?
        };
        self.undo_umask(dir, &file, mode)?;
        self.label(call, file.as_fd())?;
        let entry = self.enter(self.reopen(&file, OFlags::PATH)?)?;
        Ok(Reply::Created(entry, self.opened(file)))
    }

    /// What is open as `fh` on `node`; where nothing is ever opened, the node itself, opened with
    /// `flags` for this request.
    pub(super) fn file(&self, node: u64, fh: u64, flags: OFlags) -> Result<Arc<OwnedFd>> {
        if !self.options.stateless {
            return self.files.get(fh);
        }
        let node = self.nodes.get(node)?;
        self.reopen_as(&*node, node.kind, FileKind::Regular, flags)
            .map(Arc::new)
    }

    pub(super) fn read(&self, call: &Call<'_>, arg: &ReadIn) -> Result<Reply> {
        let file = self.file(call.node, arg.fh, OFlags::RDONLY)?;
        transfer(call.io.out_chunks(), |chunk, done| {
            chunk.pread_from(file.as_fd(), arg.offset.saturating_add(done))
        })
        .map(Reply::Payload)
        .map_err(|error| errno_of(&error))
    }

    pub(super) fn write(&self, call: &Call<'_>, arg: &WriteIn) -> Result<Reply> {
        let file = self.file(call.node, arg.fh, OFlags::WRONLY)?;
        let done = transfer(call.io.in_chunks(), |chunk, done| {
            chunk.pwrite_to(file.as_fd(), arg.offset.saturating_add(done))
        })
        .map_err(|error| errno_of(&error))?;
        let flags = WriteFlags::from_bits_retain(arg.write_flags);
        if done > 0 && flags.contains(WriteFlags::KILL_SUIDGID) {
            self.kill_suidgid(file.as_fd())?;
        }
        Ok(Reply::Written(done as u32))
    }

    /// One close(2) of the client. File systems that write back on close report their errors there,
    /// so a copy of the descriptor is closed.
    pub(super) fn flush(&self, call: &Call<'_>, arg: &FlushIn) -> Result<Reply> {
        if self.options.stateless {
            // Each request has closed what it opened.
            self.check_open(call.node, arg.fh)?;
            return Ok(Reply::Done);
        }
        let copy = rustix::io::fcntl_dupfd_cloexec(&*self.files.get(arg.fh)?, 0)?;
        // SAFETY: the copy was made above and is owned by nobody else.
        unsafe { rustix::io::try_close(copy.into_raw_fd()) }?;
        Ok(Reply::Done)
    }

    pub(super) fn fsync(&self, call: &Call<'_>, arg: &FsyncIn) -> Result<Reply> {
        let file = self.file(call.node, arg.fh, OFlags::RDONLY)?;
        sync(&*file, arg.fsync_flags)
    }

    pub(super) fn fsyncdir(&self, call: &Call<'_>, arg: &FsyncIn) -> Result<Reply> {
        sync(&*self.stream(call.node, arg.fh)?, arg.fsync_flags)
    }

    pub(super) fn fallocate(&self, call: &Call<'_>, arg: &FallocateIn) -> Result<Reply> {
        let mode = FallocateFlags::from_bits_retain(arg.mode);
        let file = self.file(call.node, arg.fh, OFlags::WRONLY)?;
        rustix::fs::fallocate(&*file, mode, arg.offset, arg.length)?;
        Ok(Reply::Done)
    }

    /// Reads and writes name their offsets, so moving the descriptor's own disturbs nobody.
    pub(super) fn lseek(&self, call: &Call<'_>, arg: &LseekIn) -> Result<Reply> {
        let to = match arg.whence {
            crate::fs::SEEK_DATA => SeekFrom::Data(arg.offset),
            crate::fs::SEEK_HOLE => SeekFrom::Hole(arg.offset),
            _ => return Err(Errno::INVAL),
        };
        let offset = rustix::fs::seek(&*self.file(call.node, arg.fh, OFlags::RDONLY)?, to)?;
        Ok(Reply::Offset(offset))
    }

    pub(super) fn copy_file_range(
        &self,
        call: &Call<'_>,
        arg: &CopyFileRangeIn,
        len: u64,
    ) -> Result<u64> {
        let from = self.file(call.node, arg.fh_in, OFlags::RDONLY)?;
        let to = self.file(arg.nodeid_out, arg.fh_out, OFlags::WRONLY)?;
        let (mut off_in, mut off_out) = (arg.off_in, arg.off_out);
        let len = usize::try_from(len).unwrap_or(usize::MAX);
        let n =
            rustix::fs::copy_file_range(&*from, Some(&mut off_in), &*to, Some(&mut off_out), len)?;
        Ok(n as u64)
    }
}

fn sync(fd: impl AsFd, flags: u32) -> Result<Reply> {
    if FsyncFlags::from_bits_retain(flags).contains(FsyncFlags::FDATASYNC) {
        rustix::fs::fdatasync(fd)?;
    } else {
        rustix::fs::fsync(fd)?;
    }
    Ok(Reply::Done)
}
