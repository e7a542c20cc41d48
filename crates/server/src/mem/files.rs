//! Open files.

use super::blocks::{BLOCK_BYTES, Blocks, Part};
use super::inode::Body;
use super::state::{Access, Handle, State};
use super::{Memory, SIZE_MAX};
use crate::fs::{Call, Errno, Reply, Result};
use crate::io::{errno_of, transfer};
use fusewire_wire::abi::{
    CopyFileRangeIn, FallocateIn, FileKind, LseekIn, OpenOut, ReadIn, WriteIn,
};
use fusewire_wire::{InitFlags, Name, OpenInFlags, WriteFlags};
use rustix::fs::{FallocateFlags, OFlags};

/// What a file opened with `flags` may be used for. A client that caches writes reads a block
/// before it changes a part of it, and finds the end of the file itself.
fn access(call: &Call<'_>, flags: OFlags) -> Result<Access> {
    let writeback = call.granted.contains(InitFlags::WRITEBACK_CACHE);
    let (read, write) = match flags & OFlags::ACCMODE {
        OFlags::RDONLY => (true, false),
        OFlags::WRONLY => (writeback, true),
        OFlags::RDWR => (true, true),
        _ => return Err(Errno::INVAL),
    };
    let append = flags.contains(OFlags::APPEND) && !writeback;
    Ok(Access::File {
        read,
        write,
        append,
    })
}

/// EFBIG unless `len` bytes fit a file at `offset`; returns the end.
fn end_of(offset: u64, len: u64) -> Result<u64> {
    match offset.checked_add(len) {
        Some(end) if end <= SIZE_MAX => Ok(end),
        _ => Err(Errno::FBIG),
    }
}

impl State {
    /// A handle that may be read or written, and whether writes go to the end; EBADF if not.
    fn file(&self, node: u64, fh: u64, writing: bool) -> Result<(Handle, bool)> {
        let handle = self.handle(node, fh)?;
        match handle.access {
            Access::File {
                read,
                write,
                append,
            } if if writing { write } else { read } => Ok((handle, append)),
            _ => Err(Errno::BADF),
        }
    }

    /// Size and contents; a file handle never stands for anything else.
    fn contents(&self, ino: u64) -> Result<(u64, &Blocks)> {
        match &self.inode(ino).body {
            Body::File { size, blocks } => Ok((*size, blocks)),
            _ => Err(Errno::BADF),
        }
    }
}

impl Memory {
    fn opened(&self, state: &mut State, ino: u64, access: Access) -> OpenOut {
        OpenOut {
            fh: state.open(ino, access),
            open_flags: self.options.caching.file_flags().bits(),
            backing_id: 0,
        }
    }

    /// Opens an existing inode with the flags of open(2).
    fn open_inode(
        &self,
        state: &mut State,
        call: &Call<'_>,
        ino: u64,
        flags: u32,
        how: u32,
    ) -> Result<OpenOut> {
        let flags = OFlags::from_bits_retain(flags);
        let access = access(call, flags)?;
        let now = self.now();
        let inode = state.inodes.get_mut(&ino).ok_or(Errno::STALE)?;
        let wrong = inode.not_a_file();
        let Body::File { size, blocks } = &mut inode.body else {
            return Err(wrong);
        };
        if flags.contains(OFlags::TRUNC) {
            blocks.truncate(0, &mut state.space);
            *size = 0;
            inode.touch(now);
            if OpenInFlags::from_bits_retain(how).contains(OpenInFlags::KILL_SUIDGID) {
                inode.kill_suidgid();
            }
        }
        Ok(self.opened(state, ino, access))
    }

    pub(super) fn open(&self, call: &Call<'_>, flags: u32, how: u32) -> Result<Reply> {
        let mut state = self.state.write();
        state.check_known(call.node)?;
        self.open_inode(&mut state, call, call.node, flags, how)
            .map(Reply::Open)
    }

