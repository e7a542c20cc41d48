//! INIT: what the client offers, and what a daemon's answer makes of it.
//!
//! [`negotiate`] is a pure function over the answer's bytes. Its rules are those of Linux
//! (`process_init_reply`), with the exceptions said at each field.

use zerocopy::{FromBytes, IntoBytes};

use crate::abi::{InitIn, InitOut, KERNEL_MINOR_VERSION, KERNEL_VERSION, PAGE_BYTES};
use crate::flags::InitFlags;
use crate::opcode::Opcode;
use crate::request::{Extensions, SecurityContext};

/// Oldest minor version this client talks to.
pub const MINOR_MIN: u32 = 19;
/// Pages of a payload when `MAX_PAGES` is not negotiated.
pub const DEFAULT_MAX_PAGES: u32 = 32;
/// Background requests in flight when the daemon does not say.
pub const DEFAULT_MAX_BACKGROUND: u16 = 12;
/// Background requests that count as congestion when the daemon does not say.
pub const DEFAULT_CONGESTION_THRESHOLD: u16 = 9;
/// Smallest `max_write_bytes` there is.
pub const MIN_MAX_WRITE_BYTES: u32 = 4096;

/// What the client offers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Offer {
    /// Protocol major version, 7.
    pub major: u32,
    /// Protocol minor version, at most 45.
    pub minor: u32,
    /// Largest readahead wanted, in bytes.
    pub max_readahead_bytes: u32,
    /// Capabilities. `INIT_EXT` is added when a bit above 31 is set.
    pub flags: InitFlags,
}

impl Offer {
    /// An offer of 7.45.
    pub const fn new(max_readahead_bytes: u32, flags: InitFlags) -> Self {
        Self {
            major: KERNEL_VERSION,
            minor: KERNEL_MINOR_VERSION,
            max_readahead_bytes,
            flags,
        }
    }

    /// The flags as sent: with `INIT_EXT` if any high bit is set.
    pub const fn sent_flags(&self) -> InitFlags {
        if self.flags.high() == 0 {
            self.flags
        } else {
            self.flags.union(InitFlags::INIT_EXT)
        }
    }

    /// The arguments of [`crate::Request::Init`].
    pub const fn to_init_in(&self) -> InitIn {
        let flags = self.sent_flags();
        InitIn {
            major: self.major,
            minor: self.minor,
            max_readahead: self.max_readahead_bytes,
            flags: flags.low(),
            flags2: flags.high(),
            unused: [0; 11],
        }
    }
}

impl From<&Offer> for InitIn {
    fn from(offer: &Offer) -> Self {
        offer.to_init_in()
    }
}

/// What the client's own side can do, whatever the daemon allows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LocalLimits {
    /// Most pages of one payload (ring size less 4, socket message size, sysctl 256); 0 counts as 1.
    pub max_pages: u16,
    /// Largest WRITE payload, in bytes; under 4096 counts as 4096.
    pub max_write_bytes: u32,
}

/// What both sides agreed on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Negotiated {
    /// Minor version spoken: the lower of both.
    pub minor: u32,
    /// Capabilities: offered and returned. Also removed: `EXPLICIT_INVAL_DATA` beside
    /// `AUTO_INVAL_DATA`, `READDIRPLUS_AUTO` without `DO_READDIRPLUS`, `PASSTHROUGH` beside
    /// `WRITEBACK_CACHE` or without a stack depth.
    pub flags: InitFlags,
    /// Largest readahead, in bytes: the lower of both.
    pub max_readahead_bytes: u32,
    /// Largest WRITE payload, in bytes: 4096 to the local limit, within `max_pages`; 4096 without
    /// `BIG_WRITES`.
    pub max_write_bytes: u32,
    /// Most pages of one payload, 1 to the local limit; 32 at most without `MAX_PAGES`.
    pub max_pages: u16,
    /// Most background requests in flight, at least 1.
    pub max_background: u16,
    /// Background requests that count as congestion, at least 1.
    pub congestion_threshold: u16,
    /// Granularity of the daemon's timestamps, 1 to 10^9 ns; 1 when it does not say.
    pub time_gran_ns: u32,
    /// Alignment of DAX mappings, log2 of bytes; `None` without `MAP_ALIGNMENT`.
    pub map_alignment: Option<u16>,
    /// The daemon's request timeout in seconds; `None` without `REQUEST_TIMEOUT` or when 0.
    pub request_timeout_secs: Option<u16>,
}

/// Why the connection cannot start.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum InitError {
    /// The answer has no version, or more than INIT has.
    #[error(
        "the daemon answered INIT with {0} bytes, not 8 to 64; it does not speak FUSE 7, use another daemon"
    )]
    Length(usize),
    /// Another major version. When `peer_major` is larger, the daemon waits for a new INIT with
    /// major 7; when it is smaller it cannot be talked to.
    #[error("the daemon speaks FUSE {peer_major}, this client FUSE 7; {}", major_remedy(*.peer_major))]
    MajorMismatch {
        /// The daemon's major version.
        peer_major: u32,
    },
    /// A minor version below [`MINOR_MIN`].
    #[error("the daemon speaks FUSE 7.{minor}, the oldest supported is 7.19; use a newer daemon")]
    PeerTooOld {
        /// The daemon's minor version.
        minor: u32,
    },
}

