//! How every campaign measures: arms in turn, a fresh session for each sample.
//!
//! A *row* is a question, its *arms* are the ways to be compared. Round by round, each arm runs one
//! session, forwards in one round and backwards in the next (A B, B A, …), so that what changes
//! slowly on the machine meets all arms alike. The first round warms up and is not counted.

use super::Bench;
use super::placement::{Cpus, Placement};
use super::report::{self, Ratio, State};
use super::stats::{Rng, drift, median, median_interval, quantile, ratio, ratio_interval};
use rustix::io::Errno;

/// Largest change between the halves of a measurement at which it still counts.
const MAX_DRIFT: f64 = 0.10;

/// A campaign: rows that are reported together.
pub struct Campaign {
    pub name: &'static str,
    pub rows: &'static [Row],
}

/// A question, as far as it is known before anything runs.
pub struct Row {
    pub name: &'static str,
    pub placements: &'static [Placement],
    pub metrics: &'static [Metric],
    pub arms: &'static [&'static str],
    pub comparisons: &'static [Comparison],
    /// Makes ready what all sessions of the row share, and returns a session for each arm.
    pub prepare: fn(&Bench, &Cpus) -> Result<Vec<Session>, Problem>,
}

/// Runs one fresh session of an arm and returns a value for each metric.
pub type Session = Box<dyn FnMut() -> Result<Vec<f64>, Problem>>;

/// What a session measures.
#[derive(Debug)]
pub struct Metric {
    pub name: &'static str,
    pub unit: &'static str,
    pub better: Better,
}

/// Which values are the good ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Better {
    Lower,
    Higher,
}

/// How much better one arm is than another.
#[derive(Debug)]
pub struct Comparison {
    pub name: &'static str,
    pub metric: &'static str,
    pub first: &'static str,
    pub second: &'static str,
    /// Least value that meets our goal.
    pub goal: Option<f64>,
    /// What was published of the system that this is modelled on.
    pub report: Option<f64>,
    pub floor: Option<Floor>,
}

/// What the second arm of a comparison must reach for it to count: so much of the speed of a third.
#[derive(Debug)]
pub struct Floor {
    pub of: &'static str,
    pub at_least: f64,
}

/// Why there is no figure.
#[derive(Debug, PartialEq, Eq)]
pub enum Problem {
    /// It cannot be had here; the campaign goes on.
    Skip(String),
    /// Something went wrong; the campaign ends.
    Failed(String),
    /// A signal asked for the end.
    Stopped { signal: i32 },
}

impl Problem {
    /// An error, and what could not be done.
    pub fn failed<E: std::fmt::Display>(what: impl std::fmt::Display) -> impl FnOnce(E) -> Problem {
        move |error| Problem::Failed(format!("{what}: {error}"))
    }
}

impl From<Errno> for Problem {
    /// The system refuses a placement.
    fn from(errno: Errno) -> Self {
        Problem::Failed(format!("cannot choose the CPUs to run on: {errno}"))
    }
}

/// Rows and ratios of one row at one placement.
#[derive(Debug, Default)]
pub struct Findings {
    pub rows: Vec<report::Row>,
    pub ratios: Vec<Ratio>,
}

/// Samples by arm, metric and round.
type Samples = Vec<Vec<Vec<f64>>>;

/// Comparisons name what their row has; a test goes through all campaigns.
const NAMES: &str = "a comparison names arms and metrics of its row";

impl Row {
    fn metric(&self, name: &str) -> &Metric {
        let metric = self.metrics.iter().find(|metric| metric.name == name);
        metric.expect(NAMES)
    }

    /// Sessions that [`measure`] will run for one placement.
    pub fn sessions(&self, bench: &Bench) -> usize {
        self.arms.len() * (1 + bench.rounds())
    }
}

/// Measures a row at one placement.
///
/// # Errors
/// [`Problem::Failed`] and [`Problem::Stopped`]; what cannot be had here is in the findings.
pub fn measure(row: &Row, placement: Placement, bench: &Bench) -> Result<Findings, Problem> {
    let samples = placement
        .cpus()
        .map_err(Problem::Skip)
        .and_then(|cpus| (row.prepare)(bench, &cpus))
        .and_then(|sessions| run_sessions(row, sessions, bench));
    match samples {
        Ok(samples) => Ok(evaluate(row, placement, &samples, bench.seed)),
        Err(Problem::Skip(reason)) => Ok(skipped(row, placement, &reason)),
        Err(problem) => Err(problem),
    }
}

