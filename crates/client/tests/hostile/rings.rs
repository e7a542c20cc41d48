//! Answers to nothing, and requests that are rewritten behind the client's back.

use crate::harness::{Peer, Setup, alone, connect, ends_clean, fails_with, until};
use fusewire::{Client, Metadata};
use fusewire_server::Errno;
use fusewire_server::scripted::{Action, Gate, Rules, Seen};
use fusewire_sync::thread::live;
use fusewire_transport::DeviceQueueId::{Hiprio, Request};
use fusewire_transport::{RawDevice, SharedPart};
use fusewire_wire::Opcode;
use std::thread::JoinHandle;

/// Regions that are mapped: two of each connection.
fn mapped_regions() -> usize {
    let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
    maps.lines()
        .filter(|m| m.contains("memfd:fusewire"))
        .count()
}

/// Everything that belonged to an ended connection has been given back.
#[track_caller]
fn gone(client: Client, peer: Peer, what: &str) {
    drop(client);
    drop(peer);
    assert_eq!(live(), 0, "{what}: threads");
    assert_eq!(mapped_regions(), 0, "{what}: memory");
}

/// The ring is broken, the client knows how, and no call goes out any more.
#[track_caller]
fn has_ended(client: &Client, says: &str, what: &str) {
    let ended = client.ended().unwrap_or_else(|| panic!("{what}: lives"));
    assert!(ended.contains("broke the protocol"), "{what}: {ended}");
    assert!(ended.contains(says), "{what}: {ended}");
    let error = client.metadata("/").unwrap_err();
    assert_eq!(
        error.errno(),
        Errno::NOTCONN.raw_os_error(),
        "{what}: {error}"
    );
    assert!(error.to_string().contains(says), "{what}: {error}");
}

type Caller = JoinHandle<fusewire::Result<Metadata>>;

/// Calls that the peer has and does not answer.
struct InFlight {
    client: Client,
    peer: Peer,
    gate: Gate,
    callers: Vec<Caller>,
}

impl InFlight {
    fn new(calls: u64) -> Self {
        let gate = Gate::new();
        let hold = Rules::new().every(Opcode::Getattr, Action::HoldAfter(gate.clone()));
        let (client, peer) = connect(&Setup::default(), hold);
        let callers = (0..calls)
            .map(|_| {
                let client = client.clone();
                std::thread::spawn(move || client.metadata("/"))
            })
            .collect();
        peer.wait_for_nth(Opcode::Getattr, calls);
        until(|| gate.held() as u64 == calls);
        InFlight {
            client,
            peer,
            gate,
            callers,
        }
    }
}

/// The first descriptors of the last `n` requests, the last one first.
fn last_heads(raw: &RawDevice, n: u16) -> Vec<u32> {
    let ring = raw.shared(SharedPart::Available(Request)).to_vec();
    let word = |at: usize| u16::from_ne_bytes([ring[at], ring[at + 1]]);
    let slot = |index: u16| usize::from(index % raw.queue_size(Request));
    let index = word(2);
    (1..=n)
        .map(|back| word(4 + 2 * slot(index.wrapping_sub(back))).into())
        .collect()
}

/// An id of the queue that is none of these.
fn other_than(raw: &RawDevice, ids: &[u32]) -> u32 {
    let mut all = 0..u32::from(raw.queue_size(Request));
    all.find(|id| !ids.contains(id)).unwrap()
}

/// A lie about the used ring, told with three calls in flight, and what the client is to say of it.
type Lie = fn(&RawDevice, &[u32]) -> String;

