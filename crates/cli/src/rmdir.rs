//! `fusewire rmdir`

use crate::context::Context;
use crate::operands;
use crate::report::Problem;
use clap::Args;
use rustix::io::Errno;
use std::path::{Path, PathBuf};

/// Remove empty directories
#[derive(Args, Debug)]
pub struct Rmdir {
    /// Remove the directories above that are in the path, too
    #[arg(short, long)]
    pub parents: bool,
    /// Paths in the source
    #[arg(required = true, value_parser = crate::args::path())]
    pub paths: Vec<PathBuf>,
}

/// Removes the operands.
pub fn run(args: &Rmdir, context: &Context<'_>) {
    operands::each(&args.paths, context, |path| {
        one(context, path)?;
        let above = path.ancestors().skip(1);
        for path in above.take_while(|path| args.parents && path.file_name().is_some()) {
            one(context, path)?;
        }
        Ok(())
    });
}

fn one(context: &Context<'_>, path: &Path) -> Result<(), Problem> {
    context.client.remove_dir(path).map_err(|error| {
        let full = [Errno::NOTEMPTY, Errno::EXIST];
        match full.contains(&Errno::from_raw_os_error(error.errno())) {
            true => Problem::about(path, "is not empty; use rm -r to remove it with all below"),
            false => error.into(),
        }
    })
}
