//! `fusewire touch`

use crate::context::Context;
use crate::operands;
use crate::report::Problem;
use clap::Args;
use fusewire::{OpenOptions, Time, Times};
use jiff::civil::DateTime;
use jiff::tz::TimeZone;
use jiff::{Timestamp, Zoned};
use rustix::io::Errno;
use std::path::{Path, PathBuf};

/// Set times
///
/// Sets times, to now unless told otherwise, and makes files that are not there.
#[derive(Args, Debug)]
#[command(disable_help_flag = true)]
pub struct Touch {
    /// Set the time of access only
    #[arg(short = 'a')]
    pub accessed: bool,
    /// Set the time of modification only
    #[arg(short = 'm')]
    pub modified: bool,
    /// Do not make files that are not there
    #[arg(short = 'c', long)]
    pub no_create: bool,
    /// Set the times of symbolic links themselves; makes nothing
    #[arg(short = 'h', long)]
    pub no_dereference: bool,
    /// The time to set, such as 2026-05-01, 2026-05-01T12:30:00 (of the local time zone) or
    /// 2026-05-01T12:30:00Z, or seconds since 1970 after an @
    #[arg(short, long, value_name = "TIME", value_parser = time)]
    pub date: Option<Time>,
    /// Set the times that this file of the source has
    #[arg(short, long, value_name = "PATH", value_parser = crate::args::path(), conflicts_with = "date")]
    pub reference: Option<PathBuf>,
    /// Print help
    #[arg(long, action = clap::ArgAction::Help)]
    help: Option<bool>,
    /// Paths in the source
    #[arg(required = true, value_parser = crate::args::path())]
    pub paths: Vec<PathBuf>,
}

fn time(text: &str) -> Result<Time, String> {
    if let Some(seconds) = text.strip_prefix('@') {
        let seconds = seconds.parse();
        return seconds
            .map(|seconds| Time::At(seconds, 0))
            .map_err(|_| "after an @ comes a number of seconds".to_owned());
    }
    let local = |text: &str| {
        let civil: DateTime = text.parse().ok()?;
        Some(civil.to_zoned(TimeZone::system()).ok()?.timestamp())
    };
    let found = text
        .parse::<Timestamp>()
        .ok()
        .or_else(|| text.parse::<Zoned>().ok().map(|zoned| zoned.timestamp()))
        .or_else(|| local(text));
    let found = found.ok_or_else(|| "a time is such as 2026-05-01T12:30:00".to_owned())?;
    let (mut seconds, mut nanos) = (found.as_second(), found.subsec_nanosecond());
    if nanos < 0 {
        (seconds, nanos) = (seconds - 1, nanos + 1_000_000_000);
    }
    Ok(Time::At(seconds, nanos.unsigned_abs()))
}

/// Touches the operands.
pub fn run(args: &Touch, context: &Context<'_>) {
    match times(args, context) {
        Err(problem) => context.report.problem(problem),
        Ok(times) => operands::each(&args.paths, context, |path| one(args, context, path, times)),
    }
}

/// What to set.
fn times(args: &Touch, context: &Context<'_>) -> Result<Times, Problem> {
    let (accessed, modified) = match (&args.reference, args.date) {
        (Some(path), _) => {
            let found = context.client.metadata(crate::paths::check(path)?)?;
            (
                Time::At(found.atime(), found.atime_nsec()),
                Time::At(found.mtime(), found.mtime_nsec()),
            )
        }
        (None, Some(date)) => (date, date),
        (None, None) => (Time::Now, Time::Now),
    };
    let both = args.accessed == args.modified;
    Ok(Times {
        accessed: (both || args.accessed).then_some(accessed),
        modified: (both || args.modified).then_some(modified),
    })
}

fn one(args: &Touch, context: &Context<'_>, path: &Path, times: Times) -> Result<(), Problem> {
    let client = context.client;
    let set = || match args.no_dereference {
        true => client.set_symlink_times(path, times),
        false => client.set_times(path, times),
    };
    match set() {
        Err(error) if error.errno() == Errno::NOENT.raw_os_error() => {
            if args.no_create {
                return Ok(());
            }
            if args.no_dereference {
                return Err(error.into());
            }
            let mut options = OpenOptions::new();
            options.write(true).create(true).open(client, path)?;
            Ok(set()?)
        }
        done => Ok(done?),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_dates_or_seconds() {
        assert_eq!(time("@-5"), Ok(Time::At(-5, 0)));
        assert_eq!(time("1970-01-02T00:00:00Z"), Ok(Time::At(86_400, 0)));
        assert_eq!(
            time("1970-01-01T01:00:00.5+01:00"),
            Ok(Time::At(0, 500_000_000))
        );
        assert_eq!(
            time("1969-12-31T23:59:59.5Z"),
            Ok(Time::At(-1, 500_000_000))
        );
        assert!(time("2026-05-01").is_ok() && time("2026-05-01 12:30").is_ok());
        for wrong in ["", "@", "@x", "yesterday", "2026-13-01"] {
            assert!(time(wrong).is_err(), "{wrong}");
        }
    }
}
