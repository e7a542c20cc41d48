//! Open directories.

use super::Memory;
use super::inode::{DOT, DOT_DOT};
use super::state::{Access, State};
use crate::fs::{Call, Errno, Reply, Result};
use fusewire_wire::abi::{Attr, EntryOut, OpenOut, ReadIn};
use fusewire_wire::dirent::{DirentPlusWriter, DirentWriter, Entry};

impl State {
    fn entry<'a>(&self, off: u64, name: &'a [u8], ino: u64) -> Entry<'a> {
        Entry {
            ino,
            off,
            typ: self
                .inodes
                .get(&ino)
                .map_or(0, |inode| inode.kind().dirent_type()),
            name,
        }
    }

    /// Hands the entries after `offset` to `push`, until it has no room (`false`). ENOENT when the
    /// directory was removed; EINVAL when not even one has room.
    fn list(
        &self,
        node: u64,
        fh: u64,
        offset: u64,
        mut push: impl FnMut(&Entry<'_>) -> bool,
    ) -> Result<()> {
        let ino = match self.handle(node, fh)? {
            handle if handle.access == Access::Dir => handle.ino,
            _ => return Err(Errno::BADF),
        };
        let inode = self.inode(ino);
        let dir = inode.dir()?;
        if inode.nlink == 0 {
            return Err(Errno::NOENT);
        }
        let dots = [(DOT, &b"."[..], ino), (DOT_DOT, &b".."[..], dir.parent)];
        let dots = dots.into_iter().filter(|(cookie, ..)| *cookie > offset);
        let mut empty = true;
        for (cookie, name, ino) in dots.chain(dir.after(offset)) {
            if !push(&self.entry(cookie, name, ino)) {
                return if empty { Err(Errno::INVAL) } else { Ok(()) };
            }
            empty = false;
        }
        Ok(())
    }
}

impl Memory {
    pub(super) fn opendir(&self, node: u64) -> Result<Reply> {
        let mut state = self.state.write();
        state.check_known(node)?;
        state.inode(node).dir()?;
        Ok(Reply::Open(OpenOut {
            fh: state.open(node, Access::Dir),
            open_flags: self.options.caching.dir_flags().bits(),
            backing_id: 0,
        }))
    }

    pub(super) fn readdir(&self, call: &Call<'_>, arg: &ReadIn) -> Result<Reply> {
        let mut buffer = vec![0; call.io.out_len()];
        let mut writer = DirentWriter::new(&mut buffer);
        self.state
            .read()
            .list(call.node, arg.fh, arg.offset, |entry| writer.push(entry))?;
        let len = writer.len();
        Ok(Reply::Payload(call.io.put(&buffer[..len])))
    }

    pub(super) fn readdirplus(&self, call: &Call<'_>, arg: &ReadIn) -> Result<Reply> {
        let mut buffer = vec![0; call.io.out_len()];
        let mut writer = DirentPlusWriter::new(&mut buffer);
        let mut looked_up = Vec::new();
        let mut state = self.state.write();
        state.list(call.node, arg.fh, arg.offset, |entry| {
            let attr = state
                .inodes
                .get(&entry.ino)
                .map_or(Attr::default(), |inode| inode.attr(entry.ino));
            let dot = matches!(entry.name, b"." | b"..");
            let out = if dot {
                EntryOut {
                    attr,
                    ..EntryOut::default()
                }
            } else {
                self.options.caching.entry(entry.ino, attr)
            };
            let fits = writer.push(&out, entry);
            if fits && !dot {
                looked_up.push(entry.ino);
            }
            fits
        })?;
        for ino in looked_up {
            state.remember(ino);
        }
        let len = writer.len();
        Ok(Reply::Payload(call.io.put(&buffer[..len])))
    }
}
