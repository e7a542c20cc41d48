//! What std::fs has no word for: extended attributes, holes, allocation, copies in the daemon.

use fusewire::{Allocate, Client, OpenOptions, SetXattr};
use fusewire_server::mem::{MemOptions, Memory};
use fusewire_server::scripted::{self, Action, Rules, Seen};
use fusewire_server::{Errno, ServerOptions, dir, start};
use fusewire_wire::Opcode;

/// Over memory and over a directory of the host, whose own attributes may not be supported.
fn each(test: impl Fn(&str, &Client)) {
    let fs = Memory::new(MemOptions::default());
    let (transport, server) = start(fs, &ServerOptions::default()).unwrap();
    let client = Client::builder().connect(transport).unwrap();
    test("mem", &client);
    client.shutdown().unwrap();
    assert_eq!(server.join().lookups, 0);

    let host = tempfile::tempdir().unwrap();
    let options = dir::DirOptions {
        xattr: true,
        ..dir::DirOptions::default()
    };
    let fs = dir::Directory::new(host.path(), options).unwrap();
    let (transport, server) = start(fs, &ServerOptions::default()).unwrap();
    let client = Client::builder().connect(transport).unwrap();
    test("dir", &client);
    client.shutdown().unwrap();
    assert_eq!(server.join().lookups, 0);
}

#[track_caller]
fn fails_with<T: std::fmt::Debug>(result: fusewire::Result<T>, errno: Errno) {
    let error = result.unwrap_err();
    assert_eq!(error.errno(), errno.raw_os_error(), "{error}");
}

#[test]
fn attributes_are_set_listed_read_and_removed() {
    each(|_, client| {
        client.write("/f", b"").unwrap();
        let name = "user.colour";
        assert_eq!(client.get_xattr("/f", name).unwrap(), None);
        fails_with(
            client.set_xattr("/f", name, b"x", SetXattr::Replace),
            Errno::NODATA,
        );
        client.set_xattr("/f", name, b"", SetXattr::Any).unwrap();
        assert_eq!(client.get_xattr("/f", name).unwrap().unwrap(), b"");
        fails_with(
            client.set_xattr("/f", name, b"x", SetXattr::Create),
            Errno::EXIST,
        );
        let value = vec![0xa5; 3000];
        client
            .set_xattr("/f", name, &value, SetXattr::Replace)
            .unwrap();
        assert_eq!(client.get_xattr("/f", name).unwrap().unwrap(), value);
        client
            .set_xattr("/f", "user.b", b"2", SetXattr::Any)
            .unwrap();
        let mut names = client.list_xattr("/f").unwrap();
        names.retain(|name| name.to_string_lossy().starts_with("user."));
        names.sort();
        assert_eq!(names, ["user.b", name]);
        client.remove_xattr("/f", name).unwrap();
        fails_with(client.remove_xattr("/f", name), Errno::NODATA);
        fails_with(client.get_xattr("/f", ""), Errno::RANGE);
        fails_with(client.get_xattr("/f", "a".repeat(256)), Errno::RANGE);
        fails_with(
            client.set_xattr("/f", name, &vec![0; 65_537], SetXattr::Any),
            Errno::TOOBIG,
        );
        fails_with(client.get_xattr("/missing", name), Errno::NOENT);
        // Names and values are looked at before paths.
        fails_with(client.remove_xattr("/missing", ""), Errno::RANGE);
        fails_with(
            client.set_xattr("/missing", name, &vec![0; 65_537], SetXattr::Any),
            Errno::TOOBIG,
        );
    });
}

