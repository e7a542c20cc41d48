//! Replies that are no replies, and replies that cannot be true.

use crate::calls::prepare;
use crate::errnos::meant;
use crate::harness::{Place, Plan, Setup, alone, connect, everywhere, lets_go, refused};
use fusewire::{Client, Events, LockKind, OpenOptions, Result, SetXattr};
use fusewire_server::Errno;
use fusewire_server::scripted::Action;
use fusewire_wire::abi::{
    Attr, AttrOut, BmapOut, CopyFileRangeOut, EntryOut, GetxattrOut, IoctlOut, Kstatfs, LseekOut,
    OpenOut, OutHeader, PollOut, StatfsOut, Statx, StatxOut, SxTime, WriteOut,
};
use fusewire_wire::{Opcode, OpenOutFlags};
use zerocopy::{Immutable, IntoBytes};

/// Bytes of the body of a reply; `None` when it may have any number.
fn body_bytes(place: Place) -> Option<usize> {
    Some(match place.opcode {
        Opcode::Lookup | Opcode::Symlink | Opcode::Mknod | Opcode::Mkdir | Opcode::Link => {
            size_of::<EntryOut>()
        }
        Opcode::Create | Opcode::Tmpfile => size_of::<EntryOut>() + size_of::<OpenOut>(),
        Opcode::Getattr | Opcode::Setattr => size_of::<AttrOut>(),
        Opcode::Open | Opcode::Opendir => size_of::<OpenOut>(),
        Opcode::Write => size_of::<WriteOut>(),
        Opcode::CopyFileRange64 => size_of::<CopyFileRangeOut>(),
        Opcode::Statfs => size_of::<StatfsOut>(),
        Opcode::Lseek => size_of::<LseekOut>(),
        Opcode::Getlk => 24,
        Opcode::Statx => size_of::<StatxOut>(),
        Opcode::Bmap => size_of::<BmapOut>(),
        Opcode::Poll => size_of::<PollOut>(),
        // Asked for the size first.
        Opcode::Getxattr | Opcode::Listxattr if place.nth == 0 => size_of::<GetxattrOut>(),
        Opcode::Getxattr
        | Opcode::Listxattr
        | Opcode::Read
        | Opcode::Readdir
        | Opcode::Readdirplus
        | Opcode::Readlink => return None,
        _ => 0,
    })
}

/// Replies that no request can have, each with what is wrong with it.
fn no_replies(place: Place, unique: u64) -> Vec<(&'static str, Action)> {
    let head = |len, error, unique| {
        let header = OutHeader { len, error, unique };
        Action::Raw(header.as_bytes().to_vec())
    };
    let mut replies = vec![
        ("nothing", Action::Raw(Vec::new())),
        ("half a header", Action::Raw(vec![16, 0, 0, 0, 0, 0])),
        ("an errno of 512", head(16, -512, unique)),
        ("an errno of 2^31", head(16, i32::MIN, unique)),
        ("a positive error", head(16, 5, unique)),
        ("less than a header", head(15, -5, unique)),
        ("an error with a body", head(24, -5, unique)),
        ("more than has come", head(u32::MAX, 0, unique)),
        ("the number of another request", head(16, -5, unique + 2)),
        ("the number of an INTERRUPT", head(16, -5, unique + 1)),
        ("a notification", head(16, 1, 0)),
    ];
    if let Some(bytes) = body_bytes(place) {
        replies.push(("a byte too many", Action::Body(vec![0; bytes + 1])));
        if bytes > 0 {
            replies.push(("a byte too few", Action::Body(vec![0; bytes - 1])));
            replies.push(("no body", Action::Body(Vec::new())));
        }
    }
    replies
}

/// What is no reply is EIO to the caller, and nothing else happens.
#[test]
fn what_is_no_reply_is_an_io_error() {
    let _alone = alone();
    let mut strange = Vec::new();
    for (setup, call, place) in everywhere() {
        for n in 0..no_replies(place, 0).len() {
            let (wrong, _) = no_replies(place, 0).swap_remove(n);
            let what = format!("{}: {wrong} to {place:?}", call.name);
            let plan = Plan::at(place, move |seen| {
                no_replies(place, seen.unique).swap_remove(n).1
            });
            let result = refused(&setup, call, &plan, place, &what);
            if !meant(call.name, place, Errno::IO).allows(result) {
                strange.push(format!("{what}: {result:?}"));
            }
        }
    }
    assert!(strange.is_empty(), "{}", strange.join("\n"));
}

