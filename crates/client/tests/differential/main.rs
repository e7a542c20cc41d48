//! Random operations of several users, through a virtiofsd and straight on a directory of the
//! host: results, errnos and the final trees have to agree.
//!
//! `FUSEWIRE_SEED` repeats a run; `FUSEWIRE_SOAK=1` makes it fifty times as long.

#[path = "../common/mod.rs"]
mod common;
mod host;
mod ops;
mod served;

use common::{Rng, peer_program, seed};
use fusewire::Client;
use fusewire_transport::vhost_user::{self, Cache, Flavour, Options, Sandbox, Virtiofsd};
use ops::{Op, User};
use std::collections::BTreeMap;
use std::fmt::Write;
use std::fs::Permissions;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

const OPERATIONS: usize = 20_000;

/// Who takes part: all of them if this is root, else only whoever runs this.
fn users() -> Vec<User> {
    if rustix::process::geteuid().is_root() {
        let user = |uid, gid, groups: &[u32]| User {
            uid,
            gid,
            groups: groups.to_vec(),
        };
        return vec![
            user(0, 0, &[]),
            user(1001, 1001, &[5000]),
            user(1002, 1002, &[5000, 5001]),
        ];
    }
    println!("NOT RUN: several users: this is not root");
    let groups = rustix::process::getgroups().unwrap();
    vec![User {
        uid: rustix::process::geteuid().as_raw(),
        gid: rustix::process::getegid().as_raw(),
        groups: groups.into_iter().map(|group| group.as_raw()).collect(),
    }]
}

#[test]
fn random_operations_of_several_users_agree_with_the_kernel() {
    let Some(program) = peer_program("virtiofsd") else {
        return;
    };
    let soak = std::env::var_os("FUSEWIRE_SOAK").is_some_and(|value| value == "1");
    let operations = if soak { 50 * OPERATIONS } else { OPERATIONS };
    let mut rng = Rng::new(seed("differential"));
    let users = users();
    // Threads of the kernel's side have the umask of the process.
    rustix::process::umask(rustix::fs::Mode::from_raw_mode(0o022));
    let (there, here) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    for dir in [&there, &here] {
        std::fs::set_permissions(dir.path(), Permissions::from_mode(0o777)).unwrap();
    }
    let daemon = Virtiofsd {
        program: Some(program),
        cache: Cache::Auto,
        sandbox: Sandbox::None,
        xattr: true,
        flavour: Flavour::Rust,
        ..Virtiofsd::new(there.path())
    };
    let transport = vhost_user::spawn(&daemon, &Options::default()).unwrap();
    let client = Client::builder().umask(0o022).connect(transport).unwrap();
    let mut served: Vec<_> = users
        .iter()
        .map(|user| served::Actor::new(&client, user))
        .collect();
    let mut host: Vec<_> = users
        .iter()
        .map(|user| host::Actor::start(here.path(), user))
        .collect();
    let mut story = Vec::new();
    let mut tally = BTreeMap::<String, u32>::new();
    for n in 0..operations {
        let who = rng.below(users.len() as u64) as usize;
        let op = Op::random(&mut rng, &users);
        story.push(format!("{} {op:?}", users[who].uid));
        let expected = host[who].act(&op);
        let found = served[who].act(&op);
        if found != expected {
            let from = story.len().saturating_sub(60);
            panic!(
                "operation {n}: {}\n  through virtiofsd: {found}\n  the kernel:        {expected}\n\
                 after\n    {}",
                story[story.len() - 1],
                story[from..story.len() - 1].join("\n    ")
            );
        }
        *tally.entry(summary(&op, &expected)).or_default() += 1;
        if n % 500 == 499 {
            same_trees(there.path(), here.path(), &story);
            if users[0].uid == 0 {
                // What nobody may enter any more would fill the rest of the run.
                clear(&served[0], here.path());
                story.push("all was removed".to_owned());
            }
        }
    }
    drop((served, host));
    same_trees(there.path(), here.path(), &story);
    client.shutdown().unwrap();
    println!("{operations} operations of {} users", users.len());
    for (what, times) in tally {
        println!("{times:7} {what}");
    }
}

/// Removes everything on both sides; files that are open stay so.
fn clear(root: &served::Actor, here: &Path) {
    for entry in std::fs::read_dir(here).unwrap() {
        let entry = entry.unwrap();
        let is_dir = entry.file_type().unwrap().is_dir();
        if is_dir {
            std::fs::remove_dir_all(entry.path()).unwrap();
            root.client().remove_dir_all(entry.file_name()).unwrap();
        } else {
            std::fs::remove_file(entry.path()).unwrap();
            root.client().remove_file(entry.file_name()).unwrap();
        }
    }
}

/// What kind of operation it was and how it went.
fn summary(op: &Op, outcome: &str) -> String {
    let name = format!("{op:?}");
    let name = name.split(['(', ' ']).next().unwrap_or_default().to_owned();
    let how = outcome.strip_prefix("errno ").unwrap_or("ok");
    format!("{name} {how}")
}

fn same_trees(there: &Path, here: &Path, story: &[String]) {
    let (found, expected) = (tree(there), tree(here));
    if found == expected {
        return;
    }
    let mut differences = String::new();
    for path in found.keys().chain(expected.keys()) {
        let (a, b) = (found.get(path), expected.get(path));
        if a != b {
            let _ = writeln!(differences, "  {path:?}: {a:?}, ought to be {b:?}");
        }
    }
    let last = story[story.len().saturating_sub(60)..].join("\n    ");
    panic!("the trees differ:\n{differences}after\n    {last}");
}

/// Everything below a directory that does not depend on when it was made.
fn tree(top: &Path) -> BTreeMap<PathBuf, String> {
    let mut tree = BTreeMap::new();
    let mut open = vec![top.to_owned()];
    while let Some(dir) = open.pop() {
        for entry in std::fs::read_dir(&dir).unwrap() {
            let path = entry.unwrap().path();
            let meta = path.symlink_metadata().unwrap();
            let mut what = format!("{:o} {}:{}", meta.mode(), meta.uid(), meta.gid());
            if meta.is_dir() {
                open.push(path.clone());
            } else if meta.is_file() {
                let contents = std::fs::read(&path).unwrap();
                let _ = write!(what, " {} links, {}", meta.nlink(), ops::digest(&contents));
            } else if meta.is_symlink() {
                let _ = write!(what, " {:?}", std::fs::read_link(&path).unwrap());
            }
            if !meta.is_symlink() {
                let _ = write!(what, " {:?}", host::xattrs(&path));
            }
            tree.insert(path.strip_prefix(top).unwrap().to_owned(), what);
        }
    }
    tree
}
