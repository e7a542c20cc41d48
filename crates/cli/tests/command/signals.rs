//! Ctrl-C and SIGTERM.

use crate::places::{
    Done, EACH_BYTES, MANY, Place, everywhere, is_temporary, large, many, names, until,
};
use std::ffi::OsStr;
use std::fs;
use std::io::{Read, Write};
use std::os::unix::fs::PermissionsExt;
use std::process::{Child, ChildStdin, Command, Stdio};

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
            assert!(done.err.contains("to be removed before"), "{}", done.err);
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
fn an_incomplete_file_has_no_set_id_bits() {
    everywhere(|place| {
        let from = place.here.path().join("large");
        large(&from);
        fs::set_permissions(&from, fs::Permissions::from_mode(0o6755)).unwrap();
        fs::create_dir(place.at("to")).unwrap();
        let args = ["put", "--special"].map(OsStr::new);
        let child = start(
            place,
            args.into_iter().chain([from.as_ref(), "to".as_ref()]),
        );
        let mut found = Vec::new();
        until("the temporary file", || {
            found = names(&place.at("to"));
            !found.is_empty()
        });
        let meta = fs::metadata(place.at("to").join(&found[0])).unwrap();
        signal(&child, "INT");
        assert!(is_temporary(&found[0]), "{found:?}");
        assert_eq!(meta.permissions().mode() & 0o7000, 0, "{place}");
        assert!(end(child).one_line(130).contains("interrupted"), "{place}");
    });
}

#[test]
fn an_interrupted_copy_within_the_source_leaves_nothing_unfinished() {
    everywhere(|place| {
        large(&place.at("large"));
        let to = place.at("to");
        fs::create_dir(&to).unwrap();
        for (name, code) in [("INT", 130), ("TERM", 143)] {
            // Over a link by way of a temporary name, and where nothing is.
            let link = to.join("large");
            std::os::unix::fs::symlink("kept", &link).unwrap();
            let child = start(place, ["cp", "-r", "/large", "/to"]);
            until("the temporary file", || names(&to).iter().any(is_temporary));
            signal(&child, name);
            assert!(end(child).one_line(code).contains("interrupted"), "{place}");
            assert_eq!(names(&to), ["large"], "{place}");
            assert!(link.is_symlink(), "{place}");
            fs::remove_file(&link).unwrap();
            let child = start(place, ["cp", "/large", "/to"]);
            until("the copy", || link.exists());
            signal(&child, name);
            assert!(end(child).one_line(code).contains("interrupted"), "{place}");
            assert!(names(&to).is_empty(), "{place}");
        }
    });
}

/// The daemon is stopped: what is asked of it is not answered, cleaning up neither.
#[test]
fn a_second_interrupt_ends_a_copy_that_cannot_clean_up() {
    for place in crate::places::daemons() {
        large(&place.at("large"));
        let socket = place.here.path().join("socket");
        let mut daemon = place.daemon(&socket).spawn().unwrap();
        until("the socket", || socket.exists());
        let mut command = crate::places::fusewire();
        let mut source = std::ffi::OsString::from("vhost-user:");
        source.push(&socket);
        command
            .arg("-s")
            .arg(source)
            .args(["cp", "/large", "/copy"]);
        let mut child = command.stderr(Stdio::piped()).spawn().unwrap();
        until("the copy", || place.at("copy").exists());
        signal(&daemon, "STOP");
        // Signals that come together may be one.
        until("the end", || {
            signal(&child, "INT");
            child.try_wait().unwrap().is_some()
        });
        let code = end(child).code;
        daemon.kill().unwrap();
        daemon.wait().unwrap();
        assert_eq!(code, Some(130), "{place}");
    }
}

/// A shell that waits for lines, and its first line.
fn shell(mut command: Command, line: &str) -> (Child, ChildStdin) {
    let mut child = command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the shell starts");
    let mut input = child.stdin.take().expect("it has one");
    input.write_all(line.as_bytes()).expect("it reads");
    (child, input)
}

#[test]
fn in_a_shell_an_interrupt_ends_the_copy_alone_and_a_termination_all() {
    everywhere(|place| {
        let here = place.here.path();
        large(&place.at("large"));
        fs::create_dir(here.join("from")).unwrap();
        large(&here.join("from/large"));
        fs::create_dir(place.at("to")).unwrap();
        let get = format!("get /large '{}'\n", here.join("copy").display());
        let put = format!("put '{}' /to\n", here.join("from/large").display());
        for (line, target) in [(get, here.to_path_buf()), (put, place.at("to"))] {
            for (name, code, out) in [("INT", 130, "/\n"), ("TERM", 143, "")] {
                let (child, mut input) = shell(place.command(["shell"]), &line);
                until("the temporary file", || {
                    names(&target).iter().any(is_temporary)
                });
                signal(&child, name);
                // After a termination nobody reads it.
                let _ = input.write_all(b"pwd\n");
                drop(input);
                let done = end(child);
                assert!(done.one_line(code).contains("interrupted"), "{place}");
                assert_eq!(String::from_utf8_lossy(&done.out), out, "{place}");
                let left = names(&target);
                assert!(!left.iter().any(is_temporary), "{place}: {left:?}");
            }
        }
    });
}

#[test]
fn in_a_shell_an_interrupted_copy_replaces_nothing() {
    everywhere(|place| {
        large(&place.at("large"));
        fs::create_dir(place.at("to")).unwrap();
        std::os::unix::fs::symlink("kept", place.at("to/large")).unwrap();
        for (name, code) in [("INT", 130), ("TERM", 143)] {
            let line = "cp -r /large /to\n";
            let (child, input) = shell(place.command(["shell"]), line);
            until("the temporary file", || {
                names(&place.at("to")).iter().any(is_temporary)
            });
            signal(&child, name);
            drop(input);
            assert!(end(child).one_line(code).contains("interrupted"), "{place}");
            assert_eq!(names(&place.at("to")), ["large"], "{place}");
            assert!(place.at("to/large").is_symlink());
        }
    });
}

#[test]
fn in_a_shell_an_interrupt_ends_what_has_no_end() {
    let mut command = crate::places::fusewire();
    command.args(["-s", "synthetic:endless", "shell"]);
    let (mut child, mut input) = shell(command, "find /\n");
    let mut output = child.stdout.take().unwrap();
    output.read_exact(&mut [0; 4096]).unwrap();
    signal(&child, "INT");
    input.write_all(b"pwd\n").unwrap();
    drop(input);
    let mut rest = Vec::new();
    output.read_to_end(&mut rest).unwrap();
    assert!(rest.ends_with(b"\n/\n"));
    assert!(end(child).one_line(130).contains("find: interrupted"));
}

#[test]
fn a_command_that_only_reads_ends_at_once() {
    everywhere(|place| {
        let large = fs::File::create(place.at("large")).unwrap();
        large.set_len(64 << 30).unwrap();
        let mut child = start(place, ["cat", "/large"]);
        // Its output is read no further: it is blocked in writing.
        let mut first = [1];
        child
            .stdout
            .as_mut()
            .unwrap()
            .read_exact(&mut first)
            .unwrap();
        signal(&child, "INT");
        let output = child.stdout.take();
        let done = end(child);
        assert_eq!((done.code, done.err.as_str()), (Some(130), ""), "{place}");
        drop(output);
    });
}
