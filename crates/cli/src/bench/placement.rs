//! Which CPUs client and peer run on.

use rustix::io::Errno;
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};
use serde::Serialize;

/// Where the two sides run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Placement {
    /// Both on the same one.
    SameCpu,
    /// Each on one of its own.
    TwoCpus,
    /// Wherever the scheduler puts them.
    Unpinned,
}

/// The CPUs of the two sides.
#[derive(Clone, Debug)]
pub struct Cpus {
    client: CpuSet,
    peer: CpuSet,
}

impl Placement {
    /// As it is spelled in reports.
    pub fn name(self) -> &'static str {
        match self {
            Placement::SameCpu => "same_cpu",
            Placement::TwoCpus => "two_cpus",
            Placement::Unpinned => "unpinned",
        }
    }

    /// Chooses CPUs among those that this process may use.
    ///
    /// # Errors
    /// One line that says why there is no such placement here.
    pub fn cpus(self) -> Result<Cpus, String> {
        let allowed = sched_getaffinity(None)
            .map_err(|errno| format!("cannot see which CPUs may be used: {errno}"))?;
        let mut usable = (0..CpuSet::MAX_CPU).filter(|cpu| allowed.is_set(*cpu));
        let first = usable.next().map(single);
        let last = usable.next_back().map(single);
        let (client, peer) = match self {
            Placement::SameCpu => (first, first),
            Placement::TwoCpus => (first, last),
            Placement::Unpinned => (Some(allowed), Some(allowed)),
        };
        match (client, peer) {
            (Some(client), Some(peer)) => Ok(Cpus { client, peer }),
            _ => Err("this process may use one CPU only".to_owned()),
        }
    }
}

fn single(cpu: usize) -> CpuSet {
    let mut set = CpuSet::new();
    set.set(cpu);
    set
}

impl Cpus {
    /// Runs `f` where the client belongs. Threads and processes started by it stay there.
    ///
    /// # Errors
    /// When the system refuses.
    pub fn on_client<T>(&self, f: impl FnOnce() -> T) -> Result<T, Errno> {
        on(&self.client, f)
    }

    /// Runs `f` where the peer belongs. Threads and processes started by it, and their children,
    /// stay there.
    ///
    /// # Errors
    /// As [`Cpus::on_client`].
    pub fn on_peer<T>(&self, f: impl FnOnce() -> T) -> Result<T, Errno> {
        on(&self.peer, f)
    }
}

/// Runs `f` on `cpus`; then the calling thread may go where it could go before.
fn on<T>(cpus: &CpuSet, f: impl FnOnce() -> T) -> Result<T, Errno> {
    let before = sched_getaffinity(None)?;
    sched_setaffinity(None, cpus)?;
    let result = f();
    sched_setaffinity(None, &before)?;
    Ok(result)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::Command;

    fn allowed_list(status: &str) -> String {
        let line = status
            .lines()
            .find(|line| line.starts_with("Cpus_allowed_list:"));
        line.expect("the kernel tells").to_owned()
    }

    fn own() -> String {
        let thread = std::fs::read_to_string("/proc/thread-self/status");
        allowed_list(&thread.unwrap())
    }

    #[test]
    fn threads_and_processes_stay_where_they_were_started() {
        let before = own();
        let cpus = Placement::SameCpu.cpus().unwrap();
        let (here, thread, process) = cpus
            .on_peer(|| {
                let thread = std::thread::spawn(own).join().unwrap();
                // A child of a child, as a daemon that forks has.
                let output = Command::new("sh")
                    .args(["-c", "cat /proc/self/status; true"])
                    .output();
                let process = String::from_utf8(output.unwrap().stdout).unwrap();
                (own(), thread, allowed_list(&process))
            })
            .unwrap();
        assert!(!here.contains([',', '-']), "{here}");
        assert_eq!((&here, &here), (&thread, &process));
        assert_eq!(own(), before);
    }

    #[test]
    fn the_two_sides_are_where_the_placement_says() {
        let same = Placement::SameCpu.cpus().unwrap();
        assert_eq!(same.client, same.peer);
        let free = Placement::Unpinned.cpus().unwrap();
        assert_eq!(free.client, sched_getaffinity(None).unwrap());
        assert_eq!(free.client, free.peer);
        match Placement::TwoCpus.cpus() {
            Ok(two) => {
                assert_ne!(two.client, two.peer);
                assert_eq!((two.client.count(), two.peer.count()), (1, 1));
            }
            Err(reason) => {
                assert_eq!(free.client.count(), 1, "{reason}");
            }
        }
    }
}
