//! Extended attributes.

use super::{Rpc, Target, malformed, unsupported};
use crate::engine::Payload;
use fusewire_wire::{InitFlags, Request, SetxattrFlags, XattrName, reply};
use rustix::io::Errno;

/// Largest value and largest list of names, in bytes, as on Linux.
pub(crate) const XATTR_MAX_BYTES: usize = 65_536;
/// How often a peer is believed what it says of a size.
const SIZES: u32 = 4;

impl Rpc<'_> {
    /// The value of an attribute.
    ///
    /// # Errors
    /// ENODATA when there is none; EOPNOTSUPP when the peer has no attributes.
    pub(crate) fn getxattr(&self, on: &impl Target, name: XattrName<'_>) -> Result<Vec<u8>, Errno> {
        self.sized(on, |size| Request::Getxattr { name, size })
    }

    /// The names of all attributes, each with a NUL behind it.
    ///
    /// # Errors
    /// EOPNOTSUPP when the peer has no attributes.
    pub(crate) fn listxattr(&self, on: &impl Target) -> Result<Vec<u8>, Errno> {
        self.sized(on, |size| Request::Listxattr { size })
    }

    /// Asks for the size first, because a buffer of the largest size costs more than a request;
    /// again when the value has grown meanwhile, and at last with the largest: whoever asks must not
    /// be kept for ever.
    fn sized<'a>(
        &self,
        on: &impl Target,
        request: impl Fn(u32) -> Request<'a>,
    ) -> Result<Vec<u8>, Errno> {
        for _ in 0..SIZES {
            let reply = unsupported(self.call(on, request(0)))?;
            let size = reply::getxattr_size(reply.head.body())
                .map_err(malformed)?
                .size;
            if size == 0 {
                return Ok(Vec::new());
            }
            if size as usize > XATTR_MAX_BYTES {
                return Err(Errno::TOOBIG);
            }
            match self.read_payload(on, size, request(size)) {
                Err(Errno::RANGE) => {}
                result => {
                    let (frames, len) = unsupported(result)?;
                    return Ok(frames.bytes(0, len).to_vec());
                }
            }
        }
        let room = XATTR_MAX_BYTES as u32;
        match self.read_payload(on, room, request(room)) {
            // Nothing is larger.
            Err(Errno::RANGE) => Err(Errno::IO),
            result => {
                let (frames, len) = unsupported(result)?;
                Ok(frames.bytes(0, len).to_vec())
            }
        }
    }

    /// Returns whether the peer was told about the set-group-id bit, which is to go with
    /// `kill_sgid`: one that has not agreed on SETXATTR_EXT cannot be.
    ///
    /// # Errors
    /// E2BIG above 64 KiB; EEXIST and ENODATA as `flags` ask for; EOPNOTSUPP when the peer has no
    /// attributes.
    pub(crate) fn setxattr(
        &self,
        on: &impl Target,
        name: XattrName<'_>,
        value: &[u8],
        flags: u32,
        kill_sgid: bool,
    ) -> Result<bool, Errno> {
        let ext = self.negotiated().flags.contains(InitFlags::SETXATTR_EXT);
        let setxattr_flags = if kill_sgid && ext {
            SetxattrFlags::ACL_KILL_SGID
        } else {
            SetxattrFlags::empty()
        };
        let request = Request::Setxattr {
            name,
            size: value.len() as u32,
            flags,
            setxattr_flags: setxattr_flags.bits(),
            ext,
        };
        let payload = if value.is_empty() {
            Payload::None
        } else {
            let frames = self.frames(value.len() as u32)?;
            frames.bytes(0, value.len()).copy_from(value);
            Payload::Out(frames, value.len() as u32)
        };
        let ticket = self.engine().reserve(self.token)?;
        let keeps = [Some(on.keep()), None];
        let result = self
            .start(ticket, on.nodeid(), keeps, request, payload)
            .and_then(|pending| self.finish(pending, request));
        let reply = unsupported(result)?;
        reply::empty(reply.head.body()).map_err(malformed)?;
        Ok(ext)
    }

    /// # Errors
    /// ENODATA when there is none; EOPNOTSUPP when the peer has no attributes.
    pub(crate) fn removexattr(&self, on: &impl Target, name: XattrName<'_>) -> Result<(), Errno> {
        unsupported(self.done(on, Request::Removexattr { name }))
    }
}
