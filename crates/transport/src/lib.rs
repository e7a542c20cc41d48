//! How fusewire reaches a FUSE daemon.
//!
//! A [`Transport`] moves requests and replies and knows nothing of files. It is owned by one
//! engine, which gives every request a *tag* below [`Limits::max_in_flight`], and hears about it
//! again exactly once, from [`Transport::reap`], or never (the engine then has a deadline).
//!
//! Payloads lie in the client's [`Arena`]; heads (FUSE header, arguments, names) are private
//! memory on our side and are copied exactly once in each direction, so a peer that rewrites
//! shared memory cannot change what has been checked.
//!
//! [`pair`] connects to a server in this process, [`vhost_user`] to a virtiofsd that runs or is
//! started; both over the same ring. [`middleware`] wraps any of them.

mod bell;
mod device;
mod inproc;
mod life;
#[cfg(all(test, fusewire_sync = "loom"))]
mod loom_ring;
pub mod middleware;
mod ring;
mod types;
pub mod vhost_user;

pub use device::{DeviceEnd, DeviceQueueId, DeviceRequest, RawDevice, SharedPart};
pub use inproc::{InProcOptions, InProcess, pair};
pub use ring::{MAX_HEAD_BYTES, MAX_REPLY_HEAD_BYTES};
pub use types::{Completion, Death, Limits, PeerFault, Refusal, Submission, SubmitError};

use fusewire_mem::Arena;
use fusewire_sync::{Arc, Weak};

/// Who takes what a peer says of its own accord.
pub trait Inbox: Send + Sync {
    /// Takes a message that answers no submission: a notification (`unique` 0), or the answer to an
    /// INTERRUPT (odd `unique`). `message` is a private copy, header included.
    ///
    /// Called on the thread that reads the channel, possibly the peer's own; does not block.
    ///
    /// # Errors
    /// What the peer is told where the channel can say so: what write(2) on `/dev/fuse` would.
    fn message(&self, message: &[u8]) -> Result<(), Refusal>;
}

/// A way to exchange FUSE messages with one peer.
///
/// # Threads
/// Any thread may call [`submit`](Transport::submit), [`submit_oneway`](Transport::submit_oneway),
/// [`kick`](Transport::kick), [`wake`](Transport::wake) and [`close`](Transport::close) at any
/// time. [`reap`](Transport::reap) and [`wait`](Transport::wait) are called by one thread at a
/// time, the holder of the engine's reaper token. One further thread sits in
/// [`watch`](Transport::watch).
pub trait Transport: Send + Sync + std::fmt::Debug {
    /// What this transport can carry; constant over its life.
    fn limits(&self) -> Limits;

    /// Where payload segments lie.
    fn arena(&self) -> &Arc<Arena>;

    /// Queues a request; the peer is only sure to look at it after the next
    /// [`kick`](Transport::kick). Does not block.
    ///
    /// # Errors
    /// [`SubmitError::Full`]: try again after a completion; [`SubmitError::Dead`]: never again.
    ///
    /// # Panics
    /// When the submission exceeds [`Limits`] or its tag is in flight: bugs of the engine.
    fn submit(&self, request: &Submission<'_>) -> Result<(), SubmitError>;

    /// Queues a message that has no reply (FORGET). It may overtake requests. Does not block.
    ///
    /// # Errors
    /// As [`submit`](Transport::submit); after [`SubmitError::Full`] a [`wait`](Transport::wait)
    /// also ends when there is room again.
    fn submit_oneway(&self, head: &[u8]) -> Result<(), SubmitError>;

    /// Tells the peer of everything queued since the last kick, if it needs to be told. Does not
    /// block.
    fn kick(&self);

    /// Hands every reply that has arrived to `sink`, without holding a lock during the call, and
    /// returns how many there were. Does not block. A reply leaves the memory of its tag free.
    ///
    /// # Errors
    /// [`PeerFault`] when the peer broke the rules of the transport itself; nothing more can be
    /// trusted, and the connection has to be aborted.
    fn reap(&self, sink: &mut dyn FnMut(Completion<'_>)) -> Result<usize, PeerFault>;

    /// Asks for a call, looks again, and then blocks until there may be something to reap, until
    /// [`wake`](Transport::wake), death or [`close`](Transport::close). May return early.
    fn wait(&self);

    /// Ends the current or the next [`wait`](Transport::wait).
    fn wake(&self);

    /// Says who takes the messages that answer no submission. The first call counts. Virtio-fs has no
    /// such messages.
    fn listen(&self, inbox: Weak<dyn Inbox>);

    /// Blocks until the peer is dead or [`close`](Transport::close) was called, and says which.
    fn watch(&self) -> Death;

    /// Ends the connection: later submissions are [`SubmitError::Dead`], every wait returns. A
    /// daemon that this transport started is ended. Idempotent; does not wait for the peer.
    fn close(&self);
}
