//! From a path to a node, one component at a time, as path_resolution(7) has it.
//!
//! The root of the served tree is the root of every path, symlinks included; `..` there leads
//! nowhere else.

use crate::access::Access;
use crate::cred::Cred;
use crate::node::{AttrReply, Cached, Node};
use crate::rpc::Target;
use fusewire_sync::Arc;
use fusewire_wire::abi::{EntryOut, FileKind};
use fusewire_wire::{InitFlags, Name};
use rustix::io::Errno;
use std::time::Duration;

/// Most symlinks on one way, as on Linux.
const MAX_LINKS: u32 = 40;

/// Longest path: four times that of Linux. A tree without a bottom ends there.
pub(crate) const MAX_PATH_BYTES: usize = 16 << 10;

/// What a path ends in.
#[derive(Debug)]
pub(crate) enum Tail {
    /// A name in the directory found.
    Name(Box<[u8]>),
    /// The root itself, `.` or `..`: an existing directory without a name of its own here.
    Root,
    Dot,
    DotDot,
}

/// Directory and last name of a path, for operations on names.
#[derive(Debug)]
pub(crate) struct Place {
    pub(crate) dir: Arc<Node>,
    pub(crate) tail: Tail,
    /// The path, or the last link on it, ended in a slash: only a directory can be meant.
    pub(crate) wants_dir: bool,
    /// The directories from the root to `dir`, both included.
    pub(crate) way: Vec<Arc<Node>>,
}

/// Where a path leads for an operation that may create its end.
#[derive(Debug)]
pub(crate) enum Found {
    Node(Arc<Node>),
    /// Nothing there, but its directory exists.
    Missing {
        dir: Arc<Node>,
        name: Box<[u8]>,
    },
}

/// What an operation wants at the end of its path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum End {
    /// Something that is there.
    Find,
    /// A file, to be made if nothing is there.
    MakeFile,
}

/// Whether a symlink at the end of the path is followed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Links {
    Follow,
    NoFollow,
}

/// The node at `path`.
///
/// # Errors
/// ENOENT, ENOTDIR, ELOOP (more than 40 symlinks), ENAMETOOLONG, EINVAL (NUL in a name), or what
/// the peer says to LOOKUP and READLINK.
pub(crate) fn resolve(
    cred: &Cred,
    start: &Start,
    path: &[u8],
    links: Links,
) -> Result<Arc<Node>, Errno> {
    match find(cred, start, path, links, End::Find)? {
        Found::Node(node) => Ok(node),
        Found::Missing { .. } => Err(Errno::NOENT),
    }
}

/// The node at `path`, or the place where it could be made.
///
/// # Errors
/// As [`resolve`], except that the last name may be missing; EISDIR where a file is to be made
/// and there is a slash behind its name.
pub(crate) fn find(
    cred: &Cred,
    start: &Start,
    path: &[u8],
    links: Links,
    end: End,
) -> Result<Found, Errno> {
    Walk::new(cred, start, path)?.find(links, end)
}

/// Directory and last name of `path`, without asking for that name.
///
/// # Errors
/// As [`resolve`], for the directory.
pub(crate) fn place(cred: &Cred, start: &Start, path: &[u8]) -> Result<Place, Errno> {
    let mut walk = Walk::new(cred, start, path)?;
    let tail = walk.go_to_tail()?;
    Ok(Place {
        dir: Arc::clone(walk.here()),
        tail,
        wants_dir: walk.wants_dir,
        way: walk.nodes,
    })
}

/// Where paths begin, and where they may lead.
#[derive(Clone, Debug)]
pub(crate) struct Start {
    /// The directories from the root to the one where relative paths begin, both included; only the
    /// latter where no path leads out of it.
    way: Arc<[Arc<Node>]>,
    bounds: Bounds,
}

/// Where paths may lead.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Bounds {
    /// Not out of the directory where they begin.
    pub(crate) beneath: bool,
    /// Not through symbolic links, the last component included.
    pub(crate) no_links: bool,
}

impl Start {
    pub(crate) fn root(root: &Arc<Node>) -> Self {
        Start {
            way: Arc::new([Arc::clone(root)]),
            bounds: Bounds::default(),
        }
    }

    /// The directory where relative paths begin.
    pub(crate) fn dir(&self) -> &Arc<Node> {
        // It is always there.
        &self.way[self.way.len() - 1]
    }

    pub(crate) fn bounds(&self) -> Bounds {
        self.bounds
    }

