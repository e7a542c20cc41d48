//! Programs that can be of use.

use super::{Finding, State};
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// The program of that name on the PATH.
fn find(name: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    std::env::split_paths(&path)
        .map(|dir| dir.join(name))
        .find(|program| is_program(program))
}

fn is_program(path: &Path) -> bool {
    path.is_file() && rustix::fs::access(path, rustix::fs::Access::EXEC_OK).is_ok()
}

pub fn fusermount() -> Finding {
    let finding = match find("fusermount3").or_else(|| find("fusermount")) {
        Some(path) => Finding::new("fusermount", State::Ok, path.display().to_string()),
        None => Finding::new("fusermount", State::No, "not on the PATH"),
    };
    finding.or(
        "nothing: fusewire needs no mount",
        "to mount as well: apt install fuse3",
    )
}

pub fn virtiofsd() -> Finding {
    let program = match std::env::var_os("FUSEWIRE_VIRTIOFSD") {
        Some(path) => Some(PathBuf::from(path)),
        None => find("virtiofsd").or_else(|| {
            // Where distributions put it, which is on nobody's PATH.
            let usual = ["/usr/libexec/virtiofsd", "/usr/lib/qemu/virtiofsd"];
            usual
                .map(PathBuf::from)
                .into_iter()
                .find(|path| is_program(path))
        }),
    };
    let finding = match program {
        None => Finding::new("virtiofsd", State::No, "not on the PATH"),
        Some(program) => match version(&program) {
            Ok(version) => {
                let found = format!("{} ({version})", program.display());
                Finding::new("virtiofsd", State::Ok, found)
            }
            Err(why) => {
                let found = format!("{}: {why}", program.display());
                Finding::new("virtiofsd", State::No, found)
            }
        },
    };
    finding.or(
        "virtiofsd:PATH does not work; dir:PATH needs no daemon",
        "apt install virtiofsd, or cargo xtask peers, which builds target/peers/virtiofsd/bin/virtiofsd; \
         name it in FUSEWIRE_VIRTIOFSD",
    )
}

/// The first line of what it says of itself.
fn version(program: &Path) -> Result<String, String> {
    let output = Command::new(program)
        .arg("--version")
        .stdin(Stdio::null())
        .output()
        .map_err(|error| error.to_string())?;
    let said = [output.stdout, output.stderr].concat();
    let said = String::from_utf8_lossy(&said);
    match said.lines().next() {
        Some(line) if output.status.success() => Ok(line.trim().to_owned()),
        _ => Err(format!("--version ended with {}", output.status)),
    }
}

pub fn id_mapping() -> Finding {
    let missing: Vec<OsString> = ["newuidmap", "newgidmap"]
        .into_iter()
        .filter(|name| find(name).is_none())
        .map(OsString::from)
        .collect();
    let finding = if missing.is_empty() {
        Finding::new("id mapping", State::Ok, "newuidmap and newgidmap are there")
    } else {
        let names = missing.join(std::ffi::OsStr::new(" and "));
        Finding::new("id mapping", State::No, format!("no {}", names.display()))
    };
    finding.or(
        "a virtiofsd in a user namespace has one user and one group only",
        "apt install uidmap, and give the user ranges in /etc/subuid and /etc/subgid",
    )
}
