//! `fusewire find`

use crate::context::Context;
use crate::paths;
use crate::report::Problem;
use crate::show::json::{self, Object};
use crate::show::mode;
use crate::show::output::Output;
use clap::Args;
use fusewire::{Metadata, WalkEntry};
use globset::{GlobBuilder, GlobMatcher};
use std::io::{self, Write};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::str::FromStr;

/// Find files by name, type and size
///
/// Shows every file at and below the paths that is all that the options ask for. Symbolic links
/// are not followed. The options that find(1) has, too, may be spelled with one dash.
#[derive(Args, Debug)]
pub struct Find {
    /// Names like this: * and ? stand for any characters, [a-z] for one of several, {a,b} for one
    /// of several patterns
    #[arg(long, value_name = "GLOB", value_parser = Glob::exact)]
    pub name: Vec<Glob>,
    /// As --name, in capital and small letters
    #[arg(long, value_name = "GLOB", value_parser = Glob::any_case)]
    pub iname: Vec<Glob>,
    /// Types: f (file), d (directory), l (symbolic link), b and c (devices), p (pipe), s (socket)
    #[arg(long = "type", value_name = "TYPES", value_delimiter = ',', value_parser = kind)]
    pub kinds: Vec<char>,
    /// Sizes: so many bytes (c may follow), or more (+) or less (-), in k, M or G of 1024. Nothing is
    /// rounded: -1k is all below 1024 bytes
    #[arg(long, value_name = "[+-]N[ckMG]", allow_hyphen_values = true)]
    pub size: Vec<Size>,
    /// Leave out what is less deep; the paths themselves have depth 0
    #[arg(
        long,
        alias = "mindepth",
        value_name = "N",
        default_value_t = 0,
        hide_default_value = true
    )]
    pub min_depth: usize,
    /// Leave out what is deeper
    #[arg(long, alias = "maxdepth", value_name = "N", default_value_t = usize::MAX, hide_default_value = true)]
    pub max_depth: usize,
    /// End each path with a NUL byte instead of a newline
    #[arg(long, conflicts_with = "json")]
    pub print0: bool,
    #[arg(long, help = json::help_with_attributes("path, depth, target of links"))]
    pub json: bool,
    /// Paths in the source; without any, the root, or the current directory of a shell
    #[arg(value_parser = crate::args::path())]
    pub paths: Vec<PathBuf>,
}

/// Shows what matches, in the daemon's order, as it is found.
///
/// # Errors
/// When the output cannot be written.
pub fn run(args: &Find, context: &Context<'_>) -> io::Result<()> {
    let report = context.report;
    let mut out = Output::new();
    for path in crate::cwd::or_here(&args.paths).iter() {
        let path = match paths::check(path) {
            Ok(path) => path,
            Err(problem) => {
                report.problem(problem);
                continue;
            }
        };
        let walk = context.client.walk(path);
        let walk = walk.min_depth(args.min_depth).max_depth(args.max_depth);
        for entry in walk {
            if report.stopped() {
                return out.flush();
            }
            match entry.map(|entry| matches(args, &entry).map(|meta| meta.map(|m| (entry, m)))) {
                Ok(Ok(Some((entry, meta)))) => {
                    show(args, context, &entry, meta.as_ref(), &mut out)?
                }
                Ok(Ok(None)) => {}
                Ok(Err(error)) | Err(error) => report.problem(Problem::from(error)),
            }
        }
    }
    out.flush()
}

/// Whether an entry is one of those looked for, with its attributes if they are needed.
fn matches(args: &Find, entry: &WalkEntry) -> fusewire::Result<Option<Option<Metadata>>> {
    let name = entry.file_name();
    let is_called = |globs: &[Glob]| globs.is_empty() || globs.iter().any(|g| g.matches(&name));
    let kind = mode::letter(entry.file_type());
    let is_kind = args.kinds.is_empty() || args.kinds.contains(&kind);
    if !is_kind || !is_called(&args.name) || !is_called(&args.iname) {
        return Ok(None);
    }
    if args.size.is_empty() && !args.json {
        return Ok(Some(None));
    }
    let meta = entry.metadata()?;
    let fits = args.size.iter().all(|size| size.fits(meta.len()));
    Ok(fits.then_some(Some(meta)))
}

fn show(
    args: &Find,
    context: &Context<'_>,
    entry: &WalkEntry,
    meta: Option<&Metadata>,
    out: &mut Output,
) -> io::Result<()> {
    let at = entry.path();
    let path = at.as_os_str().as_bytes();
    if args.print0 {
        out.write_all(path)?;
        return out.write_all(b"\0");
    }
    if !args.json {
        out.name(path)?;
        return out.end_line();
    }
    let mut object = Object::default()
        .name("path", path)
        .put("type", mode::letter(entry.file_type()).to_string())
        .put("depth", entry.depth());
    if let Some(meta) = meta {
        object = object.attributes(meta).target(meta, &at, context);
    }
    object.write(out)
}

