//! One client on one peer for one case, and what has to hold when the case ends.

use crate::check::until;
use crate::peers::{Kind, Peer, daemon_cache};
use fusewire::{Builder, Client};
use fusewire_server::dir::{DirOptions, Directory};
use fusewire_server::mem::{MemOptions, Memory};
use fusewire_server::{CacheMode, Caching, ServerHandle, ServerOptions, Usage, start};
use fusewire_transport::InProcOptions;
use fusewire_transport::vhost_user::{Options, Virtiofsd, spawn};
use std::path::{Path, PathBuf};

/// Room for a case's data in flight.
const ARENA_BYTES: usize = 16 << 20;

/// A client, connected.
pub struct Session {
    // Dropped first: a server ends when its client is gone.
    pub client: Client,
    pub peer: Peer,
    server: Server,
    /// The served directory, if there is one.
    host: Option<PathBuf>,
}

enum Server {
    Dir(ServerHandle<Directory>),
    Mem(ServerHandle<Memory>),
    Virtiofsd(Process),
}

/// A daemon, seen through /proc.
struct Process {
    pid: u32,
    /// Descriptors it had when nothing had been looked up.
    idle_fds: usize,
}

impl Process {
    fn fds(&self) -> usize {
        std::fs::read_dir(format!("/proc/{}/fd", self.pid)).map_or(0, Iterator::count)
    }

    fn is_gone(&self) -> bool {
        !Path::new(&format!("/proc/{}", self.pid)).exists()
    }
}

/// The timeouts that go with a cache mode, as virtiofsd has them.
fn caching(mode: CacheMode) -> Caching {
    match mode {
        CacheMode::Never => Caching::never(),
        CacheMode::Auto => Caching::auto(),
        CacheMode::Always => Caching::always(),
    }
}

impl Session {
    /// Connects to a peer of its own that serves `host`, or memory.
    pub fn start(peer: &Peer, host: &Path, builder: Builder) -> Session {
        Session::start_with(peer, host, builder, caching(peer.cache))
    }

    /// Another client of another peer of the same kind.
    pub fn another(&self, host: &Path, builder: Builder) -> Session {
        Session::start(&self.peer, host, builder)
    }

    /// As [`Session::start`], an embedded server with other timeouts.
    pub fn start_with(peer: &Peer, host: &Path, builder: Builder, caching: Caching) -> Session {
        let host_path = peer.has_host().then(|| host.to_owned());
        let options = ServerOptions {
            threads: peer.threads.max(1),
            connection: InProcOptions {
                arena_bytes: ARENA_BYTES,
                ..InProcOptions::default()
            },
            ..ServerOptions::default()
        };
        let (client, server) = match &peer.kind {
            Kind::Dir { readdirplus } => {
                let fs = Directory::new(
                    host,
                    DirOptions {
                        caching,
                        writeback: peer.writeback,
                        readdirplus: *readdirplus,
                        ..DirOptions::default()
                    },
                );
                let (transport, server) = start(fs.unwrap(), &options).unwrap();
                (builder.connect(transport).unwrap(), Server::Dir(server))
            }
            Kind::Mem => {
                let fs = Memory::new(MemOptions {
                    caching,
                    writeback: peer.writeback,
                    ..MemOptions::default()
                });
                let (transport, server) = start(fs, &options).unwrap();
                (builder.connect(transport).unwrap(), Server::Mem(server))
            }
            Kind::Virtiofsd { program, flavour } => {
                let config = Virtiofsd {
                    program: Some(program.clone()),
                    cache: daemon_cache(peer.cache),
                    writeback: peer.writeback,
                    thread_pool_size: u32::try_from(peer.threads).unwrap(),
                    flavour: *flavour,
                    ..Virtiofsd::new(host)
                };
                let options = Options {
                    arena_bytes: ARENA_BYTES,
                    ..Options::default()
                };
                let transport = spawn(&config, &options).unwrap_or_else(|error| panic!("{error}"));
                let pid = transport.info().pid.unwrap();
                let client = builder.connect(transport).unwrap();
                // Threads and helpers have started once it has served something.
                client.statfs("/").unwrap();
                let mut process = Process { pid, idle_fds: 0 };
                process.idle_fds = process.fds();
                (client, Server::Virtiofsd(process))
            }
        };
        Session {
            client,
            peer: peer.clone(),
            server,
            host: host_path,
        }
    }

    /// Where `path` of the served tree lies on the host.
    pub fn host(&self, path: &str) -> Option<PathBuf> {
        let host = self.host.as_ref()?;
        Some(host.join(path.trim_start_matches('/')))
    }

    /// How many descriptors the daemon has open, if it is a process of its own.
    pub fn daemon_fds(&self) -> Option<usize> {
        match &self.server {
            Server::Virtiofsd(process) => Some(process.fds()),
            _ => None,
        }
    }

    /// What an embedded server keeps for the client.
    pub fn usage(&self) -> Option<Usage> {
        match &self.server {
            Server::Dir(server) => Some(server.usage()),
            Server::Mem(server) => Some(server.usage()),
            Server::Virtiofsd(_) => None,
        }
    }

    /// Waits until nothing is open at the daemon: where RELEASE is not waited for, it takes a moment.
    #[track_caller]
    pub fn all_closed(&self) {
        until("all to be closed", || {
            let stats = self.client.stats();
            match (stats.open_handles, stats.engine.orphans) {
                (0, 0) => Ok(()),
                (open, orphans) => Err(format!("{open} open, {orphans} orphans")),
            }
        });
    }

    /// Requests of the kind with that name in the protocol, so far.
    pub fn requests(&self, opcode: &str) -> u64 {
        let stats = self.client.stats();
        let of_kind = stats.engine.by_opcode.iter().find(|o| o.opcode == opcode);
        of_kind.map_or(0, |o| o.requests)
    }

    /// The end of every case: nothing is in use, everything was given back, all are gone.
    pub fn finish(self) {
        let Session { client, server, .. } = self;
        client.drop_caches();
        until("all gauges of the client to be 0", || {
            let stats = client.stats();
            let gauges = [
                ("open_handles", stats.open_handles, 0),
                ("live_nodes", stats.live_nodes, 1),
                ("frames_used", stats.frames_used, 0),
                ("slots_busy", stats.engine.slots_busy, 0),
                ("orphans", stats.engine.orphans, 0),
                ("forgets_queued", stats.engine.forgets_queued, 0),
            ];
            match gauges.iter().find(|(_, is, ought)| is != ought) {
                None => Ok(()),
                Some(_) => Err(format!("{gauges:?} (name, is, ought to be)")),
            }
        });
        assert_eq!(client.ended(), None);
        match server {
            Server::Dir(server) => end_embedded(client, server),
            Server::Mem(server) => end_embedded(client, server),
            Server::Virtiofsd(process) => {
                until("the daemon to close what was looked up", || {
                    match process.fds() {
                        fds if fds <= process.idle_fds => Ok(()),
                        fds => Err(format!("{fds} descriptors, {} idle", process.idle_fds)),
                    }
                });
                client.shutdown().unwrap();
                assert!(process.is_gone(), "the daemon outlives its client");
            }
        }
    }
}

fn end_embedded<F: fusewire_server::FileSystem>(client: Client, server: ServerHandle<F>) {
    until("the server to hold nothing", || match server.usage() {
        usage if usage == Usage::default() => Ok(()),
        usage => Err(format!("{usage:?}")),
    });
    client.shutdown().unwrap();
    assert_eq!(server.join(), Usage::default(), "after shutdown");
}
