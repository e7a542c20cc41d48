//! Noticing, without a system call, that the process was forked.

use rustix::mm::{Advice, MapFlags, ProtFlags};
use std::io;
use std::ptr::NonNull;

/// Tells the process that made it from a forked child, in which a client must not run: the shared
/// memory is not inherited and the threads are gone. One byte of a page that the kernel wipes in
/// the child is enough, and reading it costs a load.
#[derive(Debug)]
pub struct ForkGuard {
    page: NonNull<u8>,
}

// SAFETY: the page is written once, before the guard is shared, and only read after that.
unsafe impl Send for ForkGuard {}
// SAFETY: as above.
unsafe impl Sync for ForkGuard {}

impl ForkGuard {
    /// A guard for this process.
    ///
    /// # Errors
    /// ENOMEM when no page can be had.
    pub fn new() -> io::Result<Self> {
        // SAFETY: a fresh private page at an address of the kernel's choice.
        let page = unsafe {
            rustix::mm::mmap_anonymous(
                std::ptr::null_mut(),
                crate::FRAME_BYTES,
                ProtFlags::READ | ProtFlags::WRITE,
                MapFlags::PRIVATE,
            )
        }?;
        let page = NonNull::new(page.cast::<u8>()).ok_or(rustix::io::Errno::NOMEM)?;
        let guard = ForkGuard { page };
        // SAFETY: our own page; the advice only changes what a child inherits.
        unsafe {
            rustix::mm::madvise(
                page.as_ptr().cast(),
                crate::FRAME_BYTES,
                Advice::LinuxWipeOnFork,
            )
        }?;
        // SAFETY: our own page, not shared with anyone yet.
        unsafe { page.as_ptr().write_volatile(1) };
        Ok(guard)
    }

    /// Whether this is a forked child of the process that made the guard.
    #[must_use]
    pub fn is_forked_child(&self) -> bool {
        // SAFETY: mapped as long as self lives; a byte that is never written again.
        unsafe { self.page.as_ptr().read_volatile() == 0 }
    }
}

impl Drop for ForkGuard {
    fn drop(&mut self) {
        // SAFETY: the page made in `new`; nothing borrows it.
        let _ = unsafe { rustix::mm::munmap(self.page.as_ptr().cast(), crate::FRAME_BYTES) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_forked_child_is_noticed() {
        let guard = ForkGuard::new().unwrap();
        assert!(!guard.is_forked_child());
        // SAFETY: the child only reads one byte and leaves by _exit.
        let child = unsafe { libc::fork() };
        assert!(child >= 0, "fork failed");
        if child == 0 {
            let code = i32::from(guard.is_forked_child());
            // SAFETY: ends the child without running anything of the parent's.
            unsafe { libc::_exit(code) };
        }
        let mut status = 0;
        // SAFETY: waits for our own child, status is a valid place.
        assert_eq!(unsafe { libc::waitpid(child, &raw mut status, 0) }, child);
        assert_eq!(libc::WEXITSTATUS(status), 1, "the child did not notice");
    }
}
