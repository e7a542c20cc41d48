//! What a peer may do, and a client would rather not see.

use crate::calls::{CALLS, prepare};
use crate::harness::{Setup, alone, connect, count, ends_clean, fails_with, lets_go};
use fusewire_server::scripted::{Action, Rules, Script, Seen};
use fusewire_server::{Caching, Errno};
use fusewire_wire::abi::{Attr, AttrOut, Dirent, EntryOut};
use fusewire_wire::{InitFlags, Opcode};
use std::collections::BTreeSet;
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use zerocopy::IntoBytes;

const FILE: u32 = 0o100_644;

fn plain() -> impl Script + Clone {
    Rules::new()
}

/// Everything at its smallest, nothing that a peer may leave out, and validities that are over at
/// once.
fn setups() -> Vec<(String, Setup)> {
    let instant = Duration::from_nanos(1);
    let passing = Caching {
        entry_timeout: instant,
        attr_timeout: instant,
        negative_timeout: instant,
        ..Caching::always()
    };
    let smallest = Setup {
        max_write_bytes: 4096,
        queue_size: 8,
        max_cached_nodes: 1,
        ..Setup::default()
    };
    let with = |caching| Setup {
        caching,
        ..smallest
    };
    let mut setups = vec![
        ("the smallest of all".to_owned(), smallest),
        ("the same, cached".to_owned(), with(Caching::always())),
        ("validities that pass at once".to_owned(), with(passing)),
    ];
    for flag in [
        InitFlags::ASYNC_READ,
        InitFlags::ATOMIC_O_TRUNC,
        InitFlags::BIG_WRITES,
        InitFlags::DO_READDIRPLUS,
        InitFlags::ASYNC_DIO,
        InitFlags::PARALLEL_DIROPS,
        InitFlags::MAX_PAGES,
        InitFlags::SETXATTR_EXT,
        InitFlags::all(),
    ] {
        let setup = Setup {
            caching: Caching::always(),
            without: flag,
            ..Setup::default()
        };
        setups.push((format!("without {flag:?}"), setup));
    }
    setups
}

#[test]
fn every_call_works_at_any_limits() {
    let _alone = alone();
    for (name, setup) in setups() {
        for call in CALLS {
            let what = format!("{}: {name}", call.name);
            let (client, peer) = connect(&setup, plain());
            prepare(&client);
            (call.run)(&client).unwrap_or_else(|error| panic!("{what}: {error}"));
            ends_clean(client, peer, &what);
        }
    }
}

/// Requests of one page, few at once, by several callers.
#[test]
fn data_goes_through_the_smallest_connection() {
    let _alone = alone();
    let setup = Setup {
        max_write_bytes: 4096,
        queue_size: 8,
        max_cached_nodes: 1,
        ..Setup::default()
    };
    let (client, peer) = connect(&setup, plain());
    assert_eq!(client.negotiated().max_pages, 1);
    std::thread::scope(|scope| {
        for n in 0..4_u8 {
            let client = client.clone();
            scope.spawn(move || {
                let data: Vec<u8> = (0..300_000_u32).map(|i| (i / 5) as u8 ^ n).collect();
                let path = format!("/{n}");
                client.write(&path, &data).unwrap();
                assert!(client.read(&path).unwrap() == data);
            });
        }
    });
    let largest = peer
        .log()
        .iter()
        .filter(|seen| {
            let moves = [Some(Opcode::Read), Some(Opcode::Write)];
            moves.contains(&seen.opcode)
        })
        .map(|seen| seen.size)
        .max();
    assert_eq!(largest, Some(4096));
    ends_clean(client, peer, "four files");
}

fn entry(nodeid: u64, generation: u64, mode: u32) -> EntryOut {
    EntryOut {
        nodeid,
        generation,
        attr: Attr {
            mode,
            ..Attr::default()
        },
        ..EntryOut::default()
    }
}

