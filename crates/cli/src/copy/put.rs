//! `fusewire put`

use super::attributes::Attributes;
use super::data::Transfer;
use super::pool::Queue;
use super::remote::RemoteDir;
use super::{Copying, changed, check_target, omitted, place, special_target};
use crate::operands;
use crate::paths;
use crate::report::{Problem, shown};
use rustix::fd::{AsFd, OwnedFd};
use rustix::fs::{FileType, Mode, OFlags, Stat};
use rustix::io::Errno;
use std::ffi::{OsStr, OsString};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// A file to be copied.
struct Job<'a> {
    source: PathBuf,
    /// Whether a symbolic link stands for itself.
    links: Links,
    dir: Arc<RemoteDir<'a>>,
    name: OsString,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Links {
    Follow,
    Copy,
}

impl Job<'_> {
    fn target(&self) -> PathBuf {
        self.dir.path().join(&self.name)
    }

    fn failed(&self, verb: &str, errno: Errno) -> Problem {
        Problem::local(verb, &self.source, &io::Error::from(errno))
    }
}

/// Copies `sources` of this host to `target`.
pub fn run(copying: &Copying<'_>, sources: &[PathBuf], target: &Path) {
    let checked = paths::check(target).and_then(|target| {
        let target_is_dir = match copying.client.metadata(target) {
            Ok(meta) => meta.is_dir(),
            Err(error) if error.errno() == Errno::NOENT.raw_os_error() => false,
            Err(error) => return Err(error.into()),
        };
        check_target(sources, target, target_is_dir)?;
        Ok(target_is_dir)
    });
    match checked {
        Ok(target_is_dir) => copying.each(
            sources,
            |job| copying.put(job),
            |source, queue| copying.put_source(source, target, target_is_dir, queue),
        ),
        Err(problem) => copying.report.problem(problem),
    }
}

fn stat(path: &Path, links: Links) -> Result<Stat, Problem> {
    let stat = match links {
        Links::Follow => rustix::fs::stat(path),
        Links::Copy => rustix::fs::lstat(path),
    };
    stat.map_err(|errno| Problem::local("read", path, &errno.into()))
}

/// Opens what was a regular file a moment ago, and waits for nothing if it is something else now.
fn open_file(job: &Job<'_>) -> Result<(OwnedFd, Stat), Problem> {
    let mut flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
    flags.set(OFlags::NOFOLLOW, job.links == Links::Copy);
    let fd = rustix::fs::open(&job.source, flags, Mode::empty())
        .map_err(|errno| job.failed("open", errno))?;
    let found = rustix::fs::fstat(&fd).map_err(|errno| job.failed("read", errno))?;
    match FileType::from_raw_mode(found.st_mode) {
        FileType::RegularFile => Ok((fd, found)),
        _ => Err(changed(&job.source)),
    }
}

impl<'a> Copying<'a> {
    /// One operand.
    fn put_source(
        &'a self,
        source: &Path,
        target: &Path,
        target_is_dir: bool,
        queue: &Queue<Job<'a>>,
    ) -> Result<(), Problem> {
        if source == crate::STANDARD_STREAM {
            let why = "standard input is not copied; keep it in a file first (./- is one called -)";
            return Err(Problem::about(source, why));
        }
        let links = if self.recursive && !paths::wants_directory(source) {
            Links::Copy
        } else {
            Links::Follow
        };
        let found = stat(source, links)?;
        let is_dir = FileType::from_raw_mode(found.st_mode) == FileType::Directory;
        if is_dir && !self.recursive {
            return Err(omitted(source));
        }
        let (dir, name) = place(source, is_dir, target, target_is_dir)?;
        let dir = RemoteDir::open(&dir, self);
        if !is_dir {
            let name =
                name.ok_or_else(|| Problem::about(source, "has no name to be copied under"))?;
            queue.push(Job {
                source: source.to_owned(),
                links,
                dir,
                name,
            });
            return Ok(());
        }
        if let Some(into) = self.on_host(dir.path()) {
            self.check_not_inside(source, &into, source)?;
        }
        let attributes = Attributes::of_local(&found, self.special);
        let top = match name {
            Some(name) => dir.directory(&name, attributes)?,
            None => dir,
        };
        self.put_tree(source.to_owned(), top, queue);
        Ok(())
    }

    /// Everything below a directory, without recursion.
    fn put_tree(&'a self, source: PathBuf, top: Arc<RemoteDir<'a>>, queue: &Queue<Job<'a>>) {
        let mut open = vec![(source, Found::Open(top))];
        while let Some((source, found)) = open.pop() {
            if self.report.stopped() {
                return;
            }
            let dir = match found {
                Found::Open(dir) => Ok(dir),
                Found::Below(above, name) => self.put_directory(&source, &above, &name),
            };
            let listed = dir.and_then(|dir| self.put_entries(&source, &dir, queue, &mut open));
            if let Err(problem) = listed {
                self.report.problem(problem);
            }
        }
    }

