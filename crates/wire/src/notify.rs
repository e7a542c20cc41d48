//! Notifications: messages with `unique` 0 whose `error` field is a code.

use zerocopy::FromBytes;

use crate::abi::*;
use crate::flags::InvalEntryFlags;
use crate::name::{Name, NameError};

/// A message that the daemon sends of its own accord.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Message<'a> {
    /// A notification: `unique` 0, the code in the `error` field.
    Notification(Notification<'a>),
    /// The answer to an INTERRUPT, given only to say no: EAGAIN (there is no such request yet) or
    /// ENOSYS (requests cannot be interrupted).
    InterruptAnswer {
        /// Of the request that was to be interrupted.
        unique: u64,
        /// Why not, above 0.
        errno: i32,
    },
}

/// Why bytes are no such message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum MessageError {
    /// Not as long as its header says, or without one.
    #[error("a message of {0} bytes that is not as long as it says; check the daemon")]
    Length(usize),
    /// It is a reply, or an INTERRUPT is said to have succeeded.
    #[error("a message with unique {0} that answers nothing; check the daemon")]
    Unexpected(u64),
    /// A notification that is none.
    #[error(transparent)]
    Notification(#[from] NotifyError),
}

impl MessageError {
    /// What write(2) on `/dev/fuse` says of it.
    pub const fn errno(&self) -> i32 {
        match self {
            // ENOENT
            Self::Unexpected(_) => 2,
            // EINVAL
            Self::Length(_) | Self::Notification(_) => 22,
        }
    }
}

impl<'a> Message<'a> {
    /// Parses a whole message, header included.
    ///
    /// # Errors
    /// [`MessageError`]; the message is then to be dropped.
    pub fn parse(message: &'a [u8]) -> Result<Self, MessageError> {
        let (header, body) = OutHeader::read_from_prefix(message)
            .map_err(|_| MessageError::Length(message.len()))?;
        if header.len as usize != message.len() {
            return Err(MessageError::Length(message.len()));
        }
        match (header.unique, header.error.checked_neg()) {
            (0, _) => Ok(Self::Notification(Notification::parse(header.error, body)?)),
            (unique, Some(errno @ 1..)) if unique & 1 == 1 && body.is_empty() => {
                Ok(Self::InterruptAnswer {
                    unique: unique & !1,
                    errno,
                })
            }
            (unique, _) => Err(MessageError::Unexpected(unique)),
        }
    }
}

/// What a notification is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(i32)]
pub enum NotifyCode {
    /// A polled file is ready (7.11).
    Poll = 1,
    /// Attributes and data of a node are stale (7.12).
    InvalInode = 2,
    /// A name is stale (7.12).
    InvalEntry = 3,
    /// Data for the cache (7.15).
    Store = 4,
    /// Data wanted from the cache (7.15).
    Retrieve = 5,
    /// A name was deleted (7.18).
    Delete = 6,
    /// Send all requests again (7.40).
    Resend = 7,
    /// All names are stale (7.44).
    IncEpoch = 8,
    /// Let go of these nodes if nobody uses them (7.45).
    Prune = 9,
}

impl TryFrom<i32> for NotifyCode {
    type Error = NotifyError;
    fn try_from(code: i32) -> Result<Self, NotifyError> {
        Ok(match code {
            1 => Self::Poll,
            2 => Self::InvalInode,
            3 => Self::InvalEntry,
            4 => Self::Store,
            5 => Self::Retrieve,
            6 => Self::Delete,
            7 => Self::Resend,
            8 => Self::IncEpoch,
            9 => Self::Prune,
            _ => return Err(NotifyError::UnknownCode(code)),
        })
    }
}

/// Why bytes are no notification (Linux answers EINVAL to the daemon).
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NotifyError {
    /// A code FUSE 7.45 does not have.
    #[error("notification code {0} is not part of FUSE 7.45; ignore it")]
    UnknownCode(i32),
    /// The body does not have the size it must have.
    #[error(
        "{code:?} notification with a body of {have_bytes} bytes instead of {need_bytes}; check the daemon"
    )]
    Length {
        /// The code.
        code: NotifyCode,
        /// Bytes the body must have.
        need_bytes: u64,
        /// Bytes it has.
        have_bytes: usize,
    },
    /// The name is none.
    #[error("{code:?} notification with a wrong name: {error}")]
    Name {
        /// The code.
        code: NotifyCode,
        /// What is wrong.
        error: NameError,
    },
}

