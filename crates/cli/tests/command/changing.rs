//! cp, mv, ln, readlink, chmod, chown, truncate, touch, xattr, df

use crate::places::{Place, everywhere, names, run_on, tree};
use std::fs::{self, Permissions};
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::Path;
use std::process::Command;

fn mode(place: &Place, path: &str) -> u32 {
    fs::symlink_metadata(place.at(path)).unwrap().mode() & 0o7777
}

#[test]
fn cp_copies_within_the_source() {
    everywhere(|place| {
        place.write("a", vec![b'a'; 300_000]);
        place.write("tree/x/y", "y");
        place.write("tree/z", "z");
        symlink("x/y", place.at("tree/link")).unwrap();
        fs::set_permissions(place.at("tree/x"), Permissions::from_mode(0o750)).unwrap();
        fs::set_permissions(place.at("tree/z"), Permissions::from_mode(0o4711)).unwrap();
        place.run(["cp", "a", "b"]).ok();
        assert_eq!(fs::read(place.at("b")).unwrap(), vec![b'a'; 300_000]);
        place.run(["mkdir", "into"]).ok();
        place.run(["cp", "-r", "a", "tree", "into"]).ok();
        assert_eq!(names(&place.at("into")), ["a", "tree"], "{place}");
        assert_eq!(mode(place, "into/tree/x"), 0o750);
        assert_eq!(mode(place, "into/tree/z"), 0o711, "set-id bits go");
        assert_eq!(
            fs::read_link(place.at("into/tree/link")).unwrap().to_str(),
            Some("x/y")
        );
        place.run(["cp", "-a", "tree", "archive"]).ok();
        assert_eq!(
            tree(&place.at("archive")),
            tree(&place.at("tree")),
            "{place}"
        );
        // Nothing is replaced, or all is.
        place.write("b", "old");
        place.run(["cp", "-n", "a", "b"]).ok();
        assert_eq!(fs::read(place.at("b")).unwrap(), b"old");
        place.run(["cp", "-a", "tree", "into"]).ok();
        let refused = place.run(["cp", "tree", "c"]);
        let line = "fusewire: cp: tree: is a directory; use -r to copy it";
        assert_eq!(refused.one_line(1), line);
        let refused = place.run(["cp", "-r", "tree", "tree/x/new"]);
        assert!(refused.one_line(1).contains("cannot be copied into itself"));
        assert!(
            place
                .run(["cp", "a", "a"])
                .one_line(1)
                .starts_with("fusewire: cp: a and a are the same file")
        );
    });
}

#[test]
fn cp_is_not_led_astray_by_what_is_there() {
    everywhere(|place| {
        for file in ["from/a", "from/b/c", "from/d", "else/kept"] {
            place.write(file, file);
        }
        // A link in the place of a file is replaced, and one in that of a directory is not entered.
        symlink("../else/kept", place.at("into")).unwrap();
        fs::remove_file(place.at("into")).unwrap();
        fs::create_dir_all(place.at("into/from")).unwrap();
        symlink("../../else/kept", place.at("into/from/a")).unwrap();
        symlink("../../else", place.at("into/from/b")).unwrap();
        let done = place.run(["cp", "-r", "from", "into"]);
        assert!(
            done.one_line(1)
                .contains("into/from/b: is no directory and was not replaced")
        );
        assert_eq!(names(&place.at("else")), ["kept"], "{place}");
        assert_eq!(fs::read(place.at("else/kept")).unwrap(), b"else/kept");
        assert!(
            fs::symlink_metadata(place.at("into/from/a"))
                .unwrap()
                .is_file()
        );
        assert_eq!(fs::read(place.at("into/from/d")).unwrap(), b"from/d");
        // Without -r a link stands for what it leads to.
        symlink("else/kept", place.at("link")).unwrap();
        place.run(["cp", "from/a", "link"]).ok();
        assert_eq!(fs::read(place.at("else/kept")).unwrap(), b"from/a");
        // Neither is what a link leads to changed by changes of a tree.
        let before = mode(place, "else/kept");
        symlink("../else/kept", place.at("from/link")).unwrap();
        place.run(["chmod", "-R", "700", "from", "link"]).ok();
        assert_eq!(mode(place, "else/kept"), before);
        assert_eq!(mode(place, "from/b/c"), 0o700);
    });
}

