//! What is kept, how long, and what ends it.

use super::{always, auto, cases, embedded, host, never};
use crate::check::{errno, until};
use crate::session::Session;
use fusewire::{Client, OpenOptions, Time, Times};
use fusewire_server::{CacheMode, Caching};
use rustix::io::Errno;
use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::time::Duration;

cases![
    own_changes_of_a_file_are_seen_at_once,
    own_changes_of_names_are_seen_at_once,
    changes_through_one_name_are_seen_through_another,
    changes_on_the_host_are_seen_at_once_when_nothing_is_kept: never,
    changes_on_the_host_are_seen_when_the_time_is_over: auto,
    changes_on_the_host_are_seen_when_caches_are_dropped: host,
    what_may_be_kept_is_not_asked_for_again: always,
    what_may_not_be_kept_is_asked_for_each_time: never,
    a_listing_with_attributes_spares_lookups: always,
    names_that_do_not_exist_are_kept_as_long_as_the_peer_says: embedded,
    own_changes_end_what_was_known_to_be_absent: embedded,
    a_name_that_is_gone_on_the_host_is_gone_when_touched: host,
    what_the_host_has_made_meanwhile_is_not_overwritten: host,
    another_object_under_the_same_name_is_told_apart: host,
    few_cached_names_keep_the_daemon_small,
    few_cached_names_change_no_result,
    dropping_caches_loses_nothing_that_is_in_use,
];

fn own_changes_of_a_file_are_seen_at_once(s: &Session) {
    let c = &s.client;
    c.write("file", "12345").unwrap();
    let len = || c.metadata("file").unwrap().len();
    assert_eq!(len(), 5);
    let mut options = OpenOptions::new();
    let file = options.read(true).write(true).open(c, "file").unwrap();
    file.write_at(b"x", 9).unwrap();
    assert_eq!((len(), file.metadata().unwrap().len()), (10, 10));
    file.set_len(3).unwrap();
    assert_eq!((len(), file.metadata().unwrap().len()), (3, 3));
    c.truncate("file", 100).unwrap();
    assert_eq!((len(), file.metadata().unwrap().len()), (100, 100));
    c.write("file", "1234").unwrap();
    assert_eq!((len(), file.metadata().unwrap().len()), (4, 4));
    let mut append = OpenOptions::new();
    let append = append.append(true).open(c, "file").unwrap();
    append.write_at(b"56", 0).unwrap();
    assert_eq!((len(), file.metadata().unwrap().len()), (6, 6));
    c.set_permissions("file", Permissions::from_mode(0o600))
        .unwrap();
    assert_eq!(c.metadata("file").unwrap().mode() & 0o777, 0o600);
    let times = Times {
        accessed: None,
        modified: Some(Time::At(77, 0)),
    };
    c.set_times("file", times).unwrap();
    assert_eq!(c.metadata("file").unwrap().mtime(), 77);
    file.write_at(b"y", 0).unwrap();
    assert_ne!(c.metadata("file").unwrap().mtime(), 77);
    assert_eq!(c.read("file").unwrap(), b"y23456");
}

fn own_changes_of_names_are_seen_at_once(s: &Session) {
    let c = &s.client;
    let there = |path: &str| c.exists(path).unwrap();
    for round in 0..3 {
        assert!(!there("file") && !there("dir") && !there("link"), "{round}");
        c.write("file", "x").unwrap();
        c.create_dir("dir").unwrap();
        c.symlink("file", "link").unwrap();
        assert!(there("file") && there("dir") && there("link"));
        c.rename("file", "dir/file").unwrap();
        assert!(!there("file") && there("dir/file") && !there("link"));
        c.hard_link("dir/file", "file").unwrap();
        assert!(there("file") && there("link"));
        c.rename("dir", "moved").unwrap();
        assert!(!there("dir") && !there("dir/file") && there("moved/file"));
        c.rename("file", "moved/other").unwrap();
        assert!(!there("file") && there("moved/other"));
        c.remove_file("link").unwrap();
        c.remove_dir_all("moved").unwrap();
        assert!(!there("moved") && !there("moved/file"));
        // A directory where a file was, and the other way round.
        c.create_dir("file").unwrap();
        assert!(c.metadata("file").unwrap().is_dir());
        c.remove_dir("file").unwrap();
        c.write("dir", "").unwrap();
        assert!(c.metadata("dir").unwrap().is_file());
        c.remove_file("dir").unwrap();
    }
}

