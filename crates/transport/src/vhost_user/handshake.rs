//! The handshake, step by step, each with its deadline.

use super::control::{Control, ControlError, QueueAddress, bits};
use super::deadline::Deadline;
use super::doorbell::Doorbells;
use super::error::{ConnectError, Step, resource};
use crate::ring::layout::RingLayout;
use crate::ring::queues::{Queues, RingFeatures};
use fusewire_mem::{Arena, Region};
use fusewire_sync::Arc;
use rustix::fd::AsFd;

/// Queues of a FUSE device: hiprio and one for requests.
pub(super) const QUEUES: u64 = 2;

/// No daemon is asked for more: the C virtiofsd cannot do it and does not say so.
const MAX_QUEUE_SIZE: u16 = 1024;

/// Smallest queue worth having.
const MIN_QUEUE_SIZE: u16 = 8;

/// Where a daemon that we did not start says more.
const LOG: &str = "look at its log";

/// What came of the handshake.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Agreed {
    /// virtio feature bits.
    pub(super) features: u64,
    /// vhost-user feature bits.
    pub(super) protocol_features: u64,
    /// How many memory regions the daemon maps at once, if it says.
    pub(super) max_mem_slots: Option<u64>,
    /// Entries of the request queue.
    pub(super) queue_size: u16,
}

/// A connection in the handshake.
pub(super) struct Handshake<'a, C> {
    control: C,
    deadline: &'a Deadline,
    /// For messages: the socket or the program.
    peer: &'a str,
}

impl<'a, C: Control> Handshake<'a, C> {
    pub(super) fn new(control: C, deadline: &'a Deadline, peer: &'a str) -> Self {
        Handshake {
            control,
            deadline,
            peer,
        }
    }

    fn step<T>(
        &mut self,
        step: Step,
        f: impl FnOnce(&mut C) -> Result<T, ControlError>,
    ) -> Result<T, ConnectError> {
        self.attempt(step, f)?.ok_or_else(|| self.refused(step))
    }

    fn refused(&self, step: Step) -> ConnectError {
        ConnectError::Refused {
            peer: self.peer.to_owned(),
            step,
            log: LOG.to_owned(),
        }
    }

    /// As `step`, but `None` when the peer refuses.
    fn attempt<T>(
        &mut self,
        step: Step,
        f: impl FnOnce(&mut C) -> Result<T, ControlError>,
    ) -> Result<Option<T>, ConnectError> {
        let result = {
            let _running = self.deadline.start();
            f(&mut self.control)
        };
        let peer = self.peer.to_owned();
        if self.deadline.passed() {
            return Err(ConnectError::Timeout {
                peer,
                step,
                seconds: self.deadline.timeout().as_secs_f64(),
            });
        }
        match result {
            Ok(value) => Ok(Some(value)),
            Err(ControlError::Refused) => Ok(None),
            Err(ControlError::HungUp) => Err(ConnectError::HungUp {
                peer,
                step,
                log: LOG.to_owned(),
            }),
            Err(ControlError::Malformed(what)) => {
                Err(ConnectError::NotVhostUser { peer, step, what })
            }
            Err(ControlError::Local(error)) => Err(ConnectError::Resource {
                what: "the control channel",
                error,
            }),
        }
    }

    /// Agrees on features and on the size of the queues.
    pub(super) fn negotiate(&mut self, queue_size: u16) -> Result<Agreed, ConnectError> {
        let unsuitable = |peer: &str, what: String| ConnectError::Unsuitable {
            peer: peer.to_owned(),
            what,
        };
        let offered = self.step(Step::GetFeatures, Control::features)?;
        if offered & bits::VERSION_1 == 0 {
            let what = "the daemon does not offer VIRTIO_F_VERSION_1".to_owned();
            return Err(unsuitable(self.peer, what));
        }
        let wanted =
            bits::VERSION_1 | bits::EVENT_IDX | bits::INDIRECT_DESC | bits::PROTOCOL_FEATURES;
        let features = offered & wanted;

        let mut protocol_features = 0;
        if features & bits::PROTOCOL_FEATURES != 0 {
            let offered = self.step(Step::GetProtocolFeatures, Control::protocol_features)?;
            let wanted = bits::MQ | bits::REPLY_ACK | bits::CONFIGURE_MEM_SLOTS;
            protocol_features = offered & wanted;
            self.step(Step::SetProtocolFeatures, |c| {
                c.set_protocol_features(protocol_features)
            })?;
        }
        self.step(Step::SetOwner, Control::set_owner)?;
        if protocol_features & bits::MQ != 0 {
            let queues = self.step(Step::GetQueueNum, Control::queue_num)?;
            if queues < QUEUES {
                let what = format!("the daemon has {queues} of the {QUEUES} queues needed");
                return Err(unsuitable(self.peer, what));
            }
        }
        let max_mem_slots = if protocol_features & bits::CONFIGURE_MEM_SLOTS != 0 {
            let slots = self.step(Step::GetMaxMemSlots, Control::max_mem_slots)?;
            if slots < 2 {
                let what = format!("the daemon maps {slots} of the 2 memory regions needed");
                return Err(unsuitable(self.peer, what));
            }
            Some(slots)
        } else {
            None
        };
        self.step(Step::SetFeatures, |c| c.set_features(features))?;

        let mut size = queue_size.min(MAX_QUEUE_SIZE);
        while self
            .attempt(Step::SetVringNum, |c| c.set_vring_num(1, size))?
            .is_none()
        {
            if size <= MIN_QUEUE_SIZE {
                return Err(self.refused(Step::SetVringNum));
            }
            size /= 2;
        }
        Ok(Agreed {
            features,
            protocol_features,
            max_mem_slots,
            queue_size: size,
        })
    }

    /// Makes the queues that were agreed on and hands them over.
    pub(super) fn start(
        mut self,
        agreed: &Agreed,
        arena: Arc<Arena>,
        bells: &Doorbells,
    ) -> Result<Queues, ConnectError> {
        let features = RingFeatures {
            event_idx: agreed.features & bits::EVENT_IDX != 0,
            indirect: agreed.features & bits::INDIRECT_DESC != 0,
        };
        let queues =
            Queues::new(arena, agreed.queue_size, features).map_err(resource("the queues"))?;
        let ring_region: &Region = queues.region();
        self.step(Step::SetMemTable, |c| {
            c.set_mem_table(&[queues.arena().region(), ring_region])
        })?;
        let base = ring_region.base_addr();
        let rings = [queues.plan().hiprio, queues.plan().request];
        self.step(Step::SetVringNum, |c| c.set_vring_num(0, rings[0].size))?;
        for (queue, ring) in rings.into_iter().enumerate() {
            self.step(Step::SetVringBase, |c| c.set_vring_base(queue))?;
            let at = address(ring, base);
            self.step(Step::SetVringAddr, |c| c.set_vring_addr(queue, at))?;
            self.step(Step::SetVringCall, |c| {
                c.set_vring_call(queue, bells.call().as_fd())
            })?;
            self.step(Step::SetVringKick, |c| {
                c.set_vring_kick(queue, bells.kick_fd(queue).as_fd())
            })?;
        }
        if agreed.features & bits::PROTOCOL_FEATURES != 0 {
            for queue in 0..rings.len() {
                self.step(Step::SetVringEnable, |c| c.enable_vring(queue))?;
            }
        }
        Ok(queues)
    }
}

fn address(ring: RingLayout, base: u64) -> QueueAddress {
    QueueAddress {
        size: ring.size,
        desc: base + ring.desc,
        avail: base + ring.avail,
        used: base + ring.used,
    }
}
