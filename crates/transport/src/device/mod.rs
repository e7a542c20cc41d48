//! Device side of the ring, for servers in this process and for tests.
//!
//! [`DeviceEnd`] hands out requests and sleeps when there are none. It trusts its driver as little
//! as the driver trusts it: a chain that loops, leaves its region, or mixes up its order ends the
//! connection with a reason.

mod chain;
mod core;
mod queue;
mod raw;
mod request;
mod work;

pub(crate) use self::core::Core;
#[cfg(all(test, not(any(fusewire_sync = "loom", fusewire_sync = "shuttle"))))]
pub(crate) use self::{
    chain::{Buffer, Buffers, RegionId, follow},
    queue::DeviceQueue,
};
#[cfg(all(test, fusewire_sync = "loom"))]
pub(crate) use self::{queue::DeviceQueue, work::Work};
pub use raw::{DeviceQueueId, RawDevice, SharedPart};
pub use request::DeviceRequest;

use crate::types::{Death, Refusal};
use fusewire_sync::Arc;

/// The server's end of an in-process connection; shared by its threads through an `Arc`. Dropping
/// it is the server's death.
#[derive(Debug)]
pub struct DeviceEnd {
    core: Arc<Core>,
    raw: RawDevice,
}

impl DeviceEnd {
    pub(crate) fn new(core: Arc<Core>) -> Self {
        let raw = RawDevice::new(Arc::clone(&core));
        DeviceEnd { core, raw }
    }

    /// The next request, messages without a reply first. Blocks until there is one; `None` once
    /// the client has closed, or has broken the rules of the ring (the client's
    /// [`watch`](crate::Transport::watch) then says how).
    #[must_use]
    pub fn next(&self) -> Option<DeviceRequest> {
        Core::next(&self.core)
    }

    /// The next request, if one is there now. Does not block.
    #[must_use]
    pub fn try_next(&self) -> Option<DeviceRequest> {
        Core::try_next(&self.core)
    }

    /// How long [`DeviceEnd::next`] looks for requests before it sleeps, in nanoseconds; 0 at
    /// first. It pays when client and server have a CPU each.
    pub fn set_poll_ns(&self, ns: u64) {
        self.core.set_poll_ns(ns);
    }

    /// Tells the client something that answers no request: a notification, or an answer to an
    /// INTERRUPT. `message` is a whole one, header included. The client has taken it when this
    /// returns, so nothing that it said before is believed any more. Does not block.
    ///
    /// # Errors
    /// What the client says, as write(2) on `/dev/fuse` does: EINVAL (no such message), ENOENT
    /// (nothing of that number or name is known); ENOTCONN before the client listens and after the
    /// end of the connection.
    pub fn tell(&self, message: &[u8]) -> Result<(), Refusal> {
        self.core.tell(message)
    }

    /// Ends the connection, as dropping it does: every thread in [`DeviceEnd::next`] returns.
    /// Idempotent.
    pub fn close(&self) {
        self.core
            .end(Death::Peer("the server in this process ended".into()));
    }

    /// Access to the ring below all rules, for peers that misbehave on purpose.
    #[must_use]
    pub fn raw(&self) -> &RawDevice {
        &self.raw
    }
}

impl Drop for DeviceEnd {
    fn drop(&mut self) {
        self.close();
    }
}
