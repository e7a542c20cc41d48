//! Pure decisions of the engine: how long a request may take, and how its waiter waits.

use fusewire_sync::time::NS_PER_SEC;
use fusewire_wire::{Opcode, Request, SetattrValid};
use std::time::Duration;

/// How long requests may take before their callers get ETIMEDOUT.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Timeouts {
    /// Operations on names and attributes. Default 30 s.
    pub metadata: Option<Duration>,
    /// READ and WRITE. Default 60 s.
    pub data: Option<Duration>,
}

const DEFAULT_METADATA: Duration = Duration::from_secs(30);

impl Default for Timeouts {
    fn default() -> Self {
        Timeouts {
            metadata: Some(DEFAULT_METADATA),
            data: Some(Duration::from_secs(60)),
        }
    }
}

impl Timeouts {
    /// How long a shutdown that begins now waits for what is still in flight.
    pub(super) fn goodbye_ns(&self, now_ns: u64) -> u64 {
        let patience = self.metadata.unwrap_or(DEFAULT_METADATA);
        now_ns.saturating_add(u64::try_from(patience.as_nanos()).unwrap_or(u64::MAX))
    }

    /// When a request that starts now ends by itself; `u64::MAX` for never.
    pub(super) fn deadline_ns(&self, opcode: Opcode, now_ns: u64) -> u64 {
        let timeout = match opcode {
            // These may take as long as the storage behind the daemon does, and giving one up
            // would leave the caller without knowing whether its data is safe.
            Opcode::Fsync
            | Opcode::Fsyncdir
            | Opcode::Flush
            | Opcode::Release
            | Opcode::Releasedir
            | Opcode::Syncfs
            | Opcode::Fallocate
            | Opcode::CopyFileRange
            | Opcode::CopyFileRange64
            | Opcode::Setlkw
            | Opcode::Poll => None,
            Opcode::Read | Opcode::Write => self.data,
            _ => self.metadata,
        };
        timeout.map_or(u64::MAX, |timeout| {
            let ns = u64::try_from(timeout.as_nanos()).unwrap_or(u64::MAX);
            now_ns.saturating_add(ns)
        })
    }
}

/// How a caller waits for its reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WaitPolicy {
    /// Sleeps at once.
    Sleep,
    /// Looks for the reply before it sleeps, yielding the CPU in between, for operations that are
    /// answered within microseconds. The others sleep at once.
    Spin {
        /// Longest time to look since the request was sent, or since the last reply to anybody's,
        /// in nanoseconds; at most 1 s.
        budget_ns: u64,
    },
}

impl Default for WaitPolicy {
    /// 40 µs: longer than nearly every metadata reply takes, and about what a sleep costs when the
    /// peer runs on another CPU.
    fn default() -> Self {
        WaitPolicy::Spin { budget_ns: 40_000 }
    }
}

impl WaitPolicy {
    /// How long the waiter for `request` may spin, in nanoseconds.
    pub(super) fn budget_ns(self, request: &Request<'_>) -> u64 {
        match self {
            WaitPolicy::Spin { budget_ns } if answers_quickly(request) => budget_ns.min(NS_PER_SEC),
            _ => 0,
        }
    }
}

/// Operations whose reply is small and needs no data of a file. A list of what may spin, because a
/// list of what may not misses the bulk replies (READDIR) and whatever comes next.
fn answers_quickly(request: &Request<'_>) -> bool {
    if let Request::Setattr(arg) = request {
        // A change of size may free or zero any amount of storage.
        return !SetattrValid::from_bits_retain(arg.valid).contains(SetattrValid::SIZE);
    }
    matches!(
        request.opcode(),
        Opcode::Lookup
            | Opcode::Getattr
            | Opcode::Statx
            | Opcode::Readlink
            | Opcode::Symlink
            | Opcode::Mknod
            | Opcode::Mkdir
            | Opcode::Unlink
            | Opcode::Rmdir
            | Opcode::Rename
            | Opcode::Rename2
            | Opcode::Link
            | Opcode::Open
            | Opcode::Opendir
            | Opcode::Create
            | Opcode::Tmpfile
            | Opcode::Access
            | Opcode::Statfs
            | Opcode::Getxattr
            | Opcode::Setxattr
            | Opcode::Listxattr
            | Opcode::Removexattr
            | Opcode::Getlk
            | Opcode::Setlk
            | Opcode::Release
            | Opcode::Releasedir
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use fusewire_wire::abi::*;

    #[test]
    fn bulk_and_blocking_operations_never_spin() {
        let policy = WaitPolicy::Spin { budget_ns: 40_000 };
        for request in [
            Request::Read(ReadIn::default()),
            Request::Write(WriteIn::default()),
            Request::Readdir(ReadIn::default()),
            Request::Readdirplus(ReadIn::default()),
            Request::Fsync(FsyncIn::default()),
            Request::Fsyncdir(FsyncIn::default()),
            Request::Flush(FlushIn::default()),
            Request::Setlkw(LkIn::default()),
            Request::Syncfs,
            Request::Fallocate(FallocateIn::default()),
            Request::Lseek(LseekIn::default()),
            Request::Init(InitIn::default()),
            Request::Destroy,
            Request::Setattr(SetattrIn {
                valid: SetattrValid::SIZE.bits(),
                ..SetattrIn::default()
            }),
        ] {
            assert_eq!(policy.budget_ns(&request), 0, "{request:?}");
        }
        let mode = Request::Setattr(SetattrIn {
            valid: SetattrValid::MODE.bits(),
            ..SetattrIn::default()
        });
        for request in [Request::Getattr { fh: None }, mode] {
            assert_eq!(policy.budget_ns(&request), 40_000, "{request:?}");
            assert_eq!(WaitPolicy::Sleep.budget_ns(&request), 0);
        }
    }

    #[test]
    fn deadlines_follow_the_kind_of_operation() {
        let timeouts = Timeouts::default();
        assert_eq!(timeouts.deadline_ns(Opcode::Lookup, 5), 5 + 30 * NS_PER_SEC);
        assert_eq!(timeouts.deadline_ns(Opcode::Write, 5), 5 + 60 * NS_PER_SEC);
        assert_eq!(timeouts.deadline_ns(Opcode::Fsync, 5), u64::MAX);
        let none = Timeouts {
            metadata: None,
            data: None,
        };
        assert_eq!(none.deadline_ns(Opcode::Lookup, 5), u64::MAX);
    }
}
