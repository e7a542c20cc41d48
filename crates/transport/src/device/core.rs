//! A device: its queues, the memory behind them, and its driver's bell.

use super::chain::{Buffer, DriverFault, RegionId, follow};
use super::queue::DeviceQueue;
use super::raw::DeviceQueueId;
use super::request::DeviceRequest;
use super::work::{Head, Work};
use crate::Inbox;
use crate::bell::Bell;
use crate::life::Life;
use crate::ring::layout::Plan;
use crate::ring::queues::Queues;
use crate::types::{Death, Refusal};
use fusewire_mem::{Arena, Region, SharedBytes};
use fusewire_sync::atomic::{AtomicU64, Ordering};
use fusewire_sync::time::Clock;
use fusewire_sync::{Arc, OnceLock, Weak, thread};

/// ENOTCONN: the connection has ended, or nobody has begun it.
const NOT_CONNECTED: i32 = rustix::io::Errno::NOTCONN.raw_os_error();

pub(crate) struct Core {
    work: Work<Region>,
    plan: Plan,
    ring: Arc<Region>,
    arena: Arc<Arena>,
    poll_ns: AtomicU64,
    clock: Clock,
    /// The driver's bell.
    driver: Arc<Bell>,
    life: Arc<Life>,
    inbox: OnceLock<Weak<dyn Inbox>>,
}

impl std::fmt::Debug for Core {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Core")
            .field("life", &self.life)
            .finish_non_exhaustive()
    }
}

impl Core {
    pub(crate) fn new(driver: &Queues, bell: Arc<Bell>, life: Arc<Life>) -> Self {
        let ring = Arc::clone(driver.region());
        let queue = |at| DeviceQueue::new(Arc::clone(&ring), at, driver.features().event_idx);
        let plan = *driver.plan();
        Core {
            work: Work::new(queue(plan.hiprio), queue(plan.request)),
            plan,
            arena: Arc::clone(driver.arena()),
            poll_ns: AtomicU64::new(0),
            clock: Clock::monotonic(),
            driver: bell,
            life,
            inbox: OnceLock::new(),
            ring,
        }
    }

    pub(crate) fn set_poll_ns(&self, ns: u64) {
        self.poll_ns.store(ns, Ordering::Relaxed);
    }

    /// Called by the driver when a queue asks for it.
    pub(crate) fn kick(&self) {
        self.work.kick();
    }

    /// Calls the driver.
    pub(crate) fn call(&self) {
        self.driver.ring();
    }

    /// Who takes messages of the device's own accord; the first one counts.
    pub(crate) fn set_inbox(&self, inbox: Weak<dyn Inbox>) {
        let _ = self.inbox.set(inbox);
    }

    pub(crate) fn tell(&self, message: &[u8]) -> Result<(), Refusal> {
        if self.life.ended() {
            return Err(Refusal(NOT_CONNECTED));
        }
        match self.inbox.get().and_then(Weak::upgrade) {
            Some(inbox) => inbox.message(message),
            None => Err(Refusal(NOT_CONNECTED)),
        }
    }

    /// Ends the connection and everybody's sleep.
    pub(crate) fn end(&self, reason: Death) {
        if self.life.end(reason) {
            self.work.wake_all();
            self.driver.ring();
        }
    }

    pub(crate) fn next(self: &Arc<Self>) -> Option<DeviceRequest> {
        if let Some(request) = self.poll() {
            return Some(request);
        }
        self.read(self.work.next(|| self.life.ended()))
    }

    pub(crate) fn try_next(self: &Arc<Self>) -> Option<DeviceRequest> {
        if self.life.ended() {
            return None;
        }
        self.read(self.work.try_next())
    }

    /// Looks for a request for as long as was asked for.
    fn poll(self: &Arc<Self>) -> Option<DeviceRequest> {
        let poll_ns = self.poll_ns.load(Ordering::Relaxed);
        if poll_ns == 0 {
            return None;
        }
        let end_ns = self.clock.now_ns().saturating_add(poll_ns);
        while !self.life.ended() {
            if let Some(request) = self.try_next() {
                return Some(request);
            }
            if self.clock.now_ns() >= end_ns {
                break;
            }
            // Without this, a client on the same CPU could not make the request we look for.
            thread::yield_now();
        }
        None
    }

    /// Reads the chain that was found. A broken one ends the connection.
    fn read(self: &Arc<Self>, found: Result<Option<Head>, DriverFault>) -> Option<DeviceRequest> {
        let read = found.and_then(|head| {
            let Some((id, first)) = head else {
                return Ok(None);
            };
            let ring = match id {
                DeviceQueueId::Hiprio => self.plan.hiprio,
                DeviceQueueId::Request => self.plan.request,
            };
            let locate = |addr, len| self.locate(addr, len);
            let buffers = follow(&*self.ring, ring, first, locate)?;
            Ok(Some(DeviceRequest::new(
                Arc::clone(self),
                (id, first),
                buffers,
            )))
        });
        read.unwrap_or_else(|fault| {
            self.end(Death::Peer(fault.to_string()));
            None
        })
    }

    fn locate(&self, addr: u64, len: u32) -> Option<Buffer> {
        let arena = self.arena.region();
        [(RegionId::Arena, arena), (RegionId::Ring, &*self.ring)]
            .into_iter()
            .find_map(|(id, region)| {
                let offset = addr.checked_sub(region.base_addr())?;
                region.get(offset, len as usize)?;
                Some(Buffer {
                    region: id,
                    offset,
                    len,
                })
            })
    }

    pub(crate) fn bytes(&self, buffer: Buffer) -> SharedBytes<'_> {
        let region = match buffer.region {
            RegionId::Ring => &*self.ring,
            RegionId::Arena => self.arena.region(),
        };
        region.bytes(buffer.offset, buffer.len as usize)
    }

    /// A part of the region that the rings live in.
    pub(crate) fn ring_bytes(&self, at: u64, len: usize) -> SharedBytes<'_> {
        self.ring.bytes(at, len)
    }

    pub(crate) fn plan(&self) -> &Plan {
        &self.plan
    }

    pub(crate) fn arena(&self) -> SharedBytes<'_> {
        let arena = self.arena.region();
        arena.bytes(0, arena.len())
    }

    /// Returns a chain with `len` bytes written.
    pub(crate) fn give_back(&self, head: Head, len: u32) {
        if self.work.give_back(head, len) {
            self.call();
        }
    }

    /// Access to one queue for [`RawDevice`](super::RawDevice).
    pub(crate) fn with_queue<T>(
        &self,
        id: DeviceQueueId,
        f: impl FnOnce(&mut DeviceQueue<Region>) -> T,
    ) -> T {
        self.work.with_queue(id, f)
    }
}
