//! What the errno of a request means for the call that asked.

use crate::harness::Place;
use fusewire_server::Errno;
use fusewire_wire::Opcode;

/// How the call ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Meant {
    /// With this errno.
    Errno(Errno),
    /// As if nothing had been.
    Nothing,
    /// The call looks twice, and the second look counts.
    Either,
}

use Meant::{Either, Nothing};

impl Meant {
    pub fn allows(self, result: Result<(), Errno>) -> bool {
        match self {
            Meant::Errno(errno) => result == Err(errno),
            Nothing => result.is_ok(),
            Either => true,
        }
    }
}

/// Calls that look before they do something about what is there or not, and so may be told two
/// things.
fn looks_twice(call: &str, opcode: Opcode, errno: Errno) -> bool {
    match call {
        "create_dir_all" => {
            let looks = matches!(opcode, Opcode::Lookup | Opcode::Getattr);
            looks && matches!(errno, Errno::NOENT | Errno::NOTDIR | Errno::LOOP)
        }
        // What has gone by itself has gone.
        "remove_dir_all" => errno == Errno::NOENT,
        _ => false,
    }
}

/// The operations that take a descriptor of the peer's; they are tried again when some have been
/// given back.
fn takes_descriptor(opcode: Opcode) -> bool {
    matches!(
        opcode,
        Opcode::Lookup
            | Opcode::Open
            | Opcode::Opendir
            | Opcode::Readdir
            | Opcode::Readdirplus
            | Opcode::Create
            | Opcode::Mkdir
            | Opcode::Mknod
            | Opcode::Symlink
            | Opcode::Link
            | Opcode::Tmpfile
    )
}

/// A look that may find nothing.
fn may_be_missing(call: &str, place: Place) -> bool {
    match call {
        "write" | "overwrite" => place.nth == 1,
        "hard_link" | "rename" | "rename_no_replace" | "copy" => place.nth == 3,
        "an unnamed file" => place.nth == 2,
        "exists" => true,
        _ => false,
    }
}

/// A removal that fails with EIO looks what is there, because some daemons say so when somebody
/// else was faster; so do its own looks at what is to be removed.
fn is_removal(call: &str, place: Place) -> bool {
    match place.opcode {
        Opcode::Unlink | Opcode::Rmdir | Opcode::Rename | Opcode::Rename2 => true,
        Opcode::Lookup => match call {
            "rename" | "exchange" | "rename_no_replace" => place.nth >= 2,
            "remove_file" | "remove_dir" => place.nth == 1,
            "remove_dir_all" => place.nth >= 1 && place.nth != 4,
            _ => false,
        },
        _ => false,
    }
}

pub fn meant(call: &str, place: Place, errno: Errno) -> Meant {
    use Opcode as Op;
    if looks_twice(call, place.opcode, errno) {
        return Either;
    }
    match (place.opcode, errno) {
        // Nobody is told what a daemon says to that.
        (Op::Release | Op::Releasedir, _) => Nothing,
        // A file that was read, and dropped.
        (Op::Flush, _) if call == "read" || (call == "copy" && place.nth == 1) => Nothing,
        (opcode, Errno::NFILE | Errno::MFILE) if takes_descriptor(opcode) => Nothing,
        (Op::Lookup, Errno::NOENT) if may_be_missing(call, place) => Nothing,
        (Op::Lookup | Op::Getattr, Errno::NOENT | Errno::NOTDIR) if call == "exists" => Nothing,
        (_, Errno::IO) if is_removal(call, place) => Nothing,
        // A directory that was removed has no more entries.
        (Op::Readdir | Op::Readdirplus, Errno::NOENT) => Nothing,
        // Somebody else made it or removed it meanwhile: another try.
        (Op::Open | Op::Create, Errno::EXIST) | (Op::Create, Errno::NOENT) => Nothing,
        (Op::Open, Errno::NOENT) if call == "overwrite" => Nothing,
        // As write_all of std.
        (Op::Write, Errno::INTR) if call != "an open file" => Nothing,
        // There is none, or it has grown meanwhile.
        (Op::Getxattr, Errno::NODATA) => Nothing,
        (Op::Getxattr | Op::Listxattr, Errno::RANGE) if place.nth == 1 => Nothing,
        // No data behind; somebody else has the lock.
        (Op::Lseek, Errno::NXIO) => Nothing,
        (Op::Setlk, Errno::AGAIN) if place.nth == 0 => Nothing,
        // What the daemon cannot copy goes through the client.
        (
            Op::CopyFileRange64 | Op::Getattr,
            Errno::NOSYS | Errno::XDEV | Errno::INVAL | Errno::OPNOTSUPP,
        ) if call == "copy" && (place.opcode != Op::Getattr || matches!(place.nth, 3 | 4)) => {
            Nothing
        }
        (_, Errno::NOSYS) => unknown(place.opcode),
        _ => Meant::Errno(errno),
    }
}

/// Operations that a daemon need not have.
fn unknown(opcode: Opcode) -> Meant {
    match opcode {
        // There is another way, or nothing to be done.
        Opcode::Create
        | Opcode::Flush
        | Opcode::Fsync
        | Opcode::Fsyncdir
        | Opcode::Syncfs
        | Opcode::Statx
        | Opcode::Poll
        | Opcode::Bmap
        | Opcode::Lseek => Nothing,
        Opcode::Getxattr
        | Opcode::Setxattr
        | Opcode::Listxattr
        | Opcode::Removexattr
        | Opcode::Fallocate
        | Opcode::Tmpfile => Meant::Errno(Errno::OPNOTSUPP),
        Opcode::Link => Meant::Errno(Errno::PERM),
        Opcode::Rename2 => Meant::Errno(Errno::INVAL),
        _ => Meant::Errno(Errno::NOSYS),
    }
}
