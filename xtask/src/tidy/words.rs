//! Sources name no machine: no developer's folders and no registry's hosts.

use super::Violation;
use super::tree::Tree;

/// Starts of absolute paths that exist on one machine only.
const FOLDERS: [&str; 4] = ["/root/", "/work/", "/home/", "/Users/"];

/// Registries are used through their clients' own settings.
const HOSTS: [&str; 5] = [
    "crates.io",
    "deb.debian.org",
    "archive.ubuntu.com",
    "pypi.org",
    "registry.npmjs.org",
];

/// Written by cargo, with the registry's canonical address in it.
const GENERATED: &str = "Cargo.lock";

/// The one file that has to spell the words out.
const THIS_FILE: &str = "xtask/src/tidy/words.rs";

pub(super) fn check(tree: &Tree) -> Vec<Violation> {
    let mut violations = Vec::new();
    for file in tree.files() {
        if file.path.ends_with(GENERATED) || file.path == THIS_FILE {
            continue;
        }
        for (index, line) in file.text.lines().enumerate() {
            let folder = FOLDERS.iter().find(|folder| names_folder(line, folder));
            let host = HOSTS.iter().find(|host| line.contains(*host));
            if let Some(word) = folder.or(host) {
                let what = format!("names a machine: {word}");
                violations.push(Violation::new(&file.path, index + 1, what));
            }
        }
    }
    violations
}

/// Whether an absolute path in the line starts with `folder`.
fn names_folder(line: &str, folder: &str) -> bool {
    line.match_indices(folder).any(|(position, _)| {
        let before = line[..position].chars().next_back();
        !before.is_some_and(|c| c.is_alphanumeric() || "._-}/>)*~".contains(c))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn violations(path: &str, text: &str) -> usize {
        check(&Tree::planted(&[(path, text)])).len()
    }

    #[test]
    fn machine_paths_and_hosts_are_found() {
        for text in [
            "see /work/x",
            "\"/root/.cargo\"",
            "`/home/me/a`",
            "https://crates.io/x",
        ] {
            assert_eq!(violations("docs/a.md", text), 1, "{text}");
        }
    }

    #[test]
    fn relative_paths_and_generated_files_are_free() {
        for text in ["target/work/x", "{root}/work/", "a/home/b", "~/work/x"] {
            assert_eq!(violations("docs/a.md", text), 0, "{text}");
        }
        assert_eq!(violations("Cargo.lock", "registry+crates.io"), 0);
    }
}