const fn major_remedy(peer_major: u32) -> &'static str {
    if peer_major > KERNEL_VERSION {
        "send INIT again with major 7"
    } else {
        "use a newer daemon"
    }
}

impl InitError {
    /// The errno for whoever opens the connection: EPROTO.
    pub const fn errno(self) -> i32 {
        crate::errno::EPROTO
    }
}

/// Works out what was agreed from `reply`, the body of the INIT reply.
///
/// Old daemons send 8 or 24 bytes of it; fields that are missing count as zero.
///
/// # Errors
/// [`InitError`] when the versions do not go together.
pub fn negotiate(
    offer: &Offer,
    limits: &LocalLimits,
    reply: &[u8],
) -> Result<Negotiated, InitError> {
    if reply.len() < 8 || reply.len() > size_of::<InitOut>() {
        return Err(InitError::Length(reply.len()));
    }
    let mut bytes = [0; size_of::<InitOut>()];
    bytes[..reply.len()].copy_from_slice(reply);
    let out =
        InitOut::read_from_bytes(bytes.as_bytes()).map_err(|_| InitError::Length(reply.len()))?;

    if out.major != KERNEL_VERSION {
        return Err(InitError::MajorMismatch {
            peer_major: out.major,
        });
    }
    if out.minor < MINOR_MIN {
        return Err(InitError::PeerTooOld { minor: out.minor });
    }
    let flags = agreed_flags(offer, &out);
    let max_pages = agreed_pages(flags, limits, &out);
    Ok(Negotiated {
        minor: out.minor.min(offer.minor),
        flags,
        max_readahead_bytes: out.max_readahead.min(offer.max_readahead_bytes),
        max_write_bytes: agreed_write(flags, limits, max_pages, &out),
        max_pages,
        max_background: or_default(out.max_background, DEFAULT_MAX_BACKGROUND),
        congestion_threshold: or_default(out.congestion_threshold, DEFAULT_CONGESTION_THRESHOLD),
        time_gran_ns: if (1..=1_000_000_000).contains(&out.time_gran) {
            out.time_gran
        } else {
            1
        },
        map_alignment: flags
            .contains(InitFlags::MAP_ALIGNMENT)
            .then_some(out.map_alignment),
        request_timeout_secs: (flags.contains(InitFlags::REQUEST_TIMEOUT)
            && out.request_timeout > 0)
            .then_some(out.request_timeout),
    })
}

fn agreed_flags(offer: &Offer, out: &InitOut) -> InitFlags {
    let mut flags = InitFlags::from_halves(out.flags, out.flags2) & offer.sent_flags();
    if flags.contains(InitFlags::AUTO_INVAL_DATA) {
        flags.remove(InitFlags::EXPLICIT_INVAL_DATA);
    }
    if !flags.contains(InitFlags::DO_READDIRPLUS) {
        flags.remove(InitFlags::READDIRPLUS_AUTO);
    }
    if flags.contains(InitFlags::WRITEBACK_CACHE) || out.max_stack_depth == 0 {
        flags.remove(InitFlags::PASSTHROUGH);
    }
    flags
}

fn agreed_pages(flags: InitFlags, limits: &LocalLimits, out: &InitOut) -> u16 {
    let wanted = if flags.contains(InitFlags::MAX_PAGES) {
        out.max_pages
    } else {
        DEFAULT_MAX_PAGES as u16
    };
    wanted.min(limits.max_pages).max(1)
}

fn agreed_write(flags: InitFlags, limits: &LocalLimits, max_pages: u16, out: &InitOut) -> u32 {
    if !flags.contains(InitFlags::BIG_WRITES) {
        return MIN_MAX_WRITE_BYTES;
    }
    let pages_bytes = u32::from(max_pages) * PAGE_BYTES;
    out.max_write
        .min(limits.max_write_bytes)
        .min(pages_bytes)
        .max(MIN_MAX_WRITE_BYTES)
}

fn or_default(value: u16, default: u16) -> u16 {
    if value == 0 { default } else { value }
}

impl Negotiated {
    /// Whether the daemon's minor version has the operation. Capabilities are the caller's to
    /// check (READDIRPLUS, locks); CUSE is never allowed.
    pub const fn allows(&self, opcode: Opcode) -> bool {
        !matches!(opcode, Opcode::CuseInit) && opcode.since_minor() <= self.minor
    }

    /// The extensions a creating request must carry: an empty security context if that was
    /// negotiated, `parent_gid` if `CREATE_SUPP_GROUP` was, nothing that was not.
    pub const fn extensions(&self, parent_gid: Option<u32>) -> Extensions<'static> {
        Extensions {
            secctx: if self.flags.contains(InitFlags::SECURITY_CTX) {
                SecurityContext::Unlabelled
            } else {
                SecurityContext::NotNegotiated
            },
            supp_groups: if self.flags.contains(InitFlags::CREATE_SUPP_GROUP) {
                parent_gid
            } else {
                None
            },
        }
    }
}
