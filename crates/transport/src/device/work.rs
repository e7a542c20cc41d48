//! Where the threads of a server find requests, and where they sleep when there are none.

use super::chain::DriverFault;
use super::queue::DeviceQueue;
use super::raw::DeviceQueueId;
use crate::ring::memory::RingMemory;
use fusewire_sync::{Condvar, Mutex, Rank};

/// Both queues of a device, shared by its threads.
#[derive(Debug)]
pub(crate) struct Work<M> {
    state: Mutex<State<M>>,
    /// Told when a chain is available, and at the end.
    available: Condvar,
}

#[derive(Debug)]
struct State<M> {
    /// By [`DeviceQueueId`].
    queues: [DeviceQueue<M>; 2],
    /// Threads that sleep.
    sleeping: usize,
}

/// A chain: its queue and its first descriptor.
pub(crate) type Head = (DeviceQueueId, u16);

impl<M: RingMemory> Work<M> {
    /// Over the hiprio and the request queue.
    pub(crate) fn new(hiprio: DeviceQueue<M>, request: DeviceQueue<M>) -> Self {
        Work {
            state: Mutex::new(
                Rank::LEAF,
                State {
                    queues: [hiprio, request],
                    sleeping: 0,
                },
            ),
            available: Condvar::new(),
        }
    }

    /// Called by the driver when a queue asks for it.
    pub(crate) fn kick(&self) {
        // Whoever is about to sleep has the lock until it does, and is not missed. It is free again
        // before the sleeper wakes and wants it.
        drop(self.state.lock());
        self.available.notify_one();
    }

    /// Wakes everybody, to look at `ended` again.
    pub(crate) fn wake_all(&self) {
        drop(self.state.lock());
        self.available.notify_all();
    }

    /// The next chain, if one is there now.
    pub(crate) fn try_next(&self) -> Result<Option<Head>, DriverFault> {
        self.pop(&mut self.state.lock())
    }

    /// The next chain; sleeps until there is one, or until `ended` (then `None`).
    pub(crate) fn next(&self, ended: impl Fn() -> bool) -> Result<Option<Head>, DriverFault> {
        let mut state = self.state.lock();
        while !ended() {
            if let Some(head) = self.pop(&mut state)? {
                return Ok(Some(head));
            }
            if state.arm() {
                state.sleeping += 1;
                state = self.available.wait(state);
                state.sleeping -= 1;
            }
        }
        Ok(None)
    }

    fn pop(&self, state: &mut State<M>) -> Result<Option<Head>, DriverFault> {
        for id in [DeviceQueueId::Hiprio, DeviceQueueId::Request] {
            if let Some(head) = state.queues[id as usize].pop()? {
                // The sleepers asked to be told of the chain that was just taken: ask again.
                if state.sleeping > 0 && !state.arm() {
                    self.available.notify_one();
                }
                return Ok(Some((id, head)));
            }
        }
        Ok(None)
    }

    /// Returns a chain with `len` bytes written. Returns whether the driver has to be called.
    #[must_use]
    pub(crate) fn give_back(&self, (id, head): Head, len: u32) -> bool {
        let mut state = self.state.lock();
        let queue = &mut state.queues[id as usize];
        queue.push(head, len);
        queue.take_call()
    }

    /// Access to one queue for [`RawDevice`](super::RawDevice).
    pub(crate) fn with_queue<T>(
        &self,
        id: DeviceQueueId,
        f: impl FnOnce(&mut DeviceQueue<M>) -> T,
    ) -> T {
        f(&mut self.state.lock().queues[id as usize])
    }
}

impl<M: RingMemory> State<M> {
    /// Asks for a kick at the next chain of either queue; returns whether there is none yet.
    fn arm(&mut self) -> bool {
        let [hiprio, request] = &mut self.queues;
        // Not short-circuited: both have to be armed.
        hiprio.arm() & request.arm()
    }
}
