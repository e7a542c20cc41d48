//! Errnos, death, silence and random bytes, at every request of every call.

use crate::calls::{CALLS, Call, prepare};
use crate::errnos::meant;
use crate::harness::{
    Place, Plan, Setup, alone, connect, everywhere, lets_go, places_of, refused, until,
};
use crate::random::{Rng, seed};
use fusewire::{Client, Timeouts};
use fusewire_server::scripted::{Action, Gate};
use fusewire_server::{Caching, Errno};
use fusewire_sync::thread::live;
use fusewire_wire::dirent::DirentsPlus;
use fusewire_wire::{Opcode, reply};
use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// The connection works.
fn works(client: &Client, what: &str) {
    loop {
        match client.metadata("/") {
            Ok(found) => return assert!(found.is_dir(), "{what}"),
            Err(error) => {
                let late = Errno::TIMEDOUT.raw_os_error();
                assert_eq!(error.errno(), late, "{what}: {error}");
            }
        }
    }
}

/// Whether the long cases are to be run at their full size.
fn soak() -> bool {
    std::env::var_os("FUSEWIRE_SOAK").is_some_and(|value| value == "1")
}

/// One errno for each way in which the client could take it for something else.
const ERRNOS: [Errno; 18] = [
    Errno::PERM,
    Errno::NOENT,
    Errno::INTR,
    Errno::IO,
    Errno::NXIO,
    Errno::AGAIN,
    Errno::ACCESS,
    Errno::EXIST,
    Errno::XDEV,
    Errno::NOTDIR,
    Errno::INVAL,
    Errno::MFILE,
    Errno::RANGE,
    Errno::NOSYS,
    Errno::LOOP,
    Errno::NODATA,
    Errno::NOTCONN,
    Errno::TIMEDOUT,
];

/// Some that it has no idea of, or that mean the same.
const MORE_ERRNOS: [Errno; 12] = [
    Errno::NOMEM,
    Errno::BUSY,
    Errno::ISDIR,
    Errno::NFILE,
    Errno::NOSPC,
    Errno::ROFS,
    Errno::NOTEMPTY,
    Errno::OVERFLOW,
    Errno::OPNOTSUPP,
    Errno::CONNABORTED,
    Errno::STALE,
    Errno::from_raw_os_error(fusewire_wire::reply::ERRNO_MAX),
];

fn errnos() -> Vec<Errno> {
    let more: &[Errno] = if soak() { &MORE_ERRNOS } else { &[] };
    [&ERRNOS, more].concat()
}

/// Every errno, at every request of every call. The call ends with it or with what it means
/// there, the next one works, and everything is given back.
#[test]
fn every_errno_at_every_request() {
    let _alone = alone();
    let (mut met, mut strange) = (BTreeSet::new(), Vec::new());
    for (setup, call, place) in everywhere() {
        met.insert(place.opcode.name());
        for errno in errnos() {
            let what = format!("{}: {errno:?} to {place:?}", call.name);
            let plan = Plan::at(place, move |_| Action::Errno(errno));
            let result = refused(&setup, call, &plan, place, &what);
            let expected = meant(call.name, place, errno);
            if !expected.allows(result) {
                strange.push(format!("{what}: {result:?} instead of {expected:?}"));
            }
        }
    }
    assert!(strange.is_empty(), "{}", strange.join("\n"));
    println!("operations met: {met:?}");
    assert!(met.len() >= 38, "{} operations: {met:?}", met.len());
}

/// Whatever bytes a reply has. The call ends, the next one works, and everything that could be
/// understood is given back.
#[test]
fn any_bytes_for_a_body_at_every_request() {
    let _alone = alone();
    let rng = Arc::new(Mutex::new(Rng::new(seed("any bytes"))));
    let rounds = if soak() { 100 } else { 2 };
    let setup = Setup {
        caching: Caching::always(),
        ..Setup::default()
    };
    let mut nodes = 0;
    for call in CALLS {
        for place in places_of(call, &setup) {
            for _ in 0..rounds {
                let what = format!("{}: bytes to {place:?}", call.name);
                let bytes = body(&mut rng.lock().unwrap(), place.opcode);
                let granted = granted(place.opcode, &bytes);
                let plan = Plan::at(place, move |_| Action::Body(bytes.clone()));
                let (client, peer) = connect(&setup, plan.script());
                prepare(&client);
                plan.begin();
                let _ = (call.run)(&client);
                plan.end();
                client.drop_caches();
                assert!(client.metadata("/").unwrap().is_dir(), "{what}");
                let left = lets_go(client, peer, &what);
                for node in &granted {
                    let times = granted.iter().filter(|other| *other == node).count();
                    assert_eq!(left.forgotten(*node), times as u64, "{what}: {node}");
                    nodes += 1;
                }
            }
        }
    }
    assert!(nodes > 10, "{nodes} nodes were made up");
}

