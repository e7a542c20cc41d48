//! Developer commands of fusewire, run as `cargo xtask NAME`.
//!
//! Every check that continuous integration makes is one of these commands, so
//! that a contributor can run exactly the same thing.

mod apt;
mod bench;
mod ci;
mod deny;
mod docs;
mod fuzz;
mod lint;
mod models;
mod peers;
mod process;
mod requirements;
mod soak;
mod test;
mod tidy;
mod workspace;

use std::process::ExitCode;

use clap::{CommandFactory, Parser, Subcommand};
use models::Model;
use peers::Need;
use test::Size;

/// Developer commands of fusewire.
#[derive(Parser)]
#[command(name = "cargo xtask", bin_name = "cargo xtask")]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Everything that continuous integration checks, with a table at the end.
    Ci,
    /// Install the peers, then run all tests of the workspace, doc tests included.
    ///
    /// With arguments, runs `cargo test` with those instead, for example
    /// `cargo xtask test -p fusewire-mem -- buddy`.
    Test {
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        arguments: Vec<String>,
    },
    /// Install what the tests with real daemons need, below target/peers.
    Peers,
    /// Check the rules of this repository that no compiler checks.
    Tidy,
    /// Formatting and clippy.
    Lint,
    /// Model-check the lock-free parts with loom, canary included.
    Loom,
    /// Run the randomised schedules of shuttle, canary included.
    Shuttle,
    /// Fuzz every parser for a while.
    Fuzz {
        /// How long to fuzz each target, in seconds.
        #[arg(long, default_value_t = fuzz::SHORT_SECONDS)]
        seconds: u64,
        /// Only these targets.
        targets: Vec<String>,
    },
    /// The long cases at their full size.
    Soak {
        /// Run only 1/SCALE of it, for example 50 for what continuous integration does.
        #[arg(long, default_value_t = 1)]
        scale: u64,
    },
    /// Run benchmarks; arguments go to `fusewire bench` as they are.
    #[command(disable_help_flag = true)]
    Bench {
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        arguments: Vec<String>,
    },
    /// Build the API documentation with every warning an error.
    Docs,
    /// Check the licences and sources of all dependencies.
    Deny,
}

/// The names after `cargo xtask`.
fn command_names() -> Vec<String> {
    Arguments::command()
        .get_subcommands()
        .map(|command| command.get_name().to_owned())
        .collect()
}

fn main() -> ExitCode {
    let outcome = match Arguments::parse().command {
        Command::Ci => ci::all(),
        Command::Test { arguments } => {
            test::all(&arguments, Need::from_environment(), Size::Short).map(drop)
        }
        Command::Peers => peers::install(),
        Command::Tidy => tidy::check(),
        Command::Lint => lint::check(),
        Command::Loom => models::check(Model::Loom).map(drop),
        Command::Shuttle => models::check(Model::Shuttle).map(drop),
        Command::Fuzz { seconds, targets } => fuzz::all(seconds, &targets),
        Command::Soak { scale } => soak::all(scale),
        Command::Bench { arguments } => bench::start(&arguments),
        Command::Docs => docs::build(),
        Command::Deny => deny::check(),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}
