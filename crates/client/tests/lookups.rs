//! Lookups, and giving them back, under load.

use fusewire::Client;
use fusewire_server::dir::{DirOptions, Directory};
use fusewire_server::mem::{MemOptions, Memory};
use fusewire_server::scripted::{self, Action, Rules};
use fusewire_server::{
    Call, Errno, Features, FileSystem, Reply, ServerHandle, ServerOptions, Usage, start,
};
use fusewire_transport::InProcOptions;
use fusewire_wire::abi::{Attr, DirentPlus, EntryOut};
use fusewire_wire::dirent::{DirentPlusWriter, Entry};
use fusewire_wire::{InitFlags, Opcode, Request};
use std::collections::HashMap;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;

/// A file system that grants less than the one inside.
struct Limited<F> {
    fs: F,
    /// Flags that are not granted.
    without: InitFlags,
    /// Lookups that may be held; more are refused with EMFILE.
    max_lookups: u64,
    refused: AtomicU64,
    /// Directories that are being looked into.
    busy: Mutex<HashMap<u64, u64>>,
    /// Times that a directory was looked into twice at once.
    overlaps: AtomicU64,
}

impl<F: FileSystem> Limited<F> {
    fn new(fs: F) -> Self {
        Limited {
            fs,
            without: InitFlags::empty(),
            max_lookups: u64::MAX,
            refused: AtomicU64::new(0),
            busy: Mutex::default(),
            overlaps: AtomicU64::new(0),
        }
    }
}

impl<F: FileSystem> FileSystem for Limited<F> {
    fn features(&self) -> Features {
        let mut features = self.fs.features();
        features.flags.remove(self.without);
        features
    }

    fn begin(&self) {
        self.fs.begin();
    }

    fn call(&self, call: &Call<'_>) -> Result<Reply, Errno> {
        let reads = matches!(
            call.request,
            Request::Lookup { .. } | Request::Readdir(_) | Request::Readdirplus(_)
        );
        if !reads {
            return self.fs.call(call);
        }
        if self.fs.usage().lookups >= self.max_lookups {
            self.refused.fetch_add(1, Ordering::Relaxed);
            return Err(Errno::MFILE);
        }
        *self.busy.lock().unwrap().entry(call.node).or_default() += 1;
        // Gives whoever else would come in now the time to.
        thread::yield_now();
        let reply = self.fs.call(call);
        let mut busy = self.busy.lock().unwrap();
        let count = busy.get_mut(&call.node).unwrap();
        if *count > 1 {
            self.overlaps.fetch_add(1, Ordering::Relaxed);
        }
        *count -= 1;
        reply
    }

    fn forget(&self, node: u64, nlookup: u64) {
        self.fs.forget(node, nlookup);
    }

    fn usage(&self) -> Usage {
        self.fs.usage()
    }
}

fn connect<F: FileSystem>(fs: F, queue_size: u16, max_nodes: usize) -> (Client, ServerHandle<F>) {
    let options = ServerOptions {
        threads: 3,
        connection: InProcOptions {
            queue_size,
            ..InProcOptions::default()
        },
        ..ServerOptions::default()
    };
    let (transport, server) = start(fs, &options).unwrap();
    let client = Client::builder()
        .max_cached_nodes(max_nodes)
        .connect(transport)
        .unwrap();
    (client, server)
}

fn ends_clean<F: FileSystem>(client: Client, server: ServerHandle<F>) {
    client.shutdown().unwrap();
    assert_eq!(server.join(), Usage::default());
}

/// What several threads do in one directory that others change, too.
fn stir(client: &Client, who: usize, rounds: usize) {
    for round in 0..rounds {
        let name = format!("/dir/{who}-{}", round % 4);
        client.write(&name, b"x").unwrap();
        for entry in client.read_dir("/dir").unwrap() {
            // Gone already is a legal answer; another is not.
            match entry.unwrap().metadata() {
                Err(error) if error.errno() != Errno::NOENT.raw_os_error() => panic!("{error}"),
                _ => {}
            }
        }
        assert!(!client.exists("/dir/never").unwrap());
        client.remove_file(&name).unwrap();
    }
}

/// A session without parallel lookups takes turns in each directory; that must neither leak into
/// sessions that have them nor hold anything up.
#[test]
fn sessions_with_and_without_parallel_lookups_work_side_by_side() {
    let tree = tempfile::tempdir().unwrap();
    std::fs::create_dir(tree.path().join("dir")).unwrap();
    let directory = || Directory::new(tree.path(), DirOptions::default()).unwrap();
    let (serial, serial_server) = connect(
        Limited {
            without: InitFlags::PARALLEL_DIROPS,
            ..Limited::new(directory())
        },
        64,
        1000,
    );
    let (parallel, parallel_server) = connect(Limited::new(directory()), 64, 1000);
    let granted = |client: &Client| {
        let flags = client.negotiated().flags;
        flags.contains(InitFlags::PARALLEL_DIROPS)
    };
    assert!(!granted(&serial) && granted(&parallel));
    thread::scope(|scope| {
        for (first, client) in [(0, &serial), (3, &parallel)] {
            for who in first..first + 3 {
                scope.spawn(move || stir(client, who, 60));
            }
        }
    });
    let overlaps = serial_server.fs().overlaps.load(Ordering::Relaxed);
    assert_eq!(overlaps, 0, "requests for one directory at once");
    ends_clean(serial, serial_server);
    ends_clean(parallel, parallel_server);
}

