//! A virtiofsd of our own: found, started, listened to, ended.

use super::error::{ConnectError, resource};
use super::options::{Cache, Flavour, Sandbox, Virtiofsd};
use fusewire_sync::{Mutex, Rank};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::io::Errno;
use rustix::process::{
    Pid, PidfdFlags, Signal, WaitId, WaitIdOptions, kill_process_group, pidfd_open, waitid,
};
use std::ffi::OsString;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

/// How long a daemon may take to end by itself once its connection is closed.
const GRACE_MS: u32 = 500;

/// How long to wait for a killed one; only one that hangs in the kernel takes longer.
const KILLED_MS: u32 = 2000;

/// How much of the daemon's output is kept.
const TAIL_BYTES: usize = 4096;

/// Where distributions put it.
const USUAL_PLACES: [&str; 2] = ["/usr/libexec/virtiofsd", "/usr/lib/qemu/virtiofsd"];

/// Names the program.
const PROGRAM_VARIABLE: &str = "FUSEWIRE_VIRTIOFSD";

/// A daemon that we started. Dropping it ends it.
#[derive(Debug)]
pub(super) struct Daemon {
    program: PathBuf,
    pid: Pid,
    pidfd: OwnedFd,
    /// Its standard output and error.
    output: OwnedFd,
    tail: Mutex<Vec<u8>>,
    child: Child,
}

impl Daemon {
    /// Starts it on a listening socket, which it gets as its standard input: so there is no path
    /// to wait for, and none that anybody else could take.
    pub(super) fn start(config: &Virtiofsd, listener: OwnedFd) -> Result<Self, ConnectError> {
        let program = find(config)?;
        let shared_dir = shared_dir(&config.shared_dir)?;
        let args = arguments(config, &program, &shared_dir)?;
        let (output, input) = rustix::pipe::pipe_with(rustix::pipe::PipeFlags::CLOEXEC)
            .map_err(resource("a pipe"))?;
        rustix::fs::fcntl_setfl(&output, rustix::fs::OFlags::NONBLOCK)
            .map_err(resource("a pipe"))?;
        let second = input.try_clone().map_err(resource("a pipe"))?;
        let mut child = Command::new(&program)
            .args(args)
            .stdin(Stdio::from(listener))
            .stdout(Stdio::from(input))
            .stderr(Stdio::from(second))
            // A group of its own: Ctrl-C on the terminal must not reach it before we have flushed,
            // and whatever it forks can be ended with it.
            .process_group(0)
            .spawn()
            .map_err(|error| ConnectError::Spawn {
                program: program.clone(),
                error,
            })?;
        let pid = Pid::from_child(&child);
        let pidfd = match pidfd_open(pid, PidfdFlags::empty()) {
            Ok(pidfd) => pidfd,
            Err(error) => {
                let _ = child.kill();
                let _ = child.wait();
                return Err(resource("a pidfd")(error));
            }
        };
        Ok(Daemon {
            program,
            pid,
            pidfd,
            output,
            tail: Mutex::new(Rank::LEAF, Vec::new()),
            child,
        })
    }

    pub(super) fn program(&self) -> &Path {
        &self.program
    }

    pub(super) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Where its output can be waited for.
    pub(super) fn output(&self) -> BorrowedFd<'_> {
        self.output.as_fd()
    }

    /// Takes what it has written, so that it never waits for a reader. Returns false once it has
    /// closed its output.
    pub(super) fn drain(&self) -> bool {
        let mut tail = self.tail.lock();
        let mut chunk = [0; 4096];
        loop {
            match rustix::io::read(&self.output, &mut chunk) {
                Ok(0) => return false,
                Ok(n) => {
                    tail.extend_from_slice(&chunk[..n]);
                    let surplus = tail.len().saturating_sub(TAIL_BYTES);
                    tail.drain(..surplus);
                }
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN) => return true,
                Err(_) => return false,
            }
        }
    }

    /// The last lines it wrote, as one.
    pub(super) fn last_words(&self) -> String {
        self.drain();
        let tail = self.tail.lock();
        let text = String::from_utf8_lossy(&tail);
        let lines: Vec<&str> = text
            .lines()
            .map(str::trim)
            .filter(|l| !l.is_empty())
            .collect();
        let last = &lines[lines.len().saturating_sub(4)..];
        if last.is_empty() {
            return "it wrote nothing".to_owned();
        }
        let printable = |c: char| if c.is_control() { ' ' } else { c };
        last.join("; ").chars().map(printable).collect()
    }

    /// Waits up to `timeout_ms` for its end, and says how it ended. It is not reaped: until we
    /// drop it, its process group cannot be anybody else's.
    pub(super) fn exit_status(&self, timeout_ms: u32) -> Option<String> {
        if !self.has_ended_within(timeout_ms) {
            return None;
        }
        let look = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
        let status = waitid(WaitId::PidFd(self.pidfd.as_fd()), look).ok()??;
        Some(match (status.exit_status(), status.terminating_signal()) {
            (Some(code), _) => format!("exit code {code}"),
            (None, Some(signal)) => format!("signal {signal}"),
            (None, None) => "an unknown status".to_owned(),
        })
    }

    fn has_ended_within(&self, timeout_ms: u32) -> bool {
        let timeout = Timespec {
            tv_sec: i64::from(timeout_ms / 1000),
            tv_nsec: i64::from(timeout_ms % 1000) * 1_000_000,
        };
        let mut fds = [PollFd::new(&self.pidfd, PollFlags::IN)];
        matches!(poll(&mut fds, Some(&timeout)), Ok(n) if n > 0)
    }

    /// Kills it and what it has forked.
    pub(super) fn kill(&self) {
        // Not reaped before drop, so the group is still ours. ESRCH: nobody left.
        let _ = kill_process_group(self.pid, Signal::KILL);
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        // It ends when its connection does; one that is stopped or stuck cannot.
        let ended = self.has_ended_within(GRACE_MS);
        self.kill();
        if ended || self.has_ended_within(KILLED_MS) {
            let _ = self.child.wait();
        }
    }
}

