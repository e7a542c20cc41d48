//! loom: with a completion in the ring, or a request, it never happens that everybody sleeps. (A
//! lost notification is a deadlock, which loom reports.)

use crate::bell::Bell;
use crate::device::DeviceQueueId::Request;
use crate::device::{DeviceQueue, Work};
use crate::ring::driver::{Calls, DriverQueue};
use crate::ring::layout::RingLayout;
use crate::ring::memory::model::ModelMemory;
use crate::ring::parts::Part;
use crate::ring::shadow::Chain;
use fusewire_sync::atomic::{AtomicU32, Ordering};
use fusewire_sync::{Arc, Mutex, Rank, thread};

/// Every word of a ring.
fn words(ring: RingLayout) -> impl Iterator<Item = u64> {
    let each = 0..ring.size;
    let descriptors = each.clone().flat_map(move |id| {
        let at = ring.desc_at(id);
        [at, at + 8, at + 12, at + 14]
    });
    let entries = each.flat_map(move |i| {
        let used = ring.used_entry(i);
        [ring.avail_entry(i), used, used + 4]
    });
    let rest = [
        ring.avail_flags(),
        ring.avail_idx(),
        ring.used_event(),
        ring.used_flags(),
        ring.used_idx(),
        ring.avail_event(),
    ];
    descriptors.chain(entries).chain(rest)
}

/// A ring between a driver and a device, each with its bell.
struct Pair {
    driver: Mutex<DriverQueue<ModelMemory>>,
    driver_bell: Bell,
    device: Work<ModelMemory>,
    /// Payload, one word for each descriptor: 1 once the driver has written the request, 2 once the
    /// device has written the answer. Ordered by nothing but the ring.
    payload: [AtomicU32; 2],
}

impl Pair {
    fn new(event_idx: bool) -> Self {
        let (ring, end) = RingLayout::new(2, 0);
        // The hiprio queue stays empty, but the device arms and looks at it.
        let (idle, _) = RingLayout::new(2, end);
        let memory = Arc::new(ModelMemory::new(words(ring).chain(words(idle))));
        let device = |at| DeviceQueue::new(Arc::clone(&memory), at, event_idx);
        let driver = DriverQueue::new(Arc::clone(&memory), ring, event_idx, Calls::OnRequest);
        Pair {
            driver: Mutex::new(Rank::RING, driver),
            driver_bell: Bell::new(),
            device: Work::new(device(idle), device(ring)),
            payload: [AtomicU32::new(0), AtomicU32::new(0)],
        }
    }

    fn submit(&self) {
        let mut driver = self.driver.lock();
        let id = driver.first_free().expect("a free descriptor");
        self.payload[usize::from(id)].store(1, Ordering::Relaxed);
        let part = Part {
            addr: 0,
            len: 1,
            flags: 0,
        };
        let chain = Chain {
            token: u32::from(id),
            reply_head_bytes: 0,
            writable_bytes: 0,
        };
        driver.push(std::iter::once(part), chain).expect("room");
    }

    fn kick(&self) {
        let due = self.driver.lock().take_kick();
        if due {
            self.device.kick();
        }
    }

    /// Takes everything that has come back, and returns how much.
    fn reap(&self) -> u32 {
        let mut driver = self.driver.lock();
        let pending = driver.pending().expect("an honest device");
        for _ in 0..pending {
            let used = driver.pop().expect("an honest device");
            let payload = &self.payload[used.chain.token as usize];
            assert_eq!(payload.load(Ordering::Relaxed), 2, "answer not visible");
        }
        u32::from(pending)
    }

    /// As a transport waits.
    fn reap_all(&self, count: u32) {
        let mut done = 0;
        while done < count {
            done += self.reap();
            if done < count && self.driver.lock().arm() {
                self.driver_bell.wait();
            }
        }
    }

    /// Serves `count` requests.
    fn serve(&self, count: u32) {
        for _ in 0..count {
            let found = self.device.next(|| false).expect("an honest driver");
            let head = found.expect("not ended");
            assert_eq!(head.0, Request);
            let payload = &self.payload[usize::from(head.1)];
            assert_eq!(payload.load(Ordering::Relaxed), 1, "request not visible");
            payload.store(2, Ordering::Relaxed);
            if self.device.give_back(head, 0) {
                self.driver_bell.ring();
            }
        }
    }
}

/// Two preemptions find each fence and each second look that is left out; a third costs seconds.
fn check(model: impl Fn() + Sync + Send + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(3);
    builder.check(model);
}

fn one_server(event_idx: bool) {
    check(move || {
        let pair = Arc::new(Pair::new(event_idx));
        let server = {
            let pair = Arc::clone(&pair);
            thread::spawn("server", move || pair.serve(2)).unwrap()
        };
        pair.submit();
        pair.kick();
        pair.submit();
        pair.kick();
        pair.reap_all(2);
        server.join().unwrap();
    });
}

#[test]
fn loom_nobody_misses_the_other_with_event_idx() {
    one_server(true);
}

#[test]
fn loom_nobody_misses_the_other_without_event_idx() {
    one_server(false);
}

#[test]
fn loom_one_kick_for_two_requests_is_enough() {
    check(|| {
        let pair = Arc::new(Pair::new(true));
        let server = {
            let pair = Arc::clone(&pair);
            thread::spawn("server", move || pair.serve(2)).unwrap()
        };
        pair.submit();
        pair.submit();
        pair.kick();
        pair.reap_all(2);
        server.join().unwrap();
    });
}

/// Each server takes one request only: if one sleeps on while the other has its one, a request
/// stays in the ring.
#[test]
fn loom_an_idle_server_takes_what_a_busy_one_cannot() {
    check(|| {
        let pair = Arc::new(Pair::new(true));
        let servers: Vec<_> = (0..2)
            .map(|_| {
                let pair = Arc::clone(&pair);
                thread::spawn("server", move || pair.serve(1)).unwrap()
            })
            .collect();
        pair.submit();
        pair.kick();
        pair.submit();
        pair.kick();
        pair.reap_all(2);
        for server in servers {
            server.join().unwrap();
        }
    });
}

/// Submitting and reaping are different threads in an engine: the one that kicks is not the one
/// that waits.
#[test]
fn loom_a_reaper_that_waits_hears_of_a_request_submitted_later() {
    check(|| {
        let pair = Arc::new(Pair::new(true));
        let server = {
            let pair = Arc::clone(&pair);
            thread::spawn("server", move || pair.serve(1)).unwrap()
        };
        let reaper = {
            let pair = Arc::clone(&pair);
            thread::spawn("reaper", move || pair.reap_all(1)).unwrap()
        };
        pair.submit();
        pair.kick();
        server.join().unwrap();
        reaper.join().unwrap();
    });
}
