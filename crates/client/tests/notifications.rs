//! What the daemon says of its own accord.

use fusewire::{Client, OpenOptions};
use fusewire_server::mem::{MemOptions, Memory};
use fusewire_server::scripted::{Action, Gate, Rules, Script, ScriptedPeer, Seen, start};
use fusewire_server::{Caching, Errno, ServerOptions};
use fusewire_transport::{Inbox, Transport};
use fusewire_wire::Opcode;
use fusewire_wire::abi::{
    NotifyDeleteOut, NotifyInvalEntryOut, NotifyInvalInodeOut, NotifyPollWakeupOut, NotifyPruneOut,
    NotifyRetrieveOut, NotifyStoreOut, OutHeader,
};
use fusewire_wire::notify::NotifyCode;
use std::io::Write;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, Weak};
use std::thread;
use zerocopy::IntoBytes;

const ROOT: u64 = 1;

/// A notification as it goes over the wire.
fn message(code: NotifyCode, parts: &[&[u8]]) -> Vec<u8> {
    let body = parts.concat();
    let header = OutHeader {
        len: (size_of::<OutHeader>() + body.len()) as u32,
        error: code as i32,
        unique: 0,
    };
    [header.as_bytes(), &body].concat()
}

fn inval_inode(ino: u64, off: i64, len: i64) -> Vec<u8> {
    let fixed = NotifyInvalInodeOut { ino, off, len };
    message(NotifyCode::InvalInode, &[fixed.as_bytes()])
}

fn inval_entry(parent: u64, name: &str, flags: u32) -> Vec<u8> {
    let fixed = NotifyInvalEntryOut {
        parent,
        namelen: name.len() as u32,
        flags,
    };
    let parts = [fixed.as_bytes(), name.as_bytes(), &[0]];
    message(NotifyCode::InvalEntry, &parts)
}

fn delete(parent: u64, child: u64, name: &str) -> Vec<u8> {
    let fixed = NotifyDeleteOut {
        parent,
        child,
        namelen: name.len() as u32,
        padding: 0,
    };
    let parts = [fixed.as_bytes(), name.as_bytes(), &[0]];
    message(NotifyCode::Delete, &parts)
}

fn store(nodeid: u64, offset: u64, data: &[u8]) -> Vec<u8> {
    let fixed = NotifyStoreOut {
        nodeid,
        offset,
        size: data.len() as u32,
        padding: 0,
    };
    message(NotifyCode::Store, &[fixed.as_bytes(), data])
}

fn retrieve(notify_unique: u64, nodeid: u64) -> Vec<u8> {
    let fixed = NotifyRetrieveOut {
        notify_unique,
        nodeid,
        offset: 0,
        size: 4096,
        padding: 0,
    };
    message(NotifyCode::Retrieve, &[fixed.as_bytes()])
}

fn prune(nodeids: &[u64]) -> Vec<u8> {
    let fixed = NotifyPruneOut {
        count: nodeids.len() as u32,
        ..NotifyPruneOut::default()
    };
    message(NotifyCode::Prune, &[fixed.as_bytes(), nodeids.as_bytes()])
}

fn inc_epoch() -> Vec<u8> {
    message(NotifyCode::IncEpoch, &[])
}

type Peer = ScriptedPeer<Memory>;

/// A client that caches for ever what it is not told to forget.
fn connect(script: impl Script) -> (Client, Peer) {
    let fs = Memory::new(MemOptions {
        caching: Caching::always(),
        ..MemOptions::default()
    });
    let options = ServerOptions {
        threads: 2,
        ..ServerOptions::default()
    };
    let (transport, peer) = start(fs, script, &options).unwrap();
    (Client::builder().connect(transport).unwrap(), peer)
}

/// Holds the answers to requests of some kinds, once it is armed.
#[derive(Clone, Default)]
struct Hold {
    gate: Gate,
    armed: Arc<AtomicBool>,
}

impl Hold {
    fn script(&self, opcode: Opcode, how: fn(Gate) -> Action) -> impl Script {
        let hold = self.clone();
        move |seen: &Seen| {
            if hold.armed.load(Ordering::Relaxed) && seen.opcode == Some(opcode) {
                how(hold.gate.clone())
            } else {
                Action::Answer
            }
        }
    }

