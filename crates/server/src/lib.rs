//! Embedded FUSE servers for fusewire: a directory, memory, and a scripted peer for tests.
//!
//! [`start`] runs a [`FileSystem`] on threads of this process and returns the client's end of the
//! connection. [`dir::Directory`] serves a directory of the host, [`mem::Memory`] keeps everything
//! in memory, [`synthetic::Synthetic`] makes trees up by rule, and [`scripted`] wraps either into a
//! peer that misbehaves on purpose.
//!
//! The servers do what FUSE daemons do: they trust the client to check permissions, to apply the
//! umask and to serialise requests that depend on each other.

mod access;
mod answer;
pub mod caching;
pub mod dir;
mod dispatch;
mod early;
mod fs;
mod io;
mod locks;
pub mod mem;
mod notice;
pub mod scripted;
mod serve;
pub mod synthetic;

pub use caching::{CacheMode, Caching};
pub use fs::{Call, Errno, Features, FileSystem, Reply, Result, Usage};
pub use io::Io;
pub use notice::{Notice, Notifier};
pub use serve::{ServerHandle, ServerOptions, start, start_shared};
