//! A client of a peer that does what a test says, and what has to hold when it is over.

use crate::calls::{CALLS, Call, prepare};
use fusewire::{Client, Timeouts};
use fusewire_server::mem::{MemOptions, Memory};
use fusewire_server::scripted::{Action, Script, ScriptedPeer, Seen, start};
use fusewire_server::{Caching, Errno, Features, FileSystem, Reply, ServerOptions, Usage};
use fusewire_sync::thread::live;
use fusewire_transport::InProcOptions;
use fusewire_wire::{InitFlags, Opcode};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

pub type Peer = ScriptedPeer<Shaped>;

/// Counting threads at the end takes one test at a time.
pub fn alone() -> MutexGuard<'static, ()> {
    static ONE: Mutex<()> = Mutex::new(());
    ONE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A request of a call: the `nth` of its kind, from 0. Among those of one kind the order is fixed;
/// RELEASE comes when it comes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    pub opcode: Opcode,
    pub nth: usize,
}

type Decide = dyn Fn(Place, &Seen) -> Action + Send + Sync;

/// What to do with the requests of a call, once it has been prepared. FORGET, INTERRUPT, INIT and
/// DESTROY are none of a call.
#[derive(Clone)]
pub struct Plan {
    /// The requests since then; `None` before.
    seen: Arc<Mutex<Option<Vec<Opcode>>>>,
    action: Arc<Decide>,
}

impl Plan {
    pub fn new(action: impl Fn(Place, &Seen) -> Action + Send + Sync + 'static) -> Self {
        Plan {
            seen: Arc::new(Mutex::new(None)),
            action: Arc::new(action),
        }
    }

    /// What is to be done in one place.
    pub fn at(place: Place, action: impl Fn(&Seen) -> Action + Send + Sync + 'static) -> Self {
        Plan::new(move |at, seen| match at == place {
            true => action(seen),
            false => Action::Answer,
        })
    }

    /// From here on.
    pub fn begin(&self) {
        *self.seen.lock().unwrap() = Some(Vec::new());
    }

    /// Up to here; the places that there were.
    pub fn end(&self) -> Vec<Place> {
        let seen = self.seen.lock().unwrap().take().unwrap_or_default();
        let places = seen.iter().enumerate();
        places
            .map(|(n, opcode)| Place {
                opcode: *opcode,
                nth: seen[..n].iter().filter(|before| *before == opcode).count(),
            })
            .collect()
    }

    fn place(&self, opcode: Opcode) -> Option<Place> {
        let mut seen = self.seen.lock().unwrap();
        let seen = seen.as_mut()?;
        let nth = seen.iter().filter(|before| **before == opcode).count();
        seen.push(opcode);
        Some(Place { opcode, nth })
    }

    pub fn script(&self) -> impl Script + Clone {
        let plan = self.clone();
        move |seen: &Seen| {
            let opcode = seen.opcode.filter(|opcode| {
                let others = [
                    Opcode::Forget,
                    Opcode::Interrupt,
                    Opcode::Destroy,
                    Opcode::Init,
                ];
                !others.contains(opcode)
            });
            match opcode.and_then(|opcode| plan.place(opcode)) {
                Some(place) => (plan.action)(place, seen),
                None => Action::Answer,
            }
        }
    }
}

/// A file system in memory that offers less.
pub struct Shaped {
    inner: Memory,
    without: InitFlags,
    max_write_bytes: u32,
}

impl FileSystem for Shaped {
    fn features(&self) -> Features {
        let features = self.inner.features();
        Features {
            flags: features.flags.difference(self.without),
            max_write_bytes: self.max_write_bytes.min(features.max_write_bytes),
            ..features
        }
    }

    fn begin(&self) {
        self.inner.begin();
    }

    fn call(&self, call: &fusewire_server::Call<'_>) -> Result<Reply, Errno> {
        self.inner.call(call)
    }

    fn forget(&self, node: u64, nlookup: u64) {
        self.inner.forget(node, nlookup);
    }

    fn usage(&self) -> Usage {
        self.inner.usage()
    }
}

/// How client and peer are connected.
#[derive(Clone, Copy)]
pub struct Setup {
    pub caching: Caching,
    pub timeouts: Timeouts,
    /// Capabilities that the peer does not have.
    pub without: InitFlags,
    /// Also says how many pages a request may have.
    pub max_write_bytes: u32,
    pub queue_size: u16,
    pub max_cached_nodes: usize,
}

impl Default for Setup {
    fn default() -> Self {
        Setup {
            caching: Caching::never(),
            timeouts: Timeouts::default(),
            without: InitFlags::empty(),
            max_write_bytes: u32::MAX,
            queue_size: 32,
            max_cached_nodes: 1 << 16,
        }
    }
}

