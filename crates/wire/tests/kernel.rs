//! The running kernel as oracle: its INIT and the requests of real system calls must parse, and
//! encode again to the very bytes it sent.
//!
//! Needs /dev/fuse and the right to mount in a namespace of its own (root). Without, it says so
//! loudly.

use std::collections::BTreeSet;
use std::ffi::CString;
use std::fs;
use std::io::{self, Read, Write};
use std::os::fd::AsRawFd;
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};

use fusewire_wire::abi::*;
use fusewire_wire::dirent::{DirentPlusWriter, DirentWriter, Entry};
use fusewire_wire::init::{LocalLimits, Offer, negotiate};
use fusewire_wire::request::SecurityContext;
use fusewire_wire::*;
use rustix::mount::{
    MountFlags, MountPropagationFlags, UnmountFlags, mount, mount_change, unmount,
};
use zerocopy::IntoBytes;

const ENOENT: i32 = 2;
const EROFS: i32 = 30;
const ENOSYS: i32 = 38;
const ENODATA: i32 = 61;
const DIR: u64 = 2;
const FILE: u64 = 3;
const LINK: u64 = 4;
const OTHER_FILE: u64 = 5;

/// A read buffer for `/dev/fuse`.
#[repr(C, align(8))]
struct Buffer([u8; 256 << 10]);

/// The device and a mount in a namespace that ends with this thread and those it starts.
fn mount_here(dir: &Path) -> Result<fs::File, String> {
    let device = fs::OpenOptions::new()
        .read(true)
        .write(true)
        .open("/dev/fuse");
    let device = device
        .map_err(|e| format!("/dev/fuse cannot be opened ({e}); run as root with fuse loaded"))?;
    // SAFETY: a new mount namespace (which implies FS) leaves descriptors and memory shared.
    let unshared = unsafe { rustix::thread::unshare_unsafe(rustix::thread::UnshareFlags::NEWNS) };
    unshared.map_err(|e| format!("no mount namespace ({e}); run as root"))?;
    mount_change(
        "/",
        MountPropagationFlags::PRIVATE | MountPropagationFlags::REC,
    )
    .map_err(|e| format!("mounts cannot be made private ({e}); run as root"))?;
    let options = format!(
        "fd={},rootmode=40000,user_id=0,group_id=0,default_permissions",
        device.as_raw_fd()
    );
    let options = CString::new(options).expect("no NUL");
    mount(
        "fusewire-test",
        dir,
        "fuse",
        MountFlags::NOSUID | MountFlags::NODEV,
        options.as_c_str(),
    )
    .map_err(|e| format!("fuse cannot be mounted ({e}); run as root"))?;
    Ok(device)
}

/// A file system with a directory `d*`, files `f*` and `g*` and a symlink `l*` in every directory,
/// which answers changes with EROFS.
struct Daemon {
    device: fs::File,
    minor: u32,
    seen: BTreeSet<Opcode>,
}

impl Daemon {
    fn reply(&mut self, unique: u64, body: &[u8]) {
        let header = reply::success(unique, body.len()).unwrap();
        let written = self.device.write(&[header.as_bytes(), body].concat());
        tolerate_interrupted(written);
    }

    fn fail(&mut self, unique: u64, errno: i32) {
        let written = self.device.write(reply::failure(unique, errno).as_bytes());
        tolerate_interrupted(written);
    }

    /// Answers until the file system is unmounted.
    fn run(&mut self) {
        let mut buffer = Box::new(Buffer([0; 256 << 10]));
        loop {
            let len = match self.device.read(&mut buffer.0) {
                Ok(len) => len,
                Err(e) if e.raw_os_error() == Some(rustix::io::Errno::NODEV.raw_os_error()) => {
                    return;
                }
                Err(e)
                    if matches!(e.raw_os_error(), Some(ENOENT))
                        || e.kind() == io::ErrorKind::Interrupted =>
                {
                    continue;
                }
                Err(e) => panic!("reading /dev/fuse: {e}"),
            };
            let message = &buffer.0[..len];
            let (header, request, ext) = Request::parse(message)
                .unwrap_or_else(|e| panic!("{e}: {:02x?}", &message[..len.min(256)]));
            assert_eq!(header.len as usize, len);
            says_the_same(message, &header, &request, &ext);
            self.seen.insert(request.opcode());
            self.answer(&header, &request);
        }
    }