/// The peer gives a number that is still in use to another object.
#[test]
fn a_number_that_is_given_away_is_stale() {
    let _alone = alone();
    const NODE: u64 = 4711;
    let second = [
        ("another generation", entry(NODE, 2, FILE)),
        ("another type", entry(NODE, 1, 0o010_644)),
    ];
    for (what, other) in second {
        let script = move |seen: &Seen| match (seen.opcode, seen.name.as_deref()) {
            (Some(Opcode::Lookup), Some(b"old")) => {
                Action::Body(entry(NODE, 1, FILE).as_bytes().to_vec())
            }
            (Some(Opcode::Lookup), Some(b"new")) => Action::Body(other.as_bytes().to_vec()),
            (Some(Opcode::Getattr), _) if seen.node == NODE => {
                let out = AttrOut {
                    attr: other.attr,
                    ..AttrOut::default()
                };
                Action::Body(out.as_bytes().to_vec())
            }
            (Some(Opcode::Open), _) => Action::Body(vec![0; 16]),
            (Some(Opcode::Release | Opcode::Flush), _) => Action::Body(Vec::new()),
            _ => Action::Answer,
        };
        let (client, peer) = connect(&Setup::default(), script);
        let old = client.open("/old").unwrap();
        client.symlink_metadata("/new").unwrap();
        let asked = count(&peer, Opcode::Getattr);
        fails_with(old.metadata(), Errno::STALE, what);
        assert_eq!(count(&peer, Opcode::Getattr), asked, "{what}");
        // What is there now is not the old one's fault.
        client.symlink_metadata("/new").unwrap();
        drop(old);
        let left = lets_go(client, peer, what);
        let lookups = left.log.iter().filter(|seen| {
            let name = seen.name.as_deref();
            seen.opcode == Some(Opcode::Lookup) && (name == Some(b"old") || name == Some(b"new"))
        });
        assert_eq!(left.forgotten(NODE), lookups.count() as u64, "{what}");
    }
}

/// Attributes that others change are seen as soon as their validity is over.
#[test]
fn attributes_that_change_behind_our_back_are_seen() {
    let _alone = alone();
    let asked = Arc::new(AtomicU64::new(0));
    let script = {
        let asked = Arc::clone(&asked);
        move |seen: &Seen| match seen.opcode {
            Some(Opcode::Getattr) if seen.node != 1 => {
                let n = asked.fetch_add(1, Ordering::SeqCst);
                let attr = Attr {
                    // It grows, shrinks, and grows.
                    size: [10, 1 << 40, 0, 3][n as usize % 4],
                    mode: FILE ^ (n as u32 & 0o111),
                    nlink: n as u32,
                    ..Attr::default()
                };
                let out = AttrOut {
                    attr,
                    ..AttrOut::default()
                };
                Action::Body(out.as_bytes().to_vec())
            }
            _ => Action::Answer,
        }
    };
    let (client, peer) = connect(&Setup::default(), script);
    client.write("/file", b"text").unwrap();
    for _ in 0..8 {
        let n = asked.load(Ordering::SeqCst);
        let meta = client.metadata("/file").unwrap();
        assert_eq!(meta.nlink(), n);
        assert_eq!(meta.len(), [10, 1 << 40, 0, 3][n as usize % 4]);
        assert_eq!(meta.mode(), FILE ^ (n as u32 & 0o111));
    }
    ends_clean(client, peer, "changes");
}

/// A name that is absent is asked for as often as the peer wants.
#[test]
fn absent_names_are_cached_as_long_as_the_peer_says() {
    let _alone = alone();
    for (negative_timeout, asked) in [(Duration::ZERO, 5), (Duration::from_secs(3600), 1)] {
        let setup = Setup {
            caching: Caching {
                negative_timeout,
                ..Caching::always()
            },
            ..Setup::default()
        };
        let (client, peer) = connect(&setup, plain());
        for _ in 0..5 {
            assert!(!client.exists("/none").unwrap());
        }
        assert_eq!(count(&peer, Opcode::Lookup), asked);
        // Made by ourselves, it is there at once.
        client.write("/none", b"").unwrap();
        assert!(client.exists("/none").unwrap());
        client.remove_file("/none").unwrap();
        assert!(!client.exists("/none").unwrap());
        ends_clean(client, peer, "absent");
    }
}

/// One entry of a listing, without attributes.
fn record(name: &[u8], offset: u64, plus: bool) -> Vec<u8> {
    let fixed = Dirent {
        ino: 7,
        off: offset,
        namelen: name.len() as u32,
        typ: 8,
    };
    let mut bytes = Vec::new();
    if plus {
        bytes.extend_from_slice(EntryOut::default().as_bytes());
    }
    bytes.extend_from_slice(fixed.as_bytes());
    bytes.extend_from_slice(name);
    bytes.resize(bytes.len().next_multiple_of(8), 0);
    bytes
}

