//! Opening files at daemons that do less than others.

use fusewire::{Allocate, Client, OpenOptions};
use fusewire_server::mem::{MemOptions, Memory};
use fusewire_server::scripted::{Action, Gate, Rules, ScriptedPeer, start};
use fusewire_server::{Errno, ServerOptions, Usage};
use fusewire_wire::abi::OpenOut;
use fusewire_wire::{Opcode, OpenOutFlags};
use std::io::{Read, Seek, Write};
use std::os::unix::fs::PermissionsExt;
use std::thread;
use zerocopy::IntoBytes;

type Peer = ScriptedPeer<Memory>;

fn connect(rules: Rules, stateless: bool) -> (Client, Peer) {
    let fs = Memory::new(MemOptions {
        stateless,
        ..MemOptions::default()
    });
    let options = ServerOptions {
        threads: 2,
        ..ServerOptions::default()
    };
    let (transport, peer) = start(fs, rules, &options).unwrap();
    let client = Client::builder().umask(0o022).connect(transport).unwrap();
    (client, peer)
}

fn count(peer: &Peer, opcode: Opcode) -> usize {
    let log = peer.log();
    log.iter().filter(|s| s.opcode == Some(opcode)).count()
}

#[track_caller]
fn fails_with<T: std::fmt::Debug>(result: fusewire::Result<T>, errno: Errno) {
    let error = result.unwrap_err();
    assert_eq!(error.errno(), errno.raw_os_error(), "{error}");
}

fn ends_clean(client: Client, peer: Peer) {
    client.drop_caches();
    client.shutdown().unwrap();
    assert_eq!(peer.join(), Usage::default());
}

/// What `std::fs` does with files, on any daemon.
fn use_files(client: &Client) {
    client.create_dir("/dir").unwrap();
    client.write("/dir/file", b"first").unwrap();
    assert_eq!(client.read("/dir/file").unwrap(), b"first");
    client.write("/dir/file", b"2nd").unwrap();
    assert_eq!(client.read("/dir/file").unwrap(), b"2nd");
    let mut new = OpenOptions::new();
    new.read(true).write(true).create_new(true).mode(0o640);
    fails_with(new.open(client, "/dir/file"), Errno::EXIST);
    let mut file = new.open(client, "/dir/new").unwrap();
    file.write_all(b"text").unwrap();
    file.rewind().unwrap();
    let mut text = String::new();
    file.read_to_string(&mut text).unwrap();
    assert_eq!(text, "text");
    file.sync_all().unwrap();
    file.close().unwrap();
    let mode = client.metadata("/dir/new").unwrap().permissions().mode();
    assert_eq!(mode & 0o7777, 0o640);
    // Whoever makes a file may write it, whatever its rights.
    let mut sealed = OpenOptions::new();
    sealed.write(true).create_new(true).mode(0o400);
    let mut file = sealed.open(client, "/dir/sealed").unwrap();
    file.write_all(b"once").unwrap();
    drop(file);
    let mut append = OpenOptions::new()
        .append(true)
        .open(client, "/dir/new")
        .unwrap();
    append.write_all(b" and more").unwrap();
    drop(append);
    assert_eq!(client.read("/dir/new").unwrap(), b"text and more");
    let names = client.read_dir("/dir").unwrap();
    let mut names: Vec<_> = names.map(|entry| entry.unwrap().file_name()).collect();
    names.sort();
    assert_eq!(names, ["file", "new", "sealed"]);
    client.sync_dir("/dir").unwrap();
    client.remove_dir_all("/dir").unwrap();
    assert!(!client.exists("/dir").unwrap());
}

#[test]
fn a_daemon_without_create_is_asked_once() {
    let rules = Rules::new().every(Opcode::Create, Action::Errno(Errno::NOSYS));
    let (client, peer) = connect(rules, false);
    use_files(&client);
    assert_eq!(count(&peer, Opcode::Create), 1);
    assert_eq!(count(&peer, Opcode::Mknod), 3);
    ends_clean(client, peer);
}

