//! What the client makes of a peer that answers late, wrongly or not at all.

use fusewire::{Client, Timeouts};
use fusewire_server::dir::{DirOptions, Directory};
use fusewire_server::mem::{MemOptions, Memory};
use fusewire_server::scripted::{Action, Gate, Rules, Script, ScriptedPeer, Seen, start};
use fusewire_server::{CacheMode, Caching, Errno, ServerOptions};
use fusewire_wire::Opcode;
use fusewire_wire::abi::{Attr, AttrOut, Dirent, EntryOut, InitOut, OutHeader, WriteOut};
use std::io::{Read, Write};
use std::time::{Duration, Instant};
use zerocopy::IntoBytes;

const TIMEOUT: Duration = Duration::from_millis(150);

fn connect(script: impl Script) -> (Client, ScriptedPeer<Memory>) {
    let fs = Memory::new(MemOptions::default());
    // Two threads, so that a held request does not hold up the others.
    let options = ServerOptions {
        threads: 2,
        ..ServerOptions::default()
    };
    let (transport, peer) = start(fs, script, &options).unwrap();
    let client = builder().connect(transport).unwrap();
    (client, peer)
}

fn builder() -> fusewire::Builder {
    Client::builder().timeouts(Timeouts {
        metadata: Some(TIMEOUT),
        data: Some(TIMEOUT),
    })
}

#[track_caller]
fn fails_with<T: std::fmt::Debug>(result: fusewire::Result<T>, errno: Errno) {
    let error = result.unwrap_err();
    assert_eq!(error.errno(), errno.raw_os_error(), "{error}");
}

/// A directory entry of a node that is valid for ever.
fn directory_entry(nodeid: u64) -> EntryOut {
    EntryOut {
        nodeid,
        entry_valid: u64::MAX,
        entry_valid_nsec: u32::MAX,
        attr_valid: u64::MAX,
        attr_valid_nsec: u32::MAX,
        attr: Attr {
            mode: 0o040_755,
            ..Attr::default()
        },
        ..EntryOut::default()
    }
}

/// A tree in which every directory holds a directory: what `child` says.
fn bottomless(child: impl Fn(u64) -> u64 + Send + Sync + 'static) -> impl Fn(&Seen) -> Action {
    const NAME: &[u8] = b"below";
    move |seen: &Seen| {
        let entry = directory_entry(child(seen.node));
        match seen.opcode {
            Some(Opcode::Lookup) => Action::Body(entry.as_bytes().to_vec()),
            Some(Opcode::Opendir) => Action::Body(vec![0; 16]),
            Some(Opcode::Releasedir) => Action::Body(Vec::new()),
            Some(Opcode::Readdirplus) if seen.offset > 0 => Action::Body(Vec::new()),
            Some(Opcode::Readdirplus) => {
                let fixed = Dirent {
                    ino: entry.nodeid,
                    off: 1,
                    namelen: NAME.len() as u32,
                    typ: 4,
                };
                let mut body = entry.as_bytes().to_vec();
                body.extend_from_slice(fixed.as_bytes());
                body.extend_from_slice(NAME);
                body.resize(body.len().next_multiple_of(8), 0);
                Action::Body(body)
            }
            _ => Action::Answer,
        }
    }
}

#[test]
fn trees_without_a_bottom_end_in_an_error() {
    type Child = fn(u64) -> u64;
    let trees: [(&str, Child, Errno); 2] = [
        (
            "a circle",
            |node| if node == 2 { 3 } else { 2 },
            Errno::LOOP,
        ),
        ("ever deeper", |node| node + 1, Errno::NAMETOOLONG),
    ];
    for (what, child, errno) in trees {
        let fs = Memory::new(MemOptions::default());
        let (transport, peer) = start(fs, bottomless(child), &ServerOptions::default()).unwrap();
        let client = Client::builder().connect(transport).unwrap();
        let error = client.remove_dir_all("/below").unwrap_err();
        assert_eq!(error.errno(), errno.raw_os_error(), "{what}: {error}");
        until("the end of all requests", || {
            client.stats().engine.orphans == 0
        });
        client.drop_caches();
        assert_eq!(client.stats().live_nodes, 1, "{what}");
        client.shutdown().unwrap();
        peer.join();
    }
}

