//! Every example of the README is run by a test.
//!
//! Commands are in `console` blocks, which `crates/cli/tests/readme.rs` runs;
//! library examples are in `rust` blocks, which are doc tests of the library.
//! Other code blocks are only allowed as `text`. Commands of this tool that a document
//! names exist.

use super::Violation;
use super::tree::Tree;

const README: &str = "README.md";
const COMMAND_TEST: &str = "crates/cli/tests/readme.rs";
const LIBRARY: &str = "crates/client/src/lib.rs";

pub(super) fn examples(tree: &Tree) -> Vec<Violation> {
    let Some(readme) = tree.file(README) else {
        return vec![Violation::new(README, 0, "is missing")];
    };
    let includes = |path: &str| {
        tree.file(path)
            .is_some_and(|file| file.text.contains("include_str!(\"../../../README.md\")"))
    };
    let mut violations = Vec::new();
    let mut inside = false;
    for (index, line) in readme.text.lines().enumerate() {
        let Some(kind) = line.trim_start().strip_prefix("```") else {
            continue;
        };
        inside = !inside;
        if !inside {
            continue;
        }
        let problem = match kind.split(',').next().unwrap_or_default() {
            "console" if !includes(COMMAND_TEST) => format!("{COMMAND_TEST} does not run this"),
            "rust" if !includes(LIBRARY) => format!("{LIBRARY} does not test this"),
            "rust" if kind.contains("ignore") => "this example is not run".to_owned(),
            "console" | "rust" | "text" => continue,
            other => format!("no test runs a block of `{other}`: use console, rust or text"),
        };
        violations.push(Violation::new(README, index + 1, problem));
    }
    violations
}

/// How documents name the commands of this tool.
const TOOL: &str = "cargo xtask ";

pub(super) fn commands(tree: &Tree) -> Vec<Violation> {
    let known = crate::command_names();
    let mut violations = Vec::new();
    for file in tree.files().filter(|file| file.path.ends_with(".md")) {
        for (index, line) in file.text.lines().enumerate() {
            for (position, _) in line.match_indices(TOOL) {
                let rest = &line[position + TOOL.len()..];
                let name: String = rest.chars().take_while(char::is_ascii_lowercase).collect();
                if !name.is_empty() && !known.contains(&name) {
                    let what = format!("there is no command `{TOOL}{name}`");
                    violations.push(Violation::new(&file.path, index + 1, what));
                }
            }
        }
    }
    violations
}

#[cfg(test)]
mod tests {
    use super::*;

    const INCLUDE: &str = "const R: &str = include_str!(\"../../../README.md\");";

    fn tested(readme: &str) -> usize {
        let files = [
            (README, readme),
            (COMMAND_TEST, INCLUDE),
            (LIBRARY, INCLUDE),
        ];
        examples(&Tree::planted(&files)).len()
    }

    #[test]
    fn blocks_that_a_test_runs_are_fine() {
        assert_eq!(
            tested("```console\n$ x\n```\n```rust,no_run\n```\n```text\n```\n"),
            0
        );
    }

    #[test]
    fn blocks_that_no_test_runs_are_found() {
        for block in ["```sh\nx\n```\n", "```\nx\n```\n", "```rust,ignore\n```\n"] {
            assert_eq!(tested(block), 1, "{block}");
        }
    }

    #[test]
    fn a_command_that_does_not_exist_is_found() {
        let text = "`cargo xtask tidy`\nrun cargo xtask tidyup, `cargo xtask NAME`\n";
        let found = commands(&Tree::planted(&[("docs/a.md", text)]));
        assert_eq!(found.len(), 1, "{found:?}");
        assert_eq!(found[0].line, 2);
    }

    #[test]
    fn the_tests_must_be_there() {
        let readme = "```console\n$ x\n```\n```rust\n```\n";
        let tree = Tree::planted(&[(README, readme)]);
        let lines: Vec<_> = examples(&tree).into_iter().map(|v| v.line).collect();
        assert_eq!(lines, [1, 4]);
    }
}
