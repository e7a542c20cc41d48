//! `fusewire get`

use super::attributes::Attributes;
use super::data::Transfer;
use super::local::LocalDir;
use super::pool::Queue;
use super::{Copying, changed, check_target, omitted, place, special_target};
use crate::paths;
use crate::report::{Problem, shown};
use fusewire::{File, Metadata, OpenOptions, WalkEntry};
use rustix::fd::{AsFd, BorrowedFd};
use rustix::fs::{FileType, OFlags};
use rustix::io::Errno;
use std::ffi::OsString;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// A file to be copied.
struct Job<'a> {
    source: PathBuf,
    meta: Metadata,
    /// Whether a symbolic link stands for itself, and so is none of this.
    links: Links,
    dir: Arc<LocalDir<'a>>,
    name: OsString,
    /// The user has named the target.
    named: bool,
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

    fn failed(&self, errno: Errno) -> Problem {
        self.dir.report().note_full(errno);
        Problem::local("write", &self.target(), &io::Error::from(errno))
    }
}

/// Copies `sources` to `target` on this host.
pub fn run(copying: &Copying<'_>, sources: &[PathBuf], target: &Path) {
    let target_is_dir = target.is_dir();
    if let Err(problem) = check_target(sources, target, target_is_dir) {
        copying.report.problem(problem);
        return;
    }
    copying.each(
        sources,
        |job| copying.get(job),
        |source, queue| copying.get_source(source, target, target_is_dir, queue),
    );
}

impl<'a> Copying<'a> {
    /// One operand.
    fn get_source(
        &'a self,
        source: &Path,
        target: &Path,
        target_is_dir: bool,
        queue: &Queue<Job<'a>>,
    ) -> Result<(), Problem> {
        let source = paths::check(source)?;
        let links = if self.recursive && !paths::wants_directory(source) {
            Links::Copy
        } else {
            Links::Follow
        };
        let meta = match links {
            Links::Copy => self.client.symlink_metadata(source)?,
            Links::Follow => self.client.metadata(source)?,
        };
        if meta.is_dir() && !self.recursive {
            return Err(omitted(source));
        }
        let (dir, name) = place(source, meta.is_dir(), target, target_is_dir)?;
        let dir = LocalDir::open(&dir, self.report)?;
        if !meta.is_dir() {
            let name =
                name.ok_or_else(|| Problem::about(source, "has no name to be copied under"))?;
            self.found(
                Job {
                    source: source.to_owned(),
                    meta,
                    links,
                    dir,
                    name,
                    named: !target_is_dir,
                },
                queue,
            );
            return Ok(());
        }
        if let Some(from) = self.on_host(source) {
            let into = if target_is_dir { target } else { dir.path() };
            let into = if into.as_os_str().is_empty() {
                Path::new(".")
            } else {
                into
            };
            self.check_not_inside(&from, into, source)?;
        }
        let top = match name {
            Some(name) => dir.directory(&name, Attributes::of_remote(&meta, self.special))?,
            None => dir,
        };
        self.get_tree(source, top, queue);
        Ok(())
    }

    /// Everything below a directory: files are queued, directories are made at once.
    fn get_tree(&'a self, source: &Path, top: Arc<LocalDir<'a>>, queue: &Queue<Job<'a>>) {
        // The copies of the directories from the top to where we are.
        let mut dirs = vec![top];
        let mut walk = self.client.walk(source).min_depth(1).into_iter();
        while let Some(entry) = walk.next() {
            if self.gives_up() {
                return;
            }
            match entry {
                Ok(entry) => {
                    dirs.truncate(entry.depth());
                    if let Err(problem) = self.get_entry(&entry, &mut dirs, queue) {
                        self.report.problem(problem);
                        if entry.file_type().is_dir() {
                            walk.skip_current_dir();
                        }
                    }
                }
                Err(error) => self.report.problem(error.into()),
            }
        }
    }

    fn get_entry(
        &'a self,
        entry: &WalkEntry,
        dirs: &mut Vec<Arc<LocalDir<'a>>>,
        queue: &Queue<Job<'a>>,
    ) -> Result<(), Problem> {
        let (path, name) = (entry.path(), entry.file_name());
        if !paths::is_plain_name(&name) {
            let reason = "the daemon gave a name that is none; the entry was not copied";
            return Err(Problem::about(&path, reason));
        }
        let Some(above) = dirs.last() else {
            return Ok(());
        };
        let meta = entry.metadata()?;
        if meta.file_type() != entry.file_type() {
            return Err(changed(&path));
        }
        if meta.is_dir() {
            let dir = above.directory(&name, Attributes::of_remote(&meta, self.special))?;
            dirs.push(dir);
            return Ok(());
        }
        let job = Job {
            source: path,
            meta,
            links: Links::Copy,
            dir: Arc::clone(above),
            name,
            named: false,
        };
        self.found(job, queue);
        Ok(())
    }

