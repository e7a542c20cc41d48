//! Going down a directory that others change meanwhile, without being led out of it.

use crate::context::Context;
use crate::report::Problem;
use fusewire::{Client, WalkEntry};
use std::path::{Path, PathBuf};

/// A directory of the command line, by the path from the root on that leads there without symbolic
/// links. Below, none is followed either: a link that takes a directory's place is an error (ELOOP).
pub struct Tree {
    /// Follows no symbolic links.
    pub client: Client,
    /// From the root on.
    pub real: PathBuf,
    /// As the user knows it.
    given: PathBuf,
}

/// How it goes on behind an entry.
pub enum Step<T> {
    On,
    /// And when everything below has been done, with this.
    Then(T),
    /// Not with what is below.
    Skip,
}

impl Tree {
    /// The directory that `given` leads to.
    ///
    /// # Errors
    /// What the client says.
    pub fn new(client: &Client, given: &Path) -> fusewire::Result<Self> {
        Ok(Tree {
            client: client.no_symlinks(),
            real: client.canonicalize(given)?,
            given: given.to_path_buf(),
        })
    }

    /// What is below `self` at a path of [`Tree::real`], as a path in another place.
    pub fn moved(&self, path: &Path, to: &Path) -> PathBuf {
        match path.strip_prefix(&self.real) {
            Ok(rest) if rest.as_os_str().is_empty() => to.to_path_buf(),
            Ok(rest) => to.join(rest),
            Err(_) => path.to_path_buf(),
        }
    }

    /// What the client says, about the path that the user knows the file by.
    pub fn problem(&self, error: &fusewire::Error) -> Problem {
        Problem::remote(error, &self.moved(error.path(), &self.given))
    }

    /// Goes through the directory itself and everything below, and reports what fails.
    pub fn each<T>(
        &self,
        context: &Context<'_>,
        mut enter: impl FnMut(&WalkEntry) -> Result<Step<T>, Problem>,
        mut leave: impl FnMut(T) -> Result<(), Problem>,
    ) {
        let report = context.report;
        let mut open: Vec<(usize, T)> = Vec::new();
        let mut finish = |open: &mut Vec<(usize, T)>, depth: usize| {
            while let Some((_, last)) = open.pop_if(|(of, _)| *of >= depth) {
                if let Err(problem) = leave(last) {
                    report.problem(problem);
                }
            }
        };
        let mut walk = self.client.walk(&self.real).into_iter();
        while let Some(entry) = walk.next() {
            if report.stopped() {
                return;
            }
            let entry = match entry {
                Ok(entry) => entry,
                Err(error) => {
                    report.problem(self.problem(&error));
                    continue;
                }
            };
            finish(&mut open, entry.depth());
            match enter(&entry) {
                Ok(Step::On) => {}
                Ok(Step::Then(last)) => open.push((entry.depth(), last)),
                Ok(Step::Skip) => walk.skip_current_dir(),
                Err(problem) => report.problem(problem),
            }
        }
        finish(&mut open, 0);
    }
}
