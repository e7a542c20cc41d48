//! Every operation, over both file systems: results, errors, and that everything is given back.

use crate::common::{Raw, directory, memory, over, over_each};
use fusewire_server::dir::{DirOptions, Directory};
use fusewire_server::mem::Memory;
use fusewire_server::{FileSystem, Usage};
use fusewire_wire::abi::*;
use fusewire_wire::{Request, SetattrValid, XattrName};
use rustix::fs::OFlags;

const RDONLY: i32 = 0;
const WRONLY: i32 = 1;
const RDWR: i32 = 2;
const CREAT_EXCL: i32 = (OFlags::CREATE.bits() | OFlags::EXCL.bits()) as i32;
const APPEND: i32 = OFlags::APPEND.bits() as i32;
const TRUNC: i32 = OFlags::TRUNC.bits() as i32;
const ENOENT: i32 = 2;
const EBADF: i32 = 9;
const EEXIST: i32 = 17;
const ENOTDIR: i32 = 20;
const EISDIR: i32 = 21;
const EINVAL: i32 = 22;
const ENAMETOOLONG: i32 = 36;
const ENOTEMPTY: i32 = 39;
const ELOOP: i32 = 40;
const ENODATA: i32 = 61;
const ENXIO: i32 = 6;
const ERANGE: i32 = 34;
const ESTALE: i32 = 116;
const EPERM: i32 = 1;

fn names(raw: &Raw, node: u64, plus: bool) -> Vec<Vec<u8>> {
    let all = raw.list(node, 4096, plus).expect("a list");
    all.into_iter().map(|listed| listed.name).collect()
}

#[test]
fn files_are_made_written_read_and_removed() {
    over_each(|raw| {
        let (entry, open) = raw.create(ROOT_ID, b"f", RDWR | CREAT_EXCL, 0o640).unwrap();
        assert_eq!(entry.attr.mode, 0o100_640);
        assert_eq!(entry.attr.nlink, 1);
        let data: Vec<u8> = (0..70_000_u32).map(|n| n as u8).collect();
        assert_eq!(raw.write(open.fh, 10, &data).unwrap(), 70_000);
        assert_eq!(raw.getattr(entry.nodeid, None).unwrap().size, 70_010);
        assert_eq!(
            raw.getattr(entry.nodeid, Some(open.fh)).unwrap().size,
            70_010
        );
        let back = raw.read(open.fh, 0, 100_000).unwrap();
        assert_eq!(back[..10], [0; 10]);
        assert_eq!(back[10..], data);
        assert_eq!(raw.read(open.fh, 70_010, 10).unwrap(), b"");
        assert_eq!(raw.read(open.fh, u64::MAX / 4, 10).unwrap(), b"");
        raw.flush(open.fh).unwrap();
        raw.fsync(open.fh, 0).unwrap();
        raw.fsync(open.fh, 1).unwrap();
        // Unlinked, but still open.
        raw.unlink(ROOT_ID, b"f").unwrap();
        assert_eq!(raw.lookup(ROOT_ID, b"f").unwrap_err().errno(), ENOENT);
        assert_eq!(raw.getattr(entry.nodeid, None).unwrap().nlink, 0);
        assert_eq!(raw.read(open.fh, 10, 3).unwrap(), [0, 1, 2]);
        raw.release(open.fh).unwrap();
        assert_eq!(raw.release(open.fh).unwrap_err().errno(), EBADF);
        assert_eq!(raw.read(open.fh, 0, 1).unwrap_err().errno(), EBADF);
    });
}

#[test]
fn open_modes_are_kept() {
    over_each(|raw| {
        let (entry, open) = raw.create(ROOT_ID, b"f", WRONLY, 0o600).unwrap();
        raw.write(open.fh, 0, b"0123456789").unwrap();
        assert_eq!(raw.read(open.fh, 0, 1).unwrap_err().errno(), EBADF);
        let reader = raw.open(entry.nodeid, RDONLY).unwrap();
        assert_eq!(raw.write(reader.fh, 0, b"x").unwrap_err().errno(), EBADF);
        let appender = raw.open(entry.nodeid, WRONLY | APPEND).unwrap();
        raw.write(appender.fh, 0, b"end").unwrap();
        assert_eq!(raw.read(reader.fh, 0, 100).unwrap(), b"0123456789end");
        let truncated = raw.open(entry.nodeid, RDWR | TRUNC).unwrap();
        assert_eq!(raw.read(reader.fh, 0, 100).unwrap(), b"");
        assert_eq!(raw.open(entry.nodeid, 3).unwrap_err().errno(), EINVAL);
        for fh in [open.fh, reader.fh, appender.fh, truncated.fh] {
            raw.release(fh).unwrap();
        }
        // CREATE of what is there: opened if that is allowed.
        assert_eq!(
            raw.create(ROOT_ID, b"f", RDWR | CREAT_EXCL, 0o600)
                .unwrap_err()
                .errno(),
            EEXIST
        );
        let (again, open) = raw.create(ROOT_ID, b"f", RDWR, 0o777).unwrap();
        assert_eq!(again.nodeid, entry.nodeid);
        assert_eq!(again.attr.mode, 0o100_600);
        raw.release(open.fh).unwrap();
    });
}

