//! Options and commands that users of coreutils have in their fingers.

use crate::places::{Place, everywhere, names};
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;

fn mode(path: &Path) -> u32 {
    std::fs::metadata(path).unwrap().permissions().mode() & 0o7777
}

#[test]
fn directories_are_made_with_a_mode_and_removed_when_empty() {
    everywhere(|place| {
        place.run(["mkdir", "-m", "1733", "/a"]).ok();
        assert_eq!(mode(&place.at("a")), 0o1733, "{place}");
        place
            .run(["--umask=077", "mkdir", "-pm", "go-w", "/b/c", "/a"])
            .ok();
        assert_eq!(mode(&place.at("b/c")), 0o755, "{place}");
        assert_eq!(mode(&place.at("b")), 0o700, "{place}");
        assert_eq!(
            mode(&place.at("a")),
            0o1733,
            "one that was there keeps its own"
        );
        let again = place.run(["mkdir", "-m", "700", "/a"]);
        assert!(again.one_line(1).contains("File exists"), "{}", again.err);

        place.write("full/file", "");
        let full = place.run(["rmdir", "/full"]);
        assert!(full.one_line(1).contains("is not empty"), "{}", full.err);
        let full = place.run(["rm", "-d", "/full"]);
        assert!(full.one_line(1).contains("not empty"), "{}", full.err);
        let file = place.run(["rmdir", "/full/file"]);
        assert!(file.one_line(1).contains("Not a directory"), "{}", file.err);
        place.run(["rmdir", "/a"]).ok();
        place.run(["rmdir", "-p", "b/c"]).ok();
        place.run(["rm", "-d", "/full/file"]).ok();
        place.run(["rm", "-d", "/full"]).ok();
        assert!(names(place.served.path()).is_empty(), "{place}");
    });
}

#[test]
fn a_capital_r_is_a_small_one() {
    let place = Place::dir();
    place.write("tree/sub/file", "text");
    let back = place.here.path().join("back");
    let back = back.to_str().unwrap();
    place.run(["cp", "-R", "/tree", "/copy"]).ok();
    place.run(["get", "-R", "/copy", back]).ok();
    place.run(["put", "-R", back, "/third"]).ok();
    assert!(place.at("third/sub/file").exists());
    place.run(["rm", "-R", "/tree", "/copy", "/third"]).ok();
    assert!(names(place.served.path()).is_empty());
}

#[test]
fn find_takes_its_options_with_one_dash() {
    let place = Place::dir();
    place.write("a/one.txt", "1234567");
    place.write("a/two", "");
    let line = [
        "find",
        "/",
        "-name",
        "*.txt",
        "-type",
        "f",
        "-size",
        "7c",
        "-maxdepth",
        "2",
    ];
    assert_eq!(place.run(line).ok(), "/a/one.txt\n");
    // Behind the dashes there are paths.
    let path = place.run(["find", "--", "-name"]);
    assert!(
        path.one_line(1).contains("-name: No such file"),
        "{}",
        path.err
    );
}

#[test]
fn programs_are_told_where_links_lead() {
    everywhere(|place| {
        symlink("no/where", place.at("link")).unwrap();
        for line in [
            &["ls", "--json"][..],
            &["ls", "--json", "/link"],
            &["find", "--json", "-type", "l"],
        ] {
            let out = place.run(line).ok();
            let object: serde_json::Value = serde_json::from_str(out.trim_end()).expect("one line");
            assert_eq!(object["target"], "no/where", "{line:?} on {place}");
        }
    });
}