    fn answer(&mut self, header: &InHeader, request: &Request<'_>) {
        let unique = header.unique;
        match *request {
            Request::Init(init) => self.init(unique, &init),
            Request::Lookup { name } => match name.as_bytes()[0] {
                b'd' => self.reply(unique, entry(DIR).as_bytes()),
                b'f' => self.reply(unique, entry(FILE).as_bytes()),
                b'g' => self.reply(unique, entry(OTHER_FILE).as_bytes()),
                b'l' => self.reply(unique, entry(LINK).as_bytes()),
                _ => self.fail(unique, ENOENT),
            },
            Request::Getattr { .. } => {
                self.reply(
                    unique,
                    AttrOut {
                        attr: attr(header.nodeid),
                        ..AttrOut::default()
                    }
                    .as_bytes(),
                );
            }
            Request::Open { .. } | Request::Opendir { .. } => self.reply(
                unique,
                OpenOut {
                    fh: 7,
                    ..OpenOut::default()
                }
                .as_bytes(),
            ),
            Request::Read(_) => self.reply(unique, b"hello"),
            Request::Write(arg) => self.reply(
                unique,
                WriteOut {
                    size: arg.size,
                    padding: 0,
                }
                .as_bytes(),
            ),
            Request::Readlink => self.reply(unique, b"f-target"),
            Request::Readdir(arg) => {
                let mut buf = [0; 4096];
                let mut writer = DirentWriter::new(&mut buf);
                let done = arg.offset > 0 || writer.push(&dirent());
                assert!(done);
                let len = writer.len();
                self.reply(unique, &buf[..len]);
            }
            Request::Readdirplus(arg) => {
                let mut buf = [0; 4096];
                let mut writer = DirentPlusWriter::new(&mut buf);
                let done = arg.offset > 0 || writer.push(&entry(FILE), &dirent());
                assert!(done);
                let len = writer.len();
                self.reply(unique, &buf[..len]);
            }
            Request::Statfs => self.reply(
                unique,
                StatfsOut {
                    st: Kstatfs {
                        bsize: 4096,
                        namelen: 255,
                        ..Kstatfs::default()
                    },
                }
                .as_bytes(),
            ),
            Request::Getxattr { name, .. } if name.as_bytes().starts_with(b"security.") => {
                self.fail(unique, ENODATA);
            }
            Request::Getxattr { size: 0, .. } | Request::Listxattr { size: 0 } => {
                self.reply(
                    unique,
                    GetxattrOut {
                        size: 5,
                        padding: 0,
                    }
                    .as_bytes(),
                );
            }
            Request::Getxattr { .. } | Request::Listxattr { .. } => self.reply(unique, b"user\0"),
            Request::Lseek(arg) => self.reply(unique, LseekOut { offset: arg.offset }.as_bytes()),
            Request::Flush(_)
            | Request::Release(_)
            | Request::Releasedir(_)
            | Request::Fsync(_)
            | Request::Access { .. } => {
                self.reply(unique, b"");
            }
            // ENOSYS: the kernel goes back to the older operation.
            Request::CopyFileRange64(_) | Request::Statx(_) => self.fail(unique, ENOSYS),
            Request::Forget { .. } | Request::BatchForget(_) | Request::NotifyReply(_) => {}
            _ => self.fail(unique, EROFS),
        }
    }

    fn init(&mut self, unique: u64, init: &InitIn) {
        assert_eq!(init.major, 7);
        assert!(init.minor >= 19, "a kernel with FUSE 7.{}", init.minor);
        self.minor = init.minor;
        let offered = InitFlags::from_halves(init.flags, init.flags2);
        assert!(
            offered.contains(
                InitFlags::ASYNC_READ | InitFlags::BIG_WRITES | InitFlags::ATOMIC_O_TRUNC
            )
        );
        println!("the kernel offers 7.{} {offered:?}", init.minor);
        let take = InitFlags::BIG_WRITES
            | InitFlags::DO_READDIRPLUS
            | InitFlags::READDIRPLUS_AUTO
            | InitFlags::POSIX_LOCKS
            | InitFlags::FLOCK_LOCKS
            | InitFlags::INIT_EXT
            | InitFlags::MAX_PAGES
            | InitFlags::SETXATTR_EXT
            | InitFlags::SECURITY_CTX
            | InitFlags::CREATE_SUPP_GROUP;
        let flags = offered & take;
        let out = InitOut {
            major: 7,
            minor: 45.min(init.minor),
            max_readahead: init.max_readahead,
            flags: flags.low(),
            flags2: flags.high(),
            max_write: 128 << 10,
            max_pages: 32,
            ..InitOut::default()
        };
        let offer = Offer {
            minor: init.minor.min(45),
            ..Offer::new(init.max_readahead, offered)
        };
        let agreed = negotiate(
            &offer,
            &LocalLimits {
                max_pages: 256,
                max_write_bytes: 1 << 20,
            },
            out.as_bytes(),
        )
        .unwrap();
        assert_eq!((agreed.flags, agreed.max_write_bytes), (flags, 128 << 10));
        self.reply(unique, out.as_bytes());
    }
}

