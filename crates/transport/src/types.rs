//! What goes through a [`Transport`](crate::Transport).

use fusewire_mem::Segment;

/// What a transport can carry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Requests with a reply that may be in flight at once; tags are below it.
    pub max_in_flight: u32,
    /// Payload segments of one request, both directions together.
    pub max_segments: u32,
    /// Payload bytes of one request, in each direction.
    pub max_payload_bytes: u32,
    /// Whether INTERRUPT may be sent; never on virtio-fs.
    pub interrupts: bool,
    /// Whether RELEASE is waited for, as Linux does on virtio-fs.
    pub sync_release: bool,
}

/// A request on its way to the peer.
#[derive(Clone, Copy, Debug)]
pub struct Submission<'a> {
    /// The engine's number for it, not in flight at the moment.
    pub tag: u32,
    /// FUSE header, arguments and names, in private memory.
    pub head: &'a [u8],
    /// Payload that follows the head.
    pub payload_out: &'a [Segment],
    /// Room for the reply's FUSE header and fixed arguments, at least 16 bytes.
    pub reply_head_bytes: u32,
    /// Where the rest of the reply goes. Nothing may touch it until the reply is reaped. For READ it
    /// must be exactly as long as the request says: virtiofsd fills all of it, and answers EIO when
    /// that is more.
    pub payload_in: &'a [Segment],
}

/// A reply.
#[derive(Clone, Copy, Debug)]
pub struct Completion<'a> {
    /// Tag of its request.
    pub tag: u32,
    /// The reply's head, a private copy: as many bytes as the peer wrote, at most
    /// `reply_head_bytes` of the submission. May be shorter than a FUSE header.
    pub head: &'a [u8],
    /// Bytes that the peer says it wrote to `payload_in`; never more than fit.
    pub payload_bytes: u32,
}

/// Why a request could not be queued.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SubmitError {
    /// No room at the moment.
    #[error("the transport has no room for another request")]
    Full,
    /// The connection has ended.
    #[error("the connection has ended")]
    Dead,
}

/// The peer broke the rules of the transport.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the peer broke the transport: {0}")]
pub struct PeerFault(pub String);

/// How a connection ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Death {
    /// By our own [`close`](crate::Transport::close).
    Closed,
    /// The peer went away; the text says what is known of it.
    Peer(String),
}

/// Why a message of the peer's own accord was not taken: an errno, above 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the client refuses the message with errno {0}")]
pub struct Refusal(pub i32);