#[test]
fn a_daemon_that_keeps_no_state_is_asked_once() {
    let (client, peer) = connect(Rules::new(), true);
    use_files(&client);
    for (opcode, times) in [
        (Opcode::Create, 1),
        (Opcode::Open, 1),
        (Opcode::Opendir, 1),
        // There is nothing to release.
        (Opcode::Release, 0),
        (Opcode::Releasedir, 0),
    ] {
        assert_eq!(count(&peer, opcode), times, "{opcode:?}");
    }
    // Closing is reported all the same.
    assert!(count(&peer, Opcode::Flush) > 0);
    let log = peer.log();
    assert!(log.iter().all(|seen| seen.fh.is_none_or(|fh| fh == 0)));
    ends_clean(client, peer);
}

/// ENOSYS says that opening is not needed only from a daemon that was told so.
#[test]
fn a_daemon_that_must_not_refuse_to_open_fails() {
    let rules = Rules::new()
        .every(Opcode::Open, Action::Errno(Errno::NOSYS))
        .every(Opcode::Opendir, Action::Errno(Errno::NOSYS));
    let (client, peer) = connect(rules, false);
    client.write("/file", b"text").unwrap();
    for _ in 0..2 {
        fails_with(client.open("/file"), Errno::NOSYS);
        fails_with(client.read_dir("/"), Errno::NOSYS);
    }
    assert_eq!(count(&peer, Opcode::Open), 2);
    assert_eq!(count(&peer, Opcode::Opendir), 2);
    ends_clean(client, peer);
}

/// A daemon that answers OPEN with these flags, and holds back WRITE.
fn opens_with(flags: OpenOutFlags, gate: &Gate) -> Rules {
    let open = OpenOut {
        fh: 7,
        open_flags: flags.bits(),
        ..OpenOut::default()
    };
    Rules::new()
        .every(Opcode::Open, Action::Body(open.as_bytes().to_vec()))
        .every(Opcode::Write, Action::HoldBefore(gate.clone()))
}

/// How many of two writes to one file are with the daemon at once.
fn side_by_side(flags: OpenOutFlags, expected: usize) -> usize {
    let gate = Gate::new();
    let (client, peer) = connect(opens_with(flags, &gate), true);
    client.create("/file").unwrap().set_len(100).unwrap();
    let file = OpenOptions::new()
        .write(true)
        .open(&client, "/file")
        .unwrap();
    let most = thread::scope(|scope| {
        let writes: Vec<_> = [0, 50]
            .into_iter()
            .map(|at| {
                let file = &file;
                scope.spawn(move || assert_eq!(file.write_at(b"text", at).unwrap(), 4))
            })
            .collect();
        let mut most = 0;
        while !writes.iter().all(thread::ScopedJoinHandle::is_finished) {
            most = most.max(gate.held());
            if most == expected {
                // Whoever may not come has some time to come all the same.
                for _ in 0..2000 {
                    thread::yield_now();
                    most = most.max(gate.held());
                }
                gate.release_first();
            }
            thread::yield_now();
        }
        most
    });
    drop(file);
    drop(client);
    drop(peer);
    most
}

#[test]
fn writes_take_turns_unless_the_daemon_wants_them_side_by_side() {
    let parallel = OpenOutFlags::DIRECT_IO | OpenOutFlags::PARALLEL_DIRECT_WRITES;
    for (flags, times) in [
        (OpenOutFlags::empty(), 1),
        (OpenOutFlags::DIRECT_IO, 1),
        (parallel, 2),
    ] {
        assert_eq!(side_by_side(flags, times), times, "{flags:?}");
    }
}