/// A body, for the first request of a kind in a call.
struct Lie {
    what: &'static str,
    opcode: Opcode,
    body: Vec<u8>,
    call: fn(&Client) -> Result<()>,
    /// How the call ends.
    ends: std::result::Result<(), Errno>,
    /// Lookups of the node that is made up.
    granted: u64,
}

fn lie(
    what: &'static str,
    opcode: Opcode,
    body: impl IntoBytes + Immutable,
    call: fn(&Client) -> Result<()>,
    ends: std::result::Result<(), Errno>,
) -> Lie {
    let body = body.as_bytes().to_vec();
    let granted = u64::from(body.starts_with(&MADE_UP.to_ne_bytes()));
    Lie {
        what,
        opcode,
        body,
        call,
        ends,
        granted,
    }
}

const DIRECTORY: u32 = 0o040_755;
const FILE: u32 = 0o100_644;

fn attr(mode: u32) -> Attr {
    Attr {
        mode,
        ..Attr::default()
    }
}

/// A node that the file system does not have.
const MADE_UP: u64 = 4711;

fn entry(mode: u32) -> EntryOut {
    EntryOut {
        nodeid: MADE_UP,
        attr: attr(mode),
        ..EntryOut::default()
    }
}

/// Every number as large as it can be, in a file that may be.
fn huge(mode: u32) -> Attr {
    let (large, small) = (u64::MAX, u32::MAX);
    Attr {
        ino: large,
        size: i64::MAX as u64,
        blocks: large,
        atime: large,
        mtime: i64::MIN as u64,
        ctime: i64::MAX as u64,
        atimensec: small,
        mtimensec: small,
        ctimensec: small,
        mode,
        nlink: small,
        uid: small,
        gid: small,
        rdev: small,
        blksize: small,
        flags: 0,
    }
}

/// Looks at everything that is known of what is at `path`.
fn look(client: &Client, path: &str) -> Result<()> {
    let meta = client.symlink_metadata(path)?;
    let times = (meta.modified(), meta.accessed(), meta.changed());
    let text = format!("{meta:?} {times:?} {} {}", meta.blocks(), meta.blksize());
    assert!(!text.is_empty());
    Ok(())
}

fn file(client: &Client) -> Result<fusewire::File> {
    let mut options = OpenOptions::new();
    options.read(true).write(true).open(client, "/dir/file")
}

fn created(kind: u32) -> [u8; size_of::<EntryOut>() + size_of::<OpenOut>()] {
    let mut both = [0; _];
    both[..size_of::<EntryOut>()].copy_from_slice(entry(kind).as_bytes());
    both
}

fn attr_out(attr: Attr) -> AttrOut {
    AttrOut {
        attr,
        ..AttrOut::default()
    }
}

fn statx(mode: u16) -> StatxOut {
    let time = SxTime {
        tv_sec: i64::MAX,
        tv_nsec: u32::MAX,
        reserved: -1,
    };
    StatxOut {
        stat: Statx {
            mask: u32::MAX,
            mode,
            btime: time,
            ..Statx::default()
        },
        ..StatxOut::default()
    }
}

