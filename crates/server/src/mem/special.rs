//! ACCESS, POLL, IOCTL, and what a directory is said to be.

use super::Memory;
use super::inode::Body;
use crate::access::{permit, permit_read_only};
use crate::fs::{ALWAYS_READY, Call, Errno, Reply, Result};
use fusewire_wire::abi::{IoctlIn, PollIn};

/// `FS_IOC_GETFLAGS`, `FS_IOC_SETFLAGS` and `FS_IOC_GETVERSION` of ioctl_iflags(2) and
/// ioctl_getversion: their numbers speak of a long, of 64 or 32 bits, and all move 32 bits.
const GET_FLAGS: [u32; 2] = [0x8008_6601, 0x8004_6601];
const SET_FLAGS: [u32; 2] = [0x4008_6602, 0x4004_6602];
const GET_VERSION: [u32; 2] = [0x8008_7601, 0x8004_7601];

/// `FS_NODUMP_FL`: backups leave the file out.
pub(super) const NODUMP: u32 = 0x40;
/// `FS_NOATIME_FL`: reading changes no time, which it does not here.
const NOATIME: u32 = 0x80;

impl Memory {
    /// Says of a directory, from now on, that it is the root of a file system of its own (a
    /// `SUBMOUNT`), to clients that agreed on SUBMOUNTS by
    /// [`ServerOptions::grant`](crate::ServerOptions::grant).
    ///
    /// # Errors
    /// ESTALE when no client knows the node, ENOTDIR when it is no directory.
    pub fn make_submount(&self, node: u64) -> Result<()> {
        let mut state = self.state.write();
        state.check_known(node)?;
        let inode = state.inode_mut(node);
        match inode.body {
            Body::Dir(_) => inode.submount = true,
            _ => return Err(Errno::NOTDIR),
        }
        Ok(())
    }

    pub(super) fn access(&self, call: &Call<'_>, mask: u32) -> Result<Reply> {
        let state = self.state.read();
        state.check_known(call.node)?;
        let inode = state.inode(call.node);
        permit(call.caller, mask, inode.mode, (inode.uid, inode.gid))?;
        if self.options.read_only {
            permit_read_only(mask, inode.mode)?;
        }
        Ok(Reply::Done)
    }

    pub(super) fn poll(&self, node: u64, arg: &PollIn) -> Result<Reply> {
        self.state.read().handle(node, arg.fh)?;
        Ok(Reply::Ready(arg.events & ALWAYS_READY))
    }

    pub(super) fn ioctl(&self, call: &Call<'_>, arg: &IoctlIn) -> Result<Reply> {
        let mut state = self.state.write();
        let ino = state.handle(call.node, arg.fh)?.ino;
        let inode = state.inode_mut(ino);
        if GET_FLAGS.contains(&arg.cmd) {
            put(call, inode.iflags)
        } else if GET_VERSION.contains(&arg.cmd) {
            put(call, 0)
        } else if SET_FLAGS.contains(&arg.cmd) {
            let sent = call.io.in_to_vec();
            let flags = sent.first_chunk().ok_or(Errno::INVAL)?;
            let flags = u32::from_ne_bytes(*flags);
            if self.options.read_only {
                return Err(Errno::ROFS);
            }
            if flags & !(NODUMP | NOATIME) != 0 {
                return Err(Errno::OPNOTSUPP);
            }
            inode.iflags = flags;
            inode.ctime = self.now();
            Ok(Reply::Ioctl { result: 0, len: 0 })
        } else {
            Err(Errno::NOTTY)
        }
    }
}

/// Answers with a number of 32 bits; EINVAL without room for it.
fn put(call: &Call<'_>, number: u32) -> Result<Reply> {
    let bytes = number.to_ne_bytes();
    if call.io.out_len() < bytes.len() {
        return Err(Errno::INVAL);
    }
    Ok(Reply::Ioctl {
        result: 0,
        len: call.io.put(&bytes),
    })
}