#[test]
fn only_regular_files_are_opened_as_files() {
    over_each(|raw| {
        let dir = raw.mkdir(ROOT_ID, b"d", 0o755).unwrap().nodeid;
        let link = raw.symlink(ROOT_ID, b"l", b"d").unwrap().nodeid;
        let pipe = raw.mknod(ROOT_ID, b"p", 0o010_644, 0).unwrap();
        assert_eq!(pipe.attr.mode, 0o010_644);
        assert_eq!(raw.open(dir, RDONLY).unwrap_err().errno(), EISDIR);
        assert_eq!(raw.open(link, RDONLY).unwrap_err().errno(), ELOOP);
        // Would block for ever if it were opened.
        assert_eq!(raw.open(pipe.nodeid, RDONLY).unwrap_err().errno(), ENXIO);
        assert_eq!(raw.opendir(pipe.nodeid).unwrap_err().errno(), ENOTDIR);
        assert_eq!(
            raw.create(ROOT_ID, b"p", RDWR, 0).unwrap_err().errno(),
            ENXIO
        );
        assert_eq!(
            raw.create(ROOT_ID, b"d", RDWR, 0).unwrap_err().errno(),
            EISDIR
        );
        let file = raw.mknod(ROOT_ID, b"r", 0o100_600, 0).unwrap();
        assert_eq!(file.attr.mode, 0o100_600);
        assert_eq!(
            raw.mknod(ROOT_ID, b"x", 0o040_755, 0).unwrap_err().errno(),
            EPERM
        );
        assert_eq!(
            raw.mknod(ROOT_ID, b"x", 0o120_755, 0).unwrap_err().errno(),
            EINVAL
        );
        assert_eq!(raw.lookup(pipe.nodeid, b"x").unwrap_err().errno(), ENOTDIR);
    });
}

#[test]
fn names_are_moved_and_linked() {
    over_each(|raw| {
        let a = raw.mkdir(ROOT_ID, b"a", 0o755).unwrap().nodeid;
        let b = raw.mkdir(a, b"b", 0o755).unwrap().nodeid;
        let (file, open) = raw.create(a, b"f", RDWR, 0o644).unwrap();
        raw.release(open.fh).unwrap();
        // Hard links share the node.
        let linked = raw.link(file.nodeid, b, b"g").unwrap();
        assert_eq!((linked.nodeid, linked.attr.nlink), (file.nodeid, 2));
        assert_eq!(raw.lookup(b, b"g").unwrap().nodeid, file.nodeid);
        assert_eq!(raw.link(file.nodeid, b, b"g").unwrap_err().errno(), EEXIST);
        assert_eq!(raw.link(b, a, b"h").unwrap_err().errno(), EPERM);
        // Two names of one file: nothing happens.
        raw.rename((a, b"f"), (b, b"g"), 0).unwrap();
        assert_eq!(raw.lookup(a, b"f").unwrap().attr.nlink, 2);
        // A directory into itself, or onto what is not empty or no directory.
        assert_eq!(
            raw.rename((ROOT_ID, b"a"), (b, b"a"), 0)
                .unwrap_err()
                .errno(),
            EINVAL
        );
        assert_eq!(
            raw.rename((a, b"b"), (ROOT_ID, b"a"), 0)
                .unwrap_err()
                .errno(),
            ENOTEMPTY
        );
        assert_eq!(
            raw.rename((a, b"b"), (a, b"f"), 0).unwrap_err().errno(),
            ENOTDIR
        );
        assert_eq!(
            raw.rename((a, b"f"), (a, b"b"), 0).unwrap_err().errno(),
            EISDIR
        );
        // RENAME2.
        assert_eq!(
            raw.rename((a, b"f"), (b, b"g"), 1).unwrap_err().errno(),
            EEXIST
        );
        assert_eq!(
            raw.rename((a, b"f"), (b, b"no"), 2).unwrap_err().errno(),
            ENOENT
        );
        assert_eq!(
            raw.rename((a, b"f"), (b, b"g"), 3).unwrap_err().errno(),
            EINVAL
        );
        raw.rename((a, b"f"), (ROOT_ID, b"new"), 1).unwrap();
        raw.rename((ROOT_ID, b"new"), (a, b"b"), 2).unwrap();
        assert_eq!(raw.lookup(ROOT_ID, b"new").unwrap().nodeid, b);
        assert_eq!(raw.lookup(a, b"b").unwrap().nodeid, file.nodeid);
        // Over an existing file.
        let (other, open) = raw.create(a, b"other", RDWR, 0o644).unwrap();
        raw.write(open.fh, 0, b"kept while open").unwrap();
        raw.rename((a, b"b"), (a, b"other"), 0).unwrap();
        assert_eq!(raw.lookup(a, b"other").unwrap().nodeid, file.nodeid);
        assert_eq!(raw.getattr(other.nodeid, None).unwrap().nlink, 0);
        assert_eq!(raw.read(open.fh, 0, 4).unwrap(), b"kept");
        raw.release(open.fh).unwrap();
        assert_eq!(raw.rmdir(ROOT_ID, b"new").unwrap_err().errno(), ENOTEMPTY);
        assert_eq!(raw.rmdir(a, b"other").unwrap_err().errno(), ENOTDIR);
        assert_eq!(raw.unlink(ROOT_ID, b"a").unwrap_err().errno(), EISDIR);
    });
}

