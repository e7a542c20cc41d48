//! `unsafe` stays in the few crates that cannot do without; the others forbid it.
//!
//! That each block says why it is sound is clippy's `undocumented_unsafe_blocks`.

use super::Violation;
use super::tree::Tree;

/// The folders below `crates/` that may contain unsafe code.
const ALLOWED: [&str; 4] = ["mem", "server", "sync", "transport"];

pub(super) fn check(tree: &Tree) -> Vec<Violation> {
    let mut violations = Vec::new();
    for (file, rust) in tree.rust_files() {
        let Some(folder) = file.crate_folder() else {
            continue;
        };
        if ALLOWED.contains(&folder) {
            continue;
        }
        let used = |token: &&super::rust::Token| token.text == "unsafe" && !token.test;
        if let Some(token) = rust.tokens.iter().find(used).filter(|_| !file.is_test()) {
            let what = format!("{folder} may not contain unsafe code");
            violations.push(Violation::new(&file.path, token.line, what));
        }
        let is_root = file.path == format!("crates/{folder}/src/lib.rs");
        if is_root && !file.text.contains("#![forbid(unsafe_code)]") {
            let what = "says nowhere #![forbid(unsafe_code)]";
            violations.push(Violation::new(&file.path, 0, what));
        }
    }
    violations
}

#[cfg(test)]
mod tests {
    use super::*;

    const FORBID: &str = "#![forbid(unsafe_code)]";

    #[test]
    fn unsafe_code_outside_its_crates_is_found() {
        let tree = Tree::planted(&[
            ("crates/client/src/lib.rs", FORBID),
            ("crates/client/src/a.rs", "fn f() {\n unsafe { g() } }"),
            ("crates/mem/src/a.rs", "fn f() { unsafe { g() } }"),
        ]);
        let found = check(&tree);
        assert_eq!(found.len(), 1, "{found:?}");
        assert_eq!(
            (found[0].file.as_str(), found[0].line),
            ("crates/client/src/a.rs", 2)
        );
    }

    #[test]
    fn a_safe_crate_forbids_unsafe_code() {
        let without = Tree::planted(&[("crates/wire/src/lib.rs", "//! unsafe_code")]);
        assert_eq!(check(&without).len(), 1);
        let with = Tree::planted(&[("crates/wire/src/lib.rs", FORBID)]);
        assert_eq!(check(&with).len(), 0);
    }
}
