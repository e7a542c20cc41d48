//! What the Tab key adds to a line: commands, their options, and paths of the source or this host.

use super::words;
use crate::args::Cli;
use crate::cwd;
use crate::show::quote;
use clap::CommandFactory;
use fusewire::Client;
use rustyline::completion::{Completer, Pair};
use rustyline::highlight::Highlighter;
use rustyline::hint::Hinter;
use rustyline::validate::Validator;
use rustyline::{Context, Helper};
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::Path;
use std::sync::mpsc;
use std::time::Duration;

/// Most entries of a directory that are looked at, and how long that may take: somebody waits.
const MAX_ENTRIES: usize = 10_000;
const PATIENCE: Duration = Duration::from_secs(2);

/// Completes lines.
pub struct Complete {
    client: Client,
    /// The commands there are, with their options.
    commands: clap::Command,
}

impl Helper for Complete {}
impl Highlighter for Complete {}
impl Validator for Complete {}

impl Hinter for Complete {
    type Hint = String;
}

impl Completer for Complete {
    type Candidate = Pair;

    fn complete(
        &self,
        line: &str,
        pos: usize,
        _: &Context<'_>,
    ) -> rustyline::Result<(usize, Vec<Pair>)> {
        Ok(self.candidates(line.get(..pos).unwrap_or(line)))
    }
}

/// An entry of a directory: its name, and whether it is a directory, too.
type Entry = (OsString, bool);

impl Complete {
    pub fn new(client: &Client) -> Self {
        let mut commands = Cli::command();
        commands.build();
        Complete {
            client: client.separate(),
            commands,
        }
    }

    /// Where in the line the word begins that is completed, and what it can become.
    fn candidates(&self, line: &str) -> (usize, Vec<Pair>) {
        let words = match words::split(line.as_bytes()) {
            Ok(words) | Err((_, words)) => words,
        };
        let (start, word) = words.open.unwrap_or((line.len(), OsString::new()));
        let found = match words.done.first() {
            None => self.names(&word),
            Some(_) if word.as_bytes().starts_with(b"-") => self.options(&words.done, &word),
            Some(command) => match Operand::of(&words.done) {
                Operand::Action => self.actions(command, &word),
                Operand::Other => Vec::new(),
                Operand::Path => {
                    let directories = command == "cd" || command == "lcd" || command == "rmdir";
                    let both = command == "put" || command == "get";
                    let has_operand = words.done[1..].iter().any(|word| !is_option(word));
                    // The first operand is where the copy comes from; one that follows is mostly the target.
                    let local = command == "lcd" || (both && (command == "put") != has_operand);
                    paths(&word, directories, |dir| match local {
                        true => here(dir),
                        false => self.there(dir),
                    })
                }
            },
        };
        (start, found)
    }

    fn names(&self, begin: &OsStr) -> Vec<Pair> {
        let commands = self.commands.get_subcommands().map(clap::Command::get_name);
        let only_outside = |name: &&str| !super::OUTSIDE.contains(name);
        let known = super::BUILT_IN.iter().map(|(name, _)| *name);
        let mut names: Vec<&str> = commands.filter(only_outside).chain(known).collect();
        names.sort_unstable();
        names.dedup();
        whole(names.into_iter().map(str::to_owned), begin)
    }

    /// What a command does, where that is an operand.
    fn actions(&self, command: &OsStr, begin: &OsStr) -> Vec<Pair> {
        let found = self.commands.find_subcommand(command);
        let actions = found.into_iter().flat_map(clap::Command::get_subcommands);
        whole(actions.map(|action| action.get_name().to_owned()), begin)
    }

    fn options(&self, before: &[OsString], begin: &OsStr) -> Vec<Pair> {
        let mut command = &self.commands;
        for word in before {
            let below = word.to_str().and_then(|name| command.find_subcommand(name));
            command = below.unwrap_or(command);
        }
        let longs = command.get_arguments().filter(|arg| !arg.is_hide_set());
        let longs = longs.filter_map(|arg| Some(format!("--{}", arg.get_long()?)));
        whole(longs, begin)
    }

    /// Entries of a directory of the source. One that cannot be read has none here: the command
    /// itself says why.
    fn there(&self, dir: &Path) -> Vec<Entry> {
        let canceller = self.client.canceller();
        canceller.reset();
        let (done, is_done) = mpsc::channel::<()>();
        let watch = std::thread::Builder::new().spawn(move || {
            if is_done.recv_timeout(PATIENCE) == Err(mpsc::RecvTimeoutError::Timeout) {
                canceller.cancel();
            }
        });
        if watch.is_err() {
            return Vec::new();
        }
        let entries = self
            .client
            .read_dir(cwd::resolve(dir))
            .into_iter()
            .flatten();
        let entries = entries.take(MAX_ENTRIES).map_while(Result::ok);
        let found = entries.map(|entry| {
            let is_dir = entry.file_type().is_ok_and(|kind| kind.is_dir());
            (entry.file_name(), is_dir)
        });
        let found = found.collect();
        drop(done);
        found
    }
}

/// What an operand is that comes next.
enum Operand {
    Action,
    Path,
    /// Something that only the user knows, such as a mode.
    Other,
}

