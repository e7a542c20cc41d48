//! A Rust file as the rules see it: its tokens and paths, without comments and literals.

use proc_macro2::{Delimiter, Group, TokenStream, TokenTree};

use super::Violation;
use super::tree::Tree;

/// A word or sign of the source.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Token {
    pub(super) text: String,
    /// From 1.
    pub(super) line: usize,
    /// Part of an item that is compiled for tests only.
    pub(super) test: bool,
}

/// A path as it is meant: `use a::{b, c::d}` is `a::b` and `a::c::d`.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Path {
    pub(super) text: String,
    pub(super) line: usize,
    pub(super) test: bool,
}

impl Path {
    /// Whether the path is `prefix` or lies below it.
    pub(super) fn starts_with(&self, prefix: &str) -> bool {
        self.text
            .strip_prefix(prefix)
            .is_some_and(|rest| rest.is_empty() || rest.starts_with("::"))
    }

    /// Whether the path ends in all segments of `suffix`.
    pub(super) fn ends_with(&self, suffix: &str) -> bool {
        self.text
            .strip_suffix(suffix)
            .is_some_and(|rest| rest.is_empty() || rest.ends_with("::"))
    }
}

pub(super) struct Rust {
    pub(super) tokens: Vec<Token>,
    /// The names of modules in files of their own that are declared for tests only.
    pub(super) test_modules: Vec<String>,
    /// The whole file is compiled for tests only.
    pub(super) is_test: bool,
}

impl Rust {
    pub(super) fn parse(text: &str) -> Result<Rust, String> {
        let stream: TokenStream = text
            .parse()
            .map_err(|error: proc_macro2::LexError| error.to_string())?;
        let mut rust = Rust {
            tokens: Vec::new(),
            test_modules: Vec::new(),
            is_test: false,
        };
        rust.read(stream, false);
        Ok(rust)
    }

    /// Every path in the file, also those inside macro calls and `use` groups.
    pub(super) fn paths(&self) -> Vec<Path> {
        let mut paths = Vec::new();
        let mut position = 0;
        while position < self.tokens.len() {
            position = if is_word(&self.tokens[position].text) {
                self.path("", position, &mut paths)
            } else {
                position + 1
            };
        }
        paths
    }

    /// Reads the path that starts at `position`; returns the position after it.
    fn path(&self, prefix: &str, mut position: usize, paths: &mut Vec<Path>) -> usize {
        let start = &self.tokens[position];
        let mut text = format!("{prefix}{}", start.text);
        position += 1;
        while self.is_separator(position) {
            match self.text(position + 2) {
                "{" => return self.path_group(&format!("{text}::"), position + 3, paths),
                word if is_word(word) || word == "*" => {
                    text = format!("{text}::{word}");
                    position += 3;
                }
                // A turbofish.
                _ => break,
            }
        }
        paths.push(Path {
            text,
            line: start.line,
            test: start.test,
        });
        position
    }

    fn path_group(&self, prefix: &str, mut position: usize, paths: &mut Vec<Path>) -> usize {
        while position < self.tokens.len() {
            position = match self.text(position) {
                "}" => return position + 1,
                word if is_word(word) => self.path(prefix, position, paths),
                _ => position + 1,
            };
        }
        position
    }

    fn is_separator(&self, position: usize) -> bool {
        self.text(position) == ":" && self.text(position + 1) == ":"
    }

    fn text(&self, position: usize) -> &str {
        self.tokens
            .get(position)
            .map_or("", |token| token.text.as_str())
    }

    /// Appends the tokens of a stream, marking the items that are for tests only.
    fn read(&mut self, stream: TokenStream, test: bool) {
        let trees: Vec<TokenTree> = stream.into_iter().collect();
        let mut position = 0;
        while position < trees.len() {
            if !test && is_inner_test_attribute(&trees[position..]) {
                self.is_test = true;
            }
            if !test && is_test_attribute(&trees[position..]) {
                let end = position + item_length(&trees[position..]);
                self.note_module(&trees[position..end]);
                for tree in &trees[position..end] {
                    self.push(tree, true);
                }
                position = end;
            } else {
                self.push(&trees[position], test);
                position += 1;
            }
        }
    }

    fn push(&mut self, tree: &TokenTree, test: bool) {
        let line = tree.span().start().line;
        let mut push = |text: String, line: usize| self.tokens.push(Token { text, line, test });
        match tree {
            TokenTree::Group(group) => {
                let (open, close) = signs(group.delimiter());
                push(open.to_owned(), line);
                self.read(group.stream(), test);
                let line = group.span_close().start().line;
                self.tokens.push(Token {
                    text: close.to_owned(),
                    line,
                    test,
                });
            }
            TokenTree::Ident(word) => push(word.to_string(), line),
            TokenTree::Punct(sign) => push(sign.as_char().to_string(), line),
            // What a string or number says is no business of any rule.
            TokenTree::Literal(_) => push("0".to_owned(), line),
        }
    }

    /// `mod name;` in an item for tests.
    fn note_module(&mut self, item: &[TokenTree]) {
        if let [
            ..,
            TokenTree::Ident(keyword),
            TokenTree::Ident(name),
            TokenTree::Punct(end),
        ] = item
            && *keyword == "mod"
            && end.as_char() == ';'
        {
            self.test_modules.push(name.to_string());
        }
    }
}

