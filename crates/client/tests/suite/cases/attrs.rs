//! Attributes: what is seen, and what is set.

use super::{cases, root};
use crate::check::errno;
use crate::differ::Pair;
use crate::ops::Op;
use crate::session::Session;
use fusewire::{Metadata, Time, Times};
use rustix::io::Errno;
use std::fs::Permissions;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::time::{Duration, SystemTime};

cases![
    every_attribute_is_the_hosts,
    every_type_of_file_is_told_apart,
    permissions_are_set_bit_by_bit,
    permissions_of_what_a_link_leads_to_are_set,
    times_are_set_to_the_nanosecond,
    each_time_is_set_without_the_other,
    now_is_the_daemons_clock,
    times_of_a_link_are_its_own,
    impossible_times_are_refused,
    owners_are_set: root,
    owners_of_a_link_are_its_own: root,
    a_change_of_owner_clears_set_id_bits: root,
    the_id_that_means_none_is_refused,
    an_open_file_has_the_same_attributes,
    writing_changes_the_times,
    links_are_counted,
    directories_count_their_children,
    devices_keep_their_number: root,
    the_file_system_has_its_numbers,
];

fn everything(m: &Metadata) -> Vec<(&'static str, i128)> {
    vec![
        ("mode", m.mode().into()),
        ("len", m.len().into()),
        ("uid", m.uid().into()),
        ("gid", m.gid().into()),
        ("nlink", m.nlink().into()),
        ("ino", m.ino().into()),
        ("blocks", m.blocks().into()),
        ("blksize", m.blksize().into()),
        ("mtime", m.mtime().into()),
        ("mtime_nsec", m.mtime_nsec().into()),
        ("atime", m.atime().into()),
        ("atime_nsec", m.atime_nsec().into()),
        ("ctime", m.ctime().into()),
        ("ctime_nsec", m.ctime_nsec().into()),
    ]
}

fn everything_on_host(m: &std::fs::Metadata) -> Vec<(&'static str, i128)> {
    vec![
        ("mode", m.mode().into()),
        ("len", m.len().into()),
        ("uid", m.uid().into()),
        ("gid", m.gid().into()),
        ("nlink", m.nlink().into()),
        ("ino", m.ino().into()),
        ("blocks", m.blocks().into()),
        ("blksize", m.blksize().into()),
        ("mtime", m.mtime().into()),
        ("mtime_nsec", m.mtime_nsec().into()),
        ("atime", m.atime().into()),
        ("atime_nsec", m.atime_nsec().into()),
        ("ctime", m.ctime().into()),
        ("ctime_nsec", m.ctime_nsec().into()),
    ]
}

fn every_attribute_is_the_hosts(s: &Session) {
    let c = &s.client;
    c.write("file", "12345").unwrap();
    c.create_dir("dir").unwrap();
    c.symlink("file", "link").unwrap();
    c.mknod("pipe", 0o010_640, 0).unwrap();
    // Nothing that may have been cached on the way.
    c.drop_caches();
    for path in ["file", "dir", "link", "pipe", "/"] {
        let found = c.symlink_metadata(path).unwrap();
        let Some(host) = s.host(path) else {
            assert_eq!(found.ino() == 1, path == "/");
            continue;
        };
        let expected = host.symlink_metadata().unwrap();
        assert_eq!(everything(&found), everything_on_host(&expected), "{path}");
        assert_eq!(found.modified(), expected.modified().unwrap());
        assert_eq!(found.accessed(), expected.accessed().unwrap());
    }
}

