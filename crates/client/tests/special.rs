//! What few daemons have: files without names, birth times, device control, readiness, block
//! numbers, and permissions of their own.

use fusewire::{Access, Allocate, Checks, Client, Events, Identity, OpenOptions};
use fusewire_server::mem::{MemOptions, Memory};
use fusewire_server::scripted::{Action, Rules, Script, ScriptedPeer, Seen, start};
use fusewire_server::{Errno, ServerOptions, Usage};
use fusewire_wire::Opcode;
use fusewire_wire::abi::{
    BmapOut, IoctlOut, NotifyPollWakeupOut, OutHeader, PollOut, Statx, StatxOut,
};
use std::collections::HashSet;
use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use zerocopy::IntoBytes;

type Peer = ScriptedPeer<Memory>;

fn connect(script: impl Script) -> (Client, Peer) {
    connect_as(script, Client::builder())
}

fn connect_as(script: impl Script, builder: fusewire::Builder) -> (Client, Peer) {
    let options = ServerOptions {
        threads: 2,
        ..ServerOptions::default()
    };
    let fs = Memory::new(MemOptions::default());
    let (transport, peer) = start(fs, script, &options).unwrap();
    (builder.umask(0o022).connect(transport).unwrap(), peer)
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
    while client.stats().engine.orphans > 0 {
        thread::yield_now();
    }
    client.drop_caches();
    client.shutdown().unwrap();
    assert_eq!(peer.join(), Usage::default());
}

fn answers(opcode: Opcode, body: impl IntoBytes + zerocopy::Immutable) -> Rules {
    Rules::new().every(opcode, Action::Body(body.as_bytes().to_vec()))
}

fn lacks(opcode: Opcode) -> Rules {
    Rules::new().every(opcode, Action::Errno(Errno::NOSYS))
}

#[test]
fn a_file_without_a_name_gets_one_or_goes() {
    let (client, peer) = connect(Rules::new());
    client.create_dir("/dir").unwrap();
    let mut options = OpenOptions::new();
    options.read(true).write(true).mode(0o640);
    let mut file = options.open_unnamed(&client, "/dir").unwrap();
    file.write_all(b"text").unwrap();
    assert_eq!(client.read_dir("/dir").unwrap().count(), 0);
    assert_eq!(file.metadata().unwrap().nlink(), 0);
    client.link_file(&file, "/dir/name").unwrap();
    assert_eq!(client.read("/dir/name").unwrap(), b"text");
    assert_eq!(client.metadata("/dir/name").unwrap().mode() & 0o7777, 0o640);
    fails_with(client.link_file(&file, "/dir/name"), Errno::EXIST);
    drop(file);
    // One that is to stay without.
    let file = options.create_new(true).open_unnamed(&client, "/").unwrap();
    fails_with(client.link_file(&file, "/name"), Errno::NOENT);
    drop(file);
    let mut reading = OpenOptions::new();
    fails_with(reading.read(true).open_unnamed(&client, "/"), Errno::INVAL);
    let mut writing = OpenOptions::new();
    writing.write(true);
    fails_with(writing.open_unnamed(&client, "/dir/name"), Errno::NOTDIR);
    ends_clean(client, peer);
}

/// Also where there is a file of the name that stands for none.
#[test]
fn files_without_names_are_made_where_their_maker_may_write() {
    let user = Identity::user(1000, 1000);
    let (client, peer) = connect_as(Rules::new(), Client::builder().identity(user));
    let mut root = Identity::user(0, 0);
    root.capabilities = fusewire::Capabilities::all();
    let root = client.with_identity(root).unwrap();
    root.write("/-", b"").unwrap();
    let mut options = OpenOptions::new();
    options.write(true);
    fails_with(options.open_unnamed(&client, "/"), Errno::ACCESS);
    options.open_unnamed(&root, "/").unwrap();
    assert_eq!(count(&peer, Opcode::Tmpfile), 1);
    drop(root);
    ends_clean(client, peer);
}

#[test]
fn a_daemon_may_have_no_files_without_names() {
    let (client, peer) = connect(lacks(Opcode::Tmpfile));
    for _ in 0..2 {
        let mut options = OpenOptions::new();
        options.write(true);
        fails_with(options.open_unnamed(&client, "/"), Errno::OPNOTSUPP);
    }
    assert_eq!(count(&peer, Opcode::Tmpfile), 1);
    ends_clean(client, peer);
}