    /// Runs `call`, and `meanwhile` when its request has come and not been answered.
    fn during(&self, call: impl FnOnce() + Send, meanwhile: impl FnOnce()) {
        self.armed.store(true, Ordering::Relaxed);
        thread::scope(|scope| {
            let call = scope.spawn(call);
            until(|| self.gate.held() == 1);
            self.armed.store(false, Ordering::Relaxed);
            meanwhile();
            assert!(self.gate.release_first());
            call.join().unwrap();
        });
    }
}

#[track_caller]
fn tell(peer: &Peer, message: &[u8]) {
    assert_eq!(peer.device().tell(message), Ok(()));
}

#[track_caller]
fn refused(peer: &Peer, message: &[u8], errno: Errno) {
    let refusal = peer.device().tell(message).unwrap_err();
    assert_eq!(refusal.0, errno.raw_os_error());
}

fn count(peer: &Peer, opcode: Opcode) -> usize {
    let log = peer.log();
    log.iter()
        .filter(|seen| seen.opcode == Some(opcode))
        .count()
}

/// Number of what is at `path`: this file system calls nodes by their inodes.
fn nodeid(client: &Client, path: &str) -> u64 {
    client.metadata(path).unwrap().ino()
}

/// How many requests of a kind `call` makes.
fn requests(peer: &Peer, opcode: Opcode, call: impl FnOnce()) -> usize {
    let before = count(peer, opcode);
    call();
    count(peer, opcode) - before
}

fn until(done: impl Fn() -> bool) {
    while !done() {
        thread::yield_now();
    }
}

fn ends_clean(client: Client, peer: Peer) {
    until(|| client.stats().engine.orphans == 0);
    client.drop_caches();
    assert_eq!(client.stats().live_nodes, 1);
    client.shutdown().unwrap();
    assert_eq!(peer.join(), fusewire_server::Usage::default());
}

#[test]
fn stale_attributes_are_asked_for_again() {
    let (client, peer) = connect(Rules::new());
    client.write("/file", b"text").unwrap();
    let file = nodeid(&client, "/file");
    let stat = || _ = client.metadata("/file").unwrap();
    assert_eq!(requests(&peer, Opcode::Getattr, stat), 0);
    // A range, attributes alone, and to the end.
    for (off, len) in [(0, 4), (-1, 0), (0, -1)] {
        tell(&peer, &inval_inode(file, off, len));
        assert_eq!(requests(&peer, Opcode::Getattr, stat), 1);
        assert_eq!(requests(&peer, Opcode::Getattr, stat), 0);
    }
    refused(&peer, &inval_inode(file + 1000, 0, 0), Errno::NOENT);
    ends_clean(client, peer);
}

#[test]
fn stale_names_are_looked_up_again_and_let_go_of() {
    let (client, peer) = connect(Rules::new());
    client.write("/file", b"text").unwrap();
    client.create_dir("/dir").unwrap();
    let stat = || _ = client.metadata("/file").unwrap();
    assert_eq!(requests(&peer, Opcode::Lookup, stat), 0);
    const EXPIRE_ONLY: u32 = 1;
    tell(&peer, &inval_entry(ROOT, "file", EXPIRE_ONLY));
    assert_eq!(requests(&peer, Opcode::Lookup, stat), 1);
    assert_eq!(count(&peer, Opcode::Forget), 0);
    // Nobody uses it: the daemon gets its references back without anybody asking.
    tell(&peer, &inval_entry(ROOT, "file", 0));
    assert!(peer.wait_for_nth(Opcode::Forget, 1));
    assert_eq!(requests(&peer, Opcode::Lookup, stat), 1);
    refused(&peer, &inval_entry(ROOT, "none", 0), Errno::NOENT);
    refused(&peer, &inval_entry(4711, "file", 0), Errno::NOENT);
    let file = nodeid(&client, "/file");
    refused(&peer, &inval_entry(file, "x", 0), Errno::NOTDIR);
    ends_clean(client, peer);
}

