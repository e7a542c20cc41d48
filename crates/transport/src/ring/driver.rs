//! Driver side of one split virtqueue.

use super::layout::{DESC_BYTES, RingLayout};
use super::memory::RingMemory;
use super::parts::{F_INDIRECT, F_NEXT, Part};
use super::passed;
use super::shadow::{Chain, Shadow};
use crate::types::{PeerFault, SubmitError};
use fusewire_sync::Arc;

/// Avail flag: the device need not call (only without EVENT_IDX).
const NO_INTERRUPT: u16 = 1;
/// Used flag: the driver need not kick (only without EVENT_IDX).
const NO_NOTIFY: u16 = 1;

/// Whether the device calls when it has used a buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Calls {
    /// Only when armed.
    OnRequest,
    /// Never, unless armed.
    Quiet,
}

/// A chain that came back.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Used {
    pub(crate) chain: Chain,
    /// Bytes that the device says it wrote; at most the chain's writable bytes.
    pub(crate) len: u32,
}

/// One queue, as its driver sees it. Callers lock around it.
#[derive(Debug)]
pub(crate) struct DriverQueue<M> {
    memory: Arc<M>,
    ring: RingLayout,
    event_idx: bool,
    shadow: Shadow,
    /// Avail index, as published.
    avail: u16,
    /// Avail index at the last decision to kick or not.
    kicked: u16,
    /// Used index up to which entries were taken.
    used: u16,
    fault: Option<PeerFault>,
}

impl<M: RingMemory> DriverQueue<M> {
    /// A queue at `ring` of `memory`, which is zeroed there.
    pub(crate) fn new(memory: Arc<M>, ring: RingLayout, event_idx: bool, calls: Calls) -> Self {
        if event_idx {
            // Just passed: no call for another 65,535 entries.
            memory.store_u16(ring.used_event(), u16::MAX);
        } else if calls == Calls::Quiet {
            memory.store_u16(ring.avail_flags(), NO_INTERRUPT);
        }
        DriverQueue {
            memory,
            ring,
            event_idx,
            shadow: Shadow::new(ring.size),
            avail: 0,
            kicked: 0,
            used: 0,
            fault: None,
        }
    }

    /// Which descriptor the next chain will start with, if one is free.
    pub(crate) fn first_free(&self) -> Option<u16> {
        self.shadow.first_free()
    }

    /// Makes `parts` available as one chain.
    pub(crate) fn push(
        &mut self,
        parts: impl Iterator<Item = Part> + Clone,
        chain: Chain,
    ) -> Result<(), SubmitError> {
        if self.fault.is_some() {
            return Err(SubmitError::Dead);
        }
        let count = u16::try_from(parts.clone().count()).map_err(|_| SubmitError::Full)?;
        let head = self.shadow.take(count, chain).ok_or(SubmitError::Full)?;
        let mut id = head;
        for (i, part) in (1..).zip(parts) {
            let next = self.shadow.next(id);
            let link = (i < count).then_some(next);
            write_descriptor(&*self.memory, self.ring.desc_at(id), part, link);
            id = next;
        }
        let memory = &*self.memory;
        memory.store_u16(self.ring.avail_entry(self.avail), head);
        self.avail = self.avail.wrapping_add(1);
        memory.store_u16_release(self.ring.avail_idx(), self.avail);
        Ok(())
    }

    /// Whether the device has to be told of what was pushed since the last call of this. The caller
    /// must then tell it.
    pub(crate) fn take_kick(&mut self) -> bool {
        let old = std::mem::replace(&mut self.kicked, self.avail);
        if old == self.avail {
            return false;
        }
        // The index must be visible before the event is read, or both sides may miss each other.
        self.memory.full_fence();
        if self.event_idx {
            let event = self.memory.load_u16(self.ring.avail_event());
            passed(event, self.avail, old)
        } else {
            self.memory.load_u16(self.ring.used_flags()) & NO_NOTIFY == 0
        }
    }

    /// How many chains have come back and were not taken yet.
    ///
    /// # Errors
    /// When the device claims more than it was given, now or earlier.
    pub(crate) fn pending(&mut self) -> Result<u16, PeerFault> {
        if let Some(fault) = &self.fault {
            return Err(fault.clone());
        }
        let now = self.memory.load_u16_acquire(self.ring.used_idx());
        let pending = now.wrapping_sub(self.used);
        if pending > self.shadow.outstanding() {
            return Err(self.fail(format!(
                "used index moved from {} to {now} with {} requests outstanding",
                self.used,
                self.shadow.outstanding()
            )));
        }
        Ok(pending)
    }

    /// Takes the next used entry; [`DriverQueue::pending`] has said that there is one.
    pub(crate) fn pop(&mut self) -> Result<Used, PeerFault> {
        if let Some(fault) = &self.fault {
            return Err(fault.clone());
        }
        let at = self.ring.used_entry(self.used);
        let id = self.memory.load_u32(at);
        let len = self.memory.load_u32(at + 4);
        match self.shadow.give_back(id, len) {
            Ok(chain) => {
                self.used = self.used.wrapping_add(1);
                Ok(Used { chain, len })
            }
            Err(error) => Err(self.fail(error.to_string())),
        }
    }

