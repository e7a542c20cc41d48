//! What other programs know of the command line: completions for shells, manual pages.

use crate::args::Cli;
use crate::report;
use clap::{Args, CommandFactory};
use clap_complete::Shell;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

/// Writes the completions of a shell to standard output.
#[derive(Args, Debug)]
pub struct Completions {
    /// The shell
    pub shell: Shell,
}

/// Writes the manual page to standard output.
#[derive(Args, Debug)]
pub struct Man {
    /// Write one page for each command into this directory of the host instead
    #[arg(long)]
    pub dir: Option<PathBuf>,
}

/// Returns the exit status.
pub fn completions(args: &Completions) -> i32 {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut Cli::command(), "fusewire", &mut script);
    finish("completions", io::stdout().lock().write_all(&script))
}

/// Returns the exit status.
pub fn man(args: &Man) -> i32 {
    let done = match &args.dir {
        Some(dir) => pages(dir),
        None => clap_mangen::Man::new(Cli::command()).render(&mut io::stdout().lock()),
    };
    finish("man", done)
}

fn pages(dir: &Path) -> io::Result<()> {
    std::fs::create_dir_all(dir)?;
    let mut command = Cli::command();
    command.build();
    page(dir, command.clone())?;
    for below in command.get_subcommands() {
        let name = format!("fusewire-{}", below.get_name());
        // A name of its own for the title, which lives as long as the program.
        page(dir, below.clone().name(name.clone()).display_name(name))?;
    }
    Ok(())
}

fn page(dir: &Path, command: clap::Command) -> io::Result<()> {
    let path = dir.join(format!("{}.1", command.get_name()));
    let mut text = Vec::new();
    clap_mangen::Man::new(command).render(&mut text)?;
    std::fs::write(path, text)
}

fn finish(command: &str, done: io::Result<()>) -> i32 {
    match done {
        Ok(()) => 0,
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => crate::BROKEN_PIPE,
        Err(error) => {
            report::line(Some(command), &format!("cannot write: {error}"));
            1
        }
    }
}
