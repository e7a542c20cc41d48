//! The driver against two devices: our own, and the crate `virtio-queue`, which has never heard of
//! it.

use super::queues::{Queues, RingFeatures};
use crate::device::{Buffer, Buffers, DeviceQueue, RegionId, follow};
use crate::types::{Completion, Submission, SubmitError};
use fusewire_mem::{Arena, Region, Segment, SharedBytes};
use fusewire_sync::Arc;
use proptest::prelude::*;
use std::collections::BTreeMap;
use virtio_queue::{Queue, QueueOwnedT, QueueT};
use vm_memory::{Bytes, FileOffset, GuestAddress, GuestMemory, GuestMemoryMmap, Permissions};

const QUEUE_SIZE: u16 = 16;
/// Bytes of the arena that belong to a tag: half for each direction.
const TAG_BYTES: u64 = 32 << 10;
/// Longest payload segment here.
const SEGMENT_BYTES: u32 = 2000;

/// A request, as a device found it.
struct Taken {
    head: u16,
    readable: Vec<u8>,
    writable_bytes: usize,
}

trait Device {
    fn new(driver: &Queues) -> Self;
    fn take(&mut self) -> Option<Taken>;
    /// Answers with `bytes`; returns whether the driver has to be called.
    fn answer(&mut self, head: u16, bytes: &[u8]) -> bool;
    /// Asks for a kick; returns whether it may sleep.
    fn sleep(&mut self) -> bool;
}

struct Own {
    queue: DeviceQueue<Region>,
    ring: Arc<Region>,
    arena: Arc<Arena>,
    taken: BTreeMap<u16, Buffers>,
}

impl Own {
    fn bytes(&self, region: RegionId, offset: u64, len: u32) -> SharedBytes<'_> {
        let region = match region {
            RegionId::Ring => &*self.ring,
            RegionId::Arena => self.arena.region(),
        };
        region.bytes(offset, len as usize)
    }
}

impl Device for Own {
    fn new(driver: &Queues) -> Self {
        let ring = Arc::clone(driver.region());
        let event_idx = driver.features().event_idx;
        Own {
            queue: DeviceQueue::new(Arc::clone(&ring), driver.plan().request, event_idx),
            ring,
            arena: Arc::clone(driver.arena()),
            taken: BTreeMap::new(),
        }
    }

    fn take(&mut self) -> Option<Taken> {
        let head = self.queue.pop().expect("an honest driver")?;
        let locate = |addr: u64, len| {
            [
                (RegionId::Ring, &*self.ring),
                (RegionId::Arena, self.arena.region()),
            ]
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
        };
        let buffers = follow(&*self.ring, self.queue.ring(), head, locate).expect("a sound chain");
        let readable = buffers.all[..buffers.readable]
            .iter()
            .flat_map(|b| self.bytes(b.region, b.offset, b.len).to_vec())
            .collect();
        let writable_bytes = buffers.writable_bytes;
        self.taken.insert(head, buffers);
        Some(Taken {
            head,
            readable,
            writable_bytes,
        })
    }

    fn answer(&mut self, head: u16, bytes: &[u8]) -> bool {
        let buffers = self.taken.remove(&head).expect("taken");
        let mut rest = bytes;
        for buffer in &buffers.all[buffers.readable..] {
            let (now, later) = rest.split_at(rest.len().min(buffer.len as usize));
            self.bytes(buffer.region, buffer.offset, now.len() as u32)
                .copy_from(now);
            rest = later;
        }
        self.queue.push(head, bytes.len() as u32);
        self.queue.take_call()
    }

    fn sleep(&mut self) -> bool {
        self.queue.arm()
    }
}

struct Foreign {
    queue: Queue,
    memory: GuestMemoryMmap,
    writable: BTreeMap<u16, Vec<(GuestAddress, usize)>>,
}

impl Device for Foreign {
    fn new(driver: &Queues) -> Self {
        let mut ranges = [driver.region(), driver.arena().region()].map(|region| {
            let file = region.fd().try_clone_to_owned().expect("a descriptor");
            (
                GuestAddress(region.base_addr()),
                region.len(),
                Some(FileOffset::new(file.into(), 0)),
            )
        });
        ranges.sort_by_key(|range| range.0);
        let memory = GuestMemoryMmap::from_ranges_with_files(ranges).expect("mapped");
        let ring = driver.plan().request;
        let base = driver.region().base_addr();
        let mut queue = Queue::new(ring.size).expect("a size");
        queue.set_size(ring.size);
        let address = |at: u64| GuestAddress(base + at);
        queue
            .try_set_desc_table_address(address(ring.desc))
            .expect("aligned");
        queue
            .try_set_avail_ring_address(address(ring.avail))
            .expect("aligned");
        queue
            .try_set_used_ring_address(address(ring.used))
            .expect("aligned");
        queue.set_event_idx(driver.features().event_idx);
        queue.set_ready(true);
        assert!(queue.is_valid(&memory));
        Foreign {
            queue,
            memory,
            writable: BTreeMap::new(),
        }
    }

