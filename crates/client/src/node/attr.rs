//! Cached attributes, and which of two answers is newer.
//!
//! Every local change of a node takes a new number from one counter. A request notes the counter
//! before it is sent; its answer is older than any change with a larger number and must not undo
//! it. While the size is being changed (truncate, extending write) answers are not believed at
//! all. (Linux `fuse_change_attributes`; semantics C3.)

use super::Node;
use crate::access::{Access, Checks};
use crate::core::deadline_after;
use crate::cred::Cred;
use crate::handle::Handle;
use crate::meta::PERMISSION_BITS;
use fusewire_sync::Arc;
use fusewire_wire::SetattrValid;
use fusewire_wire::abi::{Attr, AttrOut, EntryOut, FileKind, SetattrIn};
use rustix::io::Errno;
use std::time::Duration;

#[derive(Debug)]
pub(super) struct AttrCache {
    attr: Attr,
    /// Until when `attr` may be used; 0 for not at all.
    expires_ns: u64,
    /// Number of the last change.
    version: u64,
    /// Size changes under way.
    unstable: u32,
}

impl AttrCache {
    pub(super) fn new() -> Self {
        AttrCache {
            attr: Attr {
                mode: 0,
                ..Attr::default()
            },
            expires_ns: 0,
            version: 0,
            unstable: 0,
        }
    }
}

/// Attributes out of a reply, and how long they may be cached.
#[derive(Clone, Copy, Debug)]
pub(crate) struct AttrReply {
    pub(crate) attr: Attr,
    pub(crate) timeout: Duration,
}

impl From<&AttrOut> for AttrReply {
    fn from(out: &AttrOut) -> Self {
        AttrReply {
            attr: out.attr,
            timeout: out.attr_timeout(),
        }
    }
}

impl From<&EntryOut> for AttrReply {
    fn from(out: &EntryOut) -> Self {
        AttrReply {
            attr: out.attr,
            timeout: out.attr_timeout(),
        }
    }
}

/// A change of size under way: answers about the size are not believed until it is dropped.
#[derive(Debug)]
pub(crate) struct SizeChange<'a> {
    node: &'a Node,
}

impl SizeChange<'_> {
    /// The size is `size` now.
    pub(crate) fn set(&self, size: u64) {
        self.node.change_attr(|attr| attr.size = size);
    }

    /// The file reaches to `end` at least.
    pub(crate) fn extend(&self, end: u64) {
        self.node.extend_size(end);
    }
}

impl Drop for SizeChange<'_> {
    fn drop(&mut self) {
        let mut cache = self.node.attr.lock();
        cache.unstable -= 1;
        cache.version = self.node.core.next_attr_version();
    }
}

impl Node {
    /// Attributes that may still be used.
    pub(crate) fn cached_attr(&self) -> Option<Attr> {
        let now_ns = self.core.now_ns();
        let cache = self.attr.lock();
        (cache.expires_ns > now_ns).then_some(cache.attr)
    }

    /// Takes the attributes of a reply whose request was sent at `version`, and returns what is
    /// known now: the reply, with our own size where the reply is too old to know it.
    ///
    /// # Errors
    /// EIO when they cannot be of this node: another type, or a size no file has.
    pub(crate) fn take_attr(&self, reply: &AttrReply, version: u64) -> Result<Attr, Errno> {
        if reply.attr.kind().map_err(|_| Errno::IO)? != self.kind {
            return Err(Errno::IO);
        }
        let expires_ns = deadline_after(self.core.now_ns(), reply.timeout);
        let mut cache = self.attr.lock();
        if cache.version > version || cache.unstable > 0 {
            let size = match self.kind {
                FileKind::Regular => cache.attr.size,
                _ => reply.attr.size,
            };
            return Ok(Attr { size, ..reply.attr });
        }
        cache.attr = reply.attr;
        cache.expires_ns = expires_ns;
        cache.version = self.core.next_attr_version();
        Ok(reply.attr)
    }

