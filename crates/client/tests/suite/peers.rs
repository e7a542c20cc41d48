//! Who is on the other side: the embedded servers in all their ways, and real daemons.

use fusewire_server::CacheMode;
use fusewire_transport::vhost_user::{Cache, Flavour};
use std::path::{Path, PathBuf};

/// A peer of the suite; each case meets each of them.
#[derive(Clone, Debug)]
pub struct Peer {
    pub name: String,
    pub kind: Kind,
    /// What the client may keep, and how long.
    pub cache: CacheMode,
    /// Whether the peer would grant WRITEBACK_CACHE.
    pub writeback: bool,
    /// Threads that answer.
    pub threads: usize,
}

#[derive(Clone, Debug)]
pub enum Kind {
    /// The embedded server of a directory, with READDIRPLUS or without.
    Dir { readdirplus: bool },
    /// The embedded server of memory.
    Mem,
    /// A program that serves a directory.
    Virtiofsd { program: PathBuf, flavour: Flavour },
}

impl Peer {
    /// Whether it serves a directory that tests can look into.
    pub fn has_host(&self) -> bool {
        !matches!(self.kind, Kind::Mem)
    }

    /// Whether it runs in this process.
    pub fn is_embedded(&self) -> bool {
        !matches!(self.kind, Kind::Virtiofsd { .. })
    }
}

/// A program that cannot be had here, and the peers that it would have been.
#[derive(Clone, Debug)]
pub struct Missing {
    pub program: &'static str,
    pub reason: String,
    pub peers: Vec<String>,
}

const CACHES: [(CacheMode, &str); 3] = [
    (CacheMode::Never, "never"),
    (CacheMode::Auto, "auto"),
    (CacheMode::Always, "always"),
];

/// Every peer of the suite, and what is missing.
pub fn all() -> (Vec<Peer>, Vec<Missing>) {
    let mut peers = embedded();
    let mut missing = Vec::new();
    for (program, flavour) in [("virtiofsd", Flavour::Rust), ("virtiofsd-c", Flavour::C)] {
        match find(program) {
            Ok(path) => peers.extend(daemons(program, &path, flavour)),
            Err(reason) => missing.push(Missing {
                program,
                reason,
                peers: daemons(program, Path::new(""), flavour)
                    .into_iter()
                    .map(|peer| peer.name)
                    .collect(),
            }),
        }
    }
    (peers, missing)
}

/// Writeback granted or not, and one thread or two: with READDIRPLUS and without it the other
/// half, so that each pair of choices is there with each cache mode.
fn ways(readdirplus: bool) -> [(bool, usize); 2] {
    if readdirplus {
        [(false, 1), (true, 2)]
    } else {
        [(true, 1), (false, 2)]
    }
}

fn embedded() -> Vec<Peer> {
    let mut peers = Vec::new();
    for (cache, cache_name) in CACHES {
        let name = |kind: &str, writeback: bool, threads: usize| {
            let wb = if writeback { "-wb" } else { "" };
            format!("{kind}-{cache_name}{wb}-t{threads}")
        };
        for readdirplus in [true, false] {
            // Nothing to be cached, nothing to be read ahead.
            if readdirplus && cache == CacheMode::Never {
                continue;
            }
            for (writeback, threads) in ways(readdirplus) {
                let kind = if readdirplus { "dirplus" } else { "dir" };
                peers.push(Peer {
                    name: name(kind, writeback, threads),
                    kind: Kind::Dir { readdirplus },
                    cache,
                    writeback,
                    threads,
                });
            }
        }
        let (writeback, threads) = match cache {
            CacheMode::Never => (false, 2),
            CacheMode::Auto => (true, 1),
            CacheMode::Always => (true, 2),
        };
        peers.push(Peer {
            name: name("mem", writeback, threads),
            kind: Kind::Mem,
            cache,
            writeback,
            threads,
        });
    }
    peers
}

/// A program in all its ways; the older one, which is no longer changed, in some.
fn daemons(name: &str, program: &Path, flavour: Flavour) -> Vec<Peer> {
    let mut peers = Vec::new();
    for (cache, cache_name) in CACHES {
        for (writeback, threads) in [(false, 0), (false, 2), (true, 0), (true, 2)] {
            if flavour == Flavour::C && (writeback, threads) != some_way(cache) {
                continue;
            }
            let wb = if writeback { "-wb" } else { "" };
            peers.push(Peer {
                name: format!("{name}-{cache_name}{wb}-pool{threads}"),
                kind: Kind::Virtiofsd {
                    program: program.to_owned(),
                    flavour,
                },
                cache,
                writeback,
                threads,
            });
        }
    }
    peers
}

/// Writeback, and threads of the pool.
fn some_way(cache: CacheMode) -> (bool, usize) {
    match cache {
        CacheMode::Never => (false, 0),
        CacheMode::Auto => (true, 2),
        CacheMode::Always => (true, 0),
    }
}

/// Where `cargo xtask peers` has put `program`.
fn find(program: &str) -> Result<PathBuf, String> {
    let directory = std::env::var_os("FUSEWIRE_PEERS_DIR").map_or_else(
        || Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/peers"),
        PathBuf::from,
    );
    let manifest = directory.join("peers.tsv");
    let text = std::fs::read_to_string(&manifest)
        .map_err(|error| format!("{}: {error}; run `cargo xtask peers`", manifest.display()))?;
    let line = text
        .lines()
        .map(|line| line.split('\t').collect::<Vec<_>>())
        .find(|fields| fields.first() == Some(&program));
    match line.as_deref() {
        Some([_, "-", _, reason]) => Err((*reason).to_owned()),
        Some([_, path, ..]) if Path::new(path).is_file() => Ok(PathBuf::from(path)),
        Some([_, path, ..]) => Err(format!("{path} is gone; run `cargo xtask peers`")),
        _ => Err(format!(
            "not in {}; run `cargo xtask peers`",
            manifest.display()
        )),
    }
}

/// What virtiofsd calls it.
pub fn daemon_cache(cache: CacheMode) -> Cache {
    match cache {
        CacheMode::Never => Cache::Never,
        CacheMode::Auto => Cache::Auto,
        CacheMode::Always => Cache::Always,
    }
}
