//! Going through a tree, in the shape of the walkdir crate.

use crate::client::Client;
use crate::dir::{DirEntry, ReadDir};
use crate::error::{Error, Result};
use crate::meta::{FileType, Metadata};
use crate::node::Node;
use crate::walk::MAX_PATH_BYTES;
use fusewire_sync::Arc;
use rustix::io::Errno;
use std::ffi::OsString;
use std::iter::FusedIterator;
use std::path::{Path, PathBuf};

/// Directories that are open at the daemon at once.
const MAX_OPEN: usize = 64;

/// Room for the names that are still to come in the directories above those.
const MAX_KEPT_BYTES: usize = 32 << 20;

impl Client {
    /// Everything at and below `path`, depth first, in the daemon's order. Symbolic links are
    /// entries and are not followed, also one at `path` itself.
    ///
    /// Nothing is asked of the daemon before the first entry is asked for.
    ///
    /// ```
    /// # use fusewire::Client;
    /// # fn example(client: &Client) {
    /// for entry in client.walk("/etc").max_depth(2) {
    ///     match entry {
    ///         Ok(entry) => println!("{}", entry.path().display()),
    ///         Err(error) => eprintln!("{error}"),
    ///     }
    /// }
    /// # }
    /// ```
    #[must_use]
    pub fn walk(&self, path: impl AsRef<Path>) -> Walk {
        Walk {
            client: self.clone(),
            path: path.as_ref().to_path_buf(),
            min_depth: 0,
            max_depth: usize::MAX,
            contents_first: false,
        }
    }
}

/// How to go through a tree; begin with [`Client::walk`], end with a `for` loop.
///
/// An error is an item among the others, about one path, and the walk goes on behind it. The tree
/// may be of any shape: entries are taken from the daemon as they are asked for, so a directory
/// without end takes no memory, and a path has at most 16 KiB (ENAMETOOLONG). A directory inside
/// itself is an error (ELOOP), once. At most 64 directories are open at the daemon. When the walk
/// goes down further, those at the top are read to their end and the names are kept, 32 MiB of
/// them in all; what does not fit is left out, with an error (ENOBUFS) in its place.
#[derive(Clone, Debug)]
pub struct Walk {
    client: Client,
    path: PathBuf,
    min_depth: usize,
    max_depth: usize,
    contents_first: bool,
}

impl Walk {
    /// Leaves out what is less deep. The start has depth 0, its entries have depth 1. Default 0.
    #[must_use]
    pub fn min_depth(mut self, depth: usize) -> Self {
        self.min_depth = depth;
        self
    }

    /// Goes no deeper than this. Default: no limit.
    #[must_use]
    pub fn max_depth(mut self, depth: usize) -> Self {
        self.max_depth = depth;
        self
    }

    /// Whether a directory comes behind its contents, not before them. Default: no.
    #[must_use]
    pub fn contents_first(mut self, yes: bool) -> Self {
        self.contents_first = yes;
        self
    }
}

impl IntoIterator for Walk {
    type Item = Result<WalkEntry>;
    type IntoIter = Walker;

    fn into_iter(self) -> Walker {
        Walker {
            step: Step::Start,
            levels: Vec::new(),
            kept: 0,
            walk: self,
        }
    }
}

/// A walk under way: an iterator over entries and errors.
#[derive(Debug)]
pub struct Walker {
    step: Step,
    /// The directories from the start to where we are.
    levels: Vec<Level>,
    /// How many of them, from the start on, have no stream any more.
    kept: usize,
    walk: Walk,
}

/// What comes before the next entry of the innermost directory.
#[derive(Debug)]
enum Step {
    Start,
    /// This directory was given out, and its contents come next.
    Into(WalkEntry),
    Next,
}

#[derive(Debug)]
struct Level {
    /// The directory itself, if it comes behind its contents.
    last: Option<WalkEntry>,
    /// `None` for one that could not be opened.
    node: Option<Arc<Node>>,
    listing: Listing,
}

