//! Where a shell's lines come from.

use super::Shell;
use super::complete::Complete;
use crate::cwd;
use crate::show::quote;
use fusewire::Client;
use rustyline::error::ReadlineError;
use rustyline::history::FileHistory;
use rustyline::{CompletionType, Config, Editor};
use std::fs;
use std::io::{self, BufRead, IsTerminal, Read};
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;

/// Longest line that is read from what is no terminal.
const MAX_LINE_BYTES: u64 = 1 << 20;

/// What a line is.
pub enum Line {
    Text(Vec<u8>),
    /// Ctrl-C at the prompt.
    Dropped,
    End,
}

/// Standard input: a terminal whose user edits lines, or anything else.
pub enum Input {
    Terminal {
        editor: Box<Editor<Complete, FileHistory>>,
        history: Option<PathBuf>,
    },
    Plain(io::StdinLock<'static>),
}

impl Input {
    pub fn open(args: &Shell, client: &Client) -> Self {
        let plain = || Input::Plain(io::stdin().lock());
        if !io::stdin().is_terminal() {
            return plain();
        }
        let config = Config::builder()
            .completion_type(CompletionType::List)
            .history_ignore_space(true)
            .build();
        let Ok(mut editor) = Editor::with_config(config) else {
            return plain();
        };
        editor.set_helper(Some(Complete::new(client)));
        let history = (!args.no_history).then(history_file).flatten();
        if let Some(path) = &history {
            // There is none the first time.
            let _ = editor.load_history(path);
            let _ = path.parent().map(fs::create_dir_all);
        }
        Input::Terminal {
            editor: Box::new(editor),
            history,
        }
    }

    /// # Errors
    /// What reading says, and EFBIG for a line without end.
    pub fn next(&mut self) -> io::Result<Line> {
        match self {
            Input::Plain(stdin) => {
                let mut line = Vec::new();
                stdin.take(MAX_LINE_BYTES).read_until(b'\n', &mut line)?;
                if line.is_empty() {
                    return Ok(Line::End);
                }
                if line.len() as u64 == MAX_LINE_BYTES {
                    return Err(io::Error::from(rustix::io::Errno::FBIG));
                }
                Ok(Line::Text(line))
            }
            Input::Terminal { editor, history } => {
                let place = quote::for_terminal(cwd::here().as_os_str().as_bytes());
                match editor.readline(&format!("fusewire:{place}> ")) {
                    Ok(line) => {
                        // A history that cannot be kept is not worth a word.
                        let is_new = editor.add_history_entry(&line).unwrap_or(false);
                        if let Some(path) = history.as_ref().filter(|_| is_new) {
                            let _ = editor.append_history(path);
                        }
                        Ok(Line::Text(line.into_bytes()))
                    }
                    Err(ReadlineError::Interrupted) => Ok(Line::Dropped),
                    Err(ReadlineError::Eof) => Ok(Line::End),
                    Err(error) => Err(io::Error::other(error)),
                }
            }
        }
    }

    pub fn is_terminal(&self) -> bool {
        matches!(self, Input::Terminal { .. })
    }
}

fn history_file() -> Option<PathBuf> {
    let state = std::env::var_os("XDG_STATE_HOME")
        .map(PathBuf::from)
        .filter(|path| path.is_absolute())
        .or_else(|| Some(PathBuf::from(std::env::var_os("HOME")?).join(".local/state")))?;
    Some(state.join("fusewire/history"))
}