#[test]
fn birth_times_are_told_by_those_who_know() {
    let before = SystemTime::now() - Duration::from_secs(1);
    let (client, peer) = connect(Rules::new());
    client.write("/file", b"text").unwrap();
    let created = client.created("/file").unwrap().unwrap();
    assert!(created >= before && created <= SystemTime::now() + Duration::from_secs(1));
    assert_eq!(
        client.open("/file").unwrap().created().unwrap(),
        Some(created)
    );
    ends_clean(client, peer);

    let (client, peer) = connect(lacks(Opcode::Statx));
    client.write("/file", b"text").unwrap();
    for _ in 0..2 {
        assert_eq!(client.created("/file").unwrap(), None);
    }
    assert_eq!(count(&peer, Opcode::Statx), 1);
    ends_clean(client, peer);

    let stat = |mask, mode| StatxOut {
        stat: Statx {
            mask,
            mode,
            ..Statx::default()
        },
        ..StatxOut::default()
    };
    let told = |out| {
        let (client, _peer) = connect(answers(Opcode::Statx, out));
        client.write("/file", b"text").unwrap();
        client.created("/file")
    };
    assert_eq!(told(stat(0x7ff, 0o100_644)).unwrap(), None);
    assert_eq!(told(stat(0xfff, 0o100_644)).unwrap(), Some(UNIX_EPOCH));
    fails_with(told(stat(0xfff, 0o040_755)), Errno::IO);
}

#[test]
fn access_is_what_the_modes_say() {
    let (client, peer) = connect_as(
        Rules::new(),
        Client::builder().identity(Identity::user(1000, 1000)),
    );
    let root = client.with_identity({
        let mut root = Identity::user(0, 0);
        root.capabilities = fusewire::Capabilities::all();
        root
    });
    let root = root.unwrap();
    root.write("/file", b"text").unwrap();
    client.access("/file", Access::EXISTS).unwrap();
    client.access("/file", Access::READ).unwrap();
    fails_with(client.access("/file", Access::WRITE), Errno::ACCESS);
    fails_with(
        client.access("/file", Access::READ.and(Access::EXECUTE)),
        Errno::ACCESS,
    );
    root.access("/file", Access::READ.and(Access::WRITE))
        .unwrap();
    // Even root executes only what somebody may execute.
    fails_with(root.access("/file", Access::EXECUTE), Errno::ACCESS);
    root.access("/", Access::SEARCH).unwrap();
    fails_with(client.access("/none", Access::EXISTS), Errno::NOENT);
    assert_eq!(count(&peer, Opcode::Access), 0);
    drop(root);
    ends_clean(client, peer);
}

#[test]
fn a_daemon_may_check_by_itself() {
    let user = || {
        Client::builder()
            .identity(Identity::user(1000, 1000))
            .checks(Checks::Daemon)
    };
    // The root directory belongs to somebody else, which is the daemon's business.
    let (client, peer) = connect_as(lacks(Opcode::Access), user());
    client.write("/file", b"text").unwrap();
    client.chown("/file", Some(2000), Some(2000)).unwrap();
    client.write("/file", b"more").unwrap();
    for _ in 0..2 {
        client.access("/file", Access::WRITE).unwrap();
    }
    assert_eq!(count(&peer, Opcode::Access), 1);
    ends_clean(client, peer);
    let rules = Rules::new()
        .every(Opcode::Access, Action::Errno(Errno::ACCESS))
        .every(Opcode::Unlink, Action::Errno(Errno::PERM));
    let (client, peer) = connect_as(rules, user());
    client.write("/file", b"text").unwrap();
    fails_with(client.access("/file", Access::READ), Errno::ACCESS);
    fails_with(client.remove_file("/file"), Errno::PERM);
    let log = peer.log();
    assert!(
        log.iter()
            .any(|seen| seen.opcode == Some(Opcode::Unlink) && seen.uid == 1000)
    );
    ends_clean(client, peer);
}

const GETFLAGS: u32 = 0x8008_6601;

fn ioctl_reply(result: i32, flags: u32, output: &[u8]) -> Vec<u8> {
    let out = IoctlOut {
        result,
        flags,
        ..IoctlOut::default()
    };
    [out.as_bytes(), output].concat()
}

