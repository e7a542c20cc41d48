//! Replies: the header, and one function per body.
//!
//! Bodies are what follows the 16-byte header of a reply without error. Their size is exact, as
//! Linux wants it; only INIT replies may be short ([`crate::init::negotiate`]), and the payloads
//! of READ, READDIR, READLINK and the lists may have any length up to the request's. Copy the
//! bytes out of memory a daemon can change before they come here.

use zerocopy::{FromBytes, Immutable, KnownLayout};

use crate::abi::*;

/// Largest errno a reply can carry (Linux refuses 512 and up).
pub const ERRNO_MAX: i32 = 511;

const ERROR_MIN: i32 = -ERRNO_MAX;

/// Header of a reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReplyHeader {
    /// Bytes of the whole message, at least 16; exactly 16 with an error.
    pub len: u32,
    /// The errno, 1..=511, or `None` on success.
    pub error: Option<i32>,
    /// The request it answers, not 0.
    pub unique: u64,
}

/// What a daemon sent, by its header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Incoming {
    /// An answer.
    Reply(ReplyHeader),
    /// Unasked; for [`crate::notify::Notification::parse`].
    Notification {
        /// The code, above 0; unknown codes are possible.
        code: i32,
        /// Bytes of the whole message, at least 16.
        len: u32,
    },
}

/// Why bytes are no reply (Linux answers EINVAL to the daemon and EIO to the caller).
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ReplyError {
    /// Under 16 bytes.
    #[error("the daemon's reply has {0} bytes, its header alone needs 16; check the daemon")]
    Short(usize),
    /// A length below 16, or an error with a body.
    #[error(
        "the daemon's reply claims {0} bytes, which its header does not allow; check the daemon"
    )]
    Length(u32),
    /// An error that is no negated errno.
    #[error("the daemon's reply has error {0}, which is not in -511..=0; check the daemon")]
    Error(i32),
    /// `unique` 0 where a reply was expected.
    #[error("the daemon sent notification {0} where only a reply can come; check the daemon")]
    Notification(i32),
    /// A body of the wrong size.
    #[error(
        "the {what} in the daemon's reply has {have_bytes} bytes instead of {need_bytes}; check the daemon"
    )]
    Body {
        /// Structure.
        what: &'static str,
        /// Its size.
        need_bytes: usize,
        /// Bytes that came.
        have_bytes: usize,
    },
}

impl ReplyError {
    /// The errno for the caller of the request: EIO.
    pub const fn errno(self) -> i32 {
        crate::errno::EIO
    }
}

impl Incoming {
    /// Reads the header at the start of `message`; further bytes are ignored.
    ///
    /// # Errors
    /// [`ReplyError`] if no daemon in its right mind sends it. The caller compares `len` with the
    /// bytes that really came.
    pub fn parse(message: &[u8]) -> Result<Self, ReplyError> {
        let (OutHeader { len, error, unique }, _) =
            OutHeader::read_from_prefix(message).map_err(|_| ReplyError::Short(message.len()))?;
        if len < OUT_HEADER_BYTES {
            return Err(ReplyError::Length(len));
        }
        if unique == 0 {
            return match error {
                1.. => Ok(Self::Notification { code: error, len }),
                _ => Err(ReplyError::Error(error)),
            };
        }
        let error = match error {
            0 => None,
            ERROR_MIN..=-1 if len == OUT_HEADER_BYTES => Some(-error),
            ERROR_MIN..=-1 => return Err(ReplyError::Length(len)),
            _ => return Err(ReplyError::Error(error)),
        };
        Ok(Self::Reply(ReplyHeader { len, error, unique }))
    }
}

/// As [`Incoming::parse`], where a notification cannot come (a virtqueue's reply buffer).
///
/// # Errors
/// [`ReplyError`].
pub fn parse_header(message: &[u8]) -> Result<ReplyHeader, ReplyError> {
    match Incoming::parse(message)? {
        Incoming::Reply(header) => Ok(header),
        Incoming::Notification { code, .. } => Err(ReplyError::Notification(code)),
    }
}

