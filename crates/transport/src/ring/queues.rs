//! The two queues of a FUSE device, and the cells that heads and reply heads are copied through.

use super::driver::{Calls, DriverQueue, Used, write_table};
use super::layout::{MAX_HEAD_BYTES, MAX_REPLY_HEAD_BYTES, Plan, QUEUE_SIZES};
use super::parts::{F_WRITE, Merged, Part};
use super::shadow::Chain;
use crate::types::{Completion, Limits, PeerFault, Submission, SubmitError};
use fusewire_mem::{Arena, Region, Segment};
use fusewire_sync::atomic::{AtomicBool, Ordering};
use fusewire_sync::{Arc, Mutex, Rank};
use std::io;

/// Replies taken at a time under the queue's lock.
const BATCH: usize = 16;

/// Payload of one request, in each direction: what daemons take at most.
const MAX_PAYLOAD_BYTES: u32 = 1 << 20;

/// What was agreed on with the device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RingFeatures {
    /// VIRTIO_F_EVENT_IDX: both sides say at which index they want to be told.
    pub(crate) event_idx: bool,
    /// VIRTIO_F_INDIRECT_DESC: a request takes one descriptor of the ring.
    pub(crate) indirect: bool,
}

/// Which queues to kick.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Kick {
    pub(crate) hiprio: bool,
    pub(crate) request: bool,
}

/// Driver side of a FUSE device: queue 0 (hiprio) for messages without a reply, queue 1 for
/// requests.
pub(crate) struct Queues {
    region: Arc<Region>,
    arena: Arc<Arena>,
    plan: Plan,
    features: RingFeatures,
    max_in_flight: u32,
    hiprio: Mutex<DriverQueue<Region>>,
    /// Whether something was pushed on hiprio since the last kick.
    hiprio_pushed: AtomicBool,
    /// Whether the device broke the rules on hiprio.
    hiprio_broken: AtomicBool,
    request: Mutex<DriverQueue<Region>>,
    /// For each tag: whether it is in flight.
    tags: Box<[AtomicBool]>,
}

impl std::fmt::Debug for Queues {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Queues")
            .field("plan", &self.plan)
            .field("features", &self.features)
            .finish_non_exhaustive()
    }
}

impl Queues {
    /// Queues of `queue_size` entries in a region of their own, for payload in `arena`.
    ///
    /// # Errors
    /// EINVAL when `queue_size` is no power of two from 8 to 32,768; else as [`Region::new`].
    pub(crate) fn new(
        arena: Arc<Arena>,
        queue_size: u16,
        features: RingFeatures,
    ) -> io::Result<Self> {
        if !QUEUE_SIZES.contains(&queue_size) || !queue_size.is_power_of_two() {
            return Err(io::Error::new(
                io::ErrorKind::InvalidInput,
                format!("a queue of {queue_size} entries: choose a power of two from 8 to 32768"),
            ));
        }
        let plan = Plan::new(queue_size);
        let region = Arc::new(Region::new("fusewire-ring", plan.total as usize)?);
        let queue = |ring, calls| {
            let queue = DriverQueue::new(Arc::clone(&region), ring, features.event_idx, calls);
            Mutex::new(Rank::RING, queue)
        };
        let max_in_flight = if features.indirect {
            u32::from(queue_size)
        } else {
            // Each takes at least two descriptors.
            u32::from(queue_size / 2)
        };
        Ok(Queues {
            hiprio: queue(plan.hiprio, Calls::Quiet),
            request: queue(plan.request, Calls::OnRequest),
            hiprio_pushed: AtomicBool::new(false),
            hiprio_broken: AtomicBool::new(false),
            tags: (0..max_in_flight).map(|_| AtomicBool::new(false)).collect(),
            region,
            arena,
            plan,
            features,
            max_in_flight,
        })
    }

    pub(crate) fn region(&self) -> &Arc<Region> {
        &self.region
    }

    pub(crate) fn arena(&self) -> &Arc<Arena> {
        &self.arena
    }

