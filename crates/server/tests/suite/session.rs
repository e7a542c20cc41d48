//! INIT, options, limits, malformed requests, and the ends of a connection.

use crate::common::{Failure, Raw, directory, me, memory, name, over, small};
use fusewire_server::dir::{DirOptions, Directory};
use fusewire_server::mem::{MemOptions, Memory, TimeSource};
use fusewire_server::{
    CacheMode, Caching, Call, Errno, Features, FileSystem, Reply, Result, ServerOptions, Usage,
    start, start_shared,
};
use fusewire_transport::Transport;
use fusewire_wire::abi::*;
use fusewire_wire::{
    Caller, Extensions, Head, InitFlags, MAX_HEAD_BYTES, Opcode, OpenOutFlags, Request,
    SetattrValid,
};
use proptest::prelude::*;
use rustix::fs::OFlags;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::sync::Arc;
use std::time::Duration;
use zerocopy::{FromBytes, IntoBytes};

const RDWR: i32 = 2;
const EIO: i32 = 5;
const EACCES: i32 = 13;
const EINVAL: i32 = 22;
const ENFILE: i32 = 23;
const EFBIG: i32 = 27;
const ENOSPC: i32 = 28;
const EROFS: i32 = 30;
const ENOSYS: i32 = 38;
const EPROTO: i32 = 71;
const ESTALE: i32 = 116;

fn flags_of(out: &InitOut) -> InitFlags {
    InitFlags::from_halves(out.flags, out.flags2)
}

fn init_with(raw: &Raw, major: u32, minor: u32) -> std::result::Result<Vec<u8>, Failure> {
    let arg = InitIn {
        major,
        minor,
        max_readahead: 4096,
        flags: InitFlags::BIG_WRITES.low(),
        ..InitIn::default()
    };
    raw.call(0, &Request::Init(arg), &[])
}

#[test]
fn init_grants_what_is_offered_and_supported() {
    let fs = Memory::new(MemOptions {
        writeback: true,
        ..MemOptions::default()
    });
    let (client, server) = start(fs, &small()).unwrap();
    let raw = Raw::new(client);
    // Nothing is answered before INIT.
    assert_eq!(raw.getattr(ROOT_ID, None).unwrap_err().errno(), EIO);
    let out = raw.init(InitFlags::all()).unwrap();
    assert_eq!((out.major, out.minor), (7, 45));
    assert_eq!((out.max_write, out.max_pages), (1 << 20, 256));
    let flags = flags_of(&out);
    assert!(flags.contains(InitFlags::WRITEBACK_CACHE | InitFlags::DO_READDIRPLUS));
    assert!(flags.contains(InitFlags::POSIX_LOCKS | InitFlags::FLOCK_LOCKS));
    assert!(!flags.contains(InitFlags::NO_OPEN_SUPPORT));
    // Only what was offered.
    let out = raw
        .init(InitFlags::BIG_WRITES | InitFlags::EXPORT_SUPPORT)
        .unwrap();
    assert_eq!(flags_of(&out), InitFlags::BIG_WRITES | InitFlags::INIT_EXT);
    // Old minors get the old structure, too old ones a refusal, newer majors our version.
    assert_eq!(init_with(&raw, 7, 19).unwrap().len(), 24);
    assert_eq!(init_with(&raw, 7, 18).unwrap_err().errno(), EPROTO);
    assert_eq!(init_with(&raw, 6, 45).unwrap_err().errno(), EPROTO);
    let newer = init_with(&raw, 8, 0).unwrap();
    assert_eq!(
        InitOut::read_from_bytes(&newer[..])
            .map(|o| o.major)
            .unwrap_or(7),
        7
    );
    raw.init(InitFlags::all()).unwrap();
    raw.leave();
    assert_eq!(server.join(), Usage::default());
}

