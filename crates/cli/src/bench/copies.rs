//! Whole commands that copy files, against cp.
//!
//! Both arms copy the same files of one file system to a new place of it. What is copied is in the
//! page cache; nothing is at the target; what was written before has been written back, and neither
//! arm waits for its own data to be. A command's time is that of its process, and fusewire's
//! contains starting and ending its daemon. What arrived is compared by a hash after the time was
//! taken.

use super::harness::{Better, Comparison, Metric, Problem, Row, Session};
use super::placement::{Cpus, Placement};
use super::stats::Rng;
use super::{Bench, Size, tree};
use std::ffi::{OsStr, OsString};
use std::fs::{self, File};
use std::io;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::rc::Rc;
use std::time::Instant;
use tempfile::TempDir;

const LARGE_MIB: Size = Size {
    full: 1024,
    quick: 128,
};

/// Directories of [`FILES_EACH`] files.
const DIRECTORIES: Size = Size {
    full: 100,
    quick: 20,
};

const FILES_EACH: usize = 100;

const SMALL_BYTES: Range<usize> = 1024..8193;

/// What is copied is called this, in its directory and in the target's.
const NAME: &str = "data";

const THROUGHPUT: &[Metric] = &[Metric {
    name: "throughput",
    unit: "MiB/s",
    better: Better::Higher,
}];

const FILE_RATE: &[Metric] = &[Metric {
    name: "throughput",
    unit: "files/s",
    better: Better::Higher,
}];

/// Least share of cp's throughput.
const LARGE_GOAL: f64 = 0.7;
const SMALL_GOAL: f64 = 0.3;

const ARMS: &[&str] = &["fusewire", "cp"];

const fn against_cp(name: &'static str, goal: f64) -> Comparison {
    Comparison {
        name,
        metric: "throughput",
        first: "fusewire",
        second: "cp",
        goal: Some(goal),
        report: None,
        floor: None,
    }
}

/// One large file from the daemon.
pub const GET_LARGE: Row = Row {
    name: "get_1g",
    placements: &[Placement::Unpinned],
    metrics: THROUGHPUT,
    arms: ARMS,
    comparisons: &[against_cp("get_1g_vs_cp", LARGE_GOAL)],
    prepare: |bench, cpus| sessions(bench, cpus, Direction::Get, Files::large),
};

/// One large file to the daemon.
pub const PUT_LARGE: Row = Row {
    name: "put_1g",
    comparisons: &[against_cp("put_1g_vs_cp", LARGE_GOAL)],
    prepare: |bench, cpus| sessions(bench, cpus, Direction::Put, Files::large),
    ..GET_LARGE
};

/// A tree of small files from the daemon.
pub const GET_SMALL: Row = Row {
    name: "get_10k",
    placements: &[Placement::Unpinned],
    metrics: FILE_RATE,
    arms: ARMS,
    comparisons: &[against_cp("get_10k_vs_cp", SMALL_GOAL)],
    prepare: |bench, cpus| sessions(bench, cpus, Direction::Get, Files::small),
};

/// A tree of small files to the daemon.
pub const PUT_SMALL: Row = Row {
    name: "put_10k",
    comparisons: &[against_cp("put_10k_vs_cp", SMALL_GOAL)],
    prepare: |bench, cpus| sessions(bench, cpus, Direction::Put, Files::small),
    ..GET_SMALL
};

#[derive(Clone, Copy)]
enum Direction {
    Get,
    Put,
}

/// What is copied, and where to.
struct Files {
    _dir: TempDir,
    source: PathBuf,
    target: PathBuf,
    hash: u64,
    /// How much it is, in the unit of the row's metric.
    amount: f64,
    recursive: bool,
}

impl Files {
    fn large(bench: &Bench) -> io::Result<Files> {
        let mib = bench.size(&LARGE_MIB);
        Files::make(bench, mib as f64, false, |path, rng| {
            tree::make_file(path, mib << 20, rng)
        })
    }