#[test]
fn a_deleted_name_is_gone_if_it_is_the_one_that_was_meant() {
    let (client, peer) = connect(Rules::new());
    client.create_dir("/dir").unwrap();
    client.write("/dir/file", b"text").unwrap();
    let (dir, file) = (nodeid(&client, "/dir"), nodeid(&client, "/dir/file"));
    refused(&peer, &delete(ROOT, file, "dir"), Errno::NOENT);
    refused(&peer, &delete(ROOT, dir, "none"), Errno::NOENT);
    refused(&peer, &delete(ROOT, dir, "dir"), Errno::NOTEMPTY);
    tell(&peer, &delete(dir, file, "file"));
    assert!(peer.wait_for_nth(Opcode::Forget, 1));
    tell(&peer, &delete(ROOT, dir, "dir"));
    assert!(peer.wait_for_nth(Opcode::Forget, 2));
    // The daemon has them still; whoever asks finds out.
    let stat = || _ = client.metadata("/dir/file").unwrap();
    assert_eq!(requests(&peer, Opcode::Lookup, stat), 2);
    ends_clean(client, peer);
}

#[test]
fn stored_data_changes_the_size() {
    let (client, peer) = connect(Rules::new());
    client.write("/file", b"text").unwrap();
    let file = nodeid(&client, "/file");
    let stat = || _ = client.metadata("/file").unwrap();
    assert_eq!(requests(&peer, Opcode::Getattr, stat), 0);
    tell(&peer, &store(file, 4, b"more"));
    assert_eq!(requests(&peer, Opcode::Getattr, stat), 1);
    refused(&peer, &store(file, i64::MAX as u64, b"x"), Errno::FBIG);
    refused(&peer, &store(file, u64::MAX, b"x"), Errno::INVAL);
    refused(&peer, &store(ROOT, 0, b"x"), Errno::INVAL);
    refused(&peer, &store(4711, 0, b"x"), Errno::NOENT);
    ends_clean(client, peer);
}

#[test]
fn retrieved_data_is_what_is_cached() {
    let (client, peer) = connect(Rules::new());
    client.write("/file", b"text").unwrap();
    let file = nodeid(&client, "/file");
    tell(&peer, &retrieve(77, file));
    assert!(peer.wait_for_nth(Opcode::NotifyReply, 1));
    let log = peer.log();
    let reply = log
        .iter()
        .find(|seen| seen.opcode == Some(Opcode::NotifyReply))
        .unwrap();
    assert_eq!((reply.unique, reply.node), (77, file));
    refused(&peer, &retrieve(78, 4711), Errno::NOENT);
    ends_clean(client, peer);
}

#[test]
fn a_new_epoch_makes_every_name_stale() {
    let hold = Hold::default();
    let (client, peer) = connect(hold.script(Opcode::Lookup, Action::HoldAfter));
    client.create_dir("/dir").unwrap();
    client.write("/dir/file", b"text").unwrap();
    let stat = || _ = client.metadata("/dir/file").unwrap();
    assert_eq!(requests(&peer, Opcode::Lookup, stat), 0);
    tell(&peer, &inc_epoch());
    assert_eq!(requests(&peer, Opcode::Lookup, stat), 2);
    assert_eq!(requests(&peer, Opcode::Lookup, stat), 0);
    // An answer that is under way belongs to the old epoch.
    client.drop_caches();
    hold.during(
        || _ = client.metadata("/dir").unwrap(),
        || tell(&peer, &inc_epoch()),
    );
    let stat = || _ = client.metadata("/dir").unwrap();
    assert_eq!(requests(&peer, Opcode::Lookup, stat), 1);
    ends_clean(client, peer);
}

#[test]
fn pruned_nodes_are_let_go_of_when_nobody_uses_them() {
    let (client, peer) = connect(Rules::new());
    client.write("/used", b"text").unwrap();
    client.write("/unused", b"text").unwrap();
    let file = client.open("/used").unwrap();
    let nodes = [nodeid(&client, "/used"), nodeid(&client, "/unused"), 4711];
    tell(&peer, &prune(&nodes));
    assert!(peer.wait_for_nth(Opcode::Forget, 1));
    let forgotten = |peer: &Peer| -> Vec<u64> {
        let log = peer.log();
        let forgets = log.iter().filter(|s| s.opcode == Some(Opcode::Forget));
        forgets.map(|seen| seen.node).collect()
    };
    assert_eq!(forgotten(&peer), [nodes[1]]);
    assert_eq!(file.read_at(&mut [0; 8], 0).unwrap(), 4);
    drop(file);
    client.drop_caches();
    assert!(peer.wait_for_nth(Opcode::Forget, 2));
    ends_clean(client, peer);
}

