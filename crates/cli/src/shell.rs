//! `fusewire shell`: many commands over one connection.

use crate::args::{Action, Cli, Command, Common};
use crate::interrupt::Interrupt;
use crate::session::Session;
use crate::{cwd, report};
use clap::{Args, Parser};
use rustyline::DefaultEditor;
use rustyline::error::ReadlineError;
use std::io::{self, BufRead, IsTerminal};
use std::path::{Path, PathBuf};

/// Reads commands, one a line, and runs them over one connection. Paths begin in the current
/// directory of the source. Besides the commands there are cd, pwd, lcd and lpwd (for the directory
/// of this host), help and exit. An error does not end it.
#[derive(Args, Debug)]
pub struct Shell {
    /// End at the first command that fails
    #[arg(short, long)]
    pub exit_on_error: bool,
    /// Do not read or write the history of lines
    #[arg(long)]
    pub no_history: bool,
}

/// What a line is.
enum Line {
    Text(String),
    /// Ctrl-C at the prompt.
    Dropped,
    End,
}

/// Where lines come from.
enum Input {
    Terminal {
        editor: Box<DefaultEditor>,
        history: Option<PathBuf>,
    },
    Plain(io::Lines<io::StdinLock<'static>>),
}

impl Input {
    fn open(args: &Shell) -> Self {
        let terminal = io::stdin().is_terminal().then(DefaultEditor::new);
        let Some(Ok(mut editor)) = terminal else {
            return Input::Plain(io::stdin().lock().lines());
        };
        let history = (!args.no_history).then(history_file).flatten();
        if let Some(path) = &history {
            // There is none the first time.
            let _ = editor.load_history(path);
        }
        Input::Terminal {
            editor: Box::new(editor),
            history,
        }
    }

    fn next(&mut self) -> io::Result<Line> {
        match self {
            Input::Plain(lines) => lines.next().transpose().map(|line| match line {
                Some(line) => Line::Text(line),
                None => Line::End,
            }),
            Input::Terminal { editor, .. } => {
                let here = cwd::here();
                let place = crate::show::quote::for_terminal(here.as_os_str().as_encoded_bytes());
                match editor.readline(&format!("fusewire:{place}> ")) {
                    Ok(line) => {
                        let _ = editor.add_history_entry(&line);
                        Ok(Line::Text(line))
                    }
                    Err(ReadlineError::Interrupted) => Ok(Line::Dropped),
                    Err(ReadlineError::Eof) => Ok(Line::End),
                    Err(error) => Err(io::Error::other(error)),
                }
            }
        }
    }

    fn is_terminal(&self) -> bool {
        matches!(self, Input::Terminal { .. })
    }

    fn close(self) {
        if let Input::Terminal {
            mut editor,
            history: Some(path),
        } = self
        {
            // Lost history is not worth a word.
            let _ = path.parent().map(std::fs::create_dir_all);
            let _ = editor.save_history(&path);
        }
    }
}

fn history_file() -> Option<PathBuf> {
    let state = std::env::var_os("XDG_STATE_HOME")
        .map(PathBuf::from)
        .filter(|path| path.is_absolute())
        .or_else(|| Some(PathBuf::from(std::env::var_os("HOME")?).join(".local/state")))?;
    Some(state.join("fusewire/history"))
}

/// Runs lines until there are no more; returns the exit status: that of the last command that
/// failed, or 0 on a terminal.
pub fn run(args: &Shell, session: &Session, interrupt: &Interrupt, common: &Common) -> i32 {
    cwd::set(PathBuf::from("/"));
    let mut input = Input::open(args);
    let mut failed = 0;
    let status = loop {
        let line = match input.next() {
            Ok(Line::Text(line)) => line,
            Ok(Line::Dropped) => continue,
            Ok(Line::End) => break failed,
            Err(error) => {
                report::line(Some("shell"), &format!("cannot read commands: {error}"));
                break 1;
            }
        };
        let status = match words(&line) {
            Ok(words) if words.is_empty() => 0,
            Ok(words) if words[0] == "exit" => break failed,
            Ok(words) => one(&words, session, interrupt, common),
            Err(status) => status,
        };
        if status != 0 {
            failed = status;
            if args.exit_on_error {
                break status;
            }
        }
        if let Some(why) = session.client.ended() {
            report::line(Some("shell"), &format!("{why}; start the shell anew"));
            break 1;
        }
    };
    let terminal = input.is_terminal();
    input.close();
    if terminal && !args.exit_on_error {
        0
    } else {
        status
    }
}

/// The words of a line; what follows a # is none of them.
fn words(line: &str) -> Result<Vec<String>, i32> {
    let line = line.trim();
    if line.starts_with('#') {
        return Ok(Vec::new());
    }
    shell_words::split(line).map_err(|error| {
        report::line(Some("shell"), &format!("{error}; close the quotes"));
        crate::USAGE
    })
}

/// Runs one command and returns its exit status.
fn one(words: &[String], session: &Session, interrupt: &Interrupt, common: &Common) -> i32 {
    let operand = words.get(1).map(Path::new);
    let done = match words[0].as_str() {
        "cd" => change_directory(session, operand.unwrap_or(Path::new("/"))),
        "pwd" => {
            println!("{}", cwd::here().display());
            Ok(())
        }
        "lcd" => match operand {
            Some(directory) => std::env::set_current_dir(directory)
                .map_err(|error| format!("cannot go to {}: {error}", directory.display())),
            None => Err("name a directory of this host".to_owned()),
        },
        "lpwd" => match std::env::current_dir() {
            Ok(directory) => {
                println!("{}", directory.display());
                Ok(())
            }
            Err(error) => Err(error.to_string()),
        },
        _ => return command(words, session, interrupt, common),
    };
    match done {
        Ok(()) => 0,
        Err(why) => {
            report::line(Some(&words[0]), &why);
            1
        }
    }
}

fn change_directory(session: &Session, to: &Path) -> Result<(), String> {
    let target = cwd::resolve(to);
    let client = &session.client;
    let real = client
        .canonicalize(&target)
        .map_err(|error| error.to_string())?;
    let found = client.metadata(&real).map_err(|error| error.to_string())?;
    if !found.is_dir() {
        return Err(format!(
            "{} is not a directory",
            crate::report::shown(&target)
        ));
    }
    client
        .access(&real, fusewire::Access::SEARCH)
        .map_err(|error| error.to_string())?;
    cwd::set(real);
    Ok(())
}

fn command(words: &[String], session: &Session, interrupt: &Interrupt, common: &Common) -> i32 {
    let line = std::iter::once("fusewire").chain(words.iter().map(String::as_str));
    let what = match Cli::try_parse_from(line) {
        Err(error) => return crate::usage(&error),
        Ok(Cli {
            action: Action::Command(Command::Shell(_)),
            ..
        }) => {
            report::line(Some("shell"), "this is one");
            return crate::USAGE;
        }
        Ok(Cli {
            action: Action::Command(what),
            ..
        }) => what,
        Ok(_) => {
            report::line(Some("shell"), "this is a command for outside of the shell");
            return crate::USAGE;
        }
    };
    // Ctrl-C ends the command, not the shell.
    let canceller = session.client.canceller();
    interrupt.cancel_by(canceller.clone());
    let report = report::Report::new(what.name(), interrupt.clone());
    let printed = crate::command(&what, session, &report, common);
    let status = crate::outcome(printed, &report, &session.client);
    interrupt.command_is_over();
    canceller.reset();
    status
}
