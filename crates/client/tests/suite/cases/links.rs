//! Symbolic and hard links.

use super::cases;
use crate::check::errno;
use crate::differ::Pair;
use crate::ops::{How, Op, Outcome};
use crate::session::Session;
use rustix::io::Errno;
use std::path::PathBuf;

cases![
    links_lead_where_they_do_in_the_kernel,
    forty_links_are_followed_and_not_one_more,
    a_loop_ends,
    the_target_is_kept_byte_by_byte,
    a_target_has_at_most_4095_bytes,
    a_link_counts_as_its_target_only_where_it_should,
    a_link_of_the_host_stays_inside,
    a_slash_behind_a_link_means_what_it_leads_to,
    hard_links_are_one_file,
    hard_links_agree_with_the_kernel,
    a_hard_link_of_a_symbolic_link_is_one,
];

fn links_lead_where_they_do_in_the_kernel(s: &Session) {
    let mut pair = Pair::new(s);
    pair.prepare(Op::MkdirAll("dir/sub".into()));
    pair.prepare(Op::WriteFile("dir/file".into(), 5, 1));
    pair.prepare(Op::WriteFile("file".into(), 7, 2));
    for (target, link) in [
        ("dir/file", "relative"),
        ("/dir/file", "absolute"),
        ("dir", "to-dir"),
        ("dir/", "to-dir-slash"),
        ("/", "to-root"),
        ("..", "dir/parent"),
        ("../file", "dir/up"),
        ("../../../../file", "dir/far-up"),
        ("sub/../file", "dir/around"),
        ("missing", "dangling"),
        ("missing/below", "dangling-below"),
        ("file/below", "through-file"),
        ("relative", "second"),
        ("/second", "dir/third"),
        ("to-dir/third", "fourth"),
        ("self", "self"),
        ("b", "a"),
        ("a", "b"),
        ("./././dir//file", "dotted"),
    ] {
        pair.prepare(Op::Symlink(target.into(), link.into()));
        for path in [
            PathBuf::from(link),
            PathBuf::from(link).join("file"),
            PathBuf::from(link).join(".."),
            PathBuf::from(link).join("../file"),
        ] {
            pair.act(Op::Stat(path.clone()));
            pair.act(Op::Lstat(path.clone()));
            pair.act(Op::Exists(path.clone()));
            pair.act(Op::ReadLink(path.clone()));
            pair.act(Op::ReadFile(path.clone()));
            pair.act(Op::ReadDir(path.clone()));
        }
    }
    pair.finish();
}

fn forty_links_are_followed_and_not_one_more(s: &Session) {
    let mut pair = Pair::new(s);
    pair.prepare(Op::Mkdir("dir".into(), 0o755));
    pair.prepare(Op::WriteFile("dir/file".into(), 5, 1));
    pair.prepare(Op::Symlink("dir".into(), "1".into()));
    for n in 2..=41 {
        pair.prepare(Op::Symlink(
            format!("{}", n - 1).into(),
            format!("{n}").into(),
        ));
    }
    let found = |outcome| !matches!(outcome, Outcome::Failed(_));
    assert!(found(pair.act(Op::Stat("40".into()))));
    assert!(!found(pair.act(Op::Stat("41".into()))));
    assert!(found(pair.act(Op::Lstat("41".into()))));
    assert!(found(pair.act(Op::ReadLink("41".into()))));
    for path in [
        "40/file",
        "41/file",
        "40/../1",
        "39/../1/file",
        "39/../2/file",
        "20/../21/file",
    ] {
        pair.act(Op::Stat(path.into()));
        pair.act(Op::Lstat(path.into()));
        pair.act(Op::Exists(path.into()));
    }
    pair.act(Op::WriteFile("40/new".into(), 1, 1));
    pair.act(Op::WriteFile("41/new".into(), 1, 1));
    pair.finish();
}

fn a_loop_ends(s: &Session) {
    let c = &s.client;
    c.symlink("self", "self").unwrap();
    c.symlink("b/x", "a").unwrap();
    c.symlink("a/x", "b").unwrap();
    // Each step makes the way longer.
    c.symlink("grows/a/b/c/d/e/f/g/h", "grows").unwrap();
    for path in ["self", "a", "b", "a/b", "grows", "self/x", "self/"] {
        assert_eq!(errno(c.metadata(path)), Errno::LOOP, "{path}");
        assert_eq!(errno(c.exists(path)), Errno::LOOP, "{path}");
        assert_eq!(errno(c.open(path)), Errno::LOOP, "{path}");
        assert_eq!(errno(c.read_dir(path)), Errno::LOOP, "{path}");
    }
    assert_eq!(errno(c.create("self")), Errno::LOOP);
    c.remove_file("self").unwrap();
}

