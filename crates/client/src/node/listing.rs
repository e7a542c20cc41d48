//! Cached listings of directories, where the daemon allows them (FOPEN_CACHE_DIR; semantics C4).
//!
//! A listing is what one stream has seen from start to end. It is used as long as nothing was
//! changed in the directory through this client, the daemon has not said that the directory or all
//! that is cached is stale, and its modification time is what it was. When there is no room, the
//! oldest goes.

use super::Node;
use crate::cred::Cred;
use fusewire_sync::{Arc, Gauge, Mutex, Rank, Weak};
use rustix::io::Errno;
use std::collections::VecDeque;

/// Most bytes of one listing, and of all of a client, names and what is kept with them.
const MAX_BYTES: u64 = 1 << 20;
const MAX_ALL_BYTES: u64 = 16 << 20;
/// Most listings of a client.
const MAX_LISTINGS: usize = 4096;

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
    change: Change,
}

/// The last that this side knows to have happened to a directory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Change {
    names: u64,
    epoch: u64,
    dropped: u64,
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

    /// Adds an entry; returns whether a listing can go on with it: there is room, and the entry
    /// behind it is not the first one again.
    pub(crate) fn add(&mut self, entry: Listed) -> bool {
        let goes_on = entry.next != 0;
        self.bytes += (size_of::<Listed>() + entry.name.len()) as u64;
        self.entries.push(entry);
        goes_on && self.bytes <= MAX_BYTES
    }
}

impl Listing {
    /// Up to `max` entries from `offset` on; `None` for an offset that the daemon alone knows.
    pub(crate) fn from(&self, offset: u64, max: usize) -> Option<&[Listed]> {
        let first = match offset {
            0 => 0,
            // Of several with one offset the last, so that whoever goes on gets to the end.
            _ => {
                1 + self
                    .entries
                    .iter()
                    .rposition(|entry| entry.next == offset)?
            }
        };
        Some(&self.entries[first..self.entries.len().min(first + max)])
    }
}

/// The listing of one directory.
#[derive(Debug, Default)]
pub(super) struct Slot {
    listing: Option<Arc<Listing>>,
    /// How often one was dropped: none that began before is kept.
    dropped: u64,
    /// It stands in the order of eviction.
    queued: bool,
}

/// All listings of a client, as far as their number goes.
#[derive(Debug)]
pub(crate) struct Listings {
    bytes: Gauge,
    /// Directories that have a listing or had one, in the order in which they got it.
    order: Mutex<VecDeque<Weak<Node>>>,
}

impl Listings {
    pub(crate) fn new() -> Self {
        Listings {
            bytes: Gauge::new(),
            order: Mutex::new(Rank::LEAF, VecDeque::new()),
        }
    }

    /// Makes room for `bytes`, at the cost of the oldest.
    fn make_room(&self, bytes: u64) {
        while self.bytes.get() + bytes > MAX_ALL_BYTES {
            let Some(oldest) = self.order.lock().pop_front() else {
                return;
            };
            leave_queue(&oldest);
        }
    }

    fn enqueue(&self, node: Weak<Node>) {
        let oldest = {
            let mut order = self.order.lock();
            if order.len() >= MAX_LISTINGS {
                order.retain(|node| node.strong_count() > 0);
            }
            let oldest = if order.len() >= MAX_LISTINGS {
                order.pop_front()
            } else {
                None
            };
            order.push_back(node);
            oldest
        };
        if let Some(oldest) = oldest {
            leave_queue(&oldest);
        }
    }
}

fn leave_queue(node: &Weak<Node>) {
    if let Some(node) = node.upgrade() {
        node.listing.lock().queued = false;
        node.drop_listing();
    }
}

impl Node {
    fn last_change(&self) -> Change {
        Change {
            names: self.children_version(),
            epoch: self.core.notifications.epoch(),
            dropped: self.listing.lock().dropped,
        }
    }

    /// What the directory is now, as far as listings are concerned.
    ///
    /// # Errors
    /// What GETATTR says.
    pub(crate) fn edition(self: &Arc<Self>, cred: &Cred) -> Result<Edition, Errno> {
        let change = self.last_change();
        let attr = self.attr(cred, None)?;
        Ok(Edition {
            mtime: (attr.mtime, attr.mtimensec),
            change,
        })
    }

    /// The listing of that edition, if there is one.
    pub(crate) fn listing(&self, edition: Edition) -> Option<Arc<Listing>> {
        let listing = self.listing.lock().listing.clone()?;
        (listing.edition == edition).then_some(listing)
    }

    /// Keeps a whole listing, unless something has changed since it began.
    pub(crate) fn keep_listing(self: &Arc<Self>, recording: Recording) {
        let Recording {
            entries,
            edition,
            bytes,
        } = recording;
        let all = &self.core.listings;
        all.make_room(bytes);
        if self.last_change() != edition.change {
            return;
        }
        all.bytes.add(bytes);
        let listing = Arc::new(Listing {
            entries,
            edition,
            bytes,
        });
        let (old, queued) = {
            let mut slot = self.listing.lock();
            let queued = std::mem::replace(&mut slot.queued, true);
            (slot.listing.replace(listing), queued)
        };
        if let Some(old) = old {
            all.bytes.sub(old.bytes);
        }
        if !queued {
            all.enqueue(Arc::downgrade(self));
        }
    }

