//! The payload of a request, in both directions.

use fusewire_mem::SharedBytes;
use fusewire_transport::DeviceRequest;
use std::io::{Error, ErrorKind};

/// Payload of one request: what came after its head, and room for what follows the fixed part of the
/// reply.
///
/// Both are shared memory, which the client could change at any time.
#[derive(Debug)]
pub struct Io<'a> {
    request: &'a DeviceRequest,
    in_at: usize,
    in_len: usize,
    out_at: usize,
    out_len: usize,
}

impl<'a> Io<'a> {
    /// Of `request`: where its payload starts and how long it is, and the same of the answer's.
    pub(crate) fn new(
        request: &'a DeviceRequest,
        (in_at, in_len): (usize, usize),
        (out_at, out_len): (usize, usize),
    ) -> Self {
        let room = request.writable_len().saturating_sub(out_at);
        Io {
            request,
            in_at,
            in_len,
            out_at,
            out_len: out_len.min(room),
        }
    }

    /// Bytes of payload that came.
    #[must_use]
    pub fn in_len(&self) -> usize {
        self.in_len
    }

    /// Most bytes that may be answered.
    #[must_use]
    pub fn out_len(&self) -> usize {
        self.out_len
    }

    /// The payload that came.
    pub fn in_chunks(&self) -> impl Iterator<Item = SharedBytes<'a>> {
        first_bytes(self.request.readable_chunks(self.in_at), self.in_len)
    }

    /// A copy of the payload that came.
    #[must_use]
    pub fn in_to_vec(&self) -> Vec<u8> {
        let mut copy = vec![0; self.in_len];
        let n = self.request.copy_readable(self.in_at, &mut copy);
        copy.truncate(n);
        copy
    }

    /// Room for the payload of the answer.
    pub fn out_chunks(&self) -> impl Iterator<Item = SharedBytes<'a>> {
        first_bytes(self.request.writable_chunks(self.out_at), self.out_len)
    }

    /// Puts `bytes` at the start of the answer's payload and returns how many fitted.
    pub fn put(&self, bytes: &[u8]) -> usize {
        let bytes = &bytes[..bytes.len().min(self.out_len)];
        self.request.write_at(self.out_at, bytes)
    }
}

/// The first `len` bytes of `chunks`.
fn first_bytes<'a>(
    chunks: impl Iterator<Item = SharedBytes<'a>>,
    mut len: usize,
) -> impl Iterator<Item = SharedBytes<'a>> {
    chunks.map_while(move |chunk| {
        let n = chunk.len().min(len);
        len -= n;
        (n > 0).then(|| chunk.slice(0, n))
    })
}

/// Moves bytes chunk by chunk with `step(chunk, bytes moved before)`, until one moves less than
/// its chunk holds. An error counts only if nothing was moved before it.
pub(crate) fn transfer<'a>(
    chunks: impl Iterator<Item = SharedBytes<'a>>,
    mut step: impl FnMut(SharedBytes<'a>, u64) -> std::io::Result<usize>,
) -> std::io::Result<usize> {
    let mut done = 0;
    for chunk in chunks {
        let mut at = 0;
        while at < chunk.len() {
            match step(chunk.slice(at, chunk.len() - at), (done + at) as u64) {
                Ok(0) => return Ok(done + at),
                Ok(n) => at += n,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) if done + at == 0 => return Err(error),
                Err(_) => return Ok(done + at),
            }
        }
        done += at;
    }
    Ok(done)
}

/// The errno of an error that a system call returned.
pub(crate) fn errno_of(error: &Error) -> rustix::io::Errno {
    rustix::io::Errno::from_io_error(error).unwrap_or(rustix::io::Errno::IO)
}
