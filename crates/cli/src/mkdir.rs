//! `fusewire mkdir`

use crate::context::Context;
use crate::mode_change::ModeChange;
use crate::operands;
use crate::report::Problem;
use clap::Args;
use rustix::io::Errno;
use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

/// Make directories
#[derive(Args, Debug)]
pub struct Mkdir {
    /// Make the directories above, too, and take what exists
    #[arg(short, long)]
    pub parents: bool,
    /// The mode of the directories, without regard to the umask: in octal digits, or changes of
    /// a=rwx such as go-w. Those above get the usual one
    #[arg(short, long, value_name = "MODE", allow_hyphen_values = true)]
    pub mode: Option<ModeChange>,
    /// Paths in the source
    #[arg(required = true, value_parser = crate::args::path())]
    pub paths: Vec<PathBuf>,
}

/// Makes the operands.
pub fn run(args: &Mkdir, context: &Context<'_>) {
    operands::each(&args.paths, context, |path| match &args.mode {
        Some(mode) => with_mode(args, context, path, mode),
        None if args.parents => Ok(context.client.create_dir_all(path)?),
        None => Ok(context.client.create_dir(path)?),
    });
}

fn with_mode(
    args: &Mkdir,
    context: &Context<'_>,
    path: &Path,
    mode: &ModeChange,
) -> Result<(), Problem> {
    let client = context.client;
    if args.parents
        && let Some(above) = path.parent().filter(|above| !above.as_os_str().is_empty())
    {
        client.create_dir_all(above)?;
    }
    let mode = mode.apply(0o777, true, client.umask());
    // Nobody gets in before it has its mode.
    match client.create_dir_with_mode(path, mode & 0o700) {
        Err(error) if args.parents && error.errno() == Errno::EXIST.raw_os_error() => {
            match client.metadata(path)?.is_dir() {
                true => Ok(()),
                false => Err(error.into()),
            }
        }
        made => {
            made?;
            Ok(client.set_permissions(path, Permissions::from_mode(mode))?)
        }
    }
}
