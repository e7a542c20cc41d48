//! Opening and making files.

use super::cases;
use crate::check::{errno, io_errno, pattern};
use crate::differ::Pair;
use crate::ops::{How, Op};
use crate::session::Session;
use crate::subject::options;
use fusewire::{Client, OpenOptions};
use rustix::fs::OFlags;
use rustix::io::Errno;
use std::io::{Read, Write};
use std::os::unix::fs::PermissionsExt;

cases![
    every_combination_of_options_does_what_open_2_does,
    options_go_together_as_in_std,
    create_new_refuses_whatever_is_there,
    create_through_a_dangling_link_makes_its_target,
    what_is_no_file_cannot_be_opened,
    a_file_open_one_way_cannot_be_used_the_other,
    truncating_open_empties_the_file_for_every_handle,
    new_files_get_their_mode_less_the_umask,
    flags_that_options_stand_for_are_ignored_in_custom_flags,
    open_and_create_are_the_usual_options,
    a_slash_behind_the_name_of_a_file_is_refused,
];

/// All 64 ways, on everything that can be at a path.
fn every_combination_of_options_does_what_open_2_does(s: &Session) {
    let mut pair = Pair::new(s);
    pair.prepare(Op::Mkdir("dir".into(), 0o755));
    pair.prepare(Op::Mknod("pipe".into(), 0o010_644));
    pair.prepare(Op::Symlink("dir".into(), "to-dir".into()));
    pair.prepare(Op::Symlink("nowhere".into(), "dangling".into()));
    pair.prepare(Op::Symlink("loop".into(), "loop".into()));
    pair.prepare(Op::Symlink("file".into(), "to-file".into()));
    for bits in 0..64u32 {
        let bit = |n: u32| bits & 1 << n != 0;
        let how = How {
            read: bit(0),
            write: bit(1),
            append: bit(2),
            truncate: bit(3),
            create: bit(4),
            create_new: bit(5),
            nofollow: false,
            mode: 0o640,
        };
        pair.prepare(Op::WriteFile("file".into(), 10, 1));
        for path in [
            "file", "to-file", "new", "dangling", "dir", "to-dir", "pipe", "loop",
        ] {
            pair.act(Op::Open(0, path.into(), how));
            pair.act(Op::Write(0, 3, 2));
            pair.act(Op::Seek(0, std::io::SeekFrom::Start(1)));
            pair.act(Op::Read(0, 100));
            pair.act(Op::Close(0));
            pair.act(Op::Unlink("new".into()));
            pair.act(Op::Unlink("nowhere".into()));
        }
        pair.act(Op::Stat("file".into()));
        let how = How {
            nofollow: true,
            ..how
        };
        pair.act(Op::Open(0, "file".into(), how));
        pair.act(Op::Open(0, "to-file".into(), how));
        pair.act(Op::Close(0));
    }
    pair.finish();
}

/// The rules of the standard library, from the standard library.
fn options_go_together_as_in_std(s: &Session) {
    let std_dir = tempfile::tempdir().unwrap();
    let std_path = std_dir.path().join("file");
    for bits in 0..64u32 {
        let bit = |n: u32| bits & 1 << n != 0;
        for there in [false, true] {
            let _ = std::fs::remove_file(&std_path);
            let _ = s.client.remove_file("file");
            if there {
                std::fs::write(&std_path, "12345").unwrap();
                s.client.write("file", "12345").unwrap();
            }
            let expected = std::fs::OpenOptions::new()
                .read(bit(0))
                .write(bit(1))
                .append(bit(2))
                .truncate(bit(3))
                .create(bit(4))
                .create_new(bit(5))
                .open(&std_path)
                .map(drop)
                .map_err(|error| error.kind());
            let how = How {
                read: bit(0),
                write: bit(1),
                append: bit(2),
                truncate: bit(3),
                create: bit(4),
                create_new: bit(5),
                ..How::READ
            };
            let found = options(&how)
                .open(&s.client, "file")
                .map(drop)
                .map_err(|error| error.kind());
            assert_eq!(found, expected, "{how:?}, there: {there}");
            let len = s.client.metadata("file").ok().map(|m| m.len());
            let std_len = std_path.metadata().ok().map(|m| m.len());
            assert_eq!(len, std_len, "{how:?}, there: {there}");
        }
    }
}