/// The nodes that a peer has counted a lookup for when it answers so, as far as it can be
/// understood.
fn granted(opcode: Opcode, body: &[u8]) -> Vec<u64> {
    let mut nodes: Vec<u64> = match opcode {
        Opcode::Lookup | Opcode::Mkdir | Opcode::Mknod | Opcode::Symlink | Opcode::Link => {
            reply::entry(body)
                .iter()
                .map(|entry| entry.nodeid)
                .collect()
        }
        Opcode::Create | Opcode::Tmpfile => reply::create(body)
            .iter()
            .map(|(entry, _)| entry.nodeid)
            .collect(),
        Opcode::Readdirplus => DirentsPlus::new(body)
            .map_while(|entry| entry.ok())
            .filter(|plus| ![&b"."[..], b".."].contains(&plus.entry.name))
            .map(|plus| plus.entry_out.nodeid)
            .collect(),
        _ => Vec::new(),
    };
    // The root is not counted, and small numbers are those of the file system.
    nodes.retain(|node| *node > 1 << 20);
    nodes
}

/// Bytes of a likely length; more often than not such that much of them is 0, as in real replies.
fn body(rng: &mut Rng, opcode: Opcode) -> Vec<u8> {
    let len = match (rng.below(8), opcode) {
        (0..=3, Opcode::Create | Opcode::Tmpfile) => 144,
        (0..=3, Opcode::Getattr | Opcode::Setattr) => 104,
        (0..=3, _) => 128,
        (4, _) => rng.below(17),
        (5, _) => 288,
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

/// The peer dies at every request of every call, before it does what it was asked and after.
#[test]
fn death_at_every_request() {
    let _alone = alone();
    for after in [false, true] {
        for call in CALLS {
            for place in places_of(call, &Setup::default()) {
                dies_at(call, place, after);
            }
        }
    }
}

fn dies_at(call: &Call, place: Place, after: bool) {
    let what = format!("{}: death at {place:?}, done: {after}", call.name);
    let gate = Gate::new();
    let plan = {
        let gate = gate.clone();
        Plan::at(place, move |_| match after {
            false => Action::Die,
            true => Action::HoldAfter(gate.clone()),
        })
    };
    let (client, peer) = connect(&Setup::default(), plan.script());
    prepare(&client);
    plan.begin();
    let result = std::thread::scope(|scope| {
        let running = scope.spawn(|| (call.run)(&client));
        if after {
            until(|| gate.held() == 1);
            peer.die();
        }
        running.join().unwrap()
    });
    match result {
        // It was the RELEASE, which nobody waits for.
        Ok(()) => {}
        Err(error) => {
            let ended = [Errno::NOTCONN, Errno::CONNABORTED].map(Errno::raw_os_error);
            assert!(ended.contains(&error.errno()), "{what}: {error}");
        }
    }
    // In the end everybody sees it.
    until(|| client.ended().is_some());
    let error = client.metadata("/").unwrap_err();
    assert_eq!(error.errno(), Errno::NOTCONN.raw_os_error(), "{what}");
    until(|| client.stats().engine.orphans == 0);
    assert!(client.shutdown().is_err(), "{what}");
    drop(peer);
    assert_eq!(live(), 0, "{what}: threads");
}

/// A request is never answered. What has a deadline ends with it, and can be cancelled like
/// the rest.
#[test]
fn no_answer_at_every_request() {
    /// How many wait side by side.
    const AT_ONCE: usize = 16;
    let _alone = alone();
    let places: Vec<_> = CALLS
        .iter()
        .flat_map(|call| {
            let places = places_of(call, &Setup::default());
            places.into_iter().map(move |place| (call, place))
        })
        .collect();
    for some in places.chunks(AT_ONCE) {
        std::thread::scope(|scope| {
            for (call, place) in some {
                scope.spawn(|| is_silent_at(call, *place));
            }
        });
        assert_eq!(live(), 0, "threads");
    }
}

fn is_silent_at(call: &Call, place: Place) {
    let what = format!("{}: no answer to {place:?}", call.name);
    let patience = Some(Duration::from_millis(400));
    let setup = Setup {
        timeouts: Timeouts {
            metadata: patience,
            data: patience,
        },
        ..Setup::default()
    };
    let asked = Arc::new(AtomicBool::new(false));
    let plan = {
        let asked = Arc::clone(&asked);
        Plan::at(place, move |_| {
            asked.store(true, Ordering::SeqCst);
            Action::Never
        })
    };
    let (client, _peer) = connect(&setup, plan.script());
    prepare(&client);
    let worker = client.separate();
    let canceller = worker.canceller();
    plan.begin();
    let result = std::thread::scope(|scope| {
        let running = scope.spawn(|| (call.run)(&worker));
        until(|| asked.load(Ordering::SeqCst) || running.is_finished());
        if has_no_deadline(place.opcode) {
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
    client.abort();
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
