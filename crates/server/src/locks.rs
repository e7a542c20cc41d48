//! Locks of files, for every file system here: the table is the server's own, and no lock is taken
//! on the host.
//!
//! A SETLKW that has to wait is put aside with its request, so that no thread waits with it, and
//! answered when the lock is had or an INTERRUPT comes.

use crate::dispatch::{write_error, write_message};
use crate::early::Early;
use crate::fs::{Errno, Reply, Result};
use fusewire_locks::{Class, Kind, Lock, Locks, MAX_END, Request as Wanted};
use fusewire_sync::{Mutex, Rank};
use fusewire_transport::DeviceRequest;
use fusewire_wire::abi::{FileLock, LkIn, LkOut};
use fusewire_wire::{LkFlags, ReleaseFlags, Request};
const F_RDLCK: u32 = 0;
const F_WRLCK: u32 = 1;
const F_UNLCK: u32 = 2;

#[derive(Debug)]
pub(crate) struct LockKeeper {
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    locks: Locks,
    waiting: Vec<Waiting>,
    early: Early,
}

/// A SETLKW that waits.
#[derive(Debug)]
struct Waiting {
    request: DeviceRequest,
    wait: Wait,
}

/// What a SETLKW waits for.
#[derive(Debug)]
pub(crate) struct Wait {
    unique: u64,
    wanted: Wanted,
    kind: Kind,
}

impl Wait {
    /// Number of the request.
    pub(crate) fn unique(&self) -> u64 {
        self.unique
    }
}

/// Parses a lock. `None` for the kind: it is to be given up.
fn parse(node: u64, arg: &LkIn) -> Result<(Wanted, Option<Kind>)> {
    let kind = match arg.lk.typ {
        F_RDLCK => Some(Kind::Read),
        F_WRLCK => Some(Kind::Write),
        F_UNLCK => None,
        _ => return Err(Errno::INVAL),
    };
    if arg.lk.start > arg.lk.end || arg.lk.end >= MAX_END {
        return Err(Errno::INVAL);
    }
    let whole = LkFlags::from_bits_retain(arg.lk_flags).contains(LkFlags::FLOCK);
    let wanted = Wanted {
        node,
        class: if whole { Class::Whole } else { Class::Record },
        owner: arg.owner,
        pid: arg.lk.pid,
        range: if whole {
            0..MAX_END
        } else {
            arg.lk.start..arg.lk.end + 1
        },
    };
    Ok((wanted, kind))
}

impl LockKeeper {
    pub(crate) fn new() -> Self {
        LockKeeper {
            state: Mutex::new(Rank::LEAF, State::default()),
        }
    }

    /// A client begins: nobody holds anything.
    pub(crate) fn begin(&self) {
        let old = std::mem::take(&mut *self.state.lock());
        drop(old);
    }

    pub(crate) fn test(&self, node: u64, arg: &LkIn) -> Result<Reply> {
        let (wanted, kind) = parse(node, arg)?;
        let kind = kind.ok_or(Errno::INVAL)?;
        let state = self.state.lock();
        let lk = match state.locks.in_the_way(&wanted, kind) {
            None => FileLock {
                typ: F_UNLCK,
                ..arg.lk
            },
            Some(Lock {
                pid, range, kind, ..
            }) => FileLock {
                start: range.start,
                end: range.end - 1,
                typ: match kind {
                    Kind::Read => F_RDLCK,
                    Kind::Write => F_WRLCK,
                },
                pid: *pid,
            },
        };
        Ok(Reply::Lock(LkOut { lk }))
    }

    /// SETLK and SETLKW. `Ok(Some(_))`: it has to wait.
    pub(crate) fn set(
        &self,
        node: u64,
        unique: u64,
        arg: &LkIn,
        wait: bool,
    ) -> Result<Option<Wait>> {
        let (wanted, kind) = parse(node, arg)?;
        let granted = {
            let mut state = self.state.lock();
            match kind {
                None => {
                    state.locks.give_up(&wanted);
                }
                Some(kind) => {
                    if state.locks.take(&wanted, kind).is_err() {
                        let wait = wait.then_some(Wait {
                            unique,
                            wanted,
                            kind,
                        });
                        return wait.map(Some).ok_or(Errno::AGAIN);
                    }
                }
            }
            // What was a write lock may be a read lock now.
            state.granted()
        };
        answer_all(granted);
        Ok(None)
    }

    /// Puts a SETLKW aside until it can be answered.
    pub(crate) fn put_aside(&self, request: DeviceRequest, wait: Wait) {
        let result = {
            let mut state = self.state.lock();
            if state.early.take(wait.unique) {
                Err(Errno::INTR)
            } else if state.locks.take(&wait.wanted, wait.kind).is_ok() {
                // It has become free since it was looked at.
                Ok(())
            } else if state.locks.wait(&wait.wanted, wait.kind).is_err() {
                Err(Errno::DEADLK)
            } else {
                state.waiting.push(Waiting { request, wait });
                return;
            }
        };
        answer(request, wait.unique, result);
    }

    pub(crate) fn interrupt(&self, unique: u64) {
        let interrupted = {
            let mut state = self.state.lock();
            let found = state.waiting.iter().position(|w| w.wait.unique == unique);
            let Some(at) = found else {
                state.early.remember(unique);
                return;
            };
            let interrupted = state.waiting.remove(at);
            state.locks.stop_waiting(&interrupted.wait.wanted);
            interrupted
        };
        let Waiting { request, wait } = interrupted;
        answer(request, wait.unique, Err(Errno::INTR));
    }

    /// What else ends locks: FLUSH those of the process, RELEASE those of the open file.
    pub(crate) fn ended(&self, node: u64, request: &Request<'_>) {
        let (class, owner) = match request {
            Request::Flush(arg) => (Class::Record, arg.lock_owner),
            Request::Release(arg)
                if ReleaseFlags::from_bits_retain(arg.release_flags)
                    .contains(ReleaseFlags::FLOCK_UNLOCK) =>
            {
                (Class::Whole, arg.lock_owner)
            }
            _ => return,
        };
        let granted = {
            let mut state = self.state.lock();
            if !state.locks.give_up_all(node, class, owner) {
                return;
            }
            state.granted()
        };
        answer_all(granted);
    }

    /// How many SETLKW wait.
    pub(crate) fn waiting(&self) -> usize {
        self.state.lock().waiting.len()
    }
}

impl State {
    /// Those that have their lock now, in the order in which they came.
    fn granted(&mut self) -> Vec<Waiting> {
        let (mut granted, mut at) = (Vec::new(), 0);
        while let Some(Waiting { wait, .. }) = self.waiting.get(at) {
            if self.locks.take(&wait.wanted, wait.kind).is_err() {
                at += 1;
                continue;
            }
            let waiting = self.waiting.remove(at);
            self.locks.stop_waiting(&waiting.wait.wanted);
            granted.push(waiting);
        }
        granted
    }
}

/// Without any lock held: the transport has locks of its own.
fn answer_all(granted: Vec<Waiting>) {
    for Waiting { request, wait } in granted {
        answer(request, wait.unique, Ok(()));
    }
}

fn answer(request: DeviceRequest, unique: u64, result: Result<()>) {
    let written = match result {
        Ok(()) => write_message(&request, unique, &[]),
        Err(errno) => write_error(&request, unique, errno),
    };
    request.complete(written);
}
