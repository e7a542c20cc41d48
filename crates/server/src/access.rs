//! access(2), as far as the mode of a file says.

use crate::fs::{Errno, Result};
use fusewire_wire::Caller;
use fusewire_wire::abi::FileKind;

/// access(2) by the mode alone, of a file with that `mode`, owner and group: `mask` is made of
/// `R_OK` (4), `W_OK` (2) and `X_OK` (1). Of the caller's groups a request names one only, so that
/// members by a supplementary group count as others.
///
/// EACCES, or EINVAL for another mask.
pub(crate) fn permit(caller: Caller, mask: u32, mode: u32, owner: (u32, u32)) -> Result<()> {
    if mask & !7 != 0 {
        return Err(Errno::INVAL);
    }
    let is_dir = FileKind::from_mode(mode) == Some(FileKind::Directory);
    let granted = if caller.uid == 0 {
        // Root may do everything but execute what nobody may.
        if is_dir || mode & 0o111 != 0 { 7 } else { 6 }
    } else if caller.uid == owner.0 {
        mode >> 6
    } else if caller.gid == owner.1 {
        mode >> 3
    } else {
        mode
    };
    if mask & !granted == 0 {
        Ok(())
    } else {
        Err(Errno::ACCESS)
    }
}

/// EROFS when `mask` asks to write a file of that mode, which a read-only file system has not to
/// write: pipes, sockets and devices are written elsewhere.
pub(crate) fn permit_read_only(mask: u32, mode: u32) -> Result<()> {
    let here = matches!(
        FileKind::from_mode(mode),
        Some(FileKind::Regular | FileKind::Directory | FileKind::Symlink)
    );
    if mask & 2 != 0 && here {
        Err(Errno::ROFS)
    } else {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn modes_permit_what_access_says() {
        const FILE: u32 = 0o100_000;
        const DIR: u32 = 0o040_000;
        let who = |uid, gid| Caller { uid, gid, pid: 1 };
        for (caller, mode, granted) in [
            (who(1, 9), FILE | 0o640, 6),
            (who(9, 2), FILE | 0o640, 4),
            (who(9, 9), FILE | 0o641, 1),
            // The owner's bits count for the owner even if others may more.
            (who(1, 2), FILE | 0o077, 0),
            (who(9, 2), FILE | 0o707, 0),
            (who(0, 0), FILE, 6),
            (who(0, 0), FILE | 0o001, 7),
            (who(0, 0), DIR, 7),
        ] {
            for mask in 0..8 {
                let permitted = permit(caller, mask, mode, (1, 2)).is_ok();
                assert_eq!(
                    permitted,
                    mask & !granted == 0,
                    "{caller:?} {mode:o} {mask}"
                );
            }
        }
        assert_eq!(permit(who(0, 0), 8, DIR, (0, 0)), Err(Errno::INVAL));
        assert_eq!(permit_read_only(2, FILE | 0o644), Err(Errno::ROFS));
        assert_eq!(permit_read_only(5, FILE | 0o644), Ok(()));
        const PIPE: u32 = 0o010_000;
        assert_eq!(permit_read_only(2, PIPE), Ok(()));
    }
}
