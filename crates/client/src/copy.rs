//! What goes beyond one operation on one path: copies, whole texts, real paths.

use crate::client::Client;
use crate::error::Result;
use crate::file::File;
use crate::meta::Metadata;
use crate::open::OpenOptions;
use fusewire_sync::Arc;
use rustix::io::Errno;
use std::ffi::OsString;
use std::fs::Permissions;
use std::ops::Range;
use std::os::unix::fs::PermissionsExt;
use std::path::{Component, Path, PathBuf};

/// Most bytes of one request to copy: the daemon does nothing else for the caller meanwhile.
const RANGE_BYTES: u64 = 64 << 20;

/// Bytes that go through this side at once, where the daemon cannot copy.
const BUFFER_BYTES: usize = 1 << 20;

/// Holes that are looked for in one file. Behind them all is taken for data: a daemon that makes
/// holes up keeps nobody busy for long.
const MAX_HOLES: u32 = 65_536;

/// Set-user-id and set-group-id.
const SET_ID: u32 = 0o6000;

/// Most symbolic links on one way, as on Linux.
const MAX_LINKS: u32 = 40;

impl Client {
    /// Copies the contents and the permission bits of the file at `from` to the file at `to`, which
    /// is made if it is missing and replaced in its contents if it is not; returns its length in
    /// bytes. Within the daemon, where that can, and with the holes that it tells of. A new file is
    /// its owner's alone until it is complete, and no incomplete one has set-id bits.
    ///
    /// # Errors
    /// EINVAL when both are one file, else as [`OpenOptions::open`], or what the daemon says.
    pub fn copy(&self, from: impl AsRef<Path>, to: impl AsRef<Path>) -> Result<u64> {
        let source = self.open(from)?;
        let mode = source.metadata()?.mode() & 0o7777;
        // Not emptied yet: it may be the source.
        let mut options = OpenOptions::new();
        options.write(true).create(true).mode(mode & 0o700 | 0o200);
        let target = options.open(self, to)?;
        let before = target.metadata()?.mode() & 0o7777;
        if before & SET_ID != 0 && !source.is_same(&target) {
            target.set_permissions(Permissions::from_mode(before & !SET_ID))?;
        }
        let copied = source.copy_to(&target)?;
        // What was there has the rights already, often.
        if target.metadata()?.mode() & 0o7777 != mode {
            target.set_permissions(Permissions::from_mode(mode))?;
        }
        target.close()?;
        Ok(copied)
    }

    /// The whole contents of a file that is text.
    ///
    /// # Errors
    /// EILSEQ when it is not UTF-8, else as [`Client::read`].
    pub fn read_to_string(&self, path: impl AsRef<Path>) -> Result<String> {
        let path = path.as_ref();
        String::from_utf8(self.read(path)?)
            .map_err(|error| self.fail("read", path)(Errno::ILSEQ).with_detail(error))
    }

    /// The path from `/` on of what `path` leads to, without symbolic links, `.` and `..`.
    ///
    /// # Errors
    /// As [`Client::metadata`].
    pub fn canonicalize(&self, path: impl AsRef<Path>) -> Result<PathBuf> {
        let path = path.as_ref();
        let about = |errno| self.fail("canonicalize", path)(errno);
        // Says what is wrong with the path as a whole.
        self.metadata(path)?;
        let mut real = PathBuf::from("/");
        let mut pending = components(path);
        let mut links = 0;
        while let Some(name) = pending.pop() {
            if name == ".." {
                real.pop();
                continue;
            }
            real.push(name);
            let found = self.symlink_metadata(&real)?;
            if found.is_symlink() {
                links += 1;
                if links > MAX_LINKS {
                    return Err(about(Errno::LOOP));
                }
                let target = self.read_link(&real)?;
                if target.is_absolute() {
                    real = PathBuf::from("/");
                } else {
                    real.pop();
                }
                pending.append(&mut components(&target));
            } else if !found.is_dir() && !pending.is_empty() {
                return Err(about(Errno::NOTDIR));
            }
        }
        Ok(real)
    }
}

impl File {
    /// Replaces the contents of `target` by those of this file, and returns their length in bytes.
    /// Within the daemon, where that can, and with the holes that it tells of. Rights and times
    /// are not copied.
    ///
    /// # Errors
    /// EINVAL when both are one file, EBADF when this one is not open for reading or `target` not
    /// for writing, or what the daemon says.
    pub fn copy_to(&self, target: &File) -> Result<u64> {
        if self.is_same(target) {
            return Err(target.fail("copy")(Errno::INVAL).with_detail("both are one file"));
        }
        let meta = self.metadata()?;
        target.set_len(0)?;
        copy_contents(self, &meta, target)
    }