#[test]
fn device_control_moves_what_its_number_says() {
    let reply = ioctl_reply(7, 0, &[1, 2, 3, 4]);
    let (client, peer) = connect(Rules::new().every(Opcode::Ioctl, Action::Body(reply)));
    let file = client.create("/file").unwrap();
    // _IOR, _IOW, _IOWR of four bytes, _IO.
    let (ior, iow, iowr, io) = (0x8004_7a01, 0x4004_7a02, 0xc004_7a03, 0x7a04);
    let mut argument = [9; 4];
    assert_eq!(file.ioctl(ior, &mut argument).unwrap(), 7);
    assert_eq!(argument, [1, 2, 3, 4]);
    let mut argument = [9; 4];
    assert_eq!(file.ioctl(iowr, &mut argument).unwrap(), 7);
    assert_eq!(argument, [1, 2, 3, 4]);
    // More came back than there was room for.
    fails_with(file.ioctl(iow, &mut [9; 4]), Errno::IO);
    fails_with(file.ioctl(io, &mut []), Errno::IO);
    fails_with(file.ioctl(ior, &mut [9; 5]), Errno::INVAL);
    assert_eq!(
        file.inode_flags().unwrap(),
        u32::from_ne_bytes([1, 2, 3, 4])
    );
    drop(file);
    ends_clean(client, peer);

    let (client, peer) = connect(answers(Opcode::Ioctl, IoctlOut::default()));
    let file = client.create("/file").unwrap();
    assert_eq!(file.ioctl(iow, &mut [9; 4]).unwrap(), 0);
    assert_eq!(file.ioctl(io, &mut []).unwrap(), 0);
    file.set_inode_flags(1).unwrap();
    drop(file);
    ends_clean(client, peer);
}

#[test]
fn a_daemon_without_device_control_is_no_terminal() {
    let (client, peer) = connect(lacks(Opcode::Ioctl));
    let file = client.create("/file").unwrap();
    fails_with(file.ioctl(GETFLAGS, &mut [0; 4]), Errno::NOTTY);
    fails_with(file.inode_flags(), Errno::NOTTY);
    drop(file);
    ends_clean(client, peer);
    // It wants more of the caller's memory, which nobody here gives.
    const RETRY: u32 = 1 << 2;
    let reply = ioctl_reply(0, RETRY, &[]);
    let (client, _peer) = connect(Rules::new().every(Opcode::Ioctl, Action::Body(reply)));
    let file = client.create("/file").unwrap();
    fails_with(file.ioctl(0x7a04, &mut []), Errno::IO);
    // A negative result is an errno, if there is such a one.
    for (result, errno) in [
        (-22, Errno::INVAL),
        (-4096, Errno::IO),
        (i32::MIN, Errno::IO),
    ] {
        let reply = ioctl_reply(result, 0, &[]);
        let (client, _peer) = connect(Rules::new().every(Opcode::Ioctl, Action::Body(reply)));
        let file = client.create("/file").unwrap();
        fails_with(file.ioctl(0x7a04, &mut []), errno);
        fails_with(file.inode_flags(), errno);
    }
    // Half of the flags is none of them.
    let reply = ioctl_reply(0, 0, &[1, 2]);
    let (client, _peer) = connect(Rules::new().every(Opcode::Ioctl, Action::Body(reply)));
    fails_with(client.create("/file").unwrap().inode_flags(), Errno::IO);
}

