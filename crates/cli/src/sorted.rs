//! The entries of a directory in the order of their names, as many as may be kept.

use fusewire::{DirEntry, ReadDir};

/// Most entries of one directory that are sorted, and most directories that are kept to be gone
/// into later. What a directory without end has beyond that goes by as it comes.
pub const MAX_SORTED: usize = 1_000_000;

/// The first entries of `stream` that `keep` makes something of, at most `max` of them, and
/// whether there may be more. An error is told to `failed`; it ends the stream.
pub fn take<T: Ord>(
    stream: &mut ReadDir,
    max: usize,
    mut keep: impl FnMut(&DirEntry) -> Option<T>,
    mut failed: impl FnMut(fusewire::Error),
) -> (Vec<T>, bool) {
    let mut kept = Vec::new();
    while kept.len() < max {
        match stream.next() {
            None => return (sorted(kept), false),
            Some(Err(error)) => failed(error),
            Some(Ok(entry)) => kept.extend(keep(&entry)),
        }
    }
    (sorted(kept), true)
}

fn sorted<T: Ord>(mut items: Vec<T>) -> Vec<T> {
    items.sort();
    items
}
