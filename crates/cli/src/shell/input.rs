//! Where a shell's lines come from.

use super::Shell;
use super::complete::Complete;
use crate::cwd;
use crate::report;
use crate::show::quote;
use fusewire::Client;
use rustix::event::{PollFd, PollFlags, Timespec};
use rustyline::error::ReadlineError;
use rustyline::history::{FileHistory, History};
use rustyline::{CompletionType, Config, Editor};
use std::fs;
use std::io::{self, BufRead, IsTerminal, Read, Write};
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
    Terminal(Box<Terminal>),
    Plain(io::StdinLock<'static>),
}

impl Input {
    pub fn open(args: &Shell, client: &Client) -> Self {
        if !io::stdin().is_terminal() {
            return Input::Plain(io::stdin().lock());
        }
        Input::Terminal(Box::new(Terminal::new(args, client)))
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
            Input::Terminal(terminal) => terminal.next(),
        }
    }

    /// What was typed is not wanted any more.
    pub fn forget_typed(&mut self) {
        if let Input::Terminal(terminal) = self {
            terminal.typed.clear();
        }
    }

    pub fn is_terminal(&self) -> bool {
        matches!(self, Input::Terminal(_))
    }
}

/// A terminal whose user edits lines.
pub struct Terminal {
    client: Client,
    config: Config,
    /// Taken by the editor while there is one.
    history: FileHistory,
    /// Where lines are kept.
    kept: Option<PathBuf>,
    /// What was typed before there was a prompt for it, and lines that were pasted at once.
    typed: Vec<u8>,
    /// Behind that comes nothing.
    typed_end: bool,
}

impl Terminal {
    fn new(args: &Shell, client: &Client) -> Self {
        let config = Config::builder()
            .completion_type(CompletionType::List)
            .history_ignore_space(true)
            .build();
        let mut history = FileHistory::with_config(&config);
        let kept = (!args.no_history).then(history_file).flatten();
        if let Some(path) = &kept {
            // There is none the first time.
            let _ = history.load(path);
            let _ = path.parent().map(fs::create_dir_all);
        }
        Terminal {
            client: client.clone(),
            config,
            history,
            kept,
            typed: Vec::new(),
            typed_end: false,
        }
    }

    fn next(&mut self) -> io::Result<Line> {
        let place = quote::for_terminal(cwd::here().as_os_str().as_bytes());
        let prompt = format!("fusewire:{place}> ");
        self.take_typed();
        if let Some(end) = self.typed.iter().position(|byte| *byte == b'\n') {
            let line: Vec<u8> = self.typed.drain(..=end).take(end).collect();
            let text = plain(&line);
            writeln!(io::stdout(), "{prompt}{text}")?;
            self.keep(&text);
            return Ok(Line::Text(line));
        }
        if self.typed_end {
            return Ok(Line::End);
        }
        let begun = plain(&std::mem::take(&mut self.typed));
        match self.read(&prompt, &begun) {
            Ok(text) => {
                // Several lines were pasted.
                let (line, rest) = text.split_once('\n').unwrap_or((&text, ""));
                if !rest.is_empty() {
                    self.typed = format!("{rest}\n").into_bytes();
                }
                self.keep(line);
                Ok(Line::Text(line.into()))
            }
            Err(error) if is_no_text(&error) => self.drop_rest(),
            Err(error) => ended(error),
        }
    }

    /// Takes the lines that were typed while there was no editor. It would read them all to find its
    /// own, and lose the others. The beginning of a line stays with the terminal, or comes along
    /// when it was typed just before the last editor went.
    fn take_typed(&mut self) {
        let stdin = io::stdin();
        let now = Timespec::default();
        let mut buffer = [0; 4096];
        loop {
            let mut waiting = [PollFd::new(&stdin, PollFlags::IN)];
            if rustix::event::poll(&mut waiting, Some(&now)) != Ok(1) {
                return;
            }
            match rustix::io::read(&stdin, &mut buffer) {
                // What is wrong the editor sees, too.
                Err(_) => return,
                Ok(0) => {
                    self.typed_end = true;
                    return;
                }
                Ok(got) => self
                    .typed
                    .extend(buffer[..got].iter().map(|byte| match byte {
                        b'\r' => b'\n',
                        byte => *byte,
                    })),
            }
        }
    }

    /// Adds a line to the history. One that cannot be kept is not worth a word.
    fn keep(&mut self, line: &str) {
        let is_new = self.history.add(line).unwrap_or(false);
        if let Some(path) = self.kept.as_ref().filter(|_| is_new) {
            let _ = self.history.append(path);
        }
    }

    /// Reads one line, whose beginning is there already. The editor is there for that long only: as
    /// long as it is, it has the signals of the terminal, and those that come while a command runs
    /// are for the command.
    fn read(&mut self, prompt: &str, begun: &str) -> rustyline::Result<String> {
        let history = std::mem::take(&mut self.history);
        let mut editor = Editor::with_history(self.config.clone(), history)?;
        editor.set_helper(Some(Complete::new(&self.client)));
        let line = editor.readline_with_initial(prompt, (begun, ""));
        self.history = std::mem::take(editor.history_mut());
        line
    }

    /// A line with a byte that is no text. What is left of it is not taken for another command.
    fn drop_rest(&mut self) -> io::Result<Line> {
        let why = "that was no UTF-8, and the line is dropped; write such a byte as $'\\377'";
        report::line(Some("shell"), why);
        loop {
            match self.read("(press Enter for a new line) ", "") {
                Ok(_) => return Ok(Line::Dropped),
                Err(error) if is_no_text(&error) => {}
                Err(error) => return ended(error),
            }
        }
    }
}

/// Typed bytes as they can be shown.
fn plain(bytes: &[u8]) -> String {
    let text = String::from_utf8_lossy(bytes);
    text.chars().filter(|c| !c.is_control()).collect()
}

fn is_no_text(error: &ReadlineError) -> bool {
    matches!(error, ReadlineError::Io(error) if error.kind() == io::ErrorKind::InvalidData)
}

fn ended(error: ReadlineError) -> io::Result<Line> {
    match error {
        ReadlineError::Interrupted | ReadlineError::Signal(_) => Ok(Line::Dropped),
        ReadlineError::Eof => Ok(Line::End),
        error => Err(io::Error::other(error)),
    }
}

fn history_file() -> Option<PathBuf> {
    let state = std::env::var_os("XDG_STATE_HOME")
        .map(PathBuf::from)
        .filter(|path| path.is_absolute())
        .or_else(|| Some(PathBuf::from(std::env::var_os("HOME")?).join(".local/state")))?;
    Some(state.join("fusewire/history"))
}
