//! `fusewire du`

use crate::args::Du;
use crate::context::Context;
use crate::paths;
use crate::report::Problem;
use crate::show::json::Object;
use crate::show::output::Output;
use crate::show::size::human;
use fusewire::Metadata;
use std::collections::HashSet;
use std::io::{self, Write};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

/// Files with several names that are remembered, to be counted once.
const MAX_LINKED: usize = 1_000_000;

/// Shows how much room the operands take, and the directories below them.
///
/// # Errors
/// When the output cannot be written.
pub fn run(args: &Du, context: &Context<'_>) -> io::Result<()> {
    let mut usage = Usage {
        args,
        context,
        out: Output::new(),
        linked: Linked::default(),
    };
    let mut total = 0_u64;
    for path in crate::cwd::or_here(&args.paths).iter() {
        if context.report.stopped() {
            break;
        }
        match paths::check(path) {
            Ok(path) => total = total.saturating_add(usage.tree(path)?),
            Err(problem) => context.report.problem(problem),
        }
    }
    if args.total {
        usage.line(total, b"total", None)?;
    }
    usage.out.flush()
}

struct Usage<'a> {
    args: &'a Du,
    context: &'a Context<'a>,
    out: Output,
    linked: Linked,
}

impl Usage<'_> {
    /// An operand and everything below; returns the sum.
    fn tree(&mut self, top: &Path) -> io::Result<u64> {
        let max_depth = if self.args.summarize {
            0
        } else {
            self.args.max_depth.unwrap_or(usize::MAX)
        };
        // What the directories from the top to where we are hold so far.
        let mut sums = vec![0_u64];
        for entry in self.context.client.walk(top).contents_first(true) {
            if self.context.report.stopped() {
                break;
            }
            let found = entry.map(|entry| (entry.metadata(), entry));
            let (meta, entry) = match found {
                Ok(found) => found,
                Err(error) => {
                    self.context.report.problem(Problem::from(error));
                    continue;
                }
            };
            let own = match meta.map(|meta| self.own(&meta)) {
                Ok(Some(own)) => own,
                Ok(None) => continue,
                Err(error) => {
                    self.context.report.problem(Problem::from(error));
                    0
                }
            };
            let depth = entry.depth();
            // The walk has come up from the contents, if there were any.
            let below = sums.drain((depth + 1).min(sums.len())..);
            let sum = below.fold(own, u64::saturating_add);
            sums.resize(depth + 1, 0);
            sums[depth] = sums[depth].saturating_add(sum);
            let is_shown = entry.file_type().is_dir() || self.args.all || depth == 0;
            if is_shown && depth <= max_depth {
                self.line(sum, entry.path().as_os_str().as_bytes(), Some(depth))?;
            }
        }
        Ok(sums[0])
    }

    /// What a file takes by itself, in bytes; `None` if it was counted under another name.
    fn own(&mut self, meta: &Metadata) -> Option<u64> {
        if !self.args.count_links && self.linked.was_counted(meta) {
            return None;
        }
        if self.linked.is_full() {
            self.context.report.line(
                "there are too many files with several names; some are counted more than once",
            );
        }
        Some(if !self.args.apparent_size {
            meta.blocks().saturating_mul(512)
        } else if meta.is_file() || meta.is_symlink() {
            meta.len()
        } else {
            // As coreutils have it: what else a size means is the file system's own business.
            0
        })
    }

    fn line(&mut self, bytes: u64, name: &[u8], depth: Option<usize>) -> io::Result<()> {
        if self.args.json {
            let object = Object::default().put("bytes", bytes);
            let object = match depth {
                Some(depth) => object.name("path", name).put("depth", depth),
                None => object.put("total", true),
            };
            return object.write(&mut self.out);
        }
        let size = if self.args.human {
            human(bytes)
        } else {
            bytes.div_ceil(1024).to_string()
        };
        write!(self.out, "{size}\t")?;
        self.out.name(name)?;
        self.out.end_line()
    }
}

/// Files with several names that were counted.
#[derive(Default)]
struct Linked {
    inodes: HashSet<u64>,
    state: Memory,
}

#[derive(Default, PartialEq)]
enum Memory {
    #[default]
    Free,
    /// Full since the last call.
    Full,
    Told,
}

impl Linked {
    fn was_counted(&mut self, meta: &Metadata) -> bool {
        if meta.is_dir() || meta.nlink() < 2 {
            return false;
        }
        if self.inodes.contains(&meta.ino()) {
            return true;
        }
        if self.inodes.len() < MAX_LINKED {
            self.inodes.insert(meta.ino());
        } else if self.state == Memory::Free {
            self.state = Memory::Full;
        }
        false
    }

    /// Whether there was no room for the first time.
    fn is_full(&mut self) -> bool {
        let full = self.state == Memory::Full;
        if full {
            self.state = Memory::Told;
        }
        full
    }
}
