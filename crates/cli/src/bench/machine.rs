//! What a campaign ran on.

use fusewire::transport::vhost_user::{self, Virtiofsd};
use rustix::system::uname;
use serde::Serialize;
use std::path::Path;
use std::process::Command;

/// Names the revision that was built; set by `cargo xtask bench`.
const COMMIT_VARIABLE: &str = "FUSEWIRE_COMMIT";

/// The machine, as it stands in a report.
#[derive(Clone, Debug, Serialize)]
pub struct Machine {
    /// CPUs that this process may use.
    pub cpus: usize,
    /// Release of the kernel.
    pub kernel: String,
    /// Name and version of the daemon, or why there is none.
    pub daemon: String,
}

impl Machine {
    pub fn new(daemon: &Result<String, String>) -> Self {
        Machine {
            cpus: std::thread::available_parallelism().map_or(1, Into::into),
            kernel: uname().release().to_string_lossy().into_owned(),
            daemon: daemon.clone().unwrap_or_else(|reason| reason),
        }
    }
}

/// The revision that was built, if whoever started us knows it.
pub fn commit() -> String {
    std::env::var(COMMIT_VARIABLE).unwrap_or_else(|_| "unknown".to_owned())
}

/// Starts the virtiofsd that campaigns will use, for the directory `dir`, and asks for its version.
///
/// # Errors
/// One line that says why it cannot be started.
pub fn virtiofsd(dir: &Path) -> Result<String, String> {
    let transport = vhost_user::spawn(&Virtiofsd::new(dir), &vhost_user::Options::default())
        .map_err(|error| error.to_string())?;
    let program = transport.info().peer;
    let output = Command::new(&program)
        .arg("--version")
        .output()
        .map_err(|error| format!("cannot start {program}: {error}"))?;
    let text = String::from_utf8_lossy(&output.stdout);
    Ok(text.lines().next().unwrap_or("virtiofsd").trim().to_owned())
}

/// Processes that wanted to run in the last minute, on average, if the kernel tells.
pub fn load() -> Option<f64> {
    let text = std::fs::read_to_string("/proc/loadavg").ok()?;
    text.split_whitespace().next()?.parse().ok()
}

/// The kind of file system that `path` is on, if the kernel tells.
pub fn file_system(path: &Path) -> Option<String> {
    let path = path.canonicalize().ok()?;
    kind_at(&std::fs::read_to_string("/proc/mounts").ok()?, &path)
}

fn kind_at(mounts: &str, path: &Path) -> Option<String> {
    let mounts = mounts.lines().filter_map(|line| {
        let mut fields = line.split(' ').skip(1);
        Some((fields.next()?, fields.next()?))
    });
    let above = mounts.filter(|(at, _)| path.starts_with(at));
    // Of two at one place, the later covers the earlier.
    let (_, kind) = above.max_by_key(|(at, _)| at.len())?;
    Some(kind.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_innermost_mount_counts() {
        let mounts = "/dev/a / ext4 rw 0 0\nt /tmp tmpfs rw 0 0\nu /tmp/x xfs rw 0 0\n\
                      v /tmp tmpfs2 rw 0 0\n";
        let kind = |path: &str| kind_at(mounts, Path::new(path));
        assert_eq!(kind("/usr").as_deref(), Some("ext4"));
        assert_eq!(kind("/tmp/xy").as_deref(), Some("tmpfs2"));
        assert_eq!(kind("/tmp/x/y").as_deref(), Some("xfs"));
        assert_eq!(kind_at("", Path::new("/")), None);
    }
}