fn changes_through_one_name_are_seen_through_another(s: &Session) {
    let c = &s.client;
    c.write("a", "12345").unwrap();
    c.create_dir("dir").unwrap();
    c.hard_link("a", "dir/b").unwrap();
    let both = || {
        let (a, b) = (c.metadata("a").unwrap(), c.metadata("dir/b").unwrap());
        assert_eq!(
            (a.len(), a.mode(), a.nlink()),
            (b.len(), b.mode(), b.nlink())
        );
        (a.len(), a.mode() & 0o777, a.nlink())
    };
    assert_eq!(both(), (5, 0o644, 2));
    c.write("dir/b", "123").unwrap();
    assert_eq!(both(), (3, 0o644, 2));
    c.set_permissions("a", Permissions::from_mode(0o600))
        .unwrap();
    assert_eq!(both(), (3, 0o600, 2));
    c.hard_link("dir/b", "third").unwrap();
    assert_eq!(both(), (3, 0o600, 3));
    c.remove_file("third").unwrap();
    assert_eq!(both(), (3, 0o600, 2));
    // Its name on the host was never looked at by this client.
    if let Some(host) = s.host("/") {
        std::fs::hard_link(host.join("a"), host.join("unseen")).unwrap();
        c.write("new", "").unwrap();
        c.rename("new", "unseen").unwrap();
        assert_eq!(both(), (3, 0o600, 2));
    }
}

/// Changes on the host, and what a client that has not looked since sees of them.
fn change_on_host(host: &Path) {
    std::fs::write(host.join("grows"), "123456789").unwrap();
    std::fs::remove_file(host.join("goes")).unwrap();
    std::fs::write(host.join("comes"), "new").unwrap();
    std::fs::rename(host.join("old-name"), host.join("new-name")).unwrap();
    let permissions = Permissions::from_mode(0o600);
    std::fs::set_permissions(host.join("mode"), permissions).unwrap();
}

fn prepare(c: &Client) {
    for name in ["grows", "goes", "old-name", "mode"] {
        c.write(name, "123").unwrap();
        assert_eq!(c.metadata(name).unwrap().len(), 3);
    }
    assert!(!c.exists("comes").unwrap());
    assert!(!c.exists("new-name").unwrap());
}

fn all_changes_are_seen(c: &Client) -> Result<(), String> {
    let seen = [
        ("grows", c.metadata("grows").is_ok_and(|m| m.len() == 9)),
        ("goes", !c.exists("goes").unwrap()),
        ("comes", c.read("comes").is_ok_and(|bytes| bytes == b"new")),
        ("old-name", !c.exists("old-name").unwrap()),
        ("new-name", c.exists("new-name").unwrap()),
        (
            "mode",
            c.metadata("mode").is_ok_and(|m| m.mode() & 0o777 == 0o600),
        ),
    ];
    match seen.iter().all(|(_, seen)| *seen) {
        true => Ok(()),
        false => Err(format!("{seen:?}")),
    }
}

fn changes_on_the_host_are_seen_at_once_when_nothing_is_kept(s: &Session) {
    prepare(&s.client);
    let file = s.client.open("grows").unwrap();
    change_on_host(&s.host("/").unwrap());
    all_changes_are_seen(&s.client).unwrap();
    assert_eq!(file.metadata().unwrap().len(), 9);
    assert_eq!(file.read_at(&mut [0; 100], 0).unwrap(), 9);
}

fn changes_on_the_host_are_seen_when_the_time_is_over(s: &Session) {
    let host = tempfile::tempdir().unwrap();
    // Where it can be chosen, a time that is soon over.
    let moment = Duration::from_millis(100);
    let caching = Caching {
        mode: CacheMode::Auto,
        entry_timeout: moment,
        attr_timeout: moment,
        negative_timeout: moment,
    };
    let other = Session::start_with(&s.peer, host.path(), Client::builder(), caching);
    prepare(&other.client);
    change_on_host(host.path());
    until("the time to be over", || {
        all_changes_are_seen(&other.client)
    });
    other.finish();
}