#[derive(Debug)]
enum Listing {
    Open(ReadDir),
    /// The rest of a stream that was closed.
    Kept {
        items: std::vec::IntoIter<Result<DirEntry>>,
        bytes: usize,
    },
}

impl Listing {
    fn empty() -> Self {
        Listing::Kept {
            items: Vec::new().into_iter(),
            bytes: 0,
        }
    }

    fn next(&mut self) -> Option<Result<DirEntry>> {
        match self {
            Listing::Open(stream) => stream.next(),
            Listing::Kept { items, .. } => items.next(),
        }
    }

    fn kept_bytes(&self) -> usize {
        match self {
            Listing::Open(_) => 0,
            Listing::Kept { bytes, .. } => *bytes,
        }
    }

    /// Closes the stream and keeps what it still had, as far as there is `room_bytes` for it.
    fn keep(&mut self, room_bytes: usize, too_much: impl FnOnce() -> Error) {
        let Listing::Open(stream) = self else {
            return;
        };
        let mut items = Vec::new();
        let mut bytes = 0;
        for item in stream {
            let item = item.map(DirEntry::into_name);
            bytes += size_of::<Result<DirEntry>>();
            bytes += item.as_ref().map_or(0, |entry| entry.file_name().len());
            if bytes > room_bytes {
                items.push(Err(too_much()));
                break;
            }
            items.push(item);
        }
        *self = Listing::Kept {
            items: items.into_iter(),
            bytes,
        };
    }
}

impl Walker {
    /// Leaves out the contents of the directory that was given out last, if it was one; else the
    /// rest of the directory that holds it.
    pub fn skip_current_dir(&mut self) {
        match std::mem::replace(&mut self.step, Step::Next) {
            Step::Into(_) => {}
            step => {
                self.step = step;
                if let Some(level) = self.levels.last_mut() {
                    level.listing = Listing::empty();
                }
            }
        }
    }

    fn first(&self) -> Result<WalkEntry> {
        let Walk { client, path, .. } = &self.walk;
        Ok(WalkEntry {
            depth: 0,
            kind: client.symlink_metadata(path)?.file_type(),
            found: Found::Start {
                client: client.clone(),
                path: path.clone(),
            },
        })
    }

    /// Takes an entry: gives it out, now or behind its contents, or leaves it out.
    fn take(&mut self, entry: WalkEntry) -> Option<Result<WalkEntry>> {
        let given = entry.depth >= self.walk.min_depth;
        if !entry.kind.is_dir() || entry.depth >= self.walk.max_depth {
            return given.then_some(Ok(entry));
        }
        if !self.walk.contents_first {
            self.step = Step::Into(entry.clone());
            return given.then_some(Ok(entry));
        }
        let opened = self.open(&entry);
        let last = given.then_some(entry);
        let (level, result) = match opened {
            Ok(stream) => (Level::new(last, stream), None),
            // The directory itself comes behind the error.
            Err(error) => (
                Level {
                    last,
                    node: None,
                    listing: Listing::empty(),
                },
                Some(Err(error)),
            ),
        };
        self.levels.push(level);
        result
    }

    fn open(&mut self, entry: &WalkEntry) -> Result<ReadDir> {
        self.make_room();
        let path = entry.path();
        let fail = |errno| self.walk.client.fail("walk", &path)(errno);
        if path.as_os_str().len() > MAX_PATH_BYTES {
            return Err(fail(Errno::NAMETOOLONG));
        }
        let stream = match &entry.found {
            Found::Start { client, path } => client.read_dir_no_follow(path)?,
            Found::Below(entry) => entry.read_dir()?,
        };
        let is_above = |level: &Level| {
            let node = level.node.as_ref();
            node.is_some_and(|node| Arc::ptr_eq(node, stream.node()))
        };
        if self.levels.iter().any(is_above) {
            return Err(fail(Errno::LOOP).with_detail("the directory contains itself"));
        }
        Ok(stream)
    }

