//! Where requests are held until a test lets them through.

use fusewire_sync::{Arc, Mutex, Rank};
use std::collections::VecDeque;

type Held = Box<dyn FnOnce() + Send>;

/// Holds requests. Clones are the same gate. What is let through is finished on the thread that
/// lets it through.
#[derive(Clone)]
pub struct Gate(Arc<Mutex<State>>);

#[derive(Default)]
struct State {
    open: bool,
    held: VecDeque<Held>,
}

impl std::fmt::Debug for Gate {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let state = self.0.lock();
        f.debug_struct("Gate")
            .field("open", &state.open)
            .field("held", &state.held.len())
            .finish()
    }
}

impl Default for Gate {
    fn default() -> Self {
        Self::new()
    }
}

impl Gate {
    /// A closed gate.
    #[must_use]
    pub fn new() -> Self {
        Gate(Arc::new(Mutex::new(Rank::LEAF, State::default())))
    }

    pub(super) fn hold(&self, finish: impl FnOnce() + Send + 'static) {
        let through: Option<Held> = {
            let mut state = self.0.lock();
            if state.open {
                Some(Box::new(finish))
            } else {
                state.held.push_back(Box::new(finish));
                None
            }
        };
        if let Some(finish) = through {
            finish();
        }
    }

    /// How many requests are held.
    #[must_use]
    pub fn held(&self) -> usize {
        self.0.lock().held.len()
    }

    /// Lets the request through that came first; returns whether there was one.
    pub fn release_first(&self) -> bool {
        let next = self.0.lock().held.pop_front();
        next.map(|finish| finish()).is_some()
    }

    /// Lets the request through that came last; returns whether there was one.
    pub fn release_last(&self) -> bool {
        let next = self.0.lock().held.pop_back();
        next.map(|finish| finish()).is_some()
    }

    /// Lets all requests through, now and from now on.
    pub fn open(&self) {
        let held = {
            let mut state = self.0.lock();
            state.open = true;
            std::mem::take(&mut state.held)
        };
        for finish in held {
            finish();
        }
    }

    /// Holds requests from now on.
    pub fn close(&self) {
        self.0.lock().open = false;
    }
}
