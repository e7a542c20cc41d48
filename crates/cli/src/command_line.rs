//! Reading a command line: what the definitions alone cannot say.

use crate::args::{Action, Cli, Command};
use clap::error::ErrorKind;
use clap::{ArgMatches, CommandFactory, FromArgMatches};
use std::ffi::OsString;
use std::path::PathBuf;

/// Reads the words of a command line, the name of the program first, by `definition`: that of
/// [`Cli`], which may hide some.
///
/// # Errors
/// What is wrong, and help that was asked for.
pub fn parse(
    definition: clap::Command,
    words: impl IntoIterator<Item = OsString>,
) -> Result<(Cli, ArgMatches), Box<clap::Error>> {
    let words = spell_out(words.into_iter().collect(), &definition);
    let matches = definition.try_get_matches_from(words)?;
    let cli = Cli::from_arg_matches(&matches)?;
    if let Action::Command(command) = &cli.action {
        check_operands(command)?;
    }
    Ok((cli, matches))
}

/// Long options that find(1) has with one dash.
const OF_FIND: [&str; 7] = [
    "-name",
    "-iname",
    "-type",
    "-size",
    "-mindepth",
    "-maxdepth",
    "-print0",
];

/// Gives the options of find their second dash.
fn spell_out(mut words: Vec<OsString>, definition: &clap::Command) -> Vec<OsString> {
    let is_command = |word: &&OsString| definition.find_subcommand(word).is_some();
    if words
        .iter()
        .find(is_command)
        .is_none_or(|word| word != "find")
    {
        return words;
    }
    for word in words.iter_mut().take_while(|word| *word != "--") {
        if OF_FIND.iter().any(|option| word == option) {
            let mut long = OsString::from("-");
            long.push(&*word);
            *word = long;
        }
    }
    words
}

/// Operands that go somewhere need a target. A least number in the definitions would count those
/// of each run between two options.
fn check_operands(command: &Command) -> Result<(), Box<clap::Error>> {
    let operands: &[PathBuf] = match command {
        Command::Get(args) => &args.paths,
        Command::Put(args) => &args.paths,
        Command::Cp(args) => &args.paths,
        Command::Mv(args) => &args.paths,
        Command::Ln(args) => &args.paths,
        _ => return Ok(()),
    };
    if operands.len() >= 2 {
        return Ok(());
    }
    let text = format!("the target is missing: {} SRC... DST", command.name());
    Err(Box::new(
        Cli::command().error(ErrorKind::TooFewValues, text),
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(line: &str) -> Result<Cli, String> {
        let words = line.split(' ').map(OsString::from);
        parse(Cli::command(), words)
            .map(|(cli, _)| cli)
            .map_err(|error| error.to_string())
    }

    #[test]
    fn options_may_stand_among_operands() {
        for line in [
            "fusewire get -r /tree --special out",
            "fusewire get /tree -r out",
            "fusewire put a -s mem: b -r /x",
            "fusewire cp /tree -r /zz",
            "fusewire mv a b -f c",
            "fusewire ln a -f b",
            "fusewire ln -s a -- -b",
            "fusewire find / -name a* -type f -size +1k -maxdepth 2 -print0",
        ] {
            assert!(read(line).is_ok(), "{line}: {:?}", read(line).err());
        }
        for command in ["get", "put", "cp", "mv", "ln"] {
            for rest in ["", " -s mem: a"] {
                let line = match command {
                    "ln" => format!("fusewire ln{}", rest.replace("-s", "--source")),
                    command => format!("fusewire {command}{rest}"),
                };
                let error = read(&line).expect_err(&line);
                let missing = ["the target is missing", "required arguments"];
                assert!(missing.iter().any(|m| error.contains(m)), "{line}: {error}");
            }
        }
    }
}