#[test]
fn an_answer_to_no_call_ends_every_call() {
    let _alone = alone();
    let lies: [(&str, Lie); 5] = [
        ("never submitted", |raw, ids| {
            let id = other_than(raw, ids);
            raw.push_used(Request, id, 0);
            format!("used id {id} is not outstanding")
        }),
        ("the first one out of range", |raw, _| {
            let id = u32::from(raw.queue_size(Request));
            raw.push_used(Request, id, 0);
            format!("used id {id} of a queue of 32")
        }),
        // Its lower half is one that is in flight.
        ("far out of range", |raw, ids| {
            let id = (1 << 16) + ids[0];
            raw.push_used(Request, id, 0);
            format!("used id {id} of a queue of 32")
        }),
        ("the last number", |raw, _| {
            raw.push_used(Request, u32::MAX, 0);
            format!("used id {} of a queue of 32", u32::MAX)
        }),
        ("more answers than calls", |raw, _| {
            let index = raw.used_index(Request);
            raw.set_used_index(Request, index.wrapping_add(4));
            raw.call();
            "with 3 requests outstanding".to_owned()
        }),
    ];
    for (what, lie) in lies {
        let InFlight {
            client,
            peer,
            gate,
            callers,
        } = InFlight::new(3);
        let raw = peer.device().raw();
        let says = lie(raw, &last_heads(raw, 3));
        for caller in callers {
            let error = caller.join().unwrap().expect_err(what);
            let aborted = Errno::CONNABORTED.raw_os_error();
            assert_eq!(error.errno(), aborted, "{what}: {error}");
            assert!(error.to_string().contains(&says), "{what}: {error}");
        }
        has_ended(&client, &says, what);
        // Answers that come now are nobody's.
        gate.open();
        gone(client, peer, what);
    }
}

/// What was answered is not answered again, while other calls are in flight.
#[test]
fn an_answer_to_a_call_that_is_over_ends_the_others() {
    let _alone = alone();
    let InFlight {
        client,
        peer,
        gate,
        mut callers,
    } = InFlight::new(2);
    let raw = peer.device().raw();
    let before = last_heads(raw, 2);
    assert!(gate.release_first());
    until(|| callers.iter().any(JoinHandle::is_finished));
    let over = callers.iter().position(JoinHandle::is_finished).unwrap();
    assert!(callers.remove(over).join().unwrap().unwrap().is_dir());
    // The used entry says which one it was.
    let at = 4 + 8 * usize::from(raw.used_index(Request).wrapping_sub(1) % 32);
    let used = raw.shared(SharedPart::Used(Request)).slice(at, 4).to_vec();
    let id = u32::from_ne_bytes(used.try_into().unwrap());
    assert!(before.contains(&id));
    raw.push_used(Request, id, 16);
    let error = callers.remove(0).join().unwrap().unwrap_err();
    assert_eq!(error.errno(), Errno::CONNABORTED.raw_os_error(), "{error}");
    has_ended(
        &client,
        &format!("used id {id} is not outstanding"),
        "again",
    );
    gate.open();
    gone(client, peer, "again");
}

/// The same when nobody waits: the next call finds it.
#[test]
fn an_answer_to_no_call_is_found_by_the_next_call() {
    let _alone = alone();
    let lies: [(&str, Lie); 3] = [
        ("never submitted", |raw, last| {
            let id = other_than(raw, last);
            raw.push_used(Request, id, 0);
            format!("used id {id} is not outstanding")
        }),
        ("out of range", |raw, _| {
            raw.push_used(Request, 32, 0);
            "used id 32 of a queue of 32".to_owned()
        }),
        ("several", |raw, last| {
            raw.push_used(Request, last[0], 0);
            raw.push_used(Request, last[0], 0);
            "with 1 requests outstanding".to_owned()
        }),
    ];
    for (what, lie) in lies {
        // Never answered, so that the lie is all there is.
        let hold = Rules::new().every(Opcode::Getattr, Action::Never);
        let (client, peer) = connect(&Setup::default(), hold);
        let raw = peer.device().raw();
        let says = lie(raw, &last_heads(raw, 1));
        let error = client.metadata("/").expect_err(what);
        let aborted = Errno::CONNABORTED.raw_os_error();
        assert_eq!(error.errno(), aborted, "{what}: {error}");
        has_ended(&client, &says, what);
        gone(client, peer, what);
    }
}

/// An answer that is there before its call: what it says is another call's, or nothing.
#[test]
fn an_answer_before_its_call_is_an_io_error() {
    let _alone = alone();
    let hold = Rules::new().every(Opcode::Getattr, Action::Never);
    let (client, peer) = connect(&Setup::default(), hold);
    let raw = peer.device().raw();
    let next = last_heads(raw, 1)[0];
    // With the old answer of INIT in its place, with half a header, with nothing.
    for (len, nth) in [(80, 1), (8, 2), (0, 3)] {
        raw.push_used(Request, next, len);
        fails_with(client.metadata("/"), Errno::IO, "an early answer");
        assert!(peer.wait_for_nth(Opcode::Getattr, nth));
        assert_eq!(last_heads(raw, 1), [next]);
    }
    assert_eq!(client.ended(), None);
    gone(client, peer, "an early answer");
}