    /// Closes a stream where another would be one too many.
    fn make_room(&mut self) {
        if self.levels.len() - self.kept < MAX_OPEN {
            return;
        }
        let kept_bytes = |level: &Level| level.listing.kept_bytes();
        let taken: usize = self.levels.iter().map(kept_bytes).sum();
        let level = &mut self.levels[self.kept];
        let path = level.path().unwrap_or_else(|| self.walk.path.clone());
        let client = &self.walk.client;
        level
            .listing
            .keep(MAX_KEPT_BYTES.saturating_sub(taken), || {
                client.fail("walk", &path)(Errno::NOBUFS).with_detail(
                    "the tree is too wide for its depth, and the rest of this directory was left out",
                )
            });
        self.kept += 1;
    }

    fn pop(&mut self) -> Option<WalkEntry> {
        let level = self.levels.pop()?;
        self.kept = self.kept.min(self.levels.len());
        level.last
    }
}

impl Level {
    fn new(last: Option<WalkEntry>, stream: ReadDir) -> Self {
        Level {
            last,
            node: Some(Arc::clone(stream.node())),
            listing: Listing::Open(stream),
        }
    }

    fn path(&self) -> Option<PathBuf> {
        match &self.listing {
            Listing::Open(stream) => Some(stream.path().to_path_buf()),
            Listing::Kept { .. } => None,
        }
    }
}

impl Iterator for Walker {
    type Item = Result<WalkEntry>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            let taken = match std::mem::replace(&mut self.step, Step::Next) {
                Step::Start => match self.first() {
                    Ok(entry) => self.take(entry),
                    Err(error) => Some(Err(error)),
                },
                Step::Into(entry) => match self.open(&entry) {
                    Ok(stream) => {
                        self.levels.push(Level::new(None, stream));
                        None
                    }
                    Err(error) => Some(Err(error)),
                },
                Step::Next => match self.levels.last_mut()?.listing.next() {
                    Some(Ok(entry)) => match entry.file_type() {
                        Ok(kind) => self.take(WalkEntry {
                            depth: self.levels.len(),
                            kind,
                            found: Found::Below(entry),
                        }),
                        Err(error) => Some(Err(error)),
                    },
                    Some(Err(error)) => Some(Err(error)),
                    None => self.pop().map(Ok),
                },
            };
            if taken.is_some() {
                return taken;
            }
        }
    }
}

impl FusedIterator for Walker {}

/// Something in a tree that is walked through.
#[derive(Clone, Debug)]
pub struct WalkEntry {
    depth: usize,
    kind: FileType,
    found: Found,
}

#[derive(Clone, Debug)]
enum Found {
    Start { client: Client, path: PathBuf },
    Below(DirEntry),
}

impl WalkEntry {
    /// The path that the walk began with, and the names below it.
    #[must_use]
    pub fn path(&self) -> PathBuf {
        match &self.found {
            Found::Start { path, .. } => path.clone(),
            Found::Below(entry) => entry.path(),
        }
    }

    /// The last name of the path; for a start without one, the path.
    #[must_use]
    pub fn file_name(&self) -> OsString {
        match &self.found {
            Found::Start { path, .. } => path.file_name().unwrap_or(path.as_os_str()).into(),
            Found::Below(entry) => entry.file_name(),
        }
    }

    /// Directories between the start and this: 0 for the start itself.
    #[must_use]
    pub fn depth(&self) -> usize {
        self.depth
    }

    /// What it is, a symbolic link itself included.
    #[must_use]
    pub fn file_type(&self) -> FileType {
        self.kind
    }

    /// Its attributes, a symbolic link's own included. Asks the daemon only if they did not come
    /// with the directory.
    ///
    /// # Errors
    /// ENOENT when it is gone, or what the daemon says.
    pub fn metadata(&self) -> Result<Metadata> {
        match &self.found {
            Found::Start { client, path } => client.symlink_metadata(path),
            Found::Below(entry) => entry.metadata(),
        }
    }
}
