//! `fusewire cp`

use crate::context::Context;
use crate::copy::special_target;
use crate::copy::temporary::{self, Names};
use crate::operands;
use crate::report::{self, Problem};
use crate::steady::{Step, Tree};
use clap::Args;
use fusewire::{Client, File, Metadata, OpenOptions, Time, Times};
use rustix::io::Errno;
use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

/// Set-user-id and set-group-id.
const SET_ID: u32 = 0o6000;

/// Rights of what is still to be filled or given away: nobody's but the owner's.
const OWN: u32 = 0o700;

/// Copy files within the source
///
/// The daemon copies the contents by itself if it can; holes and
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
    /// Replace files that cannot be written to
    #[arg(short, long)]
    pub force: bool,
    /// Files, and at last the new name, or the directory to copy into
    #[arg(required = true, value_parser = crate::args::path())]
    pub paths: Vec<PathBuf>,
}

/// Copies the operands.
pub fn run(args: &Cp, context: &Context<'_>) {
    let names = Names::new();
    operands::each_target(&args.paths, context, |from, to| {
        operand(args, context, &names, from, to)
    });
}

fn operand(
    args: &Cp,
    context: &Context<'_>,
    names: &Names,
    from: &Path,
    to: &Path,
) -> Result<(), Problem> {
    let client = context.client;
    let recursive = args.recursive || args.archive;
    let found = match recursive {
        true => client.symlink_metadata(from)?,
        false => client.metadata(from)?,
    };
    if found.is_dir() && !recursive {
        return Err(Problem::about(from, "is a directory; use -r to copy it"));
    }
    let target = operands::real(client, to)?;
    let source = match found.is_symlink() {
        true => operands::real(client, from)?,
        false => client.canonicalize(from)?,
    };
    let copy = Copy {
        args,
        client: client.no_symlinks(),
        following: client,
        names,
        links: match recursive {
            true => Links::Replace,
            false => Links::Follow,
        },
        known_as: [
            (target.clone(), to.to_path_buf()),
            (source.clone(), from.to_path_buf()),
        ],
    };
    if !found.is_dir() {
        return copy.one(&source, &found, &target);
    }
    if target.starts_with(&source) {
        return Err(Problem::about(
            from,
            "cannot be copied into itself; name another place",
        ));
    }
    let source = Tree::new(client, from)?;
    copy.tree(context, &source, &target);
    Ok(())
}

/// Whether a directory is new.
enum Made {
    New,
    Before(Metadata),
}

/// What happens with a symbolic link where a copy is to go.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Links {
    Follow,
    Replace,
}

struct Copy<'a> {
    args: &'a Cp,
    /// Follows no symbolic links.
    client: Client,
    /// Follows them.
    following: &'a Client,
    names: &'a Names,
    links: Links,
    /// Paths without links, and how the user knows them.
    known_as: [(PathBuf, PathBuf); 2],
}

