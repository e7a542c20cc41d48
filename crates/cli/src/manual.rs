//! What other programs know of the command line: completions for shells, manual pages.

use crate::args::Cli;
use crate::report;
use crate::shell;
use clap::{Args, CommandFactory};
use clap_complete::Shell;
use clap_mangen::Man as Man1;
use clap_mangen::roff::{Roff, bold, roman};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

/// Write completions for a shell to standard output
#[derive(Args, Debug)]
pub struct Completions {
    /// The shell
    pub shell: Shell,
}

/// Write the manual page to standard output
#[derive(Args, Debug)]
pub struct Man {
    /// Write one page for each command into this directory of the host instead
    #[arg(long)]
    pub dir: Option<PathBuf>,
}

/// Returns the exit status.
pub fn completions(args: &Completions) -> i32 {
    let mut command = Cli::command();
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut command, "fusewire", &mut script);
    let mut script = String::from_utf8_lossy(&script).into_owned();
    match args.shell {
        Shell::Bash => skip_values(&mut script, &command),
        Shell::Fish => spare_commands(&mut script, &command),
        _ => {}
    }
    let written = io::stdout().lock().write_all(script.as_bytes());
    finish("completions", written)
}

/// In the script for bash the value of an option in front of the command is no command: man is a
/// user, too.
fn skip_values(script: &mut String, command: &clap::Command) {
    let with_values = command
        .get_arguments()
        .filter(|arg| arg.get_action().takes_values() && !arg.is_require_equals_set());
    let names: Vec<String> = with_values
        .flat_map(|arg| {
            let short = arg.get_short().map(|short| format!("-{short}"));
            let long = arg.get_long().map(|long| format!("--{long}"));
            short.into_iter().chain(long)
        })
        .collect();
    let case = "        case \"${cmd},${i}\" in\n";
    let skip = format!(
        "        if [[ ${{cmd}} == fusewire && ${{last}} == @({}) ]]; then\n            \
         last=\"\"\n            continue\n        fi\n        last=\"${{i}}\"\n",
        names.join("|")
    );
    *script = script.replacen(case, &format!("{skip}{case}"), 1).replacen(
        "    local i ",
        "    local last i ",
        1,
    );
    // What follows an option whose value is behind an equals sign is not that value.
    for arg in command
        .get_arguments()
        .filter(|a| a.is_require_equals_set())
    {
        let Some(long) = arg.get_long() else { continue };
        let values = arg.get_possible_values();
        let values: Vec<&str> = values.iter().map(|value| value.get_name()).collect();
        let indent = " ".repeat(20);
        let offer = format!(
            "                --{long})\n{indent}COMPREPLY=($(compgen -W \"{}\" -- \"${{cur}}\"))\n\
             {indent}return 0\n{indent};;\n",
            values.join(" ")
        );
        *script = script.replace(&offer, "");
    }
}

/// In the script for fish an option whose value is behind an equals sign or nowhere does not take the
/// command for it.
fn spare_commands(script: &mut String, command: &clap::Command) {
    for arg in command
        .get_arguments()
        .filter(|a| a.is_require_equals_set())
    {
        if let Some(long) = arg.get_long() {
            *script = script.replacen(&format!(" {long}= "), &format!(" {long}=? "), 1);
        }
    }
}

/// Returns the exit status.
pub fn man(args: &Man) -> i32 {
    let done = match &args.dir {
        Some(dir) => pages(dir),
        None => main_page(Cli::command(), &mut io::stdout().lock()),
    };
    finish("man", done)
}

fn pages(dir: &Path) -> io::Result<()> {
    std::fs::create_dir_all(dir)?;
    let mut command = Cli::command();
    command.build();
    let mut text = Vec::new();
    main_page(command.clone(), &mut text)?;
    std::fs::write(dir.join("fusewire.1"), text)?;
    for below in command.get_subcommands() {
        let name = format!("fusewire-{}", below.get_name());
        let is_shell = below.get_name() == "shell";
        // A name of its own for the title, which lives as long as the program.
        let below = below.clone().name(name.clone()).display_name(name.clone());
        let mut text = Vec::new();
        Man1::new(below).render(&mut text)?;
        if is_shell {
            section(&mut text, "COMMANDS OF THE SHELL ITSELF", &shell::BUILT_IN)?;
        }
        let also = [(
            "fusewire(1)",
            "Sources, environment, exit status and examples",
        )];
        section(&mut text, "SEE ALSO", &also)?;
        std::fs::write(dir.join(format!("{name}.1")), text)?;
    }
    Ok(())
}

/// Everything that is not about one command only.
fn main_page(command: clap::Command, out: &mut dyn Write) -> io::Result<()> {
    let about = |command: &clap::Command| {
        let about = command.get_long_about().or(command.get_about());
        about.map(ToString::to_string).unwrap_or_default()
    };
    let of_shell = command.find_subcommand("shell").map(about);
    let page = Man1::new(command);
    page.render_title(out)?;
    page.render_name_section(out)?;
    page.render_synopsis_section(out)?;
    page.render_description_section(out)?;
    page.render_options_section(out)?;
    page.render_subcommands_section(out)?;
    section(out, "SOURCES", &SOURCES)?;
    let mut shell = Roff::new();
    shell.control("SH", ["THE SHELL"]);
    shell.text([roman(of_shell.unwrap_or_default())]);
    shell.to_writer(out)?;
    section(out, "", &shell::BUILT_IN)?;
    section(out, "ENVIRONMENT", &ENVIRONMENT)?;
    section(out, "EXIT STATUS", &EXIT_STATUS)?;
    section(out, "EXAMPLES", &EXAMPLES)?;
    page.render_version_section(out)
}