fn every_type_of_file_is_told_apart(s: &Session) {
    let c = &s.client;
    c.write("file", "").unwrap();
    c.create_dir("dir").unwrap();
    c.symlink("file", "link").unwrap();
    c.mknod("pipe", 0o010_600, 0).unwrap();
    c.mknod("socket", 0o140_600, 0).unwrap();
    c.mknod("plain", 0o100_600, 0).unwrap();
    let types = |path: &str| {
        let metadata = c.symlink_metadata(path).unwrap();
        let t = metadata.file_type();
        assert_eq!(metadata.is_dir(), t.is_dir());
        assert_eq!(metadata.is_file(), t.is_file());
        assert_eq!(metadata.is_symlink(), t.is_symlink());
        [
            t.is_file(),
            t.is_dir(),
            t.is_symlink(),
            t.is_fifo(),
            t.is_socket(),
            t.is_char_device(),
            t.is_block_device(),
        ]
        .iter()
        .map(|is| if *is { '1' } else { '0' })
        .collect::<String>()
    };
    assert_eq!(types("file"), "1000000");
    assert_eq!(types("plain"), "1000000");
    assert_eq!(types("dir"), "0100000");
    assert_eq!(types("/"), "0100000");
    assert_eq!(types("link"), "0010000");
    assert_eq!(types("pipe"), "0001000");
    assert_eq!(types("socket"), "0000100");
    assert_eq!(errno(c.mknod("other", 0o040_600, 0)), Errno::INVAL);
    assert_eq!(errno(c.mknod("other", 0o120_600, 0)), Errno::INVAL);
    assert_eq!(errno(c.mknod("other", 0o030_600, 0)), Errno::INVAL);
}

fn permissions_are_set_bit_by_bit(s: &Session) {
    let mut pair = Pair::new(s);
    pair.prepare(Op::WriteFile("file".into(), 10, 1));
    pair.prepare(Op::Mkdir("dir".into(), 0o755));
    for path in ["file", "dir"] {
        for mode in (0..12).map(|bit| 1 << bit).chain([0, 0o777, 0o7777, 0o644]) {
            pair.act(Op::Chmod(path.into(), mode));
            pair.act(Op::Stat(path.into()));
        }
    }
    pair.prepare(Op::Open(0, "file".into(), crate::ops::How::READ));
    pair.act(Op::Fchmod(0, 0o4711));
    pair.act(Op::Fstat(0));
    pair.act(Op::Close(0));
    pair.finish();
    // Bits that are no permissions are not sent.
    let odd = Permissions::from_mode(0o170_600);
    s.client.set_permissions("file", odd).unwrap();
    assert_eq!(s.client.metadata("file").unwrap().mode(), 0o100_600);
    assert_eq!(
        s.client.metadata("file").unwrap().permissions().mode(),
        0o600
    );
}

fn permissions_of_what_a_link_leads_to_are_set(s: &Session) {
    let mut pair = Pair::new(s);
    pair.prepare(Op::WriteFile("file".into(), 10, 1));
    pair.prepare(Op::Symlink("file".into(), "link".into()));
    pair.prepare(Op::Symlink("nowhere".into(), "dangling".into()));
    pair.act(Op::Chmod("link".into(), 0o600));
    pair.act(Op::Chmod("dangling".into(), 0o600));
    pair.act(Op::Chmod("missing".into(), 0o600));
    pair.act(Op::Lstat("link".into()));
    pair.finish();
}

fn times_are_set_to_the_nanosecond(s: &Session) {
    let mut pair = Pair::new(s);
    pair.prepare(Op::WriteFile("file".into(), 10, 1));
    pair.prepare(Op::Mkdir("dir".into(), 0o755));
    for (secs, nanos) in [
        (0, 0),
        (1, 999_999_999),
        (-1, 0),
        (-2, 500_000_000),
        (-2_000_000_000, 1),
        (900_000_000, 123_456_789),
    ] {
        for path in ["file", "dir"] {
            pair.act(Op::SetTime(path.into(), true, secs, nanos));
            pair.act(Op::Stat(path.into()));
        }
    }
    pair.finish();
}

