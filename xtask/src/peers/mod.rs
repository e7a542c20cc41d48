//! The daemons that the tests talk to besides the embedded server.
//!
//! They are put below `target/peers` of the workspace, where the tests look for
//! them through the manifest `peers.tsv` (see [`manifest`]). Running this again
//! when everything is there changes nothing and needs neither root nor network.

mod manifest;
mod virtiofsd;
mod virtiofsd_c;

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::apt::Apt;
use crate::process::{Result, capture};
use crate::requirements;
use crate::workspace::target;
pub(crate) use manifest::Manifest;
use manifest::Peer;

/// The variable with which a run demands every peer: a missing one is then a failure.
pub(crate) const REQUIRE: &str = "FUSEWIRE_REQUIRE_PEERS";

/// The variable that tells the tests where the manifest is.
pub(crate) const DIRECTORY: &str = "FUSEWIRE_PEERS_DIR";

/// `cargo xtask peers`
pub(crate) fn install() -> Result {
    let manifest = prepare()?;
    print!("{manifest}");
    manifest.require_all()
}

/// Installs what is missing, writes the manifest and returns it.
///
/// A peer that cannot be had is an entry with its reason, not an error.
pub(crate) fn prepare() -> Result<Manifest> {
    let directory = directory();
    std::fs::create_dir_all(&directory)
        .map_err(|error| format!("cannot create {}: {error}", directory.display()))?;
    let mut apt = Apt::default();
    requirements::c_compilers(&mut apt)?;
    let manifest = Manifest {
        peers: vec![
            Peer::new("virtiofsd", virtiofsd::prepare(&directory, &mut apt)),
            Peer::new("virtiofsd-c", virtiofsd_c::prepare(&directory, &mut apt)),
        ],
    };
    manifest.write(&directory)?;
    Ok(manifest)
}

/// Which peers a run of the tests must have.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Need {
    /// A missing peer is a failure.
    All,
    /// A missing peer is reported, and its tests are skipped.
    WhatThereIs,
}

impl Need {
    /// What the environment asks for.
    pub(crate) fn from_environment() -> Need {
        match std::env::var_os(REQUIRE) {
            Some(value) if value == "1" => Need::All,
            _ => Need::WhatThereIs,
        }
    }
}

/// The folder of the manifest.
pub(crate) fn directory() -> PathBuf {
    target().join("peers")
}

/// The first line that `program --version` prints, which also proves that it starts here.
fn version_of(program: &Path) -> Result<String> {
    let output = capture(Command::new(program).arg("--version"))?;
    Ok(output.lines().next().unwrap_or_default().trim().to_owned())
}