#[test]
fn after_destroy_nothing_is_answered_until_init() {
    let (client, server) = start(memory(), &small()).unwrap();
    let raw = Raw::connected(client);
    raw.mkdir(ROOT_ID, b"d", 0o755).unwrap();
    raw.done(0, &Request::Destroy, &[]).unwrap();
    assert_eq!(raw.getattr(ROOT_ID, None).unwrap_err().errno(), EIO);
    // A new session has forgotten what the old one knew, but not its files.
    raw.init(InitFlags::all()).unwrap();
    assert_eq!(server.usage(), Usage::default());
    raw.known.borrow_mut().clear();
    raw.lookup(ROOT_ID, b"d").unwrap();
    raw.leave();
    assert_eq!(server.join(), Usage::default());
}

#[test]
fn a_shared_file_system_outlives_its_connection() {
    let fs = Arc::new(memory());
    for round in 0..3_u8 {
        let (client, server) = start_shared(Arc::clone(&fs), &small()).unwrap();
        let raw = Raw::connected(client);
        let (_, open) = raw.create(ROOT_ID, b"f", RDWR, 0o644).unwrap();
        assert_eq!(raw.read(open.fh, 0, 10).unwrap(), vec![7; round.into()]);
        raw.write(open.fh, round.into(), &[7]).unwrap();
        // The client vanishes without a word.
        drop(raw);
        assert_eq!(server.join().open_handles, 1);
    }
}

#[test]
fn what_is_left_behind_is_told() {
    let (client, server) = start(memory(), &small()).unwrap();
    let raw = Raw::connected(client);
    raw.create(ROOT_ID, b"f", RDWR, 0o644).unwrap();
    raw.lookup(ROOT_ID, b"f").unwrap();
    raw.transport.close();
    let left = Usage {
        live_nodes: 1,
        lookups: 2,
        open_handles: 1,
    };
    assert_eq!(server.count(Opcode::Lookup), 1);
    assert_eq!(server.join(), left);
}

#[test]
fn read_only_refuses_every_change_and_nothing_else() {
    let fs = Memory::new(MemOptions {
        read_only: true,
        ..MemOptions::default()
    });
    over(fs, |raw, _| {
        let erofs = |failure: Failure| assert_eq!(failure.errno(), EROFS);
        erofs(raw.mkdir(ROOT_ID, b"d", 0o755).unwrap_err());
        erofs(raw.create(ROOT_ID, b"f", RDWR, 0o644).unwrap_err());
        erofs(raw.symlink(ROOT_ID, b"l", b"t").unwrap_err());
        erofs(raw.unlink(ROOT_ID, b"f").unwrap_err());
        erofs(raw.rename((ROOT_ID, b"a"), (ROOT_ID, b"b"), 0).unwrap_err());
        erofs(raw.chmod(ROOT_ID, 0o777).unwrap_err());
        assert!(raw.list(ROOT_ID, 4096, true).unwrap().is_empty());
        raw.statfs(ROOT_ID).unwrap();
    });
    let temp = tempfile::tempdir().unwrap();
    std::fs::write(temp.path().join("f"), "x").unwrap();
    let fs = Directory::new(
        temp.path(),
        DirOptions {
            read_only: true,
            ..DirOptions::default()
        },
    )
    .unwrap();
    over(fs, |raw, _| {
        let node = raw.lookup(ROOT_ID, b"f").unwrap().nodeid;
        assert_eq!(raw.open(node, RDWR).unwrap_err().errno(), EROFS);
        let truncate = OFlags::TRUNC.bits() as i32;
        assert_eq!(raw.open(node, truncate).unwrap_err().errno(), EROFS);
        let fh = raw.open(node, 0).unwrap().fh;
        assert_eq!(raw.read(fh, 0, 9).unwrap(), b"x");
        raw.release(fh).unwrap();
    });
}

#[test]
fn a_client_that_caches_writes_can_read_back_what_it_opened_for_writing() {
    let run = |raw: &Raw| {
        let append = OFlags::APPEND.bits() as i32;
        // CREATE and OPEN alike, and O_APPEND is the client's.
        let (entry, created) = raw.create(ROOT_ID, b"f", 1 | append, 0o644).unwrap();
        raw.write(created.fh, 0, b"0123").unwrap();
        raw.write(created.fh, 1, b"x").unwrap();
        assert_eq!(raw.read(created.fh, 0, 9).unwrap(), b"0x23");
        let opened = raw.open(entry.nodeid, 1 | append).unwrap();
        raw.write(opened.fh, 2, b"y").unwrap();
        assert_eq!(raw.read(opened.fh, 0, 9).unwrap(), b"0xy3");
        raw.release(created.fh).unwrap();
        raw.release(opened.fh).unwrap();
    };
    let fs = Memory::new(MemOptions {
        writeback: true,
        ..MemOptions::default()
    });
    over(fs, |raw, _| run(raw));
    let (_temp, fs) = directory(DirOptions {
        writeback: true,
        ..DirOptions::default()
    });
    over(fs, |raw, _| run(raw));
}

