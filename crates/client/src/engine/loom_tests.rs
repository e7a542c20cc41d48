//! loom: slots, the reaper token and deadlines, over a transport in memory.
//!
//! A lost wake-up shows as a deadlock, which loom reports. A completion in the ring with every
//! thread asleep is such a deadlock.

use super::model_calls::*;
use super::model_ring::*;
use super::*;

/// Two callers at once: each gets its own answer, whoever reaps it.
#[test]
fn loom_two_callers_share_the_token() {
    loom::model(|| {
        let ring = Ring::new();
        let engine = engine(&ring, &Clock::manual());
        let peer = {
            let ring = Arc::clone(&ring);
            spawn(move || {
                ring.answer_one();
                ring.answer_one();
            })
        };
        let other = {
            let engine = Arc::clone(&engine);
            spawn(move || {
                engine.call(getattr()).unwrap();
            })
        };
        engine.call(getattr()).unwrap();
        other.join().unwrap();
        peer.join().unwrap();
        assert_eq!(engine.slots.busy(), 0);
    });
}

/// A deadline and the answer at the same time: the caller gets exactly one of them, and once the
/// completion thread has run, the slot is free in both cases.
#[test]
fn loom_deadline_against_answer() {
    loom::model(|| {
        let ring = Ring::new();
        let clock = Clock::manual();
        let engine = engine(&ring, &clock);
        let completion = {
            let engine = Arc::clone(&engine);
            spawn(move || engine.run_completion())
        };
        let ticket = engine.reserve(None).unwrap();
        let pending = engine.send(ticket, getattr()).unwrap();
        clock.advance(2_000_000_000);
        let peer = {
            let ring = Arc::clone(&ring);
            spawn(move || drop(ring.answer_one()))
        };
        let timer = {
            let engine = Arc::clone(&engine);
            spawn(move || engine.timer.run_due())
        };
        match pending.wait() {
            Ok(_) | Err(Errno::TIMEDOUT) => {}
            Err(errno) => panic!("{errno}"),
        }
        peer.join().unwrap();
        timer.join().unwrap();
        all_slots_come_back(&engine);
        engine.stop();
        completion.join().unwrap();
        assert_eq!(engine.reaper.detached(), 0);
    });
}

/// An abort against a call in any state: the call ends, with its answer or with an error.
#[test]
fn loom_abort_ends_every_call() {
    loom::model(|| {
        let ring = Ring::new();
        let engine = engine(&ring, &Clock::manual());
        let peer = {
            let ring = Arc::clone(&ring);
            spawn(move || drop(ring.answer_one()))
        };
        let caller = {
            let engine = Arc::clone(&engine);
            spawn(move || match engine.call(getattr()) {
                Ok(_) | Err(Errno::CONNABORTED | Errno::NOTCONN) => {}
                Err(errno) => panic!("{errno}"),
            })
        };
        engine.abort(Ended::Aborted);
        caller.join().unwrap();
        peer.join().unwrap();
        assert!(matches!(engine.call(getattr()), Err(Errno::NOTCONN)));
    });
}

/// A caller that gives up hands its request to the completion thread, which frees the slot.
#[test]
fn loom_a_request_given_up_is_reaped() {
    loom::model(|| {
        let ring = Ring::new();
        let engine = engine(&ring, &Clock::manual());
        let completion = {
            let engine = Arc::clone(&engine);
            spawn(move || engine.run_completion())
        };
        let peer = {
            let ring = Arc::clone(&ring);
            spawn(move || drop(ring.answer_one()))
        };
        let ticket = engine.reserve(None).unwrap();
        drop(engine.send(ticket, getattr()).unwrap());
        peer.join().unwrap();
        all_slots_come_back(&engine);
        engine.stop();
        completion.join().unwrap();
        assert_eq!(engine.reaper.detached(), 0);
    });
}

/// What nobody waits for is sent before what its sender does next, or with the completion thread
/// when there is no slot; either way it is answered and its slot comes back.
#[test]
fn loom_what_nobody_waits_for_is_sent_and_reaped() {
    for taken in [0, SLOTS] {
        loom::model(move || {
            let ring = Ring::new();
            let engine = engine(&ring, &Clock::manual());
            let completion = {
                let engine = Arc::clone(&engine);
                spawn(move || engine.run_completion())
            };
            let peer = {
                let ring = Arc::clone(&ring);
                spawn(move || drop(ring.answer_one()))
            };
            let tickets: Vec<_> = (0..taken).map(|_| engine.reserve(None).unwrap()).collect();
            engine.send_later(1, Request::Getattr { fh: None }, Arc::new(Kept));
            if taken == 0 {
                assert_eq!(engine.deferred.lock().len(), 0);
            }
            drop(tickets);
            peer.join().unwrap();
            all_slots_come_back(&engine);
            engine.stop();
            completion.join().unwrap();
            assert_eq!(engine.reaper.detached(), 0);
        });
    }
}