#[test]
fn a_removed_directory_takes_nothing_in() {
    over_each(|raw| {
        let dir = raw.mkdir(ROOT_ID, b"d", 0o755).unwrap().nodeid;
        let fh = raw.opendir(dir).unwrap();
        raw.rmdir(ROOT_ID, b"d").unwrap();
        assert_eq!(raw.mkdir(dir, b"x", 0o755).unwrap_err().errno(), ENOENT);
        assert_eq!(raw.lookup(dir, b"x").unwrap_err().errno(), ENOENT);
        assert_eq!(raw.readdir(dir, fh, 0, 4096).unwrap_err().errno(), ENOENT);
        raw.releasedir(fh).unwrap();
    });
}

#[test]
fn regression_rename_into_a_removed_directory_below() {
    over_each(|raw| {
        let above = raw.mkdir(ROOT_ID, b"above", 0o755).unwrap().nodeid;
        let removed = raw.mkdir(above, b"removed", 0o755).unwrap().nodeid;
        raw.rmdir(above, b"removed").unwrap();
        // Nothing is there any more, and that counts before the loop it would make.
        let renamed = raw.rename((ROOT_ID, b"above"), (removed, b"x"), 0);
        assert_eq!(renamed.unwrap_err().errno(), ENOENT);
    });
}

#[test]
fn regression_create_tells_the_size_after_its_truncation() {
    over_each(|raw| {
        let (_, open) = raw.create(ROOT_ID, b"f", RDWR, 0o644).unwrap();
        raw.write(open.fh, 0, b"some").unwrap();
        let (entry, again) = raw.create(ROOT_ID, b"f", RDWR | TRUNC, 0o644).unwrap();
        assert_eq!(entry.attr.size, 0);
        raw.release(open.fh).unwrap();
        raw.release(again.fh).unwrap();
    });
}

#[test]
fn symbolic_links_are_told_not_followed() {
    over_each(|raw| {
        let long = vec![b'x'; 4000];
        for target in [&b"../../etc"[..], b"/etc/passwd", b"\xff\xfe", &long] {
            let link = raw.symlink(ROOT_ID, b"l", target).unwrap();
            assert_eq!(link.attr.mode & S_IFMT, 0o120_000);
            assert_eq!(link.attr.size, target.len() as u64);
            assert_eq!(raw.readlink(link.nodeid).unwrap(), target);
            assert_eq!(
                raw.lookup(link.nodeid, b"passwd").unwrap_err().errno(),
                ENOTDIR
            );
            assert_eq!(raw.truncate(link.nodeid, 0).unwrap_err().errno(), ELOOP);
            let other = raw.link(link.nodeid, ROOT_ID, b"l2").unwrap();
            assert_eq!(other.nodeid, link.nodeid);
            raw.unlink(ROOT_ID, b"l").unwrap();
            raw.unlink(ROOT_ID, b"l2").unwrap();
        }
        let dir = raw.mkdir(ROOT_ID, b"d", 0o755).unwrap().nodeid;
        assert_eq!(raw.readlink(dir).unwrap_err().errno(), EINVAL);
    });
}

