//! What a connection held is given back, however it ends. A test of its own: it counts what the
//! whole process has open.

use fusewire::Client;
use fusewire_server::dir::{DirOptions, Directory};
use fusewire_server::mem::{MemOptions, Memory};
use fusewire_server::{FileSystem, ServerHandle, ServerOptions, start};
use fusewire_transport::InProcOptions;

/// Connections of each kind: the leaks that this is about depended on who came first.
const ROUNDS: usize = 100;

fn connect<F: FileSystem>(fs: F) -> (Client, ServerHandle<F>) {
    let options = ServerOptions {
        connection: InProcOptions {
            arena_bytes: 2 << 20,
            queue_size: 64,
        },
        ..ServerOptions::default()
    };
    let (transport, server) = start(fs, &options).unwrap();
    (Client::builder().connect(transport).unwrap(), server)
}

fn open_descriptors() -> usize {
    std::fs::read_dir("/proc/self/fd").unwrap().count()
}

fn busy(client: &Client) -> std::thread::JoinHandle<()> {
    let client = client.clone();
    std::thread::spawn(move || {
        while client.metadata("/file").is_ok() {
            let _ = client.open("/file");
        }
    })
}

/// A way for a connection to end, with a file open.
type End = fn(Client, fusewire::File, ServerHandle<Memory>);

fn ends() -> [(&'static str, End); 4] {
    [
        ("death of the daemon", |client, file, server| {
            drop(server);
            assert!(file.read_at(&mut [0], 0).is_err());
            drop((client, file));
        }),
        ("abort by another thread", |client, file, server| {
            let other = client.clone();
            let thread = std::thread::spawn(move || other.abort());
            drop((file, client));
            thread.join().unwrap();
            drop(server);
        }),
        ("abort in the middle of calls", |client, file, server| {
            let thread = busy(&client);
            client.abort();
            drop((client, file));
            thread.join().unwrap();
            drop(server);
        }),
        ("shutdown in the middle of calls", |client, file, server| {
            let thread = busy(&client);
            client.shutdown().unwrap();
            drop(file);
            thread.join().unwrap();
            drop(server);
        }),
    ]
}

fn moved_directories() {
    let tree = tempfile::tempdir().unwrap();
    let at = |path: &str| tree.path().join(path);
    std::fs::create_dir_all(at("x/y")).unwrap();
    let (client, server) = connect(Directory::new(tree.path(), DirOptions::default()).unwrap());
    client.metadata("/x/y").unwrap();
    // By somebody else: the client still has y below x when it finds x below y.
    std::fs::rename(at("x/y"), at("y")).unwrap();
    std::fs::rename(at("x"), at("y/x")).unwrap();
    client.metadata("/y/x").unwrap();
    client.drop_caches();
    assert_eq!(client.stats().live_nodes, 1);
    client.metadata("/y/x").unwrap();
    client.shutdown().unwrap();
    assert_eq!(server.join().lookups, 0);
}

/// One test, because tests of one program run at once.
#[test]
fn every_connection_gives_back_what_it_held() {
    let before = open_descriptors();
    for (what, end) in ends() {
        for round in 0..ROUNDS {
            let (client, server) = connect(Memory::new(MemOptions::default()));
            client.write("/file", b"x").unwrap();
            let file = client.open("/file").unwrap();
            end(client, file, server);
            assert_eq!(open_descriptors(), before, "{what}, round {round}");
        }
    }
    moved_directories();
    assert_eq!(open_descriptors(), before, "moved directories");
}
