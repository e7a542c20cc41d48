//! Open files and directories.

use crate::fs::{Errno, Result};
use fusewire_sync::{Arc, Rank, RwLock};
use std::collections::HashMap;

/// A table of open things. Numbers are never reused; a table hands out every second one, so that
/// a file's handle is never taken for a directory's.
#[derive(Debug)]
pub(super) struct Handles<T>(RwLock<Table<T>>);

#[derive(Debug)]
struct Table<T> {
    open: HashMap<u64, Arc<T>>,
    next: u64,
    /// Most that were open at once.
    peak: u64,
}

impl<T> Handles<T> {
    pub fn new(first: u64) -> Self {
        Handles(RwLock::new(
            Rank::LEAF,
            Table {
                open: HashMap::new(),
                next: first,
                peak: 0,
            },
        ))
    }

    pub fn add(&self, value: T) -> u64 {
        let mut table = self.0.write();
        let fh = table.next;
        table.next += 2;
        table.open.insert(fh, Arc::new(value));
        table.peak = table.peak.max(table.open.len() as u64);
        fh
    }

    /// What `fh` stands for; EBADF when it is not open.
    pub fn get(&self, fh: u64) -> Result<Arc<T>> {
        self.0.read().open.get(&fh).cloned().ok_or(Errno::BADF)
    }

    /// Closes; EBADF when `fh` is not open.
    pub fn remove(&self, fh: u64) -> Result<()> {
        let gone = self.0.write().open.remove(&fh);
        // Closed here, after the lock, unless a request still uses it.
        gone.map(drop).ok_or(Errno::BADF)
    }

    pub fn remove_all(&self) {
        let gone = {
            let mut table = self.0.write();
            table.peak = 0;
            std::mem::take(&mut table.open)
        };
        drop(gone);
    }

    pub fn peak(&self) -> u64 {
        self.0.read().peak
    }

    pub fn len(&self) -> u64 {
        self.0.read().open.len() as u64
    }
}
