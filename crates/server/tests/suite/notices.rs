//! What servers say of their own accord, and what they make of INTERRUPT.

use crate::common::{Failure, Heard, Raw, memory, name, small};
use fusewire_server::mem::Memory;
use fusewire_server::scripted::{Action, Rules, Script, ScriptedPeer, Seen, start};
use fusewire_server::{Errno, Notice, Usage};
use fusewire_wire::abi::*;
use fusewire_wire::notify::{Message, Notification};
use fusewire_wire::{InvalEntryFlags, Opcode, PollFlags, Request};
use zerocopy::FromBytes;

const EINTR: i32 = 4;

fn peer(script: impl Script) -> (Raw, ScriptedPeer<Memory>) {
    let (client, peer) = start(memory(), script, &small()).unwrap();
    (Raw::connected(client), peer)
}

fn inval(node: u64) -> Notice {
    Notice::InvalInode {
        node,
        offset: -1,
        len: 0,
    }
}

#[test]
fn a_notifier_tells_and_hears_the_refusal() {
    let (client, server) = fusewire_server::start(memory(), &small()).unwrap();
    let notifier = server.notifier();
    // Nobody listens yet.
    assert_eq!(notifier.inc_epoch(), Err(Errno::NOTCONN));
    let raw = Raw::connected(client);
    let heard = Heard::by(&raw);
    let expired = InvalEntryFlags::EXPIRE_ONLY;
    notifier.poll(3).unwrap();
    notifier.inval_inode(5, 0, -1).unwrap();
    notifier.inval_entry(1, b"n", expired).unwrap();
    notifier.delete(1, 5, b"n").unwrap();
    notifier.store(5, 4096, b"data").unwrap();
    notifier.retrieve(77, 5, 0, 4096).unwrap();
    notifier.resend().unwrap();
    notifier.inc_epoch().unwrap();
    notifier.prune(&[5, 6]).unwrap();
    let messages = heard.take();
    let notifications: Vec<_> = messages
        .iter()
        .map(|message| match Message::parse(message) {
            Ok(Message::Notification(notification)) => notification,
            other => panic!("{other:?}"),
        })
        .collect();
    assert_eq!(notifications.len(), 9);
    assert_eq!(notifications[0], Notification::Poll { kh: 3 });
    let entry = Notification::InvalEntry {
        parent: 1,
        name: name(b"n"),
        flags: expired,
    };
    assert_eq!(notifications[2], entry);
    heard.refuse(2);
    assert_eq!(notifier.inval_inode(99, 0, 0), Err(Errno::NOENT));
    raw.leave();
    assert_eq!(server.join(), Usage::default());
    // The server is gone, and its notifier does not keep it.
    assert_eq!(notifier.inc_epoch(), Err(Errno::NOTCONN));
}

#[test]
fn notifications_come_before_the_answer_from_inside_a_handler() {
    let before = Action::Notify(
        vec![inval(2), Notice::IncEpoch],
        Box::new(Action::Notify(
            vec![Notice::Resend],
            Box::new(Action::Answer),
        )),
    );
    let rules = Rules::new()
        .every(Opcode::Mkdir, before)
        .nth(
            Opcode::Rmdir,
            1,
            Action::Notify(vec![inval(1)], Box::new(Action::Errno(Errno::BUSY))),
        )
        .nth(Opcode::Rmdir, 2, Action::NotifyAfter(vec![inval(2)]));
    let (raw, peer) = peer(rules);
    let heard = Heard::by(&raw);
    let node = raw.mkdir(ROOT_ID, b"d", 0o755).unwrap().nodeid;
    let expected = [
        inval(2).message(),
        Notice::IncEpoch.message(),
        Notice::Resend.message(),
    ];
    assert_eq!(heard.take(), expected);
    assert_eq!(raw.rmdir(ROOT_ID, b"d"), Err(Failure::Errno(16)));
    assert_eq!(heard.take(), [inval(1).message()]);
    heard.refuse(22);
    raw.rmdir(ROOT_ID, b"d").unwrap();
    assert_eq!(heard.take(), [inval(2).message()]);
    let mut told = peer.told();
    assert_eq!(told.pop(), Some(Err(Errno::INVAL)));
    assert_eq!(told, [Ok(()); 4]);
    raw.forget(node);
    raw.leave();
    assert_eq!(peer.join(), Usage::default());
}

#[test]
fn what_was_retrieved_is_in_the_log() {
    let (raw, peer) = peer(Rules::new());
    let heard = Heard::by(&raw);
    peer.notifier().retrieve(78, 9, 4096, 5).unwrap();
    assert_eq!(heard.take().len(), 1);
    let arg = NotifyRetrieveIn {
        offset: 4096,
        size: 5,
        ..NotifyRetrieveIn::default()
    };
    raw.oneway_with(78, 9, &Request::NotifyReply(arg), b"bytes");
    assert!(peer.wait_for_nth(Opcode::NotifyReply, 1));
    let log = peer.log();
    let reply = log.last().unwrap();
    assert_eq!((reply.unique, reply.node), (78, 9));
    assert_eq!((reply.offset, reply.size), (4096, 5));
    assert_eq!(reply.data.as_deref(), Some(&b"bytes"[..]));
    raw.leave();
    assert_eq!(peer.join(), Usage::default());
}

