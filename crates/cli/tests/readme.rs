//! Runs the `console` blocks of the README, top to bottom in one shell, as a reader would.
//!
//! A line that starts with `$ ` is a command, which must succeed; the lines after it are
//! its output, standard error included. In them `[..]` stands for any text within a line
//! and a line `...` for any lines. `cargo run --release --` is the built command;
//! `cargo xtask` is not run from here, for it runs this test.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

const README: &str = include_str!("../../../README.md");

/// Printed by the shell after each command, with its exit code behind it.
const END_OF_COMMAND: &str = "\u{1}end of command ";

/// Stands in for cargo within the README's commands.
const CARGO: &str = r#"#!/bin/sh
case "$1 $2 $3" in
"run --release --") shift 3; exec fusewire "$@" ;;
"xtask "*) exit 0 ;;
esac
echo "the README's test knows no: cargo $*" >&2
exit 1
"#;

#[derive(Debug, PartialEq, Eq)]
struct Example {
    command: String,
    output: Vec<String>,
}

#[test]
fn every_console_example_does_what_the_readme_says() {
    let examples = examples(README);
    assert!(!examples.is_empty(), "the README has no console block");
    let outputs = run(&examples, &workspace("examples"));
    for (example, (code, output)) in examples.iter().zip(&outputs) {
        assert_eq!(*code, 0, "$ {}\n{output}", example.command);
        let lines: Vec<&str> = output.lines().collect();
        assert!(
            example.output.is_empty() || matches(&example.output, &lines),
            "$ {}\nexpected:\n{}\nfound:\n{output}",
            example.command,
            example.output.join("\n")
        );
    }
    assert_eq!(outputs.len(), examples.len(), "the shell ended early");
}

/// An empty folder with the stand-in for cargo in its `bin`.
fn workspace(name: &str) -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("readme-{name}"));
    if folder.exists() {
        fs::remove_dir_all(&folder).expect("the folder of an earlier run is removed");
    }
    let bin = folder.join("bin");
    fs::create_dir_all(&bin).expect("a folder for the examples");
    let cargo = bin.join("cargo");
    fs::write(&cargo, CARGO).expect("the stand-in for cargo");
    fs::set_permissions(&cargo, fs::Permissions::from_mode(0o755)).expect("made executable");
    folder
}

/// Runs all commands in one shell; returns the exit code and output of each.
fn run(examples: &[Example], folder: &Path) -> Vec<(i32, String)> {
    let script: String = examples
        .iter()
        .map(|example| format!("{}\nprintf '{END_OF_COMMAND}%d\\n' $?\n", example.command))
        .collect();
    let program = Path::new(env!("CARGO_BIN_EXE_fusewire"));
    let programs = program.parent().expect("a program is in a folder");
    let path = format!(
        "{}:{}:{}",
        folder.join("bin").display(),
        programs.display(),
        std::env::var("PATH").unwrap_or_default()
    );
    let output = Command::new("sh")
        .arg("-c")
        .arg(format!("exec 2>&1\n{script}"))
        .env("PATH", path)
        .env_remove("FUSEWIRE_SOURCE")
        .current_dir(folder)
        .stdin(Stdio::null())
        .output()
        .expect("a shell");
    split(&String::from_utf8_lossy(&output.stdout))
}

fn split(printed: &str) -> Vec<(i32, String)> {
    let mut outputs = Vec::new();
    let mut current = String::new();
    for line in printed.lines() {
        match line.split_once(END_OF_COMMAND) {
            Some((last, code)) => {
                current.push_str(last);
                let code = code.parse().expect("an exit code");
                outputs.push((code, std::mem::take(&mut current)));
            }
            None => {
                current.push_str(line);
                current.push('\n');
            }
        }
    }
    outputs
}

fn examples(markdown: &str) -> Vec<Example> {
    let mut examples: Vec<Example> = Vec::new();
    let mut inside = false;
    for line in markdown.lines() {
        if line.starts_with("```") {
            inside = line == "```console";
        } else if let Some(command) = line.strip_prefix("$ ").filter(|_| inside) {
            examples.push(Example {
                command: command.to_owned(),
                output: Vec::new(),
            });
        } else if let Some(example) = examples.last_mut().filter(|_| inside) {
            example.output.push(line.to_owned());
        }
    }
    examples
}

fn matches(expected: &[String], found: &[&str]) -> bool {
    match expected.split_first() {
        None => found.is_empty(),
        Some((line, rest)) if line == "..." => {
            (0..=found.len()).any(|skipped| matches(rest, &found[skipped..]))
        }
        Some((line, rest)) => found
            .split_first()
            .is_some_and(|(first, others)| line_matches(line, first) && matches(rest, others)),
    }
}

fn line_matches(expected: &str, found: &str) -> bool {
    match expected.split_once("[..]") {
        None => expected == found,
        Some((start, rest)) => found.strip_prefix(start).is_some_and(|found| {
            found
                .char_indices()
                .map(|(position, _)| position)
                .chain([found.len()])
                .any(|position| line_matches(rest, &found[position..]))
        }),
    }
}

#[test]
fn examples_are_read_from_console_blocks_only() {
    let text = "$ no\n```console\n$ a b\nout\n\n$ c\n```\n$ no\n```text\n$ no\n```\n";
    let example = |command: &str, output: &[&str]| Example {
        command: command.to_owned(),
        output: output.iter().map(|&line| line.to_owned()).collect(),
    };
    assert_eq!(
        examples(text),
        [example("a b", &["out", ""]), example("c", &[])]
    );
}

#[test]
fn outputs_are_compared_with_wildcards() {
    let check = |expected: &[&str], found: &[&str]| {
        let expected: Vec<String> = expected.iter().map(|&line| line.to_owned()).collect();
        matches(&expected, found)
    };
    assert!(check(&["a[..]c", "..."], &["abc", "x", "y"]));
    assert!(check(&["...", "z"], &["z"]));
    assert!(!check(&["a[..]c"], &["abd"]));
    assert!(!check(&["a"], &["a", "b"]));
}

#[test]
fn a_failing_command_and_its_output_are_seen() {
    let examples = examples("```console\n$ printf out; false\n$ cargo build\n```\n");
    let outputs = run(&examples, &workspace("failing"));
    assert_eq!(outputs[0], (1, "out".to_owned()));
    assert_eq!(outputs[1].0, 1);
    assert!(outputs[1].1.contains("knows no: cargo build"));
}
