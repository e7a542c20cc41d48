//! get, put

use crate::places::{Place, age, everywhere, names, run_on, tree, write};
use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileExt, MetadataExt, PermissionsExt, symlink};
use std::path::Path;
use std::process::Command;

/// A tree with all that a copy keeps.
fn fill(top: &Path) {
    write(&top.join("a"), "a");
    write(&top.join("empty"), "");
    write(&top.join("d/large"), pattern(5_000_003));
    write(&top.join("d/e/x"), "x");
    for n in 0..200 {
        write(&top.join(format!("many/{n}")), pattern(n * 37));
    }
    fs::create_dir_all(top.join("d/void")).unwrap();
    for name in [&b"a\nb"[..], b"\xff", b" ", b"-r"] {
        write(&top.join(OsStr::from_bytes(name)), name);
    }
    symlink("a", top.join("link")).unwrap();
    symlink("/no/such/place", top.join("d/broken")).unwrap();
    for (path, mode) in [
        ("a", 0o640),
        ("empty", 0o400),
        ("d/e/x", 0o777),
        ("d/e", 0o555),
        ("d/void", 0o1777),
    ] {
        fs::set_permissions(top.join(path), fs::Permissions::from_mode(mode)).unwrap();
    }
    for path in ["a", "link", "d/broken", "d/e/x", "d/e", "d/void", "d"] {
        age(&top.join(path));
    }
}

fn pattern(bytes: usize) -> Vec<u8> {
    (0..bytes).map(|n| (n * 31 / 7 + n / 4096) as u8).collect()
}

#[test]
fn a_tree_goes_there_and_back_with_all_it_has() {
    everywhere(|place| {
        let (here, back) = (place.here.path().join("t"), place.here.path().join("back"));
        fill(&here);
        place
            .run([
                OsStr::new("put"),
                "-r".as_ref(),
                here.as_ref(),
                "/t".as_ref(),
            ])
            .ok();
        assert_eq!(tree(&place.at("t")), tree(&here), "{place}");
        place
            .run([
                OsStr::new("get"),
                "-r".as_ref(),
                "/t".as_ref(),
                back.as_ref(),
            ])
            .ok();
        assert_eq!(tree(&back), tree(&here), "{place}");
    });
}

#[test]
fn targets_are_names_or_directories() {
    everywhere(|place| {
        let here = place.here.path();
        let get = |args: &[&str]| {
            let mut command = place.command(["get"]);
            command.args(args).current_dir(here);
            crate::places::Done::of(command.output().unwrap())
        };
        place.write("a", "a");
        place.write("b", "b");
        place.write("d/x", "x");
        fs::create_dir(here.join("into")).unwrap();
        get(&["a", "copy"]).ok();
        get(&["a", "/b", "into"]).ok();
        get(&["-r", "d", "into"]).ok();
        get(&["-r", "d", "new"]).ok();
        get(&["-r", "d/", "newer/"]).ok();
        get(&["-r", "/", "all"]).ok();
        get(&["-r", ".", "into"]).ok();
        assert_eq!(names(here), ["all", "copy", "into", "new", "newer"]);
        assert_eq!(names(&here.join("into")), ["a", "b", "d"]);
        assert_eq!(names(&here.join("new")), ["x"]);
        assert_eq!(names(&here.join("newer")), ["x"]);
        assert_eq!(names(&here.join("all")), ["a", "b", "d"]);
        for (args, what) in [
            (&["a", "b", "copy"][..], "copy: is not a directory"),
            (&["a", "b", "absent"], "absent: is not a directory"),
            (&["a", "absent/"], "absent/: is not a directory"),
            (&["a", "absent/x"], "cannot open absent: No such file"),
            (&["d", "x"], "d is a directory and was not copied; use -r"),
            (
                &["-r", "d", "copy"],
                "cannot open directory copy: Not a directory",
            ),
            (&["gone", "x"], "cannot stat gone: No such file"),
        ] {
            let done = get(args);
            assert!(done.one_line(1).contains(what), "{args:?}: {}", done.err);
        }
        assert_eq!(fs::read(here.join("copy")).unwrap(), b"a");
        assert_eq!(names(here), ["all", "copy", "into", "new", "newer"]);
    });
}

