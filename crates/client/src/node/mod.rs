//! Nodes: what is known of the peer's files, and how many references to them we owe it.
//!
//! A node lives as long as something refers to it: a cached name, an open file, a request in
//! flight. When the last reference goes, every lookup that the peer counted for it is given back
//! in one FORGET. So conservation of lookups follows from ownership.

mod attr;
mod children;
mod listing;
mod table;

pub(crate) use attr::AttrReply;
pub(crate) use children::Cached;
pub(crate) use listing::{Listed, Listing, Listings, Recording};
pub(crate) use table::NodeTable;

use crate::core::Core;
use crate::engine::Keep;
use crate::iomode::IoMode;
use crate::rpc::Target;
use crate::turn::Turn;
use attr::AttrCache;
use children::Children;
use fusewire_sync::atomic::{AtomicBool, AtomicU64, Ordering};
use fusewire_sync::{Arc, Mutex, Rank, RwLock};
use fusewire_wire::abi::{Attr, FileKind};
use fusewire_wire::{AttrFlags, InitFlags};

/// Number of the root at every peer.
pub(crate) const ROOT_ID: u64 = 1;

/// A file, directory or whatever else the peer knows under one number.
pub(crate) struct Node {
    nodeid: u64,
    generation: u64,
    kind: FileKind,
    /// Node at the top of the file system it is in: the root, or that of a submount.
    mount: AtomicU64,
    /// References the peer has counted for us.
    nlookup: AtomicU64,
    /// The peer has given the number to another object: nothing more can be asked about this one.
    stale: AtomicBool,
    /// Whether fcntl(2) locks were ever taken on it: whoever closes it has to end some.
    record_locks: AtomicBool,
    /// Whether it is in cached use.
    pub(crate) io_mode: IoMode,
    attr: Mutex<AttrCache>,
    children: RwLock<Children>,
    listing: Mutex<listing::Slot>,
    /// Something in it was looked at since it was listed: attributes are of use.
    looked_into: AtomicBool,
    /// For LOOKUP and READDIR when the peer wants one at a time in a directory, for a write to a file,
    /// unless such writes may go on side by side, and for a change of its size.
    pub(crate) turn: Turn,
    core: Arc<Core>,
}

impl std::fmt::Debug for Node {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Node")
            .field("nodeid", &self.nodeid)
            .field("kind", &self.kind)
            .finish_non_exhaustive()
    }
}

impl Node {
    fn new(core: &Arc<Core>, nodeid: u64, generation: u64, kind: FileKind, nlookup: u64) -> Self {
        core.live_nodes.add(1);
        Node {
            nodeid,
            generation,
            kind,
            mount: AtomicU64::new(ROOT_ID),
            nlookup: AtomicU64::new(nlookup),
            stale: AtomicBool::new(false),
            record_locks: AtomicBool::new(false),
            io_mode: IoMode::new(),
            attr: Mutex::new(Rank::NODE_ATTR, AttrCache::new()),
            listing: Mutex::new(Rank::LEAF, listing::Slot::default()),
            looked_into: AtomicBool::new(false),
            children: RwLock::new(Rank::NODE_CHILDREN, Children::default()),
            turn: Turn::new(),
            core: Arc::clone(core),
        }
    }

    /// The root, which needs no lookup and is never forgotten.
    pub(crate) fn root(core: &Arc<Core>) -> Arc<Self> {
        let node = Arc::new(Node::new(core, ROOT_ID, 0, FileKind::Directory, 0));
        core.nodes.insert_root(&node);
        node
    }

    pub(crate) fn kind(&self) -> FileKind {
        self.kind
    }

    pub(crate) fn is_dir(&self) -> bool {
        self.kind == FileKind::Directory
    }

    /// Node at the top of the file system it is in.
    pub(crate) fn mount(&self) -> u64 {
        self.mount.load(Ordering::Relaxed)
    }

    /// Whether it is the top of a submount.
    pub(crate) fn is_submount(&self) -> bool {
        self.nodeid != ROOT_ID && self.mount() == self.nodeid
    }

    /// It was found in `dir`, with these attributes.
    pub(crate) fn found_in(&self, dir: &Node, attr: &Attr) {
        let flags = AttrFlags::from_bits_retain(attr.flags);
        let announced = self.core.peer.negotiated().flags;
        let top = self.is_dir()
            && flags.contains(AttrFlags::SUBMOUNT)
            && announced.contains(InitFlags::SUBMOUNTS);
        let mount = if top { self.nodeid } else { dir.mount() };
        self.mount.store(mount, Ordering::Relaxed);
    }

    pub(crate) fn core(&self) -> &Arc<Core> {
        &self.core
    }

    /// From now on there may be fcntl(2) locks to be ended.
    pub(crate) fn has_record_locks(&self) {
        self.record_locks.store(true, Ordering::Release);
    }

    pub(crate) fn may_have_record_locks(&self) -> bool {
        self.record_locks.load(Ordering::Acquire)
    }

    /// Something in the directory is looked at.
    pub(crate) fn look_into(&self) {
        if !self.looked_into.load(Ordering::Relaxed) {
            self.looked_into.store(true, Ordering::Relaxed);
        }
    }

    /// Whether that has happened since the last time.
    pub(crate) fn was_looked_into(&self) -> bool {
        self.looked_into.swap(false, Ordering::Relaxed)
    }

    pub(crate) fn is_stale(&self) -> bool {
        self.stale.load(Ordering::Acquire)
    }
}

impl Target for Arc<Node> {
    fn nodeid(&self) -> u64 {
        self.nodeid
    }

    fn keep(&self) -> Arc<dyn Keep> {
        Arc::clone(self) as Arc<dyn Keep>
    }
}

impl Keep for Node {
    fn answered_late(&self) {
        self.expire_attr();
        self.drop_children();
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        self.drop_listing();
        self.core.nodes.remove(self.nodeid);
        self.core.live_nodes.sub(1);
        self.core
            .peer
            .engine()
            .forget(self.nodeid, self.nlookup.load(Ordering::Acquire));
        // A deep tree must not be dropped by recursion.
        let mut pending = self.children_mut().take();
        while let Some(node) = pending.pop() {
            if let Some(mut node) = Arc::into_inner(node) {
                pending.append(&mut node.children_mut().take());
            }
        }
    }
}

#[cfg(all(test, not(any(fusewire_sync = "loom", fusewire_sync = "shuttle"))))]
mod tests {
    use crate::Client;
    use fusewire_server::mem::{MemOptions, Memory};
    use fusewire_server::{ServerOptions, start};

    #[test]
    fn nodes_that_go_with_the_directory_above_leave_the_table() {
        let fs = Memory::new(MemOptions::default());
        let (transport, _server) = start(fs, &ServerOptions::default()).unwrap();
        let client = Client::builder()
            .max_cached_nodes(16)
            .connect(transport)
            .unwrap();
        for dir in 0..8 {
            client.create_dir(format!("/{dir}")).unwrap();
            for file in 0..12 {
                client.write(format!("/{dir}/{file}"), "").unwrap();
            }
        }
        let core = client.core();
        assert!(core.live_nodes.get() < 40);
        assert_eq!(core.nodes.len() as u64, core.live_nodes.get());
        client.drop_caches();
        // A node stays until its last RELEASE is answered.
        while core.live_nodes.get() > 1 {
            std::thread::yield_now();
        }
        assert_eq!(core.nodes.len(), 1);
    }
}