fn each_time_is_set_without_the_other(s: &Session) {
    let c = &s.client;
    c.write("file", "").unwrap();
    let both = |path: &str| {
        let m = c.metadata(path).unwrap();
        ((m.atime(), m.atime_nsec()), (m.mtime(), m.mtime_nsec()))
    };
    let times = Times {
        accessed: Some(Time::At(100, 5)),
        modified: Some(Time::At(200, 6)),
    };
    c.set_times("file", times).unwrap();
    assert_eq!(both("file"), ((100, 5), (200, 6)));
    let accessed = Times {
        accessed: Some(Time::At(-7, 8)),
        modified: None,
    };
    c.set_times("file", accessed).unwrap();
    assert_eq!(both("file"), ((-7, 8), (200, 6)));
    let file = c.open("file").unwrap();
    let modified = Times {
        accessed: None,
        modified: Some(Time::from(SystemTime::UNIX_EPOCH + Duration::new(9, 10))),
    };
    file.set_times(modified).unwrap();
    assert_eq!(both("file"), ((-7, 8), (9, 10)));
    c.set_times("file", Times::default()).unwrap();
    assert_eq!(both("file"), ((-7, 8), (9, 10)));
    if let Some(host) = s.host("file") {
        let m = host.metadata().unwrap();
        assert_eq!((m.atime(), m.atime_nsec()), (-7, 8));
        assert_eq!((m.mtime(), m.mtime_nsec()), (9, 10));
    }
}

fn now_is_the_daemons_clock(s: &Session) {
    let c = &s.client;
    c.write("file", "").unwrap();
    let long_ago = Times {
        accessed: Some(Time::At(1, 0)),
        modified: Some(Time::At(1, 0)),
    };
    let now = Times {
        accessed: Some(Time::Now),
        modified: Some(Time::Now),
    };
    c.set_times("file", long_ago).unwrap();
    // The kernel's own time stamps are a tick behind its clock.
    let before = SystemTime::now() - Duration::from_secs(1);
    c.set_times("file", now).unwrap();
    let m = c.metadata("file").unwrap();
    let after = SystemTime::now();
    for time in [m.accessed(), m.modified(), m.changed()] {
        assert!(
            before <= time && time <= after,
            "{before:?} {time:?} {after:?}"
        );
    }
}

fn times_of_a_link_are_its_own(s: &Session) {
    let mut pair = Pair::new(s);
    pair.prepare(Op::WriteFile("file".into(), 10, 1));
    pair.prepare(Op::Symlink("file".into(), "link".into()));
    pair.prepare(Op::Symlink("nowhere".into(), "dangling".into()));
    pair.act(Op::SetTime("link".into(), false, 5, 6));
    pair.act(Op::SetTime("dangling".into(), false, 7, 8));
    pair.act(Op::SetTime("dangling".into(), true, 7, 8));
    pair.act(Op::SetTime("link".into(), true, 9, 10));
    pair.act(Op::Lstat("link".into()));
    pair.act(Op::Lstat("dangling".into()));
    pair.act(Op::Stat("link".into()));
    pair.finish();
}

fn impossible_times_are_refused(s: &Session) {
    let c = &s.client;
    c.write("file", "").unwrap();
    let file = c.open("file").unwrap();
    for nanos in [1_000_000_000, u32::MAX, (1 << 30) - 1, (1 << 30) - 2] {
        let times = Times {
            accessed: None,
            modified: Some(Time::At(0, nanos)),
        };
        assert_eq!(errno(c.set_times("file", times)), Errno::INVAL);
        assert_eq!(errno(c.set_symlink_times("file", times)), Errno::INVAL);
        assert_eq!(errno(file.set_times(times)), Errno::INVAL);
    }
}

fn owners_are_set(s: &Session) {
    let mut pair = Pair::new(s);
    pair.prepare(Op::WriteFile("file".into(), 10, 1));
    pair.prepare(Op::Mkdir("dir".into(), 0o755));
    pair.prepare(Op::Symlink("file".into(), "link".into()));
    for path in ["file", "dir", "link", "missing"] {
        pair.act(Op::Chown(path.into(), true, 1234, 5678));
        pair.act(Op::Stat(path.into()));
    }
    pair.act(Op::Lstat("link".into()));
    pair.finish();
    let c = &s.client;
    let owner = || {
        let m = c.metadata("file").unwrap();
        (m.uid(), m.gid())
    };
    c.chown("file", Some(1), None).unwrap();
    assert_eq!(owner(), (1, 5678));
    c.chown("file", None, Some(2)).unwrap();
    assert_eq!(owner(), (1, 2));
    c.chown("file", None, None).unwrap();
    assert_eq!(owner(), (1, 2));
}

