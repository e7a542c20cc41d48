//! Bits of the integer fields in [`crate::abi`], named.
//!
//! Unknown bits are kept by `from_bits_retain`; names follow `<linux/fuse.h>` without prefixes.

use bitflags::bitflags;

bitflags! {
    /// Capabilities of INIT: low half in `flags`, high half in `flags2`.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
    pub struct InitFlags: u64 {
        /// Several READs of one file may be in flight.
        const ASYNC_READ = 1 << 0;
        /// The daemon keeps fcntl(2) locks.
        const POSIX_LOCKS = 1 << 1;
        /// Never used.
        const FILE_OPS = 1 << 2;
        /// OPEN may carry `O_TRUNC`.
        const ATOMIC_O_TRUNC = 1 << 3;
        /// LOOKUP of "." and ".." works.
        const EXPORT_SUPPORT = 1 << 4;
        /// WRITE may be larger than 4 KiB.
        const BIG_WRITES = 1 << 5;
        /// The client leaves the umask to the daemon.
        const DONT_MASK = 1 << 6;
        /// Splice to the device.
        const SPLICE_WRITE = 1 << 7;
        /// Splice may move pages.
        const SPLICE_MOVE = 1 << 8;
        /// Splice from the device.
        const SPLICE_READ = 1 << 9;
        /// The daemon keeps flock(2) locks.
        const FLOCK_LOCKS = 1 << 10;
        /// IOCTL on directories.
        const HAS_IOCTL_DIR = 1 << 11;
        /// Drop cached data when mtime or size changed.
        const AUTO_INVAL_DATA = 1 << 12;
        /// READDIRPLUS may be used.
        const DO_READDIRPLUS = 1 << 13;
        /// READDIRPLUS only where it pays.
        const READDIRPLUS_AUTO = 1 << 14;
        /// Several direct I/O requests of one call in flight.
        const ASYNC_DIO = 1 << 15;
        /// The client may cache writes.
        const WRITEBACK_CACHE = 1 << 16;
        /// The client takes ENOSYS of OPEN for "no open needed".
        const NO_OPEN_SUPPORT = 1 << 17;
        /// LOOKUP and READDIR of one directory may run at once.
        const PARALLEL_DIROPS = 1 << 18;
        /// The daemon clears set-id bits on write, chown, truncate.
        const HANDLE_KILLPRIV = 1 << 19;
        /// POSIX ACLs; implies that the client checks permissions.
        const POSIX_ACL = 1 << 20;
        /// Reading the device after an abort gives ECONNABORTED.
        const ABORT_ERROR = 1 << 21;
        /// `max_pages` is valid.
        const MAX_PAGES = 1 << 22;
        /// READLINK results may be cached.
        const CACHE_SYMLINKS = 1 << 23;
        /// The client takes ENOSYS of OPENDIR for "no opendir needed".
        const NO_OPENDIR_SUPPORT = 1 << 24;
        /// Cached data is only dropped on request.
        const EXPLICIT_INVAL_DATA = 1 << 25;
        /// `map_alignment` is valid.
        const MAP_ALIGNMENT = 1 << 26;
        /// Directories may be mounted as submounts.
        const SUBMOUNTS = 1 << 27;
        /// As `HANDLE_KILLPRIV`, on the rules of the Linux VFS.
        const HANDLE_KILLPRIV_V2 = 1 << 28;
        /// SETXATTR carries the longer structure.
        const SETXATTR_EXT = 1 << 29;
        /// `flags2` is valid.
        const INIT_EXT = 1 << 30;
        /// Reserved.
        const INIT_RESERVED = 1 << 31;
        /// Creating requests carry a security context.
        const SECURITY_CTX = 1 << 32;
        /// DAX is chosen per inode.
        const HAS_INODE_DAX = 1 << 33;
        /// Creating requests carry the parent's group when it matters.
        const CREATE_SUPP_GROUP = 1 << 34;
        /// `NOTIFY_INVAL_ENTRY` may only expire.
        const HAS_EXPIRE_ONLY = 1 << 35;
        /// Shared mmap of direct I/O files.
        const DIRECT_IO_ALLOW_MMAP = 1 << 36;
        /// Reads and writes may go to a backing file.
        const PASSTHROUGH = 1 << 37;
        /// No export over NFS.
        const NO_EXPORT_SUPPORT = 1 << 38;
        /// `NOTIFY_RESEND` is understood.
        const HAS_RESEND = 1 << 39;
        /// Idmapped mounts.
        const ALLOW_IDMAP = 1 << 40;
        /// Requests over io_uring.
        const OVER_IO_URING = 1 << 41;
        /// `request_timeout` is valid.
        const REQUEST_TIMEOUT = 1 << 42;
    }

    /// `FOPEN_*`: how to treat an open file.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
    pub struct OpenOutFlags: u32 {
        /// No page cache.
        const DIRECT_IO = 1 << 0;
        /// Cached data stays valid over this open.
        const KEEP_CACHE = 1 << 1;
        /// Not seekable.
        const NONSEEKABLE = 1 << 2;
        /// The directory's entries may be cached.
        const CACHE_DIR = 1 << 3;
        /// No file position at all.
        const STREAM = 1 << 4;
        /// No FLUSH on close.
        const NOFLUSH = 1 << 5;
        /// Direct writes of one file may run at once.
        const PARALLEL_DIRECT_WRITES = 1 << 6;
        /// Reads and writes go to the backing file.
        const PASSTHROUGH = 1 << 7;
    }

    /// `FUSE_OPEN_*`: flags of OPEN and CREATE.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
    pub struct OpenInFlags: u32 {
        /// Clear set-id bits (`O_TRUNC` by an unprivileged caller).
        const KILL_SUIDGID = 1 << 0;
    }

    /// `FATTR_*`: which fields of SETATTR count.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
    pub struct SetattrValid: u32 {
        /// `mode`.
        const MODE = 1 << 0;
        /// `uid`.
        const UID = 1 << 1;
        /// `gid`.
        const GID = 1 << 2;
        /// `size`.
        const SIZE = 1 << 3;
        /// `atime`.
        const ATIME = 1 << 4;
        /// `mtime`.
        const MTIME = 1 << 5;
        /// `fh`.
        const FH = 1 << 6;
        /// Access time becomes the daemon's now.
        const ATIME_NOW = 1 << 7;
        /// Modification time becomes the daemon's now.
        const MTIME_NOW = 1 << 8;
        /// `lock_owner`.
        const LOCKOWNER = 1 << 9;
        /// `ctime`.
        const CTIME = 1 << 10;
        /// Clear set-id bits.
        const KILL_SUIDGID = 1 << 11;
    }

    /// Flags of GETATTR and STATX.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
    pub struct GetattrFlags: u32 {
        /// `fh` is valid.
        const FH = 1 << 0;
    }

    /// Flags of WRITE.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
    pub struct WriteFlags: u32 {
        /// From the write cache; the file handle is a guess.
        const CACHE = 1 << 0;
        /// `lock_owner` is valid.
        const LOCKOWNER = 1 << 1;
        /// Clear set-id bits.
        const KILL_SUIDGID = 1 << 2;
    }

    /// Flags of READ.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
    pub struct ReadFlags: u32 {
        /// `lock_owner` is valid.
        const LOCKOWNER = 1 << 1;
    }

    /// Flags of RELEASE.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
    pub struct ReleaseFlags: u32 {
        /// Flush as FLUSH would.
        const FLUSH = 1 << 0;
        /// Drop flock(2) locks.
        const FLOCK_UNLOCK = 1 << 1;
    }

    /// Flags of FSYNC and FSYNCDIR.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
    pub struct FsyncFlags: u32 {
        /// Data only, as fdatasync(2).
        const FDATASYNC = 1 << 0;
    }

    /// Flags of [`crate::abi::Attr`].
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
    pub struct AttrFlags: u32 {
        /// Root of a submount.
        const SUBMOUNT = 1 << 0;
        /// DAX for this file.
        const DAX = 1 << 1;
    }

    /// Flags of SETXATTR (with `SETXATTR_EXT`).
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
    pub struct SetxattrFlags: u32 {
        /// Clear the set-group-id bit when the access ACL is set.
        const ACL_KILL_SGID = 1 << 0;
    }

    /// Flags of GETLK, SETLK, SETLKW.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
    pub struct LkFlags: u32 {
        /// A flock(2) lock.
        const FLOCK = 1 << 0;
    }

    /// Flags of POLL.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
    pub struct PollFlags: u32 {
        /// Send `NOTIFY_POLL` when an event comes.
        const SCHEDULE_NOTIFY = 1 << 0;
    }

    /// Flags of IOCTL.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
    pub struct IoctlFlags: u32 {
        /// 32-bit caller on a 64-bit kernel.
        const COMPAT = 1 << 0;
        /// Not restricted to well-formed ioctls; the reply may ask for a retry.
        const UNRESTRICTED = 1 << 1;
        /// Retry with these vectors.
        const RETRY = 1 << 2;
        /// 32-bit ioctl.
        const IOCTL_32BIT = 1 << 3;
        /// On a directory.
        const DIR = 1 << 4;
        /// x32 caller.
        const COMPAT_X32 = 1 << 5;
    }

    /// Flags of SETUPMAPPING.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
    pub struct SetupmappingFlags: u64 {
        /// Writable.
        const WRITE = 1 << 0;
        /// Readable.
        const READ = 1 << 1;
    }

    /// Flags of `NOTIFY_INVAL_ENTRY`.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
    pub struct InvalEntryFlags: u32 {
        /// Expire the entry, do not remove it.
        const EXPIRE_ONLY = 1 << 0;
    }
}

impl InitFlags {
    /// Low half, for `flags`.
    pub const fn low(self) -> u32 {
        self.bits() as u32
    }

    /// High half, for `flags2`.
    pub const fn high(self) -> u32 {
        (self.bits() >> 32) as u32
    }

    /// Joins both halves; the high one counts only with `INIT_EXT`. Unknown bits are kept.
    pub const fn from_halves(low: u32, high: u32) -> Self {
        let flags = Self::from_bits_retain(low as u64);
        if flags.contains(Self::INIT_EXT) {
            Self::from_bits_retain((high as u64) << 32 | low as u64)
        } else {
            flags
        }
    }
}
