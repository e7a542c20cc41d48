//! LOOKUP and everything that makes, removes or moves a name; READLINK.

use super::attributes::decode_dev;
use super::creds::creator;
use super::{Directory, Node};
use crate::fs::{Call, Errno, Reply, Result};
use fusewire_wire::abi::{EntryOut, FileKind};
use fusewire_wire::{Name, Target};
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::fs::{AtFlags, FileType, Mode, RenameFlags};
use rustix::path::DecInt;

impl Directory {
    pub(super) fn lookup(&self, dir: &Node, name: Name<'_>) -> Result<Reply> {
        match self.resolve(dir, name.as_bytes()) {
            Ok(fd) => self.enter(fd).map(Reply::Entry),
            Err(Errno::NOENT) => match self.options.caching.negative() {
                Some(absent) => Ok(Reply::Entry(absent)),
                None => Err(Errno::NOENT),
            },
            Err(errno) => Err(errno),
        }
    }

    pub(super) fn readlink(&self, call: &Call<'_>, node: &Node) -> Result<Reply> {
        if node.kind != FileKind::Symlink {
            return Err(Errno::INVAL);
        }
        let target = rustix::fs::readlinkat(node, "", Vec::new())?;
        Ok(Reply::Payload(call.io.put(target.as_bytes())))
    }

    pub(super) fn symlink(
        &self,
        call: &Call<'_>,
        dir: &Node,
        name: Name<'_>,
        target: Target<'_>,
    ) -> Result<Reply> {
        {
            let _caller = self.as_caller(call)?;
            rustix::fs::symlinkat(target.as_bytes(), dir, name.as_bytes())?;
        }
        self.enter_new(call, dir, name, FileKind::Symlink, 0o777)
            .map(Reply::Entry)
    }

    pub(super) fn mknod(
        &self,
        call: &Call<'_>,
        dir: &Node,
        name: Name<'_>,
        mode: u32,
        rdev: u32,
    ) -> Result<Reply> {
        let kind = match FileKind::from_mode(mode) {
            // A directory has MKDIR, a link SYMLINK (mknod(2): EPERM, EINVAL).
            Some(FileKind::Directory) => return Err(Errno::PERM),
            Some(FileKind::Symlink) => return Err(Errno::INVAL),
            Some(kind) => kind,
            None if mode & fusewire_wire::abi::S_IFMT == 0 => FileKind::Regular,
            None => return Err(Errno::INVAL),
        };
        let (major, minor) = decode_dev(rdev);
        {
            let _caller = self.as_caller(call)?;
            rustix::fs::mknodat(
                dir,
                name.as_bytes(),
                FileType::from_raw_mode(kind.mode_bits()),
                Mode::from_raw_mode(mode & 0o7777),
                rustix::fs::makedev(major, minor),
            )?;
        }
        self.enter_new(call, dir, name, kind, mode)
            .map(Reply::Entry)
    }

    pub(super) fn mkdir(
        &self,
        call: &Call<'_>,
        dir: &Node,
        name: Name<'_>,
        mode: u32,
    ) -> Result<Reply> {
        {
            let _caller = self.as_caller(call)?;
            let mode = Mode::from_raw_mode(mode & 0o7777);
            rustix::fs::mkdirat(dir, name.as_bytes(), mode)?;
        }
        self.enter_new(call, dir, name, FileKind::Directory, mode)
            .map(Reply::Entry)
    }

    /// Counts a lookup of a name just made with `mode`.
    fn enter_new(
        &self,
        call: &Call<'_>,
        dir: &Node,
        name: Name<'_>,
        kind: FileKind,
        mode: u32,
    ) -> Result<EntryOut> {
        let fd = self.resolve(dir, name.as_bytes())?;
        let st = super::statx(&fd)?;
        // Somebody on the host may have put another file in the place of the new one, whose
        // permissions are not ours to change.
        let ours = FileKind::from_mode(st.stx_mode.into()) == Some(kind)
            && st.stx_uid == creator(call.caller)
            && (kind == FileKind::Directory || st.stx_nlink == 1);
        if ours {
            self.undo_umask(dir, &fd, mode)?;
            let how = match kind {
                FileKind::Directory => AtFlags::REMOVEDIR,
                _ => AtFlags::empty(),
            };
            self.label_or_remove(call, fd.as_fd(), dir, name, how)?;
        }
        self.enter(fd)
    }

    /// Labels what was just made under `name`; what cannot be labelled must not be there.
    pub(super) fn label_or_remove(
        &self,
        call: &Call<'_>,
        fd: BorrowedFd<'_>,
        dir: &Node,
        name: Name<'_>,
        how: AtFlags,
    ) -> Result<()> {
        self.label(call, fd).inspect_err(|_| {
            // The label's own error is the one to tell.
            let _ = rustix::fs::unlinkat(dir, name.as_bytes(), how);
        })
    }

    /// Gives a new file the permissions that were asked for.
    ///
    /// The client has applied its caller's umask; the umask of this process, which is one for all
    /// its threads and not ours to change, must not count on top. Where the parent has a default
    /// access control list, that list and not the umask took the bits, and it stays so.
    pub(super) fn undo_umask(&self, dir: &Node, fd: &OwnedFd, mode: u32) -> Result<()> {
        let have = u32::from(super::statx(fd)?.stx_mode);
        let missing = mode & 0o777 & !have;
        if missing == 0 || self.has_default_acl(dir) {
            return Ok(());
        }
        self.chmod(fd.as_fd(), have | missing)
    }

    pub(super) fn unlink(&self, dir: &Node, name: Name<'_>, flags: AtFlags) -> Result<Reply> {
        rustix::fs::unlinkat(dir, name.as_bytes(), flags)?;
        Ok(Reply::Done)
    }

    pub(super) fn rename(
        &self,
        dir: &Node,
        name: Name<'_>,
        new_dir: u64,
        new_name: Name<'_>,
        flags: u32,
    ) -> Result<Reply> {
        let flags = RenameFlags::from_bits_retain(flags);
        let known = RenameFlags::NOREPLACE | RenameFlags::EXCHANGE | RenameFlags::WHITEOUT;
        if !(flags - known).is_empty() {
            return Err(Errno::INVAL);
        }
        let new_dir = self.nodes.get(new_dir)?;
        let (name, new_name) = (name.as_bytes(), new_name.as_bytes());
        rustix::fs::renameat_with(dir, name, &*new_dir, new_name, flags)?;
        Ok(Reply::Done)
    }

    pub(super) fn link(&self, dir: &Node, new_name: Name<'_>, old: u64) -> Result<Reply> {
        let old = self.nodes.get(old)?;
        // The magic link leads to the held file itself, even if that is a symbolic link.
        rustix::fs::linkat(
            &self.proc_fd,
            DecInt::from_fd(&*old),
            dir,
            new_name.as_bytes(),
            AtFlags::SYMLINK_FOLLOW,
        )?;
        let fd = self.reopen(&*old, rustix::fs::OFlags::PATH)?;
        self.enter(fd).map(Reply::Entry)
    }
}
