//! Our structures and constants against the installed `<linux/fuse.h>`, by a compiled C probe.
//!
//! Without a C compiler or the header the test says so loudly, and fails if
//! `FUSEWIRE_REQUIRE_PEERS=1`.

mod common;

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::mem::{offset_of, size_of};
use std::process::Command;

use fusewire_wire::abi::{self, *};
use fusewire_wire::notify::NotifyCode;
use fusewire_wire::*;

struct Field {
    since: u32,
    name: &'static str,
    offset: usize,
    size: usize,
}

struct Struct {
    since: u32,
    name: &'static str,
    size: usize,
    fields: Vec<Field>,
}

fn field_size<T, F>(_: fn(T) -> F) -> usize {
    size_of::<F>()
}

fn ours() -> Vec<Struct> {
    let mut all = Vec::new();
    macro_rules! row {
        ($since:literal $c:ident $rust:ident { $($field:ident $(@ $minor:literal)?)* }) => {
            all.push(Struct {
                since: $since,
                name: stringify!($c),
                size: size_of::<abi::$rust>(),
                fields: vec![$(Field {
                    since: $since $(.max($minor))?,
                    name: stringify!($field),
                    offset: offset_of!(abi::$rust, $field),
                    size: field_size(|value: abi::$rust| value.$field),
                }),*],
            });
        };
    }
    structs_7_40!(row);
    row!(45 fuse_copy_file_range_out CopyFileRangeOut { bytes_copied });
    row!(45 fuse_notify_prune_out NotifyPruneOut { count padding spare });
    let typ = |since, offset| Field {
        since,
        name: "type",
        offset,
        size: 4,
    };
    for item in &mut all {
        match item.name {
            "fuse_file_lock" => item.fields.push(typ(19, offset_of!(FileLock, typ))),
            "fuse_dirent" => item.fields.push(typ(19, offset_of!(Dirent, typ))),
            "fuse_ext_header" => item.fields.push(typ(38, offset_of!(ExtHeader, typ))),
            "fuse_init_out" => item.fields.push(Field {
                since: 43,
                name: "request_timeout",
                offset: offset_of!(InitOut, request_timeout),
                size: 2,
            }),
            _ => {}
        }
    }
    all
}

struct Constant {
    since: u32,
    name: String,
    value: u64,
}

/// Constants younger than 7.19, with the minor of the first header that surely has them.
const YOUNGER: &[(&str, u32)] = &[
    ("FUSE_AUTO_INVAL_DATA", 20),
    ("FUSE_DO_READDIRPLUS", 21),
    ("FUSE_READDIRPLUS_AUTO", 21),
    ("FUSE_ASYNC_DIO", 22),
    ("FUSE_WRITEBACK_CACHE", 23),
    ("FUSE_NO_OPEN_SUPPORT", 23),
    ("FATTR_CTIME", 23),
    ("FUSE_PARALLEL_DIROPS", 25),
    ("FUSE_HANDLE_KILLPRIV", 26),
    ("FUSE_POSIX_ACL", 26),
    ("FUSE_ABORT_ERROR", 27),
    ("FUSE_MAX_PAGES", 28),
    ("FUSE_CACHE_SYMLINKS", 28),
    ("FOPEN_CACHE_DIR", 28),
    ("FUSE_NO_OPENDIR_SUPPORT", 29),
    ("FUSE_EXPLICIT_INVAL_DATA", 30),
    ("FUSE_IOCTL_COMPAT_X32", 30),
    ("FUSE_MAP_ALIGNMENT", 31),
    ("FUSE_SETUPMAPPING_FLAG_WRITE", 31),
    ("FUSE_SETUPMAPPING_FLAG_READ", 31),
    ("FOPEN_STREAM", 31),
    ("FUSE_SUBMOUNTS", 32),
    ("FUSE_ATTR_SUBMOUNT", 32),
    ("FUSE_HANDLE_KILLPRIV_V2", 33),
    ("FUSE_WRITE_KILL_SUIDGID", 33),
    ("FATTR_KILL_SUIDGID", 33),
    ("FUSE_OPEN_KILL_SUIDGID", 33),
    ("FUSE_SETXATTR_EXT", 33),
    ("FUSE_SETXATTR_ACL_KILL_SGID", 33),
    ("FOPEN_NOFLUSH", 35),
    ("FUSE_INIT_EXT", 36),
    ("FUSE_INIT_RESERVED", 36),
    ("FUSE_SECURITY_CTX", 36),
    ("FUSE_HAS_INODE_DAX", 36),
    ("FUSE_ATTR_DAX", 36),
    ("FUSE_HAS_EXPIRE_ONLY", 38),
    ("FUSE_EXPIRE_ONLY", 38),
    ("FOPEN_PARALLEL_DIRECT_WRITES", 38),
    ("FUSE_CREATE_SUPP_GROUP", 39),
    ("FUSE_DIRECT_IO_ALLOW_MMAP", 39),
    ("FUSE_PASSTHROUGH", 40),
    ("FOPEN_PASSTHROUGH", 40),
    ("FUSE_NO_EXPORT_SUPPORT", 40),
    ("FUSE_HAS_RESEND", 40),
    ("FUSE_UNIQUE_RESEND", 40),
    ("FUSE_ALLOW_IDMAP", 41),
    ("FUSE_INVALID_UIDGID", 41),
    ("FUSE_OVER_IO_URING", 42),
    ("FUSE_REQUEST_TIMEOUT", 43),
];

