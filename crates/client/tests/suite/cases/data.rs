//! The bytes of files.

use super::{cases, host};
use crate::check::{Random, errno, io_errno, pattern};
use crate::differ::Pair;
use crate::ops::{How, Op};
use crate::session::Session;
use fusewire::OpenOptions;
use rustix::io::Errno;
use std::fs::File as HostFile;
use std::io::{Read, Seek, SeekFrom, Write};
use std::os::fd::AsFd;
use std::os::unix::fs::{FileExt, MetadataExt};

cases![
    files_of_every_size_come_back_as_they_were,
    files_of_the_host_are_read_as_they_are: host,
    a_large_file_is_the_same_on_the_host,
    unaligned_reads_and_writes_agree_with_the_kernel,
    a_read_ends_at_the_end_of_the_file,
    nothing_can_be_read_or_written_for_nothing,
    offsets_end_at_2_to_the_63,
    a_write_past_the_end_leaves_zeroes_between,
    a_sparse_file_over_4_gib_keeps_its_holes,
    set_len_grows_with_zeroes_and_cuts_off,
    truncate_by_path_is_set_len,
    what_was_cut_off_does_not_come_back,
    seeking_agrees_with_the_kernel,
    clones_share_the_position,
    handles_have_positions_of_their_own,
    appending_from_two_handles_loses_nothing,
    an_appending_handle_writes_at_the_end_wherever_that_is,
    bytes_go_straight_to_a_descriptor,
    bytes_come_straight_from_a_descriptor,
    a_descriptor_that_fails_says_why,
    exact_reads_and_writes_say_when_they_fall_short,
    close_reports_and_leaves_the_clones_open,
    dropping_the_last_clone_closes,
    sync_brings_data_to_the_host,
    a_removed_file_stays_readable_while_open,
    a_replaced_file_stays_readable_while_open,
    a_file_can_be_much_larger_than_the_arena,
];

const MIB: usize = 1 << 20;

/// Around every boundary that data is cut at: blocks, pages, frames, the largest request.
const SIZES: [usize; 14] = [
    0,
    1,
    511,
    4095,
    4096,
    4097,
    8192,
    65_535,
    65_537,
    MIB - 1,
    MIB,
    MIB + 1,
    2 * MIB + 4097,
    4 * MIB + 1,
];

fn files_of_every_size_come_back_as_they_were(s: &Session) {
    for (seed, size) in SIZES.into_iter().enumerate() {
        let data = pattern(seed as u64, size);
        let path = format!("size-{size}");
        s.client.write(&path, &data).unwrap();
        assert_eq!(s.client.metadata(&path).unwrap().len(), size as u64);
        assert!(s.client.read(&path).unwrap() == data, "{size}");
        if let Some(host) = s.host(&path) {
            assert!(std::fs::read(host).unwrap() == data, "{size} on the host");
        }
    }
}

fn files_of_the_host_are_read_as_they_are(s: &Session) {
    for (seed, size) in SIZES.into_iter().enumerate() {
        let data = pattern(seed as u64, size);
        let path = format!("size-{size}");
        std::fs::write(s.host(&path).unwrap(), &data).unwrap();
        assert!(s.client.read(&path).unwrap() == data, "{size}");
    }
}

fn a_large_file_is_the_same_on_the_host(s: &Session) {
    let data = pattern(17, 17 * MIB + 11);
    s.client.write("large", &data).unwrap();
    assert!(s.client.read("large").unwrap() == data);
    if let Some(host) = s.host("large") {
        assert!(std::fs::read(host).unwrap() == data);
    }
}

fn unaligned_reads_and_writes_agree_with_the_kernel(s: &Session) {
    let mut pair = Pair::new(s);
    let mut random = Random::new(11);
    let how = How {
        read: true,
        ..How::CREATE
    };
    pair.prepare(Op::Open(0, "file".into(), how));
    for round in 0..40 {
        let offset = random.below(3 * MIB as u64);
        let len = random.below(200_000) as usize;
        pair.act(Op::WriteAt(0, offset, len, round));
        let offset = random.below(3 * MIB as u64 + 4096);
        let len = random.below(500_000) as usize;
        pair.act(Op::ReadAt(0, offset, len));
        pair.act(Op::Fstat(0));
    }
    // Longer than one request, and than all that are in flight together.
    pair.act(Op::WriteAt(0, 4095, 6 * MIB + 7, 99));
    pair.act(Op::ReadAt(0, 1, 7 * MIB));
    pair.act(Op::Close(0));
    pair.finish();
}

