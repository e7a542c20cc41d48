//! The fuzz targets of `fuzz/`: libFuzzer on stable Rust, see `fuzz/README.md`.

use std::path::PathBuf;
use std::process::Command;

use crate::apt::Apt;
use crate::process::{Result, capture, output, run};
use crate::requirements;
use crate::workspace::{self, cargo, root};

/// How long a soak fuzzes each target, in seconds.
pub(crate) const LONG_SECONDS: u64 = 300;

/// How long continuous integration does, in seconds.
pub(crate) const SHORT_SECONDS: u64 = LONG_SECONDS / 50;

/// Coverage feedback without a nightly compiler.
const FLAGS: &str = "--cfg fuzzing -Cpasses=sancov-module \
    -Cllvm-args=-sanitizer-coverage-level=4 \
    -Cllvm-args=-sanitizer-coverage-inline-8bit-counters \
    -Cllvm-args=-sanitizer-coverage-pc-table \
    -Cllvm-args=-sanitizer-coverage-trace-compares \
    -Ccodegen-units=1";

/// The manifest of the fuzz targets, a workspace of its own.
pub(crate) fn manifest() -> PathBuf {
    root().join("fuzz/Cargo.toml")
}

/// The target directory of the fuzz targets.
pub(crate) fn target() -> PathBuf {
    workspace::target().join("fuzz")
}

/// Fuzzes each of `wanted`, or of all targets, for `seconds`.
///
/// All are fuzzed even if one finds something.
pub(crate) fn all(seconds: u64, wanted: &[String]) -> Result {
    let names = choose(declared(&read(manifest())?)?, wanted)?;
    requirements::c_compilers(&mut Apt::default())?;
    let programs = build()?;
    let mut failures = Vec::new();
    for name in names {
        match fuzz(&programs, &name, seconds) {
            Ok(summary) => println!("fuzz {name}: {summary}"),
            Err(error) => {
                println!("fuzz {name}: FAILED, {error}");
                failures.push(name);
            }
        }
    }
    match failures.is_empty() {
        true => Ok(()),
        false => Err(format!(
            "fuzzing found something in {}",
            failures.join(", ")
        )),
    }
}

/// Builds all targets and returns the folder of their programs.
fn build() -> Result<PathBuf> {
    let host = host()?;
    // With a target named, the flags reach neither build scripts nor macros.
    run(cargo("build")
        .args(["--release", "--target", &host])
        .arg("--manifest-path")
        .arg(manifest())
        .arg("--target-dir")
        .arg(target())
        .env("RUSTFLAGS", FLAGS))?;
    Ok(target().join(host).join("release"))
}

fn fuzz(programs: &std::path::Path, name: &str, seconds: u64) -> Result<Summary> {
    let folder = root().join("fuzz");
    let corpus = folder.join("corpus").join(name);
    let artifacts = folder.join("artifacts").join(name);
    for directory in [&corpus, &artifacts] {
        std::fs::create_dir_all(directory)
            .map_err(|error| format!("cannot create {}: {error}", directory.display()))?;
    }
    let output = output(
        Command::new(programs.join(name))
            .arg(format!("-max_total_time={seconds}"))
            .args(["-timeout=10", "-rss_limit_mb=2048", "-print_final_stats=1"])
            // Long inputs from the start: a body of 128 bytes is not grown in a few seconds.
            .arg("-len_control=0")
            .arg(format!("-artifact_prefix={}/", artifacts.display()))
            .arg(&corpus),
    )?;
    let report = String::from_utf8_lossy(&output.stderr);
    if !output.status.success() {
        eprintln!("{report}");
        return Err(format!(
            "{}; its input is in {}",
            output.status,
            artifacts.display()
        ));
    }
    Summary::from_report(&report)
}

/// What a run that found nothing did.
#[derive(Debug, PartialEq, Eq)]
struct Summary {
    runs: u64,
    /// Edges reached.
    coverage: u64,
}

impl Summary {
    /// Reads libFuzzer's report; without coverage it would only throw dice, which is an error.
    fn from_report(report: &str) -> Result<Summary> {
        let number_after = |label: &str| {
            let (_, rest) = report.rsplit_once(label)?;
            rest.split_whitespace().next()?.parse().ok()
        };
        let runs = number_after("stat::number_of_executed_units:").unwrap_or(0);
        match number_after(" cov: ") {
            Some(coverage) if coverage > 0 && runs > 0 => Ok(Summary { runs, coverage }),
            _ => Err("libFuzzer saw no coverage: the target is not instrumented".to_owned()),
        }
    }
}

impl std::fmt::Display for Summary {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} runs, {} edges covered", self.runs, self.coverage)
    }
}

fn host() -> Result<String> {
    let version = capture(Command::new("rustc").arg("-vV"))?;
    version
        .lines()
        .find_map(|line| line.strip_prefix("host: "))
        .map(str::to_owned)
        .ok_or_else(|| "`rustc -vV` names no host".to_owned())
}

fn read(path: PathBuf) -> Result<String> {
    std::fs::read_to_string(&path)
        .map_err(|error| format!("cannot read {}: {error}", path.display()))
}

/// The names of the programs that a manifest declares.
fn declared(manifest: &str) -> Result<Vec<String>> {
    let table: toml::Table = manifest
        .parse()
        .map_err(|error| format!("cannot read the manifest of the fuzz targets: {error}"))?;
    let programs = table.get("bin").and_then(toml::Value::as_array);
    let names: Vec<String> = programs
        .into_iter()
        .flatten()
        .filter_map(|program| Some(program.get("name")?.as_str()?.to_owned()))
        .collect();
    match names.is_empty() {
        true => Err("the manifest of the fuzz targets declares no [[bin]]".to_owned()),
        false => Ok(names),
    }
}

fn choose(all: Vec<String>, wanted: &[String]) -> Result<Vec<String>> {
    if let Some(unknown) = wanted.iter().find(|name| !all.contains(name)) {
        return Err(format!(
            "no fuzz target `{unknown}`; there are: {}",
            all.join(", ")
        ));
    }
    match wanted {
        [] => Ok(all),
        wanted => Ok(wanted.to_vec()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn targets_are_the_declared_programs() {
        let manifest = "[[bin]]\nname = \"reply\"\n[[bin]]\nname = \"dirent\"";
        assert_eq!(
            declared(manifest).expect("two programs"),
            ["reply", "dirent"]
        );
        assert!(declared("[package]\nname = \"x\"").is_err());
    }

    #[test]
    fn an_unknown_target_is_named_with_those_that_exist() {
        let all = || vec!["reply".to_owned(), "dirent".to_owned()];
        assert_eq!(choose(all(), &[]), Ok(all()));
        assert_eq!(choose(all(), &all()[..1]), Ok(vec!["reply".to_owned()]));
        let error = choose(all(), &["replay".to_owned()]).expect_err("unknown");
        assert!(
            error.contains("replay") && error.contains("dirent"),
            "{error}"
        );
    }

    #[test]
    fn a_run_without_coverage_is_a_failure() {
        let report = "#2\tINITED cov: 8 ft: 8\n#99\tDONE   cov: 69 ft: 92\n\
                      stat::number_of_executed_units: 3339219\n";
        let expected = Summary {
            runs: 3_339_219,
            coverage: 69,
        };
        assert_eq!(Summary::from_report(report), Ok(expected));
        let blind = "#2\tINITED exec/s: 0\nstat::number_of_executed_units: 5\n";
        assert!(Summary::from_report(blind).is_err());
        assert!(Summary::from_report("").is_err());
    }
}
