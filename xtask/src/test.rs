//! All tests of the workspace, with the daemons they talk to.

use std::env;
use std::hash::{BuildHasher, RandomState};
use std::process::Command;

use crate::peers::{self, Need};
use crate::process::{Result, Totals, describe, run_tests};
use crate::workspace::cargo;

/// The variable from which long cases take their seed, so that a failure can be repeated.
const SEED: &str = "FUSEWIRE_SEED";

/// The same for the tests that draw their cases with proptest.
const PROPTEST_SEED: &str = "PROPTEST_RNG_SEED";

/// The variable with which the tests run their long cases at full size instead of 1/50.
const SOAK: &str = "FUSEWIRE_SOAK";

/// How long the long cases are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Size {
    /// 1/50, or what the environment says.
    Short,
    Full,
}

/// Installs the peers and runs all tests, or `cargo test ARGUMENTS` if there are any.
pub(crate) fn all(arguments: &[String], need: Need, size: Size) -> Result<Totals> {
    let manifest = peers::prepare()?;
    if need == Need::All {
        manifest.require_all()?;
    }
    let seed = seed()?;
    println!("{SEED}={seed}");

    let mut totals = Totals::default();
    let mut failures = Vec::new();
    for mut command in commands(arguments) {
        command
            .env(SEED, seed.to_string())
            .env(PROPTEST_SEED, seed.to_string())
            .env(peers::DIRECTORY, peers::directory());
        if need == Need::All {
            command.env(peers::REQUIRE, "1");
        }
        if size == Size::Full {
            command.env(SOAK, "1");
        }
        let run = run_tests(&mut command)?;
        totals.add(run.totals);
        if !run.success {
            failures.push(describe(&command));
        }
    }
    print!("{manifest}");
    println!("{totals}");
    match failures.is_empty() {
        true => Ok(totals),
        false => Err(format!(
            "tests failed; repeat with the same seed by\n  {}",
            failures.join("\n  ")
        )),
    }
}

/// `--all-targets` leaves the doc tests out, so that everything takes two runs.
fn commands(arguments: &[String]) -> Vec<Command> {
    let mut commands = Vec::new();
    let mut test = |arguments: &[&str]| {
        let mut command = cargo("test");
        command.args(arguments);
        commands.push(command);
    };
    if arguments.is_empty() {
        test(&["--workspace", "--all-targets", "--no-fail-fast"]);
        test(&["--workspace", "--doc", "--no-fail-fast"]);
    } else {
        let selects_package = |argument: &String| {
            ["-p", "--package", "--manifest-path", "--workspace"]
                .iter()
                .any(|option| argument.starts_with(option))
        };
        let mut words: Vec<&str> = arguments.iter().map(String::as_str).collect();
        let own = arguments.iter().take_while(|argument| *argument != "--");
        if !own.into_iter().any(selects_package) {
            words.insert(0, "--workspace");
        }
        test(&words);
    }
    commands
}

/// The given seed, or a fresh one.
fn seed() -> Result<u64> {
    match env::var(SEED) {
        Ok(text) => text
            .parse()
            .map_err(|_| format!("{SEED}={text} is not a whole number from 0 to {}", u64::MAX)),
        // The standard library keys every RandomState afresh from the system's randomness.
        Err(_) => Ok(RandomState::new().hash_one(std::process::id())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(command: &Command) -> Vec<String> {
        command
            .get_args()
            .map(|word| word.to_string_lossy().into_owned())
            .collect()
    }

    fn strings(words: &[&str]) -> Vec<String> {
        words.iter().map(|&word| word.to_owned()).collect()
    }

    #[test]
    fn everything_includes_the_doc_tests() {
        let all: Vec<_> = commands(&[]).iter().map(words).collect();
        assert!(
            all.iter()
                .any(|words| words.contains(&"--all-targets".to_owned()))
        );
        assert!(all.iter().any(|words| words.contains(&"--doc".to_owned())));
    }

    #[test]
    fn arguments_go_to_cargo_test_as_they_are() {
        let given = strings(&["-p", "fusewire-mem", "--", "buddy"]);
        assert_eq!(words(&commands(&given)[0])[1..], given);
        let given = strings(&["buddy", "--", "-p"]);
        assert_eq!(words(&commands(&given)[0])[1], "--workspace");
    }
}
