//! `fusewire rm`

use crate::context::Context;
use crate::descent::Descent;
use crate::paths;
use crate::report::Problem;
use clap::Args;
use fusewire::{Client, ReadDir};
use rustix::io::Errno;
use std::collections::HashSet;
use std::ffi::{OsStr, OsString};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// Remove files
#[derive(Args, Debug)]
pub struct Rm {
    /// Remove directories with everything below
    #[arg(short, long, visible_short_alias = 'R')]
    pub recursive: bool,
    /// Remove empty directories, too
    #[arg(short, long)]
    pub dir: bool,
    /// Say nothing of files that are not there
    #[arg(short, long)]
    pub force: bool,
    /// Paths in the source
    #[arg(required_unless_present = "force", value_parser = crate::args::path())]
    pub paths: Vec<PathBuf>,
}

/// Removes the operands.
pub fn run(args: &Rm, context: &Context<'_>) {
    for path in &args.paths {
        if context.report.stopped() {
            break;
        }
        if let Err(problem) = operand(args, context, path) {
            context.report.problem(problem);
        }
    }
}

fn operand(args: &Rm, context: &Context<'_>, path: &Path) -> Result<(), Problem> {
    let path = paths::check(path)?;
    let name = paths::last_name(path);
    let Some(name) = name.filter(|_| !path.as_os_str().as_bytes().ends_with(b"/.")) else {
        let reason = "not removed: name a file or directory below the root, not the root, . or ..";
        return Err(Problem::about(path, reason));
    };
    let found = match context.client.symlink_metadata(path) {
        Err(error) if args.force && error.errno() == Errno::NOENT.raw_os_error() => return Ok(()),
        found => found?,
    };
    if !found.is_dir() {
        return Ok(context.client.remove_file(path)?);
    }
    if !args.recursive && args.dir {
        return Ok(context.client.remove_dir(path)?);
    }
    if !args.recursive {
        return Err(Problem::about(
            path,
            "is a directory; use -r to remove it with all below, or -d if it is empty",
        ));
    }
    let above = match path.parent() {
        Some(above) if !above.as_os_str().is_empty() => context.client.at(above),
        _ => context.client.at("."),
    }?;
    // From here on nothing is found by a path, which could lead elsewhere by now.
    let above = above.beneath().no_symlinks();
    let mut removal = Removal {
        context,
        here: Descent::new(path),
        levels: Vec::new(),
        above,
    };
    removal.run(&name);
    Ok(())
}

/// Names of one directory that are read before they are removed, at the top of a tree; fewer
/// further down, so that all that is kept at once is bounded by some ten times as many.
const BATCH: usize = 32_768;

/// Longest path that is gone down, in bytes: that of the client. A tree may have no bottom.
const MAX_PATH_BYTES: usize = 16 << 10;

/// A directory that is being emptied.
struct Level {
    /// Its own name, in the one above.
    name: OsString,
    /// Begins in it.
    inside: Client,
    /// Directories of the batch that are still to be removed.
    below: Vec<OsString>,
    /// What was removed of the batch.
    removed: HashSet<OsString>,
    /// What could not be removed, and has been reported.
    stuck: HashSet<OsString>,
    /// There is nothing more to be read.
    done: bool,
    /// It will not be empty, for a reason that has been reported.
    failed: bool,
}

/// Removes a directory with everything below, as much of it as can be, and reports the rest.
///
/// Without recursion, as a daemon may serve any depth, and in batches, as it may serve any width:
/// a batch of names is read, the stream is closed (to remove while reading makes some daemons skip
/// entries), the names are removed, and the directory is read again. A daemon that goes on listing
/// what it says it has removed is found out by the batch that has nothing new.
struct Removal<'a> {
    context: &'a Context<'a>,
    /// Begins in the directory that holds the first of `levels`.
    above: Client,
    levels: Vec<Level>,
    /// Their path, for messages.
    here: Descent,
}