    fn is_same(&self, other: &File) -> bool {
        Arc::ptr_eq(self.handle().node(), other.handle().node())
    }
}

/// The names of a path, last first.
fn components(path: &Path) -> Vec<OsString> {
    let names = path
        .components()
        .filter_map(|component| match component {
            Component::Normal(_) | Component::ParentDir => Some(component.as_os_str().to_owned()),
            Component::RootDir | Component::CurDir | Component::Prefix(_) => None,
        })
        .collect::<Vec<_>>();
    names.into_iter().rev().collect()
}

/// Copies everything; returns how long the target is then.
fn copy_contents(source: &File, meta: &Metadata, target: &File) -> Result<u64> {
    let mut copier = Copier {
        source,
        target,
        within: true,
        buffer: Vec::new(),
    };
    let size = meta.len();
    if size.div_ceil(512) <= meta.blocks() {
        return copier.copy(0..u64::MAX);
    }
    let mut end = 0;
    for _ in 0..MAX_HOLES {
        let Some(start) = source.seek_data(end)?.filter(|start| *start < size) else {
            target.set_len(size)?;
            return Ok(size);
        };
        // A daemon that leads backwards does not know its holes.
        let start = start.max(end);
        let hole = source.seek_hole(start)?.filter(|hole| *hole > start);
        let data = start..hole.unwrap_or(size).min(size);
        end = copier.copy(data.clone())?;
        if end < data.end {
            // It became shorter meanwhile.
            return Ok(end);
        }
    }
    copier.copy(end..u64::MAX)
}

struct Copier<'a> {
    source: &'a File,
    target: &'a File,
    /// The daemon may still be able to copy by itself.
    within: bool,
    buffer: Vec<u8>,
}

impl Copier<'_> {
    /// Copies a range, or as much of it as there is; returns where that ends.
    fn copy(&mut self, range: Range<u64>) -> Result<u64> {
        let mut at = range.start;
        while at < range.end {
            let mut copied = self.within(at, RANGE_BYTES.min(range.end - at))?;
            if copied == 0 {
                // The end, unless the daemon copies nothing of a file that does not know its size.
                copied = self.through(at, range.end - at)?;
            }
            if copied == 0 {
                break;
            }
            at += copied;
        }
        Ok(at)
    }

    fn within(&mut self, at: u64, len: u64) -> Result<u64> {
        if !self.within {
            return Ok(0);
        }
        match self.source.copy_range(at, self.target, at, len) {
            Ok(0) => {
                self.within = false;
                Ok(0)
            }
            Err(error) if cannot(error.errno()) => {
                self.within = false;
                Ok(0)
            }
            result => result,
        }
    }

    fn through(&mut self, at: u64, len: u64) -> Result<u64> {
        self.buffer.resize(BUFFER_BYTES, 0);
        let room = BUFFER_BYTES.min(usize::try_from(len).unwrap_or(usize::MAX));
        let got = self.source.read_at(&mut self.buffer[..room], at)?;
        let mut written = 0;
        while written < got {
            match self
                .target
                .write_at(&self.buffer[written..got], at + written as u64)?
            {
                0 => return Err(self.target.fail("write")(Errno::IO)),
                n => written += n,
            }
        }
        Ok(got as u64)
    }
}

/// Whether an answer to a request to copy means that bytes must go through this side.
fn cannot(errno: i32) -> bool {
    [Errno::OPNOTSUPP, Errno::NOSYS, Errno::XDEV, Errno::INVAL]
        .iter()
        .any(|cannot| cannot.raw_os_error() == errno)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn components_come_last_first() {
        let names = |path: &str| components(Path::new(path));
        assert_eq!(names("/a/./b/../c"), ["c", "..", "b", "a"]);
        assert!(names("/").is_empty());
        assert!(names(".").is_empty());
    }

    #[test]
    fn only_what_may_work_otherwise_is_tried_otherwise() {
        assert!(cannot(Errno::OPNOTSUPP.raw_os_error()));
        assert!(!cannot(Errno::NOSPC.raw_os_error()));
        assert!(!cannot(Errno::IO.raw_os_error()));
    }
}