    fn put_directory(
        &self,
        source: &Path,
        above: &Arc<RemoteDir<'a>>,
        name: &OsStr,
    ) -> Result<Arc<RemoteDir<'a>>, Problem> {
        let found = stat(source, Links::Copy)?;
        above.directory(name, Attributes::of_local(&found, self.special))
    }

    /// The entries of one directory: files are queued, directories kept for later.
    fn put_entries(
        &'a self,
        source: &Path,
        dir: &Arc<RemoteDir<'a>>,
        queue: &Queue<Job<'a>>,
        open: &mut Vec<(PathBuf, Found<'a>)>,
    ) -> Result<(), Problem> {
        let failed = |errno: Errno| Problem::local("read directory", source, &errno.into());
        // Not through a link that has taken the directory's place since it was listed.
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let fd = rustix::fs::open(source, flags, Mode::empty()).map_err(failed)?;
        for entry in rustix::fs::Dir::new(fd).map_err(failed)? {
            let entry = entry.map_err(failed)?;
            self.check_running(source)?;
            let name = OsStr::from_bytes(entry.file_name().to_bytes()).to_owned();
            if name == "." || name == ".." {
                continue;
            }
            let path = source.join(&name);
            let kind = match entry.file_type() {
                FileType::Unknown => match stat(&path, Links::Copy) {
                    Ok(found) => FileType::from_raw_mode(found.st_mode),
                    Err(problem) => {
                        self.report.problem(problem);
                        continue;
                    }
                },
                kind => kind,
            };
            if kind == FileType::Directory {
                open.push((path, Found::Below(Arc::clone(dir), name)));
            } else {
                queue.push(Job {
                    source: path,
                    links: Links::Copy,
                    dir: Arc::clone(dir),
                    name,
                });
            }
        }
        Ok(())
    }

    /// One file, on a worker.
    fn put(&self, job: &Job<'_>) -> Result<(), Problem> {
        let found = stat(&job.source, job.links)?;
        let kind = FileType::from_raw_mode(found.st_mode);
        if matches!(kind, FileType::RegularFile | FileType::Symlink)
            && job.dir.has_special(&job.name)
        {
            return Err(special_target(&job.target()));
        }
        match kind {
            FileType::RegularFile => self.put_file(job)?,
            _ => self.put_other(job, &found)?,
        }
        self.progress.complete();
        Ok(())
    }

    fn put_file(&self, job: &Job<'_>) -> Result<(), Problem> {
        let (fd, found) = open_file(job)?;
        let attributes = Attributes::of_local(&found, self.special);
        let target = job.target();
        self.progress
            .found(u64::try_from(found.st_size).unwrap_or(0));
        let failed = |error: fusewire::Error| Problem::remote(&error, &target);
        let temporary = job.dir.temporary(attributes.mode).map_err(failed)?;
        Transfer {
            copying: self,
            file: temporary.file(),
            fd: fd.as_fd(),
            remote: &target,
            local: &job.source,
        }
        .send(&found)?;
        temporary.complete(&target, attributes).map_err(failed)
    }

    /// What is at a path of the source, if that is on this host.
    fn on_host_at(&self, path: &Path) -> Option<Stat> {
        self.source.host_path()?;
        let real = operands::real(self.client, path).ok()?;
        rustix::fs::lstat(self.on_host(&real)?).ok()
    }

    fn put_other(&self, job: &Job<'_>, found: &Stat) -> Result<(), Problem> {
        let attributes = Attributes::of_local(found, self.special);
        let target = job.target();
        let made = match FileType::from_raw_mode(found.st_mode) {
            FileType::Symlink => {
                let link = std::fs::read_link(&job.source)
                    .map_err(|error| Problem::local("read link", &job.source, &error))?;
                if let Some(there) = self.on_host_at(&target) {
                    Self::check_not_over_end((&job.source, &target), &there, &job.source)?;
                }
                job.dir.symlink(&link, &job.name, attributes)
            }
            FileType::Directory => return Err(changed(&job.source)),
            _ => {
                self.check_special(&job.source)?;
                let kind = found.st_mode & 0o170_000;
                let device = u32::try_from(found.st_rdev).map_err(|_| {
                    Problem::Line(format!(
                        "{}: the protocol has no device numbers that large",
                        shown(&job.source)
                    ))
                })?;
                job.dir.node((kind, device), &job.name, attributes)
            }
        };
        made.map_err(|error| Problem::remote(&error, &target))
    }
}

/// A directory that is still to be read.
enum Found<'a> {
    /// Its copy is there.
    Open(Arc<RemoteDir<'a>>),
    /// Its copy is still to be made below another.
    Below(Arc<RemoteDir<'a>>, OsString),
}