    /// What the peer says about the attributes may have changed: ask again.
    pub(crate) fn expire_attr(&self) {
        let mut cache = self.attr.lock();
        cache.expires_ns = 0;
        cache.version = self.core.next_attr_version();
    }

    fn change_attr(&self, change: impl FnOnce(&mut Attr)) {
        let mut cache = self.attr.lock();
        change(&mut cache.attr);
        // Times and blocks have changed with it.
        cache.expires_ns = 0;
        cache.version = self.core.next_attr_version();
    }

    /// The peer says that the file reaches to `end` at least.
    pub(crate) fn extend_size(&self, end: u64) {
        self.change_attr(|attr| attr.size = attr.size.max(end));
    }

    /// Begins a change of size.
    pub(crate) fn change_size(&self) -> SizeChange<'_> {
        self.attr.lock().unstable += 1;
        SizeChange { node: self }
    }

    /// Attributes, from the cache or from the peer.
    ///
    /// # Errors
    /// ESTALE when the peer has reused the number; else what GETATTR says.
    pub(crate) fn attr(
        self: &Arc<Self>,
        cred: &Cred,
        handle: Option<&Arc<Handle>>,
    ) -> Result<Attr, Errno> {
        match self.cached_attr() {
            Some(attr) => Ok(attr),
            None => self.fetch_attr(cred, handle),
        }
    }

    /// Attributes from the peer.
    ///
    /// # Errors
    /// As [`Node::attr`].
    fn fetch_attr(
        self: &Arc<Self>,
        cred: &Cred,
        handle: Option<&Arc<Handle>>,
    ) -> Result<Attr, Errno> {
        self.check_fresh()?;
        let version = self.core.attr_version();
        let rpc = self.core.rpc(cred);
        let out = match handle {
            Some(handle) => rpc.getattr(handle, Some(handle.open().fh))?,
            None => rpc.getattr(self, None)?,
        };
        self.take_attr(&AttrReply::from(&out), version)
    }

    /// Whether `cred` may access the node so.
    ///
    /// # Errors
    /// EACCES, or as [`Node::attr`].
    pub(crate) fn permit(self: &Arc<Self>, cred: &Cred, access: Access) -> Result<(), Errno> {
        let identity = &cred.identity;
        if self.core.checks == Checks::Daemon || identity.needs_no_attr(access) {
            return Ok(());
        }
        identity.may(&self.attr(cred, None)?, access)
    }

    /// The permissions without the set-id bits that must not survive a change of the data, if there
    /// are such, as far as they are known.
    pub(crate) fn mode_before_write(&self, cred: &Cred) -> Option<u32> {
        let attr = self.attr.lock().attr;
        let mode = cred.identity.mode_before_write(&attr)?;
        Some(mode & PERMISSION_BITS)
    }

    /// Takes away the set-id bits that must not survive a change of the data, as far as they are
    /// known.
    ///
    /// # Errors
    /// What the peer says to SETATTR.
    pub(crate) fn drop_set_id(self: &Arc<Self>, cred: &Cred) -> Result<(), Errno> {
        let Some(mode) = self.mode_before_write(cred) else {
            return Ok(());
        };
        let change = SetattrIn {
            valid: SetattrValid::MODE.bits(),
            mode,
            ..SetattrIn::default()
        };
        let version = self.core.attr_version();
        let out = self.core.rpc(cred).setattr(self, change)?;
        self.take_attr(&AttrReply::from(&out), version)?;
        Ok(())
    }

    pub(crate) fn check_fresh(&self) -> Result<(), Errno> {
        if self.is_stale() {
            return Err(Errno::STALE);
        }
        Ok(())
    }

    /// The group as last known, which may be old.
    pub(crate) fn group_hint(&self) -> u32 {
        self.attr.lock().attr.gid
    }

    /// The size as last known, which may be old.
    pub(crate) fn size_hint(&self) -> u64 {
        self.attr.lock().attr.size
    }
}
