//! Attributes of files: permission bits, sizes, times, owners.

use crate::access::{Access, Checks};
use crate::client::Client;
use crate::cred::Cred;
use crate::error::Result;
use crate::handle::Handle;
use crate::meta::{PERMISSION_BITS, Statfs, Times};
use crate::node::{AttrReply, Node};
use crate::walk::Links;
use fusewire_sync::Arc;
use fusewire_wire::SetattrValid;
use fusewire_wire::abi::{FileKind, SetattrIn};
use rustix::io::Errno;
use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

type Outcome<T> = std::result::Result<T, Errno>;

impl Client {
    /// Sets the permission bits of what `path` leads to.
    ///
    /// # Errors
    /// EPERM, or as [`Client::metadata`].
    pub fn set_permissions(&self, path: impl AsRef<Path>, permissions: Permissions) -> Result<()> {
        let path = path.as_ref();
        let change = mode_change(permissions.mode());
        self.change("set permissions", path, Links::Follow, change)
    }

    /// Sets the size of what `path` leads to: cut off, or filled up with zeroes.
    ///
    /// # Errors
    /// EISDIR; EINVAL over 2⁶³ − 1, or for what has no size; EFBIG where the daemon says so; or as
    /// [`Client::metadata`].
    pub fn truncate(&self, path: impl AsRef<Path>, len: u64) -> Result<()> {
        let path = path.as_ref();
        self.resolve(path, Links::Follow)
            .and_then(|node| {
                check_sized(&node)?;
                node.permit(&self.cred, Access::WRITE)?;
                set_size(&self.cred, &node, len, None)
            })
            .map_err(self.fail("truncate", path))
    }

    /// Sets times of what `path` leads to.
    ///
    /// # Errors
    /// EINVAL for nanoseconds of a second or more; EPERM, or as [`Client::metadata`].
    pub fn set_times(&self, path: impl AsRef<Path>, times: Times) -> Result<()> {
        self.put_times(path.as_ref(), Links::Follow, times)
    }

    /// Sets times of what is at `path`, a symbolic link itself included.
    ///
    /// # Errors
    /// As [`Client::set_times`].
    pub fn set_symlink_times(&self, path: impl AsRef<Path>, times: Times) -> Result<()> {
        self.put_times(path.as_ref(), Links::NoFollow, times)
    }

    fn put_times(&self, path: &Path, links: Links, times: Times) -> Result<()> {
        if !times.is_valid() {
            return Err(self.fail("set times", path)(Errno::INVAL));
        }
        let mut change = SetattrIn::default();
        times.put(&mut change);
        self.change("set times", path, links, change)
    }

    /// Sets owner and group of what `path` leads to; `None` leaves one as it is. Files lose their
    /// set-id bits by it, as chown(2) says, also when both are `None`.
    ///
    /// # Errors
    /// EINVAL for the id 2³² − 1, which means none; EPERM, or as [`Client::metadata`].
    pub fn chown(&self, path: impl AsRef<Path>, uid: Option<u32>, gid: Option<u32>) -> Result<()> {
        self.put_owner(path.as_ref(), Links::Follow, uid, gid)
    }

    /// Sets owner and group of what is at `path`, a symbolic link itself included.
    ///
    /// # Errors
    /// As [`Client::chown`].
    pub fn lchown(&self, path: impl AsRef<Path>, uid: Option<u32>, gid: Option<u32>) -> Result<()> {
        self.put_owner(path.as_ref(), Links::NoFollow, uid, gid)
    }

    fn put_owner(
        &self,
        path: &Path,
        links: Links,
        uid: Option<u32>,
        gid: Option<u32>,
    ) -> Result<()> {
        if uid == Some(u32::MAX) || gid == Some(u32::MAX) {
            return Err(self.fail("set owner", path)(Errno::INVAL));
        }
        let mut change = SetattrIn::default();
        let mut valid = SetattrValid::empty();
        if let Some(uid) = uid {
            valid |= SetattrValid::UID;
            change.uid = uid;
        }
        if let Some(gid) = gid {
            valid |= SetattrValid::GID;
            change.gid = gid;
        }
        change.valid = valid.bits();
        self.resolve(path, links)
            .and_then(|node| change_owner(&self.cred, &node, change))
            .map_err(self.fail("set owner", path))
    }