/// Constants that are preprocessor macros; the C probe can ask for them by `#ifdef`.
fn macros() -> Vec<Constant> {
    let mut all = Vec::new();
    let mut add = |name: String, value: u64| {
        let since = YOUNGER
            .iter()
            .find(|(young, _)| *young == name)
            .map_or(19, |&(_, minor)| minor);
        all.push(Constant { since, name, value });
    };
    macro_rules! flags {
        ($($prefix:literal $ty:ident)*) => {$(
            for (name, flag) in $ty::all().iter_names() {
                add(format!("{}{}", $prefix, name.trim_start_matches("IOCTL_")), u64::from(flag.bits()));
            }
        )*};
    }
    flags! {
        "FUSE_" InitFlags
        "FOPEN_" OpenOutFlags
        "FUSE_OPEN_" OpenInFlags
        "FATTR_" SetattrValid
        "FUSE_GETATTR_" GetattrFlags
        "FUSE_WRITE_" WriteFlags
        "FUSE_READ_" ReadFlags
        "FUSE_RELEASE_" ReleaseFlags
        "FUSE_FSYNC_" FsyncFlags
        "FUSE_ATTR_" AttrFlags
        "FUSE_SETXATTR_" SetxattrFlags
        "FUSE_LK_" LkFlags
        "FUSE_POLL_" PollFlags
        "FUSE_IOCTL_" IoctlFlags
        "FUSE_SETUPMAPPING_FLAG_" SetupmappingFlags
        "FUSE_" InvalEntryFlags
    }
    add("FUSE_KERNEL_VERSION".into(), KERNEL_VERSION.into());
    add("FUSE_ROOT_ID".into(), ROOT_ID);
    add("FUSE_MIN_READ_BUFFER".into(), MIN_READ_BUFFER_BYTES.into());
    add("FUSE_IOCTL_MAX_IOV".into(), IOCTL_MAX_IOV.into());
    add("FUSE_UNIQUE_RESEND".into(), UNIQUE_RESEND);
    add("FUSE_INVALID_UIDGID".into(), INVALID_UIDGID.into());
    all
}

/// Constants that are C enumerators; a probe that names one the header lacks does not compile.
fn enumerators() -> Vec<Constant> {
    let mut all = Vec::new();
    for &opcode in Opcode::ALL {
        let prefix = if opcode == Opcode::CuseInit {
            ""
        } else {
            "FUSE_"
        };
        all.push(Constant {
            since: opcode.since_minor(),
            name: format!("{prefix}{}", opcode.name()),
            value: opcode as u64,
        });
    }
    for (since, name, code) in [
        (11, "FUSE_NOTIFY_POLL", NotifyCode::Poll),
        (12, "FUSE_NOTIFY_INVAL_INODE", NotifyCode::InvalInode),
        (12, "FUSE_NOTIFY_INVAL_ENTRY", NotifyCode::InvalEntry),
        (15, "FUSE_NOTIFY_STORE", NotifyCode::Store),
        (15, "FUSE_NOTIFY_RETRIEVE", NotifyCode::Retrieve),
        (18, "FUSE_NOTIFY_DELETE", NotifyCode::Delete),
        (40, "FUSE_NOTIFY_RESEND", NotifyCode::Resend),
        (44, "FUSE_NOTIFY_INC_EPOCH", NotifyCode::IncEpoch),
        (45, "FUSE_NOTIFY_PRUNE", NotifyCode::Prune),
    ] {
        all.push(Constant {
            since,
            name: name.into(),
            value: code as u64,
        });
    }
    all.push(Constant {
        since: 38,
        name: "FUSE_MAX_NR_SECCTX".into(),
        value: MAX_NR_SECCTX.into(),
    });
    all.push(Constant {
        since: 39,
        name: "FUSE_EXT_GROUPS".into(),
        value: EXT_GROUPS.into(),
    });
    all
}

