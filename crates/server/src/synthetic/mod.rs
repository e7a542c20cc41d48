//! Trees that exist by rule alone: as wide, deep or crooked as a program must be able to stand.
//!
//! Nothing is stored for a file that nobody has looked up, so a tree may be endless. Directories
//! can be read, files can be read and removed; nothing can be made. What a client held at most is
//! counted, to see whether it holds on to what it has seen.

mod fixed;
mod shape;

pub use shape::Shape;

use crate::caching::Caching;
use crate::fs::{Call, Errno, Features, FileSystem, MAX_WRITE_BYTES, Reply, Result, Usage};
use fusewire_sync::{Mutex, Rank};
use fusewire_wire::abi::{Attr, EntryOut, FileKind, Kstatfs, OpenOut, ROOT_ID, ReadIn, StatfsOut};
use fusewire_wire::dirent::{DirentPlusWriter, DirentWriter, Entry};
use fusewire_wire::{InitFlags, Request};
use std::collections::{BTreeSet, HashMap};

/// Options of a [`Synthetic`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SyntheticOptions {
    /// What the client may cache. Default [`Caching::auto`].
    pub caching: Caching,
    /// Whether READDIRPLUS is offered. Default on.
    pub readdirplus: bool,
}

impl Default for SyntheticOptions {
    fn default() -> Self {
        SyntheticOptions {
            caching: Caching::auto(),
            readdirplus: true,
        }
    }
}

/// A tree that exists by rule; see the [module](self).
#[derive(Debug)]
pub struct Synthetic {
    shape: Shape,
    options: SyntheticOptions,
    owner: (u32, u32),
    state: Mutex<State>,
}

/// Something in a directory.
#[derive(Debug)]
pub(crate) struct Child {
    pub(crate) name: Vec<u8>,
    pub(crate) node: u64,
    /// What the directory says that it is.
    pub(crate) listed: FileKind,
}

/// What a node is.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Facts {
    pub(crate) kind: FileKind,
    /// What is said of its size, in bytes.
    pub(crate) size: u64,
    /// Blocks of 512 bytes.
    pub(crate) blocks: u64,
    /// Bytes that can be read.
    pub(crate) contents: u64,
    /// A hole is said to be behind every byte.
    pub(crate) holes_everywhere: bool,
}

impl Facts {
    pub(crate) fn of(kind: FileKind) -> Self {
        let contents = if kind == FileKind::Regular { 10 } else { 0 };
        Facts {
            kind,
            size: contents,
            blocks: contents.min(1),
            contents,
            holes_everywhere: false,
        }
    }
}

#[derive(Debug, Default)]
struct State {
    /// Lookups of each node that the client knows.
    known: HashMap<u64, u64>,
    lookups: u64,
    open: u64,
    peak: Usage,
    /// Positions of what was removed, by directory.
    removed: HashMap<u64, BTreeSet<u64>>,
    /// Answers about types that change.
    flips: u64,
}

impl State {
    fn usage(&self) -> Usage {
        Usage {
            live_nodes: self.known.len() as u64,
            lookups: self.lookups,
            open_handles: self.open,
        }
    }

    fn note_peak(&mut self) {
        self.peak = self.peak.most(self.usage());
    }

    fn remember(&mut self, node: u64) {
        if node != ROOT_ID {
            *self.known.entry(node).or_default() += 1;
            self.lookups += 1;
            self.note_peak();
        }
    }

    fn is_removed(&self, dir: u64, position: u64) -> bool {
        let removed = self.removed.get(&dir);
        removed.is_some_and(|removed| removed.contains(&position))
    }
}

impl Synthetic {
    /// A tree of that shape. Everything belongs to the user of this process.
    #[must_use]
    pub fn new(shape: Shape, options: SyntheticOptions) -> Self {
        Synthetic {
            shape,
            options,
            owner: (
                rustix::process::geteuid().as_raw(),
                rustix::process::getegid().as_raw(),
            ),
            state: Mutex::new(Rank::LEAF, State::default()),
        }
    }

    /// The most of each that a client has held at once, since it began.
    #[must_use]
    pub fn peak(&self) -> Usage {
        self.state.lock().peak
    }

