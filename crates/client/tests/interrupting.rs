//! Calls that are ended from outside: cancelled, interrupted, or given up at their deadline.

use fusewire::{Client, OpenOptions, Timeouts};
use fusewire_server::mem::{MemOptions, Memory};
use fusewire_server::scripted::{Action, Gate, Rules, ScriptedPeer, Seen, start};
use fusewire_server::{Errno, ServerOptions};
use fusewire_transport::InProcOptions;
use fusewire_wire::Opcode;
use fusewire_wire::reply::failure;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::Duration;
use zerocopy::IntoBytes;

fn connect(rules: Rules) -> (Client, ScriptedPeer<Memory>) {
    connect_with(rules, Client::builder(), InProcOptions::default())
}

fn connect_with(
    rules: Rules,
    builder: fusewire::Builder,
    connection: InProcOptions,
) -> (Client, ScriptedPeer<Memory>) {
    let fs = Memory::new(MemOptions::default());
    // One for what is held, one for the others.
    let options = ServerOptions {
        threads: 2,
        connection,
        ..ServerOptions::default()
    };
    let (transport, peer) = start(fs, rules, &options).unwrap();
    (builder.connect(transport).unwrap(), peer)
}

#[track_caller]
fn fails_with<T: std::fmt::Debug>(result: fusewire::Result<T>, errno: Errno) {
    let error = result.unwrap_err();
    assert_eq!(error.errno(), errno.raw_os_error(), "{error}");
}

fn held(gate: &Gate, n: usize) {
    until(|| gate.held() == n);
}

fn until(done: impl Fn() -> bool) {
    while !done() {
        thread::yield_now();
    }
}

/// What the peer has received of a kind.
fn received(peer: &ScriptedPeer<Memory>, opcode: Opcode) -> Vec<Seen> {
    let mut log = peer.log();
    log.retain(|seen| seen.opcode == Some(opcode));
    log
}

/// The peer answers the INTERRUPT of `unique`.
fn answer(peer: &ScriptedPeer<Memory>, unique: u64, errno: Errno) -> Result<(), i32> {
    let message = failure(unique | 1, errno.raw_os_error());
    peer.device().tell(message.as_bytes()).map_err(|why| why.0)
}

/// The client has given everything back and its daemon knows.
fn ends_clean(client: Client, peer: ScriptedPeer<Memory>) {
    until(|| client.stats().engine.orphans == 0);
    client.drop_caches();
    client.shutdown().unwrap();
    assert_eq!(peer.join(), fusewire_server::Usage::default());
}

#[test]
fn a_cancelled_call_ends_at_once_and_is_undone() {
    let gate = Gate::new();
    let (client, peer) =
        connect(Rules::new().nth(Opcode::Open, 1, Action::HoldAfter(gate.clone())));
    client.write("/file", b"text").unwrap();
    let worker = client.separate();
    let canceller = worker.canceller();
    let call = thread::spawn(move || worker.open("/file").map(drop));
    held(&gate, 1);
    canceller.cancel();
    fails_with(call.join().unwrap(), Errno::INTR);
    assert!(peer.wait_for_nth(Opcode::Interrupt, 1));
    let open = &received(&peer, Opcode::Open)[0];
    assert_eq!(
        received(&peer, Opcode::Interrupt)[0].unique,
        open.unique | 1
    );
    // The daemon opened it all the same; that is taken back.
    gate.open();
    assert!(peer.wait_for(|log| {
        let released = |seen: &&Seen| seen.opcode == Some(Opcode::Release);
        log.iter().filter(released).count() == 2
    }));
    assert_eq!(client.stats().engine.late_replies, 1);
    ends_clean(client, peer);
}

