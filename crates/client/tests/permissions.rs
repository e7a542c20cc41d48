//! A daemon that does not check permissions cannot be used to do what the caller may not.

use fusewire::{Allocate, Checks, Client, Identity, OpenOptions, SetXattr, Time, Times};
use fusewire_server::mem::{MemOptions, Memory};
use fusewire_server::scripted::{self, Action, Rules};
use fusewire_server::{
    Call, Errno, Features, FileSystem, Reply, ServerOptions, Usage, dir, start, start_shared,
};
use fusewire_wire::{InitFlags, Opcode};
use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt;
use std::sync::Arc;

const OWNER: u32 = 1000;
const OTHER: u32 = 2000;
const SHARED_GROUP: u32 = 3000;

/// One file system, which checks nothing, seen by its administrator and by a user.
fn as_admin_and(user: Identity, test: impl Fn(&Client, &Client)) {
    let fs = Arc::new(Memory::new(MemOptions::default()));
    let connect = |identity: Identity| {
        let (transport, server) = start_shared(Arc::clone(&fs), &ServerOptions::default()).unwrap();
        let client = Client::builder()
            .identity(identity)
            .umask(0)
            .connect(transport)
            .unwrap();
        (client, server)
    };
    let mut root = Identity::user(0, 0);
    root.capabilities = fusewire::Capabilities::all();
    // One after the other in each step: neither caches what the other changes.
    let (admin, _admin_server) = connect(root);
    let (user, _user_server) = connect(user);
    test(&admin, &user);
}

fn user() -> Identity {
    let mut user = Identity::user(OWNER, OWNER);
    user.groups = vec![SHARED_GROUP];
    user
}

#[track_caller]
fn denied<T: std::fmt::Debug>(result: fusewire::Result<T>, errno: Errno) {
    let error = result.unwrap_err();
    assert_eq!(error.errno(), errno.raw_os_error(), "{error}");
}

fn mode(bits: u32) -> Permissions {
    Permissions::from_mode(bits)
}

fn file(client: &Client, path: &str, owner: u32, bits: u32) {
    client.write(path, b"contents").unwrap();
    client.chown(path, Some(owner), Some(owner)).unwrap();
    client.set_permissions(path, mode(bits)).unwrap();
}

fn directory(client: &Client, path: &str, owner: u32, bits: u32) {
    client.create_dir(path).unwrap();
    client.chown(path, Some(owner), Some(owner)).unwrap();
    client.set_permissions(path, mode(bits)).unwrap();
}

#[test]
fn files_of_others_are_as_open_as_their_modes() {
    as_admin_and(user(), |admin, user| {
        file(admin, "/secret", OTHER, 0o600);
        file(admin, "/readable", OTHER, 0o644);
        denied(user.open("/secret"), Errno::ACCESS);
        denied(user.truncate("/secret", 0), Errno::ACCESS);
        assert_eq!(user.read("/readable").unwrap(), b"contents");
        denied(
            OpenOptions::new().append(true).open(user, "/readable"),
            Errno::ACCESS,
        );
        let mut empty_it = OpenOptions::new();
        empty_it.write(true).truncate(true);
        denied(empty_it.open(user, "/readable"), Errno::ACCESS);
        denied(user.write("/readable", b""), Errno::ACCESS);
        assert_eq!(admin.read("/readable").unwrap(), b"contents");
        // Attributes are for everybody who can reach the name.
        assert_eq!(user.metadata("/secret").unwrap().len(), 8);
    });
}

#[test]
fn directories_are_searched_listed_and_changed_as_allowed() {
    as_admin_and(user(), |admin, user| {
        directory(admin, "/closed", OTHER, 0o700);
        directory(admin, "/search", OTHER, 0o711);
        directory(admin, "/list", OTHER, 0o744);
        directory(admin, "/group", OTHER, 0o070);
        admin.chown("/group", None, Some(SHARED_GROUP)).unwrap();
        for dir in ["/closed", "/search", "/list"] {
            file(admin, &format!("{dir}/f"), OTHER, 0o666);
            denied(user.create(format!("{dir}/new")), Errno::ACCESS);
            denied(user.create_dir(format!("{dir}/new")), Errno::ACCESS);
        }
        denied(user.metadata("/closed/f"), Errno::ACCESS);
        denied(user.read_dir("/closed"), Errno::ACCESS);
        assert!(user.metadata("/search/f").is_ok());
        denied(user.read_dir("/search"), Errno::ACCESS);
        denied(user.metadata("/list/f"), Errno::ACCESS);
        assert_eq!(user.read_dir("/list").unwrap().count(), 1);
        denied(user.remove_file("/search/f"), Errno::ACCESS);
        denied(user.rename("/search/f", "/search/g"), Errno::ACCESS);
        // What is there is there, whoever may write.
        denied(user.create_dir("/search/f"), Errno::EXIST);
        // A supplementary group counts.
        user.write("/group/mine", b"x").unwrap();
        user.remove_file("/group/mine").unwrap();
    });
}