fn run_sessions(row: &Row, mut sessions: Vec<Session>, bench: &Bench) -> Result<Samples, Problem> {
    let mut samples = vec![vec![Vec::new(); row.metrics.len()]; row.arms.len()];
    for round in 0..=bench.rounds() {
        for arm in order(round, sessions.len()) {
            bench.check_running()?;
            let values = sessions[arm]().map_err(|problem| match &problem {
                // The signal may have reached a program that we had started.
                Problem::Failed(_) => bench.check_running().err().unwrap_or(problem),
                _ => problem,
            })?;
            if round > 0 {
                for (samples, value) in samples[arm].iter_mut().zip(values) {
                    samples.push(value);
                }
            }
            bench.progress.inc(1);
        }
    }
    Ok(samples)
}

/// Which arm comes when.
fn order(round: usize, arms: usize) -> Vec<usize> {
    let mut order: Vec<usize> = (0..arms).collect();
    if round % 2 == 1 {
        order.reverse();
    }
    order
}

fn skipped(row: &Row, placement: Placement, reason: &str) -> Findings {
    let nothing = vec![vec![Vec::new(); row.metrics.len()]; row.arms.len()];
    let mut findings = evaluate(row, placement, &nothing, 0);
    let state = State::Skipped {
        reason: reason.to_owned(),
    };
    let rows = findings.rows.iter_mut().map(|row| &mut row.state);
    let ratios = findings.ratios.iter_mut().map(|ratio| &mut ratio.state);
    rows.chain(ratios).for_each(|it| *it = state.clone());
    findings
}

fn evaluate(row: &Row, placement: Placement, samples: &Samples, seed: u64) -> Findings {
    let mut rng = Rng::new(seed);
    let mut findings = Findings::default();
    for (arm, samples) in row.arms.iter().zip(samples) {
        for (metric, samples) in row.metrics.iter().zip(samples) {
            let drift = drift(samples);
            let state = if drift.abs() > MAX_DRIFT {
                State::Drift
            } else {
                State::Ok
            };
            findings.rows.push(report::Row {
                row: row.name,
                arm,
                placement,
                metric: metric.name,
                unit: metric.unit,
                samples: samples.clone(),
                median: median(samples),
                p90: quantile(samples, 0.9),
                ci95: median_interval(samples, &mut rng),
                drift,
                state,
            });
        }
    }
    let compared = row.comparisons.iter();
    findings.ratios = compared
        .map(|comparison| compare(comparison, row, placement, &findings.rows, &mut rng))
        .collect();
    findings
}

