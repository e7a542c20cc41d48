//! Whole commands that copy files, against cp.
//!
//! Both arms copy the same files of one file system into a new directory of it. What is copied is
//! in the page cache; what was written before has been written back, and neither arm waits for its
//! own data to be. A command's time is that of its process, and fusewire's contains starting and
//! ending its daemon. What arrived is compared by a hash after the time was taken.

use super::harness::{Better, Comparison, Metric, Problem, Row, Session};
use super::placement::{Cpus, Placement};
use super::stats::Rng;
use super::{Bench, Size, tree};
use std::cell::Cell;
use std::ffi::OsString;
use std::fs::{self, File};
use std::io;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::rc::Rc;
use std::time::Instant;

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
    prepare: |bench, cpus| sessions(bench, cpus, Kind::Large, Files::get),
};

/// One large file to the daemon.
pub const PUT_LARGE: Row = Row {
    name: "put_1g",
    comparisons: &[against_cp("put_1g_vs_cp", LARGE_GOAL)],
    prepare: |bench, cpus| sessions(bench, cpus, Kind::Large, Files::put),
    ..GET_LARGE
};

/// A tree of small files from the daemon.
pub const GET_SMALL: Row = Row {
    name: "get_10k",
    placements: &[Placement::Unpinned],
    metrics: FILE_RATE,
    arms: ARMS,
    comparisons: &[against_cp("get_10k_vs_cp", SMALL_GOAL)],
    prepare: |bench, cpus| sessions(bench, cpus, Kind::Small, Files::get),
};

/// A tree of small files to the daemon.
pub const PUT_SMALL: Row = Row {
    name: "put_10k",
    comparisons: &[against_cp("put_10k_vs_cp", SMALL_GOAL)],
    prepare: |bench, cpus| sessions(bench, cpus, Kind::Small, Files::put),
    ..GET_SMALL
};

/// What is copied.
struct Files {
    source: PathBuf,
    /// Where copies go, each session's into a directory of its own.
    targets: PathBuf,
    sessions: Cell<u32>,
    hash: u64,
    /// How much it is, in the unit of the row's metric.
    amount: f64,
    kind: Kind,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    /// One file.
    Large,
    /// A directory of directories of files.
    Small,
}

impl Files {
    fn make(bench: &Bench, kind: Kind) -> io::Result<Files> {
        // Goes with the directory that it is in.
        let dir = tempfile::tempdir_in(bench.files.path())?.keep();
        let [source, targets] = ["source", "targets"].map(|name| dir.join(name));
        fs::create_dir(&source)?;
        fs::create_dir(&targets)?;
        let data = source.join(NAME);
        let mut rng = Rng::new(bench.seed);
        let amount = match kind {
            Kind::Large => {
                let mib = bench.size(&LARGE_MIB);
                tree::make_file(&data, mib << 20, &mut rng)?;
                mib
            }
            Kind::Small => {
                let directories = bench.size(&DIRECTORIES);
                let shape = (directories, FILES_EACH);
                tree::make_tree(&data, shape, SMALL_BYTES, &mut rng)?;
                directories * FILES_EACH
            }
        };
        Ok(Files {
            hash: tree::hash(&data)?,
            source,
            targets,
            sessions: Cell::new(0),
            amount: amount as f64,
            kind,
        })
    }

    /// A new directory to copy into, with all that was written before written back.
    fn target(&self) -> io::Result<PathBuf> {
        let session = self.sessions.get();
        self.sessions.set(session + 1);
        let target = self.targets.join(session.to_string());
        fs::create_dir(&target)?;
        rustix::fs::syncfs(File::open(&target)?)?;
        Ok(target)
    }

    /// Compares the copy in `target` with the original.
    fn check(&self, target: &Path) -> Result<(), Problem> {
        let found = tree::hash(&target.join(NAME)).map_err(file_problem)?;
        if found != self.hash {
            return Err(Problem::Failed(
                "the copy is not like the original".to_owned(),
            ));
        }
        // Many files stay until the campaign ends: ext4 does not use an inode again for minutes
        // after it was freed, and passing over thousands of such makes whatever comes next slow.
        match self.kind {
            Kind::Large => fs::remove_dir_all(target).map_err(file_problem),
            Kind::Small => Ok(()),
        }
    }

    /// `command` with what says that a directory is copied.
    fn recursive<'c>(&self, command: &'c mut Command) -> &'c mut Command {
        match self.kind {
            Kind::Large => command,
            Kind::Small => command.arg("-r"),
        }
    }

    fn cp(&self, target: &Path) -> Command {
        let mut command = Command::new("cp");
        self.recursive(&mut command)
            .arg(self.source.join(NAME))
            .arg(target);
        command
    }

    fn get(&self, target: &Path) -> Command {
        let mut command = fusewire(&self.source);
        self.recursive(command.arg("get"))
            .arg(Path::new("/").join(NAME))
            .arg(target);
        command
    }

    fn put(&self, target: &Path) -> Command {
        let mut command = fusewire(target);
        self.recursive(command.arg("put"))
            .arg(self.source.join(NAME))
            .arg("/");
        command
    }
}

/// This program, with a daemon for `dir`.
fn fusewire(dir: &Path) -> Command {
    let mut source = OsString::from("virtiofsd:");
    source.push(dir);
    let mut command = Command::new("/proc/self/exe");
    command.arg("-s").arg(source);
    command
}

fn file_problem(error: io::Error) -> Problem {
    Problem::Failed(format!("files for the measurement: {error}"))
}

/// Makes the command that copies into a directory.
type Copy = fn(&Files, &Path) -> Command;

fn sessions(bench: &Bench, cpus: &Cpus, kind: Kind, ours: Copy) -> Result<Vec<Session>, Problem> {
    bench.check_daemon()?;
    let files = Rc::new(Files::make(bench, kind).map_err(file_problem)?);
    let session = |copy: Copy| -> Session {
        let (files, cpus) = (Rc::clone(&files), cpus.clone());
        Box::new(move || {
            let target = files.target().map_err(file_problem)?;
            let seconds = cpus.on_client(|| time(copy(&files, &target)))??;
            files.check(&target)?;
            Ok(vec![files.amount / seconds])
        })
    };
    Ok(vec![session(ours), session(Files::cp)])
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