#[test]
fn no_file_is_lost_to_a_link_that_leads_to_it() {
    everywhere(|place| {
        let links = |names: &[&str]| {
            names
                .iter()
                .map(|name| fs::read_link(place.at(name)).unwrap())
                .collect::<Vec<_>>()
        };
        place.write("a", "text");
        place.write("d/x", "");
        symlink("a", place.at("l")).unwrap();
        symlink("l", place.at("ll")).unwrap();
        symlink("../only", place.at("d/only")).unwrap();
        place.write("only", "one");
        fs::hard_link(place.at("a"), place.at("h")).unwrap();
        for line in [
            "cp a a",
            "cp a ./a",
            "cp a d/../a",
            "cp a h",
            "cp a l",
            "cp l a",
            "cp -f a h",
            "cp -p l h",
            "cp -r a ll",
            "cp -a a h",
            "cp -a h l",
            "cp -a l a",
            "cp -a l h",
            "cp -a ll a",
            "cp -a l l",
            "cp -r d/only /",
            "cp -r d/only only",
            "mv a a",
            "mv a d/../a",
            "mv a h",
            "mv l a",
            "mv ll h",
            "mv d/only /",
            "ln -f a a",
            "ln -f l a",
            "ln -f ll a",
            "ln -sf a a",
            "ln -sf l a",
            "ln -sf d/../a a",
            "ln -sf /only /",
        ] {
            let done = place.run(line.split(' '));
            let said = done.one_line(1);
            assert!(said.ends_with(" are the same file"), "{line}: {said}");
            assert_eq!(fs::read(place.at("a")).unwrap(), b"text", "{line}");
            assert_eq!(fs::read(place.at("h")).unwrap(), b"text", "{line}");
            assert_eq!(fs::read(place.at("only")).unwrap(), b"one", "{line}");
            assert_eq!(links(&["l", "ll"]), [Path::new("a"), Path::new("l")]);
            let all = ["a", "d", "h", "l", "ll", "only"];
            assert_eq!(names(place.served.path()), all, "{line}");
        }
        // What is there already, and what leads elsewhere.
        place.run(["ln", "-f", "a", "h"]).ok();
        place.run(["cp", "-a", "ll", "l", "d"]).ok();
        place.run(["cp", "-a", "ll", "l", "d"]).ok();
        place.run(["ln", "-sf", "a", "h"]).ok();
        place.run(["ln", "-f", "a", "ll"]).ok();
        assert_eq!(links(&["d/ll", "h"]), [Path::new("l"), Path::new("a")]);
        assert_eq!(fs::metadata(place.at("ll")).unwrap().nlink(), 2);
        assert_eq!(names(&place.at("d")), ["l", "ll", "only", "x"], "{place}");
    });
}

#[test]
fn what_cannot_be_replaced_is_still_there_afterwards() {
    everywhere(|place| {
        place.write("a", "text");
        place.write("s/s/x", "x");
        place.write("t/d/kept", "kept");
        fs::create_dir(place.at("elsewhere")).unwrap();
        symlink("../elsewhere", place.at("t/s")).unwrap();
        symlink("nowhere", place.at("dangling")).unwrap();
        symlink("a", place.at("l")).unwrap();
        rustix::fs::mknodat(
            rustix::fs::CWD,
            place.at("pipe"),
            rustix::fs::FileType::Fifo,
            rustix::fs::Mode::RUSR,
            0,
        )
        .unwrap();
        let before = tree(place.served.path());
        for (line, why) in [
            // Only the last operand itself may be a link to the directory to copy into.
            ("cp -r s t", "t/s: is no directory and was not replaced by"),
            ("cp -r s/s t", "t/s: is no directory and was not replaced"),
            ("cp -r s/s t/s/../../t/s/../t", "t/s: is no directory and"),
            ("cp -r s a", "a: is no directory and was not replaced"),
            ("mv s t", "cannot rename s: Not a directory"),
            ("cp a dangling", "dangling: is a link to nothing and was"),
            ("cp a pipe", "pipe: is a device node, pipe or socket"),
            ("cp -r a pipe", "pipe: is a device node, pipe or socket"),
            ("cp -a l t/d/kept/x", "Not a directory"),
        ] {
            let done = place.run(line.split(' '));
            let said = done.one_line(1);
            assert!(said.contains(why), "{line}: {said}");
            assert_eq!(tree(place.served.path()), before, "{line} on {place}");
        }
        for name in ["a", "l", "pipe"] {
            fs::create_dir_all(place.at("u").join(name)).unwrap();
            let done = place.run(["cp", "-a", name, "u"]);
            let why = "is a directory and was not replaced";
            assert!(done.one_line(1).contains(why), "{}", done.err);
        }
        assert_eq!(names(&place.at("u")), ["a", "l", "pipe"]);
        // Through a link that is the last operand all goes as it should.
        symlink("elsewhere", place.at("into")).unwrap();
        place.run(["cp", "-r", "s", "into"]).ok();
        assert_eq!(names(&place.at("elsewhere/s/s")), ["x"]);
        // Where the source cannot be read, the link in the place of its copy stays.
        let set = |path: &str, mode| {
            fs::set_permissions(place.at(path), Permissions::from_mode(mode)).unwrap();
        };
        set("elsewhere", 0o777);
        set("a", 0);
        symlink("../l", place.at("elsewhere/a")).unwrap();
        let done = place.run(["--as", "4000", "cp", "-r", "a", "into"]);
        assert!(done.one_line(1).contains("same file"), "{}", done.err);
        fs::remove_file(place.at("elsewhere/a")).unwrap();
        symlink("gone", place.at("elsewhere/a")).unwrap();
        let done = place.run(["--as", "4000", "cp", "-r", "a", "into"]);
        let said = done.one_line(1);
        assert!(said.contains("cannot open a: Permission denied"), "{said}");
        assert_eq!(names(&place.at("elsewhere")), ["a", "s"], "{place}");
        assert!(place.at("elsewhere/a").is_symlink());
    });
}

