//! What the peer says is stale, in two steps.
//!
//! At receipt, on the thread that reads the channel, what is cached is marked: nothing that a
//! notification is about passes for valid afterwards, and neither does an answer that is under way.
//! Letting go of it comes later, on the completion thread, from a bounded queue; when that is full,
//! every name goes. So a daemon may notify from inside any handler. (Linux does both at once, and
//! blocks the daemon on locks that its own unanswered requests hold; semantics C6, D.)

use crate::core::Core;
use crate::engine::Notified;
use crate::node::Node;
use crate::rpc::Target;
use fusewire_sync::atomic::{AtomicU64, Ordering};
use fusewire_sync::{Arc, Mutex, Rank, Weak};
use fusewire_wire::abi::FileKind;
use fusewire_wire::notify::Notification;
use fusewire_wire::{InvalEntryFlags, Name};
use rustix::io::Errno;
use std::collections::HashSet;

/// Most stale names, and most pruned nodes, that wait for the second step.
const MAX_STALE: usize = 4096;

type Outcome = Result<(), Errno>;

/// What waits for the second step, and the epoch of names.
#[derive(Debug)]
pub(crate) struct Notifications {
    stale: Mutex<Stale>,
    /// Names cached in an earlier epoch are stale.
    epoch: AtomicU64,
}

#[derive(Debug, Default)]
struct Stale {
    names: Vec<(Weak<Node>, Box<[u8]>)>,
    pruned: HashSet<u64>,
    /// There was more than fits: every name goes.
    everything: bool,
}

impl Notifications {
    pub(crate) fn new() -> Self {
        Notifications {
            stale: Mutex::new(Rank::LEAF, Stale::default()),
            epoch: AtomicU64::new(0),
        }
    }

    pub(crate) fn epoch(&self) -> u64 {
        self.epoch.load(Ordering::Acquire)
    }
}

impl Stale {
    fn is_full(&self) -> bool {
        self.everything || self.names.len() >= MAX_STALE || self.pruned.len() >= MAX_STALE
    }

    /// Everything goes, so nothing else needs to be remembered.
    fn give_up(&mut self) {
        *self = Stale {
            everything: true,
            ..Stale::default()
        };
    }
}

impl Core {
    fn known(&self, nodeid: u64) -> Result<Arc<Node>, Errno> {
        self.nodes.get(nodeid).ok_or(Errno::NOENT)
    }

    fn known_directory(&self, nodeid: u64) -> Result<Arc<Node>, Errno> {
        let node = self.known(nodeid)?;
        if node.is_dir() {
            Ok(node)
        } else {
            Err(Errno::NOTDIR)
        }
    }

    /// Has the second step do `add`.
    fn settle_later(&self, add: impl FnOnce(&mut Stale)) {
        {
            let mut stale = self.notifications.stale.lock();
            if stale.is_full() {
                stale.give_up();
            } else {
                add(&mut stale);
            }
        }
        self.peer.engine().settle_later();
    }

    fn stale_name(&self, dir: &Arc<Node>, name: Name<'_>) {
        let entry = (Arc::downgrade(dir), Box::from(name.as_bytes()));
        self.settle_later(|stale| stale.names.push(entry));
    }

    fn inval_entry(&self, parent: u64, name: Name<'_>, flags: InvalEntryFlags) -> Outcome {
        let dir = self.known_directory(parent)?;
        dir.expire_attr();
        if !dir.expire_child(name.as_bytes()) {
            return Err(Errno::NOENT);
        }
        if !flags.contains(InvalEntryFlags::EXPIRE_ONLY) {
            self.stale_name(&dir, name);
        }
        Ok(())
    }

    fn deleted(&self, parent: u64, child: u64, name: Name<'_>) -> Outcome {
        let dir = self.known_directory(parent)?;
        dir.expire_attr();
        let node = dir.child(name.as_bytes()).ok_or(Errno::NOENT)?;
        if node.nodeid() != child {
            // The name has come to mean something else, which is not deleted.
            return Err(Errno::NOENT);
        }
        if node.is_dir() && node.has_children() {
            return Err(Errno::NOTEMPTY);
        }
        dir.expire_child(name.as_bytes());
        // It has a name less, perhaps none.
        node.expire_attr();
        self.stale_name(&dir, name);
        Ok(())
    }

    fn stored(&self, nodeid: u64, offset: u64, len: usize) -> Outcome {
        let node = self.known(nodeid)?;
        if node.kind() != FileKind::Regular {
            return Err(Errno::INVAL);
        }
        let end = offset.checked_add(len as u64).ok_or(Errno::INVAL)?;
        if end > i64::MAX as u64 {
            return Err(Errno::FBIG);
        }
        // There is no cache that could take the data; a READ gets it.
        node.extend_size(end);
        Ok(())
    }
}

impl Notified for Core {
    fn notified(&self, notification: &Notification<'_>) -> Outcome {
        match *notification {
            Notification::InvalInode(what) => {
                let node = self.known(what.ino)?;
                node.expire_attr();
                if what.off >= 0 {
                    node.drop_listing();
                }
                Ok(())
            }
            Notification::InvalEntry {
                parent,
                name,
                flags,
            } => self.inval_entry(parent, name, flags),
            Notification::Delete {
                parent,
                child,
                name,
            } => self.deleted(parent, child, name),
            Notification::Store {
                nodeid,
                offset,
                data,
            } => self.stored(nodeid, offset, data.len()),
            Notification::Retrieve(what) => {
                self.known(what.nodeid)?;
                let engine = self.peer.engine();
                engine.reply_to_retrieve(what.notify_unique, what.nodeid)
            }
            Notification::IncEpoch => {
                self.notifications.epoch.fetch_add(1, Ordering::AcqRel);
                Ok(())
            }
            Notification::Prune(nodes) => {
                self.settle_later(|stale| stale.pruned.extend(nodes.iter()));
                Ok(())
            }
            Notification::Poll { kh } => {
                self.polls.wake(kh);
                Ok(())
            }
            // No transport here loses requests that could be sent again.
            Notification::Resend => Err(Errno::INVAL),
        }
    }

    fn ended(&self) {
        self.locks.wake_waiting();
        self.polls.wake_all();
    }

    fn settle(&self) {
        let stale = std::mem::take(&mut *self.notifications.stale.lock());
        if stale.everything {
            self.nodes.drop_names();
            return;
        }
        for (dir, name) in stale.names {
            if let Some(dir) = dir.upgrade() {
                dir.drop_expired_child(&name);
            }
        }
        if !stale.pruned.is_empty() {
            self.nodes.drop_names_of(&stale.pruned);
        }
        // The daemon waits for the FORGETs of what it wanted to be rid of.
        self.peer.engine().flush_forgets();
    }
}