    /// What was listed may not be true any more.
    pub(crate) fn drop_listing(&self) {
        let old = {
            let mut slot = self.listing.lock();
            slot.dropped += 1;
            slot.listing.take()
        };
        if let Some(old) = old {
            self.core.listings.bytes.sub(old.bytes);
        }
    }
}

#[cfg(all(test, not(any(fusewire_sync = "loom", fusewire_sync = "shuttle"))))]
mod tests {
    use super::*;
    use crate::Client;
    use crate::engine::Notified;
    use fusewire_server::mem::{MemOptions, Memory};
    use fusewire_server::{ServerOptions, start};
    use fusewire_wire::notify::Notification;

    fn entry(next: u64) -> Listed {
        Listed {
            name: Box::from(&b"name"[..]),
            ino: 7,
            kind: 8,
            next,
        }
    }

    fn recording(nexts: &[u64], edition: Edition) -> Recording {
        let mut recording = Recording::begin(edition);
        for next in nexts {
            assert!(recording.add(entry(*next)));
        }
        recording
    }

    fn edition() -> Edition {
        Edition {
            mtime: (0, 0),
            change: Change {
                names: 0,
                epoch: 0,
                dropped: 0,
            },
        }
    }

    fn memory() -> Client {
        let fs = Memory::new(MemOptions::default());
        let (transport, server) = start(fs, &ServerOptions::default()).unwrap();
        // It ends with the connection.
        drop(std::thread::spawn(move || server.join()));
        Client::builder().connect(transport).unwrap()
    }

    #[test]
    fn every_offset_leads_to_the_end() {
        for nexts in [
            &[1, 2, 3, 4][..],
            &[9, 3, 5, 1],
            &[1, 1, 2, 1],
            &[5, 5, 5, 5],
        ] {
            let Recording { entries, .. } = recording(nexts, edition());
            let listing = Listing {
                entries,
                edition: edition(),
                bytes: 0,
            };
            let mut offset = 0;
            let mut steps = 0;
            while let Some(last) = listing.from(offset, 2).unwrap().last() {
                offset = last.next;
                steps += 1;
                assert!(steps <= nexts.len(), "{nexts:?}");
            }
            assert!(listing.from(77, 2).is_none());
        }
    }

    #[test]
    fn a_listing_ends_where_it_would_begin_again_or_grow_too_large() {
        let mut recording = Recording::begin(edition());
        assert!(recording.add(entry(1)));
        assert!(!recording.add(entry(0)));
        let mut recording = Recording::begin(edition());
        let added = (1..).take_while(|n| recording.add(entry(*n))).count() as u64;
        assert!(added * 4 < MAX_BYTES && recording.bytes > MAX_BYTES);
    }

    /// Whatever has happened since it began, it is not kept.
    #[test]
    fn a_listing_of_what_has_changed_is_not_kept() {
        let client = memory();
        let root = &client.shared.root;
        let changes: [fn(&Client); 4] = [
            |_| {},
            |client| client.write("/new", b"").unwrap(),
            |client| client.shared.root.drop_listing(),
            |client| {
                client.core().notified(&Notification::IncEpoch).unwrap();
            },
        ];
        for (n, change) in changes.iter().enumerate() {
            root.drop_listing();
            let edition = root.edition(&client.cred).unwrap();
            let recording = recording(&[1, 2], edition);
            change(&client);
            root.keep_listing(recording);
            assert_eq!(root.listing(edition).is_some(), n == 0, "{n}");
        }
    }

    #[test]
    fn listings_stay_within_their_bounds() {
        let client = memory();
        let listings = &client.core().listings;
        let mut large = Recording::begin(client.shared.root.edition(&client.cred).unwrap());
        while large.bytes < MAX_BYTES / 2 {
            large.add(entry(1));
        }
        let dirs: Vec<_> = (0..40)
            .map(|n| {
                let path = format!("/{n}");
                client.create_dir(&path).unwrap();
                client.at(&path).unwrap()
            })
            .collect();
        for _ in 0..2 {
            for dir in &dirs {
                let node = dir.start.dir();
                let edition = node.edition(&client.cred).unwrap();
                let (entries, bytes) = (large.entries.clone(), large.bytes);
                node.keep_listing(Recording {
                    entries,
                    edition,
                    bytes,
                });
                assert!(node.listing(edition).is_some());
                assert!(listings.bytes.get() <= MAX_ALL_BYTES);
                assert!(listings.order.lock().len() <= dirs.len());
            }
        }
        assert!(listings.bytes.get() > MAX_ALL_BYTES - MAX_BYTES);
        drop(dirs);
        client.drop_caches();
        assert_eq!(listings.bytes.get(), 0);
    }
}
