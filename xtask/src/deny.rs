//! cargo-deny: licences and sources of all dependencies, and versions used twice.
//!
//! Advisories are not among the checks: they need a database from outside the
//! package registry, and a build must not depend on reaching it.

use std::path::PathBuf;
use std::process::Command;

use crate::process::{Result, capture, run};
use crate::workspace::{cargo, root, target};

const VERSION: &str = "0.20.2";

pub(crate) fn check() -> Result {
    let program = find().map_or_else(build, Ok)?;
    run(Command::new(program).current_dir(root()).args([
        "--workspace",
        "check",
        "bans",
        "licenses",
        "sources",
    ]))
}

/// An installed cargo-deny, or the one that an earlier run built.
fn find() -> Option<PathBuf> {
    [PathBuf::from("cargo-deny"), built()]
        .into_iter()
        .find(|program| capture(Command::new(program).arg("--version")).is_ok())
}

fn built() -> PathBuf {
    target().join("tools/bin/cargo-deny")
}

/// Without optimisation: it runs for a second and takes three times as long to optimise.
fn build() -> Result<PathBuf> {
    run(cargo("install")
        .args(["cargo-deny", "--version", VERSION, "--locked", "--debug"])
        .env("CARGO_PROFILE_DEV_DEBUG", "0")
        .arg("--root")
        .arg(target().join("tools"))
        .arg("--target-dir")
        .arg(target().join("tools/build")))?;
    Ok(built())
}
