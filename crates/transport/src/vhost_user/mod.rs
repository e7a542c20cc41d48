//! A vhost-user-fs daemon: virtiofsd, the one in Rust or the older one in C.
//!
//! `handshake` speaks over the control channel, `doorbell` holds the eventfds, `daemon` starts and
//! ends a virtiofsd of our own. The data path is the ring alone.

mod control;
mod daemon;
mod deadline;
mod doorbell;
mod error;
mod handshake;
mod options;

pub use error::{ConnectError, Step};
pub use options::{Cache, Flavour, Options, Sandbox, Virtiofsd};

use crate::life::Life;
use crate::ring::queues::{Kick, Queues};
use crate::types::{Completion, Death, Limits, PeerFault, Submission, SubmitError};
use crate::{Inbox, Transport};
use control::{VhostControl, bits};
use daemon::Daemon;
use deadline::Deadline;
use doorbell::{Doorbells, counter, ring};
use error::resource;
use fusewire_mem::{Arena, ForkGuard};
use fusewire_sync::{Arc, Weak};
use handshake::{Agreed, Handshake, QUEUES};
use rustix::event::{PollFd, PollFlags, poll};
use rustix::fd::OwnedFd;
use rustix::io::Errno;
use rustix::net::sockopt::{Timeout, set_socket_timeout};
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType};
use std::net::Shutdown;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};

/// How long a dying daemon may take to leave its exit status; the death itself is known already.
const STATUS_MS: u32 = 100;

/// How long a daemon that hung up in the handshake may take to end, so that its own words can be
/// quoted.
const LAST_WORDS_MS: u32 = 1000;

/// A transport to a vhost-user-fs daemon.
#[derive(Debug)]
pub struct VhostUser {
    queues: Queues,
    bells: Doorbells,
    life: Life,
    /// Readable for ever once the connection has ended.
    ended: OwnedFd,
    fork: ForkGuard,
    agreed: Agreed,
    peer: String,
    // Dropped in this order: the daemon ends when its connection is closed.
    socket: Arc<UnixStream>,
    daemon: Option<Daemon>,
}

/// What was agreed on, for people to read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VhostUserInfo {
    /// The socket, or the program that was started.
    pub peer: String,
    /// Process id of the daemon, if it was started here.
    pub pid: Option<u32>,
    /// Names of the virtio and vhost-user features in use.
    pub features: Vec<&'static str>,
    /// Entries of the request queue.
    pub queue_size: u16,
    /// How many memory regions the daemon maps at once, if it says.
    pub max_mem_slots: Option<u64>,
}

/// Connects to the daemon that listens on `socket`. Blocks for at most
/// [`Options::handshake_timeout`] a step.
///
/// # Errors
/// [`ConnectError`] says which step failed and what to do.
pub fn connect(socket: &Path, options: &Options) -> Result<VhostUser, ConnectError> {
    let stream = connect_socket(socket, options)?;
    attach(stream, socket.display().to_string(), None, options)
}

/// Starts a virtiofsd for a directory and connects to it. Blocks as [`connect`] does. The daemon
/// ends with the transport, or with this process.
///
/// # Errors
/// As [`connect`], and when there is no program or it ends at once; its own words are quoted then.
pub fn spawn(virtiofsd: &Virtiofsd, options: &Options) -> Result<VhostUser, ConnectError> {
    let what = "a socket for the daemon";
    let directory = tempfile::Builder::new()
        .prefix("fusewire-")
        .tempdir()
        .map_err(resource(what))?;
    let path = directory.path().join("vhost-user.sock");
    let listener = UnixListener::bind(&path).map_err(resource(what))?;
    // Before there is a daemon: the connection waits in the backlog, and fails if it never comes.
    let stream = connect_socket(&path, options)?;
    let daemon = Daemon::start(virtiofsd, listener.into())?;
    drop(directory);
    let peer = daemon.program().display().to_string();
    attach(stream, peer, Some(daemon), options)
}