impl Copy<'_> {
    /// Whether owners, times and all bits are kept.
    fn keeps_all(&self) -> bool {
        self.args.preserve || self.args.archive
    }

    /// A path as the user knows it.
    fn shown(&self, path: &Path) -> PathBuf {
        let known = self.known_as.iter().find_map(|(real, given)| {
            let rest = path.strip_prefix(real).ok()?;
            Some(match rest.as_os_str().is_empty() {
                true => given.clone(),
                false => given.join(rest),
            })
        });
        known.unwrap_or_else(|| path.to_path_buf())
    }

    fn problem(&self, error: &fusewire::Error) -> Problem {
        Problem::remote(error, &self.shown(error.path()))
    }

    /// A directory with everything below. What fails is reported, and the rest goes on.
    fn tree(&self, context: &Context<'_>, source: &Tree, target: &Path) {
        source.each(
            context,
            |entry| {
                let path = entry.path();
                let to = source.moved(&path, target);
                let found = entry.metadata().map_err(|error| self.problem(&error))?;
                if !found.is_dir() {
                    self.one(&path, &found, &to)?;
                    return Ok(Step::On);
                }
                match self.directory(&path, &to) {
                    // Directories get their bits and times when what is in them has been made.
                    Ok(Made::New) => Ok(Step::Then((to, found, None))),
                    Ok(Made::Before(there)) if self.keeps_all() => {
                        Ok(Step::Then((to, found, Some(there))))
                    }
                    Ok(Made::Before(_)) => Ok(Step::On),
                    Err(problem) => {
                        context.report.problem(problem);
                        Ok(Step::Skip)
                    }
                }
            },
            |(path, found, there)| {
                self.keep(&path, &found, there.as_ref())
                    .map_err(|error| self.problem(&error))
            },
        );
    }

    /// Makes a directory that can be filled.
    fn directory(&self, from: &Path, to: &Path) -> Result<Made, Problem> {
        match self.client.create_dir_with_mode(to, OWN) {
            Ok(()) => Ok(Made::New),
            Err(error) if error.errno() == Errno::EXIST.raw_os_error() => {
                let there = self.client.symlink_metadata(to);
                let there = there.map_err(|error| self.problem(&error))?;
                if !there.is_dir() {
                    let from = report::shown(&self.shown(from));
                    let why =
                        format!("is no directory and was not replaced by the directory {from}");
                    return Err(Problem::about(&self.shown(to), why));
                }
                Ok(Made::Before(there))
            }
            Err(error) => Err(self.problem(&error)),
        }
    }

    /// What is there, if anything.
    fn there(&self, to: &Path) -> fusewire::Result<Option<Metadata>> {
        match self.client.symlink_metadata(to) {
            Ok(there) => Ok(Some(there)),
            Err(error) if error.errno() == Errno::NOENT.raw_os_error() => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Something that is no directory.
    fn one(&self, from: &Path, found: &Metadata, to: &Path) -> Result<(), Problem> {
        let problem = |error: fusewire::Error| self.problem(&error);
        let there = self.there(to).map_err(problem)?;
        let Some(there) = there else {
            return self.make(from, found, to).map_err(problem);
        };
        if self.args.no_clobber {
            return Ok(());
        }
        if self.is_same(from, found, to, &there) {
            return Err(operands::same_file(&self.shown(from), &self.shown(to)));
        }
        if self.links == Links::Follow && there.is_symlink() {
            return self.through_link(from, found, to);
        }
        self.over(from, found, to, &there)
    }

    /// Whether two names of one file were given, by way of links perhaps. Two links that lead to
    /// one file are two things.
    fn is_same(&self, from: &Path, found: &Metadata, to: &Path, there: &Metadata) -> bool {
        let leads = |link: &Metadata, path: &Path, end: &Metadata| {
            let led = || self.following.metadata(path);
            link.is_symlink() && led().is_ok_and(|led| operands::is_same(&led, end))
        };
        operands::is_same(found, there) || leads(found, from, there) || leads(there, to, found)
    }

    /// Over what a link leads to.
    fn through_link(&self, from: &Path, found: &Metadata, to: &Path) -> Result<(), Problem> {
        let end = match self.following.canonicalize(to) {
            Ok(end) => end,
            Err(error) if error.errno() == Errno::NOENT.raw_os_error() => {
                let why = "is a link to nothing and was not written through; name another target";
                return Err(Problem::about(&self.shown(to), why));
            }
            Err(error) => return Err(self.problem(&error)),
        };
        let about = |error: fusewire::Error| Problem::remote(&error, &self.shown(to));
        let there = self.client.symlink_metadata(&end).map_err(about)?;
        self.over(from, found, &end, &there)
    }

    /// Over what is there.
    fn over(
        &self,
        from: &Path,
        found: &Metadata,
        to: &Path,
        there: &Metadata,
    ) -> Result<(), Problem> {
        let problem = |error: fusewire::Error| self.problem(&error);
        if there.is_dir() {
            let why = "is a directory and was not replaced; name another target";
            return Err(Problem::about(&self.shown(to), why));
        }
        if found.is_file() && !there.is_symlink() {
            if !there.is_file() {
                return Err(special_target(&self.shown(to)));
            }
            return match self.overwrite(from, to) {
                Err(error) if self.args.force && is_closed(&error, to) => {
                    self.replace(from, found, to)
                }
                done => done.map_err(problem),
            };
        }
        self.replace(from, found, to)
    }

    /// In the place of what is there.
    fn replace(&self, from: &Path, found: &Metadata, to: &Path) -> Result<(), Problem> {
        temporary::replace(&self.client, self.names, to, |at| {
            self.make(from, found, at)
        })
        .map_err(|error| match error.path() == from {
            true => self.problem(&error),
            // The other names it knows are nobody's.
            false => Problem::remote(&error, &self.shown(to)),
        })
    }

    /// Makes a copy where nothing is.
    fn make(&self, from: &Path, found: &Metadata, to: &Path) -> fusewire::Result<()> {
        let client = &self.client;
        if found.is_file() {
            let source = client.open(from)?;
            let meta = source.metadata()?;
            let mut options = OpenOptions::new();
            options
                .write(true)
                .create_new(true)
                .mode(meta.mode() & OWN | 0o200);
            let target = options.open(client, to)?;
            return self.fill(&source, target, to, None);
        }
        if found.is_symlink() {
            client.symlink(client.read_link(from)?, to)?;
        } else {
            let kind = found.mode() & 0o170_000;
            client.mknod(to, kind | found.mode() & OWN, found.rdev())?;
        }
        self.keep(to, found, None)
    }

    /// Writes over a file.
    fn overwrite(&self, from: &Path, to: &Path) -> fusewire::Result<()> {
        let source = self.client.open(from)?;
        let target = OpenOptions::new().write(true).open(&self.client, to)?;
        let there = target.metadata()?;
        if there.mode() & SET_ID != 0 {
            target.set_permissions(Permissions::from_mode(there.mode() & 0o1777))?;
        }
        self.fill(&source, target, to, Some(&there))
    }

    /// Gives a file the contents of another, and what it keeps besides.
    fn fill(
        &self,
        source: &File,
        target: File,
        to: &Path,
        there: Option<&Metadata>,
    ) -> fusewire::Result<()> {
        let filled = source
            .metadata()
            .and_then(|found| source.copy_to(&target).map(|_| found));
        let cancelled = |e: &fusewire::Error| e.errno() == Errno::INTR.raw_os_error();
        if there.is_none() && filled.as_ref().is_err_and(cancelled) {
            // A command that was cancelled leaves no half of a copy.
            let _ = self.client.separate().remove_file(to);
        }
        let found = filled?;
        let mode = found.mode() & self.give(to, &found, there)?;
        if target.metadata()?.mode() & 0o7777 != mode {
            target.set_permissions(Permissions::from_mode(mode))?;
        }
        if self.keeps_all() {
            target.set_times(times(&found))?;
        }
        target.close()
    }

    /// Gives a copy what it keeps of the original.
    fn keep(&self, to: &Path, found: &Metadata, there: Option<&Metadata>) -> fusewire::Result<()> {
        let mask = self.give(to, found, there)?;
        if !found.is_symlink() {
            let mode = Permissions::from_mode(found.mode() & mask);
            self.client.set_permissions(to, mode)?;
        }
        if self.keeps_all() {
            self.client.set_symlink_times(to, times(found))?;
        }
        Ok(())
    }

    /// Gives a copy its owner, if that is kept; returns the bits of the mode that it may have then.
    /// They come last: they were meant for that owner.
    fn give(&self, to: &Path, found: &Metadata, there: Option<&Metadata>) -> fusewire::Result<u32> {
        if !self.keeps_all() {
            return Ok(0o1777);
        }
        if let Some(there) = there
            && (there.uid(), there.gid()) != (found.uid(), found.gid())
        {
            let mode = there.mode() & found.mode() & OWN;
            self.client
                .set_permissions(to, Permissions::from_mode(mode))?;
        }
        // Only root gives files away; the rest is kept all the same, but nobody else's rights are
        // given to whoever runs it.
        match self.client.lchown(to, Some(found.uid()), Some(found.gid())) {
            Ok(()) => Ok(0o7777),
            Err(error) if error.errno() == Errno::PERM.raw_os_error() => Ok(0o1777),
            Err(error) => Err(error),
        }
    }
}

/// Whether a file was not opened for want of rights.
fn is_closed(error: &fusewire::Error, file: &Path) -> bool {
    error.errno() == Errno::ACCESS.raw_os_error() && error.path() == file
}

fn times(found: &Metadata) -> Times {
    Times {
        accessed: Some(Time::At(found.atime(), found.atime_nsec())),
        modified: Some(Time::At(found.mtime(), found.mtime_nsec())),
    }
}