#[test]
fn a_full_disk_takes_what_fits_and_then_says_so() {
    let fs = Memory::new(MemOptions {
        capacity_bytes: 16 * 4096,
        max_inodes: 4,
        ..MemOptions::default()
    });
    over(fs, |raw, _| {
        let (a, open) = raw.create(ROOT_ID, b"a", RDWR, 0o644).unwrap();
        assert_eq!(
            raw.write(open.fh, 100, &[1; 20 * 4096]).unwrap(),
            16 * 4096 - 100
        );
        assert_eq!(raw.getattr(a.nodeid, None).unwrap().size, 16 * 4096);
        assert_eq!(
            raw.write(open.fh, 1 << 20, b"x").unwrap_err().errno(),
            ENOSPC
        );
        assert_eq!(raw.getattr(a.nodeid, None).unwrap().size, 16 * 4096);
        // What is there can be overwritten.
        assert_eq!(raw.write(open.fh, 0, &[2; 4096]).unwrap(), 4096);
        let st = raw.statfs(ROOT_ID).unwrap();
        assert_eq!((st.blocks, st.bfree, st.files, st.ffree), (16, 0, 4, 2));
        raw.truncate(a.nodeid, 4096).unwrap();
        assert_eq!(raw.statfs(ROOT_ID).unwrap().bfree, 15);
        assert_eq!(
            raw.fallocate(open.fh, 0, 0, 17 * 4096).unwrap_err().errno(),
            ENOSPC
        );
        raw.fallocate(open.fh, 0, 0, 16 * 4096).unwrap();
        assert_eq!(
            raw.fallocate(open.fh, 0, 0, 1 << 62).unwrap_err().errno(),
            ENOSPC
        );
        assert_eq!(
            raw.write(open.fh, i64::MAX as u64, b"x")
                .unwrap_err()
                .errno(),
            EFBIG
        );
        // An unlinked file gives its room back when it is closed and forgotten, not before.
        raw.unlink(ROOT_ID, b"a").unwrap();
        assert_eq!(raw.statfs(ROOT_ID).unwrap().bfree, 0);
        raw.release(open.fh).unwrap();
        raw.forget(a.nodeid);
        assert_eq!(raw.statfs(ROOT_ID).unwrap().bfree, 16);
        for n in [&b"1"[..], b"2", b"3"] {
            raw.mkdir(ROOT_ID, n, 0o755).unwrap();
        }
        assert_eq!(raw.mkdir(ROOT_ID, b"4", 0o755).unwrap_err().errno(), ENOSPC);
    });
}

#[test]
fn caching_is_as_chosen() {
    let negative = Caching {
        negative_timeout: Duration::from_millis(2500),
        ..Caching::always()
    };
    let cases = [
        (Caching::never(), 0, OpenOutFlags::DIRECT_IO, false),
        (Caching::auto(), 1, OpenOutFlags::empty(), true),
        (negative, 86_400, OpenOutFlags::KEEP_CACHE, true),
    ];
    for (caching, secs, file_flags, plus) in cases {
        let run = |raw: &Raw| {
            let flags = flags_of(&raw.init(InitFlags::all()).unwrap());
            assert_eq!(flags.contains(InitFlags::DO_READDIRPLUS), plus);
            let (entry, open) = raw.create(ROOT_ID, b"f", RDWR, 0o644).unwrap();
            assert_eq!((entry.entry_valid, entry.attr_valid), (secs, secs));
            assert_eq!(open.open_flags, file_flags.bits());
            raw.release(open.fh).unwrap();
            if caching.mode == CacheMode::Always {
                let absent = raw.lookup(ROOT_ID, b"absent").unwrap();
                assert_eq!(absent.nodeid, 0);
                assert_eq!(
                    (absent.entry_valid, absent.entry_valid_nsec),
                    (2, 500_000_000)
                );
            } else {
                raw.lookup(ROOT_ID, b"absent").unwrap_err();
            }
        };
        let fs = Memory::new(MemOptions {
            caching,
            ..MemOptions::default()
        });
        over(fs, |raw, _| run(raw));
        let (_temp, fs) = directory(DirOptions {
            caching,
            ..DirOptions::default()
        });
        over(fs, |raw, _| run(raw));
    }
}