#[test]
fn copies_get_rights_last_and_not_those_of_others() {
    // There is no room for the copy.
    let here = tempfile::tempdir().unwrap();
    fs::write(here.path().join("full"), vec![1; 600 << 10]).unwrap();
    for (option, copy, left) in [
        ("-r", "", "0700"),
        ("-p", "", "0700"),
        ("-f", "touch copy\nchmod 6711 copy\n", "0711"),
        ("-a", "touch copy\nchmod 6711 copy\n", "0711"),
    ] {
        let script = format!(
            "lcd {}\nput full .\nchmod 6777 full\n{copy}cp {option} full copy\n\
             stat --json full copy\n",
            here.path().display()
        );
        let mut command = crate::places::fusewire();
        command.args(["-s", "mem:?capacity=1M", "shell"]);
        let done = crate::shell::feed(command, &script);
        assert!(done.one_line(1).contains("No space left"), "{}", done.err);
        let out = String::from_utf8(done.out).unwrap();
        let modes: Vec<String> = out
            .lines()
            .map(|line| serde_json::from_str::<serde_json::Value>(line).unwrap())
            .map(|value| format!("{:04o}", value["mode"].as_u64().unwrap()))
            .collect();
        assert_eq!(modes, ["6777", left], "cp {option}");
    }
    if !rustix::process::geteuid().is_root() {
        println!("NOT TESTED: giving files away: this is not root");
        return;
    }
    everywhere(|place| {
        fs::set_permissions(place.served.path(), Permissions::from_mode(0o777)).unwrap();
        place.write("tree/a", "a");
        place.write("over", "over");
        for path in ["tree/a", "tree"] {
            std::os::unix::fs::chown(place.at(path), Some(1234), Some(4321)).unwrap();
            fs::set_permissions(place.at(path), Permissions::from_mode(0o6755)).unwrap();
        }
        let is = |path: &str| {
            let meta = fs::metadata(place.at(path)).unwrap();
            (meta.uid(), meta.mode() & 0o7777)
        };
        place.run(["cp", "-a", "tree", "all"]).ok();
        place.run(["cp", "-p", "tree/a", "over"]).ok();
        place.run(["cp", "-r", "tree", "less"]).ok();
        place.run(["--as", "4000", "cp", "-a", "tree", "own"]).ok();
        for (path, owner, mode) in [
            ("all", 1234, 0o6755),
            ("all/a", 1234, 0o6755),
            ("over", 1234, 0o6755),
            ("less", 0, 0o755),
            ("less/a", 0, 0o755),
            ("own", 4000, 0o755),
            ("own/a", 4000, 0o755),
        ] {
            assert_eq!(is(path), (owner, mode), "{path} on {place}");
        }
        // What a link leads to gets it, and not the link.
        place.write("end", "");
        symlink("end", place.at("link")).unwrap();
        place.run(["cp", "-p", "tree/a", "link"]).ok();
        assert_eq!(is("end"), (1234, 0o6755), "{place}");
        assert_eq!(fs::symlink_metadata(place.at("link")).unwrap().uid(), 0);
    });
}

