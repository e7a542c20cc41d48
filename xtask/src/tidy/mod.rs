//! The rules of this repository that no compiler checks.
//!
//! A rule is a function from the [`Tree`] of tracked files to the violations in
//! it. Each has a test that plants a violation and one that must pass; the
//! rules themselves are explained where they are checked.

mod arrows;
mod dependencies;
mod facade;
mod leftovers;
mod locking;
mod promises;
mod readme;
mod rust;
mod tree;
mod unsafety;
mod words;

use std::fmt;

use crate::process::Result;
use tree::Tree;

/// One place that breaks a rule.
#[derive(Debug, PartialEq, Eq)]
struct Violation {
    /// Relative to the root of the workspace.
    file: String,
    /// From 1; 0 if the file as a whole is meant.
    line: usize,
    /// What is wrong and what to do, in one line.
    what: String,
}

impl Violation {
    fn new(file: &str, line: usize, what: impl Into<String>) -> Violation {
        Violation {
            file: file.to_owned(),
            line,
            what: what.into(),
        }
    }
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.line {
            0 => write!(f, "{}: {}", self.file, self.what),
            line => write!(f, "{}:{line}: {}", self.file, self.what),
        }
    }
}

type Rule = fn(&Tree) -> Vec<Violation>;

const RULES: [(&str, Rule); 13] = [
    ("readable", rust::readable),
    ("crate arrows", arrows::between_crates),
    ("module arrows", arrows::inside_crates),
    ("facade", facade::check),
    ("sleep", facade::no_sleep),
    ("unsafe", unsafety::check),
    ("leftovers", leftovers::check),
    ("dependencies", dependencies::check),
    ("locking", locking::check),
    ("promises", promises::check),
    ("examples", readme::examples),
    ("commands", readme::commands),
    ("words", words::check),
];

/// `cargo xtask tidy`
pub(crate) fn check() -> Result {
    let tree = Tree::of_workspace()?;
    let mut count = 0;
    for (name, rule) in RULES {
        for violation in rule(&tree) {
            println!("{violation} [{name}]");
            count += 1;
        }
    }
    match count {
        0 => {
            println!("tidy: {} rules hold in {} files", RULES.len(), tree.len());
            Ok(())
        }
        _ => Err(format!("tidy found {count} violations")),
    }
}
