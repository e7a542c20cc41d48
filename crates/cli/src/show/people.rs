//! Names of users and groups, as this host knows them.

use nix::unistd::{Gid, Group, Uid, User};
use std::collections::HashMap;

/// Most names that are remembered: a daemon may make any number of owners up.
const MAX_KNOWN: usize = 4096;

/// Looks names up once.
#[derive(Default)]
pub struct People {
    users: HashMap<u32, String>,
    groups: HashMap<u32, String>,
}

impl People {
    /// The user's name, or the number if there is none.
    pub fn user(&mut self, uid: u32) -> &str {
        if self.users.len() >= MAX_KNOWN {
            self.users.clear();
        }
        self.users.entry(uid).or_insert_with(|| {
            let user = User::from_uid(Uid::from_raw(uid)).ok().flatten();
            user.map_or_else(|| uid.to_string(), |user| user.name)
        })
    }

    /// The group's name, or the number if there is none.
    pub fn group(&mut self, gid: u32) -> &str {
        if self.groups.len() >= MAX_KNOWN {
            self.groups.clear();
        }
        self.groups.entry(gid).or_insert_with(|| {
            let group = Group::from_gid(Gid::from_raw(gid)).ok().flatten();
            group.map_or_else(|| gid.to_string(), |group| group.name)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_without_a_name_stay_numbers() {
        let mut people = People::default();
        assert_eq!(people.user(0), "root");
        assert_eq!(people.group(0), "root");
        assert_eq!(people.user(4_000_000_001), "4000000001");
        assert_eq!(people.group(4_000_000_001), "4000000001");
    }
}
