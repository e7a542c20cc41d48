//! What few clients ask for: permissions, readiness, device control, labels, and requests about
//! files that nobody opened.

use crate::common::{Failure, Raw, directory, memory, name, over, over_each, small};
use fusewire_server::dir::DirOptions;
use fusewire_server::mem::{MemOptions, Memory};
use fusewire_server::{FileSystem, ServerOptions, Usage, start};
use fusewire_wire::abi::*;
use fusewire_wire::request::SecurityContext;
use fusewire_wire::{
    AttrFlags, Caller, Extensions, InitFlags, Opcode, OpenOutFlags, Request, SetattrValid,
    SetxattrFlags, Target, XattrName,
};
use std::os::unix::fs::{FileTypeExt, PermissionsExt};
use zerocopy::{FromBytes, IntoBytes};

const ENOENT: i32 = 2;
const EBADF: i32 = 9;
const EACCES: i32 = 13;
const EINVAL: i32 = 22;
const ENOTTY: i32 = 25;
const EROFS: i32 = 30;
const ENOSYS: i32 = 38;
const ENODATA: i32 = 61;
const EOPNOTSUPP: i32 = 95;
const ESTALE: i32 = 116;
const RDWR: i32 = 2;

fn errno(result: Result<Vec<u8>, Failure>) -> i32 {
    result.unwrap_err().errno()
}

#[test]
fn access_goes_by_the_mode() {
    over_each(|raw| {
        let owner = crate::common::me();
        let node = raw.create(ROOT_ID, b"f", RDWR, 0o640).unwrap();
        let ask = |node, uid, gid, mask| {
            raw.caller.set(Caller { uid, gid, pid: 1 });
            let answer = raw.call(node, &Request::Access { mask }, &[]);
            raw.caller.set(owner);
            answer.map(drop)
        };
        let (file, stranger) = (node.0.nodeid, owner.uid + 1);
        let denied = Err(Failure::Errno(EACCES));
        assert_eq!(ask(file, owner.uid, owner.gid, 6), Ok(()));
        assert_eq!(ask(file, owner.uid, owner.gid, 1), denied);
        assert_eq!(ask(file, stranger, owner.gid, 4), Ok(()));
        assert_eq!(ask(file, stranger, owner.gid, 2), denied);
        assert_eq!(ask(file, stranger, owner.gid + 1, 4), denied);
        assert_eq!(ask(file, stranger, owner.gid + 1, 0), Ok(()));
        assert_eq!(ask(ROOT_ID, stranger, owner.gid + 1, 5), Ok(()));
        assert_eq!(ask(ROOT_ID, stranger, owner.gid + 1, 2), denied);
        assert_eq!(ask(999, 0, 0, 4), Err(Failure::Errno(ESTALE)));
        raw.release(node.1.fh).unwrap();
    });
    let read_only = MemOptions {
        read_only: true,
        ..MemOptions::default()
    };
    over(Memory::new(read_only), |raw, _| {
        let ask = |mask| raw.call(ROOT_ID, &Request::Access { mask }, &[]);
        assert_eq!(errno(ask(2)), EROFS);
        assert!(ask(5).is_ok());
    });
}

#[test]
fn files_are_always_ready() {
    over_each(|raw| {
        let (_, open) = raw.create(ROOT_ID, b"f", RDWR, 0o644).unwrap();
        let dir = raw.opendir(ROOT_ID).unwrap();
        let poll = |fh| {
            let arg = PollIn {
                fh,
                kh: 1,
                flags: 0,
                events: 0x1 | 0x2 | 0x4 | 0x40,
            };
            raw.call(ROOT_ID, &Request::Poll(arg), &[])
        };
        for fh in [open.fh, dir] {
            let ready = PollOut::read_from_bytes(&poll(fh).unwrap()[..]).unwrap();
            // Everything that was asked for but urgent data.
            assert_eq!(ready.revents, 0x1 | 0x4 | 0x40);
        }
        assert_eq!(errno(poll(12_345)), EBADF);
        raw.release(open.fh).unwrap();
        raw.releasedir(dir).unwrap();
    });
}

fn ioctl(raw: &Raw, fh: u64, cmd: u32, input: &[u8], out_size: u32) -> Result<Vec<u8>, Failure> {
    let arg = IoctlIn {
        fh,
        cmd,
        in_size: input.len() as u32,
        out_size,
        ..IoctlIn::default()
    };
    let body = raw.call(ROOT_ID, &Request::Ioctl(arg), input)?;
    let (out, output) = IoctlOut::read_from_prefix(&body).unwrap();
    assert_eq!(out, IoctlOut::default());
    Ok(output.to_vec())
}

