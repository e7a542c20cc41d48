//! A peer for tests that misbehaves on purpose.
//!
//! It wraps a real file system and asks a [`Script`] about every request: most are answered
//! normally, some late, wrongly, twice or never.
//!
//! ```
//! use fusewire_server::mem::{MemOptions, Memory};
//! use fusewire_server::scripted::{Action, Gate, Rules, start};
//! use fusewire_server::{Errno, ServerOptions};
//! use fusewire_wire::Opcode;
//!
//! # fn main() -> std::io::Result<()> {
//! let gate = Gate::new();
//! let rules = Rules::new()
//!     .nth(Opcode::Read, 3, Action::HoldBefore(gate.clone()))
//!     .nth(Opcode::Write, 2, Action::Errno(Errno::NOSPC));
//! let fs = Memory::new(MemOptions::default());
//! let (client, peer) = start(fs, rules, &ServerOptions::default())?;
//! # drop(client);
//! // ... the client's third READ waits for:
//! gate.open();
//! # peer.join();
//! # Ok(())
//! # }
//! ```

mod gate;
mod held;
mod log;
mod rules;

pub use gate::Gate;
pub use log::Seen;
pub use rules::{Action, Rules, Script};

use crate::answer::{write_error, write_message};
use crate::dispatch::{Head, HeadBuffer, Session};
use crate::fs::{Errno, FileSystem, Usage};
use crate::notice::{Notice, Notifier};
use crate::serve::{ServerOptions, Workers};
use fusewire_sync::{Arc, OnceLock, Weak};
use fusewire_transport::{DeviceEnd, DeviceQueueId, DeviceRequest, InProcess};
use fusewire_wire::Opcode;
use fusewire_wire::reply::failure;
use held::{Interrupted, Interruptible};
use log::Log;
use std::io;
use zerocopy::IntoBytes;

/// Starts serving `fs` by `script`.
///
/// # Errors
/// As [`crate::start`].
pub fn start<F: FileSystem>(
    fs: F,
    script: impl Script,
    options: &ServerOptions,
) -> io::Result<(InProcess, ScriptedPeer<F>)> {
    let session = Arc::new(Session::new(Arc::new(fs), options));
    let log = Arc::new(Log::default());
    let device = Arc::new(OnceLock::new());
    let stage = Stage {
        session: Arc::clone(&session),
        log: Arc::clone(&log),
        device: Arc::clone(&device),
        held: Interruptible::default(),
        script,
    };
    let answer = move |request: DeviceRequest, buffer: &mut HeadBuffer| {
        stage.perform(request, buffer);
    };
    let (client, workers) = Workers::start(options, answer)?;
    // The client sends nothing before this function has returned.
    let _ = device.set(Arc::downgrade(workers.device()));
    let peer = ScriptedPeer {
        workers,
        session,
        log,
    };
    Ok((client, peer))
}

/// A running scripted peer. Dropping it is its death.
#[derive(Debug)]
pub struct ScriptedPeer<F> {
    workers: Workers,
    session: Arc<Session<F>>,
    log: Arc<Log>,
}

impl<F: FileSystem> ScriptedPeer<F> {
    /// Everything received so far.
    #[must_use]
    pub fn log(&self) -> Vec<Seen> {
        self.log.snapshot()
    }

    /// Blocks until `done` holds for everything received, or the connection has ended; returns
    /// whether it holds. A request that is held at a [`Gate`] is there before it is in the log.
    pub fn wait_for(&self, done: impl Fn(&[Seen]) -> bool) -> bool {
        self.log.wait_for(done)
    }

    /// [`wait_for`](Self::wait_for) the `n`-th request of a kind.
    pub fn wait_for_nth(&self, opcode: Opcode, n: u64) -> bool {
        self.wait_for(|log| {
            log.iter()
                .any(|seen| seen.opcode == Some(opcode) && seen.nth == n)
        })
    }

    /// Tells the client what it did not ask for.
    #[must_use]
    pub fn notifier(&self) -> Notifier {
        self.workers.notifier()
    }

    /// What the client said of everything that [`Action::Notify`] and [`Action::NotifyAfter`] told
    /// it, and of answers to INTERRUPT, in the order in which that was sent.
    #[must_use]
    pub fn told(&self) -> Vec<crate::Result<()>> {
        self.log.told_so_far()
    }

    /// Dies now: requests that are in flight are never answered.
    pub fn die(&self) {
        self.workers.device().close();
    }

    /// The device below all rules.
    #[must_use]
    pub fn device(&self) -> &DeviceEnd {
        self.workers.device()
    }

    /// The file system.
    #[must_use]
    pub fn fs(&self) -> &Arc<F> {
        &self.session.fs
    }

    /// What the client holds now.
    #[must_use]
    pub fn usage(&self) -> Usage {
        self.session.fs.usage()
    }

    /// How many SETLKW wait for their lock.
    #[must_use]
    pub fn waiting_for_locks(&self) -> usize {
        self.session.waiting()
    }

    /// How many requests of that kind reached the file system.
    #[must_use]
    pub fn count(&self, opcode: Opcode) -> u64 {
        self.session.count(opcode)
    }

    /// Waits until the client has closed the connection and returns what it still holds. Requests
    /// that are held at a gate then stay unanswered.
    pub fn join(mut self) -> Usage {
        self.workers.join();
        self.session.fs.usage()
    }
}

/// What the workers share.
struct Stage<F, S> {
    session: Arc<Session<F>>,
    log: Arc<Log>,
    /// Weak, because the workers belong to it.
    device: Arc<OnceLock<Weak<DeviceEnd>>>,
    held: Interruptible,
    script: S,
}

