//! The table of docs/LOCKING.md is the order of locks that the code asserts, and each rank in it
//! is that of a lock.

use super::Violation;
use super::tree::Tree;

const DOCUMENT: &str = "docs/LOCKING.md";
const RANKS: &str = "crates/sync/src/rank.rs";

/// A rank with the line it stands on.
#[derive(Debug, PartialEq, Eq)]
struct Rank<'a> {
    line: usize,
    name: &'a str,
    level: &'a str,
}

impl<'a> Rank<'a> {
    fn new(index: usize, name: &'a str, level: &'a str) -> Option<Rank<'a>> {
        let is_name = |c: char| c.is_ascii_uppercase() || c == '_';
        let is_rank = name.chars().all(is_name) && level.parse::<u8>().is_ok();
        is_rank.then_some(Rank {
            line: index + 1,
            name,
            level,
        })
    }
}

pub(super) fn check(tree: &Tree) -> Vec<Violation> {
    let text = |path| tree.file(path).map_or("", |file| file.text.as_str());
    let declared = declared(text(RANKS));
    let listed = listed(text(DOCUMENT));
    let mut violations = Vec::new();
    if declared.is_empty() {
        violations.push(Violation::new(RANKS, 0, "declares no rank `NAME = LEVEL;`"));
    }
    for Rank { line, name, level } in &listed {
        let same = |rank: &Rank| (rank.name, rank.level) == (*name, *level);
        if !declared.iter().any(same) {
            let what = format!("{RANKS} declares no rank {name} = {level}");
            violations.push(Violation::new(DOCUMENT, *line, what));
        }
    }
    for Rank { line, name, .. } in &declared {
        if !listed.iter().any(|rank| rank.name == *name) {
            let what = format!("{name} is not in the table of {DOCUMENT}");
            violations.push(Violation::new(RANKS, *line, what));
        }
        if !is_used(tree, name) {
            let what = format!("no lock has the rank {name}");
            violations.push(Violation::new(RANKS, *line, what));
        }
    }
    violations
}

/// The lines `NAME = LEVEL;` of the code.
fn declared(code: &str) -> Vec<Rank<'_>> {
    let lines = code.lines().enumerate();
    lines
        .filter_map(|(index, line)| {
            let (name, level) = line.trim().strip_suffix(';')?.split_once(" = ")?;
            Rank::new(index, name, level)
        })
        .collect()
}

/// The rows ``| `NAME` | LEVEL | …`` of the document.
fn listed(document: &str) -> Vec<Rank<'_>> {
    let lines = document.lines().enumerate();
    lines
        .filter_map(|(index, line)| {
            let mut cells = line.strip_prefix("| `")?.split(" | ");
            Rank::new(index, cells.next()?.strip_suffix('`')?, cells.next()?)
        })
        .collect()
}

fn is_used(tree: &Tree, name: &str) -> bool {
    let path = format!("Rank::{name}");
    tree.rust_files()
        .filter(|(file, _)| file.path != RANKS && !file.is_test())
        .flat_map(|(_, rust)| rust.paths())
        .any(|found| !found.test && found.ends_with(&path))
}

#[cfg(test)]
mod tests {
    use super::*;

    const CODE: &str = "ranks! {\n    /// x\n    NODE = 5;\n    LEAF = 100;\n}";
    const USES: &str = "fn f() { (Rank::NODE, fusewire_sync::Rank::LEAF) }";

    fn violations(document: &str, uses: &str) -> Vec<String> {
        let files = [
            (RANKS, CODE),
            (DOCUMENT, document),
            ("crates/mem/src/lib.rs", uses),
        ];
        let found = check(&Tree::planted(&files));
        found.iter().map(Violation::to_string).collect()
    }

    #[test]
    fn a_table_like_the_code_holds() {
        let found = violations("| `NODE` | 5 | x |\n| `LEAF` | 100 | y |\n", USES);
        assert!(found.is_empty(), "{found:?}");
    }

    #[test]
    fn a_missing_and_a_wrong_row_are_found() {
        let found = violations("| rank | level |\n| `NODE` | 6 | x |\n", USES);
        assert_eq!(found.len(), 2, "{found:?}");
        assert!(found[0].starts_with("docs/LOCKING.md:2: "), "{found:?}");
        assert!(found[1].contains("LEAF is not in the table"), "{found:?}");
    }

    #[test]
    fn a_rank_without_a_lock_is_found() {
        let document = "| `NODE` | 5 | x |\n| `LEAF` | 100 | y |\n";
        let found = violations(document, "fn f() { Rank::LEAF }");
        assert_eq!(found.len(), 1, "{found:?}");
        assert!(found[0].contains("no lock has the rank NODE"), "{found:?}");
    }

    #[test]
    fn code_without_ranks_is_found() {
        assert_eq!(check(&Tree::planted(&[])).len(), 1);
    }
}