    /// The same, but for paths that lead no further than this.
    pub(crate) fn bounded(&self, bounds: Bounds) -> Self {
        let way = if bounds.beneath {
            Arc::new([Arc::clone(self.dir())])
        } else {
            Arc::clone(&self.way)
        };
        Start { way, bounds }
    }

    /// Beginning in the directory at `path`.
    ///
    /// # Errors
    /// ENOTDIR, or as [`resolve`].
    pub(crate) fn at(&self, cred: &Cred, path: &[u8]) -> Result<Self, Errno> {
        let mut walk = Walk::new(cred, self, path)?;
        let found = walk.find(Links::Follow, End::Find)?;
        let Found::Node(node) = found else {
            return Err(Errno::NOENT);
        };
        if !node.is_dir() {
            return Err(Errno::NOTDIR);
        }
        let mut way = walk.nodes;
        if !Arc::ptr_eq(&way[way.len() - 1], &node) {
            way.push(node);
        }
        if self.bounds.beneath {
            way.drain(..way.len() - 1);
        }
        Ok(Start {
            way: way.into(),
            bounds: self.bounds,
        })
    }

    /// Beginning in `dir`, for names in it alone: the way there is not known.
    pub(crate) fn inside(&self, dir: Arc<Node>) -> Self {
        Start {
            way: Arc::new([Arc::clone(&self.way[0]), dir]),
            bounds: self.bounds,
        }
    }
}

/// A walk under way.
struct Walk<'a> {
    cred: &'a Cred,
    start: &'a Start,
    /// The way from the root to where we are.
    nodes: Vec<Arc<Node>>,
    /// Components to go, last first.
    pending: Vec<Box<[u8]>>,
    wants_dir: bool,
    links: u32,
}

impl<'a> Walk<'a> {
    fn new(cred: &'a Cred, start: &'a Start, path: &[u8]) -> Result<Self, Errno> {
        if path.is_empty() {
            return Err(Errno::NOENT);
        }
        if path.len() > MAX_PATH_BYTES {
            return Err(Errno::NAMETOOLONG);
        }
        let nodes = match path {
            [b'/', ..] if start.bounds.beneath => return Err(Errno::XDEV),
            [b'/', ..] => start.way[..1].to_vec(),
            _ => start.way.to_vec(),
        };
        let mut walk = Walk {
            cred,
            start,
            nodes,
            pending: Vec::new(),
            wants_dir: path.ends_with(b"/"),
            links: 0,
        };
        walk.push(path);
        Ok(walk)
    }

    fn push(&mut self, path: &[u8]) {
        let components = path.split(|byte| *byte == b'/').rev();
        self.pending
            .extend(components.filter(|c| !c.is_empty()).map(Box::from));
    }

    fn here(&self) -> &Arc<Node> {
        // The root is never popped.
        &self.nodes[self.nodes.len() - 1]
    }

    /// Goes to the end of the path.
    fn find(&mut self, links: Links, end: End) -> Result<Found, Errno> {
        loop {
            let tail = self.go_to_tail()?;
            let (dir, wants_dir) = (Arc::clone(self.here()), self.wants_dir);
            let Tail::Name(name) = tail else {
                return Ok(Found::Node(dir));
            };
            if wants_dir && end == End::MakeFile {
                return Err(Errno::ISDIR);
            }
            let Some(node) = lookup(self.cred, &dir, &name)? else {
                if wants_dir {
                    return Err(Errno::NOENT);
                }
                return Ok(Found::Missing { dir, name });
            };
            if node.kind() == FileKind::Symlink && (links == Links::Follow || wants_dir) {
                self.follow(&node)?;
                continue;
            }
            if wants_dir && !node.is_dir() {
                return Err(Errno::NOTDIR);
            }
            return Ok(Found::Node(node));
        }
    }

    /// Goes to the directory of the last component.
    fn go_to_tail(&mut self) -> Result<Tail, Errno> {
        let mut tail = Tail::Root;
        while let Some(name) = self.pending.pop() {
            if !self.here().is_dir() {
                return Err(Errno::NOTDIR);
            }
            // As Linux, before it looks at the name, whatever that is.
            self.here().permit(self.cred, Access::SEARCH)?;
            match &*name {
                b"." => tail = Tail::Dot,
                b".." => {
                    if self.start.bounds.beneath && self.nodes.len() <= self.start.way.len() {
                        return Err(Errno::XDEV);
                    }
                    if self.nodes.len() > 1 {
                        self.nodes.pop();
                    }
                    tail = Tail::DotDot;
                }
                _ if self.pending.is_empty() => {
                    tail = Tail::Name(name);
                    break;
                }
                _ => {
                    let node = lookup(self.cred, self.here(), &name)?.ok_or(Errno::NOENT)?;
                    if node.kind() == FileKind::Symlink {
                        self.follow(&node)?;
                    } else {
                        self.nodes.push(node);
                    }
                }
            }
        }
        // A directory inside itself, which a broken peer shows, and for a moment one whose tree is
        // moved about: whoever goes down step by step would find no end.
        if let [above @ .., here] = &self.nodes[..]
            && above.iter().any(|node| Arc::ptr_eq(node, here))
        {
            return Err(Errno::LOOP);
        }
        Ok(tail)
    }

