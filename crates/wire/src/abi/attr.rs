//! Attributes: GETATTR, SETATTR, STATX, STATFS and the entry reply.

use core::time::Duration;

wire_structs! {
    /// Attributes of a node (`fuse_attr`, 88 bytes). Times are signed seconds stored as `u64`.
    pub struct Attr {
        /// Inode number to show.
        pub ino: u64,
        /// Size in bytes; checked by [`Attr::kind`].
        pub size: u64,
        /// Blocks of 512 bytes.
        pub blocks: u64,
        /// Access time, seconds.
        pub atime: u64,
        /// Modification time, seconds.
        pub mtime: u64,
        /// Change time, seconds.
        pub ctime: u64,
        /// Access time, nanoseconds.
        pub atimensec: u32,
        /// Modification time, nanoseconds.
        pub mtimensec: u32,
        /// Change time, nanoseconds.
        pub ctimensec: u32,
        /// File type and permission bits.
        pub mode: u32,
        /// Hard links.
        pub nlink: u32,
        /// Owner.
        pub uid: u32,
        /// Group.
        pub gid: u32,
        /// Device number, 32-bit encoding of Linux (`new_encode_dev`).
        pub rdev: u32,
        /// Preferred I/O size in bytes; not to be trusted for allocation.
        pub blksize: u32,
        /// [`crate::AttrFlags`] (7.32).
        pub flags: u32,
    }

    /// Reply of LOOKUP, CREATE, MKNOD, MKDIR, SYMLINK, LINK (`fuse_entry_out`, 128 bytes).
    pub struct EntryOut {
        /// The node; 0 is a negative entry that may be cached for `entry_valid`.
        pub nodeid: u64,
        /// Makes a reused `nodeid` distinct.
        pub generation: u64,
        /// Seconds the name may be cached.
        pub entry_valid: u64,
        /// Seconds the attributes may be cached.
        pub attr_valid: u64,
        /// Nanoseconds added to `entry_valid`.
        pub entry_valid_nsec: u32,
        /// Nanoseconds added to `attr_valid`.
        pub attr_valid_nsec: u32,
        /// Attributes of the node.
        pub attr: Attr,
    }

    /// GETATTR arguments (`fuse_getattr_in`).
    pub struct GetattrIn {
        /// [`crate::GetattrFlags`].
        pub getattr_flags: u32,
        /// Zero.
        pub dummy: u32,
        /// File handle, valid with `FH`.
        pub fh: u64,
    }

    /// Reply of GETATTR and SETATTR (`fuse_attr_out`, 104 bytes).
    pub struct AttrOut {
        /// Seconds the attributes may be cached.
        pub attr_valid: u64,
        /// Nanoseconds added to `attr_valid`.
        pub attr_valid_nsec: u32,
        /// Zero.
        pub dummy: u32,
        /// Attributes of the node.
        pub attr: Attr,
    }

    /// SETATTR arguments (`fuse_setattr_in`, 88 bytes); only fields named in `valid` count.
    pub struct SetattrIn {
        /// [`crate::SetattrValid`].
        pub valid: u32,
        /// Zero.
        pub padding: u32,
        /// File handle.
        pub fh: u64,
        /// New size, in bytes.
        pub size: u64,
        /// Owner of locks to which a truncation belongs.
        pub lock_owner: u64,
        /// Access time, seconds.
        pub atime: u64,
        /// Modification time, seconds.
        pub mtime: u64,
        /// Change time, seconds (7.23).
        pub ctime: u64,
        /// Access time, nanoseconds.
        pub atimensec: u32,
        /// Modification time, nanoseconds.
        pub mtimensec: u32,
        /// Change time, nanoseconds (7.23).
        pub ctimensec: u32,
        /// Permission bits (file type bits are kept as they are).
        pub mode: u32,
        /// Zero.
        pub unused4: u32,
        /// New owner.
        pub uid: u32,
        /// New group.
        pub gid: u32,
        /// Zero.
        pub unused5: u32,
    }

    /// Numbers of a file system (`fuse_kstatfs`, 80 bytes).
    pub struct Kstatfs {
        /// Blocks of `frsize` bytes.
        pub blocks: u64,
        /// Free blocks.
        pub bfree: u64,
        /// Blocks free for ordinary users.
        pub bavail: u64,
        /// Inodes.
        pub files: u64,
        /// Free inodes.
        pub ffree: u64,
        /// Preferred block size, in bytes.
        pub bsize: u32,
        /// Longest name, in bytes.
        pub namelen: u32,
        /// Unit of the block counts, in bytes.
        pub frsize: u32,
        /// Zero.
        pub padding: u32,
        /// Zero.
        pub spare: [u32; 6],
    }

    /// Reply of STATFS (`fuse_statfs_out`).
    pub struct StatfsOut {
        /// The numbers.
        pub st: Kstatfs,
    }

    /// A timestamp of [`Statx`] (`fuse_sx_time`).
    pub struct SxTime {
        /// Seconds.
        pub tv_sec: i64,
        /// Nanoseconds.
        pub tv_nsec: u32,
        /// Zero.
        pub reserved: i32,
    }

    /// Attributes in the shape of statx(2) (`fuse_statx`, 256 bytes, 7.39).
    pub struct Statx {
        /// Fields that are filled in, `STATX_*`.
        pub mask: u32,
        /// Preferred I/O size, in bytes.
        pub blksize: u32,
        /// `STATX_ATTR_*`.
        pub attributes: u64,
        /// Hard links.
        pub nlink: u32,
        /// Owner.
        pub uid: u32,
        /// Group.
        pub gid: u32,
        /// File type and permission bits.
        pub mode: u16,
        /// Zero.
        pub spare0: [u16; 1],
        /// Inode number.
        pub ino: u64,
        /// Size in bytes.
        pub size: u64,
        /// Blocks of 512 bytes.
        pub blocks: u64,
        /// Which `attributes` are known.
        pub attributes_mask: u64,
        /// Access time.
        pub atime: SxTime,
        /// Birth time.
        pub btime: SxTime,
        /// Change time.
        pub ctime: SxTime,
        /// Modification time.
        pub mtime: SxTime,
        /// Major number, for devices.
        pub rdev_major: u32,
        /// Minor number, for devices.
        pub rdev_minor: u32,
        /// Major number of the device the file is on.
        pub dev_major: u32,
        /// Minor number of the device the file is on.
        pub dev_minor: u32,
        /// Zero.
        pub spare2: [u64; 14],
    }

    /// STATX arguments (`fuse_statx_in`, 7.39).
    pub struct StatxIn {
        /// [`crate::GetattrFlags`].
        pub getattr_flags: u32,
        /// Zero.
        pub reserved: u32,
        /// File handle, valid with `FH`.
        pub fh: u64,
        /// `AT_STATX_*` flags of statx(2).
        pub sx_flags: u32,
        /// Wanted fields, `STATX_*`.
        pub sx_mask: u32,
    }

    /// Reply of STATX (`fuse_statx_out`, 288 bytes).
    pub struct StatxOut {
        /// Seconds the attributes may be cached.
        pub attr_valid: u64,
        /// Nanoseconds added to `attr_valid`.
        pub attr_valid_nsec: u32,
        /// Zero.
        pub flags: u32,
        /// Zero.
        pub spare: [u64; 2],
        /// The attributes.
        pub stat: Statx,
    }
}

