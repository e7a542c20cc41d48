//! The ring against the daemons it was made for.

mod common;

use common::{Peer, body, call, daemon, getattr, init, lookup, peers, start, wait_for, watch};
use fusewire_mem::Segment;
use fusewire_transport::vhost_user::{Cache, ConnectError, Options, Sandbox, VhostUser, spawn};
use fusewire_transport::{Death, Submission, SubmitError, Transport};
use fusewire_wire::Opcode;
use fusewire_wire::abi::{
    AttrOut, ForgetIn, OpenIn, OpenOut, OutHeader, ReadIn, WriteIn, WriteOut,
};
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};
use zerocopy::IntoBytes;

fn directory() -> tempfile::TempDir {
    let directory = tempfile::tempdir().unwrap();
    std::fs::write(directory.path().join("hello"), "12345").unwrap();
    directory
}

fn each(test: impl Fn(&Peer)) {
    for peer in peers() {
        eprintln!("--- {}", peer.name);
        test(&peer);
    }
}

fn signal(transport: &VhostUser, signal: rustix::process::Signal) {
    let pid = transport.info().pid.unwrap();
    let pid = rustix::process::Pid::from_raw(pid as i32).unwrap();
    rustix::process::kill_process(pid, signal).unwrap();
}

fn is_gone(pid: u32) -> bool {
    let pid = rustix::process::Pid::from_raw(pid as i32).unwrap();
    rustix::process::test_kill_process(pid).is_err()
}

#[test]
fn init_lookup_getattr() {
    each(|peer| {
        let directory = directory();
        let transport = start(peer, directory.path());
        let info = transport.info();
        assert!(info.features.contains(&"EVENT_IDX"), "{info:?}");
        assert!(info.features.contains(&"INDIRECT_DESC"), "{info:?}");
        assert!(init(&transport).minor >= 31);
        assert_eq!(lookup(&transport, 4, "absent").unwrap_err(), 2);
        let entry = lookup(&transport, 6, "hello").unwrap();
        assert_eq!(entry.attr.size, 5);
        let reply = call(&transport, &getattr(8, entry.nodeid), size_of::<AttrOut>());
        assert_eq!(body::<AttrOut>(&reply, 8).unwrap().attr.size, 5);
        let forget = ForgetIn { nlookup: 1 };
        let forget = common::head(Opcode::Forget, 0, entry.nodeid, forget.as_bytes(), 0);
        transport.submit_oneway(&forget).unwrap();
        transport.kick();
        // Forgotten: its number means nothing now. The two queues are not ordered.
        let gone = (10..100_000).step_by(2).any(|unique| {
            let reply = call(
                &transport,
                &getattr(unique, entry.nodeid),
                size_of::<AttrOut>(),
            );
            body::<AttrOut>(&reply, unique).is_err()
        });
        assert!(gone, "FORGET had no effect");
        let pid = info.pid.unwrap();
        drop(transport);
        assert!(is_gone(pid));
    });
}

#[test]
fn many_requests_in_flight_go_round_and_round() {
    each(|peer| {
        let directory = directory();
        let transport = start(peer, directory.path());
        init(&transport);
        let tags = transport.limits().max_in_flight;
        assert_eq!(tags, 256);
        // More than the 16-bit indices hold, so that they wrap.
        let mut unique = 4;
        for _ in 0..300 {
            let first = unique;
            for tag in 0..tags {
                let head = getattr(unique, 1);
                unique += 2;
                transport
                    .submit(&Submission {
                        tag,
                        head: &head,
                        payload_out: &[],
                        reply_head_bytes: (size_of::<OutHeader>() + size_of::<AttrOut>()) as u32,
                        payload_in: &[],
                    })
                    .unwrap();
            }
            transport.kick();
            for (tag, reply, _) in wait_for(&transport, tags as usize) {
                let attr = body::<AttrOut>(&reply, first + 2 * u64::from(tag)).unwrap();
                assert_eq!(attr.attr.mode & 0o170_000, 0o040_000);
            }
        }
    });
}

