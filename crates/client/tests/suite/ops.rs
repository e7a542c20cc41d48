//! Operations that a client and the kernel can both carry out, and what comes of them.

use rustix::fs::OFlags;
use rustix::io::Errno;
use std::io::SeekFrom;
use std::path::PathBuf;

/// How many files a sequence may have open at once.
pub const SLOTS: usize = 4;

/// How a file is opened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct How {
    pub read: bool,
    pub write: bool,
    pub append: bool,
    pub truncate: bool,
    pub create: bool,
    pub create_new: bool,
    pub nofollow: bool,
    pub mode: u32,
}

impl How {
    pub const READ: How = How {
        read: true,
        write: false,
        append: false,
        truncate: false,
        create: false,
        create_new: false,
        nofollow: false,
        mode: 0o666,
    };
    pub const WRITE: How = How {
        read: false,
        write: true,
        ..How::READ
    };
    pub const CREATE: How = How {
        write: true,
        create: true,
        ..How::READ
    };

    /// The flags of open(2), by the rules of `std::fs::OpenOptions`.
    pub fn flags(&self) -> Result<OFlags, Errno> {
        let access = match (self.read, self.write, self.append) {
            (true, false, false) => OFlags::RDONLY,
            (false, true, false) => OFlags::WRONLY,
            (true, true, false) => OFlags::RDWR,
            (false, _, true) => OFlags::WRONLY | OFlags::APPEND,
            (true, _, true) => OFlags::RDWR | OFlags::APPEND,
            (false, false, false) => return Err(Errno::INVAL),
        };
        let makes = self.create || self.create_new;
        match (self.write, self.append) {
            (false, false) if self.truncate || makes => return Err(Errno::INVAL),
            (_, true) if self.truncate && !self.create_new => return Err(Errno::INVAL),
            _ => {}
        }
        let creation = match (self.create, self.truncate, self.create_new) {
            (false, false, false) => OFlags::empty(),
            (true, false, false) => OFlags::CREATE,
            (false, true, false) => OFlags::TRUNC,
            (true, true, false) => OFlags::CREATE | OFlags::TRUNC,
            (_, _, true) => OFlags::CREATE | OFlags::EXCL,
        };
        let nofollow = if self.nofollow {
            OFlags::NOFOLLOW
        } else {
            OFlags::empty()
        };
        Ok(access | creation | nofollow)
    }
}

/// An operation. Paths are those of the served tree.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Op {
    Mkdir(PathBuf, u32),
    MkdirAll(PathBuf),
    /// Type and rights.
    Mknod(PathBuf, u32),
    /// Target, link.
    Symlink(PathBuf, PathBuf),
    /// Original, link.
    Link(PathBuf, PathBuf),
    Rename(PathBuf, PathBuf),
    Unlink(PathBuf),
    Rmdir(PathBuf),
    RemoveAll(PathBuf),
    Stat(PathBuf),
    Lstat(PathBuf),
    Exists(PathBuf),
    ReadDir(PathBuf),
    ReadLink(PathBuf),
    ReadFile(PathBuf),
    /// Length and seed of the contents.
    WriteFile(PathBuf, usize, u64),
    Truncate(PathBuf, u64),
    Chmod(PathBuf, u32),
    /// Modification time; whether a link at the end is followed.
    SetTime(PathBuf, bool, i64, u32),
    /// Owner and group; whether a link at the end is followed.
    Chown(PathBuf, bool, u32, u32),
    Open(usize, PathBuf, How),
    Close(usize),
    Read(usize, usize),
    /// Length and seed.
    Write(usize, usize, u64),
    ReadAt(usize, u64, usize),
    WriteAt(usize, u64, usize, u64),
    Seek(usize, SeekFrom),
    SetLen(usize, u64),
    Fstat(usize),
    Fchmod(usize, u32),
    Sync(usize),
}

/// What is the same on every file system.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stat {
    pub mode: u32,
    /// 0 for directories, whose size says nothing.
    pub len: u64,
    /// 0 for directories, which some file systems do not count.
    pub nlink: u64,
    pub uid: u32,
    pub gid: u32,
    /// If it was set by a test: those lie before 2001.
    pub mtime: Option<(i64, u32)>,
}

impl Stat {
    pub fn new(mode: u32, len: u64, nlink: u64, owner: (u32, u32), mtime: (i64, u32)) -> Self {
        let is_dir = mode & 0o170_000 == 0o040_000;
        Stat {
            mode,
            len: if is_dir { 0 } else { len },
            nlink: if is_dir { 0 } else { nlink },
            uid: owner.0,
            gid: owner.1,
            mtime: (mtime.0 < 978_307_200).then_some(mtime),
        }
    }
}

/// What came of an operation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    Done,
    Failed(Errno),
    /// There is no open file in that slot.
    NotOpen,
    Stat(Stat),
    Bytes(Vec<u8>),
    /// Names and type bits, sorted.
    Names(Vec<(Vec<u8>, u32)>),
    Path(Vec<u8>),
    Number(u64),
    Answer(bool),
}

impl Outcome {
    /// The outcome of a system call or the like.
    pub fn of<T>(result: Result<T, Errno>, value: impl FnOnce(T) -> Outcome) -> Outcome {
        match result {
            Ok(ok) => value(ok),
            Err(errno) => Outcome::Failed(errno),
        }
    }

    /// Short enough to be read.
    pub fn brief(&self) -> String {
        match self {
            Outcome::Bytes(bytes) if bytes.len() > 64 => {
                format!("{} bytes, {:?} …", bytes.len(), &bytes[..32])
            }
            other => format!("{other:?}"),
        }
    }
}

/// Somebody who carries operations out.
pub trait Actor {
    fn act(&mut self, op: &Op) -> Outcome;
}
