//! The peer that misbehaves on purpose does exactly that.

use crate::common::{Failure, Raw, memory, name, small};
use fusewire_server::mem::Memory;
use fusewire_server::scripted::{Action, Gate, Rules, Script, ScriptedPeer, Seen, start};
use fusewire_server::{Errno, Usage};
use fusewire_wire::abi::*;
use fusewire_wire::{InitFlags, Opcode, Replies, Request};

fn peer(script: impl Script) -> (Raw, ScriptedPeer<Memory>) {
    let (client, peer) = start(memory(), script, &small()).unwrap();
    (Raw::connected(client), peer)
}

/// A file of 10,000 bytes, open.
fn file(raw: &Raw) -> u64 {
    let (_, open) = raw.create(ROOT_ID, b"f", 2, 0o644).unwrap();
    assert_eq!(raw.write(open.fh, 0, &[7; 10_000]).unwrap(), 10_000);
    open.fh
}

fn read(raw: &Raw, fh: u64) -> u32 {
    let arg = ReadIn {
        fh,
        size: 100,
        ..ReadIn::default()
    };
    raw.send(ROOT_ID, &Request::Read(arg), &[])
}

#[test]
fn without_rules_it_is_an_ordinary_server() {
    let (raw, peer) = peer(Rules::new());
    let fh = file(&raw);
    assert_eq!(raw.read(fh, 9_990, 100).unwrap(), [7; 10]);
    raw.release(fh).unwrap();
    raw.leave();
    assert_eq!(peer.join(), Usage::default());
}

#[test]
fn errors_and_short_moves_come_when_told() {
    let rules = Rules::new()
        .nth(Opcode::Write, 2, Action::Errno(Errno::NOSPC))
        .nth(Opcode::Write, 3, Action::Limit(1234))
        .nth(Opcode::Read, 1, Action::Limit(10))
        .every(Opcode::Statfs, Action::Errno(Errno::ACCESS));
    let (raw, peer) = peer(rules);
    let fh = file(&raw);
    assert_eq!(raw.write(fh, 0, b"x"), Err(Failure::Errno(28)));
    assert_eq!(raw.write(fh, 10_000, &[8; 5_000]), Ok(1234));
    assert_eq!(raw.read(fh, 0, 100).unwrap(), [7; 10]);
    assert_eq!(raw.read(fh, 10_000, 5_000).unwrap(), [8; 1234]);
    for _ in 0..3 {
        assert_eq!(raw.statfs(ROOT_ID), Err(Failure::Errno(13)));
    }
    // Refused by the script, so the file system never saw them.
    assert_eq!(peer.count(Opcode::Statfs), 0);
    assert_eq!(peer.count(Opcode::Write), 2);
}

#[test]
fn requests_are_held_and_released_in_any_order() {
    let gate = Gate::new();
    let rules = Rules::new().every(Opcode::Read, Action::HoldBefore(gate.clone()));
    let (raw, peer) = peer(rules);
    let fh = file(&raw);
    let tags = [read(&raw, fh), read(&raw, fh), read(&raw, fh)];
    assert!(peer.wait_for_nth(Opcode::Read, 3));
    assert_eq!(gate.held(), 3);
    // The peer goes on with other requests meanwhile.
    assert_eq!(raw.write(fh, 0, &[9; 100]), Ok(100));
    assert!(gate.release_last());
    assert_eq!(raw.finish(tags[2]).unwrap(), [9; 100]);
    assert!(gate.release_first());
    assert_eq!(raw.finish(tags[0]).unwrap(), [9; 100]);
    gate.open();
    assert_eq!(raw.finish(tags[1]).unwrap(), [9; 100]);
    assert!(!gate.release_first());
    assert_eq!(raw.read(fh, 0, 1).unwrap(), [9]);
    gate.close();
    let tag = read(&raw, fh);
    assert!(peer.wait_for_nth(Opcode::Read, 5));
    assert!(gate.release_first());
    raw.finish(tag).unwrap();
}

#[test]
fn a_held_reply_belongs_to_work_already_done() {
    let gate = Gate::new();
    let rules = Rules::new().nth(Opcode::Mkdir, 1, Action::HoldAfter(gate.clone()));
    let (raw, peer) = peer(rules);
    let mkdir = Request::Mkdir {
        name: name(b"d"),
        mode: 0o755,
        umask: 0,
    };
    let tag = raw.send(ROOT_ID, &mkdir, &[]);
    assert!(peer.wait_for_nth(Opcode::Mkdir, 1));
    assert_eq!(raw.lookup(ROOT_ID, b"d").unwrap().attr.mode, 0o040_755);
    assert_eq!(peer.usage().lookups, 2);
    gate.open();
    raw.finish(tag).unwrap();
}

