//! FORGETs on their way: collected, so that one kick tells the peer of many.

use fusewire_sync::atomic::{AtomicUsize, Ordering};
use fusewire_sync::{Mutex, Rank};

/// So many FORGETs go out with one kick.
pub(super) const BATCH: usize = 32;

/// References to give back to the peer.
#[derive(Debug)]
pub(super) struct ForgetQueue {
    nodes: Mutex<Vec<(u64, u64)>>,
    /// How many there are, to be seen without the lock.
    len: AtomicUsize,
}

impl ForgetQueue {
    pub(super) fn new() -> Self {
        ForgetQueue {
            nodes: Mutex::new(Rank::FORGET_QUEUE, Vec::with_capacity(BATCH)),
            len: AtomicUsize::new(0),
        }
    }

    /// Adds a FORGET of `nlookup` references to `nodeid`; returns how many wait now.
    pub(super) fn push(&self, nodeid: u64, nlookup: u64) -> usize {
        let mut nodes = self.nodes.lock();
        nodes.push((nodeid, nlookup));
        self.len.store(nodes.len(), Ordering::Release);
        nodes.len()
    }

    /// Sends as many as `send` takes (it returns false when there is no room) and returns how many
    /// it took.
    pub(super) fn drain(&self, mut send: impl FnMut(u64, u64) -> bool) -> usize {
        let mut nodes = self.nodes.lock();
        let sent = nodes
            .iter()
            .take_while(|(nodeid, nlookup)| send(*nodeid, *nlookup))
            .count();
        nodes.drain(..sent);
        self.len.store(nodes.len(), Ordering::Release);
        sent
    }

    pub(super) fn clear(&self) {
        let mut nodes = self.nodes.lock();
        nodes.clear();
        self.len.store(0, Ordering::Release);
    }

    pub(super) fn len(&self) -> usize {
        self.len.load(Ordering::Acquire)
    }
}

#[cfg(all(test, not(any(fusewire_sync = "loom", fusewire_sync = "shuttle"))))]
mod tests {
    use super::super::model_ring::{Ring, engine};
    use super::super::*;

    #[test]
    fn forgets_that_are_taken_slowly_do_not_pile_up() {
        let ring = Ring::new();
        let engine = engine(&ring, &Clock::manual());
        for nodeid in 2..4 * MAX_FORGETS as u64 {
            ring.set_room(0);
            engine.forget(nodeid, 1);
            ring.set_room(1);
            engine.reserve(None).unwrap();
            assert!(engine.forgets.len() <= MAX_FORGETS);
        }
        assert!(engine.forgets.len() > MAX_FORGETS / 2);
    }

    #[test]
    fn a_peer_that_takes_no_forgets_is_not_waited_for_for_ever() {
        let ring = Ring::new();
        let engine = engine(&ring, &Clock::manual());
        ring.set_room(0);
        let nodeids = 2..4 * MAX_FORGETS as u64;
        let count = nodeids.clone().count();
        for nodeid in nodeids {
            engine.forget(nodeid, 1);
        }
        for _ in 0..3 {
            engine.reserve(None).unwrap();
        }
        assert_eq!(engine.forgets.len(), count);
        // When it takes them at last, all are still there.
        ring.set_room(u32::MAX);
        engine.reserve(None).unwrap();
        assert_eq!(engine.forgets.len(), 0);
        assert_eq!(engine.stats().forgets, count as u64);
    }
}
