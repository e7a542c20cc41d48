//! Files that outgrew one job, and work that was left for later.

use super::Violation;
use super::rust::Rust;
use super::tree::{File, Tree};

/// Longer files are to be cut by job.
const MAX_LINES: usize = 900;

pub(super) fn check(tree: &Tree) -> Vec<Violation> {
    let mut violations = Vec::new();
    for (file, rust) in tree.rust_files() {
        let lines = file.text.lines().count();
        if lines > MAX_LINES {
            let what = format!("{lines} lines: cut it, {MAX_LINES} is the limit");
            violations.push(Violation::new(&file.path, 0, what));
        }
        left_for_later(file, rust, &mut violations);
    }
    violations
}

fn left_for_later(file: &File, rust: &Rust, violations: &mut Vec<Violation>) {
    let text = |position: usize| rust.tokens.get(position).map_or("", |t| t.text.as_str());
    for (position, token) in rust.tokens.iter().enumerate() {
        let next = text(position + 1);
        let before = |back: usize| position.checked_sub(back).map_or("", text);
        let what = match token.text.as_str() {
            word @ ("todo" | "unimplemented") if next == "!" => format!("{word}! is unfinished"),
            "ignore" if before(1) == "[" && before(2) == "#" => {
                "an ignored test checks nothing".to_owned()
            }
            "dead_code" if before(1) == "(" && ["allow", "expect"].contains(&before(2)) => {
                "dead code is to be removed, not allowed".to_owned()
            }
            _ => continue,
        };
        violations.push(Violation::new(&file.path, token.line, what));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn violations(text: &str) -> Vec<Violation> {
        check(&Tree::planted(&[("crates/mem/src/lib.rs", text)]))
    }

    #[test]
    fn a_long_file_is_found() {
        assert_eq!(violations(&"\n".repeat(MAX_LINES)).len(), 0);
        assert_eq!(violations(&"\n".repeat(MAX_LINES + 1)).len(), 1);
    }

    #[test]
    fn work_left_for_later_is_found() {
        for text in [
            "fn f() {\n todo!() }",
            "fn f() {\n unimplemented!(\"x\") }",
            "\n#[ignore] fn f() {}",
            "\n#[ignore = \"slow\"] fn f() {}",
            "\n#[allow(dead_code)] fn f() {}",
            "\n#[expect(dead_code)] fn f() {}",
        ] {
            let found = violations(text);
            assert_eq!(found.len(), 1, "{text}");
            assert_eq!(found[0].line, 2, "{text}");
        }
    }

    #[test]
    fn the_words_alone_are_free() {
        assert!(violations("// todo!()\nfn ignore(todo: u8) { drop(\"#[ignore]\") }").is_empty());
    }
}
