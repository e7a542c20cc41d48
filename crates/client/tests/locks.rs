//! Locks of files: kept by the daemon, and by the client for daemons that keep none.

use fusewire::{Client, File, LockKind, OpenOptions};
use fusewire_server::mem::{MemOptions, Memory};
use fusewire_server::scripted::{Action, Gate, Rules, ScriptedPeer, start};
use fusewire_server::{Errno, ServerOptions, Usage};
use fusewire_wire::abi::{FileLock, LkOut};
use fusewire_wire::{Opcode, SetattrValid};
use std::fs::TryLockError;
use std::thread;
use zerocopy::IntoBytes;

const SIZE: u32 = SetattrValid::SIZE.bits();
const LOCKOWNER: u32 = SetattrValid::LOCKOWNER.bits();

type Peer = ScriptedPeer<Memory>;

fn connect(rules: Rules, at_daemon: bool) -> (Client, Peer) {
    let options = ServerOptions {
        threads: 2,
        locks: at_daemon,
        ..ServerOptions::default()
    };
    let fs = Memory::new(MemOptions::default());
    let (transport, peer) = start(fs, rules, &options).unwrap();
    let client = Client::builder().connect(transport).unwrap();
    client.write("/file", b"contents").unwrap();
    (client, peer)
}

/// Both kinds of keepers, which must not differ.
fn for_both_keepers(test: impl Fn(&Client, &Peer)) {
    for at_daemon in [true, false] {
        let (client, peer) = connect(Rules::new(), at_daemon);
        test(&client, &peer);
        let log = peer.log();
        let locks = [Opcode::Getlk, Opcode::Setlk, Opcode::Setlkw];
        let asked = log
            .iter()
            .any(|s| s.opcode.is_some_and(|o| locks.contains(&o)));
        assert_eq!(asked, at_daemon);
        client.drop_caches();
        client.shutdown().unwrap();
        assert_eq!(peer.join(), Usage::default());
    }
}

fn open(client: &Client) -> File {
    let mut options = OpenOptions::new();
    options
        .read(true)
        .write(true)
        .open(client, "/file")
        .unwrap()
}

#[track_caller]
fn would_block(result: Result<(), TryLockError>) {
    assert!(
        matches!(result, Err(TryLockError::WouldBlock)),
        "{result:?}"
    );
}

#[track_caller]
fn fails_with<T: std::fmt::Debug>(result: fusewire::Result<T>, errno: Errno) {
    let error = result.unwrap_err();
    assert_eq!(error.errno(), errno.raw_os_error(), "{error}");
}

#[test]
fn whole_files_are_locked_by_open_files() {
    for_both_keepers(|client, _| {
        let (a, b) = (open(client), open(client));
        a.lock().unwrap();
        would_block(b.try_lock());
        would_block(b.try_lock_shared());
        // Once more, and by a clone, is nothing new.
        a.lock().unwrap();
        a.clone().try_lock().unwrap();
        a.lock_shared().unwrap();
        b.try_lock_shared().unwrap();
        would_block(a.try_lock());
        b.unlock().unwrap();
        b.unlock().unwrap();
        a.try_lock().unwrap();
        // The last clone's end is the lock's.
        let clone = a.clone();
        drop(a);
        would_block(b.try_lock());
        clone.close().unwrap();
        b.lock().unwrap();
    });
}

#[test]
fn ranges_are_locked_by_client_handles() {
    for_both_keepers(|client, _| {
        let other = client.separate();
        let (a, b) = (open(client), open(&other));
        a.lock_range(0..10, LockKind::Write).unwrap();
        a.lock_range(10..20, LockKind::Read).unwrap();
        would_block(b.try_lock_range(5..6, LockKind::Read));
        would_block(b.try_lock_range(15.., LockKind::Write));
        b.try_lock_range(15..30, LockKind::Read).unwrap();
        let found = b.test_lock_range(.., LockKind::Write).unwrap().unwrap();
        assert_eq!((found.range, found.kind), (0..10, LockKind::Write));
        assert_eq!(found.pid, std::process::id());
        let found = a.test_lock_range(20.., LockKind::Write).unwrap().unwrap();
        assert_eq!((found.range, found.kind), (15..30, LockKind::Read));
        assert_eq!(b.test_lock_range(10..=20, LockKind::Read).unwrap(), None);
        // A part of it becomes free.
        a.unlock_range(2..4).unwrap();
        b.try_lock_range(2..4, LockKind::Write).unwrap();
        would_block(b.try_lock_range(1..4, LockKind::Write));
        // As with processes, any close of the file by the same handle ends all of them.
        open(client).close().unwrap();
        b.try_lock_range(.., LockKind::Write).unwrap();
        would_block(a.try_lock_range(0..1, LockKind::Read));
        drop(b);
        a.try_lock_range(.., LockKind::Write).unwrap();
        // Whole files and ranges do not see each other.
        open(&other).try_lock().unwrap();
    });
}

