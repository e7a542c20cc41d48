//! `fusewire readlink`

use crate::context::Context;
use crate::paths;
use crate::report::Problem;
use crate::show::json::{self, Object};
use crate::show::output::Output;
use clap::Args;
use std::io::{self, Write};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// Show where symbolic links lead
#[derive(Args, Debug)]
pub struct Readlink {
    /// Show the path from the root to what each path leads to in the end
    #[arg(short = 'f', long)]
    pub canonicalize: bool,
    #[arg(long, help = json::help("path, target"))]
    pub json: bool,
    /// Paths in the source
    #[arg(required = true, value_parser = crate::args::path())]
    pub paths: Vec<PathBuf>,
}

/// Shows the targets of the operands.
///
/// # Errors
/// When the output cannot be written.
pub fn run(args: &Readlink, context: &Context<'_>) -> io::Result<()> {
    let mut out = Output::new();
    for path in &args.paths {
        if context.report.stopped() {
            break;
        }
        match target(args, context, path) {
            Err(problem) => context.report.problem(problem),
            Ok(target) if args.json => Object::default()
                .name("path", path.as_os_str().as_bytes())
                .name("target", target.as_os_str().as_bytes())
                .write(&mut out)?,
            Ok(target) => {
                out.name(target.as_os_str().as_bytes())?;
                out.end_line()?;
            }
        }
    }
    out.flush()
}

fn target(args: &Readlink, context: &Context<'_>, path: &Path) -> Result<PathBuf, Problem> {
    let path = paths::check(path)?;
    Ok(match args.canonicalize {
        true => context.client.canonicalize(path)?,
        false => context.client.read_link(path)?,
    })
}