impl<F, S> Drop for Stage<F, S> {
    fn drop(&mut self) {
        self.log.end();
    }
}

impl<F: FileSystem, S: Script> Stage<F, S> {
    fn perform(&self, request: DeviceRequest, buffer: &mut HeadBuffer) {
        let seen = self.log.seen(&request, buffer);
        let action = self.script.action(&seen);
        self.act(action, seen, request, buffer);
    }

    fn act(&self, action: Action, seen: Seen, request: DeviceRequest, buffer: &mut HeadBuffer) {
        let unique = seen.unique;
        match action {
            Action::HoldBefore(gate) => {
                let session = Arc::clone(&self.session);
                gate.hold(move || session.perform(request, &mut HeadBuffer::new()));
                self.log.push(seen);
                return;
            }
            Action::HoldAfter(gate) => {
                let written = self.session.handle(&request, buffer, usize::MAX);
                gate.hold(move || request.complete(written));
                self.log.push(seen);
                return;
            }
            Action::HoldUntilInterrupted => return self.hold(seen, request, Interrupted::Refused),
            Action::AnswerOnceInterrupted => {
                return self.hold(seen, request, Interrupted::Answered);
            }
            Action::Notify(notices, then) => {
                self.tell(&notices);
                return self.act(*then, seen, request, buffer);
            }
            Action::Answer => {
                let held = seen.about.and_then(|about| self.held.interrupt(about));
                self.log.push(seen);
                if let Some((held, then)) = held {
                    self.interrupted(held, then);
                }
                self.session.perform(request, buffer);
                return;
            }
            _ => self.log.push(seen.clone()),
        }
        let mut answer = |limit| self.session.handle(&request, buffer, limit);
        match action {
            Action::Answer
            | Action::HoldBefore(_)
            | Action::HoldAfter(_)
            | Action::HoldUntilInterrupted
            | Action::AnswerOnceInterrupted
            | Action::Notify(..) => unreachable!("done above"),
            Action::NotifyAfter(notices) => {
                let written = answer(usize::MAX);
                self.tell(&notices);
                request.complete(written);
            }
            Action::Limit(bytes) => {
                let written = answer(bytes as usize);
                request.complete(written);
            }
            Action::Errno(errno) if seen.about.is_some() => {
                let no = failure(unique, errno.raw_os_error());
                self.log.told(self.notifier().tell(no.as_bytes()));
            }
            Action::Errno(errno) => {
                let written = write_error(&request, unique, errno);
                request.complete(written);
            }
            Action::Body(body) => {
                let written = write_message(&request, unique, &body);
                request.complete(written);
            }
            Action::Raw(bytes) => {
                let written = request.write_at(0, &bytes);
                request.complete(written);
            }
            Action::Ignore => drop(request),
            Action::Never => request.abandon(),
            Action::WrongUnique(wrong) => {
                let written = answer(usize::MAX);
                request.write_at(8, &wrong.to_ne_bytes());
                request.complete(written);
            }
            Action::CutTo(bytes) => {
                let written = answer(usize::MAX).min(bytes as usize);
                request.complete(written);
            }
            Action::WrongLength(len) => {
                let written = answer(usize::MAX);
                request.write_at(0, &len.to_ne_bytes());
                request.complete(written);
            }
            Action::UsedLength(len) => {
                answer(usize::MAX);
                if len as usize <= request.writable_len() {
                    request.complete(len as usize);
                } else {
                    let id = request.id();
                    request.abandon();
                    self.with_device(|d| d.raw().push_used(DeviceQueueId::Request, id, len));
                }
            }
            Action::Twice => {
                let written = answer(usize::MAX) as u32;
                let id = request.id();
                request.abandon();
                // Both at once: after the first alone, the client may already use the buffer again.
                self.with_device(|device| {
                    let (raw, queue) = (device.raw(), DeviceQueueId::Request);
                    let index = raw.used_index(queue);
                    raw.write_used_entry(queue, index, id, written);
                    raw.write_used_entry(queue, index.wrapping_add(1), id, written);
                    raw.set_used_index(queue, index.wrapping_add(2));
                    raw.call();
                });
            }
            Action::Die => {
                self.with_device(DeviceEnd::close);
                request.abandon();
            }
        }
    }

    fn hold(&self, seen: Seen, request: DeviceRequest, then: Interrupted) {
        let interrupted = self.held.hold(seen.unique, request, then);
        self.log.push(seen);
        if let Some((request, then)) = interrupted {
            self.interrupted(request, then);
        }
    }

    fn interrupted(&self, request: DeviceRequest, then: Interrupted) {
        let mut buffer = HeadBuffer::new();
        match then {
            Interrupted::Answered => self.session.perform(request, &mut buffer),
            Interrupted::Refused => {
                let written = match buffer.read(&request) {
                    Head::Parsed(header, ..) | Head::Malformed(header, _) => {
                        write_error(&request, header.unique, Errno::INTR)
                    }
                    Head::Unreadable => 0,
                };
                request.complete(written);
            }
        }
    }

    fn tell(&self, notices: &[Notice]) {
        let notifier = self.notifier();
        for notice in notices {
            self.log.told(notifier.send(notice));
        }
    }

    fn notifier(&self) -> Notifier {
        Notifier::new(self.device.get().cloned().unwrap_or_default())
    }

    fn with_device(&self, f: impl FnOnce(&DeviceEnd)) {
        if let Some(device) = self.device.get().and_then(Weak::upgrade) {
            f(&device);
        }
    }
}
