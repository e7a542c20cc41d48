//! Removing a whole tree, without trusting it.

use crate::client::Client;
use crate::error::Result;
use crate::node::Node;
use crate::walk::{self, Links};
use fusewire_sync::Arc;
use rustix::io::Errno;
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

/// How many entries are taken from a directory at once, so that one without end needs no memory.
const BATCH: usize = 4096;

/// Most directories inside one another: more than a path can name.
const MAX_DEPTH: usize = 8192;

/// A directory that is being emptied.
struct Level {
    /// A handle whose paths begin in it: nothing is found by a path that leads there, which somebody
    /// could change meanwhile.
    inside: Client,
    node: Arc<Node>,
    name: OsString,
    /// Directories that are to be emptied before it.
    below: Vec<OsString>,
    /// What the last pass found first, and whether it was a directory.
    first: Option<(OsString, bool)>,
}

impl Client {
    /// Removes a directory with everything below. Symbolic links are removed, not followed, also
    /// one at `path` itself. Whoever puts a link in the place of a directory meanwhile, or moves one
    /// about, leads it nowhere else.
    ///
    /// # Errors
    /// As [`Client::remove_dir`]; ELOOP for a directory inside itself; ENOTEMPTY for one whose entries
    /// are still there when they were removed. The first error ends it.
    pub fn remove_dir_all(&self, path: impl AsRef<Path>) -> Result<()> {
        let path = path.as_ref();
        let fail = |errno| self.fail("remove directory", path)(errno);
        let node = self.resolve(path, Links::NoFollow).map_err(fail)?;
        if node.kind() == fusewire_wire::abi::FileKind::Symlink {
            return self.remove_file(path);
        }
        if !node.is_dir() {
            return Err(fail(Errno::NOTDIR));
        }
        let mut levels = vec![self.level(node, OsString::new())?];
        while let Some(level) = levels.last_mut() {
            if let Some(name) = level.below.pop() {
                match level.enter(&name)? {
                    Some(node) if levels.len() >= MAX_DEPTH => {
                        drop(node);
                        return Err(fail(Errno::NAMETOOLONG));
                    }
                    Some(node) => {
                        if levels.iter().any(|level| Arc::ptr_eq(&level.node, &node)) {
                            return Err(fail(Errno::LOOP));
                        }
                        levels.push(self.level(node, name)?);
                    }
                    // It went by itself, or is something else by now, which the next pass finds.
                    None => {}
                }
                continue;
            }
            if level.sweep()? {
                continue;
            }
            let Some(done) = levels.pop() else {
                break;
            };
            match levels.last() {
                Some(above) => above.inside.remove_dir(&done.name)?,
                None => self.remove_dir(path)?,
            }
        }
        Ok(())
    }

    fn level(&self, node: Arc<Node>, name: OsString) -> Result<Level> {
        let inside = self.beginning(self.start.inside(Arc::clone(&node)));
        Ok(Level {
            inside,
            node,
            name,
            below: Vec::new(),
            first: None,
        })
    }
}

impl Level {
    /// The directory called `name`, if it is one.
    fn enter(&self, name: &OsStr) -> Result<Option<Arc<Node>>> {
        let found = walk::lookup(&self.inside.cred, &self.node, name.as_bytes());
        let found = found.map_err(self.inside.fail("stat", Path::new(name)))?;
        Ok(found.filter(|node| node.is_dir()))
    }

    /// Removes what is no directory, and notes the directories; returns whether there was anything.
    fn sweep(&mut self) -> Result<bool> {
        let mut names = Vec::new();
        // Each name is looked up before it is taken away.
        let entries = self.inside.read_dir(".")?.with_attributes();
        for entry in entries.take(BATCH) {
            let entry = entry?;
            names.push((entry.file_name(), entry.file_type()?.is_dir()));
        }
        let first = names.first().cloned();
        if first.is_some() && first == self.first {
            // The daemon says that it was removed, and that it is there.
            return Err(self.inside.fail("remove", Path::new(&self.name))(
                Errno::NOTEMPTY,
            ));
        }
        self.first = first;
        for (name, is_dir) in &names {
            if *is_dir {
                self.below.push(name.clone());
                continue;
            }
            match self.inside.remove_file(name) {
                Err(error) if error.errno() == Errno::NOENT.raw_os_error() => {}
                result => result?,
            }
        }
        Ok(!names.is_empty())
    }
}