/// A daemon that lets everybody set flags, and says which are set.
#[test]
fn flags_of_an_inode_are_its_owners() {
    const IMMUTABLE: u32 = 0x10;
    const NO_DUMP: u32 = 0x40;
    const FSSETXATTR: u32 = 0x401c_5820;
    let flags = |flags: u32| {
        let reading = ioctl_reply(0, 0, &flags.to_ne_bytes());
        move |seen: &Seen| match (seen.opcode, seen.size) {
            // What comes back of FS_IOC_GETFLAGS, which sends nothing.
            (Some(Opcode::Ioctl), 0) => Action::Body(reading.clone()),
            (Some(Opcode::Ioctl), _) => Action::Body(ioctl_reply(0, 0, &[])),
            _ => Action::Answer,
        }
    };
    let root = || {
        let mut root = Identity::user(0, 0);
        root.capabilities = fusewire::Capabilities::all();
        Client::builder().identity(root)
    };
    let (admin, peer) = connect_as(flags(IMMUTABLE), root());
    admin.write("/file", b"").unwrap();
    admin.chown("/file", Some(1000), Some(1000)).unwrap();
    let mut all = OpenOptions::new();
    admin
        .set_permissions("/file", PermissionsExt::from_mode(0o666))
        .unwrap();
    let all = all.read(true).write(true);
    let open = |uid| {
        let client = admin.with_identity(Identity::user(uid, uid)).unwrap();
        all.open(&client, "/file").unwrap()
    };
    let (owner, other) = (open(1000), open(2000));
    assert_eq!(other.inode_flags().unwrap(), IMMUTABLE);
    fails_with(other.set_inode_flags(IMMUTABLE), Errno::PERM);
    fails_with(
        other.ioctl(0x4008_6602, &mut IMMUTABLE.to_ne_bytes()),
        Errno::PERM,
    );
    let mut xfs = [0; 28];
    fails_with(other.ioctl(FSSETXATTR, &mut xfs), Errno::PERM);
    owner.set_inode_flags(IMMUTABLE | NO_DUMP).unwrap();
    fails_with(owner.set_inode_flags(NO_DUMP), Errno::PERM);
    fails_with(owner.ioctl(FSSETXATTR, &mut xfs), Errno::PERM);
    // The same flag, as XFS has it.
    xfs[0] = 0x8;
    owner.ioctl(FSSETXATTR, &mut xfs).unwrap();
    all.open(&admin, "/file")
        .unwrap()
        .set_inode_flags(0)
        .unwrap();
    drop((owner, other));
    ends_clean(admin, peer);
}

#[test]
fn block_numbers_are_the_daemons() {
    let (client, peer) = connect(answers(Opcode::Bmap, BmapOut { block: 42 }));
    let file = client.create("/file").unwrap();
    assert_eq!(file.bmap(1, 4096).unwrap(), Some(42));
    drop(file);
    ends_clean(client, peer);
    let (client, peer) = connect(lacks(Opcode::Bmap));
    let file = client.create("/file").unwrap();
    for _ in 0..2 {
        assert_eq!(file.bmap(1, 4096).unwrap(), None);
    }
    assert_eq!(count(&peer, Opcode::Bmap), 1);
    drop(file);
    ends_clean(client, peer);
}

#[test]
fn a_file_without_poll_is_always_ready() {
    let (client, peer) = connect(lacks(Opcode::Poll));
    let file = client.create("/file").unwrap();
    for _ in 0..2 {
        assert_eq!(file.poll(Events::READ).unwrap(), Events::READ);
        let both = Events::READ.and(Events::WRITE);
        assert_eq!(file.poll_wait(both).unwrap(), both);
    }
    assert_eq!(count(&peer, Opcode::Poll), 1);
    drop(file);
    ends_clean(client, peer);
}

/// The daemon says that something has happened to the file.
fn wake(peer: &Peer, kh: u64) {
    let header = OutHeader {
        len: 24,
        error: 1,
        unique: 0,
    };
    let body = NotifyPollWakeupOut { kh };
    let message = [header.as_bytes(), body.as_bytes()].concat();
    peer.device().tell(&message).unwrap();
}