fn a_read_ends_at_the_end_of_the_file(s: &Session) {
    let c = &s.client;
    c.write("file", "0123456789").unwrap();
    let file = c.open("file").unwrap();
    let mut buf = [0; 100];
    assert_eq!(file.read_at(&mut buf, 0).unwrap(), 10);
    assert_eq!(file.read_at(&mut buf, 7).unwrap(), 3);
    assert_eq!(&buf[..3], b"789");
    assert_eq!(file.read_at(&mut buf, 10).unwrap(), 0);
    assert_eq!(file.read_at(&mut buf, 1 << 40).unwrap(), 0);
    let mut file = file;
    assert_eq!(file.read(&mut buf).unwrap(), 10);
    assert_eq!(file.read(&mut buf).unwrap(), 0);
}

fn nothing_can_be_read_or_written_for_nothing(s: &Session) {
    let c = &s.client;
    let mut file = OpenOptions::new();
    let mut file = file
        .read(true)
        .write(true)
        .create(true)
        .open(c, "file")
        .unwrap();
    file.write_all(b"12345").unwrap();
    assert_eq!(file.read_at(&mut [], 0).unwrap(), 0);
    assert_eq!(file.write_at(&[], 100).unwrap(), 0);
    assert_eq!(file.write(&[]).unwrap(), 0);
    assert_eq!(file.metadata().unwrap().len(), 5);
    let null = HostFile::open("/dev/null").unwrap();
    assert_eq!(file.write_from_fd(100, 0, null.as_fd(), 0).unwrap(), 0);
    assert_eq!(file.read_to_fd(0, 0, null.as_fd(), 0).unwrap(), 0);
    assert_eq!(c.read("file").unwrap(), b"12345");
}

fn offsets_end_at_2_to_the_63(s: &Session) {
    let c = &s.client;
    let mut file = c.create_new("file").unwrap();
    let last = i64::MAX as u64;
    assert_eq!(errno(file.write_at(b"xy", last - 1)), Errno::INVAL);
    assert_eq!(errno(file.write_at(b"x", last)), Errno::INVAL);
    assert_eq!(errno(file.write_at(b"x", u64::MAX)), Errno::INVAL);
    assert_eq!(errno(file.set_len(last + 1)), Errno::INVAL);
    assert_eq!(errno(c.truncate("file", u64::MAX)), Errno::INVAL);
    assert_eq!(io_errno(file.seek(SeekFrom::Start(last + 1))), Errno::INVAL);
    assert_eq!(file.seek(SeekFrom::Start(last)).unwrap(), last);
    assert_eq!(io_errno(file.seek(SeekFrom::Current(1))), Errno::INVAL);
    assert_eq!(io_errno(file.seek(SeekFrom::End(-1))), Errno::INVAL);
    assert_eq!(io_errno(file.write(b"x")), Errno::INVAL);
    for offset in [last - 3, last, last + 1, u64::MAX] {
        assert_eq!(errno(file.read_at(&mut [0; 4], offset)), Errno::INVAL);
    }
    assert_eq!(file.read_at(&mut [0; 4], last - 4).unwrap(), 0);
    assert_eq!(c.metadata("file").unwrap().len(), 0);
}

fn a_write_past_the_end_leaves_zeroes_between(s: &Session) {
    let c = &s.client;
    let file = c.create("file").unwrap();
    file.write_at(b"start", 0).unwrap();
    file.write_at(b"end", 10_000).unwrap();
    let mut expected = vec![0; 10_003];
    expected[..5].copy_from_slice(b"start");
    expected[10_000..].copy_from_slice(b"end");
    assert_eq!(c.read("file").unwrap(), expected);
    if let Some(host) = s.host("file") {
        assert_eq!(std::fs::read(host).unwrap(), expected);
    }
}