    fn attr(&self, node: u64, facts: Facts) -> Attr {
        let is_dir = facts.kind == FileKind::Directory;
        let time = 1_000_000_000;
        Attr {
            ino: node,
            size: facts.size,
            blocks: facts.blocks,
            atime: time,
            mtime: time,
            ctime: time,
            mode: facts.kind.mode_bits() | if is_dir { 0o755 } else { 0o644 },
            nlink: if is_dir { 2 } else { 1 },
            uid: self.owner.0,
            gid: self.owner.1,
            blksize: 4096,
            ..Attr::default()
        }
    }

    /// What to say of a node; of one that changes its type, something else each time.
    fn facts(&self, state: &mut State, node: u64) -> Facts {
        if !self.shape.changes(node) {
            return self.shape.facts(node);
        }
        state.flips += 1;
        Facts::of(match state.flips % 2 {
            0 => FileKind::Directory,
            _ => FileKind::Regular,
        })
    }

    fn enter(&self, state: &mut State, node: u64) -> EntryOut {
        let facts = self.facts(state, node);
        state.remember(node);
        self.options.caching.entry(node, self.attr(node, facts))
    }

    fn lookup(&self, dir: u64, name: &[u8]) -> Result<Reply> {
        let mut state = self.state.lock();
        match self.shape.position(dir, name) {
            Some((position, child)) if !state.is_removed(dir, position) => {
                Ok(Reply::Entry(self.enter(&mut state, child.node)))
            }
            _ => Err(Errno::NOENT),
        }
    }

    /// Hands what is in a directory from `offset` on to `push`, until it has no room.
    fn list(
        &self,
        state: &mut State,
        dir: u64,
        offset: u64,
        mut push: impl FnMut(&mut State, &Entry<'_>, u64) -> bool,
    ) {
        // Positions 0 and 1 are the dots.
        let mut position = offset;
        loop {
            let (name, node, kind) = match position {
                0 => (b".".to_vec(), dir, FileKind::Directory),
                1 => (b"..".to_vec(), ROOT_ID, FileKind::Directory),
                _ => match self.shape.child(dir, position - 2) {
                    None => return,
                    Some(_) if state.is_removed(dir, position - 2) => {
                        position += 1;
                        continue;
                    }
                    Some(child) => (child.name, child.node, child.listed),
                },
            };
            // There is no way to go on after the last number.
            let Some(next) = position.checked_add(1) else {
                return;
            };
            let entry = Entry {
                ino: node,
                off: next,
                typ: kind.dirent_type(),
                name: &name,
            };
            if !push(state, &entry, node) {
                return;
            }
            position = next;
        }
    }

    fn readdir(&self, call: &Call<'_>, arg: &ReadIn) -> Reply {
        let mut buffer = vec![0; call.io.out_len()];
        let mut writer = DirentWriter::new(&mut buffer);
        let mut state = self.state.lock();
        self.list(&mut state, call.node, arg.offset, |_, entry, _| {
            writer.push(entry)
        });
        let len = writer.len();
        fixed::spoil(&mut buffer[..len]);
        Reply::Payload(call.io.put(&buffer[..len]))
    }

    fn readdirplus(&self, call: &Call<'_>, arg: &ReadIn) -> Reply {
        let mut buffer = vec![0; call.io.out_len()];
        let mut writer = DirentPlusWriter::new(&mut buffer);
        let mut state = self.state.lock();
        self.list(&mut state, call.node, arg.offset, |state, entry, node| {
            let facts = self.facts(state, node);
            // Not looked up.
            let bare = matches!(entry.name, b"." | b"..") || fixed::is_path(entry.name);
            let out = if bare {
                EntryOut::default()
            } else {
                self.options.caching.entry(node, self.attr(node, facts))
            };
            let fits = writer.push(&out, entry);
            if fits && !bare {
                state.remember(node);
            }
            fits
        });
        let len = writer.len();
        fixed::spoil(&mut buffer[..len]);
        Reply::Payload(call.io.put(&buffer[..len]))
    }

    fn read(&self, call: &Call<'_>, arg: &ReadIn) -> Reply {
        let contents = self.shape.facts(call.node).contents;
        let want = call.io.out_len().min(arg.size as usize) as u64;
        let len = contents.saturating_sub(arg.offset).min(want);
        Reply::Payload(call.io.put(&vec![b'x'; len as usize]))
    }

    fn seek(&self, node: u64, offset: u64, whence: u32) -> Result<Reply> {
        let facts = self.shape.facts(node);
        if !facts.holes_everywhere {
            return Err(Errno::NOSYS);
        }
        match whence {
            _ if offset >= facts.size => Err(Errno::NXIO),
            crate::fs::SEEK_HOLE => Ok(Reply::Offset(offset + 1)),
            crate::fs::SEEK_DATA => Ok(Reply::Offset(offset)),
            _ => Err(Errno::INVAL),
        }
    }

    fn remove(&self, dir: u64, name: &[u8]) -> Result<Reply> {
        let mut state = self.state.lock();
        let found = self.shape.position(dir, name);
        let (position, child) = found.ok_or(Errno::NOENT)?;
        if state.is_removed(dir, position) {
            return Err(Errno::NOENT);
        }
        if self.shape.facts(child.node).kind == FileKind::Directory {
            let mut empty = true;
            self.list(&mut state, child.node, 2, |_, _, _| {
                empty = false;
                false
            });
            if !empty {
                return Err(Errno::NOTEMPTY);
            }
        }
        if self.shape != Shape::Undead {
            state.removed.entry(dir).or_default().insert(position);
        }
        Ok(Reply::Done)
    }

    fn open(&self, directory: bool) -> Reply {
        let mut state = self.state.lock();
        state.open += 1;
        state.note_peak();
        Reply::Open(OpenOut {
            open_flags: if directory {
                self.options.caching.dir_flags().bits()
            } else {
                0
            },
            ..OpenOut::default()
        })
    }

    fn close(&self) -> Result<Reply> {
        let mut state = self.state.lock();
        state.open = state.open.checked_sub(1).ok_or(Errno::BADF)?;
        Ok(Reply::Done)
    }
}

impl FileSystem for Synthetic {
    fn features(&self) -> Features {
        let mut flags = InitFlags::ASYNC_READ | InitFlags::PARALLEL_DIROPS | InitFlags::MAX_PAGES;
        if self.options.readdirplus {
            flags |= InitFlags::DO_READDIRPLUS;
        }
        Features {
            flags,
            max_write_bytes: MAX_WRITE_BYTES,
            time_gran_ns: 1,
            read_only: false,
        }
    }

