//! `fusewire shell`: many commands over one connection.

mod complete;
mod input;
mod words;

use crate::args::{Action, Cli, Command, Common};
use crate::command_line;
use crate::cwd;
use crate::interrupt::{Interrupt, exit_code};
use crate::report::{self, Report, shown};
use crate::session::Session;
use crate::show::output::Output;
use clap::parser::ValueSource;
use clap::{ArgMatches, Args, CommandFactory};
use input::{Input, Line};
use signal_hook::consts::SIGINT;
use std::ffi::OsString;
use std::io::{self, Write};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// Read commands and run them over one connection
///
/// Reads commands, one a line, and runs them over one connection. Paths begin in the current
/// directory of the source. Besides the commands there are cd, pwd, lcd and lpwd (for the directory
/// of this host), help and exit. Words are quoted as in a shell, but nothing is expanded: * is a
/// name. An error does not end it, Ctrl-C ends the command under way. The exit status is that of the
/// last command that failed; on a terminal 0.
///
/// On a terminal lines may be typed while a command runs, and several be pasted: they are commands,
/// one after the other, unless Ctrl-C ends one of them. A terminal that does not mark what is pasted
/// has the first of those lines read only.
#[derive(Args, Debug)]
pub struct Shell {
    /// End at the first command that fails
    #[arg(short, long)]
    pub exit_on_error: bool,
    /// Do not read or write the history of lines, which terminals have
    /// ($XDG_STATE_HOME/fusewire/history)
    #[arg(long)]
    pub no_history: bool,
}

/// What there is besides the commands.
pub const BUILT_IN: [(&str, &str); 6] = [
    (
        "cd",
        "Go to a directory of the source, the root if none is given",
    ),
    ("pwd", "Show where that is"),
    (
        "lcd",
        "Go to a directory of this host, home if none is given",
    ),
    ("lpwd", "Show where that is"),
    ("help", "Show this, or what a command does"),
    ("exit", "End the shell, with a status if one is given"),
];

/// Commands that are for outside of a shell.
const OUTSIDE: [&str; 5] = ["shell", "bench", "doctor", "completions", "man"];

/// Options that go for all of a shell.
const OF_THE_SHELL: [&str; 4] = ["source", "trace", "stats", "umask"];

/// Runs lines until there are no more; returns the exit status: that of the last command that
/// failed, or 0 on a terminal.
pub fn run(args: &Shell, session: &Session, interrupt: &Interrupt, common: &Common) -> i32 {
    cwd::set(PathBuf::from("/"));
    let mut input = Input::open(args, &session.client);
    let terminal = input.is_terminal();
    interrupt.shell_begins(terminal);
    let shell = Running {
        session,
        interrupt,
        common,
    };
    let mut failed = 0;
    loop {
        let line = match input.next() {
            Ok(Line::Text(line)) => line,
            Ok(Line::Dropped) => continue,
            Ok(Line::End) => break,
            Err(error) => {
                report::line(Some("shell"), &format!("cannot read commands: {error}"));
                return 1;
            }
        };
        match shell.line(&line) {
            End::Ok => {}
            End::Exit(None) => break,
            End::Exit(Some(status)) => return status,
            End::Failed(status) => {
                failed = status;
                if status == exit_code(SIGINT) {
                    input.forget_typed();
                }
            }
        }
        if let Some(signal) = interrupt.signal() {
            return exit_code(signal);
        }
        if let Some(why) = session.client.ended() {
            report::line(Some("shell"), &format!("{why}; start the shell anew"));
            return 1;
        }
        if failed != 0 && args.exit_on_error {
            return failed;
        }
    }
    if terminal { 0 } else { failed }
}

/// How a line has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    Ok,
    Failed(i32),
    /// With this status, or the one that a shell has by itself.
    Exit(Option<i32>),
}

impl From<i32> for End {
    fn from(status: i32) -> Self {
        match status {
            0 => End::Ok,
            status => End::Failed(status),
        }
    }
}

struct Running<'a> {
    session: &'a Session,
    interrupt: &'a Interrupt,
    common: &'a Common,
}