/// Offsets are the peer's own numbers, and one entry at a time is a listing, too. Entries
/// without attributes are looked up when somebody wants to know.
#[test]
fn listings_come_one_entry_at_a_time_with_any_offsets() {
    let _alone = alone();
    const OFFSETS: [u64; 7] = [5, u64::MAX, 1, 1 << 63, 2, (1 << 63) - 1, u64::MAX - 1];
    for caching in [Caching::never(), Caching::always()] {
        let script = move |seen: &Seen| {
            let plus = seen.opcode == Some(Opcode::Readdirplus);
            if !plus && seen.opcode != Some(Opcode::Readdir) {
                return Action::Answer;
            }
            let at = match seen.offset {
                0 => 0,
                offset => OFFSETS.iter().position(|o| *o == offset).unwrap() + 1,
            };
            Action::Body(match OFFSETS.get(at) {
                Some(next) => record(format!("file{at}").as_bytes(), *next, plus),
                None => Vec::new(),
            })
        };
        let setup = Setup {
            caching,
            ..Setup::default()
        };
        let (client, peer) = connect(&setup, script);
        client.write("/file3", b"text").unwrap();
        let entries = client.read_dir("/").unwrap();
        let entries: Vec<_> = entries.map(|entry| entry.unwrap()).collect();
        let names: Vec<_> = entries.iter().map(|entry| entry.file_name()).collect();
        let all: Vec<_> = (0..OFFSETS.len())
            .map(|n| OsString::from(format!("file{n}")))
            .collect();
        assert_eq!(names, all);
        assert!(entries.iter().all(|e| e.file_type().unwrap().is_file()));
        assert_eq!(entries[3].metadata().unwrap().len(), 4);
        fails_with(entries[4].metadata(), Errno::NOENT, "it is listed only");
        // From the middle, where a caller has been before.
        let mut again = client.read_dir("/").unwrap();
        again.seek(entries[3].next_offset());
        let rest = again.map(|entry| entry.unwrap().file_name());
        assert_eq!(rest.collect::<Vec<_>>(), all[4..]);
        drop(entries);
        ends_clean(client, peer, "offsets");
    }
}

/// A directory that changes while it is listed.
#[test]
fn what_is_removed_while_it_is_listed_is_listed_once() {
    let _alone = alone();
    const FILES: usize = 600;
    for caching in [Caching::never(), Caching::always()] {
        let setup = Setup {
            caching,
            // A page of entries at once.
            max_write_bytes: 4096,
            ..Setup::default()
        };
        let (client, peer) = connect(&setup, plain());
        for n in 0..FILES {
            client.write(format!("/old-{n}"), b"").unwrap();
        }
        let mut seen = BTreeSet::new();
        for (n, entry) in client.read_dir("/").unwrap().enumerate() {
            let entry = entry.unwrap();
            assert!(seen.insert(entry.file_name()), "{entry:?} twice");
            client.remove_file(entry.path()).unwrap();
            if n < FILES {
                client.write(format!("/new-{n}"), b"").unwrap();
            }
        }
        let old = seen
            .iter()
            .filter(|name| name.as_bytes().starts_with(b"old"));
        assert_eq!(old.count(), FILES);
        ends_clean(client, peer, "a changing directory");
    }
}

/// Names of any bytes, as long as the daemon allows.
#[test]
fn names_are_any_bytes_up_to_255() {
    let _alone = alone();
    let (client, peer) = connect(&Setup::default(), plain());
    let bytes: Vec<u8> = (1..=255)
        .filter(|byte| *byte != b'/')
        .chain([b'x'])
        .collect();
    assert_eq!(bytes.len(), 255);
    let name = OsStr::from_bytes(&bytes);
    client.write(name, b"text").unwrap();
    assert_eq!(client.read(name).unwrap(), b"text");
    let listed = client.read_dir("/").unwrap().next().unwrap().unwrap();
    assert_eq!(listed.file_name(), name);
    assert_eq!(listed.metadata().unwrap().len(), 4);
    client.rename(name, "/short").unwrap();
    client.rename("/short", name).unwrap();
    client.remove_file(name).unwrap();
    // Up to 1024 bytes, the limit is the daemon's; beyond, nobody is asked.
    for (len, more) in [(256, 1), (1024, 1), (1025, 0)] {
        let asked = count(&peer, Opcode::Lookup);
        let long = "x".repeat(len);
        fails_with(client.metadata(&long), Errno::NAMETOOLONG, "a long name");
        assert_eq!(count(&peer, Opcode::Lookup), asked + more, "{len}");
    }
    ends_clean(client, peer, "names");
}

/// A listing may have names that nobody can ask for.
#[test]
fn names_beyond_255_bytes_are_listed_and_cannot_be_used() {
    let _alone = alone();
    for (len, good) in [(256, true), (1024, true), (1025, false), (0, false)] {
        let script = move |seen: &Seen| match (seen.opcode, seen.offset) {
            (Some(Opcode::Readdir), 0) => Action::Body(record(&vec![b'n'; len], 1, false)),
            (Some(Opcode::Readdir), _) => Action::Body(Vec::new()),
            _ => Action::Answer,
        };
        let (client, peer) = connect(&Setup::default(), script);
        let first = client.read_dir("/").unwrap().next().unwrap();
        if good {
            let entry = first.unwrap();
            assert_eq!(entry.file_name().len(), len);
            fails_with(entry.metadata(), Errno::NAMETOOLONG, "a long name");
        } else {
            fails_with(first.map(drop), Errno::IO, "no name");
        }
        ends_clean(client, peer, "long names");
    }
}