/// Giving back more than was granted loses a node that is in use, less leaks it.
#[test]
fn lookups_and_forgets_race() {
    const NAMES: usize = 6;
    let (client, server) = connect(Memory::new(MemOptions::default()), 64, 3);
    client.create_dir("/dir").unwrap();
    for name in 0..NAMES {
        client.write(format!("/dir/{name}"), [name as u8]).unwrap();
    }
    thread::scope(|scope| {
        for who in 0..4 {
            let client = &client;
            scope.spawn(move || {
                for round in 0..500 {
                    let name = (who + round) % NAMES;
                    let path = format!("/dir/{name}");
                    match round % 3 {
                        0 => assert_eq!(client.metadata(&path).unwrap().len(), 1),
                        1 => assert_eq!(client.read(&path).unwrap(), [name as u8]),
                        _ => {
                            let mut entries = client.read_dir("/dir").unwrap();
                            assert!(entries.all(|entry| entry.unwrap().metadata().is_ok()));
                        }
                    }
                    if round % 16 == who {
                        client.drop_caches();
                    }
                }
            });
        }
    });
    ends_clean(client, server);
}

/// A daemon counts a lookup for each entry that it sends with attributes, also for one that its
/// client can do nothing with.
#[test]
fn entries_that_cannot_be_linked_are_forgotten_all_the_same() {
    let mut body = vec![0; 4096];
    let mut writer = DirentPlusWriter::new(&mut body);
    // Node, its mode, the type that the listing gives, and the name.
    let entries: [(u64, u32, u32, &[u8]); 7] = [
        (1, 0o040_755, 4, b"."),
        (5, 0o100_644, 8, b"file"),
        (6, 0, 8, b"of no type"),
        (7, 0o040_755, 8, b"of two types"),
        (5, 0o040_755, 4, b"file as a directory"),
        (5, 0o100_644, 8, b"file again"),
        (0, 0, 8, b"without attributes"),
    ];
    for (index, (nodeid, mode, typ, name)) in entries.into_iter().enumerate() {
        let entry = EntryOut {
            nodeid,
            entry_valid: 60,
            attr_valid: 60,
            attr: Attr {
                ino: nodeid,
                mode,
                nlink: 1,
                ..Attr::default()
            },
            ..EntryOut::default()
        };
        let off = index as u64 + 1;
        let dirent = Entry {
            ino: 100 + off,
            off,
            typ,
            name,
        };
        assert!(writer.push(&entry, &dirent));
    }
    let used = writer.len();
    assert!(used > 7 * size_of::<DirentPlus>());
    body.truncate(used);
    let rules = Rules::new()
        .nth(Opcode::Readdirplus, 1, Action::Body(body))
        .every(Opcode::Readdirplus, Action::Body(Vec::new()));
    let fs = Memory::new(MemOptions::default());
    let (transport, peer) = scripted::start(fs, rules, &ServerOptions::default()).unwrap();
    let client = Client::builder().connect(transport).unwrap();
    // Whether each entry is an error is not the question here.
    let listed = client.read_dir("/").unwrap().count();
    assert!(listed >= 2, "{listed} entries");
    client.drop_caches();
    client.shutdown().unwrap();
    let mut forgotten = HashMap::new();
    for seen in peer.log() {
        if seen.opcode == Some(Opcode::Forget) {
            *forgotten.entry(seen.node).or_insert(0) += seen.size;
        }
    }
    // `.` is not counted by a daemon, nor is an entry without a node.
    assert_eq!(forgotten, HashMap::from([(5, 3), (6, 1), (7, 1)]));
    peer.join();
}

/// Each node costs the daemon a descriptor, and a listing looks all of them up.
#[test]
fn a_listing_outlives_a_daemon_that_runs_out_of_descriptors() {
    const FILES: usize = 400;
    let fs = Limited {
        max_lookups: 150,
        ..Limited::new(Memory::new(MemOptions::default()))
    };
    let (client, server) = connect(fs, 64, 100_000);
    client.create_dir("/dir").unwrap();
    for name in 0..FILES {
        client.write(format!("/dir/{name}"), b"x").unwrap();
    }
    for _ in 0..2 {
        let mut seen = 0;
        for entry in client.read_dir("/dir").unwrap() {
            assert_eq!(entry.unwrap().metadata().unwrap().len(), 1);
            seen += 1;
        }
        assert_eq!(seen, FILES);
    }
    for name in 0..FILES {
        assert_eq!(client.read(format!("/dir/{name}")).unwrap(), b"x");
    }
    let refused = server.fs().refused.load(Ordering::Relaxed);
    assert!(refused > 0, "the limit was never met");
    ends_clean(client, server);
}

/// FORGETs have no reply to wait for: they must not take all room in the ring, nor get lost for
/// want of it.
#[test]
fn a_flood_of_forgets_through_the_smallest_ring_gets_there() {
    let (client, server) = connect(Memory::new(MemOptions::default()), 8, 4);
    client.create_dir("/dir").unwrap();
    for name in 0..300 {
        client.write(format!("/dir/{name}"), b"x").unwrap();
    }
    thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                for _ in 0..10 {
                    let entries = client.read_dir("/dir").unwrap();
                    assert_eq!(entries.filter(Result::is_ok).count(), 300);
                    client.drop_caches();
                }
            });
        }
    });
    ends_clean(client, server);
}

/// Nobody waits for a RELEASE, but a daemon that takes requests in order has taken it before the
/// next OPEN.
#[test]
fn handles_are_given_back_before_more_are_taken() {
    let (transport, server) = start(
        Memory::new(MemOptions::default()),
        &ServerOptions::default(),
    )
    .unwrap();
    let client = Client::builder().connect(transport).unwrap();
    client.write("/file", b"x").unwrap();
    for _ in 0..2_000 {
        drop(client.open("/file").unwrap());
        drop(client.read_dir("/").unwrap());
    }
    client.shutdown().unwrap();
    assert_eq!(server.fs().peak().open_handles, 1);
    assert_eq!(server.join(), Usage::default());
}
