//! Paths in the source, as the user gives them.

use crate::report::Problem;
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::path::{Component, Path};

/// Takes a path of the command line.
///
/// # Errors
/// For an empty path and for one that leads above the root by its `..` alone: the client would
/// take it for the root, which is hardly what was meant.
pub fn check(path: &Path) -> Result<&Path, Problem> {
    if path.as_os_str().is_empty() {
        return Err(Problem::about(
            path,
            "the path is empty; give / for the root",
        ));
    }
    let mut depth = 0_u32;
    for component in path.components() {
        match component {
            Component::Normal(_) => depth += 1,
            Component::ParentDir => match depth.checked_sub(1) {
                Some(above) => depth = above,
                None => {
                    let reason = "the path leads out of the source; / is its root, and there is \
                                  nothing above it";
                    return Err(Problem::about(path, reason));
                }
            },
            Component::RootDir | Component::CurDir | Component::Prefix(_) => {}
        }
    }
    Ok(path)
}

/// The name that a copy of `path` gets in a directory; `None` when the path ends in no name of its
/// own.
pub fn last_name(path: &Path) -> Option<OsString> {
    match path.components().next_back() {
        Some(Component::Normal(name)) => Some(name.to_owned()),
        _ => None,
    }
}

/// Whether the path can only mean a directory: it ends in a slash, `.` or `..`.
pub fn wants_directory(path: &Path) -> bool {
    let last = path
        .as_os_str()
        .as_bytes()
        .rsplit(|byte| *byte == b'/')
        .next();
    matches!(last, Some(b"" | b"." | b".."))
}

/// Whether a name from a directory is one that can be created in another: one component.
pub fn is_plain_name(name: &OsStr) -> bool {
    let bytes = name.as_bytes();
    !bytes.is_empty()
        && bytes != b"."
        && bytes != b".."
        && !bytes.iter().any(|b| b"/\0".contains(b))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_inside_pass_and_paths_outside_do_not() {
        for inside in [
            "/",
            "a",
            "a/..",
            "/a/b/../..",
            "a/../b",
            ".",
            "./.",
            "//a//b/",
        ] {
            assert!(check(Path::new(inside)).is_ok(), "{inside}");
        }
        for outside in ["", "..", "/..", "/../..", "a/../..", "/a/../../b", "./../a"] {
            assert!(check(Path::new(outside)).is_err(), "{outside}");
        }
    }

    #[test]
    fn the_last_name_is_a_name() {
        let name = |path: &str| last_name(Path::new(path));
        assert_eq!(name("/a/b"), Some("b".into()));
        assert_eq!(name("a/"), Some("a".into()));
        assert_eq!(name("a/."), Some("a".into()));
        assert_eq!(name("/"), None);
        assert_eq!(name("a/.."), None);
        assert_eq!(name("."), None);
    }

    #[test]
    fn some_paths_mean_directories_only() {
        for path in ["/", "a/", "a/.", "a/..", ".", ".."] {
            assert!(wants_directory(Path::new(path)), "{path}");
        }
        for path in ["a", "/a", "a/b", "a..", "..a"] {
            assert!(!wants_directory(Path::new(path)), "{path}");
        }
    }

    #[test]
    fn names_that_are_paths_are_not_plain() {
        for name in ["", ".", "..", "a/b", "/", "a\0"] {
            assert!(!is_plain_name(OsStr::new(name)), "{name:?}");
        }
        for name in ["a", "...", " ", "-r"] {
            assert!(is_plain_name(OsStr::new(name)), "{name:?}");
        }
    }
}
