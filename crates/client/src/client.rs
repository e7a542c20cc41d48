//! The client: a connection, and operations on paths.

use crate::access::{Checks, Identity};
use crate::core::Core;
use crate::cred::Cred;
use crate::engine::{Ended, Engine, EngineStats, Notified, Timeouts, WaitPolicy};
use crate::error::{Error, Result};
use crate::node::Node;
use crate::rpc::{self, NegotiateError, Peer, Rpc};
use crate::walk::{self, Links, Start};
use fusewire_mem::FRAME_BYTES;
use fusewire_sync::thread::JoinHandle;
use fusewire_sync::time::Clock;
use fusewire_sync::timer::Timer;
use fusewire_sync::{Arc, Mutex, Rank, Weak, thread};
use fusewire_transport::{Death, Transport};
use fusewire_wire::InitFlags;
use fusewire_wire::init::{InitError, LocalLimits, Negotiated, Offer};
use rustix::io::Errno;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

/// Cached names when the builder is not told otherwise.
const DEFAULT_MAX_CACHED_NODES: usize = 65_536;

/// Settings of a [`Client`]; begin with [`Client::builder`].
#[derive(Clone, Debug)]
pub struct Builder {
    timeouts: Timeouts,
    wait_policy: WaitPolicy,
    max_cached_nodes: usize,
    umask: Option<u32>,
    identity: Option<Identity>,
    checks: Checks,
    clock: Clock,
}

impl Builder {
    /// How long requests may take. Default: 30 s, READ and WRITE 60 s; operations that may take as
    /// long as the storage does (FSYNC, FLUSH, RELEASE and the like) never time out.
    #[must_use]
    pub fn timeouts(mut self, timeouts: Timeouts) -> Self {
        self.timeouts = timeouts;
        self
    }

    /// How callers wait for replies. Default: [`WaitPolicy::default`].
    #[must_use]
    pub fn wait_policy(mut self, policy: WaitPolicy) -> Self {
        self.wait_policy = policy;
        self
    }

    /// Most names that are cached, at least 1. Default 65,536. Daemons may hold a descriptor for
    /// each.
    #[must_use]
    pub fn max_cached_nodes(mut self, max: usize) -> Self {
        self.max_cached_nodes = max;
        self
    }

    /// Permission bits that new files do not get. Default: the umask of this process.
    #[must_use]
    pub fn umask(mut self, umask: u32) -> Self {
        self.umask = Some(umask & 0o777);
        self
    }

    /// On whose behalf the client acts: permissions are checked against it, and new files are made
    /// in its name where the daemon lets that be. Default: this process.
    #[must_use]
    pub fn identity(mut self, identity: Identity) -> Self {
        self.identity = Some(identity);
        self
    }

    /// Who checks permissions. Default: the client.
    #[must_use]
    pub fn checks(mut self, checks: Checks) -> Self {
        self.checks = checks;
        self
    }

    /// Connects: starts the threads of the client and negotiates with the daemon. Blocks for the
    /// answer to INIT, at most the metadata timeout.
    ///
    /// # Errors
    /// EPROTO when the daemon speaks another protocol, ETIMEDOUT when it does not answer,
    /// ECONNABORTED when it goes away; ENOMEM, EAGAIN (no thread can be started).
    pub fn connect(self, transport: impl Transport + 'static) -> Result<Client> {
        self.connect_shared(Arc::new(transport))
    }

