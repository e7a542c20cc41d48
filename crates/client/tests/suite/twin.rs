//! The kernel as an actor: the same operations on a directory of the host whose root is the root
//! of every path, as it is for a client. What it says is right.

use crate::check::pattern;
use crate::ops::{Actor, How, Op, Outcome, SLOTS, Stat};
use rustix::fd::{AsFd, AsRawFd, OwnedFd};
use rustix::fs::{AtFlags, Gid, Mode, OFlags, ResolveFlags, Timespec, Timestamps, UTIME_OMIT, Uid};
use rustix::io::Errno;
use std::ffi::OsStr;
use std::fs::{File, Permissions};
use std::io::{Read, Seek, Write};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileExt, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use tempfile::TempDir;

type Result<T> = std::result::Result<T, Errno>;

/// A directory, and the files open in it.
pub struct Twin {
    files: [Option<File>; SLOTS],
    root: OwnedFd,
    directory: TempDir,
}

fn system<T>(result: std::io::Result<T>) -> Result<T> {
    result.map_err(|error| Errno::from_io_error(&error).unwrap_or(Errno::PROTO))
}

/// Where the kernel finds an open file.
fn proc_path(fd: impl AsFd) -> PathBuf {
    PathBuf::from(format!("/proc/self/fd/{}", fd.as_fd().as_raw_fd()))
}

impl Twin {
    pub fn new() -> Self {
        let directory = tempfile::tempdir().unwrap();
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        Twin {
            files: Default::default(),
            root: rustix::fs::open(directory.path(), flags, Mode::empty()).unwrap(),
            directory,
        }
    }

    /// The directory itself.
    pub fn path(&self) -> &Path {
        self.directory.path()
    }

    fn open(&self, path: &Path, flags: OFlags, mode: u32) -> Result<OwnedFd> {
        if path.as_os_str().is_empty() {
            return Err(Errno::NOENT);
        }
        let flags = flags | OFlags::CLOEXEC;
        let mode = Mode::from_raw_mode(mode);
        loop {
            match rustix::fs::openat2(&self.root, path, flags, mode, ResolveFlags::IN_ROOT) {
                // Something was renamed meanwhile somewhere on the host.
                Err(Errno::AGAIN) => {}
                result => return result,
            }
        }
    }

    fn find(&self, path: &Path) -> Result<OwnedFd> {
        self.open(path, OFlags::PATH, 0)
    }

    fn find_nofollow(&self, path: &Path) -> Result<OwnedFd> {
        self.open(path, OFlags::PATH | OFlags::NOFOLLOW, 0)
    }