    fn take(&mut self) -> Option<Taken> {
        let chain = self
            .queue
            .iter(&self.memory)
            .expect("a sound index")
            .next()?;
        let head = chain.head_index();
        let mut readable = Vec::new();
        let mut writable = Vec::new();
        for descriptor in chain {
            let (addr, len) = (descriptor.addr(), descriptor.len() as usize);
            if descriptor.is_write_only() {
                writable.push((addr, len));
            } else {
                assert!(writable.is_empty(), "readable behind writable");
                let mut bytes = vec![0; len];
                self.memory.read_slice(&mut bytes, addr).expect("in bounds");
                readable.extend(bytes);
            }
        }
        let writable_bytes = writable.iter().map(|(_, len)| len).sum();
        self.writable.insert(head, writable);
        Some(Taken {
            head,
            readable,
            writable_bytes,
        })
    }

    fn answer(&mut self, head: u16, bytes: &[u8]) -> bool {
        let mut rest = bytes;
        for (addr, len) in self.writable.remove(&head).expect("taken") {
            let (now, later) = rest.split_at(rest.len().min(len));
            assert!(self.memory.check_range(addr, len, Permissions::ReadWrite));
            self.memory.write_slice(now, addr).expect("in bounds");
            rest = later;
        }
        self.queue
            .add_used(&self.memory, head, bytes.len() as u32)
            .expect("a sound ring");
        self.queue
            .needs_notification(&self.memory)
            .expect("a sound ring")
    }

    fn sleep(&mut self) -> bool {
        // True means that there is more.
        !self
            .queue
            .enable_notification(&self.memory)
            .expect("a sound ring")
    }
}

#[derive(Clone, Debug)]
enum Op {
    Submit {
        head_bytes: usize,
        out: Vec<u32>,
        reply_head_bytes: u32,
        back: Vec<u32>,
    },
    Kick,
    Take,
    /// Which of the chains that the device has, and how much of its room; both wrap.
    Answer(usize, usize),
    DeviceSleeps,
    Reap,
    DriverSleeps,
}

fn op() -> impl Strategy<Value = Op> {
    let segments = || prop::collection::vec(1..SEGMENT_BYTES, 0..6);
    prop_oneof![
        4 => (8usize..300, segments(), 16u32..200, segments()).prop_map(
            |(head_bytes, out, reply_head_bytes, back)| Op::Submit {
                head_bytes,
                out,
                reply_head_bytes,
                back,
            }
        ),
        2 => Just(Op::Kick),
        4 => Just(Op::Take),
        4 => any::<(usize, usize)>().prop_map(|(which, written)| Op::Answer(which, written)),
        1 => Just(Op::DeviceSleeps),
        2 => Just(Op::Reap),
        1 => Just(Op::DriverSleeps),
    ]
}

/// What a tag in flight should bring back.
struct Expected {
    request: Vec<u8>,
    reply_head_bytes: u32,
    back: Vec<Segment>,
    answer: Option<Vec<u8>>,
}

/// The driver, a device, and what is known of both.
struct World<D> {
    driver: Queues,
    device: D,
    in_flight: BTreeMap<u32, Expected>,
    /// Chains that the device has, with their tags.
    held: Vec<(u16, u32, usize)>,
    device_asleep: bool,
    driver_asleep: bool,
    /// Feeds the contents.
    next_byte: u8,
    /// Makes each request one of its kind.
    submitted: u64,
}

impl<D: Device> World<D> {
    fn new(features: RingFeatures) -> Self {
        let arena = Arena::new(2 << 20).unwrap();
        let driver = Queues::new(arena, QUEUE_SIZE, features).unwrap();
        World {
            device: D::new(&driver),
            driver,
            in_flight: BTreeMap::new(),
            held: Vec::new(),
            device_asleep: false,
            driver_asleep: false,
            next_byte: 0,
            submitted: 0,
        }
    }

    fn content(&mut self, len: usize) -> Vec<u8> {
        (0..len)
            .map(|_| {
                self.next_byte = self.next_byte.wrapping_mul(5).wrapping_add(113);
                self.next_byte
            })
            .collect()
    }

    /// Segments of these lengths in a tag's part of the arena, every other pair of them adjacent.
    fn segments(start: u64, lens: &[u32]) -> Vec<Segment> {
        let mut at = start;
        (0..)
            .zip(lens)
            .map(|(i, len)| {
                let segment = Segment {
                    offset: at,
                    len: *len,
                };
                at += u64::from(*len) + if i % 2 == 0 { 0 } else { 64 };
                segment
            })
            .collect()
    }

    fn apply(&mut self, op: &Op) {
        match op {
            Op::Submit {
                head_bytes,
                out,
                reply_head_bytes,
                back,
            } => self.submit(*head_bytes, out, *reply_head_bytes, back),
            Op::Kick => self.kick(),
            Op::Take => self.take(),
            Op::Answer(which, written) => self.answer(*which, *written),
            Op::DeviceSleeps => self.device_asleep = self.device.sleep(),
            Op::Reap => self.reap(),
            Op::DriverSleeps => self.driver_asleep = self.driver.arm(),
        }
    }

