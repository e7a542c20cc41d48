//! Where a file's data lies: holes, allocation, copies inside the peer, and stable storage.

use super::{Opened, Rpc, Target, malformed, unsupported};
use fusewire_wire::abi::{CopyFileRangeIn, FallocateIn, LseekIn};
use fusewire_wire::{Opcode, Request, reply};
use rustix::io::Errno;

/// Longest copy that the older COPY_FILE_RANGE can report: its reply has 32 bits.
const COPY_MAX_BYTES: u64 = 0xffff_f000;

impl Rpc<'_> {
    /// First byte of data (or of a hole) at or after `offset`.
    ///
    /// # Errors
    /// ENOSYS when the peer cannot say; ENXIO when there is none before the end of the file.
    pub(crate) fn lseek(
        &self,
        on: &impl Target,
        open: &Opened,
        offset: u64,
        whence: u32,
    ) -> Result<u64, Errno> {
        let arg = LseekIn {
            fh: open.fh,
            offset,
            whence,
            padding: 0,
        };
        let reply = self.call(on, Request::Lseek(arg))?;
        let out = reply::lseek(reply.head.body()).map_err(malformed)?;
        // As Linux: an offset no file has is the peer's mistake, and so is one that leads back.
        if out.offset < offset || i64::try_from(out.offset).is_err() {
            return Err(Errno::IO);
        }
        Ok(out.offset)
    }

    /// # Errors
    /// EOPNOTSUPP when the peer has no FALLOCATE.
    pub(crate) fn fallocate(
        &self,
        on: &impl Target,
        open: &Opened,
        offset: u64,
        length: u64,
        mode: u32,
    ) -> Result<(), Errno> {
        let arg = FallocateIn {
            fh: open.fh,
            offset,
            length,
            mode,
            padding: 0,
        };
        unsupported(self.done(on, Request::Fallocate(arg)))
    }

    /// Copies inside the peer, at most as much as it can report; returns how much.
    ///
    /// # Errors
    /// EOPNOTSUPP when the peer cannot.
    pub(crate) fn copy_file_range(
        &self,
        from: (&impl Target, &Opened, u64),
        to: (&impl Target, &Opened, u64),
        len: u64,
    ) -> Result<u64, Errno> {
        let mut arg = CopyFileRangeIn {
            fh_in: from.1.fh,
            off_in: from.2,
            nodeid_out: to.0.nodeid(),
            fh_out: to.1.fh,
            off_out: to.2,
            len,
            flags: 0,
        };
        if !self.peer.lacks(Opcode::CopyFileRange64) {
            match self.call_on_two(from.0, Some(to.0.keep()), Request::CopyFileRange64(arg)) {
                Err(Errno::NOSYS) => {}
                Err(errno) => return Err(errno),
                Ok(reply) => {
                    let out = reply::copy_file_range_64(reply.head.body()).map_err(malformed)?;
                    return copied(out.bytes_copied, len);
                }
            }
        }
        arg.len = len.min(COPY_MAX_BYTES);
        let result = self.call_on_two(from.0, Some(to.0.keep()), Request::CopyFileRange(arg));
        let reply = unsupported(result)?;
        let out = reply::write(reply.head.body()).map_err(malformed)?;
        copied(u64::from(out.size), arg.len)
    }

    /// A peer without SYNCFS has nothing to write.
    pub(crate) fn syncfs(&self, on: &impl Target) -> Result<(), Errno> {
        match self.done(on, Request::Syncfs) {
            Err(Errno::NOSYS) => Ok(()),
            result => result,
        }
    }
}

/// What the peer says it copied, which cannot be more than it was asked to.
fn copied(bytes: u64, asked: u64) -> Result<u64, Errno> {
    if bytes > asked {
        return Err(Errno::IO);
    }
    Ok(bytes)
}