/// A call whose caller was interrupted has no reply to take.
fn tolerate_interrupted(written: io::Result<usize>) {
    match written {
        Err(e) if e.raw_os_error() == Some(ENOENT) => {}
        other => drop(other.expect("writing /dev/fuse")),
    }
}

fn says_the_same(message: &[u8], header: &InHeader, request: &Request<'_>, ext: &Extensions<'_>) {
    let head = Head {
        unique: header.unique,
        nodeid: header.nodeid,
        caller: Caller {
            uid: header.uid,
            gid: header.gid,
            pid: header.pid,
        },
    };
    if request.opcode() == Opcode::Init && message.len() == 56 {
        return; // A kernel before 7.36 sends 16 bytes of arguments; the encoder always sends 64.
    }
    let mut ours = [0; MAX_HEAD_BYTES];
    let len = request.encode(&head, ext, &mut ours).unwrap();
    assert_eq!(
        len + request.payload_out_bytes() as usize,
        message.len(),
        "{request:?}"
    );
    assert_eq!(&ours[..len], &message[..len], "{request:?}");
}

fn attr(nodeid: u64) -> Attr {
    let mode = match nodeid {
        ROOT_ID | DIR => 0o040_755,
        LINK => 0o120_777,
        _ => 0o100_644,
    };
    Attr {
        ino: nodeid,
        size: 5,
        mode,
        nlink: 1,
        blksize: 4096,
        ..Attr::default()
    }
}

fn entry(nodeid: u64) -> EntryOut {
    EntryOut {
        nodeid,
        attr: attr(nodeid),
        ..EntryOut::default()
    }
}

fn dirent() -> Entry<'static> {
    Entry {
        ino: FILE,
        off: 1,
        typ: 8,
        name: b"f-listed",
    }
}

/// Ends the daemon's loop also when a check fails.
struct Unmount(PathBuf);

impl Drop for Unmount {
    fn drop(&mut self) {
        unmount(&self.0, UnmountFlags::DETACH).expect("unmount");
    }
}

#[track_caller]
fn erofs(result: io::Result<()>) {
    assert_eq!(result.unwrap_err().raw_os_error(), Some(EROFS));
}

/// System calls of every kind; what they return is not the point.
fn system_calls(root: PathBuf) {
    let _unmount = Unmount(root.clone());
    let at = |name: &str| root.join(name);
    let content = fs::read(at("f")).unwrap();
    assert_eq!(content, b"hello");
    assert_eq!(fs::read_link(at("l")).unwrap(), Path::new("f-target"));
    let listed: Vec<_> = fs::read_dir(&root)
        .unwrap()
        .map(|entry| entry.unwrap().file_name())
        .collect();
    assert_eq!(listed, ["f-listed"]);

    erofs(fs::create_dir(at("new-dir")));
    erofs(symlink("some/target", at("new-link")));
    erofs(fs::hard_link(at("f"), at("new-hard-link")));
    erofs(fs::rename(at("f"), at("new-name")));
    erofs(fs::remove_file(at("f")));
    erofs(fs::remove_dir(at("d")));
    erofs(fs::set_permissions(
        at("f"),
        fs::Permissions::from_mode(0o600),
    ));
    erofs(fs::File::create(at("new-file")).map(drop));
    erofs(
        rustix::fs::mknodat(
            rustix::fs::CWD,
            at("new-fifo"),
            rustix::fs::FileType::Fifo,
            0o600.into(),
            0,
        )
        .map_err(Into::into),
    );
    erofs(
        fs::OpenOptions::new()
            .write(true)
            .custom_flags(rustix::fs::OFlags::TMPFILE.bits() as i32)
            .open(&root)
            .map(drop),
    );
    let flags = rustix::fs::RenameFlags::NOREPLACE;
    erofs(
        rustix::fs::renameat_with(
            rustix::fs::CWD,
            at("f"),
            rustix::fs::CWD,
            at("new-name"),
            flags,
        )
        .map_err(Into::into),
    );

    let mut file = fs::OpenOptions::new()
        .read(true)
        .write(true)
        .open(at("f"))
        .unwrap();
    file.write_all(b"some bytes").unwrap();
    file.sync_all().unwrap();
    rustix::fs::seek(&file, rustix::fs::SeekFrom::Data(1)).unwrap();
    erofs(
        rustix::fs::fallocate(&file, rustix::fs::FallocateFlags::KEEP_SIZE, 0, 4096)
            .map_err(Into::into),
    );
    erofs(rustix::fs::flock(&file, rustix::fs::FlockOperation::LockExclusive).map_err(Into::into));
    erofs(
        rustix::fs::fcntl_lock(&file, rustix::fs::FlockOperation::NonBlockingLockShared)
            .map_err(Into::into),
    );
    let other = fs::OpenOptions::new().write(true).open(at("g")).unwrap();
    erofs(
        rustix::fs::copy_file_range(&file, None, &other, None, 100)
            .map(drop)
            .map_err(Into::into),
    );
    drop((file, other));

    rustix::fs::statfs(&root).unwrap();
    let mut value = [0; 64];
    rustix::fs::getxattr(at("f"), "user.name", &mut value[..]).unwrap();
    rustix::fs::getxattr(at("f"), "user.name", &mut [0u8; 0][..]).unwrap();
    rustix::fs::listxattr(at("f"), &mut value[..]).unwrap();
    erofs(
        rustix::fs::setxattr(
            at("f"),
            "user.name",
            b"value",
            rustix::fs::XattrFlags::empty(),
        )
        .map_err(Into::into),
    );
    erofs(
        rustix::fs::setxattr(at("f"), "user.a", b"", rustix::fs::XattrFlags::empty())
            .map_err(Into::into),
    );
    erofs(rustix::fs::removexattr(at("f"), "user.name").map_err(Into::into));
}

