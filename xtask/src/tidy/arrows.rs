//! Who may know whom: the layers of docs/ARCHITECTURE.md.

use super::Violation;
use super::dependencies::{Kind, Manifest};
use super::rust::{Path, Token};
use super::tree::{File, Tree};

/// The crates of the workspace that each one may build on, by folder.
///
/// Dev-dependencies are free: a test may put any parts together.
const CRATE_ARROWS: [(&str, &[&str]); 8] = [
    ("locks", &[]),
    ("wire", &[]),
    ("sync", &[]),
    ("mem", &["fusewire-sync"]),
    ("pagecache", &["fusewire-sync", "fusewire-mem"]),
    (
        "transport",
        &["fusewire-sync", "fusewire-mem", "fusewire-wire"],
    ),
    (
        "client",
        &[
            "fusewire-sync",
            "fusewire-mem",
            "fusewire-wire",
            "fusewire-transport",
            "fusewire-pagecache",
            "fusewire-locks",
        ],
    ),
    (
        "server",
        &[
            "fusewire-sync",
            "fusewire-mem",
            "fusewire-wire",
            "fusewire-transport",
            "fusewire-locks",
        ],
    ),
];

/// The command, the outermost layer.
const TOP: &str = "cli";

pub(super) fn between_crates(tree: &Tree) -> Vec<Violation> {
    let mut violations = Vec::new();
    for file in tree.files() {
        let Some(folder) = file.crate_folder() else {
            continue;
        };
        if file.path != format!("crates/{folder}/Cargo.toml") || folder == TOP {
            continue;
        }
        let Some((_, allowed)) = CRATE_ARROWS.iter().find(|(name, _)| *name == folder) else {
            let what = "a new crate: say in xtask/src/tidy/arrows.rs what it may use";
            violations.push(Violation::new(&file.path, 0, what));
            continue;
        };
        for dependency in Manifest::read(file).dependencies {
            let name = dependency.name.as_str();
            let ours = name == "fusewire" || name.starts_with("fusewire-");
            if ours && dependency.kind != Kind::Dev && !allowed.contains(&name) {
                let what = format!("{folder} must not depend on {name}");
                violations.push(Violation::new(&file.path, 0, what));
            }
        }
    }
    violations
}

pub(super) fn inside_crates(tree: &Tree) -> Vec<Violation> {
    let mut violations = Vec::new();
    for (file, rust) in tree.rust_files() {
        if let Some(layer) = Layer::of(file) {
            let tokens = rust.tokens.iter().filter(|token| !token.test);
            for token in tokens.filter(|token| layer.forbids_word(token)) {
                violations.push(layer.violation(file, token.line, &token.text));
            }
            for path in rust.paths().iter().filter(|path| !path.test) {
                if layer.forbids_path(path) {
                    violations.push(layer.violation(file, path.line, &path.text));
                }
            }
        }
    }
    violations
}

/// A layer with words that it must not know.
#[derive(Clone, Copy)]
enum Layer {
    /// Knows files and folios, but no protocol.
    PageCache,
    /// Knows requests, but no nodes and no folios.
    EngineAndRpc,
}

impl Layer {
    fn of(file: &File) -> Option<Layer> {
        if file.path.starts_with("crates/pagecache/src/") {
            return Some(Layer::PageCache);
        }
        let module = file.path.strip_prefix("crates/client/src/")?;
        let module = module.split(['/', '.']).next()?;
        ["engine", "rpc"]
            .contains(&module)
            .then_some(Layer::EngineAndRpc)
    }

    fn forbids_word(self, token: &Token) -> bool {
        let text = token.text.as_str();
        match self {
            Layer::PageCache => {
                text == "fusewire_wire" || text.starts_with("fuse_") || text.starts_with("Fuse")
            }
            Layer::EngineAndRpc => {
                ["Node", "Folio", "Mapping", "fusewire_pagecache"].contains(&text)
            }
        }
    }

    fn forbids_path(self, path: &Path) -> bool {
        let sibling = |name: &str| {
            ["crate", "super", "super::super"]
                .iter()
                .any(|parent| path.starts_with(&format!("{parent}::{name}")))
        };
        match self {
            Layer::PageCache => false,
            Layer::EngineAndRpc => sibling("node") || sibling("api"),
        }
    }

    fn violation(self, file: &File, line: usize, word: &str) -> Violation {
        let what = match self {
            Layer::PageCache => format!("the page cache names the protocol: {word}"),
            Layer::EngineAndRpc => format!("the engine and rpc know no nodes or folios: {word}"),
        };
        Violation::new(&file.path, line, what)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_crate_must_not_use_one_above_it() {
        let tree = Tree::planted(&[
            (
                "crates/mem/Cargo.toml",
                "[dependencies]\nfusewire-transport.workspace = true\n\
                 [dev-dependencies]\nfusewire-server.workspace = true",
            ),
            (
                "crates/transport/Cargo.toml",
                "[dependencies]\nfusewire-mem.workspace = true\nrustix.workspace = true",
            ),
            ("crates/cli/Cargo.toml", "[dependencies]\nfusewire = {}"),
        ]);
        let found = between_crates(&tree);
        assert_eq!(found.len(), 1, "{found:?}");
        assert!(
            found[0]
                .what
                .contains("mem must not depend on fusewire-transport")
        );
    }

    #[test]
    fn dependencies_for_one_target_count_too() {
        let tree = Tree::planted(&[(
            "crates/wire/Cargo.toml",
            "[target.'cfg(unix)'.dependencies]\nfusewire-sync.workspace = true",
        )]);
        assert_eq!(between_crates(&tree).len(), 1);
    }

    #[test]
    fn an_unknown_crate_needs_its_arrows() {
        let tree = Tree::planted(&[("crates/new/Cargo.toml", "")]);
        assert!(between_crates(&tree)[0].what.contains("a new crate"));
    }

    #[test]
    fn the_page_cache_must_not_name_the_protocol() {
        let tree = Tree::planted(&[
            (
                "crates/pagecache/src/a.rs",
                "// fuse_in_header\nuse fusewire_wire::x;",
            ),
            ("crates/pagecache/src/b.rs", "fn f(h: FuseInHeader) {}"),
            ("crates/pagecache/src/c.rs", "use fusewire_mem::FrameRef;"),
        ]);
        let files: Vec<_> = inside_crates(&tree).into_iter().map(|v| v.file).collect();
        assert_eq!(
            files,
            ["crates/pagecache/src/a.rs", "crates/pagecache/src/b.rs"]
        );
    }

    #[test]
    fn the_engine_must_not_know_nodes() {
        let tree = Tree::planted(&[
            ("crates/client/src/engine/slot.rs", "use crate::node::x;"),
            ("crates/client/src/rpc.rs", "use crate::{engine, node::Y};"),
            ("crates/client/src/rpc/a.rs", "fn f(n: &Node) {}"),
            (
                "crates/client/src/engine.rs",
                "fn f(nodeid: u64) {}\n#[cfg(test)] mod tests { use crate::node; }",
            ),
            ("crates/client/src/node.rs", "use crate::rpc; struct Node;"),
        ]);
        let files: Vec<_> = inside_crates(&tree).into_iter().map(|v| v.file).collect();
        assert_eq!(
            files,
            [
                "crates/client/src/engine/slot.rs",
                "crates/client/src/rpc.rs",
                "crates/client/src/rpc/a.rs"
            ]
        );
    }
}