/// Terms and what they mean, under a heading if it has a text.
fn section(out: &mut dyn Write, heading: &str, terms: &[(&str, &str)]) -> io::Result<()> {
    let mut roff = Roff::new();
    if !heading.is_empty() {
        roff.control("SH", [heading]);
    }
    for (term, meaning) in terms {
        roff.control("TP", []);
        roff.text([bold(*term)]);
        roff.text([roman(*meaning)]);
    }
    roff.to_writer(out)
}

const SOURCES: [(&str, &str); 11] = [
    ("dir:PATH", "A directory of this host, served in process"),
    (
        "mem:",
        "Memory, empty at first and gone at the end; mem:?capacity=1M bounds it",
    ),
    (
        "vhost-user:SOCKET",
        "A running daemon that listens on a socket",
    ),
    (
        "virtiofsd:PATH",
        "A virtiofsd that is started for a directory",
    ),
    (
        "synthetic:wide?dirs=N&files=N",
        "So many directories with so many files each. This and the ones that follow are trees made \
         up by rule, to test programs with",
    ),
    (
        "synthetic:endless",
        "Directories and files without end, in each directory",
    ),
    (
        "synthetic:endless-width",
        "A directory of files without end",
    ),
    (
        "synthetic:endless-depth",
        "A directory and a file in every directory",
    ),
    ("synthetic:cycle", "Directories that are inside themselves"),
    (
        "synthetic:crooked",
        "Names that are none, sizes that are none, holes everywhere, and types that change",
    ),
    (
        "synthetic:undead",
        "A directory in which what is removed is still there",
    ),
];

const ENVIRONMENT: [(&str, &str); 5] = [
    ("FUSEWIRE_SOURCE", "The source where no -s is given"),
    (
        "FUSEWIRE_VIRTIOFSD",
        "The program that virtiofsd:PATH starts; without it, the virtiofsd of this host",
    ),
    ("PATH", "Where virtiofsd is looked for"),
    (
        "XDG_STATE_HOME",
        "The directory for fusewire/history, the lines of the shell; without it, ~/.local/state",
    ),
    ("HOME", "Where lcd of the shell goes without an operand"),
];

const EXIT_STATUS: [(&str, &str); 5] = [
    ("0", "All went well"),
    ("1", "Something failed; a line on standard error says what"),
    ("2", "The command line is wrong"),
    ("130, 143", "Ended by Ctrl-C, by SIGTERM"),
    ("141", "Nobody reads the output any more"),
];

const EXAMPLES: [(&str, &str); 6] = [
    (
        "fusewire -s dir:notes ls -l /",
        "List what is in a directory of this host",
    ),
    (
        "fusewire -s vhost-user:/run/fs.sock get -r /2026 copy",
        "Copy a directory from a running daemon to this host",
    ),
    (
        "fusewire -s virtiofsd:/srv put -r site /www",
        "Copy a directory to what a virtiofsd serves",
    ),
    (
        "fusewire -s dir:notes find / --name *.txt --size +1M --json",
        "Find large texts, for a program to read",
    ),
    (
        "fusewire -s dir:notes get /log -",
        "Write a file to standard output",
    ),
    (
        "fusewire -s virtiofsd:/srv shell",
        "Run many commands over one connection",
    ),
];

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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::command_line;
    use crate::source::Source;
    use std::ffi::OsString;

    #[test]
    fn examples_are_command_lines() {
        let help = Cli::command().get_after_help().unwrap().to_string();
        let in_help = help.lines().filter_map(|line| {
            let line = line.strip_prefix("Examples: ").unwrap_or(line).trim();
            line.starts_with("fusewire ").then(|| line.to_owned())
        });
        let in_help: Vec<_> = in_help.collect();
        assert_eq!(in_help.len(), 3);
        let in_page = EXAMPLES.iter().map(|(line, _)| (*line).to_owned());
        for line in in_help.into_iter().chain(in_page) {
            let words = line.split(' ').map(OsString::from);
            let read = command_line::parse(Cli::command(), words);
            assert!(read.is_ok(), "{line}: {:?}", read.err());
        }
    }

    #[test]
    fn sources_of_the_manual_are_sources() {
        for (source, _) in SOURCES {
            let given = source.replace("=N", "=1");
            assert!(Source::parse(given.into()).is_ok(), "{source}");
        }
        // What is said about a shape that is none names them all.
        let error = Source::parse("synthetic:round".into()).unwrap_err();
        for (source, _) in SOURCES {
            let shape = source.strip_prefix("synthetic:");
            assert!(shape.is_none_or(|shape| error.contains(shape)), "{source}");
        }
        let shapes = error.matches(", ").count() + 2;
        let listed = SOURCES.iter().filter(|(s, _)| s.starts_with("synthetic:"));
        assert_eq!(listed.count(), shapes, "{error}");
    }
}
