//! `fusewire tree`

use crate::args::Tree;
use crate::context::Context;
use crate::descent::Descent;
use crate::paths;
use crate::report::Problem;
use crate::show::json::Object;
use crate::show::mode;
use crate::show::output::Output;
use crate::sorted::{self, MAX_SORTED};
use fusewire::{DirEntry, ReadDir};
use std::cmp::Ordering;
use std::ffi::OsString;
use std::io::{self, Write};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

/// Shows the operands as trees.
///
/// # Errors
/// When the output cannot be written.
pub fn run(args: &Tree, context: &Context<'_>) -> io::Result<()> {
    let mut tree = Drawing {
        args,
        context,
        out: Output::new(),
        room: MAX_SORTED,
        directories: 0,
        files: 0,
    };
    for path in crate::cwd::or_here(&args.paths).iter() {
        if context.report.stopped() {
            break;
        }
        if let Err(problem) = paths::check(path) {
            context.report.problem(problem);
            continue;
        }
        match context.client.read_dir(path) {
            Ok(stream) => tree.draw(path, stream)?,
            Err(error) => context.report.problem(error.into()),
        }
    }
    tree.summary()?;
    tree.out.flush()
}

/// An entry that gets a line, before it does.
#[derive(PartialEq, Eq)]
struct Entry {
    name: OsString,
    /// As [`mode::letter`] has it.
    kind: char,
}

impl PartialOrd for Entry {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

/// Last first: they are taken from the end.
impl Ord for Entry {
    fn cmp(&self, other: &Self) -> Ordering {
        (&other.name, other.kind).cmp(&(&self.name, self.kind))
    }
}

struct Drawing<'a> {
    args: &'a Tree,
    context: &'a Context<'a>,
    out: Output,
    /// How many more entries may be kept to be shown later.
    room: usize,
    directories: u64,
    files: u64,
}

impl Drawing<'_> {
    /// Depth first, in order, without recursion: a daemon may serve any depth.
    fn draw(&mut self, top: &Path, stream: ReadDir) -> io::Result<()> {
        let Context { client, report } = self.context;
        let mut here = Descent::new(top);
        if !self.args.json {
            self.out.name(top.as_os_str().as_bytes())?;
            self.out.end_line()?;
        }
        // What is still to be shown of each directory from the top to where we are.
        let mut levels = vec![self.entries(&here, stream)];
        while let Some(level) = levels.last_mut() {
            if report.stopped() {
                break;
            }
            let Some(entry) = level.pop() else {
                levels.pop();
                here.up();
                continue;
            };
            self.room += 1;
            self.line(&here, &levels, &entry)?;
            if entry.kind != 'd' {
                self.files += 1;
                continue;
            }
            self.directories += 1;
            here.down(&entry.name);
            if self.args.level.is_some_and(|level| here.depth() >= level) {
                here.up();
                continue;
            }
            // Not through a link that has taken the directory's place meanwhile.
            match client.read_dir_no_follow(here.path()) {
                Ok(stream) => levels.push(self.entries(&here, stream)),
                Err(error) => {
                    report.problem(error.into());
                    here.up();
                }
            }
        }
        Ok(())
    }

    fn entries(&mut self, here: &Descent, mut stream: ReadDir) -> Vec<Entry> {
        let report = self.context.report;
        let failed = |error: fusewire::Error| report.problem(error.into());
        let keep = |entry: &DirEntry| {
            let name = entry.file_name();
            if name.as_bytes().starts_with(b".") && !self.args.all {
                return None;
            }
            let kind = match entry.file_type() {
                Ok(kind) => mode::letter(kind),
                Err(error) => {
                    report.problem(error.into());
                    '?'
                }
            };
            (kind == 'd' || !self.args.directories).then_some(Entry { name, kind })
        };
        let (entries, more) = sorted::take(&mut stream, self.room, keep, failed);
        if more {
            let reason = "there are too many entries to show all; list it by itself with ls";
            report.problem(Problem::about(here.path(), reason));
        }
        self.room -= entries.len();
        entries
    }

    /// One entry, with the lines from those above that go on below it.
    fn line(&mut self, here: &Descent, levels: &[Vec<Entry>], entry: &Entry) -> io::Result<()> {
        let target = match entry.kind {
            'l' => match self.context.client.read_link(here.join(&entry.name)) {
                Ok(target) => Some(target),
                Err(error) => {
                    self.context.report.problem(error.into());
                    None
                }
            },
            _ => None,
        };
        let target = target.as_ref().map(|target| target.as_os_str().as_bytes());
        if self.args.json {
            let path = here.join(&entry.name);
            let mut object = Object::default()
                .name("path", path.as_os_str().as_bytes())
                .put("type", entry.kind.to_string())
                .put("depth", levels.len());
            if let Some(target) = target {
                object = object.name("target", target);
            }
            return object.write(&mut self.out);
        }
        if let Some((siblings, above)) = levels.split_last() {
            for level in above {
                let line = if level.is_empty() { "    " } else { "│   " };
                self.out.write_all(line.as_bytes())?;
            }
            let branch = if siblings.is_empty() {
                "└── "
            } else {
                "├── "
            };
            self.out.write_all(branch.as_bytes())?;
        }
        self.out.name(entry.name.as_bytes())?;
        if let Some(target) = target {
            self.out.write_all(b" -> ")?;
            self.out.name(target)?;
        }
        self.out.end_line()
    }

    fn summary(&mut self) -> io::Result<()> {
        if self.args.json {
            return Ok(());
        }
        let (directories, files) = (self.directories, self.files);
        let s = |count, one, many| if count == 1 { one } else { many };
        let what = s(directories, "directory", "directories");
        write!(self.out, "\n{directories} {what}")?;
        if !self.args.directories {
            let what = s(files, "file", "files");
            write!(self.out, ", {files} {what}")?;
        }
        writeln!(self.out)
    }
}