#[test]
fn logical_time_makes_everything_the_same_each_time() {
    let run = || {
        let fs = Memory::new(MemOptions {
            time: TimeSource::Logical,
            ..MemOptions::default()
        });
        let mut log = Vec::new();
        over(fs, |raw, _| {
            raw.caller.set(Caller::default());
            let dir = raw.mkdir(ROOT_ID, b"d", 0o755).unwrap();
            let (file, open) = raw.create(dir.nodeid, b"f", RDWR, 0o644).unwrap();
            raw.write(open.fh, 0, b"x").unwrap();
            raw.release(open.fh).unwrap();
            for node in [ROOT_ID, dir.nodeid, file.nodeid] {
                log.push(raw.getattr(node, None).unwrap());
            }
        });
        log
    };
    assert_eq!(run(), run());
}

#[test]
fn too_many_nodes_are_refused_before_anything_is_made() {
    let (temp, fs) = directory(DirOptions {
        max_nodes: 2,
        ..DirOptions::default()
    });
    over(fs, |raw, _| {
        let a = raw.mkdir(ROOT_ID, b"a", 0o755).unwrap().nodeid;
        raw.mkdir(ROOT_ID, b"b", 0o755).unwrap();
        assert_eq!(raw.mkdir(ROOT_ID, b"c", 0o755).unwrap_err().errno(), ENFILE);
        assert_eq!(
            raw.create(ROOT_ID, b"c", RDWR, 0).unwrap_err().errno(),
            ENFILE
        );
        assert!(!temp.path().join("c").exists());
        // What is known is found, and can be listed; the rest is listed without a node.
        std::fs::write(temp.path().join("d"), "").unwrap();
        assert_eq!(raw.lookup(ROOT_ID, b"a").unwrap().nodeid, a);
        assert_eq!(raw.lookup(ROOT_ID, b"d").unwrap_err().errno(), ENFILE);
        let list = raw.list(ROOT_ID, 4096, true).unwrap();
        let nodes: Vec<_> = list.iter().map(|l| l.entry.unwrap().nodeid != 0).collect();
        assert_eq!(nodes, [true, true, false]);
        raw.forget(a);
        raw.lookup(ROOT_ID, b"d").unwrap();
    });
}

#[test]
fn a_served_directory_is_not_left() {
    let temp = tempfile::tempdir().unwrap();
    std::fs::write(temp.path().join("secret"), "secret").unwrap();
    let root = temp.path().join("root");
    std::fs::create_dir(&root).unwrap();
    std::os::unix::fs::symlink("../secret", root.join("up")).unwrap();
    std::os::unix::fs::symlink(temp.path(), root.join("above")).unwrap();
    let fs = Directory::new(&root, DirOptions::default()).unwrap();
    over(fs, |raw, _| {
        let up = raw.lookup(ROOT_ID, b"up").unwrap();
        assert_eq!(up.attr.mode & S_IFMT, 0o120_000);
        assert!(raw.open(up.nodeid, 0).is_err());
        let above = raw.lookup(ROOT_ID, b"above").unwrap().nodeid;
        assert!(raw.lookup(above, b"secret").is_err());
        assert!(raw.opendir(above).is_err());
        assert!(raw.create(above, b"new", RDWR, 0o644).is_err());
        // The encoder sends no such names; a hostile client would.
        for n in [&b"../secret"[..], b"..", b".", b"", b"a/b"] {
            assert_eq!(
                lookup_bytes(raw, n),
                Err(Failure::Errno(if n.is_empty() { 2 } else { EINVAL }))
            );
        }
        // A directory moved out of the root on the host stays the directory it was.
        let inside = raw.mkdir(ROOT_ID, b"inside", 0o755).unwrap().nodeid;
        std::fs::rename(root.join("inside"), temp.path().join("outside")).unwrap();
        assert!(raw.lookup(inside, b"secret").is_err());
    });
}