#[test]
fn sticky_directories_protect_others_files() {
    as_admin_and(user(), |admin, user| {
        directory(admin, "/tmp", 0, 0o1777);
        file(admin, "/tmp/theirs", OTHER, 0o666);
        denied(user.remove_file("/tmp/theirs"), Errno::PERM);
        denied(user.rename("/tmp/theirs", "/tmp/mine"), Errno::PERM);
        user.write("/tmp/own", b"x").unwrap();
        denied(user.rename("/tmp/own", "/tmp/theirs"), Errno::PERM);
        user.rename("/tmp/own", "/tmp/moved").unwrap();
        user.remove_file("/tmp/moved").unwrap();
    });
}

#[test]
fn attributes_are_the_owners() {
    as_admin_and(user(), |admin, user| {
        file(admin, "/theirs", OTHER, 0o666);
        file(admin, "/own", OWNER, 0o644);
        denied(user.set_permissions("/theirs", mode(0o777)), Errno::PERM);
        denied(user.chown("/theirs", None, Some(OWNER)), Errno::PERM);
        denied(user.chown("/own", Some(OTHER), None), Errno::PERM);
        denied(user.chown("/own", None, Some(OTHER)), Errno::PERM);
        user.chown("/own", None, Some(SHARED_GROUP)).unwrap();
        user.set_permissions("/own", mode(0o2755)).unwrap();
        assert_eq!(user.metadata("/own").unwrap().mode() & 0o7777, 0o2755);
        let old = Times {
            modified: Some(Time::At(1, 0)),
            accessed: None,
        };
        denied(user.set_times("/theirs", old), Errno::PERM);
        user.set_times("/own", old).unwrap();
        let now = Times {
            modified: Some(Time::Now),
            accessed: Some(Time::Now),
        };
        user.set_times("/theirs", now).unwrap();
        denied(
            user.set_xattr("/theirs", "trusted.x", b"", SetXattr::Any),
            Errno::PERM,
        );
        user.set_xattr("/theirs", "user.x", b"1", SetXattr::Any)
            .unwrap();
    });
}

#[test]
fn changed_data_loses_set_id_bits() {
    as_admin_and(user(), |admin, user| {
        type Change<'a> = (&'a str, &'a dyn Fn(&Client));
        let changes: [Change; 4] = [
            ("write", &|c| {
                let mut options = OpenOptions::new();
                let file = options.write(true).open(c, "/f").unwrap();
                file.write_at(b"x", 0).unwrap();
            }),
            ("truncate", &|c| c.truncate("/f", 1).unwrap()),
            ("open and truncate", &|c| drop(c.create("/f").unwrap())),
            ("allocate", &|c| {
                let mut options = OpenOptions::new();
                let file = options.write(true).open(c, "/f").unwrap();
                file.allocate(0, 100, Allocate::Extend).unwrap();
            }),
        ];
        for (what, change) in changes {
            file(admin, "/f", OWNER, 0o6777);
            change(user);
            let bits = user.metadata("/f").unwrap().mode() & 0o7777;
            assert_eq!(bits, 0o777, "{what}");
            // Whoever may keep them does.
            admin.set_permissions("/f", mode(0o6777)).unwrap();
            change(admin);
            let bits = admin.metadata("/f").unwrap().mode() & 0o7777;
            assert_eq!(bits, 0o6777, "{what} by root");
            user.drop_caches();
            admin.remove_file("/f").unwrap();
        }
    });
}

