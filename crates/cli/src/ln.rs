//! `fusewire ln`

use crate::args::LongSource;
use crate::context::Context;
use crate::operands;
use crate::paths;
use crate::report::Problem;
use clap::Args;
use rustix::io::Errno;
use std::path::{Path, PathBuf};

/// Gives files of the source further names, or makes symbolic links.
#[derive(Args, Debug)]
#[command(override_usage = "fusewire ln [OPTIONS] SRC... DST")]
pub struct Ln {
    /// Make symbolic links; SRC is what they hold, whether it exists or not
    #[arg(short, long)]
    pub symbolic: bool,
    /// Remove what has the new name already, unless it is a directory
    #[arg(short, long)]
    pub force: bool,
    #[command(flatten)]
    pub long_source: LongSource,
    /// Files, and at last the new name, or the directory for the new names
    #[arg(required = true, value_parser = crate::args::plain_path())]
    pub paths: Vec<PathBuf>,
}

/// Makes the links.
pub fn run(args: &Ln, context: &Context<'_>) {
    let mut operands: Vec<PathBuf> = args.paths.clone();
    let last = operands.len() - 1;
    for (n, path) in operands.iter_mut().enumerate() {
        // What a symbolic link holds is kept as it is.
        if n == last || !args.symbolic {
            *path = crate::cwd::resolve(path);
        }
    }
    match targets(args, &operands, context) {
        Err(problem) => context.report.problem(problem),
        Ok(links) => {
            for (original, link) in links {
                if context.report.stopped() {
                    break;
                }
                if let Err(problem) = one(args, context, &original, &link) {
                    context.report.problem(problem);
                }
            }
        }
    }
}

fn targets(
    args: &Ln,
    operands: &[PathBuf],
    context: &Context<'_>,
) -> Result<Vec<(PathBuf, PathBuf)>, Problem> {
    if !args.symbolic {
        return operands::targets(operands, context);
    }
    let Some((last, sources)) = operands.split_last() else {
        return Ok(Vec::new());
    };
    let last = paths::check(last)?;
    let into = context
        .client
        .metadata(last)
        .is_ok_and(|found| found.is_dir());
    if !into && sources.len() > 1 {
        return Err(Problem::about(last, "is not a directory; make it first"));
    }
    let place = |source: &PathBuf| match paths::last_name(source) {
        Some(name) if into => last.join(name),
        _ => last.to_path_buf(),
    };
    Ok(sources
        .iter()
        .map(|source| (source.clone(), place(source)))
        .collect())
}

fn one(args: &Ln, context: &Context<'_>, original: &Path, link: &Path) -> Result<(), Problem> {
    let make = || match args.symbolic {
        true => context.client.symlink(original, link),
        false => context.client.hard_link(original, link),
    };
    match make() {
        Err(error) if args.force && error.errno() == Errno::EXIST.raw_os_error() => {
            context.client.remove_file(link)?;
            Ok(make()?)
        }
        made => Ok(made?),
    }
}
