//! `fusewire ls`

use crate::args::Ls;
use crate::context::Context;
use crate::descent::Descent;
use crate::paths;
use crate::report::{Problem, shown};
use crate::show::json::Object;
use crate::show::people::People;
use crate::show::size::human;
use crate::show::{columns, mode, quote, time};
use crate::sorted::{self, MAX_SORTED};
use fusewire::{DirEntry, Metadata, ReadDir};
use jiff::tz::TimeZone;
use rustix::fs::{major, minor};
use std::cmp::Ordering;
use std::ffi::OsString;
use std::io::{self, IsTerminal, Write};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use unicode_width::UnicodeWidthStr;

/// Entries that are shown together where a directory has too many to be sorted.
const CHUNK: usize = 4096;

/// Lists the operands: first what is no directory, then the directories.
///
/// # Errors
/// When the output cannot be written.
pub fn run(args: &Ls, context: &Context<'_>) -> io::Result<()> {
    let mut listing = Listing::new(args, context);
    let paths = crate::cwd::or_here(&args.paths);
    let (mut files, mut directories) = (Vec::new(), Vec::new());
    for path in paths.iter() {
        match listing.operand(path) {
            Ok(meta) if meta.is_dir() && !args.directory => directories.push(path),
            Ok(meta) => files.push(Entry::new(path.into(), Some(meta))),
            Err(problem) => context.report.problem(problem),
        }
    }
    files.sort();
    directories.sort();
    listing.headers = args.recursive || paths.len() > 1;
    if !files.is_empty() {
        listing.print(Path::new(""), &files)?;
        listing.separate = true;
    }
    for directory in directories {
        listing.tree(directory)?;
    }
    listing.out.flush()
}

/// Something that gets a line.
struct Entry {
    name: OsString,
    meta: Option<Box<Metadata>>,
    /// A directory to be listed below.
    descend: bool,
}

impl Entry {
    fn new(name: OsString, meta: Option<Metadata>) -> Self {
        Entry {
            name,
            meta: meta.map(Box::new),
            descend: false,
        }
    }
}

impl PartialEq for Entry {
    fn eq(&self, other: &Self) -> bool {
        self.name == other.name
    }
}

impl Eq for Entry {}

impl PartialOrd for Entry {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Entry {
    fn cmp(&self, other: &Self) -> Ordering {
        self.name.cmp(&other.name)
    }
}

/// Directories that are still to be listed, last first.
type Below = Vec<OsString>;

struct Listing<'a> {
    args: &'a Ls,
    context: &'a Context<'a>,
    out: io::BufWriter<io::StdoutLock<'static>>,
    /// Cells of a line, if the output is a terminal.
    terminal: Option<usize>,
    people: People,
    zone: TimeZone,
    now_secs: i64,
    headers: bool,
    /// Something was printed before.
    separate: bool,
    /// How many more directories may be kept to be listed later.
    room: usize,
}

impl<'a> Listing<'a> {
    fn new(args: &'a Ls, context: &'a Context<'a>) -> Self {
        let stdout = io::stdout();
        let terminal = stdout.is_terminal().then(|| {
            let size = rustix::termios::tcgetwinsize(&stdout);
            size.map_or(80, |size| usize::from(size.ws_col).max(1))
        });
        Listing {
            args,
            context,
            out: io::BufWriter::with_capacity(64 << 10, stdout.lock()),
            terminal,
            people: People::default(),
            zone: TimeZone::system(),
            now_secs: jiff::Timestamp::now().as_second(),
            headers: false,
            separate: false,
            room: MAX_SORTED,
        }
    }

    /// What an operand is. As in coreutils, a link to a directory stands for it, but not with
    /// `-l`.
    fn operand(&self, path: &Path) -> Result<Metadata, Problem> {
        let path = paths::check(path)?;
        let client = self.context.client;
        if (self.args.long || self.args.directory) && !paths::wants_directory(path) {
            return Ok(client.symlink_metadata(path)?);
        }
        match client.metadata(path) {
            Ok(meta) => Ok(meta),
            // A link that leads nowhere is still there.
            Err(error) => client.symlink_metadata(path).map_err(|_| error.into()),
        }
    }