#[test]
fn targets_in_the_source_are_names_or_directories() {
    everywhere(|place| {
        let here = place.here.path();
        write(&here.join("a"), "a");
        write(&here.join("b"), "b");
        write(&here.join("d/x"), "x");
        let put = |args: &[&str]| {
            let mut command = place.command(["put"]);
            command.args(args).current_dir(here);
            crate::places::Done::of(command.output().unwrap())
        };
        fs::create_dir(place.at("into")).unwrap();
        put(&["a", "copy"]).ok();
        put(&["a", "b", "/into"]).ok();
        put(&["-r", "d", "into/"]).ok();
        put(&["-r", "d", "/new"]).ok();
        put(&["a", "/"]).ok();
        assert_eq!(names(place.served.path()), ["a", "copy", "into", "new"]);
        assert_eq!(names(&place.at("into")), ["a", "b", "d"]);
        assert_eq!(names(&place.at("new")), ["x"]);
        for (args, what) in [
            (&["a", "b", "copy"][..], "copy: is not a directory"),
            (&["a", "absent/"], "absent/: is not a directory"),
            (&["a", "absent/x"], "absent/x: No such file"),
            (&["d", "x"], "d is a directory and was not copied; use -r"),
            (
                &["-r", "d", "copy"],
                "cannot make directory /copy: File exists",
            ),
            (&["gone", "x"], "cannot read gone: No such file"),
            (&["b", "/../x"], "the path leads out of the source"),
            (&["b", ""], "the path is empty"),
        ] {
            let done = put(args);
            assert!(done.one_line(1).contains(what), "{args:?}: {}", done.err);
        }
        assert_eq!(names(place.served.path()), ["a", "copy", "into", "new"]);
    });
}

#[test]
fn what_is_there_is_replaced_as_a_whole() {
    everywhere(|place| {
        let here = place.here.path();
        write(&here.join("victim"), "untouched");
        symlink("victim", here.join("target")).unwrap();
        place.write("new", "new");
        // Not written through: the name is what is replaced.
        let target = here.join("target");
        place
            .run([OsStr::new("get"), "new".as_ref(), target.as_ref()])
            .ok();
        assert!(!target.is_symlink());
        assert_eq!(fs::read(&target).unwrap(), b"new");
        assert_eq!(fs::read(here.join("victim")).unwrap(), b"untouched");

        place.write("old", "a longer old file");
        fs::hard_link(place.at("old"), place.at("other")).unwrap();
        place
            .run([OsStr::new("put"), target.as_ref(), "old".as_ref()])
            .ok();
        assert_eq!(fs::read(place.at("old")).unwrap(), b"new");
        assert_eq!(fs::read(place.at("other")).unwrap(), b"a longer old file");
        assert_eq!(names(here), ["target", "victim"]);
        assert_eq!(names(place.served.path()), ["new", "old", "other"]);
    });
}

#[test]
fn directories_are_merged_and_files_do_not_replace_them() {
    everywhere(|place| {
        let here = place.here.path();
        place.write("t/a/new", "new");
        place.write("t/b", "file");
        write(&here.join("t/a/old"), "old");
        write(&here.join("t/b/x"), "x");
        let done = place.run([
            OsStr::new("get"),
            "-r".as_ref(),
            "t".as_ref(),
            here.as_ref(),
        ]);
        assert!(
            done.one_line(1)
                .contains("is a directory and was not replaced")
        );
        assert_eq!(names(&here.join("t/a")), ["new", "old"]);
        assert_eq!(names(&here.join("t/b")), ["x"]);

        let target = here.join("t");
        place.write("u/t/b", "file");
        let done = place.run([
            OsStr::new("put"),
            "-r".as_ref(),
            target.as_ref(),
            "u".as_ref(),
        ]);
        assert!(done.one_line(1).contains("File exists"), "{}", done.err);
        assert_eq!(names(&place.at("u/t/a")), ["new", "old"]);
        assert_eq!(fs::read(place.at("u/t/b")).unwrap(), b"file");
    });
}