fn connect_socket(path: &Path, options: &Options) -> Result<UnixStream, ConnectError> {
    let owned = || path.to_owned();
    let address = SocketAddrUnix::new(path).map_err(|_| ConnectError::PathTooLong(owned()))?;
    let socket = rustix::net::socket_with(
        AddressFamily::UNIX,
        SocketType::STREAM,
        SocketFlags::CLOEXEC,
        None,
    )
    .map_err(resource("a socket"))?;
    // connect(2) itself blocks while the daemon's backlog is full.
    let seconds = options.handshake_timeout.as_secs_f64();
    set_socket_timeout(&socket, Timeout::Send, Some(options.handshake_timeout))
        .map_err(|_| bad_timeout())?;
    let connected = loop {
        match rustix::net::connect(&socket, &address) {
            Err(Errno::INTR) => {}
            result => break result,
        }
    };
    connected.map_err(|errno| match errno {
        Errno::NOENT | Errno::NOTDIR => ConnectError::NoSuchSocket(owned()),
        Errno::CONNREFUSED if is_socket(path) => ConnectError::NobodyListens(owned()),
        Errno::CONNREFUSED | Errno::PROTOTYPE => ConnectError::NotASocket(owned()),
        Errno::AGAIN => ConnectError::Timeout {
            peer: path.display().to_string(),
            step: Step::Connect,
            seconds,
        },
        errno => ConnectError::Connect {
            socket: owned(),
            error: errno.into(),
        },
    })?;
    set_socket_timeout(&socket, Timeout::Send, None).map_err(resource("a socket"))?;
    Ok(UnixStream::from(socket))
}

fn bad_timeout() -> ConnectError {
    ConnectError::BadOption("the handshake timeout must be more than 0".to_owned())
}

fn is_socket(path: &Path) -> bool {
    use std::os::unix::fs::FileTypeExt;
    path.metadata().is_ok_and(|m| m.file_type().is_socket())
}

fn attach(
    stream: UnixStream,
    peer: String,
    daemon: Option<Daemon>,
    options: &Options,
) -> Result<VhostUser, ConnectError> {
    let socket = Arc::new(stream);
    let result = handshake(&socket, &peer, options);
    let (queues, bells, agreed) = match (result, daemon.as_ref()) {
        (Ok(parts), _) => parts,
        (Err(error), Some(daemon)) => {
            // Let go of it before it is dropped, and so waited for.
            let _ = socket.shutdown(Shutdown::Both);
            let error = explain(error, daemon);
            daemon.kill();
            return Err(error);
        }
        (Err(error), None) => return Err(error),
    };
    Ok(VhostUser {
        queues,
        bells,
        life: Life::new(),
        ended: counter().map_err(resource("an eventfd"))?,
        fork: ForkGuard::new().map_err(resource("a page"))?,
        agreed,
        peer,
        socket,
        daemon,
    })
}

fn handshake(
    socket: &Arc<UnixStream>,
    peer: &str,
    options: &Options,
) -> Result<(Queues, Doorbells, Agreed), ConnectError> {
    let arena = Arena::new(options.arena_bytes).map_err(resource("the arena"))?;
    let bells = Doorbells::new().map_err(resource("eventfds"))?;
    let deadline = Deadline::new(Arc::clone(socket), options.handshake_timeout)
        .map_err(resource("the timer"))?;
    let control = socket.try_clone().map_err(resource("a socket"))?;
    let mut handshake = Handshake::new(VhostControl::new(control, QUEUES), &deadline, peer);
    let agreed = handshake.negotiate(options.queue_size)?;
    let queues = handshake.start(&agreed, arena, &bells)?;
    Ok((queues, bells, agreed))
}

/// Adds the daemon's own words to what went wrong with it.
fn explain(mut error: ConnectError, daemon: &Daemon) -> ConnectError {
    match &mut error {
        ConnectError::HungUp { log, .. } => {
            if let Some(status) = daemon.exit_status(LAST_WORDS_MS) {
                return ConnectError::DaemonExited {
                    program: PathBuf::from(daemon.program()),
                    status,
                    output: daemon.last_words(),
                };
            }
            *log = daemon.last_words();
        }
        ConnectError::Refused { log, .. } => *log = daemon.last_words(),
        _ => {}
    }
    error
}

