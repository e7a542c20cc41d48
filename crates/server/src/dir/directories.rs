//! Open directories.

use super::stream::{DirStream, RawEntry};
use super::{Directory, Node};
use crate::fs::{Call, Errno, Reply, Result};
use fusewire_sync::Arc;
use fusewire_wire::abi::{Attr, DirentPlus, EntryOut, FileKind, OpenOut, ROOT_ID, ReadIn};
use fusewire_wire::dirent::{DirentPlusWriter, DirentWriter, Entry};
use rustix::fs::OFlags;

impl Directory {
    fn open_stream(&self, node: &Node) -> Result<DirStream> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY;
        let fd = self.reopen_as(node, node.kind, FileKind::Directory, flags)?;
        Ok(DirStream::new(fd))
    }

    /// What is open as `fh` on `node`; where nothing is ever opened, the node itself, opened for
    /// this request.
    pub(super) fn stream(&self, node: u64, fh: u64) -> Result<Arc<DirStream>> {
        if !self.options.stateless {
            return self.dirs.get(fh);
        }
        self.open_stream(&*self.nodes.get(node)?).map(Arc::new)
    }

    pub(super) fn opendir(&self, node: &Node) -> Result<Reply> {
        Ok(Reply::Open(OpenOut {
            fh: self.dirs.add(self.open_stream(node)?),
            open_flags: self.options.caching.dir_flags().bits(),
            backing_id: 0,
        }))
    }

    pub(super) fn readdir(&self, call: &Call<'_>, node: &Node, arg: &ReadIn) -> Result<Reply> {
        let stream = self.stream(node.id, arg.fh)?;
        let mut buffer = vec![0; call.io.out_len()];
        let mut writer = DirentWriter::new(&mut buffer);
        fill(&stream, arg.offset, |raw| {
            writer.push(&self.entry_of(node, raw))
        })?;
        let len = writer.len();
        Ok(Reply::Payload(call.io.put(&buffer[..len])))
    }

    /// Entries with their nodes. An entry that vanished meanwhile, or that the table of nodes has
    /// no room for, comes without one.
    pub(super) fn readdirplus(&self, call: &Call<'_>, node: &Node, arg: &ReadIn) -> Result<Reply> {
        let stream = self.stream(node.id, arg.fh)?;
        let mut buffer = vec![0; call.io.out_len()];
        let room = buffer.len();
        let mut writer = DirentPlusWriter::new(&mut buffer);
        fill(&stream, arg.offset, |raw| {
            let record = (size_of::<DirentPlus>() + raw.name.len()).next_multiple_of(8);
            if writer.len() + record > room {
                return false;
            }
            let entry = self.entry_of(node, raw);
            let out = match entry.name {
                b"." | b".." => unnamed(&entry),
                name => match self.resolve(node, name).and_then(|fd| self.enter(fd)) {
                    Ok(out) => out,
                    Err(_) => unnamed(&entry),
                },
            };
            // A name that cannot be written at all is not told, and its lookup taken back.
            if !writer.push(&out, &entry) && out.nodeid != 0 {
                self.nodes.forget(out.nodeid, 1);
            }
            true
        })?;
        let len = writer.len();
        Ok(Reply::Payload(call.io.put(&buffer[..len])))
    }

    fn entry_of<'a>(&self, node: &Node, raw: &'a RawEntry) -> Entry<'a> {
        // What lies above the root is nobody's business.
        let above = node.id == ROOT_ID && *raw.name == *b"..";
        Entry {
            ino: if above {
                self.nodes.root().ino()
            } else {
                raw.ino
            },
            off: raw.next,
            typ: raw.kind.map_or(0, FileKind::dirent_type),
            name: &raw.name,
        }
    }
}

/// An entry that was not looked up; what is known of it goes along.
fn unnamed(entry: &Entry<'_>) -> EntryOut {
    EntryOut {
        attr: Attr {
            ino: entry.ino,
            mode: entry.typ << 12,
            ..Attr::default()
        },
        ..EntryOut::default()
    }
}

/// Hands the entries after `offset` to `push` until it has no room (`false`) or there are no more.
/// EINVAL when not even one has room. Any other error is of the first entry: one behind it (the
/// directory may have been removed) is for the next request to find, as the entries before it, and
/// the lookups that come with them, have to be told.
fn fill(
    stream: &DirStream,
    mut offset: u64,
    mut push: impl FnMut(&RawEntry) -> bool,
) -> Result<()> {
    let start = offset;
    loop {
        let mut batch = match stream.take(offset) {
            Err(_) if offset != start => return Ok(()),
            taken => taken?,
        };
        if batch.is_empty() {
            return Ok(());
        }
        while let Some(raw) = batch.front() {
            if !push(raw) {
                let none = offset == start;
                stream.put_back(offset, batch);
                return if none { Err(Errno::INVAL) } else { Ok(()) };
            }
            offset = raw.next;
            batch.pop_front();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// It takes two looks to see the end of a directory, and it may be gone at the second.
    #[test]
    fn what_was_read_of_a_directory_that_goes_meanwhile_is_told() {
        let above = tempfile::tempdir().unwrap();
        let dir = above.path().join("dir");
        std::fs::create_dir(&dir).unwrap();
        std::fs::write(dir.join("file"), "").unwrap();
        let stream = DirStream::new(std::fs::File::open(&dir).unwrap().into());
        let mut names = Vec::new();
        let told = fill(&stream, 0, |raw| {
            names.push(raw.name.clone());
            if names.len() == 3 {
                std::fs::remove_dir_all(&dir).unwrap();
            }
            true
        });
        told.unwrap();
        names.sort();
        assert_eq!(names, [&b"."[..], b"..", b"file"].map(Box::from));
        assert_eq!(fill(&stream, 0, |_| true), Err(Errno::NOENT));
    }
}
