//! Running other programs: what is run is printed, and a failure names it.

use std::io::{BufRead, BufReader, Read, Write};
use std::process::{Command, Output, Stdio};

/// The outcome of a command of this tool; the error is a sentence for a person.
pub(crate) type Result<T = ()> = std::result::Result<T, String>;

/// How many tests ran, summed over all the test binaries of a run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Totals {
    pub(crate) passed: u64,
    pub(crate) failed: u64,
    pub(crate) ignored: u64,
}

impl Totals {
    pub(crate) fn add(&mut self, other: Totals) {
        self.passed += other.passed;
        self.failed += other.failed;
        self.ignored += other.ignored;
    }

    /// Reads a line such as `test result: ok. 3 passed; 0 failed; 0 ignored; …`.
    fn from_line(line: &str) -> Option<Totals> {
        let (_, counts) = line.strip_prefix("test result: ")?.split_once(". ")?;
        let mut totals = Totals::default();
        for part in counts.split("; ") {
            match part.split_once(' ') {
                Some((number, "passed")) => totals.passed = number.parse().ok()?,
                Some((number, "failed")) => totals.failed = number.parse().ok()?,
                Some((number, "ignored")) => totals.ignored = number.parse().ok()?,
                _ => {}
            }
        }
        Some(totals)
    }
}

impl std::fmt::Display for Totals {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(
            f,
            "{} passed, {} failed, {} skipped",
            self.passed, self.failed, self.ignored
        )
    }
}

/// What a test run printed and how it ended.
pub(crate) struct TestRun {
    pub(crate) success: bool,
    pub(crate) totals: Totals,
    /// What was printed, standard error only if the run was quiet.
    pub(crate) output: String,
}

/// Runs a command with the terminal as its output; any exit code but 0 is an error.
pub(crate) fn run(command: &mut Command) -> Result {
    announce(command);
    let status = command
        .stdin(Stdio::null())
        .status()
        .map_err(|error| format!("cannot start `{}`: {error}", describe(command)))?;
    if status.success() {
        Ok(())
    } else {
        Err(format!("`{}` failed: {status}", describe(command)))
    }
}

/// Runs a command and returns all that it printed and how it ended.
pub(crate) fn output(command: &mut Command) -> Result<Output> {
    announce(command);
    command
        .stdin(Stdio::null())
        .output()
        .map_err(|error| format!("cannot start `{}`: {error}", describe(command)))
}

/// Runs a command and returns its standard output; its standard error is part of a failure.
pub(crate) fn capture(command: &mut Command) -> Result<String> {
    let output = command
        .stdin(Stdio::null())
        .output()
        .map_err(|error| format!("cannot start `{}`: {error}", describe(command)))?;
    if output.status.success() {
        Ok(String::from_utf8_lossy(&output.stdout).into_owned())
    } else {
        Err(format!(
            "`{}` failed: {}\n{}",
            describe(command),
            output.status,
            String::from_utf8_lossy(&output.stderr).trim_end()
        ))
    }
}

/// Runs tests, showing their output while counting them.
pub(crate) fn run_tests(command: &mut Command) -> Result<TestRun> {
    announce(command);
    let mut child = command
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .spawn()
        .map_err(|error| format!("cannot start `{}`: {error}", describe(command)))?;
    let (totals, output) = match child.stdout.take() {
        Some(stdout) => relay(stdout, std::io::stdout().lock()),
        None => Default::default(),
    };
    let status = child
        .wait()
        .map_err(|error| format!("cannot wait for `{}`: {error}", describe(command)))?;
    Ok(TestRun {
        success: status.success(),
        totals,
        output,
    })
}

/// Runs tests that are meant to fail, so that their output would only alarm the reader.
pub(crate) fn run_tests_quietly(command: &mut Command) -> Result<TestRun> {
    let finished = output(command)?;
    let (totals, mut output) = relay(&finished.stdout[..], std::io::sink());
    output.push_str(&String::from_utf8_lossy(&finished.stderr));
    Ok(TestRun {
        success: finished.status.success(),
        totals,
        output,
    })
}

/// Copies output line by line to `terminal` and reads the counts in it.
fn relay(from: impl Read, mut terminal: impl Write) -> (Totals, String) {
    let mut totals = Totals::default();
    let mut output = String::new();
    for line in BufReader::new(from)
        .split(b'\n')
        .map_while(|line| line.ok())
    {
        let line = String::from_utf8_lossy(&line);
        // A closed terminal must not end the tests.
        let _ = writeln!(terminal, "{line}");
        if let Some(found) = Totals::from_line(&line) {
            totals.add(found);
        }
        output.push_str(&line);
        output.push('\n');
    }
    (totals, output)
}

/// The command as one could type it, with the variables set for it.
pub(crate) fn describe(command: &Command) -> String {
    let mut words = Vec::new();
    for (name, value) in command.get_envs() {
        if let Some(value) = value {
            words.push(format!(
                "{}={}",
                name.to_string_lossy(),
                quote(&value.to_string_lossy())
            ));
        }
    }
    let program = command.get_program().to_string_lossy();
    // Cargo tells its children where it is; a person only types its name.
    words.push(match program.ends_with("/cargo") {
        true => "cargo".to_owned(),
        false => quote(&program),
    });
    words.extend(command.get_args().map(|a| quote(&a.to_string_lossy())));
    words.join(" ")
}

fn quote(word: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_=./:,+@%".contains(c);
    if !word.is_empty() && word.chars().all(plain) {
        word.to_owned()
    } else {
        format!("'{}'", word.replace('\'', r"'\''"))
    }
}

fn announce(command: &Command) {
    eprintln!("$ {}", describe(command));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn totals_come_from_the_closing_lines() {
        let line = "test result: FAILED. 3 passed; 2 failed; 1 ignored; 0 measured; 7 filtered out";
        let expected = Totals {
            passed: 3,
            failed: 2,
            ignored: 1,
        };
        assert_eq!(Totals::from_line(line), Some(expected));
        assert_eq!(Totals::from_line("test a::b ... ok"), None);
    }

    #[test]
    fn totals_are_summed_and_output_is_kept() {
        let printed = "test result: ok. 2 passed; 0 failed; 0 ignored\nother\n".repeat(2);
        let mut terminal = Vec::new();
        let (totals, output) = relay(printed.as_bytes(), &mut terminal);
        assert_eq!(totals.passed, 4);
        assert_eq!(output, printed);
        assert_eq!(terminal, printed.as_bytes());
    }

    #[test]
    fn a_failure_names_the_command() {
        let error = run(Command::new("sh").args(["-c", "exit 3"])).expect_err("exit code 3");
        assert!(error.contains("sh -c 'exit 3'"), "{error}");
        assert!(error.contains('3'), "{error}");
    }

    #[test]
    fn a_missing_program_is_named() {
        let error = run(&mut Command::new("no-such-program-here")).expect_err("not installed");
        assert!(
            error.contains("cannot start `no-such-program-here`"),
            "{error}"
        );
    }
}
