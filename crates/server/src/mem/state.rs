//! All inodes and handles, and the rules of their lives.

use super::blocks::{BLOCK_BYTES, Space};
use super::inode::{Body, Dir, Inode, Time};
use crate::fs::{Errno, Result, Usage};
use fusewire_wire::abi::ROOT_ID;
use std::collections::{BTreeMap, HashMap};

/// An open file or directory.
#[derive(Clone, Copy, Debug)]
pub(super) struct Handle {
    pub ino: u64,
    pub access: Access,
}

/// What a handle may be used for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Access {
    File {
        read: bool,
        write: bool,
        append: bool,
    },
    Dir,
}

#[derive(Debug)]
pub(super) struct State {
    pub inodes: HashMap<u64, Inode>,
    pub space: Space,
    pub max_inodes: u64,
    next_ino: u64,
    handles: HashMap<u64, Handle>,
    next_fh: u64,
    /// Nothing is opened: requests name nodes alone.
    stateless: bool,
    live_nodes: u64,
    lookups: u64,
    peak: Usage,
}

impl State {
    pub fn new(capacity_bytes: u64, max_inodes: u64, now: Time) -> Self {
        let mut state = State {
            inodes: HashMap::new(),
            space: Space {
                used: 0,
                max: capacity_bytes / BLOCK_BYTES,
            },
            max_inodes,
            next_ino: ROOT_ID,
            handles: HashMap::new(),
            next_fh: 1,
            stateless: false,
            live_nodes: 0,
            lookups: 0,
            peak: Usage::default(),
        };
        let root = state.add(0o040_755, Body::Dir(Dir::new(ROOT_ID)), now);
        state.inode_mut(root).nlink = 2;
        state
    }

    /// From now on nothing is opened.
    pub fn make_stateless(&mut self) {
        self.stateless = true;
    }

    /// A new inode without a name. The caller has checked [`State::check_room`].
    pub fn add(&mut self, mode: u32, body: Body, now: Time) -> u64 {
        let ino = self.next_ino;
        self.next_ino += 1;
        self.inodes.insert(
            ino,
            Inode {
                mode,
                uid: 0,
                gid: 0,
                nlink: 0,
                rdev: 0,
                atime: now,
                mtime: now,
                ctime: now,
                btime: now,
                lookups: 0,
                opens: 0,
                linkable: false,
                iflags: 0,
                submount: false,
                xattrs: BTreeMap::new(),
                body,
            },
        );
        ino
    }

    /// ENOSPC when there can be no further inode.
    pub fn check_room(&self) -> Result<()> {
        if (self.inodes.len() as u64) < self.max_inodes {
            Ok(())
        } else {
            Err(Errno::NOSPC)
        }
    }

    /// An inode that a name or a handle refers to, which therefore exists.
    pub fn inode(&self, ino: u64) -> &Inode {
        &self.inodes[&ino]
    }

    pub fn inode_mut(&mut self, ino: u64) -> &mut Inode {
        self.inodes
            .get_mut(&ino)
            .expect("an inode lives as long as something refers to it")
    }

    /// ESTALE unless the client has looked `ino` up.
    pub fn check_known(&self, ino: u64) -> Result<()> {
        match self.inodes.get(&ino) {
            Some(inode) if ino == ROOT_ID || inode.lookups > 0 => Ok(()),
            _ => Err(Errno::STALE),
        }
    }

    /// Counts a lookup.
    pub fn remember(&mut self, ino: u64) {
        if ino == ROOT_ID {
            return;
        }
        let inode = self.inode_mut(ino);
        inode.lookups += 1;
        let first = inode.lookups == 1;
        self.live_nodes += u64::from(first);
        self.lookups += 1;
        self.peak = self.peak.most(self.usage());
    }

    /// Takes lookups back.
    pub fn forget(&mut self, ino: u64, nlookup: u64) {
        let Some(inode) = self.inodes.get_mut(&ino) else {
            return;
        };
        let taken = nlookup.min(inode.lookups);
        inode.lookups -= taken;
        self.lookups -= taken;
        if taken > 0 && inode.lookups == 0 {
            self.live_nodes -= 1;
            self.reap(ino);
        }
    }

    /// Frees an inode that nothing refers to any more.
    pub fn reap(&mut self, ino: u64) {
        let unused = self
            .inodes
            .get(&ino)
            .is_some_and(|i| i.nlink == 0 && i.lookups == 0 && i.opens == 0);
        if unused
            && let Some(Inode {
                body: Body::File { blocks, .. },
                ..
            }) = self.inodes.remove(&ino)
        {
            self.space.used -= blocks.len();
        }
    }

    pub fn open(&mut self, ino: u64, access: Access) -> u64 {
        self.inode_mut(ino).opens += 1;
        let fh = self.next_fh;
        self.next_fh += 1;
        self.handles.insert(fh, Handle { ino, access });
        self.peak = self.peak.most(self.usage());
        fh
    }

    /// What is open as `fh` on `node`: anything on a known node, when nothing is ever opened. EBADF
    /// when it is not open.
    pub fn handle(&self, node: u64, fh: u64) -> Result<Handle> {
        if !self.stateless {
            return self.handles.get(&fh).copied().ok_or(Errno::BADF);
        }
        self.check_known(node)?;
        let access = match self.inode(node).body {
            Body::Dir(_) => Access::Dir,
            _ => Access::File {
                read: true,
                write: true,
                append: false,
            },
        };
        Ok(Handle { ino: node, access })
    }

    pub fn close(&mut self, fh: u64) -> Result<()> {
        let handle = self.handles.remove(&fh).ok_or(Errno::BADF)?;
        self.inode_mut(handle.ino).opens -= 1;
        self.reap(handle.ino);
        Ok(())
    }

    /// The client is gone: its lookups and handles too.
    pub fn forget_client(&mut self) {
        self.handles.clear();
        self.live_nodes = 0;
        self.lookups = 0;
        self.peak = Usage::default();
        let all: Vec<u64> = self.inodes.keys().copied().collect();
        for ino in all {
            let inode = self.inode_mut(ino);
            inode.lookups = 0;
            inode.opens = 0;
            self.reap(ino);
        }
    }

    /// The most of each at once, since the client began.
    pub fn peak(&self) -> Usage {
        self.peak
    }

    pub fn usage(&self) -> Usage {
        Usage {
            live_nodes: self.live_nodes,
            lookups: self.lookups,
            open_handles: self.handles.len() as u64,
        }
    }

    /// Whether the directory `above` is `below` or one of its ancestors.
    pub fn is_ancestor(&self, above: u64, below: u64) -> bool {
        let mut at = below;
        loop {
            if at == above {
                return true;
            }
            match &self.inode(at).body {
                Body::Dir(dir) if at != ROOT_ID => match self.inodes.contains_key(&dir.parent) {
                    true => at = dir.parent,
                    false => return false,
                },
                _ => return false,
            }
        }
    }
}