#[test]
fn holes_are_found_made_and_filled() {
    each(|server, client| {
        let mut options = OpenOptions::new();
        let file = options
            .read(true)
            .write(true)
            .create(true)
            .open(client, "/f")
            .unwrap();
        const MIB: u64 = 1 << 20;
        file.write_at(b"end", 4 * MIB).unwrap();
        let data = file.seek_data(0).unwrap().unwrap();
        assert!(data > 0 && data <= 4 * MIB, "{server}: data at {data}");
        assert_eq!(file.seek_hole(0).unwrap(), Some(0));
        assert_eq!(file.seek_hole(4 * MIB).unwrap(), Some(4 * MIB + 3));
        assert_eq!(file.seek_data(5 * MIB).unwrap(), None);

        file.allocate(8 * MIB, MIB, Allocate::KeepSize).unwrap();
        assert_eq!(file.metadata().unwrap().len(), 4 * MIB + 3);
        file.allocate(4 * MIB, 2 * MIB, Allocate::Extend).unwrap();
        assert_eq!(file.metadata().unwrap().len(), 6 * MIB);
        let mut three = [0; 3];
        file.read_exact_at(&mut three, 4 * MIB).unwrap();
        assert_eq!(&three, b"end");
        file.allocate(4 * MIB, MIB, Allocate::PunchHole).unwrap();
        file.read_exact_at(&mut three, 4 * MIB).unwrap();
        assert_eq!(three, [0; 3]);
        assert_eq!(file.metadata().unwrap().len(), 6 * MIB);
        file.write_all_at(b"end", 4 * MIB).unwrap();
        file.allocate(4 * MIB, 9 * MIB, Allocate::ZeroKeepSize)
            .unwrap();
        file.read_exact_at(&mut three, 4 * MIB).unwrap();
        assert_eq!(three, [0; 3]);
        assert_eq!(file.metadata().unwrap().len(), 6 * MIB);
        file.allocate(4 * MIB, 3 * MIB, Allocate::Zero).unwrap();
        assert_eq!(file.metadata().unwrap().len(), 7 * MIB);
        assert_eq!(file.seek_data(1 << 63).unwrap(), None);
        assert_eq!(file.seek_hole(u64::MAX).unwrap(), None);
        fails_with(file.allocate(0, 0, Allocate::Extend), Errno::INVAL);
        let last = i64::MAX as u64;
        fails_with(file.allocate(last + 1, 1, Allocate::Extend), Errno::INVAL);
        fails_with(file.allocate(last, 1, Allocate::Extend), Errno::FBIG);
        let read_only = client.open("/f").unwrap();
        fails_with(read_only.allocate(0, 0, Allocate::Extend), Errno::INVAL);
        fails_with(read_only.allocate(0, 1, Allocate::Extend), Errno::BADF);
    });
}

#[test]
fn the_daemon_copies_ranges_itself() {
    each(|_, client| {
        let data: Vec<u8> = (0..100_000u32).map(|i| (i / 3) as u8).collect();
        client.write("/from", &data).unwrap();
        client.write("/to", b"0123456789").unwrap();
        let from = client.open("/from").unwrap();
        let mut options = OpenOptions::new();
        let to = options.write(true).open(client, "/to").unwrap();
        let mut done = 0;
        while done < 90_000 {
            done += from
                .copy_range(10_000 + done, &to, 5 + done, 90_000 - done)
                .unwrap();
        }
        assert_eq!(from.copy_range(100_000, &to, 0, 10).unwrap(), 0);
        let copied = client.read("/to").unwrap();
        assert_eq!(&copied[..5], b"01234");
        assert!(copied[5..] == data[10_000..]);
        fails_with(to.copy_range(0, &to, 0, 1), Errno::BADF);
        fails_with(from.copy_range(0, &from, 0, 1), Errno::BADF);
        // Within a file, but not onto itself.
        let both = options.read(true).open(client, "/from").unwrap();
        fails_with(both.copy_range(0, &both, 99, 100), Errno::INVAL);
        fails_with(both.copy_range(99, &both, 0, 100), Errno::INVAL);
        assert_eq!(both.copy_range(0, &both, 100_000, 100).unwrap(), 100);
        assert_eq!(both.copy_range(0, &both, 0, 0).unwrap(), 0);
        let copied = client.read("/from").unwrap();
        assert!(copied[100_000..] == data[..100]);
        // What is behind the end does not overlap.
        assert_eq!(both.copy_range(100_090, &both, 100_100, 1000).unwrap(), 10);
        let last = i64::MAX as u64;
        assert_eq!(from.copy_range(100_090, &to, 0, u64::MAX).unwrap(), 20);
        assert_eq!(from.copy_range(100_091, &to, 0, last).unwrap(), 19);
        fails_with(from.copy_range(last + 1, &to, 0, 1), Errno::INVAL);
        fails_with(from.copy_range(0, &to, last, 1), Errno::FBIG);
        fails_with(from.copy_range(0, &to, last, 0), Errno::FBIG);
        client.sync_dir("/").unwrap();
        client.sync_fs().unwrap();
        fails_with(client.sync_dir("/to"), Errno::NOTDIR);
    });
}

/// What is to be read is always larger than the room that the daemon says it takes.
#[test]
fn a_value_that_never_fits_is_an_io_error() {
    let script = |seen: &Seen| match (seen.opcode, seen.size) {
        (Some(Opcode::Getxattr), 0) => Action::Body(vec![8, 0, 0, 0, 0, 0, 0, 0]),
        (Some(Opcode::Getxattr), _) => Action::Errno(Errno::RANGE),
        _ => Action::Answer,
    };
    let fs = Memory::new(MemOptions::default());
    let (transport, peer) = scripted::start(fs, script, &ServerOptions::default()).unwrap();
    let client = Client::builder().connect(transport).unwrap();
    client.write("/f", b"").unwrap();
    fails_with(client.get_xattr("/f", "user.a"), Errno::IO);
    let log = peer.log();
    assert!(log.iter().any(|seen| seen.size == 65_536));
}

