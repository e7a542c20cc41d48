//! Extended attributes of files.

use crate::access::{Access, Checks};
use crate::client::Client;
use crate::error::Result;
use crate::fs_attr;
use crate::node::Node;
use crate::rpc::XATTR_MAX_BYTES;
use crate::walk::Links;
use fusewire_sync::Arc;
use fusewire_wire::XattrName;
use rustix::fs::XattrFlags;
use rustix::io::Errno;
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::Path;

type Outcome<T> = std::result::Result<T, Errno>;

/// The attribute that holds the access ACL, by which the mode changes, too.
const ACCESS_ACL: &[u8] = b"system.posix_acl_access";

/// Whether an attribute may or must exist before it is set.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SetXattr {
    /// Made, or replaced if it is there.
    #[default]
    Any,
    /// Made; EEXIST if it is there.
    Create,
    /// Replaced; ENODATA if it is not there.
    Replace,
}

impl Client {
    /// The value of the attribute `name` of what is at `path`, `None` when there is none. A symbolic
    /// link there is not followed, as by lgetxattr(2).
    ///
    /// # Errors
    /// EOPNOTSUPP when the daemon has no attributes; ERANGE for a name that is empty, has a NUL or
    /// is over 255 bytes; else as [`Client::metadata`].
    pub fn get_xattr(
        &self,
        path: impl AsRef<Path>,
        name: impl AsRef<OsStr>,
    ) -> Result<Option<Vec<u8>>> {
        let get = |node: &Arc<Node>, name: XattrName<'_>| {
            if !self.permit_xattr(node, name, Access::READ)? {
                return Ok(None);
            }
            match self.rpc().getxattr(node, name) {
                Err(Errno::NODATA) => Ok(None),
                result => result.map(Some),
            }
        };
        self.on_node("get attribute", path.as_ref(), checked(name.as_ref()), get)
    }

    /// Sets the attribute `name` of what is at `path`, a symbolic link itself included.
    ///
    /// # Errors
    /// E2BIG for more than 64 KiB; EEXIST and ENODATA as `how` asks for; EPERM, ENOSPC, or as
    /// [`Client::get_xattr`].
    pub fn set_xattr(
        &self,
        path: impl AsRef<Path>,
        name: impl AsRef<OsStr>,
        value: &[u8],
        how: SetXattr,
    ) -> Result<()> {
        let flags = match how {
            SetXattr::Any => XattrFlags::empty(),
            SetXattr::Create => XattrFlags::CREATE,
            SetXattr::Replace => XattrFlags::REPLACE,
        };
        let set = |node: &Arc<Node>, name: XattrName<'_>| {
            self.permit_xattr(node, name, Access::WRITE)?;
            let mode = self.mode_after_xattr(node, name)?;
            let kill_sgid = mode.is_some();
            let result = self
                .rpc()
                .setxattr(node, name, value, flags.bits(), kill_sgid);
            node.expire_attr();
            let told = result?;
            match mode {
                Some(mode) if !told => {
                    fs_attr::setattr(&self.cred, node, fs_attr::mode_change(mode))
                }
                _ => Ok(()),
            }
        };
        let name = checked(name.as_ref()).and_then(|name| match value.len() {
            0..=XATTR_MAX_BYTES => Ok(name),
            _ => Err(Errno::TOOBIG),
        });
        self.on_node("set attribute", path.as_ref(), name, set)
    }

    /// The names of all attributes of what is at `path`, a symbolic link itself included.
    ///
    /// # Errors
    /// EIO for a list that no daemon may give; else as [`Client::get_xattr`].
    pub fn list_xattr(&self, path: impl AsRef<Path>) -> Result<Vec<OsString>> {
        self.on_node("list attributes", path.as_ref(), Ok(()), |node, ()| {
            let list = self.rpc().listxattr(node)?;
            let Some(list) = list.strip_suffix(&[0]) else {
                return if list.is_empty() {
                    Ok(Vec::new())
                } else {
                    Err(Errno::IO)
                };
            };
            let names = list.split(|byte| *byte == 0);
            names
                .map(|name| match name {
                    [] => Err(Errno::IO),
                    name => Ok(OsString::from_vec(name.to_vec())),
                })
                .collect()
        })
    }

    /// Removes the attribute `name` of what is at `path`, a symbolic link itself included.
    ///
    /// # Errors
    /// ENODATA when there is none; EPERM, or as [`Client::get_xattr`].
    pub fn remove_xattr(&self, path: impl AsRef<Path>, name: impl AsRef<OsStr>) -> Result<()> {
        let name = checked(name.as_ref());
        self.on_node("remove attribute", path.as_ref(), name, |node, name| {
            self.permit_xattr(node, name, Access::WRITE)?;
            let result = self.rpc().removexattr(node, name);
            node.expire_attr();
            result
        })
    }

    /// Whether there is any use in asking for the attribute.
    fn permit_xattr(&self, node: &Arc<Node>, name: XattrName<'_>, access: Access) -> Outcome<bool> {
        let (identity, name) = (&self.cred.identity, name.as_bytes());
        if !identity.may_xattr_at_all(node.kind(), name, access)? {
            return Ok(false);
        }
        if self.core().checks != Checks::Daemon {
            identity.may_xattr(&node.attr(&self.cred, None)?, name, access)?;
        }
        Ok(true)
    }

    /// The mode that the file must have when the attribute has been set, if it is not to stay.
    fn mode_after_xattr(&self, node: &Arc<Node>, name: XattrName<'_>) -> Outcome<Option<u32>> {
        if self.core().checks == Checks::Daemon || name.as_bytes() != ACCESS_ACL {
            return Ok(None);
        }
        let attr = node.attr(&self.cred, None)?;
        Ok(self.cred.identity.mode_after_acl(&attr))
    }

    fn on_node<T, A>(
        &self,
        operation: &'static str,
        path: &Path,
        arguments: Outcome<A>,
        act: impl FnOnce(&Arc<Node>, A) -> Outcome<T>,
    ) -> Result<T> {
        // As the system calls do, they are looked at before the path.
        arguments
            .and_then(|arguments| {
                let node = self.resolve(path, Links::NoFollow)?;
                node.check_fresh()?;
                act(&node, arguments)
            })
            .map_err(self.fail(operation, path))
    }
}

/// ERANGE for a name that no attribute can have, as getxattr(2) says.
fn checked(name: &OsStr) -> Outcome<XattrName<'_>> {
    XattrName::new(name.as_bytes()).map_err(|_| Errno::RANGE)
}