fn lies_about_names() -> Vec<Lie> {
    const IO: std::result::Result<(), Errno> = Err(Errno::IO);
    let stat: fn(&Client) -> Result<()> = |c| look(c, "/dir");
    let mkdir: fn(&Client) -> Result<()> = |c| c.create_dir("/new");
    let root = EntryOut {
        nodeid: 1,
        ..entry(DIRECTORY)
    };
    let none = EntryOut {
        nodeid: 0,
        ..entry(DIRECTORY)
    };
    let large = EntryOut {
        entry_valid: u64::MAX,
        attr_valid: u64::MAX,
        entry_valid_nsec: u32::MAX,
        attr_valid_nsec: u32::MAX,
        attr: huge(FILE),
        ..entry(FILE)
    };
    let too_large = EntryOut {
        attr: Attr {
            size: 1 << 63,
            ..attr(FILE)
        },
        ..entry(FILE)
    };
    use Opcode as Op;
    vec![
        lie("the root below itself", Op::Lookup, root, stat, IO),
        lie("a node of no type", Op::Lookup, entry(0o644), stat, IO),
        lie(
            "a node of two types",
            Op::Lookup,
            entry(0o170_000),
            stat,
            IO,
        ),
        lie("a size of no file", Op::Lookup, too_large, stat, IO),
        lie(
            "number 0, with attributes",
            Op::Lookup,
            none,
            stat,
            Err(Errno::NOENT),
        ),
        lie("numbers without end", Op::Lookup, large, stat, Ok(())),
        lie(
            "a file where a directory was made",
            Op::Mkdir,
            entry(FILE),
            mkdir,
            IO,
        ),
        lie("number 0 for a new directory", Op::Mkdir, none, mkdir, IO),
        lie("the root as a new directory", Op::Mkdir, root, mkdir, IO),
        lie(
            "a directory where a link was made",
            Op::Symlink,
            entry(DIRECTORY),
            |c| c.symlink("to", "/new"),
            IO,
        ),
        lie(
            "a directory where a pipe was made",
            Op::Mknod,
            entry(DIRECTORY),
            |c| c.mknod("/new", 0o010_644, 0),
            IO,
        ),
        lie(
            "a directory as the link of a file",
            Op::Link,
            entry(DIRECTORY),
            |c| c.hard_link("/dir/file", "/new"),
            IO,
        ),
        lie(
            "a directory where a file was made",
            Op::Create,
            created(DIRECTORY),
            |c| c.create("/new").map(drop),
            IO,
        ),
        lie(
            "a directory where a file without a name was made",
            Op::Tmpfile,
            created(DIRECTORY),
            |c| {
                OpenOptions::new()
                    .write(true)
                    .open_unnamed(c, "/")
                    .map(drop)
            },
            IO,
        ),
        lie("another type", Op::Getattr, attr_out(attr(FILE)), stat, IO),
        lie("no type", Op::Getattr, attr_out(attr(0)), stat, IO),
        lie(
            "huge numbers",
            Op::Getattr,
            attr_out(huge(DIRECTORY)),
            stat,
            Ok(()),
        ),
        lie(
            "another type after a change",
            Op::Setattr,
            attr_out(attr(DIRECTORY)),
            |c| c.truncate("/dir/file", 3),
            IO,
        ),
        lie(
            "another type, with its birth",
            Op::Statx,
            statx(0o040_755),
            |c| c.created("/dir/file").map(drop),
            IO,
        ),
        lie(
            "a birth at the end of time",
            Op::Statx,
            statx(0o100_644),
            |c| c.created("/dir/file").map(drop),
            Ok(()),
        ),
        lie(
            "all bits and numbers",
            Op::Statfs,
            [u8::MAX; size_of::<Kstatfs>()],
            |c| {
                let found = c.statfs("/")?;
                assert!(!format!("{found:?}").is_empty());
                Ok(())
            },
            Ok(()),
        ),
    ]
}

