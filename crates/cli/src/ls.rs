//! `fusewire ls`

use crate::args::Ls;
use crate::context::Context;
use crate::paths;
use crate::report::Problem;
use crate::show::people::People;
use crate::show::{columns, mode, quote, time};
use fusewire::Metadata;
use jiff::tz::TimeZone;
use rustix::fs::{major, minor};
use std::ffi::OsString;
use std::io::{self, IsTerminal, Write};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use unicode_width::UnicodeWidthStr;

/// Lists the operands: first what is no directory, then the directories.
///
/// # Errors
/// When the output cannot be written.
pub fn run(args: &Ls, context: &Context<'_>) -> io::Result<()> {
    let mut listing = Listing::new(args, context);
    let (mut files, mut directories) = (Vec::new(), Vec::new());
    for path in &args.paths {
        match listing.operand(path) {
            Ok(meta) if meta.is_dir() => directories.push(path.clone()),
            Ok(meta) => files.push(Entry::new(path.clone().into(), path.clone(), Some(meta))),
            Err(problem) => context.report.problem(problem),
        }
    }
    files.sort_by(|a, b| a.name.cmp(&b.name));
    directories.sort();
    listing.headers = args.recursive || args.paths.len() > 1;
    if !files.is_empty() {
        listing.print(&files)?;
        listing.separate = true;
    }
    // Depth first, in order, without recursion: a daemon may serve any depth.
    directories.reverse();
    while let Some(directory) = directories.pop() {
        if context.report.stopped() {
            break;
        }
        match listing.entries(&directory) {
            Ok(entries) => {
                listing.directory(&directory, &entries)?;
                if args.recursive {
                    let below = entries.into_iter().filter(|entry| entry.descend);
                    directories.extend(below.map(|entry| entry.path).rev());
                }
            }
            Err(problem) => context.report.problem(problem),
        }
    }
    listing.out.flush()
}

/// Something that gets a line.
struct Entry {
    name: OsString,
    path: PathBuf,
    meta: Option<Metadata>,
    /// A directory to be listed below.
    descend: bool,
}

impl Entry {
    fn new(name: OsString, path: PathBuf, meta: Option<Metadata>) -> Self {
        Entry {
            name,
            path,
            meta,
            descend: false,
        }
    }
}

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
        }
    }

    /// What an operand is. As in coreutils, a link to a directory stands for it, but not with
    /// `-l`.
    fn operand(&self, path: &Path) -> Result<Metadata, Problem> {
        let path = paths::check(path)?;
        let client = self.context.client;
        if self.args.long && !paths::wants_directory(path) {
            return Ok(client.symlink_metadata(path)?);
        }
        match client.metadata(path) {
            Ok(meta) => Ok(meta),
            // A link that leads nowhere is still there.
            Err(error) => client.symlink_metadata(path).map_err(|_| error.into()),
        }
    }

    /// The entries of a directory, in order.
    fn entries(&self, directory: &Path) -> Result<Vec<Entry>, Problem> {
        let client = self.context.client;
        let needs_meta = self.args.long;
        let mut entries = Vec::new();
        if self.args.all {
            for name in [".", ".."] {
                let meta = needs_meta.then(|| client.metadata(directory.join(name)));
                let meta = meta.transpose()?;
                entries.push(Entry::new(name.into(), directory.join(name), meta));
            }
        }
        for entry in client.read_dir(directory)? {
            let entry = match entry {
                Ok(entry) => entry,
                Err(error) => {
                    // What was read so far is worth showing.
                    self.context.report.problem(error.into());
                    break;
                }
            };
            let name = entry.file_name();
            if name.as_bytes().starts_with(b".") && !self.args.all {
                continue;
            }
            let mut shown = Entry::new(name, entry.path(), None);
            if self.args.recursive {
                match entry.file_type() {
                    Ok(kind) => shown.descend = kind.is_dir(),
                    Err(error) => self.context.report.problem(error.into()),
                }
            }
            if needs_meta {
                match entry.metadata() {
                    Ok(meta) => shown.meta = Some(meta),
                    Err(error) => self.context.report.problem(error.into()),
                }
            }
            entries.push(shown);
        }
        entries.sort_by(|a, b| a.name.cmp(&b.name));
        Ok(entries)
    }

    fn directory(&mut self, path: &Path, entries: &[Entry]) -> io::Result<()> {
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
            writeln!(self.out, "total {}", sum.div_ceil(2))?;
        }
        self.print(entries)?;
        // A long listing shows as it grows.
        if self.args.recursive {
            self.out.flush()?;
        }
        Ok(())
    }

    fn print(&mut self, entries: &[Entry]) -> io::Result<()> {
        if self.args.long {
            return self.print_long(entries);
        }
        if let Some(width) = self.terminal {
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
            self.out.write_all(entry.name.as_bytes())?;
            writeln!(self.out)?;
        }
        Ok(())
    }

    fn print_long(&mut self, entries: &[Entry]) -> io::Result<()> {
        let rows: Vec<[String; 6]> = entries.iter().map(|entry| self.cells(entry)).collect();
        let mut widths = [0; 6];
        for row in &rows {
            for (width, cell) in widths.iter_mut().zip(row) {
                *width = cell.width().max(*width);
            }
        }
        for (entry, [mode, links, user, group, size, date]) in entries.iter().zip(&rows) {
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
            if entry.meta.is_some_and(|meta| meta.is_symlink()) {
                match self.context.client.read_link(&entry.path) {
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