/// LOOKUP of bytes that may be no name.
fn lookup_bytes(raw: &Raw, n: &[u8]) -> std::result::Result<(), Failure> {
    let mut head = message(Opcode::Lookup, ROOT_ID, n.len() + 1);
    head.extend_from_slice(n);
    head.push(0);
    let tag = raw.submit(1000, &head, &[], 16 + size_of::<EntryOut>() as u32, 0);
    raw.finish(tag).map(|_| ())
}

/// A header with unique 1000, to be followed by `rest` bytes.
fn message(opcode: Opcode, nodeid: u64, rest: usize) -> Vec<u8> {
    let header = InHeader {
        len: 40 + rest as u32,
        opcode: opcode as u32,
        unique: 1000,
        nodeid,
        ..InHeader::default()
    };
    header.as_bytes().to_vec()
}

#[test]
fn a_file_swapped_on_the_host_is_not_mistaken() {
    let (temp, fs) = directory(DirOptions::default());
    let path = temp.path().join("f");
    std::fs::write(&path, "old").unwrap();
    over(fs, |raw, _| {
        let old = raw.lookup(ROOT_ID, b"f").unwrap();
        std::fs::rename(&path, temp.path().join("moved")).unwrap();
        std::fs::write(&path, "new!").unwrap();
        let new = raw.lookup(ROOT_ID, b"f").unwrap();
        assert_ne!(old.nodeid, new.nodeid);
        for (node, contents) in [(old.nodeid, &b"old"[..]), (new.nodeid, b"new!")] {
            let fh = raw.open(node, 0).unwrap().fh;
            assert_eq!(raw.read(fh, 0, 9).unwrap(), contents);
            raw.release(fh).unwrap();
        }
        assert_eq!(raw.lookup(ROOT_ID, b"moved").unwrap().nodeid, old.nodeid);
    });
}

#[test]
fn permissions_are_those_asked_for_whatever_this_process_masks() {
    let (temp, fs) = directory(DirOptions::default());
    // One umask for all tests of this process, which none of the others depends on.
    rustix::process::umask(rustix::fs::Mode::from_raw_mode(0o077));
    over(fs, |raw, _| {
        let (file, open) = raw.create(ROOT_ID, b"f", RDWR, 0o664).unwrap();
        raw.release(open.fh).unwrap();
        assert_eq!(file.attr.mode, 0o100_664);
        assert_eq!(
            raw.mkdir(ROOT_ID, b"d", 0o1777).unwrap().attr.mode,
            0o041_777
        );
        assert_eq!(
            raw.mknod(ROOT_ID, b"p", 0o010_666, 0).unwrap().attr.mode,
            0o010_666
        );
        let mode = |n| {
            std::fs::metadata(temp.path().join(n))
                .unwrap()
                .permissions()
                .mode()
        };
        assert_eq!(mode("f") & 0o7777, 0o664);
        assert_eq!(mode("d") & 0o7777, 0o1777);
    });
}

