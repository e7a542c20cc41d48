//! `fusewire chown`

use crate::context::Context;
use crate::operands;
use crate::report::Problem;
use clap::Args;
use nix::unistd::{Group, User};
use std::path::{Path, PathBuf};
use std::str::FromStr;

/// Sets owners and groups. Names are those of this host.
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
    /// OWNER, OWNER:GROUP or :GROUP, by name or number
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
        let owner = Owner {
            user: (!user_name.is_empty())
                .then(|| user(user_name))
                .transpose()?,
            group: (!group_name.is_empty())
                .then(|| group(group_name))
                .transpose()?,
        };
        if owner.user.is_none() && owner.group.is_none() {
            return Err("name an owner, a group, or both".to_owned());
        }
        Ok(owner)
    }
}

/// Changes the operands.
pub fn run(args: &Chown, context: &Context<'_>) {
    if args.recursive {
        operands::each_tree(&args.paths, context, |path| one(args, context, path, false));
    } else {
        let follow = !args.no_dereference;
        operands::each(&args.paths, context, |path| {
            one(args, context, path, follow)
        });
    }
}

fn one(args: &Chown, context: &Context<'_>, path: &Path, follow: bool) -> Result<(), Problem> {
    let Owner { user, group } = args.owner;
    match follow {
        true => context.client.chown(path, user, group)?,
        false => context.client.lchown(path, user, group)?,
    }
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
        assert_eq!("12:".parse(), owner(Some(12), None));
        for wrong in ["", ":", "no such user", "1:no such group", "4294967295"] {
            assert!(wrong.parse::<Owner>().is_err(), "{wrong}");
        }
    }
}