    pub(super) fn create(
        &self,
        call: &Call<'_>,
        name: Name<'_>,
        flags: u32,
        mode: u32,
        how: u32,
    ) -> Result<Reply> {
        let access = access(call, OFlags::from_bits_retain(flags))?;
        let exclusive = OFlags::from_bits_retain(flags).contains(OFlags::EXCL);
        let mut state = self.state.write();
        let body = Body::File {
            size: 0,
            blocks: Blocks::default(),
        };
        let mode = FileKind::Regular.mode_bits() | mode & 0o7777;
        match self.make(&mut state, call, name, mode, body) {
            Ok(ino) => {
                let entry = self.enter(&mut state, ino);
                Ok(Reply::Created(entry, self.opened(&mut state, ino, access)))
            }
            Err(Errno::EXIST) if !exclusive => {
                let found = state.inode(call.node).dir()?.get(name.as_bytes());
                let ino = found.ok_or(Errno::NOENT)?;
                let open = self.open_inode(&mut state, call, ino, flags, how)?;
                Ok(Reply::Created(self.enter(&mut state, ino), open))
            }
            Err(errno) => Err(errno),
        }
    }

    pub(super) fn tmpfile(&self, call: &Call<'_>, flags: u32, mode: u32) -> Result<Reply> {
        let flags = OFlags::from_bits_retain(flags);
        let access = access(call, flags)?;
        if flags & OFlags::ACCMODE == OFlags::RDONLY {
            // As open(2): a file that nobody could ever write.
            return Err(Errno::INVAL);
        }
        let mut state = self.state.write();
        state.check_known(call.node)?;
        state.inode(call.node).dir()?;
        let body = Body::File {
            size: 0,
            blocks: Blocks::default(),
        };
        let mode = FileKind::Regular.mode_bits() | mode & 0o7777;
        let ino = self.new_inode(&mut state, call, call.node, mode, body)?;
        state.inode_mut(ino).linkable = !flags.contains(OFlags::EXCL);
        let entry = self.enter(&mut state, ino);
        Ok(Reply::Created(entry, self.opened(&mut state, ino, access)))
    }

    pub(super) fn read(&self, call: &Call<'_>, arg: &ReadIn) -> Result<Reply> {
        let state = self.state.read();
        let (handle, _) = state.file(call.node, arg.fh, false)?;
        let (size, blocks) = state.contents(handle.ino)?;
        let mut left = size.saturating_sub(arg.offset);
        transfer(call.io.out_chunks(), |chunk, done| {
            let n = usize::try_from(left).unwrap_or(usize::MAX).min(chunk.len());
            blocks.read(arg.offset + done, n, |at, part| match part {
                Part::Data(bytes) => chunk.slice(at, bytes.len()).copy_from(bytes),
                Part::Hole(len) => chunk.slice(at, len).zero(),
            });
            left -= n as u64;
            Ok(n)
        })
        .map(Reply::Payload)
        .map_err(|error| errno_of(&error))
    }

    pub(super) fn write(&self, call: &Call<'_>, arg: &WriteIn) -> Result<Reply> {
        let mut guard = self.state.write();
        let state = &mut *guard;
        let (handle, append) = state.file(call.node, arg.fh, true)?;
        let now = self.now();
        let inode = state.inodes.get_mut(&handle.ino).ok_or(Errno::STALE)?;
        let Body::File { size, blocks } = &mut inode.body else {
            return Err(Errno::BADF);
        };
        let offset = if append { *size } else { arg.offset };
        end_of(offset, call.io.in_len() as u64)?;
        let space = &mut state.space;
        let done = transfer(call.io.in_chunks(), |chunk, done| {
            Ok(blocks.write(offset + done, chunk.len(), space, |at, to| {
                chunk.slice(at, to.len()).copy_to(to);
            }))
        })
        .map_err(|error| errno_of(&error))?;
        if done == 0 && call.io.in_len() > 0 {
            return Err(Errno::NOSPC);
        }
        if done > 0 {
            *size = (*size).max(offset + done as u64);
            inode.touch(now);
            let flags = WriteFlags::from_bits_retain(arg.write_flags);
            if flags.contains(WriteFlags::KILL_SUIDGID) {
                inode.kill_suidgid();
            }
        }
        Ok(Reply::Written(done as u32))
    }

