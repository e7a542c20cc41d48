//! Doorbells: eventfds that the peer has too.

use crate::life::Life;
use fusewire_sync::atomic::{AtomicU32, Ordering, fence};
use fusewire_sync::thread;
use rustix::buffer::spare_capacity;
use rustix::event::epoll::{self, CreateFlags, EventData, EventFlags};
use rustix::event::{EventfdFlags, eventfd};
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::io::{Errno, IoSliceMut, ReadWriteFlags, preadv2};
use std::io;

/// How often `release` empties the counters.
const RELEASES: u32 = 10_000;

/// How both sides ring for each other.
///
/// Waiting is one system call: both descriptors are watched edge-triggered, so that a ring ends the
/// wait whether or not anybody reads the counter, and nobody does. Our own wakes have a counter of
/// their own, because the peer could fill the shared one and so block whoever writes to it.
#[derive(Debug)]
pub(super) struct Doorbells {
    kicks: [OwnedFd; 2],
    call: OwnedFd,
    wake: OwnedFd,
    waiting: OwnedFd,
    /// Threads that may be ringing for the peer.
    kicking: AtomicU32,
}

impl Doorbells {
    pub(super) fn new() -> io::Result<Self> {
        let bells = Doorbells {
            kicks: [counter()?, counter()?],
            call: counter()?,
            wake: counter()?,
            waiting: epoll::create(CreateFlags::CLOEXEC)?,
            kicking: AtomicU32::new(0),
        };
        for fd in [&bells.call, &bells.wake] {
            let flags = EventFlags::IN | EventFlags::ET;
            epoll::add(&bells.waiting, fd, EventData::new_u64(0), flags)?;
        }
        Ok(bells)
    }

    /// The descriptor by which the peer calls.
    pub(super) fn call(&self) -> BorrowedFd<'_> {
        self.call.as_fd()
    }

    /// The descriptor by which queue `queue` is kicked.
    pub(super) fn kick_fd(&self, queue: usize) -> BorrowedFd<'_> {
        self.kicks[queue].as_fd()
    }

    /// Rings for the peer, unless the connection has ended.
    pub(super) fn kick(&self, queue: usize, life: &Life) {
        self.kicking.fetch_add(1, Ordering::AcqRel);
        // Either `release` sees us, or we see that the connection has ended.
        fence(Ordering::SeqCst);
        if !life.ended() {
            ring(&self.kicks[queue]);
        }
        self.kicking.fetch_sub(1, Ordering::AcqRel);
    }

    /// Ends the current or the next wait.
    pub(super) fn wake(&self) {
        ring(&self.wake);
    }

    /// Blocks until the peer calls or somebody wakes; a signal ends it too.
    pub(super) fn wait(&self) {
        let mut event = Vec::with_capacity(1);
        // The only failures are a signal and memory that ran out; either is an early return.
        let _ = epoll::wait(&self.waiting, spare_capacity(&mut event), None);
    }

    /// Lets go of threads that hang in a kick, once the connection has ended: a peer can make a
    /// counter blocking and fill it. Gives up on one that fills it again each time.
    pub(super) fn release(&self) {
        fence(Ordering::SeqCst);
        for _ in 0..RELEASES {
            if self.kicking.load(Ordering::Acquire) == 0 {
                return;
            }
            self.kicks.iter().for_each(empty);
            thread::yield_now();
        }
    }
}

/// Sets a counter to 0.
fn empty(fd: &OwnedFd) {
    let mut count = [0; 8];
    let mut place = [IoSliceMut::new(&mut count)];
    // An empty counter is EAGAIN; without NOWAIT, the same peer could hold up this read.
    let _ = preadv2(fd, &mut place, u64::MAX, ReadWriteFlags::NOWAIT);
}

/// An eventfd that neither side blocks on.
pub(super) fn counter() -> io::Result<OwnedFd> {
    Ok(eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?)
}

/// Adds 1. A full counter is as good.
pub(super) fn ring(fd: &OwnedFd) {
    while rustix::io::write(fd, &1u64.to_ne_bytes()) == Err(Errno::INTR) {}
}
