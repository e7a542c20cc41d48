//! Rights and times that a copy keeps.

use fusewire::{Metadata, Time, Times};
use rustix::fs::{Stat, Timespec, Timestamps};

/// Rights that a copy may have without `--special`: no set-user-id, no set-group-id.
const ORDINARY: u32 = 0o1777;

/// Rights and times.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Attributes {
    /// Permission bits.
    pub mode: u32,
    atime: (i64, u32),
    mtime: (i64, u32),
}

impl Attributes {
    /// Of a file of the source.
    pub fn of_remote(meta: &Metadata, special: bool) -> Self {
        Attributes {
            mode: permissions(meta.mode(), special),
            atime: (meta.atime(), meta.atime_nsec()),
            mtime: (meta.mtime(), meta.mtime_nsec()),
        }
    }

    /// Of a file of this host.
    pub fn of_local(stat: &Stat, special: bool) -> Self {
        let nanos = |nanos: i64| u32::try_from(nanos).unwrap_or(0);
        Attributes {
            mode: permissions(stat.st_mode, special),
            atime: (stat.st_atime, nanos(stat.st_atime_nsec.cast_signed())),
            mtime: (stat.st_mtime, nanos(stat.st_mtime_nsec.cast_signed())),
        }
    }

    /// The times, for this host.
    pub fn timestamps(&self) -> Timestamps {
        let spec = |(secs, nanos): (i64, u32)| Timespec {
            tv_sec: secs,
            // What the daemon says may be out of range, and would be an instruction then.
            tv_nsec: nanos.min(999_999_999).into(),
        };
        Timestamps {
            last_access: spec(self.atime),
            last_modification: spec(self.mtime),
        }
    }

    /// The times, for the source.
    pub fn times(&self) -> Times {
        let time = |(secs, nanos): (i64, u32)| Some(Time::At(secs, nanos.min(999_999_999)));
        Times {
            accessed: time(self.atime),
            modified: time(self.mtime),
        }
    }
}

fn permissions(mode: u32, special: bool) -> u32 {
    mode & if special { 0o7777 } else { ORDINARY }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn set_id_bits_are_kept_only_when_asked() {
        assert_eq!(permissions(0o106_755, false), 0o755);
        assert_eq!(permissions(0o106_755, true), 0o6755);
        assert_eq!(permissions(0o041_777, false), 0o1777);
    }

    #[test]
    fn nanoseconds_out_of_range_are_no_instructions() {
        // UTIME_NOW and UTIME_OMIT are such numbers.
        for nanos in [0x3fff_ffff, 0x3fff_fffe, u32::MAX] {
            let attributes = Attributes {
                mode: 0,
                atime: (1, nanos),
                mtime: (2, nanos),
            };
            let stamps = attributes.timestamps();
            assert_eq!(stamps.last_access.tv_nsec, 999_999_999);
            assert_eq!(stamps.last_modification.tv_nsec, 999_999_999);
        }
    }
}