    fn begin(&self) {
        *self.state.lock() = State::default();
    }

    fn call(&self, call: &Call<'_>) -> Result<Reply> {
        let node = call.node;
        match &call.request {
            Request::Lookup { name } => self.lookup(node, name.as_bytes()),
            Request::Getattr { .. } => {
                let facts = self.facts(&mut self.state.lock(), node);
                let attr = self.attr(node, facts);
                Ok(Reply::Attr(self.options.caching.attr(attr)))
            }
            Request::Open { .. } => Ok(self.open(false)),
            Request::Opendir { .. } => Ok(self.open(true)),
            Request::Readdir(arg) => Ok(self.readdir(call, arg)),
            Request::Readdirplus(arg) => Ok(self.readdirplus(call, arg)),
            Request::Read(arg) => Ok(self.read(call, arg)),
            Request::Lseek(arg) => self.seek(node, arg.offset, arg.whence),
            Request::Unlink { name } | Request::Rmdir { name } => {
                self.remove(node, name.as_bytes())
            }
            Request::Release(_) | Request::Releasedir(_) => self.close(),
            Request::Flush(_) => Ok(Reply::Done),
            Request::Statfs => Ok(Reply::Statfs(StatfsOut {
                st: Kstatfs {
                    bsize: 4096,
                    frsize: 4096,
                    namelen: 255,
                    ..Kstatfs::default()
                },
            })),
            _ => Err(Errno::NOSYS),
        }
    }

    fn forget(&self, node: u64, nlookup: u64) {
        let mut state = self.state.lock();
        let Some(count) = state.known.get_mut(&node) else {
            return;
        };
        let taken = nlookup.min(*count);
        *count -= taken;
        if *count == 0 {
            state.known.remove(&node);
        }
        state.lookups -= taken;
    }

    fn usage(&self) -> Usage {
        self.state.lock().usage()
    }
}
