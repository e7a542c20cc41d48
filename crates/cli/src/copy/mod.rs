//! Copying between the source and this host: what `get` and `put` share.
//!
//! One thread walks, a few copy: small files spend their time in round trips, so several are in
//! flight. A file is written under a temporary name and renamed when it is complete. A directory
//! gets its rights and times when the last copy below it has ended.

mod attributes;
mod data;
pub mod get;
mod local;
mod pool;
mod progress;
pub mod put;
mod remote;
pub mod temporary;

use crate::args;
use crate::context::Context;
use crate::operands;
use crate::paths;
use crate::report::{Problem, Report, shown};
use crate::session::Session;
use crate::source::Source;
use fusewire::Client;
use progress::Progress;
use rustix::fs::Stat;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use temporary::Names;

/// How many files are copied at once.
const WORKERS: usize = 4;

/// A copy at work.
pub struct Copying<'a> {
    client: &'a Client,
    report: &'a Report,
    source: &'a Source,
    recursive: bool,
    special: bool,
    progress: Progress,
    names: Names,
    /// There was no room, and something was not done for that.
    cut_short: AtomicBool,
}

/// The sources and the target of a command line.
pub fn operands(paths: &[PathBuf]) -> (&[PathBuf], &Path) {
    match paths.split_last() {
        Some((target, sources)) => (sources, target),
        None => (&[], Path::new("")),
    }
}

impl<'a> Copying<'a> {
    pub fn new(
        context: &Context<'a>,
        args: &args::Copying,
        trace: Option<args::Format>,
        session: &'a Session,
    ) -> Self {
        let progress = Progress::new(trace.is_none());
        if let Some(bar) = progress.bar() {
            context.report.set_bar(bar);
        }
        Copying {
            client: context.client,
            report: context.report,
            source: &session.source,
            recursive: args.recursive,
            special: args.special,
            progress,
            names: Names::new(),
            cut_short: AtomicBool::new(false),
        }
    }

    /// Runs a copy of each source with [`WORKERS`] threads, and reports what fails.
    fn each<J: Send>(
        &self,
        sources: &[PathBuf],
        work: impl Fn(&J) -> Result<(), Problem> + Sync,
        walk: impl Fn(&Path, &pool::Queue<J>) -> Result<(), Problem>,
    ) {
        let run = pool::run(
            WORKERS,
            |job: J| {
                if self.gives_up() {
                    return;
                }
                if let Err(problem) = work(&job) {
                    self.report.problem(problem);
                }
            },
            |queue| {
                for source in sources {
                    if self.gives_up() {
                        break;
                    }
                    if let Err(problem) = walk(source, queue) {
                        self.report.problem(problem);
                    }
                }
            },
        );
        if let Err(error) = run {
            let problem = Problem::Line(format!("cannot start a thread: {error}"));
            self.report.problem(problem);
        }
        if self.cut_short.load(Ordering::Relaxed) {
            let text = "there is no room; what was left to do was not done";
            self.report.problem(Problem::Line(text.to_owned()));
        }
        self.progress.finish();
    }

    /// Whether the next thing to do is not done, because that makes no sense any more. An endless
    /// tree ends here, too, at the latest when the disk is full.
    fn gives_up(&self) -> bool {
        if self.report.is_full() {
            self.cut_short.store(true, Ordering::Relaxed);
            return true;
        }
        self.report.stopped()
    }

    /// Whether a copy of the directory `from` may be made in `into`, both of this host.
    fn check_not_inside(&self, from: &Path, into: &Path, source: &Path) -> Result<(), Problem> {
        let (Ok(from), Ok(into)) = (from.canonicalize(), into.canonicalize()) else {
            // Not there, or not to be looked into: what comes next says so.
            return Ok(());
        };
        if into.starts_with(from) {
            let reason = "is not copied into itself; name another target";
            return Err(Problem::about(source, reason));
        }
        Ok(())
    }