#[test]
fn device_control_of_memory_is_flags_and_versions() {
    const GET_FLAGS: u32 = 0x8008_6601;
    const SET_FLAGS: u32 = 0x4008_6602;
    const GET_VERSION: u32 = 0x8008_7601;
    const NODUMP: u32 = 0x40;
    const IMMUTABLE: u32 = 0x10;
    over(memory(), |raw, _| {
        let (entry, open) = raw.create(ROOT_ID, b"f", RDWR, 0o644).unwrap();
        let fh = open.fh;
        assert_eq!(ioctl(raw, fh, GET_FLAGS, &[], 4), Ok(vec![0; 4]));
        let set = |flags: u32| ioctl(raw, fh, SET_FLAGS, &flags.to_ne_bytes(), 0);
        assert_eq!(set(NODUMP), Ok(Vec::new()));
        let flags = NODUMP.to_ne_bytes().to_vec();
        assert_eq!(ioctl(raw, fh, GET_FLAGS, &[], 4), Ok(flags.clone()));
        // By the number that says 32 bits, too, and with more room than there is to say.
        assert_eq!(ioctl(raw, fh, 0x8004_6601, &[], 100), Ok(flags));
        assert_eq!(
            raw.statx(entry.nodeid).unwrap().attributes,
            u64::from(NODUMP)
        );
        assert_eq!(errno(set(IMMUTABLE)), EOPNOTSUPP);
        assert_eq!(errno(ioctl(raw, fh, GET_FLAGS, &[], 3)), EINVAL);
        assert_eq!(errno(ioctl(raw, fh, SET_FLAGS, &[1, 2], 0)), EINVAL);
        assert_eq!(ioctl(raw, fh, GET_VERSION, &[], 4), Ok(vec![0; 4]));
        assert_eq!(errno(ioctl(raw, 999, GET_FLAGS, &[], 4)), EBADF);
        raw.release(fh).unwrap();
    });
    // Commands that nobody knows.
    over_each(|raw| {
        let (_, open) = raw.create(ROOT_ID, b"f", RDWR, 0o644).unwrap();
        assert_eq!(errno(ioctl(raw, open.fh, 0x541b, &[], 4)), ENOTTY);
        assert_eq!(errno(ioctl(raw, open.fh, 0, b"input", 0)), ENOTTY);
        raw.release(open.fh).unwrap();
    });
}

#[test]
fn a_rename_can_leave_a_whiteout() {
    const NOREPLACE: u32 = 1;
    const EXCHANGE: u32 = 2;
    const WHITEOUT: u32 = 4;
    over(memory(), |raw, _| {
        raw.mkdir(ROOT_ID, b"d", 0o755).unwrap();
        raw.mknod(ROOT_ID, b"old", 0o100_644, 0).unwrap();
        let rename = |flags| raw.rename((ROOT_ID, b"old"), (ROOT_ID, b"new"), flags);
        let invalid = Err(Failure::Errno(EINVAL));
        for flags in [WHITEOUT | EXCHANGE, NOREPLACE | EXCHANGE, 8] {
            assert_eq!(rename(flags), invalid);
        }
        rename(WHITEOUT | NOREPLACE).unwrap();
        let left = raw.lookup(ROOT_ID, b"old").unwrap().attr;
        assert_eq!((left.mode, left.rdev, left.nlink), (0o020_000, 0, 1));
        assert_eq!(raw.lookup(ROOT_ID, b"new").unwrap().attr.mode, 0o100_644);
        // It is a file like any other.
        raw.rename((ROOT_ID, b"d"), (ROOT_ID, b"e"), WHITEOUT)
            .unwrap();
        raw.unlink(ROOT_ID, b"d").unwrap();
        assert_eq!(raw.getattr(ROOT_ID, None).unwrap().nlink, 3);
        raw.unlink(ROOT_ID, b"old").unwrap();
    });
    let (temp, served) = directory(DirOptions::default());
    // What the host makes of it is what the client gets.
    let (old, new) = (temp.path().join("old"), temp.path().join("new"));
    let probe = temp.path().join("probe");
    std::fs::write(&probe, b"").unwrap();
    let host = rustix::fs::renameat_with(
        rustix::fs::CWD,
        &probe,
        rustix::fs::CWD,
        temp.path().join("probed"),
        rustix::fs::RenameFlags::WHITEOUT,
    );
    over(served, |raw, _| {
        raw.mknod(ROOT_ID, b"old", 0o100_644, 0).unwrap();
        let renamed = raw.rename((ROOT_ID, b"old"), (ROOT_ID, b"new"), WHITEOUT);
        let host = host.map_err(|errno| Failure::Errno(errno.raw_os_error()));
        assert_eq!(renamed, host);
        if host.is_ok() {
            assert!(
                std::fs::metadata(&old)
                    .unwrap()
                    .file_type()
                    .is_char_device()
            );
            assert!(std::fs::metadata(&new).unwrap().is_file());
        } else {
            assert!(!new.exists());
        }
    });
}