fn the_target_is_kept_byte_by_byte(s: &Session) {
    let mut pair = Pair::new(s);
    for (n, target) in [
        "x",
        "x/",
        "//x",
        "../../x",
        "a b\n\u{1b}",
        ".",
        "/",
        "x/../y/./z",
        " ",
    ]
    .into_iter()
    .enumerate()
    {
        let link = PathBuf::from(format!("link-{n}"));
        pair.prepare(Op::Symlink(target.into(), link.clone()));
        pair.act(Op::ReadLink(link.clone()));
        pair.act(Op::Lstat(link));
    }
    pair.finish();
}

fn a_target_has_at_most_4095_bytes(s: &Session) {
    let mut pair = Pair::new(s);
    for len in [255, 256, 1000, 4000, 4094, 4095, 4096, 10_000] {
        let target = PathBuf::from("x/".repeat(len / 2) + &"y".repeat(len % 2));
        let link = PathBuf::from(format!("link-{len}"));
        pair.act(Op::Symlink(target, link.clone()));
        pair.act(Op::ReadLink(link.clone()));
        pair.act(Op::Lstat(link.clone()));
        pair.act(Op::Stat(link));
    }
    pair.finish();
}

fn a_link_counts_as_its_target_only_where_it_should(s: &Session) {
    let mut pair = Pair::new(s);
    pair.prepare(Op::Mkdir("dir".into(), 0o755));
    pair.prepare(Op::WriteFile("dir/file".into(), 5, 1));
    pair.prepare(Op::WriteFile("file".into(), 5, 1));
    pair.prepare(Op::Symlink("dir".into(), "to-dir".into()));
    pair.prepare(Op::Symlink("file".into(), "to-file".into()));
    pair.prepare(Op::Symlink("missing".into(), "dangling".into()));
    for link in ["to-dir", "to-file", "dangling"] {
        let link = PathBuf::from(link);
        pair.act(Op::Rmdir(link.clone()));
        pair.act(Op::Mkdir(link.clone(), 0o700));
        pair.act(Op::MkdirAll(link.clone()));
        pair.act(Op::MkdirAll(link.join("below")));
        pair.act(Op::Mknod(link.clone(), 0o010_600));
        pair.act(Op::Symlink("x".into(), link.clone()));
        pair.act(Op::Link("file".into(), link.clone()));
        pair.act(Op::Rename(link.clone(), "moved".into()));
        pair.act(Op::Lstat("moved".into()));
        pair.act(Op::Rename("moved".into(), link.clone()));
        pair.act(Op::WriteFile(link.clone(), 9, 3));
        pair.act(Op::Open(
            0,
            link.clone(),
            How {
                nofollow: true,
                ..How::READ
            },
        ));
        pair.act(Op::Close(0));
        pair.act(Op::Unlink(link.clone()));
        pair.act(Op::Stat(link.clone()));
        pair.prepare(Op::Symlink("dir".into(), link.clone()));
        pair.act(Op::RemoveAll(link.clone()));
        pair.act(Op::ReadDir("/".into()));
    }
    pair.finish();
}

/// Even one that was put there behind the client's back.
fn a_link_of_the_host_stays_inside(s: &Session) {
    let outside = tempfile::tempdir().unwrap();
    let secret = outside.path().join("secret");
    std::fs::write(&secret, "secret").unwrap();
    let Some(host) = s.host("/") else {
        s.client.symlink(&secret, "link").unwrap();
        assert_eq!(errno(s.client.read("link")), Errno::NOENT);
        return;
    };
    std::os::unix::fs::symlink(&secret, host.join("link")).unwrap();
    std::os::unix::fs::symlink("..", host.join("up")).unwrap();
    std::os::unix::fs::symlink(outside.path(), host.join("dir")).unwrap();
    let c = &s.client;
    assert_eq!(errno(c.read("link")), Errno::NOENT);
    assert_eq!(errno(c.write("link", "x")), Errno::NOENT);
    assert_eq!(errno(c.read("dir/secret")), Errno::NOENT);
    assert_eq!(errno(c.create("dir/new")), Errno::NOENT);
    assert_eq!(
        c.metadata("up").unwrap().ino(),
        c.metadata("/").unwrap().ino()
    );
    assert_eq!(c.read_link("link").unwrap(), secret);
    c.remove_dir_all("dir").unwrap();
    assert_eq!(std::fs::read(&secret).unwrap(), b"secret");
}

