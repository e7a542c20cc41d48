//! Where a command is that goes down a tree: one path that grows and shrinks, whatever the depth.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

/// A path, and how it was before each step down.
#[derive(Debug)]
pub struct Descent {
    path: Vec<u8>,
    lengths: Vec<usize>,
}

impl Descent {
    pub fn new(top: &Path) -> Self {
        Descent {
            path: top.as_os_str().as_bytes().to_vec(),
            lengths: Vec::new(),
        }
    }

    pub fn path(&self) -> &Path {
        Path::new(OsStr::from_bytes(&self.path))
    }

    /// A path below.
    pub fn join(&self, name: &OsStr) -> PathBuf {
        let mut path = self.path.clone();
        append(&mut path, name);
        PathBuf::from(OsString::from_vec(path))
    }

    pub fn down(&mut self, name: &OsStr) {
        self.lengths.push(self.path.len());
        append(&mut self.path, name);
    }

    /// Back to where the last step down was made; at the top, stays there.
    pub fn up(&mut self) {
        if let Some(length) = self.lengths.pop() {
            self.path.truncate(length);
        }
    }

    /// Steps down so far.
    pub fn depth(&self) -> usize {
        self.lengths.len()
    }
}

fn append(path: &mut Vec<u8>, name: &OsStr) {
    if !path.is_empty() && path.last() != Some(&b'/') {
        path.push(b'/');
    }
    path.extend_from_slice(name.as_bytes());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn up_leads_back_to_what_was_given() {
        for top in ["/", "a", "a/", ".", "a/.."] {
            let mut here = Descent::new(Path::new(top));
            here.down(OsStr::new("x"));
            here.down(OsStr::new("y"));
            assert_eq!(here.path(), Path::new(top).join("x/y"));
            assert_eq!(here.depth(), 2);
            here.up();
            assert_eq!(here.join(OsStr::new("z")), Path::new(top).join("x/z"));
            here.up();
            here.up();
            assert_eq!(here.path().as_os_str(), top);
        }
    }
}
