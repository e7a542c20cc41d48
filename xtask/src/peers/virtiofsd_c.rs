//! The older virtiofsd in C, out of QEMU's package: an independent second peer.
//!
//! QEMU 8 dropped it, so that Debian 12 (QEMU 7.2) is the last release with it.

use std::path::{Path, PathBuf};
use std::process::Command;

use super::version_of;
use crate::apt::Apt;
use crate::process::{Result, run};

const PACKAGE: &str = "qemu-system-common";
const PROGRAM: &str = "usr/lib/qemu/virtiofsd";

/// The libraries it links, which a minimal system lacks.
const LIBRARIES: [&str; 4] = ["libcap-ng0", "libglib2.0-0", "libnuma1", "libseccomp2"];

pub(super) fn prepare(directory: &Path, apt: &mut Apt) -> Result<(PathBuf, String)> {
    let root = directory.join("virtiofsd-c");
    let program = root.join(PROGRAM);
    if !program.exists() {
        unpack(directory, &root, apt)?;
    }
    if !program.exists() {
        return Err(format!(
            "this system's {PACKAGE} has no {PROGRAM}: only QEMU before 8 (Debian 12) ships it"
        ));
    }
    if let Ok(version) = check(&program) {
        return Ok((program, version));
    }
    apt.install(&LIBRARIES)?;
    check(&program).map(|version| (program, version))
}

/// Unpacks the package beside the system instead of installing it with all that it needs.
fn unpack(directory: &Path, root: &Path, apt: &mut Apt) -> Result {
    let downloads = directory.join(format!("download.{}", std::process::id()));
    std::fs::create_dir_all(&downloads)
        .map_err(|error| format!("cannot create {}: {error}", downloads.display()))?;
    let outcome = apt.download(PACKAGE, &downloads).and_then(|()| {
        let archive = archive_in(&downloads)?;
        run(Command::new("dpkg").arg("-x").arg(archive).arg(root))
    });
    std::fs::remove_dir_all(&downloads)
        .map_err(|error| format!("cannot remove {}: {error}", downloads.display()))?;
    outcome
}

fn archive_in(downloads: &Path) -> Result<PathBuf> {
    std::fs::read_dir(downloads)
        .into_iter()
        .flatten()
        .filter_map(|entry| entry.ok().map(|entry| entry.path()))
        .find(|path| path.extension().is_some_and(|extension| extension == "deb"))
        .ok_or_else(|| format!("apt-get download {PACKAGE} left no archive"))
}

fn check(program: &Path) -> Result<String> {
    let line = version_of(program)?;
    // "virtiofsd version 7.2.22 (Debian 1:7.2+dfsg-7+deb12u18)"
    line.strip_prefix("virtiofsd version ")
        .and_then(|rest| rest.split_whitespace().next())
        .map(str::to_owned)
        .ok_or_else(|| format!("{} says `{line}`", program.display()))
}
