//! Descriptors and threads, counted: in a process of its own, because the counts are the whole
//! process's.

use crate::common::{Raw, directory, over, small};
use fusewire_server::dir::DirOptions;
use fusewire_server::start;
use fusewire_wire::abi::ROOT_ID;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

fn open_descriptors() -> usize {
    std::fs::read_dir("/proc/self/fd").unwrap().count()
}

fn use_everything(raw: &Raw) {
    let dir = raw.mkdir(ROOT_ID, b"d", 0o755).unwrap().nodeid;
    for n in 0..50_u32 {
        let n = n.to_string();
        let (entry, open) = raw.create(dir, n.as_bytes(), 2, 0o644).unwrap();
        raw.write(open.fh, 0, b"contents").unwrap();
        raw.flush(open.fh).unwrap();
        raw.chmod(entry.nodeid, 0o600).unwrap();
        raw.truncate(entry.nodeid, 3).unwrap();
        raw.link(entry.nodeid, ROOT_ID, n.as_bytes()).unwrap();
        raw.release(open.fh).unwrap();
        // Failures must not leak either.
        assert!(raw.create(dir, n.as_bytes(), 2 | 0o200, 0o644).is_err());
        assert!(raw.create(ROOT_ID, b"d", 2, 0o644).is_err());
        assert!(raw.opendir(entry.nodeid).is_err());
    }
    raw.list(dir, 1000, true).unwrap();
    let (_, open) = raw.tmpfile(dir, 2, 0o600).unwrap();
    raw.release(open.fh).unwrap();
}

/// Set in the process that counts.
const COUNTING: &str = "FUSEWIRE_TEST_COUNTING";

#[test]
fn everything_that_is_opened_is_closed() {
    if std::env::var_os(COUNTING).is_some() {
        count();
        return run_low();
    }
    let own = "descriptors::everything_that_is_opened_is_closed";
    let child = std::process::Command::new(std::env::current_exe().unwrap())
        .args(["--exact", own])
        .env(COUNTING, "1")
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&child.stdout);
    assert!(
        child.status.success() && said.contains("1 passed"),
        "{said}{}",
        String::from_utf8_lossy(&child.stderr)
    );
}

fn count() {
    // The first round opens what the process keeps for itself.
    for round in 0..4 {
        let before = open_descriptors();
        let (temp, fs) = directory(DirOptions::default());
        over(fs, |raw, server| {
            let idle = open_descriptors();
            use_everything(raw);
            let usage = server.usage();
            assert_eq!(usage.live_nodes, 52);
            assert_eq!(open_descriptors() - idle, 52, "one descriptor per node");
        });
        drop(temp);
        // And when the client goes without giving anything back.
        let (_temp, fs) = directory(DirOptions::default());
        let (client, server) = start(fs, &small()).unwrap();
        let raw = Raw::connected(client);
        use_everything(&raw);
        raw.opendir(ROOT_ID).unwrap();
        drop(raw);
        drop(server);
        if round > 0 {
            assert_eq!(open_descriptors(), before);
        }
        assert_eq!(fusewire_sync::thread::live(), 0);
    }
}

/// With few descriptors, nodes leave enough for open files, and listing goes on without nodes.
fn run_low() {
    let limit = Rlimit {
        current: Some(80),
        ..getrlimit(Resource::Nofile)
    };
    setrlimit(Resource::Nofile, limit).unwrap();
    let (temp, fs) = directory(DirOptions::default());
    for n in 0..200_u32 {
        std::fs::write(temp.path().join(n.to_string()), "x").unwrap();
    }
    over(fs, |raw, server| {
        let list = raw.list(ROOT_ID, 4096, true).unwrap();
        assert_eq!(list.len(), 200);
        assert_eq!(server.usage().live_nodes, 60);
        let node = *raw.known.borrow().keys().next().unwrap();
        let fh = raw.open(node, 0).unwrap().fh;
        assert_eq!(raw.read(fh, 0, 9).unwrap(), b"x");
        raw.release(fh).unwrap();
    });
}