fn a_sparse_file_over_4_gib_keeps_its_holes(s: &Session) {
    const GIB: u64 = 1 << 30;
    let c = &s.client;
    let mut options = OpenOptions::new();
    options.read(true).write(true).create(true);
    let mut file = options.open(c, "sparse").unwrap();
    file.write_at(b"far", 5 * GIB).unwrap();
    file.seek(SeekFrom::Start(6 * GIB + 4095)).unwrap();
    file.write_all(b"further").unwrap();
    let size = 6 * GIB + 4095 + 7;
    assert_eq!(file.metadata().unwrap().len(), size);
    assert_eq!(c.metadata("sparse").unwrap().len(), size);
    let mut buf = vec![1; 2 * MIB];
    file.read_exact_at(&mut buf, 4 * GIB - MIB as u64).unwrap();
    assert!(buf.iter().all(|byte| *byte == 0), "the hole is not empty");
    let mut buf = [1; 8];
    file.read_exact_at(&mut buf, 5 * GIB - 3).unwrap();
    assert_eq!(&buf, b"\0\0\0far\0\0");
    assert_eq!(file.seek(SeekFrom::End(-7)).unwrap(), size - 7);
    let mut text = String::new();
    file.read_to_string(&mut text).unwrap();
    assert_eq!(text, "further");
    assert!(c.metadata("sparse").unwrap().blocks() * 512 < GIB);
    if let Some(host) = s.host("sparse") {
        let metadata = host.metadata().unwrap();
        assert_eq!(metadata.len(), size);
        assert!(metadata.blocks() * 512 < MIB as u64, "{metadata:?}");
        let mut buf = [1; 8];
        let on_host = HostFile::open(host).unwrap();
        on_host.read_exact_at(&mut buf, 5 * GIB - 3).unwrap();
        assert_eq!(&buf, b"\0\0\0far\0\0");
    }
    file.set_len(5 * GIB + 1).unwrap();
    assert_eq!(file.metadata().unwrap().len(), 5 * GIB + 1);
    let mut buf = [0; 8];
    assert_eq!(file.read_at(&mut buf, 5 * GIB).unwrap(), 1);
    assert_eq!(buf[0], b'f');
}

fn set_len_grows_with_zeroes_and_cuts_off(s: &Session) {
    let mut pair = Pair::new(s);
    let how = How {
        read: true,
        ..How::CREATE
    };
    pair.prepare(Op::Open(0, "file".into(), how));
    pair.prepare(Op::Write(0, 10_000, 5));
    for len in [4096, 4095, 4097, 0, 10_000, 1, 1, 100_000, 65_536] {
        pair.act(Op::SetLen(0, len));
        pair.act(Op::Fstat(0));
        pair.act(Op::Stat("file".into()));
        pair.act(Op::ReadAt(0, 0, 200_000));
        // The position stays where it was.
        pair.act(Op::Seek(0, SeekFrom::Current(0)));
    }
    pair.act(Op::Close(0));
    pair.finish();
}

fn truncate_by_path_is_set_len(s: &Session) {
    let mut pair = Pair::new(s);
    pair.prepare(Op::WriteFile("file".into(), 10_000, 5));
    pair.prepare(Op::Mkdir("dir".into(), 0o755));
    pair.prepare(Op::Mknod("pipe".into(), 0o010_644));
    pair.prepare(Op::Symlink("file".into(), "link".into()));
    pair.prepare(Op::Symlink("dir".into(), "to-dir".into()));
    for len in [5000, 5000, 20_000, 0, 3] {
        pair.act(Op::Truncate("file".into(), len));
        pair.act(Op::Truncate("link".into(), len + 1));
        pair.act(Op::ReadFile("file".into()));
    }
    for path in [
        "dir", "to-dir", "pipe", "missing", "file/x", "", "/", "dir/..",
    ] {
        pair.act(Op::Truncate(path.into(), 1));
    }
    pair.finish();
}

fn what_was_cut_off_does_not_come_back(s: &Session) {
    let c = &s.client;
    let mut options = OpenOptions::new();
    options.read(true).write(true).create(true);
    let file = options.open(c, "file").unwrap();
    file.write_at(&pattern(1, 3 * 4096), 0).unwrap();
    for (cut, grown) in [(4096, 8192), (100, 3 * 4096), (0, 5000)] {
        file.set_len(cut).unwrap();
        file.set_len(grown).unwrap();
        let all = c.read("file").unwrap();
        assert_eq!(all.len() as u64, grown);
        assert!(all[cut as usize..].iter().all(|b| *b == 0), "{cut}");
    }
}

