//! `fusewire chown`

use crate::context::Context;
use crate::operands;
use crate::report::Problem;
use crate::steady::{Step, Tree};
use clap::Args;
use nix::unistd::{Group, Uid, User};
use std::path::{Path, PathBuf};
use std::str::FromStr;

/// Set owners and groups
///
/// Sets owners and groups. Names are those of this host; where a name is a number, too, the name
/// counts.
#[derive(Args, Debug)]
#[command(disable_help_flag = true)]
pub struct Chown {
    /// Change directories with everything below
    #[arg(short = 'R', long)]
    pub recursive: bool,
    /// Change symbolic links themselves, as it is done below directories in any case
    #[arg(short = 'h', long)]
    pub no_dereference: bool,
    /// Print help
    #[arg(long, action = clap::ArgAction::Help)]
    help: Option<bool>,
    /// OWNER, OWNER:GROUP or :GROUP, by name or number; OWNER: stands for the owner's own group, too
    pub owner: Owner,
    /// Paths in the source
    #[arg(required = true, value_parser = crate::args::path())]
    pub paths: Vec<PathBuf>,
}

/// A new owner, a new group, or both.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Owner {
    user: Option<u32>,
    group: Option<u32>,
}

/// The user with that name or number.
pub fn user(name: &str) -> Result<u32, String> {
    let found = User::from_name(name).ok().flatten();
    found
        .map(|user| user.uid.as_raw())
        .or_else(|| name.parse().ok())
        .filter(|id| *id != u32::MAX)
        .ok_or_else(|| format!("there is no user {name:?} here; give the number"))
}

/// The group with that name or number.
pub fn group(name: &str) -> Result<u32, String> {
    let found = Group::from_name(name).ok().flatten();
    found
        .map(|group| group.gid.as_raw())
        .or_else(|| name.parse().ok())
        .filter(|id| *id != u32::MAX)
        .ok_or_else(|| format!("there is no group {name:?} here; give the number"))
}

impl FromStr for Owner {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (user_name, group_name) = match text.split_once(':') {
            Some((user, group)) => (user, group),
            None => (text, ""),
        };
        let named = |name: &str, find: fn(&str) -> Result<u32, String>| match name {
            "" => Ok(None),
            name => find(name).map(Some),
        };
        let mut owner = Owner {
            user: named(user_name, user)?,
            group: named(group_name, group)?,
        };
        if let Some(uid) = owner.user
            && text.ends_with(':')
        {
            let known = User::from_uid(Uid::from_raw(uid)).ok().flatten();
            let known = known.ok_or_else(|| {
                format!("user {user_name:?} has no group of its own here; name the group")
            })?;
            owner.group = Some(known.gid.as_raw());
        }
        if owner.user.is_none() && owner.group.is_none() {
            return Err("name an owner, a group, or both".to_owned());
        }
        Ok(owner)
    }
}

/// Changes the operands.
pub fn run(args: &Chown, context: &Context<'_>) {
    let client = context.client;
    let Owner { user, group } = args.owner;
    operands::each(&args.paths, context, |path| {
        if args.recursive && client.symlink_metadata(path)?.is_dir() {
            return below(args, context, path);
        }
        match args.recursive || args.no_dereference {
            true => client.lchown(path, user, group)?,
            false => client.chown(path, user, group)?,
        }
        Ok(())
    });
}

/// Directories are given away after what is in them.
fn below(args: &Chown, context: &Context<'_>, top: &Path) -> Result<(), Problem> {
    let tree = Tree::new(context.client, top)?;
    let Owner { user, group } = args.owner;
    let set = |path: &Path| {
        let set = tree.client.lchown(path, user, group);
        set.map_err(|e| tree.problem(&e))
    };
    tree.each(
        context,
        |entry| {
            if entry.file_type().is_dir() {
                return Ok(Step::Then(entry.path()));
            }
            set(&entry.path())?;
            Ok(Step::On)
        },
        |path| set(&path),
    );
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn owners_are_names_or_numbers() {
        let owner = |user, group| Ok(Owner { user, group });
        assert_eq!("root".parse(), owner(Some(0), None));
        assert_eq!("root:root".parse(), owner(Some(0), Some(0)));
        assert_eq!(":7".parse(), owner(None, Some(7)));
        assert_eq!("root:".parse(), owner(Some(0), Some(0)));
        for wrong in [
            "",
            ":",
            "no such user",
            "1:no such group",
            "4294967295",
            "4000000001:",
        ] {
            assert!(wrong.parse::<Owner>().is_err(), "{wrong}");
        }
    }
}
