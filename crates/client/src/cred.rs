//! On whose behalf a call is made.

use crate::access::Identity;
use crate::engine::Token;
use fusewire_sync::{Counter, OnceLock};
use fusewire_wire::Caller;
use rustix::io::Errno;
use std::hash::{BuildHasher, RandomState};

/// A number for somebody who owns locks, which tells the daemon nothing: not 0, and no other of
/// this process has it.
pub(crate) fn new_lock_owner() -> u64 {
    static KEY: OnceLock<RandomState> = OnceLock::new();
    static LAST: Counter = Counter::new();
    loop {
        let owner = KEY.get_or_init(RandomState::new).hash_one(LAST.next());
        if owner != 0 {
            return owner;
        }
    }
}

/// Who calls, and with which umask. One client may act for several.
#[derive(Debug)]
pub(crate) struct Cred {
    pub(crate) identity: Identity,
    /// What requests say of it.
    pub(crate) caller: Caller,
    /// Rights that new files do not get.
    pub(crate) umask: u32,
    /// Owner of its fcntl(2) locks.
    pub(crate) lock_owner: u64,
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
            lock_owner: new_lock_owner(),
            token: Token::new(),
        })
    }

    /// The same caller, cancelled by itself.
    pub(crate) fn separate(&self) -> Self {
        Cred {
            identity: self.identity.clone(),
            caller: self.caller,
            umask: self.umask,
            lock_owner: new_lock_owner(),
            token: Token::new(),
        }
    }
}
