//! A server on threads of the same process, over the same ring.

use crate::bell::Bell;
use crate::device::{Core, DeviceEnd};
use crate::life::Life;
use crate::ring::queues::{Kick, Queues, RingFeatures};
use crate::types::{Completion, Death, Limits, PeerFault, Submission, SubmitError};
use crate::{Inbox, Transport};
use fusewire_mem::Arena;
use fusewire_sync::{Arc, Weak};
use std::io;

/// How large an in-process connection is.
#[derive(Clone, Debug)]
pub struct InProcOptions {
    /// Bytes of the client's arena, rounded up to whole 2 MiB.
    pub arena_bytes: usize,
    /// Requests that may be in flight: a power of two from 8 to 32,768.
    pub queue_size: u16,
}

impl Default for InProcOptions {
    fn default() -> Self {
        InProcOptions {
            arena_bytes: 256 << 20,
            queue_size: 256,
        }
    }
}

/// A transport to a [`DeviceEnd`] in this process.
///
/// INTERRUPT may be sent, by [`submit_oneway`](Transport::submit_oneway); like FORGET it may
/// overtake requests, and so arrive before the one that it is about.
#[derive(Debug)]
pub struct InProcess {
    queues: Queues,
    device: Arc<Core>,
    bell: Arc<Bell>,
    life: Arc<Life>,
}

/// A new connection: the client's transport and the server's end.
///
/// # Errors
/// EINVAL for sizes that cannot be had; ENOMEM, EMFILE or ENFILE when the system is out of them.
pub fn pair(options: &InProcOptions) -> io::Result<(InProcess, DeviceEnd)> {
    let features = RingFeatures {
        event_idx: true,
        indirect: true,
    };
    pair_with(options, features)
}

pub(crate) fn pair_with(
    options: &InProcOptions,
    features: RingFeatures,
) -> io::Result<(InProcess, DeviceEnd)> {
    let arena = Arena::new(options.arena_bytes)?;
    let queues = Queues::new(arena, options.queue_size, features)?;
    let bell = Arc::new(Bell::new());
    let life = Arc::new(Life::new());
    let device = Arc::new(Core::new(&queues, Arc::clone(&bell), Arc::clone(&life)));
    let end = DeviceEnd::new(Arc::clone(&device));
    let client = InProcess {
        queues,
        device,
        bell,
        life,
    };
    Ok((client, end))
}

impl Transport for InProcess {
    fn limits(&self) -> Limits {
        self.queues.limits(true, false)
    }

    fn arena(&self) -> &Arc<Arena> {
        self.queues.arena()
    }

    fn submit(&self, request: &Submission<'_>) -> Result<(), SubmitError> {
        if self.life.ended() {
            return Err(SubmitError::Dead);
        }
        self.queues.submit(request)
    }

    fn submit_oneway(&self, head: &[u8]) -> Result<(), SubmitError> {
        if self.life.ended() {
            return Err(SubmitError::Dead);
        }
        self.queues.submit_oneway(head)
    }

    fn kick(&self) {
        let Kick { hiprio, request } = self.queues.take_kick();
        if hiprio || request {
            self.device.kick();
        }
    }

    fn reap(&self, sink: &mut dyn FnMut(Completion<'_>)) -> Result<usize, PeerFault> {
        self.queues.reap(sink)
    }

    fn wait(&self) {
        if !self.life.ended() && self.queues.arm() {
            self.bell.wait();
        }
    }

    fn wake(&self) {
        self.bell.ring();
    }

    fn listen(&self, inbox: Weak<dyn Inbox>) {
        self.device.set_inbox(inbox);
    }

    fn watch(&self) -> Death {
        self.life.wait()
    }

    fn close(&self) {
        self.device.end(Death::Closed);
    }
}

impl Drop for InProcess {
    fn drop(&mut self) {
        self.close();
    }
}