    /// A link is not put over what it leads to: that would be lost. `there` is what its copy takes
    /// the place of, and `end` where it leads, both on this host.
    fn check_not_over_end(
        (from, to): (&Path, &Path),
        there: &Stat,
        end: &Path,
    ) -> Result<(), Problem> {
        match rustix::fs::stat(end) {
            Ok(end) if (end.st_dev, end.st_ino) == (there.st_dev, there.st_ino) => {
                Err(operands::same_file(from, to))
            }
            _ => Ok(()),
        }
    }

    /// A directory of the source on this host, if the source is on this host.
    fn on_host(&self, path: &Path) -> Option<PathBuf> {
        let root = self.source.host_path()?;
        Some(root.join(path.strip_prefix("/").unwrap_or(path)))
    }

    /// Ends a copy that makes no sense any more. The message is not seen: what stopped it is.
    fn check_running(&self, path: &Path) -> Result<(), Problem> {
        if self.report.stopped() {
            return Err(Problem::about(path, "the copy was stopped"));
        }
        Ok(())
    }

    /// What is not copied without `--special`.
    fn check_special(&self, path: &Path) -> Result<(), Problem> {
        if self.special {
            return Ok(());
        }
        let reason = "is a device node, pipe or socket and was not copied; use --special";
        Err(Problem::about(path, reason))
    }
}

/// What a source is called in its target's directory: the directory, and the name unless the
/// contents of a source without a name of its own go right into it.
fn place(
    source: &Path,
    source_is_dir: bool,
    target: &Path,
    target_is_dir: bool,
) -> Result<(PathBuf, Option<OsString>), Problem> {
    if target_is_dir {
        return Ok((target.to_owned(), paths::last_name(source)));
    }
    if !source_is_dir && paths::wants_directory(target) {
        return Err(Problem::about(target, "is not a directory; make it first"));
    }
    match paths::last_name(target) {
        Some(name) => {
            let above = target.parent().unwrap_or(Path::new(""));
            Ok((above.to_owned(), Some(name)))
        }
        None => Err(Problem::about(target, "is not there; make it first")),
    }
}

/// Several sources need a directory.
fn check_target(sources: &[PathBuf], target: &Path, target_is_dir: bool) -> Result<(), Problem> {
    if sources.len() > 1 && !target_is_dir {
        let reason = "is not a directory; several files can only be copied into one";
        return Err(Problem::about(target, reason));
    }
    Ok(())
}

/// What was listed as one thing and turned out to be another.
fn changed(path: &Path) -> Problem {
    let reason = "became something else meanwhile and was not copied; repeat the command";
    Problem::about(path, reason)
}

/// A device node, pipe or socket where a copy was to go. Renamed over, it would be lost, and with
/// `/dev/null` much else; to write into it is what `cat` and a redirection are for.
pub fn special_target(target: &Path) -> Problem {
    let reason = "is a device node, pipe or socket and was not replaced; name another target";
    Problem::about(target, reason)
}

/// A directory without `-r`.
fn omitted(path: &Path) -> Problem {
    Problem::Line(format!(
        "{} is a directory and was not copied; use -r",
        shown(path)
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_target_is_a_name_or_a_directory_for_one() {
        let place = |source: &str, source_is_dir, target: &str, target_is_dir| {
            place(
                Path::new(source),
                source_is_dir,
                Path::new(target),
                target_is_dir,
            )
            .ok()
            .map(|(dir, name)| (dir.display().to_string(), name))
        };
        let into = |dir: &str, name: &str| Some((dir.to_owned(), Some(name.into())));
        assert_eq!(place("/a/b", false, "t", true), into("t", "b"));
        assert_eq!(place("/a/b", false, "t", false), into("", "t"));
        assert_eq!(place("/a/b", false, "/t", false), into("/", "t"));
        assert_eq!(place("/a/b", false, "x/t", false), into("x", "t"));
        assert_eq!(place("/a/b", false, "t/", false), None);
        assert_eq!(place("/a/b", true, "t/", false), into("", "t"));
        assert_eq!(place("/a/b", true, "t/..", false), None);
        assert_eq!(place("/", true, "t", true), Some(("t".to_owned(), None)));
        assert_eq!(place("/", true, "t", false), into("", "t"));
    }
}