#[test]
fn an_answer_that_a_notification_overtakes_is_not_cached() {
    type Stale = fn(u64) -> Vec<u8>;
    let cases: [(Opcode, Stale); 2] = [
        (Opcode::Lookup, |_| inval_entry(ROOT, "file", 0)),
        (Opcode::Getattr, |file| inval_inode(file, -1, 0)),
    ];
    for (opcode, stale) in cases {
        let hold = Hold::default();
        let (client, peer) = connect(hold.script(opcode, Action::HoldAfter));
        client.write("/file", b"text").unwrap();
        let file = nodeid(&client, "/file");
        let stat = || _ = client.metadata("/file").unwrap();
        tell(&peer, &stale(file));
        // A name that is not cached is said to be unknown, and yet the answer is stale.
        hold.during(stat, || _ = peer.device().tell(&stale(file)));
        assert_eq!(requests(&peer, opcode, stat), 1, "{opcode:?}");
        assert_eq!(requests(&peer, opcode, stat), 0, "{opcode:?}");
        ends_clean(client, peer);
    }
}

/// A daemon with one thread that notifies of the object of each request before it answers, the way
/// into most deadlocks of the kernel's client.
#[test]
fn a_daemon_may_notify_from_inside_any_handler() {
    type Call = fn(&Client);
    let calls: [(Opcode, Call); 12] = [
        (Opcode::Lookup, |c| _ = c.metadata("/dir/other").unwrap()),
        (Opcode::Read, |c| drop(c.read("/dir/file").unwrap())),
        (Opcode::Write, |c| c.write("/dir/file", b"new").unwrap()),
        (Opcode::Flush, |c| {
            c.open("/dir/file").unwrap().close().unwrap()
        }),
        (Opcode::Fsync, |c| {
            let mut file = OpenOptions::new()
                .append(true)
                .open(c, "/dir/file")
                .unwrap();
            file.write_all(b"x").unwrap();
            file.sync_all().unwrap();
        }),
        (Opcode::Release, |c| drop(c.open("/dir/file").unwrap())),
        (Opcode::Setattr, |c| c.truncate("/dir/file", 1).unwrap()),
        (Opcode::Readdirplus, |c| {
            assert_eq!(c.read_dir("/dir").unwrap().count(), 3);
        }),
        (Opcode::Create, |c| c.write("/dir/new", b"new").unwrap()),
        (Opcode::Rename, |c| {
            c.rename("/dir/old", "/dir/new").unwrap()
        }),
        (Opcode::Unlink, |c| c.remove_file("/dir/old").unwrap()),
        (Opcode::Mkdir, |c| c.create_dir("/dir/below").unwrap()),
    ];
    for (opcode, call) in calls {
        let hold = Hold::default();
        let script = hold.script(opcode, Action::HoldBefore);
        let fs = Memory::new(MemOptions {
            caching: Caching::always(),
            ..MemOptions::default()
        });
        let (transport, peer) = start(fs, script, &ServerOptions::default()).unwrap();
        let client = Client::builder().connect(transport).unwrap();
        client.create_dir("/dir").unwrap();
        for name in ["file", "other", "old"] {
            client.write(format!("/dir/{name}"), b"text").unwrap();
        }
        let (dir, file) = (nodeid(&client, "/dir"), nodeid(&client, "/dir/file"));
        client.drop_caches();
        hold.armed.store(true, Ordering::Relaxed);
        let running = {
            let client = client.clone();
            thread::spawn(move || call(&client))
        };
        let mut notified = 0;
        while !running.is_finished() || hold.gate.held() > 0 || notified == 0 {
            if hold.gate.held() == 0 {
                thread::yield_now();
                continue;
            }
            for name in ["file", "other", "old", "new"] {
                // Whether it is known depends on how far the call has come.
                let _ = peer.device().tell(&inval_entry(dir, name, 0));
                let _ = peer.device().tell(&delete(dir, file, name));
            }
            for node in [ROOT, dir, file] {
                let _ = peer.device().tell(&inval_inode(node, 0, 0));
                let _ = peer.device().tell(&store(node, 0, b"text"));
            }
            tell(&peer, &inc_epoch());
            tell(&peer, &prune(&[dir, file]));
            notified += 1;
            assert!(hold.gate.release_first());
        }
        running.join().unwrap();
        assert!(notified > 0, "{opcode:?} was never sent");
        hold.armed.store(false, Ordering::Relaxed);
        hold.gate.open();
        ends_clean(client, peer);
    }
}

