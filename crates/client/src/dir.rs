//! Directory streams.

use crate::access::Access;
use crate::client::Client;
use crate::cred::Cred;
use crate::error::Result;
use crate::handle::Handle;
use crate::meta::{FileType, Metadata};
use crate::node::{AttrReply, Listed, Listing, Node, Recording};
use crate::walk;
use fusewire_sync::Arc;
use fusewire_wire::abi::{Attr, FileKind};
use fusewire_wire::dirent::{Dirents, DirentsPlus, Entry, EntryPlus};
use fusewire_wire::{InitFlags, OpenOutFlags};
use rustix::fs::OFlags;
use rustix::io::Errno;
use std::collections::VecDeque;
use std::ffi::OsString;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

/// Bytes of entries asked for at once, if the limits allow.
const BATCH_BYTES: u32 = 128 << 10;

/// Entries taken from a cached listing at once.
const CACHED_BATCH: usize = 512;

/// The entries of a directory, without `.` and `..`, in the daemon's order; as
/// `std::fs::ReadDir`.
///
/// Entries made or removed after it was opened may or may not be seen.
#[derive(Debug)]
pub struct ReadDir {
    batch: VecDeque<DirEntry>,
    state: State,
    /// Where the next batch begins.
    offset: u64,
    /// Where the entry behind the last one that was taken begins.
    next: u64,
    /// Whether `.` and `..` are entries, too.
    dots: bool,
    /// Whether attributes are wanted in any case.
    attributes: bool,
    /// Where entries come from, if not from the daemon.
    cached: Option<Arc<Listing>>,
    /// What the daemon has said so far, to be cached.
    recording: Option<Recording>,
    stream: Stream,
}

#[derive(Clone, Copy, Debug)]
enum State {
    /// The daemon may have more.
    More,
    /// It said something impossible, reported after what came before.
    Failed(Errno),
    End,
}

/// Where entries come from.
#[derive(Debug)]
struct Origin {
    node: Arc<Node>,
    path: PathBuf,
    // Last: the connection outlives the node.
    client: Client,
}

/// An open directory; closes it when dropped.
#[derive(Debug)]
struct Stream {
    /// Taken by `drop` alone.
    handle: Option<Arc<Handle>>,
    origin: Arc<Origin>,
}

impl Drop for Stream {
    fn drop(&mut self) {
        if let Some(handle) = self.handle.take() {
            handle.close();
        }
    }
}

impl ReadDir {
    pub(crate) fn open(
        client: &Client,
        path: &Path,
        node: Arc<Node>,
    ) -> std::result::Result<Self, Errno> {
        let handle = Self::open_handle(&client.cred, &node)?;
        let granted = handle.open().granted;
        if granted.contains(OpenOutFlags::CACHE_DIR) && !granted.contains(OpenOutFlags::KEEP_CACHE)
        {
            node.drop_listing();
        }
        let (cached, recording) = caching(client, &node, granted);
        Ok(ReadDir {
            cached,
            recording,
            batch: VecDeque::new(),
            state: State::More,
            offset: 0,
            next: 0,
            dots: false,
            attributes: false,
            stream: Stream {
                handle: Some(handle),
                origin: Arc::new(Origin {
                    node,
                    path: path.to_path_buf(),
                    client: client.clone(),
                }),
            },
        })
    }

    /// Shows `.` and `..`, too, as getdents(2) does, where the daemon has them.
    #[must_use]
    pub fn with_dots(mut self) -> Self {
        self.dots = true;
        self
    }

    /// Asks for the attributes of every entry together with its name, if the daemon can do that
    /// (READDIRPLUS). A daemon may leave it to the client how much of that is of use; it is then done
    /// for the first entries, and as long as attributes are looked at while the directory is read. For
    /// whoever reads all names first and then looks at each or takes it away.
    #[must_use]
    pub fn with_attributes(mut self) -> Self {
        self.attributes = true;
        self
    }

    /// Where the next entry begins: telldir(3). A number of the daemon's own, for
    /// [`ReadDir::seek`]; 0 at the start.
    #[must_use]
    pub fn tell(&self) -> u64 {
        self.next
    }

    /// Goes on where [`ReadDir::tell`] or [`DirEntry::next_offset`] has said: seekdir(3). Most
    /// daemons know their numbers in another stream of the same directory, too. Any other number but
    /// 0 may lead anywhere.
    pub fn seek(&mut self, offset: u64) {
        self.recording = None;
        if let (0, Some(handle)) = (offset, &self.stream.handle) {
            let (client, node) = (&self.stream.origin.client, &self.stream.origin.node);
            (self.cached, self.recording) = caching(client, node, handle.open().granted);
        }
        self.batch.clear();
        self.offset = offset;
        self.next = offset;
        self.state = State::More;
    }

    /// The directory that is read.
    pub(crate) fn node(&self) -> &Arc<Node> {
        &self.stream.origin.node
    }

    /// Its path, as it was given.
    pub(crate) fn path(&self) -> &Path {
        &self.stream.origin.path
    }

