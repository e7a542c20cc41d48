//! Attributes of files, in the shape of `std::fs`.

use crate::node::Node;
use fusewire_wire::SetattrValid;
use fusewire_wire::abi::{Attr, FileKind, Kstatfs, SetattrIn};
use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Permission bits of a mode.
pub(crate) const PERMISSION_BITS: u32 = 0o7777;

/// What a file is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct FileType(FileKind);

impl FileType {
    pub(crate) fn new(kind: FileKind) -> Self {
        FileType(kind)
    }

    /// A directory.
    #[must_use]
    pub fn is_dir(&self) -> bool {
        self.0 == FileKind::Directory
    }

    /// A regular file.
    #[must_use]
    pub fn is_file(&self) -> bool {
        self.0 == FileKind::Regular
    }

    /// A symbolic link.
    #[must_use]
    pub fn is_symlink(&self) -> bool {
        self.0 == FileKind::Symlink
    }

    /// A block device.
    #[must_use]
    pub fn is_block_device(&self) -> bool {
        self.0 == FileKind::BlockDevice
    }

    /// A character device.
    #[must_use]
    pub fn is_char_device(&self) -> bool {
        self.0 == FileKind::CharDevice
    }

    /// A named pipe.
    #[must_use]
    pub fn is_fifo(&self) -> bool {
        self.0 == FileKind::Fifo
    }

    /// A socket.
    #[must_use]
    pub fn is_socket(&self) -> bool {
        self.0 == FileKind::Socket
    }
}

/// Attributes of a file, as stat(2) gives them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Metadata {
    attr: Attr,
    kind: FileKind,
    device: u64,
    submount: bool,
}

impl Metadata {
    pub(crate) fn new(node: &Node, attr: Attr) -> Self {
        Metadata {
            attr,
            kind: node.kind(),
            device: node.mount(),
            submount: node.is_submount(),
        }
    }

    /// Tells the file systems of the served tree apart: files of one have the same number. Daemons
    /// that do not announce submounts have one only, and inode numbers that may repeat.
    #[must_use]
    pub fn dev(&self) -> u64 {
        self.device
    }

    /// Whether another file system begins here.
    #[must_use]
    pub fn is_submount(&self) -> bool {
        self.submount
    }

    /// What it is.
    #[must_use]
    pub fn file_type(&self) -> FileType {
        FileType(self.kind)
    }

    /// Whether it is a directory.
    #[must_use]
    pub fn is_dir(&self) -> bool {
        self.file_type().is_dir()
    }

    /// Whether it is a regular file.
    #[must_use]
    pub fn is_file(&self) -> bool {
        self.file_type().is_file()
    }

    /// Whether it is a symbolic link.
    #[must_use]
    pub fn is_symlink(&self) -> bool {
        self.file_type().is_symlink()
    }

    /// Size in bytes; at most 2⁶³ − 1. As the daemon says, so not to be trusted for allocation.
    #[must_use]
    #[allow(clippy::len_without_is_empty, reason = "as std::fs::Metadata")]
    pub fn len(&self) -> u64 {
        self.attr.size
    }

    /// Permission bits.
    #[must_use]
    pub fn permissions(&self) -> Permissions {
        Permissions::from_mode(self.attr.mode & PERMISSION_BITS)
    }

    /// Type and permission bits.
    #[must_use]
    pub fn mode(&self) -> u32 {
        self.attr.mode
    }

    /// Owner.
    #[must_use]
    pub fn uid(&self) -> u32 {
        self.attr.uid
    }

    /// Group.
    #[must_use]
    pub fn gid(&self) -> u32 {
        self.attr.gid
    }

    /// Hard links.
    #[must_use]
    pub fn nlink(&self) -> u64 {
        u64::from(self.attr.nlink)
    }

    /// Inode number.
    #[must_use]
    pub fn ino(&self) -> u64 {
        self.attr.ino
    }

    /// Device number of a device, in the 32-bit encoding of Linux.
    #[must_use]
    pub fn rdev(&self) -> u32 {
        self.attr.rdev
    }

    /// Blocks of 512 bytes in use.
    #[must_use]
    pub fn blocks(&self) -> u64 {
        self.attr.blocks
    }

    /// Preferred size of a read or write, in bytes.
    #[must_use]
    pub fn blksize(&self) -> u64 {
        u64::from(self.attr.blksize)
    }

    /// Last access: seconds since 1970.
    #[must_use]
    pub fn atime(&self) -> i64 {
        self.attr.atime.cast_signed()
    }

    /// Last access: nanoseconds within the second.
    #[must_use]
    pub fn atime_nsec(&self) -> u32 {
        self.attr.atimensec
    }

    /// Last change of the contents: seconds since 1970.
    #[must_use]
    pub fn mtime(&self) -> i64 {
        self.attr.mtime.cast_signed()
    }

    /// Last change of the contents: nanoseconds within the second.
    #[must_use]
    pub fn mtime_nsec(&self) -> u32 {
        self.attr.mtimensec
    }

