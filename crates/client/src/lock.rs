//! Locks of open files: whole ones as flock(2), which `std::fs::File` has too, and ranges as
//! fcntl(2).
//!
//! A daemon that grants POSIX_LOCKS or FLOCK_LOCKS keeps such locks for all its clients; otherwise
//! they exclude only users of the same client, as on Linux.

use crate::attempts::Attempt;
use crate::engine::Keep;
use crate::error::Result;
use crate::file::File;
use crate::handle::Handle;
use fusewire_locks::{Class, Kind, MAX_END, Request};
use fusewire_sync::Arc;
use rustix::fs::OFlags;
use rustix::io::Errno;
use std::fs::TryLockError;
use std::ops::{Bound, Range, RangeBounds};

type Outcome<T> = std::result::Result<T, Errno>;

/// How a lock of a range excludes others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LockKind {
    /// Others may hold locks for reading, too.
    Read,
    /// Nobody else may hold any.
    Write,
}

/// A lock of a range that somebody else holds.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct RangeLock {
    /// Bytes; the end is 2⁶³ for a lock to the end of the file, wherever that is.
    pub range: Range<u64>,
    /// How it excludes others.
    pub kind: LockKind,
    /// Process id of the holder, as far as the daemon knows; it may be one of another machine.
    pub pid: u32,
}

impl From<LockKind> for Kind {
    fn from(kind: LockKind) -> Self {
        match kind {
            LockKind::Read => Kind::Read,
            LockKind::Write => Kind::Write,
        }
    }
}

impl From<Kind> for LockKind {
    fn from(kind: Kind) -> Self {
        match kind {
            Kind::Read => LockKind::Read,
            Kind::Write => LockKind::Write,
        }
    }
}

/// # Errors
/// EINVAL for an empty range; EOVERFLOW for one beyond byte 2⁶³ − 1.
fn bytes(range: &impl RangeBounds<u64>) -> Outcome<Range<u64>> {
    let start = match range.start_bound() {
        Bound::Included(start) => *start,
        Bound::Excluded(before) => before.checked_add(1).ok_or(Errno::OVERFLOW)?,
        Bound::Unbounded => 0,
    };
    let end = match range.end_bound() {
        Bound::Included(last) => last.checked_add(1).ok_or(Errno::OVERFLOW)?,
        Bound::Excluded(end) => *end,
        Bound::Unbounded => MAX_END,
    };
    if start >= MAX_END || end > MAX_END {
        return Err(Errno::OVERFLOW);
    }
    if start >= end {
        return Err(Errno::INVAL);
    }
    Ok(start..end)
}

impl File {
    /// Locks the whole file for this open file and its clones, and waits for that: flock(2). A
    /// shared lock that it holds becomes an exclusive one. It ends with [`File::unlock`] or when the
    /// last clone is dropped. Locks of ranges are another matter.
    ///
    /// A call that is cancelled or interrupted leaves the lock as it was, or none. What the daemon
    /// grants too late is given back, and further calls of this open file wait for that.
    ///
    /// ```
    /// # use fusewire::Client;
    /// # use fusewire_server::{ServerOptions, mem, start};
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let fs = mem::Memory::new(mem::MemOptions::default());
    /// # let (transport, _server) = start(fs, &ServerOptions::default())?;
    /// # let client = Client::builder().connect(transport)?;
    /// let file = client.create("/journal")?;
    /// file.lock()?;
    /// // Another opening of the file is kept out, a clone is not.
    /// assert!(client.open("/journal")?.try_lock_shared().is_err());
    /// file.clone().lock()?;
    /// file.unlock()?;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// EINTR when cancelled or interrupted, or what the daemon says.
    pub fn lock(&self) -> Result<()> {
        self.lock_whole(Kind::Write, true)
            .map_err(self.fail("lock"))
    }

    /// As [`File::lock`], together with others who share it.
    ///
    /// # Errors
    /// As [`File::lock`].
    pub fn lock_shared(&self) -> Result<()> {
        self.lock_whole(Kind::Read, true).map_err(self.fail("lock"))
    }

