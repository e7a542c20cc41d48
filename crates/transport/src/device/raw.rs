//! The ring below all rules.

use super::core::Core;
use crate::ring::layout::{MAX_HEAD_BYTES, MAX_REPLY_HEAD_BYTES};
use fusewire_mem::SharedBytes;
use fusewire_sync::Arc;

/// One of the two queues of a FUSE device (virtio 1.2, 5.11.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DeviceQueueId {
    /// Queue 0: messages without a reply.
    Hiprio = 0,
    /// Queue 1: requests.
    Request = 1,
}

/// A part of the memory that client and device share. The device can write to all of it at any
/// time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SharedPart {
    /// The client's descriptors of a queue.
    Descriptors(DeviceQueueId),
    /// What the client makes available on a queue: flags and index of 2 bytes each, entries of 2
    /// bytes, and at which used index it wants a call (2 bytes).
    Available(DeviceQueueId),
    /// What the device returns on a queue: flags and index of 2 bytes each, entries of 8 bytes (id,
    /// length), and at which available index it wants a kick (2 bytes).
    Used(DeviceQueueId),
    /// The head of the request that has this tag.
    Head(u32),
    /// The indirect table of the request that has this tag.
    Table(u32),
    /// The head of the reply to the request that has this tag.
    ReplyHead(u32),
    /// Payloads.
    Arena,
}

/// Writes anything anywhere in shared memory, for peers that misbehave on purpose. After that, the
/// ordinary answers of the same [`DeviceEnd`](super::DeviceEnd) go on from the used index that was
/// set. What it has read of a request already is its own; what it reads later, it finds as it was
/// left.
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

    /// Memory that the client has, too.
    ///
    /// # Panics
    /// When the tag is none: they are below [`RawDevice::queue_size`] of the requests.
    #[must_use]
    pub fn shared(&self, part: SharedPart) -> SharedBytes<'_> {
        let plan = self.core.plan();
        let ring = |id| match id {
            DeviceQueueId::Hiprio => plan.hiprio,
            DeviceQueueId::Request => plan.request,
        };
        let of_ring = |at, len: u64| self.core.ring_bytes(at, len as usize);
        match part {
            SharedPart::Descriptors(id) => {
                let at = ring(id);
                of_ring(at.desc, at.desc_at(at.size) - at.desc)
            }
            SharedPart::Available(id) => {
                let at = ring(id);
                of_ring(at.avail, at.used_event() + 2 - at.avail)
            }
            SharedPart::Used(id) => {
                let at = ring(id);
                of_ring(at.used, at.avail_event() + 2 - at.used)
            }
            SharedPart::Head(tag) => of_ring(plan.head_cell(tag), MAX_HEAD_BYTES as u64),
            SharedPart::Table(tag) => of_ring(plan.table(tag), plan.table_bytes()),
            SharedPart::ReplyHead(tag) => {
                of_ring(plan.reply_cell(tag), MAX_REPLY_HEAD_BYTES as u64)
            }
            SharedPart::Arena => self.core.arena(),
        }
    }

    /// Calls the driver, asked for or not.
    pub fn call(&self) {
        self.core.call();
    }
}
