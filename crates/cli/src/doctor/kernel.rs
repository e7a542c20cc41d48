//! What the kernel has.

use super::{Finding, State, read};
use rustix::fs::{Mode, OFlags};

/// Pages of 2 MiB for shared memory.
pub fn huge_pages() -> Finding {
    let path = "/sys/kernel/mm/transparent_hugepage/enabled";
    let finding = match read(path) {
        None => Finding::new(
            "huge pages",
            State::Unknown,
            format!("{path} cannot be read"),
        ),
        Some(modes) if modes.contains("[never]") => {
            Finding::new("huge pages", State::Limited, format!("off: {modes}"))
        }
        Some(modes) => Finding::new("huge pages", State::Ok, modes),
    };
    finding.or(
        "data is moved in pages of 4 KiB, which costs some speed",
        "as root: echo madvise > /sys/kernel/mm/transparent_hugepage/enabled",
    )
}

pub fn seccomp_notification() -> Finding {
    let path = "/proc/sys/kernel/seccomp/actions_avail";
    let finding = match read(path) {
        None => Finding::new(
            "seccomp notification",
            State::Unknown,
            format!("{path} cannot be read"),
        ),
        Some(actions) if actions.split(' ').any(|action| action == "user_notif") => {
            Finding::new("seccomp notification", State::Ok, "the kernel has it")
        }
        Some(actions) => Finding::new("seccomp notification", State::No, format!("only {actions}")),
    };
    finding.or(
        "a daemon's mount(2) cannot be caught",
        "a kernel of 5.0 or later has it",
    )
}

pub fn ptrace() -> Finding {
    let path = "/proc/sys/kernel/yama/ptrace_scope";
    let finding = match read(path).as_deref() {
        // Without Yama there is no such limit.
        None | Some("0" | "1") => Finding::new("ptrace", State::Ok, "own children can be traced"),
        Some("2") => Finding::new("ptrace", State::Limited, "only with CAP_SYS_PTRACE"),
        Some(scope) => Finding::new("ptrace", State::No, format!("ptrace_scope is {scope}")),
    };
    finding.or(
        "descriptors of a daemon that was caught in mount(2) cannot be taken from it",
        "as root: sysctl kernel.yama.ptrace_scope=1",
    )
}

pub fn fuse_device() -> Finding {
    let finding = match rustix::fs::open("/dev/fuse", OFlags::RDWR | OFlags::CLOEXEC, Mode::empty())
    {
        Ok(_) => Finding::new("/dev/fuse", State::Ok, "can be opened"),
        Err(errno) => Finding::new("/dev/fuse", State::No, errno.to_string()),
    };
    finding.or(
        "nothing: fusewire needs no mount. Only benches cannot compare with the kernel's client",
        "to mount as well: load the fuse module, and give the container the device",
    )
}