#[test]
fn every_attribute_can_be_set() {
    over_each(|raw| {
        let (entry, open) = raw.create(ROOT_ID, b"f", RDWR, 0o644).unwrap();
        let node = entry.nodeid;
        raw.write(open.fh, 0, &[7; 5000]).unwrap();
        assert_eq!(raw.chmod(node, 0o2754).unwrap().mode, 0o102_754);
        let times = SetattrIn {
            atime: 1_000_000_000,
            atimensec: 5,
            mtime: (-5_i64) as u64,
            mtimensec: 999_999_999,
            ..SetattrIn::default()
        };
        let both = SetattrValid::ATIME | SetattrValid::MTIME;
        let attr = raw.setattr(node, both, times).unwrap();
        assert_eq!((attr.atime, attr.atimensec), (1_000_000_000, 5));
        assert_eq!((attr.mtime as i64, attr.mtimensec), (-5, 999_999_999));
        let attr = raw
            .setattr(node, SetattrValid::MTIME_NOW, SetattrIn::default())
            .unwrap();
        assert_eq!(attr.atime, 1_000_000_000);
        assert!(attr.mtime as i64 > 1_600_000_000);
        // Nanoseconds that would mean something else to utimensat(2).
        let odd = SetattrIn {
            mtimensec: 0x3fff_ffff,
            ..times
        };
        assert_eq!(raw.setattr(node, both, odd).unwrap_err().errno(), EINVAL);
        // Size, by node and by handle; growing leaves zeroes.
        assert_eq!(raw.truncate(node, 10).unwrap().size, 10);
        let by_handle = SetattrIn {
            fh: open.fh,
            size: 6000,
            ..SetattrIn::default()
        };
        let valid = SetattrValid::SIZE | SetattrValid::FH;
        assert_eq!(raw.setattr(node, valid, by_handle).unwrap().size, 6000);
        let back = raw.read(open.fh, 0, 9000).unwrap();
        assert_eq!(back.len(), 6000);
        assert_eq!(back[..10], [7; 10]);
        assert!(back[10..].iter().all(|b| *b == 0));
        assert_eq!(raw.truncate(node, u64::MAX).unwrap_err().errno(), EINVAL);
        // Own ids: allowed to everybody, but set-id bits go.
        let caller = raw.caller.get();
        let owner = SetattrIn {
            uid: caller.uid,
            gid: caller.gid,
            ..SetattrIn::default()
        };
        raw.chmod(node, 0o6755).unwrap();
        let attr = raw
            .setattr(node, SetattrValid::UID | SetattrValid::GID, owner)
            .unwrap();
        assert_eq!(
            (attr.uid, attr.gid, attr.mode),
            (caller.uid, caller.gid, 0o100_755)
        );
        let nobody = SetattrIn {
            uid: u32::MAX,
            ..SetattrIn::default()
        };
        assert_eq!(
            raw.setattr(node, SetattrValid::UID, nobody)
                .unwrap_err()
                .errno(),
            EINVAL
        );
        let dir = raw.mkdir(ROOT_ID, b"d", 0o755).unwrap().nodeid;
        assert_eq!(raw.truncate(dir, 0).unwrap_err().errno(), EISDIR);
        assert_eq!(raw.setattr(dir, both, times).unwrap().atime, 1_000_000_000);
        raw.release(open.fh).unwrap();
        assert_eq!(
            raw.setattr(node, valid, by_handle).unwrap_err().errno(),
            EBADF
        );
    });
}

