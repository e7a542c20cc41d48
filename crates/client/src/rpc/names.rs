//! Names and attributes.

use super::{Opened, Rpc, Target, malformed};
use crate::engine::Reply;
use fusewire_wire::abi::{AttrOut, EntryOut, Kstatfs, SetattrIn};
use fusewire_wire::{Name, Request, Target as LinkTarget, reply};
use rustix::io::Errno;

/// A new object: where, under which name, and with which rights.
pub(crate) struct New<'a, T: Target> {
    pub(crate) dir: &'a T,
    pub(crate) name: Name<'a>,
    pub(crate) mode: u32,
    pub(crate) umask: u32,
    /// Group of `dir`, when the caller is in it by a supplementary group.
    pub(crate) parent_group: Option<u32>,
}

impl Rpc<'_> {
    /// `nodeid` 0 in the result: the name does not exist, and that may be cached.
    pub(crate) fn lookup(&self, dir: &impl Target, name: Name<'_>) -> Result<EntryOut, Errno> {
        self.entry(dir, Request::Lookup { name })
    }

    pub(crate) fn getattr(&self, on: &impl Target, fh: Option<u64>) -> Result<AttrOut, Errno> {
        let reply = self.call(on, Request::Getattr { fh })?;
        reply::attr(reply.head.body()).map_err(malformed)
    }

    pub(crate) fn setattr(&self, on: &impl Target, change: SetattrIn) -> Result<AttrOut, Errno> {
        let reply = self.call(on, Request::Setattr(change))?;
        reply::attr(reply.head.body()).map_err(malformed)
    }

    pub(crate) fn readlink(&self, on: &impl Target) -> Result<Vec<u8>, Errno> {
        let room = Request::Readlink.reply().payload_max_bytes;
        let (frames, len) = self.read_payload(on, room, Request::Readlink)?;
        let target = frames.bytes(0, len).to_vec();
        // An empty target, or one with a NUL, cannot have come from symlink(2).
        if target.is_empty() || target.contains(&0) {
            return Err(Errno::IO);
        }
        Ok(target)
    }

    fn new_entry(
        &self,
        new: &New<'_, impl Target>,
        request: Request<'_>,
    ) -> Result<EntryOut, Errno> {
        let reply = self.call_new(new, request)?;
        reply::entry(reply.head.body()).map_err(malformed)
    }

    /// A request that makes something, with the extensions that were agreed on.
    pub(super) fn call_new(
        &self,
        new: &New<'_, impl Target>,
        request: Request<'_>,
    ) -> Result<Reply, Errno> {
        let extensions = self.negotiated().extensions(new.parent_group);
        let keeps = [Some(new.dir.keep()), None];
        self.call_with(new.dir.nodeid(), keeps, request, extensions)
    }

    pub(crate) fn symlink(
        &self,
        new: &New<'_, impl Target>,
        target: LinkTarget<'_>,
    ) -> Result<EntryOut, Errno> {
        let name = new.name;
        self.new_entry(new, Request::Symlink { name, target })
    }

    pub(crate) fn mknod(&self, new: &New<'_, impl Target>, rdev: u32) -> Result<EntryOut, Errno> {
        let request = Request::Mknod {
            name: new.name,
            mode: new.mode,
            rdev,
            umask: new.umask,
        };
        self.new_entry(new, request)
    }

    pub(crate) fn mkdir(&self, new: &New<'_, impl Target>) -> Result<EntryOut, Errno> {
        let request = Request::Mkdir {
            name: new.name,
            mode: new.mode,
            umask: new.umask,
        };
        self.new_entry(new, request)
    }

    pub(crate) fn create(
        &self,
        new: &New<'_, impl Target>,
        flags: u32,
    ) -> Result<(EntryOut, Opened), Errno> {
        let request = Request::Create {
            name: new.name,
            flags,
            mode: new.mode,
            umask: new.umask,
            open_flags: 0,
        };
        let reply = self.call_new(new, request)?;
        let (entry, open) = reply::create(reply.head.body()).map_err(malformed)?;
        Ok((entry, Opened::new(&open, flags, false)))
    }

    pub(crate) fn unlink(&self, dir: &impl Target, name: Name<'_>) -> Result<(), Errno> {
        self.done(dir, Request::Unlink { name })
    }

    pub(crate) fn rmdir(&self, dir: &impl Target, name: Name<'_>) -> Result<(), Errno> {
        self.done(dir, Request::Rmdir { name })
    }

    /// RENAME, or RENAME2 when there are flags.
    pub(crate) fn rename(
        &self,
        from: (&impl Target, Name<'_>),
        to: (&impl Target, Name<'_>),
        flags: u32,
    ) -> Result<(), Errno> {
        let (new_dir, name, new_name) = (to.0.nodeid(), from.1, to.1);
        let request = if flags == 0 {
            Request::Rename {
                new_dir,
                name,
                new_name,
            }
        } else {
            Request::Rename2 {
                new_dir,
                flags,
                name,
                new_name,
            }
        };
        let result = self.call_on_two(from.0, Some(to.0.keep()), request);
        match result {
            // As rename(2) says of a file system that does not know the flags.
            Err(Errno::NOSYS) if flags != 0 => Err(Errno::INVAL),
            Err(errno) => Err(errno),
            Ok(reply) => reply::empty(reply.head.body()).map_err(malformed),
        }
    }

    pub(crate) fn link(
        &self,
        original: &impl Target,
        dir: &impl Target,
        new_name: Name<'_>,
    ) -> Result<EntryOut, Errno> {
        let request = Request::Link {
            old_node: original.nodeid(),
            new_name,
        };
        match self.call_on_two(dir, Some(original.keep()), request) {
            // As link(2) says of a file system without hard links.
            Err(Errno::NOSYS) => Err(Errno::PERM),
            Err(errno) => Err(errno),
            Ok(reply) => reply::entry(reply.head.body()).map_err(malformed),
        }
    }

    pub(crate) fn statfs(&self, on: &impl Target) -> Result<Kstatfs, Errno> {
        let reply = self.call(on, Request::Statfs)?;
        let statfs = reply::statfs(reply.head.body()).map_err(malformed)?;
        Ok(statfs.st)
    }
}
