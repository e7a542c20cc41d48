//! Doorbells: eventfds that the peer has too.

use rustix::buffer::spare_capacity;
use rustix::event::epoll::{self, CreateFlags, EventData, EventFlags};
use rustix::event::{EventfdFlags, eventfd};
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::io::{Errno, ReadWriteFlags};
use std::io;

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
}

impl Doorbells {
    pub(super) fn new() -> io::Result<Self> {
        let bells = Doorbells {
            kicks: [counter()?, counter()?],
            call: counter()?,
            wake: counter()?,
            waiting: epoll::create(CreateFlags::CLOEXEC)?,
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

    /// Rings for the peer.
    pub(super) fn kick(&self, queue: usize) {
        ring(&self.kicks[queue]);
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

    /// Empties the counters of the kicks. A peer that made one blocking and filled it holds up
    /// whoever kicks; this lets go of them.
    pub(super) fn release(&self) {
        for fd in &self.kicks {
            let mut count = [0; 8];
            // Without NOWAIT, the same peer could hold up this read. An empty counter is EAGAIN.
            let _ = rustix::io::preadv2(
                fd,
                &mut [rustix::io::IoSliceMut::new(&mut count)],
                u64::MAX,
                ReadWriteFlags::NOWAIT,
            );
        }
    }
}

/// An eventfd that neither side blocks on.
pub(super) fn counter() -> io::Result<OwnedFd> {
    Ok(eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?)
}

/// Adds 1. A full counter is as good.
pub(super) fn ring(fd: &OwnedFd) {
    while rustix::io::write(fd, &1u64.to_ne_bytes()) == Err(Errno::INTR) {}
}