#[test]
fn set_id_bits_are_cleared_when_asked() {
    const WRITE_KILL: u32 = 1 << 2;
    const OPEN_KILL: u32 = 1;
    over_each(|raw| {
        let (entry, open) = raw.create(ROOT_ID, b"f", RDWR, 0o755).unwrap();
        let node = entry.nodeid;
        let mode = || raw.getattr(node, None).unwrap().mode & 0o7777;
        raw.chmod(node, 0o6755).unwrap();
        raw.write_with(open.fh, 0, b"x", WRITE_KILL).unwrap();
        assert_eq!(mode(), 0o755);
        raw.chmod(node, 0o6755).unwrap();
        let valid = SetattrValid::SIZE | SetattrValid::KILL_SUIDGID;
        raw.setattr(node, valid, SetattrIn::default()).unwrap();
        assert_eq!(mode(), 0o755);
        // Without group execution, set-group-id is no privilege.
        raw.chmod(node, 0o6644).unwrap();
        let request = Request::Open {
            flags: (RDWR | TRUNC) as u32,
            open_flags: OPEN_KILL,
        };
        let body = raw.call(node, &request, &[]).unwrap();
        assert_eq!(mode(), 0o2644);
        let second = fusewire_wire::reply::open(&body).unwrap().fh;
        raw.release(second).unwrap();
        raw.release(open.fh).unwrap();
    });
}

#[test]
fn directories_are_read_at_stable_offsets() {
    over_each(|raw| {
        let dir = raw.mkdir(ROOT_ID, b"d", 0o755).unwrap().nodeid;
        let all: Vec<Vec<u8>> = (0..300)
            .map(|n| format!("name{n:03}").into_bytes())
            .collect();
        for n in &all {
            let (entry, open) = raw.create(dir, n, RDWR, 0o600).unwrap();
            raw.release(open.fh).unwrap();
            raw.forget(entry.nodeid);
        }
        for size in [300, 1000, 4096, 100_000] {
            for plus in [false, true] {
                let list = raw.list(dir, size, plus).unwrap();
                let names: Vec<_> = list.iter().map(|l| l.name.clone()).collect();
                assert_eq!(names, all, "{size} {plus}");
                for listed in list {
                    assert_eq!(listed.typ, 8);
                    if let Some(entry) = listed.entry {
                        assert_eq!(entry.attr.ino, listed.ino);
                        assert_eq!(entry.attr.mode, 0o100_600);
                    }
                }
            }
        }
        let fh = raw.opendir(dir).unwrap();
        let first = raw.readdir(dir, fh, 0, 2000).unwrap();
        // Again from the middle of the batch, and from its end, in any order.
        let (middle, end) = (first[10].next, first.last().unwrap().next);
        let from_end = raw.readdir(dir, fh, end, 2000).unwrap();
        let from_middle = raw.readdir(dir, fh, middle, 2000).unwrap();
        assert_eq!(from_middle[0].name, first[11].name);
        assert_eq!(
            raw.readdir(dir, fh, end, 2000).unwrap()[0].name,
            from_end[0].name
        );
        // What is removed and added meanwhile does not disturb what was there all the time.
        let victims = [&from_end[0].name, &from_end[1].name];
        for victim in victims {
            raw.unlink(dir, victim).unwrap();
        }
        let rest = raw.readdir(dir, fh, end, 100_000).unwrap();
        let still = |l: &crate::common::Listed| !victims.contains(&&l.name);
        let expected = from_end.iter().filter(|l| still(l)).map(|l| &l.name);
        let got: Vec<_> = rest.iter().filter(|l| still(l)).map(|l| &l.name).collect();
        assert!(expected.zip(&got).all(|(a, b)| a == *b));
        assert_eq!(
            rest.iter().filter(|l| still(l)).count() + first.len() + 2,
            302
        );
        // Not even one entry has room.
        assert_eq!(raw.readdir(dir, fh, 0, 24).unwrap_err().errno(), EINVAL);
        raw.releasedir(fh).unwrap();
        assert_eq!(raw.readdir(dir, fh, 0, 24).unwrap_err().errno(), EBADF);
        assert_eq!(raw.releasedir(fh).unwrap_err().errno(), EBADF);
    });
}

#[test]
fn dots_are_listed_but_count_as_no_lookup() {
    over_each(|raw| {
        let fh = raw.opendir(ROOT_ID).unwrap();
        for plus in [false, true] {
            let list = match plus {
                false => raw.readdir(ROOT_ID, fh, 0, 4096).unwrap(),
                true => raw.readdirplus(ROOT_ID, fh, 0, 4096).unwrap(),
            };
            let root = raw.getattr(ROOT_ID, None).unwrap().ino;
            let mut dots: Vec<_> = list.iter().map(|l| (&*l.name, l.ino, l.typ)).collect();
            dots.sort_unstable();
            assert_eq!(dots, [(&b"."[..], root, 4), (&b".."[..], root, 4)]);
            assert_eq!(raw.getattr(ROOT_ID, Some(fh)).unwrap().ino, root);
        }
        raw.releasedir(fh).unwrap();
    });
}

