//! Names below a directory: the dentry cache.

use super::Node;
use crate::core::deadline_after;
use fusewire_sync::Arc;
use fusewire_sync::atomic::{AtomicBool, Ordering};
use std::collections::{HashMap, HashSet, VecDeque};
use std::hash::BuildHasher;
use std::time::Duration;

/// How many changes of a directory are remembered: more than many threads make while one of them
/// waits for an answer.
const REMEMBERED_CHANGES: usize = 128;

/// A cached name.
#[derive(Debug)]
pub(crate) struct Dentry {
    /// The node; `None`: the name does not exist.
    node: Option<Arc<Node>>,
    expires_ns: u64,
    /// Used since the evictor came by.
    referenced: AtomicBool,
}

/// Cached names of one directory.
#[derive(Debug, Default)]
pub(crate) struct Children {
    names: HashMap<Box<[u8]>, Dentry>,
    changes: Changes,
    /// When all names were last known not to be stale as a whole.
    epoch: u64,
}

impl Children {
    fn changed(&mut self, name: &[u8]) {
        self.changes.add(self.names.hasher().hash_one(name));
    }

    /// Whether what the peer said of `name` to a question asked at `version` is still the last
    /// that is known.
    fn unchanged_since(&self, name: &[u8], version: u64) -> bool {
        let hash = self.names.hasher().hash_one(name);
        self.changes.spared_since(hash, version)
    }

    /// Makes names of an earlier epoch stale, and answers to questions asked then.
    fn enter(&mut self, epoch: u64) {
        if self.epoch != epoch {
            self.epoch = epoch;
            self.changes.add_all();
            for dentry in self.names.values_mut() {
                dentry.expires_ns = 0;
            }
        }
    }

    /// Removes every name and returns the nodes.
    pub(super) fn take(&mut self) -> Vec<Arc<Node>> {
        self.changes.add_all();
        std::mem::take(&mut self.names)
            .into_values()
            .filter_map(|dentry| dentry.node)
            .collect()
    }
}

/// Local changes of a directory. An answer to a question that was asked before its name changed is
/// used, but not cached; changes of other names, which other threads make all the time, do it no
/// harm.
#[derive(Debug, Default)]
struct Changes {
    /// Number of the last change.
    version: u64,
    /// Hashes of the names that changed last, one for each number up to `version`.
    recent: VecDeque<u64>,
}

impl Changes {
    fn add(&mut self, name_hash: u64) {
        self.version += 1;
        if self.recent.len() == REMEMBERED_CHANGES {
            self.recent.pop_front();
        }
        self.recent.push_back(name_hash);
    }

    fn add_all(&mut self) {
        self.version += 1;
        self.recent.clear();
    }

    /// Whether none of the changes after `version` was of this name; false if that is not known.
    fn spared_since(&self, name_hash: u64, version: u64) -> bool {
        let since = self.version.saturating_sub(version);
        usize::try_from(since).is_ok_and(|since| {
            let mut changed = self.recent.iter().rev().take(since);
            since <= self.recent.len() && changed.all(|hash| *hash != name_hash)
        })
    }
}

/// What the cache says of a name.
#[derive(Debug)]
pub(crate) enum Cached {
    /// It is this node.
    Node(Arc<Node>),
    /// It does not exist.
    Absent,
    /// Nothing: ask the peer, and tell the cache with this version.
    Unknown { version: u64 },
}

impl Node {
    pub(super) fn children_mut(&mut self) -> &mut Children {
        self.children.get_mut()
    }

    /// Looks `name` up in the cache.
    pub(crate) fn cached_child(&self, name: &[u8]) -> Cached {
        let now_ns = self.core.now_ns();
        let epoch = self.core.notifications.epoch();
        let mut children = self.children.read();
        if children.epoch != epoch {
            drop(children);
            self.children.write().enter(epoch);
            children = self.children.read();
        }
        match children.names.get(name) {
            Some(dentry) if dentry.expires_ns > now_ns => {
                if !dentry.referenced.load(Ordering::Relaxed) {
                    dentry.referenced.store(true, Ordering::Relaxed);
                }
                match &dentry.node {
                    Some(node) => Cached::Node(Arc::clone(node)),
                    None => Cached::Absent,
                }
            }
            _ => Cached::Unknown {
                version: children.changes.version,
            },
        }
    }

    /// Version for [`Node::cache_child`] of an answer to a question that is asked now.
    pub(crate) fn children_version(&self) -> u64 {
        self.children.read().changes.version
    }

    /// Caches what the peer said of `name` to a question asked at `version`, unless the name has
    /// changed since. An answer that may not be cached removes what was there.
    pub(crate) fn cache_child(
        self: &Arc<Self>,
        name: &[u8],
        node: Option<&Arc<Node>>,
        timeout: Duration,
        version: u64,
    ) {
        let now_ns = self.core.now_ns();
        let expires_ns = deadline_after(now_ns, timeout);
        let mut fresh = false;
        let old = {
            let mut children = self.children.write();
            children.enter(self.core.notifications.epoch());
            if !children.unchanged_since(name, version) {
                return;
            }
            if expires_ns <= now_ns {
                children.names.remove(name)
            } else {
                let dentry = Dentry {
                    node: node.cloned(),
                    expires_ns,
                    referenced: AtomicBool::new(false),
                };
                let old = children.names.insert(name.into(), dentry);
                fresh = old.is_none();
                old
            }
        };
        // May be the last reference to a node, so the lock is released first.
        drop(old);
        if fresh {
            self.core.dentries.added(self, name);
        }
    }