fn compare(
    comparison: &Comparison,
    row: &Row,
    placement: Placement,
    rows: &[report::Row],
    rng: &mut Rng,
) -> Ratio {
    let metric = row.metric(comparison.metric);
    let arm = |name| {
        let named = |it: &&report::Row| it.arm == name && it.metric == metric.name;
        rows.iter().find(named).expect(NAMES)
    };
    let (first, second) = (arm(comparison.first), arm(comparison.second));
    let advantage = |first: &report::Row, second: &report::Row| match metric.better {
        Better::Higher => ratio(first.median, second.median),
        Better::Lower => ratio(second.median, first.median),
    };
    let ci95 = match metric.better {
        Better::Higher => ratio_interval(&first.samples, &second.samples, rng),
        Better::Lower => ratio_interval(&second.samples, &first.samples, rng),
    };
    let reaches = |floor: &Floor| advantage(second, arm(floor.of)) >= floor.at_least;
    let [low, high] = ci95;
    let state = if [first, second].iter().any(|row| row.state == State::Drift) {
        State::Drift
    } else if !comparison.floor.as_ref().is_none_or(reaches) {
        State::InvalidBaseline
    } else if comparison
        .goal
        .is_some_and(|goal| low < goal && goal <= high)
    {
        State::Undecided
    } else {
        State::Ok
    };
    Ratio {
        name: comparison.name,
        placement,
        value: advantage(first, second),
        ci95,
        report: comparison.report,
        state,
        goal: comparison.goal,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench::CAMPAIGNS;

    const ROW: Row = Row {
        name: "row",
        placements: &[Placement::Unpinned],
        metrics: &[
            Metric {
                name: "time",
                unit: "µs",
                better: Better::Lower,
            },
            Metric {
                name: "speed",
                unit: "MiB/s",
                better: Better::Higher,
            },
        ],
        arms: &["ours", "theirs", "bare"],
        comparisons: &[
            Comparison {
                name: "in_time",
                metric: "time",
                first: "ours",
                second: "theirs",
                goal: Some(2.0),
                report: Some(1.7),
                floor: Some(Floor {
                    of: "bare",
                    at_least: 0.5,
                }),
            },
            Comparison {
                name: "in_speed",
                metric: "speed",
                first: "ours",
                second: "theirs",
                goal: None,
                report: None,
                floor: None,
            },
        ],
        prepare: |_, _| Ok(Vec::new()),
    };

    /// Twelve samples each of time and speed, for ours, theirs and bare.
    fn evaluated(times: [f64; 3], speeds: [f64; 3]) -> Findings {
        let around = |middle: f64| {
            let sample = |n: i32| middle * (1.0 + f64::from(n % 3 - 1) / 100.0);
            (0..12).map(sample).collect()
        };
        let arm = |(time, speed)| vec![around(time), around(speed)];
        let samples = times.into_iter().zip(speeds).map(arm).collect();
        evaluate(&ROW, Placement::Unpinned, &samples, 1)
    }

    fn close(found: f64, expected: f64) {
        assert!((found - expected).abs() < 1e-9, "{found} is not {expected}");
    }

    #[test]
    fn a_ratio_above_one_is_better_whatever_is_measured() {
        let Findings { rows, ratios } = evaluated([10.0, 25.0, 20.0], [30.0, 10.0, 0.0]);
        assert_eq!(rows.len(), 6);
        assert!(rows.iter().all(|row| row.state == State::Ok), "{rows:?}");
        close(ratios[0].value, 2.5);
        close(ratios[1].value, 3.0);
        assert_eq!(ratios[0].report, Some(1.7));
        assert_eq!(ratios[0].state, State::Ok);
        let [low, high] = ratios[0].ci95;
        assert!(
            2.4 < low && low < 2.5 && 2.5 < high && high < 2.6,
            "{low} {high}"
        );
    }

    #[test]
    fn a_goal_within_the_interval_is_undecided() {
        let state = |ours| {
            evaluated([ours, 20.0, 20.0], [1.0; 3]).ratios[0]
                .state
                .clone()
        };
        assert_eq!(state(10.0), State::Undecided);
        assert_eq!(state(5.0), State::Ok);
        assert_eq!(state(15.0), State::Ok, "missed, but for certain");
    }

    #[test]
    fn an_arm_made_slow_is_no_baseline() {
        // Theirs takes more than twice the time of the bare one.
        let Findings { ratios, .. } = evaluated([10.0, 41.0, 20.0], [1.0; 3]);
        assert_eq!(ratios[0].state, State::InvalidBaseline);
        assert_eq!(ratios[1].state, State::Ok);
    }

    #[test]
    fn drift_of_an_arm_spoils_its_ratios_only() {
        let steady = vec![10.0; 8];
        let drifting = [vec![10.0; 4], vec![11.5; 4]].concat();
        let samples = vec![
            vec![drifting, steady.clone()],
            vec![steady.clone(), steady.clone()],
            vec![steady.clone(), steady],
        ];
        let Findings { rows, ratios } = evaluate(&ROW, Placement::Unpinned, &samples, 1);
        assert_eq!(rows[0].state, State::Drift);
        close(rows[0].drift, 0.15);
        assert_eq!(ratios[0].state, State::Drift);
        assert_eq!(ratios[1].state, State::Ok);
    }

    #[test]
    fn the_same_seed_gives_the_same_intervals() {
        let run = || evaluated([10.0, 25.0, 20.0], [30.0, 10.0, 5.0]);
        assert_eq!(run().rows, run().rows);
        assert_eq!(run().ratios, run().ratios);
    }

    #[test]
    fn what_is_skipped_is_reported_with_its_reason() {
        let Findings { rows, ratios } = skipped(&ROW, Placement::TwoCpus, "there is no daemon");
        assert_eq!((rows.len(), ratios.len()), (6, 2));
        let reason = State::Skipped {
            reason: "there is no daemon".to_owned(),
        };
        assert!(
            rows.iter()
                .all(|row| row.state == reason && row.samples.is_empty())
        );
        assert!(ratios.iter().all(|ratio| ratio.state == reason));
    }

    #[test]
    fn arms_take_turns_forwards_and_backwards() {
        assert_eq!(order(0, 3), [0, 1, 2]);
        assert_eq!(order(1, 3), [2, 1, 0]);
        assert_eq!(order(2, 3), [0, 1, 2]);
    }

    #[test]
    fn comparisons_name_arms_and_metrics_of_their_row() {
        for row in CAMPAIGNS.iter().flat_map(|campaign| campaign.rows) {
            for comparison in row.comparisons {
                let floor = comparison.floor.as_ref().map(|floor| floor.of);
                for arm in [comparison.first, comparison.second]
                    .into_iter()
                    .chain(floor)
                {
                    assert!(row.arms.contains(&arm), "{}: {arm}", comparison.name);
                }
                row.metric(comparison.metric);
            }
        }
    }
}