#[test]
fn more_than_can_be_remembered_makes_everything_stale() {
    const FILES: usize = 5000;
    let (client, peer) = connect(Rules::new());
    for n in 0..FILES {
        client.write(format!("/{n}"), b"").unwrap();
    }
    for n in 0..FILES {
        tell(&peer, &inval_entry(ROOT, &n.to_string(), 0));
    }
    // The daemon gets all of them back, one way or the other.
    until(|| client.stats().live_nodes == 1);
    ends_clean(client, peer);
}

#[test]
fn a_storm_of_notifications_changes_no_result() {
    let (client, peer) = connect(Rules::new());
    client.write("/file", b"text").unwrap();
    let file = nodeid(&client, "/file");
    let calls = {
        let client = client.clone();
        thread::spawn(move || {
            for n in 0..300_u32 {
                let name = format!("/file-{n}");
                client.write(&name, n.to_ne_bytes()).unwrap();
                assert_eq!(client.read(&name).unwrap(), n.to_ne_bytes());
                assert_eq!(client.read("/file").unwrap(), b"text");
                assert_eq!(client.metadata(&name).unwrap().len(), 4);
                client.remove_file(&name).unwrap();
                assert!(!client.exists(&name).unwrap());
            }
        })
    };
    let mut n = 0_u64;
    while !calls.is_finished() {
        n += 1;
        let _ = peer
            .device()
            .tell(&inval_entry(ROOT, &format!("file-{}", n % 300), 0));
        let _ = peer
            .device()
            .tell(&inval_entry(ROOT, "file", (n % 2) as u32));
        let _ = peer.device().tell(&inval_inode(file, -1, 0));
        let _ = peer.device().tell(&inval_inode(ROOT, 0, 0));
        if n.is_multiple_of(16) {
            tell(&peer, &inc_epoch());
        }
    }
    calls.join().unwrap();
    ends_clean(client, peer);
}

#[test]
fn what_is_no_notification_is_refused() {
    let (client, peer) = connect(Rules::new());
    let good = inval_inode(ROOT, 0, 0);
    for len in 0..good.len() {
        refused(&peer, &good[..len], Errno::INVAL);
    }
    let mut long = good.clone();
    long.push(0);
    refused(&peer, &long, Errno::INVAL);
    for code in [0, 10, -1, i32::MIN] {
        let header = OutHeader {
            len: 16,
            error: code,
            unique: 0,
        };
        refused(&peer, header.as_bytes(), Errno::INVAL);
    }
    refused(&peer, &message(NotifyCode::Resend, &[]), Errno::INVAL);
    // Nobody polls, which is nobody's mistake.
    let kh = NotifyPollWakeupOut { kh: 1 };
    tell(&peer, &message(NotifyCode::Poll, &[kh.as_bytes()]));
    // Replies to nothing.
    for (unique, error) in [(2, 0), (2, -5), (3, 0), (3, 5), (3, i32::MIN)] {
        let header = OutHeader {
            len: 16,
            error,
            unique,
        };
        refused(&peer, header.as_bytes(), Errno::NOENT);
    }
    client.metadata("/").unwrap();
    ends_clean(client, peer);
}

/// Before INIT there is nothing that could be stale, and after the end nobody who would listen.
#[test]
fn notifications_are_for_a_connection_that_has_begun() {
    #[derive(Default)]
    struct Taken(Mutex<usize>);
    impl Inbox for Taken {
        fn message(&self, _message: &[u8]) -> Result<(), fusewire_transport::Refusal> {
            *self.0.lock().unwrap() += 1;
            Ok(())
        }
    }
    let fs = Memory::new(MemOptions::default());
    let (transport, peer) = start(fs, Rules::new(), &ServerOptions::default()).unwrap();
    refused(&peer, &inc_epoch(), Errno::NOTCONN);
    let taken = Arc::new(Taken::default());
    let inbox: Weak<dyn Inbox> = Arc::downgrade(&taken) as _;
    transport.listen(inbox);
    tell(&peer, &inc_epoch());
    assert_eq!(*taken.0.lock().unwrap(), 1);
    drop(taken);
    refused(&peer, &inc_epoch(), Errno::NOTCONN);
    drop(transport);
    refused(&peer, &inc_epoch(), Errno::NOTCONN);
}
