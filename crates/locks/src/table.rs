//! The locks of one file.

use std::ops::Range;

/// How a lock excludes others.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Kind {
    /// Only writers.
    Read,
    /// Everybody.
    Write,
}

/// A lock that is held.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lock {
    /// Whose.
    pub owner: u64,
    /// The process to name when somebody asks.
    pub pid: u32,
    /// Bytes.
    pub range: Range<u64>,
    /// How it excludes others.
    pub kind: Kind,
}

/// The locks of one file: for each owner disjoint ranges, those of a kind never adjacent.
#[derive(Clone, Debug, Default)]
pub struct Table {
    /// By first byte.
    locks: Vec<Lock>,
}

fn overlap(a: &Range<u64>, b: &Range<u64>) -> bool {
    a.start < b.end && b.start < a.end
}

impl Table {
    /// Whether nobody holds anything.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.locks.is_empty()
    }

    /// The locks, by first byte.
    #[must_use]
    pub fn locks(&self) -> &[Lock] {
        &self.locks
    }

    /// The first lock in the way of one that `owner` wants.
    #[must_use]
    pub fn in_the_way(&self, owner: u64, range: &Range<u64>, kind: Kind) -> Option<&Lock> {
        self.all_in_the_way(owner, range, kind).next()
    }

    /// Every lock in the way of one that `owner` wants.
    pub fn all_in_the_way(
        &self,
        owner: u64,
        range: &Range<u64>,
        kind: Kind,
    ) -> impl Iterator<Item = &Lock> {
        let range = range.clone();
        self.locks.iter().filter(move |lock| {
            let excludes = kind == Kind::Write || lock.kind == Kind::Write;
            lock.owner != owner && excludes && overlap(&lock.range, &range)
        })
    }

    /// Gives the range to `owner`, or takes it away, whatever it had of it; returns whether that
    /// changes anything. Others are not looked at.
    pub fn set(&mut self, owner: u64, pid: u32, range: Range<u64>, kind: Option<Kind>) -> bool {
        let before = self.locks.clone();
        let mut new = Vec::with_capacity(self.locks.len() + 2);
        let mut taken = range.clone();
        for lock in self.locks.drain(..) {
            if lock.owner != owner {
                new.push(lock);
                continue;
            }
            let joins = kind == Some(lock.kind)
                && lock.range.start <= range.end
                && range.start <= lock.range.end;
            if joins {
                taken = taken.start.min(lock.range.start)..taken.end.max(lock.range.end);
                continue;
            }
            // What lies outside stays.
            let (left, right) = (
                lock.range.start..lock.range.end.min(range.start),
                lock.range.start.max(range.end)..lock.range.end,
            );
            for rest in [left, right] {
                if !rest.is_empty() {
                    new.push(Lock {
                        range: rest,
                        ..lock.clone()
                    });
                }
            }
        }
        if let Some(kind) = kind {
            new.push(Lock {
                owner,
                pid,
                range: taken,
                kind,
            });
        }
        new.sort_by_key(|lock| (lock.range.start, lock.owner));
        self.locks = new;
        self.locks != before
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const BYTES: usize = 24;
    const OWNERS: usize = 3;

    /// What each owner has of each byte.
    type Model = [[Option<Kind>; BYTES]; OWNERS];

    fn kind() -> impl Strategy<Value = Option<Kind>> {
        prop_oneof![Just(None), Just(Some(Kind::Read)), Just(Some(Kind::Write))]
    }

    proptest! {
        /// Ranges are split and joined as if every byte were locked by itself.
        #[test]
        fn a_table_is_a_lock_for_every_byte(
            steps in prop::collection::vec(
                (0..OWNERS, 0..BYTES, 1..BYTES, kind()), 1..60,
            )
        ) {
            let (mut table, mut model) = (Table::default(), Model::default());
            for (owner, start, len, kind) in steps {
                let end = (start + len).min(BYTES);
                let range = start as u64..end as u64;
                let way = kind.and_then(|kind| {
                    table.in_the_way(owner as u64, &range, kind).cloned()
                });
                let blocked = (0..OWNERS).filter(|other| *other != owner).any(|other| {
                    (start..end).any(|byte| match (kind, model[other][byte]) {
                        (Some(wanted), Some(held)) => {
                            wanted == Kind::Write || held == Kind::Write
                        }
                        _ => false,
                    })
                });
                prop_assert_eq!(way.is_some(), blocked);
                if way.is_none() {
                    let mut changed = false;
                    for byte in &mut model[owner][start..end] {
                        changed |= *byte != kind;
                        *byte = kind;
                    }
                    let did = table.set(owner as u64, 0, range, kind);
                    prop_assert_eq!(did, changed);
                }
                check(&table, &model)?;
            }
        }
    }

    fn check(table: &Table, model: &Model) -> Result<(), TestCaseError> {
        let mut seen = Model::default();
        for lock in table.locks() {
            for byte in lock.range.clone() {
                let place = &mut seen[lock.owner as usize][byte as usize];
                prop_assert!(place.is_none(), "two locks on one byte");
                *place = Some(lock.kind);
            }
            let adjacent = table.locks().iter().any(|other| {
                other.owner == lock.owner
                    && other.kind == lock.kind
                    && other.range.start == lock.range.end
            });
            prop_assert!(!adjacent, "two locks where one would do");
        }
        prop_assert_eq!(&seen, model);
        Ok(())
    }
}