    fn small(bench: &Bench) -> io::Result<Files> {
        let directories = bench.size(&DIRECTORIES);
        let count = directories * FILES_EACH;
        Files::make(bench, count as f64, true, |path, rng| {
            tree::make_tree(path, (directories, FILES_EACH), SMALL_BYTES, rng)
        })
    }

    fn make(
        bench: &Bench,
        amount: f64,
        recursive: bool,
        make: impl FnOnce(&Path, &mut Rng) -> io::Result<()>,
    ) -> io::Result<Files> {
        let dir = tempfile::tempdir_in(bench.files.path())?;
        let [source, target] = ["source", "target"].map(|name| dir.path().join(name));
        fs::create_dir(&source)?;
        fs::create_dir(&target)?;
        let data = source.join(NAME);
        make(&data, &mut Rng::new(bench.seed))?;
        Ok(Files {
            hash: tree::hash(&data)?,
            _dir: dir,
            source,
            target,
            amount,
            recursive,
        })
    }

    /// Removes what was copied before and has it, and all else, written back.
    fn clear(&self) -> io::Result<()> {
        let copy = self.target.join(NAME);
        if copy.is_dir() {
            fs::remove_dir_all(&copy)?;
        } else if copy.exists() {
            fs::remove_file(&copy)?;
        }
        rustix::fs::syncfs(File::open(&self.target)?)?;
        Ok(())
    }

    fn check(&self) -> Result<(), Problem> {
        let found = tree::hash(&self.target.join(NAME)).map_err(file_problem)?;
        if found != self.hash {
            return Err(Problem::Failed(
                "the copy is not like the original".to_owned(),
            ));
        }
        Ok(())
    }

    fn cp(&self) -> Command {
        let mut command = Command::new("cp");
        if self.recursive {
            command.arg("-r");
        }
        command.arg(self.source.join(NAME)).arg(&self.target);
        command
    }

    fn fusewire(&self, direction: Direction) -> io::Result<Command> {
        let mut command = Command::new(std::env::current_exe()?);
        let in_daemon = Path::new("/").join(NAME);
        let on_host = self.source.join(NAME);
        let (verb, served, from, to) = match direction {
            Direction::Get => ("get", &self.source, in_daemon, self.target.clone()),
            Direction::Put => ("put", &self.target, on_host, PathBuf::from("/")),
        };
        let served: OsString = [OsStr::new("virtiofsd:"), served.as_os_str()]
            .into_iter()
            .collect();
        command.arg("-s").arg(served).arg(verb);
        if self.recursive {
            command.arg("-r");
        }
        command.arg(from).arg(to);
        Ok(command)
    }
}

fn file_problem(error: io::Error) -> Problem {
    Problem::Failed(format!("files for the measurement: {error}"))
}

fn sessions(
    bench: &Bench,
    cpus: &Cpus,
    direction: Direction,
    make: fn(&Bench) -> io::Result<Files>,
) -> Result<Vec<Session>, Problem> {
    bench.check_daemon()?;
    let files = Rc::new(make(bench).map_err(file_problem)?);
    let session = |command: fn(&Files, Direction) -> io::Result<Command>| -> Session {
        let (files, cpus) = (Rc::clone(&files), cpus.clone());
        Box::new(move || {
            files.clear().map_err(file_problem)?;
            let command = command(&files, direction).map_err(file_problem)?;
            let seconds = cpus.on_client(|| time(command))??;
            files.check()?;
            Ok(vec![files.amount / seconds])
        })
    };
    Ok(vec![
        session(Files::fusewire),
        session(|files, _| Ok(files.cp())),
    ])
}

/// Runs a command to its end and returns how many seconds it took.
fn time(mut command: Command) -> Result<f64, Problem> {
    command
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::piped());
    let program = Path::new(command.get_program()).display().to_string();
    let start = Instant::now();
    let output = command
        .output()
        .map_err(|error| Problem::Failed(format!("cannot start {program}: {error}")))?;
    let seconds = start.elapsed().as_secs_f64();
    if !output.status.success() {
        let words = String::from_utf8_lossy(&output.stderr);
        let text = format!("{program} ended with {}: {}", output.status, words.trim());
        return Err(Problem::Failed(text));
    }
    Ok(seconds)
}
