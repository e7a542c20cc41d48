//! Locks of files, for every file system here: the table is the server's own, and no lock is taken
//! on the host.
//!
//! A SETLKW that has to wait is put aside with its request, so that no thread waits with it, and
//! answered when the lock is had or an INTERRUPT comes.

use crate::answer::{write_error, write_message};
use crate::early::Early;
use crate::fs::{Errno, Reply, Result};
use fusewire_locks::{Class, Kind, Lock, Locks, MAX_END, Request as Wanted};
use fusewire_sync::{Mutex, Rank};
use fusewire_transport::DeviceRequest;
use fusewire_wire::abi::{FileLock, LkIn, LkOut};
use fusewire_wire::{LkFlags, ReleaseFlags, Request};
use std::collections::{HashMap, HashSet};

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
    /// Owners that locked a whole file by an open file, by its handle and node: whatever the client
    /// says, they hold nothing once it is released.
    by_handle: HashMap<(u64, u64), HashSet<u64>>,
    waiting: Vec<Waiting>,
    early: Early,
}

/// A SETLKW that waits.
#[derive(Debug)]
struct Waiting {
    request: DeviceRequest,
    wait: Wait,
}

/// A SETLKW that waited, and its answer.
type Settled = (Waiting, Result<()>);

/// What a SETLKW waits for.
#[derive(Debug)]
pub(crate) struct Wait {
    unique: u64,
    wanted: Wanted,
    kind: Kind,
    fh: u64,
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
        let lost = old.waiting.into_iter();
        answer_all(lost.map(|waiting| (waiting, Err(Errno::IO))).collect());
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
        let settled = {
            let mut state = self.state.lock();
            match kind {
                None => state.give_up(&wanted, arg.fh),
                Some(kind) => {
                    let wanted = Wait {
                        unique,
                        wanted,
                        kind,
                        fh: arg.fh,
                    };
                    if !state.take(&wanted) {
                        return wait.then_some(Some(wanted)).ok_or(Errno::AGAIN);
                    }
                }
            }
            // What was a write lock may be a read lock now.
            state.settled()
        };
        answer_all(settled);
        Ok(None)
    }

    /// Puts a SETLKW aside until it can be answered.
    pub(crate) fn put_aside(&self, request: DeviceRequest, wait: Wait) {
        let result = {
            let mut state = self.state.lock();
            if state.early.take(wait.unique) {
                Err(Errno::INTR)
            } else if state.take(&wait) {
                // It has become free since it was looked at.
                Ok(())
            } else if !state.wait(&wait) {
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
        let settled = match request {
            Request::Flush(arg) => {
                let mut state = self.state.lock();
                state.give_up_all(node, Class::Record, [arg.lock_owner])
            }
            Request::Release(arg) => {
                let mut state = self.state.lock();
                let mut owners = state.by_handle.remove(&(arg.fh, node)).unwrap_or_default();
                let flags = ReleaseFlags::from_bits_retain(arg.release_flags);
                if flags.contains(ReleaseFlags::FLOCK_UNLOCK) {
                    owners.insert(arg.lock_owner);
                }
                state.give_up_all(node, Class::Whole, owners)
            }
            _ => return,
        };
        answer_all(settled);
    }

    /// How many SETLKW wait.
    pub(crate) fn waiting(&self) -> usize {
        self.state.lock().waiting.len()
    }
}

impl Drop for LockKeeper {
    /// The server ends, and with it its connection: nobody is answered any more.
    fn drop(&mut self) {
        let waiting = std::mem::take(&mut self.state.lock().waiting);
        for Waiting { request, .. } in waiting {
            request.abandon();
        }
    }
}

impl State {
    /// Takes a lock, if nobody is in its way.
    fn take(&mut self, lock: &Wait) -> bool {
        if self.locks.take(&lock.wanted, lock.kind).is_err() {
            return false;
        }
        let Wanted {
            node, class, owner, ..
        } = lock.wanted;
        if class == Class::Whole {
            let owners = self.by_handle.entry((lock.fh, node)).or_default();
            owners.insert(owner);
        }
        true
    }

    /// Gives a lock up.
    fn give_up(&mut self, wanted: &Wanted, fh: u64) {
        self.locks.give_up(wanted);
        let at = (fh, wanted.node);
        if wanted.class == Class::Whole
            && let Some(owners) = self.by_handle.get_mut(&at)
        {
            owners.remove(&wanted.owner);
            if owners.is_empty() {
                self.by_handle.remove(&at);
            }
        }
    }

    /// Gives up all that some owners have of a file; returns who need not wait any longer.
    fn give_up_all(
        &mut self,
        node: u64,
        class: Class,
        owners: impl IntoIterator<Item = u64>,
    ) -> Vec<Settled> {
        let mut changed = false;
        for owner in owners {
            changed |= self.locks.give_up_all(node, class, owner);
        }
        if changed { self.settled() } else { Vec::new() }
    }

    /// Those that need not wait any longer, in the order in which they came.
    fn settled(&mut self) -> Vec<Settled> {
        let mut settled = Vec::new();
        loop {
            let before = settled.len();
            for waiting in std::mem::take(&mut self.waiting) {
                self.locks.stop_waiting(&waiting.wait.wanted);
                if self.take(&waiting.wait) {
                    settled.push((waiting, Ok(())));
                } else if self.wait(&waiting.wait) {
                    self.waiting.push(waiting);
                } else {
                    // Whoever got the lock first waits for this one.
                    settled.push((waiting, Err(Errno::DEADLK)));
                }
            }
            // A lock that was had may leave room for another one: a read lock in the place of a
            // write lock.
            if settled.len() == before {
                return settled;
            }
        }
    }

    /// Says that somebody waits; `false` when that would be for ever.
    fn wait(&mut self, lock: &Wait) -> bool {
        self.locks.wait(&lock.wanted, lock.kind).is_ok()
    }
}

/// Without any lock held: the transport has locks of its own.
fn answer_all(settled: Vec<Settled>) {
    for (Waiting { request, wait }, result) in settled {
        answer(request, wait.unique, result);
    }
}

fn answer(request: DeviceRequest, unique: u64, result: Result<()>) {
    let written = match result {
        Ok(()) => write_message(&request, unique, &[]),
        Err(errno) => write_error(&request, unique, errno),
    };
    request.complete(written);
}
