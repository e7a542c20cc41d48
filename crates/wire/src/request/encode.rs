//! The encoder: the only way a request gets its bytes.

use zerocopy::{Immutable, IntoBytes};

use super::{Extensions, Head, MAX_FORGETS, MAX_REMOVEMAPPINGS, Request};
use crate::abi::*;
use crate::flags::GetattrFlags;
use crate::name::Name;
use crate::opcode::{Opcode, Replies};

/// Why a request cannot be sent. Nothing usable was written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum EncodeError {
    /// The buffer is too small; [`super::MAX_HEAD_BYTES`] always suffices.
    #[error(
        "the request's head needs {need_bytes} bytes, the buffer has {have_bytes}; give MAX_HEAD_BYTES"
    )]
    BufferTooSmall {
        /// Bytes of the head.
        need_bytes: usize,
        /// Bytes of the buffer.
        have_bytes: usize,
    },
    /// Head and payload exceed 2^32-1 bytes.
    #[error("a payload of {0} bytes does not fit a message; split it")]
    PayloadTooLarge(u32),
    /// 0 is kept for notifications.
    #[error("unique 0 in {0}, which has a reply; number requests from 1")]
    ZeroUnique(Opcode),
    /// A user or group id of 2^32-1, which a daemon may take for root.
    #[error("user or group id 4294967295 stands for nobody and is never sent; map it first")]
    InvalidId,
    /// A list that is empty or too long.
    #[error("{opcode} with {len} entries; send 1 to {max}")]
    ListLength {
        /// The operation.
        opcode: Opcode,
        /// Entries given.
        len: usize,
        /// Entries allowed.
        max: usize,
    },
    /// Extensions on an operation that has none.
    #[error("{0} carries no extensions; pass the default")]
    UnexpectedExtension(Opcode),
    /// A security label that is empty or longer than [`super::LABEL_MAX_BYTES`].
    #[error("a security label of {0} bytes; it must have 1 to 1024")]
    LabelLength(usize),
    /// `setxattr_flags` without `SETXATTR_EXT`.
    #[error("setxattr_flags cannot be sent without SETXATTR_EXT; clear them")]
    SetxattrFlags,
}

impl EncodeError {
    /// The errno a system call gives: E2BIG for a label, EMSGSIZE, EOVERFLOW (id), else EINVAL.
    pub const fn errno(self) -> i32 {
        match self {
            Self::BufferTooSmall { .. } | Self::PayloadTooLarge(_) => crate::errno::EMSGSIZE,
            Self::InvalidId => crate::errno::EOVERFLOW,
            Self::LabelLength(_) => crate::errno::E2BIG,
            _ => crate::errno::EINVAL,
        }
    }
}

/// Writes into a buffer and keeps counting past its end.
pub(super) struct Output<'b> {
    buf: &'b mut [u8],
    len: usize,
}

impl<'b> Output<'b> {
    fn new(buf: &'b mut [u8]) -> Self {
        Self { buf, len: 0 }
    }

    /// Bytes put so far.
    pub(super) fn len(&self) -> usize {
        self.len
    }

    pub(super) fn put(&mut self, bytes: &[u8]) {
        if let Some(room) = self.buf.get_mut(self.len..self.len + bytes.len()) {
            room.copy_from_slice(bytes);
        }
        self.len += bytes.len();
    }

    fn put_struct<T: IntoBytes + Immutable>(&mut self, value: &T) {
        self.put(value.as_bytes());
    }

    pub(super) fn put_cstr(&mut self, bytes: &[u8]) {
        self.put(bytes);
        self.put(&[0]);
    }

    fn put_name(&mut self, name: Name<'_>) {
        self.put_cstr(name.as_bytes());
    }

    /// Zeros up to the next multiple of 8 counted from `start`.
    pub(super) fn pad_to_8_from(&mut self, start: usize) {
        let len = self.len - start;
        self.put(&[0; 8][..len.next_multiple_of(8) - len]);
    }
}

