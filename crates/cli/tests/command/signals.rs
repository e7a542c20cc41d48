//! Ctrl-C and SIGTERM.

use crate::places::{
    Done, EACH_BYTES, MANY, Place, everywhere, is_temporary, large, many, names, until,
};
use std::ffi::OsStr;
use std::fs;
use std::process::{Child, Command, Stdio};

fn start<S: AsRef<OsStr>>(place: &Place, args: impl IntoIterator<Item = S>) -> Child {
    place
        .command(args)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the command starts")
}

fn signal(child: &Child, signal: &str) {
    let status = Command::new("kill")
        .args(["-s", signal, &child.id().to_string()])
        .status();
    assert!(status.expect("kill").success());
}

fn end(child: Child) -> Done {
    Done::of(child.wait_with_output().expect("the command ends"))
}

#[test]
fn an_interrupted_get_keeps_what_is_complete_and_nothing_else() {
    everywhere(|place| {
        many(&place.at("t"));
        let target = place.here.path().join("t");
        for (name, code) in [("INT", 130), ("TERM", 143)] {
            let child = start(
                place,
                [
                    OsStr::new("get"),
                    "-r".as_ref(),
                    "/t".as_ref(),
                    target.as_ref(),
                ],
            );
            until("the first file", || {
                names(&target).iter().any(|name| !is_temporary(name))
            });
            signal(&child, name);
            let done = end(child);
            assert!(done.one_line(code).contains("interrupted"), "{place}");
            let got = names(&target);
            assert!(got.len() < MANY);
            assert!(!got.iter().any(is_temporary), "{place}: {got:?}");
            for name in got {
                assert_eq!(fs::metadata(target.join(name)).unwrap().len(), EACH_BYTES);
            }
            fs::remove_dir_all(&target).unwrap();
        }
    });
}

#[test]
fn an_interrupted_put_keeps_what_is_complete_and_nothing_else() {
    everywhere(|place| {
        let here = place.here.path().join("t");
        many(&here);
        let target = place.at("t");
        for (name, code) in [("INT", 130), ("TERM", 143)] {
            let child = start(
                place,
                [
                    OsStr::new("put"),
                    "-r".as_ref(),
                    here.as_ref(),
                    "/t".as_ref(),
                ],
            );
            until("the first file", || {
                names(&target).iter().any(|name| !is_temporary(name))
            });
            signal(&child, name);
            let done = end(child);
            assert!(done.one_line(code).contains("interrupted"), "{place}");
            let got = names(&target);
            assert!(got.len() < MANY);
            assert!(!got.iter().any(is_temporary), "{place}: {got:?}");
            for name in got {
                assert_eq!(fs::metadata(target.join(name)).unwrap().len(), EACH_BYTES);
            }
            fs::remove_dir_all(&target).unwrap();
        }
    });
}

#[test]
fn an_interrupted_large_file_is_not_there() {
    everywhere(|place| {
        large(&place.at("large"));
        let target = place.here.path().join("copy");
        let child = start(
            place,
            [OsStr::new("get"), "/large".as_ref(), target.as_ref()],
        );
        until("the temporary file", || {
            names(place.here.path()).iter().any(is_temporary)
        });
        signal(&child, "INT");
        let done = end(child);
        assert!(done.one_line(130).contains("interrupted"), "{place}");
        assert!(names(place.here.path()).is_empty(), "{place}");
    });
}

#[test]
fn a_command_that_only_reads_ends_at_once() {
    everywhere(|place| {
        let large = fs::File::create(place.at("large")).unwrap();
        large.set_len(64 << 30).unwrap();
        let mut child = start(place, ["cat", "/large"]);
        // Its output is read no further: it is blocked in writing.
        let mut first = [1];
        std::io::Read::read_exact(child.stdout.as_mut().unwrap(), &mut first).unwrap();
        signal(&child, "INT");
        let output = child.stdout.take();
        let done = end(child);
        assert_eq!((done.code, done.err.as_str()), (Some(130), ""), "{place}");
        drop(output);
    });
}
