//! The control channel: what is said over the vhost-user socket.

use fusewire_mem::Region;
use rustix::fd::{AsRawFd, BorrowedFd, IntoRawFd};
use std::io;
use std::os::fd::FromRawFd;
use std::os::unix::net::UnixStream;
use vhost::vhost_user::message::{
    VhostUserHeaderFlag, VhostUserProtocolFeatures, VhostUserVirtioFeatures,
};
use vhost::vhost_user::{Error as UserError, Frontend, VhostUserFrontend};
use vhost::{VhostBackend, VhostUserMemoryRegionInfo, VringConfigData};
use vmm_sys_util::eventfd::EventFd;

/// Why a step failed.
#[derive(Debug)]
pub(super) enum ControlError {
    /// The socket was closed.
    HungUp,
    /// The backend answered that it does not want to.
    Refused,
    /// The backend answered something else than what was asked.
    Malformed(String),
    /// We could not say it.
    Local(io::Error),
}

/// Where a queue lies, in addresses of this process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct QueueAddress {
    pub(super) size: u16,
    pub(super) desc: u64,
    pub(super) avail: u64,
    pub(super) used: u64,
}

/// Frontend side of a vhost-user connection, as far as a FUSE device needs it. Each call blocks
/// until the backend has answered, if it answers at all.
pub(super) trait Control {
    /// GET_FEATURES: virtio feature bits.
    fn features(&mut self) -> Result<u64, ControlError>;
    /// GET_PROTOCOL_FEATURES: vhost-user feature bits.
    fn protocol_features(&mut self) -> Result<u64, ControlError>;
    /// SET_PROTOCOL_FEATURES. From here on every message is acknowledged, if REPLY_ACK is in.
    fn set_protocol_features(&mut self, features: u64) -> Result<(), ControlError>;
    /// SET_OWNER.
    fn set_owner(&mut self) -> Result<(), ControlError>;
    /// GET_QUEUE_NUM (with MQ).
    fn queue_num(&mut self) -> Result<u64, ControlError>;
    /// GET_MAX_MEM_SLOTS (with CONFIGURE_MEM_SLOTS).
    fn max_mem_slots(&mut self) -> Result<u64, ControlError>;
    /// SET_FEATURES.
    fn set_features(&mut self, features: u64) -> Result<(), ControlError>;
    /// SET_MEM_TABLE; guest addresses are our own.
    fn set_mem_table(&mut self, regions: &[&Region]) -> Result<(), ControlError>;
    /// SET_VRING_NUM.
    fn set_vring_num(&mut self, queue: usize, size: u16) -> Result<(), ControlError>;
    /// SET_VRING_BASE, to 0.
    fn set_vring_base(&mut self, queue: usize) -> Result<(), ControlError>;
    /// SET_VRING_ADDR.
    fn set_vring_addr(&mut self, queue: usize, at: QueueAddress) -> Result<(), ControlError>;
    /// SET_VRING_CALL.
    fn set_vring_call(&mut self, queue: usize, fd: BorrowedFd<'_>) -> Result<(), ControlError>;
    /// SET_VRING_KICK.
    fn set_vring_kick(&mut self, queue: usize, fd: BorrowedFd<'_>) -> Result<(), ControlError>;
    /// SET_VRING_ENABLE (with PROTOCOL_FEATURES).
    fn enable_vring(&mut self, queue: usize) -> Result<(), ControlError>;
}

/// [`Control`] by the crate `vhost`. It retries a read for as long as the socket times out, so that
/// deadlines are set by shutting the socket down, not by SO_RCVTIMEO.
pub(super) struct VhostControl {
    frontend: Frontend,
}

impl VhostControl {
    /// Over a connected socket, for at most `queues` queues.
    pub(super) fn new(socket: UnixStream, queues: u64) -> Self {
        VhostControl {
            frontend: Frontend::from_stream(socket, queues),
        }
    }
}

impl Control for VhostControl {
    fn features(&mut self) -> Result<u64, ControlError> {
        self.frontend.get_features().map_err(control_error)
    }

    fn protocol_features(&mut self) -> Result<u64, ControlError> {
        let features = self.frontend.get_protocol_features();
        features.map(|f| f.bits()).map_err(control_error)
    }

    fn set_protocol_features(&mut self, features: u64) -> Result<(), ControlError> {
        let features = VhostUserProtocolFeatures::from_bits_truncate(features);
        self.frontend
            .set_protocol_features(features)
            .map_err(control_error)?;
        if features.contains(VhostUserProtocolFeatures::REPLY_ACK) {
            self.frontend.set_hdr_flags(VhostUserHeaderFlag::NEED_REPLY);
        }
        Ok(())
    }

    fn set_owner(&mut self) -> Result<(), ControlError> {
        self.frontend.set_owner().map_err(control_error)
    }

    fn queue_num(&mut self) -> Result<u64, ControlError> {
        self.frontend.get_queue_num().map_err(control_error)
    }

    fn max_mem_slots(&mut self) -> Result<u64, ControlError> {
        self.frontend.get_max_mem_slots().map_err(control_error)
    }

    fn set_features(&mut self, features: u64) -> Result<(), ControlError> {
        self.frontend.set_features(features).map_err(control_error)
    }

    fn set_mem_table(&mut self, regions: &[&Region]) -> Result<(), ControlError> {
        let mut regions: Vec<_> = regions
            .iter()
            .map(|region| VhostUserMemoryRegionInfo {
                guest_phys_addr: region.base_addr(),
                memory_size: region.len() as u64,
                userspace_addr: region.base_addr(),
                mmap_offset: 0,
                mmap_handle: region.fd().as_raw_fd(),
            })
            .collect();
        // Daemons look addresses up by bisection and refuse a table that is not in order.
        regions.sort_by_key(|region| region.guest_phys_addr);
        let done = self.frontend.set_mem_table(&regions);
        done.map(|_| ()).map_err(control_error)
    }

    fn set_vring_num(&mut self, queue: usize, size: u16) -> Result<(), ControlError> {
        self.frontend
            .set_vring_num(queue, size)
            .map_err(control_error)
    }

    fn set_vring_base(&mut self, queue: usize) -> Result<(), ControlError> {
        self.frontend
            .set_vring_base(queue, 0)
            .map_err(control_error)
    }

    fn set_vring_addr(&mut self, queue: usize, at: QueueAddress) -> Result<(), ControlError> {
        let config = VringConfigData {
            queue_max_size: at.size,
            queue_size: at.size,
            flags: 0,
            desc_table_addr: at.desc,
            used_ring_addr: at.used,
            avail_ring_addr: at.avail,
            log_addr: None,
        };
        self.frontend
            .set_vring_addr(queue, &config)
            .map_err(control_error)
    }

    fn set_vring_call(&mut self, queue: usize, fd: BorrowedFd<'_>) -> Result<(), ControlError> {
        self.frontend
            .set_vring_call(queue, &eventfd(fd)?)
            .map_err(control_error)
    }

    fn set_vring_kick(&mut self, queue: usize, fd: BorrowedFd<'_>) -> Result<(), ControlError> {
        self.frontend
            .set_vring_kick(queue, &eventfd(fd)?)
            .map_err(control_error)
    }

    fn enable_vring(&mut self, queue: usize) -> Result<(), ControlError> {
        self.frontend
            .set_vring_enable(queue, true)
            .map_err(control_error)
    }
}

/// `fd` again, in the type that the crate wants.
fn eventfd(fd: BorrowedFd<'_>) -> Result<EventFd, ControlError> {
    let fd = fd.try_clone_to_owned().map_err(ControlError::Local)?;
    // SAFETY: hands over the only owner of a descriptor that was just made.
    Ok(unsafe { EventFd::from_raw_fd(fd.into_raw_fd()) })
}

fn control_error(error: vhost::Error) -> ControlError {
    match error {
        vhost::Error::VhostUserProtocol(error) => match error {
            UserError::Disconnected | UserError::SocketBroken(_) | UserError::PartialMessage => {
                ControlError::HungUp
            }
            UserError::BackendInternalError => ControlError::Refused,
            UserError::SocketError(error)
            | UserError::SocketRetry(error)
            | UserError::SocketConnect(error) => ControlError::Local(error),
            other => ControlError::Malformed(other.to_string()),
        },
        other => ControlError::Malformed(other.to_string()),
    }
}

/// Feature bits that a FUSE device can use.
pub(super) mod bits {
    use super::{VhostUserProtocolFeatures, VhostUserVirtioFeatures};

    /// VIRTIO_F_INDIRECT_DESC.
    pub(in super::super) const INDIRECT_DESC: u64 = 1 << 28;
    /// VIRTIO_F_EVENT_IDX.
    pub(in super::super) const EVENT_IDX: u64 = 1 << 29;
    /// VIRTIO_F_VERSION_1.
    pub(in super::super) const VERSION_1: u64 = 1 << 32;
    /// VHOST_USER_F_PROTOCOL_FEATURES.
    pub(in super::super) const PROTOCOL_FEATURES: u64 =
        VhostUserVirtioFeatures::PROTOCOL_FEATURES.bits();

    /// More than one queue can be counted.
    pub(in super::super) const MQ: u64 = VhostUserProtocolFeatures::MQ.bits();
    /// Messages are acknowledged.
    pub(in super::super) const REPLY_ACK: u64 = VhostUserProtocolFeatures::REPLY_ACK.bits();
    /// Regions can be added and counted.
    pub(in super::super) const CONFIGURE_MEM_SLOTS: u64 =
        VhostUserProtocolFeatures::CONFIGURE_MEM_SLOTS.bits();
}
