//! The long cases at their full size; continuous integration runs 1/50 of it.

use std::time::Instant;

use crate::fuzz;
use crate::peers::Need;
use crate::process::Result;
use crate::test::{self, Size};

/// What a soak of 1/`scale` of its length consists of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Plan {
    /// The tests know two sizes, 1 and 1/50.
    size: Size,
    fuzz_seconds: u64,
}

impl Plan {
    fn new(scale: u64) -> Self {
        let scale = scale.max(1);
        Plan {
            size: if scale < 50 { Size::Full } else { Size::Short },
            fuzz_seconds: (fuzz::LONG_SECONDS / scale).max(1),
        }
    }
}

/// Runs both parts, also when one fails, and prints what each did.
pub(crate) fn all(scale: u64) -> Result {
    let plan = Plan::new(scale);
    let start = Instant::now();
    let tests = test::all(&[], Need::from_environment(), plan.size);
    let tests_took = start.elapsed().as_secs();
    let start = Instant::now();
    let fuzzing = fuzz::all(plan.fuzz_seconds, &[]);
    let fuzzing_took = start.elapsed().as_secs();

    let size = match plan.size {
        Size::Full => "full size",
        Size::Short => "1/50 of the size",
    };
    let outcome = match &tests {
        Ok(totals) => totals.to_string(),
        Err(error) => format!("FAILED: {error}"),
    };
    println!("\nsoak: tests at {size}, {tests_took} s: {outcome}");
    let seconds = plan.fuzz_seconds;
    let outcome = match &fuzzing {
        Ok(()) => "nothing found",
        Err(error) => error,
    };
    println!("soak: fuzzing {seconds} s a target, {fuzzing_took} s: {outcome}");
    tests.map(drop).and(fuzzing)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fiftieth_is_what_continuous_integration_runs() {
        let short = Plan {
            size: Size::Short,
            fuzz_seconds: fuzz::SHORT_SECONDS,
        };
        assert_eq!(Plan::new(50), short);
        let full = Plan {
            size: Size::Full,
            fuzz_seconds: 300,
        };
        assert_eq!(Plan::new(1), full);
        assert_eq!(Plan::new(0), full);
        assert_eq!(Plan::new(1000).fuzz_seconds, 1);
    }
}
