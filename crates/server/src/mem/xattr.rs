//! Extended attributes.

use super::Memory;
use crate::fs::{Call, Errno, Reply, Result};
use fusewire_wire::request::SecurityContext;
use fusewire_wire::{InitFlags, XattrName};
use rustix::fs::XattrFlags;

/// Longest value and longest list, in bytes (Linux).
const MAX_BYTES: usize = 65_536;

/// Linux knows attributes in these name spaces only.
fn check(name: XattrName<'_>) -> Result<()> {
    let spaces: [&[u8]; 3] = [b"user.", b"trusted.", b"security."];
    let known = |space: &&[u8]| {
        let name = name.as_bytes();
        name.starts_with(space) && name.len() > space.len()
    };
    if spaces.iter().any(known) {
        Ok(())
    } else {
        Err(Errno::OPNOTSUPP)
    }
}

/// Answers with `bytes`, or with how many there are when `size` is 0.
fn answer(call: &Call<'_>, size: u32, bytes: &[u8]) -> Result<Reply> {
    if size == 0 {
        return Ok(Reply::Size(bytes.len() as u32));
    }
    if bytes.len() > call.io.out_len() {
        return Err(Errno::RANGE);
    }
    Ok(Reply::Payload(call.io.put(bytes)))
}

/// The label that a creating request carries, as an attribute and its value.
pub(super) fn label<'a>(call: &Call<'a>) -> Result<Option<(&'a [u8], &'a [u8])>> {
    match call.extensions.secctx {
        SecurityContext::Label { name, value }
            if call.granted.contains(InitFlags::SECURITY_CTX) =>
        {
            check(name)?;
            Ok(Some((name.as_bytes(), value)))
        }
        _ => Ok(None),
    }
}

impl Memory {
    pub(super) fn getxattr(
        &self,
        call: &Call<'_>,
        name: XattrName<'_>,
        size: u32,
    ) -> Result<Reply> {
        check(name)?;
        let state = self.state.read();
        state.check_known(call.node)?;
        match state.inode(call.node).xattrs.get(name.as_bytes()) {
            Some(value) => answer(call, size, value),
            None => Err(Errno::NODATA),
        }
    }

    pub(super) fn listxattr(&self, call: &Call<'_>, size: u32) -> Result<Reply> {
        let state = self.state.read();
        state.check_known(call.node)?;
        let mut list = Vec::new();
        for name in state.inode(call.node).xattrs.keys() {
            list.extend_from_slice(name);
            list.push(0);
        }
        answer(call, size, &list)
    }

    pub(super) fn setxattr(
        &self,
        call: &Call<'_>,
        name: XattrName<'_>,
        flags: u32,
    ) -> Result<Reply> {
        check(name)?;
        if call.io.in_len() > MAX_BYTES {
            return Err(Errno::TOOBIG);
        }
        let flags = XattrFlags::from_bits_retain(flags);
        let value = call.io.in_to_vec();
        let now = self.now();
        let mut state = self.state.write();
        state.check_known(call.node)?;
        let inode = state.inode_mut(call.node);
        let exists = inode.xattrs.contains_key(name.as_bytes());
        if flags.contains(XattrFlags::CREATE) && exists {
            return Err(Errno::EXIST);
        }
        if flags.contains(XattrFlags::REPLACE) && !exists {
            return Err(Errno::NODATA);
        }
        let list_bytes: usize = inode.xattrs.keys().map(|name| name.len() + 1).sum();
        if !exists && list_bytes + name.as_bytes().len() + 1 > MAX_BYTES {
            return Err(Errno::NOSPC);
        }
        inode.xattrs.insert(name.as_bytes().into(), value.into());
        inode.ctime = now;
        Ok(Reply::Done)
    }

    pub(super) fn removexattr(&self, node: u64, name: XattrName<'_>) -> Result<Reply> {
        check(name)?;
        let now = self.now();
        let mut state = self.state.write();
        state.check_known(node)?;
        let inode = state.inode_mut(node);
        match inode.xattrs.remove(name.as_bytes()) {
            Some(_) => {
                inode.ctime = now;
                Ok(Reply::Done)
            }
            None => Err(Errno::NODATA),
        }
    }
}
