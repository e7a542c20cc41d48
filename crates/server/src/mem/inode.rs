//! Files, directories, links and devices in memory.

use super::blocks::{BLOCK_BYTES, Blocks};
use crate::fs::{Errno, Result};
use fusewire_wire::AttrFlags;
use fusewire_wire::abi::{Attr, FileKind};
use std::collections::BTreeMap;

/// Seconds and nanoseconds since 1970.
pub(super) type Time = (i64, u32);

/// Cookies of "." and "..": those of names come after.
pub(super) const DOT: u64 = 1;
pub(super) const DOT_DOT: u64 = 2;

/// Contents of a directory. Every name has a cookie, which is never reused, so that reading goes
/// on at the right place whatever was removed or added meanwhile.
#[derive(Debug)]
pub(super) struct Dir {
    pub parent: u64,
    names: BTreeMap<Box<[u8]>, (u64, u64)>,
    by_cookie: BTreeMap<u64, Box<[u8]>>,
    next_cookie: u64,
}

impl Dir {
    pub fn new(parent: u64) -> Self {
        Dir {
            parent,
            names: BTreeMap::new(),
            by_cookie: BTreeMap::new(),
            next_cookie: DOT_DOT + 1,
        }
    }

    pub fn is_empty(&self) -> bool {
        self.names.is_empty()
    }

    pub fn get(&self, name: &[u8]) -> Option<u64> {
        self.names.get(name).map(|(ino, _)| *ino)
    }

    /// Puts `ino` under `name`, in the place of what was there.
    pub fn insert(&mut self, name: &[u8], ino: u64) {
        if let Some((old, _)) = self.names.get_mut(name) {
            *old = ino;
            return;
        }
        let cookie = self.next_cookie;
        self.next_cookie += 1;
        self.names.insert(name.into(), (ino, cookie));
        self.by_cookie.insert(cookie, name.into());
    }

    pub fn remove(&mut self, name: &[u8]) {
        if let Some((_, cookie)) = self.names.remove(name) {
            self.by_cookie.remove(&cookie);
        }
    }

    /// Cookie, name and inode of what follows `cookie`.
    pub fn after(&self, cookie: u64) -> impl Iterator<Item = (u64, &[u8], u64)> {
        let start = cookie.saturating_add(1).max(DOT_DOT + 1);
        self.by_cookie
            .range(start..)
            .filter_map(|(cookie, name)| Some((*cookie, &**name, self.get(name)?)))
    }
}

/// What an inode holds.
#[derive(Debug)]
pub(super) enum Body {
    Dir(Dir),
    File {
        size: u64,
        blocks: Blocks,
    },
    Symlink(Box<[u8]>),
    /// Pipes, sockets and devices: all there is lies in mode and rdev.
    Special,
}

#[derive(Debug)]
pub(super) struct Inode {
    pub mode: u32,
    pub uid: u32,
    pub gid: u32,
    pub nlink: u32,
    pub rdev: u32,
    pub atime: Time,
    pub mtime: Time,
    pub ctime: Time,
    pub btime: Time,
    /// Lookups the client has not given back.
    pub lookups: u64,
    /// Handles open on it.
    pub opens: u64,
    /// Whether a name may be given to it though it has none (made by TMPFILE).
    pub linkable: bool,
    /// Flags of ioctl_iflags(2).
    pub iflags: u32,
    /// Whether it is said to be the root of a file system of its own.
    pub submount: bool,
    pub xattrs: BTreeMap<Box<[u8]>, Box<[u8]>>,
    pub body: Body,
}

impl Inode {
    pub fn kind(&self) -> FileKind {
        match self.body {
            Body::Dir(_) => FileKind::Directory,
            Body::File { .. } => FileKind::Regular,
            Body::Symlink(_) => FileKind::Symlink,
            Body::Special => FileKind::from_mode(self.mode).unwrap_or(FileKind::Fifo),
        }
    }

    pub fn dir(&self) -> Result<&Dir> {
        match &self.body {
            Body::Dir(dir) => Ok(dir),
            _ => Err(Errno::NOTDIR),
        }
    }

    pub fn dir_mut(&mut self) -> Result<&mut Dir> {
        match &mut self.body {
            Body::Dir(dir) => Ok(dir),
            _ => Err(Errno::NOTDIR),
        }
    }

    /// The error of opening something that is no regular file, as one.
    pub fn not_a_file(&self) -> Errno {
        match self.body {
            Body::Dir(_) => Errno::ISDIR,
            Body::Symlink(_) => Errno::LOOP,
            Body::File { .. } | Body::Special => Errno::NXIO,
        }
    }

    /// Size and blocks of 512 bytes.
    pub fn size(&self) -> (u64, u64) {
        match &self.body {
            Body::Dir(_) => (BLOCK_BYTES, 0),
            Body::File { size, blocks } => (*size, blocks.len() * (BLOCK_BYTES / 512)),
            Body::Symlink(target) => (target.len() as u64, 0),
            Body::Special => (0, 0),
        }
    }

    pub fn attr(&self, ino: u64) -> Attr {
        let (size, blocks) = self.size();
        Attr {
            ino,
            size,
            blocks,
            atime: self.atime.0 as u64,
            mtime: self.mtime.0 as u64,
            ctime: self.ctime.0 as u64,
            atimensec: self.atime.1,
            mtimensec: self.mtime.1,
            ctimensec: self.ctime.1,
            mode: self.mode,
            nlink: self.nlink,
            uid: self.uid,
            gid: self.gid,
            rdev: self.rdev,
            blksize: BLOCK_BYTES as u32,
            flags: self.attr_flags().bits(),
        }
    }

    pub fn attr_flags(&self) -> AttrFlags {
        if self.submount {
            AttrFlags::SUBMOUNT
        } else {
            AttrFlags::empty()
        }
    }

    /// Contents have changed at `now`.
    pub fn touch(&mut self, now: Time) {
        self.mtime = now;
        self.ctime = now;
    }

    /// Clears what a write or a truncation by somebody else has to clear.
    pub fn kill_suidgid(&mut self) {
        if matches!(self.body, Body::File { .. }) {
            self.mode = crate::fs::without_suidgid(self.mode);
        }
    }
}