    /// As [`Builder::connect`], for a transport that is shared already.
    ///
    /// # Errors
    /// As [`Builder::connect`].
    pub fn connect_shared(self, transport: Arc<dyn Transport>) -> Result<Client> {
        let failed = |error: std::io::Error| {
            let errno = Errno::from_io_error(&error).unwrap_or(Errno::IO);
            Error::new("connect", "", errno).with_detail(error)
        };
        let timer = Timer::start(self.clock.clone()).map_err(failed)?;
        let engine = Engine::new(
            transport,
            self.clock.clone(),
            timer,
            self.timeouts,
            self.wait_policy,
        )
        .map_err(failed)?;
        let connection = Connection::start(engine).map_err(failed)?;
        let negotiated = negotiate(&connection.engine)?;
        let identity = self.identity.unwrap_or_else(Identity::of_process);
        let umask = self.umask.unwrap_or_else(process_umask);
        let cred = cred("connect", identity, umask)?;
        let peer = Peer::new(Arc::clone(&connection.engine), negotiated);
        let core = Core::new(peer, self.max_cached_nodes, self.checks);
        let notified: Weak<dyn Notified> = Arc::downgrade(&core) as _;
        connection.engine.notify(notified);
        let root = Node::root(&core);
        Ok(Client {
            start: Start::root(&root),
            shared: Arc::new(Shared {
                root,
                core,
                connection,
            }),
            cred: Arc::new(cred),
        })
    }
}

/// What is offered: only what the client has the rules for.
const OFFERED: InitFlags = InitFlags::ASYNC_READ
    .union(InitFlags::ATOMIC_O_TRUNC)
    .union(InitFlags::BIG_WRITES)
    .union(InitFlags::DONT_MASK)
    .union(InitFlags::DO_READDIRPLUS)
    .union(InitFlags::READDIRPLUS_AUTO)
    .union(InitFlags::ASYNC_DIO)
    .union(InitFlags::PARALLEL_DIROPS)
    .union(InitFlags::MAX_PAGES)
    .union(InitFlags::CREATE_SUPP_GROUP)
    .union(InitFlags::SUBMOUNTS)
    .union(InitFlags::SETXATTR_EXT)
    .union(InitFlags::POSIX_LOCKS)
    .union(InitFlags::FLOCK_LOCKS)
    .union(InitFlags::NO_OPEN_SUPPORT)
    .union(InitFlags::NO_OPENDIR_SUPPORT)
    .union(InitFlags::INIT_EXT);

/// Largest readahead that is offered, in bytes.
const MAX_READAHEAD_BYTES: u32 = 1 << 20;
/// Most pages of one request; what Linux allows by default.
const MAX_PAGES: u16 = 256;

fn negotiate(engine: &Engine) -> Result<Negotiated> {
    let transport = engine.transport().limits();
    let limits = LocalLimits {
        max_pages: u16::try_from(transport.max_payload_bytes as usize / FRAME_BYTES)
            .map_or(MAX_PAGES, |pages| pages.min(MAX_PAGES)),
        max_write_bytes: transport.max_payload_bytes,
    };
    let mut offer = Offer::new(MAX_READAHEAD_BYTES, OFFERED);
    let result = match rpc::negotiate(engine, &offer, &limits) {
        // A daemon of a later major version waits for an INIT that names ours alone.
        Err(NegotiateError::Init(InitError::MajorMismatch { peer_major })) if peer_major > 7 => {
            offer.minor = fusewire_wire::abi::KERNEL_MINOR_VERSION;
            rpc::negotiate(engine, &offer, &limits)
        }
        result => result,
    };
    result.map_err(|error| match error {
        NegotiateError::Call(errno) => connection_error(engine, "connect", "", errno),
        NegotiateError::Init(init) => {
            Error::new("connect", "", Errno::from_raw_os_error(init.errno())).with_detail(init)
        }
    })
}

/// An error that names, where the connection has ended, why.
fn connection_error(
    engine: &Engine,
    operation: &'static str,
    path: impl Into<std::path::PathBuf>,
    errno: Errno,
) -> Error {
    let error = Error::new(operation, path, errno);
    match engine.ended() {
        Some(ended) if matches!(errno, Errno::NOTCONN | Errno::CONNABORTED) => {
            error.with_detail(ended)
        }
        // The transport noticed a moment before the engine was told why.
        None if errno == Errno::CONNABORTED => error.with_detail("the daemon is gone"),
        _ if engine.is_forked_child() => {
            error.with_detail("a client cannot be used in a forked child; connect anew there")
        }
        _ => error,
    }
}