#[test]
fn ten_thousand_entries_are_listed() {
    over_each(|raw| {
        for n in 0..10_000 {
            let entry = raw
                .mknod(ROOT_ID, format!("{n}").as_bytes(), 0o100_600, 0)
                .unwrap();
            raw.tell(entry.nodeid, &Request::Forget { nlookup: 1 });
            raw.known.borrow_mut().remove(&entry.nodeid);
        }
        let all = raw.list(ROOT_ID, 32_768, false).unwrap();
        let mut numbers: Vec<u32> = all
            .iter()
            .map(|l| std::str::from_utf8(&l.name).unwrap().parse().unwrap())
            .collect();
        numbers.sort_unstable();
        assert!(numbers.into_iter().eq(0..10_000));
    });
}

#[test]
fn names_of_any_bytes_up_to_255_are_kept() {
    over_each(|raw| {
        let longest = vec![b'n'; 255];
        let odd: [&[u8]; 5] = [&longest, b"\xff\xfe\x80", b"new\nline", b" ", b"...\x01"];
        for n in odd {
            let made = raw.mkdir(ROOT_ID, n, 0o755).unwrap();
            assert_eq!(raw.lookup(ROOT_ID, n).unwrap().nodeid, made.nodeid);
        }
        let mut expected: Vec<Vec<u8>> = odd.iter().map(|n| n.to_vec()).collect();
        expected.sort();
        assert_eq!(names(raw, ROOT_ID, false), expected);
        assert_eq!(names(raw, ROOT_ID, true), expected);
        let long = vec![b'n'; 256];
        assert_eq!(
            raw.lookup(ROOT_ID, &long).unwrap_err().errno(),
            ENAMETOOLONG
        );
        assert_eq!(
            raw.mkdir(ROOT_ID, &long, 0).unwrap_err().errno(),
            ENAMETOOLONG
        );
        let to_long = raw.rename((ROOT_ID, odd[1]), (ROOT_ID, &long), 0);
        assert_eq!(to_long.unwrap_err().errno(), ENAMETOOLONG);
    });
}

#[test]
fn sparse_files_beyond_4_gib_stay_sparse() {
    const DATA: u32 = 3;
    const HOLE: u32 = 4;
    over_each(|raw| {
        let (entry, open) = raw.create(ROOT_ID, b"f", RDWR, 0o644).unwrap();
        let far = (5 << 30) + 4096;
        raw.write(open.fh, far, b"far").unwrap();
        let attr = raw.getattr(entry.nodeid, None).unwrap();
        assert_eq!(attr.size, far + 3);
        assert!(attr.blocks <= 16, "{} blocks", attr.blocks);
        assert_eq!(raw.read(open.fh, far - 4, 100).unwrap(), b"\0\0\0\0far");
        assert_eq!(raw.lseek(open.fh, 0, DATA).unwrap(), far);
        assert_eq!(raw.lseek(open.fh, 10, HOLE).unwrap(), 10);
        assert_eq!(raw.lseek(open.fh, far, HOLE).unwrap(), far + 3);
        assert_eq!(
            raw.lseek(open.fh, far + 3, DATA).unwrap_err().errno(),
            ENXIO
        );
        assert_eq!(raw.lseek(open.fh, 0, 9).unwrap_err().errno(), EINVAL);
        raw.truncate(entry.nodeid, 1).unwrap();
        assert_eq!(raw.lseek(open.fh, 0, DATA).unwrap_err().errno(), ENXIO);
        raw.release(open.fh).unwrap();
    });
}

