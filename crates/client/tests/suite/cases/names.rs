//! Names: which ones there are, and which not.

use super::cases;
use crate::check::errno;
use crate::differ::Pair;
use crate::ops::Op;
use crate::session::Session;
use rustix::io::Errno;
use std::collections::BTreeSet;
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

cases![
    every_byte_but_slash_and_nul_may_be_in_a_name,
    names_of_255_bytes_are_the_longest,
    names_that_look_special_are_not,
    names_need_not_be_utf_8,
    control_characters_are_quoted_in_errors,
    a_nul_in_a_path_is_refused,
    an_empty_path_leads_nowhere,
    paths_begin_at_the_root_with_or_without_a_slash,
    dots_lead_where_they_do_in_the_kernel,
];

fn os(bytes: &[u8]) -> &OsStr {
    OsStr::from_bytes(bytes)
}

fn listed(s: &Session, path: &str) -> BTreeSet<OsString> {
    let entries = s.client.read_dir(path).unwrap();
    let names: Vec<_> = entries.map(|entry| entry.unwrap().file_name()).collect();
    let set: BTreeSet<_> = names.iter().cloned().collect();
    assert_eq!(names.len(), set.len(), "seen twice");
    set
}

fn every_byte_but_slash_and_nul_may_be_in_a_name(s: &Session) {
    let c = &s.client;
    let mut expected = BTreeSet::new();
    for byte in (1..=255u8).filter(|byte| *byte != b'/') {
        let name = os(&[b'x', byte]).to_owned();
        c.write(&name, [byte]).unwrap();
        expected.insert(name);
    }
    assert_eq!(listed(s, "/"), expected);
    c.drop_caches();
    for name in &expected {
        assert_eq!(c.read(name).unwrap(), [name.as_bytes()[1]]);
        if let Some(host) = s.host("/") {
            assert!(host.join(name).exists(), "{name:?}");
        }
        c.remove_file(name).unwrap();
    }
    assert!(listed(s, "/").is_empty());
}

fn names_of_255_bytes_are_the_longest(s: &Session) {
    let mut pair = Pair::new(s);
    pair.prepare(Op::WriteFile("file".into(), 1, 1));
    pair.prepare(Op::Mkdir("dir".into(), 0o755));
    for len in [1, 254, 255, 256, 300, 4000] {
        let name = PathBuf::from("ä".repeat(len / 2) + &"x".repeat(len % 2));
        let also = Path::new("dir").join(&name);
        for path in [name, also] {
            pair.act(Op::WriteFile(path.clone(), 10, 2));
            pair.act(Op::Stat(path.clone()));
            pair.act(Op::Exists(path.clone()));
            pair.act(Op::ReadFile(path.clone()));
            pair.act(Op::Unlink(path.clone()));
            pair.act(Op::Mkdir(path.clone(), 0o700));
            pair.act(Op::ReadDir(path.clone()));
            pair.act(Op::Stat(path.join("below")));
            pair.act(Op::Rmdir(path.clone()));
            pair.act(Op::Symlink("file".into(), path.clone()));
            pair.act(Op::ReadLink(path.clone()));
            pair.act(Op::Unlink(path.clone()));
            pair.act(Op::Link("file".into(), path.clone()));
            pair.act(Op::Rename(path.clone(), "back".into()));
            pair.act(Op::Rename("back".into(), path.clone()));
            pair.act(Op::Mknod(path.clone(), 0o010_600));
            pair.act(Op::MkdirAll(path.clone()));
        }
    }
    pair.finish();
}

fn names_that_look_special_are_not(s: &Session) {
    let mut pair = Pair::new(s);
    for name in [
        "...", "..a", ".hidden", " ", "-rf", "~", "*", "a b", "CON", "a:b", "\\", "%2f",
    ] {
        pair.prepare(Op::WriteFile(name.into(), 3, 1));
        pair.act(Op::Stat(name.into()));
    }
    pair.prepare(Op::WriteFile("case".into(), 1, 1));
    pair.act(Op::Stat("Case".into()));
    // Composed and decomposed are two names.
    pair.prepare(Op::WriteFile("\u{e9}".into(), 1, 1));
    pair.prepare(Op::WriteFile("e\u{301}".into(), 2, 1));
    pair.act(Op::ReadDir("/".into()));
    pair.finish();
}

