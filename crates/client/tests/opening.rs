//! Opening files at daemons that do less than others.

use fusewire::{Client, OpenOptions};
use fusewire_server::mem::{MemOptions, Memory};
use fusewire_server::scripted::{Action, Rules, ScriptedPeer, start};
use fusewire_server::{Errno, ServerOptions, Usage};
use fusewire_wire::Opcode;
use std::io::{Read, Seek, Write};
use std::os::unix::fs::PermissionsExt;
use std::thread;

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
