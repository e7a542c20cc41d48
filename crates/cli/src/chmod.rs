//! `fusewire chmod`

use crate::context::Context;
use crate::mode_change::ModeChange;
use crate::operands;
use crate::report::Problem;
use clap::Args;
use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

/// Sets permission bits.
#[derive(Args, Debug)]
pub struct Chmod {
    /// Change directories with everything below; symbolic links below are left alone
    #[arg(short = 'R', long)]
    pub recursive: bool,
    /// The new mode in octal digits, or changes such as u+x,go-w and a=rX
    #[arg(allow_hyphen_values = true)]
    pub mode: ModeChange,
    /// Paths in the source
    #[arg(required = true, value_parser = crate::args::path())]
    pub paths: Vec<PathBuf>,
}

/// Changes the operands.
pub fn run(args: &Chmod, context: &Context<'_>) {
    if args.recursive {
        operands::each_tree(&args.paths, context, |path| one(args, context, path, false));
    } else {
        operands::each(&args.paths, context, |path| one(args, context, path, true));
    }
}

fn one(args: &Chmod, context: &Context<'_>, path: &Path, follow: bool) -> Result<(), Problem> {
    let client = context.client;
    let found = match follow {
        true => client.metadata(path)?,
        false => client.symlink_metadata(path)?,
    };
    if found.is_symlink() {
        return Ok(());
    }
    let mode = args
        .mode
        .apply(found.mode() & 0o7777, found.is_dir(), client.umask());
    client.set_permissions(path, Permissions::from_mode(mode))?;
    Ok(())
}