/// A notification.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Notification<'a> {
    /// The file polled with this handle is ready.
    Poll {
        /// The client's handle.
        kh: u64,
    },
    /// Attributes are stale, and data from `off`: `len` bytes, to the end if `len` ≤ 0, none if
    /// `off` < 0.
    InvalInode(NotifyInvalInodeOut),
    /// The name is stale.
    InvalEntry {
        /// Directory.
        parent: u64,
        /// The name.
        name: Name<'a>,
        /// How.
        flags: InvalEntryFlags,
    },
    /// Data for the cache.
    Store {
        /// The node.
        nodeid: u64,
        /// Byte offset.
        offset: u64,
        /// The data.
        data: &'a [u8],
    },
    /// The daemon wants cached data by NOTIFY_REPLY.
    Retrieve(NotifyRetrieveOut),
    /// The name was deleted.
    Delete {
        /// Directory.
        parent: u64,
        /// Node that was under the name.
        child: u64,
        /// The name.
        name: Name<'a>,
    },
    /// Send all requests again.
    Resend,
    /// All names are stale.
    IncEpoch,
    /// Let go of these nodes.
    Prune(NodeIds<'a>),
}

/// Node ids of a `Prune`, in no alignment.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct NodeIds<'a>(&'a [[u8; 8]]);

impl<'a> NodeIds<'a> {
    /// How many.
    pub const fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether there is none.
    pub const fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The ids.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = u64> + 'a {
        self.0.iter().map(|&id| u64::from_ne_bytes(id))
    }
}

impl core::fmt::Debug for NodeIds<'_> {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_list().entries(self.iter()).finish()
    }
}

impl<'a> Notification<'a> {
    /// Parses the body (what follows the 16-byte header) of the notification `code`.
    ///
    /// As in Linux the byte after a name is skipped unread, and bodies of `Resend` and `IncEpoch`
    /// are ignored.
    ///
    /// # Errors
    /// [`NotifyError`]; the notification is then to be dropped.
    pub fn parse(code: i32, body: &'a [u8]) -> Result<Self, NotifyError> {
        let code = NotifyCode::try_from(code)?;
        Ok(match code {
            NotifyCode::Poll => Self::Poll {
                kh: exact::<NotifyPollWakeupOut>(code, body)?.kh,
            },
            NotifyCode::InvalInode => Self::InvalInode(exact(code, body)?),
            NotifyCode::InvalEntry => {
                let (fixed, rest) = prefix::<NotifyInvalEntryOut>(code, body)?;
                Self::InvalEntry {
                    parent: fixed.parent,
                    name: name(code, body, fixed.namelen, rest)?,
                    flags: InvalEntryFlags::from_bits_retain(fixed.flags),
                }
            }
            NotifyCode::Store => {
                let (fixed, data) = prefix::<NotifyStoreOut>(code, body)?;
                tail(code, body, data, u64::from(fixed.size))?;
                Self::Store {
                    nodeid: fixed.nodeid,
                    offset: fixed.offset,
                    data,
                }
            }
            NotifyCode::Retrieve => Self::Retrieve(exact(code, body)?),
            NotifyCode::Delete => {
                let (fixed, rest) = prefix::<NotifyDeleteOut>(code, body)?;
                Self::Delete {
                    parent: fixed.parent,
                    child: fixed.child,
                    name: name(code, body, fixed.namelen, rest)?,
                }
            }
            NotifyCode::Resend => Self::Resend,
            NotifyCode::IncEpoch => Self::IncEpoch,
            NotifyCode::Prune => {
                let (fixed, rest) = prefix::<NotifyPruneOut>(code, body)?;
                tail(code, body, rest, u64::from(fixed.count) * 8)?;
                Self::Prune(NodeIds(rest.as_chunks().0))
            }
        })
    }
}

fn exact<T: FromBytes>(code: NotifyCode, body: &[u8]) -> Result<T, NotifyError> {
    let (value, rest) = prefix(code, body)?;
    tail(code, body, rest, 0)?;
    Ok(value)
}

fn prefix<T: FromBytes>(code: NotifyCode, body: &[u8]) -> Result<(T, &[u8]), NotifyError> {
    T::read_from_prefix(body).map_err(|_| NotifyError::Length {
        code,
        need_bytes: size_of::<T>() as u64,
        have_bytes: body.len(),
    })
}

/// Checks that exactly `want_bytes` follow the fixed part.
fn tail(code: NotifyCode, body: &[u8], rest: &[u8], want_bytes: u64) -> Result<(), NotifyError> {
    if rest.len() as u64 == want_bytes {
        return Ok(());
    }
    let fixed_bytes = (body.len() - rest.len()) as u64;
    Err(NotifyError::Length {
        code,
        need_bytes: fixed_bytes + want_bytes,
        have_bytes: body.len(),
    })
}

fn name<'a>(
    code: NotifyCode,
    body: &[u8],
    namelen: u32,
    rest: &'a [u8],
) -> Result<Name<'a>, NotifyError> {
    tail(code, body, rest, u64::from(namelen) + 1)?;
    Name::new(&rest[..rest.len() - 1]).map_err(|error| NotifyError::Name { code, error })
}