    pub(super) fn fallocate(&self, call: &Call<'_>, arg: &FallocateIn) -> Result<Reply> {
        let mode = FallocateFlags::from_bits_retain(arg.mode);
        let mut guard = self.state.write();
        let state = &mut *guard;
        state.handle(call.node, arg.fh)?;
        if arg.length == 0 || arg.offset > SIZE_MAX || arg.length > SIZE_MAX {
            return Err(Errno::INVAL);
        }
        let (handle, _) = state.file(call.node, arg.fh, true)?;
        let keep_size = mode.contains(FallocateFlags::KEEP_SIZE);
        let kind = mode - FallocateFlags::KEEP_SIZE;
        let range = arg.offset..end_of(arg.offset, arg.length)?;
        let now = self.now();
        let inode = state.inodes.get_mut(&handle.ino).ok_or(Errno::STALE)?;
        let Body::File { size, blocks } = &mut inode.body else {
            return Err(Errno::BADF);
        };
        let clears = match kind {
            FallocateFlags::PUNCH_HOLE if keep_size => {
                blocks.clear(range.clone(), &mut state.space);
                true
            }
            FallocateFlags::ZERO_RANGE => true,
            kind if kind.is_empty() => false,
            _ => return Err(Errno::OPNOTSUPP),
        };
        if kind != FallocateFlags::PUNCH_HOLE {
            if blocks.missing(&range) > state.space.free() {
                return Err(Errno::NOSPC);
            }
            if clears {
                blocks.clear(range.clone(), &mut state.space);
            }
            blocks.reserve(range.clone(), &mut state.space);
            if !keep_size {
                *size = (*size).max(range.end);
            }
        }
        inode.touch(now);
        Ok(Reply::Done)
    }

    pub(super) fn lseek(&self, call: &Call<'_>, arg: &LseekIn) -> Result<Reply> {
        let state = self.state.read();
        let handle = state.handle(call.node, arg.fh)?;
        let (size, blocks) = state.contents(handle.ino)?;
        if arg.offset >= size {
            return Err(Errno::NXIO);
        }
        let found = match arg.whence {
            crate::fs::SEEK_DATA => blocks.next_data(arg.offset).filter(|at| *at < size),
            crate::fs::SEEK_HOLE => Some(blocks.next_hole(arg.offset).min(size)),
            _ => return Err(Errno::INVAL),
        };
        found.map(Reply::Offset).ok_or(Errno::NXIO)
    }

    pub(super) fn copy_file_range(
        &self,
        call: &Call<'_>,
        arg: &CopyFileRangeIn,
        len: u64,
    ) -> Result<u64> {
        let mut guard = self.state.write();
        let state = &mut *guard;
        let (from, _) = state.file(call.node, arg.fh_in, false)?;
        let (to, append) = state.file(arg.nodeid_out, arg.fh_out, true)?;
        if append {
            return Err(Errno::BADF);
        }
        if arg.flags != 0 {
            return Err(Errno::INVAL);
        }
        let (from_size, _) = state.contents(from.ino)?;
        let len = len.min(from_size.saturating_sub(arg.off_in));
        let same = from.ino == to.ino;
        if same && arg.off_in < arg.off_out.saturating_add(len) && arg.off_out < arg.off_in + len {
            return Err(Errno::INVAL);
        }
        end_of(arg.off_out, len)?;
        let now = self.now();
        let mut bounce = [0; BLOCK_BYTES as usize];
        let mut done = 0;
        while done < len {
            let n = (len - done).min(BLOCK_BYTES) as usize;
            let (_, source) = state.contents(from.ino)?;
            source.read(arg.off_in + done, n, |at, part| match part {
                Part::Data(bytes) => bounce[at..at + bytes.len()].copy_from_slice(bytes),
                Part::Hole(len) => bounce[at..at + len].fill(0),
            });
            let target = state.inodes.get_mut(&to.ino).ok_or(Errno::STALE)?;
            let Body::File { size, blocks } = &mut target.body else {
                return Err(Errno::BADF);
            };
            let took = blocks.write(arg.off_out + done, n, &mut state.space, |at, to| {
                to.copy_from_slice(&bounce[at..at + to.len()]);
            });
            done += took as u64;
            if took > 0 {
                *size = (*size).max(arg.off_out + done);
                target.touch(now);
            }
            if took < n {
                break;
            }
        }
        if done == 0 && len > 0 {
            return Err(Errno::NOSPC);
        }
        Ok(done)
    }
}