impl Removal<'_> {
    fn run(&mut self, name: &OsStr) {
        match self.above.at(name) {
            Ok(inside) => self.levels.push(Level::new(name.to_owned(), inside)),
            Err(error) => return self.report_here(&error),
        }
        self.batch();
        while let Some(level) = self.levels.last_mut() {
            if self.context.report.stopped() {
                return;
            }
            if let Some(name) = level.below.pop() {
                self.enter(name);
            } else if level.done {
                self.finish();
            } else {
                self.batch();
            }
        }
    }

    fn report_here(&self, error: &fusewire::Error) {
        let problem = Problem::remote(error, self.here.path());
        self.context.report.problem(problem);
    }

    /// Goes down into the directory called `name`.
    fn enter(&mut self, name: OsString) {
        let Some(level) = self.levels.last_mut() else {
            return;
        };
        let path = self.here.join(&name);
        let reason = |errno: Errno| Problem::local("remove", &path, &io::Error::from(errno));
        let problem = if path.as_os_str().len() > MAX_PATH_BYTES {
            reason(Errno::NAMETOOLONG)
        } else {
            match level.inside.at(&name) {
                Ok(inside) if self.levels.iter().any(|l| l.inside.is_same_dir(&inside)) => {
                    reason(Errno::LOOP)
                }
                Ok(inside) => {
                    self.here.down(&name);
                    self.levels.push(Level::new(name, inside));
                    return self.batch();
                }
                Err(error) if error.errno() == Errno::NOENT.raw_os_error() => return,
                Err(error) => Problem::remote(&error, &path),
            }
        };
        self.context.report.problem(problem);
        if let Some(level) = self.levels.last_mut() {
            level.keep(name);
        }
    }

    /// Reads a batch of the innermost directory and removes what is no directory in it.
    fn batch(&mut self) {
        let report = self.context.report;
        let max = (BATCH / self.levels.len().max(1)).max(4);
        let Some(level) = self.levels.last_mut() else {
            return;
        };
        let here = &self.here;
        let Batch { files, new, again } = level.read(max, |error, name| {
            let path = name.map_or_else(|| here.path().to_owned(), |name| here.join(name));
            report.problem(Problem::remote(&error, &path));
        });
        level.removed.clear();
        if !new {
            level.done = true;
            let reason = if level.stuck.len() >= max {
                "too much in it cannot be removed; the rest was left"
            } else if again && !level.failed {
                "what was removed is still listed; check the daemon"
            } else {
                return;
            };
            level.failed = true;
            report.problem(Problem::about(self.here.path(), reason));
        }
        for name in files {
            if report.stopped() {
                return;
            }
            match level.inside.remove_file(&name) {
                Err(error) if error.errno() != Errno::NOENT.raw_os_error() => {
                    report.problem(Problem::remote(&error, &here.join(&name)));
                    level.keep(name);
                }
                _ => {
                    level.removed.insert(name);
                }
            }
        }
    }

    /// Removes the innermost directory, which has been emptied as far as it could be.
    fn finish(&mut self) {
        let Some((level, above)) = self.levels.split_last() else {
            return;
        };
        let above = above.last().map_or(&self.above, |level| &level.inside);
        let gone = !level.failed
            && match above.remove_dir(&level.name) {
                // Something came meanwhile, or was skipped while other things went.
                Err(error)
                    if error.errno() == Errno::NOTEMPTY.raw_os_error()
                        && !level.removed.is_empty() =>
                {
                    return self.batch();
                }
                Err(error) if error.errno() != Errno::NOENT.raw_os_error() => {
                    self.report_here(&error);
                    false
                }
                _ => true,
            };
        let name = self.levels.pop().map(|level| level.name);
        self.here.up();
        if let (Some(above), Some(name)) = (self.levels.last_mut(), name) {
            if gone {
                above.removed.insert(name);
            } else {
                above.keep(name);
            }
        }
    }
}

impl Level {
    fn new(name: OsString, inside: Client) -> Self {
        Level {
            name,
            inside,
            below: Vec::new(),
            removed: HashSet::new(),
            stuck: HashSet::new(),
            done: false,
            failed: false,
        }
    }

    fn keep(&mut self, name: OsString) {
        self.failed = true;
        self.stuck.insert(name);
    }

    /// Takes a batch of names that were not dealt with yet, the directories into `below`.
    /// `problem` is about an entry or, without a name, about the directory.
    fn read(&mut self, max: usize, problem: impl Fn(fusewire::Error, Option<&OsStr>)) -> Batch {
        let mut files = Vec::new();
        let (mut removed_again, mut stuck_again) = (0, 0);
        self.done = true;
        // Each name is looked up before it is taken away.
        match self.inside.read_dir(".").map(ReadDir::with_attributes) {
            Ok(stream) => {
                for entry in stream {
                    let entry = match entry {
                        Ok(entry) => entry,
                        Err(error) => {
                            self.failed = true;
                            problem(error, None);
                            continue;
                        }
                    };
                    let name = entry.file_name();
                    if self.removed.contains(&name) {
                        removed_again += 1;
                    } else if self.stuck.contains(&name) {
                        stuck_again += 1;
                    } else {
                        match entry.file_type() {
                            Ok(kind) if kind.is_dir() => self.below.push(name),
                            Ok(_) => files.push(name),
                            Err(error) => {
                                problem(error, Some(&name));
                                self.keep(name);
                            }
                        }
                    }
                    // The latter two: they come round and round.
                    if files.len() + self.below.len() + self.stuck.len() >= max
                        || removed_again > self.removed.len()
                        || stuck_again > self.stuck.len()
                    {
                        self.done = false;
                        break;
                    }
                }
            }
            Err(error) => {
                self.failed = true;
                problem(error, None);
            }
        }
        Batch {
            new: !files.is_empty() || !self.below.is_empty(),
            again: removed_again > 0,
            files,
        }
    }
}

/// What was read of a directory.
struct Batch {
    /// What is no directory.
    files: Vec<OsString>,
    /// There are files, or directories.
    new: bool,
    /// Something was listed that had been removed.
    again: bool,
}
