//! A sealed memfd, mapped once.

use crate::shared::SharedBytes;
use core::ffi::c_void;
use core::sync::atomic::{AtomicU16, Ordering};
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::fs::{MemfdFlags, SealFlags};
use rustix::mm::{Advice, MapFlags, ProtFlags};
use rustix::process::Pid;
use std::io;
use std::ptr::NonNull;

/// A huge page, and the alignment of every region.
pub(crate) const HUGE_BYTES: usize = 2 << 20;

/// Shared memory of a fixed size: a memfd sealed against shrinking and growing (a shrunk one would
/// end the peer, or us, with SIGBUS), mapped read-write and aligned to 2 MiB.
///
/// Every access is bounds-checked; an offset out of bounds is a bug of the caller and panics,
/// except in [`Region::get`], which is meant for offsets that a peer named.
#[derive(Debug)]
pub struct Region {
    fd: OwnedFd,
    base: NonNull<u8>,
    len: usize,
    /// The process that has the mapping; a forked child does not.
    owner: Pid,
}

// SAFETY: the mapping is plain memory that lives as long as the region; all access to it goes
// through volatile or atomic operations that tolerate concurrent change.
unsafe impl Send for Region {}
// SAFETY: as above.
unsafe impl Sync for Region {}

impl Region {
    /// Makes a region of `len` bytes (rounded up to whole 4 KiB pages) of zeroes. It is not
    /// inherited by a forked child, and its descriptor is closed on exec.
    ///
    /// # Errors
    /// EINVAL when `len` is 0; what memfd_create, ftruncate, fcntl or mmap say, usually ENOMEM,
    /// EMFILE or ENFILE.
    pub fn new(name: &str, len: usize) -> io::Result<Self> {
        if len == 0 {
            return Err(rustix::io::Errno::INVAL.into());
        }
        let len = len.next_multiple_of(crate::FRAME_BYTES);
        let fd = rustix::fs::memfd_create(name, MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING)?;
        rustix::fs::ftruncate(&fd, len as u64)?;
        rustix::fs::fcntl_add_seals(&fd, SealFlags::SHRINK | SealFlags::GROW | SealFlags::SEAL)?;
        let base = map_aligned(fd.as_fd(), len)?;
        let owner = rustix::process::getpid();
        let region = Region {
            fd,
            base,
            len,
            owner,
        };
        // SAFETY: the range is exactly our mapping; DONTFORK only changes what a child inherits.
        unsafe { rustix::mm::madvise(region.base.as_ptr().cast(), len, Advice::LinuxDontFork) }?;
        Ok(region)
    }

    /// The memfd, to be passed to a peer.
    #[must_use]
    pub fn fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }

    /// Address of the first byte in this process; also the address under which peers that speak in
    /// addresses (vhost-user) know it.
    #[must_use]
    pub fn base_addr(&self) -> u64 {
        self.base.as_ptr() as u64
    }

    /// Length in bytes, a multiple of 4096.
    #[must_use]
    pub fn len(&self) -> usize {
        self.len
    }

    /// Always false: there is no empty region.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        false
    }

    /// `len` bytes at `offset`, or `None` when they are not all inside.
    #[must_use]
    pub fn get(&self, offset: u64, len: usize) -> Option<SharedBytes<'_>> {
        let start = usize::try_from(offset).ok()?;
        let end = start.checked_add(len)?;
        if end > self.len {
            return None;
        }
        // SAFETY: start..end is inside the mapping, which lives as long as the borrow of self.
        Some(unsafe { SharedBytes::new(self.base.add(start), len) })
    }

    /// `len` bytes at `offset`.
    ///
    /// # Panics
    /// When they are not all inside.
    #[must_use]
    pub fn bytes(&self, offset: u64, len: usize) -> SharedBytes<'_> {
        match self.get(offset, len) {
            Some(bytes) => bytes,
            None => panic!(
                "{len} bytes at {offset} are outside a region of {}",
                self.len
            ),
        }
    }

    fn atomic_u16(&self, offset: u64) -> &AtomicU16 {
        let bytes = self.bytes(offset, 2);
        assert!(
            offset.is_multiple_of(2),
            "unaligned 16-bit access at {offset}"
        );
        // SAFETY: in bounds and aligned (the base is page-aligned); the memory is valid for atomic
        // access as long as self lives, and every 16-bit index in it is only accessed this way.
        unsafe { AtomicU16::from_ptr(bytes.as_ptr().cast()) }
    }

    /// Reads the 16-bit word at `offset` with acquire order: an index that a peer publishes.
    #[must_use]
    pub fn load_u16_acquire(&self, offset: u64) -> u16 {
        self.atomic_u16(offset).load(Ordering::Acquire)
    }

    /// Writes the 16-bit word at `offset` with release order: an index that a peer awaits.
    pub fn store_u16_release(&self, offset: u64, value: u16) {
        self.atomic_u16(offset).store(value, Ordering::Release);
    }

    /// Backs the huge page that starts at `offset` with one 2 MiB page, if the system grants it.
    /// It touches the page first, so that the cost of zeroing falls here.
    ///
    /// # Errors
    /// EINVAL where huge pages are denied for shared memory; EAGAIN or ENOMEM when none is free.
    /// The memory stays usable in 4 KiB pages then.
    pub(crate) fn collapse(&self, offset: u64) -> io::Result<()> {
        let bytes = self.bytes(offset, HUGE_BYTES);
        assert!(
            offset.is_multiple_of(HUGE_BYTES as u64),
            "not a huge page: {offset}"
        );
        bytes.touch();
        // SAFETY: the range is inside our mapping; collapsing changes the page size, not the data.
        let rc = unsafe {
            libc::madvise(
                bytes.as_ptr().cast::<c_void>(),
                HUGE_BYTES,
                libc::MADV_COLLAPSE,
            )
        };
        if rc == 0 {
            Ok(())
        } else {
            Err(io::Error::last_os_error())
        }
    }
}

