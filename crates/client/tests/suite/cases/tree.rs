//! Making, moving and removing.

use super::cases;
use crate::check::errno;
use crate::differ::Pair;
use crate::ops::{How, Op, Outcome};
use crate::session::Session;
use rustix::io::Errno;
use std::path::{Path, PathBuf};

cases![
    making_agrees_with_the_kernel,
    removing_agrees_with_the_kernel,
    renaming_agrees_with_the_kernel,
    renaming_moves_open_files_and_whole_trees,
    nothing_moves_into_itself,
    create_dir_all_is_that_of_std,
    remove_dir_all_takes_everything_and_follows_nothing,
    remove_dir_all_takes_directories_of_many,
    removed_directories_have_nothing_in_them,
    read_and_write_take_whole_files,
    trees_may_be_hundreds_of_levels_deep,
    paths_may_be_longer_than_4096_bytes,
];

/// Something of every kind.
fn everything(pair: &mut Pair<'_>) {
    pair.prepare(Op::WriteFile("file".into(), 5, 1));
    pair.prepare(Op::WriteFile("other".into(), 6, 2));
    pair.prepare(Op::Mkdir("empty".into(), 0o755));
    pair.prepare(Op::Mkdir("full".into(), 0o755));
    pair.prepare(Op::WriteFile("full/file".into(), 7, 3));
    pair.prepare(Op::Mkdir("full/dir".into(), 0o755));
    pair.prepare(Op::Mknod("pipe".into(), 0o010_600));
    pair.prepare(Op::Symlink("file".into(), "to-file".into()));
    pair.prepare(Op::Symlink("full".into(), "to-dir".into()));
    pair.prepare(Op::Symlink("missing".into(), "dangling".into()));
}

fn clear(pair: &mut Pair<'_>) {
    for path in [
        "file", "other", "empty", "full", "pipe", "to-file", "to-dir", "dangling", "new", "missing",
    ] {
        pair.act(Op::Unlink(path.into()));
        pair.act(Op::RemoveAll(path.into()));
    }
}

/// Of the places, those that a rename takes like another.
const ALIKE: [&str; 6] = [
    "pipe",
    "full/new",
    "to-dir/file",
    "to-dir/new",
    "dangling/new",
    ".",
];

const PLACES: [&str; 20] = [
    "file",
    "empty",
    "full",
    "pipe",
    "to-file",
    "to-dir",
    "dangling",
    "new",
    "full/file",
    "full/new",
    "full/dir",
    "to-dir/file",
    "to-dir/new",
    "missing/new",
    "file/new",
    "dangling/new",
    "/",
    ".",
    "full/..",
    "new/",
];

fn making_agrees_with_the_kernel(s: &Session) {
    let mut pair = Pair::new(s);
    for make in [
        |path: &str| Op::Mkdir(path.into(), 0o750),
        |path: &str| Op::Mknod(path.into(), 0o010_640),
        |path: &str| Op::Mknod(path.into(), 0o140_640),
        |path: &str| Op::Mknod(path.into(), 0o100_640),
        |path: &str| Op::Symlink("somewhere".into(), path.into()),
        |path: &str| Op::Link("other".into(), path.into()),
        |path: &str| Op::WriteFile(path.into(), 3, 1),
    ] {
        everything(&mut pair);
        for path in PLACES {
            pair.act(make(path));
            pair.act(Op::Lstat(path.into()));
        }
        pair.act(Op::ReadDir("/".into()));
        pair.act(Op::ReadDir("full".into()));
        clear(&mut pair);
    }
    pair.finish();
}

fn removing_agrees_with_the_kernel(s: &Session) {
    let mut pair = Pair::new(s);
    for path in PLACES
        .into_iter()
        .chain(["file/", "empty/", "to-dir/", "empty/.", "/.."])
    {
        everything(&mut pair);
        pair.act(Op::Unlink(path.into()));
        pair.act(Op::Unlink(path.into()));
        pair.act(Op::Rmdir(path.into()));
        pair.act(Op::Rmdir(path.into()));
        pair.act(Op::Exists(path.into()));
        pair.act(Op::ReadDir("/".into()));
        clear(&mut pair);
    }
    pair.finish();
}

/// Every kind onto every kind.
fn renaming_agrees_with_the_kernel(s: &Session) {
    let mut pair = Pair::new(s);
    everything(&mut pair);
    let places = PLACES.into_iter().filter(|place| !ALIKE.contains(place));
    for from in places.clone() {
        for to in places.clone() {
            let outcome = pair.act(Op::Rename(from.into(), to.into()));
            if outcome == Outcome::Done {
                pair.act(Op::Lstat(from.into()));
                pair.act(Op::Lstat(to.into()));
                clear(&mut pair);
                everything(&mut pair);
            }
        }
    }
    pair.finish();
}

