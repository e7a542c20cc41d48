//! INTERRUPTs that came before what they are about.

use std::collections::VecDeque;

/// How many are remembered. The others are about requests that were done long ago.
const MAX: usize = 64;

/// Numbers of requests that are to be interrupted when they come. INTERRUPT has a queue of its own
/// and overtakes; numbers are never used again, so that one that came too late does no harm.
#[derive(Debug, Default)]
pub(crate) struct Early(VecDeque<u64>);

impl Early {
    pub(crate) fn remember(&mut self, unique: u64) {
        if self.0.len() == MAX {
            self.0.pop_front();
        }
        self.0.push_back(unique);
    }

    /// Whether that request was to be interrupted; once.
    pub(crate) fn take(&mut self, unique: u64) -> bool {
        let found = self.0.iter().position(|early| *early == unique);
        found.map(|at| self.0.remove(at)).is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_ones_are_remembered_once() {
        let mut early = Early::default();
        for unique in 0..100 {
            early.remember(unique);
        }
        assert!(!early.take(35));
        assert!(early.take(36));
        assert!(!early.take(36));
        assert!(early.take(99));
        assert_eq!(early.0.len(), MAX - 2);
    }
}
