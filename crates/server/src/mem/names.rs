//! LOOKUP and everything that makes, removes or moves a name; READLINK.

use super::blocks::Blocks;
use super::inode::{Body, Dir};
use super::state::State;
use super::xattr::label;
use super::{Memory, NAME_MAX};
use crate::fs::{Call, Errno, Reply, Result};
use fusewire_wire::abi::{FileKind, S_IFMT};
use fusewire_wire::{Name, Target};
use rustix::fs::RenameFlags;

/// Most hard links of a file, as in ext4.
const LINK_MAX: u32 = 65_000;

impl State {
    /// What `name` in `dir` stands for. A directory that was removed has nothing in it.
    fn find(&self, dir: u64, name: Name<'_>) -> Result<Option<u64>> {
        self.check_known(dir)?;
        let inode = self.inode(dir);
        let found = inode.dir()?;
        if inode.nlink == 0 {
            return Ok(None);
        }
        if name.as_bytes().len() > NAME_MAX {
            return Err(Errno::NAMETOOLONG);
        }
        Ok(found.get(name.as_bytes()))
    }

    /// As [`State::find`], ENOENT when there is nothing.
    fn existing(&self, dir: u64, name: Name<'_>) -> Result<u64> {
        self.find(dir, name)?.ok_or(Errno::NOENT)
    }

    /// EEXIST when there is something; ENOENT when `dir` has been removed.
    fn absent(&self, dir: u64, name: Name<'_>) -> Result<()> {
        match self.find(dir, name)? {
            Some(_) => Err(Errno::EXIST),
            None if self.inode(dir).nlink == 0 => Err(Errno::NOENT),
            None => Ok(()),
        }
    }

    fn is_dir(&self, ino: u64) -> bool {
        matches!(self.inode(ino).body, Body::Dir(_))
    }

    fn not_empty(&self, ino: u64) -> bool {
        matches!(&self.inode(ino).body, Body::Dir(dir) if !dir.is_empty())
    }
}

impl Memory {
    pub(super) fn lookup(&self, dir: u64, name: Name<'_>) -> Result<Reply> {
        let mut state = self.state.write();
        match state.find(dir, name)? {
            Some(ino) => Ok(Reply::Entry(self.enter(&mut state, ino))),
            None => match self.options.caching.negative() {
                Some(absent) => Ok(Reply::Entry(absent)),
                None => Err(Errno::NOENT),
            },
        }
    }

    pub(super) fn readlink(&self, call: &Call<'_>) -> Result<Reply> {
        let state = self.state.read();
        state.check_known(call.node)?;
        match &state.inode(call.node).body {
            Body::Symlink(target) => Ok(Reply::Payload(call.io.put(target))),
            _ => Err(Errno::INVAL),
        }
    }

    /// A new inode in `dir`, which has been checked, still without its name.
    pub(super) fn new_inode(
        &self,
        state: &mut State,
        call: &Call<'_>,
        dir: u64,
        mode: u32,
        body: Body,
    ) -> Result<u64> {
        state.check_room()?;
        let label = label(call)?;
        let ino = state.add(mode, body, self.now());
        let (dir_mode, dir_gid) = (state.inode(dir).mode, state.inode(dir).gid);
        let inode = state.inode_mut(ino);
        inode.uid = call.caller.uid;
        inode.gid = call.caller.gid;
        if let Some((name, value)) = label {
            inode.xattrs.insert(name.into(), value.into());
        }
        if dir_mode & 0o2000 != 0 {
            inode.gid = dir_gid;
            if inode.kind() == FileKind::Directory {
                inode.mode |= 0o2000;
            }
        }
        Ok(ino)
    }