impl Operand {
    /// Behind `done`, the command first.
    fn of(done: &[OsString]) -> Self {
        let mut operands = done.iter().filter(|word| !is_option(word));
        let command = operands.next().and_then(|word| word.to_str());
        let action = operands.next().and_then(|word| word.to_str());
        let more = operands.count();
        match (command, action) {
            (Some("xattr"), None) => Operand::Action,
            (Some("xattr"), Some("get" | "remove")) if more < 1 => Operand::Other,
            (Some("xattr"), Some("set")) if more < 2 => Operand::Other,
            (Some("chmod" | "chown"), None) => Operand::Other,
            _ => Operand::Path,
        }
    }
}

fn is_option(word: &OsString) -> bool {
    word.as_bytes().starts_with(b"-")
}

/// Entries of a directory of this host.
fn here(dir: &Path) -> Vec<Entry> {
    let entries = std::fs::read_dir(dir).into_iter().flatten();
    let entries = entries.take(MAX_ENTRIES).map_while(Result::ok);
    let found = entries.map(|entry| {
        let is_dir = entry.file_type().is_ok_and(|kind| kind.is_dir());
        (entry.file_name(), is_dir)
    });
    found.collect()
}

/// Words that are complete, a blank behind them.
fn whole(words: impl Iterator<Item = String>, begin: &OsStr) -> Vec<Pair> {
    let fit = words.filter(|word| word.as_bytes().starts_with(begin.as_bytes()));
    fit.map(|word| Pair {
        replacement: format!("{word} "),
        display: word,
    })
    .collect()
}

/// Paths that begin with `begin`, quoted as they must be. Hidden names are for who begins them.
fn paths(
    begin: &OsStr,
    directories_only: bool,
    list: impl FnOnce(&Path) -> Vec<Entry>,
) -> Vec<Pair> {
    let bytes = begin.as_bytes();
    let cut = bytes
        .iter()
        .rposition(|byte| *byte == b'/')
        .map_or(0, |at| at + 1);
    let (dir, begin) = bytes.split_at(cut);
    let listed = match dir {
        [] => Path::new("."),
        dir => Path::new(OsStr::from_bytes(dir)),
    };
    let mut entries = list(listed);
    entries.sort();
    entries.retain(|(name, is_dir)| {
        let name = name.as_bytes();
        name.starts_with(begin)
            && (!name.starts_with(b".") || begin.starts_with(b"."))
            && (*is_dir || !directories_only)
    });
    entries
        .into_iter()
        .map(|(name, is_dir)| {
            let path = [dir, name.as_bytes()].concat();
            let mut replacement = quote::for_terminal(&path);
            replacement.push(if is_dir { '/' } else { ' ' });
            let mut display = quote::for_terminal(&name.into_vec());
            display.push_str(if is_dir { "/" } else { "" });
            Pair {
                display,
                replacement,
            }
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use fusewire_server::mem::{MemOptions, Memory};
    use fusewire_server::{ServerOptions, start};

    #[test]
    fn tab_knows_commands_options_and_paths() {
        let memory = Memory::new(MemOptions::default());
        let (transport, _server) = start(memory, &ServerOptions::default()).unwrap();
        let client = Client::builder().connect(transport).unwrap();
        client.create_dir_all("/dir/with space").unwrap();
        client.write("/dir/it's", "").unwrap();
        client.write("/dir/.hidden", "").unwrap();
        let complete = Complete::new(&client);
        let candidates = |line: &str| {
            let (start, pairs) = complete.candidates(line);
            let found: Vec<_> = pairs.into_iter().map(|pair| pair.replacement).collect();
            (start, found)
        };
        let one = |start, text: &str| (start, vec![text.to_owned()]);
        assert_eq!(candidates("readl"), one(0, "readlink "));
        assert_eq!(candidates("lp"), one(0, "lpwd "));
        assert!(!candidates("").1.contains(&"shell ".to_owned()));
        assert_eq!(candidates("ls --rec"), one(3, "--recursive "));
        assert_eq!(candidates("xattr list --val"), one(11, "--values "));
        assert_eq!(candidates("ls d"), one(3, "dir/"));
        assert_eq!(candidates("ls /dir/w"), one(3, "'/dir/with space'/"));
        assert_eq!(candidates("ls '/dir/with"), one(3, "'/dir/with space'/"));
        assert_eq!(candidates("ls /dir/i"), one(3, "\"/dir/it's\" "));
        assert_eq!(candidates("cd /dir/i"), (3, Vec::new()));
        assert_eq!(candidates("ls /dir/.h"), one(3, "/dir/.hidden "));
        assert_eq!(candidates("ls /dir/").1.len(), 2);
        assert_eq!(candidates("ls /nowhere/"), (3, Vec::new()));
        assert_eq!(candidates("xattr li"), one(6, "list "));
        assert_eq!(candidates("xattr set user.a "), (17, Vec::new()));
        assert_eq!(candidates("xattr get user.a d"), one(17, "dir/"));
        assert_eq!(candidates("chmod "), (6, Vec::new()));
        assert_eq!(candidates("chmod 644 d"), one(10, "dir/"));
        // The source has a dir, this host has a Cargo.toml.
        assert_eq!(candidates("get -r d"), one(7, "dir/"));
        assert_eq!(candidates("get dir Cargo.t"), one(8, "Cargo.toml "));
        assert_eq!(candidates("put Cargo.t"), one(4, "Cargo.toml "));
        assert_eq!(candidates("put Cargo.toml d"), one(15, "dir/"));
    }
}