#[test]
fn cp_keeps_holes_and_replaces_what_it_cannot_write_when_forced() {
    everywhere(|place| {
        let sparse = fs::File::create(place.at("sparse")).unwrap();
        sparse.set_len(64 << 20).unwrap();
        std::os::unix::fs::FileExt::write_all_at(&sparse, b"data", 32 << 20).unwrap();
        place.run(["cp", "sparse", "copy"]).ok();
        let copy = fs::metadata(place.at("copy")).unwrap();
        assert_eq!(copy.len(), 64 << 20);
        assert!(copy.blocks() * 512 < 1 << 20, "{place}: {}", copy.blocks());
        assert_eq!(
            fs::read(place.at("copy")).unwrap()[32 << 20..][..4],
            *b"data"
        );
    });
    // As somebody who may not write to a file, but to its directory.
    let place = Place::dir();
    place.write("d/a", "a");
    place.write("d/b", "b");
    let set = |path: &str, mode| {
        fs::set_permissions(place.at(path), Permissions::from_mode(mode)).unwrap();
    };
    set("d", 0o777);
    set("d/a", 0o444);
    set("d/b", 0o444);
    let refused = place.run(["--as", "4000", "cp", "d/a", "d/b"]);
    assert!(refused.one_line(1).contains("Permission denied"));
    let forced = place.run(["--as", "4000", "cp", "-f", "d/a", "d/b"]);
    assert_eq!(forced.err, "");
    assert_eq!(fs::read(place.at("d/b")).unwrap(), b"a");
}

#[test]
fn mv_gives_other_names() {
    everywhere(|place| {
        for file in ["a", "b", "d/x"] {
            place.write(file, file);
        }
        place.run(["mv", "a", "c"]).ok();
        assert_eq!(names(place.served.path()), ["b", "c", "d"], "{place}");
        place.run(["mv", "b", "c", "d"]).ok();
        assert_eq!(names(&place.at("d")), ["b", "c", "x"]);
        place.write("b", "another");
        let kept = place.run(["mv", "-n", "b", "d"]);
        assert_eq!(
            kept.one_line(1),
            "fusewire: mv: d/b: exists, so nothing was moved there"
        );
        place.run(["mv", "b", "d"]).ok();
        assert_eq!(fs::read(place.at("d/b")).unwrap(), b"another");
        place.write("b", "a third");
        place.run(["mv", "-nf", "b", "d"]).ok();
        assert_eq!(fs::read(place.at("d/b")).unwrap(), b"a third");
        fs::create_dir_all(place.at("e/d")).unwrap();
        place.write("e/d/full", "");
        let refused = place.run(["mv", "d", "e"]);
        assert!(refused.one_line(1).contains("is not empty"));
        let refused = place.run(["mv", "d", "d/below"]);
        assert!(
            refused.one_line(1).contains("cannot be moved into itself"),
            "{}",
            refused.err
        );
        let refused = place.run(["mv", "d/b", "d/c", "d/x"]);
        assert!(refused.one_line(1).contains("is not a directory"));
        assert!(
            place
                .run(["mv", "gone", "x"])
                .one_line(1)
                .contains("No such file")
        );
    });
}

#[test]
fn ln_and_readlink_make_links_and_show_them() {
    everywhere(|place| {
        place.write("d/file", "text");
        place.run(["ln", "d/file", "hard"]).ok();
        assert_eq!(fs::metadata(place.at("hard")).unwrap().nlink(), 2);
        place.run(["ln", "-s", "d/file", "soft"]).ok();
        place.run(["ln", "--symbolic", "../nowhere", "d"]).ok();
        assert_eq!(
            place.run(["readlink", "soft", "d/nowhere"]).ok(),
            "d/file\n../nowhere\n"
        );
        place.run(["ln", "--symbolic", "d", "dir"]).ok();
        assert_eq!(
            place.run(["readlink", "-f", "dir/../soft"]).ok(),
            "/d/file\n"
        );
        assert!(
            place
                .run(["ln", "d/file", "hard"])
                .one_line(1)
                .contains("File exists")
        );
        place.run(["ln", "-sf", "else", "soft"]).ok();
        let json = place.run(["readlink", "--json", "soft"]).ok();
        assert_eq!(json, "{\"path\":\"soft\",\"target\":\"else\"}\n");
        assert!(
            place
                .run(["readlink", "d"])
                .one_line(1)
                .contains("Invalid argument")
        );
    });
}