fn a_slash_behind_a_link_means_what_it_leads_to(s: &Session) {
    let mut pair = Pair::new(s);
    pair.prepare(Op::Mkdir("dir".into(), 0o755));
    pair.prepare(Op::WriteFile("file".into(), 5, 1));
    pair.prepare(Op::Symlink("dir".into(), "to-dir".into()));
    pair.prepare(Op::Symlink("file".into(), "to-file".into()));
    pair.prepare(Op::Symlink("missing".into(), "dangling".into()));
    for path in [
        "dir/",
        "file/",
        "to-dir/",
        "to-file/",
        "dangling/",
        "missing/",
        "to-dir//",
    ] {
        let path = PathBuf::from(path);
        pair.act(Op::Stat(path.clone()));
        pair.act(Op::Lstat(path.clone()));
        pair.act(Op::ReadLink(path.clone()));
        pair.act(Op::ReadDir(path.clone()));
        pair.act(Op::Unlink(path.clone()));
        pair.act(Op::Symlink("x".into(), path.clone()));
        pair.act(Op::Link("file".into(), path.clone()));
        pair.act(Op::Link(path.clone(), "linked".into()));
        pair.act(Op::Mknod(path.clone(), 0o010_600));
        pair.act(Op::Rename(path.clone(), "moved".into()));
        pair.act(Op::Rename("moved".into(), path.clone()));
        pair.act(Op::Rename("file".into(), path.clone()));
        pair.act(Op::SetTime(path.clone(), false, 3, 4));
        pair.act(Op::ReadDir("/".into()));
        pair.act(Op::Rmdir(path.clone()));
        pair.act(Op::Mkdir(path.clone(), 0o755));
        pair.act(Op::MkdirAll(path.clone()));
        pair.act(Op::ReadDir("/".into()));
    }
    pair.finish();
}

fn hard_links_are_one_file(s: &Session) {
    let c = &s.client;
    c.write("a", "first").unwrap();
    c.create_dir("dir").unwrap();
    c.hard_link("a", "dir/b").unwrap();
    assert_eq!(
        c.metadata("a").unwrap().ino(),
        c.metadata("dir/b").unwrap().ino()
    );
    c.write("dir/b", "second!").unwrap();
    assert_eq!(c.read("a").unwrap(), b"second!");
    assert_eq!(c.metadata("a").unwrap().len(), 7);
    c.truncate("a", 3).unwrap();
    assert_eq!(c.metadata("dir/b").unwrap().len(), 3);
    c.remove_file("a").unwrap();
    assert_eq!(c.read("dir/b").unwrap(), b"sec");
    if let Some(host) = s.host("dir/b") {
        assert_eq!(std::fs::read(host).unwrap(), b"sec");
    }
}

fn hard_links_agree_with_the_kernel(s: &Session) {
    let mut pair = Pair::new(s);
    pair.prepare(Op::WriteFile("file".into(), 5, 1));
    pair.prepare(Op::Mkdir("dir".into(), 0o755));
    pair.prepare(Op::Mknod("pipe".into(), 0o010_600));
    pair.prepare(Op::Symlink("missing".into(), "dangling".into()));
    for original in [
        "file", "dir", "pipe", "dangling", "missing", "file/", "file/x", "/", "dir/.",
    ] {
        for link in [
            "new",
            "file",
            "dir",
            "dangling",
            "dir/new",
            "missing/new",
            "file/new",
            "dir/",
        ] {
            pair.act(Op::Link(original.into(), link.into()));
            pair.act(Op::ReadDir("/".into()));
            pair.act(Op::Unlink("new".into()));
            pair.act(Op::Unlink("dir/new".into()));
        }
    }
    // A link replaces nothing, not even itself; a rename of one over the other does nothing.
    pair.act(Op::Link("file".into(), "second".into()));
    pair.act(Op::Link("file".into(), "second".into()));
    pair.act(Op::Rename("file".into(), "second".into()));
    pair.act(Op::Stat("file".into()));
    pair.act(Op::Stat("second".into()));
    pair.finish();
}

fn a_hard_link_of_a_symbolic_link_is_one(s: &Session) {
    let c = &s.client;
    c.write("file", "x").unwrap();
    c.symlink("file", "link").unwrap();
    c.hard_link("link", "second").unwrap();
    assert_eq!(c.read_link("second").unwrap(), PathBuf::from("file"));
    assert_eq!(c.symlink_metadata("link").unwrap().nlink(), 2);
    assert_eq!(c.metadata("file").unwrap().nlink(), 1);
}