#[test]
fn a_link_in_a_directorys_place_is_not_emptied() {
    let tree = tempfile::tempdir().unwrap();
    let at = |path: &str| tree.path().join(path);
    std::fs::create_dir_all(at("tmp/a/b")).unwrap();
    std::fs::create_dir(at("precious")).unwrap();
    std::fs::write(at("precious/data"), "x").unwrap();
    let top = tree.path().to_path_buf();
    // Somebody else swaps the directory after it was listed above.
    let script = move |seen: &Seen| {
        if seen.opcode == Some(Opcode::Readdirplus) && seen.nth == 2 {
            std::fs::rename(top.join("tmp/a"), top.join("away")).unwrap();
            std::os::unix::fs::symlink("../precious", top.join("tmp/a")).unwrap();
        }
        Action::Answer
    };
    let options = DirOptions {
        caching: Caching {
            mode: CacheMode::Auto,
            ..Caching::never()
        },
        ..DirOptions::default()
    };
    let fs = Directory::new(tree.path(), options).unwrap();
    let (transport, peer) = start(fs, script, &ServerOptions::default()).unwrap();
    let client = Client::builder().connect(transport).unwrap();
    // The link is removed, and what it leads to is not.
    client.remove_dir_all("/tmp").unwrap();
    assert!(!at("tmp").exists() && at("away").exists());
    assert!(at("precious/data").exists());
    client.shutdown().unwrap();
    peer.join();
}

/// Waits for `done`, which some other thread brings about.
#[track_caller]
fn until(what: &str, done: impl Fn() -> bool) {
    let limit = Instant::now() + Duration::from_secs(20);
    while !done() {
        assert!(Instant::now() < limit, "{what} does not happen");
        std::thread::yield_now();
    }
}

/// Everything was given back: nothing is held on either side.
#[track_caller]
fn nothing_is_left(client: Client, peer: ScriptedPeer<Memory>) {
    until("the end of all requests", || {
        let engine = client.stats().engine;
        engine.orphans == 0 && engine.slots_busy == 0
    });
    client.drop_caches();
    let stats = client.stats();
    assert_eq!((stats.open_handles, stats.frames_used), (0, 0), "{stats:?}");
    assert_eq!(stats.live_nodes, 1, "{stats:?}");
    client.shutdown().unwrap();
    let usage = peer.join();
    assert_eq!(
        (usage.lookups, usage.open_handles),
        (0, 0),
        "the peer still counts {usage:?}"
    );
}

/// Times out, then lets the answer through.
fn late(opcode: Opcode, prepare: impl Fn(&Client), call: impl Fn(&Client) -> fusewire::Result<()>) {
    let gate = Gate::new();
    let (client, peer) = connect(Rules::new().nth(opcode, 1, Action::HoldAfter(gate.clone())));
    prepare(&client);
    fails_with(call(&client), Errno::TIMEDOUT);
    assert_eq!(client.stats().engine.orphans, 1);
    gate.open();
    nothing_is_left(client, peer);
}

#[test]
fn a_late_lookup_is_forgotten() {
    late(
        Opcode::Lookup,
        |_| {},
        |client| client.metadata("/missing").map(drop),
    );
    let gate = Gate::new();
    // The first LOOKUP is `create`'s own; the second finds the file.
    let rules = Rules::new().nth(Opcode::Lookup, 2, Action::HoldAfter(gate.clone()));
    let (client, peer) = connect(rules);
    drop(client.create("/file").unwrap());
    client.drop_caches();
    fails_with(client.metadata("/file"), Errno::TIMEDOUT);
    gate.open();
    nothing_is_left(client, peer);
}

#[test]
fn late_new_objects_are_forgotten() {
    late(Opcode::Mkdir, |_| {}, |client| client.create_dir("/dir"));
    late(
        Opcode::Symlink,
        |_| {},
        |client| client.symlink("to", "/link"),
    );
    late(
        Opcode::Mknod,
        |_| {},
        |client| client.mknod("/pipe", 0o010_600, 0),
    );
    late(
        Opcode::Link,
        |client| drop(client.create("/file").unwrap()),
        |client| client.hard_link("/file", "/other"),
    );
}

#[test]
fn late_handles_are_released() {
    late(
        Opcode::Create,
        |_| {},
        |client| client.create("/file").map(drop),
    );
    late(
        Opcode::Open,
        |client| drop(client.create("/file").unwrap()),
        |client| client.open("/file").map(drop),
    );
    late(
        Opcode::Opendir,
        |_| {},
        |client| client.read_dir("/").map(drop),
    );
}

