//! Device side of one split virtqueue.

use super::chain::DriverFault;
use crate::ring::layout::RingLayout;
use crate::ring::memory::RingMemory;
use crate::ring::passed;
use fusewire_sync::Arc;

/// Avail flag: the driver wants no calls (only without EVENT_IDX).
const NO_INTERRUPT: u16 = 1;

/// One queue, as its device sees it. Callers lock around it.
#[derive(Debug)]
pub(crate) struct DeviceQueue<M> {
    memory: Arc<M>,
    ring: RingLayout,
    event_idx: bool,
    /// Avail index up to which chains were taken.
    avail: u16,
    /// Used index, as published.
    used: u16,
    /// Used index at the last decision to call or not.
    called: u16,
    /// For each descriptor: whether it heads a chain that was taken and not returned.
    taken: Vec<bool>,
}

impl<M: RingMemory> DeviceQueue<M> {
    /// The device side of a ring that its driver has just made.
    pub(crate) fn new(memory: Arc<M>, ring: RingLayout, event_idx: bool) -> Self {
        DeviceQueue {
            memory,
            ring,
            event_idx,
            avail: 0,
            used: 0,
            called: 0,
            taken: vec![false; usize::from(ring.size)],
        }
    }

    pub(crate) fn ring(&self) -> RingLayout {
        self.ring
    }

    /// Whether a chain is available.
    pub(crate) fn has_work(&self) -> bool {
        self.memory.load_u16_acquire(self.ring.avail_idx()) != self.avail
    }

    /// Takes the first descriptor of the next chain, if there is one.
    pub(crate) fn pop(&mut self) -> Result<Option<u16>, DriverFault> {
        let now = self.memory.load_u16_acquire(self.ring.avail_idx());
        let waiting = now.wrapping_sub(self.avail);
        if waiting == 0 {
            return Ok(None);
        }
        if waiting > self.ring.size {
            return Err(DriverFault::IndexJump {
                from: self.avail,
                to: now,
            });
        }
        let head = self.memory.load_u16(self.ring.avail_entry(self.avail));
        let taken = self
            .taken
            .get_mut(usize::from(head))
            .ok_or(DriverFault::OutOfRange(head))?;
        if std::mem::replace(taken, true) {
            return Err(DriverFault::Twice(head));
        }
        self.avail = self.avail.wrapping_add(1);
        Ok(Some(head))
    }

    /// Asks for a kick at the next chain. Returns whether there is still none; only then may the
    /// caller sleep.
    pub(crate) fn arm(&mut self) -> bool {
        if self.event_idx {
            self.memory.store_u16(self.ring.avail_event(), self.avail);
        }
        // The request must be visible before the index is read.
        self.memory.full_fence();
        !self.has_work()
    }

    /// Returns the chain that starts at `head`, with `len` bytes written.
    pub(crate) fn push(&mut self, head: u16, len: u32) {
        self.write_entry(self.used, u32::from(head), len);
        self.used = self.used.wrapping_add(1);
        self.memory
            .store_u16_release(self.ring.used_idx(), self.used);
    }

    /// Whether the driver has to be told of what was returned since the last call of this. The
    /// caller must then tell it.
    pub(crate) fn take_call(&mut self) -> bool {
        let old = std::mem::replace(&mut self.called, self.used);
        if old == self.used {
            return false;
        }
        // The index must be visible before the event is read; see `arm` of the driver.
        self.memory.full_fence();
        if self.event_idx {
            let event = self.memory.load_u16(self.ring.used_event());
            passed(event, self.used, old)
        } else {
            self.memory.load_u16(self.ring.avail_flags()) & NO_INTERRUPT == 0
        }
    }

    /// Writes the used entry that index `index` goes to, without publishing it. Once it is, the
    /// driver may make chain `id` available again.
    pub(crate) fn write_entry(&mut self, index: u16, id: u32, len: u32) {
        if let Some(taken) = self.taken.get_mut(id as usize) {
            *taken = false;
        }
        let at = self.ring.used_entry(index);
        self.memory.store_u32(at, id);
        self.memory.store_u32(at + 4, len);
    }

    pub(crate) fn used_index(&self) -> u16 {
        self.used
    }

    /// Publishes any used index.
    pub(crate) fn set_used_index(&mut self, index: u16) {
        self.used = index;
        self.memory.store_u16_release(self.ring.used_idx(), index);
    }
}
