//! `fusewire bench`: campaigns of measurements, all with one harness and one form of report.

mod copies;
mod getattr;
mod harness;
mod machine;
mod ping;
mod placement;
mod report;
mod stats;
mod tree;

use crate::interrupt::{Ending, Interrupt, exit_code};
use crate::report::{line, shown};
use clap::Args;
use clap::builder::PossibleValuesParser;
use harness::{Campaign, Problem, Row};
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use machine::Machine;
use report::Report;
use std::fs::Permissions;
use std::io::{self, IsTerminal, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use tempfile::{NamedTempFile, TempDir};

/// All campaigns.
const CAMPAIGNS: &[Campaign] = &[Campaign {
    name: "core",
    rows: &[
        getattr::VHOST,
        getattr::INPROC,
        copies::GET_LARGE,
        copies::PUT_LARGE,
        copies::GET_SMALL,
        copies::PUT_SMALL,
    ],
}];

/// Counted sessions of each arm.
const ROUNDS: Size = Size { full: 16, quick: 4 };

/// A machine that is busier than this gives figures that mean little.
const MAX_LOAD: f64 = 1.0;

/// Measure fusewire on this machine
///
/// Daemons are started and files made as needed, the files below the directory for temporary ones
/// ($TMPDIR). Options of other commands have no effect.
#[derive(Args, Debug)]
pub struct Arguments {
    /// What to measure
    #[arg(value_parser = PossibleValuesParser::new(CAMPAIGNS.iter().map(|campaign| campaign.name)))]
    campaign: String,
    /// Smaller files and fewer rounds, for a first look
    #[arg(long)]
    quick: bool,
    /// Measure this row only
    #[arg(long, value_name = "ROW")]
    only: Option<String>,
    /// Write everything found, with all samples, to this file
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Seed of the files' contents and of the intervals
    #[arg(long, default_value_t = 1)]
    seed: u64,
}

/// A number for a whole run and for a quick one.
struct Size {
    full: usize,
    quick: usize,
}

/// What all measurements of a run share.
struct Bench {
    quick: bool,
    seed: u64,
    /// Name and version of the daemon that is measured with, or why there is none.
    daemon: Result<String, String>,
    files: TempDir,
    progress: ProgressBar,
    interrupt: Interrupt,
}

impl Bench {
    fn size(&self, size: &Size) -> usize {
        if self.quick { size.quick } else { size.full }
    }

    fn rounds(&self) -> usize {
        self.size(&ROUNDS)
    }

    fn check_running(&self) -> Result<(), Problem> {
        match self.interrupt.signal() {
            Some(signal) => Err(Problem::Stopped { signal }),
            None => Ok(()),
        }
    }

    /// For rows that need the daemon.
    fn check_daemon(&self) -> Result<(), Problem> {
        self.daemon.clone().map(drop).map_err(Problem::Skip)
    }
}

/// Runs a campaign and returns the exit status.
pub fn run(arguments: &Arguments) -> i32 {
    let name = format!("bench {}", arguments.campaign);
    match campaign(arguments) {
        Ok(()) => 0,
        Err(Problem::Stopped { signal }) => {
            line(Some(&name), "interrupted; nothing was kept");
            exit_code(signal)
        }
        Err(Problem::Failed(what) | Problem::Skip(what)) => {
            line(Some(&name), &what);
            1
        }
    }
}

fn campaign(arguments: &Arguments) -> Result<(), Problem> {
    let campaign = CAMPAIGNS
        .iter()
        .find(|campaign| campaign.name == arguments.campaign)
        .ok_or_else(|| Problem::Failed("there is no such campaign".to_owned()))?;
    let rows = choose(campaign, arguments.only.as_deref())?;
    let json = arguments
        .json
        .as_deref()
        .map(JsonFile::create)
        .transpose()?;
    let bench = prepare(arguments, &rows)?;

    let machine = Machine::new(&bench.daemon);
    let mut out = io::stdout().lock();
    let mut print = |text: &dyn std::fmt::Display| {
        writeln!(out, "{text}")
            .map_err(|error| Problem::Failed(format!("cannot write the output: {error}")))
    };
    print(&introduction(campaign, &machine, &bench))?;

    let mut report = Report {
        campaign: campaign.name,
        commit: machine::commit(),
        seed: bench.seed,
        machine,
        rows: Vec::new(),
        ratios: Vec::new(),
    };
    for row in rows {
        for placement in row.placements {
            bench
                .progress
                .set_message(format!("{} {}", row.name, placement.name()));
            let mut findings = harness::measure(row, *placement, &bench)?;
            report.rows.append(&mut findings.rows);
            report.ratios.append(&mut findings.ratios);
        }
    }
    bench.progress.finish_and_clear();
    print(&report)?;
    match json {
        Some(json) => json.write(&report),
        None => Ok(()),
    }
}

/// The rows to be measured.
fn choose(campaign: &Campaign, only: Option<&str>) -> Result<Vec<&'static Row>, Problem> {
    let Some(only) = only else {
        return Ok(campaign.rows.iter().collect());
    };
    match campaign.rows.iter().find(|row| row.name == only) {
        Some(row) => Ok(vec![row]),
        None => {
            let names: Vec<&str> = campaign.rows.iter().map(|row| row.name).collect();
            let text = format!("there is no row {only}; choose of {}", names.join(", "));
            Err(Problem::Failed(text))
        }
    }
}

