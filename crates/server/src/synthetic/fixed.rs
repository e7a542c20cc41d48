//! Small trees with something wrong about them.

use super::{Child, Facts};
use fusewire_wire::abi::FileKind::{BlockDevice, Directory, Regular};
use fusewire_wire::abi::{FileKind, ROOT_ID};

/// Directory, name, node, and what the directory says that it is.
type Row = (u64, &'static [u8], u64, FileKind);

/// Directories inside themselves, among good ones.
pub(super) const CYCLE: &[Row] = &[
    (ROOT_ID, b"a", 10, Directory),
    (ROOT_ID, b"self", 14, Directory),
    (ROOT_ID, b"z", 16, Regular),
    (10, b"b", 11, Directory),
    (10, b"f", 12, Regular),
    (11, b"a", 10, Directory),
    (11, b"g", 13, Regular),
    (14, b"self", 14, Directory),
    (14, b"h", 15, Regular),
];

/// A name that is a path, and what stands for it until the answer is written: the writer takes
/// names only.
const PATH: &[u8] = b"../../escape";
const STAND_IN: &[u8] = b"..|..|escape";

const HUGE: u64 = 12;
const HOLLOW: u64 = 13;
const NOT_A_DIRECTORY: u64 = 14;
const NOT_A_FILE: u64 = 15;
pub(super) const CHANGING: u64 = 16;

/// Every kind of entry that is not what it should be, and some that are.
pub(super) const CROOKED: &[Row] = &[
    (ROOT_ID, b"good", 10, Regular),
    (ROOT_ID, b"bell\x07\x1b[2J\n", 11, Regular),
    (ROOT_ID, b"huge", HUGE, Regular),
    (ROOT_ID, b"hollow", HOLLOW, Regular),
    (ROOT_ID, b"root", ROOT_ID, Directory),
    (ROOT_ID, b"not-a-directory", NOT_A_DIRECTORY, Directory),
    (ROOT_ID, b"not-a-file", NOT_A_FILE, Regular),
    (ROOT_ID, b"changing", CHANGING, Regular),
    (ROOT_ID, b"slash", 17, Directory),
    (17, b"ok", 18, Regular),
    (17, STAND_IN, 19, Regular),
    (ROOT_ID, b"dots", 20, Directory),
    (20, b"..", 21, Regular),
    (20, b".", 22, Regular),
    (20, b"ok", 23, Regular),
    (ROOT_ID, b"disk", 24, BlockDevice),
    (ROOT_ID, b"sub", 25, Directory),
    (25, b"last", 26, Regular),
];

/// What can be removed, and is still there afterwards.
pub(super) const UNDEAD: &[Row] = &[
    (ROOT_ID, b"d", 10, Directory),
    (10, b"x", 11, Regular),
    (10, b"e", 12, Directory),
    (10, b"y", 13, Regular),
];

/// Whether a name stands for the one that is a path.
pub(super) fn is_path(name: &[u8]) -> bool {
    name == STAND_IN
}

/// Puts the name that is a path into an answer.
pub(super) fn spoil(answer: &mut [u8]) {
    let len = STAND_IN.len();
    let mut at = 0;
    while at + len <= answer.len() {
        if &answer[at..at + len] == STAND_IN {
            answer[at..at + len].copy_from_slice(PATH);
        }
        at += 1;
    }
}

pub(super) fn child(table: &[Row], dir: u64, position: u64) -> Option<Child> {
    let mut rows = table.iter().filter(|row| row.0 == dir);
    let (_, name, node, listed) = rows.nth(usize::try_from(position).ok()?)?;
    Some(Child {
        name: name.to_vec(),
        node: *node,
        listed: *listed,
    })
}

pub(super) fn facts(table: &[Row], node: u64) -> Facts {
    let row = table.iter().find(|row| row.2 == node);
    let kind = row.map_or(Directory, |row| row.3);
    if table != CROOKED {
        return Facts::of(kind);
    }
    match node {
        ROOT_ID => Facts::of(Directory),
        NOT_A_DIRECTORY => Facts::of(Regular),
        NOT_A_FILE => Facts::of(Directory),
        HUGE => Facts {
            size: i64::MAX as u64,
            blocks: u64::MAX,
            contents: 5,
            ..Facts::of(kind)
        },
        HOLLOW => Facts {
            size: i64::MAX as u64,
            blocks: 0,
            contents: 100_000,
            holes_everywhere: true,
            ..Facts::of(kind)
        },
        _ => Facts::of(kind),
    }
}