    fn submit(&mut self, head_bytes: usize, out: &[u32], reply_head_bytes: u32, back: &[u32]) {
        let limits = self.driver.limits(false, false);
        let Some(tag) = (0..limits.max_in_flight).find(|t| !self.in_flight.contains_key(t)) else {
            return;
        };
        let start = u64::from(tag) * TAG_BYTES;
        let out = Self::segments(start, out);
        let back = Self::segments(start + TAG_BYTES / 2, back);
        let mut head = self.content(head_bytes);
        self.submitted += 1;
        head[..8].copy_from_slice(&self.submitted.to_ne_bytes());
        let mut request = head.clone();
        for segment in &out {
            let bytes = self.content(segment.len as usize);
            let arena = self.driver.arena();
            arena
                .region()
                .bytes(segment.offset, bytes.len())
                .copy_from(&bytes);
            request.extend(bytes);
        }
        let submitted = self.driver.submit(&Submission {
            tag,
            head: &head,
            payload_out: &out,
            reply_head_bytes,
            payload_in: &back,
        });
        if submitted == Err(SubmitError::Full) {
            assert!(!self.driver.features().indirect, "full with a free tag");
            assert!(!self.in_flight.is_empty(), "full while empty");
            return;
        }
        submitted.unwrap();
        let expected = Expected {
            request,
            reply_head_bytes,
            back,
            answer: None,
        };
        self.in_flight.insert(tag, expected);
    }

    fn kick(&mut self) {
        let kicked = self.driver.take_kick().request;
        if kicked {
            self.device_asleep = false;
        }
        let waiting = self.in_flight.len() > self.held.len() + self.answered();
        assert!(
            !(self.device_asleep && waiting),
            "the device sleeps with a request in the ring"
        );
    }

    fn answered(&self) -> usize {
        self.in_flight
            .values()
            .filter(|e| e.answer.is_some())
            .count()
    }

    fn take(&mut self) {
        if self.device_asleep {
            return;
        }
        let Some(taken) = self.device.take() else {
            return;
        };
        let (tag, expected) = self
            .in_flight
            .iter()
            .find(|(_, e)| e.request == taken.readable)
            .expect("a request that was never made");
        let back: u32 = expected.back.iter().map(|s| s.len).sum();
        assert_eq!(
            taken.writable_bytes,
            (expected.reply_head_bytes + back) as usize
        );
        self.held.push((taken.head, *tag, taken.writable_bytes));
    }

    fn answer(&mut self, which: usize, written: usize) {
        if self.held.is_empty() {
            return;
        }
        let (head, tag, room) = self.held.swap_remove(which % self.held.len());
        let answer = self.content(written % (room + 1));
        let called = self.device.answer(head, &answer);
        self.in_flight.get_mut(&tag).unwrap().answer = Some(answer);
        if called {
            self.driver_asleep = false;
        }
        assert!(
            !self.driver_asleep,
            "the driver sleeps with a reply in the ring"
        );
    }

    fn reap(&mut self) {
        let mut replies = Vec::new();
        self.driver
            .reap(&mut |c: Completion<'_>| {
                replies.push((c.tag, c.head.to_vec(), c.payload_bytes));
            })
            .unwrap();
        assert_eq!(replies.len(), self.answered());
        for (tag, head, payload_bytes) in replies {
            let expected = self.in_flight.remove(&tag).expect("in flight");
            let answer = expected.answer.expect("answered");
            let mut got = head;
            assert!(got.len() == expected.reply_head_bytes as usize || payload_bytes == 0);
            let mut left = payload_bytes as usize;
            for segment in expected.back {
                let n = left.min(segment.len as usize);
                let arena = self.driver.arena().region();
                got.extend(arena.bytes(segment.offset, n).to_vec());
                left -= n;
            }
            assert_eq!(got, answer);
        }
    }

    fn run(mut self, ops: &[Op]) {
        for op in ops {
            self.apply(op);
        }
        // Whatever is under way comes to its end, and leaves nothing behind.
        self.kick();
        self.device_asleep = false;
        for _ in 0..QUEUE_SIZE {
            self.take();
        }
        self.driver_asleep = false;
        while !self.held.is_empty() {
            self.answer(0, 0);
        }
        self.reap();
        assert!(self.in_flight.is_empty());
    }
}

fn features() -> impl Strategy<Value = RingFeatures> {
    any::<(bool, bool)>().prop_map(|(event_idx, indirect)| RingFeatures {
        event_idx,
        indirect,
    })
}

proptest! {
    #[test]
    fn what_goes_in_comes_out_of_our_own_device(
        features in features(),
        ops in prop::collection::vec(op(), 1..200),
    ) {
        World::<Own>::new(features).run(&ops);
    }

    #[test]
    fn what_goes_in_comes_out_of_a_foreign_device(
        features in features(),
        ops in prop::collection::vec(op(), 1..200),
    ) {
        World::<Foreign>::new(features).run(&ops);
    }
}