#[test]
fn replies_are_wrong_in_the_way_that_was_asked_for() {
    let stranger = OutHeader {
        len: 16,
        error: -600,
        unique: 1,
    };
    let rules = Rules::new()
        .nth(Opcode::Getattr, 1, Action::WrongUnique(0xdead_beef))
        .nth(Opcode::Getattr, 2, Action::CutTo(9))
        .nth(Opcode::Getattr, 3, Action::WrongLength(5000))
        .nth(Opcode::Getattr, 4, Action::UsedLength(60))
        .nth(
            Opcode::Getattr,
            5,
            Action::Raw(crate::common::bytes_of(&stranger)),
        )
        .nth(Opcode::Getattr, 6, Action::Body(vec![1; 3]));
    let (raw, peer) = peer(rules);
    for _ in 0..6 {
        assert_eq!(raw.getattr(ROOT_ID, None), Err(Failure::Garbled));
    }
    // None of that hurt the transport.
    raw.getattr(ROOT_ID, None).unwrap();
    raw.leave();
    assert_eq!(peer.join(), Usage::default());
}

#[test]
fn the_ring_is_broken_when_asked_for() {
    let (raw, _peer) = peer(Rules::new().nth(Opcode::Getattr, 1, Action::UsedLength(1 << 20)));
    let failure = raw.getattr(ROOT_ID, None).unwrap_err();
    assert_eq!(failure, Failure::Fault);
    let (raw, _peer) = peer(Rules::new().nth(Opcode::Getattr, 1, Action::Twice));
    // Two answers where one is due: neither is believed.
    assert_eq!(raw.getattr(ROOT_ID, None).unwrap_err(), Failure::Fault);
}

#[test]
fn no_answer_is_no_answer_and_death_is_death() {
    let rules = Rules::new()
        .nth(Opcode::Read, 1, Action::Never)
        .nth(Opcode::Read, 2, Action::Die);
    let (raw, peer) = peer(rules);
    let fh = file(&raw);
    let never = read(&raw, fh);
    raw.getattr(ROOT_ID, None).unwrap();
    let last = read(&raw, fh);
    assert_eq!(raw.finish(last), Err(Failure::Dead));
    assert_eq!(raw.finish(never), Err(Failure::Dead));
    // A wait for what cannot come any more ends too.
    assert!(!peer.wait_for_nth(Opcode::Read, 3));
    drop(raw);
    assert_eq!(peer.join().open_handles, 1);
}

#[test]
fn death_can_come_from_outside_at_any_time() {
    let gate = Gate::new();
    let (raw, peer) = peer(Rules::new().every(Opcode::Read, Action::HoldBefore(gate.clone())));
    let fh = file(&raw);
    let tag = read(&raw, fh);
    assert!(peer.wait_for_nth(Opcode::Read, 1));
    peer.die();
    assert_eq!(raw.finish(tag), Err(Failure::Dead));
    // Whoever lets it through now does no harm.
    gate.open();
    assert_eq!(raw.getattr(ROOT_ID, None), Err(Failure::Dead));
}

#[test]
fn everything_received_is_in_the_log() {
    let script = |seen: &Seen| match (seen.opcode, seen.node) {
        (Some(Opcode::Getattr), 999) => Action::Errno(Errno::IO),
        _ => Action::Answer,
    };
    let (raw, peer) = peer(script);
    let fh = file(&raw);
    raw.read(fh, 5, 10).unwrap();
    assert_eq!(raw.getattr(999, None), Err(Failure::Errno(5)));
    let node = *raw.known.borrow().keys().next().unwrap();
    raw.forget(node);
    assert!(peer.wait_for_nth(Opcode::Forget, 1));
    let log = peer.log();
    let opcodes: Vec<_> = log.iter().filter_map(|seen| seen.opcode).collect();
    let expected = [
        Opcode::Init,
        Opcode::Create,
        Opcode::Write,
        Opcode::Read,
        Opcode::Getattr,
        Opcode::Forget,
        Opcode::Statfs,
    ];
    assert_eq!(opcodes, expected);
    assert!(
        log.iter()
            .enumerate()
            .all(|(n, seen)| seen.index == n as u64)
    );
    assert!(log.iter().all(|seen| seen.well_formed && seen.nth == 1));
    let seen = |opcode| log.iter().find(|seen| seen.opcode == Some(opcode)).unwrap();
    assert_eq!(seen(Opcode::Create).name.as_deref(), Some(&b"f"[..]));
    let read = seen(Opcode::Read);
    assert_eq!((read.fh, read.offset, read.size), (Some(fh), 5, 10));
    assert_eq!(seen(Opcode::Write).size, 10_000);
    assert_eq!(
        (seen(Opcode::Forget).node, seen(Opcode::Forget).size),
        (node, 1)
    );
}

#[test]
fn any_operation_can_be_missing() {
    for opcode in Opcode::ALL.iter().copied() {
        if opcode.replies() != Replies::Always {
            continue;
        }
        let rules = Rules::new().every(opcode, Action::Errno(Errno::NOSYS));
        let (client, peer) = start(memory(), rules, &small()).unwrap();
        let raw = Raw::new(client);
        if opcode != Opcode::Init {
            raw.init(InitFlags::all()).unwrap();
        }
        for _ in 0..2 {
            // Whatever else is wrong with it.
            let header = InHeader {
                len: 40,
                opcode: opcode as u32,
                unique: 1000,
                nodeid: ROOT_ID,
                ..InHeader::default()
            };
            let head = crate::common::bytes_of(&header);
            let tag = raw.submit(1000, &head, &[], 16, 0);
            assert_eq!(raw.finish(tag), Err(Failure::Errno(38)), "{opcode:?}");
        }
        assert_eq!(peer.count(opcode), 0);
    }
}