#[test]
fn late_directory_entries_are_forgotten() {
    late(
        Opcode::Readdirplus,
        |client| {
            for i in 0..20 {
                client.write(format!("/file{i}"), b"").unwrap();
            }
            client.drop_caches();
        },
        |client| client.read_dir("/")?.try_for_each(|entry| entry.map(drop)),
    );
}

#[test]
fn what_was_done_late_is_seen() {
    let gate = Gate::new();
    let (client, peer) =
        connect(Rules::new().nth(Opcode::Mkdir, 1, Action::HoldAfter(gate.clone())));
    assert!(!client.exists("/dir").unwrap());
    fails_with(client.create_dir("/dir"), Errno::TIMEDOUT);
    gate.open();
    until("the late answer", || client.stats().engine.orphans == 0);
    assert!(client.exists("/dir").unwrap(), "a stale absence was cached");
    nothing_is_left(client, peer);
}

#[test]
fn a_file_is_not_released_while_a_read_of_it_is_in_flight() {
    let gate = Gate::new();
    let (client, peer) =
        connect(Rules::new().nth(Opcode::Read, 1, Action::HoldBefore(gate.clone())));
    client.write("/file", b"contents").unwrap();
    until("the release of the new file", || {
        client.stats().engine.orphans == 0
    });
    let released = peer.count(Opcode::Release);
    let file = client.open("/file").unwrap();
    fails_with(file.read_at(&mut [0; 8], 0), Errno::TIMEDOUT);
    drop(file);
    // A round trip later, nothing was released: the READ still uses the handle.
    client.metadata("/file").unwrap();
    client.statfs("/").unwrap();
    assert_eq!(peer.count(Opcode::Release), released);
    assert_eq!(client.stats().open_handles, 1);
    assert!(client.stats().frames_used > 0, "frames stay for the READ");
    gate.open();
    until("the release", || {
        peer.count(Opcode::Release) == released + 1
    });
    nothing_is_left(client, peer);
}

#[test]
fn malformed_replies_are_io_errors_and_no_more() {
    let cases = [
        ("another request's", Action::WrongUnique(u64::MAX)),
        ("no header", Action::CutTo(0)),
        ("half a header", Action::CutTo(8)),
        ("a cut body", Action::CutTo(40)),
        ("a length too small", Action::WrongLength(3)),
        ("a length too large", Action::WrongLength(u32::MAX)),
        ("an error out of range", error_reply(-512)),
        ("a positive error", error_reply(5)),
        ("an attribute of no type", attr_reply(0, 0)),
        ("a size of no file", attr_reply(0o100_644, u64::MAX)),
        ("another type", attr_reply(0o100_644, 0)),
    ];
    for (what, action) in cases {
        let (client, peer) = connect(Rules::new().nth(Opcode::Getattr, 1, action));
        let error = client.metadata("/").unwrap_err();
        assert_eq!(error.errno(), Errno::IO.raw_os_error(), "{what}: {error}");
        assert!(client.metadata("/").unwrap().is_dir(), "{what}: and now");
        nothing_is_left(client, peer);
    }
}

/// A reply of its own header alone; the unique is filled in wrongly, which must not matter more
/// than the error.
fn error_reply(error: i32) -> Action {
    let header = OutHeader {
        len: 16,
        error,
        unique: 2,
    };
    Action::Raw(header.as_bytes().to_vec())
}

fn attr_reply(mode: u32, size: u64) -> Action {
    let out = AttrOut {
        attr: Attr {
            mode,
            size,
            ..Attr::default()
        },
        ..AttrOut::default()
    };
    Action::Body(out.as_bytes().to_vec())
}

fn entry_reply(nodeid: u64, mode: u32) -> Action {
    let out = EntryOut {
        nodeid,
        attr: Attr {
            mode,
            ..Attr::default()
        },
        ..EntryOut::default()
    };
    Action::Body(out.as_bytes().to_vec())
}

#[test]
fn entries_no_peer_may_give_are_io_errors() {
    for (what, action) in [
        ("the root below itself", entry_reply(1, 0o040_755)),
        ("a node of no type", entry_reply(77, 0)),
    ] {
        let (client, peer) = connect(Rules::new().nth(Opcode::Lookup, 1, action));
        let error = client.metadata("/x").unwrap_err();
        assert_eq!(error.errno(), Errno::IO.raw_os_error(), "{what}: {error}");
        assert!(!client.exists("/x").unwrap(), "{what}: and now");
        client.shutdown().unwrap();
        peer.join();
    }
}