/// `count` segments of 4 KiB, every other frame of the arena.
fn scattered(transport: &VhostUser, count: usize) -> (Vec<fusewire_mem::Frames>, Vec<Segment>) {
    let mut frames: Vec<_> = (0..2 * count)
        .map(|_| transport.arena().alloc(0).unwrap())
        .collect();
    frames.sort_by_key(fusewire_mem::Frames::offset);
    let frames: Vec<_> = frames.into_iter().step_by(2).collect();
    let segments = frames.iter().map(|f| f.segment(4096)).collect();
    (frames, segments)
}

/// The first `len` bytes of `segments`. A READ must not have more room than it asks for: virtiofsd
/// fills all of it and then answers EIO.
fn trimmed(segments: &[Segment], len: usize) -> Vec<Segment> {
    let mut left = len as u32;
    segments
        .iter()
        .map(|segment| {
            let len = segment.len.min(left);
            left -= len;
            Segment { len, ..*segment }
        })
        .collect()
}

#[test]
fn payload_goes_out_and_comes_back_however_it_lies() {
    each(|peer| {
        let directory = directory();
        let transport = start(peer, directory.path());
        assert_eq!(init(&transport).max_write, 1 << 20);
        let node = lookup(&transport, 4, "hello").unwrap().nodeid;
        let open = OpenIn {
            flags: 2,
            ..OpenIn::default()
        };
        let open = common::head(Opcode::Open, 6, node, open.as_bytes(), 0);
        let fh = body::<OpenOut>(&call(&transport, &open, size_of::<OpenOut>()), 6)
            .unwrap()
            .fh;
        let whole = [0, 1].map(|_| transport.arena().alloc(8).unwrap());
        let contiguous = |i: usize| vec![whole[i].segment(1 << 20)];
        // As many segments as a request can have, and one.
        let most = transport.limits().max_segments as usize;
        let (out_frames, out) = scattered(&transport, most);
        let (back_frames, back) = scattered(&transport, most);
        let scattered_bytes = most * 4096;
        for (round, (out, back, len)) in [
            (contiguous(0), contiguous(1), 1 << 20),
            (out.clone(), contiguous(1), scattered_bytes),
            (contiguous(0), back.clone(), scattered_bytes),
            (out, back, scattered_bytes),
        ]
        .into_iter()
        .enumerate()
        {
            let content: Vec<u8> = (0..len).map(|i| (i / 7 + i / 4096 + round) as u8).collect();
            let region = transport.arena().region();
            let (out, back) = (trimmed(&out, len), trimmed(&back, len));
            let mut rest = &content[..];
            for segment in &out {
                let (now, later) = rest.split_at(segment.len as usize);
                region.bytes(segment.offset, now.len()).copy_from(now);
                rest = later;
            }
            let unique = 100 + 4 * round as u64;
            let write = WriteIn {
                fh,
                offset: 0,
                size: len as u32,
                ..WriteIn::default()
            };
            let head = common::head(Opcode::Write, unique, node, write.as_bytes(), len as u32);
            let reply = exchange(&transport, &head, &out, 24, &[]);
            assert_eq!(
                body::<WriteOut>(&reply.0, unique).unwrap().size as usize,
                len
            );
            let read = ReadIn {
                fh,
                offset: 0,
                size: len as u32,
                ..ReadIn::default()
            };
            let head = common::head(Opcode::Read, unique + 2, node, read.as_bytes(), 0);
            let (reply, payload_bytes) = exchange(&transport, &head, &[], 16, &back);
            assert_eq!(
                (reply.len(), payload_bytes as usize),
                (16, len),
                "round {round}: {reply:?}"
            );
            let mut got = Vec::new();
            for segment in &back {
                got.extend(region.bytes(segment.offset, segment.len as usize).to_vec());
            }
            assert!(got == content, "round {round}: other bytes came back");
        }
        drop((out_frames, back_frames));
        assert_eq!(
            std::fs::metadata(directory.path().join("hello"))
                .unwrap()
                .len(),
            1 << 20
        );
    });
}