    /// Opens the directory itself.
    pub(crate) fn open_handle(
        cred: &Cred,
        node: &Arc<Node>,
    ) -> std::result::Result<Arc<Handle>, Errno> {
        if !node.is_dir() {
            return Err(Errno::NOTDIR);
        }
        node.check_fresh()?;
        node.permit(cred, Access::READ)?;
        let flags = OFlags::RDONLY | OFlags::DIRECTORY;
        let core = node.core();
        let open = core.with_descriptors(|| core.rpc(cred).opendir(node, flags.bits()))?;
        Ok(Handle::new(Arc::clone(node), open))
    }

    /// Takes the next batch from a cached listing. What has no place in it comes from the daemon.
    fn fill_from(&mut self, listing: &Listing) -> bool {
        let Some(batch) = listing.from(self.offset, CACHED_BATCH) else {
            return false;
        };
        match batch.last() {
            Some(last) => self.offset = last.next,
            None => self.state = State::End,
        }
        for listed in batch {
            let entry = Entry {
                ino: listed.ino,
                off: listed.next,
                typ: listed.kind,
                name: &listed.name,
            };
            self.push(&entry, None);
        }
        true
    }

    /// Gets the next batch; an empty one is the end.
    fn fill(&mut self) -> std::result::Result<(), Errno> {
        if let Some(listing) = self.cached.clone() {
            if self.fill_from(&listing) {
                return Ok(());
            }
            self.cached = None;
        }
        let Stream {
            handle: Some(handle),
            origin,
        } = &self.stream
        else {
            unreachable!("taken by drop alone");
        };
        let node = &origin.node;
        let core = origin.client.core();
        let (peer, rpc) = (&core.peer, origin.client.rpc());
        let pages = u32::from(peer.negotiated().max_pages);
        let size = BATCH_BYTES
            .min(pages * 4096)
            .min(peer.engine().transport().limits().max_payload_bytes);
        let plus = peer.has_readdirplus() && self.wants_attributes();
        let one_at_a_time = !peer.negotiated().flags.contains(InitFlags::PARALLEL_DIROPS);
        let version = node.children_version();
        let sampled = core.attr_version();
        let ask = |plus| {
            let _turn = if one_at_a_time {
                Some(node.turn.take(&origin.client.cred.token)?)
            } else {
                None
            };
            core.with_descriptors(|| rpc.readdir(handle, handle.open(), self.offset, size, plus))
        };
        let (mut plus, mut answer) = (plus, ask(plus));
        if plus && answer == Err(Errno::NOENT) {
            // virtiofsd in C says so when the next entry has been removed; without attributes it
            // goes on.
            plus = false;
            answer = ask(plus);
        }
        let bytes = match answer {
            // The directory was removed, and readdir(3) takes that for its end.
            Err(Errno::NOENT) => Vec::new(),
            bytes => bytes?,
        };
        if bytes.is_empty() {
            self.state = State::End;
            if let Some(recording) = self.recording.take() {
                self.node().keep_listing(recording);
            }
            return Ok(());
        }
        let before = self.offset;
        if plus {
            self.take_plus(&bytes, version, sampled)?;
        } else {
            for entry in Dirents::new(&bytes) {
                let entry = entry.map_err(|_| Errno::IO)?;
                self.offset = entry.off;
                self.push(&entry, None);
            }
        }
        // Offsets are the daemon's own, but one that leads back here would never end.
        if self.offset == before {
            return Err(Errno::IO);
        }
        Ok(())
    }

    /// Whether attributes are worth their price, in the daemon's lookups, of which we hold one for
    /// each entry. (Linux `fuse_use_readdirplus`; semantics C1.)
    fn wants_attributes(&self) -> bool {
        let granted = self.stream.origin.client.core().peer.negotiated().flags;
        let looked_into = self.node().was_looked_into();
        let auto = granted.contains(InitFlags::READDIRPLUS_AUTO);
        !auto || self.attributes || self.offset == 0 || looked_into
    }

    /// Takes a batch with attributes. Every entry is accounted for, also behind a malformed one
    /// that cannot be shown.
    fn take_plus(
        &mut self,
        bytes: &[u8],
        version: u64,
        sampled: u64,
    ) -> std::result::Result<(), Errno> {
        for entry in DirentsPlus::new(bytes) {
            let EntryPlus { entry_out, entry } = entry.map_err(|_| Errno::IO)?;
            self.offset = entry.off;
            let counted = entry_out.nodeid != 0 && entry.name != b"." && entry.name != b"..";
            if !counted {
                self.push(&entry, None);
                continue;
            }
            let dir = &self.stream.origin.node;
            // A broken entry is its own problem: it is shown without attributes.
            let known = walk::take_entry(dir, &entry_out, sampled).ok();
            if let Some(node) = &known {
                dir.cache_child(entry.name, Some(node), entry_out.entry_timeout(), version);
            }
            let attr = AttrReply::from(&entry_out).attr;
            self.push(&entry, known.map(|node| (node, attr)));
        }
        Ok(())
    }

