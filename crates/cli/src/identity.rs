//! `--as`: on whose behalf a command acts.

use crate::chown;
use fusewire::Identity;
use nix::unistd::{Uid, User};

/// Parses USER, USER:GROUP or USER:GROUP,GROUP…, by names or numbers. Without a group it is the
/// user's own, and for a user unknown here the group of the same number.
///
/// # Errors
/// What is wrong, for people.
pub fn parse(text: &str) -> Result<Identity, String> {
    let (user, groups) = match text.split_once(':') {
        Some((user, groups)) => (user, groups.split(',').collect()),
        None => (text, Vec::new()),
    };
    let uid = chown::user(user)?;
    let groups = groups
        .into_iter()
        .map(chown::group)
        .collect::<Result<Vec<_>, _>>()?;
    let own = || {
        let known = User::from_uid(Uid::from_raw(uid)).ok().flatten();
        known.map_or(uid, |user| user.gid.as_raw())
    };
    let (gid, further) = match groups.split_first() {
        Some((first, further)) => (*first, further.to_vec()),
        None => (own(), Vec::new()),
    };
    let mut identity = Identity::user(uid, gid);
    identity.groups = further;
    Ok(identity)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn identities_are_names_or_numbers() {
        assert_eq!(parse("root"), Ok(Identity::user(0, 0)));
        assert_eq!(
            parse("4000000001"),
            Ok(Identity::user(4_000_000_001, 4_000_000_001))
        );
        let mut several = Identity::user(5, 6);
        several.groups = vec![7, 0];
        assert_eq!(parse("5:6,7,root"), Ok(several));
        for wrong in ["", ":", "no such user", "1:", "4294967295"] {
            assert!(parse(wrong).is_err(), "{wrong}");
        }
    }
}
