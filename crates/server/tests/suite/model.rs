//! The two file systems against each other: any sequence of operations gives the same results,
//! errors included, and the same tree at the end.

use crate::common::{Failure, Raw, directory, memory, small};
use fusewire_server::dir::DirOptions;
use fusewire_server::{Usage, start};
use fusewire_wire::SetattrValid;
use fusewire_wire::abi::*;
use proptest::prelude::*;
use proptest::sample::Index;
use rustix::fs::OFlags;

const NAMES: [&[u8]; 7] = [
    b"a",
    b"b",
    b"c",
    b"\xff\xfe",
    b"with space\n",
    &[b'n'; 255],
    &[b'n'; 256],
];

#[derive(Clone, Debug)]
enum Op {
    Lookup(Index, usize),
    Getattr(Index),
    Create(Index, usize, u32, u32),
    Open(Index, u32),
    Release(Index),
    Read(Index, u64, u32),
    Write(Index, u64, u32, u8),
    Fsync(Index),
    Fallocate(Index, u32, u64, u64),
    Copy(Index, u64, Index, u64, u64),
    Truncate(Index, u64),
    Chmod(Index, u32),
    SetTimes(Index, u64),
    Mkdir(Index, usize, u32),
    Mkfifo(Index, usize),
    Symlink(Index, usize, usize),
    Readlink(Index),
    Link(Index, Index, usize),
    Unlink(Index, usize),
    Rmdir(Index, usize),
    Rename(Index, usize, Index, usize, u32),
    List(Index, bool),
    Forget(Index),
}

fn op() -> impl Strategy<Value = Op> {
    let node = any::<Index>;
    let name = || prop_oneof![8 => 0..4_usize, 1 => 4..NAMES.len()];
    // Always all of the owner's: the host checks permissions of those who are not root.
    let mode = || prop::sample::select(vec![0o700_u32, 0o755, 0o750, 0o711]);
    let offset = || prop_oneof![0..20_000_u64, Just(4096), Just(8192), Just(5 << 30)];
    let (excl, append, trunc) = (OFlags::EXCL, OFlags::APPEND, OFlags::TRUNC);
    let flags = move || {
        (0..4_u32, any::<[bool; 3]>()).prop_map(move |(access, set)| {
            [excl, append, trunc]
                .iter()
                .zip(set)
                .filter(|(_, set)| *set)
                .fold(access, |flags, (flag, _)| flags | flag.bits())
        })
    };
    prop_oneof![
        3 => (node(), name()).prop_map(|(d, n)| Op::Lookup(d, n)),
        1 => node().prop_map(Op::Getattr),
        4 => (node(), name(), flags(), mode()).prop_map(|(d, n, f, m)| Op::Create(d, n, f, m)),
        2 => (node(), flags()).prop_map(|(n, f)| Op::Open(n, f)),
        1 => node().prop_map(Op::Release),
        2 => (node(), offset(), 0..30_000_u32).prop_map(|(h, o, n)| Op::Read(h, o, n)),
        4 => (node(), offset(), 0..20_000_u32, any::<u8>())
            .prop_map(|(h, o, n, b)| Op::Write(h, o, n, b)),
        1 => node().prop_map(Op::Fsync),
        1 => (node(), prop::sample::select(vec![0_u32, 1, 3]), offset(), 0..20_000_u64)
            .prop_map(|(h, m, o, n)| Op::Fallocate(h, m, o, n)),
        1 => (node(), 0..20_000_u64, node(), 0..20_000_u64, 0..20_000_u64)
            .prop_map(|(f, fo, t, to, n)| Op::Copy(f, fo, t, to, n)),
        1 => (node(), offset()).prop_map(|(n, s)| Op::Truncate(n, s)),
        1 => (node(), mode()).prop_map(|(n, m)| Op::Chmod(n, m)),
        1 => (node(), 0..4_000_000_000_u64).prop_map(|(n, t)| Op::SetTimes(n, t)),
        4 => (node(), name(), mode()).prop_map(|(d, n, m)| Op::Mkdir(d, n, m)),
        1 => (node(), name()).prop_map(|(d, n)| Op::Mkfifo(d, n)),
        1 => (node(), name(), name()).prop_map(|(d, n, t)| Op::Symlink(d, n, t)),
        1 => node().prop_map(Op::Readlink),
        2 => (node(), node(), name()).prop_map(|(o, d, n)| Op::Link(o, d, n)),
        2 => (node(), name()).prop_map(|(d, n)| Op::Unlink(d, n)),
        2 => (node(), name()).prop_map(|(d, n)| Op::Rmdir(d, n)),
        4 => (node(), name(), node(), name(), prop::sample::select(vec![0_u32, 0, 0, 1, 2]))
            .prop_map(|(d, n, e, m, f)| Op::Rename(d, n, e, m, f)),
        1 => (node(), any::<bool>()).prop_map(|(d, p)| Op::List(d, p)),
        1 => node().prop_map(Op::Forget),
    ]
}

