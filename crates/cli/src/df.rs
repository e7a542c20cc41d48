//! `fusewire df`

use crate::context::Context;
use crate::paths;
use crate::show::json::{self, Object};
use crate::show::output::Output;
use crate::show::size::human;
use clap::Args;
use fusewire::Statfs;
use std::io::{self, Write};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// Show how much room there is
///
/// Shows how much room the file system has, in units of 1024 bytes.
#[derive(Args, Debug)]
#[command(disable_help_flag = true)]
pub struct Df {
    /// Show numbers of files, not of bytes
    #[arg(short, long)]
    pub inodes: bool,
    /// Show sizes with units, such as 1.5M
    #[arg(short = 'h', long = "human-readable")]
    pub human: bool,
    #[arg(long, conflicts_with_all = ["human", "inodes"])]
    #[arg(help = json::help("path, size_bytes, used_bytes, available_bytes, files, files_free, \
        block_bytes, name_max_bytes"))]
    pub json: bool,
    /// Print help
    #[arg(long, action = clap::ArgAction::Help)]
    help: Option<bool>,
    /// Paths in the source; without any, the root, or the current directory of a shell
    #[arg(value_parser = crate::args::path())]
    pub paths: Vec<PathBuf>,
}

/// Shows the file systems that the operands are in.
///
/// # Errors
/// When the output cannot be written.
pub fn run(args: &Df, context: &Context<'_>) -> io::Result<()> {
    let mut out = Output::new();
    let mut headed = false;
    for path in crate::cwd::or_here(&args.paths).iter() {
        if context.report.stopped() {
            break;
        }
        let found = paths::check(path).and_then(|path| Ok((path, context.client.statfs(path)?)));
        match found {
            Err(problem) => context.report.problem(problem),
            Ok((path, stat)) if args.json => object(path, &stat).write(&mut out)?,
            Ok((path, stat)) => {
                if !std::mem::replace(&mut headed, true) {
                    head(args, &mut out)?;
                }
                line(args, path, &stat, &mut out)?;
            }
        }
    }
    out.flush()
}

fn head(args: &Df, out: &mut impl Write) -> io::Result<()> {
    if args.inodes {
        return writeln!(out, "      Inodes        IUsed        IFree IUse% Path");
    }
    let size = if args.human { "Size" } else { "1K-blocks" };
    writeln!(
        out,
        "{size:>12} {:>12} {:>12} Use% Path",
        "Used", "Available"
    )
}

/// What is used of what there is, in percent, rounded up.
fn percent(used: u128, free: u128) -> String {
    match used + free {
        0 => "-".to_owned(),
        all => format!("{}%", (used * 100).div_ceil(all)),
    }
}

fn line(args: &Df, path: &Path, stat: &Statfs, out: &mut Output) -> io::Result<()> {
    let (all, used, free) = if args.inodes {
        let used = stat.files.saturating_sub(stat.files_free);
        let count = |n: u64| n.to_string();
        let percent = percent(used.into(), stat.files_free.into());
        write!(
            out,
            "{:>12} {:>12} {:>12} {percent:>5} ",
            count(stat.files),
            count(used),
            count(stat.files_free)
        )?;
        out.name(path.as_os_str().as_bytes())?;
        return out.end_line();
    } else {
        (
            bytes(stat, stat.blocks),
            bytes(stat, stat.blocks.saturating_sub(stat.blocks_free)),
            bytes(stat, stat.blocks_available),
        )
    };
    let shown = |n: u64| match args.human {
        true => human(n),
        false => n.div_ceil(1024).to_string(),
    };
    let percent = percent(used.into(), free.into());
    write!(
        out,
        "{:>12} {:>12} {:>12} {percent:>4} ",
        shown(all),
        shown(used),
        shown(free)
    )?;
    out.name(path.as_os_str().as_bytes())?;
    out.end_line()
}

/// A number of blocks in bytes; a daemon may say anything.
fn bytes(stat: &Statfs, blocks: u64) -> u64 {
    blocks.saturating_mul(u64::from(stat.fragment_bytes))
}

fn object(path: &Path, stat: &Statfs) -> Object {
    Object::default()
        .name("path", path.as_os_str().as_bytes())
        .put("size_bytes", bytes(stat, stat.blocks))
        .put(
            "used_bytes",
            bytes(stat, stat.blocks.saturating_sub(stat.blocks_free)),
        )
        .put("available_bytes", bytes(stat, stat.blocks_available))
        .put("files", stat.files)
        .put("files_free", stat.files_free)
        .put("block_bytes", stat.block_bytes)
        .put("name_max_bytes", stat.name_max_bytes)
}