/// A size that is set while a write is under way comes behind it, as both change the end.
#[test]
fn a_size_is_set_in_turn_with_writes() {
    let gate = Gate::new();
    let rules = Rules::new().every(Opcode::Write, Action::HoldBefore(gate.clone()));
    let (client, peer) = connect(rules, false);
    let file = client.create("/file").unwrap();
    let sizes_set = || count(&peer, Opcode::Setattr);
    let before = sizes_set();
    thread::scope(|scope| {
        scope.spawn(|| assert_eq!(file.write_at(b"text", 0).unwrap(), 4));
        while gate.held() == 0 {
            thread::yield_now();
        }
        scope.spawn(|| file.set_len(2).unwrap());
        scope.spawn(|| client.truncate("/file", 2).unwrap());
        scope.spawn(|| file.allocate(0, 2, Allocate::Extend).unwrap());
        // Whoever may not come has some time to come all the same.
        for _ in 0..2000 {
            thread::yield_now();
        }
        assert_eq!(sizes_set(), before);
        assert_eq!(count(&peer, Opcode::Fallocate), 0);
        gate.release_first();
    });
    assert_eq!(sizes_set(), before + 2);
    assert_eq!(client.read("/file").unwrap(), b"te");
    file.close().unwrap();
    ends_clean(client, peer);
}

/// Whoever waits for somebody who waits for the daemon does not have to.
#[test]
fn waiting_for_a_turn_can_be_cancelled() {
    let gate = Gate::new();
    let rules = Rules::new().every(Opcode::Write, Action::HoldBefore(gate.clone()));
    let (client, peer) = connect(rules, false);
    let slow = client.create("/file").unwrap();
    let impatient = client.separate();
    let file = OpenOptions::new()
        .write(true)
        .open(&impatient, "/file")
        .unwrap();
    thread::scope(|scope| {
        let written = scope.spawn(|| slow.write_at(b"text", 0));
        while gate.held() == 0 {
            thread::yield_now();
        }
        let write = scope.spawn(|| file.write_at(b"text", 0).map(drop));
        let set_len = scope.spawn(|| file.set_len(2));
        for _ in 0..2000 {
            thread::yield_now();
        }
        impatient.canceller().cancel();
        for result in [write.join().unwrap(), set_len.join().unwrap()] {
            fails_with(result, Errno::INTR);
        }
        assert_eq!(gate.held(), 1);
        gate.open();
        assert_eq!(written.join().unwrap().unwrap(), 4);
    });
    impatient.canceller().reset();
    assert_eq!(file.write_at(b"T", 0).unwrap(), 1);
    assert_eq!(client.read("/file").unwrap(), b"Text");
    drop((slow, file, impatient));
    ends_clean(client, peer);
}

#[test]
fn a_file_whose_data_is_said_to_be_elsewhere_is_not_opened() {
    let gate = Gate::new();
    let (client, peer) = connect(opens_with(OpenOutFlags::PASSTHROUGH, &gate), true);
    client.mknod("/file", 0o100_644, 0).unwrap();
    fails_with(client.open("/file"), Errno::IO);
    // It is closed there all the same.
    assert!(peer.wait_for_nth(Opcode::Release, 1));
    drop(client);
    peer.join();
}

/// Several callers may find out at once that an operation is missing: each gets its file.
#[test]
fn callers_that_learn_together_fall_back_together() {
    for stateless in [false, true] {
        let rules = Rules::new().every(Opcode::Create, Action::Errno(Errno::NOSYS));
        let (client, peer) = connect(rules, stateless);
        thread::scope(|scope| {
            for n in 0..8 {
                let client = client.clone();
                scope.spawn(move || {
                    let path = format!("/{n}");
                    client.write(&path, path.as_bytes()).unwrap();
                    assert_eq!(client.read(&path).unwrap(), path.as_bytes());
                });
            }
        });
        assert!((1..=8).contains(&count(&peer, Opcode::Create)));
        assert_eq!(count(&peer, Opcode::Mknod), 8);
        ends_clean(client, peer);
    }
}