#[test]
fn locks_are_waited_for() {
    for_both_keepers(|client, _| {
        let (a, b) = (open(client), open(client));
        a.lock().unwrap();
        thread::scope(|scope| {
            let waiting = scope.spawn(|| b.lock());
            a.unlock().unwrap();
            waiting.join().unwrap().unwrap();
        });
        would_block(a.try_lock_shared());
        let other = client.separate();
        let c = open(&other);
        a.lock_range(.., LockKind::Write).unwrap();
        thread::scope(|scope| {
            let waiting = scope.spawn(|| c.lock_range(5..9, LockKind::Read));
            a.unlock_range(0..9).unwrap();
            waiting.join().unwrap().unwrap();
        });
    });
}

#[test]
fn who_would_wait_for_himself_is_told() {
    for_both_keepers(|client, peer| {
        let other = client.separate();
        let (a, b) = (open(client), open(&other));
        a.lock_range(0..1, LockKind::Write).unwrap();
        b.lock_range(1..2, LockKind::Write).unwrap();
        thread::scope(|scope| {
            let one = scope.spawn(|| a.lock_range(1..2, LockKind::Write));
            let two = scope.spawn(|| b.lock_range(0..1, LockKind::Write));
            // One of them is told; when it gives up what it has, the other gets its lock.
            while !one.is_finished() && !two.is_finished() {
                thread::yield_now();
            }
            let (told, gives_up, waits) = if one.is_finished() {
                (one, (&a, 0..1), two)
            } else {
                (two, (&b, 1..2), one)
            };
            fails_with(told.join().unwrap(), Errno::DEADLK);
            gives_up.0.unlock_range(gives_up.1).unwrap();
            waits.join().unwrap().unwrap();
        });
        assert_eq!(peer.waiting_for_locks(), 0);
    });
}

#[test]
fn waiting_for_a_lock_can_be_ended() {
    for at_daemon in [true, false] {
        let (client, peer) = connect(Rules::new(), at_daemon);
        let other = client.separate();
        let (a, b, canceller) = (open(&client), open(&other), other.canceller());
        for cancel in [true, false] {
            a.lock().unwrap();
            thread::scope(|scope| {
                let waiting = scope.spawn(|| b.lock());
                if at_daemon {
                    while peer.waiting_for_locks() == 0 {
                        thread::yield_now();
                    }
                }
                // An interrupt ends the wait that it finds, so it is sent until there is one.
                while !waiting.is_finished() {
                    if cancel {
                        canceller.cancel();
                    } else {
                        canceller.interrupt();
                    }
                    thread::yield_now();
                }
                fails_with(waiting.join().unwrap(), Errno::INTR);
            });
            canceller.reset();
            a.unlock().unwrap();
            // Whoever was ended holds nothing.
            while a.try_lock().is_err() {
                thread::yield_now();
            }
            a.unlock().unwrap();
        }
        drop((a, b, other));
        while client.stats().engine.orphans > 0 {
            thread::yield_now();
        }
        client.shutdown().unwrap();
        assert_eq!(peer.join(), Usage::default());
    }
}

/// A daemon with mandatory locks has to know who cuts a file off.
#[test]
fn changes_of_size_name_the_owner_of_locks() {
    let (client, peer) = connect(Rules::new(), true);
    client.truncate("/file", 3).unwrap();
    open(&client).set_len(2).unwrap();
    let changes: Vec<_> = peer
        .log()
        .iter()
        .filter(|seen| seen.opcode == Some(Opcode::Setattr) && seen.flags & SIZE != 0)
        .map(|seen| seen.flags & LOCKOWNER)
        .collect();
    assert_eq!(changes, [LOCKOWNER; 2]);
}

/// A lock that comes too late is given back, and not in place of one that was taken since.
#[test]
fn a_lock_that_is_granted_too_late_is_given_back_once() {
    type Way = (
        fn(&File) -> fusewire::Result<()>,
        fn(&File) -> Result<(), TryLockError>,
    );
    let ways: [Way; 2] = [
        (File::lock, File::try_lock),
        (
            |file| file.lock_range(2..5, LockKind::Write),
            |file| file.try_lock_range(2..5, LockKind::Write),
        ),
    ];
    for (lock, try_lock) in ways {
        let gate = Gate::new();
        let late = Action::HoldAfter(gate.clone());
        let (client, peer) = connect(Rules::new().nth(Opcode::Setlkw, 1, late), true);
        let worker = client.separate();
        let (a, b, canceller) = (open(&client), open(&worker), worker.canceller());
        thread::scope(|scope| {
            let waiting = scope.spawn(|| lock(&b));
            while gate.held() == 0 {
                thread::yield_now();
            }
            canceller.cancel();
            fails_with(waiting.join().unwrap(), Errno::INTR);
        });
        canceller.reset();
        // The daemon has granted it, and nobody knows yet.
        would_block(try_lock(&a));
        would_block(try_lock(&b));
        thread::scope(|scope| {
            let again = scope.spawn(|| lock(&b));
            while !again.is_finished() {
                canceller.interrupt();
                thread::yield_now();
            }
            fails_with(again.join().unwrap(), Errno::INTR);
        });
        thread::scope(|scope| {
            let again = scope.spawn(|| lock(&b));
            gate.open();
            again.join().unwrap().unwrap();
        });
        would_block(try_lock(&a));
        let asked: Vec<_> = peer
            .log()
            .iter()
            .filter_map(|seen| seen.opcode)
            .filter(|opcode| [Opcode::Setlk, Opcode::Setlkw].contains(opcode))
            .collect();
        // Cancelled; denied to the other; given back; taken; denied to the other.
        let expected = [
            Opcode::Setlkw,
            Opcode::Setlk,
            Opcode::Setlk,
            Opcode::Setlkw,
            Opcode::Setlk,
        ];
        assert_eq!(asked, expected);
        drop(b);
        while try_lock(&a).is_err() {
            thread::yield_now();
        }
        drop((a, worker));
        client.shutdown().unwrap();
        assert_eq!(peer.join(), Usage::default());
    }
}

