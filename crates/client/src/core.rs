//! What all nodes and files of one client share.

use crate::access::Checks;
use crate::cred::Cred;
use crate::local_locks::LocalLocks;
use crate::node::{Listings, Node, NodeTable};
use crate::notify::Notifications;
use crate::poll::Polls;
use crate::rpc::{Peer, Rpc};
use fusewire_sync::atomic::{AtomicU64, Ordering};
use fusewire_sync::time::Clock;
use fusewire_sync::{Arc, Gauge, Mutex, Rank, Weak, thread};
use rustix::io::Errno;
use std::collections::VecDeque;
use std::time::Duration;

/// How many names go when the peer runs out of descriptors.
const SHRINK_STEP: usize = 1024;
/// How long each new try waits when it has.
const DESCRIPTOR_PAUSES: [Duration; 6] = [
    Duration::ZERO,
    Duration::from_millis(1),
    Duration::from_millis(2),
    Duration::from_millis(4),
    Duration::from_millis(8),
    Duration::from_millis(16),
];

/// The shared state below the API. Nodes hold it, so it holds no node.
#[derive(Debug)]
pub(crate) struct Core {
    pub(crate) peer: Peer,
    pub(crate) nodes: NodeTable,
    pub(crate) dentries: DentryLimit,
    pub(crate) notifications: Notifications,
    pub(crate) checks: Checks,
    pub(crate) polls: Polls,
    /// Those that the peer does not keep.
    pub(crate) locks: LocalLocks,
    pub(crate) live_nodes: Gauge,
    pub(crate) open_handles: Gauge,
    pub(crate) listings: Listings,
    clock: Clock,
    attr_version: AtomicU64,
}

impl Core {
    pub(crate) fn new(peer: Peer, max_cached_nodes: usize, checks: Checks) -> Arc<Self> {
        let clock = peer.engine().clock().clone();
        Arc::new(Core {
            peer,
            nodes: NodeTable::new(),
            dentries: DentryLimit::new(max_cached_nodes),
            notifications: Notifications::new(),
            checks,
            polls: Polls::new(),
            locks: LocalLocks::new(),
            live_nodes: Gauge::new(),
            open_handles: Gauge::new(),
            listings: Listings::new(),
            clock,
            attr_version: AtomicU64::new(1),
        })
    }

    /// The protocol, on behalf of `cred`.
    pub(crate) fn rpc<'a>(&'a self, cred: &'a Cred) -> Rpc<'a> {
        self.peer.rpc(cred.caller, Some(&cred.token))
    }

    /// Runs `request`; when the peer is out of descriptors, of which it may hold one per node,
    /// gives nodes back and tries again. The peer takes FORGETs when it comes to it, so further
    /// tries wait a little.
    pub(crate) fn with_descriptors<T>(
        &self,
        request: impl Fn() -> Result<T, Errno>,
    ) -> Result<T, Errno> {
        for pause in DESCRIPTOR_PAUSES {
            match request() {
                Err(Errno::NFILE | Errno::MFILE) => {
                    self.dentries.shrink(SHRINK_STEP);
                    self.peer.engine().flush_forgets();
                    thread::sleep(pause);
                }
                result => return result,
            }
        }
        request()
    }

    pub(crate) fn now_ns(&self) -> u64 {
        self.clock.now_ns()
    }

    /// Number to note before a request whose reply carries attributes.
    pub(crate) fn attr_version(&self) -> u64 {
        self.attr_version.load(Ordering::Acquire)
    }

    /// Number of a change made now.
    pub(crate) fn next_attr_version(&self) -> u64 {
        self.attr_version.fetch_add(1, Ordering::AcqRel) + 1
    }
}

/// End of a validity that starts now; rounded so that it never passes for "for ever" by overflow.
pub(crate) fn deadline_after(now_ns: u64, timeout: Duration) -> u64 {
    let ns = u64::try_from(timeout.as_nanos()).unwrap_or(u64::MAX);
    now_ns.saturating_add(ns).min(u64::MAX - 1)
}

/// Bounds the number of cached names: second chance in order of arrival, so that a look-up only
/// sets a bit.
#[derive(Debug)]
pub(crate) struct DentryLimit {
    max: usize,
    order: Mutex<VecDeque<CachedName>>,
}

/// A directory and a name in it.
type CachedName = (Weak<Node>, Box<[u8]>);

impl DentryLimit {
    fn new(max: usize) -> Self {
        DentryLimit {
            max: max.max(1),
            order: Mutex::new(Rank::DENTRY_LRU, VecDeque::new()),
        }
    }

    /// `name` was added to `dir`; evicts others when there are too many.
    pub(crate) fn added(&self, dir: &Arc<Node>, name: &[u8]) {
        let mut excess = {
            let mut order = self.order.lock();
            order.push_back((Arc::downgrade(dir), name.into()));
            order.len().saturating_sub(self.max)
        };
        // Two rounds: in the first, a name may have been used.
        let mut tries = excess * 2;
        while excess > 0 && tries > 0 {
            tries -= 1;
            excess -= usize::from(self.evict_one());
        }
    }

    /// Looks at the oldest name and returns whether it is gone.
    fn evict_one(&self) -> bool {
        let Some((dir, name)) = self.order.lock().pop_front() else {
            return true;
        };
        let Some(node) = dir.upgrade() else {
            return true;
        };
        if node.evict_child(&name) {
            self.order.lock().push_back((dir, name));
            return false;
        }
        true
    }

    /// Names under watch, some of which may be gone already.
    pub(crate) fn len(&self) -> usize {
        self.order.lock().len()
    }

    /// Evicts up to `n` names, used or not: the peer runs out of descriptors.
    pub(crate) fn shrink(&self, n: usize) {
        for _ in 0..2 * n {
            if self.order.lock().is_empty() {
                return;
            }
            self.evict_one();
        }
    }
}
