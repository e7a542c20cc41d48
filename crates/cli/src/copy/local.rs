//! Writing below a directory of this host, and nowhere else.
//!
//! Every step goes one name down from an open directory, never through a symbolic link, and is
//! checked by the kernel (`RESOLVE_BENEATH`) where it can.

use super::attributes::Attributes;
use super::temporary::Names;
use crate::report::{Problem, Report};
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::fs::{AtFlags, Dev, FileType, Mode, OFlags, ResolveFlags, Stat};
use rustix::io::Errno;
use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// An open directory that is written to.
pub struct LocalDir<'a> {
    fd: OwnedFd,
    path: PathBuf,
    /// What it gets when everything below is done, if it was made here.
    finish: Option<Attributes>,
    report: &'a Report,
    /// Lives longer, because what happens here changes its times.
    _above: Option<Arc<LocalDir<'a>>>,
}

fn failed(verb: &'static str, path: &Path, report: &Report) -> impl Fn(Errno) -> Problem {
    let path = path.to_owned();
    move |errno| {
        report.note_full(errno);
        Problem::local(verb, &path, &errno.into())
    }
}

/// Opens one name below `dir`.
fn open_below(dir: &OwnedFd, name: &OsStr, flags: OFlags, mode: Mode) -> Result<OwnedFd, Errno> {
    let flags = flags | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS;
    match rustix::fs::openat2(dir, name, flags, mode, resolve) {
        // Kernels before 5.6, and sandboxes that do not know it. The name has one component, so
        // there is nothing but a link to leave by.
        Err(Errno::NOSYS | Errno::PERM) => rustix::fs::openat(dir, name, flags, mode),
        opened => opened,
    }
}

impl<'a> LocalDir<'a> {
    /// The directory that the user has named.
    pub fn open(path: &Path, report: &'a Report) -> Result<Arc<Self>, Problem> {
        let at = if path.as_os_str().is_empty() {
            Path::new(".")
        } else {
            path
        };
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let fd = rustix::fs::open(at, flags, Mode::empty()).map_err(failed("open", at, report))?;
        Ok(Arc::new(LocalDir {
            fd,
            path: path.to_owned(),
            finish: None,
            report,
            _above: None,
        }))
    }

    /// The directory `name` below: the one that is there, or a new one that gets `attributes` in
    /// the end.
    pub fn directory(
        self: &Arc<Self>,
        name: &OsStr,
        attributes: Attributes,
    ) -> Result<Arc<Self>, Problem> {
        let path = self.path.join(name);
        let finish = match rustix::fs::mkdirat(&self.fd, name, Mode::RWXU) {
            Ok(()) => Some(attributes),
            Err(Errno::EXIST) => None,
            Err(errno) => return Err(failed("make directory", &path, self.report)(errno)),
        };
        let flags = OFlags::RDONLY | OFlags::DIRECTORY;
        let fd = open_below(&self.fd, name, flags, Mode::empty()).map_err(failed(
            "open directory",
            &path,
            self.report,
        ))?;
        Ok(Arc::new(LocalDir {
            fd,
            path,
            finish,
            report: self.report,
            _above: Some(Arc::clone(self)),
        }))
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    pub fn report(&self) -> &'a Report {
        self.report
    }

    /// Whether `name` is there and leads to a device node, pipe or socket.
    pub fn has_special(&self, name: &OsStr) -> bool {
        let found = rustix::fs::statat(&self.fd, name, AtFlags::empty());
        found.is_ok_and(|stat| {
            let kind = FileType::from_raw_mode(stat.st_mode);
            !matches!(kind, FileType::RegularFile | FileType::Directory)
        })
    }

    /// What `name` is, if it is there.
    pub fn stat(&self, name: &OsStr) -> Option<Stat> {
        rustix::fs::statat(&self.fd, name, AtFlags::SYMLINK_NOFOLLOW).ok()
    }

