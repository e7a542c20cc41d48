//! A request, as a server holds it.

use super::chain::{Buffer, Buffers};
use super::core::Core;
use super::raw::DeviceQueueId;
use super::work::Head;
use fusewire_mem::SharedBytes;
use fusewire_sync::Arc;

/// A request that waits for its answer. Dropping it unanswered returns it with length 0.
#[derive(Debug)]
pub struct DeviceRequest {
    core: Arc<Core>,
    head: Head,
    buffers: Buffers,
    fate: Fate,
}

#[derive(Clone, Copy, Debug)]
enum Fate {
    /// Returned, with so many bytes written, when it is dropped.
    Return(u32),
    Abandon,
}

impl DeviceRequest {
    pub(super) fn new(core: Arc<Core>, head: Head, buffers: Buffers) -> Self {
        DeviceRequest {
            core,
            head,
            buffers,
            fate: Fate::Return(0),
        }
    }

    /// Whether it cannot be answered: it came by the hiprio queue, or nothing of it is writable.
    #[must_use]
    pub fn is_oneway(&self) -> bool {
        self.head.0 == DeviceQueueId::Hiprio || self.buffers.writable_bytes == 0
    }

    /// Its id in the used ring: the chain's first descriptor.
    #[must_use]
    pub fn id(&self) -> u32 {
        u32::from(self.head.1)
    }

    /// Bytes of the request.
    #[must_use]
    pub fn readable_len(&self) -> usize {
        self.buffers.readable_bytes
    }

    /// Room for the answer, in bytes.
    #[must_use]
    pub fn writable_len(&self) -> usize {
        self.buffers.writable_bytes
    }

    /// Copies the request's bytes from `offset` on into `to`, as many as there are, and returns how
    /// many.
    pub fn copy_readable(&self, offset: usize, to: &mut [u8]) -> usize {
        let mut done = 0;
        for chunk in self.readable_chunks(offset) {
            let n = chunk.len().min(to.len() - done);
            chunk.slice(0, n).copy_to(&mut to[done..done + n]);
            done += n;
            if done == to.len() {
                break;
            }
        }
        done
    }

    /// The request's bytes from `offset` on, in order, such as a WRITE's payload on its way into
    /// pwrite(2). The client may change them at any time.
    pub fn readable_chunks(&self, offset: usize) -> impl Iterator<Item = SharedBytes<'_>> {
        self.chunks(&self.buffers.all[..self.buffers.readable], offset)
    }

    /// The answer's room from `offset` on, in order, such as a READ's payload on its way out of
    /// pread(2).
    pub fn writable_chunks(&self, offset: usize) -> impl Iterator<Item = SharedBytes<'_>> {
        self.chunks(&self.buffers.all[self.buffers.readable..], offset)
    }

    fn chunks<'a>(
        &'a self,
        buffers: &'a [Buffer],
        offset: usize,
    ) -> impl Iterator<Item = SharedBytes<'a>> {
        let mut skip = offset;
        buffers.iter().filter_map(move |buffer| {
            let bytes = self.core.bytes(*buffer);
            let skipped = skip.min(bytes.len());
            skip -= skipped;
            let rest = bytes.slice(skipped, bytes.len() - skipped);
            (!rest.is_empty()).then_some(rest)
        })
    }

    /// Writes `bytes` into the answer's room at `offset`, as many as fit, and returns how many.
    pub fn write_at(&self, offset: usize, bytes: &[u8]) -> usize {
        let mut done = 0;
        for chunk in self.writable_chunks(offset) {
            let n = chunk.len().min(bytes.len() - done);
            chunk.slice(0, n).copy_from(&bytes[done..done + n]);
            done += n;
            if done == bytes.len() {
                break;
            }
        }
        done
    }

    /// Answers: the first `written` bytes of the answer's room are it.
    ///
    /// # Panics
    /// When there is not that much room.
    pub fn complete(mut self, written: usize) {
        assert!(
            written <= self.buffers.writable_bytes,
            "{written} of {} bytes",
            self.buffers.writable_bytes
        );
        self.fate = Fate::Return(written as u32);
    }

    /// Never answers: the client's memory stays taken. For peers that misbehave on purpose.
    pub fn abandon(mut self) {
        self.fate = Fate::Abandon;
    }
}

impl Drop for DeviceRequest {
    fn drop(&mut self) {
        if let Fate::Return(written) = self.fate {
            self.core.give_back(self.head, written);
        }
    }
}
