//! virtiofsd, the virtio-fs daemon in Rust, built from its published crate.

use std::path::{Path, PathBuf};

use super::version_of;
use crate::apt::Apt;
use crate::process::{Result, run};
use crate::workspace::cargo;

const VERSION: &str = "1.14.0";

pub(super) fn prepare(directory: &Path, apt: &mut Apt) -> Result<(PathBuf, String)> {
    let root = directory.join("virtiofsd");
    let program = root.join("bin/virtiofsd");
    if let Ok(version) = check(&program) {
        return Ok((program, version));
    }
    let packages = apt.install(&[
        "build-essential",
        "pkg-config",
        "libcap-ng-dev",
        "libseccomp-dev",
    ]);
    // A cached binary may only have lacked its libraries.
    if let Ok(version) = check(&program) {
        return Ok((program, version));
    }
    run(cargo("install")
        .args(["virtiofsd", "--version", VERSION, "--locked", "--force"])
        .arg("--root")
        .arg(&root)
        .arg("--target-dir")
        .arg(directory.join("build/virtiofsd")))
    .map_err(|error| match packages {
        Ok(()) => error,
        Err(packages) => format!("{error}; {packages}"),
    })?;
    check(&program).map(|version| (program, version))
}

fn check(program: &Path) -> Result<String> {
    let line = version_of(program)?;
    match line.strip_prefix("virtiofsd ") {
        Some(VERSION) => Ok(VERSION.to_owned()),
        _ => Err(format!(
            "{} says `{line}`, and {VERSION} is wanted",
            program.display()
        )),
    }
}
