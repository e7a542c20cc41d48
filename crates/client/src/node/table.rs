//! All known nodes, by number.

use super::{Node, ROOT_ID};
use crate::core::Core;
use fusewire_sync::atomic::Ordering;
use fusewire_sync::{Arc, Mutex, Rank, Weak};
use fusewire_wire::abi::EntryOut;
use rustix::io::Errno;
use std::collections::{HashMap, HashSet};

/// Finds the node that a reply names, so that two names of one file share it.
#[derive(Debug)]
pub(crate) struct NodeTable {
    nodes: Mutex<HashMap<u64, Weak<Node>>>,
}

impl NodeTable {
    pub(crate) fn new() -> Self {
        NodeTable {
            nodes: Mutex::new(Rank::NODE_TABLE, HashMap::new()),
        }
    }

    pub(super) fn insert_root(&self, root: &Arc<Node>) {
        self.nodes.lock().insert(ROOT_ID, Arc::downgrade(root));
    }

    /// The node of an entry that the peer has just counted a lookup for. Whatever the outcome, the
    /// lookup is accounted for: in the node, or by a FORGET.
    ///
    /// # Errors
    /// EIO when the entry names the root, or is of no known type.
    pub(crate) fn adopt(&self, core: &Arc<Core>, entry: &EntryOut) -> Result<Arc<Node>, Errno> {
        if entry.nodeid == ROOT_ID {
            // The root is not below itself; Linux takes this for a broken daemon, too.
            return Err(Errno::IO);
        }
        let Ok(kind) = entry.attr.kind() else {
            core.peer.engine().forget(entry.nodeid, 1);
            return Err(Errno::IO);
        };
        // Dropped after the lock: it may be the last reference.
        let known;
        {
            let mut nodes = self.nodes.lock();
            known = nodes.get(&entry.nodeid).and_then(Weak::upgrade);
            match &known {
                Some(node) if node.generation == entry.generation && node.kind == kind => {
                    node.nlookup.fetch_add(1, Ordering::AcqRel);
                }
                _ => {
                    // The peer has given the number to another object.
                    if let Some(old) = &known {
                        old.stale.store(true, Ordering::Release);
                    }
                    let node = Node::new(core, entry.nodeid, entry.generation, kind, 1);
                    let node = Arc::new(node);
                    nodes.insert(entry.nodeid, Arc::downgrade(&node));
                    return Ok(node);
                }
            }
        }
        known.ok_or(Errno::IO)
    }

    /// The node with that number, if it is known.
    pub(crate) fn get(&self, nodeid: u64) -> Option<Arc<Node>> {
        self.nodes.lock().get(&nodeid).and_then(Weak::upgrade)
    }

    /// Forgets every cached name of the nodes with these numbers.
    pub(crate) fn drop_names_of(&self, nodeids: &HashSet<u64>) {
        for node in self.all() {
            node.drop_children_among(nodeids);
        }
    }

    /// Has those who wait for others at a node look whether they still want to.
    pub(crate) fn wake_waiting(&self) {
        for node in self.all() {
            node.turn.wake_waiting();
            node.io_mode.wake_waiting();
        }
    }

    fn all(&self) -> Vec<Arc<Node>> {
        let nodes = self.nodes.lock();
        nodes.values().filter_map(Weak::upgrade).collect()
    }

    /// Forgets every cached name below every node. The names below the root alone would not do:
    /// directories that somebody else moves about may hold each other.
    pub(crate) fn drop_names(&self) {
        for node in self.all() {
            node.drop_children();
        }
    }

    /// A node goes: its number no longer leads to it, unless it leads to another one by now. (By its
    /// address it cannot be told: a node that goes with the directory above it has been moved.)
    pub(super) fn remove(&self, nodeid: u64) {
        let mut nodes = self.nodes.lock();
        if nodes
            .get(&nodeid)
            .is_some_and(|weak| weak.strong_count() == 0)
        {
            nodes.remove(&nodeid);
        }
    }

    /// Numbers in the table, that of the root included.
    #[cfg(all(test, not(any(fusewire_sync = "loom", fusewire_sync = "shuttle"))))]
    pub(super) fn len(&self) -> usize {
        self.nodes.lock().len()
    }
}
