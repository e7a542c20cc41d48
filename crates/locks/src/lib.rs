//! File locks as fcntl(2) and flock(2) have them, as a pure data structure: who holds what, who is
//! in whose way, and who would wait for himself. It blocks nobody and knows no files: the client
//! keeps those locks in it that a daemon leaves to it, and the embedded servers theirs.

#![forbid(unsafe_code)]

mod table;

pub use table::{Kind, Lock, Table};

use std::collections::HashMap;
use std::ops::Range;

/// End of the longest range: one more than the last byte a file can have.
pub const MAX_END: u64 = 1 << 63;

/// The two kinds of locks, which do not see each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Class {
    /// Ranges of bytes, owned by processes: fcntl(2).
    Record,
    /// Whole files, owned by open files: flock(2).
    Whole,
}

/// A lock that somebody wants, or wants no longer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Request {
    /// The file.
    pub node: u64,
    /// Which kind of lock.
    pub class: Class,
    /// For whom.
    pub owner: u64,
    /// Process id that others are told.
    pub pid: u32,
    /// Bytes, not empty, at most to [`MAX_END`].
    pub range: Range<u64>,
}

/// Why a request waits for ever.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Deadlock;

/// All locks of a file system, and who waits for one.
#[derive(Debug, Default)]
pub struct Locks {
    tables: HashMap<(u64, Class), Table>,
    /// What each owner waits for; by fcntl(2), which alone knows deadlocks.
    waits: HashMap<u64, Vec<(Request, Kind)>>,
}

impl Locks {
    /// Nobody holds anything.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// The first lock in the way of `request`.
    #[must_use]
    pub fn in_the_way(&self, request: &Request, kind: Kind) -> Option<&Lock> {
        self.tables.get(&(request.node, request.class))?.in_the_way(
            request.owner,
            &request.range,
            kind,
        )
    }

    /// Takes the lock, in place of what the owner had of the range.
    ///
    /// # Errors
    /// The first lock in the way; nothing has changed.
    pub fn take(&mut self, request: &Request, kind: Kind) -> Result<(), Lock> {
        let table = self
            .tables
            .entry((request.node, request.class))
            .or_default();
        if let Some(lock) = table.in_the_way(request.owner, &request.range, kind) {
            return Err(lock.clone());
        }
        table.set(
            request.owner,
            request.pid,
            request.range.clone(),
            Some(kind),
        );
        Ok(())
    }

    /// Gives up what the owner has of the range; returns whether that was anything.
    pub fn give_up(&mut self, request: &Request) -> bool {
        let at = (request.node, request.class);
        let Some(table) = self.tables.get_mut(&at) else {
            return false;
        };
        let changed = table.set(request.owner, request.pid, request.range.clone(), None);
        if table.is_empty() {
            self.tables.remove(&at);
        }
        changed
    }

    /// Gives up all that `owner` has of a file; returns whether that was anything.
    pub fn give_up_all(&mut self, node: u64, class: Class, owner: u64) -> bool {
        self.give_up(&Request {
            node,
            class,
            owner,
            pid: 0,
            range: 0..MAX_END,
        })
    }

    /// Says that somebody waits for `request`; to be taken back by [`Locks::stop_waiting`].
    ///
    /// # Errors
    /// [`Deadlock`] when whoever is in the way waits, through others perhaps, for this owner;
    /// then nobody waits. Locks of whole files know none, as on Linux.
    pub fn wait(&mut self, request: &Request, kind: Kind) -> Result<(), Deadlock> {
        if request.class == Class::Record {
            if self.waits_for(request, kind) {
                return Err(Deadlock);
            }
            let waits = self.waits.entry(request.owner).or_default();
            waits.push((request.clone(), kind));
        }
        Ok(())
    }

    /// Takes a [`Locks::wait`] back.
    pub fn stop_waiting(&mut self, request: &Request) {
        if let Some(waits) = self.waits.get_mut(&request.owner) {
            if let Some(at) = waits.iter().position(|(other, _)| other == request) {
                waits.swap_remove(at);
            }
            if waits.is_empty() {
                self.waits.remove(&request.owner);
            }
        }
    }

    /// Whether those in the way of `request` wait for its owner.
    fn waits_for(&self, request: &Request, kind: Kind) -> bool {
        let mut seen = Vec::new();
        let mut next: Vec<_> = self.blockers(request, kind);
        while let Some(owner) = next.pop() {
            if owner == request.owner {
                return true;
            }
            if !seen.contains(&owner) {
                seen.push(owner);
                for (request, kind) in self.waits.get(&owner).into_iter().flatten() {
                    next.append(&mut self.blockers(request, *kind));
                }
            }
        }
        false
    }

    /// Owners of all locks in the way of `request`.
    fn blockers(&self, request: &Request, kind: Kind) -> Vec<u64> {
        let table = self.tables.get(&(request.node, request.class));
        table.map_or_else(Vec::new, |table| {
            table
                .all_in_the_way(request.owner, &request.range, kind)
                .map(|lock| lock.owner)
                .collect()
        })
    }

    /// Whether nobody holds or waits for anything.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.tables.is_empty() && self.waits.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(owner: u64, range: Range<u64>) -> Request {
        Request {
            node: 1,
            class: Class::Record,
            owner,
            pid: owner as u32,
            range,
        }
    }

    #[test]
    fn who_waits_in_a_circle_is_told() {
        let mut locks = Locks::new();
        for owner in 0..3 {
            let own = request(owner, owner..owner + 1);
            locks.take(&own, Kind::Write).unwrap();
        }
        locks.wait(&request(0, 1..2), Kind::Read).unwrap();
        locks.wait(&request(1, 2..3), Kind::Write).unwrap();
        assert_eq!(locks.wait(&request(2, 0..1), Kind::Read), Err(Deadlock));
        // Without the one in the middle there is no circle.
        locks.stop_waiting(&request(1, 2..3));
        locks.wait(&request(2, 0..1), Kind::Read).unwrap();
        locks.stop_waiting(&request(2, 0..1));
        locks.stop_waiting(&request(0, 1..2));
        for owner in 0..3 {
            assert!(locks.give_up_all(1, Class::Record, owner));
        }
        assert!(locks.is_empty());
    }

    #[test]
    fn locks_of_files_and_of_ranges_do_not_meet() {
        let mut locks = Locks::new();
        let record = request(1, 0..MAX_END);
        let whole = Request {
            class: Class::Whole,
            owner: 2,
            ..record.clone()
        };
        locks.take(&record, Kind::Write).unwrap();
        locks.take(&whole, Kind::Write).unwrap();
        let other = Request {
            owner: 3,
            ..whole.clone()
        };
        assert_eq!(locks.take(&other, Kind::Read).unwrap_err().owner, 2);
        assert!(locks.give_up(&whole));
        assert!(!locks.give_up(&whole));
        locks.take(&other, Kind::Read).unwrap();
    }
}