#[test]
fn links_are_followed_only_without_r() {
    everywhere(|place| {
        let here = place.here.path();
        place.write("a", "a");
        symlink("a", place.at("link")).unwrap();
        for (args, is_link) in [(&["get"][..], false), (&["get", "-r"], true)] {
            let target = here.join(format!("{is_link}"));
            let mut command = place.command(args);
            command.arg("link").arg(&target);
            crate::places::Done::of(command.output().unwrap()).ok();
            assert_eq!(target.is_symlink(), is_link);
        }
        symlink("victim", here.join("way-out")).unwrap();
        fs::create_dir(here.join("victim")).unwrap();
        // A link where a directory is to be is not gone through.
        place.write("t/way-out/x", "x");
        let top = here.join("t");
        fs::create_dir(&top).unwrap();
        symlink("../victim", top.join("way-out")).unwrap();
        let done = place.run([
            OsStr::new("get"),
            "-r".as_ref(),
            "t".as_ref(),
            here.as_ref(),
        ]);
        assert!(done.one_line(1).contains("t/way-out"), "{}", done.err);
        assert!(names(&here.join("victim")).is_empty());
    });
}

fn blocks(path: &Path) -> u64 {
    fs::metadata(path).unwrap().blocks()
}

#[test]
fn holes_are_kept_beyond_four_gib() {
    everywhere(|place| {
        let size = (4 << 30) + 12_345;
        let sparse = place.here.path().join("sparse");
        let file = fs::File::create(&sparse).unwrap();
        file.set_len(size).unwrap();
        file.write_all_at(b"start", 0).unwrap();
        file.write_all_at(b"middle", (4 << 30) - 3).unwrap();
        place
            .run([OsStr::new("put"), sparse.as_ref(), "/s".as_ref()])
            .ok();
        let there = place.at("s");
        assert_eq!(fs::metadata(&there).unwrap().len(), size);
        assert!(blocks(&there) <= blocks(&sparse) + 16, "{place}");
        let mut middle = [0; 6];
        let copied = fs::File::open(&there).unwrap();
        copied.read_exact_at(&mut middle, (4 << 30) - 3).unwrap();
        assert_eq!(&middle, b"middle");

        let back = place.here.path().join("back");
        place
            .run([OsStr::new("get"), "/s".as_ref(), back.as_ref()])
            .ok();
        assert_eq!(fs::metadata(&back).unwrap().len(), size);
        assert!(blocks(&back) <= blocks(&sparse) + 16, "{place}");
        let copied = fs::File::open(&back).unwrap();
        copied.read_exact_at(&mut middle, (4 << 30) - 3).unwrap();
        assert_eq!(&middle, b"middle");
        let mut start = [1; 10];
        copied.read_exact_at(&mut start, 0).unwrap();
        assert_eq!(&start, b"start\0\0\0\0\0");
    });
}

#[test]
fn files_that_do_not_know_their_size_are_copied_to_their_end() {
    let place = Place::dir();
    let target = place.here.path().join("status");
    let target = target.to_str().unwrap();
    assert_eq!(
        run_on("dir:/proc/self", ["get", "/limits", target]).ok(),
        ""
    );
    let copied = fs::read_to_string(target).unwrap();
    assert!(copied.contains("Max open files"), "{copied}");
    place
        .run([
            OsStr::new("put"),
            "/proc/self/limits".as_ref(),
            "/l".as_ref(),
        ])
        .ok();
    assert_eq!(
        fs::read_to_string(place.at("l")).unwrap().lines().count(),
        copied.lines().count()
    );
}

fn fifo(path: &Path) {
    assert!(Command::new("mkfifo").arg(path).status().unwrap().success());
}

#[test]
fn special_files_and_bits_need_to_be_asked_for() {
    everywhere(|place| {
        let here = place.here.path();
        place.write("t/suid", "x");
        fs::set_permissions(place.at("t/suid"), fs::Permissions::from_mode(0o6755)).unwrap();
        fifo(&place.at("t/pipe"));
        fs::create_dir(place.at("t/sgid")).unwrap();
        fs::set_permissions(place.at("t/sgid"), fs::Permissions::from_mode(0o2775)).unwrap();
        let (plain, special) = (here.join("plain"), here.join("special"));
        let done = place.run([
            OsStr::new("get"),
            "-r".as_ref(),
            "t".as_ref(),
            plain.as_ref(),
        ]);
        assert_eq!(
            done.one_line(1),
            "fusewire: get: t/pipe: is a device node, pipe or socket and was not copied; \
             use --special"
        );
        assert_eq!(names(&plain), ["sgid", "suid"]);
        let mode = |path: &Path| fs::symlink_metadata(path).unwrap().mode();
        assert_eq!(mode(&plain.join("suid")) & 0o7777, 0o755);

        let args = ["get", "-r", "--special", "t"].map(OsStr::new);
        place.run(args.into_iter().chain([special.as_ref()])).ok();
        assert_eq!(tree(&special), tree(&place.at("t")), "{place}");

        let done = place.run([
            OsStr::new("put"),
            "-r".as_ref(),
            special.as_ref(),
            "p".as_ref(),
        ]);
        assert!(done.one_line(1).contains("use --special"));
        assert_eq!(names(&place.at("p")), ["sgid", "suid"]);
        assert_eq!(mode(&place.at("p/suid")) & 0o7777, 0o755);
        let args = [OsStr::new("put"), "-r".as_ref(), "--special".as_ref()];
        place
            .run(args.into_iter().chain([special.as_ref(), "s".as_ref()]))
            .ok();
        assert_eq!(tree(&place.at("s")), tree(&special), "{place}");
    });
}