/// A file that becomes ready when `ready` is set. The daemon may say so before it is waited for.
#[test]
fn a_file_is_waited_for_until_the_daemon_says_that_it_is_ready() {
    let ready = Arc::new(AtomicBool::new(false));
    let script = {
        let ready = Arc::clone(&ready);
        move |seen: &Seen| {
            if seen.opcode != Some(Opcode::Poll) {
                return Action::Answer;
            }
            let revents = if ready.load(Ordering::SeqCst) {
                0x41
            } else {
                0
            };
            let out = PollOut {
                revents,
                padding: 0,
            };
            Action::Body(out.as_bytes().to_vec())
        }
    };
    let (client, peer) = connect(script);
    let file = client.create("/file").unwrap();
    assert!(file.poll(Events::READ).unwrap().is_empty());
    let wake_everybody = |peer: &Peer| {
        for seen in peer.log() {
            if let Some(kh) = seen.kh {
                wake(peer, kh);
            }
        }
    };
    for round in 0..200 {
        ready.store(false, Ordering::SeqCst);
        let polls = count(&peer, Opcode::Poll);
        thread::scope(|scope| {
            let waiting = scope.spawn(|| file.poll_wait(Events::READ).unwrap());
            while count(&peer, Opcode::Poll) == polls {
                thread::yield_now();
            }
            // For nothing, perhaps, and then for something.
            if round % 2 == 0 {
                wake_everybody(&peer);
            }
            ready.store(true, Ordering::SeqCst);
            wake_everybody(&peer);
            assert_eq!(waiting.join().unwrap(), Events::READ);
        });
    }
    // Waiting can be ended.
    ready.store(false, Ordering::SeqCst);
    let worker = client.separate();
    let file = worker.open("/file").unwrap();
    let canceller = worker.canceller();
    thread::scope(|scope| {
        let waiting = scope.spawn(|| file.poll_wait(Events::READ));
        while !waiting.is_finished() {
            canceller.interrupt();
            thread::yield_now();
        }
        fails_with(waiting.join().unwrap(), Errno::INTR);
    });
    thread::scope(|scope| {
        let waiting = scope.spawn(|| file.poll_wait(Events::READ));
        client.abort();
        let error = waiting.join().unwrap().unwrap_err();
        let ended = [Errno::NOTCONN, Errno::CONNABORTED].map(Errno::raw_os_error);
        assert!(ended.contains(&error.errno()), "{error}");
    });
}

/// As libfuse has daemons do it: of an open file, only the last number that was told is kept.
#[test]
fn all_who_wait_for_a_file_are_woken_by_the_last_number() {
    let ready = Arc::new(AtomicBool::new(false));
    let script = {
        let ready = Arc::clone(&ready);
        move |seen: &Seen| {
            if seen.opcode != Some(Opcode::Poll) {
                return Action::Answer;
            }
            let out = PollOut {
                revents: if ready.load(Ordering::SeqCst) { 1 } else { 0 },
                padding: 0,
            };
            Action::Body(out.as_bytes().to_vec())
        }
    };
    let (client, peer) = connect(script);
    let file = client.create("/file").unwrap();
    for _ in 0..50 {
        let before = count(&peer, Opcode::Poll);
        ready.store(false, Ordering::SeqCst);
        thread::scope(|scope| {
            let waiting = [(); 3].map(|()| scope.spawn(|| file.poll_wait(Events::READ).unwrap()));
            while count(&peer, Opcode::Poll) < before + waiting.len() {
                thread::yield_now();
            }
            ready.store(true, Ordering::SeqCst);
            let last = peer.log().into_iter().rev().find_map(|seen| seen.kh);
            wake(&peer, last.unwrap());
            for waiting in waiting {
                assert!(!waiting.join().unwrap().is_empty());
            }
        });
    }
    // Of another opening of the file, there is another number.
    let again = client.open("/file").unwrap();
    again.poll(Events::READ).unwrap();
    let log = peer.log();
    let numbers: HashSet<_> = log.iter().filter_map(|seen| seen.kh).collect();
    assert_eq!(numbers.len(), 2);
    drop((file, again));
    ends_clean(client, peer);
}

/// Several callers may find out at once that an operation is missing.
#[test]
fn callers_that_learn_together_get_the_same_answer() {
    let rules = [Opcode::Statx, Opcode::Poll, Opcode::Fallocate, Opcode::Bmap]
        .into_iter()
        .fold(Rules::new(), |rules, opcode| {
            rules.every(opcode, Action::Errno(Errno::NOSYS))
        });
    let (client, peer) = connect(rules);
    let file = client.create("/file").unwrap();
    thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| {
                assert_eq!(client.created("/file").unwrap(), None);
                assert_eq!(file.poll(Events::READ).unwrap(), Events::READ);
                assert_eq!(file.bmap(0, 512).unwrap(), None);
                fails_with(file.allocate(0, 1, Allocate::Extend), Errno::OPNOTSUPP);
            });
        }
    });
    for opcode in [Opcode::Statx, Opcode::Poll, Opcode::Fallocate, Opcode::Bmap] {
        assert!((1..=8).contains(&count(&peer, opcode)), "{opcode:?}");
    }
    drop(file);
    ends_clean(client, peer);
}