#[test]
fn calls_of_a_cancelled_handle_fail_until_it_is_reset() {
    let (client, peer) = connect(Rules::new());
    client.write("/file", b"text").unwrap();
    let worker = client.separate();
    let file = worker.open("/file").unwrap();
    let canceller = worker.canceller();
    canceller.cancel();
    assert!(canceller.is_cancelled());
    fails_with(file.read_at(&mut [0; 4], 0), Errno::INTR);
    fails_with(worker.clone().create_dir("/no"), Errno::INTR);
    assert_eq!(client.read("/file").unwrap(), b"text");
    // Closing it is possible, and the daemon hears of it.
    fails_with(file.close(), Errno::INTR);
    assert!(peer.wait_for(|log| {
        let of = |opcode| log.iter().filter(move |seen| seen.opcode == Some(opcode));
        of(Opcode::Flush).count() == 3 && of(Opcode::Release).count() == 3
    }));
    canceller.reset();
    worker.create_dir("/yes").unwrap();
    drop(worker);
    ends_clean(client, peer);
}

#[test]
fn an_fsync_that_never_ends_can_be_cancelled() {
    let gate = Gate::new();
    let rules = Rules::new().nth(Opcode::Fsync, 1, Action::HoldBefore(gate.clone()));
    let (client, peer) = connect(rules);
    let file = client.create("/file").unwrap();
    let canceller = client.canceller();
    let call = thread::spawn(move || file.sync_all());
    held(&gate, 1);
    canceller.cancel();
    fails_with(call.join().unwrap(), Errno::INTR);
    canceller.reset();
    gate.open();
    ends_clean(client, peer);
}

#[test]
fn a_call_that_waits_for_a_slot_can_be_cancelled() {
    let gate = Gate::new();
    let rules = Rules::new().every(Opcode::Statfs, Action::HoldBefore(gate.clone()));
    let small = InProcOptions {
        queue_size: 8,
        ..InProcOptions::default()
    };
    let (client, peer) = connect_with(rules, Client::builder(), small);
    let slots = 8;
    let busy: Vec<_> = (0..slots)
        .map(|_| {
            let client = client.clone();
            thread::spawn(move || client.statfs("/").map(drop))
        })
        .collect();
    until(|| client.stats().engine.slots_busy == slots);
    let worker = client.separate();
    let canceller = worker.canceller();
    let call = thread::spawn(move || worker.statfs("/").map(drop));
    canceller.cancel();
    fails_with(call.join().unwrap(), Errno::INTR);
    gate.open();
    for call in busy {
        call.join().unwrap().unwrap();
    }
    ends_clean(client, peer);
}

/// Signals that are handled must not change what a call does, however many there are.
#[test]
fn interrupts_that_the_daemon_ignores_change_nothing() {
    let gate = Gate::new();
    let rules = Rules::new().nth(Opcode::Mkdir, 1, Action::HoldBefore(gate.clone()));
    let (client, peer) = connect(rules);
    let worker = client.clone();
    let call = thread::spawn(move || worker.create_dir("/made"));
    held(&gate, 1);
    let canceller = client.canceller();
    for _ in 0..100 {
        canceller.interrupt();
    }
    assert!(peer.wait_for_nth(Opcode::Interrupt, 1));
    gate.open();
    call.join().unwrap().unwrap();
    assert!(client.metadata("/made").unwrap().is_dir());
    // The daemon was told once; one message says it all.
    assert_eq!(received(&peer, Opcode::Interrupt).len(), 1);
    ends_clean(client, peer);
}

#[test]
fn an_interrupt_that_overtook_its_request_is_sent_again() {
    let gate = Gate::new();
    let rules = Rules::new().nth(Opcode::Mkdir, 1, Action::HoldBefore(gate.clone()));
    let (client, peer) = connect(rules);
    let worker = client.clone();
    let call = thread::spawn(move || worker.create_dir("/made"));
    held(&gate, 1);
    client.canceller().interrupt();
    let unique = received(&peer, Opcode::Mkdir)[0].unique;
    // A daemon that never knows the request is not asked for ever.
    let most = 9;
    for n in 1..=most {
        assert!(peer.wait_for_nth(Opcode::Interrupt, n), "{n}");
        assert_eq!(answer(&peer, unique, Errno::AGAIN), Ok(()));
    }
    assert_eq!(client.stats().engine.oneway_queued, 0);
    gate.open();
    call.join().unwrap().unwrap();
    assert_eq!(received(&peer, Opcode::Interrupt).len() as u64, most);
    // Too late, or never asked.
    assert_eq!(
        answer(&peer, unique, Errno::AGAIN),
        Err(Errno::NOENT.raw_os_error())
    );
    assert_eq!(
        answer(&peer, unique, Errno::PERM),
        Err(Errno::INVAL.raw_os_error())
    );
    ends_clean(client, peer);
}

