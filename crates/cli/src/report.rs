//! What went wrong, one line each, and the exit status.

use crate::interrupt::{Interrupt, exit_code};
use crate::show::quote;
use fusewire::Client;
use indicatif::ProgressBar;
use std::fmt::Display;
use std::io::{self, Write};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};

/// Something that went wrong.
#[derive(Debug, PartialEq, Eq)]
pub enum Problem {
    /// One line, without the name of the command.
    Line(String),
    /// The connection has ended; everything that fails from now on fails for that.
    Connection,
}

impl Problem {
    /// `PATH: REASON`
    pub fn about(path: &Path, reason: impl Display) -> Self {
        Problem::Line(format!("{}: {reason}", shown(path)))
    }

    /// `cannot VERB PATH: REASON`
    pub fn local(verb: &str, path: &Path, error: &io::Error) -> Self {
        let reason = error
            .raw_os_error()
            .map_or_else(|| error.to_string(), reason);
        Problem::Line(format!("cannot {verb} {}: {reason}", shown(path)))
    }

    /// What the client says, about the path that the user knows the file by.
    pub fn remote(error: &fusewire::Error, path: &Path) -> Self {
        if ends_connection(error.errno()) {
            return Problem::Connection;
        }
        Problem::Line(format!(
            "cannot {} {}: {}",
            error.operation(),
            shown(path),
            reason(error.errno())
        ))
    }

    /// What reading or writing says, about the path that the user knows the file by.
    pub fn io(verb: &str, path: &Path, error: &io::Error) -> Self {
        match error
            .get_ref()
            .and_then(|e| e.downcast_ref::<fusewire::Error>())
        {
            Some(error) => Problem::remote(error, path),
            None => Problem::local(verb, path, error),
        }
    }
}

impl From<fusewire::Error> for Problem {
    fn from(error: fusewire::Error) -> Self {
        Problem::remote(&error, error.path())
    }
}

/// A path in a message.
pub fn shown(path: &Path) -> String {
    quote::for_message(path.as_os_str().as_bytes())
}

/// What an errno means, and what to do where that is not plain.
pub fn reason(errno: i32) -> String {
    let text = io::Error::from_raw_os_error(errno).to_string();
    let text = text
        .strip_suffix(&format!(" (os error {errno})"))
        .unwrap_or(&text);
    let remedy = match rustix::io::Errno::from_raw_os_error(errno) {
        rustix::io::Errno::NOSPC => "; free some space and repeat the command",
        rustix::io::Errno::DQUOT => "; the quota is used up, free some space or have it raised",
        rustix::io::Errno::TIMEDOUT => "; the daemon did not answer in time, check that it is well",
        rustix::io::Errno::NFILE | rustix::io::Errno::MFILE => {
            "; raise the limit of open files (ulimit -n) here or of the daemon"
        }
        _ => "",
    };
    format!("{text}{remedy}")
}

fn ends_connection(errno: i32) -> bool {
    use rustix::io::Errno;
    [Errno::CONNABORTED, Errno::NOTCONN]
        .iter()
        .any(|end| end.raw_os_error() == errno)
}

/// Collects problems: a line for each, one line for a lost connection, the exit status.
#[derive(Debug)]
pub struct Report {
    command: &'static str,
    interrupt: Interrupt,
    failed: AtomicBool,
    connection_lost: AtomicBool,
    /// There is no room on this host.
    full: AtomicBool,
    /// Name pattern of unfinished files that could not be removed.
    leftovers: OnceLock<String>,
    bar: OnceLock<ProgressBar>,
}

impl Report {
    pub fn new(command: &'static str, interrupt: Interrupt) -> Self {
        Report {
            command,
            interrupt,
            failed: AtomicBool::new(false),
            connection_lost: AtomicBool::new(false),
            full: AtomicBool::new(false),
            leftovers: OnceLock::new(),
            bar: OnceLock::new(),
        }
    }