/// A pattern for names, as a shell has them.
#[derive(Clone, Debug)]
pub struct Glob(GlobMatcher);

impl Glob {
    fn new(text: &str, any_case: bool) -> Result<Self, String> {
        let built = GlobBuilder::new(text)
            .case_insensitive(any_case)
            .backslash_escape(true)
            .build();
        let glob = built.map_err(|error| error.kind().to_string())?;
        Ok(Glob(glob.compile_matcher()))
    }

    /// Reads a pattern.
    ///
    /// # Errors
    /// One line for the user.
    pub fn exact(text: &str) -> Result<Self, String> {
        Self::new(text, false)
    }

    /// Reads a pattern for names in capital and small letters.
    ///
    /// # Errors
    /// One line for the user.
    pub fn any_case(text: &str) -> Result<Self, String> {
        Self::new(text, true)
    }

    fn matches(&self, name: impl AsRef<Path>) -> bool {
        self.0.is_match(name)
    }
}

/// Reads the letter of a type.
///
/// # Errors
/// One line for the user.
pub fn kind(text: &str) -> Result<char, String> {
    let mut letters = text.chars();
    match (letters.next(), letters.next()) {
        (Some(letter), None) if "fdlbcps".contains(letter) => Ok(letter),
        _ => Err(
            "give f (file), d (directory), l (symbolic link), b or c (device), p (pipe) or \
             s (socket), several with commas"
                .to_owned(),
        ),
    }
}

/// Sizes that are looked for, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Size {
    Exactly(u64),
    MoreThan(u64),
    LessThan(u64),
}

impl Size {
    fn fits(self, bytes: u64) -> bool {
        match self {
            Size::Exactly(wanted) => bytes == wanted,
            Size::MoreThan(wanted) => bytes > wanted,
            Size::LessThan(wanted) => bytes < wanted,
        }
    }
}

impl FromStr for Size {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (make, number): (fn(u64) -> Size, _) = match text.split_at_checked(1) {
            Some(("+", number)) => (Size::MoreThan, number),
            Some(("-", number)) => (Size::LessThan, number),
            _ => (Size::Exactly, text),
        };
        let (digits, unit) = match number.as_bytes().last() {
            Some(b'k' | b'K') => (&number[..number.len() - 1], 1 << 10),
            Some(b'c') => (&number[..number.len() - 1], 1),
            Some(b'M') => (&number[..number.len() - 1], 1 << 20),
            Some(b'G') => (&number[..number.len() - 1], 1 << 30),
            _ => (number, 1),
        };
        let is_number = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
        let bytes = is_number
            .then(|| digits.parse::<u64>().ok()?.checked_mul(unit))
            .flatten();
        bytes.map(make).ok_or_else(|| {
            "give a number of bytes (c), or with k, M or G of powers of 1024, and + or - in front for \
             more or less than that"
                .to_owned()
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::ffi::OsStr;

    #[test]
    fn sizes_are_numbers_with_units_and_signs() {
        for (text, size) in [
            ("0", Size::Exactly(0)),
            ("+4k", Size::MoreThan(4096)),
            ("-1M", Size::LessThan(1 << 20)),
            ("7c", Size::Exactly(7)),
            ("2G", Size::Exactly(2 << 30)),
        ] {
            assert_eq!(text.parse(), Ok(size), "{text}");
        }
        for text in [
            "",
            "+",
            "k",
            "c",
            "7w",
            "1T",
            "++1",
            "1.5k",
            "-é",
            "99999999999G",
        ] {
            assert!(text.parse::<Size>().is_err(), "{text}");
        }
        assert!(Size::MoreThan(1).fits(2) && !Size::MoreThan(1).fits(1));
        assert!(Size::LessThan(1).fits(0) && !Size::LessThan(1).fits(1));
    }

    #[test]
    fn patterns_are_for_whole_names_of_any_bytes() {
        use std::os::unix::ffi::OsStrExt;
        let matches = |glob: &str, name: &[u8]| {
            let glob = Glob::exact(glob).unwrap();
            glob.matches(OsStr::from_bytes(name))
        };
        assert!(matches("*.rs", b"a.rs") && !matches("*.rs", b"a.rs.bak"));
        assert!(matches("*", b".hidden") && matches("*", b"\xff\n"));
        assert!(matches("[ab]?", b"b1") && !matches("[!ab]?", b"b1"));
        assert!(!matches("A", b"a"));
        assert!(Glob::any_case("A*").unwrap().matches("aB"));
        assert!(Glob::exact("[").is_err());
    }

    #[test]
    fn types_are_single_letters() {
        assert_eq!(kind("d"), Ok('d'));
        for text in ["", "x", "fd"] {
            assert!(kind(text).is_err(), "{text}");
        }
    }
}
