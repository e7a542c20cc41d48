//! The long cases at their full size; continuous integration runs 1/50 of it.

use crate::fuzz;
use crate::peers::Need;
use crate::process::Result;
use crate::test::{self, Size};

/// How long each fuzz target runs, in seconds.
const FUZZ_SECONDS: u64 = 300;

pub(crate) fn all() -> Result {
    test::all(&[], Need::from_environment(), Size::Full)?;
    fuzz::all(FUZZ_SECONDS, &[])
}
