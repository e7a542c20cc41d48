//! On whose behalf a call is made.

use crate::access::Identity;
use crate::engine::Token;
use fusewire_wire::Caller;
use rustix::io::Errno;

/// Who calls, and with which umask. One client may act for several.
#[derive(Debug)]
pub(crate) struct Cred {
    pub(crate) identity: Identity,
    /// What requests say of it.
    pub(crate) caller: Caller,
    /// Rights that new files do not get.
    pub(crate) umask: u32,
    /// By which its calls are cancelled.
    pub(crate) token: Token,
}

impl Cred {
    /// # Errors
    /// EINVAL for the id 2³² − 1, which means none.
    pub(crate) fn new(identity: Identity, umask: u32) -> Result<Self, Errno> {
        if identity.uid == u32::MAX || identity.gid == u32::MAX {
            return Err(Errno::INVAL);
        }
        let pid = rustix::process::getpid().as_raw_nonzero().get();
        let caller = Caller {
            uid: identity.uid,
            gid: identity.gid,
            pid: pid.unsigned_abs(),
        };
        Ok(Cred {
            identity,
            caller,
            umask,
            token: Token::new(),
        })
    }

    /// The same caller, cancelled by itself.
    pub(crate) fn separate(&self) -> Self {
        Cred {
            identity: self.identity.clone(),
            caller: self.caller,
            umask: self.umask,
            token: Token::new(),
        }
    }
}