fn changes_on_the_host_are_seen_when_caches_are_dropped(s: &Session) {
    prepare(&s.client);
    change_on_host(&s.host("/").unwrap());
    s.client.drop_caches();
    all_changes_are_seen(&s.client).unwrap();
}

fn questions(s: &Session) -> u64 {
    s.requests("LOOKUP") + s.requests("GETATTR")
}

fn what_may_be_kept_is_not_asked_for_again(s: &Session) {
    let c = &s.client;
    c.create_dir_all("a/b").unwrap();
    c.write("a/b/file", "12345").unwrap();
    c.symlink("a/b", "link").unwrap();
    let look = || {
        assert_eq!(c.metadata("a/b/file").unwrap().len(), 5);
        assert_eq!(c.metadata("link/../b/file").unwrap().len(), 5);
        assert!(c.symlink_metadata("link").unwrap().is_symlink());
        assert!(c.metadata("/").unwrap().is_dir());
    };
    look();
    let asked = questions(s);
    for _ in 0..10 {
        look();
    }
    assert_eq!(questions(s), asked);
    // A change is asked for once, and only what was changed.
    c.truncate("a/b/file", 5).unwrap();
    look();
    assert!(questions(s) <= asked + 1);
    let asked = questions(s);
    look();
    assert_eq!(questions(s), asked);
}

fn what_may_not_be_kept_is_asked_for_each_time(s: &Session) {
    let c = &s.client;
    c.write("file", "12345").unwrap();
    for _ in 0..3 {
        let asked = questions(s);
        assert_eq!(c.metadata("file").unwrap().len(), 5);
        assert!(questions(s) > asked);
    }
    s.all_closed();
    assert_eq!(c.stats().live_nodes, 1);
}

fn a_listing_with_attributes_spares_lookups(s: &Session) {
    let c = &s.client;
    for n in 0..100 {
        c.write(format!("file-{n}"), "123").unwrap();
    }
    c.drop_caches();
    let entries: Vec<_> = c.read_dir("/").unwrap().map(Result::unwrap).collect();
    let with_attributes = s.requests("READDIRPLUS") > 0;
    let asked = questions(s);
    for entry in &entries {
        assert_eq!(entry.metadata().unwrap().len(), 3);
        assert_eq!(c.metadata(entry.path()).unwrap().len(), 3);
    }
    if with_attributes {
        assert_eq!(questions(s), asked);
    }
}

fn keeping_absence(s: &Session, host: &Path) -> Session {
    let caching = Caching {
        mode: CacheMode::Auto,
        entry_timeout: Duration::from_secs(86_400),
        attr_timeout: Duration::from_secs(86_400),
        negative_timeout: Duration::from_secs(86_400),
    };
    Session::start_with(&s.peer, host, Client::builder(), caching)
}

fn names_that_do_not_exist_are_kept_as_long_as_the_peer_says(s: &Session) {
    // Of this peer no longer than nothing.
    assert!(!s.client.exists("missing").unwrap());
    let asked = s.requests("LOOKUP");
    assert!(!s.client.exists("missing").unwrap());
    assert_eq!(s.requests("LOOKUP"), asked + 1);

    let host = tempfile::tempdir().unwrap();
    let other = keeping_absence(s, host.path());
    let c = &other.client;
    assert!(!c.exists("missing").unwrap());
    let asked = other.requests("LOOKUP");
    for _ in 0..3 {
        assert!(!c.exists("missing").unwrap());
        assert!(!c.exists("missing/below").unwrap());
        assert_eq!(errno(c.open("missing")), Errno::NOENT);
        assert_eq!(errno(c.remove_file("missing")), Errno::NOENT);
    }
    assert_eq!(other.requests("LOOKUP"), asked);
    std::fs::write(host.path().join("missing"), "x").unwrap();
    assert!(!c.exists("missing").unwrap());
    c.drop_caches();
    assert_eq!(c.exists("missing").unwrap(), other.peer.has_host());
    other.finish();
}