/// Those who wait until a lock that nobody wants has been given back do not outlive the connection.
#[test]
fn nobody_waits_for_a_lost_lock_of_a_dead_connection() {
    let gate = Gate::new();
    let late = Action::HoldAfter(gate.clone());
    let (client, _peer) = connect(Rules::new().nth(Opcode::Setlkw, 1, late), true);
    let (file, canceller) = (open(&client), client.canceller());
    thread::scope(|scope| {
        let waiting = scope.spawn(|| file.lock());
        while gate.held() == 0 {
            thread::yield_now();
        }
        canceller.cancel();
        fails_with(waiting.join().unwrap(), Errno::INTR);
        canceller.reset();
        let again = scope.spawn(|| file.lock());
        client.abort();
        let error = again.join().unwrap().unwrap_err();
        let ended = [Errno::NOTCONN, Errno::CONNABORTED].map(Errno::raw_os_error);
        assert!(ended.contains(&error.errno()), "{error}");
    });
}

/// The end of the connection ends waits for locks that the daemon knows nothing of.
#[test]
fn nobody_waits_for_a_lock_of_a_dead_connection() {
    for at_daemon in [true, false] {
        let (client, _peer) = connect(Rules::new(), at_daemon);
        let (a, b) = (open(&client), open(&client));
        a.lock().unwrap();
        thread::scope(|scope| {
            let waiting = scope.spawn(|| b.lock());
            client.abort();
            let error = waiting.join().unwrap().unwrap_err();
            let ended = [Errno::NOTCONN, Errno::CONNABORTED].map(Errno::raw_os_error);
            assert!(ended.contains(&error.errno()), "{error}");
        });
    }
}

#[test]
fn locks_that_cannot_be_are_refused() {
    for_both_keepers(|client, _| {
        let file = open(client);
        fails_with(file.lock_range(5..5, LockKind::Read), Errno::INVAL);
        fails_with(file.unlock_range(1 << 63..), Errno::OVERFLOW);
        fails_with(
            file.lock_range(0..=u64::MAX, LockKind::Read),
            Errno::OVERFLOW,
        );
        let reader = client.open("/file").unwrap();
        fails_with(reader.lock_range(.., LockKind::Write), Errno::BADF);
        reader.lock_range(.., LockKind::Read).unwrap();
        let mut options = OpenOptions::new();
        let writer = options.write(true).open(client, "/file").unwrap();
        fails_with(writer.lock_range(.., LockKind::Read), Errno::BADF);
        // flock(2) asks for no right.
        reader.try_lock().unwrap();
        would_block(writer.try_lock());
    });
}

#[test]
fn a_daemon_may_refuse_locks() {
    let rules = Rules::new()
        .every(Opcode::Setlk, Action::Errno(Errno::NOLCK))
        .every(Opcode::Setlkw, Action::Errno(Errno::NOLCK));
    let (client, _peer) = connect(rules, true);
    let file = open(&client);
    fails_with(file.lock(), Errno::NOLCK);
    fails_with(file.lock_range(.., LockKind::Read), Errno::NOLCK);
    assert!(matches!(file.try_lock(), Err(TryLockError::Error(_))));
}

#[test]
fn locks_no_file_has_are_io_errors() {
    let lock = |start, end, typ| LkOut {
        lk: FileLock {
            start,
            end,
            typ,
            pid: 1,
        },
    };
    for nonsense in [
        lock(0, 1, 3),
        lock(2, 1, 0),
        lock(0, 1 << 63, 1),
        lock(u64::MAX, u64::MAX, 0),
    ] {
        let rules = Rules::new().every(Opcode::Getlk, Action::Body(nonsense.as_bytes().to_vec()));
        let (client, _peer) = connect(rules, true);
        let file = open(&client);
        fails_with(file.test_lock_range(.., LockKind::Read), Errno::IO);
    }
    let rules = Rules::new().every(Opcode::Getlk, Action::Body(vec![0; 3]));
    let (client, _peer) = connect(rules, true);
    fails_with(open(&client).test_lock_range(.., LockKind::Read), Errno::IO);
}
