//! `fusewire cp`

use crate::context::Context;
use crate::operands;
use crate::report::Problem;
use clap::Args;
use fusewire::{Metadata, Time, Times, WalkEntry};
use rustix::io::Errno;
use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

/// Copies files within the source. The daemon copies the contents by itself if it can; permission
/// bits are kept, set-user-id and set-group-id bits only with -p.
#[derive(Args, Debug)]
pub struct Cp {
    /// Copy directories with everything below, and symbolic links as links
    #[arg(short, long)]
    pub recursive: bool,
    /// Keep times, owners, and all mode bits, too
    #[arg(short, long)]
    pub preserve: bool,
    /// As -r and -p together
    #[arg(short, long)]
    pub archive: bool,
    /// Replace nothing
    #[arg(short, long)]
    pub no_clobber: bool,
    /// Files, and at last the new name, or the directory to copy into
    #[arg(required = true, num_args = 2.., value_parser = crate::args::path(), value_names = ["SRC", "DST"])]
    pub paths: Vec<PathBuf>,
}

/// Copies the operands.
pub fn run(args: &Cp, context: &Context<'_>) {
    match operands::targets(&args.paths, context) {
        Err(problem) => context.report.problem(problem),
        Ok(copies) => {
            for (from, to) in copies {
                if context.report.stopped() {
                    break;
                }
                if let Err(problem) = operand(args, context, &from, &to) {
                    context.report.problem(problem);
                }
            }
        }
    }
}

fn operand(args: &Cp, context: &Context<'_>, from: &Path, to: &Path) -> Result<(), Problem> {
    let client = context.client;
    let recursive = args.recursive || args.archive;
    let found = match recursive {
        true => client.symlink_metadata(from)?,
        false => client.metadata(from)?,
    };
    if !found.is_dir() {
        return one(args, context, from, &found, to);
    }
    if !recursive {
        return Err(Problem::about(from, "is a directory; use -r to copy it"));
    }
    let (source, target) = (client.canonicalize(from)?, real_target(context, to)?);
    if target.starts_with(&source) {
        return Err(Problem::about(
            from,
            "cannot be copied into itself; name another place",
        ));
    }
    tree(args, context, from, to);
    Ok(())
}

/// The path of what is to be made, without links on the way.
fn real_target(context: &Context<'_>, to: &Path) -> Result<PathBuf, Problem> {
    let client = context.client;
    match client.canonicalize(to) {
        Err(error) if error.errno() == Errno::NOENT.raw_os_error() => {
            let (Some(above), Some(name)) = (to.parent(), to.file_name()) else {
                return Err(error.into());
            };
            let above = match above.as_os_str().is_empty() {
                true => Path::new("/"),
                false => above,
            };
            Ok(client.canonicalize(above)?.join(name))
        }
        real => Ok(real?),
    }
}

/// A directory with everything below. What fails is reported, and the rest goes on.
fn tree(args: &Cp, context: &Context<'_>, from: &Path, to: &Path) {
    // Directories get their bits and times when what is in them has been made.
    let mut open: Vec<(usize, PathBuf, Metadata)> = Vec::new();
    let mut walk = context.client.walk(from).into_iter();
    while let Some(entry) = walk.next() {
        if context.report.stopped() {
            return;
        }
        let entry = match entry {
            Ok(entry) => entry,
            Err(error) => {
                context.report.problem(error.into());
                continue;
            }
        };
        while open
            .last()
            .is_some_and(|(depth, ..)| *depth >= entry.depth())
        {
            finish(args, context, open.pop());
        }
        let target = below(from, &entry, to);
        match enter(args, context, &entry, &target) {
            Ok(Some(found)) => open.push((entry.depth(), target, found)),
            Ok(None) => {}
            Err(problem) => {
                context.report.problem(problem);
                if entry.file_type().is_dir() {
                    walk.skip_current_dir();
                }
            }
        }
    }
    while let Some(last) = open.pop() {
        finish(args, context, Some(last));
    }
}

/// Where the copy of an entry goes.
fn below(from: &Path, entry: &WalkEntry, to: &Path) -> PathBuf {
    let path = entry.path();
    match path.strip_prefix(from) {
        Ok(rest) if !rest.as_os_str().is_empty() => to.join(rest),
        _ => to.to_path_buf(),
    }
}

/// Copies an entry; of a directory, makes it and returns what it is to become.
fn enter(
    args: &Cp,
    context: &Context<'_>,
    entry: &WalkEntry,
    target: &Path,
) -> Result<Option<Metadata>, Problem> {
    let found = entry.metadata()?;
    if !found.is_dir() {
        one(args, context, &entry.path(), &found, target)?;
        return Ok(None);
    }
    match context.client.create_dir_with_mode(target, 0o700) {
        Err(error) if error.errno() == Errno::EXIST.raw_os_error() => {
            let there = context.client.symlink_metadata(target)?;
            if !there.is_dir() {
                return Err(Problem::about(target, "is there and no directory"));
            }
            Ok(None)
        }
        made => {
            made?;
            Ok(Some(found))
        }
    }
}

fn finish(args: &Cp, context: &Context<'_>, directory: Option<(usize, PathBuf, Metadata)>) {
    if let Some((_, path, found)) = directory
        && let Err(problem) = keep(args, context, &path, &found)
    {
        context.report.problem(problem);
    }
}

/// Something that is no directory.
fn one(
    args: &Cp,
    context: &Context<'_>,
    from: &Path,
    found: &Metadata,
    to: &Path,
) -> Result<(), Problem> {
    let client = context.client;
    if args.no_clobber && client.symlink_metadata(to).is_ok() {
        return Ok(());
    }
    if found.is_file() {
        client.copy(from, to)?;
    } else if found.is_symlink() {
        let target = client.read_link(from)?;
        remake(context, to, || client.symlink(&target, to))?;
    } else {
        remake(context, to, || client.mknod(to, found.mode(), found.rdev()))?;
    }
    keep(args, context, to, found)
}

/// Makes something that cannot be overwritten, in the place of what is there.
fn remake(
    context: &Context<'_>,
    to: &Path,
    make: impl Fn() -> fusewire::Result<()>,
) -> Result<(), Problem> {
    match make() {
        Err(error) if error.errno() == Errno::EXIST.raw_os_error() => {
            context.client.remove_file(to)?;
            Ok(make()?)
        }
        made => Ok(made?),
    }
}

/// Gives the copy what it keeps of the original.
fn keep(args: &Cp, context: &Context<'_>, to: &Path, found: &Metadata) -> Result<(), Problem> {
    let client = context.client;
    let all = args.preserve || args.archive;
    if all {
        // Only root gives files away; the rest is kept all the same.
        let owned = client.lchown(to, Some(found.uid()), Some(found.gid()));
        let denied = |error: &fusewire::Error| error.errno() == Errno::PERM.raw_os_error();
        match owned {
            Err(error) if denied(&error) => {}
            owned => owned?,
        }
    }
    if !found.is_symlink() {
        let mask = if all { 0o7777 } else { 0o1777 };
        client.set_permissions(to, Permissions::from_mode(found.mode() & mask))?;
    }
    if all {
        let times = Times {
            accessed: Some(Time::At(found.atime(), found.atime_nsec())),
            modified: Some(Time::At(found.mtime(), found.mtime_nsec())),
        };
        client.set_symlink_times(to, times)?;
    }
    Ok(())
}