fn getxattr(raw: &Raw, node: u64, n: &[u8]) -> Result<Vec<u8>, Failure> {
    let name = XattrName::new(n).unwrap();
    raw.call(node, &Request::Getxattr { name, size: 100 }, &[])
}

/// Makes one of each kind with a label, which both file systems take when they agreed to.
fn labelled(raw: &Raw, label: &[u8]) -> Vec<Result<u64, Failure>> {
    let extensions = Extensions {
        secctx: SecurityContext::Label {
            name: XattrName::new(label).unwrap(),
            value: b"label",
        },
        supp_groups: None,
    };
    let requests = [
        Request::Mkdir {
            name: name(b"dir"),
            mode: 0o755,
            umask: 0,
        },
        Request::Mknod {
            name: name(b"file"),
            mode: 0o100_644,
            rdev: 0,
            umask: 0,
        },
        Request::Create {
            name: name(b"open"),
            flags: RDWR as u32,
            mode: 0o644,
            umask: 0,
            open_flags: 0,
        },
        Request::Tmpfile {
            flags: RDWR as u32,
            mode: 0o644,
            umask: 0,
            open_flags: 0,
        },
    ];
    let mut nodes = Vec::new();
    for request in requests {
        let tag = raw.send_with(ROOT_ID, &request, &extensions, &[]);
        nodes.push(raw.finish(tag).map(|body| {
            let (entry, open) = EntryOut::read_from_prefix(&body).unwrap();
            *raw.known.borrow_mut().entry(entry.nodeid).or_default() += 1;
            if let Ok(open) = OpenOut::read_from_bytes(open) {
                raw.release(open.fh).unwrap();
            }
            entry.nodeid
        }));
    }
    nodes
}

#[test]
fn new_files_are_labelled_where_that_was_agreed_on() {
    fn check<F: FileSystem>(fs: F, agreed: bool) {
        over(fs, |raw, _| {
            for node in labelled(raw, b"user.label") {
                let label = getxattr(raw, node.unwrap(), b"user.label");
                match agreed {
                    true => assert_eq!(label.unwrap(), b"label"),
                    false => assert_eq!(errno(label), ENODATA),
                }
            }
        });
    }
    for security_ctx in [true, false] {
        let memory = Memory::new(MemOptions {
            security_ctx,
            ..MemOptions::default()
        });
        check(memory, security_ctx);
        let (_temp, served) = directory(DirOptions {
            security_ctx,
            xattr: true,
            ..DirOptions::default()
        });
        check(served, security_ctx);
    }
}

#[test]
fn what_cannot_be_labelled_is_not_made() {
    let unlabelled = |raw: &Raw| {
        // No file system has attributes of that kind.
        for made in labelled(raw, b"unknown.label") {
            assert_eq!(made, Err(Failure::Errno(EOPNOTSUPP)));
        }
        assert!(raw.list(ROOT_ID, 4096, false).unwrap().is_empty());
    };
    let memory = Memory::new(MemOptions {
        security_ctx: true,
        ..MemOptions::default()
    });
    over(memory, |raw, _| unlabelled(raw));
    let (_temp, served) = directory(DirOptions {
        security_ctx: true,
        ..DirOptions::default()
    });
    over(served, |raw, _| {
        unlabelled(raw);
        // A link has no attributes of users, whoever asks.
        let extensions = Extensions {
            secctx: SecurityContext::Label {
                name: XattrName::new(b"user.label").unwrap(),
                value: b"label",
            },
            supp_groups: None,
        };
        let request = Request::Symlink {
            name: name(b"link"),
            target: Target::new(b"target").unwrap(),
        };
        let tag = raw.send_with(ROOT_ID, &request, &extensions, &[]);
        assert_eq!(errno(raw.finish(tag)), 1);
        assert_eq!(raw.lookup(ROOT_ID, b"link"), Err(Failure::Errno(ENOENT)));
    });
}

