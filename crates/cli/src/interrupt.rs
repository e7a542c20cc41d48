//! Ctrl-C and the like.

use fusewire::{Canceller, Client};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;
use std::io;
use std::sync::atomic::{AtomicBool, AtomicI32, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// How long a command may take to wind down before its connection is cut.
const GRACE: Duration = Duration::from_secs(2);

/// What has been asked of this process by signals.
///
/// A command that leaves nothing behind is ended by the first signal, from the thread that waits
/// for signals. One that has unfinished files around asks for [`Interrupt::wind_down`]: it finds
/// the signal in [`Interrupt::signal`] and cleans up itself. It is not waited for without end: after
/// a grace period, or at the second signal, the connection is aborted, which ends every call; a
/// third signal ends the process.
#[derive(Clone, Debug)]
pub struct Interrupt(Arc<State>);

#[derive(Debug, Default)]
struct State {
    signal: AtomicI32,
    wind_down: AtomicBool,
    client: Mutex<Option<Client>>,
    /// Of the command that a shell runs.
    canceller: Mutex<Option<Canceller>>,
}

impl Interrupt {
    /// Takes the signals over.
    ///
    /// # Errors
    /// What the system says when it has no descriptors or threads left.
    pub fn install() -> io::Result<Self> {
        let interrupt = Interrupt(Arc::default());
        let mut signals = Signals::new([SIGINT, SIGTERM, SIGHUP])?;
        let state = Arc::clone(&interrupt.0);
        std::thread::Builder::new()
            .name("signals".to_owned())
            .spawn(move || {
                for (nth, signal) in signals.forever().enumerate() {
                    state.take(nth, signal);
                }
            })?;
        Ok(interrupt)
    }

    /// From now on the command cleans up itself.
    pub fn wind_down(&self) {
        self.0.wind_down.store(true, Ordering::Release);
    }

    /// The connection that calls may be waiting in.
    pub fn watch(&self, client: &Client) {
        *self.0.client() = Some(client.clone());
    }

    /// There is no connection any more.
    pub fn unwatch(&self) {
        *self.0.client() = None;
    }

    /// From now on Ctrl-C ends the calls of one command of several.
    pub fn cancel_by(&self, canceller: Canceller) {
        *self.0.canceller() = Some(canceller);
    }

    /// That command is over, and with it what was asked of it.
    pub fn command_is_over(&self) {
        *self.0.canceller() = None;
        self.0.signal.store(0, Ordering::Release);
    }

    /// The first signal that came, if one did.
    pub fn signal(&self) -> Option<i32> {
        match self.0.signal.load(Ordering::Acquire) {
            0 => None,
            signal => Some(signal),
        }
    }
}

impl State {
    fn client(&self) -> std::sync::MutexGuard<'_, Option<Client>> {
        self.client.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn canceller(&self) -> std::sync::MutexGuard<'_, Option<Canceller>> {
        self.canceller
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    fn take(self: &Arc<Self>, nth: usize, signal: i32) {
        if signal == SIGINT
            && let Some(canceller) = &*self.canceller()
        {
            self.signal.store(signal, Ordering::Release);
            canceller.cancel();
            return;
        }
        if !self.wind_down.load(Ordering::Acquire) || nth > 1 {
            // A daemon of ours sees its connection close, and ends.
            std::process::exit(exit_code(signal));
        }
        let _ = self
            .signal
            .compare_exchange(0, signal, Ordering::AcqRel, Ordering::Acquire);
        if nth > 0 {
            self.abort();
            return;
        }
        let state = Arc::clone(self);
        let cut = move || {
            std::thread::sleep(GRACE);
            state.abort();
        };
        if std::thread::Builder::new().spawn(cut).is_err() {
            self.abort();
        }
    }

    fn abort(&self) {
        if let Some(client) = &*self.client() {
            client.abort();
        }
    }
}

/// As a shell reports the death by a signal.
pub fn exit_code(signal: i32) -> i32 {
    128 + signal
}