/// What two file systems must agree on of a node.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Facts {
    mode: u32,
    uid: u32,
    gid: u32,
    /// Of all but directories, whose sizes and links are each file system's own.
    size: Option<u64>,
    nlink: Option<u32>,
}

fn facts(attr: &Attr) -> Facts {
    let not_dir = attr.mode & S_IFMT != 0o040_000;
    Facts {
        mode: attr.mode,
        uid: attr.uid,
        gid: attr.gid,
        size: not_dir.then_some(attr.size),
        nlink: not_dir.then_some(attr.nlink),
    }
}

/// The result of an operation, without what may differ.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Outcome {
    Failed(Failure),
    Done,
    Node(Facts),
    Bytes(Vec<u8>),
    Count(u64),
    Names(Vec<(Vec<u8>, u32)>),
}

/// One of the two, with its own numbers for the nodes and handles that both know.
struct Side {
    raw: Raw,
    nodes: Vec<u64>,
    handles: Vec<u64>,
}

impl Side {
    fn new(raw: Raw) -> Self {
        Side {
            raw,
            nodes: vec![ROOT_ID],
            handles: Vec::new(),
        }
    }

    fn node(&self, index: &Index) -> u64 {
        *index.get(&self.nodes)
    }

    /// A handle; one that is not open when there are none.
    fn handle(&self, index: &Index) -> u64 {
        match self.handles.is_empty() {
            true => 0,
            false => *index.get(&self.handles),
        }
    }

    fn found(&mut self, entry: EntryOut) -> Outcome {
        self.nodes.push(entry.nodeid);
        Outcome::Node(facts(&entry.attr))
    }

    fn run(&mut self, op: &Op) -> Outcome {
        self.try_run(op).unwrap_or_else(Outcome::Failed)
    }

    fn try_run(&mut self, op: &Op) -> Result<Outcome, Failure> {
        let raw = &self.raw;
        Ok(match op {
            Op::Lookup(dir, n) => {
                let entry = raw.lookup(self.node(dir), NAMES[*n])?;
                self.found(entry)
            }
            Op::Getattr(node) => Outcome::Node(facts(&raw.getattr(self.node(node), None)?)),
            Op::Create(dir, n, flags, mode) => {
                let (entry, open) = raw.create(self.node(dir), NAMES[*n], *flags as i32, *mode)?;
                self.handles.push(open.fh);
                self.found(entry)
            }
            Op::Open(node, flags) => {
                let open = raw.open(self.node(node), *flags as i32)?;
                self.handles.push(open.fh);
                Outcome::Done
            }
            Op::Release(h) => {
                let fh = self.handle(h);
                raw.release(fh)?;
                self.handles.retain(|open| *open != fh);
                Outcome::Done
            }
            Op::Read(h, offset, size) => {
                Outcome::Bytes(raw.read(self.handle(h), *offset, *size)?)
            }
            Op::Write(h, offset, size, byte) => {
                let data = vec![*byte; *size as usize];
                Outcome::Count(raw.write(self.handle(h), *offset, &data)?.into())
            }
            Op::Fsync(h) => {
                raw.fsync(self.handle(h), 0)?;
                Outcome::Done
            }
            Op::Fallocate(h, mode, offset, length) => {
                raw.fallocate(self.handle(h), *mode, *offset, *length)?;
                Outcome::Done
            }
            Op::Copy(from, from_at, to, to_at, len) => {
                let (from, to) = (self.handle(from), self.handle(to));
                Outcome::Count(raw.copy((from, *from_at), (to, *to_at), *len)?)
            }
            Op::Truncate(node, size) => {
                Outcome::Node(facts(&raw.truncate(self.node(node), *size)?))
            }
            Op::Chmod(node, mode) => Outcome::Node(facts(&raw.chmod(self.node(node), *mode)?)),
            Op::SetTimes(node, secs) => {
                let arg = SetattrIn {
                    atime: *secs,
                    mtime: *secs + 1,
                    mtimensec: 123_456_789,
                    ..SetattrIn::default()
                };
                let valid = SetattrValid::ATIME | SetattrValid::MTIME;
                let attr = raw.setattr(self.node(node), valid, arg)?;
                assert_eq!((attr.atime, attr.mtime), (*secs, secs + 1));
                assert_eq!((attr.atimensec, attr.mtimensec), (0, 123_456_789));
                Outcome::Node(facts(&attr))
            }
            Op::Mkdir(dir, n, mode) => {
                let entry = raw.mkdir(self.node(dir), NAMES[*n], *mode)?;
                self.found(entry)
            }
            Op::Mkfifo(dir, n) => {
                let entry = raw.mknod(self.node(dir), NAMES[*n], 0o010_600, 0)?;
                self.found(entry)
            }
            Op::Symlink(dir, n, target) => {
                let entry = raw.symlink(self.node(dir), NAMES[*n], NAMES[*target])?;
                self.found(entry)
            }
            Op::Readlink(node) => Outcome::Bytes(raw.readlink(self.node(node))?),
            Op::Link(old, dir, n) => {
                let entry = raw.link(self.node(old), self.node(dir), NAMES[*n])?;
                self.found(entry)
            }
            Op::Unlink(dir, n) => {
                raw.unlink(self.node(dir), NAMES[*n])?;
                Outcome::Done
            }
            Op::Rmdir(dir, n) => {
                raw.rmdir(self.node(dir), NAMES[*n])?;
                Outcome::Done
            }
            Op::Rename(dir, n, new_dir, m, flags) => {
                let (from, to) = (self.node(dir), self.node(new_dir));
                raw.rename((from, NAMES[*n]), (to, NAMES[*m]), *flags)?;
                Outcome::Done
            }
            Op::List(dir, plus) => {
                let list = raw.list(self.node(dir), 700, *plus)?;
                Outcome::Names(list.into_iter().map(|l| (l.name, l.typ)).collect())
            }
            Op::Forget(node) => {
                let node = self.node(node);
                if node != ROOT_ID {
                    raw.forget(node);
                }
                Outcome::Done
            }
        })
    }

