//! Open files and directories at the peer.

use crate::cred::{Cred, new_lock_owner};
use crate::engine::Keep;
use crate::node::Node;
use crate::rpc::{Opened, Target};
use fusewire_locks::Class;
use fusewire_sync::{Arc, OnceLock};
use fusewire_wire::OpenOutFlags;
use rustix::io::Errno;

/// Something open at the peer. It is closed there when nothing refers to it any more, requests in
/// flight included: a peer must not see the RELEASE of a handle that it still works on.
#[derive(Debug)]
pub(crate) struct Handle {
    node: Arc<Node>,
    open: Opened,
    /// Owner of its flock(2) locks, once there are any.
    flock_owner: OnceLock<u64>,
    /// By which the peer says that it has become ready, once somebody has asked.
    poll_number: OnceLock<u64>,
    /// Its node is in cached use because of it.
    cached: bool,
    /// The peer was told.
    released: bool,
}

impl Handle {
    pub(crate) fn new(node: Arc<Node>, open: Opened) -> Arc<Self> {
        Handle::in_use(node, open, false)
    }

    fn in_use(node: Arc<Node>, open: Opened, cached: bool) -> Arc<Self> {
        node.core().open_handles.add(1);
        Arc::new(Handle {
            cached,
            node,
            open,
            flock_owner: OnceLock::new(),
            poll_number: OnceLock::new(),
            released: false,
        })
    }

    /// As [`Handle::new`], for a file. Waits while writes to it go on side by side that a cached open
    /// ends.
    ///
    /// # Errors
    /// EIO when the peer wants its data to be read elsewhere (FOPEN_PASSTHROUGH), which was never
    /// agreed on; EINTR when the caller is cancelled or interrupted while it waits.
    pub(crate) fn of_file(cred: &Cred, node: Arc<Node>, open: Opened) -> Result<Arc<Self>, Errno> {
        let cached = open.at_peer && !open.granted.contains(OpenOutFlags::DIRECT_IO);
        let entered = if open.granted.contains(OpenOutFlags::PASSTHROUGH) {
            Err(Errno::IO)
        } else if cached {
            node.io_mode.enter_cached(&cred.token)
        } else {
            Ok(())
        };
        match entered {
            Ok(()) => Ok(Handle::in_use(node, open, cached)),
            Err(errno) => {
                Handle::new(node, open).close();
                Err(errno)
            }
        }
    }

    pub(crate) fn node(&self) -> &Arc<Node> {
        &self.node
    }

    pub(crate) fn open(&self) -> &Opened {
        &self.open
    }

    pub(crate) fn flock_owner(&self) -> u64 {
        *self.flock_owner.get_or_init(new_lock_owner)
    }

    pub(crate) fn poll_number(&self) -> u64 {
        *self.poll_number.get_or_init(new_lock_owner)
    }

    pub(crate) fn flock_owner_if_any(&self) -> Option<u64> {
        self.flock_owner.get().copied()
    }

    /// What the peer is told at the end. Locks that are ours to keep end here.
    fn at_release(&self) -> Opened {
        let flock_owner = self.flock_owner_if_any().unwrap_or(0);
        let core = self.node.core();
        if flock_owner != 0 && !core.peer.keeps_locks(Class::Whole) {
            core.locks
                .give_up_all(self.node.nodeid(), Class::Whole, flock_owner);
            return self.open;
        }
        Opened {
            flock_owner,
            ..self.open
        }
    }

    /// The holder needs it no longer. Waits for the RELEASE where the transport wants that, unless
    /// a request that was given up still refers to the handle.
    pub(crate) fn close(self: Arc<Self>) {
        if let Some(mut handle) = Arc::into_inner(self) {
            handle.released = true;
            let open = handle.at_release();
            handle.node.core().peer.release(&handle.node, &open);
        }
    }
}

impl Drop for Handle {
    /// May run on the completion thread, so it must not wait.
    fn drop(&mut self) {
        if self.cached {
            self.node.io_mode.leave_cached();
        }
        let core = self.node.core();
        if !self.released {
            core.peer
                .release_later(self.node.nodeid(), self.node.keep(), &self.at_release());
        }
        core.open_handles.sub(1);
    }
}

impl Target for Arc<Handle> {
    fn nodeid(&self) -> u64 {
        self.node.nodeid()
    }

    fn keep(&self) -> Arc<dyn Keep> {
        Arc::clone(self) as Arc<dyn Keep>
    }
}

impl Keep for Handle {
    fn answered_late(&self) {
        self.node.answered_late();
    }
}
