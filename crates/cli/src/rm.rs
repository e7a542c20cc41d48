//! `fusewire rm`

use crate::args::Rm;
use crate::context::Context;
use crate::paths;
use crate::report::Problem;
use rustix::io::Errno;
use std::path::{Path, PathBuf};

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
    tree(context, path.to_path_buf());
    Ok(())
}

/// What is left to do below a directory.
enum Step {
    /// Empty the directory, then remove it.
    Empty(PathBuf),
    Remove(PathBuf),
}

/// Removes a directory with everything below, as much of it as can be, and reports the rest.
/// Without recursion: a daemon may serve any depth.
fn tree(context: &Context<'_>, top: PathBuf) {
    let mut steps = vec![Step::Empty(top)];
    while let Some(step) = steps.pop() {
        if context.report.stopped() {
            break;
        }
        let done = match step {
            Step::Remove(path) => context.client.remove_dir(path),
            Step::Empty(path) => empty(context, path, &mut steps),
        };
        if let Err(error) = done {
            context.report.problem(error.into());
        }
    }
}

fn empty(context: &Context<'_>, path: PathBuf, steps: &mut Vec<Step>) -> fusewire::Result<()> {
    // All names first: removing while reading makes some daemons skip entries.
    let mut files = Vec::new();
    let mut below = Vec::new();
    // Not through a link that has taken the directory's place since it was listed.
    for entry in context.client.read_dir_no_follow(&path)? {
        let entry = entry?;
        if entry.file_type()?.is_dir() {
            below.push(Step::Empty(entry.path()));
        } else {
            files.push(entry.path());
        }
    }
    steps.push(Step::Remove(path));
    steps.append(&mut below);
    for file in files {
        if context.report.stopped() {
            break;
        }
        match context.client.remove_file(&file) {
            Err(error) if error.errno() != Errno::NOENT.raw_os_error() => {
                context.report.problem(error.into());
            }
            _ => {}
        }
    }
    Ok(())
}
