//! The parts of the Rust toolchain that a minimal installation lacks.

use std::process::Command;

use crate::process::{Result, capture, run};
use crate::workspace::cargo;

/// Makes sure that `cargo SUBCOMMAND` works, adding the rustup component if it does not.
pub(crate) fn ensure(subcommand: &str, component: &str) -> Result {
    let works = || capture(cargo(subcommand).arg("--version")).is_ok();
    if works() {
        return Ok(());
    }
    let added = run(Command::new("rustup").args(["component", "add", component]));
    if added.is_ok() && works() {
        return Ok(());
    }
    Err(format!(
        "`cargo {subcommand}` is missing and could not be installed: \
         run `rustup component add {component}` or install {component} with your distribution"
    ))
}