fn names_need_not_be_utf_8(s: &Session) {
    let c = &s.client;
    let dir = os(b"\xff\xfe");
    let below = Path::new(dir).join(os(b"caf\xe9"));
    c.create_dir(dir).unwrap();
    c.write(&below, "x").unwrap();
    let entry = c.read_dir(dir).unwrap().next().unwrap().unwrap();
    assert_eq!(entry.file_name(), os(b"caf\xe9"));
    assert_eq!(entry.path(), below);
    assert_eq!(c.read(entry.path()).unwrap(), b"x");
    c.symlink(&below, os(b"li\x80nk")).unwrap();
    assert_eq!(c.read_link(os(b"li\x80nk")).unwrap(), below);
    assert_eq!(c.read(os(b"li\x80nk")).unwrap(), b"x");
    c.rename(&below, os(b"\xc0\xaf")).unwrap();
    assert_eq!(c.read(os(b"\xc0\xaf")).unwrap(), b"x");
    if let Some(host) = s.host("/") {
        assert_eq!(std::fs::read(host.join(os(b"\xc0\xaf"))).unwrap(), b"x");
    }
}

fn control_characters_are_quoted_in_errors(s: &Session) {
    let c = &s.client;
    c.create_dir("\x1b[31mred\n\x07").unwrap();
    let error = c.read("\x1b[31mred\n\x07").unwrap_err();
    let text = error.to_string();
    assert!(!text.contains(char::is_control), "{text:?}");
    assert!(text.contains("red"), "{text}");
    let io = std::io::Error::from(error);
    assert!(!io.to_string().contains(char::is_control), "{io}");
}

fn a_nul_in_a_path_is_refused(s: &Session) {
    let c = &s.client;
    c.create_dir("dir").unwrap();
    for path in ["a\0b", "\0", "dir/x\0", "x\0/y"] {
        assert_eq!(errno(c.metadata(path)), Errno::INVAL);
        assert_eq!(errno(c.open(path)), Errno::INVAL);
        assert_eq!(errno(c.create(path)), Errno::INVAL);
        assert_eq!(errno(c.create_dir(path)), Errno::INVAL);
        assert_eq!(errno(c.create_dir_all(path)), Errno::INVAL);
        assert_eq!(errno(c.remove_file(path)), Errno::INVAL);
        assert_eq!(errno(c.remove_dir(path)), Errno::INVAL);
        assert_eq!(errno(c.remove_dir_all(path)), Errno::INVAL);
        assert_eq!(errno(c.rename(path, "x")), Errno::INVAL);
        assert_eq!(errno(c.rename("dir", path)), Errno::INVAL);
        assert_eq!(errno(c.hard_link(path, "x")), Errno::INVAL);
        assert_eq!(errno(c.symlink("x", path)), Errno::INVAL);
        assert_eq!(errno(c.symlink(path, "link")), Errno::INVAL);
        assert_eq!(errno(c.read_link(path)), Errno::INVAL);
        assert_eq!(errno(c.mknod(path, 0o010_600, 0)), Errno::INVAL);
        assert_eq!(errno(c.exists(path)), Errno::INVAL);
    }
    assert_eq!(listed(s, "/").len(), 1);
}

