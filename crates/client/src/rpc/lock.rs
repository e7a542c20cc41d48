//! Locks that the peer keeps.

use super::{Opened, Rpc, Target, malformed};
use crate::engine::Keep;
use fusewire_locks::{Class, Kind, MAX_END, Request as Wanted};
use fusewire_sync::Arc;
use fusewire_wire::abi::{FileLock, LkIn};
use fusewire_wire::{InitFlags, LkFlags, Request, reply};
use rustix::io::Errno;

/// Types of a lock, as in fcntl(2).
const F_RDLCK: u32 = 0;
const F_WRLCK: u32 = 1;
const F_UNLCK: u32 = 2;

impl super::Peer {
    /// Whether the peer keeps such locks; if not, the client does.
    pub(crate) fn keeps_locks(&self, class: Class) -> bool {
        self.negotiated.flags.contains(match class {
            Class::Record => InitFlags::POSIX_LOCKS,
            Class::Whole => InitFlags::FLOCK_LOCKS,
        })
    }
}

/// As on Linux, `pid` is that of whoever takes a lock, and else 0; a daemon that hands the structure
/// on to fcntl(2) gets EINVAL for another one.
fn arguments(open: &Opened, wanted: &Wanted, kind: Option<Kind>, pid: u32) -> LkIn {
    let flags = match wanted.class {
        Class::Record => LkFlags::empty(),
        Class::Whole => LkFlags::FLOCK,
    };
    LkIn {
        fh: open.fh,
        owner: wanted.owner,
        lk: FileLock {
            start: wanted.range.start,
            end: wanted.range.end - 1,
            typ: match kind {
                Some(Kind::Read) => F_RDLCK,
                Some(Kind::Write) => F_WRLCK,
                None => F_UNLCK,
            },
            pid,
        },
        lk_flags: flags.bits(),
        padding: 0,
    }
}

/// Ends the flock(2) locks of an open file.
pub(super) fn end_of_flock(open: &Opened, owner: u64) -> Request<'static> {
    let wanted = Wanted {
        node: 0,
        class: Class::Whole,
        owner,
        pid: 0,
        range: 0..MAX_END,
    };
    Request::Setlk(arguments(open, &wanted, None, 0))
}

impl Rpc<'_> {
    /// The first lock in the way of one that is wanted, if there is one.
    ///
    /// # Errors
    /// EIO for a lock no file has.
    pub(crate) fn getlk(
        &self,
        on: &impl Target,
        open: &Opened,
        wanted: &Wanted,
        kind: Kind,
    ) -> Result<Option<fusewire_locks::Lock>, Errno> {
        let reply = self.call(on, Request::Getlk(arguments(open, wanted, Some(kind), 0)))?;
        let lk = reply::lk(reply.head.body()).map_err(malformed)?.lk;
        let kind = match lk.typ {
            F_UNLCK => return Ok(None),
            F_RDLCK => Kind::Read,
            F_WRLCK => Kind::Write,
            _ => return Err(Errno::IO),
        };
        if lk.start > lk.end || lk.end >= MAX_END {
            return Err(Errno::IO);
        }
        Ok(Some(fusewire_locks::Lock {
            // The protocol does not tell.
            owner: 0,
            pid: lk.pid,
            range: lk.start..lk.end + 1,
            kind,
        }))
    }

    /// Takes a lock. The request holds `attempt`, and so does what gives back a lock that is granted
    /// after the caller has gone.
    ///
    /// # Errors
    /// EAGAIN when another is in the way and `wait` is not set.
    pub(crate) fn setlk(
        &self,
        on: &impl Target,
        open: &Opened,
        wanted: &Wanted,
        kind: Kind,
        wait: bool,
        attempt: Arc<dyn Keep>,
    ) -> Result<(), Errno> {
        let arg = arguments(open, wanted, Some(kind), wanted.pid);
        let request = if wait {
            Request::Setlkw(arg)
        } else {
            Request::Setlk(arg)
        };
        let reply = self.call_on_two(on, Some(attempt), request)?;
        reply::empty(reply.head.body()).map_err(malformed)
    }

    /// Gives a lock up, which never waits for others.
    pub(crate) fn unlock(
        &self,
        on: &impl Target,
        open: &Opened,
        wanted: &Wanted,
    ) -> Result<(), Errno> {
        self.done(on, Request::Setlk(arguments(open, wanted, None, 0)))
    }

    /// Gives a lock up without waiting for the peer to have done so.
    pub(crate) fn unlock_later(&self, on: &impl Target, open: &Opened, wanted: &Wanted) {
        let request = Request::Setlk(arguments(open, wanted, None, 0));
        self.engine().send_later(on.nodeid(), request, on.keep());
    }
}