    /// Asks for a call at the next used entry. Returns whether there is still none; only then may
    /// the caller sleep.
    pub(crate) fn arm(&mut self) -> bool {
        if self.event_idx {
            self.memory.store_u16(self.ring.used_event(), self.used);
        } else {
            self.memory.store_u16(self.ring.avail_flags(), 0);
        }
        // The request must be visible before the index is read; see `take_kick`.
        self.memory.full_fence();
        self.pending() == Ok(0)
    }

    fn fail(&mut self, what: String) -> PeerFault {
        let fault = PeerFault(what);
        self.fault = Some(fault.clone());
        fault
    }
}

/// Writes `parts` as an indirect table at `at` and returns the part that stands for it.
pub(crate) fn write_table<M: RingMemory>(
    memory: &M,
    at: u64,
    addr: u64,
    parts: impl Iterator<Item = Part>,
) -> Part {
    let mut count = 0u16;
    let mut parts = parts.peekable();
    while let Some(part) = parts.next() {
        let place = at + DESC_BYTES * u64::from(count);
        count += 1;
        write_descriptor(memory, place, part, parts.peek().map(|_| count));
    }
    Part {
        addr,
        len: u32::from(count) * DESC_BYTES as u32,
        flags: F_INDIRECT,
    }
}

fn write_descriptor<M: RingMemory>(memory: &M, at: u64, part: Part, next: Option<u16>) {
    let link = if next.is_some() { F_NEXT } else { 0 };
    memory.store_u64(at, part.addr);
    memory.store_u32(at + 8, part.len);
    memory.store_u16(at + 12, part.flags | link);
    memory.store_u16(at + 14, next.unwrap_or(0));
}

#[cfg(all(test, not(any(fusewire_sync = "loom", fusewire_sync = "shuttle"))))]
mod tests {
    use super::*;
    use crate::ring::parts::F_WRITE;
    use fusewire_sync::atomic::{AtomicU32, Ordering};

    /// Ring memory in which a peer rewrites every 32-bit word as soon as it has been read once: a
    /// used entry is all that has any.
    struct Fickle {
        words: Vec<AtomicU32>,
    }

    impl Fickle {
        /// Two 16-bit words have a place each, and so has every 32-bit word.
        fn at(&self, at: u64) -> &AtomicU32 {
            &self.words[at as usize / 2]
        }
    }

    impl RingMemory for Fickle {
        fn load_u16_acquire(&self, at: u64) -> u16 {
            self.at(at).load(Ordering::Acquire) as u16
        }
        fn store_u16_release(&self, at: u64, value: u16) {
            self.at(at).store(value.into(), Ordering::Release);
        }
        fn load_u16(&self, at: u64) -> u16 {
            self.at(at).load(Ordering::Relaxed) as u16
        }
        fn store_u16(&self, at: u64, value: u16) {
            self.at(at).store(value.into(), Ordering::Relaxed);
        }
        fn load_u32(&self, at: u64) -> u32 {
            self.at(at).swap(u32::MAX, Ordering::Relaxed)
        }
        fn store_u32(&self, at: u64, value: u32) {
            self.at(at).store(value, Ordering::Relaxed);
        }
        fn load_u64(&self, _at: u64) -> u64 {
            panic!("a driver reads no descriptor")
        }
        fn store_u64(&self, at: u64, value: u64) {
            self.at(at).store(value as u32, Ordering::Relaxed);
        }
        fn full_fence(&self) {}
    }

    #[test]
    fn a_used_entry_is_read_once_and_a_descriptor_never() {
        let (ring, end) = RingLayout::new(8, 0);
        let words = (0..end.div_ceil(2)).map(|_| AtomicU32::new(0)).collect();
        let memory = Arc::new(Fickle { words });
        let mut queue = DriverQueue::new(Arc::clone(&memory), ring, true, Calls::OnRequest);
        for token in 0..20 {
            let parts = [0, F_WRITE].map(|flags| Part {
                addr: 4096,
                len: 40,
                flags,
            });
            let chain = Chain {
                token,
                reply_head_bytes: 16,
                writable_bytes: 40,
            };
            let head = queue.first_free().unwrap();
            queue.push(parts.into_iter(), chain).unwrap();
            // The device has it, and rewrites what it can.
            for id in 0..8 {
                for word in 0..8 {
                    memory.store_u16(ring.desc_at(id) + 2 * word, u16::MAX);
                }
            }
            let index = token as u16;
            memory.store_u16(ring.avail_entry(index), u16::MAX);
            memory.store_u16(ring.avail_idx(), 7);
            memory.store_u32(ring.used_entry(index), head.into());
            memory.store_u32(ring.used_entry(index) + 4, 33);
            memory.store_u16_release(ring.used_idx(), index + 1);
            assert_eq!(queue.pending(), Ok(1));
            let used = queue.pop().unwrap();
            assert_eq!((used.chain, used.len), (chain, 33));
        }
    }
}