#[test]
fn a_size_that_is_refused_costs_no_set_id_bits() {
    let top = tempfile::tempdir().unwrap();
    let fs = dir::Directory::new(top.path(), dir::DirOptions::default()).unwrap();
    let (transport, _server) = start(fs, &ServerOptions::default()).unwrap();
    let admin = Client::builder().connect(transport).unwrap();
    if !rustix::process::geteuid().is_root() {
        println!("NOT TESTED: files of others, for only root can make them");
        return;
    }
    file(&admin, "/f", OWNER, 0o6777);
    let user = admin.with_identity(user()).unwrap();
    let mut options = OpenOptions::new();
    let open = options.write(true).open(&user, "/f").unwrap();
    denied(user.truncate("/f", i64::MAX as u64), Errno::FBIG);
    denied(open.set_len(i64::MAX as u64), Errno::FBIG);
    assert_eq!(admin.metadata("/f").unwrap().mode() & 0o7777, 0o6777);
    user.truncate("/f", 1).unwrap();
    assert_eq!(admin.metadata("/f").unwrap().mode() & 0o7777, 0o777);
}

/// Whoever calls, and whether or not anything changes.
#[test]
fn files_that_are_given_away_lose_set_id_bits() {
    as_admin_and(user(), |admin, user| {
        for (owner, group) in [
            (None, None),
            (None, Some(SHARED_GROUP)),
            (Some(OWNER), None),
        ] {
            for by in [admin, user] {
                file(admin, "/f", OWNER, 0o6755);
                by.chown("/f", owner, group).unwrap();
                user.drop_caches();
                let bits = user.metadata("/f").unwrap().mode() & 0o7777;
                assert_eq!(bits, 0o755, "to {owner:?} {group:?}");
                admin.drop_caches();
                admin.remove_file("/f").unwrap();
                user.drop_caches();
            }
        }
        file(admin, "/theirs", OTHER, 0o4755);
        denied(user.chown("/theirs", None, None), Errno::PERM);
        // Bits that are set behind the back of whoever thinks there are none.
        file(admin, "/f", OWNER, 0o755);
        assert_eq!(user.metadata("/f").unwrap().mode() & 0o7777, 0o755);
        admin.set_permissions("/f", mode(0o4755)).unwrap();
        user.chown("/f", None, None).unwrap();
        admin.drop_caches();
        assert_eq!(admin.metadata("/f").unwrap().mode() & 0o7777, 0o755);
        directory(admin, "/dir", OWNER, 0o2755);
        user.chown("/dir", None, Some(SHARED_GROUP)).unwrap();
        user.drop_caches();
    });
}

#[test]
fn only_owners_open_without_access_times() {
    const O_NOATIME: i32 = 0o1_000_000;
    as_admin_and(user(), |admin, user| {
        file(admin, "/own", OWNER, 0o644);
        file(admin, "/theirs", OTHER, 0o666);
        let mut options = OpenOptions::new();
        options.read(true).custom_flags(O_NOATIME);
        options.open(user, "/own").unwrap();
        denied(options.open(user, "/theirs"), Errno::PERM);
        options.open(admin, "/theirs").unwrap();
    });
}

/// Memory that agrees on SETXATTR_EXT or does not.
struct Flagged {
    memory: Memory,
    ext: bool,
}

impl FileSystem for Flagged {
    fn features(&self) -> Features {
        let mut features = self.memory.features();
        features.flags.set(InitFlags::SETXATTR_EXT, self.ext);
        features
    }

    fn begin(&self) {
        self.memory.begin();
    }

    fn call(&self, call: &Call<'_>) -> fusewire_server::Result<Reply> {
        self.memory.call(call)
    }

    fn forget(&self, node: u64, nlookup: u64) {
        self.memory.forget(node, nlookup);
    }

    fn usage(&self) -> Usage {
        self.memory.usage()
    }
}

/// An access ACL is a way to set the mode, and must not keep what chmod(2) would not.
#[test]
fn an_access_acl_takes_the_group_bit_of_foreign_groups() {
    const ACL: &str = "system.posix_acl_access";
    for (group, ext, told, left) in [
        (OTHER, true, 1, 0o2755),
        (OTHER, false, 0, 0o755),
        (SHARED_GROUP, true, 0, 0o2755),
        (SHARED_GROUP, false, 0, 0o2755),
    ] {
        let fs = Flagged {
            memory: Memory::new(MemOptions::default()),
            ext,
        };
        let rules = Rules::new().every(Opcode::Setxattr, Action::Body(Vec::new()));
        let (transport, peer) = scripted::start(fs, rules, &ServerOptions::default()).unwrap();
        let mut root = Identity::user(0, 0);
        root.capabilities = fusewire::Capabilities::all();
        let builder = Client::builder().identity(root).umask(0);
        let admin = builder.connect(transport).unwrap();
        let user = admin.with_identity(user()).unwrap();
        file(&admin, "/f", OWNER, 0o755);
        admin.chown("/f", None, Some(group)).unwrap();
        admin.set_permissions("/f", mode(0o2755)).unwrap();
        // What another attribute is called tells nothing of the mode.
        for name in ["user.a", "system.posix_acl_default", ACL] {
            user.set_xattr("/f", name, b"acl", SetXattr::Any).unwrap();
        }
        let flags: Vec<u32> = peer
            .log()
            .iter()
            .filter(|seen| seen.opcode == Some(Opcode::Setxattr))
            .map(|seen| seen.flags)
            .collect();
        assert_eq!(flags, [0, 0, told], "group {group}, ext {ext}");
        user.drop_caches();
        let bits = user.metadata("/f").unwrap().mode() & 0o7777;
        // A daemon that was told clears the bit itself; this one only writes down what it hears.
        assert_eq!(bits, left, "group {group}, ext {ext}");
        admin.set_xattr("/f", ACL, b"acl", SetXattr::Any).unwrap();
        let log = peer.log();
        assert_eq!(log.last().map(|seen| seen.flags), Some(0));
    }
}

