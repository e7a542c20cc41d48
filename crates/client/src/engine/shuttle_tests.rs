//! shuttle: more callers, requests and interruptions at once than loom can try in full.

use super::model_calls::*;
use super::model_ring::*;
use super::*;
use fusewire_sync::thread;

const CALLERS: usize = 3;
const CALLS: usize = 4;

/// Callers wait, give up, send what nobody waits for, run into deadlines and are cancelled, with
/// fewer slots than there are requests. Every call ends, and every slot comes back.
#[test]
fn shuttle_everything_at_once() {
    shuttle::check_random(
        || {
            let ring = Ring::new();
            let clock = Clock::manual();
            let engine = engine(&ring, &clock);
            let completion = {
                let engine = Arc::clone(&engine);
                spawn(move || engine.run_completion())
            };
            let peer = {
                let ring = Arc::clone(&ring);
                spawn(move || while ring.answer_one() {})
            };
            let token = Arc::new(Token::new());
            let callers: Vec<_> = (0..CALLERS)
                .map(|who| {
                    let (engine, token) = (Arc::clone(&engine), Arc::clone(&token));
                    spawn(move || (0..CALLS).for_each(|n| call(&engine, &token, who + n)))
                })
                .collect();
            clock.advance(2_000_000_000);
            engine.timer.run_due();
            token.cancel();
            engine.cancel(&token);
            for caller in callers {
                caller.join().unwrap();
            }
            if engine.ended.get().is_none() {
                all_slots_come_back(&engine);
                engine.quiesce();
                assert_eq!(engine.reaper.detached(), 0);
            }
            engine.abort(Ended::Aborted);
            engine.stop();
            for thread in [completion, peer] {
                thread.join().unwrap();
            }
        },
        20_000,
    );
}

/// One of the things that a caller does.
fn call(engine: &Engine, token: &Token, what: usize) {
    match what % 4 {
        0 => engine.send_later(1, Request::Getattr { fh: None }, Arc::new(Kept)),
        1 => {
            let sent = engine
                .reserve(None)
                .and_then(|ticket| engine.send(ticket, getattr()));
            ended(sent.map(drop), &[]);
        }
        2 => {
            let call = Call {
                token: Some(token),
                ..getattr()
            };
            ended(engine.call(call).map(drop), &[Errno::INTR, Errno::TIMEDOUT]);
        }
        _ => ended(engine.call(getattr()).map(drop), &[Errno::TIMEDOUT]),
    }
    thread::yield_now();
}

/// So may each that finds the connection ended for too many requests without an answer.
fn ended(result: Result<(), Errno>, allowed: &[Errno]) {
    let over = [Errno::CONNABORTED, Errno::NOTCONN];
    match result {
        Err(errno) if !allowed.contains(&errno) && !over.contains(&errno) => panic!("{errno}"),
        _ => {}
    }
}