#[test]
fn an_acl_takes_the_group_bit_when_told_to() {
    let (temp, served) = directory(DirOptions {
        xattr: true,
        ..DirOptions::default()
    });
    let path = temp.path().join("f");
    over(served, |raw, _| {
        let (entry, open) = raw.create(ROOT_ID, b"f", RDWR, 0o755).unwrap();
        for (flags, mode) in [
            (SetxattrFlags::empty(), 0o2755),
            (SetxattrFlags::ACL_KILL_SGID, 0o755),
        ] {
            raw.chmod(entry.nodeid, 0o2755).unwrap();
            // Any attribute will do: the client says what is to be done.
            let request = Request::Setxattr {
                name: XattrName::new(b"user.x").unwrap(),
                size: 1,
                flags: 0,
                setxattr_flags: flags.bits(),
                ext: true,
            };
            raw.done(entry.nodeid, &request, b"v").unwrap();
            let found = std::fs::metadata(&path).unwrap().permissions().mode();
            assert_eq!(found & 0o7777, mode);
        }
        raw.release(open.fh).unwrap();
    });
}

/// Everything that can be done with a file that nobody opened.
fn without_opening(raw: &Raw) {
    let open = Request::Open {
        flags: RDWR as u32,
        open_flags: 0,
    };
    let opendir = Request::Opendir {
        flags: 0,
        open_flags: 0,
    };
    let create = Request::Create {
        name: name(b"c"),
        flags: RDWR as u32,
        mode: 0o644,
        umask: 0,
        open_flags: 0,
    };
    let node = raw.mknod(ROOT_ID, b"f", 0o100_644, 0).unwrap().nodeid;
    assert_eq!(errno(raw.call(node, &open, &[])), ENOSYS);
    assert_eq!(errno(raw.call(ROOT_ID, &opendir, &[])), ENOSYS);
    assert_eq!(errno(raw.call(ROOT_ID, &create, &[])), ENOSYS);
    let arg = WriteIn {
        offset: 3,
        size: 4,
        ..WriteIn::default()
    };
    let written = raw.call(node, &Request::Write(arg), b"text").unwrap();
    assert_eq!(WriteOut::read_from_bytes(&written[..]).unwrap().size, 4);
    let arg = ReadIn {
        size: 100,
        ..ReadIn::default()
    };
    let read = |node| raw.call(node, &Request::Read(arg), &[]);
    assert_eq!(read(node).unwrap(), b"\0\0\0text");
    let copy = raw.mknod(ROOT_ID, b"g", 0o100_644, 0).unwrap().nodeid;
    let arg = CopyFileRangeIn {
        nodeid_out: copy,
        off_in: 3,
        len: 4,
        ..CopyFileRangeIn::default()
    };
    raw.call(node, &Request::CopyFileRange64(arg), &[]).unwrap();
    assert_eq!(read(copy).unwrap(), b"text");
    let arg = FallocateIn {
        length: 10,
        ..FallocateIn::default()
    };
    raw.done(copy, &Request::Fallocate(arg), &[]).unwrap();
    let arg = SetattrIn {
        size: 8,
        ..SetattrIn::default()
    };
    let valid = SetattrValid::SIZE | SetattrValid::FH;
    assert_eq!(raw.setattr(copy, valid, arg).unwrap().size, 8);
    assert_eq!(raw.getattr(copy, Some(0)).unwrap().size, 8);
    let arg = LseekIn {
        offset: 0,
        whence: 4,
        ..LseekIn::default()
    };
    raw.call(copy, &Request::Lseek(arg), &[]).unwrap();
    for request in [
        Request::Flush(FlushIn::default()),
        Request::Fsync(FsyncIn::default()),
    ] {
        raw.done(node, &request, &[]).unwrap();
    }
    let arg = PollIn {
        events: 1,
        ..PollIn::default()
    };
    raw.call(node, &Request::Poll(arg), &[]).unwrap();
    raw.done(ROOT_ID, &Request::Fsyncdir(FsyncIn::default()), &[])
        .unwrap();
    // A directory, from any offset, an entry or two at a time.
    for plus in [false, true] {
        let (mut offset, mut names) = (0, Vec::new());
        loop {
            let batch = if plus {
                raw.readdirplus(ROOT_ID, 0, offset, 400).unwrap()
            } else {
                raw.readdir(ROOT_ID, 0, offset, 64).unwrap()
            };
            let Some(last) = batch.last() else { break };
            offset = last.next;
            names.extend(batch.into_iter().map(|listed| listed.name));
        }
        names.sort();
        assert_eq!(names, [&b"."[..], b"..", b"f", b"g"]);
    }
    assert_eq!(errno(read(999)), ESTALE);
    assert!(read(ROOT_ID).is_err());
    let dir = ReadIn {
        size: 100,
        ..ReadIn::default()
    };
    assert!(raw.call(node, &Request::Readdir(dir), &[]).is_err());
}

