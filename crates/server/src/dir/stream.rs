//! Reading a directory of the host at any offset.

use crate::fs::Result;
use core::mem::MaybeUninit;
use fusewire_sync::{Mutex, Rank};
use fusewire_wire::abi::FileKind;
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::fs::{FileType, RawDir, SeekFrom};
use std::collections::VecDeque;

/// An entry as getdents64(2) gives it.
#[derive(Debug)]
pub(super) struct RawEntry {
    pub ino: u64,
    /// Where reading goes on after this entry: the host's own cookie, stable as the host's is.
    pub next: u64,
    /// `None` where the host does not say.
    pub kind: Option<FileKind>,
    pub name: Box<[u8]>,
}

/// An open directory of the host.
///
/// Entries are read in batches. What a reply had no room for is kept, keyed by the offset at which
/// it continues, so that the usual reader never seeks; any other offset seeks.
#[derive(Debug)]
pub(super) struct DirStream {
    fd: OwnedFd,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    /// Offset at which the descriptor stands.
    at: u64,
    /// Entries read ahead, and the offset that leads to the first.
    kept: VecDeque<RawEntry>,
    kept_from: u64,
}

const BATCH_BYTES: usize = 32 << 10;

impl AsFd for DirStream {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

impl DirStream {
    pub fn new(fd: OwnedFd) -> Self {
        DirStream {
            fd,
            state: Mutex::new(
                Rank::LEAF,
                State {
                    at: 0,
                    kept: VecDeque::new(),
                    kept_from: 0,
                },
            ),
        }
    }

    /// The entries after `offset`, at least one unless there are no more.
    pub fn take(&self, offset: u64) -> Result<VecDeque<RawEntry>> {
        let mut state = self.state.lock();
        let kept = std::mem::take(&mut state.kept);
        if offset != 0 && offset == state.kept_from && !kept.is_empty() {
            return Ok(kept);
        }
        if offset == 0 || offset != state.at {
            rustix::fs::seek(&self.fd, SeekFrom::Start(offset))?;
            state.at = offset;
        }
        let batch = self.read_batch()?;
        if let Some(last) = batch.back() {
            state.at = last.next;
        }
        Ok(batch)
    }

    /// Gives back the entries that follow `offset` and found no room.
    pub fn put_back(&self, offset: u64, rest: VecDeque<RawEntry>) {
        let mut state = self.state.lock();
        state.kept = rest;
        state.kept_from = offset;
    }

    fn read_batch(&self) -> Result<VecDeque<RawEntry>> {
        let mut buffer = vec![MaybeUninit::uninit(); BATCH_BYTES];
        let mut dir = RawDir::new(&self.fd, &mut buffer);
        let mut batch = VecDeque::new();
        while let Some(entry) = dir.next() {
            let entry = entry?;
            batch.push_back(RawEntry {
                ino: entry.ino(),
                next: entry.next_entry_cookie(),
                kind: kind_of(entry.file_type()),
                name: entry.file_name().to_bytes().into(),
            });
            if dir.is_buffer_empty() {
                break;
            }
        }
        Ok(batch)
    }
}

fn kind_of(file_type: FileType) -> Option<FileKind> {
    FileKind::from_mode(file_type.as_raw_mode())
}