impl Running<'_> {
    fn line(&self, line: &[u8]) -> End {
        let words = match words::split(line) {
            Ok(words) => words.all(),
            Err((broken, _)) => {
                report::line(Some("shell"), broken.remedy());
                return End::Failed(crate::USAGE);
            }
        };
        let Some((first, rest)) = words.split_first() else {
            return End::Ok;
        };
        let Some((name, _)) = BUILT_IN.iter().find(|(name, _)| first == name) else {
            return self.command(&words).into();
        };
        let operand = match rest {
            [] => None,
            [operand] => Some(Path::new(operand)),
            _ if *name == "help" => return self.command(&words).into(),
            _ => {
                report::line(Some(name), "takes one operand at most");
                return End::Failed(crate::USAGE);
            }
        };
        let done = match *name {
            "exit" => {
                let Some(operand) = operand else {
                    return End::Exit(None);
                };
                match operand.to_str().and_then(|text| text.parse::<u8>().ok()) {
                    Some(status) => return End::Exit(Some(status.into())),
                    None => {
                        let text = format!("{} is no status from 0 to 255", shown(operand));
                        report::line(Some("exit"), &text);
                        return End::Failed(crate::USAGE);
                    }
                }
            }
            "help" if operand.is_some() => return self.command(&words).into(),
            "help" => help().map_err(|error| error.to_string()),
            "cd" => self.change_directory(operand.unwrap_or(Path::new("/"))),
            "pwd" => print(&cwd::here()),
            "lcd" => change_local_directory(operand),
            _ => std::env::current_dir()
                .map_err(|error| error.to_string())
                .and_then(|here| print(&here)),
        };
        match done {
            Ok(()) => End::Ok,
            Err(why) => {
                report::line(Some(name), &why);
                End::Failed(1)
            }
        }
    }

    fn change_directory(&self, to: &Path) -> Result<(), String> {
        let target = cwd::resolve(to);
        let client = &self.session.client;
        let said =
            |error: fusewire::Error| format!("{}: {}", shown(to), report::reason(error.errno()));
        let real = client.canonicalize(&target).map_err(said)?;
        let found = client.metadata(&real).map_err(said)?;
        if !found.is_dir() {
            return Err(format!("{} is not a directory", shown(to)));
        }
        client
            .access(&real, fusewire::Access::SEARCH)
            .map_err(said)?;
        cwd::set(real);
        Ok(())
    }

    /// Runs one command and returns its exit status.
    fn command(&self, words: &[OsString]) -> i32 {
        let program = OsString::from("fusewire");
        let parsed = command_line::parse(
            definition(),
            std::iter::once(&program).chain(words).cloned(),
        );
        let (cli, matches) = match parsed {
            Ok(parsed) => parsed,
            Err(error) => return crate::usage(&error, "help"),
        };
        let Action::Command(what) = &cli.action else {
            report::line(Some("shell"), "this is a command for outside of the shell");
            return crate::USAGE;
        };
        if matches!(what, Command::Shell(_)) {
            report::line(Some("shell"), "this is one");
            return crate::USAGE;
        }
        if let Some(option) = OF_THE_SHELL.into_iter().find(|id| is_given(&matches, id)) {
            let text = format!("--{option} is for all of a shell; give it to the shell itself");
            report::line(Some(what.name()), &text);
            return crate::USAGE;
        }
        // Cancelled by itself.
        let client = match cli.common.identity {
            None => self.session.client.separate(),
            Some(identity) => match self.session.client.with_identity(identity) {
                Ok(client) => client,
                Err(error) => {
                    report::line(Some(what.name()), &error.to_string());
                    return 1;
                }
            },
        };
        // Ctrl-C ends the command, not the shell.
        let canceller = Some(client.canceller());
        self.interrupt.command_begins(what.ending(), canceller);
        let report = Report::new(what.name(), self.interrupt.clone());
        let printed = crate::command(what, &client, self.session, &report, self.common);
        let status = crate::outcome(printed, &report, &client);
        self.interrupt.command_is_over();
        status
    }
}

/// The commands, without the options that a shell refuses in its lines.
fn definition() -> clap::Command {
    fn hide(command: clap::Command) -> clap::Command {
        command.mut_args(
            |arg| match OF_THE_SHELL.iter().any(|id| arg.get_id() == id) {
                true => arg.hide(true),
                false => arg,
            },
        )
    }
    hide(Cli::command()).mut_subcommands(hide)
}

/// Whether an option is on the line itself.
fn is_given(matches: &ArgMatches, id: &str) -> bool {
    matches.value_source(id) == Some(ValueSource::CommandLine)
}

fn change_local_directory(to: Option<&Path>) -> Result<(), String> {
    let home = || std::env::var_os("HOME").map(PathBuf::from);
    let Some(directory) = to.map(Path::to_path_buf).or_else(home) else {
        return Err("name a directory of this host".to_owned());
    };
    std::env::set_current_dir(&directory).map_err(|error| {
        let reason = error
            .raw_os_error()
            .map_or_else(|| error.to_string(), report::reason);
        format!("{}: {reason}", shown(&directory))
    })
}

fn print(path: &Path) -> Result<(), String> {
    let mut out = Output::new();
    let written = out
        .name(path.as_os_str().as_bytes())
        .and_then(|()| out.end_line())
        .and_then(|()| out.flush());
    written.map_err(|error| error.to_string())
}

/// What there is.
fn help() -> io::Result<()> {
    let mut out = Output::new();
    let commands = Cli::command();
    let about = |command: &clap::Command| command.get_about().map(ToString::to_string);
    let known = commands
        .get_subcommands()
        .filter(|command| !OUTSIDE.contains(&command.get_name()))
        .map(|command| (command.get_name(), about(command).unwrap_or_default()));
    let own = BUILT_IN.map(|(name, about)| (name, about.to_owned()));
    for (name, about) in own.into_iter().chain(known) {
        writeln!(out, "{name:<10} {about}")?;
    }
    out.flush()
}
