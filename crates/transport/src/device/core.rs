//! What the threads of a server share: both queues, and where to sleep.

use super::chain::{Buffer, Buffers, DriverFault, RegionId, follow};
use super::queue::DeviceQueue;
use super::raw::DeviceQueueId;
use super::request::DeviceRequest;
use crate::bell::Bell;
use crate::life::Life;
use crate::ring::queues::Queues;
use crate::types::Death;
use fusewire_mem::{Arena, Region, SharedBytes};
use fusewire_sync::atomic::{AtomicU64, Ordering};
use fusewire_sync::time::Clock;
use fusewire_sync::{Arc, Condvar, Mutex, MutexGuard, Rank, thread};

/// Lists of buffers that are kept for later requests.
const SPARE: usize = 64;

pub(crate) struct Core {
    ring: Arc<Region>,
    arena: Arc<Arena>,
    state: Mutex<State>,
    /// Told when a chain is available, and at the end.
    work: Condvar,
    poll_ns: AtomicU64,
    clock: Clock,
    /// The driver's bell.
    driver: Arc<Bell>,
    life: Arc<Life>,
}

struct State {
    queues: [DeviceQueue<Region>; 2],
    /// Threads that sleep in `next`.
    sleeping: usize,
    spare: Vec<Buffers>,
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
        let plan = driver.plan();
        Core {
            state: Mutex::new(
                Rank::LEAF,
                State {
                    queues: [queue(plan.hiprio), queue(plan.request)],
                    sleeping: 0,
                    spare: Vec::new(),
                },
            ),
            arena: Arc::clone(driver.arena()),
            work: Condvar::new(),
            poll_ns: AtomicU64::new(0),
            clock: Clock::monotonic(),
            driver: bell,
            life,
            ring,
        }
    }

    pub(crate) fn set_poll_ns(&self, ns: u64) {
        self.poll_ns.store(ns, Ordering::Relaxed);
    }

    /// Called by the driver when a queue asks for it.
    pub(crate) fn kick(&self) {
        let _state = self.state.lock();
        self.work.notify_one();
    }

    /// Ends the connection and everybody's sleep.
    pub(crate) fn end(&self, reason: Death) {
        if self.life.end(reason) {
            {
                let _state = self.state.lock();
                self.work.notify_all();
            }
            self.driver.ring();
        }
    }

    pub(crate) fn next(self: &Arc<Self>) -> Option<DeviceRequest> {
        if let Some(request) = self.poll() {
            return Some(request);
        }
        let mut state = self.state.lock();
        loop {
            if self.life.ended() {
                return None;
            }
            match self.pop(&mut state) {
                Ok(Some(request)) => return Some(request),
                Ok(None) => {}
                Err(fault) => {
                    drop(state);
                    self.end(Death::Peer(fault.to_string()));
                    return None;
                }
            }
            if state.arm() {
                state.sleeping += 1;
                state = self.work.wait(state);
                state.sleeping -= 1;
            }
        }
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

    pub(crate) fn try_next(self: &Arc<Self>) -> Option<DeviceRequest> {
        if self.life.ended() {
            return None;
        }
        let popped = self.pop(&mut self.state.lock());
        popped.unwrap_or_else(|fault| {
            self.end(Death::Peer(fault.to_string()));
            None
        })
    }

    fn pop(self: &Arc<Self>, state: &mut State) -> Result<Option<DeviceRequest>, DriverFault> {
        for id in [DeviceQueueId::Hiprio, DeviceQueueId::Request] {
            let queue = &mut state.queues[id as usize];
            let Some(head) = queue.pop()? else { continue };
            let ring = queue.ring();
            let mut buffers = state.spare.pop().unwrap_or_default();
            let locate = |addr, len| self.locate(addr, len);
            follow(&*self.ring, ring, head, locate, &mut buffers)?;
            // Whoever sleeps asked to be told about the chain that was just taken.
            if state.sleeping > 0 && !state.arm() {
                self.work.notify_one();
            }
            return Ok(Some(DeviceRequest::new(
                Arc::clone(self),
                id,
                head,
                buffers,
            )));
        }
        Ok(None)
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

    /// Returns a chain, or drops it unreturned (`written` = `None`), and keeps its list.
    pub(crate) fn give_back(
        &self,
        id: DeviceQueueId,
        head: u16,
        written: Option<u32>,
        buffers: Buffers,
    ) {
        let call = {
            let mut state = self.state.lock();
            if state.spare.len() < SPARE {
                state.spare.push(buffers);
            }
            let queue = &mut state.queues[id as usize];
            written.is_some_and(|len| {
                queue.push(head, len);
                queue.take_call()
            })
        };
        if call {
            self.driver.ring();
        }
    }

    pub(crate) fn call(&self) {
        self.driver.ring();
    }

    /// Access to one queue for [`RawDevice`](super::RawDevice).
    pub(crate) fn with_queue<T>(
        &self,
        id: DeviceQueueId,
        f: impl FnOnce(&mut DeviceQueue<Region>) -> T,
    ) -> T {
        let mut state: MutexGuard<'_, State> = self.state.lock();
        f(&mut state.queues[id as usize])
    }
}

impl State {
    /// Asks for a kick at the next chain of either queue; returns whether there is none yet.
    fn arm(&mut self) -> bool {
        let [hiprio, request] = &mut self.queues;
        // Not short-circuited: both have to be armed.
        hiprio.arm() & request.arm()
    }
}
