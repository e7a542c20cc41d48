//! Operations, and where they come from.

use crate::common::Rng;

/// Somebody who operates.
#[derive(Clone, Debug)]
pub struct User {
    pub uid: u32,
    pub gid: u32,
    pub groups: Vec<u32>,
}

/// How many files each user may have open at once.
pub const SLOTS: u64 = 3;

/// An operation. Paths are relative to the top, and lead through the tree's own links only.
#[derive(Clone, Debug)]
pub enum Op {
    Mkdir(String, u32),
    Mknod(String, u32),
    Symlink(String, String),
    Link(String, String),
    Rename(String, String),
    RenameNoReplace(String, String),
    Exchange(String, String),
    Unlink(String),
    Rmdir(String),
    Stat(String),
    Lstat(String),
    ReadDir(String),
    ReadLink(String),
    Truncate(String, u64),
    Chmod(String, u32),
    /// Owner, group; whether a link is followed.
    Chown(String, Option<u32>, Option<u32>, bool),
    SetTime(String, i64),
    Touch(String),
    /// Bits of access(2).
    Access(String, u32),
    /// Path, name, and the seed of the value.
    SetXattr(String, String, u64),
    GetXattr(String, String),
    ListXattr(String),
    RemoveXattr(String, String),
    /// Slot, path, and how: read, write, append, create, exclusively, truncate.
    Open(u64, String, [bool; 6], u32),
    Close(u64),
    Read(u64, u64, usize),
    /// Slot, offset, length, and the seed of the data.
    Write(u64, u64, usize, u64),
    SetLen(u64, u64),
    Allocate(u64, u64, u64),
    Fstat(u64),
    Sync(u64),
    /// Whole files: shared or not.
    Lock(u64, bool),
    Unlock(u64),
    /// Ranges: start, end, for writing or not.
    LockRange(u64, u64, u64, bool),
    UnlockRange(u64, u64, u64),
    TestRange(u64, u64, u64, bool),
}

fn name(rng: &mut Rng) -> String {
    ["a", "b", "c", "d"][rng.below(4) as usize].to_owned()
}

fn path(rng: &mut Rng) -> String {
    let depth = [1, 1, 2, 2, 3][rng.below(5) as usize];
    let names: Vec<_> = (0..depth).map(|_| name(rng)).collect();
    let mut path = names.join("/");
    match rng.below(24) {
        0 => path.push('/'),
        1 => path.push_str("/."),
        _ => {}
    }
    path
}

fn mode(rng: &mut Rng) -> u32 {
    // Mostly such that the others have something to do.
    match rng.below(20) {
        0..8 => 0o777,
        8..12 => 0o775,
        12..14 => 0o755,
        n => [0o770, 0o700, 0o666, 0o644, 0o600, 0o000][n as usize - 14],
    }
}

fn special_mode(rng: &mut Rng) -> u32 {
    let special = [0, 0, 0o1000, 0o2000, 0o4000, 0o6000, 0o3000];
    match mode(rng) | special[rng.below(7) as usize] {
        // Sticky directories that all may write have further rules, by settings of the host
        // (fs.protected_symlinks and its like).
        mode if mode & 0o1002 == 0o1002 => mode & !0o002,
        mode => mode,
    }
}

fn attribute(rng: &mut Rng) -> String {
    ["user.one", "user.two"][rng.below(2) as usize].to_owned()
}

/// Data that its seed tells.
pub fn pattern(len: usize, seed: u64) -> Vec<u8> {
    let mut rng = Rng::new(seed);
    (0..len).map(|_| rng.next() as u8).collect()
}

fn range(rng: &mut Rng) -> (u64, u64) {
    let start = rng.below(40);
    (start, start + 1 + rng.below(20))
}

