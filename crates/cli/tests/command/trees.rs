//! tree, find, du

use crate::places::{Place, everywhere, run_on};
use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::symlink;
use std::process::Command;

fn fill(place: &Place) {
    place.write("b.txt", "hello\n");
    place.write("Zed", vec![b'z'; 123_456]);
    place.write(".hidden/x", "");
    place.write("sub/inner/deep.TXT", "deep\n");
    place.write("sub/x", "x");
    fs::write(place.at(OsStr::from_bytes(b"sub/\xff\n")), "").unwrap();
    fs::hard_link(place.at("Zed"), place.at("sub/twin")).unwrap();
    symlink("b.txt", place.at("link")).unwrap();
    symlink("..", place.at("sub/up")).unwrap();
    let fifo = Command::new("mkfifo").arg(place.at("pipe")).status();
    assert!(fifo.unwrap().success());
}

/// The lines of what a program of the host says of the served directory, in order.
fn host(place: &Place, program: &str, args: &[&str]) -> Vec<Vec<u8>> {
    let output = Command::new(program)
        .env("LC_ALL", "C")
        .args(args)
        .current_dir(place.served.path())
        .output()
        .expect(program);
    assert!(output.status.success(), "{output:?}");
    sorted(&output.stdout, b'\n')
}

fn sorted(out: &[u8], end: u8) -> Vec<Vec<u8>> {
    let mut lines: Vec<Vec<u8>> = out.split(|byte| *byte == end).map(Vec::from).collect();
    lines.sort();
    lines
}

#[test]
fn find_finds_what_find_finds() {
    everywhere(|place| {
        fill(place);
        for (ours, theirs) in [
            (&[][..], &[][..]),
            (&["--name", "*.txt"], &["-name", "*.txt"]),
            (&["--iname", "*.txt"], &["-iname", "*.txt"]),
            (&["--type", "d"], &["-type", "d"]),
            (&["--type", "f,l"], &["-type", "f,l"]),
            (&["--type", "p"], &["-type", "p"]),
            (
                &["--size", "+5", "--type", "f"],
                &["-size", "+5c", "-type", "f"],
            ),
            (
                &["--size", "-6", "--type", "f"],
                &["-size", "-6c", "-type", "f"],
            ),
            (&["--size=123456"], &["-size", "123456c"]),
            (&["--max-depth", "1"], &["-maxdepth", "1"]),
            (&["--min-depth=2"], &["-mindepth", "2"]),
            (
                &["--name", "x", "--min-depth", "2", "--max-depth", "2"],
                &["-mindepth", "2", "-maxdepth", "2", "-name", "x"],
            ),
        ] {
            let done = place.run([&["find", "."], ours].concat());
            assert_eq!((done.code, done.err.as_str()), (Some(0), ""), "{ours:?}");
            let expected = host(place, "find", &[&["."], theirs].concat());
            assert_eq!(sorted(&done.out, b'\n'), expected, "{ours:?} on {place}");
        }
        let done = place.run(["find", ".", "--print0"]);
        let expected = Command::new("find")
            .args([".", "-print0"])
            .current_dir(place.served.path())
            .output();
        assert_eq!(
            sorted(&done.out, b'\0'),
            sorted(&expected.unwrap().stdout, b'\0')
        );
        let done = place.run(["find", "no", "sub/x"]);
        assert_eq!((done.code, &*done.out), (Some(1), &b"sub/x\n"[..]));
        assert_eq!(
            done.err,
            "fusewire: find: cannot stat no: No such file or directory\n"
        );
        for wrong in [
            &["--size", "1T"][..],
            &["--type", "x"],
            &["--name", "["],
            &["--print0", "--json"],
        ] {
            let done = place.run([&["find", "/"], wrong].concat());
            done.one_line(2);
        }
    });
}

fn json(out: &[u8]) -> Vec<serde_json::Value> {
    out.split(|byte| *byte == b'\n')
        .filter(|line| !line.is_empty())
        .map(|line| serde_json::from_slice(line).expect("JSON"))
        .collect()
}

