//! Where paths of the source begin: at its root, or in the shell's current directory.

use std::borrow::Cow;
use std::cell::RefCell;
use std::path::{Path, PathBuf};

thread_local! {
    /// The shell's current directory. The thread that reads the command line is the one that runs
    /// the shell.
    static HERE: RefCell<Option<PathBuf>> = const { RefCell::new(None) };
}

/// From now on paths begin in `directory`, which is absolute.
pub fn set(directory: PathBuf) {
    HERE.set(Some(directory));
}

/// The current directory of a shell; the root without one.
pub fn here() -> PathBuf {
    HERE.with_borrow(|here| here.clone())
        .unwrap_or_else(|| PathBuf::from("/"))
}

/// `paths`, or if there are none, the current directory. (A default of the argument would be found
/// out once, for all commands of a shell.)
pub fn or_here(paths: &[PathBuf]) -> Cow<'_, [PathBuf]> {
    if paths.is_empty() {
        Cow::Owned(vec![here()])
    } else {
        Cow::Borrowed(paths)
    }
}

/// A path as the source knows it. An empty one stays empty: commands say better what is wrong with
/// that.
pub fn resolve(path: &Path) -> PathBuf {
    HERE.with_borrow(|here| match here {
        Some(here) if !path.as_os_str().is_empty() => here.join(path),
        _ => path.to_path_buf(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_begin_in_the_current_directory_of_a_shell() {
        let resolved = |path: &str| resolve(Path::new(path));
        assert_eq!(here(), Path::new("/"));
        assert_eq!(resolved("a"), Path::new("a"));
        set(PathBuf::from("/dir"));
        assert_eq!(here(), Path::new("/dir"));
        assert_eq!(resolved("a"), Path::new("/dir/a"));
        assert_eq!(resolved("/a"), Path::new("/a"));
        assert_eq!(resolved(""), Path::new(""));
        assert_eq!(*or_here(&[]), [PathBuf::from("/dir")]);
        assert_eq!(*or_here(&[PathBuf::from("x")]), [PathBuf::from("x")]);
    }
}