/// Tries to connect.
pub fn connector(setup: &Setup, script: impl Script) -> (fusewire::Result<Client>, Peer) {
    let inner = Memory::new(MemOptions {
        caching: setup.caching,
        ..MemOptions::default()
    });
    let fs = Shaped {
        inner,
        without: setup.without,
        max_write_bytes: setup.max_write_bytes,
    };
    let options = ServerOptions {
        threads: 2,
        connection: InProcOptions {
            arena_bytes: 4 << 20,
            queue_size: setup.queue_size,
        },
        ..ServerOptions::default()
    };
    let (transport, peer) = start(fs, script, &options).unwrap();
    let builder = Client::builder()
        .timeouts(setup.timeouts)
        .max_cached_nodes(setup.max_cached_nodes)
        .umask(0o022);
    (builder.connect(transport), peer)
}

pub fn connect(setup: &Setup, script: impl Script + Clone) -> (Client, Peer) {
    loop {
        match connector(setup, script.clone()) {
            (Ok(client), peer) => return (client, peer),
            // A busy machine, and a deadline that is made for a test.
            (Err(error), _) => assert_eq!(error.errno(), Errno::TIMEDOUT.raw_os_error(), "{error}"),
        }
    }
}

#[track_caller]
pub fn fails_with<T: std::fmt::Debug>(result: fusewire::Result<T>, errno: Errno, what: &str) {
    let error = result.expect_err(what);
    assert_eq!(error.errno(), errno.raw_os_error(), "{what}: {error}");
}

pub fn count(peer: &Peer, opcode: Opcode) -> usize {
    let log = peer.log();
    log.iter().filter(|s| s.opcode == Some(opcode)).count()
}

pub fn until(done: impl Fn() -> bool) {
    while !done() {
        std::thread::yield_now();
    }
}

/// What nobody waits for ends in its own time.
pub fn settled(client: &Client) {
    until(|| {
        let engine = client.stats().engine;
        engine.orphans == 0 && engine.slots_busy == 0
    });
}

/// What is left at the peer when its client has ended.
pub struct Left {
    pub usage: Usage,
    /// All that it has received.
    pub log: Vec<Seen>,
}

impl Left {
    /// How many lookups of a node were given back.
    pub fn forgotten(&self, node: u64) -> u64 {
        let forgets = self.log.iter().filter(|seen| {
            let forget = seen.opcode == Some(Opcode::Forget);
            forget && seen.node == node
        });
        forgets.map(|seen| seen.size).sum()
    }
}

/// The client holds nothing, and nothing of it is left over when it ends.
#[track_caller]
pub fn lets_go(client: Client, peer: Peer, what: &str) -> Left {
    settled(&client);
    client.drop_caches();
    let stats = client.stats();
    assert_eq!(stats.live_nodes, 1, "{what}");
    assert_eq!(stats.open_handles, 0, "{what}");
    assert_eq!(stats.frames_used, 0, "{what}");
    client.shutdown().unwrap();
    let ended = !peer.wait_for(|_| false);
    assert!(ended, "{what}");
    let log = peer.log();
    let usage = peer.join();
    assert_eq!(live(), 0, "{what}: threads");
    Left { usage, log }
}

/// Everything has been given back, too.
#[track_caller]
pub fn ends_clean(client: Client, peer: Peer, what: &str) {
    let left = lets_go(client, peer, what);
    assert_eq!(left.usage, Usage::default(), "{what}");
}

/// The places of a call at which something can go wrong.
pub fn places_of(call: &Call, setup: &Setup) -> Vec<Place> {
    let plan = Plan::new(|_, _| Action::Answer);
    let (client, peer) = connect(setup, plan.script());
    prepare(&client);
    plan.begin();
    (call.run)(&client).unwrap_or_else(|error| panic!("{}: {error}", call.name));
    settled(&client);
    let places = plan.end();
    ends_clean(client, peer, call.name);
    places
}

/// Every place of every call, and READDIRPLUS where it is asked for.
pub fn everywhere() -> Vec<(Setup, &'static Call, Place)> {
    let mut places = Vec::new();
    for caching in [Caching::never(), Caching::always()] {
        let setup = Setup {
            caching,
            ..Setup::default()
        };
        for call in CALLS {
            let mut of_call = places_of(call, &setup);
            if caching != Caching::never() {
                of_call.retain(|place| place.opcode == Opcode::Readdirplus);
            }
            places.extend(of_call.into_iter().map(|place| (setup, call, place)));
        }
    }
    places
}

/// Makes a call one of whose requests is answered without the file system. The next call works,
/// and everything is given back. Returns how the call ended.
pub fn refused(
    setup: &Setup,
    call: &Call,
    plan: &Plan,
    place: Place,
    what: &str,
) -> Result<(), Errno> {
    let (client, peer) = connect(setup, plan.script());
    prepare(&client);
    plan.begin();
    let result = (call.run)(&client);
    settled(&client);
    plan.end();
    assert!(client.metadata("/").unwrap().is_dir(), "{what}");
    let usage = lets_go(client, peer, what).usage;
    // The file system has not heard of that one.
    let release = [Opcode::Release, Opcode::Releasedir].contains(&place.opcode);
    let left = Usage {
        open_handles: u64::from(release),
        ..Usage::default()
    };
    assert_eq!(usage, left, "{what}");
    result.map_err(|error| Errno::from_raw_os_error(error.errno()))
}
