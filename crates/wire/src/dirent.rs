//! Batches of directory entries: read by the client, written by embedded servers.
//!
//! Each record is a fixed part, the name without NUL, and zeros up to a multiple of 8.

use zerocopy::{FromBytes, IntoBytes};

use crate::abi::{Dirent, DirentPlus, EntryOut};
use crate::name::NAME_MAX_BYTES;

/// A directory entry. The name may be "." or "..".
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Entry<'a> {
    /// Inode number to show.
    pub ino: u64,
    /// Where the next READDIR goes on after this entry.
    pub off: u64,
    /// `DT_*` type, see [`crate::abi::FileKind::from_dirent_type`].
    pub typ: u32,
    /// 1 to [`NAME_MAX_BYTES`] bytes, no `/`, no NUL.
    pub name: &'a [u8],
}

/// An entry of READDIRPLUS.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EntryPlus<'a> {
    /// What a LOOKUP would have given. `nodeid` 0: not looked up. Else it counts as one lookup,
    /// except for "." and "..".
    pub entry_out: EntryOut,
    /// The directory entry.
    pub entry: Entry<'a>,
}

/// Why a batch is unusable from some record on (Linux: EIO). The iterator ends after it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DirentError {
    /// Name length 0 or above the limit.
    #[error(
        "the daemon sent a directory entry with a name of {0} bytes, not 1 to 1024; check the daemon"
    )]
    NameLength(u32),
    /// `/` or NUL in the name.
    #[error(
        "the daemon sent a directory entry whose name contains byte {0:#04x}; check the daemon"
    )]
    NameByte(u8),
    /// Not even one record fits: it would look like the end of the directory.
    #[error(
        "the daemon sent {0} bytes of directory entries, in which not one record is whole; check the daemon"
    )]
    Truncated(usize),
}

impl DirentError {
    /// The errno for the caller: EIO.
    pub const fn errno(self) -> i32 {
        crate::errno::EIO
    }
}

/// Splits one record off: the fixed part and the name.
///
/// `Ok(None)` when the record does not lie wholly in `bytes`.
fn split<'a, T: FromBytes>(
    bytes: &mut &'a [u8],
    dirent: impl FnOnce(&T) -> Dirent,
) -> Result<Option<(T, Entry<'a>)>, DirentError> {
    let Ok((fixed, rest)) = T::read_from_prefix(bytes) else {
        return Ok(None);
    };
    let Dirent {
        ino,
        off,
        namelen,
        typ,
    } = dirent(&fixed);
    let name_bytes = namelen as usize;
    if name_bytes == 0 || name_bytes > NAME_MAX_BYTES {
        return Err(DirentError::NameLength(namelen));
    }
    let record_bytes = (size_of::<T>() + name_bytes).next_multiple_of(8);
    if record_bytes > bytes.len() {
        return Ok(None);
    }
    let name = &rest[..name_bytes];
    if let Some(&byte) = name.iter().find(|&&b| b == b'/' || b == 0) {
        return Err(DirentError::NameByte(byte));
    }
    *bytes = &bytes[record_bytes..];
    Ok(Some((
        fixed,
        Entry {
            ino,
            off,
            typ,
            name,
        },
    )))
}

/// The state both iterators share.
#[derive(Clone, Debug)]
struct Batch<'a> {
    rest: &'a [u8],
    total_bytes: usize,
}

impl<'a> Batch<'a> {
    fn next<T: FromBytes>(
        &mut self,
        dirent: impl FnOnce(&T) -> Dirent,
    ) -> Option<Result<(T, Entry<'a>), DirentError>> {
        if self.rest.is_empty() {
            return None;
        }
        let at_start = self.rest.len() == self.total_bytes;
        match split(&mut self.rest, dirent) {
            Ok(Some(record)) => Some(Ok(record)),
            Ok(None) if at_start => {
                self.rest = &[];
                Some(Err(DirentError::Truncated(self.total_bytes)))
            }
            Ok(None) => {
                self.rest = &[];
                None
            }
            Err(error) => {
                self.rest = &[];
                Some(Err(error))
            }
        }
    }
}

/// Entries of a READDIR reply.
///
/// A truncated last record ends the batch quietly, as in Linux: the next READDIR brings it.
#[derive(Clone, Debug)]
pub struct Dirents<'a>(Batch<'a>);