fn own_changes_end_what_was_known_to_be_absent(s: &Session) {
    let host = tempfile::tempdir().unwrap();
    let other = keeping_absence(s, host.path());
    let c = &other.client;
    c.write("file", "").unwrap();
    let make: [(&str, &dyn Fn()); 8] = [
        ("created", &|| drop(c.create("created").unwrap())),
        ("made-new", &|| {
            let mut options = OpenOptions::new();
            options.write(true).create_new(true);
            options.open(c, "made-new").unwrap();
        }),
        ("dir", &|| c.create_dir("dir").unwrap()),
        ("all", &|| c.create_dir_all("all/below").unwrap()),
        ("pipe", &|| c.mknod("pipe", 0o010_600, 0).unwrap()),
        ("link", &|| c.symlink("file", "link").unwrap()),
        ("second", &|| c.hard_link("file", "second").unwrap()),
        ("moved", &|| c.rename("file", "moved").unwrap()),
    ];
    for (name, make) in make {
        assert!(!c.exists(name).unwrap(), "{name}");
        make();
        assert!(c.symlink_metadata(name).is_ok(), "{name}");
    }
    assert!(!c.exists("file").unwrap());
    other.finish();
}

fn a_name_that_is_gone_on_the_host_is_gone_when_touched(s: &Session) {
    let c = &s.client;
    let host = s.host("/").unwrap();
    c.write("file", "").unwrap();
    c.write("other", "").unwrap();
    c.create_dir("dir").unwrap();
    c.metadata("file").unwrap();
    std::fs::remove_file(host.join("file")).unwrap();
    assert_eq!(errno(c.remove_file("file")), Errno::NOENT);
    assert!(!c.exists("file").unwrap());
    std::fs::remove_dir(host.join("dir")).unwrap();
    assert_eq!(errno(c.remove_dir("dir")), Errno::NOENT);
    assert!(!c.exists("dir").unwrap());
    std::fs::remove_file(host.join("other")).unwrap();
    assert_eq!(errno(c.rename("other", "new")), Errno::NOENT);
    assert!(!c.exists("other").unwrap() && !c.exists("new").unwrap());
}

fn what_the_host_has_made_meanwhile_is_not_overwritten(s: &Session) {
    let c = &s.client;
    let host = s.host("/").unwrap();
    for name in ["a", "b", "c", "d", "e"] {
        assert!(!c.exists(name).unwrap());
        std::fs::write(host.join(name), "host").unwrap();
    }
    let mut new = OpenOptions::new();
    new.write(true).create_new(true);
    assert_eq!(errno(new.open(c, "a")), Errno::EXIST);
    assert_eq!(errno(c.create_dir("b")), Errno::EXIST);
    assert_eq!(errno(c.symlink("x", "c")), Errno::EXIST);
    assert_eq!(errno(c.mknod("d", 0o010_600, 0)), Errno::EXIST);
    assert_eq!(errno(c.hard_link("a", "e")), Errno::EXIST);
    for name in ["a", "b", "c", "d", "e"] {
        assert_eq!(c.read(name).unwrap(), b"host", "{name}");
    }
}

fn another_object_under_the_same_name_is_told_apart(s: &Session) {
    let c = &s.client;
    let host = s.host("/").unwrap();
    c.write("name", "file").unwrap();
    let file = c.open("name").unwrap();
    for round in 0..3 {
        match std::fs::remove_file(host.join("name")) {
            Ok(()) => std::fs::create_dir(host.join("name")).unwrap(),
            Err(_) => {
                std::fs::remove_dir(host.join("name")).unwrap();
                std::fs::write(host.join("name"), "again").unwrap();
            }
        }
        c.drop_caches();
        let is_dir = round % 2 == 0;
        assert_eq!(c.metadata("name").unwrap().is_dir(), is_dir);
        assert_eq!(c.read_dir("name").is_ok(), is_dir);
        assert_eq!(c.read("name").is_ok(), !is_dir);
    }
    let mut buf = [0; 10];
    assert_eq!(file.read_at(&mut buf, 0).unwrap(), 4);
    assert_eq!(&buf[..4], b"file");
}

