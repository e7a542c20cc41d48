//! Where the workspace is, what is in it, and how to call cargo in it.

use std::env;
use std::path::PathBuf;
use std::process::Command;

use crate::process::Result;

/// The folder of the root `Cargo.toml`.
///
/// Asked when the command runs, not when it was compiled: a target directory
/// may be shared by several checkouts.
pub(crate) fn root() -> PathBuf {
    let manifest_directory =
        env::var_os("CARGO_MANIFEST_DIR").unwrap_or_else(|| env!("CARGO_MANIFEST_DIR").into());
    let mut path = PathBuf::from(manifest_directory);
    path.pop();
    path
}

/// The folder for what these commands build or download beside cargo's own.
///
/// Always in the workspace, wherever `CARGO_TARGET_DIR` points: the tests look
/// for their peers here.
pub(crate) fn target() -> PathBuf {
    root().join("target")
}

/// A call of the cargo that runs this command, in the root of the workspace.
pub(crate) fn cargo(subcommand: &str) -> Command {
    let mut command = Command::new(env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command.current_dir(root()).arg(subcommand);
    command
}

/// A member of the workspace below `crates/`.
#[derive(Debug)]
pub(crate) struct Package {
    pub(crate) name: String,
    pub(crate) directory: PathBuf,
}

/// The members below `crates/`, by name.
pub(crate) fn packages() -> Result<Vec<Package>> {
    let crates = root().join("crates");
    let entries = std::fs::read_dir(&crates)
        .map_err(|error| format!("cannot list {}: {error}", crates.display()))?;
    let mut packages = Vec::new();
    for directory in entries.filter_map(|entry| entry.ok().map(|entry| entry.path())) {
        let manifest = directory.join("Cargo.toml");
        let Ok(text) = std::fs::read_to_string(&manifest) else {
            continue;
        };
        let name = text
            .parse::<toml::Table>()
            .ok()
            .and_then(|table| Some(table.get("package")?.get("name")?.as_str()?.to_owned()))
            .ok_or_else(|| format!("{} has no package name", manifest.display()))?;
        packages.push(Package { name, directory });
    }
    packages.sort_by(|a, b| a.name.cmp(&b.name));
    Ok(packages)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_library_is_among_the_packages() {
        let names: Vec<_> = packages()
            .expect("packages")
            .into_iter()
            .map(|package| package.name)
            .collect();
        assert!(names.contains(&"fusewire".to_owned()), "{names:?}");
    }
}