    /// Goes on where the symlink `node` of the current directory leads.
    fn follow(&mut self, node: &Arc<Node>) -> Result<(), Errno> {
        self.links += 1;
        if self.links > MAX_LINKS || self.start.bounds.no_links {
            return Err(Errno::LOOP);
        }
        let target = node.core().rpc(self.cred).readlink(node)?;
        if target.starts_with(b"/") {
            if self.start.bounds.beneath {
                return Err(Errno::XDEV);
            }
            self.nodes.truncate(1);
        }
        // A slash at the end of the last link's target means what one at the end of the path does.
        self.wants_dir |= self.pending.is_empty() && target.ends_with(b"/");
        self.push(&target);
        Ok(())
    }
}

/// Checks a name from a path.
///
/// # Errors
/// ENAMETOOLONG; EINVAL for NUL, `/`, `.` and `..`; ENOENT when empty.
pub(crate) fn checked(name: &[u8]) -> Result<Name<'_>, Errno> {
    Name::new(name).map_err(|error| Errno::from_raw_os_error(error.errno()))
}

/// The node called `name` in `dir`: from the cache, or from the peer. `None`: there is none.
///
/// # Errors
/// ENOTDIR, those of [`checked`], ESTALE, or what the peer says.
pub(crate) fn lookup(
    cred: &Cred,
    dir: &Arc<Node>,
    name: &[u8],
) -> Result<Option<Arc<Node>>, Errno> {
    if !dir.is_dir() {
        return Err(Errno::NOTDIR);
    }
    dir.permit(cred, Access::SEARCH)?;
    dir.look_into();
    let mut version = match dir.cached_child(name) {
        Cached::Node(node) => return Ok(Some(node)),
        Cached::Absent => return Ok(None),
        Cached::Unknown { version } => version,
    };
    let wire_name = checked(name)?;
    dir.check_fresh()?;
    let core = dir.core();
    let granted = core.peer.negotiated().flags;
    let _turn = if granted.contains(InitFlags::PARALLEL_DIROPS) {
        None
    } else {
        let turn = dir.turn.take(&cred.token)?;
        // Whoever had the directory before us may have asked the same.
        match dir.cached_child(name) {
            Cached::Node(node) => return Ok(Some(node)),
            Cached::Absent => return Ok(None),
            Cached::Unknown { version: now } => version = now,
        }
        Some(turn)
    };
    let sampled = core.attr_version();
    match core.with_descriptors(|| core.rpc(cred).lookup(dir, wire_name)) {
        Ok(entry) if entry.nodeid == 0 => {
            dir.cache_child(name, None, entry.entry_timeout(), version);
            Ok(None)
        }
        Ok(entry) => {
            let node = take_entry(dir, &entry, sampled)?;
            dir.cache_child(name, Some(&node), entry.entry_timeout(), version);
            Ok(Some(node))
        }
        Err(Errno::NOENT) => {
            dir.cache_child(name, None, Duration::ZERO, version);
            Ok(None)
        }
        Err(errno) => Err(errno),
    }
}

/// The node of an entry that the peer has counted a lookup for, with its attributes taken.
///
/// # Errors
/// EIO for an entry no peer may give; ELOOP for a directory in itself.
pub(crate) fn take_entry(
    dir: &Arc<Node>,
    entry: &EntryOut,
    sampled: u64,
) -> Result<Arc<Node>, Errno> {
    let core = dir.core();
    if entry.nodeid == 0 {
        return Err(Errno::IO);
    }
    let node = core.nodes.adopt(core, entry)?;
    if node.nodeid() == dir.nodeid() {
        // A directory is not in itself.
        return Err(Errno::LOOP);
    }
    node.found_in(dir, &entry.attr);
    node.take_attr(&AttrReply::from(entry), sampled)?;
    Ok(node)
}
