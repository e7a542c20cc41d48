//! Requests that are held until they are interrupted.

use crate::early::Early;
use fusewire_sync::{Mutex, Rank};
use fusewire_transport::DeviceRequest;
use std::collections::HashMap;

/// What becomes of a request that was interrupted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Interrupted {
    /// EINTR; nothing was done.
    Refused,
    /// It is carried out and answered all the same.
    Answered,
}

type Held = (DeviceRequest, Interrupted);

#[derive(Debug)]
pub(super) struct Interruptible(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    held: HashMap<u64, Held>,
    early: Early,
}

impl Default for Interruptible {
    fn default() -> Self {
        Interruptible(Mutex::new(Rank::LEAF, State::default()))
    }
}

impl Interruptible {
    /// Holds a request. Gives it back if it was interrupted already, and another one of the same
    /// number, whose place it takes.
    pub fn hold(&self, unique: u64, request: DeviceRequest, then: Interrupted) -> Option<Held> {
        let mut state = self.0.lock();
        if state.early.take(unique) {
            return Some((request, then));
        }
        state.held.insert(unique, (request, then))
    }

    /// The request that an INTERRUPT is about, if it is held.
    pub fn interrupt(&self, unique: u64) -> Option<Held> {
        let mut state = self.0.lock();
        let held = state.held.remove(&unique);
        if held.is_none() {
            state.early.remember(unique);
        }
        held
    }
}

impl Drop for Interruptible {
    /// The peer ends, and with it its connection: nobody is answered any more.
    fn drop(&mut self) {
        let held = std::mem::take(&mut self.0.lock().held);
        for (request, _) in held.into_values() {
            request.abandon();
        }
    }
}
