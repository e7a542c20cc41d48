//! `fusewire cat`

use crate::args::Cat;
use crate::context::Context;
use crate::paths;
use crate::report::Problem;
use std::io::{self, Read, Write};
use std::path::Path;

/// Large enough to keep several requests in flight.
const BUFFER_BYTES: usize = 4 << 20;

/// Writes the contents of the operands to standard output.
///
/// # Errors
/// When the output cannot be written.
pub fn run(args: &Cat, context: &Context<'_>) -> io::Result<()> {
    let mut out = io::stdout().lock();
    let mut buffer = vec![0; BUFFER_BYTES];
    for path in &args.paths {
        if context.report.stopped() {
            break;
        }
        match one(context, path, &mut buffer, &mut out)? {
            Ok(()) => {}
            Err(problem) => context.report.problem(problem),
        }
    }
    out.flush()
}

/// One file: the outer error is the output's, the inner one the file's.
fn one(
    context: &Context<'_>,
    path: &Path,
    buffer: &mut [u8],
    out: &mut impl Write,
) -> io::Result<Result<(), Problem>> {
    let opened = paths::check(path).and_then(|path| Ok(context.client.open(path)?));
    let mut file = match opened {
        Ok(file) => file,
        Err(problem) => return Ok(Err(problem)),
    };
    loop {
        match file.read(buffer) {
            Ok(0) => return Ok(Ok(())),
            Ok(n) => out.write_all(&buffer[..n])?,
            Err(error) => return Ok(Err(Problem::io("read", path, &error))),
        }
    }
}