    /// What is behind the link `name`, if it leads to a standard stream of this process, a device
    /// node or a pipe: something to be written into, as the link is there for that.
    ///
    /// # Errors
    /// ENXIO for a pipe that nobody reads from, which is not waited for.
    pub fn behind_link(&self, name: &OsStr) -> Result<Option<OwnedFd>, Errno> {
        let Ok(link) = rustix::fs::readlinkat(&self.fd, name, Vec::new()) else {
            return Ok(None);
        };
        // Opened anew, a file would be written over from its beginning.
        match link.to_bytes() {
            b"/proc/self/fd/1" => return rustix::io::dup(std::io::stdout()).map(Some),
            b"/proc/self/fd/2" => return rustix::io::dup(std::io::stderr()).map(Some),
            _ => {}
        }
        if !self.has_special(name) {
            return Ok(None);
        }
        let flags = OFlags::WRONLY | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
        let fd = rustix::fs::openat(&self.fd, name, flags, Mode::empty())?;
        let flags = rustix::fs::fcntl_getfl(&fd)?;
        rustix::fs::fcntl_setfl(&fd, flags - OFlags::NONBLOCK)?;
        Ok(Some(fd))
    }

    /// A new file under a temporary name.
    pub fn temporary(&self, names: &Names) -> Result<Temporary<'_>, Errno> {
        let name = names.next();
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL;
        let mode = Mode::RUSR | Mode::WUSR;
        let fd = open_below(&self.fd, name.as_ref(), flags, mode)?;
        Ok(Temporary {
            dir: &self.fd,
            name,
            fd,
            complete: false,
        })
    }

    /// Makes a symbolic link, in the place of what is there.
    pub fn symlink(
        &self,
        target: &Path,
        name: &OsStr,
        attributes: Attributes,
        names: &Names,
    ) -> Result<(), Errno> {
        self.replace(name, names, |at| {
            rustix::fs::symlinkat(target, &self.fd, at)?;
            let stamps = attributes.timestamps();
            rustix::fs::utimensat(&self.fd, at, &stamps, AtFlags::SYMLINK_NOFOLLOW)
        })
    }

    /// Makes a device node, pipe or socket, in the place of what is there.
    pub fn node(
        &self,
        (kind, device): (FileType, Dev),
        name: &OsStr,
        attributes: Attributes,
        names: &Names,
    ) -> Result<(), Errno> {
        self.replace(name, names, |at| {
            rustix::fs::mknodat(&self.fd, at, kind, Mode::RUSR | Mode::WUSR, device)?;
            let mode = Mode::from_raw_mode(attributes.mode);
            // The name is random and in a directory of ours: nobody has put a link there.
            rustix::fs::chmodat(&self.fd, at, mode, AtFlags::empty())?;
            let stamps = attributes.timestamps();
            rustix::fs::utimensat(&self.fd, at, &stamps, AtFlags::SYMLINK_NOFOLLOW)
        })
    }

    /// Has something made under a temporary name and renames it.
    fn replace(
        &self,
        name: &OsStr,
        names: &Names,
        make: impl FnOnce(&str) -> Result<(), Errno>,
    ) -> Result<(), Errno> {
        let temporary = names.next();
        let made = make(&temporary)
            .and_then(|()| rustix::fs::renameat(&self.fd, &temporary, &self.fd, name));
        if made.is_err() {
            let _ = rustix::fs::unlinkat(&self.fd, &temporary, AtFlags::empty());
        }
        made
    }
}

impl Drop for LocalDir<'_> {
    fn drop(&mut self) {
        let Some(attributes) = self.finish else {
            return;
        };
        let mode = Mode::from_raw_mode(attributes.mode);
        let finished = rustix::fs::fchmod(&self.fd, mode)
            .and_then(|()| rustix::fs::futimens(&self.fd, &attributes.timestamps()));
        if let Err(errno) = finished {
            let problem = failed("set the rights and times of", &self.path, self.report)(errno);
            self.report.problem(problem);
        }
    }
}

/// A file that is not complete. Dropping it removes it.
pub struct Temporary<'d> {
    dir: &'d OwnedFd,
    name: String,
    fd: OwnedFd,
    complete: bool,
}

impl Temporary<'_> {
    pub fn fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }

    /// Gives the file its attributes and its name, in the place of what is there.
    pub fn complete(mut self, name: &OsStr, attributes: Attributes) -> Result<(), Errno> {
        rustix::fs::fchmod(&self.fd, Mode::from_raw_mode(attributes.mode))?;
        rustix::fs::futimens(&self.fd, &attributes.timestamps())?;
        rustix::fs::renameat(self.dir, &self.name, self.dir, name)?;
        self.complete = true;
        Ok(())
    }
}

impl Drop for Temporary<'_> {
    fn drop(&mut self) {
        if !self.complete {
            let _ = rustix::fs::unlinkat(self.dir, &self.name, AtFlags::empty());
        }
    }
}
