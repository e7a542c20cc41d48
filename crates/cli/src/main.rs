//! The fusewire command: file operations on the files of a FUSE daemon, without a mount.

#![forbid(unsafe_code)]

mod args;
mod bench;
mod cat;
mod context;
mod copy;
mod descent;
mod du;
mod find;
mod info;
mod interrupt;
mod ls;
mod mkdir;
mod paths;
mod report;
mod rm;
mod session;
mod show;
mod sorted;
mod source;
mod stat;
mod stats;
mod tree;

use args::{Action, Cli, Command, Common};
use clap::Parser;
use clap::error::ErrorKind;
use context::Context;
use interrupt::Interrupt;
use report::Report;
use session::{Connect, Session};
use std::io;

/// As a shell reports the death by SIGPIPE.
const BROKEN_PIPE: i32 = 141;

const USAGE: i32 = 2;

fn main() {
    let status = match Cli::try_parse() {
        Ok(cli) => match &cli.action {
            Action::Command(command) => run(command, &cli.common),
            Action::Bench(arguments) => bench::run(arguments),
        },
        Err(error) => usage(&error),
    };
    std::process::exit(status);
}

/// Help goes to standard output; what is wrong with a command line takes one line, too.
fn usage(error: &clap::Error) -> i32 {
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
    report::line(None, &format!("{what}; see fusewire --help"));
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
    let copies = matches!(what, Command::Get(_) | Command::Put(_));
    // What is copied keeps the rights it has.
    let connect = Connect::new(common, copies.then_some(0));
    let session = match connect.open(source) {
        Ok(session) => session,
        Err(why) => {
            report::line(Some(name), &format!("cannot connect: {why}"));
            return 1;
        }
    };
    let report = Report::new(name, interrupt.clone());
    interrupt.watch(&session.client);
    if copies {
        interrupt.wind_down();
    }
    let printed = command(what, &session, &report, common);
    let mut status = report.finish(&session.client);
    if let Err(error) = printed {
        status = match error.kind() {
            io::ErrorKind::BrokenPipe => BROKEN_PIPE,
            _ => {
                report.line(&format!("cannot write the output: {error}"));
                1
            }
        };
    }
    if let Some(format) = common.stats {
        stats::print(&session.client.stats(), format);
    }
    interrupt.unwatch();
    session.close();
    status
}

/// Runs the command.
///
/// # Errors
/// When the output cannot be written. Everything else goes to the report.
fn command(
    command: &Command,
    session: &Session,
    report: &Report,
    common: &Common,
) -> io::Result<()> {
    let context = Context {
        client: &session.client,
        report,
    };
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
        Command::Get(args) => {
            let (sources, target) = copy::operands(&args.paths);
            let copying = copy::Copying::new(&context, &args.copying, common.trace, session);
            copy::get::run(&copying, sources, target);
        }
        Command::Put(args) => {
            let (sources, target) = copy::operands(&args.paths);
            let copying = copy::Copying::new(&context, &args.copying, common.trace, session);
            copy::put::run(&copying, sources, target);
        }
    }
    Ok(())
}
