//! The one form that all campaigns report in: JSON for programs, tables for people.

use super::machine::Machine;
use super::placement::Placement;
use serde::Serialize;
use std::fmt;

/// What a campaign has found.
#[derive(Debug, Serialize)]
pub struct Report {
    pub campaign: &'static str,
    pub commit: String,
    pub seed: u64,
    pub machine: Machine,
    pub rows: Vec<Row>,
    pub ratios: Vec<Ratio>,
}

/// One metric of one arm: a sample for each session.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Row {
    pub row: &'static str,
    pub arm: &'static str,
    pub placement: Placement,
    pub metric: &'static str,
    pub unit: &'static str,
    pub samples: Vec<f64>,
    pub median: f64,
    pub p90: f64,
    pub ci95: [f64; 2],
    pub drift: f64,
    #[serde(flatten)]
    pub state: State,
}

/// How much better one arm is than another; above 1 is better.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Ratio {
    pub name: &'static str,
    pub placement: Placement,
    pub value: f64,
    pub ci95: [f64; 2],
    /// What was published of the system that the comparison is modelled on.
    pub report: Option<f64>,
    #[serde(flatten)]
    pub state: State,
    /// Least value that meets our goal, if there is one.
    #[serde(skip)]
    pub goal: Option<f64>,
}

/// Whether a figure counts.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(tag = "state", rename_all = "snake_case")]
pub enum State {
    Ok,
    /// The machine changed under the measurement.
    Drift,
    /// The goal lies within the interval: more sessions are needed to tell.
    Undecided,
    /// The slower arm is slower than it has to be.
    InvalidBaseline,
    /// There was nothing to measure.
    Skipped {
        reason: String,
    },
}

impl State {
    fn text(&self) -> String {
        match self {
            State::Ok => "ok".to_owned(),
            State::Drift => "drift".to_owned(),
            State::Undecided => "undecided".to_owned(),
            State::InvalidBaseline => "invalid_baseline".to_owned(),
            State::Skipped { reason } => format!("skipped: {reason}"),
        }
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let rows = self.rows.iter().map(|row| {
            vec![
                row.row.to_owned(),
                row.arm.to_owned(),
                row.placement.name().to_owned(),
                format!("{}, {}", row.metric, row.unit),
                row.samples.len().to_string(),
                number(row.median),
                number(row.p90),
                interval(row.ci95),
                format!("{:+.1} %", row.drift * 100.0),
                row.state.text(),
            ]
        });
        let titles = [
            "row",
            "arm",
            "placement",
            "metric",
            "n",
            "median",
            "p90",
            "95 %",
            "drift",
            "state",
        ];
        write_table(f, &titles, rows)?;
        writeln!(f)?;
        let ratios = self.ratios.iter().map(|ratio| {
            vec![
                ratio.name.to_owned(),
                ratio.placement.name().to_owned(),
                number(ratio.value),
                interval(ratio.ci95),
                ratio
                    .goal
                    .map_or("-".to_owned(), |goal| format!("≥ {goal:.2}")),
                ratio.report.map_or("-".to_owned(), number),
                ratio.state.text(),
            ]
        });
        let titles = [
            "ratio, > 1 is better",
            "placement",
            "value",
            "95 %",
            "goal",
            "published",
            "state",
        ];
        write_table(f, &titles, ratios)
    }
}

/// Three significant digits, or all before the point.
fn number(value: f64) -> String {
    let digits = match value.abs() {
        size if size >= 100.0 => 0,
        size if size >= 10.0 => 1,
        _ => 2,
    };
    format!("{value:.digits$}")
}

fn interval([low, high]: [f64; 2]) -> String {
    format!("{}..{}", number(low), number(high))
}

/// Left-aligned columns, each as wide as its widest cell.
fn write_table(
    f: &mut fmt::Formatter<'_>,
    titles: &[&str],
    rows: impl Iterator<Item = Vec<String>>,
) -> fmt::Result {
    let mut lines = vec![titles.iter().map(|title| (*title).to_owned()).collect()];
    lines.extend(rows);
    let width = |column: usize| {
        let cells = lines
            .iter()
            .map(|line: &Vec<String>| line[column].chars().count());
        cells.max().unwrap_or(0)
    };
    let widths: Vec<usize> = (0..titles.len()).map(width).collect();
    for line in &lines {
        let cells = line.iter().zip(&widths);
        let line: String = cells
            .map(|(cell, width)| format!("{cell:width$}  "))
            .collect();
        writeln!(f, "{}", line.trim_end())?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn row(state: State) -> Row {
        Row {
            row: "seq_1m_cold",
            arm: "order9",
            placement: Placement::TwoCpus,
            metric: "throughput",
            unit: "MiB/s",
            samples: vec![1000.0, 1100.0],
            median: 1050.0,
            p90: 1090.0,
            ci95: [1000.0, 1100.0],
            drift: 0.1,
            state,
        }
    }

    fn ratio(report: Option<f64>, state: State) -> Ratio {
        Ratio {
            name: "order9_vs_order0_cold",
            placement: Placement::SameCpu,
            value: 1.5,
            ci95: [1.25, 1.75],
            report,
            state,
            goal: Some(1.0),
        }
    }

    fn report() -> Report {
        Report {
            campaign: "read",
            commit: "abc".to_owned(),
            seed: 1,
            machine: Machine {
                cpus: 2,
                kernel: "6.1".to_owned(),
                daemon: "virtiofsd 1".to_owned(),
            },
            rows: vec![row(State::Ok)],
            ratios: vec![ratio(Some(1.73), State::Undecided)],
        }
    }

    #[test]
    fn the_json_has_the_form_that_all_campaigns_share() {
        let expected = json!({
            "campaign": "read", "commit": "abc", "seed": 1,
            "machine": {"cpus": 2, "kernel": "6.1", "daemon": "virtiofsd 1"},
            "rows": [{
                "row": "seq_1m_cold", "arm": "order9", "placement": "two_cpus",
                "metric": "throughput", "unit": "MiB/s", "samples": [1000.0, 1100.0],
                "median": 1050.0, "p90": 1090.0, "ci95": [1000.0, 1100.0], "drift": 0.1,
                "state": "ok"
            }],
            "ratios": [{
                "name": "order9_vs_order0_cold", "placement": "same_cpu", "value": 1.5,
                "ci95": [1.25, 1.75], "report": 1.73, "state": "undecided"
            }]
        });
        assert_eq!(serde_json::to_value(report()).unwrap(), expected);
    }

    #[test]
    fn every_state_is_spelled_as_agreed_and_skipping_has_a_reason() {
        let state = |state| serde_json::to_value(ratio(None, state)).unwrap();
        for (it, name) in [
            (State::Drift, "drift"),
            (State::InvalidBaseline, "invalid_baseline"),
        ] {
            assert_eq!(state(it)["state"], name);
        }
        let skipped = state(State::Skipped {
            reason: "no".to_owned(),
        });
        assert_eq!(skipped["state"], "skipped");
        assert_eq!(skipped["reason"], "no");
        assert_eq!(skipped["report"], Value::Null);
    }

    #[test]
    fn the_tables_line_up() {
        let text = report().to_string();
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines.len(), 5, "{text}");
        assert_eq!(lines[0].find("placement"), lines[1].find("two_cpus"));
        assert!(lines[1].contains("1050"), "{text}");
        assert!(lines[4].contains("1.25..1.75"), "{text}");
        assert!(lines[4].contains("≥ 1.00"), "{text}");
    }
}