fn prepare(arguments: &Arguments, rows: &[&Row]) -> Result<Bench, Problem> {
    let interrupt = Interrupt::install().map_err(Problem::failed("cannot wait for signals"))?;
    // Files and daemons are ours to remove.
    interrupt.command_begins(Ending::WindsDown, None);
    let files = tempfile::Builder::new()
        .prefix("fusewire-bench-")
        .tempdir()
        .map_err(Problem::failed("cannot make a directory for files"))?;
    let bench = Bench {
        quick: arguments.quick,
        seed: arguments.seed,
        daemon: machine::virtiofsd(files.path()),
        files,
        progress: progress_bar(),
        interrupt,
    };
    let sessions: usize = rows
        .iter()
        .map(|row| row.placements.len() * row.sessions(&bench))
        .sum();
    bench.progress.set_length(sessions as u64);
    Ok(bench)
}

/// A bar on standard error, if that is a terminal.
fn progress_bar() -> ProgressBar {
    if !io::stderr().is_terminal() {
        return ProgressBar::hidden();
    }
    let bar = ProgressBar::with_draw_target(Some(0), ProgressDrawTarget::stderr());
    let style = ProgressStyle::with_template("{wide_bar} {pos}/{len} {eta} {msg}");
    bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()));
    bar
}

/// What is measured and on what, and what speaks against believing it.
fn introduction(campaign: &Campaign, machine: &Machine, bench: &Bench) -> String {
    let Machine {
        cpus,
        kernel,
        daemon,
    } = machine;
    let files = bench.files.path();
    let kind = machine::file_system(files).unwrap_or_else(|| "an unknown file system".to_owned());
    let load = machine::load();
    let mut text = format!(
        "{} on {cpus} CPUs, Linux {kernel}, {daemon}, files on {kind}, load {}, seed {}, {} rounds\n",
        campaign.name,
        load.map_or("unknown".to_owned(), |load| format!("{load:.2}")),
        bench.seed,
        bench.rounds(),
    );
    if load.is_some_and(|load| load > MAX_LOAD) {
        text.push_str(
            "NOTE: the machine is busy with something else; repeat this when it is not\n",
        );
    }
    if cfg!(debug_assertions) {
        text.push_str("NOTE: this is a debug build; its figures say nothing about fusewire\n");
    }
    text
}

/// The report for programs: it appears under its name when it is complete.
struct JsonFile {
    path: PathBuf,
    file: NamedTempFile,
}

impl JsonFile {
    /// Made before anything is measured, so that a wrong path costs no time.
    fn create(path: &Path) -> Result<Self, Problem> {
        let directory = match path.parent() {
            Some(above) if !above.as_os_str().is_empty() => above,
            _ => Path::new("."),
        };
        let file = tempfile::Builder::new()
            .permissions(Permissions::from_mode(0o666))
            .tempfile_in(directory)
            .map_err(Problem::failed(format!("cannot write {}", shown(path))))?;
        let path = path.to_owned();
        Ok(JsonFile { path, file })
    }

    fn write(mut self, report: &Report) -> Result<(), Problem> {
        let failed = Problem::failed(format!("cannot write {}", shown(&self.path)));
        serde_json::to_writer(&mut self.file, report)
            .map_err(io::Error::from)
            .and_then(|()| self.file.write_all(b"\n"))
            .and_then(|()| self.file.persist(&self.path).map(drop).map_err(|e| e.error))
            .map_err(failed)
    }
}