#[test]
fn files_do_not_replace_devices_pipes_and_sockets() {
    everywhere(|place| {
        let here = place.here.path();
        place.write("t/a", "a");
        write(&here.join("t/a"), "a");
        fifo(&place.at("pipe"));
        fifo(&here.join("pipe"));
        fs::create_dir_all(place.at("old/t")).unwrap();
        fs::create_dir_all(here.join("old/t")).unwrap();
        fifo(&place.at("old/t/a"));
        fifo(&here.join("old/t/a"));
        symlink("pipe", here.join("link")).unwrap();
        let is_fifo = |path: &Path| fs::symlink_metadata(path).unwrap().mode() & 0o170_000;
        for (target, why) in [("pipe", "and was not replaced"), ("link", "nobody reads")] {
            let target = here.join(target);
            let done = place.run([OsStr::new("get"), "t/a".as_ref(), target.as_ref()]);
            let line = done.one_line(1);
            assert!(line.contains(why), "{line}");
        }
        let source = here.join("t");
        for args in [
            [OsStr::new("get"), "t".as_ref(), here.join("old").as_ref()],
            [OsStr::new("put"), source.as_ref(), "old".as_ref()],
            [
                OsStr::new("put"),
                source.join("a").as_ref(),
                "pipe".as_ref(),
            ],
        ] {
            let done = place.run(args.into_iter().chain(["-r".as_ref()]));
            let line = done.one_line(1);
            assert!(line.contains("and was not replaced"), "{line}");
        }
        for pipe in ["pipe", "old/t/a"] {
            assert_eq!(is_fifo(&place.at(pipe)), 0o010_000, "{pipe}");
            assert_eq!(is_fifo(&here.join(pipe)), 0o010_000, "{pipe}");
        }
        assert!(here.join("link").is_symlink());
    });
}

#[test]
fn a_link_is_not_copied_over_what_it_leads_to() {
    everywhere(|place| {
        place.write("d/a", "text");
        symlink("a", place.at("d/l")).unwrap();
        symlink("/d/a", place.at("d/from-the-root")).unwrap();
        symlink("../a", place.at("d/up")).unwrap();
        symlink("d", place.at("dir")).unwrap();
        place.write("a", "text");
        for (source, target) in [
            ("d/l", "d/a"),
            ("dir/l", "d/a"),
            ("d/l", "dir/a"),
            ("d/up", "a"),
        ] {
            let (from, to) = (place.at(source), place.at(target));
            for args in [
                [OsStr::new("get"), source.as_ref(), to.as_ref()],
                [OsStr::new("put"), from.as_ref(), target.as_ref()],
            ] {
                let done = place.run(args.into_iter().chain(["-r".as_ref()]));
                let line = done.one_line(1);
                assert!(line.ends_with("are the same file"), "{line}");
            }
            assert_eq!(fs::read(&to).unwrap(), b"text", "{target} on {place}");
        }
        // It leads there from the root of the source.
        let to = place.at("d/a");
        let get = ["get", "-r", "d/from-the-root"].map(OsStr::new);
        let done = place.run(get.into_iter().chain([to.as_ref()]));
        assert!(done.one_line(1).ends_with("are the same file"));
        // Another link may be replaced, and so may a file by a link that leads elsewhere.
        let to = place.at("d/l");
        let get = ["get", "-r", "d/up"].map(OsStr::new);
        place.run(get.into_iter().chain([to.as_ref()])).ok();
        assert_eq!(fs::read_link(to).unwrap(), Path::new("../a"), "{place}");
        let (from, to) = (place.at("d/up"), place.at("d/a"));
        place
            .run([
                OsStr::new("put"),
                "-r".as_ref(),
                from.as_ref(),
                "d/a".as_ref(),
            ])
            .ok();
        assert_eq!(fs::read_link(to).unwrap(), Path::new("../a"), "{place}");
    });
}

