//! GETATTR, STATX, SETATTR, STATFS, SYNCFS.

use super::{Directory, Node};
use crate::fs::{Errno, Reply, Result};
use fusewire_wire::abi::{
    Attr, FileKind, Kstatfs, SetattrIn, StatfsOut, Statx as WireStatx, StatxIn, StatxOut, SxTime,
};
use fusewire_wire::{GetattrFlags, SetattrValid};
use rustix::fd::{AsFd, BorrowedFd};
use rustix::fs::{
    AtFlags, Gid, Mode, OFlags, Statx, StatxTimestamp, Timespec, Timestamps, UTIME_NOW, UTIME_OMIT,
    Uid,
};
use rustix::path::DecInt;

pub(super) fn attr_of(st: &Statx) -> Attr {
    Attr {
        ino: st.stx_ino,
        size: st.stx_size,
        blocks: st.stx_blocks,
        atime: st.stx_atime.tv_sec as u64,
        mtime: st.stx_mtime.tv_sec as u64,
        ctime: st.stx_ctime.tv_sec as u64,
        atimensec: st.stx_atime.tv_nsec,
        mtimensec: st.stx_mtime.tv_nsec,
        ctimensec: st.stx_ctime.tv_nsec,
        mode: st.stx_mode.into(),
        nlink: st.stx_nlink,
        uid: st.stx_uid,
        gid: st.stx_gid,
        rdev: encode_dev(st.stx_rdev_major, st.stx_rdev_minor),
        blksize: st.stx_blksize,
        flags: 0,
    }
}

/// Linux `new_encode_dev`.
fn encode_dev(major: u32, minor: u32) -> u32 {
    (minor & 0xff) | (major << 8) | ((minor & !0xff) << 12)
}

/// Linux `new_decode_dev`, as (major, minor).
pub(super) fn decode_dev(rdev: u32) -> (u32, u32) {
    (
        (rdev & 0xf_ff00) >> 8,
        (rdev & 0xff) | ((rdev >> 12) & 0xf_ff00),
    )
}

fn sx_time(time: StatxTimestamp) -> SxTime {
    SxTime {
        tv_sec: time.tv_sec,
        tv_nsec: time.tv_nsec,
        reserved: 0,
    }
}

/// A time stamp of SETATTR; `UTIME_NOW` and the like must not come in as nanoseconds.
fn timespec(secs: u64, nanos: u32) -> Result<Timespec> {
    if nanos >= 1_000_000_000 {
        return Err(Errno::INVAL);
    }
    Ok(Timespec {
        tv_sec: secs as i64,
        tv_nsec: nanos.into(),
    })
}

fn new_times(valid: SetattrValid, arg: &SetattrIn) -> Result<Option<Timestamps>> {
    let pick = |set, now, secs, nanos| {
        if valid.contains(now) {
            Ok(special(UTIME_NOW))
        } else if valid.contains(set) {
            timespec(secs, nanos)
        } else {
            Ok(special(UTIME_OMIT))
        }
    };
    let times = Timestamps {
        last_access: pick(
            SetattrValid::ATIME,
            SetattrValid::ATIME_NOW,
            arg.atime,
            arg.atimensec,
        )?,
        last_modification: pick(
            SetattrValid::MTIME,
            SetattrValid::MTIME_NOW,
            arg.mtime,
            arg.mtimensec,
        )?,
    };
    let any = SetattrValid::ATIME
        | SetattrValid::ATIME_NOW
        | SetattrValid::MTIME
        | SetattrValid::MTIME_NOW;
    Ok(valid.intersects(any).then_some(times))
}

fn special(tv_nsec: rustix::fs::Nsecs) -> Timespec {
    Timespec { tv_sec: 0, tv_nsec }
}

impl Directory {
    fn attr_reply(&self, fd: impl AsFd) -> Result<Reply> {
        let (attr, _, _) = super::stat(fd)?;
        Ok(Reply::Attr(self.options.caching.attr(attr)))
    }

    pub(super) fn getattr(&self, node: &Node, fh: Option<u64>) -> Result<Reply> {
        match fh.filter(|_| !self.options.stateless) {
            Some(fh) => match self.files.get(fh) {
                Ok(file) => self.attr_reply(&*file),
                Err(_) => self.attr_reply(&*self.dirs.get(fh)?),
            },
            None => self.attr_reply(node),
        }
    }