fn lies_about_contents() -> Vec<Lie> {
    const IO: std::result::Result<(), Errno> = Err(Errno::IO);
    let open_bits = OpenOut {
        fh: 0,
        open_flags: u32::MAX,
        backing_id: -1,
    };
    let size = |size| GetxattrOut { size, padding: 0 };
    let target: fn(&Client) -> Result<()> = |c| c.read_link("/dir/link").map(drop);
    let value: fn(&Client) -> Result<()> = |c| c.get_xattr("/dir/file", "user.a").map(drop);
    let list: fn(&Client) -> Result<()> = |c| c.list_xattr("/dir/file").map(drop);
    let write: fn(&Client) -> Result<()> = |c| c.write("/dir/file", b"text");
    let data: fn(&Client) -> Result<()> = |c| file(c)?.seek_data(5000).map(drop);
    let hole: fn(&Client) -> Result<()> = |c| file(c)?.seek_hole(5000).map(drop);
    let found = |offset| LseekOut { offset };
    let written = |size| WriteOut { size, padding: 0 };
    let copy: fn(&Client) -> Result<()> = |c| {
        let to = c.create("/to")?;
        file(c)?.copy_range(0, &to, 0, 100).map(drop)
    };
    let copied = |bytes_copied| CopyFileRangeOut { bytes_copied };
    let ioctl: fn(&Client) -> Result<()> = |c| file(c)?.ioctl(0x8004_0001, &mut [0; 4]).map(drop);
    let control = |result, flags| IoctlOut {
        result,
        flags,
        in_iovs: u32::MAX,
        out_iovs: u32::MAX,
    };
    const RETRY: u32 = 4;
    use Opcode as Op;
    vec![
        lie("no target", Op::Readlink, [0u8; 0], target, IO),
        lie("a NUL in a target", Op::Readlink, *b"a\0b", target, IO),
        lie("a target too long", Op::Readlink, [b'a'; 5000], target, IO),
        lie(
            "a value too large",
            Op::Getxattr,
            size(65_537),
            value,
            Err(Errno::TOOBIG),
        ),
        lie(
            "a value of 4 GiB",
            Op::Getxattr,
            size(u32::MAX),
            value,
            Err(Errno::TOOBIG),
        ),
        lie(
            "a value that is smaller",
            Op::Getxattr,
            size(60_000),
            value,
            Ok(()),
        ),
        lie(
            "a list of 4 GiB",
            Op::Listxattr,
            size(u32::MAX),
            list,
            Err(Errno::TOOBIG),
        ),
        lie(
            "data that is elsewhere",
            Op::Open,
            open_bits,
            |c| file(c).map(drop),
            IO,
        ),
        lie(
            "all other flags of an open file",
            Op::Open,
            OpenOut {
                open_flags: !OpenOutFlags::PASSTHROUGH.bits(),
                ..open_bits
            },
            |c| file(c).map(drop),
            Ok(()),
        ),
        lie(
            "all flags of an open directory",
            Op::Opendir,
            open_bits,
            |c| c.read_dir("/dir")?.try_for_each(|entry| entry.map(drop)),
            Err(Errno::BADF),
        ),
        lie("more than was written", Op::Write, written(5), write, IO),
        lie("4 GiB written", Op::Write, written(u32::MAX), write, IO),
        lie("nothing written", Op::Write, written(0), write, IO),
        lie(
            "more than was asked for",
            Op::Read,
            [7u8; 20_000],
            |c| file(c)?.read_at(&mut [0; 8192], 0).map(drop),
            IO,
        ),
        lie("data of no file", Op::Lseek, found(u64::MAX), data, IO),
        lie("data before the start", Op::Lseek, found(4999), data, IO),
        lie("a hole before the start", Op::Lseek, found(0), hole, IO),
        lie(
            "data behind the end",
            Op::Lseek,
            found(1 << 40),
            data,
            Ok(()),
        ),
        lie(
            "more than was copied",
            Op::CopyFileRange64,
            copied(101),
            copy,
            IO,
        ),
        lie(
            "everything copied",
            Op::CopyFileRange64,
            copied(u64::MAX),
            copy,
            IO,
        ),
        lie(
            "nothing copied",
            Op::CopyFileRange64,
            copied(0),
            copy,
            Ok(()),
        ),
        lie(
            "all events",
            Op::Poll,
            [u8::MAX; 8],
            |c| {
                let ready = file(c)?.poll(Events::READ)?;
                assert_eq!(ready, Events::READ.and(Events::ERROR).and(Events::HANG_UP));
                Ok(())
            },
            Ok(()),
        ),
        lie(
            "the last block",
            Op::Bmap,
            u64::MAX,
            |c| {
                assert_eq!(file(c)?.bmap(0, 512)?, Some(u64::MAX));
                Ok(())
            },
            Ok(()),
        ),
        lie(
            "a result of no call",
            Op::Ioctl,
            control(i32::MIN, 0),
            ioctl,
            IO,
        ),
        lie(
            "an errno",
            Op::Ioctl,
            control(-(Errno::RANGE.raw_os_error()), 0),
            ioctl,
            Err(Errno::RANGE),
        ),
        lie(
            "memory that nobody offered",
            Op::Ioctl,
            control(0, RETRY),
            ioctl,
            IO,
        ),
        lie(
            "a lock of no kind",
            Op::Getlk,
            [9u64, 3, 77],
            |c| file(c)?.test_lock_range(.., LockKind::Write).map(drop),
            IO,
        ),
        lie(
            "a value where none is",
            Op::Setxattr,
            [1u8; 8],
            |c| c.set_xattr("/dir/file", "user.a", b"new", SetXattr::Any),
            IO,
        ),
    ]
}

/// What cannot be true is an error of its call, and what is merely strange is shown
/// as it is.
#[test]
fn what_cannot_be_true_is_an_io_error() {
    let _alone = alone();
    let mut strange = Vec::new();
    for lie in lies_about_names().into_iter().chain(lies_about_contents()) {
        let place = Place {
            opcode: lie.opcode,
            nth: 0,
        };
        let plan = Plan::at(place, move |_| Action::Body(lie.body.clone()));
        let (client, peer) = connect(&Setup::default(), plan.script());
        prepare(&client);
        plan.begin();
        let result = (lie.call)(&client);
        let met = plan.end();
        assert!(met.contains(&place), "{}: was not asked for", lie.what);
        let result = result.map_err(|error| Errno::from_raw_os_error(error.errno()));
        if result != lie.ends {
            strange.push(format!("{:?}, {}: {result:?}", lie.opcode, lie.what));
        }
        assert!(client.metadata("/").unwrap().is_dir(), "{}", lie.what);
        // What a peer made up is given back to it all the same, once.
        let left = lets_go(client, peer, lie.what);
        assert_eq!(left.forgotten(MADE_UP), lie.granted, "{}", lie.what);
    }
    assert!(strange.is_empty(), "{}", strange.join("\n"));
}
