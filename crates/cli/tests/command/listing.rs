//! ls, stat, cat, info

use crate::places::{Place, age, everywhere, run_on, write};
use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;
use std::process::Command;

fn fill(place: &Place) {
    place.write("b.txt", "hello\n");
    place.write("Zed", vec![b'z'; 123_456]);
    place.write(".hidden", "");
    place.write("sub/inner/deep", "deep\n");
    place.write("sub/x", "x");
    symlink("b.txt", place.at("link")).unwrap();
    symlink("nowhere", place.at("broken")).unwrap();
    symlink("sub", place.at("sublink")).unwrap();
    fs::set_permissions(place.at("Zed"), fs::Permissions::from_mode(0o4750)).unwrap();
    fs::set_permissions(place.at("sub"), fs::Permissions::from_mode(0o1777)).unwrap();
    age(&place.at("Zed"));
}

/// What coreutils say of the served directory.
fn host(program: &str, args: &[&str], directory: &Path) -> String {
    let output = Command::new(program)
        .env("LC_ALL", "C")
        .args(args)
        .current_dir(directory)
        .output()
        .expect(program);
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn ls_says_what_ls_of_coreutils_says() {
    everywhere(|place| {
        fill(place);
        for options in [
            &[][..],
            &["-a"],
            &["-l"],
            &["-R"],
            &["-lR"],
            &["-aR"],
            &["-1"],
            &["-lh"],
            &["-h"],
            &["-d"],
            &["-ld", "sublink"],
        ] {
            let mut args = vec!["ls"];
            args.extend(options);
            let mut theirs_args = options.to_vec();
            // Coreutils call the directory "." here and below, and the source calls it "/".
            args.push(".");
            theirs_args.push(".");
            let ours = place.run(&args).ok();
            let theirs = host("ls", &theirs_args, place.served.path());
            assert_eq!(ours, theirs, "{options:?} on {place}");
        }
        // The directory above is another one, whose numbers may need more room.
        let without_dots = |text: &str| {
            let lines = text.lines().filter(|line| !line.ends_with(" .."));
            lines
                .map(|line| line.split_whitespace().collect::<Vec<_>>().join(" "))
                .collect::<Vec<_>>()
        };
        let ours = without_dots(&place.run(["ls", "-la"]).ok());
        let theirs = without_dots(&host("ls", &["-la"], place.served.path()));
        assert_eq!(ours[1..], theirs[1..], "{place}");
    });
}

#[test]
fn ls_takes_files_directories_and_links() {
    everywhere(|place| {
        fill(place);
        for args in [
            &["ls", "sub", "b.txt", "Zed", "sub/inner"][..],
            &["ls", "sublink"],
            &["ls", "-l", "sublink", "link"],
            &["ls", "broken"],
            &["ls", "-l", "sublink/"],
        ] {
            let ours = place.run(args).ok();
            let theirs = host("ls", &args[1..], place.served.path());
            assert_eq!(ours, theirs, "{args:?} on {place}");
        }
        assert_eq!(place.run(["ls", "/"]).ok(), place.run(["ls"]).ok());
    });
}

#[test]
fn ls_goes_on_after_what_is_not_there() {
    everywhere(|place| {
        fill(place);
        let done = place.run(["ls", "/no", "/b.txt", "/sub/../gone/x"]);
        assert_eq!(done.out, b"/b.txt\n");
        assert_eq!(done.code, Some(1));
        assert_eq!(
            done.err,
            "fusewire: ls: cannot stat /no: No such file or directory\n\
             fusewire: ls: cannot stat /sub/../gone/x: No such file or directory\n"
        );
    });
}

#[test]
fn names_of_any_bytes_are_listed_as_they_are() {
    everywhere(|place| {
        let names: [&[u8]; 4] = [b"a\nb", b"\xff\xfe", b" ", b"\x1b[2J"];
        for name in names {
            write(&place.at(OsStr::from_bytes(name)), name);
        }
        let long = [b'n'; 255];
        write(&place.at(OsStr::from_bytes(&long)), "long");
        let done = place.run(["ls"]);
        assert_eq!(done.code, Some(0));
        let mut expected = b"\x1b[2J\n \na\nb\n".to_vec();
        expected.extend(long);
        expected.extend(b"\n\xff\xfe\n");
        assert_eq!(done.out, expected, "{place}");
        for name in names {
            let done = place.run([OsStr::new("cat"), OsStr::from_bytes(name)]);
            assert_eq!((done.code, &*done.out), (Some(0), name));
        }
    });
}

#[test]
fn a_large_directory_is_listed_in_order() {
    everywhere(|place| {
        let mut expected = String::new();
        for n in 0..3000 {
            let name = format!("{n:05}");
            place.write(&name, "");
            expected.push_str(&format!("{name}\n"));
        }
        assert_eq!(place.run(["ls"]).ok(), expected, "{place}");
    });
}

#[test]
fn stat_says_what_stat_of_coreutils_says() {
    everywhere(|place| {
        fill(place);
        for path in ["b.txt", "Zed", "sub", "link", "broken"] {
            let ours = place.run(["stat", path]).ok();
            let theirs = host("stat", &[path], place.served.path());
            // The served tree knows no device and no birth times, and a link is read to show it.
            let is_link = place.at(path).is_symlink();
            let comparable = |text: &str| {
                let lines = text.lines().map(|line| {
                    let line = line.split_once("Inode:").map_or(line, |(_, rest)| rest);
                    line.trim().to_owned()
                });
                lines
                    .filter(|line| !line.starts_with("Birth:"))
                    .filter(|line| !is_link || !line.starts_with("Access: 2"))
                    .collect::<Vec<_>>()
            };
            assert_eq!(comparable(&ours), comparable(&theirs), "{path} on {place}");
        }
        let followed = place.run(["stat", "-L", "link"]).ok();
        assert!(followed.contains("regular file"), "{followed}");
    });
}

#[test]
fn cat_joins_files_and_goes_on_after_errors() {
    everywhere(|place| {
        let large: Vec<u8> = (0..9_000_000_u32).map(|n| (n / 7) as u8).collect();
        place.write("large", &large);
        place.write("small", "small");
        place.write("empty", "");
        place.write("sub/x", "x");
        let done = place.run(["cat", "small", "large", "empty", "small"]);
        assert_eq!((done.code, done.err.as_str()), (Some(0), ""));
        assert!(done.out == [b"small", &large[..], b"small"].concat());
        let done = place.run(["cat", "gone", "sub", "small"]);
        assert_eq!(done.out, b"small");
        assert_eq!(done.code, Some(1));
        assert_eq!(
            done.err,
            "fusewire: cat: cannot open gone: No such file or directory\n\
             fusewire: cat: cannot open sub: Is a directory\n"
        );
    });
}

#[test]
fn info_shows_what_was_agreed_on() {
    everywhere(|place| {
        let facts: serde_json::Value =
            serde_json::from_str(&place.run(["info", "--json"]).ok()).expect("JSON");
        let number = |pointer: &str| facts.pointer(pointer).and_then(serde_json::Value::as_u64);
        assert!(number("/protocol/max_write_bytes") >= Some(4096), "{facts}");
        assert!(number("/transport/max_in_flight") > Some(0), "{facts}");
        assert!(number("/file_system/block_bytes") > Some(0), "{facts}");
        let text = place.run(["info"]).ok();
        assert!(text.contains("max write bytes"), "{text}");
        assert!(text.contains("\nprotocol\n"), "{text}");
    });
}

#[test]
fn memory_starts_empty() {
    assert_eq!(run_on("mem:", ["ls", "-a"]).ok(), ".\n..\n");
    assert_eq!(run_on("mem:", ["mkdir", "/a"]).ok(), "");
}

#[test]
fn programs_get_a_line_of_json_for_each_file() {
    everywhere(|place| {
        fill(place);
        let lines = |args: &[&str]| -> Vec<serde_json::Value> {
            let out = place.run(args).ok();
            out.lines()
                .map(|line| serde_json::from_str(line).unwrap())
                .collect()
        };
        let listed = lines(&["ls", "-R", "--json"]);
        let paths: Vec<_> = listed
            .iter()
            .map(|entry| entry["path"].as_str().unwrap())
            .collect();
        assert!(
            paths.contains(&"/b.txt") && paths.contains(&"/sub/inner/deep"),
            "{paths:?}"
        );
        let shown = &lines(&["stat", "--json", "Zed"])[0];
        assert_eq!(shown["size_bytes"], 123_456);
        assert_eq!(shown["mode"], 0o4750);
        assert_eq!(shown["type"], "f");
        let same = listed.iter().find(|entry| entry["path"] == "/Zed").unwrap();
        for key in ["size_bytes", "inode", "mtime_secs", "uid"] {
            assert_eq!(same[key], shown[key], "{key} on {place}");
        }
    });
}

#[test]
fn every_field_of_json_is_in_the_help() {
    let place = Place::dir();
    fill(&place);
    place.write("a", "");
    for args in [
        &["ls", "--json"][..],
        &["find", "--json"],
        &["tree", "--json"],
        &["stat", "--json", "link", "a"],
        &["du", "--json", "-a", "-c"],
        &["df", "--json"],
        &["readlink", "--json", "link"],
        &["info", "--json"],
        &["doctor", "--json"],
    ] {
        let help = place.run([args[0], "--help"]).ok();
        // What is broken over lines, and hyphenated nowhere.
        let help = help.split_whitespace().collect::<Vec<_>>().join(" ");
        let out = place.run(args).ok();
        assert!(out.lines().count() > 0);
        for line in out.lines() {
            let object: serde_json::Map<String, serde_json::Value> =
                serde_json::from_str(line).unwrap();
            for key in object.keys() {
                let words = help.split(|c: char| !c.is_alphanumeric() && c != '_');
                assert!(words.into_iter().any(|word| word == key), "{args:?}: {key}");
            }
        }
    }
    // Names that are no UTF-8.
    place
        .run(["touch".as_ref(), OsStr::from_bytes(b"\xff")])
        .ok();
    for command in ["ls", "find", "tree", "du"] {
        let mut args = vec![command, "--json"];
        args.extend((command == "du").then_some("-a"));
        let out = place.run(args).ok();
        assert!(out.contains("\"path_hex\":\"2fff\""), "{command}: {out}");
    }
}