#[test]
fn space_is_reserved_punched_and_copied() {
    const KEEP_SIZE: u32 = 1;
    const PUNCH_HOLE: u32 = 2;
    over_each(|raw| {
        let (a, open) = raw.create(ROOT_ID, b"a", RDWR, 0o644).unwrap();
        raw.write(open.fh, 0, &[1; 20_000]).unwrap();
        raw.fallocate(open.fh, PUNCH_HOLE | KEEP_SIZE, 100, 10_000)
            .unwrap();
        let back = raw.read(open.fh, 0, 20_000).unwrap();
        assert_eq!(back[..100], [1; 100]);
        assert_eq!(back[100..10_100], [0; 10_000]);
        assert_eq!(back[10_100..], [1; 9_900]);
        raw.fallocate(open.fh, KEEP_SIZE, 0, 100_000).unwrap();
        assert_eq!(raw.getattr(a.nodeid, None).unwrap().size, 20_000);
        raw.fallocate(open.fh, 0, 0, 30_000).unwrap();
        assert_eq!(raw.getattr(a.nodeid, None).unwrap().size, 30_000);
        assert_eq!(raw.fallocate(open.fh, 0, 0, 0).unwrap_err().errno(), EINVAL);
        let (_, to) = raw.create(ROOT_ID, b"b", RDWR, 0o644).unwrap();
        assert_eq!(
            raw.copy((open.fh, 50), (to.fh, 5), 100_000).unwrap(),
            29_950
        );
        let copied = raw.read(to.fh, 0, 100_000).unwrap();
        assert_eq!(copied[..5], [0; 5]);
        assert_eq!(copied[5..], raw.read(open.fh, 50, 100_000).unwrap());
        // Within a file: only where it does not overlap.
        assert_eq!(
            raw.copy((to.fh, 0), (to.fh, 10), 100).unwrap_err().errno(),
            EINVAL
        );
        assert_eq!(raw.copy((to.fh, 0), (to.fh, 1000), 100).unwrap(), 100);
        assert_eq!(raw.copy((to.fh, 1 << 40), (open.fh, 0), 100).unwrap(), 0);
        raw.release(open.fh).unwrap();
        raw.release(to.fh).unwrap();
    });
}

#[test]
fn temporary_files_have_no_name_until_linked() {
    over_each(|raw| {
        let (entry, open) = raw.tmpfile(ROOT_ID, RDWR, 0o600).unwrap();
        assert_eq!((entry.attr.nlink, entry.attr.mode), (0, 0o100_600));
        raw.write(open.fh, 0, b"hello").unwrap();
        assert!(names(raw, ROOT_ID, false).is_empty());
        let linked = raw.link(entry.nodeid, ROOT_ID, b"named").unwrap();
        assert_eq!((linked.nodeid, linked.attr.nlink), (entry.nodeid, 1));
        assert_eq!(
            raw.tmpfile(ROOT_ID, RDONLY, 0o600).unwrap_err().errno(),
            EINVAL
        );
        raw.release(open.fh).unwrap();
    });
}

#[test]
fn extended_attributes_are_kept() {
    over_each(|raw| {
        let node = raw.mknod(ROOT_ID, b"f", 0o100_600, 0).unwrap().nodeid;
        let attr = |n| XattrName::new(n).unwrap();
        let set = |n, value: &[u8], flags| {
            let request = Request::Setxattr {
                name: attr(n),
                size: value.len() as u32,
                flags,
                setxattr_flags: 0,
                ext: true,
            };
            raw.done(node, &request, value)
        };
        let get = |n, size| {
            raw.call(
                node,
                &Request::Getxattr {
                    name: attr(n),
                    size,
                },
                &[],
            )
        };
        set(b"user.a", b"value", 0).unwrap();
        set(b"user.b", b"", 1).unwrap();
        assert_eq!(set(b"user.b", b"", 1).unwrap_err().errno(), EEXIST);
        assert_eq!(set(b"user.c", b"", 2).unwrap_err().errno(), ENODATA);
        assert_eq!(get(b"user.a", 100).unwrap(), b"value");
        assert_eq!(get(b"user.a", 2).unwrap_err().errno(), ERANGE);
        assert_eq!(get(b"user.c", 2).unwrap_err().errno(), ENODATA);
        let size = fusewire_wire::reply::getxattr_size(&get(b"user.a", 0).unwrap()).unwrap();
        assert_eq!(size.size, 5);
        let list = raw
            .call(node, &Request::Listxattr { size: 1000 }, &[])
            .unwrap();
        let mut listed: Vec<_> = list
            .split(|b| *b == 0)
            .filter(|n| n.starts_with(b"user."))
            .collect();
        listed.sort_unstable();
        assert_eq!(listed, [b"user.a", b"user.b"]);
        let remove = |n| raw.done(node, &Request::Removexattr { name: attr(n) }, &[]);
        remove(b"user.a").unwrap();
        assert_eq!(remove(b"user.a").unwrap_err().errno(), ENODATA);
    });
}

