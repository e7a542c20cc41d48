//! The bytes of a file, holes kept.

use super::Copying;
use crate::report::Problem;
use fusewire::File;
use rustix::fd::BorrowedFd;
use rustix::fs::{SeekFrom, Stat};
use rustix::io::Errno;
use std::io;
use std::ops::Range;
use std::path::Path;

/// Bytes copied in one call, between looks at whether to go on. Small enough for a quick end and a
/// smooth bar, large enough for the pauses between calls not to be felt.
const CHUNK_BYTES: u64 = 32 << 20;

/// Bytes looked through at once for zeroes.
const SPARSE_CHUNK_BYTES: usize = 4 << 20;

/// Holes that a daemon is asked for in one file. Behind them all is taken for data: one that makes
/// holes up keeps nobody busy with them.
const MAX_HOLES: u32 = 65_536;

/// Smallest hole that is kept: what most file systems can leave out.
const BLOCK_BYTES: usize = 4096;

/// A file on its way.
pub struct Transfer<'a> {
    pub copying: &'a Copying<'a>,
    pub file: &'a File,
    /// The file of this host.
    pub fd: BorrowedFd<'a>,
    /// What the two are called in messages.
    pub remote: &'a Path,
    pub local: &'a Path,
}

impl Transfer<'_> {
    /// Copies the file of the source, which has `size` bytes in `blocks` blocks of 512 bytes, to
    /// this host.
    pub fn receive(&self, size: u64, blocks: u64) -> Result<(), Problem> {
        if is_sparse(size, blocks) {
            return self.receive_sparse(size);
        }
        let mut offset = 0;
        loop {
            self.copying.check_running(self.remote)?;
            // One byte more than there should be: the answer then says that the end is there. Where
            // it is not, the size was no size.
            let more = size
                .checked_sub(offset)
                .and_then(|more| more.checked_add(1));
            let want = CHUNK_BYTES.min(more.unwrap_or(CHUNK_BYTES));
            let got = self
                .file
                .read_to_fd(offset, want, self.fd, offset)
                .map_err(|error| self.receive_failed(&error))?;
            offset += got;
            self.copying.progress.copied(got);
            // A short answer is the end where the end was to be expected; else the next tells.
            if got == 0 || (got < want && offset == size) {
                return Ok(());
            }
        }
    }

    /// Copies the file of the source to where bytes come one after the other, such as a pipe.
    pub fn receive_stream(&self) -> Result<(), Problem> {
        let mut buffer = vec![0; SPARSE_CHUNK_BYTES];
        let mut offset = 0;
        loop {
            self.copying.check_running(self.remote)?;
            let got = self.file.read_at(&mut buffer, offset);
            let got = got.map_err(|error| Problem::remote(&error, self.remote))?;
            if got == 0 {
                return Ok(());
            }
            write_all(self.fd, &buffer[..got]).map_err(|errno| self.local_failed(errno))?;
            offset += got as u64;
            self.copying.progress.copied(got as u64);
        }
    }

    /// As [`Transfer::receive`], leaving out holes and blocks of zeroes.
    fn receive_sparse(&self, size: u64) -> Result<(), Problem> {
        let mut buffer = vec![0; SPARSE_CHUNK_BYTES];
        let (mut done, mut holes) = (0, 0);
        let end = loop {
            let data = if holes < MAX_HOLES {
                holes += 1;
                self.next_data(done, size)?
            } else {
                (done < size).then_some(done..size)
            };
            let Some(data) = data else {
                self.copying.progress.copied(size - done);
                break size;
            };
            self.copying.progress.copied(data.start - done);
            done = self.receive_range(&data, &mut buffer)?;
            if done < data.end {
                // It became shorter meanwhile.
                break done;
            }
        };
        rustix::fs::ftruncate(self.fd, end).map_err(|errno| self.local_failed(errno))
    }

    /// The next part of the source's file, from `from` on and before `size`, that is not a hole.
    fn next_data(&self, from: u64, size: u64) -> Result<Option<Range<u64>>, Problem> {
        self.copying.check_running(self.remote)?;
        let failed = |error: fusewire::Error| Problem::remote(&error, self.remote);
        if from >= size {
            return Ok(None);
        }
        // A daemon that leads backwards does not know its holes: all of it is data.
        let Some(start) = self.file.seek_data(from).map_err(failed)? else {
            return Ok(None);
        };
        let start = start.max(from);
        let end = self.file.seek_hole(start).map_err(failed)?;
        let end = end.filter(|end| *end > start).unwrap_or(size);
        Ok((start < size).then(|| start..end.min(size)))
    }

    /// Copies a part of the source's file, leaving out blocks of zeroes: not every daemon knows
    /// its holes. Returns where it ended.
    fn receive_range(&self, range: &Range<u64>, buffer: &mut [u8]) -> Result<u64, Problem> {
        let mut offset = range.start;
        while offset < range.end {
            self.copying.check_running(self.remote)?;
            let want = usize::try_from(range.end - offset).unwrap_or(usize::MAX);
            let room = buffer.len().min(want);
            let got = self
                .file
                .read_at(&mut buffer[..room], offset)
                .map_err(|error| Problem::remote(&error, self.remote))?;
            if got == 0 {
                break;
            }
            for data in data_ranges(&buffer[..got]) {
                let at = offset + data.start as u64;
                pwrite_all(self.fd, &buffer[data], at).map_err(|errno| self.local_failed(errno))?;
            }
            offset += got as u64;
            self.copying.progress.copied(got as u64);
        }
        Ok(offset)
    }

    /// Copies the file of this host to the source.
    pub fn send(&self, stat: &Stat) -> Result<(), Problem> {
        let size = u64::try_from(stat.st_size).unwrap_or(0);
        let blocks = u64::try_from(stat.st_blocks).unwrap_or(u64::MAX);
        if !is_sparse(size, blocks) {
            self.send_range(0, size, true)?;
            return Ok(());
        }
        let mut end = 0;
        while let Some(data) = local_data(self.fd, end, size).map_err(|e| self.local_failed(e))? {
            self.copying.progress.copied(data.start - end);
            let sent = self.send_range(data.start, data.end, false)?;
            end = data.end;
            if sent < data.end {
                // It became shorter meanwhile.
                break;
            }
        }
        // The hole at the end, which nothing was written behind.
        if end < size {
            self.copying.progress.copied(size - end);
            let set = self.file.set_len(size);
            set.map_err(|error| Problem::remote(&error, self.remote))?;
        }
        Ok(())
    }

    /// Copies from `start` to `end`, or to wherever the file ends by then, if `open_ended`.
    /// Returns where it ended.
    fn send_range(&self, start: u64, end: u64, open_ended: bool) -> Result<u64, Problem> {
        let mut offset = start;
        loop {
            self.copying.check_running(self.remote)?;
            let more = end.saturating_sub(offset);
            let want = CHUNK_BYTES.min(more.saturating_add(u64::from(open_ended)));
            if want == 0 {
                return Ok(offset);
            }
            let sent = self
                .file
                .write_from_fd(offset, want, self.fd, offset)
                .map_err(|error| Problem::remote(&error, self.remote))?;
            offset += sent;
            self.copying.progress.copied(sent);
            if sent == 0 || (sent < want && offset == end) {
                return Ok(offset);
            }
        }
    }

    /// Reading from a daemon does not fill a disk: that is about our own file.
    fn receive_failed(&self, error: &fusewire::Error) -> Problem {
        match Errno::from_raw_os_error(error.errno()) {
            errno @ (Errno::NOSPC | Errno::DQUOT | Errno::FBIG) => self.local_failed(errno),
            _ => Problem::remote(error, self.remote),
        }
    }

    fn local_failed(&self, errno: Errno) -> Problem {
        self.copying.report.note_full(errno);
        Problem::local("copy", self.local, &io::Error::from(errno))
    }
}

