//! The entry point of the benchmarks, which are `fusewire bench`.

use std::env;
use std::process::Command;

use crate::peers;
use crate::process::{Result, capture, run};
use crate::workspace::{cargo, root};

/// The variable that names the virtiofsd to be started.
const VIRTIOFSD: &str = "FUSEWIRE_VIRTIOFSD";

/// The variable that names the revision in reports.
const COMMIT: &str = "FUSEWIRE_COMMIT";

/// Builds the command and runs its benchmarks with the peers of the tests.
pub(crate) fn start(arguments: &[String]) -> Result {
    let manifest = peers::prepare()?;
    let mut command = cargo("run");
    command
        .args(["--release", "-p", "fusewire-cli", "--bin", "fusewire"])
        .args(["--", "bench"])
        .args(arguments)
        .env(COMMIT, revision()?);
    if env::var_os(VIRTIOFSD).is_none()
        && let Some(program) = manifest.program("virtiofsd")
    {
        command.env(VIRTIOFSD, program);
    }
    run(&mut command)
}

/// The commit, with `-dirty` behind it where files differ from it.
fn revision() -> Result<String> {
    let mut git = Command::new("git");
    git.args(["describe", "--always", "--dirty", "--abbrev=12"])
        .current_dir(root());
    Ok(capture(&mut git)?.trim().to_owned())
}
