//! Replies that arrive later than they came.

use super::forward;
use crate::{Completion, PeerFault, Transport};
use fusewire_sync::time::Clock;
use fusewire_sync::timer::{Fire, Timer};
use fusewire_sync::{Arc, Mutex, Rank};
use std::collections::VecDeque;
use std::io;
use std::time::Duration;

/// Hands every reply on a fixed time after it came, in the order in which they came.
///
/// [`Transport::reap`] does not block for it: a reply that is held back is reaped by a later call,
/// and the waiter is woken for it by a timer.
pub struct Delayed<T> {
    inner: Arc<T>,
    delay_ns: u64,
    clock: Clock,
    timer: Timer,
    wake: Arc<Wake<T>>,
    held: Mutex<VecDeque<Held>>,
}

struct Held {
    due_ns: u64,
    tag: u32,
    head: Vec<u8>,
    payload_bytes: u32,
}

struct Wake<T>(Arc<T>);

impl<T: Transport> Fire for Wake<T> {
    fn fire(&self, _now_ns: u64) {
        self.0.wake();
    }
}

impl<T: Transport + 'static> Delayed<T> {
    /// Holds every reply of `inner` back for `delay`.
    ///
    /// # Errors
    /// EAGAIN when no thread can be started for the timer.
    pub fn new(inner: T, delay: Duration) -> io::Result<Self> {
        let clock = Clock::monotonic();
        let timer = Timer::start(clock.clone())?;
        Ok(Self::with_timer(inner, delay, clock, timer))
    }

    /// As [`Delayed::new`] with a timer of the caller's, which runs on `clock`.
    pub fn with_timer(inner: T, delay: Duration, clock: Clock, timer: Timer) -> Self {
        let inner = Arc::new(inner);
        Delayed {
            delay_ns: u64::try_from(delay.as_nanos()).unwrap_or(u64::MAX),
            clock,
            timer,
            wake: Arc::new(Wake(Arc::clone(&inner))),
            held: Mutex::new(
                Rank::LEAF,
                VecDeque::with_capacity(inner.limits().max_in_flight as usize),
            ),
            inner,
        }
    }

    /// The next held reply, if it is due.
    fn next_due(&self, now_ns: u64) -> Option<Held> {
        let mut held = self.held.lock();
        if held.front()?.due_ns <= now_ns {
            held.pop_front()
        } else {
            None
        }
    }
}

impl<T: Transport + 'static> Transport for Delayed<T> {
    forward!(limits arena submit submit_oneway kick wait wake listen watch close);

    fn reap(&self, sink: &mut dyn FnMut(Completion<'_>)) -> Result<usize, PeerFault> {
        self.inner.reap(&mut |completion| {
            let due_ns = self.clock.now_ns().saturating_add(self.delay_ns);
            self.held.lock().push_back(Held {
                due_ns,
                tag: completion.tag,
                head: completion.head.to_vec(),
                payload_bytes: completion.payload_bytes,
            });
            let wake: Arc<dyn Fire> = self.wake.clone();
            self.timer.arm(due_ns, Arc::downgrade(&wake));
        })?;
        let now_ns = self.clock.now_ns();
        let mut count = 0;
        while let Some(held) = self.next_due(now_ns) {
            sink(Completion {
                tag: held.tag,
                head: &held.head,
                payload_bytes: held.payload_bytes,
            });
            count += 1;
        }
        Ok(count)
    }
}

impl<T: std::fmt::Debug> std::fmt::Debug for Delayed<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Delayed")
            .field("inner", &self.inner)
            .field("delay_ns", &self.delay_ns)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{Fake, lookup};
    use super::*;
    use fusewire_wire::errno::ENOENT;

    fn reaped(transport: &impl Transport) -> Vec<u32> {
        let mut tags = Vec::new();
        let count = transport
            .reap(&mut |completion| tags.push(completion.tag))
            .unwrap();
        assert_eq!(count, tags.len());
        tags
    }

    #[test]
    fn replies_come_late_in_order_and_wake_the_waiter() {
        let clock = Clock::manual();
        let delayed = Delayed::with_timer(
            Fake::new(4),
            Duration::from_nanos(100),
            clock.clone(),
            Timer::manual(clock.clone()),
        );
        for tag in 0..3 {
            lookup(&delayed, tag, u64::from(tag) * 2 + 2, b"a").unwrap();
        }
        delayed.inner.reply_error(1, ENOENT);
        assert!(reaped(&delayed).is_empty());
        clock.advance(50);
        delayed.inner.reply_error(0, ENOENT);
        assert!(reaped(&delayed).is_empty());
        delayed.timer.run_due();
        assert_eq!(delayed.inner.wakes(), 0);

        clock.advance(50);
        delayed.timer.run_due();
        assert_eq!(delayed.inner.wakes(), 1);
        assert_eq!(reaped(&delayed), [1]);
        delayed.inner.reply_error(2, ENOENT);
        assert!(reaped(&delayed).is_empty());
        clock.advance(100);
        delayed.timer.run_due();
        assert_eq!(delayed.inner.wakes(), 3);
        assert_eq!(reaped(&delayed), [0, 2]);
        assert!(reaped(&delayed).is_empty());
    }

    #[test]
    fn without_a_delay_replies_pass_through() {
        let delayed = Delayed::new(Fake::new(1), Duration::ZERO).unwrap();
        lookup(&delayed, 0, 2, b"a").unwrap();
        delayed.inner.reply_error(0, ENOENT);
        assert_eq!(reaped(&delayed), [0]);
    }
}