/// What the calls above must have shown us, if the kernel has it.
const MUST_SEE: &[Opcode] = &[
    Opcode::Init,
    Opcode::Lookup,
    Opcode::Getattr,
    Opcode::Setattr,
    Opcode::Readlink,
    Opcode::Symlink,
    Opcode::Mknod,
    Opcode::Mkdir,
    Opcode::Unlink,
    Opcode::Rmdir,
    Opcode::Rename,
    Opcode::Rename2,
    Opcode::Link,
    Opcode::Open,
    Opcode::Create,
    Opcode::Read,
    Opcode::Write,
    Opcode::Statfs,
    Opcode::Release,
    Opcode::Fsync,
    Opcode::Flush,
    Opcode::Setxattr,
    Opcode::Getxattr,
    Opcode::Listxattr,
    Opcode::Removexattr,
    Opcode::Opendir,
    Opcode::Readdirplus,
    Opcode::Releasedir,
    Opcode::Setlk,
    Opcode::Setlkw,
    Opcode::Lseek,
    Opcode::Fallocate,
    Opcode::CopyFileRange,
    Opcode::CopyFileRange64,
    Opcode::Tmpfile,
    Opcode::Statx,
];

#[test]
fn the_kernel_speaks_as_we_do() {
    // A thread of its own: its mount namespace must not become the test harness's.
    let outcome = std::thread::spawn(|| {
        let dir = tempfile::tempdir().map_err(|e| format!("no temporary directory: {e}"))?;
        let root = dir.path().to_path_buf();
        let mut daemon = Daemon {
            device: mount_here(&root)?,
            minor: 0,
            seen: BTreeSet::new(),
        };
        // Started here, it shares this thread's namespace. If the daemon panics, its descriptor
        // closes and every call returns.
        let calls = std::thread::spawn(move || system_calls(root));
        daemon.run();
        calls.join().expect("system calls");
        Ok::<_, String>(daemon)
    });
    match outcome.join().expect("daemon") {
        Ok(Daemon { minor, seen, .. }) => {
            println!("parsed and re-encoded: {seen:?}");
            let missing: Vec<_> = MUST_SEE
                .iter()
                .filter(|op| op.since_minor() <= minor && !seen.contains(op))
                .collect();
            assert!(missing.is_empty(), "the kernel never sent {missing:?}");
        }
        Err(reason) => eprintln!("NOT CHECKED: requests of the running kernel: {reason}"),
    }
}

/// The label a kernel with SELinux would send is laid out as the encoder lays it out.
#[test]
fn a_label_as_linux_lays_it_out() {
    let ext = Extensions {
        secctx: SecurityContext::Label {
            name: XattrName::new(b"security.selinux").unwrap(),
            value: b"a:b:c\0",
        },
        supp_groups: None,
    };
    let mut buf = [0; 256];
    let request = Request::Mkdir {
        name: Name::new(b"d").unwrap(),
        mode: 0,
        umask: 0,
    };
    let head = Head {
        unique: 2,
        nodeid: 1,
        caller: Caller::default(),
    };
    let len = request.encode(&head, &ext, &mut buf).unwrap();
    let mut want = Vec::new();
    // header: 8 + align8(8 + 17 + 6) = 40; one context of 6 bytes
    [40u32, 1, 6, 0]
        .iter()
        .for_each(|word| want.extend(word.to_ne_bytes()));
    want.extend(b"security.selinux\0a:b:c\0\0");
    assert_eq!(&buf[len - 40..len], &want[..]);
}
