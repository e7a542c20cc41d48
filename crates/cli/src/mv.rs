//! `fusewire mv`

use crate::context::Context;
use crate::operands;
use crate::report::Problem;
use clap::Args;
use rustix::io::Errno;
use std::path::{Path, PathBuf};

/// Give files and directories other names
///
/// What has a name already is replaced, as
/// rename(2) does.
#[derive(Args, Debug)]
#[command(override_usage = "fusewire mv [OPTIONS] SRC... DST")]
pub struct Mv {
    /// Replace nothing
    #[arg(short, long, overrides_with = "force")]
    pub no_clobber: bool,
    /// Replace what is there, as is done without -n
    #[arg(short, long)]
    pub force: bool,
    /// Old names, and at last the new one, or the directory to move into
    #[arg(required = true, value_parser = crate::args::path())]
    pub paths: Vec<PathBuf>,
}

/// Moves the operands.
pub fn run(args: &Mv, context: &Context<'_>) {
    operands::each_target(&args.paths, context, |from, to| {
        one(args, context, from, to)
    });
}

fn one(args: &Mv, context: &Context<'_>, from: &Path, to: &Path) -> Result<(), Problem> {
    let client = context.client;
    if !args.no_clobber && operands::replaces_itself(client, from, to)? {
        return Err(operands::same_file(from, to));
    }
    let exists = || Problem::about(to, "exists, so nothing was moved there");
    let mut moved = match args.no_clobber {
        true => client.rename_no_replace(from, to),
        false => client.rename(from, to),
    };
    if let Err(error) = &moved
        && args.no_clobber
    {
        if error.errno() == Errno::EXIST.raw_os_error() {
            return Err(exists());
        }
        // The daemon cannot promise it, so it is looked at first.
        if error.errno() == Errno::INVAL.raw_os_error() {
            match client.symlink_metadata(to) {
                Err(error) if error.errno() == Errno::NOENT.raw_os_error() => {}
                found => return Err(found.map_or_else(Problem::from, |_| exists())),
            }
            moved = client.rename(from, to);
        }
    }
    moved.map_err(|error| {
        let why = match Errno::from_raw_os_error(error.errno()) {
            Errno::INVAL => "cannot be moved into itself; name another place",
            Errno::XDEV => {
                "is in another file system than the target; copy it with cp -a and remove it"
            }
            Errno::NOTEMPTY | Errno::EXIST => {
                return Problem::about(to, "is a directory that is not empty; remove it first");
            }
            _ => return error.into(),
        };
        Problem::about(from, why)
    })
}
