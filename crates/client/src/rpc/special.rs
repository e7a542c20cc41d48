//! Operations that few daemons have: device control, readiness, block numbers, birth times, access
//! checks, and files without names.

use super::{New, Opened, Rpc, Target, malformed, unsupported};
use crate::engine::{Call, Payload};
use fusewire_wire::abi::{BmapIn, EntryOut, IoctlIn, PollIn, Statx, StatxIn};
use fusewire_wire::{Extensions, GetattrFlags, IoctlFlags, PollFlags, Request, reply};
use rustix::io::Errno;

/// Fields of statx(2) that are asked for: the basic ones, and the birth time.
const STATX_BASIC_AND_BTIME: u32 = 0xfff;

impl Rpc<'_> {
    /// Whether the caller may access the node so, in the peer's opinion. One without ACCESS has
    /// none.
    ///
    /// # Errors
    /// EACCES.
    pub(crate) fn access(&self, on: &impl Target, mask: u32) -> Result<(), Errno> {
        match self.done(on, Request::Access { mask }) {
            Err(Errno::NOSYS) => Ok(()),
            result => result,
        }
    }

    /// # Errors
    /// ENOSYS when the peer has no STATX.
    pub(crate) fn statx(&self, on: &impl Target, fh: Option<u64>) -> Result<Statx, Errno> {
        let flags = if fh.is_some() {
            GetattrFlags::FH
        } else {
            GetattrFlags::empty()
        };
        let arg = StatxIn {
            getattr_flags: flags.bits(),
            fh: fh.unwrap_or(0),
            sx_mask: STATX_BASIC_AND_BTIME,
            ..StatxIn::default()
        };
        let reply = self.call(on, Request::Statx(arg))?;
        Ok(reply::statx(reply.head.body()).map_err(malformed)?.stat)
    }

    /// # Errors
    /// EOPNOTSUPP when the peer has no TMPFILE.
    pub(crate) fn tmpfile(
        &self,
        new: &New<'_, impl Target>,
        flags: u32,
    ) -> Result<(EntryOut, Opened), Errno> {
        let request = Request::Tmpfile {
            flags,
            mode: new.mode,
            umask: new.umask,
            open_flags: 0,
        };
        let reply = unsupported(self.call_new(new, request))?;
        let (entry, open) = reply::create(reply.head.body()).map_err(malformed)?;
        Ok((entry, Opened::new(&open, flags, false)))
    }

    /// Block of the device that holds a block of the file; 0 for none, or when the peer has no
    /// BMAP.
    pub(crate) fn bmap(
        &self,
        on: &impl Target,
        block: u64,
        block_bytes: u32,
    ) -> Result<u64, Errno> {
        let arg = BmapIn {
            block,
            blocksize: block_bytes,
            padding: 0,
        };
        match self.call(on, Request::Bmap(arg)) {
            Err(Errno::NOSYS) => Ok(0),
            Err(errno) => Err(errno),
            Ok(reply) => Ok(reply::bmap(reply.head.body()).map_err(malformed)?.block),
        }
    }

    /// The events of `events` that are there. `None`: the peer has no POLL.
    pub(crate) fn poll(
        &self,
        on: &impl Target,
        open: &Opened,
        kh: u64,
        events: u32,
        notify: bool,
    ) -> Result<Option<u32>, Errno> {
        let flags = if notify {
            PollFlags::SCHEDULE_NOTIFY
        } else {
            PollFlags::empty()
        };
        let arg = PollIn {
            fh: open.fh,
            kh,
            flags: flags.bits(),
            events,
        };
        match self.call(on, Request::Poll(arg)) {
            Err(Errno::NOSYS) => Ok(None),
            Err(errno) => Err(errno),
            Ok(reply) => {
                let out = reply::poll(reply.head.body()).map_err(malformed)?;
                Ok(Some(out.revents))
            }
        }
    }

    /// Sends `input` and returns the result of the call, with the bytes of its output, at most
    /// `room`.
    ///
    /// # Errors
    /// ENOTTY when the peer has no IOCTL; EIO when it wants more memory of the caller's.
    pub(crate) fn ioctl(
        &self,
        on: &impl Target,
        open: &Opened,
        cmd: u32,
        input: &[u8],
        room: u32,
    ) -> Result<(i32, Vec<u8>), Errno> {
        let flags = if open.directory {
            IoctlFlags::DIR
        } else {
            IoctlFlags::empty()
        };
        let request = Request::Ioctl(IoctlIn {
            fh: open.fh,
            flags: flags.bits(),
            cmd,
            // The address of the argument, which says nothing to a peer that sees no memory of ours.
            arg: 0,
            in_size: input.len() as u32,
            out_size: room,
        });
        let payload = self.ioctl_payload(input, room)?;
        let call = Call {
            nodeid: on.nodeid(),
            extensions: Extensions::default(),
            request,
            caller: self.caller,
            payload,
            keeps: [Some(on.keep()), None],
            token: self.token,
        };
        let ticket = self.engine().reserve(self.token)?;
        let reply = match self.finish(self.send(ticket, call)?, request) {
            Err(Errno::NOSYS) => return Err(Errno::NOTTY),
            reply => reply?,
        };
        let out = reply::ioctl(reply.head.body()).map_err(malformed)?;
        if IoctlFlags::from_bits_retain(out.flags).contains(IoctlFlags::RETRY) {
            return Err(Errno::IO);
        }
        let at = Payload::in_offset(input.len() as u32) as usize;
        let output = reply.payload.map_or_else(Vec::new, |(frames, len)| {
            frames.bytes(at, len.min(room as usize)).to_vec()
        });
        Ok((out.result, output))
    }

    fn ioctl_payload(&self, input: &[u8], room: u32) -> Result<Payload, Errno> {
        let filled = |bytes: &[u8]| {
            let frames = self.frames(bytes.len() as u32)?;
            frames.bytes(0, bytes.len()).copy_from(bytes);
            Ok::<_, Errno>(frames)
        };
        let len = input.len() as u32;
        Ok(match (input.is_empty(), room) {
            (true, 0) => Payload::None,
            (false, 0) => Payload::Out(filled(input)?, len),
            (true, room) => Payload::In(self.frames(room)?, room),
            (false, room) => {
                // Both in one run, so that nobody waits for frames while it holds some.
                let both = self.frames(Payload::in_offset(len) + room)?;
                both.bytes(0, input.len()).copy_from(input);
                Payload::Both(both, len, room)
            }
        })
    }
}