    pub(crate) fn plan(&self) -> &Plan {
        &self.plan
    }

    pub(crate) fn features(&self) -> RingFeatures {
        self.features
    }

    /// Limits, for a transport that can or cannot send INTERRUPT and wants RELEASE waited for.
    pub(crate) fn limits(&self, interrupts: bool, sync_release: bool) -> Limits {
        Limits {
            max_in_flight: self.max_in_flight,
            max_segments: self.plan.max_segments,
            max_payload_bytes: MAX_PAYLOAD_BYTES,
            interrupts,
            sync_release,
        }
    }

    /// Queues a request; see [`Transport::submit`](crate::Transport::submit).
    pub(crate) fn submit(&self, request: &Submission<'_>) -> Result<(), SubmitError> {
        let writable_bytes = self.check(request);
        let tag = request.tag;
        let in_flight = &self.tags[tag as usize];
        assert!(
            !in_flight.swap(true, Ordering::AcqRel),
            "tag {tag} is in flight"
        );
        // The cells of a tag belong to whoever submits it; only the ring itself needs the lock.
        let head_at = self.plan.head_cell(tag);
        self.region
            .bytes(head_at, request.head.len())
            .copy_from(request.head);
        let parts = self.parts(request, head_at);
        let chain = Chain {
            token: tag,
            reply_head_bytes: request.reply_head_bytes,
            writable_bytes,
        };
        let result = if self.features.indirect {
            let at = self.plan.table(tag);
            let table = write_table(&*self.region, at, self.addr(at), parts);
            self.request.lock().push(std::iter::once(table), chain)
        } else {
            self.request.lock().push(parts, chain)
        };
        if result.is_err() {
            in_flight.store(false, Ordering::Release);
        }
        result
    }

    /// Panics when `request` exceeds the limits, and returns how much the device may write.
    fn check(&self, request: &Submission<'_>) -> u32 {
        let Submission {
            tag,
            head,
            payload_out,
            reply_head_bytes,
            payload_in,
        } = request;
        assert!(*tag < self.max_in_flight, "tag {tag}");
        assert!(
            (1..=MAX_HEAD_BYTES).contains(&head.len()),
            "a head of {} bytes",
            head.len()
        );
        assert!(
            (16..=MAX_REPLY_HEAD_BYTES as u32).contains(reply_head_bytes),
            "a reply head of {reply_head_bytes} bytes"
        );
        let segments = payload_out.len() + payload_in.len();
        assert!(
            segments <= self.plan.max_segments as usize,
            "{segments} segments"
        );
        let bytes = |segments: &[Segment]| {
            let arena_bytes = self.arena.region().len() as u64;
            let total: u64 = segments
                .iter()
                .map(|s| {
                    let end = s.offset.checked_add(u64::from(s.len));
                    assert!(
                        s.len > 0 && end.is_some_and(|end| end <= arena_bytes),
                        "{s:?} of an arena of {arena_bytes} bytes"
                    );
                    u64::from(s.len)
                })
                .sum();
            assert!(total <= u64::from(MAX_PAYLOAD_BYTES), "{total} bytes");
            total as u32
        };
        bytes(payload_out);
        reply_head_bytes + bytes(payload_in)
    }

    fn addr(&self, at: u64) -> u64 {
        self.region.base_addr() + at
    }