    fn change(
        &self,
        operation: &'static str,
        path: &Path,
        links: Links,
        change: SetattrIn,
    ) -> Result<()> {
        self.resolve(path, links)
            .and_then(|node| setattr(&self.cred, &node, change))
            .map_err(self.fail(operation, path))
    }

    /// Numbers of the file system.
    ///
    /// # Errors
    /// As [`Client::metadata`].
    pub fn statfs(&self, path: impl AsRef<Path>) -> Result<Statfs> {
        let path = path.as_ref();
        self.resolve(path, Links::Follow)
            .and_then(|node| self.rpc().statfs(&node))
            .map(Statfs::from)
            .map_err(self.fail("statfs", path))
    }
}

/// SETATTR of the permission bits.
pub(crate) fn mode_change(mode: u32) -> SetattrIn {
    SetattrIn {
        valid: SetattrValid::MODE.bits(),
        mode: mode & PERMISSION_BITS,
        ..SetattrIn::default()
    }
}

/// SETATTR of owner and group, by which set-id bits go, even if both stay.
fn change_owner(cred: &Cred, node: &Arc<Node>, mut change: SetattrIn) -> Outcome<()> {
    if !node.is_dir() {
        // Bits that others have set meanwhile go, too.
        node.expire_attr();
        if let Some(mode) = cred.identity.mode_after_chown(&node.attr(cred, None)?) {
            change.valid |= SetattrValid::MODE.bits();
            change.mode = mode & PERMISSION_BITS;
        }
    }
    setattr(cred, node, change)
}

/// Sends a SETATTR that leaves the size alone, and takes the attributes that come back.
pub(crate) fn setattr(cred: &Cred, node: &Arc<Node>, change: SetattrIn) -> Outcome<()> {
    if change.valid == 0 {
        return Ok(());
    }
    node.check_fresh()?;
    let core = node.core();
    let unchecked = core.checks == Checks::Daemon || cred.identity.changes_everything();
    let change = if unchecked {
        change
    } else {
        cred.identity.may_change(&node.attr(cred, None)?, change)?
    };
    let sampled = core.attr_version();
    let out = core.rpc(cred).setattr(node, change)?;
    node.take_attr(&AttrReply::from(&out), sampled)?;
    Ok(())
}

/// # Errors
/// EISDIR and EINVAL for what has no size to be set.
fn check_sized(node: &Node) -> Outcome<()> {
    match node.kind() {
        FileKind::Regular => Ok(()),
        FileKind::Directory => Err(Errno::ISDIR),
        _ => Err(Errno::INVAL),
    }
}

/// Sets the size, in turn with writes; answers about it are not believed meanwhile.
pub(crate) fn set_size(
    cred: &Cred,
    node: &Arc<Node>,
    len: u64,
    handle: Option<&Arc<Handle>>,
) -> Outcome<()> {
    if len > i64::MAX as u64 {
        return Err(Errno::INVAL);
    }
    check_sized(node)?;
    node.check_fresh()?;
    let _turn = node.turn.take(&cred.token)?;
    // The owner tells a daemon with mandatory locks whose it need not respect.
    let mut valid = SetattrValid::SIZE | SetattrValid::LOCKOWNER;
    let fh = handle.map(|handle| handle.open().fh);
    if fh.is_some() {
        valid |= SetattrValid::FH;
    }
    // In one, as on Linux, so that a daemon that refuses the size need not change the mode.
    let mode = node.mode_before_write(cred);
    if mode.is_some() {
        valid |= SetattrValid::MODE;
    }
    let change = SetattrIn {
        valid: valid.bits(),
        fh: fh.unwrap_or(0),
        size: len,
        mode: mode.unwrap_or(0),
        lock_owner: cred.lock_owner,
        ..SetattrIn::default()
    };
    let size = node.change_size();
    let rpc = node.core().rpc(cred);
    let out = match handle {
        Some(handle) => rpc.setattr(handle, change)?,
        None => rpc.setattr(node, change)?,
    };
    if out.attr.kind().map_err(|_| Errno::IO)? != node.kind() {
        return Err(Errno::IO);
    }
    size.set(out.attr.size);
    if mode.is_some() {
        node.expire_attr();
    }
    Ok(())
}
