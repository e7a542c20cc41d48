//! The entry point of the benchmarks; they are part of the command-line crate.

use crate::process::{Result, run};
use crate::workspace::cargo;

pub(crate) fn start(arguments: &[String]) -> Result {
    run(cargo("run")
        .args(["--release", "-p", "fusewire-cli", "--bin", "fusewire-bench"])
        .arg("--")
        .args(arguments))
}