fn few_cached_names_keep_the_daemon_small(s: &Session) {
    const FILES: usize = 1000;
    const MAX: u64 = 16;
    let host = tempfile::tempdir().unwrap();
    let builder = Client::builder().max_cached_nodes(MAX as usize);
    let other = s.another(host.path(), builder);
    let c = &other.client;
    c.create_dir("dir").unwrap();
    for n in 0..FILES {
        c.mknod(format!("dir/file-{n}"), 0o100_644, 0).unwrap();
    }
    let idle = other.daemon_fds();
    // And some again that were cached before.
    for n in (0..FILES).chain(0..FILES / 10) {
        assert_eq!(c.metadata(format!("dir/file-{n}")).unwrap().len(), 0);
        // The root besides.
        let live = c.stats().live_nodes;
        assert!(live <= MAX + 1, "{live} nodes after {n} files");
        assert!(c.stats().cached_names <= MAX);
    }
    // FORGETs wait a moment for company.
    const WAITING: u64 = 32;
    let most = MAX + WAITING;
    until("the peer to know few nodes", || {
        let known = other.usage().map(|usage| usage.live_nodes);
        let open = other
            .daemon_fds()
            .zip(idle)
            .map(|(now, idle)| now as u64 - idle.min(now) as u64);
        match known.or(open) {
            Some(known) if known > most => Err(format!("{known} nodes")),
            _ => Ok(()),
        }
    });
    // Everything is still there.
    assert_eq!(c.read_dir("dir").unwrap().count(), FILES);
    until("the listing to be closed", || match c.stats().live_nodes {
        live if live <= MAX + 1 => Ok(()),
        live => Err(format!("{live} nodes")),
    });
    other.finish();
}

fn few_cached_names_change_no_result(s: &Session) {
    let host = tempfile::tempdir().unwrap();
    let builder = Client::builder().max_cached_nodes(1);
    let other = s.another(host.path(), builder);
    let c = &other.client;
    c.create_dir_all("a/b/c/d").unwrap();
    c.write("a/b/c/d/file", "12345").unwrap();
    c.symlink("a/b/c", "link").unwrap();
    let file = c.open("link/d/file").unwrap();
    c.rename("a/b", "moved").unwrap();
    assert_eq!(c.read("moved/c/d/file").unwrap(), b"12345");
    assert_eq!(file.metadata().unwrap().len(), 5);
    c.write("moved/c/d/file", "123456").unwrap();
    assert_eq!(file.metadata().unwrap().len(), 6);
    assert!(!c.exists("link").unwrap());
    let names: Vec<_> = c
        .read_dir("moved/c")
        .unwrap()
        .map(|e| e.unwrap().path())
        .collect();
    assert_eq!(names, [Path::new("moved/c/d")]);
    c.remove_dir_all("moved").unwrap();
    assert!(!c.exists("moved/c").unwrap());
    assert_eq!(file.read_at(&mut [0; 9], 0).unwrap(), 6);
    drop(file);
    other.finish();
}

fn dropping_caches_loses_nothing_that_is_in_use(s: &Session) {
    let c = &s.client;
    c.create_dir("dir").unwrap();
    for n in 0..500 {
        c.write(format!("dir/file-{n}"), "123").unwrap();
    }
    let mut options = OpenOptions::new();
    let file = options
        .read(true)
        .write(true)
        .open(c, "dir/file-7")
        .unwrap();
    let mut listing = c.read_dir("dir").unwrap();
    let first = listing.next().unwrap().unwrap();
    for _ in 0..3 {
        c.drop_caches();
        file.write_at(b"4", 3).unwrap();
        assert_eq!(file.metadata().unwrap().len(), 4);
        assert_eq!(c.metadata("dir/file-7").unwrap().len(), 4);
    }
    assert_eq!(listing.count(), 499);
    assert!(first.metadata().is_ok());
}