/// The header of a successful reply with `body_bytes` behind it, for servers.
///
/// `None` if the message would exceed 2^32-1 bytes.
pub fn success(unique: u64, body_bytes: usize) -> Option<OutHeader> {
    let len = u32::try_from(body_bytes)
        .ok()?
        .checked_add(OUT_HEADER_BYTES)?;
    Some(OutHeader {
        len,
        error: 0,
        unique,
    })
}

/// The header of a failed reply, for servers. `errno` is positive; what is not in 1..=511 becomes
/// EIO.
pub fn failure(unique: u64, errno: i32) -> OutHeader {
    let errno = if (1..=ERRNO_MAX).contains(&errno) {
        errno
    } else {
        crate::errno::EIO
    };
    OutHeader {
        len: OUT_HEADER_BYTES,
        error: -errno,
        unique,
    }
}

fn exact<T: FromBytes + KnownLayout + Immutable>(
    what: &'static str,
    body: &[u8],
) -> Result<T, ReplyError> {
    T::read_from_bytes(body).map_err(|_| ReplyError::Body {
        what,
        need_bytes: size_of::<T>(),
        have_bytes: body.len(),
    })
}

macro_rules! bodies {
    ($($(#[$meta:meta])* $name:ident -> $ty:ty, $what:literal;)*) => {$(
        $(#[$meta])*
        ///
        /// # Errors
        /// [`ReplyError::Body`] unless the size is exact.
        pub fn $name(body: &[u8]) -> Result<$ty, ReplyError> {
            exact($what, body)
        }
    )*};
}

bodies! {
    /// LOOKUP, SYMLINK, MKNOD, MKDIR, LINK. Check [`Attr::kind`] unless `nodeid` is 0.
    entry -> EntryOut, "entry";
    /// GETATTR, SETATTR. Check [`Attr::kind`].
    attr -> AttrOut, "attributes";
    /// OPEN, OPENDIR.
    open -> OpenOut, "open reply";
    /// WRITE, COPY_FILE_RANGE. The daemon may claim more bytes than were sent.
    write -> WriteOut, "write reply";
    /// COPY_FILE_RANGE_64.
    copy_file_range_64 -> CopyFileRangeOut, "copy_file_range reply";
    /// STATFS.
    statfs -> StatfsOut, "file-system numbers";
    /// LSEEK.
    lseek -> LseekOut, "lseek reply";
    /// GETLK.
    lk -> LkOut, "lock";
    /// STATX.
    statx -> StatxOut, "statx reply";
    /// GETXATTR and LISTXATTR with size 0.
    getxattr_size -> GetxattrOut, "attribute size";
    /// BMAP.
    bmap -> BmapOut, "block number";
    /// IOCTL, the fixed part (output follows it in the reply).
    ioctl -> IoctlOut, "ioctl reply";
    /// POLL.
    poll -> PollOut, "poll reply";
}

/// CREATE, TMPFILE: the entry, then the open file. Check [`Attr::kind`].
///
/// # Errors
/// [`ReplyError::Body`] unless the size is exact.
pub fn create(body: &[u8]) -> Result<(EntryOut, OpenOut), ReplyError> {
    let need_bytes = size_of::<EntryOut>() + size_of::<OpenOut>();
    let wrong = ReplyError::Body {
        what: "create reply",
        need_bytes,
        have_bytes: body.len(),
    };
    let (entry, rest) = EntryOut::read_from_prefix(body).map_err(|_| wrong)?;
    let open = OpenOut::read_from_bytes(rest).map_err(|_| wrong)?;
    Ok((entry, open))
}

/// FLUSH, RELEASE, UNLINK and everything else that answers with its header alone.
///
/// # Errors
/// [`ReplyError::Body`] if there is a body.
pub fn empty(body: &[u8]) -> Result<(), ReplyError> {
    exact::<[u8; 0]>("empty reply", body).map(|_| ())
}