    fn push(&mut self, entry: &Entry<'_>, known: Option<(Arc<Node>, Attr)>) {
        if let Some(recording) = &mut self.recording {
            let fits = recording.add(Listed {
                name: entry.name.into(),
                ino: entry.ino,
                kind: entry.typ,
                next: entry.off,
            });
            if !fits {
                self.recording = None;
            }
        }
        if !self.dots && (entry.name == b"." || entry.name == b"..") {
            return;
        }
        let kind = match &known {
            Some((node, _)) => Some(node.kind()),
            None => FileKind::from_dirent_type(entry.typ),
        };
        self.batch.push_back(DirEntry {
            name: OsString::from_vec(entry.name.to_vec()),
            ino: entry.ino,
            next: entry.off,
            kind,
            known,
            origin: Arc::clone(&self.stream.origin),
        });
    }
}

/// The cached listing that may be used, or the beginning of one, as the daemon allows.
fn caching(
    client: &Client,
    node: &Arc<Node>,
    granted: OpenOutFlags,
) -> (Option<Arc<Listing>>, Option<Recording>) {
    if !granted.contains(OpenOutFlags::CACHE_DIR) {
        return (None, None);
    }
    let Ok(edition) = node.edition(&client.cred) else {
        return (None, None);
    };
    match node.listing(edition) {
        Some(listing) => (Some(listing), None),
        None => (None, Some(Recording::begin(edition))),
    }
}

impl Iterator for ReadDir {
    type Item = Result<DirEntry>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            if let Some(entry) = self.batch.pop_front() {
                self.next = entry.next;
                return Some(Ok(entry));
            }
            match self.state {
                State::End => return None,
                State::Failed(errno) => {
                    self.state = State::End;
                    let Origin { path, client, .. } = &*self.stream.origin;
                    return Some(Err(client.fail("read directory", path)(errno)));
                }
                State::More => {
                    if let Err(errno) = self.fill() {
                        self.state = State::Failed(errno);
                    }
                }
            }
        }
    }
}

/// An entry of a directory; as `std::fs::DirEntry`.
#[derive(Clone, Debug)]
pub struct DirEntry {
    name: OsString,
    ino: u64,
    /// Where the next one begins.
    next: u64,
    kind: Option<FileKind>,
    /// What the batch said of it.
    known: Option<(Arc<Node>, Attr)>,
    origin: Arc<Origin>,
}

impl DirEntry {
    /// Its name.
    #[must_use]
    pub fn file_name(&self) -> OsString {
        self.name.clone()
    }

    /// The directory's path as it was given, and the name.
    #[must_use]
    pub fn path(&self) -> PathBuf {
        self.origin.path.join(&self.name)
    }

    /// Where the entry behind it begins: `d_off` of getdents(2), for [`ReadDir::seek`].
    #[must_use]
    pub fn next_offset(&self) -> u64 {
        self.next
    }

    /// Inode number.
    #[must_use]
    pub fn ino(&self) -> u64 {
        self.ino
    }

    /// What it is, a symbolic link itself included. Asks the daemon only if the directory does
    /// not tell.
    ///
    /// # Errors
    /// As [`DirEntry::metadata`].
    pub fn file_type(&self) -> Result<FileType> {
        match self.kind {
            Some(kind) => Ok(FileType::new(kind)),
            None => self.metadata().map(|metadata| metadata.file_type()),
        }
    }

    /// The entries of the directory that it is. It is looked for where it was listed, not by its
    /// path, and a symbolic link is not followed: whoever goes down a tree step by step ends up
    /// nowhere else, whatever others do to the tree meanwhile.
    ///
    /// # Errors
    /// ENOTDIR when it is none (any more), ENOENT when it is gone, or what the daemon says.
    pub fn read_dir(&self) -> Result<ReadDir> {
        let (client, path) = (&self.origin.client, self.path());
        self.node()
            .and_then(|node| ReadDir::open(client, &path, node))
            .map_err(client.fail("open directory", &path))
    }

    fn node(&self) -> std::result::Result<Arc<Node>, Errno> {
        if let Some((node, _)) = &self.known {
            self.origin.node.look_into();
            return Ok(Arc::clone(node));
        }
        let cred = &self.origin.client.cred;
        walk::lookup(cred, &self.origin.node, self.name.as_bytes())?.ok_or(Errno::NOENT)
    }

    /// Lets go of what the daemon may keep open for it; the name and what it is remain.
    pub(crate) fn into_name(self) -> Self {
        DirEntry {
            known: None,
            ..self
        }
    }

    /// Its attributes, a symbolic link's own included: those that came with the directory, if
    /// there were any, else the daemon's answer of now.
    ///
    /// # Errors
    /// ENOENT when it is gone, or what the daemon says.
    pub fn metadata(&self) -> Result<Metadata> {
        let cred = &self.origin.client.cred;
        let path = self.path();
        if let Some((node, attr)) = &self.known {
            self.origin.node.look_into();
            // To list a directory is not to be allowed to search it.
            let allowed = self.origin.node.permit(cred, Access::SEARCH);
            allowed.map_err(self.origin.client.fail("stat", &path))?;
            return Ok(Metadata::new(node, *attr));
        }
        self.node()
            .and_then(|node| Ok(Metadata::new(&node, node.attr(cred, None)?)))
            .map_err(self.origin.client.fail("stat", &path))
    }
}