fn renaming_moves_open_files_and_whole_trees(s: &Session) {
    let mut pair = Pair::new(s);
    pair.prepare(Op::MkdirAll("a/b/c".into()));
    pair.prepare(Op::WriteFile("a/b/file".into(), 100, 1));
    pair.prepare(Op::Open(
        0,
        "a/b/file".into(),
        How {
            read: true,
            ..How::WRITE
        },
    ));
    pair.act(Op::Stat("a/b/c".into()));
    pair.act(Op::Rename("a/b".into(), "moved".into()));
    pair.act(Op::Stat("a/b/c".into()));
    pair.act(Op::Stat("moved/c".into()));
    pair.act(Op::Stat("moved/c/../../a".into()));
    pair.act(Op::WriteAt(0, 50, 100, 2));
    pair.act(Op::ReadFile("moved/file".into()));
    pair.act(Op::Stat("moved/file".into()));
    pair.act(Op::Rename("moved/file".into(), "moved/c/file".into()));
    pair.act(Op::SetLen(0, 10));
    pair.act(Op::Stat("moved/c/file".into()));
    pair.act(Op::Rename("moved".into(), "a/b".into()));
    pair.act(Op::ReadFile("a/b/c/file".into()));
    pair.act(Op::Rename("a/b/c/file".into(), "a/b/c/file".into()));
    pair.act(Op::Rename("a".into(), "a".into()));
    pair.act(Op::Close(0));
    pair.finish();
}

fn nothing_moves_into_itself(s: &Session) {
    let mut pair = Pair::new(s);
    pair.prepare(Op::MkdirAll("a/b/c".into()));
    pair.prepare(Op::Symlink("a/b".into(), "link".into()));
    for (from, to) in [
        ("a", "a/x"),
        ("a", "a/b/c/x"),
        ("a", "link/x"),
        ("a", "a/b"),
        ("a/b", "a"),
        ("a/b/c", "a"),
        ("a", "a/../a/x"),
        ("/", "a/x"),
        ("a/.", "x"),
        ("a/..", "x"),
        ("a", "a/b/.."),
        ("a/b", "a/b/"),
    ] {
        pair.act(Op::Rename(from.into(), to.into()));
    }
    pair.finish();
}

fn create_dir_all_is_that_of_std(s: &Session) {
    let mut pair = Pair::new(s);
    everything(&mut pair);
    for path in [
        "a/b/c",
        "a/b/c",
        "a/b/d/",
        "/a/e",
        "full/dir/x/y",
        "file",
        "file/x",
        "to-dir",
        "to-dir/z",
        "to-file",
        "dangling",
        "dangling/x",
        "pipe",
        "a/../q",
        "r/../s",
        "./t",
        "",
        "/",
        ".",
        "..",
        "u//v",
    ] {
        pair.act(Op::MkdirAll(path.into()));
    }
    pair.finish();
}

fn remove_dir_all_takes_everything_and_follows_nothing(s: &Session) {
    let mut pair = Pair::new(s);
    everything(&mut pair);
    pair.prepare(Op::MkdirAll("tree/a/b".into()));
    pair.prepare(Op::WriteFile("tree/a/file".into(), 3, 1));
    pair.prepare(Op::Symlink("../../full".into(), "tree/a/to-full".into()));
    pair.prepare(Op::Symlink("/full".into(), "tree/a/b/to-full".into()));
    pair.prepare(Op::Mknod("tree/pipe".into(), 0o010_600));
    pair.prepare(Op::Link("other".into(), "tree/a/b/other".into()));
    pair.prepare(Op::Open(0, "tree/a/file".into(), How::READ));
    for path in ["tree", "tree", "file", "dangling", "missing", "to-dir"] {
        pair.act(Op::RemoveAll(path.into()));
        pair.act(Op::ReadDir("/".into()));
    }
    pair.act(Op::Read(0, 10));
    pair.act(Op::Close(0));
    pair.finish();
}

fn remove_dir_all_takes_directories_of_many(s: &Session) {
    let c = &s.client;
    for dir in 0..12 {
        c.create_dir_all(format!("tree/{dir}/below")).unwrap();
        for file in 0..20 {
            c.write(format!("tree/{dir}/{file}"), "").unwrap();
        }
    }
    c.remove_dir_all("tree").unwrap();
    assert!(!c.exists("tree").unwrap());
    assert_eq!(c.read_dir("/").unwrap().count(), 0);
}