fn cred(operation: &'static str, identity: Identity, umask: u32) -> Result<Cred> {
    Cred::new(identity, umask).map_err(|errno| {
        Error::new(operation, "", errno)
            .with_detail("the id 4294967295 means none; name a user and a group")
    })
}

/// The umask of this process, without changing it for a moment as umask(2) would.
fn process_umask() -> u32 {
    std::fs::read_to_string("/proc/self/status")
        .ok()
        .and_then(|status| {
            let line = status
                .lines()
                .find_map(|line| line.strip_prefix("Umask:"))?;
            u32::from_str_radix(line.trim(), 8).ok()
        })
        .unwrap_or(0o022)
}

/// The engine and its threads.
#[derive(Debug)]
struct Connection {
    engine: Arc<Engine>,
    threads: Mutex<Vec<JoinHandle<()>>>,
}

impl Connection {
    fn start(engine: Arc<Engine>) -> std::io::Result<Self> {
        let connection = Connection {
            engine,
            threads: Mutex::new(Rank::LEAF, Vec::new()),
        };
        let engine = Arc::clone(&connection.engine);
        connection.spawn("fw-completion", move || engine.run_completion())?;
        let engine = Arc::clone(&connection.engine);
        connection.spawn("fw-monitor", move || match engine.transport().watch() {
            Death::Closed => {}
            Death::Peer(how) => engine.abort(Ended::PeerGone(how)),
        })?;
        Ok(connection)
    }

    fn spawn(&self, name: &str, body: impl FnOnce() + Send + 'static) -> std::io::Result<()> {
        let thread = thread::spawn(name, body)?;
        self.threads.lock().push(thread);
        Ok(())
    }

    /// Says goodbye to the daemon, ends everything, and waits for the threads.
    fn close(&self) {
        let threads = std::mem::take(&mut *self.threads.lock());
        if self.engine.is_forked_child() {
            // The threads exist in the parent only.
            std::mem::forget(threads);
            return;
        }
        if self.engine.ended().is_none() {
            self.engine.quiesce();
            rpc::destroy(&self.engine);
        }
        self.engine.abort(Ended::Closed);
        self.engine.stop();
        for thread in threads {
            let _ = thread.join();
        }
        self.engine.stop_timer();
        self.engine.let_go();
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        self.close();
    }
}

/// What all clones of a client and its open files share. Dropped in this order: the cached names
/// with their FORGETs first, the connection last.
#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) root: Arc<Node>,
    pub(crate) core: Arc<Core>,
    connection: Connection,
}

impl Drop for Shared {
    fn drop(&mut self) {
        self.core.nodes.drop_names();
    }
}

/// A client of one FUSE daemon. Clones share the connection, which ends when the last clone and
/// the last open file are gone.
///
/// Paths are those of the served tree: `/` is its root, a path without a leading slash begins
/// there, too, and `..` does not lead out of it. All operations block until the daemon has
/// answered; any number of threads may call at once.
#[derive(Clone, Debug)]
pub struct Client {
    /// Where paths begin. Before the connection, which outlives the nodes.
    pub(crate) start: Start,
    pub(crate) cred: Arc<Cred>,
    pub(crate) shared: Arc<Shared>,
}

impl Client {
    /// Settings for a new client.
    #[must_use]
    pub fn builder() -> Builder {
        Builder {
            timeouts: Timeouts::default(),
            wait_policy: WaitPolicy::default(),
            max_cached_nodes: DEFAULT_MAX_CACHED_NODES,
            umask: None,
            identity: None,
            checks: Checks::default(),
            clock: Clock::monotonic(),
        }
    }

    /// The same client, for calls on behalf of somebody else; files opened through it stay in that
    /// name.
    ///
    /// # Errors
    /// EINVAL for the id 2³² − 1, which means none.
    pub fn with_identity(&self, identity: Identity) -> Result<Self> {
        let cred = cred("set identity", identity, self.cred.umask)?;
        Ok(Client {
            start: self.start.clone(),
            shared: Arc::clone(&self.shared),
            cred: Arc::new(cred),
        })
    }

