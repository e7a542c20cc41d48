//! What this process may do.

use super::{Finding, State};
use clap::ValueEnum;
use fusewire::Client;
use fusewire_server::ServerOptions;
use fusewire_server::mem::{MemOptions, Memory};
use nix::sched::{CloneFlags, unshare};
use rustix::fs::{MemfdFlags, SealFlags, fcntl_add_seals, memfd_create};
use rustix::process::{PidfdFlags, getpid, pidfd_open};
use std::process::{Command, Stdio};

/// What is tried in a process of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Probe {
    /// A user namespace.
    UserNamespace,
}

/// Does it; returns the exit status.
pub fn attempt(probe: Probe) -> i32 {
    let done = match probe {
        Probe::UserNamespace => unshare(CloneFlags::CLONE_NEWUSER),
    };
    match done {
        Ok(()) => 0,
        Err(errno) => {
            eprintln!("{}", errno.desc());
            1
        }
    }
}

/// A client and a server in this process, from end to end.
pub fn embedded_server() -> Finding {
    let try_it = || -> Result<(), Box<dyn std::error::Error>> {
        let files = Memory::new(MemOptions::default());
        let (transport, _server) = fusewire_server::start(files, &ServerOptions::default())?;
        let client = Client::builder().connect(transport)?;
        client.write("/probe", "text")?;
        client.read("/probe")?;
        client.shutdown()?;
        Ok(())
    };
    let finding = match try_it() {
        Ok(()) => Finding::new("embedded server", State::Ok, "files are written and read"),
        Err(error) => Finding::new("embedded server", State::No, error.to_string()),
    };
    finding
        .or(
            "no source works, dir: and mem: included",
            "see below what is missing; memory and threads are needed in any case",
        )
        .vital()
}

/// The memory that a daemon shares.
pub fn sealed_memory() -> Finding {
    let try_it = || {
        let file = memfd_create(
            "fusewire-doctor",
            MemfdFlags::ALLOW_SEALING | MemfdFlags::CLOEXEC,
        )?;
        fcntl_add_seals(&file, SealFlags::SHRINK)
    };
    let finding = match try_it() {
        Ok(()) => Finding::new("shared memory", State::Ok, "memfd_create with seals"),
        Err(errno) => Finding::new("shared memory", State::No, format!("memfd_create: {errno}")),
    };
    finding.or(
        "nothing can be shared with a daemon, in this process or another",
        "allow memfd_create and fcntl(F_ADD_SEALS) in the container's seccomp profile",
    )
}

/// How the death of a daemon is seen.
pub fn process_descriptors() -> Finding {
    let finding = match pidfd_open(getpid(), PidfdFlags::empty()) {
        Ok(_) => Finding::new("process descriptors", State::Ok, "pidfd_open"),
        Err(errno) => Finding::new(
            "process descriptors",
            State::No,
            format!("pidfd_open: {errno}"),
        ),
    };
    finding.or(
        "daemons cannot be started by fusewire; running ones can be used",
        "allow pidfd_open in the container's seccomp profile, or use vhost-user:SOCKET",
    )
}

pub fn proc_mounted() -> Finding {
    let finding = if std::path::Path::new("/proc/self/fd").is_dir() {
        Finding::new("/proc", State::Ok, "mounted")
    } else {
        Finding::new("/proc", State::No, "not mounted")
    };
    finding.or(
        "dir: sources do not work, nor does virtiofsd",
        "mount it: mount -t proc proc /proc, or have the container do so",
    )
}

/// In a process of its own: there is no way back out of a namespace.
pub fn user_namespaces() -> Finding {
    let try_it = || {
        let program = std::env::current_exe()?;
        Command::new(program)
            .args(["doctor", "--probe", "user-namespace"])
            .stdin(Stdio::null())
            .output()
    };
    let finding = match try_it() {
        Err(error) => Finding::new("user namespaces", State::Unknown, error.to_string()),
        Ok(output) if output.status.success() => {
            Finding::new("user namespaces", State::Ok, "can be made")
        }
        Ok(output) => {
            let why = String::from_utf8_lossy(&output.stderr);
            Finding::new("user namespaces", State::No, why.trim())
        }
    };
    finding.or(
        "virtiofsd cannot sandbox itself by namespaces when it is not started by root",
        "start it with --sandbox none, or allow them: kernel.unprivileged_userns_clone=1, \
         user.max_user_namespaces above 0, and the container's seccomp or AppArmor profile",
    )
}