fn removed_directories_have_nothing_in_them(s: &Session) {
    let c = &s.client;
    c.create_dir("dir").unwrap();
    let mut listing = c.read_dir("dir").unwrap();
    c.remove_dir("dir").unwrap();
    assert!(listing.next().is_none());
    assert_eq!(errno(c.read_dir("dir")), Errno::NOENT);
    assert_eq!(errno(c.write("dir/file", "")), Errno::NOENT);
    assert_eq!(errno(c.remove_dir("dir")), Errno::NOENT);
    // One of the same name is another one.
    c.create_dir("dir").unwrap();
    c.write("dir/file", "").unwrap();
    assert_eq!(c.read_dir("dir").unwrap().count(), 1);
}

fn read_and_write_take_whole_files(s: &Session) {
    let mut pair = Pair::new(s);
    everything(&mut pair);
    for path in PLACES.into_iter().chain(["to-file/", "dangling/"]) {
        pair.act(Op::ReadFile(path.into()));
        pair.act(Op::WriteFile(path.into(), 20, 9));
        pair.act(Op::WriteFile(path.into(), 10, 8));
        pair.act(Op::ReadFile(path.into()));
        pair.act(Op::Exists(path.into()));
        clear(&mut pair);
        everything(&mut pair);
    }
    pair.finish();
}

fn trees_may_be_hundreds_of_levels_deep(s: &Session) {
    const LEVELS: usize = 300;
    let c = &s.client;
    let path: PathBuf = (0..LEVELS).map(|level| level.to_string()).collect();
    match s.host("/") {
        Some(host) => std::fs::create_dir_all(host.join(&path)).unwrap(),
        None => c.create_dir_all(&path).unwrap(),
    }
    c.write(path.join("file"), "deep").unwrap();
    c.drop_caches();
    assert_eq!(c.read(path.join("file")).unwrap(), b"deep");
    let back = path.join("../".repeat(LEVELS - 1)).join("1");
    let second = c.metadata("0/1").unwrap();
    assert_eq!(c.metadata(back).unwrap().ino(), second.ino());
    let entry = c.read_dir(&path).unwrap().next().unwrap().unwrap();
    assert_eq!(entry.path(), path.join("file"));
    assert_eq!(entry.metadata().unwrap().len(), 4);
    // Made and removed at the bottom, level by level.
    let deeper: PathBuf = path.join("a/b/c/d/e/f/g/h");
    c.create_dir_all(&deeper).unwrap();
    c.rename(path.join("file"), deeper.join("moved")).unwrap();
    assert_eq!(c.read(deeper.join("moved")).unwrap(), b"deep");
    let bottom: PathBuf = path.iter().take(LEVELS - 5).collect();
    c.remove_dir_all(&bottom).unwrap();
    assert!(!c.exists(&bottom).unwrap());
    assert!(c.exists(bottom.parent().unwrap()).unwrap());
}

/// What one path can name: four times as much as a kernel takes at once.
fn paths_may_be_longer_than_4096_bytes(s: &Session) {
    const LONGEST: usize = 16 << 10;
    let c = &s.client;
    let name = "n".repeat(200);
    let path: PathBuf = std::iter::repeat_n(&name, 30).collect();
    assert!(path.as_os_str().len() > 6000);
    c.create_dir_all(&path).unwrap();
    c.write(path.join("file"), "far").unwrap();
    c.drop_caches();
    assert_eq!(c.metadata(path.join("file")).unwrap().len(), 3);
    c.rename(path.join("file"), path.join("moved")).unwrap();
    assert_eq!(c.read_dir(&path).unwrap().count(), 1);
    // A link holds no more than the protocol has it, but what it leads to may be as deep.
    let half: PathBuf = path.iter().take(15).collect();
    c.symlink(&half, "half").unwrap();
    let below = Path::new("half").join(&half).join("moved");
    assert_eq!(c.read(below).unwrap(), b"far");
    let longest = "./".repeat(LONGEST / 2);
    assert!(c.metadata(&longest).unwrap().is_dir());
    let too_long = longest + ".";
    assert_eq!(errno(c.metadata(&too_long)), Errno::NAMETOOLONG);
    assert_eq!(errno(c.read_dir(&too_long)), Errno::NAMETOOLONG);
    assert_eq!(errno(c.create(&too_long)), Errno::NAMETOOLONG);
    assert_eq!(errno(c.rename("half", &too_long)), Errno::NAMETOOLONG);
    c.remove_dir_all(&name).unwrap();
    assert!(!c.exists(&name).unwrap());
}