    pub(super) fn statx(&self, node: &Node, arg: &StatxIn) -> Result<Reply> {
        let flags = GetattrFlags::from_bits_retain(arg.getattr_flags);
        let st = if flags.contains(GetattrFlags::FH) && !self.options.stateless {
            super::statx(&*self.files.get(arg.fh)?)?
        } else {
            super::statx(node)?
        };
        let timeout = self.options.caching.attr_timeout;
        Ok(Reply::Statx(StatxOut {
            attr_valid: timeout.as_secs(),
            attr_valid_nsec: timeout.subsec_nanos(),
            flags: 0,
            spare: [0; 2],
            stat: WireStatx {
                mask: st.stx_mask,
                blksize: st.stx_blksize,
                attributes: st.stx_attributes.bits(),
                nlink: st.stx_nlink,
                uid: st.stx_uid,
                gid: st.stx_gid,
                mode: st.stx_mode,
                ino: st.stx_ino,
                size: st.stx_size,
                blocks: st.stx_blocks,
                attributes_mask: st.stx_attributes_mask.bits(),
                atime: sx_time(st.stx_atime),
                btime: sx_time(st.stx_btime),
                ctime: sx_time(st.stx_ctime),
                mtime: sx_time(st.stx_mtime),
                rdev_major: st.stx_rdev_major,
                rdev_minor: st.stx_rdev_minor,
                dev_major: st.stx_dev_major,
                dev_minor: st.stx_dev_minor,
                ..WireStatx::default()
            },
        }))
    }

    /// Size first, for it may be refused; owner before mode: a change of owner clears set-id bits. Change time is the host's own.
    pub(super) fn setattr(&self, node: &Node, arg: &SetattrIn) -> Result<Reply> {
        let valid = SetattrValid::from_bits_retain(arg.valid);
        let times = new_times(valid, arg)?;
        let file = if valid.contains(SetattrValid::FH) && !self.options.stateless {
            Some(self.files.get(arg.fh)?)
        } else {
            None
        };
        let fd = file.as_ref().map_or(node.as_fd(), |file| file.as_fd());
        if valid.contains(SetattrValid::SIZE) {
            match &file {
                Some(file) => rustix::fs::ftruncate(file, arg.size)?,
                None => {
                    let file =
                        self.reopen_as(node, node.kind, FileKind::Regular, OFlags::WRONLY)?;
                    rustix::fs::ftruncate(file, arg.size)?;
                }
            }
        }
        if valid.intersects(SetattrValid::UID | SetattrValid::GID) {
            let id = |flag, id| match valid.contains(flag) {
                true if id == u32::MAX => Err(Errno::INVAL),
                set => Ok(set.then_some(id)),
            };
            let uid = id(SetattrValid::UID, arg.uid)?.map(Uid::from_raw);
            let gid = id(SetattrValid::GID, arg.gid)?.map(Gid::from_raw);
            rustix::fs::chownat(fd, "", uid, gid, AtFlags::EMPTY_PATH)?;
        }
        if valid.contains(SetattrValid::MODE) {
            self.chmod(fd, arg.mode)?;
        }
        if valid.contains(SetattrValid::KILL_SUIDGID) && !valid.contains(SetattrValid::MODE) {
            self.kill_suidgid(fd)?;
        }
        if let Some(times) = times {
            rustix::fs::utimensat(&self.proc_fd, DecInt::from_fd(fd), &times, AtFlags::empty())?;
        }
        self.attr_reply(fd)
    }

    pub(super) fn chmod(&self, fd: BorrowedFd<'_>, mode: u32) -> Result<()> {
        let mode = Mode::from_raw_mode(mode & 0o7777);
        rustix::fs::chmodat(&self.proc_fd, DecInt::from_fd(fd), mode, AtFlags::empty())
    }

    /// Clears what a write or a truncation by somebody else has to clear: set-user-id, and
    /// set-group-id where the group may execute.
    pub(super) fn kill_suidgid(&self, fd: BorrowedFd<'_>) -> Result<()> {
        let mode = u32::from(super::statx(fd)?.stx_mode);
        if FileKind::from_mode(mode) != Some(FileKind::Regular) {
            return Ok(());
        }
        match crate::fs::without_suidgid(mode) {
            kept if kept == mode => Ok(()),
            kept => self.chmod(fd, kept),
        }
    }

    pub(super) fn statfs(&self, node: &Node) -> Result<Reply> {
        let st = rustix::fs::fstatvfs(node)?;
        let small = |n: u64| u32::try_from(n).unwrap_or(u32::MAX);
        Ok(Reply::Statfs(StatfsOut {
            st: Kstatfs {
                blocks: st.f_blocks,
                bfree: st.f_bfree,
                bavail: st.f_bavail,
                files: st.f_files,
                ffree: st.f_ffree,
                bsize: small(st.f_bsize),
                namelen: small(st.f_namemax),
                frsize: small(st.f_frsize),
                ..Kstatfs::default()
            },
        }))
    }

    /// The client names the root.
    pub(super) fn syncfs(&self, node: &Node) -> Result<Reply> {
        let file = self.reopen_as(node, node.kind, FileKind::Directory, OFlags::RDONLY)?;
        rustix::fs::syncfs(file)?;
        Ok(Reply::Done)
    }
}
