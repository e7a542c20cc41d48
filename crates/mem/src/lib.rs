//! Sealed shared-memory regions and the frame allocator of fusewire.
//!
//! A [`Region`] is a sealed memfd that a peer maps too. An [`Arena`] hands out [`Frames`], runs of
//! 4 KiB pages, from one region. Nothing safe here yields `&[u8]` over memory that a peer or
//! another thread may change: data goes in and out by copying through [`SharedBytes`].
//!
//! All `unsafe` about shared memory lives in this crate (and, for descriptor passing, in the
//! transport): `region.rs` maps, `shared.rs` accesses, the rest is safe code over the two.

mod arena;
mod buddy;
mod fork;
mod region;
mod shared;

pub use arena::{Arena, Denied, Frames, MAX_ORDER, Segment, order_for};
pub use fork::ForkGuard;
pub use region::Region;
pub use shared::SharedBytes;

/// Size of a frame, the smallest unit that is allocated.
pub const FRAME_BYTES: usize = 4096;