fn an_empty_path_leads_nowhere(s: &Session) {
    let mut pair = Pair::new(s);
    pair.prepare(Op::WriteFile("file".into(), 1, 1));
    let empty = PathBuf::new;
    pair.act(Op::Stat(empty()));
    pair.act(Op::Lstat(empty()));
    pair.act(Op::Exists(empty()));
    pair.act(Op::ReadDir(empty()));
    pair.act(Op::ReadLink(empty()));
    pair.act(Op::ReadFile(empty()));
    pair.act(Op::WriteFile(empty(), 1, 1));
    pair.act(Op::Mkdir(empty(), 0o700));
    pair.act(Op::MkdirAll(empty()));
    pair.act(Op::Unlink(empty()));
    pair.act(Op::Rmdir(empty()));
    pair.act(Op::Rename(empty(), "x".into()));
    pair.act(Op::Rename("file".into(), empty()));
    pair.act(Op::Link(empty(), "x".into()));
    pair.act(Op::Link("file".into(), empty()));
    pair.act(Op::Symlink(empty(), "x".into()));
    pair.act(Op::Symlink("x".into(), empty()));
    pair.act(Op::Truncate(empty(), 0));
    pair.act(Op::Chmod(empty(), 0o600));
    pair.act(Op::SetTime(empty(), true, 0, 0));
    pair.finish();
}

fn paths_begin_at_the_root_with_or_without_a_slash(s: &Session) {
    let c = &s.client;
    c.create_dir_all("a/b").unwrap();
    c.write("/a/b/file", "x").unwrap();
    for path in [
        "a/b/file",
        "/a/b/file",
        "//a///b//file",
        "./a/./b/file",
        "/../a/b/file",
        "../../a/b/../b/file",
    ] {
        assert_eq!(c.read(path).unwrap(), b"x", "{path}");
    }
    for path in ["/", ".", "..", "//", "a/..", "a/../..", "a/b/../../../.."] {
        assert_eq!(
            c.metadata(path).unwrap().ino(),
            c.metadata("/").unwrap().ino()
        );
    }
}

fn dots_lead_where_they_do_in_the_kernel(s: &Session) {
    let mut pair = Pair::new(s);
    pair.prepare(Op::MkdirAll("a/b/c".into()));
    pair.prepare(Op::WriteFile("a/file".into(), 1, 1));
    pair.prepare(Op::Symlink("b/c".into(), "a/link".into()));
    pair.prepare(Op::Symlink("/a/b/c".into(), "absolute".into()));
    pair.prepare(Op::Symlink("..".into(), "a/b/up".into()));
    pair.prepare(Op::Symlink("../../../..".into(), "a/b/out".into()));
    pair.prepare(Op::Symlink("/".into(), "root".into()));
    pair.prepare(Op::Symlink(".".into(), "here".into()));
    for path in [
        "a/..",
        "a/b/..",
        "a/./b",
        "a/link/..",
        "absolute/..",
        "a/b/up",
        "a/b/up/file",
        "a/b/out",
        "a/b/out/a/file",
        "root",
        "root/a",
        "root/root/a/link",
        "here",
        "here/here/a",
        "a/file/..",
        "a/file/.",
        "missing/..",
        "a/b/c/../../../../../a",
        "/..",
        "/.",
        "a/b/up/..",
    ] {
        pair.act(Op::Stat(path.into()));
        pair.act(Op::Lstat(path.into()));
        pair.act(Op::ReadDir(path.into()));
        pair.act(Op::ReadLink(path.into()));
        pair.act(Op::Exists(path.into()));
        for dots in [
            ".", "..", "./", "../", "./.", "../.", ".//", "new/..", "new/.",
        ] {
            let path = Path::new(path).join(dots);
            pair.act(Op::Stat(path.clone()));
            pair.act(Op::Mkdir(path.clone(), 0o700));
            pair.act(Op::Unlink(path.clone()));
            pair.act(Op::Rmdir(path.clone()));
            pair.act(Op::Rename(path.clone(), "x".into()));
            pair.act(Op::Rename("a/file".into(), path.clone()));
            pair.act(Op::Link("a/file".into(), path.clone()));
            pair.act(Op::Symlink("a".into(), path.clone()));
            pair.act(Op::Mknod(path.clone(), 0o010_600));
            pair.act(Op::WriteFile(path.clone(), 1, 1));
            pair.act(Op::MkdirAll(path.clone()));
        }
    }
    pair.finish();
}
