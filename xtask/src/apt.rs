//! Debian packages: installed only when something is missing, as root or through sudo.

use std::path::Path;
use std::process::Command;

use crate::process::{Result, capture, run};

/// The state of apt in one run: package lists are fetched at most once.
#[derive(Default)]
pub(crate) struct Apt {
    lists_are_fresh: bool,
}

impl Apt {
    /// Installs those of `packages` that are missing.
    pub(crate) fn install(&mut self, packages: &[&str]) -> Result {
        let missing: Vec<&str> = packages
            .iter()
            .copied()
            .filter(|package| !is_installed(package))
            .collect();
        if missing.is_empty() {
            return Ok(());
        }
        let by_hand = format!(
            "missing packages; run as root: apt-get update && apt-get install -y {}",
            missing.join(" ")
        );
        if !has("apt-get") {
            return Err(format!(
                "this system has no apt-get: install the equivalents of {}",
                missing.join(" ")
            ));
        }
        let Some(become_root) = become_root() else {
            return Err(by_hand);
        };
        let mut arguments = vec!["install", "-y", "--no-install-recommends"];
        arguments.extend(&missing);
        // Old lists are tried first: often they are good enough.
        if run(&mut apt_get(become_root, &arguments)).is_ok() {
            return Ok(());
        }
        self.update(become_root)?;
        run(&mut apt_get(become_root, &arguments)).map_err(|error| format!("{error}; {by_hand}"))
    }

    /// Downloads the archive of `package` into `directory`, without installing it.
    pub(crate) fn download(&mut self, package: &str, directory: &Path) -> Result {
        if !has("apt-get") || !has("dpkg") {
            return Err(format!(
                "{package} is taken from a Debian package, and this system has no apt-get and dpkg"
            ));
        }
        let download = || {
            run(Command::new("apt-get")
                .args(["download", "-o", "APT::Sandbox::User=root", package])
                .current_dir(directory))
        };
        if download().is_ok() {
            return Ok(());
        }
        let become_root = become_root().ok_or_else(|| {
            format!("cannot download {package}; run as root: apt-get update, then try again")
        })?;
        self.update(become_root)?;
        download()
    }

    fn update(&mut self, become_root: BecomeRoot) -> Result {
        if !self.lists_are_fresh {
            run(&mut apt_get(become_root, &["update"]))?;
            self.lists_are_fresh = true;
        }
        Ok(())
    }
}

#[derive(Clone, Copy)]
enum BecomeRoot {
    Already,
    Sudo,
}

fn become_root() -> Option<BecomeRoot> {
    let user = capture(Command::new("id").arg("-u")).ok()?;
    if user.trim() == "0" {
        return Some(BecomeRoot::Already);
    }
    // Without a password only: a build must not stop at a prompt.
    let sudo = capture(Command::new("sudo").args(["-n", "true"]));
    sudo.is_ok().then_some(BecomeRoot::Sudo)
}

fn apt_get(become_root: BecomeRoot, arguments: &[&str]) -> Command {
    let mut command = match become_root {
        BecomeRoot::Already => Command::new("env"),
        BecomeRoot::Sudo => {
            let mut sudo = Command::new("sudo");
            sudo.args(["-n", "env"]);
            sudo
        }
    };
    command
        .args(["DEBIAN_FRONTEND=noninteractive", "apt-get", "-q"])
        .args(["-o", "DPkg::Lock::Timeout=300"])
        .args(arguments);
    command
}

fn is_installed(package: &str) -> bool {
    let status = capture(Command::new("dpkg-query").args(["-W", "-f", "${Status}", package]));
    status.is_ok_and(|status| status == "install ok installed")
}

fn has(program: &str) -> bool {
    capture(Command::new(program).arg("--version")).is_ok()
}
