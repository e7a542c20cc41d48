//! Notifications: messages with `unique` 0 whose `error` field is a code.

use zerocopy::FromBytes;

use crate::abi::*;
use crate::flags::InvalEntryFlags;
use crate::name::{Name, NameError};

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