#[test]
fn a_daemon_that_knows_no_interrupt_gets_one_only() {
    let gate = Gate::new();
    let rules = Rules::new().every(Opcode::Mkdir, Action::HoldBefore(gate.clone()));
    let (client, peer) = connect(rules);
    let calls: Vec<_> = (0..2)
        .map(|n| {
            let worker = client.separate();
            let canceller = worker.canceller();
            let call = thread::spawn(move || worker.create_dir(format!("/made-{n}")));
            held(&gate, n + 1);
            canceller.interrupt();
            if n == 0 {
                assert!(peer.wait_for_nth(Opcode::Interrupt, 1));
                let unique = received(&peer, Opcode::Mkdir)[0].unique;
                assert_eq!(answer(&peer, unique, Errno::NOSYS), Ok(()));
            }
            call
        })
        .collect();
    gate.open();
    for call in calls {
        call.join().unwrap().unwrap();
    }
    assert_eq!(client.stats().engine.interrupts, 1);
    ends_clean(client, peer);
}

#[test]
fn a_request_past_its_deadline_is_interrupted() {
    let gate = Gate::new();
    let rules = Rules::new().nth(Opcode::Mkdir, 1, Action::HoldAfter(gate.clone()));
    let builder = Client::builder().timeouts(Timeouts {
        metadata: Some(Duration::from_millis(50)),
        data: None,
    });
    let (client, peer) = connect_with(rules, builder, InProcOptions::default());
    fails_with(client.create_dir("/late"), Errno::TIMEDOUT);
    assert!(peer.wait_for_nth(Opcode::Interrupt, 1));
    gate.open();
    until(|| client.stats().engine.orphans == 0);
    // It was made, as the next look shows.
    assert!(client.metadata("/late").unwrap().is_dir());
    ends_clean(client, peer);
}

/// An interrupt may cross the reply: the call ends once, with what the daemon said.
#[test]
fn interrupts_race_with_replies() {
    let (client, peer) = connect(Rules::new());
    client.write("/file", b"text").unwrap();
    let worker = client.separate();
    let canceller = worker.canceller();
    let calls = thread::spawn(move || {
        let file = OpenOptions::new()
            .read(true)
            .write(true)
            .open(&worker, "/file")
            .unwrap();
        for n in 0..2000_u32 {
            let text = n.to_ne_bytes();
            assert_eq!(file.write_at(&text, 0).unwrap(), 4);
            let mut back = [0; 4];
            assert_eq!(file.read_at(&mut back, 0).unwrap(), 4);
            assert_eq!(back, text);
        }
    });
    while !calls.is_finished() {
        canceller.interrupt();
    }
    calls.join().unwrap();
    ends_clean(client, peer);
}

/// A cancellation may cross the reply: nothing is lost track of.
#[test]
fn cancellations_race_with_replies() {
    let (client, peer) = connect(Rules::new());
    client.write("/file", b"text").unwrap();
    let worker = client.separate();
    let canceller = worker.canceller();
    let done = Arc::new(AtomicU64::new(0));
    let stop = Arc::new(AtomicBool::new(false));
    let calls = {
        let (done, stop) = (Arc::clone(&done), Arc::clone(&stop));
        thread::spawn(move || {
            while !stop.load(Ordering::Relaxed) {
                match worker.read("/file") {
                    Ok(text) => {
                        assert_eq!(text, b"text");
                        done.fetch_add(1, Ordering::Relaxed);
                    }
                    Err(error) => {
                        assert_eq!(error.errno(), Errno::INTR.raw_os_error(), "{error}");
                    }
                }
            }
        })
    };
    for _ in 0..500 {
        canceller.cancel();
        canceller.reset();
        let before = done.load(Ordering::Relaxed);
        until(|| done.load(Ordering::Relaxed) > before || calls.is_finished());
    }
    stop.store(true, Ordering::Relaxed);
    calls.join().unwrap();
    ends_clean(client, peer);
}
