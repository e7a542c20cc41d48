//! The fuzz targets of `fuzz/`: libFuzzer on stable Rust, see `fuzz/README.md`.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::process::{Result, capture, run};
use crate::workspace::{cargo, root, target};

/// How long continuous integration fuzzes each target, in seconds.
pub(crate) const SHORT_SECONDS: u64 = 5;

/// Coverage feedback without a nightly compiler.
const FLAGS: &str = "--cfg fuzzing -Cpasses=sancov-module \
    -Cllvm-args=-sanitizer-coverage-level=4 \
    -Cllvm-args=-sanitizer-coverage-inline-8bit-counters \
    -Cllvm-args=-sanitizer-coverage-pc-table \
    -Cllvm-args=-sanitizer-coverage-trace-compares \
    -Ccodegen-units=1 -Cdebug-assertions=on";

/// Fuzzes each of `wanted`, or of all targets, for `seconds`.
pub(crate) fn all(seconds: u64, wanted: &[String]) -> Result {
    let folder = root().join("fuzz");
    let targets = choose(targets(&folder.join("Cargo.toml"))?, wanted)?;
    let programs = build(&folder)?;
    for name in targets {
        let corpus = folder.join("corpus").join(&name);
        let artifacts = folder.join("artifacts").join(&name);
        for directory in [&corpus, &artifacts] {
            std::fs::create_dir_all(directory)
                .map_err(|error| format!("cannot create {}: {error}", directory.display()))?;
        }
        run(Command::new(programs.join(&name))
            .current_dir(&folder)
            .arg(format!("-max_total_time={seconds}"))
            .args(["-timeout=10", "-rss_limit_mb=2048", "-print_final_stats=1"])
            .arg(format!("-artifact_prefix={}/", artifacts.display()))
            .arg(&corpus))?;
    }
    Ok(())
}

/// Builds all targets and returns the folder of their programs.
fn build(folder: &Path) -> Result<PathBuf> {
    let host = host()?;
    let directory = target().join("fuzz");
    // With a target named, the flags reach neither build scripts nor macros.
    run(cargo("build")
        .args(["--release", "--target", &host])
        .arg("--manifest-path")
        .arg(folder.join("Cargo.toml"))
        .arg("--target-dir")
        .arg(&directory)
        .env("RUSTFLAGS", FLAGS))?;
    Ok(directory.join(host).join("release"))
}

fn host() -> Result<String> {
    let version = capture(Command::new("rustc").arg("-vV"))?;
    version
        .lines()
        .find_map(|line| line.strip_prefix("host: "))
        .map(str::to_owned)
        .ok_or_else(|| "`rustc -vV` names no host".to_owned())
}

/// The names of the programs that a manifest declares.
fn targets(manifest: &Path) -> Result<Vec<String>> {
    let text = std::fs::read_to_string(manifest)
        .map_err(|error| format!("cannot read {}: {error}", manifest.display()))?;
    let table: toml::Table = text
        .parse()
        .map_err(|error| format!("cannot read {}: {error}", manifest.display()))?;
    let programs = table.get("bin").and_then(toml::Value::as_array);
    let names: Vec<String> = programs
        .into_iter()
        .flatten()
        .filter_map(|program| Some(program.get("name")?.as_str()?.to_owned()))
        .collect();
    match names.is_empty() {
        true => Err(format!("{} declares no [[bin]]", manifest.display())),
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
}
