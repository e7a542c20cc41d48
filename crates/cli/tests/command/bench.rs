//! bench

use crate::places::{Done, daemons, fusewire, names};
use serde_json::Value;
use std::fs;

fn bench(args: &[&str]) -> Done {
    let output = fusewire().arg("bench").args(args).output();
    Done::of(output.expect("the command starts"))
}

/// Runs one row and returns its report, after a look at what all rows have in common.
fn row(name: &str, command: &mut std::process::Command) -> Value {
    let here = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("a directory");
    let (files, json) = (here.path().join("files"), here.path().join("report.json"));
    fs::create_dir(&files).expect("a directory");
    let done = command
        .args(["bench", "core", "--quick", "--only", name, "--json"])
        .arg(&json)
        .env("TMPDIR", &files)
        .env("FUSEWIRE_COMMIT", "0123abc")
        .output();
    let text = Done::of(done.expect("the command starts")).ok();
    assert!(text.contains(name), "{text}");
    assert!(names(&files).is_empty(), "{:?} is left", names(&files));

    let report = fs::read_to_string(json).expect("a report");
    let report: Value = serde_json::from_str(&report).expect("JSON");
    assert_eq!(report["campaign"], "core");
    assert_eq!(report["commit"], "0123abc");
    assert_eq!(report["seed"], 1);
    assert!(report["machine"]["cpus"].as_u64() > Some(0));
    let rows = report["rows"].as_array().expect("rows");
    assert!(!rows.is_empty() && rows.iter().all(|row| row["row"] == name));
    report
}

/// Whether each row has its samples and a sensible summary of them.
#[track_caller]
fn check_measured(report: &Value) {
    for row in report["rows"].as_array().expect("rows") {
        let samples = row["samples"].as_array().expect("samples");
        assert_eq!(samples.len(), 4, "{row}");
        let samples = samples
            .iter()
            .map(|sample| sample.as_f64().expect("a number"));
        let least = samples.fold(f64::INFINITY, f64::min);
        let [median, p90] = ["median", "p90"].map(|it| row[it].as_f64().expect("a number"));
        assert!(0.0 < least && least <= median && median <= p90, "{row}");
        assert!(row["state"] == "ok" || row["state"] == "drift", "{row}");
    }
    for ratio in report["ratios"].as_array().expect("ratios") {
        assert!(ratio["value"].as_f64() > Some(0.0), "{ratio}");
    }
}

#[test]
fn a_row_in_process_needs_no_daemon() {
    let report = row(
        "getattr_inproc",
        fusewire().env("FUSEWIRE_VIRTIOFSD", "/none"),
    );
    // On one CPU there is nothing to measure, and the report says so.
    match report["rows"][0]["reason"].as_str() {
        Some(reason) => assert!(reason.contains("one CPU"), "{reason}"),
        None => check_measured(&report),
    }
}

#[test]
fn without_a_daemon_its_rows_are_skipped_for_that_reason() {
    let report = row("get_1g", fusewire().env("FUSEWIRE_VIRTIOFSD", "/none"));
    let reported = ["rows", "ratios"].map(|part| report[part].as_array().expect("a list"));
    for it in reported.into_iter().flatten() {
        assert_eq!(it["state"], "skipped", "{it}");
        let reason = it["reason"].as_str().expect("a reason");
        assert!(reason.contains("/none"), "{reason}");
    }
}

#[test]
fn copies_are_compared_with_cp() {
    if let Some(place) = daemons().first() {
        let report = row("put_10k", &mut place.command([""; 0]));
        check_measured(&report);
        let arms = report["rows"].as_array().expect("rows").iter();
        let arms: Vec<_> = arms.map(|row| row["arm"].as_str()).collect();
        assert_eq!(arms, [Some("fusewire"), Some("cp")]);
        assert_eq!(report["ratios"][0]["name"], "put_10k_vs_cp");
    }
}

#[test]
fn what_is_wrong_is_said_before_anything_runs() {
    let done = bench(&["core", "--only", "nothing"]);
    assert!(done.one_line(1).contains("getattr_vhost"), "{}", done.err);
    let done = bench(&["core", "--json", "/none/of/this"]);
    assert!(done.one_line(1).contains("/none/of/this"), "{}", done.err);
    assert!(done.out.is_empty());
    let done = bench(&["nothing"]);
    assert!(done.one_line(2).contains("core"), "{}", done.err);
}