#[test]
fn the_whole_file_system_is_told_of() {
    over_each(|raw| {
        let st = raw.statfs(ROOT_ID).unwrap();
        assert!(st.blocks >= st.bfree && st.bsize > 0 && st.frsize > 0);
        assert_eq!(st.namelen, 255);
        raw.done(ROOT_ID, &Request::Syncfs, &[]).unwrap();
        let node = raw.mknod(ROOT_ID, b"f", 0o100_600, 0).unwrap();
        let st = raw.statx(node.nodeid).unwrap();
        assert_eq!(u32::from(st.mode), node.attr.mode);
        assert_eq!(st.ino, node.attr.ino);
        let fh = raw.opendir(ROOT_ID).unwrap();
        let arg = FsyncIn {
            fh,
            ..FsyncIn::default()
        };
        raw.done(ROOT_ID, &Request::Fsyncdir(arg), &[]).unwrap();
        raw.releasedir(fh).unwrap();
    });
}

#[test]
fn what_is_not_known_or_not_done_is_refused() {
    const ENOSYS: i32 = 38;
    over_each(|raw| {
        assert_eq!(raw.getattr(999, None).unwrap_err().errno(), ESTALE);
        let node = raw.mkdir(ROOT_ID, b"d", 0o755).unwrap().nodeid;
        raw.forget(node);
        assert_eq!(raw.getattr(node, None).unwrap_err().errno(), ESTALE);
        assert_eq!(raw.mkdir(node, b"x", 0).unwrap_err().errno(), ESTALE);
        // Nothing here lies on a device of its own.
        let bmap = Request::Bmap(BmapIn::default());
        assert_eq!(raw.call(ROOT_ID, &bmap, &[]).unwrap_err().errno(), ENOSYS);
        // Forgetting too much, or what is unknown, is harmless.
        raw.tell(node, &Request::Forget { nlookup: u64::MAX });
        raw.tell(ROOT_ID, &Request::Forget { nlookup: u64::MAX });
        let two = [
            ForgetOne {
                nodeid: 12_345,
                nlookup: 1,
            },
            ForgetOne {
                nodeid: node,
                nlookup: 7,
            },
        ];
        raw.tell(0, &Request::BatchForget(&two));
        raw.fence();
        assert_eq!(raw.lookup(ROOT_ID, b"d").unwrap().attr.mode, 0o040_755);
    });
}

#[test]
fn lookups_are_counted_and_forgotten_one_by_one() {
    over(memory(), |raw, server| {
        let node = raw.mkdir(ROOT_ID, b"d", 0o755).unwrap().nodeid;
        raw.lookup(ROOT_ID, b"d").unwrap();
        raw.list(ROOT_ID, 4096, true).unwrap();
        let usage = server.usage();
        assert_eq!((usage.live_nodes, usage.lookups), (1, 3));
        raw.tell(node, &Request::Forget { nlookup: 2 });
        raw.fence();
        assert_eq!(raw.getattr(node, None).unwrap().ino, node);
        raw.known.borrow_mut().insert(node, 1);
    });
    let (_temp, served) = directory(DirOptions::default());
    over(served, |raw, server| {
        let node = raw.mkdir(ROOT_ID, b"d", 0o755).unwrap().nodeid;
        raw.lookup(ROOT_ID, b"d").unwrap();
        raw.list(ROOT_ID, 4096, true).unwrap();
        let fh = raw.opendir(node).unwrap();
        let usage = server.usage();
        assert_eq!(
            (usage.live_nodes, usage.lookups, usage.open_handles),
            (1, 3, 1)
        );
        raw.releasedir(fh).unwrap();
    });
}

#[test]
fn what_was_held_at_most_is_remembered() {
    fn check<F: FileSystem>(fs: F, peak: impl Fn(&F) -> Usage) {
        over(fs, |raw, server| {
            let (f, first) = raw.create(ROOT_ID, b"f", 2, 0o644).unwrap();
            let (g, second) = raw.create(ROOT_ID, b"g", 2, 0o644).unwrap();
            let dir = raw.opendir(ROOT_ID).unwrap();
            raw.lookup(ROOT_ID, b"f").unwrap();
            raw.release(first.fh).unwrap();
            raw.release(second.fh).unwrap();
            raw.releasedir(dir).unwrap();
            raw.forget(f.nodeid);
            raw.forget(g.nodeid);
            assert_eq!(server.usage(), Usage::default());
            let most = Usage {
                live_nodes: 2,
                lookups: 3,
                open_handles: 3,
            };
            assert_eq!(peak(server.fs()), most);
            // A new client has held nothing.
            raw.init(fusewire_wire::InitFlags::all()).unwrap();
            assert_eq!(peak(server.fs()), Usage::default());
        });
    }
    check(memory(), Memory::peak);
    let (_temp, served) = directory(DirOptions::default());
    check(served, Directory::peak);
}
