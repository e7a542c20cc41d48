//! Operands that a command treats alike, one after the other.

use crate::context::Context;
use crate::paths;
use crate::report::{Problem, shown};
use fusewire::{Client, Metadata};
use std::path::{Path, PathBuf};

/// Runs `act` on each, and reports what fails.
pub fn each(
    paths: &[PathBuf],
    context: &Context<'_>,
    mut act: impl FnMut(&Path) -> Result<(), Problem>,
) {
    for path in paths {
        if context.report.stopped() {
            break;
        }
        if let Err(problem) = paths::check(path).and_then(&mut act) {
            context.report.problem(problem);
        }
    }
}

/// Runs `act` on each source and where it goes, and reports what fails.
pub fn each_target(
    operands: &[PathBuf],
    context: &Context<'_>,
    act: impl Fn(&Path, &Path) -> Result<(), Problem>,
) {
    match targets(operands, context) {
        Err(problem) => context.report.problem(problem),
        Ok(targets) => {
            for (from, to) in targets {
                if context.report.stopped() {
                    break;
                }
                if let Err(problem) = act(&from, &to) {
                    context.report.problem(problem);
                }
            }
        }
    }
}

/// Sources and where each of them goes: into the last operand if that is a directory, else the one
/// source there is takes its place.
///
/// # Errors
/// When there are several sources and the last operand is no directory, or a source has no name of
/// its own.
pub fn targets(
    operands: &[PathBuf],
    context: &Context<'_>,
) -> Result<Vec<(PathBuf, PathBuf)>, Problem> {
    let Some((last, sources)) = operands.split_last() else {
        return Ok(Vec::new());
    };
    let last = paths::check(last)?;
    let into = match context.client.metadata(last) {
        Ok(found) => found.is_dir(),
        Err(error) if error.errno() == rustix::io::Errno::NOENT.raw_os_error() => false,
        Err(error) => return Err(error.into()),
    };
    if !into && (sources.len() > 1 || paths::wants_directory(last)) {
        return Err(Problem::about(last, "is not a directory; make it first"));
    }
    sources
        .iter()
        .map(|source| {
            let source = paths::check(source)?;
            if !into {
                return Ok((source.to_path_buf(), last.to_path_buf()));
            }
            let name = paths::last_name(source).ok_or_else(|| {
                Problem::about(source, "has no name of its own; name the file or directory")
            })?;
            Ok((source.to_path_buf(), last.join(name)))
        })
        .collect()
}

/// The path from the root on of the entry that `path` names, without symbolic links on the way. The
/// entry may be missing, and if it is a link itself it is not followed.
///
/// # Errors
/// As [`Client::canonicalize`].
pub fn real(client: &Client, path: &Path) -> fusewire::Result<PathBuf> {
    let (Some(above), Some(name)) = (path.parent(), path.file_name()) else {
        return client.canonicalize(path);
    };
    let above = match above.as_os_str().is_empty() {
        true => Path::new("/"),
        false => above,
    };
    Ok(client.canonicalize(above)?.join(name))
}

/// Whether these are the attributes of one file.
pub fn is_same(one: &Metadata, other: &Metadata) -> bool {
    (one.dev(), one.ino()) == (other.dev(), other.ino()) && one.file_type() == other.file_type()
}

/// Whether putting `from` (a symbolic link itself, if it is one) in the place of what is at `to`
/// would do away with the only file there is, since one leads to the other.
///
/// # Errors
/// What the client says about `from`.
pub fn replaces_itself(client: &Client, from: &Path, to: &Path) -> fusewire::Result<bool> {
    let found = client.symlink_metadata(from)?;
    // If nothing is there, or nothing that can be seen, the client says so when it comes to it.
    let Ok(there) = client.symlink_metadata(to) else {
        return Ok(false);
    };
    let leads_there = || client.metadata(from).is_ok_and(|end| is_same(&end, &there));
    Ok(is_same(&found, &there) || found.is_symlink() && leads_there())
}

/// Two names of one file where two files were meant.
pub fn same_file(from: &Path, to: &Path) -> Problem {
    Problem::Line(format!(
        "{} and {} are the same file",
        shown(from),
        shown(to)
    ))
}