    /// Permission bits that new files do not get.
    #[must_use]
    pub fn umask(&self) -> u32 {
        self.cred.umask
    }

    /// On whose behalf calls are made.
    #[must_use]
    pub fn identity(&self) -> &Identity {
        &self.cred.identity
    }

    /// What client and daemon have agreed on.
    #[must_use]
    pub fn negotiated(&self) -> Negotiated {
        *self.shared.core.peer.negotiated()
    }

    /// What the client has done so far, and what it holds now.
    #[must_use]
    pub fn stats(&self) -> Stats {
        let core = &self.shared.core;
        let arena = core.peer.engine().arena();
        Stats {
            engine: core.peer.engine().stats(),
            live_nodes: core.live_nodes.get(),
            open_handles: core.open_handles.get(),
            cached_names: core.dentries.len() as u64,
            frames_used: (arena.total_frames() - arena.free_frames()) as u64,
        }
    }

    /// Ends the connection in order, for all clones of the client: gives every reference back,
    /// says goodbye to the daemon and waits for the client's threads. Files that are still open
    /// are lost to their holders, whose calls get ENOTCONN. The same happens when the last clone
    /// and the last open file are dropped.
    ///
    /// # Errors
    /// ENOTCONN when the connection had ended before, with the reason.
    pub fn shutdown(self) -> Result<()> {
        let engine = self.core().peer.engine();
        let result = match engine.ended() {
            None => Ok(()),
            Some(_) => Err(connection_error(engine, "shutdown", "", Errno::NOTCONN)),
        };
        self.shared.core.nodes.drop_names();
        self.shared.connection.close();
        result
    }

    /// Ends the connection at once: calls in progress get ECONNABORTED, later ones ENOTCONN. What
    /// was in flight may or may not have been carried out.
    pub fn abort(&self) {
        self.shared.core.peer.engine().abort(Ended::Aborted);
    }

    /// Why the connection has ended, if it has.
    #[must_use]
    pub fn ended(&self) -> Option<String> {
        self.shared
            .core
            .peer
            .engine()
            .ended()
            .map(ToString::to_string)
    }

    /// Forgets every cached name and gives the references back to the daemon.
    pub fn drop_caches(&self) {
        self.shared.core.nodes.drop_names();
        self.shared.root.expire_attr();
        self.shared.core.peer.engine().flush_forgets();
    }

    pub(crate) fn core(&self) -> &Arc<Core> {
        &self.shared.core
    }

    /// The protocol, on behalf of this client's identity.
    pub(crate) fn rpc(&self) -> Rpc<'_> {
        self.core().rpc(&self.cred)
    }

    pub(crate) fn resolve(
        &self,
        path: &Path,
        links: Links,
    ) -> std::result::Result<Arc<Node>, Errno> {
        walk::resolve(&self.cred, &self.start, path.as_os_str().as_bytes(), links)
    }

    /// An error of `operation` on `path`.
    pub(crate) fn fail(&self, operation: &'static str, path: &Path) -> impl FnOnce(Errno) -> Error {
        let engine = Arc::clone(self.core().peer.engine());
        let path = path.to_path_buf();
        move |errno| connection_error(&engine, operation, path, errno)
    }
}

/// What a client has done so far, and what it holds now.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Stats {
    /// Requests and waits.
    pub engine: EngineStats,
    /// Gauge: nodes known, the root included.
    pub live_nodes: u64,
    /// Gauge: files and directories that are open, also at a daemon that keeps no state of them. One
    /// counts until the last request about it is answered, its RELEASE not included.
    pub open_handles: u64,
    /// Gauge: names under the cache's watch; some may have gone.
    pub cached_names: u64,
    /// Gauge: frames of the arena in use.
    pub frames_used: u64,
}
