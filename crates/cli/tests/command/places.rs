//! Sources with files in them, and running the command on one.

use std::ffi::{OsStr, OsString};
use std::fmt;
use std::fs;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// Longest time that any event of a test may take to come.
const PATIENCE: Duration = Duration::from_secs(60);

/// How a directory is served.
#[derive(Clone, Debug)]
enum Kind {
    Dir,
    Virtiofsd(Peer),
}

#[derive(Clone, Debug)]
struct Peer {
    name: String,
    program: PathBuf,
}

/// A source: a directory of this host, and how the command gets at it.
pub struct Place {
    pub served: TempDir,
    /// A directory on the other side of a copy.
    pub here: TempDir,
    kind: Kind,
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.kind {
            Kind::Dir => f.write_str("dir"),
            Kind::Virtiofsd(peer) => f.write_str(&peer.name),
        }
    }
}

/// What a command did.
#[derive(Debug)]
pub struct Done {
    pub code: Option<i32>,
    pub out: Vec<u8>,
    pub err: String,
}

impl Done {
    pub fn of(output: Output) -> Self {
        Done {
            code: output.status.code(),
            out: output.stdout,
            err: String::from_utf8_lossy(&output.stderr).into_owned(),
        }
    }

    /// Standard output of a command that went well and said nothing else.
    #[track_caller]
    pub fn ok(self) -> String {
        assert_eq!((self.code, self.err.as_str()), (Some(0), ""));
        String::from_utf8(self.out).expect("text")
    }

    /// The one line that a command which failed with `code` has said.
    #[track_caller]
    pub fn one_line(&self, code: i32) -> &str {
        assert_eq!(self.code, Some(code), "{}", self.err);
        let line = self.err.strip_suffix('\n').expect("a whole line");
        assert!(!line.contains('\n'), "more than one line: {}", self.err);
        assert!(line.starts_with("fusewire: "), "{line}");
        line
    }
}

impl Place {
    fn new(kind: Kind) -> Self {
        let directory = |what: &str| {
            tempfile::Builder::new()
                .prefix(what)
                .tempdir_in(env!("CARGO_TARGET_TMPDIR"))
                .expect("a directory")
        };
        Place {
            served: directory("served-"),
            here: directory("here-"),
            kind,
        }
    }

    /// A directory served in process.
    pub fn dir() -> Self {
        Self::new(Kind::Dir)
    }

    /// The command with these arguments, its source set.
    pub fn command<S: AsRef<OsStr>>(&self, args: impl IntoIterator<Item = S>) -> Command {
        let mut command = fusewire();
        let kind = match &self.kind {
            Kind::Dir => "dir:",
            Kind::Virtiofsd(peer) => {
                command.env("FUSEWIRE_VIRTIOFSD", &peer.program);
                "virtiofsd:"
            }
        };
        let mut source = OsString::from(kind);
        source.push(self.served.path());
        command.env("FUSEWIRE_SOURCE", source).args(args);
        command
    }

    /// The daemon itself, to be started for one client that connects to `socket`.
    pub fn daemon(&self, socket: &Path) -> Command {
        let Kind::Virtiofsd(peer) = &self.kind else {
            panic!("there is no daemon behind a directory served in process");
        };
        let mut command = Command::new(&peer.program);
        let mut path = OsString::from("--socket-path=");
        path.push(socket);
        command.arg(path);
        let served = self.served.path();
        if peer.name == "virtiofsd-c" {
            let mut source = OsString::from("source=");
            source.push(served);
            command.args(["-o", "sandbox=chroot", "-o"]).arg(source);
        } else {
            command
                .args(["--sandbox", "none", "--shared-dir"])
                .arg(served);
        }
        command.stdin(Stdio::null()).stderr(Stdio::null());
        command
    }

    pub fn run<S: AsRef<OsStr>>(&self, args: impl IntoIterator<Item = S>) -> Done {
        Done::of(self.command(args).output().expect("the command starts"))
    }

    /// A path in the served directory, as the host has it.
    pub fn at(&self, path: impl AsRef<Path>) -> PathBuf {
        self.served.path().join(path)
    }

    pub fn write(&self, path: &str, contents: impl AsRef<[u8]>) {
        write(&self.at(path), contents);
    }
}

/// Writes a file and makes the directories above it.
pub fn write(path: &Path, contents: impl AsRef<[u8]>) {
    fs::create_dir_all(path.parent().expect("it is below a directory")).expect("a directory");
    fs::write(path, contents).expect("a file");
}

/// The command without a source.
pub fn fusewire() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_fusewire"));
    command
        .env_remove("FUSEWIRE_SOURCE")
        .env_remove("FUSEWIRE_VIRTIOFSD")
        .stdin(Stdio::null());
    command
}

/// Runs the command with `source`.
pub fn run_on<S: AsRef<OsStr>>(source: &str, args: impl IntoIterator<Item = S>) -> Done {
    let output = fusewire().args(["-s", source]).args(args).output();
    Done::of(output.expect("the command starts"))
}

