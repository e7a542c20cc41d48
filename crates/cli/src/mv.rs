//! `fusewire mv`

use crate::context::Context;
use crate::operands;
use crate::report::Problem;
use clap::Args;
use rustix::io::Errno;
use std::path::{Path, PathBuf};

/// Gives files and directories of the source other names. What has a name already is replaced, as
/// rename(2) does.
#[derive(Args, Debug)]
pub struct Mv {
    /// Replace nothing
    #[arg(short, long)]
    pub no_clobber: bool,
    /// Old names, and at last the new one, or the directory to move into
    #[arg(required = true, num_args = 2.., value_parser = crate::args::path(), value_names = ["SRC", "DST"])]
    pub paths: Vec<PathBuf>,
}

/// Moves the operands.
pub fn run(args: &Mv, context: &Context<'_>) {
    match operands::targets(&args.paths, context) {
        Err(problem) => context.report.problem(problem),
        Ok(moves) => {
            for (from, to) in moves {
                if context.report.stopped() {
                    break;
                }
                if let Err(problem) = one(args, context, &from, &to) {
                    context.report.problem(problem);
                }
            }
        }
    }
}

fn one(args: &Mv, context: &Context<'_>, from: &Path, to: &Path) -> Result<(), Problem> {
    let moved = if args.no_clobber {
        match context.client.rename_no_replace(from, to) {
            Err(error) if error.errno() == Errno::EXIST.raw_os_error() => {
                return Err(Problem::about(to, "exists, so nothing was moved there"));
            }
            // The daemon cannot promise it, so it is looked at first.
            Err(error) if error.errno() == Errno::INVAL.raw_os_error() => {
                if context.client.symlink_metadata(to).is_ok() {
                    return Err(Problem::about(to, "exists, so nothing was moved there"));
                }
                context.client.rename(from, to)
            }
            moved => moved,
        }
    } else {
        context.client.rename(from, to)
    };
    match moved {
        Err(error) if error.errno() == Errno::INVAL.raw_os_error() => Err(Problem::about(
            from,
            "cannot be moved into itself; name another place",
        )),
        Err(error) if error.errno() == Errno::XDEV.raw_os_error() => Err(Problem::about(
            from,
            "is in another file system than the target; copy it with cp -r and remove it",
        )),
        moved => Ok(moved?),
    }
}