    /// Puts `ino` under `name`, which is free.
    fn put(&self, state: &mut State, dir: u64, name: Name<'_>, ino: u64) -> Result<()> {
        let now = self.now();
        state.inode_mut(ino).nlink += 1;
        if let Body::Dir(moved) = &mut state.inode_mut(ino).body {
            moved.parent = dir;
            // Its own ".", and its ".." in the parent.
            state.inode_mut(ino).nlink = 2;
            state.inode_mut(dir).nlink += 1;
        }
        let parent = state.inode_mut(dir);
        parent.dir_mut()?.insert(name.as_bytes(), ino);
        parent.touch(now);
        Ok(())
    }

    /// Takes `name` away, and a link from what was under it.
    fn take(&self, state: &mut State, dir: u64, name: Name<'_>, ino: u64) -> Result<()> {
        let now = self.now();
        let parent = state.inode_mut(dir);
        parent.dir_mut()?.remove(name.as_bytes());
        parent.touch(now);
        if state.is_dir(ino) {
            state.inode_mut(dir).nlink -= 1;
            state.inode_mut(ino).nlink = 0;
        } else {
            state.inode_mut(ino).nlink -= 1;
        }
        state.inode_mut(ino).ctime = now;
        Ok(())
    }

    pub(super) fn make(
        &self,
        state: &mut State,
        call: &Call<'_>,
        name: Name<'_>,
        mode: u32,
        body: Body,
    ) -> Result<u64> {
        state.absent(call.node, name)?;
        let ino = self.new_inode(state, call, call.node, mode, body)?;
        self.put(state, call.node, name, ino)?;
        Ok(ino)
    }

    pub(super) fn symlink(
        &self,
        call: &Call<'_>,
        name: Name<'_>,
        target: Target<'_>,
    ) -> Result<Reply> {
        let mut state = self.state.write();
        let body = Body::Symlink(target.as_bytes().into());
        let ino = self.make(&mut state, call, name, 0o120_777, body)?;
        Ok(Reply::Entry(self.enter(&mut state, ino)))
    }

    pub(super) fn mknod(
        &self,
        call: &Call<'_>,
        name: Name<'_>,
        mode: u32,
        rdev: u32,
    ) -> Result<Reply> {
        let regular = || Body::File {
            size: 0,
            blocks: Blocks::default(),
        };
        let (kind, body) = match FileKind::from_mode(mode) {
            // A directory has MKDIR, a link SYMLINK (mknod(2): EPERM, EINVAL).
            Some(FileKind::Directory) => return Err(Errno::PERM),
            Some(FileKind::Symlink) => return Err(Errno::INVAL),
            Some(FileKind::Regular) => (FileKind::Regular, regular()),
            None if mode & S_IFMT == 0 => (FileKind::Regular, regular()),
            None => return Err(Errno::INVAL),
            Some(kind) => (kind, Body::Special),
        };
        let mut state = self.state.write();
        let mode = kind.mode_bits() | mode & 0o7777;
        let ino = self.make(&mut state, call, name, mode, body)?;
        if matches!(kind, FileKind::CharDevice | FileKind::BlockDevice) {
            state.inode_mut(ino).rdev = rdev;
        }
        Ok(Reply::Entry(self.enter(&mut state, ino)))
    }

    pub(super) fn mkdir(&self, call: &Call<'_>, name: Name<'_>, mode: u32) -> Result<Reply> {
        let mut state = self.state.write();
        let body = Body::Dir(Dir::new(call.node));
        let mode = FileKind::Directory.mode_bits() | mode & 0o1777;
        let ino = self.make(&mut state, call, name, mode, body)?;
        Ok(Reply::Entry(self.enter(&mut state, ino)))
    }

    pub(super) fn unlink(&self, dir: u64, name: Name<'_>) -> Result<Reply> {
        let mut state = self.state.write();
        let ino = state.existing(dir, name)?;
        if state.is_dir(ino) {
            return Err(Errno::ISDIR);
        }
        self.take(&mut state, dir, name, ino)?;
        state.reap(ino);
        Ok(Reply::Done)
    }