    fn found(&self, job: Job<'a>, queue: &Queue<Job<'a>>) {
        if job.meta.is_file() {
            self.progress.found(job.meta.len());
        }
        queue.push(job);
    }

    /// One file, on a worker.
    fn get(&self, job: &Job<'_>) -> Result<(), Problem> {
        let attributes = Attributes::of_remote(&job.meta, self.special);
        let kind = job.meta.file_type();
        if kind.is_file() && job.named {
            let behind = job.dir.behind_link(&job.name);
            let behind = behind.map_err(|errno| not_open(job, errno))?;
            if let Some(fd) = behind {
                return self.get_stream(job, fd.as_fd());
            }
        }
        if (kind.is_file() || kind.is_symlink()) && job.dir.has_special(&job.name) {
            return Err(special_target(&job.target()));
        }
        if kind.is_file() {
            self.get_file(job, attributes)?;
        } else if kind.is_symlink() {
            self.check_link(job)?;
            let target = self.client.read_link(&job.source)?;
            job.dir
                .symlink(&target, &job.name, attributes, &self.names)
                .map_err(|errno| job.failed(errno))?;
        } else {
            self.check_special(&job.source)?;
            let node = FileType::from_raw_mode(job.meta.mode());
            job.dir
                .node(
                    (node, job.meta.rdev().into()),
                    &job.name,
                    attributes,
                    &self.names,
                )
                .map_err(|errno| job.failed(errno))?;
        }
        self.progress.complete();
        Ok(())
    }

    /// Whether a link does not lead to what its copy takes the place of.
    fn check_link(&self, job: &Job<'_>) -> Result<(), Problem> {
        if self.source.host_path().is_none() {
            return Ok(());
        }
        let Some(there) = job.dir.stat(&job.name) else {
            return Ok(());
        };
        let end = self.client.canonicalize(&job.source).ok();
        match end.and_then(|end| self.on_host(&end)) {
            Some(end) => Self::check_not_over_end((&job.source, &job.target()), &there, &end),
            None => Ok(()),
        }
    }

    /// Opens what was a file a moment ago.
    fn open(&self, job: &Job<'_>) -> Result<File, Problem> {
        let mut options = OpenOptions::new();
        options.read(true);
        if job.links == Links::Copy {
            options.custom_flags(OFlags::NOFOLLOW.bits().cast_signed());
        }
        Ok(options.open(self.client, &job.source)?)
    }

    /// A file that goes where bytes come one after the other.
    fn get_stream(&self, job: &Job<'_>, fd: BorrowedFd<'_>) -> Result<(), Problem> {
        let file = self.open(job)?;
        Transfer {
            copying: self,
            file: &file,
            fd,
            remote: &job.source,
            local: &job.target(),
        }
        .receive_stream()?;
        self.progress.complete();
        Ok(())
    }

    fn get_file(&self, job: &Job<'_>, attributes: Attributes) -> Result<(), Problem> {
        let file = self.open(job)?;
        let temporary = job
            .dir
            .temporary(&self.names)
            .map_err(|errno| job.failed(errno))?;
        let target = job.target();
        Transfer {
            copying: self,
            file: &file,
            fd: temporary.fd(),
            remote: &job.source,
            local: &target,
        }
        .receive(job.meta.len(), job.meta.blocks())?;
        temporary
            .complete(&job.name, attributes)
            .map_err(|errno| match errno {
                Errno::ISDIR => Problem::Line(format!(
                    "{} is a directory and was not replaced by the file {}",
                    shown(&target),
                    shown(&job.source)
                )),
                errno => job.failed(errno),
            })
    }
}

/// Why what is behind a link was not written into.
fn not_open(job: &Job<'_>, errno: Errno) -> Problem {
    match errno {
        Errno::NXIO => {
            let reason = "nobody reads from what the link leads to; start the reader first";
            Problem::about(&job.target(), reason)
        }
        errno => job.failed(errno),
    }
}