#[test]
fn chmod_takes_what_chmod_takes() {
    everywhere(|place| {
        place.write("tree/a", "");
        place.write("tree/b/c", "");
        symlink("a", place.at("tree/link")).unwrap();
        place.run(["chmod", "640", "tree/a"]).ok();
        assert_eq!(mode(place, "tree/a"), 0o640);
        place.run(["chmod", "u+x,g-r", "tree/a"]).ok();
        assert_eq!(mode(place, "tree/a"), 0o700);
        place.run(["chmod", "-w", "tree/a"]).ok();
        assert_eq!(mode(place, "tree/a"), 0o500);
        place.run(["chmod", "-R", "u=rwX,go=rX", "tree"]).ok();
        let modes = ["tree", "tree/a", "tree/b", "tree/b/c"].map(|path| mode(place, path));
        assert_eq!(modes, [0o755, 0o755, 0o755, 0o644], "{place}");
        for (change, bits) in [("2750", 0o2750), ("755", 0o2755), ("00755", 0o755)] {
            place.run(["chmod", change, "tree"]).ok();
            assert_eq!(mode(place, "tree"), bits, "{change} on {place}");
        }
        for (change, bits) in [("=2750", 0o2750), ("-2050", 0o700), ("+55", 0o755)] {
            place.run(["chmod", change, "tree"]).ok();
            assert_eq!(mode(place, "tree"), bits, "{change} on {place}");
        }
        let wrong = place.run(["chmod", "rwx", "tree"]);
        assert!(wrong.one_line(2).contains("u+x"), "{}", wrong.err);
    });
}

#[test]
fn chown_needs_somebody_who_may() {
    let place = Place::dir();
    place.write("d/a", "");
    if rustix::process::geteuid().is_root() {
        place.run(["chown", "-R", "1234:4321", "d"]).ok();
        let owner = |path: &str| {
            let meta = fs::metadata(place.at(path)).unwrap();
            (meta.uid(), meta.gid())
        };
        assert_eq!((owner("d"), owner("d/a")), ((1234, 4321), (1234, 4321)));
        // Who may not pass closed directories opens them before going in, and closes them after.
        for (change, modes) in [("a-rwx", [0, 0]), ("u=rwX", [0o700, 0o600])] {
            let args = ["--as", "1234:4321", "chmod", "-R", change, "d"];
            place.run(args).ok();
            assert_eq!(["d", "d/a"].map(|path| mode(&place, path)), modes);
        }
        place.run(["chown", ":0", "d/a"]).ok();
        assert_eq!(owner("d/a"), (1234, 0));
        place.run(["chown", "root:", "d/a"]).ok();
        assert_eq!(owner("d/a"), (0, 0));
        symlink("a", place.at("d/link")).unwrap();
        place.run(["chown", "-h", "7:8", "d/link"]).ok();
        assert_eq!(owner("d/a"), (0, 0));
        place.run(["chown", "7:8", "d/link"]).ok();
        assert_eq!(owner("d/a"), (7, 8));
    } else {
        println!("NOT TESTED: giving files away: this is not root");
    }
    // With the rights of somebody else, whoever runs this.
    let done = place.run(["--as", "4000:4000", "chown", "4000", "d"]);
    assert!(
        done.one_line(1).contains("Operation not permitted"),
        "{}",
        done.err
    );
    let wrong = place.run(["chown", "no such user", "d"]);
    assert!(wrong.one_line(2).contains("no such user"));
}