    pub(super) fn rmdir(&self, dir: u64, name: Name<'_>) -> Result<Reply> {
        let mut state = self.state.write();
        let ino = state.existing(dir, name)?;
        state.inode(ino).dir()?;
        if state.not_empty(ino) {
            return Err(Errno::NOTEMPTY);
        }
        self.take(&mut state, dir, name, ino)?;
        state.reap(ino);
        Ok(Reply::Done)
    }

    pub(super) fn link(&self, dir: u64, new_name: Name<'_>, old: u64) -> Result<Reply> {
        let mut state = self.state.write();
        state.check_known(old)?;
        state.absent(dir, new_name)?;
        let inode = state.inode(old);
        if matches!(inode.body, Body::Dir(_)) {
            return Err(Errno::PERM);
        }
        if inode.nlink == 0 && !inode.linkable {
            return Err(Errno::NOENT);
        }
        if inode.nlink >= LINK_MAX {
            return Err(Errno::MLINK);
        }
        self.put(&mut state, dir, new_name, old)?;
        let now = self.now();
        let inode = state.inode_mut(old);
        inode.linkable = false;
        inode.ctime = now;
        Ok(Reply::Entry(self.enter(&mut state, old)))
    }

    /// The checks, and their order, are those of Linux (`renameat2`, `vfs_rename`).
    pub(super) fn rename(
        &self,
        call: &Call<'_>,
        (old_dir, old_name): (u64, Name<'_>),
        (new_dir, new_name): (u64, Name<'_>),
        flags: u32,
    ) -> Result<Reply> {
        let flags = RenameFlags::from_bits_retain(flags);
        let others = RenameFlags::NOREPLACE | RenameFlags::WHITEOUT;
        let exchange = flags.contains(RenameFlags::EXCHANGE);
        if !(flags - others - RenameFlags::EXCHANGE).is_empty()
            || exchange && flags.intersects(others)
        {
            return Err(Errno::INVAL);
        }
        let mut guard = self.state.write();
        let state = &mut *guard;
        state.check_known(new_dir)?;
        state.check_known(old_dir)?;
        state.inode(new_dir).dir()?;
        let old = state.existing(old_dir, old_name)?;
        let new = state.find(new_dir, new_name)?;
        match new {
            Some(_) if flags.contains(RenameFlags::NOREPLACE) => return Err(Errno::EXIST),
            None if exchange || state.inode(new_dir).nlink == 0 => return Err(Errno::NOENT),
            _ => {}
        }
        if state.is_dir(old) && state.is_ancestor(old, new_dir) {
            return Err(Errno::INVAL);
        }
        if let Some(new) = new
            && state.is_dir(new)
            && state.is_ancestor(new, old_dir)
        {
            return Err(if exchange {
                Errno::INVAL
            } else {
                Errno::NOTEMPTY
            });
        }
        if new == Some(old) {
            return Ok(Reply::Done);
        }
        match new {
            Some(new) if !exchange => match (state.is_dir(old), state.is_dir(new)) {
                (true, false) => return Err(Errno::NOTDIR),
                (false, true) => return Err(Errno::ISDIR),
                _ if state.not_empty(new) => return Err(Errno::NOTEMPTY),
                _ => {}
            },
            _ => {}
        }
        let whiteout = if flags.contains(RenameFlags::WHITEOUT) {
            let mode = FileKind::CharDevice.mode_bits();
            Some(self.new_inode(state, call, old_dir, mode, Body::Special)?)
        } else {
            None
        };
        // What is taken away keeps a link meanwhile, so that it is not freed.
        self.take(state, old_dir, old_name, old)?;
        if let Some(whiteout) = whiteout {
            self.put(state, old_dir, old_name, whiteout)?;
        }
        if let Some(new) = new {
            self.take(state, new_dir, new_name, new)?;
        }
        self.put(state, new_dir, new_name, old)?;
        match new {
            Some(new) if exchange => self.put(state, old_dir, old_name, new)?,
            Some(new) => state.reap(new),
            None => {}
        }
        Ok(Reply::Done)
    }
}
