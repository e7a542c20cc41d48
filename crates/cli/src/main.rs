//! The fusewire command: file operations on the files of a FUSE daemon, without a mount.

#![forbid(unsafe_code)]

mod args;
mod bench;
mod cat;
mod chmod;
mod chown;
mod command_line;
mod context;
mod copy;
mod cp;
mod cwd;
mod descent;
mod df;
mod doctor;
mod du;
mod find;
mod identity;
mod info;
mod interrupt;
mod ln;
mod ls;
mod manual;
mod mkdir;
mod mode_change;
mod mv;
mod operands;
mod paths;
mod readlink;
mod report;
mod rm;
mod rmdir;
mod session;
mod shell;
mod show;
mod sorted;
mod source;
mod stat;
mod stats;
mod steady;
mod touch;
mod tree;
mod truncate;
mod xattr;

use args::{Action, Cli, Command, Common};
use clap::CommandFactory;
use clap::error::ErrorKind;
use context::Context;
use fusewire::Client;
use interrupt::Interrupt;
use report::Report;
use session::{Connect, Session};
use std::io;
use std::path::Path;

/// As a shell reports the death by SIGPIPE.
const BROKEN_PIPE: i32 = 141;

const USAGE: i32 = 2;

/// What programs call standard input and output.
const STANDARD_STREAM: &str = "-";

fn main() {
    let status = match command_line::parse(Cli::command(), std::env::args_os()) {
        Ok((cli, _)) => match &cli.action {
            Action::Command(command) => run(command, &cli.common),
            Action::Bench(arguments) => bench::run(arguments),
            Action::Doctor(args) => doctor::run(args, &cli.common),
            Action::Completions(args) => manual::completions(args),
            Action::Man(args) => manual::man(args),
        },
        Err(error) => usage(&error, "fusewire --help"),
    };
    std::process::exit(status);
}

/// Help goes to standard output; what is wrong with a command line takes one line, which names where
/// there is `help`.
fn usage(error: &clap::Error, help: &str) -> i32 {
    if matches!(
        error.kind(),
        ErrorKind::DisplayHelp | ErrorKind::DisplayVersion
    ) {
        let _ = error.print();
        return 0;
    }
    let text = error.render().to_string();
    let first = text
        .lines()
        .map(str::trim)
        .take_while(|line| !line.is_empty())
        .collect::<Vec<_>>()
        .join(" ");
    let first = first.strip_prefix("error: ").unwrap_or(&first);
    let what = if error.kind() == ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand {
        "say what to do, such as ls"
    } else {
        first
    };
    report::line(None, &format!("{what}; see {help}"));
    USAGE
}

fn run(what: &Command, common: &Common) -> i32 {
    let name = what.name();
    let Some(source) = &common.source else {
        let text = "no source is given: use -s dir:PATH, -s vhost-user:SOCKET or \
                    -s virtiofsd:PATH, or set FUSEWIRE_SOURCE";
        report::line(Some(name), text);
        return USAGE;
    };
    let interrupt = match Interrupt::install() {
        Ok(interrupt) => interrupt,
        Err(error) => {
            report::line(Some(name), &format!("cannot wait for signals: {error}"));
            return 1;
        }
    };
    // What is copied keeps the rights it has.
    let umask = if what.copies() { Some(0) } else { common.umask };
    let connect = Connect::new(common, umask);
    let session = match connect.open(source) {
        Ok(session) => session,
        Err(why) => {
            report::line(Some(name), &format!("cannot connect: {why}"));
            return 1;
        }
    };
    let report = Report::new(name, interrupt.clone());
    interrupt.watch(&session.client);
    let status = match what {
        Command::Shell(args) => shell::run(args, &session, &interrupt, common),
        _ => {
            // Cancelled by itself, so that what it leaves can be cleaned up.
            let client = session.client.separate();
            interrupt.command_begins(what.ending(), Some(client.canceller()));
            let printed = command(what, &client, &session, &report, common);
            let status = outcome(printed, &report, &client);
            interrupt.command_is_over();
            status
        }
    };
    if let Some(format) = common.stats {
        stats::print(&session.client.stats(), format);
    }
    interrupt.unwatch();
    session.close();
    status
}

/// The exit status of a command.
fn outcome(printed: io::Result<()>, report: &Report, client: &Client) -> i32 {
    let status = report.finish(client);
    match printed {
        Ok(()) => status,
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => BROKEN_PIPE,
        Err(error) => {
            report.line(&format!("cannot write the output: {error}"));
            1
        }
    }
}

/// Runs the command in a session, by a client handle of it.
///
/// # Errors
/// When the output cannot be written. Everything else goes to the report.
fn command(
    command: &Command,
    client: &Client,
    session: &Session,
    report: &Report,
    common: &Common,
) -> io::Result<()> {
    let context = Context { client, report };
    match command {
        Command::Ls(args) => ls::run(args, &context)?,
        Command::Tree(args) => tree::run(args, &context)?,
        Command::Find(args) => find::run(args, &context)?,
        Command::Du(args) => du::run(args, &context)?,
        Command::Stat(args) => stat::run(args, &context)?,
        Command::Cat(args) => cat::run(args, &context)?,
        Command::Info(args) => info::run(args, session, &context)?,
        Command::Rm(args) => rm::run(args, &context),
        Command::Mkdir(args) => mkdir::run(args, &context),
        Command::Rmdir(args) => rmdir::run(args, &context),
        Command::Df(args) => df::run(args, &context)?,
        Command::Cp(args) => cp::run(args, &context),
        Command::Mv(args) => mv::run(args, &context),
        Command::Ln(args) => ln::run(args, &context),
        Command::Readlink(args) => readlink::run(args, &context)?,
        Command::Chmod(args) => chmod::run(args, &context),
        Command::Chown(args) => chown::run(args, &context),
        Command::Truncate(args) => truncate::run(args, &context),
        Command::Touch(args) => touch::run(args, &context),
        Command::Xattr(args) => xattr::run(args, &context)?,
        Command::Shell(_) => report.line("a shell runs in no other"),
        Command::Get(args) => {
            let (sources, target) = copy::operands(&args.paths);
            let sources: Vec<_> = sources.iter().map(|path| cwd::resolve(path)).collect();
            let target = match target == STANDARD_STREAM {
                true => Path::new("/dev/stdout"),
                false => target,
            };
            let copying = copy::Copying::new(&context, &args.copying, common.trace, session);
            copy::get::run(&copying, &sources, target);
        }
        Command::Put(args) => {
            let (sources, target) = copy::operands(&args.paths);
            let copying = copy::Copying::new(&context, &args.copying, common.trace, session);
            copy::put::run(&copying, sources, &cwd::resolve(target));
        }
    }
    Ok(())
}
