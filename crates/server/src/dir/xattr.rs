//! Extended attributes.

use super::{Directory, Node};
use crate::fs::{Call, Errno, Reply, Result};
use fusewire_wire::request::SecurityContext;
use fusewire_wire::{InitFlags, Request, SetxattrFlags};
use rustix::fd::{AsFd, AsRawFd, BorrowedFd};
use rustix::fs::XattrFlags;

/// The largest value and the longest list that Linux has, in bytes.
const MAX_BYTES: usize = 65_536;

/// A path that leads to the held file itself.
fn path_of(file: impl AsFd) -> String {
    format!("/proc/self/fd/{}", file.as_fd().as_raw_fd())
}

impl Directory {
    /// Whether new files in `dir` get their permissions from its default access control list.
    pub(super) fn has_default_acl(&self, dir: &Node) -> bool {
        let mut none = [0_u8; 0];
        rustix::fs::getxattr(path_of(dir), "system.posix_acl_default", &mut none[..]).is_ok()
    }

    /// Gives a new file the security label that came with the request to make it.
    pub(super) fn label(&self, call: &Call<'_>, fd: BorrowedFd<'_>) -> Result<()> {
        match call.extensions.secctx {
            SecurityContext::Label { name, value }
                if call.granted.contains(InitFlags::SECURITY_CTX) =>
            {
                let path = path_of(fd);
                rustix::fs::setxattr(path, name.as_bytes(), value, XattrFlags::empty())
            }
            _ => Ok(()),
        }
    }

    pub(super) fn xattr(&self, call: &Call<'_>, node: &Node) -> Result<Reply> {
        let path = path_of(node);
        match call.request {
            Request::Getxattr { name, size } => answer(call, size, |buffer| {
                rustix::fs::getxattr(&path, name.as_bytes(), buffer)
            }),
            Request::Listxattr { size } => {
                answer(call, size, |buffer| rustix::fs::listxattr(&path, buffer))
            }
            Request::Setxattr {
                name,
                flags,
                setxattr_flags,
                ..
            } => {
                let flags = XattrFlags::from_bits_retain(flags);
                if call.io.in_len() > MAX_BYTES {
                    return Err(Errno::TOOBIG);
                }
                let value = call.io.in_to_vec();
                rustix::fs::setxattr(&path, name.as_bytes(), &value, flags)?;
                let how = SetxattrFlags::from_bits_retain(setxattr_flags);
                if how.contains(SetxattrFlags::ACL_KILL_SGID) {
                    // The caller may not set that bit, whatever this process may.
                    let mode = u32::from(super::statx(node)?.stx_mode);
                    if mode & 0o2000 != 0 {
                        self.chmod(node.as_fd(), mode & !0o2000)?;
                    }
                }
                Ok(Reply::Done)
            }
            Request::Removexattr { name } => {
                rustix::fs::removexattr(&path, name.as_bytes())?;
                Ok(Reply::Done)
            }
            _ => Err(Errno::NOSYS),
        }
    }
}

/// Answers with what `get` puts into a buffer of `size` bytes, or with its size when `size` is 0.
fn answer(
    call: &Call<'_>,
    size: u32,
    get: impl FnOnce(&mut [u8]) -> Result<usize>,
) -> Result<Reply> {
    if size == 0 {
        let mut buffer = vec![0; MAX_BYTES];
        return get(&mut buffer).map(|n| Reply::Size(n as u32));
    }
    let mut buffer = vec![0; call.io.out_len().min(MAX_BYTES)];
    let n = get(&mut buffer)?;
    Ok(Reply::Payload(call.io.put(&buffer[..n])))
}
