//! Operands that a command treats alike, one after the other.

use crate::context::Context;
use crate::paths;
use crate::report::Problem;
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
