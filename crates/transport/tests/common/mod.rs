//! Real peers, and FUSE messages in their plainest form.

use fusewire_transport::vhost_user::{Flavour, Options, VhostUser, Virtiofsd, spawn};
use fusewire_transport::{Completion, Death, Submission, Transport};
use fusewire_wire::abi::{EntryOut, GetattrIn, InHeader, InitIn, InitOut, OutHeader};
use fusewire_wire::{InitFlags, Opcode};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread::{self, JoinHandle};
use zerocopy::{FromBytes, IntoBytes};

/// A daemon that tests can use.
#[derive(Clone, Debug)]
pub struct Peer {
    pub name: &'static str,
    pub path: PathBuf,
    pub flavour: Flavour,
}

/// Both virtiofsds, as far as they are installed. A missing one is a failure when
/// `FUSEWIRE_REQUIRE_PEERS=1`, and is reported loudly otherwise.
pub fn peers() -> Vec<Peer> {
    [("virtiofsd", Flavour::Rust), ("virtiofsd-c", Flavour::C)]
        .into_iter()
        .filter_map(|(name, flavour)| match find(name) {
            Ok(path) => Some(Peer {
                name,
                path,
                flavour,
            }),
            Err(reason) => {
                let required = std::env::var_os("FUSEWIRE_REQUIRE_PEERS").is_some_and(|v| v == "1");
                assert!(!required, "peer {name} is missing: {reason}");
                eprintln!("\n*** PEER {name} IS MISSING, NOT TESTED: {reason}\n");
                None
            }
        })
        .collect()
}

fn find(name: &str) -> Result<PathBuf, String> {
    if name == "virtiofsd-c" && !rustix::process::geteuid().is_root() {
        return Err("both of its sandboxes need root".to_owned());
    }
    let directory = std::env::var_os("FUSEWIRE_PEERS_DIR").map_or_else(
        || Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/peers"),
        PathBuf::from,
    );
    let manifest = directory.join("peers.tsv");
    let text = std::fs::read_to_string(&manifest)
        .map_err(|e| format!("{}: {e}; run `cargo xtask peers`", manifest.display()))?;
    let line = text
        .lines()
        .map(|line| line.split('\t').collect::<Vec<_>>())
        .find(|fields| fields.first() == Some(&name));
    match line.as_deref() {
        Some([_, "-", _, reason]) => Err((*reason).to_owned()),
        Some([_, path, ..]) => Ok(PathBuf::from(path)),
        _ => Err(format!("not in {}", manifest.display())),
    }
}

/// A connection that is watched, so that a daemon's death fails the test and does not hang it.
pub struct Watched {
    transport: Arc<VhostUser>,
    watcher: Option<JoinHandle<Death>>,
}

impl Watched {
    /// Blocks until the connection has ended.
    pub fn how_it_ended(mut self) -> Death {
        let watcher = self.watcher.take().expect("asked once");
        watcher.join().unwrap()
    }
}

impl std::ops::Deref for Watched {
    type Target = Arc<VhostUser>;
    fn deref(&self) -> &Arc<VhostUser> {
        &self.transport
    }
}

impl Drop for Watched {
    fn drop(&mut self) {
        self.transport.close();
        if let Some(watcher) = self.watcher.take() {
            let _ = watcher.join();
        }
    }
}

/// That peer, serving `directory`.
pub fn start(peer: &Peer, directory: &Path) -> Watched {
    let options = Options {
        arena_bytes: 16 << 20,
        ..Options::default()
    };
    let transport =
        spawn(&daemon(peer, directory), &options).unwrap_or_else(|e| panic!("{}: {e}", peer.name));
    watch(transport)
}

pub fn watch(transport: VhostUser) -> Watched {
    let transport = Arc::new(transport);
    let watcher = {
        let transport = Arc::clone(&transport);
        Some(thread::spawn(move || transport.watch()))
    };
    Watched { transport, watcher }
}

pub fn daemon(peer: &Peer, directory: &Path) -> Virtiofsd {
    Virtiofsd {
        program: Some(peer.path.clone()),
        flavour: peer.flavour,
        ..Virtiofsd::new(directory)
    }
}

/// A request's head: header, then `body`.
pub fn head(opcode: Opcode, unique: u64, nodeid: u64, body: &[u8], payload_bytes: u32) -> Vec<u8> {
    let header = InHeader {
        len: (size_of::<InHeader>() + body.len()) as u32 + payload_bytes,
        opcode: opcode as u32,
        unique,
        nodeid,
        uid: 0,
        gid: 0,
        pid: std::process::id(),
        total_extlen: 0,
        padding: 0,
    };
    let mut bytes = header.as_bytes().to_vec();
    bytes.extend_from_slice(body);
    bytes
}

/// Sends one request with tag 0 and waits for its reply head.
pub fn call(transport: &VhostUser, head: &[u8], reply_bytes: usize) -> Vec<u8> {
    let request = Submission {
        tag: 0,
        head,
        payload_out: &[],
        reply_head_bytes: (size_of::<OutHeader>() + reply_bytes) as u32,
        payload_in: &[],
    };
    transport.submit(&request).unwrap();
    transport.kick();
    wait_for(transport, 1).remove(0).1
}

/// Reaps, sleeping in between, until `count` replies have come: tag, head, payload length.
pub fn wait_for(transport: &VhostUser, count: usize) -> Vec<(u32, Vec<u8>, u32)> {
    let mut replies = Vec::new();
    loop {
        let mut sink = |c: Completion<'_>| replies.push((c.tag, c.head.to_vec(), c.payload_bytes));
        transport.reap(&mut sink).unwrap();
        if replies.len() >= count {
            return replies;
        }
        if let Some(death) = transport.death() {
            panic!("{death:?} with {} of {count} replies", replies.len());
        }
        transport.wait();
    }
}

/// The body of a reply, or its errno.
pub fn body<T: FromBytes>(reply: &[u8], unique: u64) -> Result<T, i32> {
    let (header, rest) = OutHeader::read_from_prefix(reply).unwrap();
    assert_eq!((header.unique, header.len as usize), (unique, reply.len()));
    if header.error != 0 {
        return Err(-header.error);
    }
    Ok(T::read_from_prefix(rest).unwrap().0)
}

/// INIT with what a WRITE of 1 MiB needs: without it, the C virtiofsd dies of one.
pub fn init(transport: &VhostUser) -> InitOut {
    let init = InitIn {
        major: 7,
        minor: 38,
        max_readahead: 1 << 20,
        flags: (InitFlags::BIG_WRITES | InitFlags::MAX_PAGES).bits() as u32,
        flags2: 0,
        unused: [0; 11],
    };
    let head = head(Opcode::Init, 2, 0, init.as_bytes(), 0);
    body(&call(transport, &head, size_of::<InitOut>()), 2).unwrap()
}

/// LOOKUP of `name` in the root.
pub fn lookup(transport: &VhostUser, unique: u64, name: &str) -> Result<EntryOut, i32> {
    let mut bytes = name.as_bytes().to_vec();
    bytes.push(0);
    let head = head(Opcode::Lookup, unique, 1, &bytes, 0);
    body(&call(transport, &head, size_of::<EntryOut>()), unique)
}

/// A GETATTR request.
pub fn getattr(unique: u64, nodeid: u64) -> Vec<u8> {
    let args = GetattrIn {
        getattr_flags: 0,
        dummy: 0,
        fh: 0,
    };
    head(Opcode::Getattr, unique, nodeid, args.as_bytes(), 0)
}
