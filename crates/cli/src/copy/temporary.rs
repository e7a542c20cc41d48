//! Names of unfinished files.

use fusewire::Client;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};

/// Makes names that no other command makes: 64 random bits, and a number.
pub struct Names {
    token: u64,
    next: AtomicU64,
}

impl Names {
    pub fn new() -> Self {
        let mut bytes = [0; 8];
        // Without random bits the process and the time tell commands apart well enough: a name
        // that exists is an error, not a loss.
        if rustix::rand::getrandom(&mut bytes, rustix::rand::GetRandomFlags::empty()) != Ok(8) {
            let since = std::time::SystemTime::UNIX_EPOCH.elapsed();
            let nanos = since.map_or(0, |since| since.as_nanos() as u64);
            bytes = (nanos ^ u64::from(std::process::id()) << 40).to_ne_bytes();
        }
        Names {
            token: u64::from_ne_bytes(bytes),
            next: AtomicU64::new(0),
        }
    }

    /// A name that was not given before.
    pub fn next(&self) -> String {
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        format!(".fusewire-{:016x}-{number}", self.token)
    }

    /// A pattern for all names of this command.
    pub fn pattern(&self) -> String {
        format!(".fusewire-{:016x}-*", self.token)
    }
}

/// Has something made under a name of its own and renames it to `to`: what is there is lost only
/// when there is something in its place.
pub fn replace(
    client: &Client,
    names: &Names,
    to: &Path,
    make: impl FnOnce(&Path) -> fusewire::Result<()>,
) -> fusewire::Result<()> {
    let temporary = to.with_file_name(names.next());
    let made = make(&temporary).and_then(|()| client.rename(&temporary, to));
    if made.is_err() {
        // What went wrong first is what is said. A command that was cancelled cleans up, too.
        let _ = client.separate().remove_file(&temporary);
    }
    made
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_differ_and_match_the_pattern() {
        let names = Names::new();
        let (first, second) = (names.next(), names.next());
        assert_ne!(first, second);
        let pattern = names.pattern();
        let prefix = pattern.trim_end_matches('*');
        assert!(first.starts_with(prefix) && second.starts_with(prefix));
        assert_ne!(Names::new().pattern(), pattern);
    }
}
