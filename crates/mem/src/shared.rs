//! Bytes that a peer or another thread may change while they are looked at.

use core::marker::PhantomData;
use rustix::fd::{AsRawFd, BorrowedFd};
use std::io;
use std::ptr::NonNull;

/// A range of shared memory. There is no `&[u8]` over it: whoever wants to look at the bytes copies
/// them first, and then looks at the copy, once.
#[derive(Clone, Copy, Debug)]
pub struct SharedBytes<'a> {
    at: NonNull<u8>,
    len: usize,
    _memory: PhantomData<&'a ()>,
}

// SAFETY: a `SharedBytes` only copies to and from memory that is valid for 'a and made to be
// shared; all accesses are volatile.
unsafe impl Send for SharedBytes<'_> {}
// SAFETY: as above.
unsafe impl Sync for SharedBytes<'_> {}

impl<'a> SharedBytes<'a> {
    /// # Safety
    /// `at .. at + len` must be mapped read-write for all of `'a`, and no Rust reference may point
    /// into it.
    pub(crate) unsafe fn new(at: NonNull<u8>, len: usize) -> Self {
        SharedBytes {
            at,
            len,
            _memory: PhantomData,
        }
    }

    /// Length in bytes.
    #[must_use]
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether there are no bytes.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// First byte; reading through it races with the peer, so only system calls and volatile
    /// accesses may use it, and only as long as the memory is borrowed.
    #[must_use]
    pub fn as_ptr(&self) -> *mut u8 {
        self.at.as_ptr()
    }

    /// The part `start .. start + len`.
    ///
    /// # Panics
    /// When it is not inside.
    #[must_use]
    pub fn slice(&self, start: usize, len: usize) -> SharedBytes<'a> {
        assert!(
            start <= self.len && len <= self.len - start,
            "{len} bytes at {start} of {}",
            self.len
        );
        // SAFETY: inside the range that `self` stands for, for the same lifetime.
        unsafe { SharedBytes::new(self.at.add(start), len) }
    }

    /// Copies all bytes into `to`.
    ///
    /// # Panics
    /// When the lengths differ.
    pub fn copy_to(&self, to: &mut [u8]) {
        assert_eq!(self.len, to.len());
        // SAFETY: both ranges are valid for the length; `to` is exclusive, so they do not overlap.
        unsafe { copy_volatile(to.as_mut_ptr(), self.at.as_ptr(), self.len) };
    }

    /// Copies `from` over all bytes.
    ///
    /// # Panics
    /// When the lengths differ.
    pub fn copy_from(&self, from: &[u8]) {
        assert_eq!(self.len, from.len());
        // SAFETY: as in `copy_to`; no Rust reference points into shared memory.
        unsafe { copy_volatile(self.at.as_ptr(), from.as_ptr(), self.len) };
    }

    /// Copies `from`, other shared memory of the same length, over all bytes.
    ///
    /// # Panics
    /// When the lengths differ.
    pub fn copy_from_shared(&self, from: SharedBytes<'_>) {
        assert_eq!(self.len, from.len);
        // SAFETY: both ranges are valid for the length. An overlap yields some mixture of bytes,
        // as any concurrent writer could.
        unsafe { copy_volatile(self.at.as_ptr(), from.at.as_ptr(), self.len) };
    }

    /// Sets all bytes to 0.
    pub fn zero(&self) {
        // SAFETY: the range is valid for writes; no Rust reference points into it.
        unsafe { self.at.as_ptr().write_bytes(0, self.len) };
    }

    /// A copy of the bytes.
    #[must_use]
    pub fn to_vec(&self) -> Vec<u8> {
        let mut copy = vec![0; self.len];
        self.copy_to(&mut copy);
        copy
    }

    /// Writes one byte's own value back, so that the system backs its page with memory.
    pub(crate) fn touch(&self) {
        if self.len > 0 {
            // SAFETY: in range. Only called on pages that no peer and no thread uses yet.
            unsafe {
                let at = self.at.as_ptr();
                at.write_volatile(at.read_volatile());
            }
        }
    }

    /// pread(2) of `fd` at `offset` straight into these bytes; returns how many were read.
    ///
    /// # Errors
    /// What pread says.
    pub fn pread_from(&self, fd: BorrowedFd<'_>, offset: u64) -> io::Result<usize> {
        let offset = to_off(offset)?;
        // SAFETY: the kernel writes inside the range only, which is valid for writes.
        let n = unsafe { libc::pread(fd.as_raw_fd(), self.at.as_ptr().cast(), self.len, offset) };
        usize::try_from(n).map_err(|_| io::Error::last_os_error())
    }

    /// pwrite(2) of these bytes to `fd` at `offset`; returns how many were written.
    ///
    /// # Errors
    /// What pwrite says.
    pub fn pwrite_to(&self, fd: BorrowedFd<'_>, offset: u64) -> io::Result<usize> {
        let offset = to_off(offset)?;
        // SAFETY: the kernel reads inside the range only.
        let n = unsafe { libc::pwrite(fd.as_raw_fd(), self.at.as_ptr().cast(), self.len, offset) };
        usize::try_from(n).map_err(|_| io::Error::last_os_error())
    }
}

fn to_off(offset: u64) -> io::Result<libc::off_t> {
    libc::off_t::try_from(offset).map_err(|_| io::Error::from_raw_os_error(libc::EINVAL))
}

/// Copies bytes of which one side may change meanwhile. A plain copy would let the compiler read a
/// byte twice and believe both reads; one opaque instruction cannot be split.
///
/// # Safety
/// Both ranges are valid for `len` bytes.
#[cfg(target_arch = "x86_64")]
unsafe fn copy_volatile(to: *mut u8, from: *const u8, len: usize) {
    // SAFETY: the caller vouches for both ranges; the direction flag is clear by the ABI.
    unsafe {
        core::arch::asm!(
            "rep movsb",
            inout("rcx") len => _,
            inout("rdi") to => _,
            inout("rsi") from => _,
            options(nostack, preserves_flags)
        );
    }
}

/// As above, for other processors: word by word where both sides are aligned, else by bytes.
///
/// # Safety
/// Both ranges are valid for `len` bytes.
#[cfg(not(target_arch = "x86_64"))]
unsafe fn copy_volatile(to: *mut u8, from: *const u8, len: usize) {
    let mut done = 0;
    if to.addr().is_multiple_of(8) && from.addr().is_multiple_of(8) {
        while done + 8 <= len {
            // SAFETY: in range by the loop, aligned by the check above.
            unsafe {
                let word = from.add(done).cast::<u64>().read_volatile();
                to.add(done).cast::<u64>().write_volatile(word);
            }
            done += 8;
        }
    }
    while done < len {
        // SAFETY: in range by the loop.
        unsafe { to.add(done).write_volatile(from.add(done).read_volatile()) };
        done += 1;
    }
}
