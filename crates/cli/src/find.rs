//! `fusewire find`

use crate::args::Find;
use crate::context::Context;
use crate::paths;
use crate::report::Problem;
use crate::show::json::Object;
use crate::show::mode;
use crate::show::output::Output;
use fusewire::{Metadata, WalkEntry};
use globset::{GlobBuilder, GlobMatcher};
use std::io::{self, Write};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::str::FromStr;

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
                Ok(Ok(Some((entry, meta)))) => show(args, &entry, meta.as_ref(), &mut out)?,
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
    entry: &WalkEntry,
    meta: Option<&Metadata>,
    out: &mut Output,
) -> io::Result<()> {
    let path = entry.path();
    let path = path.as_os_str().as_bytes();
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
        object = object.attributes(meta);
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
            Some(b'M') => (&number[..number.len() - 1], 1 << 20),
            Some(b'G') => (&number[..number.len() - 1], 1 << 30),
            _ => (number, 1),
        };
        let is_number = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
        let bytes = is_number
            .then(|| digits.parse::<u64>().ok()?.checked_mul(unit))
            .flatten();
        bytes.map(make).ok_or_else(|| {
            "give a number of bytes, with k, M or G for powers of 1024, and + or - in front for \
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
            ("2G", Size::Exactly(2 << 30)),
        ] {
            assert_eq!(text.parse(), Ok(size), "{text}");
        }
        for text in ["", "+", "k", "1T", "++1", "1.5k", "-é", "99999999999G"] {
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