fn seeking_agrees_with_the_kernel(s: &Session) {
    let mut pair = Pair::new(s);
    let how = How {
        read: true,
        ..How::CREATE
    };
    pair.prepare(Op::Open(0, "file".into(), how));
    pair.prepare(Op::Write(0, 1000, 5));
    for to in [
        SeekFrom::Start(0),
        SeekFrom::Start(10),
        SeekFrom::Start(5000),
        SeekFrom::Start(u64::MAX),
        SeekFrom::Current(0),
        SeekFrom::Current(17),
        SeekFrom::Current(-20),
        SeekFrom::Current(-1 << 40),
        SeekFrom::Current(i64::MIN),
        SeekFrom::End(0),
        SeekFrom::End(-1),
        SeekFrom::End(-1000),
        SeekFrom::End(-1001),
        SeekFrom::End(1000),
        SeekFrom::End(i64::MAX),
        SeekFrom::End(i64::MIN),
    ] {
        pair.act(Op::Seek(0, to));
        pair.act(Op::Seek(0, SeekFrom::Current(0)));
        pair.act(Op::Read(0, 10));
    }
    pair.act(Op::Seek(0, SeekFrom::Start(990)));
    pair.act(Op::Write(0, 20, 6));
    pair.act(Op::Seek(0, SeekFrom::Current(0)));
    pair.act(Op::Seek(0, SeekFrom::End(0)));
    pair.act(Op::Close(0));
    pair.finish();
}

fn clones_share_the_position(s: &Session) {
    let c = &s.client;
    c.write("file", "0123456789").unwrap();
    let mut file = c.open("file").unwrap();
    let mut second = file.try_clone().unwrap();
    let mut third = file.clone();
    let mut buf = [0; 3];
    file.read_exact(&mut buf).unwrap();
    second.read_exact(&mut buf).unwrap();
    assert_eq!(&buf, b"345");
    third.seek(SeekFrom::Current(-1)).unwrap();
    file.read_exact(&mut buf).unwrap();
    assert_eq!(&buf, b"567");
    // A shared reference reads, too.
    (&second).read_exact(&mut buf[..1]).unwrap();
    assert_eq!(&buf, b"867");
    let mut moved = [0; 2];
    assert_eq!(third.read_at(&mut moved, 0).unwrap(), 2);
    assert_eq!(third.stream_position().unwrap(), 9);
}

fn handles_have_positions_of_their_own(s: &Session) {
    let c = &s.client;
    c.write("file", "0123456789").unwrap();
    let (mut first, mut second) = (c.open("file").unwrap(), c.open("file").unwrap());
    let mut buf = [0; 4];
    first.read_exact(&mut buf).unwrap();
    second.read_exact(&mut buf).unwrap();
    assert_eq!(&buf, b"0123");
    assert_eq!(first.stream_position().unwrap(), 4);
}

fn appending_from_two_handles_loses_nothing(s: &Session) {
    let c = &s.client;
    let open = || {
        let mut options = OpenOptions::new();
        options.append(true).create(true).open(c, "log").unwrap()
    };
    let (mut first, mut second) = (open(), open());
    let mut expected = Vec::new();
    for round in 0..50u64 {
        let line = pattern(round, 1 + (round as usize * 37) % 5000);
        let file = if round % 3 == 0 {
            &mut first
        } else {
            &mut second
        };
        file.write_all(&line).unwrap();
        expected.extend_from_slice(&line);
        assert_eq!(file.metadata().unwrap().len(), expected.len() as u64);
        assert_eq!(file.stream_position().unwrap(), expected.len() as u64);
    }
    assert!(c.read("log").unwrap() == expected);
    if let Some(host) = s.host("log") {
        assert!(std::fs::read(host).unwrap() == expected);
    }
}

fn an_appending_handle_writes_at_the_end_wherever_that_is(s: &Session) {
    let mut pair = Pair::new(s);
    let append = How {
        append: true,
        read: true,
        ..How::CREATE
    };
    pair.prepare(Op::WriteFile("file".into(), 100, 1));
    pair.prepare(Op::Open(0, "file".into(), append));
    pair.prepare(Op::Open(1, "file".into(), How::WRITE));
    pair.act(Op::Write(0, 10, 2));
    pair.act(Op::Seek(0, SeekFrom::Start(5)));
    pair.act(Op::Read(0, 10));
    pair.act(Op::Write(0, 10, 3));
    pair.act(Op::Seek(0, SeekFrom::Current(0)));
    pair.act(Op::WriteAt(0, 3, 10, 4));
    pair.act(Op::SetLen(1, 50));
    pair.act(Op::Write(0, 10, 5));
    pair.act(Op::WriteAt(1, 1000, 10, 6));
    pair.act(Op::Write(0, 10, 7));
    pair.act(Op::Fstat(0));
    pair.act(Op::Truncate("file".into(), 0));
    pair.act(Op::Write(0, 3 * MIB, 8));
    pair.act(Op::Write(0, 10, 9));
    pair.act(Op::ReadFile("file".into()));
    pair.act(Op::Close(0));
    pair.act(Op::Close(1));
    pair.finish();
}

