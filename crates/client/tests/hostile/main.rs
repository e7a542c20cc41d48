//! A peer that does anything at all, at every request of every call; docs/FAULTS.md has the rules.

mod calls;
#[path = "../common/random.rs"]
mod random;

use calls::{CALLS, Call, prepare};
use fusewire::{Client, Timeouts};
use fusewire_server::mem::{MemOptions, Memory};
use fusewire_server::scripted::{Action, Script, ScriptedPeer, Seen, start};
use fusewire_server::{Caching, Errno, ServerOptions, Usage};
use fusewire_sync::thread::live;
use fusewire_transport::InProcOptions;
use fusewire_wire::Opcode;
use random::{Rng, seed};
use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

type Peer = ScriptedPeer<Memory>;

/// Counting threads at the end takes one test at a time.
fn alone() -> MutexGuard<'static, ()> {
    static ONE: Mutex<()> = Mutex::new(());
    ONE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// What to do with the n-th request.
type Decide = dyn Fn(u64, &Seen) -> Action + Send + Sync;

/// What to do with the requests of a call, once it has been prepared.
#[derive(Clone)]
struct Plan {
    /// Requests since then; `u64::MAX` before.
    seen: Arc<AtomicU64>,
    action: Arc<Decide>,
}

impl Plan {
    fn new(action: impl Fn(u64, &Seen) -> Action + Send + Sync + 'static) -> Self {
        Plan {
            seen: Arc::new(AtomicU64::new(u64::MAX)),
            action: Arc::new(action),
        }
    }

    /// From here on.
    fn begin(&self) {
        self.seen.store(0, Ordering::SeqCst);
    }

    fn end(&self) {
        self.seen.store(u64::MAX, Ordering::SeqCst);
    }

    fn script(&self) -> impl Script {
        let plan = self.clone();
        move |seen: &Seen| {
            let answers = !matches!(
                seen.opcode,
                Some(Opcode::Forget | Opcode::Interrupt | Opcode::Destroy | Opcode::Init)
            );
            if !answers || plan.seen.load(Ordering::SeqCst) == u64::MAX {
                return Action::Answer;
            }
            let n = plan.seen.fetch_add(1, Ordering::SeqCst);
            (plan.action)(n, seen)
        }
    }
}

fn connect(plan: &Plan, caching: Caching, timeouts: Timeouts) -> (Client, Peer) {
    loop {
        let fs = Memory::new(MemOptions {
            caching,
            ..MemOptions::default()
        });
        let options = ServerOptions {
            threads: 2,
            connection: InProcOptions {
                arena_bytes: 4 << 20,
                queue_size: 32,
            },
            ..ServerOptions::default()
        };
        let (transport, peer) = start(fs, plan.script(), &options).unwrap();
        let builder = Client::builder().timeouts(timeouts).umask(0o022);
        match builder.connect(transport) {
            Ok(client) => return (client, peer),
            // A busy machine, and a deadline that is made for a test.
            Err(error) => assert_eq!(error.errno(), Errno::TIMEDOUT.raw_os_error(), "{error}"),
        }
    }
}

/// The connection works.
fn works(client: &Client, what: &str) {
    loop {
        match client.metadata("/dir") {
            Ok(found) => return assert!(found.is_dir(), "{what}"),
            Err(error) => {
                let late = Errno::TIMEDOUT.raw_os_error();
                assert_eq!(error.errno(), late, "{what}: {error}");
            }
        }
    }
}

/// The operations that a call asks for, in order.
fn requests_of(call: &Call, caching: Caching) -> Vec<Opcode> {
    let log = Arc::new(Mutex::new(Vec::new()));
    let plan = {
        let log = Arc::clone(&log);
        Plan::new(move |_, seen| {
            log.lock().unwrap().extend(seen.opcode);
            Action::Answer
        })
    };
    let (client, peer) = connect(&plan, caching, Timeouts::default());
    prepare(&client);
    plan.begin();
    (call.run)(&client).unwrap_or_else(|error| panic!("{}: {error}", call.name));
    plan.end();
    ends_clean(client, peer, call.name, true);
    let log = log.lock().unwrap();
    log.clone()
}

