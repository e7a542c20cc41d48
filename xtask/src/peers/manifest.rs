//! `peers.tsv`: which daemons the tests can use, and why not the others.
//!
//! One line per peer, four fields divided by tabs: name, absolute path,
//! version, reason. A field that does not apply is `-`: a peer that is ready
//! has no reason, and one that is missing has no path and no version.

use std::fmt;
use std::path::{Path, PathBuf};

use crate::process::Result;

pub(crate) const FILE_NAME: &str = "peers.tsv";

#[derive(Debug, PartialEq, Eq)]
pub(crate) enum State {
    Ready { path: PathBuf, version: String },
    Missing { reason: String },
}

#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Peer {
    pub(crate) name: &'static str,
    pub(crate) state: State,
}

impl Peer {
    /// A peer from the outcome of installing it: path and version, or why not.
    pub(crate) fn new(name: &'static str, outcome: Result<(PathBuf, String)>) -> Peer {
        let state = match outcome {
            Ok((path, version)) => State::Ready { path, version },
            Err(reason) => State::Missing { reason },
        };
        Peer { name, state }
    }

    fn line(&self) -> String {
        match &self.state {
            State::Ready { path, version } => {
                format!("{}\t{}\t{}\t-", self.name, path.display(), field(version))
            }
            State::Missing { reason } => format!("{}\t-\t-\t{}", self.name, field(reason)),
        }
    }
}

/// A field is one line without tabs.
fn field(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

#[derive(Debug)]
pub(crate) struct Manifest {
    pub(crate) peers: Vec<Peer>,
}

impl Manifest {
    pub(crate) fn text(&self) -> String {
        self.peers.iter().map(|peer| peer.line() + "\n").collect()
    }

    /// Replaces the file as a whole, so that a reader never sees half of it.
    pub(crate) fn write(&self, directory: &Path) -> Result {
        let path = directory.join(FILE_NAME);
        let text = self.text();
        if std::fs::read_to_string(&path).is_ok_and(|old| old == text) {
            return Ok(());
        }
        let temporary = directory.join(format!("{FILE_NAME}.{}", std::process::id()));
        std::fs::write(&temporary, text)
            .and_then(|()| std::fs::rename(&temporary, &path))
            .map_err(|error| format!("cannot write {}: {error}", path.display()))
    }

    /// The program of a peer that is ready.
    pub(crate) fn program(&self, name: &str) -> Option<&Path> {
        let peer = self.peers.iter().find(|peer| peer.name == name)?;
        match &peer.state {
            State::Ready { path, .. } => Some(path),
            State::Missing { .. } => None,
        }
    }

    /// An error that names every missing peer with its reason.
    pub(crate) fn require_all(&self) -> Result {
        let missing: Vec<String> = self
            .peers
            .iter()
            .filter_map(|peer| match &peer.state {
                State::Missing { reason } => Some(format!("{}: {reason}", peer.name)),
                State::Ready { .. } => None,
            })
            .collect();
        match missing.is_empty() {
            true => Ok(()),
            false => Err(format!("missing peers\n  {}", missing.join("\n  "))),
        }
    }
}

impl fmt::Display for Manifest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for peer in &self.peers {
            match &peer.state {
                State::Ready { path, version } => {
                    writeln!(
                        f,
                        "peer {}: ready, {version}, {}",
                        peer.name,
                        path.display()
                    )?;
                }
                State::Missing { reason } => {
                    writeln!(f, "peer {}: SKIPPED, {reason}", peer.name)?;
                }
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn example() -> Manifest {
        Manifest {
            peers: vec![
                Peer::new("one", Ok((PathBuf::from("/a b/one"), "1.2".to_owned()))),
                Peer::new("two", Err("needs\troot:\nrun X".to_owned())),
            ],
        }
    }

    #[test]
    fn each_peer_is_one_line_of_four_fields() {
        assert_eq!(
            example().text(),
            "one\t/a b/one\t1.2\t-\ntwo\t-\t-\tneeds root: run X\n"
        );
    }

    #[test]
    fn only_a_ready_peer_has_a_program() {
        assert_eq!(example().program("one"), Some(Path::new("/a b/one")));
        assert_eq!(example().program("two"), None);
        assert_eq!(example().program("three"), None);
    }

    #[test]
    fn a_missing_peer_is_named_with_its_reason() {
        let error = example().require_all().expect_err("two is missing");
        assert!(error.contains("two: needs"), "{error}");
        assert!(!error.contains("one:"), "{error}");
    }

    #[test]
    fn the_file_is_replaced_as_a_whole() {
        let directory = std::env::temp_dir().join(format!("xtask-manifest-{}", std::process::id()));
        std::fs::create_dir_all(&directory).expect("temporary directory");
        for _ in 0..2 {
            example().write(&directory).expect("written");
            let names: Vec<_> = std::fs::read_dir(&directory)
                .expect("listing")
                .map(|entry| entry.expect("entry").file_name())
                .collect();
            assert_eq!(names, [FILE_NAME]);
        }
        std::fs::remove_dir_all(&directory).expect("removed");
    }
}
