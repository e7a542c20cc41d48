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

/// What a signal does to a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ending {
    /// It leaves nothing behind and is ended with the process, from the thread that waits for
    /// signals.
    AtOnce,
    /// It has unfinished files in the source. Its calls are cancelled, and it cleans up; the second
    /// signal ends the process.
    Cancelled,
    /// It finds the signal in [`Interrupt::signal`] and winds down. It is not waited for without
    /// end: after a grace period, or at the second signal, the connection is aborted, which ends
    /// every call; a third signal ends the process.
    WindsDown,
}

/// What has been asked of this process by signals.
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
    in_shell: AtomicBool,
    client: Mutex<Option<Client>>,
    command: Mutex<Option<Running>>,
    /// How the terminal was before lines were edited on it.
    terminal: Mutex<Option<Termios>>,
}

/// The command under way.
#[derive(Clone, Debug)]
struct Running {
    ending: Ending,
    /// Of its calls.
    canceller: Option<Canceller>,
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

    /// The connection that calls may be waiting in.
    pub fn watch(&self, client: &Client) {
        *locked(&self.0.client) = Some(client.clone());
    }

    /// There is no connection any more.
    pub fn unwatch(&self) {
        *locked(&self.0.client) = None;
    }

    /// From now on commands are those of a shell. If a user sits at a terminal, it is to be as it is
    /// now when a signal ends the process.
    pub fn shell_begins(&self, terminal: bool) {
        self.0.in_shell.store(true, Ordering::Release);
        if terminal {
            *locked(&self.0.terminal) = tcgetattr(io::stdin()).ok();
        }
    }

    /// A command begins, whose calls are ended by `canceller` if it makes any of its own.
    pub fn command_begins(&self, ending: Ending, canceller: Option<Canceller>) {
        self.0.count.store(0, Ordering::Release);
        *locked(&self.0.command) = Some(Running { ending, canceller });
    }

    /// That command is over, and with it what Ctrl-C has asked of it. Another signal is for the
    /// shell, or ends the process.
    pub fn command_is_over(&self) {
        let mut command = locked(&self.0.command);
        *command = None;
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
        let command = locked(&self.command);
        if signal == SIGINT && command.is_none() && locked(&self.terminal).is_some() {
            return;
        }
        let spares_shell =
            signal == SIGINT && command.is_some() && self.in_shell.load(Ordering::Acquire);
        let ending = command.as_ref().map_or(Ending::AtOnce, |c| c.ending);
        let last = match ending {
            Ending::AtOnce => 0,
            Ending::Cancelled => 1,
            Ending::WindsDown => 2,
        };
        if nth >= last && !spares_shell {
            self.exit(signal);
        }
        let _ = self
            .signal
            .compare_exchange(0, signal, Ordering::AcqRel, Ordering::Acquire);
        let cancels = spares_shell || ending == Ending::Cancelled;
        let canceller = command.as_ref().filter(|_| cancels);
        let canceller = canceller.and_then(|command| command.canceller.clone());
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
        if ending != Ending::WindsDown || nth > 0 {
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
