//! How much there is of what is shared with others.

use super::{Finding, State, read};
use rustix::net::sockopt::{set_socket_send_buffer_size, socket_send_buffer_size};
use rustix::net::{AddressFamily, SocketFlags, SocketType, socketpair};
use rustix::process::{Resource, getrlimit};

/// Fewer than this, and a tree of some size is too much for a daemon.
const FEW_DESCRIPTORS: u64 = 4096;

/// What a FUSE daemon can send in one message at most: 1 MiB, and its header.
const LARGE_MESSAGE_BYTES: usize = (1 << 20) + 4096;

pub fn descriptors() -> Finding {
    let limit = getrlimit(Resource::Nofile);
    let shown =
        |limit: Option<u64>| limit.map_or_else(|| "unlimited".to_owned(), |n| n.to_string());
    let found = format!(
        "{}, can be raised to {}",
        shown(limit.current),
        shown(limit.maximum)
    );
    let enough = limit.maximum.is_none_or(|max| max >= FEW_DESCRIPTORS);
    let state = if enough { State::Ok } else { State::Limited };
    Finding::new("open files", state, found).or(
        "a daemon may run out of descriptors, of which it may need one for each cached name",
        "raise the limit: ulimit -Hn 65536 as root, LimitNOFILE= of the unit, or --ulimit nofile= \
         of the container",
    )
}

pub fn cpus() -> Finding {
    let finding = match rustix::thread::sched_getaffinity(None).map(|set| set.count()) {
        Err(errno) => Finding::new("CPUs", State::Unknown, errno.to_string()),
        Ok(1) => Finding::new("CPUs", State::Limited, "1"),
        Ok(count) => Finding::new("CPUs", State::Ok, count.to_string()),
    };
    finding.or(
        "client and daemon take turns on it: answers take longer, and none can be waited for awake",
        "give the container, or the process (taskset), a second one",
    )
}

pub fn cpu_quota() -> Finding {
    let finding = match read("/sys/fs/cgroup/cpu.max") {
        None => Finding::new("CPU quota", State::Ok, "none is known"),
        Some(max) => match quota(&max) {
            None => Finding::new("CPU quota", State::Ok, "none"),
            Some(cpus) if cpus >= 2.0 => {
                Finding::new("CPU quota", State::Ok, format!("{cpus:.1} CPUs"))
            }
            Some(cpus) => Finding::new("CPU quota", State::Limited, format!("{cpus:.1} CPUs")),
        },
    };
    finding.or(
        "requests now and then wait for the next period of the quota, up to 100 ms",
        "raise it: --cpus of the container, CPUQuota= of the unit",
    )
}

/// CPUs that a group may use together: `QUOTA PERIOD` in microseconds; `None` for all.
fn quota(text: &str) -> Option<f64> {
    let (quota, period) = text.split_once(' ')?;
    let (quota, period): (f64, f64) = (quota.parse().ok()?, period.parse().ok()?);
    (period > 0.0).then(|| quota / period)
}

/// How long a message over a socket can be.
pub fn messages() -> Finding {
    let try_it = || {
        let (one, _other) = socketpair(
            AddressFamily::UNIX,
            SocketType::SEQPACKET,
            SocketFlags::CLOEXEC,
            None,
        )?;
        set_socket_send_buffer_size(&one, LARGE_MESSAGE_BYTES)?;
        socket_send_buffer_size(&one)
    };
    let finding = match try_it() {
        Err(errno) => Finding::new("messages over sockets", State::Unknown, errno.to_string()),
        // The kernel doubles what is asked for, for its own needs.
        Ok(size) => {
            let bytes = size / 2;
            let state = match bytes >= LARGE_MESSAGE_BYTES {
                true => State::Ok,
                false => State::Limited,
            };
            Finding::new(
                "messages over sockets",
                state,
                format!("up to {bytes} bytes"),
            )
        }
    };
    finding.or(
        "a daemon behind a socket reads and writes in smaller pieces; virtio-fs is not concerned",
        "as root: sysctl net.core.wmem_max=2097152 net.core.rmem_max=2097152",
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quotas_are_cpus() {
        assert_eq!(quota("max 100000"), None);
        assert_eq!(quota("150000 100000"), Some(1.5));
        assert_eq!(quota("150000"), None);
        assert_eq!(quota("1 0"), None);
    }
}
