//! Creating files as the caller, when this process is root.
//!
//! The ids of the calling thread are switched for the one system call that creates, as virtiofsd
//! does: owner, group, set-group-id inheritance and quotas are then the kernel's own. Linux keeps
//! ids per thread, and only the C library spreads a change to all threads, so no other thread of
//! the process notices. A process that is not root creates everything as itself.

use crate::fs::Result;
use fusewire_wire::Caller;
use rustix::fs::{Gid, Uid};
use rustix::process::{getegid, geteuid, getgroups};
use rustix::thread::{set_thread_groups, set_thread_res_gid, set_thread_res_uid};

/// Who owns what is created for `caller`.
pub(super) fn creator(caller: Caller) -> u32 {
    let own = geteuid();
    if own.is_root() {
        caller.uid
    } else {
        own.as_raw()
    }
}

/// This thread acts as the caller until dropped.
#[derive(Debug, Default)]
pub(super) struct AsCaller {
    uid: Option<Uid>,
    gid: Option<Gid>,
    groups: Option<Vec<Gid>>,
}

impl AsCaller {
    /// Switches; `group` is the one supplementary group the caller needs here.
    ///
    /// # Errors
    /// EINVAL for the ids 2^32-1, which mean "leave as it is"; what the system says.
    pub fn enter(caller: Caller, group: Option<u32>) -> Result<Self> {
        let mut switched = AsCaller::default();
        let (uid, gid) = (geteuid(), getegid());
        if !uid.is_root() {
            return Ok(switched);
        }
        if caller.uid == u32::MAX || caller.gid == u32::MAX || group == Some(u32::MAX) {
            return Err(rustix::io::Errno::INVAL);
        }
        let (to_uid, to_gid) = (Uid::from_raw(caller.uid), Gid::from_raw(caller.gid));
        if to_uid != uid || group.is_some() {
            let groups = getgroups()?;
            let wanted: Vec<Gid> = group.map(Gid::from_raw).into_iter().collect();
            if groups != wanted {
                set_thread_groups(&wanted)?;
                switched.groups = Some(groups);
            }
        }
        if to_gid != gid {
            set_thread_res_gid(None, to_gid, None)?;
            switched.gid = Some(gid);
        }
        // Last: without root the other two could not be changed.
        if to_uid != uid {
            set_thread_res_uid(None, to_uid, None)?;
            switched.uid = Some(uid);
        }
        Ok(switched)
    }
}

impl Drop for AsCaller {
    fn drop(&mut self) {
        // The saved user id is still root, so none of these can fail; going on with the wrong ids
        // would be worse than ending this thread.
        let restored = (|| -> Result<()> {
            if let Some(uid) = self.uid {
                set_thread_res_uid(None, uid, None)?;
            }
            if let Some(gid) = self.gid {
                set_thread_res_gid(None, gid, None)?;
            }
            if let Some(groups) = &self.groups {
                set_thread_groups(groups)?;
            }
            Ok(())
        })();
        if let Err(errno) = restored {
            panic!("cannot take this thread's own user and groups back: {errno}");
        }
    }
}