    /// The bar that lines must not be written into.
    pub fn set_bar(&self, bar: ProgressBar) {
        let _ = self.bar.set(bar);
    }

    /// Whether to go on makes no sense: the connection is lost, or a signal came.
    pub fn stopped(&self) -> bool {
        self.connection_lost.load(Ordering::Acquire) || self.interrupt.signal().is_some()
    }

    /// Reports a problem. The command goes on with what else there is, unless
    /// [`Report::stopped`].
    pub fn problem(&self, problem: Problem) {
        self.failed.store(true, Ordering::Release);
        match problem {
            Problem::Connection => self.connection_lost.store(true, Ordering::Release),
            // What fails after that fails for that.
            Problem::Line(_) if self.stopped() => {}
            Problem::Line(line) => self.line(&line),
        }
    }

    /// There is no room for copies on this host: `errno` says so, or says something else.
    pub fn note_full(&self, errno: rustix::io::Errno) {
        use rustix::io::Errno;
        if matches!(errno, Errno::NOSPC | Errno::DQUOT) {
            self.full.store(true, Ordering::Release);
        }
    }

    /// Whether there is no room for copies on this host.
    pub fn is_full(&self) -> bool {
        self.full.load(Ordering::Acquire)
    }

    /// An unfinished file, one of those called `pattern`, could not be removed.
    pub fn left_behind(&self, pattern: &str) {
        let _ = self.leftovers.set(pattern.to_owned());
    }

    /// Writes a line with the command's name in front.
    pub fn line(&self, text: &str) {
        let print = || line(Some(self.command), text);
        match self.bar.get() {
            Some(bar) => bar.suspend(print),
            None => print(),
        }
    }

    /// Says how it ended, if that has not been said, and returns the exit status.
    pub fn finish(&self, client: &Client) -> i32 {
        let left = match self.leftovers.get() {
            Some(pattern) => {
                format!("; unfinished files called {pattern} may be left, remove them")
            }
            None => String::new(),
        };
        if let Some(signal) = self.interrupt.signal() {
            let kept = match self.command {
                "get" | "put" => {
                    "; complete files were kept, no others; a new directory is to be removed before \
                     the command is repeated, or the copy goes into it"
                }
                "cp" => {
                    "; complete files were kept, and of a file that was written over what had been \
                     copied; a new directory is to be removed before the command is repeated, or \
                     the copy goes into it"
                }
                _ => "",
            };
            self.line(&format!("interrupted{kept}{left}"));
            return exit_code(signal);
        }
        if self.connection_lost.load(Ordering::Acquire) {
            let why = client.ended();
            let why = why.as_deref().unwrap_or("the connection has ended");
            self.line(&format!(
                "{why}; see that the daemon runs and repeat the command{left}"
            ));
        } else if !left.is_empty() {
            self.line(left.trim_start_matches("; "));
        }
        i32::from(self.failed.load(Ordering::Acquire))
    }
}

/// Writes one line to standard error: `fusewire: COMMAND: TEXT`.
pub fn line(command: Option<&str>, text: &str) {
    let mut line = String::from("fusewire: ");
    if let Some(command) = command {
        line.push_str(command);
        line.push_str(": ");
    }
    line.extend(text.chars().map(|c| if c.is_control() { ' ' } else { c }));
    line.push('\n');
    // There is nobody to tell that nobody can be told.
    let _ = io::stderr().write_all(line.as_bytes());
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::io::Errno;

    #[test]
    fn a_problem_is_one_line_that_says_what_and_what_to_do() {
        let error = io::Error::from(Errno::NOSPC);
        let Problem::Line(line) = Problem::local("write", Path::new("a\nb"), &error) else {
            panic!("a line");
        };
        assert_eq!(
            line,
            r"cannot write 'a'$'\n''b': No space left on device; free some space and repeat the command"
        );
    }

    #[test]
    fn errno_texts_have_no_number() {
        assert_eq!(reason(2), "No such file or directory");
        assert_eq!(reason(511), "Unknown error 511");
    }
}
