//! Formatting and clippy, for the workspace and for the fuzz targets outside it.

use std::path::PathBuf;

use crate::components;
use crate::process::{Result, run};
use crate::workspace::{cargo, root};

pub(crate) fn fmt() -> Result {
    components::ensure("fmt", "rustfmt")?;
    run(cargo("fmt").args(["--all", "--check"]))?;
    match fuzz_manifest() {
        Some(manifest) => run(cargo("fmt")
            .arg("--check")
            .arg("--manifest-path")
            .arg(manifest)),
        None => Ok(()),
    }
}

pub(crate) fn clippy() -> Result {
    components::ensure("clippy", "clippy")?;
    run(cargo("clippy").args(["--workspace", "--all-targets", "--", "-D", "warnings"]))
}

/// `cargo xtask lint`
pub(crate) fn check() -> Result {
    fmt()?;
    clippy()
}

fn fuzz_manifest() -> Option<PathBuf> {
    let manifest = root().join("fuzz/Cargo.toml");
    manifest.exists().then_some(manifest)
}