/// The same on the queue that has no answers at all.
#[test]
fn a_message_that_was_never_sent_is_returned() {
    let _alone = alone();
    let (client, peer) = connect(&Setup::default(), Rules::new());
    client.create_dir("/dir").unwrap();
    peer.device().raw().push_used(Hiprio, 0, 0);
    // Its FORGET cannot be sent, and is not kept.
    client.drop_caches();
    until(|| client.stats().engine.forgets_queued == 0);
    let error = client.metadata("/").unwrap_err();
    assert_eq!(error.errno(), Errno::CONNABORTED.raw_os_error(), "{error}");
    has_ended(&client, "used index moved from 0 to 1", "hiprio");
    gone(client, peer, "hiprio");
}

/// Every tag that a request can have.
pub fn tags(raw: &RawDevice) -> std::ops::Range<u32> {
    0..raw.queue_size(Request).into()
}

/// Rewrites all that the client has told the device of requests, but for how many there are.
fn rewrite_requests(raw: &RawDevice, garbage: impl Fn(usize) -> Vec<u8>) {
    let fill = |part, from| {
        let all = raw.shared(part);
        let rest = all.slice(from, all.len() - from);
        rest.copy_from(&garbage(rest.len()));
    };
    fill(SharedPart::Descriptors(Request), 0);
    for tag in tags(raw) {
        fill(SharedPart::Head(tag), 0);
        fill(SharedPart::Table(tag), 0);
    }
    let available = raw.shared(SharedPart::Available(Request));
    available.slice(0, 2).copy_from(&garbage(2));
    fill(SharedPart::Available(Request), 4);
}

/// Bytes of garbage: all 0, all ones, and numbers that are possible everywhere.
pub fn garbage() -> [fn(usize) -> Vec<u8>; 3] {
    [
        |len| vec![0; len],
        |len| vec![u8::MAX; len],
        |len| [3, 0].into_iter().cycle().take(len).collect(),
    ]
}

fn block(n: usize) -> Vec<u8> {
    (0..4096 + 512 * n)
        .map(|i| (i / 7 + 31 * n) as u8)
        .collect()
}

#[test]
fn requests_that_are_rewritten_in_flight_stay_what_they_were() {
    let _alone = alone();
    const FILES: usize = 6;
    for (round, garbage) in garbage().into_iter().enumerate() {
        let what = format!("round {round}");
        let gate = Gate::new();
        gate.open();
        let hold = {
            let gate = gate.clone();
            move |seen: &Seen| match seen.opcode {
                Some(Opcode::Read) => Action::HoldAfter(gate.clone()),
                _ => Action::Answer,
            }
        };
        let (client, peer) = connect(&Setup::default(), hold);
        let files: Vec<_> = (0..FILES)
            .map(|n| {
                let name = format!("/{n}");
                client.write(&name, block(n)).unwrap();
                client.open(&name).unwrap()
            })
            .collect();
        crate::harness::settled(&client);
        gate.close();
        let mut readers: Vec<_> = files
            .into_iter()
            .map(|file| {
                std::thread::spawn(move || {
                    let mut bytes = vec![0; 8192];
                    let len = file.read_at(&mut bytes, 0).unwrap();
                    bytes.truncate(len);
                    (file, bytes)
                })
            })
            .collect();
        until(|| gate.held() == FILES);
        let raw = peer.device().raw();
        while gate.held() > 0 {
            rewrite_requests(raw, garbage);
            gate.release_last();
        }
        // Where it wanted to be called has been rewritten, too.
        until(|| {
            raw.call();
            readers.iter().all(JoinHandle::is_finished)
        });
        gate.open();
        let files: Vec<_> = readers
            .drain(..)
            .enumerate()
            .map(|(n, reader)| {
                let (file, bytes) = reader.join().unwrap();
                assert!(bytes == block(n), "{what}: file {n}");
                file
            })
            .collect();
        // And so does everything that comes after.
        for (n, file) in files.into_iter().enumerate() {
            let mut bytes = vec![0; 8192];
            assert_eq!(file.read_at(&mut bytes, 0).unwrap(), block(n).len());
            file.close().unwrap();
            client.remove_file(format!("/{n}")).unwrap();
        }
        ends_clean(client, peer, &what);
    }
}