    /// Everything the device reads, then everything it may write.
    fn parts<'a>(
        &self,
        request: &Submission<'a>,
        head_at: u64,
    ) -> impl Iterator<Item = Part> + Clone + use<'a> {
        let head = Part {
            addr: self.addr(head_at),
            len: request.head.len() as u32,
            flags: 0,
        };
        let reply = Part {
            addr: self.addr(self.plan.reply_cell(request.tag)),
            len: request.reply_head_bytes,
            flags: F_WRITE,
        };
        let base = self.arena.region().base_addr();
        std::iter::once(head)
            .chain(Merged::new(request.payload_out, base, 0))
            .chain(std::iter::once(reply))
            .chain(Merged::new(request.payload_in, base, F_WRITE))
    }

    /// Queues a message without a reply; see
    /// [`Transport::submit_oneway`](crate::Transport::submit_oneway).
    pub(crate) fn submit_oneway(&self, head: &[u8]) -> Result<(), SubmitError> {
        assert!(
            (1..=MAX_HEAD_BYTES).contains(&head.len()),
            "a message of {} bytes",
            head.len()
        );
        let mut queue = self.hiprio.lock();
        let mut taken = take_all(&mut queue);
        if taken.is_ok() && queue.first_free().is_none() && !queue.arm() {
            taken = take_all(&mut queue);
        }
        if taken.is_err() {
            // The next reap says why.
            self.hiprio_broken.store(true, Ordering::Release);
            return Err(SubmitError::Dead);
        }
        // Still full: the call that was just asked for ends the next wait.
        let id = queue.first_free().ok_or(SubmitError::Full)?;
        let at = self.plan.oneway_cell(id);
        self.region.bytes(at, head.len()).copy_from(head);
        let part = Part {
            addr: self.addr(at),
            len: head.len() as u32,
            flags: 0,
        };
        let chain = Chain {
            token: u32::from(id),
            ..Chain::default()
        };
        queue.push(std::iter::once(part), chain)?;
        self.hiprio_pushed.store(true, Ordering::Release);
        Ok(())
    }

    /// Which queues the device has to be told about.
    pub(crate) fn take_kick(&self) -> Kick {
        let hiprio = self.hiprio_pushed.load(Ordering::Relaxed)
            && self.hiprio_pushed.swap(false, Ordering::AcqRel)
            && self.hiprio.lock().take_kick();
        let request = self.request.lock().take_kick();
        Kick { hiprio, request }
    }

    /// See [`Transport::reap`](crate::Transport::reap).
    pub(crate) fn reap(&self, sink: &mut dyn FnMut(Completion<'_>)) -> Result<usize, PeerFault> {
        if self.hiprio_broken.load(Ordering::Acquire) {
            self.hiprio.lock().pending()?;
        }
        let mut head = [0; MAX_REPLY_HEAD_BYTES];
        let mut batch = [Used::default(); BATCH];
        let mut done = 0;
        // What arrives after this is for the next call: a busy peer must not keep us here.
        let mut pending = usize::from(self.request.lock().pending()?);
        while pending > 0 {
            let (taken, fault) = {
                let mut queue = self.request.lock();
                let mut fault = None;
                let mut taken = 0;
                for used in batch.iter_mut().take(pending) {
                    match queue.pop() {
                        Ok(entry) => *used = entry,
                        Err(error) => {
                            fault = Some(error);
                            break;
                        }
                    }
                    taken += 1;
                }
                (taken, fault)
            };
            for used in &batch[..taken] {
                sink(self.read_reply(*used, &mut head));
            }
            done += taken;
            pending -= taken;
            if let Some(fault) = fault {
                return Err(fault);
            }
        }
        Ok(done)
    }

    /// Copies a reply head out, once; after that the tag is free.
    fn read_reply<'a>(
        &self,
        used: Used,
        head: &'a mut [u8; MAX_REPLY_HEAD_BYTES],
    ) -> Completion<'a> {
        let Used { chain, len } = used;
        let head_bytes = len.min(chain.reply_head_bytes);
        let head = &mut head[..head_bytes as usize];
        self.region
            .bytes(self.plan.reply_cell(chain.token), head.len())
            .copy_to(head);
        self.tags[chain.token as usize].store(false, Ordering::Release);
        Completion {
            tag: chain.token,
            head,
            payload_bytes: len - head_bytes,
        }
    }

    /// Asks for a call at the next reply. Returns whether there is none yet; only then may the
    /// caller sleep.
    pub(crate) fn arm(&self) -> bool {
        self.request.lock().arm()
    }
}

/// Takes back every message that the device is done with.
fn take_all(queue: &mut DriverQueue<Region>) -> Result<(), PeerFault> {
    for _ in 0..queue.pending()? {
        queue.pop()?;
    }
    Ok(())
}