    /// The directory of the last component, and that component with the slashes behind it.
    fn place<'p>(&self, path: &'p Path) -> Result<(OwnedFd, &'p OsStr)> {
        let bytes = path.as_os_str().as_bytes();
        if bytes.len() > 4095 {
            return Err(Errno::NAMETOOLONG);
        }
        let end = bytes.iter().rposition(|b| *b != b'/').map_or(0, |i| i + 1);
        let start = bytes[..end]
            .iter()
            .rposition(|b| *b == b'/')
            .map_or(0, |i| i + 1);
        let (parent, last) = bytes.split_at(start);
        let parent: &[u8] = if parent.is_empty() { b"." } else { parent };
        let flags = OFlags::PATH | OFlags::DIRECTORY;
        let dir = self.open(Path::new(OsStr::from_bytes(parent)), flags, 0)?;
        Ok((dir, OsStr::from_bytes(last)))
    }

    fn mkdir(&self, path: &Path, mode: u32) -> Result<()> {
        let (dir, name) = self.place(path)?;
        rustix::fs::mkdirat(dir, name, Mode::from_raw_mode(mode))
    }

    /// As `std::fs::create_dir_all`.
    fn mkdir_all(&self, path: &Path) -> Result<()> {
        if path.as_os_str().is_empty() {
            return Ok(());
        }
        match self.mkdir(path, 0o777) {
            Err(Errno::NOENT) => {}
            result => return self.or_directory(path, result),
        }
        self.mkdir_all(path.parent().ok_or(Errno::NOENT)?)?;
        self.or_directory(path, self.mkdir(path, 0o777))
    }

    fn or_directory(&self, path: &Path, result: Result<()>) -> Result<()> {
        match self.stat(self.find(path)) {
            Ok(stat) if stat.mode & 0o170_000 == 0o040_000 => Ok(()),
            _ => result,
        }
    }

    fn stat(&self, fd: Result<OwnedFd>) -> Result<Stat> {
        stat(&File::from(fd?))
    }

    fn names(&self, path: &Path) -> Result<Vec<(Vec<u8>, u32)>> {
        let fd = self.open(path, OFlags::RDONLY | OFlags::DIRECTORY, 0)?;
        let mut names = Vec::new();
        for entry in system(std::fs::read_dir(proc_path(&fd)))? {
            let entry = system(entry)?;
            let mode = system(entry.metadata())?.mode();
            names.push((entry.file_name().as_bytes().to_vec(), mode & 0o170_000));
        }
        names.sort();
        Ok(names)
    }

    /// As the client: only regular files.
    fn open_file(&self, path: &Path, how: &How) -> Result<File> {
        // A pipe must not wait for its other end.
        let flags = how.flags()? | OFlags::NONBLOCK;
        let file = File::from(self.open(path, flags, if makes(flags) { how.mode } else { 0 })?);
        let kind = system(file.metadata())?.file_type();
        match () {
            () if kind.is_file() => Ok(file),
            () if kind.is_dir() => Err(Errno::ISDIR),
            () => Err(Errno::NXIO),
        }
    }

    fn read_file(&self, path: &Path) -> Result<Vec<u8>> {
        let mut bytes = Vec::new();
        system(self.open_file(path, &How::READ)?.read_to_end(&mut bytes))?;
        Ok(bytes)
    }

    fn write_file(&self, path: &Path, len: usize, seed: u64) -> Result<()> {
        let how = How {
            truncate: true,
            ..How::CREATE
        };
        system(self.open_file(path, &how)?.write_all(&pattern(seed, len)))
    }

    fn rename(&self, from: &Path, to: &Path) -> Result<()> {
        let (from_dir, old) = self.place(from)?;
        let (to_dir, new) = self.place(to)?;
        rustix::fs::renameat(from_dir, old, to_dir, new)
    }

    fn link(&self, original: &Path, link: &Path) -> Result<()> {
        let original = self.find_nofollow(original)?;
        let (dir, name) = self.place(link)?;
        rustix::fs::linkat(original, "", dir, name, AtFlags::EMPTY_PATH)
    }

    fn symlink(&self, target: &Path, link: &Path) -> Result<()> {
        let (dir, name) = self.place(link)?;
        rustix::fs::symlinkat(target, dir, name)
    }

    fn mknod(&self, path: &Path, mode: u32) -> Result<()> {
        let (dir, name) = self.place(path)?;
        let kind = rustix::fs::FileType::from_raw_mode(mode);
        rustix::fs::mknodat(dir, name, kind, Mode::from_raw_mode(mode & 0o7777), 0)
    }

    fn remove(&self, path: &Path, flags: AtFlags) -> Result<()> {
        let (dir, name) = self.place(path)?;
        rustix::fs::unlinkat(dir, name, flags)
    }

    /// As `std::fs::remove_dir_all`.
    fn remove_all(&self, path: &Path) -> Result<()> {
        let (dir, name) = self.place(path)?;
        // std would follow anything else, and so leave the directory.
        let plain = !matches!(name.as_bytes(), b"" | b"." | b"..");
        assert!(plain && !name.as_bytes().contains(&b'/'), "{path:?}");
        system(std::fs::remove_dir_all(proc_path(&dir).join(name)))
    }

    fn set_time(&self, path: &Path, follow: bool, secs: i64, nanos: u32) -> Result<()> {
        let fd = match follow {
            true => self.find(path)?,
            false => self.find_nofollow(path)?,
        };
        let times = Timestamps {
            last_access: Timespec {
                tv_sec: 0,
                tv_nsec: UTIME_OMIT,
            },
            last_modification: Timespec {
                tv_sec: secs,
                tv_nsec: nanos.into(),
            },
        };
        rustix::fs::utimensat(rustix::fs::CWD, proc_path(&fd), &times, AtFlags::empty())
    }

    fn chown(&self, path: &Path, follow: bool, uid: u32, gid: u32) -> Result<()> {
        let fd = match follow {
            true => self.find(path)?,
            false => self.find_nofollow(path)?,
        };
        let (uid, gid) = (Uid::from_raw(uid), Gid::from_raw(gid));
        rustix::fs::chownat(fd, "", Some(uid), Some(gid), AtFlags::EMPTY_PATH)
    }

    /// truncate(2), which opens nothing and so has errors of its own.
    fn truncate(&self, path: &Path, len: u64) -> Result<()> {
        let fd = self.find(path)?;
        let kind = system(File::from(system(fd.try_clone())?).metadata())?.file_type();
        match () {
            () if kind.is_dir() => Err(Errno::ISDIR),
            () if !kind.is_file() => Err(Errno::INVAL),
            () => {
                let flags = OFlags::WRONLY | OFlags::CLOEXEC;
                let file = rustix::fs::open(proc_path(&fd), flags, Mode::empty())?;
                rustix::fs::ftruncate(file, len)
            }
        }
    }

    fn act_on_path(&mut self, op: &Op) -> Outcome {
        let done = |result: Result<()>| Outcome::of(result, |()| Outcome::Done);
        match op {
            Op::Mkdir(path, mode) => done(self.mkdir(path, *mode)),
            Op::MkdirAll(path) => done(self.mkdir_all(path)),
            Op::Mknod(path, mode) => done(self.mknod(path, *mode)),
            Op::Symlink(target, link) => done(self.symlink(target, link)),
            Op::Link(original, link) => done(self.link(original, link)),
            Op::Rename(from, to) => done(self.rename(from, to)),
            Op::Unlink(path) => done(self.remove(path, AtFlags::empty())),
            Op::Rmdir(path) => done(self.remove(path, AtFlags::REMOVEDIR)),
            Op::RemoveAll(path) => done(self.remove_all(path)),
            Op::Stat(path) => Outcome::of(self.stat(self.find(path)), Outcome::Stat),
            Op::Lstat(path) => Outcome::of(self.stat(self.find_nofollow(path)), Outcome::Stat),
            Op::Exists(path) => match self.find(path) {
                Ok(_) => Outcome::Answer(true),
                Err(Errno::NOENT | Errno::NOTDIR) => Outcome::Answer(false),
                Err(errno) => Outcome::Failed(errno),
            },
            Op::ReadDir(path) => Outcome::of(self.names(path), Outcome::Names),
            Op::ReadLink(path) => Outcome::of(self.read_link(path), Outcome::Path),
            Op::ReadFile(path) => Outcome::of(self.read_file(path), Outcome::Bytes),
            Op::WriteFile(path, len, seed) => done(self.write_file(path, *len, *seed)),
            Op::Truncate(path, len) => done(self.truncate(path, *len)),
            Op::Chmod(path, mode) => done(self.find(path).and_then(|fd| {
                let permissions = Permissions::from_mode(*mode);
                system(std::fs::set_permissions(proc_path(&fd), permissions))
            })),
            Op::SetTime(path, follow, secs, nanos) => {
                done(self.set_time(path, *follow, *secs, *nanos))
            }
            Op::Chown(path, follow, uid, gid) => done(self.chown(path, *follow, *uid, *gid)),
            Op::Open(slot, path, how) => {
                self.files[*slot] = None;
                Outcome::of(self.open_file(path, how), |file| {
                    self.files[*slot] = Some(file);
                    Outcome::Done
                })
            }
            _ => self.act_on_file(op),
        }
    }

    fn read_link(&self, path: &Path) -> Result<Vec<u8>> {
        let fd = self.find_nofollow(path)?;
        if self.stat(system(fd.try_clone()))?.mode & 0o170_000 != 0o120_000 {
            return Err(Errno::INVAL);
        }
        Ok(rustix::fs::readlinkat(fd, "", Vec::new())?.into_bytes())
    }

    fn act_on_file(&mut self, op: &Op) -> Outcome {
        let done = |result: Result<()>| Outcome::of(result, |()| Outcome::Done);
        let (Op::Close(slot)
        | Op::Read(slot, _)
        | Op::Write(slot, ..)
        | Op::ReadAt(slot, ..)
        | Op::WriteAt(slot, ..)
        | Op::Seek(slot, _)
        | Op::SetLen(slot, _)
        | Op::Fstat(slot)
        | Op::Fchmod(slot, _)
        | Op::Sync(slot)) = op
        else {
            unreachable!("{op:?} is about a path");
        };
        let Some(file) = &mut self.files[*slot] else {
            return Outcome::NotOpen;
        };
        match op {
            Op::Close(slot) => {
                self.files[*slot] = None;
                Outcome::Done
            }
            Op::Read(_, len) => {
                let mut buf = vec![0; *len];
                Outcome::of(system(file.read(&mut buf)), |n| {
                    Outcome::Bytes(buf[..n].to_vec())
                })
            }
            Op::Write(_, len, seed) => {
                let written = system(file.write(&pattern(*seed, *len)));
                Outcome::of(written, |n| Outcome::Number(n as u64))
            }
            Op::ReadAt(_, offset, len) => {
                let mut buf = vec![0; *len];
                Outcome::of(system(file.read_at(&mut buf, *offset)), |n| {
                    Outcome::Bytes(buf[..n].to_vec())
                })
            }
            Op::WriteAt(_, offset, len, seed) => {
                let written = system(file.write_at(&pattern(*seed, *len), *offset));
                Outcome::of(written, |n| Outcome::Number(n as u64))
            }
            Op::Seek(_, to) => Outcome::of(system(file.seek(*to)), Outcome::Number),
            Op::SetLen(_, len) => done(system(file.set_len(*len))),
            Op::Fstat(_) => Outcome::of(stat(file), Outcome::Stat),
            Op::Fchmod(_, mode) => {
                done(system(file.set_permissions(Permissions::from_mode(*mode))))
            }
            _ => done(system(file.sync_all())),
        }
    }
}

impl Actor for Twin {
    fn act(&mut self, op: &Op) -> Outcome {
        self.act_on_path(op)
    }
}

fn makes(flags: OFlags) -> bool {
    flags.contains(OFlags::CREATE)
}

fn stat(file: &File) -> Result<Stat> {
    system(file.metadata()).map(|m| stat_of(&m))
}

/// The same of what the host says.
pub fn stat_of(m: &std::fs::Metadata) -> Stat {
    let nanos = u32::try_from(m.mtime_nsec()).unwrap();
    Stat::new(
        m.mode(),
        m.len(),
        m.nlink(),
        (m.uid(), m.gid()),
        (m.mtime(), nanos),
    )
}
