//! Waiting until a file is ready: poll(2).

use crate::error::Result;
use crate::file::File;
use fusewire_sync::{Condvar, Mutex, Rank};
use rustix::io::Errno;
use std::collections::HashMap;

type Outcome<T> = std::result::Result<T, Errno>;

/// Events of poll(2).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Events(u32);

impl Events {
    /// There is something to read: POLLIN | POLLRDNORM.
    pub const READ: Events = Events(0x41);
    /// There is room to write: POLLOUT | POLLWRNORM.
    pub const WRITE: Events = Events(0x104);
    /// Something exceptional: POLLPRI.
    pub const PRIORITY: Events = Events(0x2);
    /// An error: POLLERR. Reported whether asked for or not.
    pub const ERROR: Events = Events(0x8);
    /// The other end has gone: POLLHUP. Reported whether asked for or not.
    pub const HANG_UP: Events = Events(0x10);

    /// From bits of poll(2).
    #[must_use]
    pub const fn from_bits(bits: u32) -> Self {
        Events(bits)
    }

    /// The bits of poll(2).
    #[must_use]
    pub const fn bits(self) -> u32 {
        self.0
    }

    /// Both these and the others.
    #[must_use]
    pub const fn and(self, other: Events) -> Events {
        Events(self.0 | other.0)
    }

    /// Whether there is none.
    #[must_use]
    pub const fn is_empty(self) -> bool {
        self.0 == 0
    }
}

/// What a file without a way to wait for it is: ready for reading and writing, as on Linux.
const ALWAYS: Events = Events::READ.and(Events::WRITE);

/// Who waits for which file to become ready.
#[derive(Debug)]
pub(crate) struct Polls {
    /// By the number that the peer was told.
    files: Mutex<HashMap<u64, Watched>>,
    changed: Condvar,
}

/// An open file that somebody waits for.
#[derive(Debug, Default)]
struct Watched {
    waiters: u64,
    /// How often the peer has said that something happened.
    wakeups: u64,
}

impl Polls {
    pub(crate) fn new() -> Self {
        Polls {
            files: Mutex::new(Rank::LEAF, HashMap::new()),
            changed: Condvar::new(),
        }
    }

    /// The peer says that something has happened.
    pub(crate) fn wake(&self, kh: u64) {
        if let Some(file) = self.files.lock().get_mut(&kh) {
            file.wakeups += 1;
        }
        self.changed.notify_all();
    }

    /// Has everybody look whether they still want to wait.
    pub(crate) fn wake_all(&self) {
        // Under the lock: nobody is between looking and waiting.
        let _files = self.files.lock();
        self.changed.notify_all();
    }

    fn watch(&self, kh: u64) -> Watch<'_> {
        self.files.lock().entry(kh).or_default().waiters += 1;
        Watch { polls: self, kh }
    }
}

/// One of those who wait for a file.
struct Watch<'a> {
    polls: &'a Polls,
    kh: u64,
}

impl Watch<'_> {
    fn wakeups(&self) -> u64 {
        let files = self.polls.files.lock();
        files.get(&self.kh).map_or(0, |file| file.wakeups)
    }

    /// Waits until something has happened since `seen`, or `stop` gives a reason not to.
    fn wait(&self, seen: u64, stop: impl Fn() -> Option<Errno>) -> Outcome<()> {
        let mut files = self.polls.files.lock();
        while files.get(&self.kh).is_some_and(|file| file.wakeups == seen) {
            if let Some(errno) = stop() {
                return Err(errno);
            }
            files = self.polls.changed.wait(files);
        }
        Ok(())
    }
}

impl Drop for Watch<'_> {
    fn drop(&mut self) {
        let mut files = self.polls.files.lock();
        if let Some(file) = files.get_mut(&self.kh) {
            file.waiters -= 1;
            if file.waiters == 0 {
                files.remove(&self.kh);
            }
        }
    }
}

impl File {
    /// Which of `events` are there now, with [`Events::ERROR`] and [`Events::HANG_UP`]. A daemon
    /// that cannot say is always ready for reading and writing.
    ///
    /// # Errors
    /// What the daemon says.
    pub fn poll(&self, events: Events) -> Result<Events> {
        self.ask(events, false).map_err(self.fail("poll"))
    }

    /// Waits until some of `events` are there, and returns which. The daemon has to say when
    /// something happens; where the transport cannot carry that, virtio-fs, waiting for a file that
    /// is not ready is refused.
    ///
    /// # Errors
    /// EINTR when cancelled or interrupted; ENOTCONN when the connection ends; EOPNOTSUPP on
    /// virtio-fs; or what the daemon says.
    pub fn poll_wait(&self, events: Events) -> Result<Events> {
        self.wait_ready(events).map_err(self.fail("poll"))
    }

    fn wait_ready(&self, events: Events) -> Outcome<Events> {
        let core = self.handle().node().core();
        let token = &self.cred().token;
        let interrupts = token.interrupts();
        // One number for all who wait for an open file: daemons keep the last that they were told.
        let watch = core.polls.watch(self.handle().poll_number());
        loop {
            // Noted before asking: what happens after the answer is not missed.
            let seen = watch.wakeups();
            let ready = self.ask(events, true)?;
            if !ready.is_empty() {
                return Ok(ready);
            }
            // What carries INTERRUPT carries notifications, too.
            if !core.peer.engine().transport().limits().interrupts {
                return Err(Errno::OPNOTSUPP);
            }
            watch.wait(seen, || {
                if token.is_cancelled() || token.interrupts() != interrupts {
                    Some(Errno::INTR)
                } else if core.peer.engine().ended().is_some() {
                    Some(Errno::NOTCONN)
                } else {
                    None
                }
            })?;
        }
    }

    fn ask(&self, events: Events, notify: bool) -> Outcome<Events> {
        let handle = self.handle();
        let rpc = handle.node().core().rpc(self.cred());
        let kh = handle.poll_number();
        let ready = rpc.poll(handle, handle.open(), kh, events.0, notify)?;
        let wanted = events.and(Events::ERROR).and(Events::HANG_UP);
        Ok(Events(ready.unwrap_or(ALWAYS.0) & wanted.0))
    }
}
