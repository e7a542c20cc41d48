//! Requests: one enum, encoded by the client and parsed by embedded servers.
//!
//! A message is `head ‖ payload`. The **head** is the header, arguments, names and extensions:
//! everything this module writes. The **payload** (WRITE data, SETXATTR value, IOCTL input,
//! NOTIFY_REPLY data) comes from the caller's own memory; [`Request::payload_out_bytes`] says how
//! long it must be, and `header.len` already counts it.

mod encode;
mod ext;
mod parse;

pub use encode::EncodeError;
pub use ext::{Extensions, LABEL_MAX_BYTES, SecurityContext};
pub use parse::{ParseError, parse_header};

use crate::abi::*;
use crate::name::{NAME_MAX_BYTES, Name, TARGET_MAX_BYTES, Target, XattrName};
use crate::opcode::{Opcode, Replies};

/// Largest head the encoder can emit: SYMLINK with the longest name, target and extensions.
pub const MAX_HEAD_BYTES: usize =
    IN_HEADER_BYTES as usize + (NAME_MAX_BYTES + 1) + (TARGET_MAX_BYTES + 1) + ext::MAX_BYTES;
/// Most nodes of one BATCH_FORGET.
pub const MAX_FORGETS: usize =
    (MAX_HEAD_BYTES - IN_HEADER_BYTES as usize - size_of::<BatchForgetIn>())
        / size_of::<ForgetOne>();
/// Most mappings of one REMOVEMAPPING.
pub const MAX_REMOVEMAPPINGS: usize =
    (MAX_HEAD_BYTES - IN_HEADER_BYTES as usize - size_of::<RemovemappingIn>())
        / size_of::<RemovemappingOne>();
/// Largest reply head, header included: STATX.
pub const MAX_REPLY_HEAD_BYTES: usize = OUT_HEADER_BYTES as usize + size_of::<StatxOut>();

const _: () = assert!(MAX_HEAD_BYTES <= 8192 && MAX_REPLY_HEAD_BYTES <= 512);

/// On whose behalf a request is sent.
///
/// Daemons switch to these ids only for creating operations (virtiofsd) or not at all; permission
/// checks are the client's. `u32::MAX` is refused by the encoder.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Caller {
    /// File-system user id.
    pub uid: u32,
    /// File-system group id.
    pub gid: u32,
    /// Process id; 0 when unknown.
    pub pid: u32,
}

/// The part of the header that does not follow from the request.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Head {
    /// Matches the reply; 0 only in requests that have none. Linux uses even numbers and sets bit
    /// 0 in the INTERRUPT of a request.
    pub unique: u64,
    /// Node the operation is on; for operations with names the (old) directory; 0 for INIT,
    /// DESTROY, BATCH_FORGET and INTERRUPT.
    pub nodeid: u64,
    /// On whose behalf.
    pub caller: Caller,
}

/// Room a reply needs: `head_bytes`, then up to `payload_max_bytes`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReplyShape {
    /// [`OutHeader`] and the fixed structure, at least 16; 0 when there is no reply at all.
    /// An error reply is 16 bytes, and a short INIT reply is less than this.
    pub head_bytes: u32,
    /// Most bytes after the head.
    pub payload_max_bytes: u32,
}

