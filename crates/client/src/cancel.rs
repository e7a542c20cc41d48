//! Ending the calls of a client handle from another thread.

use crate::client::Client;
use crate::core::Core;
use crate::cred::Cred;
use fusewire_sync::{Arc, Weak};

/// Ends calls of one client handle; made by [`Client::canceller`]. The calls are those made through
/// that handle, its clones, and files and directories opened through them, whichever thread they
/// are on. To reach those of one thread or one file alone, give it a handle of its own with
/// [`Client::separate`].
///
/// None of this blocks. It does not keep the connection open.
#[derive(Clone, Debug)]
pub struct Canceller {
    core: Weak<Core>,
    cred: Arc<Cred>,
}

impl Canceller {
    /// Ends the calls under way with EINTR, and later ones, too, until [`Canceller::reset`]: what a
    /// fatal signal does. A request that the daemon has already is interrupted, where the transport
    /// can tell it so, and not waited for; the operation may or may not be carried out, and what a
    /// late answer brings is given back. Closing a file still tells the daemon.
    pub fn cancel(&self) {
        if let Some(core) = self.core.upgrade() {
            core.peer.engine().cancel(&self.cred.token);
            core.locks.wake_waiting();
            core.nodes.wake_waiting();
            core.polls.wake_all();
        }
    }

    /// Asks the daemon to end the calls under way: what a signal with a handler does. Their results
    /// are the daemon's: EINTR if it gave the operation up, else as if nothing had happened. Calls
    /// whose request it has not been given yet end with EINTR. On a transport that cannot carry
    /// INTERRUPT, virtio-fs, this is all that it does.
    pub fn interrupt(&self) {
        if let Some(core) = self.core.upgrade() {
            core.peer.engine().interrupt(&self.cred.token);
            core.locks.wake_waiting();
            core.nodes.wake_waiting();
            core.polls.wake_all();
        }
    }

    /// Calls may be made again after [`Canceller::cancel`].
    pub fn reset(&self) {
        self.cred.token.reset();
    }

    /// Whether calls are being refused.
    #[must_use]
    pub fn is_cancelled(&self) -> bool {
        self.cred.token.is_cancelled()
    }
}

impl Client {
    /// What ends the calls of this handle from another thread.
    ///
    /// ```
    /// # use fusewire::Client;
    /// # use fusewire_server::{ServerOptions, mem, start};
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let files = mem::Memory::new(mem::MemOptions::default());
    /// # let (transport, _server) = start(files, &ServerOptions::default())?;
    /// # let client = Client::builder().connect(transport)?;
    /// let worker = client.separate();
    /// let canceller = worker.canceller();
    /// canceller.cancel();
    /// let error = worker.metadata("/").unwrap_err();
    /// assert_eq!(error.errno(), rustix::io::Errno::INTR.raw_os_error());
    /// client.metadata("/")?;
    /// canceller.reset();
    /// worker.metadata("/")?;
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub fn canceller(&self) -> Canceller {
        Canceller {
            core: Arc::downgrade(self.core()),
            cred: Arc::clone(&self.cred),
        }
    }

    /// Another handle of the same client, which is cancelled by itself.
    #[must_use]
    pub fn separate(&self) -> Self {
        Client {
            start: self.start.clone(),
            shared: Arc::clone(&self.shared),
            cred: Arc::new(self.cred.separate()),
        }
    }
}