/// Whether a file occupies less than it is long.
fn is_sparse(size: u64, blocks: u64) -> bool {
    size.div_ceil(512) > blocks && size > BLOCK_BYTES as u64
}

/// The parts of `bytes` that are not blocks of zeroes, as long as they can be.
fn data_ranges(bytes: &[u8]) -> impl Iterator<Item = Range<usize>> {
    const ZEROES: [u8; BLOCK_BYTES] = [0; BLOCK_BYTES];
    let is_data = |start: usize| {
        let block = &bytes[start..bytes.len().min(start + BLOCK_BYTES)];
        block != &ZEROES[..block.len()]
    };
    let mut at = 0;
    std::iter::from_fn(move || {
        while at < bytes.len() && !is_data(at) {
            at += BLOCK_BYTES;
        }
        let start = at;
        while at < bytes.len() && is_data(at) {
            at += BLOCK_BYTES;
        }
        (start < at).then(|| start..at.min(bytes.len()))
    })
}

/// The next part of a file of this host, of `size` bytes, from `from` on, that is not a hole.
fn local_data(fd: BorrowedFd<'_>, from: u64, size: u64) -> Result<Option<Range<u64>>, Errno> {
    if from >= size {
        return Ok(None);
    }
    let start = match rustix::fs::seek(fd, SeekFrom::Data(from)) {
        Ok(start) => start,
        Err(Errno::NXIO) => return Ok(None),
        // A file system that does not tell: all of it is data.
        Err(Errno::INVAL | Errno::OPNOTSUPP) => return Ok(Some(from..size)),
        Err(errno) => return Err(errno),
    };
    let end = rustix::fs::seek(fd, SeekFrom::Hole(start))?;
    Ok((start < size).then(|| start..end.min(size)))
}