fn owners_of_a_link_are_its_own(s: &Session) {
    let mut pair = Pair::new(s);
    pair.prepare(Op::WriteFile("file".into(), 10, 1));
    pair.prepare(Op::Symlink("file".into(), "link".into()));
    pair.prepare(Op::Symlink("nowhere".into(), "dangling".into()));
    pair.act(Op::Chown("link".into(), false, 11, 22));
    pair.act(Op::Chown("dangling".into(), false, 33, 44));
    pair.act(Op::Chown("dangling".into(), true, 33, 44));
    pair.act(Op::Lstat("link".into()));
    pair.act(Op::Lstat("dangling".into()));
    pair.act(Op::Stat("link".into()));
    pair.finish();
}

fn a_change_of_owner_clears_set_id_bits(s: &Session) {
    let mut pair = Pair::new(s);
    pair.prepare(Op::WriteFile("file".into(), 10, 1));
    pair.prepare(Op::Mkdir("dir".into(), 0o755));
    for (path, mode) in [
        ("file", 0o6755),
        ("file", 0o4700),
        ("file", 0o2644),
        ("dir", 0o6755),
    ] {
        pair.act(Op::Chmod(path.into(), mode));
        pair.act(Op::Chown(path.into(), true, 1, 1));
        pair.act(Op::Stat(path.into()));
    }
    pair.finish();
}

fn the_id_that_means_none_is_refused(s: &Session) {
    let c = &s.client;
    c.write("file", "").unwrap();
    let before = c.metadata("file").unwrap();
    assert_eq!(errno(c.chown("file", Some(u32::MAX), None)), Errno::INVAL);
    assert_eq!(errno(c.chown("file", None, Some(u32::MAX))), Errno::INVAL);
    assert_eq!(
        errno(c.lchown("file", Some(u32::MAX), Some(0))),
        Errno::INVAL
    );
    let after = c.metadata("file").unwrap();
    assert_eq!((before.uid(), before.gid()), (after.uid(), after.gid()));
}

fn an_open_file_has_the_same_attributes(s: &Session) {
    let c = &s.client;
    c.write("file", "12345").unwrap();
    let file = c.open("file").unwrap();
    let by_path = c.metadata("file").unwrap();
    assert_eq!(everything(&file.metadata().unwrap()), everything(&by_path));
    c.rename("file", "moved").unwrap();
    assert_eq!(file.metadata().unwrap().len(), 5);
    file.set_permissions(Permissions::from_mode(0o400)).unwrap();
    assert_eq!(c.metadata("moved").unwrap().mode() & 0o7777, 0o400);
    c.set_permissions("moved", Permissions::from_mode(0o600))
        .unwrap();
    assert_eq!(file.metadata().unwrap().mode() & 0o7777, 0o600);
}

fn writing_changes_the_times(s: &Session) {
    let c = &s.client;
    c.write("file", "12345").unwrap();
    c.create_dir("dir").unwrap();
    let past = Times {
        accessed: Some(Time::At(1, 0)),
        modified: Some(Time::At(1, 0)),
    };
    let set = |path: &str| {
        c.set_times(path, past).unwrap();
        assert_eq!(c.metadata(path).unwrap().mtime(), 1);
    };
    set("file");
    c.open("file").unwrap().read_at(&mut [0; 5], 0).unwrap();
    assert_eq!(c.metadata("file").unwrap().mtime(), 1);
    let mut options = fusewire::OpenOptions::new();
    let file = options.write(true).open(c, "file").unwrap();
    file.write_at(b"x", 0).unwrap();
    assert!(c.metadata("file").unwrap().mtime() > 1);
    set("file");
    file.set_len(2).unwrap();
    assert!(file.metadata().unwrap().mtime() > 1);
    set("file");
    c.truncate("file", 1).unwrap();
    assert!(c.metadata("file").unwrap().mtime() > 1);
    for change in [
        &|| c.write("dir/file", "").unwrap() as (),
        &|| c.rename("dir/file", "dir/other").unwrap(),
        &|| c.hard_link("dir/other", "dir/second").unwrap(),
        &|| c.symlink("x", "dir/link").unwrap(),
        &|| c.mknod("dir/pipe", 0o010_600, 0).unwrap(),
        &|| c.create_dir("dir/sub").unwrap(),
        &|| c.remove_file("dir/other").unwrap(),
        &|| c.remove_dir("dir/sub").unwrap(),
    ] as [&dyn Fn(); 8]
    {
        set("dir");
        change();
        assert!(c.metadata("dir").unwrap().mtime() > 1);
    }
}