#[test]
fn trees_do_not_go_where_links_in_the_target_lead() {
    everywhere(|place| {
        let here = place.here.path();
        for top in [place.served.path(), here] {
            write(&top.join("from/s/x"), "x");
            fs::create_dir_all(top.join("elsewhere")).unwrap();
            fs::create_dir_all(top.join("into")).unwrap();
            fs::create_dir_all(top.join("into/from")).unwrap();
            symlink("../elsewhere", top.join("into/s")).unwrap();
            symlink("../../elsewhere", top.join("into/from/s")).unwrap();
            symlink("elsewhere", top.join("x")).unwrap();
        }
        for name in ["from", "from/s"] {
            let (from, into) = (here.join(name), here.join("into"));
            for args in [
                [OsStr::new("put"), from.as_ref(), "into".as_ref()],
                [OsStr::new("get"), name.as_ref(), into.as_ref()],
            ] {
                let done = place.run(args.into_iter().chain(["-r".as_ref()]));
                let line = done.one_line(1);
                assert!(line.contains("/s: "), "{line}");
            }
        }
        for top in [place.served.path(), here] {
            assert!(names(&top.join("elsewhere")).is_empty(), "{place}");
            assert!(top.join("into/from/s").is_symlink());
        }
        // A link that is the target itself is followed when it leads to a directory.
        let from = here.join("from/s/x");
        place
            .run([OsStr::new("put"), from.as_ref(), "/x".as_ref()])
            .ok();
        assert_eq!(names(&place.at("elsewhere")), ["x"]);
        // In it, it is the name of a copy and no way: the link goes, not what is behind it.
        place
            .run([OsStr::new("put"), from.as_ref(), "/".as_ref()])
            .ok();
        assert_eq!(fs::read(place.at("x")).unwrap(), b"x");
        assert_eq!(names(&place.at("elsewhere")), ["x"]);
    });
}

#[test]
fn a_directory_is_not_copied_into_itself() {
    everywhere(|place| {
        place.write("d/x", "x");
        let inside = place.at("d/out");
        for source in ["/", "d"] {
            let done = place.run([
                OsStr::new("get"),
                "-r".as_ref(),
                source.as_ref(),
                inside.as_ref(),
            ]);
            assert!(
                done.one_line(1).contains("not copied into itself"),
                "{}",
                done.err
            );
            let done = place.run([
                OsStr::new("put"),
                "-r".as_ref(),
                place.at(source.trim_matches('/')).as_ref(),
                "d/out".as_ref(),
            ]);
            assert!(
                done.one_line(1).contains("not copied into itself"),
                "{}",
                done.err
            );
        }
        assert_eq!(names(&place.at("d")), ["x"]);
    });
}

#[test]
fn what_cannot_be_read_does_not_stop_the_rest() {
    let place = Place::dir();
    let here = place.here.path();
    for n in 0..20 {
        place.write(&format!("t/{n:02}"), "x");
    }
    // Not to be opened by anyone.
    symlink("loop", place.at("loop")).unwrap();
    let done = place.run([
        OsStr::new("get"),
        "loop".as_ref(),
        "t/03".as_ref(),
        here.as_ref(),
    ]);
    assert!(
        done.one_line(1)
            .contains("loop: Too many levels of symbolic links")
    );
    assert_eq!(names(here), ["03"]);
}

#[test]
fn options_may_stand_behind_and_between_operands() {
    let place = Place::dir();
    let here = place.here.path();
    place.write("tree/file", "text");
    place.run(["cp", "/tree", "-r", "/zz"]).ok();
    let back = here.join("back");
    let get = ["get", "/zz", "-r"].map(OsStr::new);
    place.run([&get[..], &[back.as_os_str()]].concat()).ok();
    let put = [OsStr::new("put"), back.as_os_str()];
    let put = [
        &put[..],
        &["-r".as_ref(), "/yy".as_ref(), "--special".as_ref()],
    ]
    .concat();
    place.run(put).ok();
    assert_eq!(fs::read(place.at("yy/file")).unwrap(), b"text");
}