#[test]
fn what_root_makes_for_others_is_theirs() {
    if !rustix::process::geteuid().is_root() {
        // As a user, everything is created as that user whoever asks: the other half of the rule.
        let (_temp, fs) = directory(DirOptions::default());
        over(fs, |raw, _| {
            raw.caller.set(Caller {
                uid: 0,
                gid: 0,
                pid: 0,
            });
            let made = raw.mkdir(ROOT_ID, b"d", 0o755).unwrap();
            assert_eq!(made.attr.uid, me().uid);
        });
        return;
    }
    let (temp, fs) = directory(DirOptions::default());
    std::fs::set_permissions(temp.path(), PermissionsExt::from_mode(0o1777)).unwrap();
    over(fs, |raw, _| {
        let user = Caller {
            uid: 1234,
            gid: 2345,
            pid: 1,
        };
        raw.caller.set(user);
        let dir = raw.mkdir(ROOT_ID, b"d", 0o755).unwrap();
        let (file, open) = raw.create(dir.nodeid, b"f", RDWR, 0o4755).unwrap();
        raw.release(open.fh).unwrap();
        let link = raw.symlink(dir.nodeid, b"l", b"f").unwrap();
        let pipe = raw.mknod(dir.nodeid, b"p", 0o010_600, 0).unwrap();
        for entry in [dir, file, link, pipe] {
            assert_eq!((entry.attr.uid, entry.attr.gid), (1234, 2345));
        }
        assert_eq!(file.attr.mode, 0o104_755);
        // In a directory of root's the caller may not create; with its group's help it may.
        std::fs::create_dir(temp.path().join("roots")).unwrap();
        let path = temp.path().join("roots");
        std::os::unix::fs::chown(&path, Some(0), Some(77)).unwrap();
        std::fs::set_permissions(&path, PermissionsExt::from_mode(0o2770)).unwrap();
        let roots = raw.lookup(ROOT_ID, b"roots").unwrap().nodeid;
        assert_eq!(raw.mkdir(roots, b"d", 0o755).unwrap_err().errno(), EACCES);
        let request = Request::Mkdir {
            name: name(b"d"),
            mode: 0o755,
            umask: 0,
        };
        let extensions = Extensions {
            supp_groups: Some(77),
            ..Extensions::default()
        };
        let tag = raw.send_with(roots, &request, &extensions, &[]);
        let body = raw.finish(tag).unwrap();
        let made = EntryOut::read_from_bytes(&body[..]).unwrap();
        raw.known.borrow_mut().insert(made.nodeid, 1);
        assert_eq!((made.attr.uid, made.attr.gid), (1234, 77));
        assert_eq!(made.attr.mode, 0o042_755);
        // The worker is root again, for the next caller and for itself.
        raw.caller.set(me());
        let mine = raw.mkdir(roots, b"mine", 0o700).unwrap();
        assert_eq!(mine.attr.uid, 0);
        let other = SetattrIn {
            uid: 4321,
            gid: 5432,
            ..SetattrIn::default()
        };
        let both = SetattrValid::UID | SetattrValid::GID;
        let attr = raw.setattr(mine.nodeid, both, other).unwrap();
        assert_eq!((attr.uid, attr.gid), (4321, 5432));
        let meta = std::fs::metadata(path.join("mine")).unwrap();
        assert_eq!((meta.uid(), meta.gid()), (4321, 5432));
    });
}

#[test]
fn every_operation_survives_a_short_or_wrong_message() {
    let (client, server) = start(memory(), &small()).unwrap();
    let raw = Raw::connected(client);
    for opcode in Opcode::ALL {
        if opcode.replies() == fusewire_wire::Replies::Never || *opcode == Opcode::Interrupt {
            continue;
        }
        // Nothing but a header, and rubbish after one.
        for rest in [0, 1, 8, 100] {
            let mut head = message(*opcode, ROOT_ID, rest);
            head.extend(std::iter::repeat_n(0xa5, rest));
            let tag = raw.submit(1000, &head, &[], 400, 0);
            match raw.finish(tag) {
                Ok(_) | Err(Failure::Errno(_)) => {}
                other => panic!("{opcode} with {rest} bytes: {other:?}"),
            }
            // DESTROY and INIT may have been right.
            raw.init(InitFlags::all()).unwrap();
        }
    }
    let unknown = InHeader {
        len: 40,
        opcode: 999,
        unique: 1000,
        ..InHeader::default()
    };
    let tag = raw.submit(1000, unknown.as_bytes(), &[], 16, 0);
    assert_eq!(raw.finish(tag), Err(Failure::Errno(ENOSYS)));
    // The header and the message disagree about the length.
    for len in [0, 39, 41, u32::MAX] {
        let header = InHeader {
            len,
            opcode: Opcode::Statfs as u32,
            unique: 1000,
            nodeid: 1,
            ..InHeader::default()
        };
        let tag = raw.submit(1000, header.as_bytes(), &[], 16 + 80, 0);
        assert_eq!(raw.finish(tag), Err(Failure::Errno(EINVAL)));
    }
    // Not even a header: an answer of no length.
    let tag = raw.submit(1000, &[0; 39], &[], 16, 0);
    assert_eq!(raw.finish(tag), Err(Failure::Garbled));
    // No room for the answer: refused, and the lookup not counted.
    raw.mkdir(ROOT_ID, b"d", 0o755).unwrap();
    raw.known.borrow_mut().clear();
    raw.init(InitFlags::all()).unwrap();
    let mut head = message(Opcode::Lookup, ROOT_ID, 2);
    head.extend_from_slice(b"d\0");
    let tag = raw.submit(1000, &head, &[], 100, 0);
    assert_eq!(raw.finish(tag), Err(Failure::Errno(EIO)));
    assert_eq!(server.usage(), Usage::default());
    raw.leave();
    assert_eq!(server.join(), Usage::default());
}