#[test]
fn a_handle_that_comes_with_an_impossible_entry_is_released() {
    let entry = EntryOut {
        nodeid: 1,
        ..EntryOut::default()
    };
    let mut body = entry.as_bytes().to_vec();
    body.extend_from_slice(&[9; 16]);
    let (client, peer) = connect(Rules::new().nth(Opcode::Create, 1, Action::Body(body)));
    fails_with(client.create("/x"), Errno::IO);
    assert!(peer.wait_for_nth(Opcode::Release, 1));
    client.shutdown().unwrap();
    peer.join();
}

#[test]
fn broken_rings_end_the_connection_once() {
    for (what, action) in [
        ("an answer given twice", Action::Twice),
        ("more than there is room for", Action::UsedLength(u32::MAX)),
    ] {
        let (client, peer) = connect(Rules::new().nth(Opcode::Getattr, 1, action));
        // The answer itself may be good; the ring is not.
        let first = client.metadata("/");
        until(what, || client.metadata("/").is_err());
        if let Err(error) = first {
            assert_eq!(error.errno(), Errno::CONNABORTED.raw_os_error(), "{error}");
        }
        let error = client.metadata("/").unwrap_err();
        assert_eq!(error.errno(), Errno::NOTCONN.raw_os_error(), "{error}");
        assert!(error.to_string().contains("protocol"), "{error}");
        drop(client);
        drop(peer);
    }
}

#[test]
fn a_peer_that_leaves_a_quarter_unanswered_is_given_up() {
    let (client, _peer) = connect(Rules::new().every(Opcode::Getattr, Action::Never));
    let callers: Vec<_> = (0..80)
        .map(|_| {
            let client = client.clone();
            std::thread::spawn(move || client.metadata("/").unwrap_err().errno())
        })
        .collect();
    for caller in callers {
        let errno = Errno::from_raw_os_error(caller.join().unwrap());
        assert!(
            [Errno::TIMEDOUT, Errno::CONNABORTED, Errno::NOTCONN].contains(&errno),
            "{errno}"
        );
    }
    until("the end", || client.ended().is_some());
    let ended = client.ended().unwrap();
    assert!(ended.contains("unanswered"), "{ended}");
}

#[test]
fn a_peer_that_never_answers_init_is_an_error_in_time() {
    let fs = Memory::new(MemOptions::default());
    let rules = Rules::new().every(Opcode::Init, Action::Never);
    let (transport, _peer) = start(fs, rules, &ServerOptions::default()).unwrap();
    fails_with(builder().connect(transport).map(drop), Errno::TIMEDOUT);
}

#[test]
fn peers_of_other_versions_are_named() {
    for (major, minor, says) in [(8, 0, "FUSE 8"), (6, 0, "FUSE 6"), (7, 18, "7.18")] {
        let out = InitOut {
            major,
            minor,
            ..InitOut::default()
        };
        let fs = Memory::new(MemOptions::default());
        let rules = Rules::new().every(Opcode::Init, Action::Body(out.as_bytes().to_vec()));
        let (transport, _peer) = start(fs, rules, &ServerOptions::default()).unwrap();
        let error = builder().connect(transport).unwrap_err();
        assert_eq!(error.errno(), Errno::PROTO.raw_os_error(), "{error}");
        assert!(error.to_string().contains(says), "{error}");
    }
}

#[test]
fn short_reads_and_writes_lose_nothing() {
    let data: Vec<u8> = (0..6_000_000u32).map(|i| (i / 7) as u8).collect();
    let rules = Rules::new()
        .nth(Opcode::Write, 2, Action::Limit(1000))
        .nth(Opcode::Write, 5, Action::Limit(1))
        .nth(Opcode::Read, 2, Action::Limit(777))
        .nth(Opcode::Read, 4, Action::Limit(4096));
    let (client, peer) = connect(rules);
    let mut file = client.create("/file").unwrap();
    file.write_all(&data).unwrap();
    file.close().unwrap();
    let mut back = vec![0; data.len()];
    client.open("/file").unwrap().read_exact(&mut back).unwrap();
    assert!(back == data);
    nothing_is_left(client, peer);
}