/// Everything has been given back, and nothing is left over.
fn ends_clean(client: Client, peer: Peer, what: &str, given_back: bool) {
    // What nobody waits for ends in its own time.
    let busy = || {
        let engine = client.stats().engine;
        engine.orphans > 0 || engine.slots_busy > 0
    };
    while busy() {
        std::thread::yield_now();
    }
    client.drop_caches();
    let stats = client.stats();
    assert_eq!(stats.live_nodes, 1, "{what}");
    assert_eq!(stats.open_handles, 0, "{what}");
    assert_eq!(stats.frames_used, 0, "{what}");
    client.shutdown().unwrap();
    let usage = peer.join();
    if given_back {
        assert_eq!(usage, Usage::default(), "{what}");
    }
    assert_eq!(live(), 0, "{what}: threads");
}

/// One errno for each way in which the client could take it for something else, and some that it
/// has no idea of.
const ERRNOS: [Errno; 18] = [
    Errno::PERM,
    Errno::NOENT,
    Errno::INTR,
    Errno::IO,
    Errno::AGAIN,
    Errno::NOMEM,
    Errno::ACCESS,
    Errno::EXIST,
    Errno::NOTDIR,
    Errno::INVAL,
    Errno::MFILE,
    Errno::NOSPC,
    Errno::NOSYS,
    Errno::NOTEMPTY,
    Errno::OVERFLOW,
    Errno::OPNOTSUPP,
    Errno::TIMEDOUT,
    Errno::STALE,
];

/// F2: every errno, at every request of every call. The call ends with an errno or without, the
/// next one works, and everything is given back.
#[test]
fn every_errno_at_every_request() {
    let _alone = alone();
    let mut met = BTreeSet::new();
    for call in CALLS {
        let requests = requests_of(call, Caching::never());
        for (n, opcode) in requests.iter().enumerate() {
            met.insert(opcode.name());
            for errno in ERRNOS {
                let what = format!("{}: {errno:?} to request {n}, {}", call.name, opcode.name());
                let refused_release = Arc::new(AtomicBool::new(false));
                let refused = Arc::clone(&refused_release);
                let plan = Plan::new(move |at, seen| {
                    if at == n as u64 {
                        let release = [Some(Opcode::Release), Some(Opcode::Releasedir)];
                        refused.store(release.contains(&seen.opcode), Ordering::SeqCst);
                        Action::Errno(errno)
                    } else {
                        Action::Answer
                    }
                });
                let (client, peer) = connect(&plan, Caching::never(), Timeouts::default());
                prepare(&client);
                plan.begin();
                let result = (call.run)(&client);
                plan.end();
                if let Err(error) = result {
                    assert!(error.errno() > 0, "{what}: {error}");
                }
                assert!(client.metadata("/dir").unwrap().is_dir(), "{what}");
                // The file system does not hear of what is refused for it.
                let heard = !refused_release.load(Ordering::SeqCst);
                ends_clean(client, peer, &what, heard);
            }
        }
    }
    println!("operations met: {met:?}");
    assert!(met.len() >= 25, "{met:?}");
}

/// F13: whatever bytes a reply has. The call ends, the next one works, and everything that could
/// be understood is given back.
#[test]
fn any_bytes_for_a_body_at_every_request() {
    let _alone = alone();
    let rng = Arc::new(Mutex::new(Rng::new(seed("any bytes"))));
    let soak = std::env::var_os("FUSEWIRE_SOAK").is_some_and(|value| value == "1");
    let rounds = if soak { 100 } else { 2 };
    for call in CALLS {
        let requests = requests_of(call, Caching::always());
        for (n, opcode) in requests.iter().enumerate() {
            for _ in 0..rounds {
                let what = format!("{}: bytes to request {n}, {}", call.name, opcode.name());
                let rng = Arc::clone(&rng);
                let plan = Plan::new(move |at, _| {
                    if at == n as u64 {
                        Action::Body(body(&mut rng.lock().unwrap()))
                    } else {
                        Action::Answer
                    }
                });
                let (client, peer) = connect(&plan, Caching::always(), Timeouts::default());
                prepare(&client);
                plan.begin();
                let _ = (call.run)(&client);
                plan.end();
                client.drop_caches();
                assert!(client.metadata("/dir").unwrap().is_dir(), "{what}");
                // What the peer made up is not the file system's to be given back.
                client.drop_caches();
                let stats = client.stats();
                assert_eq!(stats.frames_used, 0, "{what}");
                client.shutdown().unwrap();
                drop(peer);
                assert_eq!(live(), 0, "{what}: threads");
            }
        }
    }
}