impl VhostUser {
    /// What was agreed on.
    #[must_use]
    pub fn info(&self) -> VhostUserInfo {
        let Agreed {
            features,
            protocol_features,
            ..
        } = self.agreed;
        let names = [
            (features, bits::VERSION_1, "VERSION_1"),
            (features, bits::EVENT_IDX, "EVENT_IDX"),
            (features, bits::INDIRECT_DESC, "INDIRECT_DESC"),
            (features, bits::PROTOCOL_FEATURES, "PROTOCOL_FEATURES"),
            (protocol_features, bits::MQ, "MQ"),
            (protocol_features, bits::REPLY_ACK, "REPLY_ACK"),
            (
                protocol_features,
                bits::CONFIGURE_MEM_SLOTS,
                "CONFIGURE_MEM_SLOTS",
            ),
        ];
        VhostUserInfo {
            peer: self.peer.clone(),
            pid: self.daemon.as_ref().map(Daemon::pid),
            features: names
                .into_iter()
                .filter(|(have, bit, _)| have & bit != 0)
                .map(|(_, _, name)| name)
                .collect(),
            queue_size: self.agreed.queue_size,
            max_mem_slots: self.agreed.max_mem_slots,
        }
    }

    /// How the connection has ended, if it has. Does not block.
    #[must_use]
    pub fn death(&self) -> Option<Death> {
        self.life.death()
    }

    /// Ends the connection for `reason`, unless it has ended, and every wait.
    fn end(&self, reason: Death) {
        // A forked child has the same socket: it must not shut down what the parent goes on using.
        if self.fork.is_forked_child() || !self.life.end(reason) {
            return;
        }
        // The daemon reads its end as ours, and ends. Fails only when the peer has closed already.
        let _ = self.socket.shutdown(Shutdown::Both);
        self.bells.wake();
        self.bells.release();
        ring(&self.ended);
    }

    /// What is known of a peer that has hung up.
    fn obituary(&self) -> String {
        let Some(daemon) = &self.daemon else {
            return format!("the daemon at {} closed the connection", self.peer);
        };
        let how = match daemon.exit_status(STATUS_MS) {
            Some(status) => format!("ended with {status}"),
            None => "closed the connection but runs on".to_owned(),
        };
        format!("{} {how}: {}", self.peer, daemon.last_words())
    }
}

impl Transport for VhostUser {
    fn limits(&self) -> Limits {
        self.queues.limits(false, true)
    }

    fn arena(&self) -> &Arc<Arena> {
        self.queues.arena()
    }

    fn submit(&self, request: &Submission<'_>) -> Result<(), SubmitError> {
        if self.life.ended() {
            return Err(SubmitError::Dead);
        }
        self.queues.submit(request)
    }

    fn submit_oneway(&self, head: &[u8]) -> Result<(), SubmitError> {
        if self.life.ended() {
            return Err(SubmitError::Dead);
        }
        self.queues.submit_oneway(head)
    }

    fn kick(&self) {
        let Kick { hiprio, request } = self.queues.take_kick();
        for (queue, due) in [hiprio, request].into_iter().enumerate() {
            if due {
                self.bells.kick(queue, &self.life);
            }
        }
    }

    fn reap(&self, sink: &mut dyn FnMut(Completion<'_>)) -> Result<usize, PeerFault> {
        self.queues.reap(sink)
    }

    fn wait(&self) {
        if !self.life.ended() && self.queues.arm() {
            self.bells.wait();
        }
    }

    fn wake(&self) {
        self.bells.wake();
    }

    /// Virtio-fs has no way for the device to say anything by itself.
    fn listen(&self, _inbox: Weak<dyn Inbox>) {}

    fn watch(&self) -> Death {
        let mut output = self.daemon.as_ref();
        loop {
            if let Some(death) = self.life.death() {
                return death;
            }
            let mut fds = vec![
                PollFd::new(&self.ended, PollFlags::IN),
                PollFd::new(&self.socket, PollFlags::RDHUP),
            ];
            if let Some(daemon) = output {
                fds.push(PollFd::from_borrowed_fd(daemon.output(), PollFlags::IN));
            }
            let hung_up = match poll(&mut fds, None) {
                Ok(_) => !fds[1].revents().is_empty(),
                Err(Errno::INTR | Errno::NOMEM) => continue,
                Err(errno) => {
                    self.end(Death::Peer(format!("cannot be watched: {errno}")));
                    continue;
                }
            };
            if let Some(daemon) = output
                && !fds[2].revents().is_empty()
                && !daemon.drain()
            {
                output = None;
            }
            if hung_up {
                self.end(Death::Peer(self.obituary()));
            }
        }
    }

    fn close(&self) {
        self.end(Death::Closed);
    }
}

impl Drop for VhostUser {
    fn drop(&mut self) {
        self.close();
        if self.fork.is_forked_child() {
            // It is the parent's.
            std::mem::forget(self.daemon.take());
        }
    }
}
