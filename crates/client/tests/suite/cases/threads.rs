//! Many threads on one client.

use super::cases;
use crate::check::{Random, pattern, until};
use crate::peers::Kind;
use crate::session::Session;
use fusewire::OpenOptions;
use rustix::io::Errno;
use std::collections::BTreeSet;
use std::sync::Barrier;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread::scope;

cases![
    threads_with_directories_of_their_own_do_not_disturb_each_other,
    threads_in_one_directory_leave_it_whole,
    one_of_many_makes_a_new_file,
    parts_of_one_file_can_be_written_at_once,
    lines_appended_at_once_are_all_there,
    readers_see_whole_writes_of_a_page,
    a_name_made_and_removed_at_once_is_as_the_host_has_it,
    a_file_renamed_and_looked_up_at_once_has_one_name,
    many_threads_can_wait_at_once,
];

const THREADS: usize = 6;

fn threads_with_directories_of_their_own_do_not_disturb_each_other(s: &Session) {
    let c = &s.client;
    scope(|scope| {
        for thread in 0..THREADS {
            scope.spawn(move || {
                let dir = format!("dir-{thread}");
                c.create_dir(&dir).unwrap();
                for round in 0..25u64 {
                    let (a, b) = (format!("{dir}/a"), format!("{dir}/b"));
                    let data = pattern(round + thread as u64, (round as usize * 997) % 40_000);
                    c.write(&a, &data).unwrap();
                    assert_eq!(c.metadata(&a).unwrap().len(), data.len() as u64);
                    assert!(c.read(&a).unwrap() == data);
                    c.rename(&a, &b).unwrap();
                    assert!(!c.exists(&a).unwrap());
                    let file = c.open(&b).unwrap();
                    c.hard_link(&b, &a).unwrap();
                    assert_eq!(file.metadata().unwrap().nlink(), 2);
                    c.remove_file(&b).unwrap();
                    c.truncate(&a, 10).unwrap();
                    assert_eq!(file.metadata().unwrap().len(), 10);
                    c.remove_file(&a).unwrap();
                    assert_eq!(c.read_dir(&dir).unwrap().count(), 0);
                }
                c.remove_dir(&dir).unwrap();
            });
        }
    });
    assert_eq!(c.read_dir("/").unwrap().count(), 0);
}

/// Whatever they do to each other, each call ends in one of the ways it may, and in the end client
/// and host agree.
fn threads_in_one_directory_leave_it_whole(s: &Session) {
    let c = &s.client;
    let legal = [
        Errno::NOENT,
        Errno::EXIST,
        Errno::NOTDIR,
        Errno::ISDIR,
        Errno::NOTEMPTY,
        Errno::INVAL,
        Errno::AGAIN,
        Errno::LOOP,
        Errno::BUSY,
        Errno::PERM,
        Errno::STALE,
    ];
    // A daemon with threads makes something, then looks it up by its name, which may mean something
    // of another kind by then: EIO, as on Linux. And open_by_handle_at(2), which virtiofsd calls, may
    // fail with ENOMEM while directories are moved.
    let legal_here = |errno: Errno| match s.peer.kind {
        Kind::Virtiofsd { .. } if errno == Errno::NOMEM => true,
        _ => s.peer.threads > 1 && errno == Errno::IO,
    };
    scope(|scope| {
        for thread in 0..THREADS {
            let legal_here = &legal_here;
            scope.spawn(move || {
                let mut random = Random::new(thread as u64 + 1);
                for _ in 0..120 {
                    let a = format!("name-{}", random.below(4));
                    let b = format!("name-{}/x", random.below(4));
                    let result = match random.below(12) {
                        0 => c.write(&a, "x"),
                        1 => c.create_dir(&a),
                        2 => c.remove_file(&a),
                        3 => c.remove_dir(&a),
                        4 => c.rename(&a, &b),
                        5 => c.rename(&b, &a),
                        6 => c.hard_link(&a, &b),
                        7 => c.symlink(&b, &a),
                        8 => c.metadata(&a).map(drop),
                        9 => c.write(&b, "y"),
                        10 => c.read(&a).map(drop),
                        _ => c.read_dir(&a).map(|entries| {
                            let _ = entries.count();
                        }),
                    };
                    if let Err(error) = result {
                        let errno = Errno::from_raw_os_error(error.errno());
                        assert!(legal.contains(&errno) || legal_here(errno), "{error}");
                    }
                }
            });
        }
    });
    same_as_host(s);
}

