//! Every declared dependency is used.

use toml::{Table, Value};

use super::Violation;
use super::tree::{File, Tree};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Normal,
    Dev,
    Build,
}

#[derive(Debug, PartialEq, Eq)]
pub(super) struct Dependency {
    /// As sources name it, with `-`.
    pub(super) name: String,
    pub(super) kind: Kind,
}

/// What the rules want from a `Cargo.toml`.
pub(super) struct Manifest {
    pub(super) dependencies: Vec<Dependency>,
    /// The names in `[workspace.dependencies]`.
    shared: Vec<String>,
}

impl Manifest {
    /// An unreadable manifest has no dependencies; cargo reports it better than a rule could.
    pub(super) fn read(file: &File) -> Manifest {
        let table: Table = file.text.parse().unwrap_or_default();
        let mut dependencies = Vec::new();
        collect(&table, &mut dependencies);
        if let Some(targets) = table.get("target").and_then(Value::as_table) {
            for target in targets.values().filter_map(Value::as_table) {
                collect(target, &mut dependencies);
            }
        }
        let shared = table
            .get("workspace")
            .and_then(|workspace| workspace.get("dependencies"))
            .and_then(Value::as_table)
            .map(|table| table.keys().cloned().collect());
        Manifest {
            dependencies,
            shared: shared.unwrap_or_default(),
        }
    }
}

fn collect(table: &Table, dependencies: &mut Vec<Dependency>) {
    for (section, kind) in [
        ("dependencies", Kind::Normal),
        ("dev-dependencies", Kind::Dev),
        ("build-dependencies", Kind::Build),
    ] {
        let names = table.get(section).and_then(Value::as_table);
        for name in names.into_iter().flat_map(Table::keys) {
            dependencies.push(Dependency {
                name: name.clone(),
                kind,
            });
        }
    }
}

pub(super) fn check(tree: &Tree) -> Vec<Violation> {
    let mut violations = Vec::new();
    let mut declared: Vec<String> = Vec::new();
    let manifests = || {
        tree.files()
            .filter(|file| file.path == "Cargo.toml" || file.path.ends_with("/Cargo.toml"))
    };
    for file in manifests() {
        let folder = file.path.trim_end_matches("Cargo.toml");
        for dependency in Manifest::read(file).dependencies {
            if !uses(tree, folder, &dependency) {
                let what = format!("nothing here uses the dependency {}", dependency.name);
                violations.push(Violation::new(&file.path, 0, what));
            }
            declared.push(dependency.name);
        }
    }
    for file in manifests() {
        for name in Manifest::read(file).shared {
            if !declared.contains(&name) {
                let what = format!("no crate uses the shared dependency {name}");
                violations.push(Violation::new(&file.path, 0, what));
            }
        }
    }
    violations
}

/// Whether a file of the crate in `folder` names the dependency where it can.
fn uses(tree: &Tree, folder: &str, dependency: &Dependency) -> bool {
    let word = dependency.name.replace('-', "_");
    tree.rust_files()
        .filter(|(file, _)| {
            file.path
                .strip_prefix(folder)
                .is_some_and(|path| match dependency.kind {
                    Kind::Normal => !path.starts_with("tests/"),
                    Kind::Dev => true,
                    Kind::Build => path == "build.rs",
                })
        })
        .any(|(file, rust)| {
            let in_docs = || file.text.contains(&format!("{word}::"));
            rust.tokens.iter().any(|token| token.text == word)
                || (dependency.kind == Kind::Dev && in_docs())
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_unused_dependency_is_found() {
        let tree = Tree::planted(&[
            (
                "crates/a/Cargo.toml",
                "[dependencies]\nused-one = \"1\"\nunused = \"1\"\n\
                 [dependencies.also-unused]\nversion = \"1\"",
            ),
            ("crates/a/src/lib.rs", "// unused\nuse used_one::X;"),
            ("crates/b/src/lib.rs", "use also_unused::X;"),
        ]);
        let found: Vec<_> = check(&tree).into_iter().map(|v| v.what).collect();
        assert_eq!(found.len(), 2, "{found:?}");
        assert!(found.iter().any(|what| what.ends_with(" unused")));
        assert!(found.iter().any(|what| what.ends_with(" also-unused")));
    }

    #[test]
    fn a_dependency_that_only_tests_use_is_a_dev_dependency() {
        let lib = ("crates/a/src/lib.rs", "fn f() {}");
        let test = ("crates/a/tests/t.rs", "use helper::X;");
        let normal = "[dependencies]\nhelper = \"1\"";
        let dev = "[dev-dependencies]\nhelper = \"1\"";
        let tree = |manifest| Tree::planted(&[("crates/a/Cargo.toml", manifest), lib, test]);
        assert_eq!(check(&tree(normal)).len(), 1);
        assert_eq!(check(&tree(dev)).len(), 0);
    }

    #[test]
    fn a_shared_dependency_needs_a_user() {
        let tree = Tree::planted(&[
            (
                "Cargo.toml",
                "[workspace.dependencies]\na = \"1\"\nb = \"1\"",
            ),
            ("crates/x/Cargo.toml", "[dependencies]\na.workspace = true"),
            ("crates/x/src/lib.rs", "use a::X;"),
        ]);
        let found = check(&tree);
        assert_eq!(found.len(), 1, "{found:?}");
        assert!(found[0].what.ends_with(" b"));
    }
}