#[test]
fn truncate_and_touch_set_sizes_and_times() {
    everywhere(|place| {
        place.run(["truncate", "--size", "10K", "new"]).ok();
        let size = || fs::metadata(place.at("new")).unwrap().len();
        assert_eq!(size(), 10 << 10);
        for (change, bytes) in [("-1k", 9 << 10), ("<5", 5), ("%4", 8), ("+1", 9), ("0", 0)] {
            place.run(["truncate", "-s", change, "new"]).ok();
            assert_eq!(size(), bytes, "{change} on {place}");
        }
        place.run(["truncate", "-c", "--size", "1", "gone"]).ok();
        place.run(["touch", "-c", "gone"]).ok();
        assert_eq!(names(place.served.path()), ["new"]);
        place
            .run(["touch", "-d", "2001-02-03T04:05:06.5Z", "new", "also"])
            .ok();
        let times = |path: &str| {
            let meta = fs::metadata(place.at(path)).unwrap();
            (meta.atime(), meta.mtime(), meta.mtime_nsec())
        };
        let then = 981_173_106;
        assert_eq!(times("new"), (then, then, 500_000_000));
        assert_eq!(times("also"), times("new"));
        place.run(["touch", "-m", "-d", "@7", "also"]).ok();
        assert_eq!(times("also"), (then, 7, 0));
        place.run(["touch", "-r", "new", "also"]).ok();
        assert_eq!(times("also"), times("new"));
        place.run(["touch", "-a", "also"]).ok();
        assert!(times("also").0 > then && times("also").1 == then);
        let wrong = place.run(["touch", "-d", "yesterday", "new"]);
        assert!(wrong.one_line(2).contains("2026-05-01"));
    });
}

#[test]
fn xattr_sets_shows_and_removes() {
    let on_mem = |script: &str| {
        let mut command = crate::places::fusewire();
        command.args(["-s", "mem:", "shell"]);
        crate::shell::feed(command, script)
    };
    let first = on_mem(
        "touch a\n\
         xattr set user.b 'two words' a\n\
         xattr set user.a one a\n\
         xattr list a\n\
         xattr list -v a\n\
         xattr get user.b a\n\
         xattr remove user.b a\n\
         xattr list --json -v a\n",
    );
    let expected = "user.b\nuser.a\n\
                    user.b='two words'\nuser.a=one\n\
                    two words\
                    {\"name\":\"user.a\",\"path\":\"/a\",\"value\":\"one\"}\n";
    assert!(
        on_mem("xattr")
            .one_line(2)
            .contains("requires a subcommand")
    );
    let done = on_mem(
        "touch a b\n\
         xattr set user.a $'\\377\\n' a b\n\
         xattr list -v a b\n\
         xattr list -v --json a\n\
         xattr get --json user.a b\n",
    );
    assert_eq!(
        done.ok(),
        "/a:\nuser.a=$'\\377\\n'\n/b:\nuser.a=$'\\377\\n'\n\
         {\"name\":\"user.a\",\"path\":\"/a\",\"value_hex\":\"ff0a\"}\n\
         {\"name\":\"user.a\",\"path\":\"/b\",\"value_hex\":\"ff0a\"}\n"
    );
    let sorted = |text: &str| {
        let mut lines: Vec<_> = text.lines().map(str::to_owned).collect();
        lines.sort();
        lines
    };
    assert_eq!(sorted(&first.ok()), sorted(expected));
    let done = on_mem(
        "touch a\n\
         xattr set --replace user.a one a\n\
         xattr get user.a a\n\
         xattr remove user.a a\n\
         xattr set --create user.a one a\n\
         xattr set --create user.a one a\n",
    );
    assert_eq!(done.err.lines().count(), 4, "{}", done.err);
    assert!(done.err.contains("has no attribute user.a"));
}

#[test]
fn df_shows_what_the_file_system_says() {
    let line = |args: &[&str]| {
        let out = run_on("mem:?capacity=4M", args).ok();
        let line = out.lines().last().unwrap().to_owned();
        line.split_whitespace()
            .map(str::to_owned)
            .collect::<Vec<_>>()
    };
    assert_eq!(line(&["df"]), ["4096", "0", "4096", "0%", "/"]);
    assert_eq!(line(&["df", "-h"]), ["4.0M", "0", "4.0M", "0%", "/"]);
    assert_eq!(line(&["df", "-i"])[4], "/");
    let json = run_on("mem:?capacity=4M", ["df", "--json"]).ok();
    let value: serde_json::Value = serde_json::from_str(&json).unwrap();
    assert_eq!(value["size_bytes"], 4 << 20);
    assert_eq!(value["path"], "/");
    everywhere(|place| {
        let ours = place.run(["df", "--json"]).ok();
        let ours: serde_json::Value = serde_json::from_str(&ours).unwrap();
        let host = Command::new("stat")
            .args(["-f", "-c", "%b %S"])
            .arg(place.served.path())
            .output()
            .unwrap();
        let host = String::from_utf8(host.stdout).unwrap();
        let numbers: Vec<u64> = host
            .split_whitespace()
            .map(|n| n.parse().unwrap())
            .collect();
        assert_eq!(ours["size_bytes"], numbers[0] * numbers[1], "{place}");
    });
}