/// An operation with its arguments. Names are checked by their types.
///
/// Fields named like those of [`crate::abi`] mean the same; flags are the raw bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(
    missing_docs,
    reason = "variants are the operations of `Opcode`, fields those of `abi`"
)]
pub enum Request<'a> {
    Lookup {
        name: Name<'a>,
    },
    /// No reply.
    Forget {
        nlookup: u64,
    },
    /// No reply; 1 to [`MAX_FORGETS`] nodes. Never sent on virtio-fs by Linux.
    BatchForget(&'a [ForgetOne]),
    Getattr {
        fh: Option<u64>,
    },
    Setattr(SetattrIn),
    /// Reply payload: the target, without NUL.
    Readlink,
    Symlink {
        name: Name<'a>,
        target: Target<'a>,
    },
    Mknod {
        name: Name<'a>,
        mode: u32,
        rdev: u32,
        umask: u32,
    },
    Mkdir {
        name: Name<'a>,
        mode: u32,
        umask: u32,
    },
    Unlink {
        name: Name<'a>,
    },
    Rmdir {
        name: Name<'a>,
    },
    Rename {
        new_dir: u64,
        name: Name<'a>,
        new_name: Name<'a>,
    },
    Rename2 {
        new_dir: u64,
        flags: u32,
        name: Name<'a>,
        new_name: Name<'a>,
    },
    /// `head.nodeid` is the directory of the new name.
    Link {
        old_node: u64,
        new_name: Name<'a>,
    },
    Open {
        flags: u32,
        open_flags: u32,
    },
    Create {
        name: Name<'a>,
        flags: u32,
        mode: u32,
        umask: u32,
        open_flags: u32,
    },
    /// Linux sends "/" for the name, which daemons ignore; so does this encoder.
    Tmpfile {
        flags: u32,
        mode: u32,
        umask: u32,
        open_flags: u32,
    },
    /// Reply payload: up to `size` bytes of data.
    Read(ReadIn),
    /// Payload: `size` bytes of data.
    Write(WriteIn),
    Statfs,
    Release(ReleaseIn),
    Releasedir(ReleaseIn),
    Fsync(FsyncIn),
    Fsyncdir(FsyncIn),
    Flush(FlushIn),
    /// Encoded in its full 64 bytes; 16 bytes are accepted too.
    Init(InitIn),
    Opendir {
        flags: u32,
        open_flags: u32,
    },
    /// Reply payload: up to `size` bytes, see [`crate::dirent::Dirents`].
    Readdir(ReadIn),
    /// Reply payload: up to `size` bytes, see [`crate::dirent::DirentsPlus`].
    Readdirplus(ReadIn),
    /// Size 0 asks for the size (a [`GetxattrOut`]); else the reply payload is the value.
    Getxattr {
        name: XattrName<'a>,
        size: u32,
    },
    /// Size 0 asks for the size (a [`GetxattrOut`]); else the reply payload is the list.
    Listxattr {
        size: u32,
    },
    /// Payload: `size` bytes of value. `ext` is whether `SETXATTR_EXT` was negotiated; without it
    /// `setxattr_flags` cannot be sent and must be 0.
    Setxattr {
        name: XattrName<'a>,
        size: u32,
        flags: u32,
        setxattr_flags: u32,
        ext: bool,
    },
    Removexattr {
        name: XattrName<'a>,
    },
    Getlk(LkIn),
    Setlk(LkIn),
    Setlkw(LkIn),
    Access {
        mask: u32,
    },
    /// `unique` of the request to interrupt. A reply comes only on error.
    Interrupt {
        unique: u64,
    },
    Bmap(BmapIn),
    Destroy,
    /// Payload: `in_size` bytes; reply payload: up to `out_size` bytes.
    Ioctl(IoctlIn),
    Poll(PollIn),
    /// Payload: `size` bytes of cached data. No reply; `head.unique` is the `notify_unique`.
    NotifyReply(NotifyRetrieveIn),
    Fallocate(FallocateIn),
    Lseek(LseekIn),
    CopyFileRange(CopyFileRangeIn),
    CopyFileRange64(CopyFileRangeIn),
    Syncfs,
    Statx(StatxIn),
    Setupmapping(SetupmappingIn),
    /// 1 to [`MAX_REMOVEMAPPINGS`] mappings.
    Removemapping(&'a [RemovemappingOne]),
    /// Reply payload: up to 4096 bytes of device properties.
    CuseInit(CuseInitIn),
}

impl Request<'_> {
    /// The operation.
    pub const fn opcode(&self) -> Opcode {
        match self {
            Self::Lookup { .. } => Opcode::Lookup,
            Self::Forget { .. } => Opcode::Forget,
            Self::BatchForget(_) => Opcode::BatchForget,
            Self::Getattr { .. } => Opcode::Getattr,
            Self::Setattr(_) => Opcode::Setattr,
            Self::Readlink => Opcode::Readlink,
            Self::Symlink { .. } => Opcode::Symlink,
            Self::Mknod { .. } => Opcode::Mknod,
            Self::Mkdir { .. } => Opcode::Mkdir,
            Self::Unlink { .. } => Opcode::Unlink,
            Self::Rmdir { .. } => Opcode::Rmdir,
            Self::Rename { .. } => Opcode::Rename,
            Self::Rename2 { .. } => Opcode::Rename2,
            Self::Link { .. } => Opcode::Link,
            Self::Open { .. } => Opcode::Open,
            Self::Create { .. } => Opcode::Create,
            Self::Tmpfile { .. } => Opcode::Tmpfile,
            Self::Read(_) => Opcode::Read,
            Self::Write(_) => Opcode::Write,
            Self::Statfs => Opcode::Statfs,
            Self::Release(_) => Opcode::Release,
            Self::Releasedir(_) => Opcode::Releasedir,
            Self::Fsync(_) => Opcode::Fsync,
            Self::Fsyncdir(_) => Opcode::Fsyncdir,
            Self::Flush(_) => Opcode::Flush,
            Self::Init(_) => Opcode::Init,
            Self::Opendir { .. } => Opcode::Opendir,
            Self::Readdir(_) => Opcode::Readdir,
            Self::Readdirplus(_) => Opcode::Readdirplus,
            Self::Getxattr { .. } => Opcode::Getxattr,
            Self::Listxattr { .. } => Opcode::Listxattr,
            Self::Setxattr { .. } => Opcode::Setxattr,
            Self::Removexattr { .. } => Opcode::Removexattr,
            Self::Getlk(_) => Opcode::Getlk,
            Self::Setlk(_) => Opcode::Setlk,
            Self::Setlkw(_) => Opcode::Setlkw,
            Self::Access { .. } => Opcode::Access,
            Self::Interrupt { .. } => Opcode::Interrupt,
            Self::Bmap(_) => Opcode::Bmap,
            Self::Destroy => Opcode::Destroy,
            Self::Ioctl(_) => Opcode::Ioctl,
            Self::Poll(_) => Opcode::Poll,
            Self::NotifyReply(_) => Opcode::NotifyReply,
            Self::Fallocate(_) => Opcode::Fallocate,
            Self::Lseek(_) => Opcode::Lseek,
            Self::CopyFileRange(_) => Opcode::CopyFileRange,
            Self::CopyFileRange64(_) => Opcode::CopyFileRange64,
            Self::Syncfs => Opcode::Syncfs,
            Self::Statx(_) => Opcode::Statx,
            Self::Setupmapping(_) => Opcode::Setupmapping,
            Self::Removemapping(_) => Opcode::Removemapping,
            Self::CuseInit(_) => Opcode::CuseInit,
        }
    }

    /// Bytes of payload that must follow the head.
    pub const fn payload_out_bytes(&self) -> u32 {
        match self {
            Self::Write(arg) => arg.size,
            Self::Setxattr { size, .. } => *size,
            Self::Ioctl(arg) => arg.in_size,
            Self::NotifyReply(arg) => arg.size,
            _ => 0,
        }
    }

    /// Room the reply needs. A daemon that finds less may end, so reserve all of it.
    pub const fn reply(&self) -> ReplyShape {
        let (fixed, payload_max_bytes) = match self {
            Self::Lookup { .. }
            | Self::Symlink { .. }
            | Self::Mknod { .. }
            | Self::Mkdir { .. }
            | Self::Link { .. } => (size_of::<EntryOut>(), 0),
            Self::Getattr { .. } | Self::Setattr(_) => (size_of::<AttrOut>(), 0),
            Self::Readlink => (0, TARGET_MAX_BYTES as u32),
            Self::Open { .. } | Self::Opendir { .. } => (size_of::<OpenOut>(), 0),
            Self::Create { .. } | Self::Tmpfile { .. } => {
                (size_of::<EntryOut>() + size_of::<OpenOut>(), 0)
            }
            Self::Read(arg) | Self::Readdir(arg) | Self::Readdirplus(arg) => (0, arg.size),
            Self::Write(_) | Self::CopyFileRange(_) => (size_of::<WriteOut>(), 0),
            Self::CopyFileRange64(_) => (size_of::<CopyFileRangeOut>(), 0),
            Self::Statfs => (size_of::<StatfsOut>(), 0),
            Self::Init(_) => (size_of::<InitOut>(), 0),
            Self::CuseInit(_) => (size_of::<CuseInitOut>(), CUSE_INIT_INFO_MAX_BYTES),
            Self::Getxattr { size: 0, .. } | Self::Listxattr { size: 0 } => {
                (size_of::<GetxattrOut>(), 0)
            }
            Self::Getxattr { size, .. } | Self::Listxattr { size } => (0, *size),
            Self::Getlk(_) => (size_of::<LkOut>(), 0),
            Self::Bmap(_) => (size_of::<BmapOut>(), 0),
            Self::Ioctl(arg) => (size_of::<IoctlOut>(), arg.out_size),
            Self::Poll(_) => (size_of::<PollOut>(), 0),
            Self::Lseek(_) => (size_of::<LseekOut>(), 0),
            Self::Statx(_) => (size_of::<StatxOut>(), 0),
            _ => (0, 0),
        };
        match self.opcode().replies() {
            Replies::Never => ReplyShape {
                head_bytes: 0,
                payload_max_bytes: 0,
            },
            Replies::Always | Replies::OnlyOnError => ReplyShape {
                head_bytes: OUT_HEADER_BYTES + fixed as u32,
                payload_max_bytes,
            },
        }
    }
}

const CUSE_INIT_INFO_MAX_BYTES: u32 = 4096;