/// Runs `test` on a directory served in process and by every virtiofsd there is.
pub fn everywhere(test: impl Fn(&Place)) {
    test(&Place::dir());
    for place in daemons() {
        println!("on {place}");
        test(&place);
    }
}

/// A place for each installed virtiofsd. One that is missing is an error where it is required, and
/// is named where it is not.
pub fn daemons() -> Vec<Place> {
    let folder = std::env::var_os("FUSEWIRE_PEERS_DIR").map_or_else(
        || Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/peers"),
        PathBuf::from,
    );
    let manifest = folder.join("peers.tsv");
    let listed = fs::read_to_string(&manifest).unwrap_or_default();
    let required = std::env::var_os("FUSEWIRE_REQUIRE_PEERS").is_some_and(|value| value == "1");
    let mut places = Vec::new();
    for wanted in ["virtiofsd", "virtiofsd-c"] {
        let line = listed
            .lines()
            .map(|line| line.split('\t').collect::<Vec<_>>())
            .find(|fields| fields[0] == wanted);
        match line.as_deref() {
            Some([_, program, _, "-"]) => places.push(Place::new(Kind::Virtiofsd(Peer {
                name: wanted.to_owned(),
                program: PathBuf::from(program),
            }))),
            other => {
                let why = other
                    .and_then(|fields| fields.get(3).copied())
                    .unwrap_or("it is not in the list");
                let text = format!("{wanted} of {} is missing: {why}", manifest.display());
                assert!(!required, "{text}");
                println!("NOT TESTED: {text}");
            }
        }
    }
    places
}

/// Waits for something that another process does.
#[track_caller]
pub fn until(what: &str, mut condition: impl FnMut() -> bool) {
    let start = Instant::now();
    while !condition() {
        assert!(start.elapsed() < PATIENCE, "{what} did not come");
        std::thread::yield_now();
    }
}

/// The names in a directory, in order.
pub fn names(directory: &Path) -> Vec<String> {
    let mut names: Vec<String> = fs::read_dir(directory)
        .map(|entries| {
            entries
                .map(|entry| {
                    let name = entry.expect("an entry").file_name();
                    name.to_string_lossy().into_owned()
                })
                .collect()
        })
        .unwrap_or_default();
    names.sort();
    names
}

/// Everything below a directory that a copy keeps: path, type, rights, time, size, and contents
/// or target.
pub fn tree(top: &Path) -> Vec<String> {
    use std::os::unix::fs::MetadataExt;
    let mut found = Vec::new();
    let mut open = vec![top.to_path_buf()];
    while let Some(path) = open.pop() {
        let meta = fs::symlink_metadata(&path).expect("it is there");
        let what = if meta.is_dir() {
            open.extend(
                fs::read_dir(&path)
                    .expect("a directory")
                    .map(|entry| entry.expect("an entry").path()),
            );
            String::new()
        } else if meta.is_symlink() {
            format!("{:?}", fs::read_link(&path).expect("a link"))
        } else if meta.is_file() {
            let contents = fs::read(&path).expect("a file");
            let sum = contents.iter().fold(0_u64, |sum, byte| {
                (sum ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3)
            });
            format!("{} bytes, {sum:016x}", contents.len())
        } else {
            format!("device {}", meta.rdev())
        };
        found.push(format!(
            "{:?} {:o} {}.{:09} {what}",
            path.strip_prefix(top).expect("it is below"),
            meta.mode(),
            meta.mtime(),
            meta.mtime_nsec(),
        ));
    }
    found.sort();
    found
}

/// Gives a file a time that no test makes by running.
pub fn age(path: &Path) {
    let status = Command::new("touch")
        .args(["-h", "-d", "2001-02-03 04:05:06.789012345 UTC"])
        .arg(path)
        .status();
    assert!(status.expect("touch").success());
}

/// Whether a name is one of an unfinished file.
pub fn is_temporary(name: impl AsRef<str>) -> bool {
    name.as_ref().starts_with(".fusewire-")
}

/// A file that takes a while to copy, and neither time to make nor much of the disk: 64 Ki pieces of
/// data of 4 KiB, far apart, each looked for and read by itself.
pub fn large(path: &Path) {
    let file = fs::File::create(path).expect("a file");
    for n in 0..65_536 {
        file.write_all_at(&[7; 4096], n << 20)
            .expect("256 MiB free on the disk of the tests");
    }
}

/// How many files [`many`] makes, and how large each is.
pub const MANY: usize = 20_000;
pub const EACH_BYTES: u64 = 10_000;

/// Many names of one file: a tree that takes a while to copy and none to make.
pub fn many(top: &Path) {
    write(&top.join("0"), vec![7; EACH_BYTES as usize]);
    for n in 1..MANY {
        fs::hard_link(top.join("0"), top.join(n.to_string())).expect("a link");
    }
}