#[test]
fn interrupts_are_answered_as_the_script_says() {
    let rules = Rules::new()
        .nth(Opcode::Interrupt, 1, Action::Errno(Errno::AGAIN))
        .nth(Opcode::Interrupt, 2, Action::Errno(Errno::AGAIN))
        .nth(Opcode::Interrupt, 3, Action::Errno(Errno::NOSYS))
        .nth(Opcode::Interrupt, 4, Action::Ignore);
    let (raw, peer) = peer(rules);
    let heard = Heard::by(&raw);
    let mut answers = Vec::new();
    for n in 1..=5 {
        raw.interrupt(100);
        assert!(peer.wait_for_nth(Opcode::Interrupt, n));
        raw.fence();
        answers.extend(heard.take());
    }
    let errnos: Vec<i32> = answers
        .iter()
        .map(|message| match Message::parse(message) {
            Ok(Message::InterruptAnswer { unique: 100, errno }) => errno,
            other => panic!("{other:?}"),
        })
        .collect();
    assert_eq!(errnos, [11, 11, 38]);
    let interrupts: Vec<Seen> = peer
        .log()
        .into_iter()
        .filter(|seen| seen.opcode == Some(Opcode::Interrupt))
        .collect();
    assert!(
        interrupts
            .iter()
            .all(|seen| seen.about == Some(100) && seen.unique == 101)
    );
    raw.leave();
    assert_eq!(peer.join(), Usage::default());
}

#[test]
fn what_is_held_until_interrupted_ends_so() {
    let rules = Rules::new()
        .nth(Opcode::Mkdir, 1, Action::HoldUntilInterrupted)
        .nth(Opcode::Mkdir, 2, Action::AnswerOnceInterrupted)
        .every(Opcode::Mkdir, Action::HoldUntilInterrupted);
    let (raw, peer) = peer(rules);
    let send = |n: &[u8]| {
        let request = Request::Mkdir {
            name: name(n),
            mode: 0o755,
            umask: 0,
        };
        raw.send(ROOT_ID, &request, &[])
    };
    let refused = send(b"a");
    let answered = send(b"b");
    assert!(peer.wait_for_nth(Opcode::Mkdir, 2));
    assert_eq!(peer.usage(), Usage::default());
    // The peer does other things meanwhile.
    raw.fence();
    raw.interrupt(raw.unique_of(answered));
    assert_eq!(raw.finish(answered).unwrap().len(), size_of::<EntryOut>());
    raw.interrupt(raw.unique_of(refused));
    assert_eq!(raw.finish(refused), Err(Failure::Errno(EINTR)));
    assert_eq!(raw.lookup(ROOT_ID, b"a"), Err(Failure::Errno(2)));
    assert_eq!(raw.lookup(ROOT_ID, b"b").unwrap().attr.mode, 0o040_755);
    // An INTERRUPT that overtakes its request.
    raw.interrupt(raw.next_unique());
    assert!(peer.wait_for_nth(Opcode::Interrupt, 3));
    let overtaken = send(b"c");
    assert_eq!(raw.finish(overtaken), Err(Failure::Errno(EINTR)));
    let last = send(b"d");
    assert!(peer.wait_for_nth(Opcode::Mkdir, 4));
    drop(peer);
    assert_eq!(raw.finish(last), Err(Failure::Dead));
}

#[test]
fn who_polls_is_told_when_the_file_is_ready() {
    let not_ready = Action::Body(vec![0; size_of::<PollOut>()]);
    let (raw, peer) = peer(Rules::new().nth(Opcode::Poll, 1, not_ready));
    let heard = Heard::by(&raw);
    let (entry, open) = raw.create(ROOT_ID, b"f", 2, 0o644).unwrap();
    let poll = || {
        let arg = PollIn {
            fh: open.fh,
            kh: 4711,
            flags: PollFlags::SCHEDULE_NOTIFY.bits(),
            events: 1,
        };
        let body = raw.call(entry.nodeid, &Request::Poll(arg), &[]).unwrap();
        PollOut::read_from_bytes(&body[..]).unwrap().revents
    };
    assert_eq!(poll(), 0);
    let log = peer.log();
    let seen = log.last().unwrap();
    assert_eq!(seen.flags, PollFlags::SCHEDULE_NOTIFY.bits());
    peer.notifier().poll(seen.kh.unwrap()).unwrap();
    assert_eq!(heard.take(), [Notice::Poll { kh: 4711 }.message()]);
    assert_eq!(poll(), 1);
    raw.release(open.fh).unwrap();
    raw.leave();
    assert_eq!(peer.join(), Usage::default());
}