    /// Everything that can be reached, by path.
    fn tree(&self) -> Vec<(Vec<u8>, Facts, Vec<u8>)> {
        let mut tree = Vec::new();
        let mut todo = vec![(Vec::new(), ROOT_ID)];
        while let Some((path, dir)) = todo.pop() {
            for listed in self.raw.list(dir, 4096, true).expect("a list") {
                let entry = listed.entry.expect("an entry of READDIRPLUS");
                let path = [&path[..], b"/", &listed.name].concat();
                let mut contents = Vec::new();
                match entry.attr.mode & S_IFMT {
                    0o040_000 => todo.push((path.clone(), entry.nodeid)),
                    0o120_000 => contents = self.raw.readlink(entry.nodeid).expect("a link"),
                    0o100_000 => {
                        let fh = self.raw.open(entry.nodeid, 0).expect("a file").fh;
                        // Both ends: some files are larger than memory.
                        contents = self.raw.read(fh, 0, 100_000).expect("its start");
                        let end = entry.attr.size.saturating_sub(100_000);
                        contents.extend(self.raw.read(fh, end, 100_000).expect("its end"));
                        self.raw.release(fh).expect("RELEASE");
                    }
                    _ => {}
                }
                tree.push((path, facts(&entry.attr), contents));
            }
        }
        tree.sort_by(|a, b| a.0.cmp(&b.0));
        tree
    }

    fn leave(&mut self) {
        for fh in std::mem::take(&mut self.handles) {
            self.raw.release(fh).expect("RELEASE");
        }
        self.raw.leave();
    }
}

/// Forgetting ends the pairs in which either side's node is meant: each numbers its nodes in its
/// own way when it sees them again.
fn drop_forgotten(index: &Index, a: &mut Side, b: &mut Side) {
    let (in_a, in_b) = (a.node(index), b.node(index));
    if in_a == ROOT_ID {
        return;
    }
    let keep: Vec<bool> = std::iter::zip(&a.nodes, &b.nodes)
        .map(|(x, y)| *x != in_a && *y != in_b)
        .collect();
    for side in [a, b] {
        let mut keep = keep.iter();
        side.nodes.retain(|_| *keep.next().expect("as many"));
    }
}

fn agree(ops: &[Op]) -> Result<(), TestCaseError> {
    let (_temp, served) = directory(DirOptions::default());
    let (client, mem_server) = start(memory(), &small()).unwrap();
    let mut mem = Side::new(Raw::connected(client));
    let (client, dir_server) = start(served, &small()).unwrap();
    let mut dir = Side::new(Raw::connected(client));
    for (n, op) in ops.iter().enumerate() {
        let (expected, got) = (dir.run(op), mem.run(op));
        prop_assert_eq!(expected, got, "step {}: {:?}", n, op);
        if let Op::Forget(index) = op {
            drop_forgotten(index, &mut mem, &mut dir);
        }
        prop_assert_eq!(
            mem_server.usage().live_nodes,
            dir_server.usage().live_nodes,
            "step {}: {:?}",
            n,
            op
        );
    }
    prop_assert_eq!(dir.tree(), mem.tree());
    mem.leave();
    dir.leave();
    prop_assert_eq!(mem_server.join(), Usage::default());
    prop_assert_eq!(dir_server.join(), Usage::default());
    Ok(())
}

proptest! {
    #[test]
    fn memory_does_what_the_host_does(ops in prop::collection::vec(op(), 1..60)) {
        agree(&ops)?;
    }
}