proptest! {
    /// Requests that were right before some of their bytes were changed.
    #[test]
    fn no_bytes_end_the_server(
        which in 0..12_usize,
        flips in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..6),
        cut in any::<prop::sample::Index>(),
        fix_len in any::<bool>(),
    ) {
        let (client, server) = start(memory(), &small()).unwrap();
        let raw = Raw::connected(client);
        let read = ReadIn { fh: 1, size: 4096, ..ReadIn::default() };
        let name = name(b"name");
        let requests = [
            Request::Lookup { name },
            Request::Setattr(SetattrIn { valid: 0xfff, ..SetattrIn::default() }),
            Request::Mkdir { name, mode: 0o755, umask: 0 },
            Request::Create { name, flags: 2, mode: 0o644, umask: 0, open_flags: 0 },
            Request::Read(read),
            Request::Readdirplus(read),
            Request::Opendir { flags: 0, open_flags: 0 },
            Request::Rename { new_dir: 1, name, new_name: name },
            Request::Write(WriteIn { fh: 1, size: 0, ..WriteIn::default() }),
            Request::Fallocate(FallocateIn { fh: 1, length: 1, ..FallocateIn::default() }),
            Request::CopyFileRange64(CopyFileRangeIn { fh_in: 1, fh_out: 1, len: 9, ..CopyFileRangeIn::default() }),
            Request::Setxattr { name: fusewire_wire::XattrName::new(b"user.a").unwrap(), size: 0, flags: 0, setxattr_flags: 0, ext: true },
        ];
        raw.create(ROOT_ID, b"f", RDWR, 0o644).unwrap();
        let head = Head { unique: 1000, nodeid: ROOT_ID, caller: me() };
        let mut bytes = [0; MAX_HEAD_BYTES];
        let extensions = match which {
            2 | 3 => Extensions { supp_groups: Some(5), ..Extensions::default() },
            _ => Extensions::default(),
        };
        let len = requests[which].encode(&head, &extensions, &mut bytes).unwrap();
        let mut bytes = bytes[..len].to_vec();
        for (at, byte) in flips {
            let at = at.index(bytes.len());
            bytes[at] = byte;
        }
        bytes.truncate(cut.index(len * 4).clamp(1, len));
        if fix_len && bytes.len() >= 4 {
            let len = bytes.len() as u32;
            bytes[..4].copy_from_slice(&len.to_ne_bytes());
        }
        let tag = raw.submit(1000, &bytes, &[], 400, 4096);
        let _ = raw.finish(tag);
        // It still lives: DESTROY may have been what came out.
        raw.init(InitFlags::all()).unwrap();
        raw.known.borrow_mut().clear();
        raw.statfs(ROOT_ID).unwrap();
        raw.leave();
        prop_assert_eq!(server.join(), Usage::default());
    }
}

#[test]
fn workers_answer_at_once_and_in_any_order() {
    let options = ServerOptions {
        threads: 4,
        poll_ns: 20_000,
        ..small()
    };
    for round in 0..2 {
        let (_temp, dir) = directory(DirOptions::default());
        // The same storm over both file systems.
        if round == 0 {
            storm(start(memory(), &options).unwrap());
        } else {
            storm(start(dir, &options).unwrap());
        }
    }
}