/// The names in the root and their types, by the client's cache, its listing, and the host.
fn same_as_host(s: &Session) {
    let c = &s.client;
    let listed: BTreeSet<_> = c
        .read_dir("/")
        .unwrap()
        .map(|entry| {
            let entry = entry.unwrap();
            (entry.file_name(), entry.file_type().unwrap().is_dir())
        })
        .collect();
    let Some(host) = s.host("/") else {
        return;
    };
    let on_host: BTreeSet<_> = std::fs::read_dir(host)
        .unwrap()
        .map(|entry| {
            let entry = entry.unwrap();
            (entry.file_name(), entry.file_type().unwrap().is_dir())
        })
        .collect();
    assert_eq!(listed, on_host);
    for n in 0..4 {
        let name = format!("name-{n}");
        let found = c.symlink_metadata(&name).map(|m| m.is_dir()).ok();
        let expected = on_host.iter().find(|(other, _)| *other == *name);
        assert_eq!(found, expected.map(|(_, dir)| *dir), "{name}");
    }
}

fn one_of_many_makes_a_new_file(s: &Session) {
    let c = &s.client;
    for round in 0..20 {
        let path = format!("file-{round}");
        let (won, start) = (AtomicUsize::new(0), Barrier::new(THREADS));
        scope(|scope| {
            for _ in 0..THREADS {
                scope.spawn(|| {
                    let mut options = OpenOptions::new();
                    options.write(true).create_new(true);
                    start.wait();
                    match options.open(c, &path) {
                        Ok(_) => drop(won.fetch_add(1, Ordering::Relaxed)),
                        Err(error) => assert_eq!(error.errno(), Errno::EXIST.raw_os_error()),
                    }
                });
            }
        });
        assert_eq!(won.load(Ordering::Relaxed), 1);
    }
}

fn parts_of_one_file_can_be_written_at_once(s: &Session) {
    const PART: usize = 1 << 20;
    let c = &s.client;
    let data = pattern(5, THREADS * PART);
    c.create("file").unwrap();
    scope(|scope| {
        for (thread, part) in data.chunks(PART).enumerate() {
            scope.spawn(move || {
                let mut options = OpenOptions::new();
                let file = options.write(true).open(c, "file").unwrap();
                for (n, piece) in part.chunks(100_000).enumerate() {
                    let offset = thread * PART + n * 100_000;
                    file.write_all_at(piece, offset as u64).unwrap();
                }
            });
        }
    });
    assert_eq!(c.metadata("file").unwrap().len(), data.len() as u64);
    assert!(c.read("file").unwrap() == data);
    if let Some(host) = s.host("file") {
        assert!(std::fs::read(host).unwrap() == data);
    }
}

fn lines_appended_at_once_are_all_there(s: &Session) {
    const LINES: usize = 30;
    let c = &s.client;
    scope(|scope| {
        for thread in 0..THREADS {
            scope.spawn(move || {
                let mut options = OpenOptions::new();
                let file = options.append(true).create(true).open(c, "log").unwrap();
                for line in 0..LINES {
                    let line = format!("{thread} {line} {}\n", "x".repeat(line * 100));
                    assert_eq!(file.write_at(line.as_bytes(), 0).unwrap(), line.len());
                }
            });
        }
    });
    let text = String::from_utf8(c.read("log").unwrap()).unwrap();
    let mut next = [0; THREADS];
    for line in text.lines() {
        let mut words = line.split(' ');
        let mut number = || words.next().unwrap().parse::<usize>().unwrap();
        let (thread, n) = (number(), number());
        assert_eq!(n, next[thread], "in the order of its writer");
        assert_eq!(words.next().unwrap().len(), n * 100);
        next[thread] += 1;
    }
    assert_eq!(next, [LINES; THREADS]);
    assert_eq!(c.metadata("log").unwrap().len(), text.len() as u64);
}