/// File type bits of a mode.
pub const S_IFMT: u32 = 0o170_000;

/// What a node is, from the type bits of its mode.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum FileKind {
    /// Named pipe.
    Fifo,
    /// Character device.
    CharDevice,
    /// Directory.
    Directory,
    /// Block device.
    BlockDevice,
    /// Regular file.
    Regular,
    /// Symbolic link.
    Symlink,
    /// Unix socket.
    Socket,
}

impl FileKind {
    /// The kind named by the type bits of `mode`; `None` when they name none.
    pub const fn from_mode(mode: u32) -> Option<Self> {
        Some(match mode & S_IFMT {
            0o010_000 => Self::Fifo,
            0o020_000 => Self::CharDevice,
            0o040_000 => Self::Directory,
            0o060_000 => Self::BlockDevice,
            0o100_000 => Self::Regular,
            0o120_000 => Self::Symlink,
            0o140_000 => Self::Socket,
            _ => return None,
        })
    }

    /// The type bits (`S_IFREG` and so on).
    pub const fn mode_bits(self) -> u32 {
        match self {
            Self::Fifo => 0o010_000,
            Self::CharDevice => 0o020_000,
            Self::Directory => 0o040_000,
            Self::BlockDevice => 0o060_000,
            Self::Regular => 0o100_000,
            Self::Symlink => 0o120_000,
            Self::Socket => 0o140_000,
        }
    }

    /// The `DT_*` value of a directory entry.
    pub const fn dirent_type(self) -> u32 {
        self.mode_bits() >> 12
    }

    /// The kind of a directory entry's `DT_*` value; `None` for `DT_UNKNOWN` and other values.
    pub const fn from_dirent_type(typ: u32) -> Option<Self> {
        if typ > 15 {
            None
        } else {
            Self::from_mode(typ << 12)
        }
    }
}

/// Attributes that no file can have (Linux answers EIO).
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AttrError {
    /// The type bits of the mode name no kind of file.
    #[error("the daemon sent mode {0:#o}, which is no type of file; check the daemon")]
    Kind(u32),
    /// The size does not fit a file offset.
    #[error(
        "the daemon sent a file size of {0} bytes, more than a file can have (2^63-1); check the daemon"
    )]
    Size(u64),
}

impl Attr {
    /// Checks type and size and returns the kind.
    ///
    /// # Errors
    /// [`AttrError`] for unknown type bits or a size over 2^63-1 (Linux `fuse_invalid_attr`).
    pub const fn kind(&self) -> Result<FileKind, AttrError> {
        if self.size > i64::MAX as u64 {
            return Err(AttrError::Size(self.size));
        }
        match FileKind::from_mode(self.mode) {
            Some(kind) => Ok(kind),
            None => Err(AttrError::Kind(self.mode)),
        }
    }
}

impl EntryOut {
    /// How long the name may be cached; nanoseconds are clamped to 999,999,999.
    pub fn entry_timeout(&self) -> Duration {
        timeout(self.entry_valid, self.entry_valid_nsec)
    }

    /// How long the attributes may be cached; nanoseconds are clamped to 999,999,999.
    pub fn attr_timeout(&self) -> Duration {
        timeout(self.attr_valid, self.attr_valid_nsec)
    }
}

impl AttrOut {
    /// How long the attributes may be cached; nanoseconds are clamped to 999,999,999.
    pub fn attr_timeout(&self) -> Duration {
        timeout(self.attr_valid, self.attr_valid_nsec)
    }
}

impl StatxOut {
    /// How long the attributes may be cached; nanoseconds are clamped to 999,999,999.
    pub fn attr_timeout(&self) -> Duration {
        timeout(self.attr_valid, self.attr_valid_nsec)
    }
}

fn timeout(secs: u64, nanos: u32) -> Duration {
    Duration::new(secs, nanos.min(999_999_999))
}
