//! Cached listings of directories, where the daemon allows them (FOPEN_CACHE_DIR; semantics C4).
//!
//! A listing is what one stream has seen from start to end. It is used as long as nothing was
//! changed in the directory through this client, the daemon has not said that the directory is
//! stale, and its modification time is what it was.

use super::Node;
use crate::cred::Cred;
use fusewire_sync::Arc;
use rustix::io::Errno;

/// Most bytes of one listing, and of all of a client, names and what is kept with them.
const MAX_BYTES: u64 = 1 << 20;
const MAX_ALL_BYTES: u64 = 16 << 20;

/// An entry of a listing.
#[derive(Clone, Debug)]
pub(crate) struct Listed {
    pub(crate) name: Box<[u8]>,
    pub(crate) ino: u64,
    /// `d_type`.
    pub(crate) kind: u32,
    /// Where the next one begins.
    pub(crate) next: u64,
}

/// What a directory was when a listing of it began.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Edition {
    mtime: (u64, u32),
    version: u64,
}

/// All entries of a directory.
#[derive(Debug)]
pub(crate) struct Listing {
    pub(crate) entries: Vec<Listed>,
    edition: Edition,
    bytes: u64,
}

/// A listing under way.
#[derive(Debug)]
pub(crate) struct Recording {
    entries: Vec<Listed>,
    edition: Edition,
    bytes: u64,
}

impl Recording {
    pub(crate) fn begin(edition: Edition) -> Self {
        Recording {
            entries: Vec::new(),
            edition,
            bytes: 0,
        }
    }

    /// Adds an entry; returns whether there was room for it.
    pub(crate) fn add(&mut self, entry: Listed) -> bool {
        self.bytes += (size_of::<Listed>() + entry.name.len()) as u64;
        self.entries.push(entry);
        self.bytes <= MAX_BYTES
    }
}

impl Node {
    /// What the directory is now, as far as listings are concerned.
    ///
    /// # Errors
    /// What GETATTR says.
    pub(crate) fn edition(self: &Arc<Self>, cred: &Cred) -> Result<Edition, Errno> {
        let version = self.children_version();
        let attr = self.attr(cred, None)?;
        Ok(Edition {
            mtime: (attr.mtime, attr.mtimensec),
            version,
        })
    }

    /// The listing of that edition, if there is one.
    pub(crate) fn listing(&self, edition: Edition) -> Option<Arc<Listing>> {
        let listing = self.listing.lock().clone()?;
        (listing.edition == edition).then_some(listing)
    }

    /// Keeps a whole listing, if there is room.
    pub(crate) fn keep_listing(&self, recording: Recording) {
        let Recording {
            entries,
            edition,
            bytes,
        } = recording;
        self.drop_listing();
        let all = &self.core.listing_bytes;
        if self.children_version() != edition.version || all.get() + bytes > MAX_ALL_BYTES {
            return;
        }
        all.add(bytes);
        let listing = Arc::new(Listing {
            entries,
            edition,
            bytes,
        });
        let old = self.listing.lock().replace(listing);
        if let Some(old) = old {
            all.sub(old.bytes);
        }
    }

    pub(crate) fn drop_listing(&self) {
        let old = self.listing.lock().take();
        if let Some(old) = old {
            self.core.listing_bytes.sub(old.bytes);
        }
    }
}