impl Op {
    pub fn random(rng: &mut Rng, users: &[User]) -> Op {
        let slot = rng.below(SLOTS);
        let who = |rng: &mut Rng| users[rng.below(users.len() as u64) as usize].clone();
        match rng.below(64) {
            0..4 => Op::Mkdir(path(rng), mode(rng)),
            4 => Op::Mknod(path(rng), 0o010_000 | mode(rng)),
            5 => Op::Mknod(path(rng), 0o100_000 | mode(rng)),
            6..8 => {
                let target = [name(rng), format!("{}/{}", name(rng), name(rng))];
                Op::Symlink(target[rng.below(2) as usize].clone(), path(rng))
            }
            8..10 => Op::Link(path(rng), path(rng)),
            10..13 => Op::Rename(path(rng), path(rng)),
            13 => Op::RenameNoReplace(path(rng), path(rng)),
            14 => Op::Exchange(path(rng), path(rng)),
            15..17 => Op::Unlink(path(rng)),
            17 => Op::Rmdir(path(rng)),
            18..20 => Op::Stat(path(rng)),
            20 => Op::Lstat(path(rng)),
            21..23 => Op::ReadDir(path(rng)),
            23 => Op::ReadLink(path(rng)),
            24 => Op::Truncate(path(rng), rng.below(9000)),
            25..27 => Op::Chmod(path(rng), special_mode(rng)),
            27..29 => Op::Mkdir(path(rng), 0o777),
            29..31 => {
                let (user, group) = (who(rng), who(rng));
                let gid = match group.groups.first() {
                    Some(gid) if rng.below(2) == 0 => *gid,
                    _ => group.gid,
                };
                let (uid, gid) = match rng.below(3) {
                    0 => (Some(user.uid), None),
                    1 => (None, Some(gid)),
                    _ => (Some(user.uid), Some(gid)),
                };
                Op::Chown(path(rng), uid, gid, rng.below(2) == 0)
            }
            31 => Op::SetTime(path(rng), rng.below(1_000_000_000) as i64),
            32 => Op::Touch(path(rng)),
            33..35 => Op::Access(path(rng), rng.below(8) as u32),
            35 => Op::SetXattr(path(rng), attribute(rng), rng.below(50)),
            36 => Op::GetXattr(path(rng), attribute(rng)),
            37 => Op::ListXattr(path(rng)),
            38 => Op::RemoveXattr(path(rng), attribute(rng)),
            39..46 => {
                let mut how = [false; 6];
                // More often than not something that is allowed.
                how[0] = rng.below(4) > 0;
                how[1] = rng.below(2) > 0;
                how[2] = rng.below(4) == 0;
                how[3] = rng.below(2) > 0;
                how[4] = rng.below(8) == 0;
                how[5] = rng.below(8) == 0;
                Op::Open(slot, path(rng), how, mode(rng))
            }
            46 => Op::Close(slot),
            47..49 => Op::Read(slot, rng.below(9000), rng.below(9000) as usize),
            49..52 => Op::Write(
                slot,
                rng.below(9000),
                rng.below(6000) as usize,
                rng.below(1000),
            ),
            52 => Op::SetLen(slot, rng.below(9000)),
            53 => Op::Allocate(slot, rng.below(9000), 1 + rng.below(9000)),
            54 => Op::Fstat(slot),
            55 => Op::Sync(slot),
            56..58 => Op::Lock(slot, rng.below(2) == 0),
            58 => Op::Unlock(slot),
            59..61 => {
                let (start, end) = range(rng);
                Op::LockRange(slot, start, end, rng.below(2) == 0)
            }
            61 => {
                let (start, end) = range(rng);
                Op::UnlockRange(slot, start, end)
            }
            _ => {
                let (start, end) = range(rng);
                Op::TestRange(slot, start, end, rng.below(2) == 0)
            }
        }
    }

    /// Options of an open as `std::fs::OpenOptions` takes them.
    pub fn options(how: [bool; 6], mode: u32) -> Options {
        let [read, write, append, create, exclusively, truncate] = how;
        Options {
            read,
            write,
            append,
            create,
            create_new: exclusively,
            truncate,
            mode,
        }
    }
}

pub struct Options {
    pub read: bool,
    pub write: bool,
    pub append: bool,
    pub create: bool,
    pub create_new: bool,
    pub truncate: bool,
    pub mode: u32,
}

/// How an outcome is written down.
pub fn outcome<T>(result: Result<T, rustix::io::Errno>, shown: impl FnOnce(T) -> String) -> String {
    match result {
        Ok(value) => shown(value),
        Err(errno) => format!("errno {errno:?}"),
    }
}

/// What is the same of attributes on every file system.
pub fn attributes(mode: u32, uid: u32, gid: u32, size: u64, nlink: u64, mtime: i64) -> String {
    let is_dir = mode & 0o170_000 == 0o040_000;
    let (size, nlink) = if is_dir { (0, 0) } else { (size, nlink) };
    // Times that were set lie before 2002; those of now differ.
    let mtime = if mtime < 1_000_000_000 { mtime } else { -1 };
    format!("{mode:o} {uid}:{gid} {size} bytes {nlink} links {mtime}")
}

/// Bytes, short enough to be read.
pub fn digest(bytes: &[u8]) -> String {
    let sum = bytes.iter().fold(0_u64, |sum, byte| {
        (sum ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3)
    });
    format!("{} bytes, {sum:x}", bytes.len())
}
