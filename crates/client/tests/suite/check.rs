//! What several cases need.

use rustix::io::Errno;
use std::hash::{BuildHasher, RandomState};
use std::sync::OnceLock;
use std::time::{Duration, Instant};

/// Long enough for anything that is not stuck.
const PATIENCE: Duration = Duration::from_secs(20);

/// Waits for something that others bring about.
#[track_caller]
pub fn until(what: &str, mut holds: impl FnMut() -> Result<(), String>) {
    let start = Instant::now();
    loop {
        match holds() {
            Ok(()) => return,
            Err(state) if start.elapsed() > PATIENCE => panic!("waited for {what}: {state}"),
            Err(_) => std::thread::yield_now(),
        }
    }
}

/// The errno of a failed operation.
#[track_caller]
pub fn errno<T>(result: fusewire::Result<T>) -> Errno {
    match result {
        Ok(_) => panic!("succeeded"),
        Err(error) => Errno::from_raw_os_error(error.errno()),
    }
}

/// The errno in an error of std's traits.
#[track_caller]
pub fn io_errno<T>(result: std::io::Result<T>) -> Errno {
    match result {
        Ok(_) => panic!("succeeded"),
        Err(error) => errno_of(&error).unwrap_or_else(|| panic!("no errno: {error}")),
    }
}

/// The errno in an error of ours or of the system.
pub fn errno_of(error: &std::io::Error) -> Option<Errno> {
    let ours = error
        .get_ref()
        .and_then(|inner| inner.downcast_ref::<fusewire::Error>())
        .map(|inner| Errno::from_raw_os_error(inner.errno()));
    ours.or_else(|| Errno::from_io_error(error))
}

/// `len` bytes that differ by position and by `seed`.
pub fn pattern(seed: u64, len: usize) -> Vec<u8> {
    let mut random = Random::new(seed);
    let mut bytes = Vec::with_capacity(len + 8);
    while bytes.len() < len {
        bytes.extend_from_slice(&random.next().to_le_bytes());
    }
    bytes.truncate(len);
    bytes
}

/// A small generator whose whole state is its seed (xorshift64*).
pub struct Random(u64);

impl Random {
    pub fn new(seed: u64) -> Self {
        // Zero is its only fixed point.
        Random(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    pub fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }

    /// A number below `bound`.
    pub fn below(&mut self, bound: u64) -> u64 {
        self.next() % bound
    }
}

/// The seed of this run's random cases: the one given, or a fresh one.
pub fn seed() -> u64 {
    static SEED: OnceLock<u64> = OnceLock::new();
    *SEED.get_or_init(|| {
        let given = |name| std::env::var(name).ok()?.parse().ok();
        given("FUSEWIRE_SEED")
            .or_else(|| given("PROPTEST_RNG_SEED"))
            .unwrap_or_else(|| RandomState::new().hash_one(std::process::id()))
    })
}
