//! Each promise of docs/SEMANTICS.md, and each fault of docs/FAULTS.md, names the tests that hold
//! it.
//!
//! A promise is a heading `### P7. …`, a fault is `### F7. …`; below it stand one or more lines of
//! the form ``Test: `path/of/file.rs::function` ``.

use super::Violation;
use super::rust::Rust;
use super::tree::Tree;

/// The documents, and the letter of their numbers.
const DOCUMENTS: [(&str, char); 2] = [("docs/SEMANTICS.md", 'P'), ("docs/FAULTS.md", 'F')];

pub(super) fn check(tree: &Tree) -> Vec<Violation> {
    DOCUMENTS
        .iter()
        .flat_map(|(path, letter)| check_one(tree, path, *letter))
        .collect()
}

fn check_one(tree: &Tree, path: &str, letter: char) -> Vec<Violation> {
    let Some(document) = tree.file(path) else {
        return vec![Violation::new(path, 0, "is missing")];
    };
    let heading = format!("### {letter}");
    let mut violations = Vec::new();
    let mut open: Option<(usize, String)> = None;
    let mut expected = 1;
    let mut in_example = false;
    for (index, line) in document.text.lines().enumerate() {
        let line_number = index + 1;
        if line.starts_with("```") {
            in_example = !in_example;
        }
        if in_example {
            continue;
        }
        if line.starts_with('#') {
            violations.extend(open.take().map(|item| untested(path, letter, item)));
        }
        if let Some(rest) = line.strip_prefix(&heading) {
            let number = rest.split_once(". ").map(|(number, _)| number);
            if number != Some(expected.to_string().as_str()) {
                let what = format!("they are numbered in order: {letter}{expected} is next");
                violations.push(Violation::new(path, line_number, what));
            }
            expected += 1;
            open = Some((line_number, rest.to_owned()));
        } else if let Some(name) = line.strip_prefix("Test: ") {
            open = None;
            if let Err(what) = find_test(tree, name.trim().trim_matches('`')) {
                violations.push(Violation::new(path, line_number, what));
            }
        }
    }
    violations.extend(open.map(|item| untested(path, letter, item)));
    violations
}

fn untested(path: &str, letter: char, (line, item): (usize, String)) -> Violation {
    Violation::new(path, line, format!("no test is named for {letter}{item}"))
}

fn find_test(tree: &Tree, name: &str) -> Result<(), String> {
    let (path, function) = name
        .split_once("::")
        .ok_or_else(|| format!("`{name}` is not of the form path/of/file.rs::function"))?;
    let rust = tree
        .file(path)
        .and_then(|file| file.rust.as_ref())
        .ok_or_else(|| format!("there is no file {path}"))?;
    match defines(rust, function) {
        true => Ok(()),
        false => Err(format!("{path} has no function {function}")),
    }
}

fn defines(rust: &Rust, function: &str) -> bool {
    rust.tokens
        .windows(2)
        .any(|pair| pair[0].text == "fn" && pair[1].text == function)
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEST_FILE: (&str, &str) = ("crates/a/tests/t.rs", "#[test] fn holds() {}");

    fn violations(document: &str) -> Vec<Violation> {
        let (path, letter) = DOCUMENTS[0];
        check_one(&Tree::planted(&[(path, document), TEST_FILE]), path, letter)
    }

    #[test]
    fn a_promise_with_a_test_holds() {
        let document = "### P1. A\nText.\n\nTest: `crates/a/tests/t.rs::holds`\n";
        assert_eq!(violations(document), []);
    }

    #[test]
    fn faults_are_held_to_the_same() {
        let (path, letter) = DOCUMENTS[1];
        let tree = Tree::planted(&[(path, "### F1. A\n"), TEST_FILE]);
        assert_eq!(check_one(&tree, path, letter).len(), 1);
    }

    #[test]
    fn a_code_block_promises_nothing() {
        assert_eq!(violations("```text\n### P1. A\nTest: none\n```\n"), []);
    }

    #[test]
    fn a_promise_without_a_test_is_found() {
        let found = violations("### P1. A\ntext\n### P2. B\nTest: crates/a/tests/t.rs::holds\n");
        assert_eq!(found.len(), 1, "{found:?}");
        assert_eq!(found[0].line, 1);
        assert_eq!(violations("### P1. A\n").len(), 1);
    }

    #[test]
    fn a_test_that_does_not_exist_is_found() {
        for name in ["crates/a/tests/t.rs::gone", "crates/b.rs::holds", "holds"] {
            let found = violations(&format!("### P1. A\nTest: {name}\n"));
            assert_eq!(found.len(), 1, "{name}");
            assert_eq!(found[0].line, 2, "{name}");
        }
    }

    #[test]
    fn numbers_run_on() {
        let test = "Test: crates/a/tests/t.rs::holds";
        let found = violations(&format!("### P1. A\n{test}\n### P3. B\n{test}\n"));
        assert_eq!(found.len(), 1, "{found:?}");
    }
}