/// Entries of a READDIRPLUS reply, else as [`Dirents`].
#[derive(Clone, Debug)]
pub struct DirentsPlus<'a>(Batch<'a>);

impl<'a> Dirents<'a> {
    /// Over the reply's payload; empty means end of directory.
    pub const fn new(payload: &'a [u8]) -> Self {
        Self(Batch {
            rest: payload,
            total_bytes: payload.len(),
        })
    }
}

impl<'a> DirentsPlus<'a> {
    /// Over the reply's payload; empty means end of directory.
    pub const fn new(payload: &'a [u8]) -> Self {
        Self(Batch {
            rest: payload,
            total_bytes: payload.len(),
        })
    }
}

impl<'a> Iterator for Dirents<'a> {
    type Item = Result<Entry<'a>, DirentError>;
    fn next(&mut self) -> Option<Self::Item> {
        let record = self.0.next(|dirent: &Dirent| *dirent)?;
        Some(record.map(|(_, entry)| entry))
    }
}

impl<'a> Iterator for DirentsPlus<'a> {
    type Item = Result<EntryPlus<'a>, DirentError>;
    fn next(&mut self) -> Option<Self::Item> {
        let record = self.0.next(|plus: &DirentPlus| plus.dirent)?;
        Some(record.map(|(plus, entry)| EntryPlus {
            entry_out: plus.entry_out,
            entry,
        }))
    }
}

impl core::iter::FusedIterator for Dirents<'_> {}
impl core::iter::FusedIterator for DirentsPlus<'_> {}

/// Fills a READDIR reply.
#[derive(Debug)]
pub struct DirentWriter<'b> {
    buf: &'b mut [u8],
    len: usize,
}

/// Fills a READDIRPLUS reply.
#[derive(Debug)]
pub struct DirentPlusWriter<'b>(DirentWriter<'b>);

impl<'b> DirentWriter<'b> {
    /// Into `buf`, at most as long as the request's `size`.
    pub const fn new(buf: &'b mut [u8]) -> Self {
        Self { buf, len: 0 }
    }

    /// Appends an entry; `false` and nothing written when it does not fit, or when the name is
    /// not one [`Dirents`] would take (then no buffer is large enough).
    #[must_use]
    pub fn push(&mut self, entry: &Entry<'_>) -> bool {
        self.record(&dirent(entry), entry.name)
    }

    /// Bytes written.
    pub const fn len(&self) -> usize {
        self.len
    }

    /// Whether nothing was written.
    pub const fn is_empty(&self) -> bool {
        self.len == 0
    }

    fn record<T: IntoBytes + zerocopy::Immutable>(&mut self, fixed: &T, name: &[u8]) -> bool {
        if name.is_empty()
            || name.len() > NAME_MAX_BYTES
            || name.iter().any(|&b| b == b'/' || b == 0)
        {
            return false;
        }
        let fixed = fixed.as_bytes();
        let record_bytes = (fixed.len() + name.len()).next_multiple_of(8);
        let Some(record) = self.buf.get_mut(self.len..self.len + record_bytes) else {
            return false;
        };
        record[..fixed.len()].copy_from_slice(fixed);
        record[fixed.len()..fixed.len() + name.len()].copy_from_slice(name);
        record[fixed.len() + name.len()..].fill(0);
        self.len += record_bytes;
        true
    }
}

impl<'b> DirentPlusWriter<'b> {
    /// Into `buf`, at most as long as the request's `size`.
    pub const fn new(buf: &'b mut [u8]) -> Self {
        Self(DirentWriter::new(buf))
    }

    /// As [`DirentWriter::push`]. Count a lookup only if it returns `true`.
    #[must_use]
    pub fn push(&mut self, entry_out: &EntryOut, entry: &Entry<'_>) -> bool {
        self.0.record(
            &DirentPlus {
                entry_out: *entry_out,
                dirent: dirent(entry),
            },
            entry.name,
        )
    }

    /// Bytes written.
    pub const fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether nothing was written.
    pub const fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

fn dirent(entry: &Entry<'_>) -> Dirent {
    // A name too long for u32 is refused by `record`.
    Dirent {
        ino: entry.ino,
        off: entry.off,
        namelen: entry.name.len() as u32,
        typ: entry.typ,
    }
}
