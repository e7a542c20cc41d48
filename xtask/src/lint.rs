//! Formatting and clippy, for the workspace and for the fuzz targets beside it.

use std::process::Command;

use crate::fuzz;
use crate::process::{Result, run};
use crate::requirements;
use crate::workspace::cargo;

pub(crate) fn fmt() -> Result {
    requirements::cargo_component("fmt", "rustfmt")?;
    run(cargo("fmt").args(["--all", "--check"]))?;
    run(in_fuzz("fmt").arg("--check"))
}

pub(crate) fn clippy() -> Result {
    requirements::cargo_component("clippy", "clippy")?;
    let strict = ["--", "-D", "warnings"];
    run(cargo("clippy")
        .args(["--workspace", "--all-targets"])
        .args(strict))?;
    run(in_fuzz("clippy")
        .arg("--target-dir")
        .arg(fuzz::target())
        .args(strict))
}

/// `cargo xtask lint`
pub(crate) fn check() -> Result {
    fmt()?;
    clippy()
}

fn in_fuzz(subcommand: &str) -> Command {
    let mut command = cargo(subcommand);
    command.arg("--manifest-path").arg(fuzz::manifest());
    command
}
