//! `fusewire cp`

use crate::context::Context;
use crate::operands;
use crate::report::Problem;
use crate::steady::{Step, Tree};
use clap::Args;
use fusewire::{Client, Metadata, OpenOptions, Time, Times};
use rustix::io::Errno;
use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

/// Copies files within the source. The daemon copies the contents by itself if it can; holes and
/// permission bits are kept, set-user-id and set-group-id bits only with -p.
#[derive(Args, Debug)]
#[command(override_usage = "fusewire cp [OPTIONS] SRC... DST")]
pub struct Cp {
    /// Copy directories with everything below, and symbolic links as links. Symbolic links in the
    /// place of copies are replaced, and none is followed
    #[arg(short, long, visible_short_alias = 'R')]
    pub recursive: bool,
    /// Keep times, owners, and all mode bits, too
    #[arg(short, long)]
    pub preserve: bool,
    /// As -r and -p together
    #[arg(short, long)]
    pub archive: bool,
    /// Replace nothing
    #[arg(short, long, overrides_with = "force")]
    pub no_clobber: bool,
    /// Remove files that cannot be written to, and copy then
    #[arg(short, long)]
    pub force: bool,
    /// Files, and at last the new name, or the directory to copy into
    #[arg(required = true, value_parser = crate::args::path())]
    pub paths: Vec<PathBuf>,
}

/// Copies the operands.
pub fn run(args: &Cp, context: &Context<'_>) {
    operands::each_target(&args.paths, context, |from, to| {
        operand(args, context, from, to)
    });
}

fn operand(args: &Cp, context: &Context<'_>, from: &Path, to: &Path) -> Result<(), Problem> {
    let client = context.client;
    let recursive = args.recursive || args.archive;
    let found = match recursive {
        true => client.symlink_metadata(from)?,
        false => client.metadata(from)?,
    };
    if !found.is_dir() {
        let copy = Copy {
            args,
            client,
            links: if recursive {
                Links::Replace
            } else {
                Links::Follow
            },
        };
        return Ok(copy.one(from, &found, to)?);
    }
    if !recursive {
        return Err(Problem::about(from, "is a directory; use -r to copy it"));
    }
    let source = Tree::new(client, from)?;
    let target = real_target(client, to)?;
    if target.starts_with(&source.real) {
        return Err(Problem::about(
            from,
            "cannot be copied into itself; name another place",
        ));
    }
    tree(args, context, &source, &target);
    Ok(())
}

/// The path of what is to be made, without links on the way.
fn real_target(client: &Client, to: &Path) -> fusewire::Result<PathBuf> {
    let missing = match client.symlink_metadata(to) {
        Ok(_) => return client.canonicalize(to),
        Err(error) if error.errno() == Errno::NOENT.raw_os_error() => error,
        Err(error) => return Err(error),
    };
    let (Some(above), Some(name)) = (to.parent(), to.file_name()) else {
        return Err(missing);
    };
    let above = match above.as_os_str().is_empty() {
        true => Path::new("/"),
        false => above,
    };
    Ok(client.canonicalize(above)?.join(name))
}

/// A directory with everything below. What fails is reported, and the rest goes on.
fn tree(args: &Cp, context: &Context<'_>, source: &Tree, target: &Path) {
    let copy = Copy {
        args,
        client: &source.client,
        links: Links::Replace,
    };
    let problem = |error: fusewire::Error| source.problem(&error);
    source.each(
        context,
        |entry| {
            let path = entry.path();
            let to = source.moved(&path, target);
            let found = entry.metadata().map_err(problem)?;
            if !found.is_dir() {
                copy.one(&path, &found, &to).map_err(problem)?;
                return Ok(Step::On);
            }
            match copy.directory(&to) {
                // Directories get their bits and times when what is in them has been made.
                Ok(Made::New) => Ok(Step::Then((to, found))),
                Ok(Made::Before) if copy.keeps_all() => Ok(Step::Then((to, found))),
                Ok(Made::Before) => Ok(Step::On),
                Err(error) => {
                    context.report.problem(problem(error));
                    Ok(Step::Skip)
                }
            }
        },
        |(path, found)| copy.keep(&path, &found).map_err(problem),
    );
}