/// Whoever checks permissions: some rules are not about rights to a file.
#[test]
fn some_rules_are_not_left_to_the_daemon() {
    let fs = Memory::new(MemOptions::default());
    let (transport, _server) = start(fs, &ServerOptions::default()).unwrap();
    let client = Client::builder()
        .identity(user())
        .checks(Checks::Daemon)
        .connect(transport)
        .unwrap();
    client.write("/f", b"").unwrap();
    client.symlink("f", "/link").unwrap();
    for name in ["trusted.a", "security.capability"] {
        denied(
            client.set_xattr("/f", name, b"", SetXattr::Any),
            Errno::PERM,
        );
    }
    denied(
        client.set_xattr("/link", "user.a", b"", SetXattr::Any),
        Errno::PERM,
    );
    assert_eq!(client.get_xattr("/link", "user.a").unwrap(), None);
    // While this one is about rights.
    client.chown("/f", Some(OTHER), Some(OTHER)).unwrap();
    client
        .set_xattr("/f", "user.a", b"", SetXattr::Any)
        .unwrap();
}

#[test]
fn what_is_made_belongs_to_whoever_made_it() {
    as_admin_and(user(), |admin, user| {
        directory(admin, "/open", 0, 0o777);
        user.write("/open/f", b"").unwrap();
        user.create_dir("/open/d").unwrap();
        user.symlink("x", "/open/l").unwrap();
        for name in ["/open/f", "/open/d", "/open/l"] {
            let metadata = admin.symlink_metadata(name).unwrap();
            assert_eq!((metadata.uid(), metadata.gid()), (OWNER, OWNER), "{name}");
        }
    });
}

#[test]
fn an_identity_of_nobody_is_refused() {
    let fs = Arc::new(Memory::new(MemOptions::default()));
    let (transport, _server) = start_shared(fs, &ServerOptions::default()).unwrap();
    let builder = Client::builder().identity(Identity::user(u32::MAX, 0));
    denied(builder.connect(transport), Errno::INVAL);
}

#[test]
fn one_client_acts_for_several_users() {
    let (transport, _server) = fusewire_server::start(
        Memory::new(MemOptions::default()),
        &ServerOptions::default(),
    )
    .unwrap();
    let mut root = Identity::user(0, 0);
    root.capabilities = fusewire::Capabilities::all();
    let admin = Client::builder()
        .identity(root)
        .umask(0)
        .connect(transport)
        .unwrap();
    let owner = admin.with_identity(Identity::user(OWNER, OWNER)).unwrap();
    let other = admin.with_identity(Identity::user(OTHER, OTHER)).unwrap();
    admin.set_permissions("/", mode(0o777)).unwrap();
    owner.write("/mine", b"text").unwrap();
    owner.set_permissions("/mine", mode(0o600)).unwrap();
    assert_eq!(admin.metadata("/mine").unwrap().uid(), OWNER);
    denied(other.open("/mine"), Errno::ACCESS);
    // What one of them may see does not become visible to the other by the cache.
    assert_eq!(owner.read("/mine").unwrap(), b"text");
    denied(other.read("/mine"), Errno::ACCESS);
    // An open file stays in the name of whoever opened it.
    let file = owner.open("/mine").unwrap();
    owner.set_permissions("/mine", mode(0)).unwrap();
    assert_eq!(file.read_at(&mut [0; 4], 0).unwrap(), 4);
    denied(
        admin.with_identity(Identity::user(u32::MAX, 0)),
        Errno::INVAL,
    );
}