#[test]
fn lists_of_attributes_that_no_file_has_are_io_errors() {
    for (list, good) in [
        (&b"user.a\0user.b\0"[..], true),
        (b"user.a\0\0user.b\0", false),
        (b"\0", false),
        (b"user.a", false),
    ] {
        let size = list.len() as u32;
        let script = move |seen: &Seen| match seen.opcode {
            // LISTXATTR is asked for the size first.
            Some(Opcode::Listxattr) if seen.nth == 1 => {
                Action::Body([size.to_ne_bytes(), [0; 4]].concat())
            }
            Some(Opcode::Listxattr) => Action::Body(list.to_vec()),
            _ => Action::Answer,
        };
        let fs = Memory::new(MemOptions::default());
        let (transport, _peer) = scripted::start(fs, script, &ServerOptions::default()).unwrap();
        let client = Client::builder().connect(transport).unwrap();
        client.write("/f", b"").unwrap();
        match client.list_xattr("/f") {
            Ok(names) => assert!(good && names == ["user.a", "user.b"]),
            result => {
                assert!(!good);
                fails_with(result, Errno::IO);
            }
        }
    }
}

/// Each operation that a daemon may lack is asked for once; then the client knows.
#[test]
fn an_unknown_operation_is_asked_for_once() {
    let unknown = [
        Opcode::Getxattr,
        Opcode::Setxattr,
        Opcode::Listxattr,
        Opcode::Removexattr,
        Opcode::Lseek,
        Opcode::Fallocate,
        Opcode::CopyFileRange,
        Opcode::CopyFileRange64,
        Opcode::Fsync,
        Opcode::Fsyncdir,
        Opcode::Flush,
        Opcode::Syncfs,
        Opcode::Link,
    ];
    let rules = unknown.iter().fold(Rules::new(), |rules, opcode| {
        rules.every(*opcode, Action::Errno(Errno::NOSYS))
    });
    let fs = Memory::new(MemOptions::default());
    let (transport, peer) = scripted::start(fs, rules, &ServerOptions::default()).unwrap();
    let client = Client::builder().connect(transport).unwrap();
    client.create("/f").unwrap().close().unwrap();
    for _ in 0..3 {
        fails_with(client.get_xattr("/f", "user.a"), Errno::OPNOTSUPP);
        fails_with(
            client.set_xattr("/f", "user.a", b"1", SetXattr::Any),
            Errno::OPNOTSUPP,
        );
        fails_with(client.list_xattr("/f"), Errno::OPNOTSUPP);
        fails_with(client.remove_xattr("/f", "user.a"), Errno::OPNOTSUPP);
        fails_with(client.hard_link("/f", "/g"), Errno::PERM);
        let mut options = OpenOptions::new();
        let file = options.read(true).write(true).open(&client, "/f").unwrap();
        file.write_at(b"abc", 0).unwrap();
        assert_eq!(file.seek_data(1).unwrap(), Some(1));
        assert_eq!(file.seek_hole(1).unwrap(), Some(3));
        fails_with(file.allocate(0, 1, Allocate::Extend), Errno::OPNOTSUPP);
        fails_with(file.copy_range(0, &file, 10, 1), Errno::OPNOTSUPP);
        file.sync_all().unwrap();
        client.sync_dir("/").unwrap();
        client.sync_fs().unwrap();
        file.close().unwrap();
    }
    for opcode in unknown {
        let log = peer.log();
        let asked = log
            .iter()
            .filter(|seen| seen.opcode == Some(opcode))
            .count();
        assert_eq!(asked, 1, "{opcode:?}");
    }
    client.shutdown().unwrap();
    assert_eq!(peer.join().lookups, 0);
}

#[test]
fn a_link_to_a_directory_is_no_directory_to_those_who_do_not_follow() {
    each(|_, client| {
        client.create_dir("/dir").unwrap();
        client.write("/dir/f", b"").unwrap();
        client.symlink("dir", "/link").unwrap();
        assert_eq!(client.read_dir("/link").unwrap().count(), 1);
        assert_eq!(client.read_dir_no_follow("/dir").unwrap().count(), 1);
        fails_with(client.read_dir_no_follow("/link"), Errno::NOTDIR);
    });
}