fn create_new_refuses_whatever_is_there(s: &Session) {
    let c = &s.client;
    c.write("file", "").unwrap();
    c.create_dir("dir").unwrap();
    c.symlink("nowhere", "link").unwrap();
    c.mknod("pipe", 0o010_600, 0).unwrap();
    let mut new = OpenOptions::new();
    new.write(true).create_new(true);
    for path in ["file", "dir", "link", "pipe", ".", "..", "/"] {
        assert_eq!(errno(new.open(c, path)), Errno::EXIST, "{path}");
    }
    assert!(!c.exists("nowhere").unwrap());
    new.open(c, "other").unwrap().write_all(b"x").unwrap();
    assert_eq!(c.read("other").unwrap(), b"x");
}

fn create_through_a_dangling_link_makes_its_target(s: &Session) {
    let c = &s.client;
    c.create_dir("dir").unwrap();
    c.symlink("dir/target", "link").unwrap();
    c.symlink("/link", "dir/second").unwrap();
    c.create("dir/second").unwrap().write_all(b"found").unwrap();
    assert_eq!(c.read("dir/target").unwrap(), b"found");
    assert!(c.symlink_metadata("link").unwrap().is_symlink());
    c.symlink("gone/target", "lost").unwrap();
    assert_eq!(errno(c.create("lost")), Errno::NOENT);
}

fn what_is_no_file_cannot_be_opened(s: &Session) {
    let c = &s.client;
    c.create_dir("dir").unwrap();
    c.mknod("pipe", 0o010_600, 0).unwrap();
    c.mknod("socket", 0o140_600, 0).unwrap();
    c.symlink("dir", "link").unwrap();
    assert_eq!(errno(c.open("dir")), Errno::ISDIR);
    assert_eq!(errno(c.open("/")), Errno::ISDIR);
    assert_eq!(errno(c.create("dir")), Errno::ISDIR);
    assert_eq!(errno(c.open("link")), Errno::ISDIR);
    assert_eq!(errno(c.open("pipe")), Errno::NXIO);
    assert_eq!(errno(c.create("pipe")), Errno::NXIO);
    assert_eq!(errno(c.open("socket")), Errno::NXIO);
    assert_eq!(errno(c.open("nothing")), Errno::NOENT);
    assert_eq!(errno(c.open("")), Errno::NOENT);
    assert_eq!(errno(c.open("pipe/x")), Errno::NOTDIR);
    let mut nofollow = OpenOptions::new();
    nofollow
        .read(true)
        .custom_flags(OFlags::NOFOLLOW.bits().cast_signed());
    assert_eq!(errno(nofollow.open(c, "link")), Errno::LOOP);
}

fn a_file_open_one_way_cannot_be_used_the_other(s: &Session) {
    let c = &s.client;
    c.write("file", "12345").unwrap();
    let mut buf = [0; 3];
    let mut reader = c.open("file").unwrap();
    assert_eq!(errno(reader.write_at(b"x", 0)), Errno::BADF);
    assert_eq!(io_errno(reader.write(b"x")), Errno::BADF);
    assert_eq!(errno(reader.set_len(1)), Errno::INVAL);
    let null = std::fs::File::open("/dev/null").unwrap();
    let null = std::os::fd::AsFd::as_fd(&null);
    assert_eq!(errno(reader.write_from_fd(0, 1, null, 0)), Errno::BADF);
    let mut writer = OpenOptions::new();
    let mut writer = writer.write(true).open(c, "file").unwrap();
    assert_eq!(errno(writer.read_at(&mut buf, 0)), Errno::BADF);
    assert_eq!(io_errno(writer.read(&mut buf)), Errno::BADF);
    assert_eq!(errno(writer.read_to_fd(0, 1, null, 0)), Errno::BADF);
    assert_eq!(c.read("file").unwrap(), b"12345");
}

fn truncating_open_empties_the_file_for_every_handle(s: &Session) {
    let c = &s.client;
    c.write("file", pattern(1, 10_000)).unwrap();
    let reader = c.open("file").unwrap();
    assert_eq!(reader.metadata().unwrap().len(), 10_000);
    let writer = c.create("file").unwrap();
    assert_eq!(reader.metadata().unwrap().len(), 0);
    assert_eq!(c.metadata("file").unwrap().len(), 0);
    assert_eq!(reader.read_at(&mut [0; 10], 0).unwrap(), 0);
    writer.write_at(b"new", 0).unwrap();
    let mut buf = [0; 10];
    assert_eq!(reader.read_at(&mut buf, 0).unwrap(), 3);
    assert_eq!(&buf[..3], b"new");
}

