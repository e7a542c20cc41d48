//! FUSE without the mount: a std::fs-shaped client for FUSE daemons and virtio-fs devices.
//!
//! A [`Client`] is the half of FUSE that otherwise lives in the kernel. It talks to an unmodified
//! daemon over a [`transport`], needs no mount, no root and no kernel module, and offers what
//! `std::fs` does, on the tree that the daemon serves.

#![forbid(unsafe_code)]

mod access;
mod at;
mod attempts;
mod cancel;
mod client;
mod copy;
mod core;
mod cred;
mod dir;
mod engine;
mod error;
mod file;
mod fs_attr;
mod fs_ops;
mod handle;
mod io;
mod iomode;
mod local_locks;
mod lock;
mod meta;
mod node;
mod notify;
mod open;
mod poll;
mod remove_all;
mod rpc;
mod space;
mod special;
mod turn;
mod walk;
mod walker;
mod xattr;

pub use access::{Access, Capabilities, Checks, Identity};
pub use cancel::Canceller;
pub use client::{Builder, Client, Stats};
pub use dir::{DirEntry, ReadDir};
pub use engine::{EngineStats, OpcodeStats, Timeouts, WaitPolicy};
pub use error::{Error, Result};
pub use file::File;
pub use lock::{LockKind, RangeLock};
pub use meta::{FileType, Metadata, Statfs, Time, Times};
pub use open::OpenOptions;
pub use poll::Events;
pub use space::Allocate;
pub use walker::{Walk, WalkEntry, Walker};
pub use xattr::SetXattr;

/// What client and daemon agreed on, from the wire crate.
pub use fusewire_wire::init::Negotiated;

/// Ways to reach a daemon.
pub use fusewire_transport as transport;

/// Runs the library examples of the README.
#[cfg(doctest)]
#[doc = include_str!("../../../README.md")]
struct ReadmeExamples;