fn links_are_counted(s: &Session) {
    let c = &s.client;
    c.write("a", "").unwrap();
    let file = c.open("a").unwrap();
    let count = |path: &str| c.metadata(path).unwrap().nlink();
    assert_eq!(count("a"), 1);
    c.hard_link("a", "b").unwrap();
    assert_eq!((count("a"), count("b")), (2, 2));
    c.create_dir("dir").unwrap();
    c.hard_link("b", "dir/c").unwrap();
    assert_eq!((count("a"), count("b"), count("dir/c")), (3, 3, 3));
    assert_eq!(file.metadata().unwrap().nlink(), 3);
    c.rename("b", "d").unwrap();
    assert_eq!((count("a"), count("d")), (3, 3));
    c.remove_file("a").unwrap();
    assert_eq!((count("d"), file.metadata().unwrap().nlink()), (2, 2));
    // Replaced by a rename, and by one that was not looked at.
    c.write("e", "").unwrap();
    c.rename("e", "d").unwrap();
    assert_eq!((count("dir/c"), file.metadata().unwrap().nlink()), (1, 1));
    c.remove_dir_all("dir").unwrap();
    assert_eq!(file.metadata().unwrap().nlink(), 0);
}

fn directories_count_their_children(s: &Session) {
    let c = &s.client;
    c.create_dir_all("dir/a").unwrap();
    let count = |path: &str| {
        let found = c.metadata(path).unwrap().nlink();
        if let Some(host) = s.host(path) {
            assert_eq!(found, host.metadata().unwrap().nlink(), "{path}");
        }
        found
    };
    let base = count("dir");
    c.create_dir("dir/b").unwrap();
    let with_two = count("dir");
    c.rename("dir/b", "b").unwrap();
    assert_eq!(count("dir"), base);
    c.rename("b", "dir/b").unwrap();
    assert_eq!(count("dir"), with_two);
    c.remove_dir("dir/b").unwrap();
    assert_eq!(count("dir"), base);
}

fn devices_keep_their_number(s: &Session) {
    let c = &s.client;
    // Major 259, minor 0x12345: both take more than 8 bits.
    let rdev = 0x45 | 259 << 8 | 0x12300 << 12;
    c.mknod("block", 0o060_600, rdev).unwrap();
    c.mknod("char", 0o020_600, 1 << 8 | 3).unwrap();
    c.drop_caches();
    let block = c.metadata("block").unwrap();
    assert!(block.file_type().is_block_device());
    assert_eq!(block.rdev(), rdev);
    assert_eq!(c.metadata("char").unwrap().rdev(), 1 << 8 | 3);
    assert!(c.metadata("char").unwrap().file_type().is_char_device());
    if let Some(host) = s.host("block") {
        let rdev = host.metadata().unwrap().rdev();
        let numbers = (rustix::fs::major(rdev), rustix::fs::minor(rdev));
        assert_eq!(numbers, (259, 0x12345));
    }
    assert_eq!(errno(c.open("char")), Errno::NXIO);
}

fn the_file_system_has_its_numbers(s: &Session) {
    let c = &s.client;
    c.create_dir("dir").unwrap();
    let found = c.statfs("dir").unwrap();
    assert_eq!(errno(c.statfs("missing")), Errno::NOENT);
    assert!(found.blocks >= found.blocks_free && found.blocks_free >= found.blocks_available);
    assert!(found.files >= found.files_free);
    if let Some(host) = s.host("dir") {
        let expected = rustix::fs::statvfs(&host).unwrap();
        assert_eq!(u64::from(found.block_bytes), expected.f_bsize);
        assert_eq!(u64::from(found.fragment_bytes), expected.f_frsize);
        assert_eq!(u64::from(found.name_max_bytes), expected.f_namemax);
        assert_eq!(
            (found.blocks, found.files),
            (expected.f_blocks, expected.f_files)
        );
    } else {
        assert_eq!(found.name_max_bytes, 255);
    }
}
