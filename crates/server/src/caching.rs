//! What a client may keep of what it was told, and for how long.

use core::time::Duration;
use fusewire_wire::OpenOutFlags;
use fusewire_wire::abi::{Attr, AttrOut, EntryOut};

/// How open files and directories may be cached; the choices and their open flags are those of
/// virtiofsd's `--cache`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum CacheMode {
    /// Files are opened with `DIRECT_IO`.
    Never,
    /// Cached, and dropped at the next open: no flag.
    #[default]
    Auto,
    /// Kept over opens (`KEEP_CACHE`), directories too (`CACHE_DIR`).
    Always,
}

/// Cache mode and timeouts of a file system.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Caching {
    /// How open files are cached.
    pub mode: CacheMode,
    /// How long a name stays valid.
    pub entry_timeout: Duration,
    /// How long attributes stay valid.
    pub attr_timeout: Duration,
    /// How long a name stays known to be absent; 0 answers ENOENT, which nobody may cache.
    pub negative_timeout: Duration,
}

impl Default for Caching {
    fn default() -> Self {
        Self::auto()
    }
}

impl Caching {
    /// Nothing is cached: all timeouts 0.
    #[must_use]
    pub const fn never() -> Self {
        Self::with(CacheMode::Never, 0)
    }

    /// Timeouts of 1 s.
    #[must_use]
    pub const fn auto() -> Self {
        Self::with(CacheMode::Auto, 1)
    }

    /// Timeouts of a day: for files that nobody else changes.
    #[must_use]
    pub const fn always() -> Self {
        Self::with(CacheMode::Always, 86_400)
    }

    const fn with(mode: CacheMode, secs: u64) -> Self {
        Caching {
            mode,
            entry_timeout: Duration::from_secs(secs),
            attr_timeout: Duration::from_secs(secs),
            negative_timeout: Duration::ZERO,
        }
    }

    pub(crate) fn entry(&self, nodeid: u64, attr: Attr) -> EntryOut {
        EntryOut {
            nodeid,
            generation: 0,
            entry_valid: self.entry_timeout.as_secs(),
            entry_valid_nsec: self.entry_timeout.subsec_nanos(),
            attr_valid: self.attr_timeout.as_secs(),
            attr_valid_nsec: self.attr_timeout.subsec_nanos(),
            attr,
        }
    }

    /// The entry that says "no such name" for a while, if there is a while.
    pub(crate) fn negative(&self) -> Option<EntryOut> {
        (self.negative_timeout > Duration::ZERO).then(|| EntryOut {
            entry_valid: self.negative_timeout.as_secs(),
            entry_valid_nsec: self.negative_timeout.subsec_nanos(),
            ..EntryOut::default()
        })
    }

    pub(crate) fn attr(&self, attr: Attr) -> AttrOut {
        AttrOut {
            attr_valid: self.attr_timeout.as_secs(),
            attr_valid_nsec: self.attr_timeout.subsec_nanos(),
            dummy: 0,
            attr,
        }
    }

    pub(crate) fn file_flags(&self) -> OpenOutFlags {
        match self.mode {
            CacheMode::Never => OpenOutFlags::DIRECT_IO,
            CacheMode::Auto => OpenOutFlags::empty(),
            CacheMode::Always => OpenOutFlags::KEEP_CACHE,
        }
    }

    pub(crate) fn dir_flags(&self) -> OpenOutFlags {
        match self.mode {
            CacheMode::Never | CacheMode::Auto => OpenOutFlags::empty(),
            CacheMode::Always => OpenOutFlags::KEEP_CACHE | OpenOutFlags::CACHE_DIR,
        }
    }
}