fn bytes_go_straight_to_a_descriptor(s: &Session) {
    let data = pattern(3, 3 * MIB + 123);
    s.client.write("file", &data).unwrap();
    let file = s.client.open("file").unwrap();
    let to = tempfile::tempfile().unwrap();
    for (offset, len, at) in [(0, data.len(), 0), (5, 100, 7), (4095, MIB + 2, 1 << 20)] {
        let n = file.read_to_fd(offset, len as u64, to.as_fd(), at).unwrap();
        assert_eq!(n, len as u64);
        let mut copy = vec![0; len];
        to.read_exact_at(&mut copy, at).unwrap();
        assert!(copy == data[offset as usize..][..len]);
    }
    // As far as there is something.
    let end = data.len() as u64;
    assert_eq!(file.read_to_fd(end - 3, 100, to.as_fd(), 0).unwrap(), 3);
    assert_eq!(file.read_to_fd(end, 100, to.as_fd(), 0).unwrap(), 0);
    assert_eq!(file.read_to_fd(0, u64::MAX, to.as_fd(), 0).unwrap(), end);
}

fn bytes_come_straight_from_a_descriptor(s: &Session) {
    let data = pattern(4, 3 * MIB + 123);
    let mut from = tempfile::tempfile().unwrap();
    from.write_all(&data).unwrap();
    let file = s.client.create("file").unwrap();
    let n = file
        .write_from_fd(0, u64::MAX >> 2, from.as_fd(), 0)
        .unwrap();
    assert_eq!(n, data.len() as u64, "until the end of the source");
    assert!(s.client.read("file").unwrap() == data);
    assert_eq!(file.write_from_fd(10, 100, from.as_fd(), 50).unwrap(), 100);
    let end = data.len() as u64;
    assert_eq!(file.write_from_fd(0, 5, from.as_fd(), end).unwrap(), 0);
    assert_eq!(
        file.write_from_fd(end, 50, from.as_fd(), end - 4).unwrap(),
        4
    );
    let mut expected = data.clone();
    expected[10..110].copy_from_slice(&data[50..150]);
    expected.extend_from_slice(&data[data.len() - 4..]);
    assert!(s.client.read("file").unwrap() == expected);
    if let Some(host) = s.host("file") {
        assert!(std::fs::read(host).unwrap() == expected);
    }
}

fn a_descriptor_that_fails_says_why(s: &Session) {
    let c = &s.client;
    c.write("file", pattern(1, 100)).unwrap();
    let mut options = OpenOptions::new();
    let file = options.read(true).write(true).open(c, "file").unwrap();
    let full = HostFile::options().write(true).open("/dev/full").unwrap();
    assert_eq!(errno(file.read_to_fd(0, 10, full.as_fd(), 0)), Errno::NOSPC);
    let null = HostFile::open("/dev/null").unwrap();
    assert_eq!(errno(file.read_to_fd(0, 10, null.as_fd(), 0)), Errno::BADF);
    assert_eq!(
        errno(file.write_from_fd(0, 10, full.as_fd(), 0)),
        Errno::BADF
    );
    let dir = HostFile::open("/").unwrap();
    assert_eq!(
        errno(file.write_from_fd(0, 10, dir.as_fd(), 0)),
        Errno::ISDIR
    );
    assert_eq!(c.read("file").unwrap(), pattern(1, 100));
}

fn exact_reads_and_writes_say_when_they_fall_short(s: &Session) {
    let c = &s.client;
    let data = pattern(9, 5 * MIB);
    let mut options = OpenOptions::new();
    options.read(true).write(true).create(true);
    let mut file = options.open(c, "file").unwrap();
    file.write_all_at(&data, 17).unwrap();
    let mut copy = vec![0; data.len()];
    file.read_exact_at(&mut copy, 17).unwrap();
    assert!(copy == data);
    let error = file.read_exact_at(&mut copy, 18).unwrap_err();
    assert_eq!(error.kind(), std::io::ErrorKind::UnexpectedEof);
    file.seek(SeekFrom::Start(18)).unwrap();
    let error = file.read_exact(&mut copy).unwrap_err();
    assert_eq!(error.kind(), std::io::ErrorKind::UnexpectedEof);
}