/// Whether a directory is new.
enum Made {
    New,
    Before,
}

/// What happens with a symbolic link where a copy is to go.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Links {
    Follow,
    Replace,
}

struct Copy<'a> {
    args: &'a Cp,
    client: &'a Client,
    links: Links,
}

impl Copy<'_> {
    /// Whether owners, times and all bits are kept.
    fn keeps_all(&self) -> bool {
        self.args.preserve || self.args.archive
    }

    /// Makes a directory that can be filled.
    fn directory(&self, to: &Path) -> fusewire::Result<Made> {
        match self.client.create_dir_with_mode(to, 0o700) {
            Ok(()) => Ok(Made::New),
            Err(error) if error.errno() == Errno::EXIST.raw_os_error() => {
                match self.client.symlink_metadata(to)?.is_dir() {
                    true => Ok(Made::Before),
                    false => Err(error),
                }
            }
            Err(error) => Err(error),
        }
    }

    /// Something that is no directory.
    fn one(&self, from: &Path, found: &Metadata, to: &Path) -> fusewire::Result<()> {
        let client = self.client;
        let there = match client.symlink_metadata(to) {
            Ok(there) => Some(there),
            Err(error) if error.errno() == Errno::NOENT.raw_os_error() => None,
            Err(error) => return Err(error),
        };
        if self.args.no_clobber && there.is_some() {
            return Ok(());
        }
        if found.is_file() {
            if self.links == Links::Replace && there.is_some_and(|there| there.is_symlink()) {
                client.remove_file(to)?;
            }
            self.contents(from, to)?;
        } else if found.is_symlink() {
            let target = client.read_link(from)?;
            self.remake(to, || client.symlink(&target, to))?;
        } else {
            let make = || client.mknod(to, found.mode() & !0o7000, found.rdev());
            self.remake(to, make)?;
        }
        self.keep(to, found)
    }

    fn contents(&self, from: &Path, to: &Path) -> fusewire::Result<()> {
        let copied = self.client.copy(from, to);
        match copied {
            Err(error) if self.args.force && error.errno() == Errno::ACCESS.raw_os_error() => {
                // The source may be what cannot be opened.
                OpenOptions::new().read(true).open(self.client, from)?;
                self.client.remove_file(to)?;
                self.client.copy(from, to).map(drop)
            }
            copied => copied.map(drop),
        }
    }

    /// Makes something that cannot be overwritten, in the place of what is there.
    fn remake(&self, to: &Path, make: impl Fn() -> fusewire::Result<()>) -> fusewire::Result<()> {
        match make() {
            Err(error) if error.errno() == Errno::EXIST.raw_os_error() => {
                self.client.remove_file(to)?;
                make()
            }
            made => made,
        }
    }

    /// Gives the copy what it keeps of the original.
    fn keep(&self, to: &Path, found: &Metadata) -> fusewire::Result<()> {
        let client = self.client;
        let mut mask = 0o1777;
        if self.keeps_all() {
            // Only root gives files away; the rest is kept all the same, but nobody else's rights
            // are given to whoever runs it.
            match client.lchown(to, Some(found.uid()), Some(found.gid())) {
                Ok(()) => mask = 0o7777,
                Err(error) if error.errno() == Errno::PERM.raw_os_error() => {}
                Err(error) => return Err(error),
            }
        }
        if !found.is_symlink() {
            client.set_permissions(to, Permissions::from_mode(found.mode() & mask))?;
        }
        if self.keeps_all() {
            let times = Times {
                accessed: Some(Time::At(found.atime(), found.atime_nsec())),
                modified: Some(Time::At(found.mtime(), found.mtime_nsec())),
            };
            client.set_symlink_times(to, times)?;
        }
        Ok(())
    }
}