fn new_files_get_their_mode_less_the_umask(s: &Session) {
    let host = tempfile::tempdir().unwrap();
    let other = s.another(host.path(), Client::builder().umask(0o027));
    let c = &other.client;
    let mode = |path: &str| {
        let mode = c.symlink_metadata(path).unwrap().mode() & 0o7777;
        if let Some(host) = other.host(path) {
            let on_host = host.symlink_metadata().unwrap().permissions().mode();
            assert_eq!(on_host & 0o7777, mode, "{path}");
        }
        mode
    };
    c.create("file").unwrap();
    assert_eq!(mode("file"), 0o640);
    let mut odd = OpenOptions::new();
    odd.write(true).create(true).mode(0o7777);
    odd.open(c, "odd").unwrap();
    assert_eq!(mode("odd"), 0o7750);
    odd.mode(0);
    odd.open(c, "none").unwrap();
    assert_eq!(mode("none"), 0);
    c.create_dir("dir").unwrap();
    assert_eq!(mode("dir"), 0o750);
    c.create_dir_with_mode("sticky", 0o1777).unwrap();
    assert_eq!(mode("sticky"), 0o1750);
    c.mknod("pipe", 0o010_666, 0).unwrap();
    assert_eq!(mode("pipe"), 0o640);
    c.create_dir_all("a/b").unwrap();
    assert_eq!((mode("a"), mode("a/b")), (0o750, 0o750));
    // A mode counts only for what is made.
    odd.mode(0o777);
    odd.open(c, "file").unwrap();
    assert_eq!(mode("file"), 0o640);
    other.finish();
}

fn flags_that_options_stand_for_are_ignored_in_custom_flags(s: &Session) {
    let c = &s.client;
    c.write("file", "12345").unwrap();
    let mut options = OpenOptions::new();
    options.read(true);
    let creating = OFlags::CREATE | OFlags::EXCL | OFlags::TRUNC | OFlags::APPEND | OFlags::RDWR;
    options.custom_flags(creating.bits().cast_signed());
    let file = options.open(c, "file").unwrap();
    assert_eq!(errno(file.write_at(b"x", 0)), Errno::BADF);
    assert_eq!(c.read("file").unwrap(), b"12345");
    assert_eq!(errno(options.open(c, "new")), Errno::NOENT);
    options
        .write(true)
        .custom_flags(OFlags::SYNC.bits().cast_signed());
    let file = options.open(c, "file").unwrap();
    file.write_at(b"x", 0).unwrap();
    assert_eq!(c.read("file").unwrap(), b"x2345");
}

fn open_and_create_are_the_usual_options(s: &Session) {
    let c = &s.client;
    assert_eq!(errno(c.open("file")), Errno::NOENT);
    let mut file = c.create("file").unwrap();
    file.write_all(b"12345").unwrap();
    assert_eq!(io_errno(file.read(&mut [0; 1])), Errno::BADF);
    let mut file = c.open("file").unwrap();
    let mut text = String::new();
    file.read_to_string(&mut text).unwrap();
    assert_eq!(text, "12345");
    assert_eq!(io_errno(file.write(b"x")), Errno::BADF);
    c.create("file").unwrap();
    assert_eq!(c.metadata("file").unwrap().len(), 0);
}

fn a_slash_behind_the_name_of_a_file_is_refused(s: &Session) {
    let mut pair = Pair::new(s);
    pair.prepare(Op::WriteFile("file".into(), 3, 0));
    pair.prepare(Op::Mkdir("dir".into(), 0o755));
    pair.prepare(Op::Symlink("file".into(), "link".into()));
    pair.prepare(Op::Symlink("file/".into(), "slashed".into()));
    pair.prepare(Op::Symlink("missing".into(), "dangling".into()));
    pair.prepare(Op::Symlink("missing/".into(), "dangling-slashed".into()));
    let create_new = How {
        create_new: true,
        ..How::WRITE
    };
    for path in [
        "file/",
        "file/.",
        "file/..",
        "dir/",
        "link/",
        "slashed",
        "slashed/",
        "new/",
        "dangling/",
        "dangling-slashed",
        "dir/new/",
        "missing/new/",
    ] {
        for how in [How::READ, How::WRITE, How::CREATE, create_new] {
            pair.act(Op::Open(0, path.into(), how));
            pair.act(Op::Close(0));
        }
        pair.act(Op::Stat(path.into()));
        pair.act(Op::Lstat(path.into()));
        pair.act(Op::Exists(path.into()));
        pair.act(Op::Truncate(path.into(), 1));
        pair.act(Op::Chmod(path.into(), 0o644));
        pair.act(Op::ReadDir(path.into()));
        pair.act(Op::ReadLink(path.into()));
    }
    pair.finish();
}
