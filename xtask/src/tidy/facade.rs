//! Locks, threads and clocks come from `fusewire-sync`, so that loom, shuttle
//! and the tests' clock reach every use of them.
//!
//! One exception: a word in memory that a peer shares can only be the
//! hardware's own atomic, so the crates of shared memory may use `core`'s.

use super::Violation;
use super::rust::Path;
use super::tree::{File, Tree};

/// Modules that only the facade may name.
const MODULES: [&str; 4] = ["std::sync", "std::thread", "core::sync", "alloc::sync"];

/// Clocks that only the facade may read.
const CLOCKS: [&str; 2] = ["Instant::now", "SystemTime::now"];

/// The crates, by folder, that lay atomics over memory shared with a peer.
const SHARED_MEMORY: [&str; 2] = ["mem", "transport"];

pub(super) fn check(tree: &Tree) -> Vec<Violation> {
    let mut violations = Vec::new();
    for (file, rust) in tree.rust_files().filter(|(file, _)| is_bound(file)) {
        for path in rust.paths().iter().filter(|path| !path.test) {
            if goes_around(path) && !is_shared_memory(file, path) {
                let what = format!("{} goes around fusewire_sync", path.text);
                violations.push(Violation::new(&file.path, path.line, what));
            }
        }
    }
    violations
}

/// A sleep in a test guesses how long something takes; a wait for the event cannot be wrong.
pub(super) fn no_sleep(tree: &Tree) -> Vec<Violation> {
    let mut violations = Vec::new();
    for (file, rust) in tree.rust_files() {
        for path in rust.paths() {
            let in_test = path.test || file.is_test();
            if in_test && path.ends_with("thread::sleep") {
                let what = "sleeps: wait for the event instead";
                violations.push(Violation::new(&file.path, path.line, what));
            }
        }
    }
    violations
}

fn is_bound(file: &File) -> bool {
    match file.crate_folder() {
        Some("sync" | "cli") | None => false,
        Some(_) => !file.is_test(),
    }
}

fn is_shared_memory(file: &File, path: &Path) -> bool {
    let sharing = file
        .crate_folder()
        .is_some_and(|folder| SHARED_MEMORY.contains(&folder));
    sharing && path.starts_with("core::sync::atomic")
}

fn goes_around(path: &Path) -> bool {
    MODULES.iter().any(|module| path.starts_with(module))
        || CLOCKS.iter().any(|clock| path.ends_with(clock))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn violations(path: &str, text: &str) -> usize {
        check(&Tree::planted(&[(path, text)])).len()
    }

    #[test]
    fn every_way_around_is_found() {
        for text in [
            "use std::sync::Mutex;",
            "use std::{fmt, sync::{Arc, Mutex}};",
            "use std::{thread};",
            "fn f() { std::thread::yield_now() }",
            "fn f() { let t = Instant::now(); }",
            "fn f() { let t = std::time::SystemTime::now(); }",
            "use core::sync::atomic::AtomicU8;",
        ] {
            assert!(violations("crates/client/src/lib.rs", text) > 0, "{text}");
        }
    }

    #[test]
    fn atomics_over_shared_memory_are_free_in_its_crates() {
        let text = "use core::sync::atomic::AtomicU16;";
        assert_eq!(violations("crates/mem/src/region.rs", text), 0);
        let text = "use std::sync::atomic::AtomicU16;";
        assert_eq!(violations("crates/mem/src/region.rs", text), 1);
    }

    #[test]
    fn the_facade_the_tests_and_the_tools_are_free() {
        let text = "use std::sync::Mutex;";
        for path in [
            "crates/sync/src/lock.rs",
            "crates/mem/tests/suite.rs",
            "crates/mem/benches/speed.rs",
            "crates/cli/src/main.rs",
            "xtask/src/main.rs",
        ] {
            assert_eq!(violations(path, text), 0, "{path}");
        }
        let text = "#[cfg(test)] mod tests { use std::sync::Mutex; }";
        assert_eq!(violations("crates/mem/src/lib.rs", text), 0);
    }

    #[test]
    fn a_sleep_in_a_test_is_found() {
        for text in [
            "fn t() { std::thread::sleep(d) }",
            "use std::thread::{self, sleep};",
            "fn f() { thread::sleep(d) }",
        ] {
            let tree = Tree::planted(&[("crates/cli/tests/t.rs", text)]);
            assert_eq!(no_sleep(&tree).len(), 1, "{text}");
        }
        let sleep = "std::thread::sleep(d)";
        let tree = Tree::planted(&[
            ("crates/cli/tests/t.rs", "// thread::sleep\nfn sleep() {}"),
            (
                "crates/cli/src/main.rs",
                &format!("fn grace() {{ {sleep} }}"),
            ),
            (
                "crates/cli/src/a.rs",
                &format!("#[test] fn t() {{ {sleep} }}"),
            ),
        ]);
        let files: Vec<_> = no_sleep(&tree).into_iter().map(|v| v.file).collect();
        assert_eq!(files, ["crates/cli/src/a.rs"]);
    }

    #[test]
    fn names_that_only_look_alike_are_free() {
        let text = "use std::syncx::A; use fusewire_sync::thread; fn f() { sync::now() }";
        assert_eq!(violations("crates/mem/src/lib.rs", text), 0);
    }
}
