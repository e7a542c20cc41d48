//! The ring below all rules.

use super::core::Core;
use fusewire_sync::Arc;

/// One of the two queues of a FUSE device (virtio 1.2, 5.11.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DeviceQueueId {
    /// Queue 0: messages without a reply.
    Hiprio = 0,
    /// Queue 1: requests.
    Request = 1,
}

/// Writes anything into the used rings, for peers that misbehave on purpose. After that, the
/// ordinary answers of the same [`DeviceEnd`](super::DeviceEnd) go on from the index that was set.
#[derive(Debug)]
pub struct RawDevice {
    core: Arc<Core>,
}

impl RawDevice {
    pub(super) fn new(core: Arc<Core>) -> Self {
        RawDevice { core }
    }

    /// Entries of a queue.
    #[must_use]
    pub fn queue_size(&self, queue: DeviceQueueId) -> u16 {
        self.core.with_queue(queue, |q| q.ring().size)
    }

    /// The used index, as published last.
    #[must_use]
    pub fn used_index(&self, queue: DeviceQueueId) -> u16 {
        self.core.with_queue(queue, |q| q.used_index())
    }

    /// Publishes a used index.
    pub fn set_used_index(&self, queue: DeviceQueueId, index: u16) {
        self.core.with_queue(queue, |q| q.set_used_index(index));
    }

    /// Writes the used entry that index `index` stands for, without publishing it.
    pub fn write_used_entry(&self, queue: DeviceQueueId, index: u16, id: u32, len: u32) {
        self.core
            .with_queue(queue, |q| q.write_entry(index, id, len));
    }

    /// Returns `id` with `len`, whatever they are, and calls the driver.
    pub fn push_used(&self, queue: DeviceQueueId, id: u32, len: u32) {
        self.core.with_queue(queue, |q| {
            let index = q.used_index();
            q.write_entry(index, id, len);
            q.set_used_index(index.wrapping_add(1));
        });
        self.call();
    }

    /// Calls the driver, asked for or not.
    pub fn call(&self) {
        self.core.call();
    }
}