    /// As [`File::lock`], without waiting.
    ///
    /// # Errors
    /// `WouldBlock` when somebody else has it locked, or a call that was cancelled is still at the
    /// daemon; else as [`File::lock`].
    pub fn try_lock(&self) -> std::result::Result<(), TryLockError> {
        self.try_lock_whole(Kind::Write)
    }

    /// As [`File::lock_shared`], without waiting.
    ///
    /// # Errors
    /// As [`File::try_lock`].
    pub fn try_lock_shared(&self) -> std::result::Result<(), TryLockError> {
        self.try_lock_whole(Kind::Read)
    }

    fn try_lock_whole(&self, kind: Kind) -> std::result::Result<(), TryLockError> {
        match self.lock_whole(kind, false) {
            Ok(()) => Ok(()),
            Err(Errno::AGAIN) => Err(TryLockError::WouldBlock),
            Err(errno) => Err(TryLockError::Error(self.fail("lock")(errno).into())),
        }
    }

    /// Ends a lock of the whole file. There need not be one.
    ///
    /// # Errors
    /// What the daemon says.
    pub fn unlock(&self) -> Result<()> {
        let unlock = || match self.handle().flock_owner_if_any() {
            None => Ok(()),
            Some(owner) => self.set(&self.whole(owner), None, false),
        };
        unlock().map_err(self.fail("unlock"))
    }

    fn lock_whole(&self, kind: Kind, wait: bool) -> Outcome<()> {
        let owner = self.handle().flock_owner();
        self.set(&self.whole(owner), Some(kind), wait)
    }

    fn whole(&self, owner: u64) -> Request {
        self.request(Class::Whole, owner, 0..MAX_END)
    }

    /// Locks bytes for the client handle through which the file was opened, and waits for that:
    /// fcntl(2) with F_SETLKW. What the handle has of them already is replaced. As with processes
    /// and fcntl(2), its locks do not exclude each other, and **all of them on a file end when any
    /// `File` of that file that was opened through the handle is closed**.
    /// [`Client::separate`](crate::Client::separate) gives a handle with locks of its own.
    ///
    /// ```
    /// # use fusewire::Client;
    /// # use fusewire_server::{ServerOptions, mem, start};
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let fs = mem::Memory::new(mem::MemOptions::default());
    /// # let (transport, _server) = start(fs, &ServerOptions::default())?;
    /// # let client = Client::builder().connect(transport)?;
    /// use fusewire::{LockKind, OpenOptions};
    /// let mut options = OpenOptions::new();
    /// let options = options.read(true).write(true).create(true);
    /// let mine = options.open(&client, "/table")?;
    /// mine.lock_range(0..100, LockKind::Write)?;
    /// let theirs = options.open(&client.separate(), "/table")?;
    /// let found = theirs.test_lock_range(.., LockKind::Read)?;
    /// assert_eq!(found.map(|lock| lock.range), Some(0..100));
    /// theirs.lock_range(100.., LockKind::Write)?;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// A call that is cancelled or interrupted leaves the bytes as they were, or unlocked, as with
    /// [`File::lock`].
    ///
    /// # Errors
    /// EBADF when not open for reading (a read lock) or writing (a write lock); EINVAL for an empty
    /// range; EOVERFLOW beyond byte 2⁶³ − 1; EDEADLK when each would wait for the other; EINTR when
    /// cancelled or interrupted; ENOLCK, or what else the daemon says.
    pub fn lock_range(&self, range: impl RangeBounds<u64>, kind: LockKind) -> Result<()> {
        self.set_range(&range, kind, true)
            .map_err(self.fail("lock"))
    }

    /// As [`File::lock_range`], without waiting: F_SETLK.
    ///
    /// # Errors
    /// `WouldBlock` when somebody else's lock is in the way, or a call that was cancelled is still
    /// at the daemon; else as [`File::lock_range`].
    pub fn try_lock_range(
        &self,
        range: impl RangeBounds<u64>,
        kind: LockKind,
    ) -> std::result::Result<(), TryLockError> {
        match self.set_range(&range, kind, false) {
            Ok(()) => Ok(()),
            Err(Errno::AGAIN) => Err(TryLockError::WouldBlock),
            Err(errno) => Err(TryLockError::Error(self.fail("lock")(errno).into())),
        }
    }

