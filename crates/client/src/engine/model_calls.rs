//! What the model checkers do with the engine.

use super::model_ring::SLOTS;
use super::*;
use fusewire_sync::thread;

pub(super) fn getattr() -> Call<'static> {
    Call {
        nodeid: 1,
        request: Request::Getattr { fh: None },
        caller: Caller::default(),
        extensions: Extensions::default(),
        payload: Payload::None,
        keeps: [None, None],
        token: None,
    }
}

pub(super) fn spawn(f: impl FnOnce() + Send + 'static) -> thread::JoinHandle<()> {
    thread::spawn("model", f).unwrap()
}

/// Blocks until every slot is free, which is a deadlock if one is lost.
pub(super) fn all_slots_come_back(engine: &Engine) {
    let tickets: Vec<_> = (0..SLOTS).map(|_| engine.reserve(None).unwrap()).collect();
    drop(tickets);
}

#[derive(Debug)]
pub(super) struct Kept;

impl Keep for Kept {
    fn answered_late(&self) {}
}