#[test]
fn files_that_nobody_opened_are_served_by_their_nodes() {
    let memory = Memory::new(MemOptions {
        stateless: true,
        ..MemOptions::default()
    });
    over(memory, |raw, _| without_opening(raw));
    let (_temp, served) = directory(DirOptions {
        stateless: true,
        ..DirOptions::default()
    });
    over(served, |raw, _| without_opening(raw));
}

#[test]
fn what_init_grants_can_be_taken_away() {
    let flags_of = |out: InitOut| InitFlags::from_halves(out.flags, out.flags2);
    let granted = |without| {
        let options = ServerOptions {
            without,
            grant: InitFlags::SUBMOUNTS | InitFlags::HAS_RESEND,
            ..small()
        };
        let (client, server) = start(memory(), &options).unwrap();
        let raw = Raw::new(client);
        let flags = flags_of(raw.init(InitFlags::all()).unwrap());
        raw.leave();
        assert_eq!(server.join(), Usage::default());
        flags
    };
    let all = granted(InitFlags::empty());
    let one = InitFlags::PARALLEL_DIROPS | InitFlags::SUBMOUNTS | InitFlags::POSIX_LOCKS;
    assert!(all.contains(one | InitFlags::HAS_RESEND));
    assert_eq!(granted(one), all - one);
    let low = granted(InitFlags::INIT_EXT);
    assert_eq!(low.high(), 0);
    assert!(low.contains(InitFlags::PARALLEL_DIROPS));
}

#[test]
fn open_flags_are_as_the_options_say() {
    let (file, dir) = (
        OpenOutFlags::DIRECT_IO | OpenOutFlags::PARALLEL_DIRECT_WRITES,
        OpenOutFlags::CACHE_DIR,
    );
    let options = ServerOptions {
        file_flags: Some(file),
        dir_flags: Some(dir),
        ..small()
    };
    let (client, server) = start(memory(), &options).unwrap();
    let raw = Raw::connected(client);
    let (entry, open) = raw.create(ROOT_ID, b"f", RDWR, 0o644).unwrap();
    assert_eq!(open.open_flags, file.bits());
    let again = raw.open(entry.nodeid, RDWR).unwrap();
    assert_eq!(again.open_flags, file.bits());
    let request = Request::Opendir {
        flags: 0,
        open_flags: 0,
    };
    let body = raw.call(ROOT_ID, &request, &[]).unwrap();
    let opened = OpenOut::read_from_bytes(&body[..]).unwrap();
    assert_eq!(opened.open_flags, dir.bits());
    raw.release(open.fh).unwrap();
    raw.release(again.fh).unwrap();
    raw.releasedir(opened.fh).unwrap();
    raw.leave();
    assert_eq!(server.count(Opcode::Open), 1);
    assert_eq!(server.join(), Usage::default());
}

#[test]
fn directories_can_be_said_to_be_mount_points() {
    over(memory(), |raw, server| {
        let dir = raw.mkdir(ROOT_ID, b"d", 0o755).unwrap().nodeid;
        let file = raw.mknod(ROOT_ID, b"f", 0o100_644, 0).unwrap().nodeid;
        assert_eq!(raw.lookup(ROOT_ID, b"d").unwrap().attr.flags, 0);
        let fs = server.fs();
        fs.make_submount(dir).unwrap();
        assert!(fs.make_submount(file).is_err());
        assert!(fs.make_submount(999).is_err());
        let submount = AttrFlags::SUBMOUNT.bits();
        let looked_up = raw.lookup(ROOT_ID, b"d").unwrap();
        assert_eq!(looked_up.attr.flags, submount);
        assert_eq!(raw.getattr(dir, None).unwrap().flags, submount);
        let listed = raw.list(ROOT_ID, 4096, true).unwrap();
        let flags: Vec<u32> = listed
            .iter()
            .map(|listed| listed.entry.unwrap().attr.flags)
            .collect();
        assert_eq!(flags, [submount, 0]);
        assert_eq!(looked_up.as_bytes().len(), size_of::<EntryOut>());
    });
}
