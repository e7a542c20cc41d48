//! Names that were checked before they may enter a message.
//!
//! Some daemons end on a name with an inner NUL and look a name with `/` up outside the export,
//! so only these types can be encoded.

use crate::errno;

/// Longest name this crate sends or accepts, in bytes (Linux `FUSE_NAME_MAX`).
pub const NAME_MAX_BYTES: usize = 1024;
/// Longest symbolic link target, in bytes (Linux `PATH_MAX` less the NUL).
pub const TARGET_MAX_BYTES: usize = 4095;
/// Longest name of an extended attribute, in bytes (Linux `XATTR_NAME_MAX`).
pub const XATTR_NAME_MAX_BYTES: usize = 255;

/// Why bytes are no name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NameError {
    /// No bytes.
    #[error("the name is empty; give at least one byte")]
    Empty,
    /// Too many bytes.
    #[error("the name has {len_bytes} bytes, the limit is {max_bytes}; shorten it")]
    TooLong {
        /// Bytes given.
        len_bytes: usize,
        /// Bytes allowed.
        max_bytes: usize,
    },
    /// A slash inside.
    #[error("the name contains '/' at byte {0}; walk the path one component at a time")]
    Slash(usize),
    /// A NUL inside.
    #[error("the name contains a NUL at byte {0}; no file system can store it, remove it")]
    Nul(usize),
    /// "." or "..".
    #[error("\".\" and \"..\" are not names; resolve them before the call")]
    Dots,
}

impl NameError {
    /// The errno a system call gives: ENOENT (empty), ENAMETOOLONG, else EINVAL.
    pub const fn errno(self) -> i32 {
        match self {
            Self::Empty => errno::ENOENT,
            Self::TooLong { .. } => errno::ENAMETOOLONG,
            Self::Slash(_) | Self::Nul(_) | Self::Dots => errno::EINVAL,
        }
    }
}

/// One component of a path: 1 to [`NAME_MAX_BYTES`] bytes, no `/`, no NUL, not "." or "..".
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Name<'a>(&'a [u8]);

/// Contents of a symbolic link: 1 to [`TARGET_MAX_BYTES`] bytes, no NUL.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Target<'a>(&'a [u8]);

/// Name of an extended attribute: 1 to [`XATTR_NAME_MAX_BYTES`] bytes, no NUL.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct XattrName<'a>(&'a [u8]);

impl<'a> Name<'a> {
    /// Checks `bytes`.
    ///
    /// # Errors
    /// [`NameError`], see there for the errno.
    pub fn new(bytes: &'a [u8]) -> Result<Self, NameError> {
        check(bytes, NAME_MAX_BYTES)?;
        if let Some(at) = bytes.iter().position(|&b| b == b'/') {
            return Err(NameError::Slash(at));
        }
        if bytes == b"." || bytes == b".." {
            return Err(NameError::Dots);
        }
        Ok(Self(bytes))
    }
}

impl<'a> Target<'a> {
    /// Checks `bytes`.
    ///
    /// # Errors
    /// [`NameError`], see there for the errno.
    pub fn new(bytes: &'a [u8]) -> Result<Self, NameError> {
        check(bytes, TARGET_MAX_BYTES)?;
        Ok(Self(bytes))
    }
}

impl<'a> XattrName<'a> {
    /// Checks `bytes`.
    ///
    /// # Errors
    /// [`NameError`], see there for the errno.
    pub fn new(bytes: &'a [u8]) -> Result<Self, NameError> {
        check(bytes, XATTR_NAME_MAX_BYTES)?;
        Ok(Self(bytes))
    }
}

fn check(bytes: &[u8], max_bytes: usize) -> Result<(), NameError> {
    if bytes.is_empty() {
        return Err(NameError::Empty);
    }
    if bytes.len() > max_bytes {
        return Err(NameError::TooLong {
            len_bytes: bytes.len(),
            max_bytes,
        });
    }
    match bytes.iter().position(|&b| b == 0) {
        Some(at) => Err(NameError::Nul(at)),
        None => Ok(()),
    }
}

macro_rules! common {
    ($($ty:ident)*) => {$(
        impl<'a> $ty<'a> {
            /// The bytes, without NUL.
            pub const fn as_bytes(&self) -> &'a [u8] {
                self.0
            }
        }

        impl<'a> TryFrom<&'a [u8]> for $ty<'a> {
            type Error = NameError;
            fn try_from(bytes: &'a [u8]) -> Result<Self, NameError> {
                Self::new(bytes)
            }
        }

        impl core::fmt::Debug for $ty<'_> {
            fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
                write!(f, "\"{}\"", self.0.escape_ascii())
            }
        }

        impl core::fmt::Display for $ty<'_> {
            /// Printable ASCII as it is, anything else escaped: safe for a terminal.
            fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
                write!(f, "{}", self.0.escape_ascii())
            }
        }
    )*};
}
common! { Name Target XattrName }
