//! `fusewire chmod`

use crate::context::Context;
use crate::mode_change::ModeChange;
use crate::operands;
use crate::report::Problem;
use crate::steady::{Step, Tree};
use clap::Args;
use fusewire::{Client, Metadata};
use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

/// Rights that the owner of a directory needs to go down into it.
const ENTER: u32 = 0o500;

/// Set permission bits
#[derive(Args, Debug)]
pub struct Chmod {
    /// Change directories with everything below; symbolic links are left alone then
    #[arg(short = 'R', long)]
    pub recursive: bool,
    /// The new mode in octal digits (four at most leave the set-id bits of directories that they do
    /// not name), or changes such as u+x,go-w and a=rX
    #[arg(allow_hyphen_values = true)]
    pub mode: ModeChange,
    /// Paths in the source
    #[arg(required = true, value_parser = crate::args::path())]
    pub paths: Vec<PathBuf>,
}

/// Changes the operands.
pub fn run(args: &Chmod, context: &Context<'_>) {
    let client = context.client;
    operands::each(&args.paths, context, |path| {
        if !args.recursive {
            let found = client.metadata(path)?;
            return Ok(set(client, path, args.new_mode(&found, client))?);
        }
        match client.symlink_metadata(path)?.is_symlink() {
            true => Ok(()),
            false => below(args, context, path),
        }
    });
}

impl Chmod {
    fn new_mode(&self, found: &Metadata, client: &Client) -> u32 {
        let mode = found.mode() & 0o7777;
        self.mode.apply(mode, found.is_dir(), client.umask())
    }
}

fn set(client: &Client, path: &Path, mode: u32) -> fusewire::Result<()> {
    client.set_permissions(path, Permissions::from_mode(mode))
}

/// An operand with everything below. A directory that is to be closed is so when everything below has been changed, one that is to be
/// opened before.
fn below(args: &Chmod, context: &Context<'_>, top: &Path) -> Result<(), Problem> {
    let tree = Tree::new(context.client, top)?;
    let set = |path: &Path, mode| set(&tree.client, path, mode).map_err(|e| tree.problem(&e));
    tree.each(
        context,
        |entry| {
            if entry.file_type().is_symlink() {
                return Ok(Step::On);
            }
            let path = entry.path();
            let found = entry.metadata().map_err(|e| tree.problem(&e))?;
            let mode = args.new_mode(&found, &tree.client);
            if found.is_dir() && found.mode() & !mode & ENTER != 0 {
                return Ok(Step::Then((path, mode)));
            }
            set(&path, mode)?;
            Ok(Step::On)
        },
        |(path, mode)| set(&path, mode),
    );
    Ok(())
}
