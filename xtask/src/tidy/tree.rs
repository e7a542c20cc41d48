//! The tracked files, read once.

use std::process::Command;

use super::rust::Rust;
use crate::process::{Result, capture};
use crate::workspace::root;

pub(super) struct File {
    /// Relative to the root of the workspace, with `/`.
    pub(super) path: String,
    pub(super) text: String,
    /// Its tokens, if it is a Rust file that can be read.
    pub(super) rust: Option<Rust>,
}

impl File {
    fn new(path: &str, text: String) -> File {
        let rust = path
            .ends_with(".rs")
            .then(|| Rust::parse(&text).ok())
            .flatten();
        File {
            path: path.to_owned(),
            text,
            rust,
        }
    }

    /// The folder below `crates/`, if the file is in one.
    pub(super) fn crate_folder(&self) -> Option<&str> {
        self.path.strip_prefix("crates/")?.split('/').next()
    }

    /// Whether the file belongs to a build of tests or benchmarks only.
    pub(super) fn is_test(&self) -> bool {
        let mut parts = self.path.split('/');
        let whole = self.rust.as_ref().is_some_and(|rust| rust.is_test);
        whole || parts.any(|part| ["tests", "benches", "tests.rs"].contains(&part))
    }
}

pub(super) struct Tree {
    files: Vec<File>,
}

impl Tree {
    /// The tracked files of the workspace and those that would be tracked next.
    pub(super) fn of_workspace() -> Result<Tree> {
        let root = root();
        let names = capture(
            Command::new("git")
                .args(["ls-files", "-z", "--cached", "--others"])
                .args(["--exclude-standard", "--deduplicate"])
                .current_dir(&root),
        )?;
        let mut files = Vec::new();
        for name in names.split('\0').filter(|name| !name.is_empty()) {
            // Deleted but not yet committed, or no text: neither has anything to check.
            if let Ok(text) = std::fs::read_to_string(root.join(name)) {
                files.push(File::new(name, text));
            }
        }
        Ok(Tree::new(files))
    }

    fn new(mut files: Vec<File>) -> Tree {
        // A module declared under #[cfg(test)] is a test file wherever it lies.
        let declared: Vec<String> = files.iter().flat_map(test_modules).collect();
        for file in &mut files {
            if let Some(rust) = &mut file.rust {
                rust.is_test |= declared.contains(&file.path);
            }
        }
        Tree { files }
    }

    /// A tree out of paths and texts, for the tests of rules.
    #[cfg(test)]
    pub(super) fn planted(files: &[(&str, &str)]) -> Tree {
        let file = |&(path, text): &(&str, &str)| File::new(path, text.to_owned());
        Tree::new(files.iter().map(file).collect())
    }

    pub(super) fn len(&self) -> usize {
        self.files.len()
    }

    pub(super) fn files(&self) -> impl Iterator<Item = &File> {
        self.files.iter()
    }

    pub(super) fn file(&self, path: &str) -> Option<&File> {
        self.files.iter().find(|file| file.path == path)
    }

    /// Rust files that can be read; [`super::rust::readable`] names the others.
    pub(super) fn rust_files(&self) -> impl Iterator<Item = (&File, &Rust)> {
        self.files
            .iter()
            .filter_map(|file| Some((file, file.rust.as_ref()?)))
    }
}

/// The paths at which the test modules that a file declares can be.
fn test_modules(file: &File) -> Vec<String> {
    let Some(rust) = &file.rust else {
        return Vec::new();
    };
    let stem = file.path.trim_end_matches(".rs");
    let folder = match stem.rsplit_once('/') {
        Some((folder, "lib" | "main" | "mod")) => folder,
        _ => stem,
    };
    rust.test_modules
        .iter()
        .flat_map(|name| {
            [
                format!("{folder}/{name}.rs"),
                format!("{folder}/{name}/mod.rs"),
            ]
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_module_declared_for_tests_is_a_test_file() {
        let tree = Tree::planted(&[
            ("crates/a/src/lib.rs", "#[cfg(test)] mod support; mod real;"),
            ("crates/a/src/support.rs", ""),
            ("crates/a/src/real.rs", "#[cfg(test)]\nmod check;"),
            ("crates/a/src/real/check.rs", ""),
            ("crates/a/tests/suite.rs", ""),
        ]);
        let tests: Vec<&str> = tree
            .files()
            .filter(|file| file.is_test())
            .map(|file| file.path.as_str())
            .collect();
        assert_eq!(
            tests,
            [
                "crates/a/src/support.rs",
                "crates/a/src/real/check.rs",
                "crates/a/tests/suite.rs"
            ]
        );
    }
}