fn pwrite_all(fd: BorrowedFd<'_>, mut bytes: &[u8], mut offset: u64) -> Result<(), Errno> {
    while !bytes.is_empty() {
        match rustix::io::pwrite(fd, bytes, offset) {
            Ok(0) => return Err(Errno::IO),
            Ok(n) => {
                bytes = &bytes[n..];
                offset += n as u64;
            }
            Err(Errno::INTR) => {}
            Err(errno) => return Err(errno),
        }
    }
    Ok(())
}

fn write_all(fd: BorrowedFd<'_>, mut bytes: &[u8]) -> Result<(), Errno> {
    while !bytes.is_empty() {
        match rustix::io::write(fd, bytes) {
            Ok(0) => return Err(Errno::IO),
            Ok(n) => bytes = &bytes[n..],
            Err(Errno::INTR) => {}
            Err(errno) => return Err(errno),
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::fd::AsFd;
    use std::os::unix::fs::FileExt;

    #[test]
    fn only_files_with_room_to_spare_are_sparse() {
        assert!(!is_sparse(0, 0));
        assert!(!is_sparse(10, 0), "kept within the inode");
        assert!(!is_sparse(4097, 16));
        assert!(is_sparse(1 << 20, 8));
        assert!(!is_sparse(1 << 20, 2048));
        assert!(!is_sparse(u64::MAX, u64::MAX));
    }

    #[test]
    fn blocks_of_zeroes_are_left_out() {
        let ranges = |bytes: &[u8]| data_ranges(bytes).collect::<Vec<_>>();
        let mut bytes = vec![0; 5 * BLOCK_BYTES + 100];
        assert!(ranges(&bytes).is_empty());
        bytes[0] = 1;
        bytes[3 * BLOCK_BYTES - 1] = 1;
        bytes[3 * BLOCK_BYTES] = 1;
        assert_eq!(
            ranges(&bytes),
            [0..BLOCK_BYTES, 2 * BLOCK_BYTES..4 * BLOCK_BYTES]
        );
        *bytes.last_mut().unwrap() = 1;
        assert_eq!(ranges(&bytes)[2], 5 * BLOCK_BYTES..bytes.len());
        assert!(ranges(&[]).is_empty());
        assert_eq!(ranges(&[1]), vec![0..1; 1]);
    }

    #[test]
    fn holes_of_this_host_are_found() {
        let file = tempfile::tempfile().unwrap();
        file.set_len(8 << 20).unwrap();
        file.write_all_at(b"x", 4 << 20).unwrap();
        let next = |from| local_data(file.as_fd(), from, 8 << 20).unwrap();
        let data = next(0).unwrap();
        assert!(data.contains(&(4 << 20)), "{data:?}");
        assert!(data.start > 0 && data.end < 8 << 20, "{data:?}");
        assert_eq!(next(data.end), None);
        assert_eq!(next(8 << 20), None);
        assert_eq!(local_data(file.as_fd(), 0, 1 << 20).unwrap(), None);
    }
}