/// Bytes of a likely length; more often than not such that much of them is 0, as in real replies.
fn body(rng: &mut Rng) -> Vec<u8> {
    let len = match rng.below(8) {
        0 => 0,
        1 => rng.below(16),
        2 => 16,
        3 => 104,
        4 => 128,
        5 => 144,
        6 => 288,
        _ => rng.below(500),
    };
    let zeroes = rng.below(4);
    (0..len)
        .map(|_| {
            if rng.below(4) < zeroes {
                0
            } else {
                rng.next() as u8
            }
        })
        .collect()
}

/// F23: the peer dies at every request of every call, before it does what it was asked and after.
#[test]
fn death_at_every_request() {
    let _alone = alone();
    for call in CALLS {
        let requests = requests_of(call, Caching::never());
        for n in 0..requests.len() as u64 {
            let what = format!("{}: death at request {n}", call.name);
            let plan = Plan::new(
                move |at, _| {
                    if at == n { Action::Die } else { Action::Answer }
                },
            );
            let (client, peer) = connect(&plan, Caching::never(), Timeouts::default());
            prepare(&client);
            plan.begin();
            match (call.run)(&client) {
                // It was the RELEASE, which nobody waits for.
                Ok(()) => {}
                Err(error) => {
                    let ended = [Errno::NOTCONN, Errno::CONNABORTED].map(Errno::raw_os_error);
                    assert!(ended.contains(&error.errno()), "{what}: {error}");
                }
            }
            // In the end everybody sees it.
            while client.ended().is_none() {
                std::thread::yield_now();
            }
            let error = client.metadata("/dir").unwrap_err();
            assert_eq!(error.errno(), Errno::NOTCONN.raw_os_error(), "{what}");
            assert!(client.shutdown().is_err(), "{what}");
            drop(peer);
            assert_eq!(live(), 0, "{what}: threads");
        }
    }
}

/// F24: a request is never answered. What has a deadline ends with it, and can be cancelled like
/// the rest.
#[test]
fn no_answer_at_every_request() {
    let _alone = alone();
    let timeouts = Timeouts {
        metadata: Some(Duration::from_millis(150)),
        data: Some(Duration::from_millis(150)),
    };
    for call in CALLS {
        let requests = requests_of(call, Caching::never());
        for (n, opcode) in requests.iter().enumerate() {
            let what = format!("{}: no answer to request {n}, {}", call.name, opcode.name());
            let asked = Arc::new(AtomicU64::new(0));
            let plan = {
                let asked = Arc::clone(&asked);
                Plan::new(move |at, seen| {
                    if at == n as u64 {
                        // RELEASE comes when it comes, so it may be another one by now.
                        let opcode = seen.opcode.map_or(0, |opcode| opcode as u64);
                        asked.store(opcode, Ordering::SeqCst);
                        Action::Never
                    } else {
                        Action::Answer
                    }
                })
            };
            let (client, peer) = connect(&plan, Caching::never(), timeouts);
            prepare(&client);
            let worker = client.separate();
            let canceller = worker.canceller();
            plan.begin();
            let result = std::thread::scope(|scope| {
                let running = scope.spawn(|| (call.run)(&worker));
                while asked.load(Ordering::SeqCst) == 0 && !running.is_finished() {
                    std::thread::yield_now();
                }
                let opcode = asked.load(Ordering::SeqCst) as u32;
                if Opcode::try_from(opcode).is_ok_and(has_no_deadline) {
                    canceller.cancel();
                }
                running.join().unwrap()
            });
            plan.end();
            if let Err(error) = result {
                let given_up = [Errno::TIMEDOUT, Errno::INTR].map(Errno::raw_os_error);
                assert!(given_up.contains(&error.errno()), "{what}: {error}");
            }
            works(&client, &what);
            drop(worker);
            drop(canceller);
            client.abort();
            drop(client);
            drop(peer);
            assert_eq!(live(), 0, "{what}: threads");
        }
    }
}

fn has_no_deadline(opcode: Opcode) -> bool {
    matches!(
        opcode,
        Opcode::Fsync
            | Opcode::Fsyncdir
            | Opcode::Flush
            | Opcode::Syncfs
            | Opcode::Fallocate
            | Opcode::CopyFileRange
            | Opcode::CopyFileRange64
            | Opcode::Setlkw
            | Opcode::Poll
    )
}