    /// A local operation has changed what `name` is: forgets what is cached of it.
    pub(crate) fn forget_child(&self, name: &[u8]) -> Option<Arc<Node>> {
        let mut children = self.children.write();
        children.changed(name);
        children.names.remove(name).and_then(|dentry| dentry.node)
    }

    /// A local operation that was asked for at `version` has made `node` appear under `name`:
    /// caches that, unless another one has changed the name meanwhile, and so may have taken it
    /// away again.
    pub(crate) fn adopt_child(
        self: &Arc<Self>,
        name: &[u8],
        node: &Arc<Node>,
        timeout: Duration,
        version: u64,
    ) {
        let (old, now) = {
            let mut children = self.children.write();
            let undisturbed = children.unchanged_since(name, version);
            children.changed(name);
            // What was known of the name is over in any case.
            let old = children.names.remove(name);
            (old, undisturbed.then_some(children.changes.version))
        };
        // May be the last reference to a node, so the lock is released first.
        drop(old);
        if let Some(now) = now {
            self.cache_child(name, Some(node), timeout, now);
        }
    }

    /// The peer says that `name` may mean something else by now: it is looked up anew, and an answer
    /// that is under way is not cached. Returns whether anything was cached of it.
    pub(crate) fn expire_child(&self, name: &[u8]) -> bool {
        let mut children = self.children.write();
        children.changed(name);
        match children.names.get_mut(name) {
            Some(dentry) => {
                dentry.expires_ns = 0;
                true
            }
            None => false,
        }
    }

    /// Forgets `name`, unless it was looked up since it expired.
    pub(crate) fn drop_expired_child(&self, name: &[u8]) {
        let dropped = {
            let mut children = self.children.write();
            match children.names.get(name) {
                Some(dentry) if dentry.expires_ns == 0 => children.names.remove(name),
                _ => None,
            }
        };
        drop(dropped);
    }

    /// The node under `name`, stale or not.
    pub(crate) fn child(&self, name: &[u8]) -> Option<Arc<Node>> {
        self.children.read().names.get(name)?.node.clone()
    }

    /// Whether a name below is known that something is under.
    pub(crate) fn has_children(&self) -> bool {
        let now_ns = self.core.now_ns();
        let children = self.children.read();
        let mut names = children.names.values();
        names.any(|dentry| dentry.node.is_some() && dentry.expires_ns > now_ns)
    }

    /// Forgets the names of these nodes.
    pub(super) fn drop_children_among(&self, nodeids: &HashSet<u64>) {
        let dropped: Vec<_> = {
            let mut children = self.children.write();
            let among = |dentry: &mut Dentry| {
                dentry
                    .node
                    .as_ref()
                    .is_some_and(|n| nodeids.contains(&n.nodeid))
            };
            let gone = children.names.extract_if(|_, dentry| among(dentry));
            gone.collect()
        };
        drop(dropped);
    }

    /// Forgets every name below.
    pub(crate) fn drop_children(&self) {
        self.drop_listing();
        let nodes = self.children.write().take();
        drop(nodes);
    }

    /// Removes `name` for want of room, unless it was used since the last time. Returns whether it
    /// is still there.
    pub(crate) fn evict_child(&self, name: &[u8]) -> bool {
        let evicted = {
            let mut children = self.children.write();
            match children.names.get(name) {
                None => return false,
                Some(dentry) if dentry.referenced.swap(false, Ordering::Relaxed) => return true,
                Some(_) => children.names.remove(name),
            }
        };
        drop(evicted);
        false
    }
}

#[cfg(all(test, not(any(fusewire_sync = "loom", fusewire_sync = "shuttle"))))]
mod tests {
    use super::*;

    #[test]
    fn only_changes_of_the_name_itself_count() {
        let mut changes = Changes::default();
        let asked = changes.version;
        assert!(changes.spared_since(1, asked));
        changes.add(2);
        changes.add(3);
        assert!(changes.spared_since(1, asked));
        assert!(!changes.spared_since(2, asked));
        assert!(!changes.spared_since(3, asked));
        let later = changes.version;
        assert!(changes.spared_since(2, later), "it changed before");
        changes.add(1);
        assert!(!changes.spared_since(1, asked) && !changes.spared_since(1, later));
    }

    #[test]
    fn what_is_forgotten_may_have_changed() {
        let mut changes = Changes::default();
        let asked = changes.version;
        for other in 0..REMEMBERED_CHANGES as u64 {
            changes.add(other);
        }
        assert!(changes.spared_since(1000, asked));
        changes.add(0);
        assert!(!changes.spared_since(1000, asked));
        assert_eq!(changes.recent.len(), REMEMBERED_CHANGES);
        let asked = changes.version;
        changes.add_all();
        changes.add(1);
        assert!(!changes.spared_since(1000, asked));
        assert!(changes.spared_since(1000, changes.version));
    }
}
