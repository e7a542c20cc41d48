//! `fusewire get`

use super::attributes::Attributes;
use super::data::Transfer;
use super::local::LocalDir;
use super::pool::Queue;
use super::{Copying, check_target, omitted, place, special_target};
use crate::paths;
use crate::report::{Problem, shown};
use fusewire::Metadata;
use rustix::fs::FileType;
use rustix::io::Errno;
use std::ffi::OsString;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// A file to be copied.
struct Job<'a> {
    source: PathBuf,
    meta: Metadata,
    dir: Arc<LocalDir<'a>>,
    name: OsString,
}

impl Job<'_> {
    fn target(&self) -> PathBuf {
        self.dir.path().join(&self.name)
    }

    fn failed(&self, errno: Errno) -> Problem {
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
        let meta = if self.recursive && !paths::wants_directory(source) {
            self.client.symlink_metadata(source)?
        } else {
            self.client.metadata(source)?
        };
        if meta.is_dir() && !self.recursive {
            return Err(omitted(source));
        }
        let (dir, name) = place(source, meta.is_dir(), target, target_is_dir)?;
        let dir = LocalDir::open(&dir, self.report)?;
        if !meta.is_dir() {
            let name =
                name.ok_or_else(|| Problem::about(source, "has no name to be copied under"))?;
            self.found(source.to_owned(), meta, dir, name, queue);
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
        self.get_tree(source.to_owned(), top, queue);
        Ok(())
    }

    /// Everything below a directory. Without recursion: a daemon may serve any depth.
    fn get_tree(&'a self, source: PathBuf, top: Arc<LocalDir<'a>>, queue: &Queue<Job<'a>>) {
        let mut open = vec![(source, Found::Open(top))];
        while let Some((source, found)) = open.pop() {
            if self.report.stopped() {
                return;
            }
            let dir = match found {
                Found::Open(dir) => Ok(dir),
                Found::Below(above, name, attributes) => above.directory(&name, attributes),
            };
            let listed = dir.and_then(|dir| self.get_directory(&source, &dir, queue, &mut open));
            if let Err(problem) = listed {
                self.report.problem(problem);
            }
        }
    }

    /// The entries of one directory: files are queued, directories kept for later.
    fn get_directory(
        &'a self,
        source: &Path,
        dir: &Arc<LocalDir<'a>>,
        queue: &Queue<Job<'a>>,
        open: &mut Vec<(PathBuf, Found<'a>)>,
    ) -> Result<(), Problem> {
        for entry in self.client.read_dir(source)? {
            let entry = entry?;
            self.check_running(source)?;
            let (path, name) = (entry.path(), entry.file_name());
            if !paths::is_plain_name(&name) {
                let reason = "the daemon gave a name that is none; the entry was not copied";
                self.report.problem(Problem::about(&path, reason));
                continue;
            }
            match entry.metadata() {
                Ok(meta) if meta.is_dir() => {
                    let attributes = Attributes::of_remote(&meta, self.special);
                    open.push((path, Found::Below(Arc::clone(dir), name, attributes)));
                }
                Ok(meta) => self.found(path, meta, Arc::clone(dir), name, queue),
                Err(error) => self.report.problem(error.into()),
            }
        }
        Ok(())
    }

    fn found(
        &self,
        source: PathBuf,
        meta: Metadata,
        dir: Arc<LocalDir<'a>>,
        name: OsString,
        queue: &Queue<Job<'a>>,
    ) {
        if meta.is_file() {
            self.progress.found(meta.len());
        }
        queue.push(Job {
            source,
            meta,
            dir,
            name,
        });
    }

    /// One file, on a worker.
    fn get(&self, job: &Job<'_>) -> Result<(), Problem> {
        let attributes = Attributes::of_remote(&job.meta, self.special);
        let kind = job.meta.file_type();
        if (kind.is_file() || kind.is_symlink()) && job.dir.has_special(&job.name) {
            return Err(special_target(&job.target()));
        }
        if kind.is_file() {
            self.get_file(job, attributes)?;
        } else if kind.is_symlink() {
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

    fn get_file(&self, job: &Job<'_>, attributes: Attributes) -> Result<(), Problem> {
        let file = self.client.open(&job.source)?;
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

/// A directory that is still to be read.
enum Found<'a> {
    /// Its copy is there.
    Open(Arc<LocalDir<'a>>),
    /// Its copy is still to be made below another.
    Below(Arc<LocalDir<'a>>, OsString, Attributes),
}