fn signs(delimiter: Delimiter) -> (&'static str, &'static str) {
    match delimiter {
        Delimiter::Brace => ("{", "}"),
        Delimiter::Bracket => ("[", "]"),
        Delimiter::Parenthesis => ("(", ")"),
        Delimiter::None => ("", ""),
    }
}

fn is_word(text: &str) -> bool {
    text.starts_with(|c: char| c.is_alphabetic() || c == '_')
}

/// `#[test]`, `#[cfg(test)]` or `#[cfg(all(test, …))]`.
fn is_test_attribute(trees: &[TokenTree]) -> bool {
    match trees {
        [TokenTree::Punct(hash), TokenTree::Group(group), ..] => {
            hash.as_char() == '#' && is_test_condition(group)
        }
        _ => false,
    }
}

/// `#![cfg(test)]`
fn is_inner_test_attribute(trees: &[TokenTree]) -> bool {
    match trees {
        [
            TokenTree::Punct(hash),
            TokenTree::Punct(bang),
            TokenTree::Group(group),
            ..,
        ] => hash.as_char() == '#' && bang.as_char() == '!' && is_test_condition(group),
        _ => false,
    }
}

fn is_test_condition(attribute: &Group) -> bool {
    let text = attribute.stream().to_string().replace(' ', "");
    text == "test" || text == "cfg(test)" || text.starts_with("cfg(all(test,")
}

/// How many trees the item with the attribute in front of it takes.
fn item_length(trees: &[TokenTree]) -> usize {
    let mut angles = 0;
    let mut arrow = false;
    for (index, tree) in trees.iter().enumerate() {
        match tree {
            TokenTree::Group(group) if group.delimiter() == Delimiter::Brace => return index + 1,
            TokenTree::Punct(sign) => match sign.as_char() {
                ';' => return index + 1,
                // The end of a field, unless it parts generic parameters.
                ',' if angles <= 0 => return index + 1,
                '<' => angles += 1,
                '>' if !arrow => angles -= 1,
                _ => {}
            },
            _ => {}
        }
        arrow = matches!(tree, TokenTree::Punct(sign) if sign.as_char() == '-');
    }
    trees.len()
}

/// A file that cannot be read would escape every other rule.
pub(super) fn readable(tree: &Tree) -> Vec<Violation> {
    tree.files()
        .filter(|file| file.path.ends_with(".rs") && file.rust.is_none())
        .map(|file| Violation::new(&file.path, 0, "cannot be read as Rust"))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn paths(text: &str) -> Vec<String> {
        let rust = Rust::parse(text).expect("Rust");
        rust.paths().into_iter().map(|path| path.text).collect()
    }

    #[test]
    fn groups_are_spelt_out() {
        let found = paths("use std::{io::{self, Read}, sync::*};");
        for wanted in ["std::io::self", "std::io::Read", "std::sync::*"] {
            assert!(found.contains(&wanted.to_owned()), "{wanted} in {found:?}");
        }
    }

    #[test]
    fn comments_and_strings_are_no_paths() {
        let found = paths("/// std::sync\nfn f() { /* std::thread */ g(\"std::fs\"); }");
        assert!(
            !found.iter().any(|path| path.starts_with("std")),
            "{found:?}"
        );
    }

    #[test]
    fn paths_are_found_inside_macros_and_turbofish() {
        let found = paths("fn f() { m!(a::b::<c::D>()); }");
        assert!(found.contains(&"a::b".to_owned()), "{found:?}");
        assert!(found.contains(&"c::D".to_owned()), "{found:?}");
    }

    #[test]
    fn test_items_are_marked_and_the_rest_is_not() {
        let text = "
            #[cfg(test)]
            fn one<A, B>(a: A) -> B { hidden1() }
            fn two() { seen1() }
            #[cfg(all(test, feature = \"x\"))]
            mod tests { fn f() { hidden2() } }
            struct S { #[cfg(test)] hidden3: u8, seen2: u8 }
            #[cfg(not(test))]
            fn three() { seen3() }";
        let rust = Rust::parse(text).expect("Rust");
        for token in &rust.tokens {
            if token.text.starts_with("seen") {
                assert!(!token.test, "{token:?}");
            }
            if token.text.starts_with("hidden") {
                assert!(token.test, "{token:?}");
            }
        }
    }

    #[test]
    fn a_file_for_tests_only_says_so() {
        assert!(
            Rust::parse("#![cfg(test)]\nfn f() {}")
                .expect("Rust")
                .is_test
        );
        assert!(
            !Rust::parse("#![forbid(unsafe_code)]")
                .expect("Rust")
                .is_test
        );
    }

    #[test]
    fn an_unreadable_file_is_a_violation() {
        let tree = Tree::planted(&[("crates/a/src/lib.rs", "fn f( {"), ("b.rs", "fn f() {}")]);
        let found = readable(&tree);
        assert_eq!(found.len(), 1);
        assert_eq!(found[0].file, "crates/a/src/lib.rs");
    }
}
