//! What can be chosen about a vhost-user connection and about the daemon behind it.

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

/// How large a connection is, and how patient.
#[derive(Clone, Debug)]
pub struct Options {
    /// Bytes of the client's arena, which the daemon maps; rounded up to whole 2 MiB.
    pub arena_bytes: usize,
    /// Requests that may be in flight, when the daemon takes indirect descriptors (half as many
    /// else): a power of two from 8 to 1024. A daemon that refuses it gets less.
    pub queue_size: u16,
    /// How long the daemon may take for each step of the handshake; more than 0.
    pub handshake_timeout: Duration,
}

impl Default for Options {
    fn default() -> Self {
        Options {
            arena_bytes: 256 << 20,
            queue_size: 256,
            handshake_timeout: Duration::from_secs(10),
        }
    }
}

/// A virtiofsd to be started for a directory.
#[derive(Clone, Debug)]
pub struct Virtiofsd {
    /// The program; else `$FUSEWIRE_VIRTIOFSD`, `virtiofsd` on `$PATH`, `/usr/libexec/virtiofsd`
    /// or `/usr/lib/qemu/virtiofsd`, whichever is there first.
    pub program: Option<PathBuf>,
    /// The directory to be served.
    pub shared_dir: PathBuf,
    /// How long the client may keep what it has read.
    pub cache: Cache,
    /// Whether the client may keep what it has written.
    pub writeback: bool,
    /// Threads that serve requests; with 0 or 1 they are served in order.
    pub thread_pool_size: u32,
    /// How the daemon locks itself in.
    pub sandbox: Sandbox,
    /// Whether extended attributes are served.
    pub xattr: bool,
    /// Further arguments, as they are.
    pub extra_args: Vec<OsString>,
    /// Whose arguments the program understands.
    pub flavour: Flavour,
}

impl Virtiofsd {
    /// A virtiofsd for `shared_dir` with the daemon's own defaults.
    #[must_use]
    pub fn new(shared_dir: impl Into<PathBuf>) -> Self {
        Virtiofsd {
            program: None,
            shared_dir: shared_dir.into(),
            cache: Cache::Auto,
            writeback: false,
            thread_pool_size: 0,
            sandbox: Sandbox::Default,
            xattr: false,
            extra_args: Vec::new(),
            flavour: Flavour::Guess,
        }
    }
}

/// virtiofsd's caching policy: the timeouts and open flags that it answers with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cache {
    /// Nothing is kept.
    Never,
    /// For a second.
    Auto,
    /// For a day.
    Always,
    /// Attributes and names for a day, data not at all. The C virtiofsd does not have it.
    Metadata,
}

/// How virtiofsd confines itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sandbox {
    /// [`Chroot`](Sandbox::Chroot) as root, [`None`](Sandbox::None) otherwise.
    Default,
    /// Not at all. The C virtiofsd does not have it.
    None,
    /// Own mount, PID and network namespaces; needs CAP_SYS_ADMIN or user namespaces.
    Namespace,
    /// chroot(2) into the directory; needs CAP_SYS_CHROOT.
    Chroot,
}

/// Which of the two virtiofsds a program is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Flavour {
    /// [`C`](Flavour::C) when it lies in a directory called `qemu`, else [`Rust`](Flavour::Rust).
    Guess,
    /// The one in Rust, versions 1.x.
    Rust,
    /// The one that came with QEMU up to 7.2.
    C,
}