impl Request<'_> {
    /// Writes the head to the start of `buf` and returns its length in bytes.
    ///
    /// `buf` needs no alignment; [`super::MAX_HEAD_BYTES`] is always enough. `header.len` counts
    /// the payload, which the caller sends right after the head.
    ///
    /// # Errors
    /// [`EncodeError`]; the buffer's contents are then of no use.
    pub fn encode(
        &self,
        head: &Head,
        ext: &Extensions<'_>,
        buf: &mut [u8],
    ) -> Result<usize, EncodeError> {
        let opcode = self.opcode();
        if head.unique == 0 && opcode.replies() != Replies::Never {
            return Err(EncodeError::ZeroUnique(opcode));
        }
        if head.caller.uid == INVALID_UIDGID || head.caller.gid == INVALID_UIDGID {
            return Err(EncodeError::InvalidId);
        }
        let have_bytes = buf.len();
        let mut out = Output::new(buf);
        let mut header = InHeader {
            len: 0,
            opcode: opcode as u32,
            unique: head.unique,
            nodeid: head.nodeid,
            uid: head.caller.uid,
            gid: head.caller.gid,
            pid: head.caller.pid,
            total_extlen: 0,
            padding: 0,
        };
        out.put_struct(&header);
        self.encode_arguments(&mut out)?;
        let ext_bytes = ext.encode(opcode, &mut out)?;
        let need_bytes = out.len;
        let payload_bytes = self.payload_out_bytes();

        header.total_extlen = (ext_bytes / 8) as u16;
        header.len = (need_bytes as u32)
            .checked_add(payload_bytes)
            .ok_or(EncodeError::PayloadTooLarge(payload_bytes))?;
        if need_bytes > have_bytes {
            return Err(EncodeError::BufferTooSmall {
                need_bytes,
                have_bytes,
            });
        }
        buf[..size_of::<InHeader>()].copy_from_slice(header.as_bytes());
        Ok(need_bytes)
    }

    fn encode_arguments(&self, out: &mut Output<'_>) -> Result<(), EncodeError> {
        match *self {
            Self::Readlink | Self::Statfs | Self::Destroy => {}
            Self::Lookup { name } | Self::Unlink { name } | Self::Rmdir { name } => {
                out.put_name(name)
            }
            Self::Forget { nlookup } => out.put_struct(&ForgetIn { nlookup }),
            Self::BatchForget(nodes) => {
                let count = self.list_len(nodes.len(), MAX_FORGETS)?;
                out.put_struct(&BatchForgetIn { count, dummy: 0 });
                out.put(nodes.as_bytes());
            }
            Self::Getattr { fh } => {
                let flags = if fh.is_some() {
                    GetattrFlags::FH
                } else {
                    GetattrFlags::empty()
                };
                out.put_struct(&GetattrIn {
                    getattr_flags: flags.bits(),
                    dummy: 0,
                    fh: fh.unwrap_or(0),
                });
            }
            Self::Setattr(arg) => out.put_struct(&arg),
            Self::Symlink { name, target } => {
                out.put_name(name);
                out.put_cstr(target.as_bytes());
            }
            Self::Mknod {
                name,
                mode,
                rdev,
                umask,
            } => {
                out.put_struct(&MknodIn {
                    mode,
                    rdev,
                    umask,
                    padding: 0,
                });
                out.put_name(name);
            }
            Self::Mkdir { name, mode, umask } => {
                out.put_struct(&MkdirIn { mode, umask });
                out.put_name(name);
            }
            Self::Rename {
                new_dir,
                name,
                new_name,
            } => {
                out.put_struct(&RenameIn { newdir: new_dir });
                out.put_name(name);
                out.put_name(new_name);
            }
            Self::Rename2 {
                new_dir,
                flags,
                name,
                new_name,
            } => {
                out.put_struct(&Rename2In {
                    newdir: new_dir,
                    flags,
                    padding: 0,
                });
                out.put_name(name);
                out.put_name(new_name);
            }
            Self::Link { old_node, new_name } => {
                out.put_struct(&LinkIn {
                    oldnodeid: old_node,
                });
                out.put_name(new_name);
            }
            Self::Open { flags, open_flags } | Self::Opendir { flags, open_flags } => {
                out.put_struct(&OpenIn { flags, open_flags });
            }
            Self::Create {
                name,
                flags,
                mode,
                umask,
                open_flags,
            } => {
                out.put_struct(&CreateIn {
                    flags,
                    mode,
                    umask,
                    open_flags,
                });
                out.put_name(name);
            }
            Self::Tmpfile {
                flags,
                mode,
                umask,
                open_flags,
            } => {
                out.put_struct(&CreateIn {
                    flags,
                    mode,
                    umask,
                    open_flags,
                });
                out.put_cstr(b"/");
            }
            Self::Read(arg) | Self::Readdir(arg) | Self::Readdirplus(arg) => out.put_struct(&arg),
            Self::Write(arg) => out.put_struct(&arg),
            Self::Release(arg) | Self::Releasedir(arg) => out.put_struct(&arg),
            Self::Fsync(arg) | Self::Fsyncdir(arg) => out.put_struct(&arg),
            Self::Flush(arg) => out.put_struct(&arg),
            Self::Init(arg) => out.put_struct(&arg),
            Self::Getxattr { name, size } => {
                out.put_struct(&GetxattrIn { size, padding: 0 });
                out.put_cstr(name.as_bytes());
            }
            Self::Listxattr { size } => out.put_struct(&GetxattrIn { size, padding: 0 }),
            Self::Setxattr {
                name,
                size,
                flags,
                setxattr_flags,
                ext,
            } => {
                if ext {
                    out.put_struct(&SetxattrIn {
                        size,
                        flags,
                        setxattr_flags,
                        padding: 0,
                    });
                } else if setxattr_flags != 0 {
                    return Err(EncodeError::SetxattrFlags);
                } else {
                    out.put_struct(&SetxattrInCompat { size, flags });
                }
                out.put_cstr(name.as_bytes());
            }
            Self::Removexattr { name } => out.put_cstr(name.as_bytes()),
            Self::Getlk(arg) | Self::Setlk(arg) | Self::Setlkw(arg) => out.put_struct(&arg),
            Self::Access { mask } => out.put_struct(&AccessIn { mask, padding: 0 }),
            Self::Interrupt { unique } => out.put_struct(&InterruptIn { unique }),
            Self::Bmap(arg) => out.put_struct(&arg),
            Self::Ioctl(arg) => out.put_struct(&arg),
            Self::Poll(arg) => out.put_struct(&arg),
            Self::NotifyReply(arg) => out.put_struct(&arg),
            Self::Fallocate(arg) => out.put_struct(&arg),
            Self::Lseek(arg) => out.put_struct(&arg),
            Self::CopyFileRange(arg) | Self::CopyFileRange64(arg) => out.put_struct(&arg),
            Self::Syncfs => out.put_struct(&SyncfsIn::default()),
            Self::Statx(arg) => out.put_struct(&arg),
            Self::Setupmapping(arg) => out.put_struct(&arg),
            Self::Removemapping(mappings) => {
                let count = self.list_len(mappings.len(), MAX_REMOVEMAPPINGS)?;
                out.put_struct(&RemovemappingIn { count });
                out.put(mappings.as_bytes());
            }
            Self::CuseInit(arg) => out.put_struct(&arg),
        }
        Ok(())
    }

    fn list_len(&self, len: usize, max: usize) -> Result<u32, EncodeError> {
        if len == 0 || len > max {
            return Err(EncodeError::ListLength {
                opcode: self.opcode(),
                len,
                max,
            });
        }
        Ok(len as u32)
    }
}
