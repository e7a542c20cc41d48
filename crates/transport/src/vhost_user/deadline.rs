//! A deadline on each step of the handshake.

use fusewire_sync::Arc;
use fusewire_sync::atomic::{AtomicBool, Ordering};
use fusewire_sync::time::Clock;
use fusewire_sync::timer::{Fire, Timer};
use std::io;
use std::net::Shutdown;
use std::os::unix::net::UnixStream;
use std::time::Duration;

/// Shuts a socket down when a step takes too long: whoever reads from it finds it closed. That also
/// ends a peer that answers a byte at a time, which a timeout on each read would not.
pub(super) struct Deadline {
    timer: Timer,
    clock: Clock,
    timeout: Duration,
    socket: Arc<UnixStream>,
    passed: Arc<AtomicBool>,
}

/// One step under way; dropping it means that it is done.
pub(super) struct Running {
    socket: Arc<UnixStream>,
    passed: Arc<AtomicBool>,
}

impl Fire for Running {
    fn fire(&self, _now_ns: u64) {
        self.passed.store(true, Ordering::Release);
        // Fails only when the peer has closed it already.
        let _ = self.socket.shutdown(Shutdown::Both);
    }
}

impl Deadline {
    pub(super) fn new(socket: Arc<UnixStream>, timeout: Duration) -> io::Result<Self> {
        let clock = Clock::monotonic();
        Ok(Deadline {
            timer: Timer::start(clock.clone())?,
            clock,
            timeout,
            socket,
            passed: Arc::new(AtomicBool::new(false)),
        })
    }

    pub(super) fn timeout(&self) -> Duration {
        self.timeout
    }

    /// Starts a step.
    pub(super) fn start(&self) -> Arc<Running> {
        let running = Arc::new(Running {
            socket: Arc::clone(&self.socket),
            passed: Arc::clone(&self.passed),
        });
        let timeout_ns = u64::try_from(self.timeout.as_nanos()).unwrap_or(u64::MAX / 2);
        let task: Arc<dyn Fire> = running.clone();
        self.timer.arm(
            self.clock.now_ns().saturating_add(timeout_ns),
            Arc::downgrade(&task),
        );
        running
    }

    /// Whether a step was cut off.
    pub(super) fn passed(&self) -> bool {
        self.passed.load(Ordering::Acquire)
    }
}
