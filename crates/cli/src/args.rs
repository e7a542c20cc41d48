//! The command line.

use crate::bench;
use crate::find;
use crate::interrupt::Ending;
use crate::show::json;
use crate::source::Source;
use crate::{chmod, chown, cp, cwd, df, doctor, identity, ln, manual, mkdir, mv, readlink, rm};
use crate::{rmdir, shell, touch, truncate, xattr};
use clap::builder::{OsStringValueParser, TypedValueParser};
use clap::{Args, Parser, Subcommand, ValueEnum};
use fusewire::Identity;
use std::path::{Path, PathBuf};

/// Work with the files of a FUSE daemon or virtio-fs device, without a mount.
#[derive(Debug, Parser)]
#[command(name = "fusewire", version, max_term_width = 100)]
#[command(after_help = "\
Exit status: 0 when all went well, 1 when something failed, 2 for a wrong command line,
130 and 143 after Ctrl-C and SIGTERM, 141 when the output is closed.

Variables: FUSEWIRE_SOURCE is the source where no -s is given, FUSEWIRE_VIRTIOFSD the program that
virtiofsd:PATH starts.

Examples: fusewire -s dir:notes ls -l /
          fusewire -s dir:notes get -r /2026 copy
          fusewire -s virtiofsd:/srv shell")]
pub struct Cli {
    #[command(flatten)]
    pub common: Common,
    #[command(subcommand)]
    pub action: Action,
}

/// What to do.
#[derive(Debug, Subcommand)]
pub enum Action {
    #[command(flatten)]
    Command(Command),
    Bench(bench::Arguments),
    Doctor(doctor::Doctor),
    Completions(manual::Completions),
    Man(manual::Man),
}

/// Options of every command.
#[derive(Args, Debug)]
#[command(next_help_heading = "Options of every command")]
pub struct Common {
    /// Where the files are: dir:PATH (a directory, served in process), mem: (memory, empty at
    /// first; mem:?capacity=1M bounds it), vhost-user:SOCKET (a running daemon), virtiofsd:PATH (a
    /// virtiofsd started for a directory) or synthetic:SHAPE (a tree made up by rule, to test
    /// programs with, such as synthetic:endless or synthetic:wide?dirs=1000&files=1000)
    #[arg(
        short,
        long,
        global = true,
        env = "FUSEWIRE_SOURCE",
        value_name = "SOURCE"
    )]
    #[arg(value_parser = OsStringValueParser::new().try_map(Source::parse))]
    pub source: Option<Source>,

    /// Write a line for each request to standard error
    #[arg(long, global = true, value_name = "FORMAT")]
    #[arg(num_args = 0..=1, require_equals = true, default_missing_value = "text")]
    pub trace: Option<Format>,

    /// Act as this user, whose rights are then checked: USER, USER:GROUP or USER:GROUP,GROUP…; what
    /// the daemon itself may do stays as it is
    #[arg(long = "as", global = true, value_name = "USER", value_parser = identity::parse)]
    pub identity: Option<Identity>,

    /// Permission bits that new files do not get, in octal digits; without this, those of the process
    #[arg(long, global = true, value_name = "MODE", value_parser = umask)]
    pub umask: Option<u32>,

    /// Write how much was sent and received, by request, to standard error at the end
    #[arg(long, global = true, value_name = "FORMAT")]
    #[arg(num_args = 0..=1, require_equals = true, default_missing_value = "text")]
    pub stats: Option<Format>,
}

fn umask(text: &str) -> Result<u32, String> {
    match u32::from_str_radix(text, 8) {
        Ok(mask) if mask <= 0o777 && !text.starts_with('+') => Ok(mask),
        _ => Err("a umask is octal digits up to 777, such as 022".to_owned()),
    }
}

/// For commands that need -s for something else, as everybody expects: behind their name the source
/// has its long option only, in front of it both. Takes the place of the option of every command.
#[derive(Args, Debug)]
pub struct LongSource {
    /// Where the files are; -s is something else here
    #[arg(long, env = "FUSEWIRE_SOURCE", value_name = "SOURCE", hide_env = true)]
    #[arg(help_heading = "Options of every command")]
    #[arg(value_parser = OsStringValueParser::new().try_map(Source::parse))]
    pub source: Option<Source>,
}

/// A path, which may be empty: the commands say better what is wrong with that.
pub fn path() -> impl TypedValueParser<Value = PathBuf> {
    OsStringValueParser::new().map(|path| cwd::resolve(Path::new(&path)))
}

/// A path as it is: one of this host, or one that the command itself takes for one of the source.
pub fn plain_path() -> impl TypedValueParser<Value = PathBuf> {
    OsStringValueParser::new().map(PathBuf::from)
}

