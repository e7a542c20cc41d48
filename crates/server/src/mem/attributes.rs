//! GETATTR, STATX, SETATTR, STATFS.

use super::blocks::BLOCK_BYTES;
use super::inode::{Body, Time};
use super::special::NODUMP;
use super::state::State;
use super::{Memory, NAME_MAX, SIZE_MAX};
use crate::fs::{Errno, Reply, Result};
use fusewire_wire::abi::{Kstatfs, SetattrIn, StatfsOut, Statx, StatxIn, StatxOut, SxTime};
use fusewire_wire::{GetattrFlags, SetattrValid};

/// `STATX_BASIC_STATS | STATX_BTIME`.
const STATX_MASK: u32 = 0xfff;

fn sx_time((tv_sec, tv_nsec): Time) -> SxTime {
    SxTime {
        tv_sec,
        tv_nsec,
        reserved: 0,
    }
}

impl State {
    /// The inode that a handle, or else a node the client knows, stands for.
    pub fn target(&self, node: u64, fh: Option<u64>) -> Result<u64> {
        match fh {
            Some(fh) => Ok(self.handle(node, fh)?.ino),
            None => {
                self.check_known(node)?;
                Ok(node)
            }
        }
    }
}

impl Memory {
    pub(super) fn getattr(&self, node: u64, fh: Option<u64>) -> Result<Reply> {
        let state = self.state.read();
        let ino = state.target(node, fh)?;
        let attr = state.inode(ino).attr(ino);
        Ok(Reply::Attr(self.options.caching.attr(attr)))
    }

    pub(super) fn statx(&self, node: u64, arg: &StatxIn) -> Result<Reply> {
        let flags = GetattrFlags::from_bits_retain(arg.getattr_flags);
        let state = self.state.read();
        let ino = state.target(node, flags.contains(GetattrFlags::FH).then_some(arg.fh))?;
        let inode = state.inode(ino);
        let attr = inode.attr(ino);
        let timeout = self.options.caching.attr_timeout;
        Ok(Reply::Statx(StatxOut {
            attr_valid: timeout.as_secs(),
            attr_valid_nsec: timeout.subsec_nanos(),
            stat: Statx {
                mask: STATX_MASK,
                blksize: attr.blksize,
                nlink: attr.nlink,
                uid: attr.uid,
                gid: attr.gid,
                mode: attr.mode as u16,
                ino,
                size: attr.size,
                blocks: attr.blocks,
                atime: sx_time(inode.atime),
                btime: sx_time(inode.btime),
                ctime: sx_time(inode.ctime),
                mtime: sx_time(inode.mtime),
                rdev_major: (attr.rdev >> 8) & 0xfff,
                rdev_minor: attr.rdev & 0xff | (attr.rdev >> 12) & 0xf_ff00,
                // A flag has the same bit here as in ioctl_iflags(2).
                attributes: u64::from(inode.iflags & NODUMP),
                attributes_mask: u64::from(NODUMP),
                ..Statx::default()
            },
            flags: attr.flags,
            ..StatxOut::default()
        }))
    }

    pub(super) fn setattr(&self, node: u64, arg: &SetattrIn) -> Result<Reply> {
        let valid = SetattrValid::from_bits_retain(arg.valid);
        let mut guard = self.state.write();
        let state = &mut *guard;
        let ino = state.target(node, valid.contains(SetattrValid::FH).then_some(arg.fh))?;
        let now = self.now();
        let stamp = |set, to_now, secs: u64, nanos: u32| {
            if valid.contains(to_now) {
                Ok(Some(now))
            } else if !valid.contains(set) {
                Ok(None)
            } else if nanos >= 1_000_000_000 {
                Err(Errno::INVAL)
            } else {
                Ok(Some((secs as i64, nanos)))
            }
        };
        let (atime, atime_now) = (SetattrValid::ATIME, SetattrValid::ATIME_NOW);
        let (mtime, mtime_now) = (SetattrValid::MTIME, SetattrValid::MTIME_NOW);
        let atime = stamp(atime, atime_now, arg.atime, arg.atimensec)?;
        let mtime = stamp(mtime, mtime_now, arg.mtime, arg.mtimensec)?;
        let uid = valid.contains(SetattrValid::UID).then_some(arg.uid);
        let gid = valid.contains(SetattrValid::GID).then_some(arg.gid);
        if uid == Some(u32::MAX) || gid == Some(u32::MAX) {
            return Err(Errno::INVAL);
        }
        let inode = state.inodes.get_mut(&ino).ok_or(Errno::STALE)?;
        // First, for it may be refused.
        if valid.contains(SetattrValid::SIZE) {
            let wrong = inode.not_a_file();
            let Body::File { size, blocks } = &mut inode.body else {
                return Err(wrong);
            };
            if arg.size > SIZE_MAX {
                return Err(Errno::INVAL);
            }
            if arg.size < *size {
                blocks.truncate(arg.size, &mut state.space);
            }
            *size = arg.size;
            inode.touch(now);
        }
        if uid.is_some() || gid.is_some() {
            inode.uid = uid.unwrap_or(inode.uid);
            inode.gid = gid.unwrap_or(inode.gid);
            inode.kill_suidgid();
            inode.ctime = now;
        }
        if valid.contains(SetattrValid::MODE) {
            if matches!(inode.body, Body::Symlink(_)) {
                return Err(Errno::OPNOTSUPP);
            }
            inode.mode = inode.mode & !0o7777 | arg.mode & 0o7777;
            inode.ctime = now;
        }
        if valid.contains(SetattrValid::KILL_SUIDGID) && !valid.contains(SetattrValid::MODE) {
            inode.kill_suidgid();
        }
        if atime.is_some() || mtime.is_some() {
            inode.atime = atime.unwrap_or(inode.atime);
            inode.mtime = mtime.unwrap_or(inode.mtime);
            inode.ctime = now;
        }
        let attr = inode.attr(ino);
        Ok(Reply::Attr(self.options.caching.attr(attr)))
    }

    pub(super) fn statfs(&self) -> Result<Reply> {
        let state = self.state.read();
        let free = state.space.free();
        Ok(Reply::Statfs(StatfsOut {
            st: Kstatfs {
                blocks: state.space.max,
                bfree: free,
                bavail: free,
                files: state.max_inodes,
                ffree: state.max_inodes.saturating_sub(state.inodes.len() as u64),
                bsize: BLOCK_BYTES as u32,
                namelen: NAME_MAX as u32,
                frsize: BLOCK_BYTES as u32,
                ..Kstatfs::default()
            },
        }))
    }
}
