//! Open files and directories at the peer.

use crate::engine::Keep;
use crate::node::Node;
use crate::rpc::{Opened, Target};
use fusewire_sync::Arc;

/// Something open at the peer. It is closed there when nothing refers to it any more, requests in
/// flight included: a peer must not see the RELEASE of a handle that it still works on.
#[derive(Debug)]
pub(crate) struct Handle {
    node: Arc<Node>,
    open: Opened,
    /// The peer was told.
    released: bool,
}

impl Handle {
    pub(crate) fn new(node: Arc<Node>, open: Opened) -> Arc<Self> {
        node.core().open_handles.add(1);
        Arc::new(Handle {
            node,
            open,
            released: false,
        })
    }

    pub(crate) fn node(&self) -> &Arc<Node> {
        &self.node
    }

    pub(crate) fn open(&self) -> &Opened {
        &self.open
    }

    /// The holder needs it no longer. Waits for the RELEASE where the transport wants that, unless
    /// a request that was given up still refers to the handle.
    pub(crate) fn close(self: Arc<Self>) {
        if let Some(mut handle) = Arc::into_inner(self) {
            handle.released = true;
            handle.node.core().peer.release(&handle.node, &handle.open);
        }
    }
}

impl Drop for Handle {
    /// May run on the completion thread, so it must not wait.
    fn drop(&mut self) {
        let core = self.node.core();
        if !self.released {
            core.peer
                .release_later(self.node.nodeid(), self.node.keep(), &self.open);
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
