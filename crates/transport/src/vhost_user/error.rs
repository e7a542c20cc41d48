//! Why a connection did not come about.

use std::fmt;
use std::io;
use std::path::PathBuf;

/// A step of the vhost-user handshake.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Step {
    /// connect(2).
    Connect,
    /// GET_FEATURES.
    GetFeatures,
    /// GET_PROTOCOL_FEATURES.
    GetProtocolFeatures,
    /// SET_PROTOCOL_FEATURES.
    SetProtocolFeatures,
    /// SET_OWNER.
    SetOwner,
    /// GET_QUEUE_NUM.
    GetQueueNum,
    /// GET_MAX_MEM_SLOTS.
    GetMaxMemSlots,
    /// SET_FEATURES.
    SetFeatures,
    /// SET_VRING_NUM.
    SetVringNum,
    /// SET_MEM_TABLE.
    SetMemTable,
    /// SET_VRING_BASE.
    SetVringBase,
    /// SET_VRING_ADDR.
    SetVringAddr,
    /// SET_VRING_CALL.
    SetVringCall,
    /// SET_VRING_KICK.
    SetVringKick,
    /// SET_VRING_ENABLE.
    SetVringEnable,
}

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Step::Connect => "connect",
            Step::GetFeatures => "GET_FEATURES",
            Step::GetProtocolFeatures => "GET_PROTOCOL_FEATURES",
            Step::SetProtocolFeatures => "SET_PROTOCOL_FEATURES",
            Step::SetOwner => "SET_OWNER",
            Step::GetQueueNum => "GET_QUEUE_NUM",
            Step::GetMaxMemSlots => "GET_MAX_MEM_SLOTS",
            Step::SetFeatures => "SET_FEATURES",
            Step::SetVringNum => "SET_VRING_NUM",
            Step::SetMemTable => "SET_MEM_TABLE",
            Step::SetVringBase => "SET_VRING_BASE",
            Step::SetVringAddr => "SET_VRING_ADDR",
            Step::SetVringCall => "SET_VRING_CALL",
            Step::SetVringKick => "SET_VRING_KICK",
            Step::SetVringEnable => "SET_VRING_ENABLE",
        })
    }
}

/// Why there is no connection. Each message is one line that says what is wrong and what to do.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ConnectError {
    /// ENOENT.
    #[error("{}: no such socket; start the daemon first, or check the path", .0.display())]
    NoSuchSocket(PathBuf),
    /// There is a file, but no socket.
    #[error("{} is not a socket; give the path of the daemon's vhost-user socket", .0.display())]
    NotASocket(PathBuf),
    /// ECONNREFUSED.
    #[error(
        "{}: nobody listens on this socket; the daemon has ended, start it again", .0.display()
    )]
    NobodyListens(PathBuf),
    /// Longer than a socket's path can be.
    #[error("{}: longer than the 107 bytes of a socket's path; use a shorter one", .0.display())]
    PathTooLong(PathBuf),
    /// Any other failure of connect(2).
    #[error("{}: cannot connect: {error}; check the path and its permissions", socket.display())]
    Connect {
        /// The socket.
        socket: PathBuf,
        /// What the system says.
        error: io::Error,
    },
    /// A step of the handshake took too long.
    #[error(
        "{peer}: no answer to {step} within {seconds} s; the daemon is stuck or serves another \
         client (it serves one at a time)"
    )]
    Timeout {
        /// The socket or the program.
        peer: String,
        /// What was waited for.
        step: Step,
        /// How long.
        seconds: f64,
    },
    /// The peer went away in the handshake.
    #[error("{peer}: the daemon hung up at {step}, check that it is a vhost-user-fs daemon; {log}")]
    HungUp {
        /// The socket or the program.
        peer: String,
        /// What was being done.
        step: Step,
        /// Its last words, or where to look for them.
        log: String,
    },
    /// The peer answered what no vhost-user backend would.
    #[error("{peer}: this is no vhost-user daemon: at {step}: {what}")]
    NotVhostUser {
        /// The socket or the program.
        peer: String,
        /// What was being done.
        step: Step,
        /// What was wrong with the answer.
        what: String,
    },
    /// The peer said no.
    #[error("{peer}: the daemon refused {step}; {log}")]
    Refused {
        /// The socket or the program.
        peer: String,
        /// What was being done.
        step: Step,
        /// Its last words, or where to look for them.
        log: String,
    },
    /// The peer cannot do what is needed.
    #[error("{peer}: {what}; this needs a vhost-user-fs daemon such as virtiofsd")]
    Unsuitable {
        /// The socket or the program.
        peer: String,
        /// What it lacks.
        what: String,
    },
    /// The started daemon ended before it was connected.
    #[error("{} ended with {status}: {output}", program.display())]
    DaemonExited {
        /// The program.
        program: PathBuf,
        /// Exit code or signal.
        status: String,
        /// The last that it wrote, in one line.
        output: String,
    },
    /// There is no such program.
    #[error(
        "no virtiofsd found (looked for {tried}); install it (`apt-get install virtiofsd`, on \
         Debian 12 `cargo install virtiofsd`) or name it in FUSEWIRE_VIRTIOFSD"
    )]
    ProgramNotFound {
        /// Where it was looked for.
        tried: String,
    },
    /// The program could not be started.
    #[error("{}: cannot be started: {error}; check that it is an executable", program.display())]
    Spawn {
        /// The program.
        program: PathBuf,
        /// What the system says.
        error: io::Error,
    },
    /// The directory cannot be served.
    #[error("{}: cannot be served: {error}; give an existing directory", path.display())]
    SharedDir {
        /// The directory.
        path: PathBuf,
        /// What the system says.
        error: io::Error,
    },
    /// A choice that does not fit the others.
    #[error("{0}")]
    BadOption(String),
    /// The system is out of something that a connection needs.
    #[error("cannot set up {what}: {error}")]
    Resource {
        /// What could not be had.
        what: &'static str,
        /// What the system says.
        error: io::Error,
    },
}

/// For `map_err`: a [`ConnectError::Resource`].
pub(super) fn resource<E: Into<io::Error>>(what: &'static str) -> impl FnOnce(E) -> ConnectError {
    move |error| ConnectError::Resource {
        what,
        error: error.into(),
    }
}
