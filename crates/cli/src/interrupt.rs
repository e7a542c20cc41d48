//! Ctrl-C and the like.

use fusewire::{Canceller, Client};
use rustix::termios::{OptionalActions, Termios, tcgetattr, tcsetattr};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;
use std::io;
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
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
///
/// Of the commands of a shell Ctrl-C ends the one under way, by its canceller, and nothing else. On
/// a terminal it never ends the shell: one that comes late was for a command that is over.
#[derive(Clone, Debug)]
pub struct Interrupt(Arc<State>);

#[derive(Debug, Default)]
struct State {
    signal: AtomicI32,
    /// Signals since the command began.
    count: AtomicUsize,
    wind_down: AtomicBool,
    client: Mutex<Option<Client>>,
    /// Of the command that a shell runs.
    canceller: Mutex<Option<Canceller>>,
    /// How the terminal was before lines were edited on it.
    terminal: Mutex<Option<Termios>>,
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
                for signal in signals.forever() {
                    state.take(signal);
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
        *locked(&self.0.client) = Some(client.clone());
    }

    /// There is no connection any more.
    pub fn unwatch(&self) {
        *locked(&self.0.client) = None;
    }

    /// A user sits at a terminal. When a signal ends the process, it is to be as it is now.
    pub fn keep_terminal(&self) {
        *locked(&self.0.terminal) = tcgetattr(io::stdin()).ok();
    }

    /// A shell runs a command, whose calls are ended by `canceller`.
    pub fn command_begins(&self, canceller: Canceller) {
        self.0.count.store(0, Ordering::Release);
        *locked(&self.0.canceller) = Some(canceller);
    }

    /// That command is over, and with it what Ctrl-C has asked of it. Another signal is for the
    /// shell.
    pub fn command_is_over(&self) {
        let mut canceller = locked(&self.0.canceller);
        *canceller = None;
        self.0.wind_down.store(false, Ordering::Release);
        let _ = self
            .0
            .signal
            .compare_exchange(SIGINT, 0, Ordering::AcqRel, Ordering::Acquire);
    }

    /// The first signal that came, if one did.
    pub fn signal(&self) -> Option<i32> {
        match self.0.signal.load(Ordering::Acquire) {
            0 => None,
            signal => Some(signal),
        }
    }
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl State {
    fn take(self: &Arc<Self>, signal: i32) {
        let nth = self.count.fetch_add(1, Ordering::AcqRel);
        // Held until the signal is noted: it is not for what comes after the command.
        let command = locked(&self.canceller);
        if signal == SIGINT && command.is_none() && locked(&self.terminal).is_some() {
            return;
        }
        let canceller = command.clone().filter(|_| signal == SIGINT);
        let winds_down = self.wind_down.load(Ordering::Acquire);
        if canceller.is_none() && (!winds_down || nth > 1) {
            self.exit(signal);
        }
        let _ = self
            .signal
            .compare_exchange(0, signal, Ordering::AcqRel, Ordering::Acquire);
        drop(command);
        let state = Arc::clone(self);
        let cut = move || match &canceller {
            Some(canceller) => canceller.cancel(),
            None => {
                if let Some(client) = &*locked(&state.client) {
                    client.abort();
                }
            }
        };
        if !winds_down || nth > 0 {
            return cut();
        }
        let later = cut.clone();
        let later = move || {
            std::thread::sleep(GRACE);
            later();
        };
        if std::thread::Builder::new().spawn(later).is_err() {
            cut();
        }
    }

    fn exit(&self, signal: i32) -> ! {
        if let Some(terminal) = &*locked(&self.terminal) {
            // It may be gone.
            let _ = tcsetattr(io::stdin(), OptionalActions::Now, terminal);
        }
        // A daemon of ours sees its connection close, and ends.
        std::process::exit(exit_code(signal));
    }
}

/// As a shell reports the death by a signal.
pub fn exit_code(signal: i32) -> i32 {
    128 + signal
}