    /// Ends locks of bytes; there need not be any.
    ///
    /// # Errors
    /// EINVAL, EOVERFLOW, or what the daemon says.
    pub fn unlock_range(&self, range: impl RangeBounds<u64>) -> Result<()> {
        let unlock = || {
            let wanted = self.record(bytes(&range)?);
            self.set(&wanted, None, false)
        };
        unlock().map_err(self.fail("unlock"))
    }

    /// The first lock in the way of one that [`File::lock_range`] would take: F_GETLK. `None` when
    /// it could be had now.
    ///
    /// # Errors
    /// EINVAL, EOVERFLOW; EIO for a lock no file can have; or what else the daemon says.
    pub fn test_lock_range(
        &self,
        range: impl RangeBounds<u64>,
        kind: LockKind,
    ) -> Result<Option<RangeLock>> {
        let test = || {
            let wanted = self.record(bytes(&range)?);
            let core = self.handle().node().core();
            let found = if core.peer.keeps_locks(Class::Record) {
                let handle = self.handle();
                core.rpc(self.cred())
                    .getlk(handle, handle.open(), &wanted, kind.into())?
            } else {
                core.locks.in_the_way(&wanted, kind.into())
            };
            Ok(found.map(|lock| RangeLock {
                range: lock.range,
                kind: lock.kind.into(),
                pid: lock.pid,
            }))
        };
        test().map_err(self.fail("test lock"))
    }

    fn set_range(&self, range: &impl RangeBounds<u64>, kind: LockKind, wait: bool) -> Outcome<()> {
        let wanted = self.record(bytes(range)?);
        self.check_lock_access(kind)?;
        self.handle().node().has_record_locks();
        self.set(&wanted, Some(kind.into()), wait)
    }

    fn check_lock_access(&self, kind: LockKind) -> Outcome<()> {
        self.check_access(match kind {
            LockKind::Read => OFlags::RDONLY,
            LockKind::Write => OFlags::WRONLY,
        })
    }

    fn record(&self, range: Range<u64>) -> Request {
        self.request(Class::Record, self.cred().lock_owner, range)
    }

    fn request(&self, class: Class, owner: u64, range: Range<u64>) -> Request {
        Request {
            node: crate::rpc::Target::nodeid(self.handle()),
            class,
            owner,
            pid: self.cred().caller.pid,
            range,
        }
    }

    fn set(&self, wanted: &Request, kind: Option<Kind>, wait: bool) -> Outcome<()> {
        let handle = self.handle();
        let core = handle.node().core();
        let over = || core.peer.engine().ended().is_some();
        if core.peer.keeps_locks(wanted.class) {
            let rpc = core.rpc(self.cred());
            let Some(kind) = kind else {
                return rpc.unlock(handle, handle.open(), wanted);
            };
            let attempts = &core.locks.attempts;
            attempts.settle(wanted, wait, &self.cred().token, over)?;
            let attempt = Attempt::new(handle, wanted);
            let keep = Arc::clone(&attempt) as Arc<dyn Keep>;
            let result = rpc.setlk(handle, handle.open(), wanted, kind, wait, keep);
            if matches!(result, Err(Errno::INTR | Errno::TIMEDOUT)) {
                attempt.give_up();
            }
            return result;
        }
        match kind {
            None => core.locks.give_up(wanted),
            Some(kind) => {
                core.locks
                    .take(wanted, kind, wait, &self.cred().token, over)?;
            }
        }
        Ok(())
    }

    /// Ends what close(2) ends: the record locks of this client handle on the file.
    pub(crate) fn end_record_locks(&self, peer_was_told: bool) {
        let handle: &Arc<Handle> = self.handle();
        if !handle.node().may_have_record_locks() {
            return;
        }
        let core = handle.node().core();
        let wanted = self.record(0..MAX_END);
        if !core.peer.keeps_locks(Class::Record) {
            core.locks.give_up(&wanted);
        } else if !peer_was_told {
            // FLUSH carries the owner, but not every close sends one.
            core.rpc(self.cred())
                .unlock_later(handle, handle.open(), &wanted);
        }
    }
}