/// One request with payload: reply head and payload length.
fn exchange(
    transport: &VhostUser,
    head: &[u8],
    payload_out: &[Segment],
    reply_head_bytes: u32,
    payload_in: &[Segment],
) -> (Vec<u8>, u32) {
    let request = Submission {
        tag: 0,
        head,
        payload_out,
        reply_head_bytes,
        payload_in,
    };
    transport.submit(&request).unwrap();
    transport.kick();
    let (_, head, payload_bytes) = wait_for(transport, 1).remove(0);
    (head, payload_bytes)
}

#[test]
fn a_killed_daemon_is_noticed_with_its_status() {
    each(|peer| {
        let directory = directory();
        let transport = start(peer, directory.path());
        init(&transport);
        signal(&transport, rustix::process::Signal::STOP);
        let head = getattr(4, 1);
        transport
            .submit(&Submission {
                tag: 0,
                head: &head,
                payload_out: &[],
                reply_head_bytes: 120,
                payload_in: &[],
            })
            .unwrap();
        transport.kick();
        let client = Arc::clone(&transport);
        let waiter = thread::spawn(move || client.wait());
        let start = Instant::now();
        signal(&transport, rustix::process::Signal::KILL);
        waiter.join().unwrap();
        let client = Arc::clone(&transport);
        let Death::Peer(why) = transport.how_it_ended() else {
            panic!("not by us");
        };
        assert!(start.elapsed() < Duration::from_secs(1));
        assert!(why.contains("signal 9"), "{why}");
        assert_eq!(client.submit_oneway(&head), Err(SubmitError::Dead));
        client.wait();
    });
}

#[test]
fn a_stopped_daemon_holds_nobody_up() {
    each(|peer| {
        let directory = directory();
        let transport = start(peer, directory.path());
        init(&transport);
        signal(&transport, rustix::process::Signal::STOP);
        let forget = ForgetIn { nlookup: 0 };
        let forget = common::head(Opcode::Forget, 0, 1, forget.as_bytes(), 0);
        for _ in 0..1000 {
            // Full at some time; never blocked.
            let _ = transport.submit_oneway(&forget);
            transport.kick();
        }
        let client = Arc::clone(&transport);
        let waiter = thread::spawn(move || client.wait());
        let pid = transport.info().pid.unwrap();
        let start = Instant::now();
        transport.close();
        assert!(start.elapsed() < Duration::from_secs(1));
        waiter.join().unwrap();
        assert_eq!(transport.how_it_ended(), Death::Closed);
        assert!(is_gone(pid), "a stopped daemon was left behind");
        assert!(start.elapsed() < Duration::from_secs(3));
    });
}

/// Says, in a process that runs this test again, that it is the one to be killed.
const VICTIM: &str = "FUSEWIRE_TEST_VICTIM";

#[test]
fn when_we_are_killed_the_daemon_ends() {
    if let Some(name) = std::env::var_os(VICTIM) {
        let peer = peers().into_iter().find(|p| p.name == name).unwrap();
        let directory = directory();
        let transport = start(&peer, directory.path());
        init(&transport);
        println!("pid={}", transport.info().pid.unwrap());
        transport.how_it_ended();
        return;
    }
    each(|peer| {
        let mut victim = std::process::Command::new(std::env::current_exe().unwrap())
            .args([
                "when_we_are_killed_the_daemon_ends",
                "--exact",
                "--nocapture",
            ])
            .env(VICTIM, peer.name)
            .stdout(std::process::Stdio::piped())
            .spawn()
            .unwrap();
        let output = std::io::BufReader::new(victim.stdout.take().unwrap());
        let pid = std::io::BufRead::lines(output)
            .find_map(|line| line.unwrap().split_once("pid=")?.1.parse().ok())
            .expect("the daemon's process id");
        let pid = rustix::process::Pid::from_raw(pid).unwrap();
        let daemon =
            rustix::process::pidfd_open(pid, rustix::process::PidfdFlags::empty()).unwrap();
        victim.kill().unwrap();
        victim.wait().unwrap();
        let mut fds = [rustix::event::PollFd::new(
            &daemon,
            rustix::event::PollFlags::IN,
        )];
        let timeout = rustix::event::Timespec {
            tv_sec: 10,
            tv_nsec: 0,
        };
        let ended = rustix::event::poll(&mut fds, Some(&timeout)).unwrap();
        assert_eq!(ended, 1, "{} is still there", peer.name);
    });
}

