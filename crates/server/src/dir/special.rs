//! ACCESS, POLL, IOCTL.

use super::{Directory, Node};
use crate::access::{permit, permit_read_only};
use crate::fs::{ALWAYS_READY, Call, Errno, Reply, Result};
use fusewire_wire::abi::{IoctlIn, PollIn};

impl Directory {
    /// By the mode of the file alone: what the host would say is about this process.
    pub(super) fn access(&self, call: &Call<'_>, node: &Node, mask: u32) -> Result<Reply> {
        let st = super::statx(node)?;
        let mode = st.stx_mode.into();
        permit(call.caller, mask, mode, (st.stx_uid, st.stx_gid))?;
        if self.options.read_only {
            permit_read_only(mask, mode)?;
        }
        Ok(Reply::Done)
    }

    pub(super) fn poll(&self, call: &Call<'_>, arg: &PollIn) -> Result<Reply> {
        self.check_open(call.node, arg.fh)?;
        Ok(Reply::Ready(arg.events & ALWAYS_READY))
    }

    /// None is handed on to the host: what one does is known by its number alone.
    pub(super) fn ioctl(&self, call: &Call<'_>, arg: &IoctlIn) -> Result<Reply> {
        self.check_open(call.node, arg.fh)?;
        Err(Errno::NOTTY)
    }

    /// EBADF when nothing is open as `fh`; ESTALE for an unknown node where nothing is ever opened.
    pub(super) fn check_open(&self, node: u64, fh: u64) -> Result<()> {
        if self.options.stateless {
            self.nodes.get(node).map(drop)
        } else {
            match self.files.get(fh) {
                Ok(_) => Ok(()),
                Err(_) => self.dirs.get(fh).map(drop),
            }
        }
    }
}