#[test]
fn an_error_in_the_middle_of_a_write_shows_what_was_written() {
    // By its place: several are in flight, and need not come in order.
    let third = |seen: &Seen| match seen.opcode {
        Some(Opcode::Write) if seen.offset == 2 << 20 => Action::Errno(Errno::NOSPC),
        _ => Action::Answer,
    };
    let (client, peer) = connect(third);
    let chunk = client.negotiated().max_write_bytes as usize;
    assert_eq!(chunk, 1 << 20);
    let file = client.create("/file").unwrap();
    let written = file.write_at(&vec![1; 4 * chunk], 0).unwrap();
    assert_eq!(written, 2 * chunk);
    drop(file);
    nothing_is_left(client, peer);
    let rules = Rules::new().nth(Opcode::Write, 1, Action::Errno(Errno::NOSPC));
    let (client, peer) = connect(rules);
    fails_with(client.write("/file", b"x"), Errno::NOSPC);
    nothing_is_left(client, peer);
}

#[test]
fn a_write_that_claims_too_much_is_an_io_error() {
    let out = WriteOut {
        size: 1000,
        padding: 0,
    };
    let rules = Rules::new().nth(Opcode::Write, 1, Action::Body(out.as_bytes().to_vec()));
    let (client, peer) = connect(rules);
    fails_with(client.write("/file", b"x"), Errno::IO);
    nothing_is_left(client, peer);
}

#[test]
fn flush_errors_reach_close_and_the_file_is_closed_all_the_same() {
    let rules = Rules::new().nth(Opcode::Flush, 1, Action::Errno(Errno::DQUOT));
    let (client, peer) = connect(rules);
    let file = client.create("/file").unwrap();
    fails_with(file.close(), Errno::DQUOT);
    nothing_is_left(client, peer);
}

/// Entries of the directory stream that a broken peer sends for ever.
fn dirents(entries: &[(&[u8], u64)]) -> Vec<u8> {
    let mut bytes = Vec::new();
    for (name, off) in entries {
        let fixed = Dirent {
            ino: 5,
            off: *off,
            namelen: name.len() as u32,
            typ: 8,
        };
        bytes.extend_from_slice(EntryOut::default().as_bytes());
        bytes.extend_from_slice(fixed.as_bytes());
        bytes.extend_from_slice(name);
        bytes.resize(bytes.len().next_multiple_of(8), 0);
    }
    bytes
}

#[test]
fn directory_streams_that_go_nowhere_end() {
    for (what, body) in [
        ("a name with a slash", dirents(&[(b"a/../b", 1)])),
        ("a name with a NUL", dirents(&[(b"a\0b", 1)])),
        ("an offset that stands still", dirents(&[(b"a", 0)])),
        ("half an entry", dirents(&[(b"abc", 1)])[..140].to_vec()),
    ] {
        let rules = Rules::new().every(Opcode::Readdirplus, Action::Body(body));
        let (client, peer) = connect(rules);
        let entries: Vec<_> = client.read_dir("/").unwrap().take(1000).collect();
        let last = entries.last().unwrap();
        let error = last.as_ref().expect_err(what);
        assert_eq!(error.errno(), Errno::IO.raw_os_error(), "{what}: {error}");
        assert!(entries.len() < 1000, "{what}");
        drop(entries);
        nothing_is_left(client, peer);
    }
}

#[test]
fn link_targets_no_link_can_have_are_io_errors() {
    for body in [&b""[..], b"a\0b"] {
        let rules = Rules::new().every(Opcode::Readlink, Action::Body(body.to_vec()));
        let (client, peer) = connect(rules);
        client.symlink("to", "/link").unwrap();
        fails_with(client.read_link("/link"), Errno::IO);
        fails_with(client.metadata("/link"), Errno::IO);
        nothing_is_left(client, peer);
    }
}

#[test]
fn the_death_of_the_peer_ends_every_call() {
    let (client, peer) = connect(Rules::new().every(Opcode::Getattr, Action::Never));
    let callers: Vec<_> = (0..8)
        .map(|_| {
            let client = client.clone();
            std::thread::spawn(move || client.metadata("/").unwrap_err())
        })
        .collect();
    assert!(peer.wait_for(|log| {
        log.iter()
            .filter(|s| s.opcode == Some(Opcode::Getattr))
            .count()
            >= 8
    }));
    peer.die();
    for caller in callers {
        let error = caller.join().unwrap();
        let ended = [Errno::CONNABORTED, Errno::TIMEDOUT];
        assert!(
            ended.iter().any(|e| e.raw_os_error() == error.errno()),
            "{error}"
        );
    }
    fails_with(client.metadata("/"), Errno::NOTCONN);
}
