//! `fusewire ln`

use crate::args::LongSource;
use crate::context::Context;
use crate::copy::temporary::{self, Names};
use crate::operands;
use crate::paths;
use crate::report::Problem;
use clap::Args;
use fusewire::{Client, Metadata};
use rustix::io::Errno;
use std::path::{Path, PathBuf};

/// Make hard and symbolic links
#[derive(Args, Debug)]
#[command(override_usage = "fusewire ln [OPTIONS] SRC... DST")]
pub struct Ln {
    /// Make symbolic links; SRC is what they hold, whether it exists or not
    #[arg(short, long)]
    pub symbolic: bool,
    /// Replace what has the new name already, unless it is a directory
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
    let names = Names::new();
    match targets(args, &operands, context) {
        Err(problem) => context.report.problem(problem),
        Ok(links) => {
            for (original, link) in links {
                if context.report.stopped() {
                    break;
                }
                if let Err(problem) = one(args, context, &names, &original, &link) {
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

fn one(
    args: &Ln,
    context: &Context<'_>,
    names: &Names,
    original: &Path,
    link: &Path,
) -> Result<(), Problem> {
    let client = context.client;
    let make = |link: &Path| match args.symbolic {
        true => client.symlink(original, link),
        false => client.hard_link(original, link),
    };
    match make(link) {
        Err(error) if args.force && error.errno() == Errno::EXIST.raw_os_error() => {
            let there = client.symlink_metadata(link)?;
            if there.is_dir() {
                let why = "is a directory and was not replaced; name another link";
                return Err(Problem::about(link, why));
            }
            match Place::of(args, client, original, link, &there)? {
                Place::Other => {}
                Place::Done => return Ok(()),
                Place::Itself => return Err(operands::same_file(original, link)),
            }
            temporary::replace(client, names, link, make)
                .map_err(|error| Problem::remote(&error, link))
        }
        made => Ok(made?),
    }
}

/// What has the new name already.
enum Place {
    Other,
    /// The link.
    Done,
    /// What the link is to lead to, and no other name leads there.
    Itself,
}

impl Place {
    fn of(
        args: &Ln,
        client: &Client,
        original: &Path,
        link: &Path,
        there: &Metadata,
    ) -> fusewire::Result<Self> {
        let here = operands::real(client, link)?;
        if args.symbolic {
            let above = link.parent().unwrap_or(Path::new(""));
            // What leads nowhere does not lead here.
            let end = client.canonicalize(above.join(original));
            return Ok(
                match !there.is_symlink() && end.is_ok_and(|end| end == here) {
                    true => Place::Itself,
                    false => Place::Other,
                },
            );
        }
        let found = client.symlink_metadata(original)?;
        let is_done = operands::is_same(&found, there);
        if is_done && operands::real(client, original)? != here {
            return Ok(Place::Done);
        }
        Ok(match operands::replaces_itself(client, original, link)? {
            true => Place::Itself,
            false => Place::Other,
        })
    }
}