fn probe_source(structs: &[Struct], macros: &[Constant], enumerators: &[Constant]) -> String {
    let mut c = String::from(
        "#include <stdio.h>\n#include <stddef.h>\n#include <linux/fuse.h>\nint main(void) {\n",
    );
    c.push_str("printf(\"minor %d\\n\", FUSE_KERNEL_MINOR_VERSION);\n");
    for item in structs {
        let name = item.name;
        writeln!(c, "#if FUSE_KERNEL_MINOR_VERSION >= {}", item.since).unwrap();
        writeln!(
            c,
            "printf(\"{name} %zu\\n\", sizeof(struct {name}));\n#endif"
        )
        .unwrap();
        for field in &item.fields {
            let f = field.name;
            writeln!(c, "#if FUSE_KERNEL_MINOR_VERSION >= {}", field.since).unwrap();
            writeln!(
                c,
                "printf(\"{name}.{f} %zu\\n\", offsetof(struct {name}, {f}));"
            )
            .unwrap();
            writeln!(
                c,
                "printf(\"{name}.{f}.size %zu\\n\", sizeof(((struct {name} *)0)->{f}));\n#endif"
            )
            .unwrap();
        }
    }
    for constant in macros {
        let name = &constant.name;
        writeln!(
            c,
            "#ifdef {name}\nprintf(\"{name} %llu\\n\", (unsigned long long){});\n#endif",
            unsigned(name)
        )
        .unwrap();
    }
    for constant in enumerators {
        let name = &constant.name;
        writeln!(c, "#if FUSE_KERNEL_MINOR_VERSION >= {}", constant.since).unwrap();
        writeln!(
            c,
            "printf(\"{name} %llu\\n\", (unsigned long long){name});\n#endif"
        )
        .unwrap();
    }
    c.push_str("return 0; }\n");
    c
}

/// `1 << 31` is a negative int in C; the protocol means the bit.
fn unsigned(name: &str) -> String {
    match name {
        "FUSE_INIT_RESERVED" => format!("(unsigned int){name}"),
        _ => name.to_string(),
    }
}

/// Compiles and runs the probe; `Err` says why it could not.
fn run_probe(source: &str) -> Result<BTreeMap<String, u64>, String> {
    let dir = tempfile::tempdir().map_err(|e| format!("no temporary directory: {e}"))?;
    let (src, exe) = (dir.path().join("probe.c"), dir.path().join("probe"));
    std::fs::write(&src, source).map_err(|e| format!("cannot write the probe: {e}"))?;
    let have_header = Command::new("cc")
        .args([
            "-E",
            "-include",
            "linux/fuse.h",
            "-x",
            "c",
            "/dev/null",
            "-o",
            "/dev/null",
        ])
        .output()
        .map_err(|e| format!("no C compiler `cc` ({e}); install build-essential"))?;
    if !have_header.status.success() {
        return Err("no <linux/fuse.h>; install linux-libc-dev".into());
    }
    let built = Command::new("cc")
        .arg("-o")
        .arg(&exe)
        .arg(&src)
        .output()
        .map_err(|e| e.to_string())?;
    assert!(
        built.status.success(),
        "the probe does not compile:\n{}",
        String::from_utf8_lossy(&built.stderr)
    );
    let ran = Command::new(&exe)
        .output()
        .map_err(|e| format!("cannot run the probe: {e}"))?;
    assert!(ran.status.success(), "the probe failed");
    let text = String::from_utf8(ran.stdout).expect("the probe prints ASCII");
    Ok(text
        .lines()
        .map(|line| {
            let (name, value) = line.split_once(' ').expect("name and value");
            (name.to_string(), value.parse().expect("a number"))
        })
        .collect())
}

#[test]
fn layouts_equal_the_installed_header() {
    let (structs, macros, enumerators) = (ours(), macros(), enumerators());
    let found = match run_probe(&probe_source(&structs, &macros, &enumerators)) {
        Ok(found) => found,
        Err(reason) if std::env::var_os("FUSEWIRE_REQUIRE_PEERS").is_some_and(|v| v == "1") => {
            panic!("FUSEWIRE_REQUIRE_PEERS=1, but {reason}")
        }
        Err(reason) => {
            eprintln!("NOT CHECKED: layouts against <linux/fuse.h>: {reason}");
            return;
        }
    };
    let minor = u32::try_from(found["minor"]).unwrap();
    let mut checked = 0;
    let mut check = |since: u32, name: &str, ours: u64| match found.get(name) {
        Some(&theirs) => {
            assert_eq!(ours, theirs, "{name} (header 7.{minor})");
            checked += 1;
        }
        None => assert!(since > minor, "{name} should be in a 7.{minor} header"),
    };
    for item in &structs {
        check(item.since, item.name, item.size as u64);
        for field in &item.fields {
            check(
                field.since,
                &format!("{}.{}", item.name, field.name),
                field.offset as u64,
            );
            check(
                field.since,
                &format!("{}.{}.size", item.name, field.name),
                field.size as u64,
            );
        }
    }
    for constant in macros.iter().chain(&enumerators) {
        check(constant.since, &constant.name, constant.value);
    }
    assert!(checked > 400, "only {checked} facts were checked");
    println!("checked {checked} facts against <linux/fuse.h> 7.{minor}");
}