/// What output is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Format {
    /// People.
    Text,
    /// Programs.
    Json,
}

/// What to do with a source.
#[derive(Debug, Subcommand)]
pub enum Command {
    Ls(Ls),
    Tree(Tree),
    Find(find::Find),
    Du(Du),
    Stat(Stat),
    Cat(Cat),
    Get(Get),
    Put(Put),
    Rm(rm::Rm),
    Mkdir(mkdir::Mkdir),
    Rmdir(rmdir::Rmdir),
    Df(df::Df),
    Cp(cp::Cp),
    Mv(mv::Mv),
    Ln(ln::Ln),
    Readlink(readlink::Readlink),
    Chmod(chmod::Chmod),
    Chown(chown::Chown),
    Truncate(truncate::Truncate),
    Touch(touch::Touch),
    Xattr(xattr::Xattr),
    Shell(shell::Shell),
    Info(Info),
}

/// List files and directories
#[derive(Args, Debug)]
#[command(disable_help_flag = true)]
pub struct Ls {
    /// Show type, rights, links, owner, group, size and date
    #[arg(short)]
    pub long: bool,
    /// Show sizes with units, such as 1.5M, with -l
    #[arg(short = 'h', long = "human-readable")]
    pub human: bool,
    /// Show names that begin with a dot, too
    #[arg(short, long)]
    pub all: bool,
    /// Show directories themselves, not what is in them
    #[arg(short, long, conflicts_with = "recursive")]
    pub directory: bool,
    /// Show one name a line, on a terminal, too
    #[arg(short = '1')]
    pub one: bool,
    /// List directories below, too
    #[arg(short = 'R', long)]
    pub recursive: bool,
    #[arg(long, conflicts_with = "long")]
    #[arg(help = json::help_with_attributes("path, target of links"))]
    pub json: bool,
    /// Print help
    #[arg(long, action = clap::ArgAction::Help)]
    help: Option<bool>,
    /// Paths in the source; without any, the root, or the current directory of a shell
    #[arg(value_parser = path())]
    pub paths: Vec<PathBuf>,
}

/// Show directories as trees
#[derive(Args, Debug)]
pub struct Tree {
    /// Show names that begin with a dot, too
    #[arg(short, long)]
    pub all: bool,
    /// Show directories only
    #[arg(short, long)]
    pub directories: bool,
    /// Show no more than so many levels
    #[arg(short = 'L', long, value_name = "N")]
    #[arg(value_parser = clap::value_parser!(u32).range(1..).map(|n| n as usize))]
    pub level: Option<usize>,
    #[arg(long, help = json::help("path, depth, type (a letter as for find), target of links"))]
    pub json: bool,
    /// Paths in the source; without any, the root, or the current directory of a shell
    #[arg(value_parser = path())]
    pub paths: Vec<PathBuf>,
}

/// Show how much room files take
///
/// Shows the room that each directory takes with all below, in units of 1024 bytes. A file with
/// several names is counted once.
#[derive(Args, Debug)]
#[command(disable_help_flag = true)]
pub struct Du {
    /// Show files, too
    #[arg(short, long)]
    pub all: bool,
    /// Show the paths only, not the directories below
    #[arg(short, long, conflicts_with_all = ["all", "max_depth"])]
    pub summarize: bool,
    /// Show no more than so many levels below the paths
    #[arg(short = 'd', long, value_name = "N")]
    pub max_depth: Option<usize>,
    /// Show the sum of all paths, too
    #[arg(short = 'c', long)]
    pub total: bool,
    /// Count a file under each of its names
    #[arg(short = 'l', long)]
    pub count_links: bool,
    /// Show how long files are, not how much room they take
    #[arg(long)]
    pub apparent_size: bool,
    /// Show sizes with units, such as 1.5M
    #[arg(short = 'h', long = "human-readable")]
    pub human: bool,
    #[arg(long, conflicts_with = "human")]
    #[arg(help = json::help("path, depth, bytes; with -c at last bytes, total (true)"))]
    pub json: bool,
    /// Print help
    #[arg(long, action = clap::ArgAction::Help)]
    help: Option<bool>,
    #[command(flatten)]
    pub long_source: LongSource,
    /// Paths in the source; without any, the root, or the current directory of a shell
    #[arg(value_parser = path())]
    pub paths: Vec<PathBuf>,
}

/// Show the attributes of files
#[derive(Args, Debug)]
pub struct Stat {
    /// Follow symbolic links
    #[arg(short = 'L', long)]
    pub dereference: bool,
    #[arg(long, help = json::help_with_attributes("path, target of links"))]
    pub json: bool,
    /// Paths in the source
    #[arg(required = true, value_parser = path())]
    pub paths: Vec<PathBuf>,
}

