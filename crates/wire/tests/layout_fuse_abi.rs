//! Our structures and constants against the `fuse-abi` crate, an independent binding of FUSE 7.40.

mod common;

use std::mem::{offset_of, size_of};

use fuse_abi::linux::{self as theirs, fuse_notify_code, fuse_opcode};
use fusewire_wire::abi::{self as ours, *};
use fusewire_wire::notify::NotifyCode;
use fusewire_wire::{InitFlags, Opcode};

#[test]
fn structures_equal() {
    macro_rules! row {
        ($since:literal $c:ident $rust:ident { $($field:ident $(@ $minor:literal)?)* }) => {
            assert_eq!(size_of::<ours::$rust>(), size_of::<theirs::$c>(), stringify!($c));
            $(assert_eq!(
                offset_of!(ours::$rust, $field),
                offset_of!(theirs::$c, $field),
                concat!(stringify!($c), ".", stringify!($field))
            );)*
        };
    }
    structs_7_40!(row);
    assert_eq!(
        offset_of!(FileLock, typ),
        offset_of!(theirs::fuse_file_lock, type_)
    );
    assert_eq!(
        offset_of!(Dirent, typ),
        offset_of!(theirs::fuse_dirent, type_)
    );
    assert_eq!(
        offset_of!(ExtHeader, typ),
        offset_of!(theirs::fuse_ext_header, type_)
    );
}

#[test]
fn opcodes_equal() {
    for number in 0..5000 {
        let ours = Opcode::try_from(number)
            .ok()
            .filter(|op| op.since_minor() <= 40);
        let theirs = fuse_opcode::try_from(number).ok();
        let name = ours.map(|op| {
            if op == Opcode::CuseInit {
                op.name().into()
            } else {
                format!("FUSE_{}", op.name())
            }
        });
        assert_eq!(name, theirs.map(|op| format!("{op:?}")), "opcode {number}");
    }
}

#[test]
fn notification_codes_equal() {
    for number in 1..8 {
        let theirs = fuse_notify_code::try_from(number).expect("7.40 has seven codes");
        let ours = NotifyCode::try_from(number as i32).expect("so have we");
        let theirs = format!("{theirs:?}")
            .replace("FUSE_NOTIFY_", "")
            .replace('_', "")
            .to_lowercase();
        assert_eq!(format!("{ours:?}").to_lowercase(), theirs);
    }
}

#[test]
fn init_flags_equal() {
    let mut seen = InitFlags::empty();
    macro_rules! same {
        ($($flag:ident $theirs:ident)*) => {$(
            assert_eq!(InitFlags::$flag.bits(), u64::from(theirs::$theirs), stringify!($flag));
            seen |= InitFlags::$flag;
        )*};
    }
    same! {
        ASYNC_READ FUSE_ASYNC_READ POSIX_LOCKS FUSE_POSIX_LOCKS FILE_OPS FUSE_FILE_OPS
        ATOMIC_O_TRUNC FUSE_ATOMIC_O_TRUNC EXPORT_SUPPORT FUSE_EXPORT_SUPPORT
        BIG_WRITES FUSE_BIG_WRITES DONT_MASK FUSE_DONT_MASK SPLICE_WRITE FUSE_SPLICE_WRITE
        SPLICE_MOVE FUSE_SPLICE_MOVE SPLICE_READ FUSE_SPLICE_READ FLOCK_LOCKS FUSE_FLOCK_LOCKS
        HAS_IOCTL_DIR FUSE_HAS_IOCTL_DIR AUTO_INVAL_DATA FUSE_AUTO_INVAL_DATA
        DO_READDIRPLUS FUSE_DO_READDIRPLUS READDIRPLUS_AUTO FUSE_READDIRPLUS_AUTO
        ASYNC_DIO FUSE_ASYNC_DIO WRITEBACK_CACHE FUSE_WRITEBACK_CACHE
        NO_OPEN_SUPPORT FUSE_NO_OPEN_SUPPORT PARALLEL_DIROPS FUSE_PARALLEL_DIROPS
        HANDLE_KILLPRIV FUSE_HANDLE_KILLPRIV POSIX_ACL FUSE_POSIX_ACL ABORT_ERROR FUSE_ABORT_ERROR
        MAX_PAGES FUSE_MAX_PAGES CACHE_SYMLINKS FUSE_CACHE_SYMLINKS
        NO_OPENDIR_SUPPORT FUSE_NO_OPENDIR_SUPPORT EXPLICIT_INVAL_DATA FUSE_EXPLICIT_INVAL_DATA
        MAP_ALIGNMENT FUSE_MAP_ALIGNMENT SUBMOUNTS FUSE_SUBMOUNTS
        HANDLE_KILLPRIV_V2 FUSE_HANDLE_KILLPRIV_V2 SETXATTR_EXT FUSE_SETXATTR_EXT
        INIT_EXT FUSE_INIT_EXT INIT_RESERVED FUSE_INIT_RESERVED SECURITY_CTX FUSE_SECURITY_CTX
        HAS_INODE_DAX FUSE_HAS_INODE_DAX CREATE_SUPP_GROUP FUSE_CREATE_SUPP_GROUP
        HAS_EXPIRE_ONLY FUSE_HAS_EXPIRE_ONLY DIRECT_IO_ALLOW_MMAP FUSE_DIRECT_IO_ALLOW_MMAP
        PASSTHROUGH FUSE_PASSTHROUGH NO_EXPORT_SUPPORT FUSE_NO_EXPORT_SUPPORT
        HAS_RESEND FUSE_HAS_RESEND
    }
    assert_eq!(
        InitFlags::all() - seen,
        InitFlags::ALLOW_IDMAP | InitFlags::OVER_IO_URING | InitFlags::REQUEST_TIMEOUT
    );
}
