//! A client and the kernel side by side: both carry out the same operations, and everything that
//! can be seen of them has to agree.

use crate::ops::{Actor, Op, Outcome};
use crate::session::Session;
use crate::subject::Subject;
use crate::twin::{Twin, stat_of};
use std::collections::BTreeMap;
use std::fs::Permissions;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

/// A tree, path by path, and what is there.
type Tree = BTreeMap<PathBuf, String>;

/// Both actors. Dropping it closes their files.
pub struct Pair<'s> {
    session: &'s Session,
    subject: Subject<'s>,
    twin: Twin,
    /// What was done so far, for the reader of a failure.
    story: Vec<Op>,
}

impl<'s> Pair<'s> {
    pub fn new(session: &'s Session) -> Self {
        let twin = Twin::new();
        std::fs::set_permissions(twin.path(), Permissions::from_mode(0o755)).unwrap();
        Pair {
            session,
            subject: Subject::new(&session.client),
            twin,
            story: Vec::new(),
        }
    }

    /// Carries `op` out on both sides.
    ///
    /// # Errors
    /// How they differ, after which story.
    pub fn try_act(&mut self, op: &Op) -> Result<Outcome, String> {
        self.story.push(op.clone());
        let expected = self.twin.act(op);
        let found = self.subject.act(op);
        if found == expected {
            return Ok(found);
        }
        Err(format!(
            "{op:?}\n  the client: {}\n  the kernel: {}\n{}",
            found.brief(),
            expected.brief(),
            after(&self.story[..self.story.len() - 1])
        ))
    }

    /// Carries `op` out on both sides and returns what came of it.
    #[track_caller]
    pub fn act(&mut self, op: Op) -> Outcome {
        self.try_act(&op).unwrap_or_else(|how| panic!("{how}"))
    }

    /// An operation that prepares others: it must succeed.
    #[track_caller]
    pub fn prepare(&mut self, op: Op) {
        let outcome = self.act(op.clone());
        assert!(
            !matches!(outcome, Outcome::Failed(_)),
            "{op:?}: {outcome:?}"
        );
    }

    /// Compares all that is there: through the client, and on the host behind it.
    ///
    /// # Errors
    /// The first path that differs.
    pub fn compare_trees(&mut self) -> Result<(), String> {
        let expected = walk(&mut self.twin)?;
        let found = walk(&mut self.subject)?;
        same(&found, &expected, "through the client", &self.story)?;
        if let Some(host) = self.session.host("/") {
            let twin = on_host(self.twin.path());
            same(&on_host(&host), &twin, "on the host", &self.story)?;
        }
        Ok(())
    }

    /// As [`Pair::compare_trees`], and panics.
    #[track_caller]
    pub fn finish(mut self) {
        self.compare_trees().unwrap_or_else(|how| panic!("{how}"));
    }
}

fn same(found: &Tree, expected: &Tree, where_: &str, story: &[Op]) -> Result<(), String> {
    if found == expected {
        return Ok(());
    }
    let paths = found.keys().chain(expected.keys());
    let differing: Vec<_> = paths
        .filter(|path| found.get(*path) != expected.get(*path))
        .map(|path| {
            let (found, expected) = (found.get(path), expected.get(path));
            format!("  {path:?}: {found:?}, ought to be {expected:?}")
        })
        .collect();
    Err(format!(
        "the trees differ {where_}:\n{}\n{}",
        differing.join("\n"),
        after(story)
    ))
}

/// The last of what led to a failure, an operation a line.
fn after(story: &[Op]) -> String {
    const SHOWN: usize = 60;
    let lines = story[story.len().saturating_sub(SHOWN)..].iter();
    let lines: Vec<_> = lines.map(|op| format!("    {op:?}")).collect();
    format!("after {} operations:\n{}", story.len(), lines.join("\n"))
}

/// The whole tree as an actor sees it.
fn walk(actor: &mut impl Actor) -> Result<Tree, String> {
    let mut tree = Tree::new();
    let mut open = vec![PathBuf::from("/")];
    while let Some(dir) = open.pop() {
        let names = match actor.act(&Op::ReadDir(dir.clone())) {
            Outcome::Names(names) => names,
            other => return Err(format!("reading {dir:?}: {other:?}")),
        };
        for (name, kind) in names {
            let path = dir.join(std::ffi::OsStr::from_bytes(&name));
            let stat = actor.act(&Op::Lstat(path.clone()));
            let contents = match kind {
                0o040_000 => {
                    open.push(path.clone());
                    None
                }
                0o100_000 => Some(actor.act(&Op::ReadFile(path.clone()))),
                0o120_000 => Some(actor.act(&Op::ReadLink(path.clone()))),
                _ => None,
            };
            let contents = contents.map(|outcome| match outcome {
                Outcome::Bytes(bytes) => digest(&bytes),
                other => format!("{other:?}"),
            });
            tree.insert(path, format!("{stat:?} {contents:?}"));
        }
    }
    Ok(tree)
}

/// The whole tree as the host has it.
fn on_host(root: &Path) -> Tree {
    let mut tree = Tree::new();
    let mut open = vec![root.to_owned()];
    while let Some(dir) = open.pop() {
        for entry in std::fs::read_dir(&dir).unwrap() {
            let path = entry.unwrap().path();
            let metadata = path.symlink_metadata().unwrap();
            let contents = match metadata.mode() & 0o170_000 {
                0o040_000 => {
                    open.push(path.clone());
                    String::new()
                }
                0o100_000 => digest(&std::fs::read(&path).unwrap()),
                0o120_000 => format!("{:?}", std::fs::read_link(&path).unwrap()),
                _ => String::new(),
            };
            let stat = stat_of(&metadata);
            let below = path.strip_prefix(root).unwrap().to_owned();
            tree.insert(below, format!("{stat:?} {contents}"));
        }
    }
    tree
}

fn digest(bytes: &[u8]) -> String {
    use std::hash::{DefaultHasher, Hasher};
    let mut hasher = DefaultHasher::new();
    hasher.write(bytes);
    format!("{} bytes {:016x}", bytes.len(), hasher.finish())
}