/// Write the contents of files to standard output
#[derive(Args, Debug)]
pub struct Cat {
    /// Paths in the source
    #[arg(required = true, value_parser = path())]
    pub paths: Vec<PathBuf>,
}

#[derive(Args, Debug)]
pub struct Copying {
    /// Copy directories with everything below, and symbolic links as links
    #[arg(short, long, visible_short_alias = 'R')]
    pub recursive: bool,
    /// Make device nodes, pipes and sockets, and keep set-user-id and set-group-id bits
    #[arg(long)]
    pub special: bool,
}

/// Copy files from the source to this host
///
/// Rights, times, symbolic links and holes are kept. A file appears under its name when it is
/// complete. Nothing is written outside of the target. A symbolic link in the place of a target is
/// replaced; one that leads to a device node, a pipe or a standard stream, such as /dev/stdout, is
/// written through when it is named itself.
#[derive(Args, Debug)]
#[command(override_usage = "fusewire get [OPTIONS] SRC... DST")]
pub struct Get {
    #[command(flatten)]
    pub copying: Copying,
    /// Paths in the source, and at last a file or directory of this host, or - for standard output
    #[arg(required = true, value_parser = plain_path())]
    pub paths: Vec<PathBuf>,
}

/// Copy files from this host to the source
///
/// Rights, times, symbolic links and holes are kept. A file appears under its name when it is
/// complete.
#[derive(Args, Debug)]
#[command(override_usage = "fusewire put [OPTIONS] SRC... DST")]
pub struct Put {
    #[command(flatten)]
    pub copying: Copying,
    /// Files of this host, and at last a path in the source
    #[arg(required = true, value_parser = plain_path())]
    pub paths: Vec<PathBuf>,
}

/// Show what was agreed on with the daemon, and its limits
#[derive(Args, Debug)]
pub struct Info {
    /// Write one JSON object on a line: source, daemon, protocol, transport, file_system, each an
    /// object with the facts that are shown without it
    #[arg(long)]
    pub json: bool,
}

impl Command {
    /// As it is spelled.
    pub fn name(&self) -> &'static str {
        match self {
            Command::Ls(_) => "ls",
            Command::Tree(_) => "tree",
            Command::Find(_) => "find",
            Command::Du(_) => "du",
            Command::Stat(_) => "stat",
            Command::Cat(_) => "cat",
            Command::Get(_) => "get",
            Command::Put(_) => "put",
            Command::Rm(_) => "rm",
            Command::Mkdir(_) => "mkdir",
            Command::Rmdir(_) => "rmdir",
            Command::Df(_) => "df",
            Command::Cp(_) => "cp",
            Command::Mv(_) => "mv",
            Command::Ln(_) => "ln",
            Command::Readlink(_) => "readlink",
            Command::Chmod(_) => "chmod",
            Command::Chown(_) => "chown",
            Command::Truncate(_) => "truncate",
            Command::Touch(_) => "touch",
            Command::Xattr(_) => "xattr",
            Command::Shell(_) => "shell",
            Command::Info(_) => "info",
        }
    }

    /// Whether it copies between the source and this host.
    pub fn copies(&self) -> bool {
        matches!(self, Command::Get(_) | Command::Put(_))
    }

    /// What a signal does to it.
    pub fn ending(&self) -> Ending {
        match self {
            Command::Get(_) | Command::Put(_) => Ending::WindsDown,
            Command::Cp(_) | Command::Ln(_) => Ending::Cancelled,
            _ => Ending::AtOnce,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn the_definitions_go_together() {
        Cli::command().debug_assert();
    }

    #[test]
    fn common_options_may_stand_behind_the_command() {
        let cli = Cli::parse_from(["fusewire", "ls", "-la", "-s", "mem:", "--trace=json", "x"]);
        assert_eq!(cli.common.trace, Some(Format::Json));
        assert_eq!(
            cli.common.source,
            Some(Source::Mem {
                capacity_bytes: None
            })
        );
        let cli = Cli::parse_from(["fusewire", "--trace", "ls"]);
        assert_eq!(cli.common.trace, Some(Format::Text));
    }

    #[test]
    fn a_command_may_have_a_short_option_of_the_source_for_itself() {
        let memory = Some(Source::Mem {
            capacity_bytes: None,
        });
        for line in [
            "fusewire -s mem: ln -s a b",
            "fusewire ln -s --source mem: a b",
            "fusewire --source mem: truncate -s 1 a",
            "fusewire du -s --source=mem: a",
        ] {
            let cli = Cli::try_parse_from(line.split(' ')).expect(line);
            assert_eq!(cli.common.source, memory, "{line}");
        }
    }
}
