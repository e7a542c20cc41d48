//! Beginnings and ends.

use crate::harness::{Setup, Shaped, alone, connect, connector, until};
use crate::random::{Rng, seed};
use fusewire::{Client, Timeouts};
use fusewire_server::Errno;
use fusewire_server::scripted::{Action, Rules, Script, ScriptedPeer, Seen};
use fusewire_sync::thread::live;
use fusewire_wire::Opcode;
use fusewire_wire::abi::InitOut;
use std::time::Duration;
use zerocopy::IntoBytes;

fn hasty() -> Setup {
    Setup {
        timeouts: Timeouts {
            metadata: Some(Duration::from_millis(400)),
            data: Some(Duration::from_millis(400)),
        },
        ..Setup::default()
    }
}

/// Tries to connect, once.
fn begin(script: impl Script) -> (fusewire::Result<Client>, ScriptedPeer<Shaped>) {
    connector(&Setup::default(), script)
}

#[track_caller]
fn does_not_begin(script: impl Script, errno: Errno, what: &str) {
    let (result, peer) = begin(script);
    let error = result.expect_err(what);
    assert_eq!(error.errno(), errno.raw_os_error(), "{what}: {error}");
    drop(peer);
    assert_eq!(live(), 0, "{what}: threads");
}

/// A peer that dies at INIT, refuses it, or answers nonsense.
#[test]
fn a_beginning_that_fails_is_an_error_and_leaves_nothing() {
    let _alone = alone();
    let init = |action| Rules::new().every(Opcode::Init, action);
    does_not_begin(init(Action::Die), Errno::CONNABORTED, "death");
    for errno in [
        Errno::PROTO,
        Errno::NOSYS,
        Errno::IO,
        Errno::PERM,
        Errno::INTR,
        Errno::AGAIN,
    ] {
        does_not_begin(init(Action::Errno(errno)), errno, "refusal");
    }
    does_not_begin(init(Action::CutTo(0)), Errno::IO, "an empty answer");
    does_not_begin(init(Action::CutTo(16)), Errno::IO, "a header alone");
    does_not_begin(init(Action::WrongUnique(99)), Errno::IO, "another's answer");
    does_not_begin(init(Action::WrongLength(7)), Errno::IO, "a wrong length");
    does_not_begin(init(Action::Body(Vec::new())), Errno::PROTO, "no version");
}

/// Limits and flags of any size. What is out of bounds is as if it were at the bound.
#[test]
fn any_numbers_in_init_are_taken_or_refused() {
    let _alone = alone();
    let mut rng = Rng::new(seed("init"));
    let soak = std::env::var_os("FUSEWIRE_SOAK").is_some_and(|value| value == "1");
    for round in 0..if soak { 5000 } else { 100 } {
        let mut bytes = vec![0; size_of::<InitOut>()];
        // All 0, all ones, then any.
        match round {
            0 => {}
            1 => bytes.fill(u8::MAX),
            _ => bytes.fill_with(|| rng.next() as u8),
        }
        let version = [7_u32, 19 + rng.below(30) as u32];
        bytes[..8].copy_from_slice(version.as_bytes());
        let lengths = [8, 24, bytes.len()];
        bytes.truncate(lengths[rng.below(3) as usize]);
        let (result, peer) = begin(Rules::new().every(Opcode::Init, Action::Body(bytes)));
        match result {
            Ok(client) => {
                let agreed = client.negotiated();
                assert!((1..=256).contains(&agreed.max_pages), "{agreed:?}");
                assert!(agreed.max_write_bytes >= 4096, "{agreed:?}");
                // The file system has not heard of INIT, and refuses all.
                let error = client.metadata("/x").unwrap_err();
                assert_eq!(error.errno(), Errno::IO.raw_os_error(), "{error}");
                client.shutdown().unwrap();
            }
            Err(error) => {
                let refused = [Errno::PROTO, Errno::IO].map(Errno::raw_os_error);
                assert!(refused.contains(&error.errno()), "{error}");
            }
        }
        drop(peer);
        assert_eq!(live(), 0, "threads");
    }
}

/// A goodbye that is not answered, or answered by death. Ending goes on in time.
#[test]
fn an_end_needs_no_answer() {
    let _alone = alone();
    for action in [
        Action::Never,
        Action::Die,
        Action::Errno(Errno::IO),
        Action::WrongUnique(3),
    ] {
        for opcode in [Opcode::Destroy, Opcode::Release] {
            let what = format!("{action:?} to {opcode:?}");
            let action = action.clone();
            let script = move |seen: &Seen| match seen.opcode {
                Some(found) if found == opcode => action.clone(),
                _ => Action::Answer,
            };
            let (client, peer) = connect(&hasty(), script);
            let file = client.create("/file").unwrap();
            drop(file);
            // Whether it has noticed that the peer is dead by now is up to chance.
            let _ = client.shutdown();
            drop(peer);
            assert_eq!(live(), 0, "{what}: threads");
        }
    }
}

/// The same when the last handle is dropped instead.
#[test]
fn dropping_everything_ends_in_time() {
    let _alone = alone();
    let never = |seen: &Seen| match seen.opcode {
        Some(Opcode::Destroy | Opcode::Release | Opcode::Releasedir) => Action::Never,
        _ => Action::Answer,
    };
    let (client, peer) = connect(&hasty(), never);
    let file = client.create("/file").unwrap();
    let entries = client.read_dir("/").unwrap();
    drop(client);
    drop(entries);
    drop(file);
    drop(peer);
    assert_eq!(live(), 0, "threads");
}

/// Calls, the interrupts of a ring, that mean nothing.
#[test]
fn calls_about_nothing_do_no_harm() {
    let _alone = alone();
    let (client, peer) = connect(&Setup::default(), Rules::new());
    let worker = {
        let client = client.clone();
        std::thread::spawn(move || {
            for n in 0..500_u32 {
                client.write("/file", n.to_ne_bytes()).unwrap();
                assert_eq!(client.read("/file").unwrap(), n.to_ne_bytes());
            }
        })
    };
    until(|| {
        peer.device().raw().call();
        worker.is_finished()
    });
    worker.join().unwrap();
    crate::harness::ends_clean(client, peer, "calls about nothing");
}
