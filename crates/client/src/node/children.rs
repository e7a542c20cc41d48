//! Names below a directory: the dentry cache.

use super::Node;
use crate::core::deadline_after;
use fusewire_sync::Arc;
use fusewire_sync::atomic::{AtomicBool, Ordering};
use std::collections::HashMap;
use std::time::Duration;

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
    /// Grows with each local change of the directory; an answer to a question asked before such a
    /// change is used, but not cached.
    version: u64,
}

impl Children {
    /// Removes every name and returns the nodes.
    pub(super) fn take(&mut self) -> Vec<Arc<Node>> {
        self.version += 1;
        std::mem::take(&mut self.names)
            .into_values()
            .filter_map(|dentry| dentry.node)
            .collect()
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
        let children = self.children.read();
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
                version: children.version,
            },
        }
    }

    /// Version for [`Node::cache_child`] of an answer to a question that is asked now.
    pub(crate) fn children_version(&self) -> u64 {
        self.children.read().version
    }

    /// Caches what the peer said of `name` to a question asked at `version`, unless the directory
    /// has changed since. An answer that may not be cached removes what was there.
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
            if children.version != version {
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
        children.version += 1;
        children.names.remove(name).and_then(|dentry| dentry.node)
    }

    /// A local operation that was asked for at `version` has made `node` appear under `name`:
    /// caches that, unless another one has changed the directory meanwhile, which may have taken
    /// the name away again.
    pub(crate) fn adopt_child(
        self: &Arc<Self>,
        name: &[u8],
        node: &Arc<Node>,
        timeout: Duration,
        version: u64,
    ) {
        let (old, now) = {
            let mut children = self.children.write();
            let undisturbed = children.version == version;
            children.version += 1;
            // What was known of the name is over in any case.
            let old = children.names.remove(name);
            (old, undisturbed.then_some(children.version))
        };
        // May be the last reference to a node, so the lock is released first.
        drop(old);
        if let Some(now) = now {
            self.cache_child(name, Some(node), timeout, now);
        }
    }

    /// Forgets every name below.
    pub(crate) fn drop_children(&self) {
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