#[test]
fn programs_get_trees_as_lines_of_json() {
    everywhere(|place| {
        fill(place);
        for command in ["find", "tree", "du"] {
            let args = [command, "--json", "-a", "/sub"];
            let args = args.into_iter().filter(|a| command != "find" || *a != "-a");
            let done = place.run(args);
            assert_eq!((done.code, done.err.as_str()), (Some(0), ""), "{command}");
            let lines = json(&done.out);
            let hex: Vec<_> = lines
                .iter()
                .filter_map(|l| l["path_hex"].as_str())
                .collect();
            assert_eq!(hex, ["2f7375622fff0a"], "{command}");
            let deep = |l: &&serde_json::Value| l["path"] == "/sub/inner/deep.TXT";
            let deep = lines.iter().find(deep).expect("it is there");
            assert_eq!(deep["depth"], 2, "{command}");
            match command {
                "du" => assert!(deep["bytes"].as_u64() > Some(0)),
                _ => assert_eq!(deep["type"], "f"),
            }
        }
        let lines = json(&place.run(["tree", "--json", "/sub"]).out);
        let up = lines.iter().find(|line| line["path"] == "/sub/up").unwrap();
        assert_eq!((&up["type"], &up["target"]), (&"l".into(), &"..".into()));
        let lines = json(&place.run(["find", "--json", "/Zed"]).out);
        assert_eq!(lines[0]["size_bytes"], 123_456);
        assert_eq!(lines[0]["links"], 2);
    });
}

#[test]
fn tree_draws_lines_in_order() {
    let place = Place::dir();
    for file in ["a/b/c", "a/b/d", "a/z", "m", ".x/y"] {
        place.write(file, "");
    }
    symlink("m", place.at("n")).unwrap();
    fs::create_dir(place.at("void")).unwrap();
    assert_eq!(
        place.run(["tree"]).ok(),
        "/\n\
         ├── a\n\
         │   ├── b\n\
         │   │   ├── c\n\
         │   │   └── d\n\
         │   └── z\n\
         ├── m\n\
         ├── n -> m\n\
         └── void\n\
         \n\
         3 directories, 5 files\n"
    );
    assert_eq!(
        place.run(["tree", "-adL1", "/"]).ok(),
        "/\n├── .x\n├── a\n└── void\n\n3 directories\n"
    );
    assert_eq!(
        place.run(["tree", "a", "a/b"]).ok(),
        "a\n├── b\n│   ├── c\n│   └── d\n└── z\na/b\n├── c\n└── d\n\n1 directory, 5 files\n"
    );
    let done = place.run(["tree", "m"]);
    assert_eq!(done.code, Some(1));
    assert_eq!(
        done.err,
        "fusewire: tree: cannot open directory m: Not a directory\n"
    );
    place.run(["tree", "-L0"]).one_line(2);
}

#[test]
fn du_counts_what_du_counts() {
    everywhere(|place| {
        fill(place);
        for options in [
            &[][..],
            &["-a"],
            &["--summarize"],
            &["-d1"],
            &["-c"],
            &["-l"],
            &["-h"],
            &["-ah"],
            &["-lc", "-d0"],
        ] {
            let args = [&["du"], options, &["."]].concat();
            let done = place.run(&args);
            assert_eq!((done.code, done.err.as_str()), (Some(0), ""), "{options:?}");
            let ours = sorted(&done.out, b'\n');
            let theirs = host(place, "du", &args[1..]);
            assert_eq!(ours.len(), theirs.len(), "{options:?} on {place}");
            // Under which of its names a file is counted is a matter of order, but not in the sums.
            let is_sum = |line: &&Vec<u8>| line.ends_with(b"\t.") || line.ends_with(b"\ttotal");
            let sums = |lines: &[Vec<u8>]| lines.iter().filter(is_sum).cloned().collect::<Vec<_>>();
            assert!(!sums(&ours).is_empty());
            assert_eq!(sums(&ours), sums(&theirs), "{options:?} on {place}");
        }
        let apparent = place.run(["du", "--summarize", "--apparent-size", "--json", "/sub"]);
        // x, deep.TXT, the link and the larger file by its second name.
        assert_eq!(json(&apparent.out)[0]["bytes"], 1 + 5 + 2 + 123_456);
        let help = place.run(["du", "--help"]).ok();
        assert!(help.contains("--apparent-size"), "{help}");
    });
}

#[test]
fn memory_is_an_empty_tree() {
    assert_eq!(run_on("mem:", ["find"]).ok(), "/\n");
    assert_eq!(
        run_on("mem:", ["tree"]).ok(),
        "/\n\n0 directories, 0 files\n"
    );
    assert!(run_on("mem:", ["du"]).ok().ends_with("\t/\n"));
}
