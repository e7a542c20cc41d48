//! `fusewire stat`

use crate::args::Stat;
use crate::context::Context;
use crate::paths;
use crate::report::Problem;
use crate::show::json::Object;
use crate::show::people::People;
use crate::show::{mode, quote, time};
use fusewire::Metadata;
use jiff::tz::TimeZone;
use rustix::fs::{major, minor};
use std::io::{self, Write};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// Shows the attributes of the operands.
///
/// # Errors
/// When the output cannot be written.
pub fn run(args: &Stat, context: &Context<'_>) -> io::Result<()> {
    let mut out = io::stdout().lock();
    let mut people = People::default();
    let zone = TimeZone::system();
    for path in &args.paths {
        if context.report.stopped() {
            break;
        }
        match look(args, context, path) {
            Ok((meta, target)) if args.json => {
                let mut object = Object::default()
                    .name("path", path.as_os_str().as_bytes())
                    .attributes(&meta);
                if let Some(target) = target {
                    object = object.name("target", target.as_os_str().as_bytes());
                }
                object.write(&mut out)?;
            }
            Ok((meta, target)) => {
                let quoted = |path: &Path| quote::for_terminal(path.as_os_str().as_bytes());
                let mut name = quoted(path);
                if let Some(target) = target {
                    name = format!("{name} -> {}", quoted(&target));
                }
                write!(out, "{}", Shown(&name, &meta, &mut people, &zone).text())?;
            }
            Err(problem) => context.report.problem(problem),
        }
    }
    out.flush()
}

/// The attributes, and where a link leads.
fn look(
    args: &Stat,
    context: &Context<'_>,
    path: &Path,
) -> Result<(Metadata, Option<PathBuf>), Problem> {
    let path = paths::check(path)?;
    let client = context.client;
    let meta = if args.dereference {
        client.metadata(path)?
    } else {
        client.symlink_metadata(path)?
    };
    let target = meta.is_symlink().then(|| client.read_link(path));
    Ok((meta, target.transpose()?))
}

struct Shown<'a>(&'a str, &'a Metadata, &'a mut People, &'a TimeZone);

impl Shown<'_> {
    /// As `stat` of coreutils; a served tree has no device number and no birth times.
    fn text(self) -> String {
        let Shown(name, meta, people, zone) = self;
        let permissions = meta.mode() & 0o7777;
        let kind = meta.file_type();
        let device = if kind.is_block_device() || kind.is_char_device() {
            let device = u64::from(meta.rdev());
            format!("  Device type: {},{}", major(device), minor(device))
        } else {
            String::new()
        };
        let user = people.user(meta.uid()).to_owned();
        let group = people.group(meta.gid());
        format!(
            "  File: {name}\n  \
               Size: {size:<10}\tBlocks: {blocks:<10} IO Block: {block:<6} {kind}\n\
             Device: -\tInode: {ino:<11} Links: {links}{device}\n\
             Access: ({permissions:04o}/{symbolic})  Uid: ({uid:5}/{user:>8})   \
               Gid: ({gid:5}/{group:>8})\n\
             Access: {atime}\n\
             Modify: {mtime}\n\
             Change: {ctime}\n \
               Birth: -\n",
            size = meta.len(),
            blocks = meta.blocks(),
            block = meta.blksize(),
            kind = mode::kind(meta.mode(), meta.len()),
            ino = meta.ino(),
            links = meta.nlink(),
            symbolic = mode::symbolic(meta.mode()),
            uid = meta.uid(),
            gid = meta.gid(),
            atime = time::long(meta.atime(), meta.atime_nsec(), zone),
            mtime = time::long(meta.mtime(), meta.mtime_nsec(), zone),
            ctime = time::long(meta.ctime(), meta.ctime_nsec(), zone),
        )
    }
}
