//! `fusewire mkdir`

use crate::args::Mkdir;
use crate::context::Context;
use crate::paths;
use crate::report::Problem;
use std::path::Path;

/// Makes the operands.
pub fn run(args: &Mkdir, context: &Context<'_>) {
    for path in &args.paths {
        if context.report.stopped() {
            break;
        }
        if let Err(problem) = operand(args, context, path) {
            context.report.problem(problem);
        }
    }
}

fn operand(args: &Mkdir, context: &Context<'_>, path: &Path) -> Result<(), Problem> {
    let path = paths::check(path)?;
    if args.parents {
        context.client.create_dir_all(path)?;
    } else {
        context.client.create_dir(path)?;
    }
    Ok(())
}