fn storm<F: FileSystem>(
    (client, server): (
        fusewire_transport::InProcess,
        fusewire_server::ServerHandle<F>,
    ),
) {
    let raw = Raw::connected(client);
    let (entry, open) = raw.create(ROOT_ID, b"f", RDWR, 0o644).unwrap();
    raw.truncate(entry.nodeid, 64 * 4096).unwrap();
    for _ in 0..20 {
        let tags: Vec<_> = (0..32_u64)
            .map(|n| {
                let write = WriteIn {
                    fh: open.fh,
                    offset: n * 4096,
                    size: 4096,
                    ..WriteIn::default()
                };
                raw.send(entry.nodeid, &Request::Write(write), &[n as u8; 4096])
            })
            .collect();
        for tag in tags.into_iter().rev() {
            let body = raw.finish(tag).unwrap();
            assert_eq!(fusewire_wire::reply::write(&body).unwrap().size, 4096);
        }
        let lookups: Vec<_> = (0..32)
            .map(|_| raw.send(ROOT_ID, &Request::Lookup { name: name(b"f") }, &[]))
            .collect();
        for tag in lookups {
            raw.finish(tag).unwrap();
        }
        raw.tell(entry.nodeid, &Request::Forget { nlookup: 32 });
    }
    let all = raw.read(open.fh, 0, 32 * 4096).unwrap();
    assert!(
        all.chunks(4096)
            .enumerate()
            .all(|(n, c)| c.iter().all(|b| *b == n as u8))
    );
    raw.release(open.fh).unwrap();
    raw.leave();
    assert_eq!(server.join(), Usage::default());
}

#[test]
fn dropping_the_server_is_its_death() {
    let (client, server) = start(memory(), &small()).unwrap();
    let raw = Raw::connected(client);
    drop(server);
    assert_eq!(raw.getattr(ROOT_ID, None), Err(Failure::Dead));
    assert!(matches!(
        raw.transport.watch(),
        fusewire_transport::Death::Peer(_)
    ));
}

/// A file system that does not do what it should.
struct Odd;

impl FileSystem for Odd {
    fn features(&self) -> Features {
        Features {
            flags: InitFlags::BIG_WRITES,
            max_write_bytes: 4096,
            time_gran_ns: 1,
            read_only: false,
        }
    }

    fn begin(&self) {}

    fn call(&self, call: &Call<'_>) -> Result<Reply> {
        match call.request {
            Request::Getattr { .. } => Ok(Reply::Written(3)),
            Request::Statfs => panic!("a bug in a file system"),
            Request::Read(_) => Ok(Reply::Payload(call.io.out_len() + 1)),
            _ => Err(Errno::NOSYS),
        }
    }

    fn forget(&self, _: u64, _: u64) {}

    fn usage(&self) -> Usage {
        Usage::default()
    }
}

#[test]
fn a_broken_file_system_gives_errors_and_never_a_hang() {
    let (client, server) = start(Odd, &small()).unwrap();
    let raw = Raw::connected(client);
    assert_eq!(raw.getattr(ROOT_ID, None).unwrap_err().errno(), EIO);
    assert_eq!(raw.read(1, 0, 100).unwrap_err().errno(), EIO);
    assert_eq!(raw.readlink(ESTALE as u64).unwrap_err().errno(), ENOSYS);
    // A panic ends the worker, and with it the connection. Either way the call ends.
    assert!(matches!(
        raw.statfs(ROOT_ID),
        Err(Failure::Dead | Failure::Garbled)
    ));
    assert_eq!(raw.getattr(ROOT_ID, None), Err(Failure::Dead));
    drop(raw);
    server.join();
}

#[test]
fn a_source_that_cannot_be_served_is_named() {
    let missing = Directory::new("/nonexistent/here", DirOptions::default()).unwrap_err();
    assert_eq!(missing.kind(), std::io::ErrorKind::NotFound);
    assert!(
        missing.to_string().contains("/nonexistent/here"),
        "{missing}"
    );
    let file = tempfile::NamedTempFile::new().unwrap();
    let error = Directory::new(file.path(), DirOptions::default()).unwrap_err();
    assert_eq!(error.kind(), std::io::ErrorKind::NotADirectory);
}
