//! Shared by the tests with real daemons.

use std::path::{Path, PathBuf};

/// The program of a peer that `cargo xtask peers` has fetched.
///
/// `None`, said loudly, when it is missing.
///
/// # Panics
/// When it is missing and `FUSEWIRE_REQUIRE_PEERS` is set.
pub fn peer_program(name: &str) -> Option<PathBuf> {
    let dir = std::env::var_os("FUSEWIRE_PEERS_DIR").map_or_else(
        || Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/peers"),
        PathBuf::from,
    );
    let table = dir.join("peers.tsv");
    let reason = match std::fs::read_to_string(&table) {
        Err(error) => format!("{}: {error}; run `cargo xtask peers`", table.display()),
        Ok(text) => {
            let row = text
                .lines()
                .map(|line| line.split('\t').collect::<Vec<_>>())
                .find(|row| row.first() == Some(&name));
            match row.as_deref() {
                Some([_, path, ..]) if *path != "-" => return Some(PathBuf::from(path)),
                Some([_, _, _, reason]) => (*reason).to_owned(),
                _ => format!("not in {}", table.display()),
            }
        }
    };
    assert!(
        std::env::var_os("FUSEWIRE_REQUIRE_PEERS").is_none_or(|v| v != "1"),
        "peer {name} is missing: {reason}"
    );
    eprintln!("NOT RUN: peer {name} is missing: {reason}");
    None
}

/// The seed of a run: `FUSEWIRE_SEED`, or a fresh one; printed with the name of the test.
pub fn seed(test: &str) -> u64 {
    let seed = std::env::var("FUSEWIRE_SEED")
        .ok()
        .and_then(|text| text.parse().ok())
        .unwrap_or_else(|| {
            std::time::SystemTime::now()
                .duration_since(std::time::UNIX_EPOCH)
                .map_or(1, |since| since.as_nanos() as u64)
        });
    eprintln!("{test}: FUSEWIRE_SEED={seed}");
    seed
}

/// A small generator of pseudo-random numbers (splitmix64).
pub struct Rng(u64);

impl Rng {
    pub fn new(seed: u64) -> Self {
        Rng(seed)
    }

    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// Below `n`.
    pub fn below(&mut self, n: u64) -> u64 {
        self.next() % n
    }
}
