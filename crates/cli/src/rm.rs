//! `fusewire rm`

use crate::args::Rm;
use crate::context::Context;
use crate::descent::Descent;
use crate::paths;
use crate::report::Problem;
use fusewire::ReadDir;
use rustix::io::Errno;
use std::collections::HashSet;
use std::ffi::OsString;
use std::path::Path;

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
    if paths::last_name(path).is_none() || path.as_os_str().as_encoded_bytes().ends_with(b"/.") {
        let reason = "not removed: name a file or directory below the root, not the root, . or ..";
        return Err(Problem::about(path, reason));
    }
    let found = match context.client.symlink_metadata(path) {
        Err(error) if args.force && error.errno() == Errno::NOENT.raw_os_error() => return Ok(()),
        found => found?,
    };
    if !found.is_dir() {
        return Ok(context.client.remove_file(path)?);
    }
    if !args.recursive {
        return Err(Problem::about(
            path,
            "is a directory; use -r to remove it with all below",
        ));
    }
    let mut removal = Removal {
        context,
        here: Descent::new(path),
        levels: Vec::new(),
    };
    removal.run();
    Ok(())
}

/// Names of one directory that are read before they are removed, at the top of a tree; fewer
/// further down, so that all that is kept at once is bounded by some ten times as many.
const BATCH: usize = 32_768;

/// A directory that is being emptied.
#[derive(Default)]
struct Level {
    /// Its own name, below the one above.
    name: OsString,
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
    here: Descent,
    levels: Vec<Level>,
}

impl Removal<'_> {
    fn run(&mut self) {
        self.levels.push(Level::default());
        self.batch();
        while let Some(level) = self.levels.last_mut() {
            if self.context.report.stopped() {
                return;
            }
            if let Some(name) = level.below.pop() {
                self.here.down(&name);
                self.levels.push(Level {
                    name,
                    ..Level::default()
                });
                self.batch();
            } else if level.done {
                self.finish();
            } else {
                self.batch();
            }
        }
    }

    /// Reads a batch of the innermost directory and removes what is no directory in it.
    fn batch(&mut self) {
        let Context { client, report } = self.context;
        let max = (BATCH / self.levels.len().max(1)).max(4);
        let Some(level) = self.levels.last_mut() else {
            return;
        };
        // Not through a link that has taken the directory's place since it was listed.
        let read = client.read_dir_no_follow(self.here.path());
        let Batch { files, new, again } = level.read(read, max, |e| report.problem(e.into()));
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
            match client.remove_file(self.here.join(&name)) {
                Err(error) if error.errno() != Errno::NOENT.raw_os_error() => {
                    report.problem(error.into());
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
        let Context { client, report } = self.context;
        let Some(level) = self.levels.last() else {
            return;
        };
        let gone = !level.failed
            && match client.remove_dir(self.here.path()) {
                // Something came meanwhile, or was skipped while other things went.
                Err(error)
                    if error.errno() == Errno::NOTEMPTY.raw_os_error()
                        && !level.removed.is_empty() =>
                {
                    return self.batch();
                }
                Err(error) if error.errno() != Errno::NOENT.raw_os_error() => {
                    report.problem(error.into());
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
    fn keep(&mut self, name: OsString) {
        self.failed = true;
        self.stuck.insert(name);
    }

    /// Takes a batch of names that were not dealt with yet, the directories into `below`.
    fn read(
        &mut self,
        stream: fusewire::Result<ReadDir>,
        max: usize,
        problem: impl Fn(fusewire::Error),
    ) -> Batch {
        let mut files = Vec::new();
        let (mut removed_again, mut stuck_again) = (0, 0);
        self.done = true;
        match stream {
            Ok(stream) => {
                for entry in stream {
                    let entry = match entry {
                        Ok(entry) => entry,
                        Err(error) => {
                            self.failed = true;
                            problem(error);
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
                                problem(error);
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
                problem(error);
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