impl Drop for Region {
    fn drop(&mut self) {
        // A forked child may have something else at this address.
        if rustix::process::getpid() != self.owner {
            return;
        }
        // SAFETY: this is the mapping made in `new`, and every borrow of it has ended.
        let _ = unsafe { rustix::mm::munmap(self.base.as_ptr().cast(), self.len) };
    }
}

/// Maps `fd` at a multiple of 2 MiB, by reserving more and cutting off both ends.
fn map_aligned(fd: BorrowedFd<'_>, len: usize) -> io::Result<NonNull<u8>> {
    let reserved = len
        .checked_add(HUGE_BYTES)
        .ok_or(rustix::io::Errno::NOMEM)?;
    // SAFETY: a fresh anonymous reservation at an address of the kernel's choice.
    let start = unsafe {
        rustix::mm::mmap_anonymous(
            std::ptr::null_mut(),
            reserved,
            ProtFlags::empty(),
            MapFlags::PRIVATE | MapFlags::NORESERVE,
        )
    }?;
    let lead = start.align_offset(HUGE_BYTES);
    let base = start.wrapping_byte_add(lead);
    let unmap = |at: *mut c_void, len: usize| {
        if len > 0 {
            // SAFETY: a part of the reservation above that nothing uses.
            let _ = unsafe { rustix::mm::munmap(at, len) };
        }
    };
    // SAFETY: replaces a part of our own reservation.
    let mapped = unsafe {
        rustix::mm::mmap(
            base,
            len,
            ProtFlags::READ | ProtFlags::WRITE,
            MapFlags::SHARED | MapFlags::FIXED,
            fd,
            0,
        )
    };
    if let Err(error) = mapped {
        unmap(start, reserved);
        return Err(error.into());
    }
    unmap(start, lead);
    unmap(base.wrapping_byte_add(len), reserved - lead - len);
    NonNull::new(base.cast()).ok_or_else(|| rustix::io::Errno::NOMEM.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_region_is_sealed_aligned_and_bounded() {
        let region = Region::new("test", 3 * 4096 + 1).unwrap();
        assert_eq!(region.len(), 4 * 4096);
        assert!(region.base_addr().is_multiple_of(HUGE_BYTES as u64));
        assert!(rustix::fs::ftruncate(region.fd(), 0).is_err());
        assert!(rustix::fs::ftruncate(region.fd(), 1 << 20).is_err());
        assert!(region.get(4 * 4096, 1).is_none());
        assert!(region.get(4 * 4096, 0).is_some());
        assert!(region.get(u64::MAX, 2).is_none());
        region.store_u16_release(10, 0xbeef);
        assert_eq!(region.load_u16_acquire(10), 0xbeef);
        assert!(Region::new("empty", 0).is_err());
    }

    #[test]
    fn a_forked_child_does_not_unmap_what_it_never_had() {
        let region = Region::new("test", 4096).unwrap();
        let base = region.base_addr() as *mut c_void;
        // SAFETY: the child only maps, drops, writes to its own mapping and leaves by _exit.
        let child = unsafe { libc::fork() };
        assert!(child >= 0, "fork failed");
        if child == 0 {
            let flags = MapFlags::PRIVATE | MapFlags::FIXED_NOREPLACE;
            // SAFETY: nothing is mapped there in the child.
            let own = unsafe {
                rustix::mm::mmap_anonymous(base, 4096, ProtFlags::READ | ProtFlags::WRITE, flags)
            };
            let code = match own {
                Ok(own) => {
                    drop(region);
                    // SAFETY: the page that was just mapped; a fault ends the child by a signal.
                    unsafe { own.cast::<u8>().write_volatile(1) };
                    0
                }
                Err(_) => 1,
            };
            // SAFETY: ends the child without running anything of the parent's.
            unsafe { libc::_exit(code) };
        }
        let mut status = 0;
        // SAFETY: waits for our own child, status is a valid place.
        assert_eq!(unsafe { libc::waitpid(child, &raw mut status, 0) }, child);
        assert_eq!(status, 0, "the child's own page is gone");
    }

    #[test]
    fn the_memfd_shows_what_was_written() {
        let region = Region::new("test", 4096).unwrap();
        region.bytes(100, 5).copy_from(b"hello");
        let mut seen = [0; 5];
        rustix::io::pread(region.fd(), &mut seen, 100).unwrap();
        assert_eq!(&seen, b"hello");
    }
}