fn close_reports_and_leaves_the_clones_open(s: &Session) {
    let c = &s.client;
    let mut file = c.create("file").unwrap();
    file.write_all(b"data").unwrap();
    let mut clone = file.clone();
    let flushed = s.requests("FLUSH");
    file.close().unwrap();
    assert_eq!(s.requests("FLUSH"), flushed + 1);
    clone.write_all(b", and more").unwrap();
    assert_eq!(clone.metadata().unwrap().len(), 14);
    clone.close().unwrap();
    assert_eq!(c.read("file").unwrap(), b"data, and more");
}

fn dropping_the_last_clone_closes(s: &Session) {
    let c = &s.client;
    c.write("file", "data").unwrap();
    s.all_closed();
    let (flushed, released) = (s.requests("FLUSH"), s.requests("RELEASE"));
    let file = c.open("file").unwrap();
    let clone = file.clone();
    drop(file);
    assert_eq!(c.stats().open_handles, 1);
    assert_eq!(clone.read_at(&mut [0; 4], 0).unwrap(), 4);
    drop(clone);
    s.all_closed();
    // One FLUSH for each, as for each descriptor of a file.
    assert_eq!(s.requests("FLUSH"), flushed + 2);
    assert_eq!(s.requests("RELEASE"), released + 1);
}

fn sync_brings_data_to_the_host(s: &Session) {
    let file = s.client.create("file").unwrap();
    file.write_at(b"12345", 0).unwrap();
    file.sync_data().unwrap();
    file.write_at(b"67890", 5).unwrap();
    file.sync_all().unwrap();
    assert_eq!(s.requests("FSYNC"), 2);
    if let Some(host) = s.host("file") {
        assert_eq!(std::fs::read(host).unwrap(), b"1234567890");
    }
}

fn a_removed_file_stays_readable_while_open(s: &Session) {
    let c = &s.client;
    c.write("file", "still here").unwrap();
    let mut options = OpenOptions::new();
    let mut file = options.read(true).write(true).open(c, "file").unwrap();
    c.remove_file("file").unwrap();
    assert!(!c.exists("file").unwrap());
    assert_eq!(file.metadata().unwrap().nlink(), 0);
    let mut text = String::new();
    file.read_to_string(&mut text).unwrap();
    assert_eq!(text, "still here");
    file.write_all(b", and longer").unwrap();
    assert_eq!(file.metadata().unwrap().len(), 22);
    file.set_len(5).unwrap();
    assert_eq!(file.read_at(&mut [0; 100], 0).unwrap(), 5);
    // Another one of that name is another one.
    c.write("file", "new").unwrap();
    assert_eq!(c.metadata("file").unwrap().len(), 3);
    assert_eq!(file.metadata().unwrap().len(), 5);
    assert_ne!(
        c.metadata("file").unwrap().ino(),
        file.metadata().unwrap().ino()
    );
    c.drop_caches();
    assert_eq!(file.read_at(&mut [0; 100], 0).unwrap(), 5);
    file.close().unwrap();
}

fn a_replaced_file_stays_readable_while_open(s: &Session) {
    let c = &s.client;
    c.write("old", "old contents").unwrap();
    c.write("new", "new").unwrap();
    let old = c.open("old").unwrap();
    let new = c.open("new").unwrap();
    c.rename("new", "old").unwrap();
    let mut buf = [0; 20];
    assert_eq!(old.read_at(&mut buf, 0).unwrap(), 12);
    assert_eq!(old.metadata().unwrap().nlink(), 0);
    assert_eq!(new.metadata().unwrap().nlink(), 1);
    assert_eq!(c.read("old").unwrap(), b"new");
    assert_eq!(new.read_at(&mut buf, 0).unwrap(), 3);
}

/// Data goes through frames that are given back as it goes.
fn a_file_can_be_much_larger_than_the_arena(s: &Session) {
    let file = s.client.create("file").unwrap();
    let zeroes = HostFile::open("/dev/zero").unwrap();
    let len = 40 * MIB as u64;
    // A device has no end, and no offsets either.
    assert_eq!(file.write_from_fd(0, len, zeroes.as_fd(), 0).unwrap(), len);
    assert_eq!(file.metadata().unwrap().len(), len);
    let file = s.client.open("file").unwrap();
    let null = HostFile::options().write(true).open("/dev/null").unwrap();
    assert_eq!(file.read_to_fd(0, len, null.as_fd(), 0).unwrap(), len);
}