    /// Last change of the attributes: seconds since 1970.
    #[must_use]
    pub fn ctime(&self) -> i64 {
        self.attr.ctime.cast_signed()
    }

    /// Last change of the attributes: nanoseconds within the second.
    #[must_use]
    pub fn ctime_nsec(&self) -> u32 {
        self.attr.ctimensec
    }

    /// Last change of the contents. A date the system cannot express becomes 1970.
    #[must_use]
    pub fn modified(&self) -> SystemTime {
        system_time(self.mtime(), self.mtime_nsec())
    }

    /// Last access. A date the system cannot express becomes 1970.
    #[must_use]
    pub fn accessed(&self) -> SystemTime {
        system_time(self.atime(), self.atime_nsec())
    }

    /// Last change of the attributes. A date the system cannot express becomes 1970.
    #[must_use]
    pub fn changed(&self) -> SystemTime {
        system_time(self.ctime(), self.ctime_nsec())
    }
}

pub(crate) fn system_time(secs: i64, nanos: u32) -> SystemTime {
    let whole = Duration::from_secs(secs.unsigned_abs());
    let base = if secs >= 0 {
        UNIX_EPOCH.checked_add(whole)
    } else {
        UNIX_EPOCH.checked_sub(whole)
    };
    // Nanoseconds count forward in both cases.
    base.and_then(|time| time.checked_add(Duration::from_nanos(u64::from(nanos.min(999_999_999)))))
        .unwrap_or(UNIX_EPOCH)
}

/// A point in time to set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Time {
    /// The daemon's clock.
    Now,
    /// Seconds since 1970, and nanoseconds within the second (below 10⁹).
    At(i64, u32),
}

impl From<SystemTime> for Time {
    fn from(time: SystemTime) -> Self {
        match time.duration_since(UNIX_EPOCH) {
            Ok(since) => Time::At(
                i64::try_from(since.as_secs()).unwrap_or(i64::MAX),
                since.subsec_nanos(),
            ),
            Err(before) => {
                let before = before.duration();
                let secs = -i64::try_from(before.as_secs()).unwrap_or(i64::MAX);
                match before.subsec_nanos() {
                    0 => Time::At(secs, 0),
                    nanos => Time::At(secs - 1, 1_000_000_000 - nanos),
                }
            }
        }
    }
}

/// Times to set; `None` leaves one as it is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Times {
    /// Last access.
    pub accessed: Option<Time>,
    /// Last change of the contents.
    pub modified: Option<Time>,
}

impl Times {
    pub(crate) fn put(&self, change: &mut SetattrIn) {
        let mut valid = SetattrValid::from_bits_retain(change.valid);
        match self.accessed {
            None => {}
            Some(Time::Now) => valid |= SetattrValid::ATIME | SetattrValid::ATIME_NOW,
            Some(Time::At(secs, nanos)) => {
                valid |= SetattrValid::ATIME;
                (change.atime, change.atimensec) = (secs.cast_unsigned(), nanos);
            }
        }
        match self.modified {
            None => {}
            Some(Time::Now) => valid |= SetattrValid::MTIME | SetattrValid::MTIME_NOW,
            Some(Time::At(secs, nanos)) => {
                valid |= SetattrValid::MTIME;
                (change.mtime, change.mtimensec) = (secs.cast_unsigned(), nanos);
            }
        }
        change.valid = valid.bits();
    }

    /// EINVAL for nanoseconds of a second or more.
    pub(crate) fn is_valid(&self) -> bool {
        [self.accessed, self.modified]
            .iter()
            .all(|time| !matches!(time, Some(Time::At(_, nanos)) if *nanos >= 1_000_000_000))
    }
}

/// Numbers of the file system, as statvfs(3) gives them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Statfs {
    /// Unit of the block counts, in bytes.
    pub fragment_bytes: u32,
    /// Preferred size of a read or write, in bytes.
    pub block_bytes: u32,
    /// Blocks in all.
    pub blocks: u64,
    /// Free blocks.
    pub blocks_free: u64,
    /// Blocks free for ordinary users.
    pub blocks_available: u64,
    /// Inodes in all.
    pub files: u64,
    /// Free inodes.
    pub files_free: u64,
    /// Longest name, in bytes.
    pub name_max_bytes: u32,
}

impl From<Kstatfs> for Statfs {
    fn from(st: Kstatfs) -> Self {
        Statfs {
            fragment_bytes: if st.frsize == 0 { st.bsize } else { st.frsize },
            block_bytes: st.bsize,
            blocks: st.blocks,
            blocks_free: st.bfree,
            blocks_available: st.bavail,
            files: st.files,
            files_free: st.ffree,
            name_max_bytes: st.namelen,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_before_1970_count_nanoseconds_forward() {
        let time = UNIX_EPOCH - Duration::from_millis(1_500);
        assert_eq!(Time::from(time), Time::At(-2, 500_000_000));
        assert_eq!(system_time(-2, 500_000_000), time);
        assert_eq!(system_time(i64::MIN, 0), system_time(i64::MIN, 0));
    }
}
