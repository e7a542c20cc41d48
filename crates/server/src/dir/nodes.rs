//! What the client knows: nodes by id, each held open by an `O_PATH` descriptor.

use crate::fs::{Errno, Result, Usage};
use fusewire_sync::{Arc, Rank, RwLock};
use fusewire_wire::abi::{FileKind, ROOT_ID};
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use std::collections::HashMap;
use std::collections::hash_map::Entry;

/// Identity of a file on the host. As long as a descriptor holds the file, the pair is not reused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Ident {
    pub dev: u64,
    pub ino: u64,
}

/// A file the client knows.
#[derive(Debug)]
pub(super) struct Node {
    pub id: u64,
    pub kind: FileKind,
    ident: Ident,
    fd: OwnedFd,
}

impl Node {
    /// Inode number on the host.
    pub fn ino(&self) -> u64 {
        self.ident.ino
    }
}

impl AsFd for Node {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

#[derive(Debug)]
struct Known {
    node: Arc<Node>,
    nlookup: u64,
}

#[derive(Debug)]
struct Table {
    by_id: HashMap<u64, Known>,
    by_ident: HashMap<Ident, u64>,
    next_id: u64,
    lookups: u64,
    peak: Usage,
}

impl Table {
    fn usage(&self) -> Usage {
        Usage {
            live_nodes: self.by_id.len() as u64,
            lookups: self.lookups,
            open_handles: 0,
        }
    }
}

/// The table of nodes. Hard links share a node; ids are never reused.
#[derive(Debug)]
pub(super) struct Nodes {
    root: Arc<Node>,
    max: usize,
    table: RwLock<Table>,
}

impl Nodes {
    pub fn new(root: OwnedFd, ident: Ident, max: usize) -> Self {
        Nodes {
            root: Arc::new(Node {
                id: ROOT_ID,
                kind: FileKind::Directory,
                ident,
                fd: root,
            }),
            max,
            table: RwLock::new(
                Rank::LEAF,
                Table {
                    by_id: HashMap::new(),
                    by_ident: HashMap::new(),
                    next_id: ROOT_ID + 1,
                    lookups: 0,
                    peak: Usage::default(),
                },
            ),
        }
    }

    pub fn root(&self) -> &Arc<Node> {
        &self.root
    }

    /// The node `id`; ESTALE when the client does not know it.
    pub fn get(&self, id: u64) -> Result<Arc<Node>> {
        if id == ROOT_ID {
            return Ok(Arc::clone(&self.root));
        }
        match self.table.read().by_id.get(&id) {
            Some(known) => Ok(Arc::clone(&known.node)),
            None => Err(Errno::STALE),
        }
    }

    /// ENFILE when there is no room for another node: asked before something is created, so that
    /// it is not made for nothing.
    pub fn check_room(&self) -> Result<()> {
        if self.table.read().by_id.len() < self.max {
            Ok(())
        } else {
            Err(Errno::NFILE)
        }
    }

    /// Counts a lookup of the file that `fd` (`O_PATH`) holds and returns its node id. ENFILE when
    /// the client would know too many: it has to forget some first.
    pub fn remember(&self, fd: OwnedFd, ident: Ident, kind: FileKind) -> Result<u64> {
        if ident == self.root.ident {
            return Ok(ROOT_ID);
        }
        let mut guard = self.table.write();
        let table = &mut *guard;
        let full = table.by_id.len() >= self.max;
        let remembered = match table.by_ident.entry(ident) {
            Entry::Occupied(entry) => {
                let id = *entry.get();
                if let Some(known) = table.by_id.get_mut(&id) {
                    known.nlookup += 1;
                    table.lookups += 1;
                }
                // `fd`, a second descriptor of the same file, is closed after the lock.
                Ok(id)
            }
            Entry::Vacant(_) if full => Err(Errno::NFILE),
            Entry::Vacant(entry) => {
                let id = table.next_id;
                table.next_id += 1;
                table.lookups += 1;
                entry.insert(id);
                let node = Arc::new(Node {
                    id,
                    kind,
                    ident,
                    fd,
                });
                table.by_id.insert(id, Known { node, nlookup: 1 });
                Ok(id)
            }
        };
        table.peak = table.peak.most(table.usage());
        remembered
    }

    /// Takes lookups back; the last one lets the file go.
    pub fn forget(&self, id: u64, nlookup: u64) {
        let gone = {
            let mut table = self.table.write();
            let Some(known) = table.by_id.get_mut(&id) else {
                return;
            };
            let taken = nlookup.min(known.nlookup);
            known.nlookup -= taken;
            let unused = known.nlookup == 0;
            table.lookups -= taken;
            if !unused {
                return;
            }
            let gone = table.by_id.remove(&id);
            if let Some(known) = &gone {
                table.by_ident.remove(&known.node.ident);
            }
            gone
        };
        // Closing can take its time: after the lock.
        drop(gone);
    }

    pub fn forget_all(&self) {
        let gone = {
            let mut table = self.table.write();
            table.by_ident.clear();
            table.lookups = 0;
            table.peak = Usage::default();
            std::mem::take(&mut table.by_id)
        };
        drop(gone);
    }

    pub fn usage(&self) -> Usage {
        self.table.read().usage()
    }

    /// The most of each at once.
    pub fn peak(&self) -> Usage {
        self.table.read().peak
    }
}
