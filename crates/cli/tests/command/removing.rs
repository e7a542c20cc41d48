//! rm, mkdir

use crate::places::{everywhere, names};
use std::fs;
use std::os::unix::fs::symlink;

#[test]
fn rm_removes_files_and_with_r_directories() {
    everywhere(|place| {
        for file in ["a", "b", "d/e/f/g", "d/e/h", "d/i", "keep/x"] {
            place.write(file, file);
        }
        symlink("../keep", place.at("d/link")).unwrap();
        place.run(["rm", "a", "/b"]).ok();
        place.run(["rm", "-r", "d"]).ok();
        assert_eq!(names(place.served.path()), ["keep"], "{place}");
        assert!(place.at("keep/x").exists(), "links are not followed");
    });
}

#[test]
fn rm_removes_wide_directories() {
    everywhere(|place| {
        for n in 0..1500 {
            place.write(&format!("d/{n}"), "");
            if n % 10 == 0 {
                place.write(&format!("d/sub{n}/x"), "");
            }
        }
        place.run(["rm", "-r", "d"]).ok();
        assert!(names(place.served.path()).is_empty(), "{place}");
    });
}

#[test]
fn rm_refuses_what_was_hardly_meant_and_goes_on() {
    everywhere(|place| {
        place.write("d/x", "");
        place.write("a", "");
        let done = place.run(["rm", "d", "gone", "/", "d/..", "d/.", ".", "a"]);
        assert_eq!(done.code, Some(1));
        let lines: Vec<_> = done.err.lines().collect();
        assert_eq!(lines.len(), 6, "{}", done.err);
        assert_eq!(
            lines[0],
            "fusewire: rm: d: is a directory; use -r to remove it with all below, or -d if it is empty"
        );
        assert_eq!(
            lines[1],
            "fusewire: rm: cannot stat gone: No such file or directory"
        );
        assert!(lines[2..].iter().all(|line| line.contains("not removed")));
        assert_eq!(names(place.served.path()), ["d"]);
        place.run(["rm", "-f", "gone"]).ok();
        place.run(["rm", "-f"]).ok();
        assert_eq!(place.run(["rm", "-rf", "/"]).code, Some(1));
        assert!(place.at("d/x").exists());
    });
}

#[test]
fn mkdir_makes_one_or_with_p_all() {
    everywhere(|place| {
        place.run(["mkdir", "/a", "b"]).ok();
        place.run(["mkdir", "-p", "x/y/z", "a", "a/b"]).ok();
        assert!(place.at("x/y/z").is_dir() && place.at("a/b").is_dir());
        let again = place.run(["mkdir", "a"]);
        assert_eq!(
            again.one_line(1),
            "fusewire: mkdir: cannot make directory a: File exists"
        );
        let orphan = place.run(["mkdir", "no/b"]);
        assert!(orphan.one_line(1).contains("No such file or directory"));
        fs::write(place.at("file"), "").unwrap();
        let blocked = place.run(["mkdir", "-p", "file/x"]);
        assert!(blocked.one_line(1).contains("Not a directory"));
    });
}