#[test]
fn every_way_to_start_it() {
    each(|peer| {
        let directory = directory();
        for (cache, writeback, thread_pool_size) in [
            (Cache::Never, false, 0),
            (Cache::Auto, true, 2),
            (Cache::Always, false, 2),
        ] {
            let mut config = daemon(peer, directory.path());
            config.cache = cache;
            config.writeback = writeback;
            config.thread_pool_size = thread_pool_size;
            config.xattr = true;
            let transport = watch(spawn(&config, &small()).unwrap());
            init(&transport);
            assert!(lookup(&transport, 4, "hello").is_ok());
        }
        let odd = tempfile::tempdir().unwrap();
        let odd = odd.path().join("with, comma and \\ backslash");
        std::fs::create_dir(&odd).unwrap();
        std::fs::write(odd.join("inside"), "").unwrap();
        let transport = watch(spawn(&daemon(peer, &odd), &small()).unwrap());
        init(&transport);
        assert!(lookup(&transport, 4, "inside").is_ok());
    });
}

fn small() -> Options {
    Options {
        arena_bytes: 2 << 20,
        queue_size: 64,
        ..Options::default()
    }
}

#[test]
fn a_daemon_that_refuses_its_arguments_is_quoted() {
    each(|peer| {
        let directory = directory();
        let mut config = daemon(peer, directory.path());
        config.extra_args = vec!["--no-such-option".into()];
        let error = spawn(&config, &small()).unwrap_err();
        assert!(
            matches!(&error, ConnectError::DaemonExited { .. }),
            "{error}"
        );
        let text = error.to_string();
        assert!(text.contains("no-such-option"), "{text}");
        assert!(!text.contains('\n'), "{text}");
    });
}

#[test]
fn a_missing_directory_is_named_before_anything_is_started() {
    each(|peer| {
        let error = spawn(&daemon(peer, "/nowhere/at/all".as_ref()), &small()).unwrap_err();
        assert!(matches!(error, ConnectError::SharedDir { .. }), "{error}");
    });
}

#[test]
fn what_a_flavour_lacks_is_said() {
    for peer in peers().into_iter().filter(|p| p.name == "virtiofsd-c") {
        let directory = directory();
        let mut config = daemon(&peer, directory.path());
        config.cache = Cache::Metadata;
        let error = spawn(&config, &small()).unwrap_err();
        assert!(error.to_string().contains("cache=metadata"), "{error}");
        config.cache = Cache::Auto;
        config.sandbox = Sandbox::None;
        let error = spawn(&config, &small()).unwrap_err();
        assert!(error.to_string().contains("sandbox=none"), "{error}");
    }
}

#[test]
fn a_forked_child_leaves_the_connection_alone() {
    each(|peer| {
        let directory = directory();
        let transport = spawn(&daemon(peer, directory.path()), &small()).unwrap();
        init(&transport);
        // SAFETY: the child closes and drops what it inherited, and leaves by _exit.
        let child = unsafe { libc::fork() };
        assert!(child >= 0, "fork failed");
        if child == 0 {
            transport.close();
            drop(transport);
            // SAFETY: ends the child without running anything of the parent's.
            unsafe { libc::_exit(0) };
        }
        let mut status = 0;
        // SAFETY: waits for our own child, status is a valid place.
        assert_eq!(unsafe { libc::waitpid(child, &raw mut status, 0) }, child);
        assert_eq!(status, 0);
        assert!(lookup(&transport, 4, "hello").is_ok());
    });
}