    /// A directory and, if asked for, all below it: depth first, in order, without recursion, as a
    /// daemon may serve any depth.
    fn tree(&mut self, top: &Path) -> io::Result<()> {
        let mut here = Descent::new(top);
        let top = self.context.client.read_dir(top);
        let mut levels = vec![self.found(&here, top)?];
        while let Some(below) = levels.last_mut() {
            if self.context.report.stopped() {
                break;
            }
            match below.pop() {
                None => {
                    levels.pop();
                    here.up();
                }
                Some(name) => {
                    self.room += 1;
                    here.down(&name);
                    // Not through a link that has taken the directory's place meanwhile.
                    let stream = self.context.client.read_dir_no_follow(here.path());
                    levels.push(self.found(&here, stream)?);
                }
            }
        }
        Ok(())
    }

    fn found(&mut self, here: &Descent, stream: fusewire::Result<ReadDir>) -> io::Result<Below> {
        match stream {
            Ok(stream) => self.directory(here, stream),
            Err(error) => {
                self.context.report.problem(error.into());
                Ok(Below::new())
            }
        }
    }

    /// Lists a directory; returns those below that are to be listed, too.
    fn directory(&mut self, here: &Descent, mut stream: ReadDir) -> io::Result<Below> {
        let report = self.context.report;
        let (mut entries, mut more) = self.take(&mut stream, MAX_SORTED);
        if self.args.all {
            entries.extend(self.dots(here));
            entries.sort();
        }
        self.header(here.path(), &entries)?;
        self.print(here.path(), &entries)?;
        let mut below = Below::new();
        self.keep_directories(here, entries, &mut below);
        if more {
            report.line(&format!(
                "{}: too many entries to be sorted; those after the first {MAX_SORTED} are shown \
                 as they come",
                shown(here.path())
            ));
        }
        while more && !report.stopped() {
            let (entries, further) = self.take(&mut stream, CHUNK);
            self.print(here.path(), &entries)?;
            self.keep_directories(here, entries, &mut below);
            more = further;
        }
        // A long listing shows as it grows.
        if self.args.recursive {
            self.out.flush()?;
        }
        below.reverse();
        Ok(below)
    }

    fn keep_directories(&mut self, here: &Descent, entries: Vec<Entry>, below: &mut Below) {
        for entry in entries.into_iter().filter(|entry| entry.descend) {
            if self.room > 0 {
                self.room -= 1;
                below.push(entry.name);
            } else {
                let reason = "there are too many directories to list all below; list this one by \
                              itself";
                let problem = Problem::about(&here.join(&entry.name), reason);
                self.context.report.problem(problem);
            }
        }
    }

    /// The next entries of a directory, in order; and whether there may be more.
    fn take(&self, stream: &mut ReadDir, max: usize) -> (Vec<Entry>, bool) {
        let report = self.context.report;
        // What was read before an error is worth showing.
        let failed = |error: fusewire::Error| report.problem(error.into());
        sorted::take(stream, max, |entry| self.entry(entry), failed)
    }

    fn entry(&self, entry: &DirEntry) -> Option<Entry> {
        let report = self.context.report;
        let name = entry.file_name();
        if name.as_bytes().starts_with(b".") && !self.args.all {
            return None;
        }
        let mut shown = Entry::new(name, None);
        if self.args.recursive {
            match entry.file_type() {
                Ok(kind) => shown.descend = kind.is_dir(),
                Err(error) => report.problem(error.into()),
            }
        }
        if self.args.long || self.args.json {
            match entry.metadata() {
                Ok(meta) => shown.meta = Some(Box::new(meta)),
                Err(error) => report.problem(error.into()),
            }
        }
        Some(shown)
    }

    /// The directory and the one above.
    fn dots(&self, here: &Descent) -> [Entry; 2] {
        let Context { client, report } = self.context;
        let entry = |name: &str| {
            let path = here.join(name.as_ref());
            let wanted = self.args.long || self.args.json;
            let found = wanted.then(|| client.metadata(path));
            let meta = found.transpose().unwrap_or_else(|error| {
                report.problem(error.into());
                None
            });
            Entry::new(name.into(), meta)
        };
        [".", ".."].map(entry)
    }