/// The program to run.
fn find(config: &Virtiofsd) -> Result<PathBuf, ConnectError> {
    let not_found = |tried: String| ConnectError::ProgramNotFound { tried };
    if let Some(program) = &config.program {
        let found = is_program(program).then(|| program.clone());
        return found.ok_or_else(|| not_found(program.display().to_string()));
    }
    if let Some(program) = std::env::var_os(PROGRAM_VARIABLE).filter(|p| !p.is_empty()) {
        let program = PathBuf::from(program);
        let tried = format!("{PROGRAM_VARIABLE}={}", program.display());
        return is_program(&program)
            .then_some(program)
            .ok_or_else(|| not_found(tried));
    }
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path)
        .map(|directory| directory.join("virtiofsd"))
        .chain(USUAL_PLACES.into_iter().map(PathBuf::from))
        .find(|program| is_program(program))
        .ok_or_else(|| not_found(format!("virtiofsd on PATH, {}", USUAL_PLACES.join(", "))))
}

fn is_program(path: &Path) -> bool {
    path.metadata()
        .is_ok_and(|m| m.is_file() && m.permissions().mode() & 0o111 != 0)
}

/// The directory's absolute path: a daemon may change its own directory first.
fn shared_dir(path: &Path) -> Result<PathBuf, ConnectError> {
    let canonical = path.canonicalize().and_then(|absolute| {
        // Read it once, to fail here and not in the daemon.
        std::fs::read_dir(&absolute).map(|_| absolute)
    });
    canonical.map_err(|error| ConnectError::SharedDir {
        path: path.to_owned(),
        error,
    })
}

fn arguments(
    config: &Virtiofsd,
    program: &Path,
    shared_dir: &Path,
) -> Result<Vec<OsString>, ConnectError> {
    let flavour = match config.flavour {
        Flavour::Guess if program.parent().is_some_and(|p| p.ends_with("qemu")) => Flavour::C,
        Flavour::Guess => Flavour::Rust,
        known => known,
    };
    let sandbox = match config.sandbox {
        Sandbox::Default if rustix::process::geteuid().is_root() => Sandbox::Chroot,
        Sandbox::Default if flavour == Flavour::C => Sandbox::Namespace,
        Sandbox::Default => Sandbox::None,
        chosen => chosen,
    };
    let mut args = if flavour == Flavour::C {
        arguments_c(config, shared_dir, sandbox)?
    } else {
        arguments_rust(config, shared_dir, sandbox)
    };
    args.extend(config.extra_args.iter().cloned());
    Ok(args)
}

fn arguments_rust(config: &Virtiofsd, shared_dir: &Path, sandbox: Sandbox) -> Vec<OsString> {
    let cache = match config.cache {
        Cache::Never => "never",
        Cache::Auto => "auto",
        Cache::Always => "always",
        Cache::Metadata => "metadata",
    };
    let sandbox = match sandbox {
        Sandbox::Namespace => "namespace",
        Sandbox::Chroot => "chroot",
        Sandbox::None | Sandbox::Default => "none",
    };
    let mut args: Vec<OsString> = vec![
        "--fd=0".into(),
        "--shared-dir".into(),
        shared_dir.into(),
        format!("--cache={cache}").into(),
        format!("--sandbox={sandbox}").into(),
        format!("--thread-pool-size={}", config.thread_pool_size).into(),
    ];
    if config.writeback {
        args.push("--writeback".into());
    }
    if config.xattr {
        args.push("--xattr".into());
    }
    args
}

fn arguments_c(
    config: &Virtiofsd,
    shared_dir: &Path,
    sandbox: Sandbox,
) -> Result<Vec<OsString>, ConnectError> {
    let lacks = |what: &str| {
        ConnectError::BadOption(format!(
            "the C virtiofsd has no {what}; choose another, or use virtiofsd 1.x"
        ))
    };
    let cache = match config.cache {
        Cache::Never => "none",
        Cache::Auto => "auto",
        Cache::Always => "always",
        Cache::Metadata => return Err(lacks("cache=metadata")),
    };
    let sandbox = match sandbox {
        Sandbox::Namespace => "namespace",
        Sandbox::Chroot => "chroot",
        Sandbox::None | Sandbox::Default => return Err(lacks("sandbox=none")),
    };
    // Its option parser splits at commas and takes a backslash before one.
    let mut source = OsString::from("source=");
    source.push(escape_commas(shared_dir));
    let option = |value: OsString| [OsString::from("-o"), value];
    let mut args: Vec<OsString> = vec!["--fd=0".into(), "-f".into()];
    args.extend(option(source));
    args.extend(option(format!("cache={cache}").into()));
    args.extend(option(format!("sandbox={sandbox}").into()));
    args.push(format!("--thread-pool-size={}", config.thread_pool_size).into());
    if config.writeback {
        args.extend(option("writeback".into()));
    }
    if config.xattr {
        args.extend(option("xattr".into()));
    }
    Ok(args)
}

/// `path` as a value among options that are divided by commas.
fn escape_commas(path: &Path) -> OsString {
    let mut escaped = Vec::new();
    for byte in path.as_os_str().as_bytes() {
        if matches!(byte, b',' | b'\\') {
            escaped.push(b'\\');
        }
        escaped.push(*byte);
    }
    OsString::from_vec(escaped)
}
