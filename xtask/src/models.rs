//! The jobs of the model checkers: the workspace rebuilt on loom or on shuttle.
//!
//! Which checker stands behind `fusewire-sync` is one global `--cfg`, so each
//! has its own target directory. A checker that is not really wired in passes
//! everything; therefore each job first runs its *canary*, a planted bug, and
//! fails unless the checker finds it.

use std::path::Path;
use std::process::Command;

use crate::process::{Result, TestRun, Totals, describe, run_tests, run_tests_quietly};
use crate::workspace::{Package, cargo, packages, target};

/// Test files with this in their name hold planted bugs: all their tests must fail.
const CANARY_FILE: &str = "canary";

/// What a canary says when its bug is found.
const CANARY_MESSAGE: &str = "canary:";

#[derive(Clone, Copy, Debug)]
pub(crate) enum Model {
    Loom,
    Shuttle,
}

impl Model {
    fn name(self) -> &'static str {
        match self {
            Model::Loom => "loom",
            Model::Shuttle => "shuttle",
        }
    }

    /// How sources say that they are for this checker.
    fn cfg(self) -> String {
        format!("fusewire_sync = \"{}\"", self.name())
    }
}

/// The test targets of one package that are for a checker.
#[derive(Debug, PartialEq, Eq)]
struct Targets {
    package: String,
    /// The library has unit tests for it: modules or functions with its name in theirs.
    library: bool,
    /// Files in `tests/`, without their extension.
    tests: Vec<String>,
}

/// Runs the canary, then every test of the checker.
pub(crate) fn check(model: Model) -> Result<Totals> {
    let targets = packages()?
        .iter()
        .map(|package| find_targets(package, model))
        .collect::<Result<Vec<_>>>()?;

    let mut canaries = 0;
    for (package, test) in test_files(&targets).filter(|(_, test)| test.contains(CANARY_FILE)) {
        let run = run_tests_quietly(test_command(model, package).args(["--test", test]))?;
        canaries += judge_canary(&run).inspect_err(|_| eprintln!("{}", run.output))?;
    }
    if canaries == 0 {
        return Err(format!(
            "no test file named *{CANARY_FILE}* has a planted bug for {}",
            model.name()
        ));
    }

    println!("{}: planted bugs found: {canaries}", model.name());

    let mut totals = Totals::default();
    let mut failed = Vec::new();
    for mut command in commands(model, &targets) {
        let run = run_tests(&mut command)?;
        totals.add(run.totals);
        if let Err(reason) = judge(&run) {
            failed.push(format!("{}: {reason}", describe(&command)));
        }
    }
    match failed.is_empty() {
        true => Ok(totals),
        false => Err(format!("failed\n  {}", failed.join("\n  "))),
    }
}

/// Everything but the canaries, which have a file to themselves.
fn commands(model: Model, targets: &[Targets]) -> Vec<Command> {
    let mut commands = Vec::new();
    for targets in targets.iter().filter(|targets| targets.library) {
        let mut command = test_command(model, &targets.package);
        command.arg("--lib").args(["--", model.name()]);
        commands.push(command);
    }
    for (package, test) in test_files(targets) {
        if !test.contains(CANARY_FILE) {
            let mut command = test_command(model, package);
            command.args(["--test", test]);
            commands.push(command);
        }
    }
    commands
}

/// A run that found no test is a failure: code for a checker that it never sees is dead.
fn judge(run: &TestRun) -> Result {
    match (run.success, run.totals.passed) {
        (false, _) => Err("failed".to_owned()),
        (true, 0) => Err("no test has the checker's name in its own".to_owned()),
        (true, _) => Ok(()),
    }
}

fn test_files(targets: &[Targets]) -> impl Iterator<Item = (&str, &str)> {
    targets.iter().flat_map(|targets| {
        targets
            .tests
            .iter()
            .map(|test| (targets.package.as_str(), test.as_str()))
    })
}

/// Optimised, for the checkers run the same code many thousand times, yet with assertions.
fn test_command(model: Model, package: &str) -> Command {
    let mut command = cargo("test");
    command
        .args(["--release", "-p", package, "--no-fail-fast"])
        .arg("--target-dir")
        .arg(target().join(model.name()))
        .env(
            "RUSTFLAGS",
            format!("--cfg fusewire_sync=\"{}\"", model.name()),
        )
        .env("CARGO_PROFILE_RELEASE_DEBUG_ASSERTIONS", "true");
    if matches!(model, Model::Loom) && std::env::var_os("LOOM_MAX_PREEMPTIONS").is_none() {
        // Two preemptions find nearly all known bugs; each more multiplies the time.
        command.env("LOOM_MAX_PREEMPTIONS", "2");
    }
    command
}

