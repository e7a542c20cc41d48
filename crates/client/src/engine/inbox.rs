//! What the peer says of its own accord.

use super::Engine;
use fusewire_sync::Weak;
use fusewire_sync::atomic::Ordering;
use fusewire_transport::{Inbox, Refusal};
use fusewire_wire::notify::{Message, Notification};
use rustix::io::Errno;

/// Who is told of notifications.
pub(crate) trait Notified: Send + Sync {
    /// The first step, on the thread that reads the channel: from its return on, nothing that the
    /// notification is about passes for valid. Does not block.
    ///
    /// # Errors
    /// What Linux tells the daemon: ENOENT, EINVAL, ENOTEMPTY …
    fn notified(&self, notification: &Notification<'_>) -> Result<(), Errno>;

    /// The second step, on the completion thread: lets go of what is stale. Does not wait for the
    /// peer.
    fn settle(&self);

    /// The connection has ended: nobody is to wait any more. Does not block.
    fn ended(&self);
}

impl Engine {
    /// From now on notifications are taken; the first call counts.
    pub(crate) fn notify(&self, who: Weak<dyn Notified>) {
        let _ = self.notified.set(who);
    }

    /// Has the completion thread take the second step.
    pub(crate) fn settle_later(&self) {
        self.unsettled.store(true, Ordering::Release);
        self.wake_completion();
    }

    pub(super) fn settle(&self) {
        let unsettled = self.unsettled.swap(false, Ordering::AcqRel);
        if unsettled && let Some(who) = self.notified.get().and_then(Weak::upgrade) {
            who.settle();
        }
    }

    fn receive(&self, message: &[u8]) -> Result<(), Errno> {
        let message =
            Message::parse(message).map_err(|error| Errno::from_raw_os_error(error.errno()))?;
        match message {
            Message::Notification(notification) => {
                self.counters.notifications.count();
                // Before INIT was answered, nothing is known that could be stale.
                let who = self.notified.get().and_then(Weak::upgrade);
                who.ok_or(Errno::NOTCONN)?.notified(&notification)
            }
            Message::InterruptAnswer { unique, errno } => {
                self.interrupt_answered(unique, Errno::from_raw_os_error(errno))
            }
        }
    }
}

impl Inbox for Engine {
    fn message(&self, message: &[u8]) -> Result<(), Refusal> {
        self.receive(message)
            .map_err(|errno| Refusal(errno.raw_os_error()))
    }
}
