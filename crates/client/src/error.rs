//! Errors: what failed, on what, and why.

use rustix::io::Errno;
use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

/// Result of an operation of a [`Client`](crate::Client).
pub type Result<T> = std::result::Result<T, Error>;

/// An operation that failed: its name, the path it was about, and the errno.
///
/// Converts to [`std::io::Error`], which keeps the kind and, as its source, the error itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Error {
    operation: &'static str,
    path: PathBuf,
    errno: Errno,
    detail: Option<String>,
}

impl Error {
    pub(crate) fn new(operation: &'static str, path: impl Into<PathBuf>, errno: Errno) -> Self {
        Error {
            operation,
            path: path.into(),
            errno,
            detail: None,
        }
    }

    pub(crate) fn with_detail(mut self, detail: impl fmt::Display) -> Self {
        self.detail = Some(detail.to_string());
        self
    }

    /// The errno, a positive number as in errno(3). Beyond what the daemon says, a client makes:
    /// ETIMEDOUT (no answer in time), ECONNABORTED (the connection ended meanwhile), ENOTCONN (it
    /// had ended before), EIO (the daemon's answer made no sense).
    #[must_use]
    pub fn errno(&self) -> i32 {
        self.errno.raw_os_error()
    }

    /// Name of the operation, such as `open`.
    #[must_use]
    pub fn operation(&self) -> &'static str {
        self.operation
    }

    /// The path it was about, as the caller gave it; empty for the connection as a whole.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The kind that std has for this errno.
    #[must_use]
    pub fn kind(&self) -> io::ErrorKind {
        self.errno.kind()
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.operation)?;
        if !self.path.as_os_str().is_empty() {
            // Debug form: quotes control characters, which a daemon may have chosen.
            write!(f, " {:?}", self.path)?;
        }
        write!(f, ": {}", io::Error::from(self.errno))?;
        if let Some(detail) = &self.detail {
            write!(f, ": {detail}")?;
        }
        Ok(())
    }
}

impl std::error::Error for Error {}

impl From<Error> for io::Error {
    fn from(error: Error) -> Self {
        io::Error::new(error.kind(), error)
    }
}