fn readers_see_whole_writes_of_a_page(s: &Session) {
    const PAGE: usize = 4096;
    let c = &s.client;
    c.write("file", [0; PAGE]).unwrap();
    let done = std::sync::atomic::AtomicBool::new(false);
    scope(|scope| {
        scope.spawn(|| {
            let mut options = OpenOptions::new();
            let file = options.write(true).open(c, "file").unwrap();
            for byte in 1..=200 {
                assert_eq!(file.write_at(&[byte; PAGE], 0).unwrap(), PAGE);
            }
            done.store(true, Ordering::Release);
        });
        for _ in 0..2 {
            scope.spawn(|| {
                let file = c.open("file").unwrap();
                let mut buf = [0; PAGE];
                let mut last = 0;
                while !done.load(Ordering::Acquire) {
                    assert_eq!(file.read_at(&mut buf, 0).unwrap(), PAGE);
                    assert!(buf[0] >= last, "an old page came back");
                    last = buf[0];
                    assert_eq!(file.metadata().unwrap().len(), PAGE as u64);
                    assert_eq!(c.metadata("file").unwrap().len(), PAGE as u64);
                }
            });
        }
    });
    assert_eq!(c.read("file").unwrap(), [200; PAGE]);
}

/// Replies may be taken in another order than the peer has answered in.
fn a_name_made_and_removed_at_once_is_as_the_host_has_it(s: &Session) {
    let c = &s.client;
    let makes: [fn(&fusewire::Client) -> fusewire::Result<()>; 4] = [
        |c| c.create("name").map(drop),
        |c| c.create_dir("name"),
        |c| c.symlink("x", "name"),
        |c| c.mknod("name", 0o010_600, 0),
    ];
    for round in 0..100 {
        let make = makes[round % makes.len()];
        let start = Barrier::new(3);
        scope(|scope| {
            scope.spawn(|| {
                start.wait();
                if let Err(error) = make(c) {
                    // A peer with several threads may find it removed before it has answered.
                    assert_eq!(error.errno(), Errno::NOENT.raw_os_error(), "{error}");
                }
            });
            scope.spawn(|| {
                start.wait();
                until("the name to be made and removed", || {
                    let gone = c.remove_file("name").or_else(|_| c.remove_dir("name"));
                    gone.map_err(|error| error.to_string())
                });
            });
            scope.spawn(|| {
                start.wait();
                let _ = c.symlink_metadata("name");
            });
        });
        // Made again by one who found it gone in the middle of making it, it may be there after all.
        let there = match s.host("name") {
            Some(host) => host.symlink_metadata().is_ok(),
            None => false,
        };
        let found = c.symlink_metadata("name").is_ok();
        assert_eq!(found, there, "round {round}");
        assert_eq!(c.read_dir("/").unwrap().count(), usize::from(there));
        if there {
            c.remove_file("name").unwrap();
        }
    }
}

fn a_file_renamed_and_looked_up_at_once_has_one_name(s: &Session) {
    let c = &s.client;
    c.write("name-0", "x").unwrap();
    for round in 0..60 {
        let (from, to) = (
            format!("name-{}", round % 2),
            format!("name-{}", (round + 1) % 2),
        );
        let start = Barrier::new(3);
        scope(|scope| {
            scope.spawn(|| {
                start.wait();
                c.rename(&from, &to).unwrap();
            });
            for name in [&from, &to] {
                let start = &start;
                scope.spawn(move || {
                    start.wait();
                    let _ = c.metadata(name);
                    let _ = c.open(name);
                });
            }
        });
        assert!(!c.exists(&from).unwrap(), "round {round}");
        assert!(c.exists(&to).unwrap(), "round {round}");
    }
}

fn many_threads_can_wait_at_once(s: &Session) {
    let c = &s.client;
    c.write("file", pattern(1, 100_000)).unwrap();
    scope(|scope| {
        for thread in 0..40u64 {
            scope.spawn(move || {
                let file = c.open("file").unwrap();
                let mut buf = vec![0; 50_000];
                for round in 0..5 {
                    let offset = (thread * 1009 + round * 37) % 50_000;
                    file.read_exact_at(&mut buf, offset).unwrap();
                    c.metadata("file").unwrap();
                    c.statfs("/").unwrap();
                }
            });
        }
    });
}
