//! Open files: OPEN, READ, WRITE, RELEASE, FLUSH, FSYNC, directories, ioctl, poll, mappings.

use super::EntryOut;

wire_structs! {
    /// OPEN and OPENDIR arguments (`fuse_open_in`).
    pub struct OpenIn {
        /// `O_*` flags of open(2).
        pub flags: u32,
        /// [`crate::OpenInFlags`] (7.33).
        pub open_flags: u32,
    }

    /// CREATE and TMPFILE arguments (`fuse_create_in`); the name follows.
    pub struct CreateIn {
        /// `O_*` flags of open(2).
        pub flags: u32,
        /// File type and permission bits.
        pub mode: u32,
        /// Caller's umask.
        pub umask: u32,
        /// [`crate::OpenInFlags`] (7.33).
        pub open_flags: u32,
    }

    /// Reply of OPEN and OPENDIR; in CREATE and TMPFILE it follows the entry (`fuse_open_out`).
    pub struct OpenOut {
        /// File handle, opaque to the client.
        pub fh: u64,
        /// [`crate::OpenOutFlags`].
        pub open_flags: u32,
        /// Backing file, valid with `PASSTHROUGH` (7.40).
        pub backing_id: i32,
    }

    /// RELEASE and RELEASEDIR arguments (`fuse_release_in`).
    pub struct ReleaseIn {
        /// File handle.
        pub fh: u64,
        /// `O_*` flags the file was opened with.
        pub flags: u32,
        /// [`crate::ReleaseFlags`].
        pub release_flags: u32,
        /// Owner of the locks to drop.
        pub lock_owner: u64,
    }

    /// FLUSH arguments (`fuse_flush_in`).
    pub struct FlushIn {
        /// File handle.
        pub fh: u64,
        /// Zero.
        pub unused: u32,
        /// Zero.
        pub padding: u32,
        /// Owner of the POSIX locks to drop.
        pub lock_owner: u64,
    }

    /// READ, READDIR and READDIRPLUS arguments (`fuse_read_in`).
    pub struct ReadIn {
        /// File handle.
        pub fh: u64,
        /// Byte offset; for directories the last entry's `off`, 0 at the start.
        pub offset: u64,
        /// Bytes wanted.
        pub size: u32,
        /// [`crate::ReadFlags`].
        pub read_flags: u32,
        /// Lock owner, valid with `LOCKOWNER`.
        pub lock_owner: u64,
        /// `O_*` flags of the file.
        pub flags: u32,
        /// Zero.
        pub padding: u32,
    }

    /// WRITE arguments (`fuse_write_in`); `size` bytes of data follow.
    pub struct WriteIn {
        /// File handle.
        pub fh: u64,
        /// Byte offset.
        pub offset: u64,
        /// Bytes of data.
        pub size: u32,
        /// [`crate::WriteFlags`].
        pub write_flags: u32,
        /// Lock owner, valid with `LOCKOWNER`.
        pub lock_owner: u64,
        /// `O_*` flags of the file.
        pub flags: u32,
        /// Zero.
        pub padding: u32,
    }

    /// Reply of WRITE and COPY_FILE_RANGE (`fuse_write_out`).
    pub struct WriteOut {
        /// Bytes taken.
        pub size: u32,
        /// Zero.
        pub padding: u32,
    }

    /// FSYNC and FSYNCDIR arguments (`fuse_fsync_in`).
    pub struct FsyncIn {
        /// File handle.
        pub fh: u64,
        /// [`crate::FsyncFlags`].
        pub fsync_flags: u32,
        /// Zero.
        pub padding: u32,
    }

    /// FALLOCATE arguments (`fuse_fallocate_in`, 7.19).
    pub struct FallocateIn {
        /// File handle.
        pub fh: u64,
        /// Byte offset.
        pub offset: u64,
        /// Bytes.
        pub length: u64,
        /// `FALLOC_FL_*`.
        pub mode: u32,
        /// Zero.
        pub padding: u32,
    }

    /// LSEEK arguments (`fuse_lseek_in`, 7.24).
    pub struct LseekIn {
        /// File handle.
        pub fh: u64,
        /// Byte offset.
        pub offset: u64,
        /// `SEEK_DATA` or `SEEK_HOLE`.
        pub whence: u32,
        /// Zero.
        pub padding: u32,
    }

    /// Reply of LSEEK (`fuse_lseek_out`).
    pub struct LseekOut {
        /// Byte offset found.
        pub offset: u64,
    }

    /// COPY_FILE_RANGE and COPY_FILE_RANGE_64 arguments (`fuse_copy_file_range_in`, 7.28).
    pub struct CopyFileRangeIn {
        /// Source file handle (its node is the header's).
        pub fh_in: u64,
        /// Source byte offset.
        pub off_in: u64,
        /// Destination node.
        pub nodeid_out: u64,
        /// Destination file handle.
        pub fh_out: u64,
        /// Destination byte offset.
        pub off_out: u64,
        /// Bytes.
        pub len: u64,
        /// Zero.
        pub flags: u64,
    }

    /// Reply of COPY_FILE_RANGE_64 (`fuse_copy_file_range_out`, 7.45).
    pub struct CopyFileRangeOut {
        /// Bytes copied.
        pub bytes_copied: u64,
    }

    /// SYNCFS arguments (`fuse_syncfs_in`, 7.34).
    pub struct SyncfsIn {
        /// Zero.
        pub padding: u64,
    }

    /// BMAP arguments (`fuse_bmap_in`).
    pub struct BmapIn {
        /// Block of the file.
        pub block: u64,
        /// Bytes of a block.
        pub blocksize: u32,
        /// Zero.
        pub padding: u32,
    }

    /// Reply of BMAP (`fuse_bmap_out`).
    pub struct BmapOut {
        /// Block of the device.
        pub block: u64,
    }

    /// IOCTL arguments (`fuse_ioctl_in`); `in_size` bytes follow.
    pub struct IoctlIn {
        /// File handle.
        pub fh: u64,
        /// [`crate::IoctlFlags`].
        pub flags: u32,
        /// Command number.
        pub cmd: u32,
        /// Argument of ioctl(2).
        pub arg: u64,
        /// Bytes of input that follow.
        pub in_size: u32,
        /// Most bytes of output.
        pub out_size: u32,
    }

    /// One vector of an unrestricted ioctl's retry (`fuse_ioctl_iovec`).
    pub struct IoctlIovec {
        /// Address in the caller.
        pub base: u64,
        /// Bytes.
        pub len: u64,
    }

    /// Reply of IOCTL (`fuse_ioctl_out`); output bytes follow.
    pub struct IoctlOut {
        /// Result of ioctl(2).
        pub result: i32,
        /// [`crate::IoctlFlags`].
        pub flags: u32,
        /// Input vectors of a retry.
        pub in_iovs: u32,
        /// Output vectors of a retry.
        pub out_iovs: u32,
    }

    /// POLL arguments (`fuse_poll_in`).
    pub struct PollIn {
        /// File handle.
        pub fh: u64,
        /// Client's handle, named by a later `NOTIFY_POLL`.
        pub kh: u64,
        /// [`crate::PollFlags`].
        pub flags: u32,
        /// Wanted events (7.21).
        pub events: u32,
    }

    /// Reply of POLL (`fuse_poll_out`).
    pub struct PollOut {
        /// Events that are ready.
        pub revents: u32,
        /// Zero.
        pub padding: u32,
    }

    /// SETUPMAPPING arguments (`fuse_setupmapping_in`, 7.31).
    pub struct SetupmappingIn {
        /// File handle.
        pub fh: u64,
        /// Byte offset in the file.
        pub foffset: u64,
        /// Bytes.
        pub len: u64,
        /// [`crate::SetupmappingFlags`].
        pub flags: u64,
        /// Byte offset in the DAX window.
        pub moffset: u64,
    }

    /// REMOVEMAPPING arguments (`fuse_removemapping_in`); `count` [`RemovemappingOne`] follow.
    pub struct RemovemappingIn {
        /// Number of mappings.
        pub count: u32,
    }

    /// Fixed part of a directory entry (`fuse_dirent`, 24 bytes); the name follows, padded to 8.
    pub struct Dirent {
        /// Inode number to show.
        pub ino: u64,
        /// Where the next READDIR goes on after this entry.
        pub off: u64,
        /// Bytes of the name.
        pub namelen: u32,
        /// `DT_*` type, see [`super::FileKind::from_dirent_type`].
        pub typ: u32,
    }

    /// Fixed part of a READDIRPLUS entry (`fuse_direntplus`, 152 bytes); the name follows.
    pub struct DirentPlus {
        /// As if the name had been looked up; `nodeid` 0 when it was not.
        pub entry_out: EntryOut,
        /// The directory entry.
        pub dirent: Dirent,
    }
}

/// One mapping to remove (`fuse_removemapping_one`). On the wire it follows a 4-byte count, hence
/// the 4-byte alignment.
#[derive(
    Clone,
    Copy,
    Debug,
    Default,
    PartialEq,
    Eq,
    zerocopy::FromBytes,
    zerocopy::IntoBytes,
    zerocopy::Immutable,
    zerocopy::KnownLayout,
)]
#[repr(C, packed(4))]
pub struct RemovemappingOne {
    /// Byte offset in the DAX window.
    pub moffset: u64,
    /// Bytes.
    pub len: u64,
}