    fn header(&mut self, path: &Path, entries: &[Entry]) -> io::Result<()> {
        if self.args.json {
            return Ok(());
        }
        if self.separate {
            writeln!(self.out)?;
        }
        self.separate = true;
        if self.headers {
            let header = self.quoted(path.as_os_str().as_bytes());
            self.out.write_all(&header)?;
            writeln!(self.out, ":")?;
        }
        if self.args.long {
            let blocks = entries.iter().filter_map(|entry| entry.meta.as_ref());
            let sum = blocks.fold(0_u64, |sum, meta| sum.saturating_add(meta.blocks()));
            let total = match self.args.human {
                true => human(sum.saturating_mul(512)),
                false => sum.div_ceil(2).to_string(),
            };
            writeln!(self.out, "total {total}")?;
        }
        Ok(())
    }

    /// Shows entries of `directory`.
    fn print(&mut self, directory: &Path, entries: &[Entry]) -> io::Result<()> {
        if self.args.json {
            for entry in entries {
                let path = directory.join(&entry.name);
                let mut object = Object::default().name("path", path.as_os_str().as_bytes());
                if let Some(meta) = &entry.meta {
                    object = object.attributes(meta).target(meta, &path, self.context);
                }
                object.write(&mut self.out)?;
            }
            return Ok(());
        }
        if self.args.long {
            return self.print_long(directory, entries);
        }
        if let Some(width) = self.terminal.filter(|_| !self.args.one) {
            let items: Vec<_> = entries
                .iter()
                .map(|entry| {
                    let shown = quote::for_terminal(entry.name.as_bytes());
                    let cells = shown.width();
                    (shown, cells)
                })
                .collect();
            for line in columns::lines(&items, width) {
                writeln!(self.out, "{line}")?;
            }
            return Ok(());
        }
        for entry in entries {
            let name = self.quoted(entry.name.as_bytes());
            self.out.write_all(&name)?;
            writeln!(self.out)?;
        }
        Ok(())
    }

    fn print_long(&mut self, directory: &Path, entries: &[Entry]) -> io::Result<()> {
        // The cells are made twice, because to keep them takes more room than the entries do.
        let mut widths = [0; 6];
        for entry in entries {
            for (width, cell) in widths.iter_mut().zip(self.cells(entry)) {
                *width = cell.width().max(*width);
            }
        }
        for entry in entries {
            let [mode, links, user, group, size, date] = self.cells(entry);
            write!(
                self.out,
                "{mode} {links:>l$} {user:<u$} {group:<g$} {size:>s$} {date:>d$} ",
                l = widths[1],
                u = widths[2],
                g = widths[3],
                s = widths[4],
                d = widths[5],
            )?;
            let name = self.quoted(entry.name.as_bytes());
            self.out.write_all(&name)?;
            if entry.meta.as_ref().is_some_and(|meta| meta.is_symlink()) {
                let path = directory.join(&entry.name);
                match self.context.client.read_link(path) {
                    Ok(target) => {
                        let target = self.quoted(target.as_os_str().as_bytes());
                        self.out.write_all(b" -> ")?;
                        self.out.write_all(&target)?;
                    }
                    Err(error) => self.context.report.problem(error.into()),
                }
            }
            writeln!(self.out)?;
        }
        Ok(())
    }

    /// Mode, links, owner, group, size and date; question marks for what could not be found out.
    fn cells(&mut self, entry: &Entry) -> [String; 6] {
        let Some(meta) = &entry.meta else {
            return ["??????????", "?", "?", "?", "?", "?"].map(str::to_owned);
        };
        let kind = meta.file_type();
        let size = if kind.is_block_device() || kind.is_char_device() {
            let device = u64::from(meta.rdev());
            format!("{}, {:>3}", major(device), minor(device))
        } else if self.args.human {
            human(meta.len())
        } else {
            meta.len().to_string()
        };
        [
            mode::symbolic(meta.mode()),
            meta.nlink().to_string(),
            self.people.user(meta.uid()).to_owned(),
            self.people.group(meta.gid()).to_owned(),
            size,
            time::short(meta.mtime(), self.now_secs, &self.zone),
        ]
    }

    /// A name for the output: quoted on a terminal, byte for byte elsewhere.
    fn quoted(&self, name: &[u8]) -> Vec<u8> {
        match self.terminal {
            Some(_) => quote::for_terminal(name).into_bytes(),
            None => name.to_vec(),
        }
    }
}