/// The number of canaries in a run, all of which must have been caught by their own message.
fn judge_canary(run: &TestRun) -> Result<u64> {
    if run.totals.passed > 0 {
        return Err("a planted bug was not found: the model checker is not wired in".to_owned());
    }
    let caught = run.output.matches(CANARY_MESSAGE).count() as u64;
    if caught < run.totals.failed {
        return Err("a canary failed for another reason than its planted bug".to_owned());
    }
    if !run.success && run.totals.failed == 0 {
        return Err("the canary did not build or did not finish".to_owned());
    }
    Ok(run.totals.failed)
}

fn find_targets(package: &Package, model: Model) -> Result<Targets> {
    let cfg = model.cfg();
    let mut tests: Vec<String> = rust_files(&package.directory.join("tests"), false)?
        .into_iter()
        .filter(|file| file.text.contains(&cfg))
        .map(|file| file.stem)
        .collect();
    tests.sort();
    let test_cfg = format!("test, {cfg}");
    let library = rust_files(&package.directory.join("src"), true)?
        .iter()
        .any(|file| file.text.contains(&test_cfg));
    Ok(Targets {
        package: package.name.clone(),
        library,
        tests,
    })
}

struct RustFile {
    stem: String,
    text: String,
}

fn rust_files(directory: &Path, recursive: bool) -> Result<Vec<RustFile>> {
    let mut files = Vec::new();
    let Ok(entries) = std::fs::read_dir(directory) else {
        return Ok(files);
    };
    for path in entries.filter_map(|entry| entry.ok().map(|entry| entry.path())) {
        if path.is_dir() && recursive {
            files.extend(rust_files(&path, recursive)?);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            let text = std::fs::read_to_string(&path)
                .map_err(|error| format!("cannot read {}: {error}", path.display()))?;
            let stem = path.file_stem().unwrap_or_default();
            files.push(RustFile {
                stem: stem.to_string_lossy().into_owned(),
                text,
            });
        }
    }
    Ok(files)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn outcome(passed: u64, failed: u64, output: &str) -> TestRun {
        TestRun {
            success: failed == 0,
            totals: Totals {
                passed,
                failed,
                ignored: 0,
            },
            output: output.to_owned(),
        }
    }

    #[test]
    fn a_canary_must_fail_for_its_planted_bug() {
        assert_eq!(judge_canary(&outcome(0, 1, "canary: stale read")), Ok(1));
        assert_eq!(judge_canary(&outcome(0, 0, "")), Ok(0));
        assert!(judge_canary(&outcome(1, 0, "")).is_err());
        assert!(judge_canary(&outcome(0, 1, "index out of bounds")).is_err());
    }

    #[test]
    fn a_run_without_tests_is_a_failure() {
        assert_eq!(judge(&outcome(3, 0, "")), Ok(()));
        assert!(judge(&outcome(0, 0, "")).is_err());
        assert!(judge(&outcome(3, 1, "")).is_err());
    }

    #[test]
    fn canaries_run_apart() {
        let targets = [Targets {
            package: "p".to_owned(),
            library: true,
            tests: vec!["loom_canary".to_owned(), "loom_ring".to_owned()],
        }];
        let commands: Vec<String> = commands(Model::Loom, &targets)
            .iter()
            .map(describe)
            .collect();
        assert_eq!(commands.len(), 2);
        assert!(commands[0].ends_with("--lib -- loom"), "{commands:?}");
        assert!(commands[1].ends_with("--test loom_ring"), "{commands:?}");
    }

    #[test]
    fn a_canary_that_does_not_build_is_no_canary() {
        let mut run = outcome(0, 0, "");
        run.success = false;
        assert!(judge_canary(&run).is_err());
    }

    #[test]
    fn the_sync_crate_has_targets_for_both_checkers() {
        for model in [Model::Loom, Model::Shuttle] {
            let packages = packages().expect("packages");
            let sync = packages
                .iter()
                .find(|package| package.name == "fusewire-sync");
            let targets = find_targets(sync.expect("fusewire-sync"), model).expect("targets");
            assert!(!targets.tests.is_empty(), "{model:?}");
        }
    }
}
