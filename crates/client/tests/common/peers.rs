//! Where real daemons are.

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
