//! `fusewire truncate`

use crate::args::LongSource;
use crate::context::Context;
use crate::operands;
use crate::report::Problem;
use clap::Args;
use fusewire::OpenOptions;
use rustix::io::Errno;
use std::path::{Path, PathBuf};
use std::str::FromStr;

/// Set sizes
///
/// Cuts files off, or fills them up with zeroes.
#[derive(Args, Debug)]
pub struct Truncate {
    /// Do not make files that are not there
    #[arg(short = 'c', long)]
    pub no_create: bool,
    /// The new size in bytes, or in K, M, G, T of 1024; + and - change the size, < and > make it at
    /// most or at least so much, / and % round it down or up to a multiple
    #[arg(short, long, allow_hyphen_values = true)]
    pub size: NewSize,
    #[command(flatten)]
    pub long_source: LongSource,
    /// Paths in the source
    #[arg(required = true, value_parser = crate::args::path())]
    pub paths: Vec<PathBuf>,
}

/// A size, from the one that a file has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NewSize {
    how: How,
    bytes: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum How {
    To,
    By,
    Less,
    AtMost,
    AtLeast,
    DownTo,
    UpTo,
}

impl FromStr for NewSize {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (how, number) = match text.as_bytes().first() {
            Some(b'+') => (How::By, &text[1..]),
            Some(b'-') => (How::Less, &text[1..]),
            Some(b'<') => (How::AtMost, &text[1..]),
            Some(b'>') => (How::AtLeast, &text[1..]),
            Some(b'/') => (How::DownTo, &text[1..]),
            Some(b'%') => (How::UpTo, &text[1..]),
            _ => (How::To, text),
        };
        let (digits, unit) = match number.find(|c: char| !c.is_ascii_digit()) {
            Some(at) => number.split_at(at),
            None => (number, ""),
        };
        let shift = match unit {
            "" => 0,
            "K" | "k" => 10,
            "M" => 20,
            "G" => 30,
            "T" => 40,
            _ => return Err(format!("{unit:?} is no unit; use K, M, G or T")),
        };
        let count: u64 = digits
            .parse()
            .map_err(|_| "a size is a number with a unit, such as 10M".to_owned())?;
        let bytes = count
            .checked_mul(1 << shift)
            .filter(|bytes| *bytes <= i64::MAX as u64)
            .ok_or_else(|| "no file is that large".to_owned())?;
        if bytes == 0 && matches!(how, How::DownTo | How::UpTo) {
            return Err("there are no multiples of 0".to_owned());
        }
        Ok(NewSize { how, bytes })
    }
}

impl NewSize {
    /// The new size of a file of `size` bytes; `None` when no file is that large.
    fn of(self, size: u64) -> Option<u64> {
        let bytes = self.bytes;
        match self.how {
            How::To => Some(bytes),
            How::By => size.checked_add(bytes),
            How::Less => Some(size.saturating_sub(bytes)),
            How::AtMost => Some(size.min(bytes)),
            How::AtLeast => Some(size.max(bytes)),
            How::DownTo => Some(size / bytes * bytes),
            How::UpTo => size.checked_next_multiple_of(bytes),
        }
    }
}

/// Changes the operands.
pub fn run(args: &Truncate, context: &Context<'_>) {
    operands::each(&args.paths, context, |path| one(args, context, path));
}

fn one(args: &Truncate, context: &Context<'_>, path: &Path) -> Result<(), Problem> {
    let mut options = OpenOptions::new();
    options.write(true).create(!args.no_create);
    let file = match options.open(context.client, path) {
        Err(error) if args.no_create && error.errno() == Errno::NOENT.raw_os_error() => {
            return Ok(());
        }
        file => file?,
    };
    let size = args.size.of(file.metadata()?.len());
    let size = size.ok_or_else(|| Problem::about(path, "no file is that large"))?;
    file.set_len(size)?;
    file.close()?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_those_of_truncate() {
        for (text, size, new) in [
            ("10", 3, 10),
            ("2K", 3, 2048),
            ("+1k", 1, 1025),
            ("-5", 3, 0),
            ("<2", 3, 2),
            (">2", 3, 3),
            ("/2", 5, 4),
            ("%4", 5, 8),
            ("%4", 8, 8),
        ] {
            assert_eq!(
                text.parse::<NewSize>().unwrap().of(size),
                Some(new),
                "{text}"
            );
        }
        assert_eq!("+1".parse::<NewSize>().unwrap().of(u64::MAX), None);
        for wrong in [
            "",
            "x",
            "1X",
            "-",
            "%0",
            "/0",
            "9223372036854775808",
            "99999999T",
        ] {
            assert!(wrong.parse::<NewSize>().is_err(), "{wrong}");
        }
    }
}
