//! Everything that continuous integration checks.

use std::time::{Duration, Instant};

use crate::models::Model;
use crate::peers::Need;
use crate::process::{Result, Totals, run};
use crate::test::Size;
use crate::workspace::cargo;
use crate::{deny, docs, fuzz, lint, models, peers, test, tidy};

/// A check that counts tests says how many.
type Check = fn() -> Result<Option<Totals>>;

/// The quick ones first.
const STEPS: [(&str, Check); 11] = [
    ("fmt", || lint::fmt().map(|()| None)),
    ("tidy", || tidy::check().map(|()| None)),
    ("peers", || peers::install().map(|()| None)),
    ("clippy", || lint::clippy().map(|()| None)),
    ("docs", || docs::build().map(|()| None)),
    ("deny", || deny::check().map(|()| None)),
    ("run", || first_command().map(|()| None)),
    ("loom", || models::check(Model::Loom).map(Some)),
    ("shuttle", || models::check(Model::Shuttle).map(Some)),
    ("fuzz", || {
        fuzz::all(fuzz::SHORT_SECONDS, &[]).map(|()| None)
    }),
    ("test", || test::all(&[], Need::All, Size::Short).map(Some)),
];

/// What the README tells a newcomer to type first.
fn first_command() -> Result {
    run(cargo("run").args(["--release", "--", "ls", "-l", "-s", "dir:.", "/"]))
}

struct Outcome {
    name: &'static str,
    duration: Duration,
    result: Result<Option<Totals>>,
}

/// Runs every step, also after a failure, and fails if one did.
pub(crate) fn all() -> Result {
    let outcomes = STEPS.map(|(name, check)| {
        println!("\n=== {name}");
        let start = Instant::now();
        let result = check();
        if let Err(error) = &result {
            println!("{name} FAILED: {error}");
        }
        Outcome {
            name,
            duration: start.elapsed(),
            result,
        }
    });
    println!("\n{}", table(&outcomes));
    let failed: Vec<&str> = outcomes
        .iter()
        .filter(|outcome| outcome.result.is_err())
        .map(|outcome| outcome.name)
        .collect();
    match failed.is_empty() {
        true => {
            println!("{}", totals(&outcomes));
            Ok(())
        }
        false => Err(format!("failed: {}", failed.join(", "))),
    }
}

fn table(outcomes: &[Outcome]) -> String {
    let mut table = String::new();
    for outcome in outcomes {
        let state = match &outcome.result {
            Ok(Some(totals)) => format!("ok      {totals}"),
            Ok(None) => "ok".to_owned(),
            Err(_) => "FAILED".to_owned(),
        };
        let seconds = outcome.duration.as_secs_f64();
        table.push_str(&format!("{:<8} {seconds:>7.1} s  {state}\n", outcome.name));
    }
    let total: Duration = outcomes.iter().map(|outcome| outcome.duration).sum();
    table.push_str(&format!("{:<8} {:>7.1} s\n", "total", total.as_secs_f64()));
    table
}

fn totals(outcomes: &[Outcome]) -> Totals {
    let mut totals = Totals::default();
    for outcome in outcomes {
        if let Ok(Some(counted)) = &outcome.result {
            totals.add(*counted);
        }
    }
    totals
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_names_each_step_with_its_time_and_state() {
        let counted = Totals {
            passed: 7,
            ..Totals::default()
        };
        let outcomes = [
            Outcome {
                name: "fmt",
                duration: Duration::from_millis(1500),
                result: Err("not formatted".to_owned()),
            },
            Outcome {
                name: "test",
                duration: Duration::from_secs(60),
                result: Ok(Some(counted)),
            },
        ];
        let table = table(&outcomes);
        assert!(table.contains("fmt          1.5 s  FAILED"), "{table}");
        assert!(
            table.contains("test        60.0 s  ok      7 passed"),
            "{table}"
        );
        assert!(table.contains("total       61.5 s"), "{table}");
        assert_eq!(totals(&outcomes), counted);
    }
}
