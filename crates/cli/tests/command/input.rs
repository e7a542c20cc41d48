//! Whatever is wrong ends in one line and leaves nothing half-written.

use crate::places::{Done, Place, fusewire, names, run_on, write};
use std::ffi::OsStr;
use std::fs;
use std::io::Write;
use std::os::unix::net::UnixListener;
use std::process::{Command, Stdio};
use std::thread;

#[test]
fn a_dash_is_standard_output_and_no_file_to_put() {
    let place = Place::dir();
    place.write("f", "text");
    let mut get = place.command(["get", "f", "-"]);
    let done = Done::of(get.current_dir(place.here.path()).output().unwrap());
    assert_eq!(done.ok(), "text");
    assert!(names(place.here.path()).is_empty());
    let done = place.run(["put", "-", "copy"]);
    assert!(done.one_line(1).contains("keep it in a file"));
    assert_eq!(names(place.served.path()), ["f"]);
    // A file that is called so.
    let mut get = place.command(["get", "f", "./-"]);
    Done::of(get.current_dir(place.here.path()).output().unwrap()).ok();
    let mut put = place.command(["put", "./-", "copy"]);
    Done::of(put.current_dir(place.here.path()).output().unwrap()).ok();
    assert_eq!(fs::read(place.at("copy")).unwrap(), b"text");
}

#[test]
fn what_is_wrong_with_a_mode_or_a_name_is_said() {
    let place = Place::dir();
    place.write("f", "text");
    for (args, code, what) in [
        (["chmod", "888", "f"], 2, "octal digits, 0 to 7"),
        (["chmod", "u+q", "f"], 2, "\"u+q\" is no change of a mode"),
        (["mv", "f", "f"], 1, "f and f are the same file"),
        (["cp", "f", "./f"], 1, "f and ./f are the same file"),
    ] {
        let done = place.run(args);
        assert!(done.one_line(code).contains(what), "{}", done.err);
    }
    assert_eq!(fs::read(place.at("f")).unwrap(), b"text");
}

#[test]
fn a_wrong_command_line_is_status_2() {
    for (args, what) in [
        (&[][..], "say what to do"),
        (&["ls"], "no source is given"),
        (&["-s", "nfs:/x", "ls"], "there is no such kind"),
        (&["-s", "/x", "ls"], "it has no kind"),
        (&["-s", "dir:", "ls"], "the path is missing"),
        (&["-s", "mem:?capacity=x", "ls"], "the capacity is a number"),
        (&["-s", "mem:", "list"], "unrecognized subcommand 'list'"),
        (
            &["-s", "mem:", "ls", "--long"],
            "unexpected argument '--long'",
        ),
        (
            &["-s", "mem:", "cat"],
            "required arguments were not provided",
        ),
        (&["-s", "mem:", "get", "x", "-r"], "the target is missing"),
        (&["-s", "mem:", "--trace=xml", "ls"], "invalid value 'xml'"),
    ] {
        let done = Done::of(fusewire().args(args).output().unwrap());
        let line = done.one_line(2);
        assert!(line.contains(what), "{args:?}: {line}");
        assert!(done.out.is_empty());
    }
    let help = Done::of(fusewire().arg("--help").output().unwrap()).ok();
    assert!(help.contains("vhost-user:SOCKET"), "{help}");
    let version = Done::of(fusewire().arg("--version").output().unwrap()).ok();
    assert!(version.starts_with("fusewire "), "{version}");
}

#[test]
fn an_absent_source_says_so() {
    let place = Place::dir();
    place.write("file", "");
    let at = |kind: &str, path: &str| format!("{kind}:{}", place.at(path).display());
    for (source, what) in [
        (at("dir", "gone"), "No such file or directory"),
        (at("dir", "file"), "Not a directory"),
        (at("vhost-user", "gone"), "no such socket"),
        (at("vhost-user", "file"), "is not a socket"),
        (format!("vhost-user:/{}", "x".repeat(200)), "longer than"),
        (at("virtiofsd", "gone"), ""),
        (at("virtiofsd", "file"), ""),
    ] {
        let done = run_on(&source, ["ls"]);
        let line = done.one_line(1);
        assert!(line.starts_with("fusewire: ls: cannot connect: "), "{line}");
        assert!(line.contains(what), "{source}: {line}");
    }
    let dead = place.at("dead");
    drop(UnixListener::bind(&dead).unwrap());
    let done = run_on(&format!("vhost-user:{}", dead.display()), ["ls"]);
    assert!(done.one_line(1).contains("nobody listens"), "{}", done.err);
}

/// What `ls` says of a daemon that does `reply` with its first client.
fn first_client(reply: impl FnOnce(std::os::unix::net::UnixStream) + Send + 'static) -> Done {
    let place = Place::dir();
    let socket = place.at("socket");
    let listener = UnixListener::bind(&socket).unwrap();
    let daemon = thread::spawn(move || reply(listener.accept().unwrap().0));
    let done = run_on(&format!("vhost-user:{}", socket.display()), ["ls"]);
    daemon.join().unwrap();
    done
}

#[test]
fn a_daemon_that_hangs_up_or_talks_nonsense_is_named() {
    let done = first_client(drop);
    assert!(done.one_line(1).contains("hung up"), "{}", done.err);
    let done = first_client(|mut stream| {
        // The command may have hung up before all of it is out.
        let _ = stream.write_all(b"HTTP/1.1 400 Bad Request\r\n\r\n");
    });
    assert!(done.one_line(1).contains("cannot connect"), "{}", done.err);
}

#[test]
fn a_virtiofsd_that_ends_at_once_is_quoted() {
    let place = Place::dir();
    let program = place.at("virtiofsd");
    write(&program, "#!/bin/sh\necho 'it is too hot' >&2\nexit 3\n");
    let mut chmod = Command::new("chmod");
    assert!(chmod.arg("+x").arg(&program).status().unwrap().success());
    let mut command = fusewire();
    command.env("FUSEWIRE_VIRTIOFSD", &program).args([
        "-s",
        &format!("virtiofsd:{}", place.served.path().display()),
        "ls",
    ]);
    let done = Done::of(command.output().unwrap());
    assert!(done.one_line(1).contains("it is too hot"), "{}", done.err);
}

#[test]
fn paths_that_lead_out_are_refused_by_every_command() {
    let place = Place::dir();
    place.write("a", "a");
    let target = place.here.path().to_str().unwrap().to_owned();
    for path in ["/..", "/../..", "../x", "a/../../b", ""] {
        for args in [
            vec!["ls", path],
            vec!["stat", path],
            vec!["cat", path],
            vec!["rm", path],
            vec!["mkdir", path],
            vec!["get", path, &target],
            vec!["put", "/dev/null", path],
        ] {
            let done = place.run(&args);
            let line = done.one_line(1);
            assert!(
                line.contains("leads out of the source") || line.contains("the path is empty"),
                "{args:?}: {line}"
            );
        }
    }
    assert!(names(place.here.path()).is_empty());
    assert_eq!(names(place.served.path()), ["a"]);
}

#[test]
fn names_that_are_too_long_are_refused() {
    let place = Place::dir();
    let long = "x".repeat(256);
    let done = place.run(["mkdir", &long]);
    assert!(
        done.one_line(1).contains("File name too long"),
        "{}",
        done.err
    );
    let long = "x".repeat(2000);
    let done = place.run(["ls", &long]);
    assert!(
        done.one_line(1).contains("File name too long"),
        "{}",
        done.err
    );
}

#[test]
fn what_a_message_quotes_cannot_break_its_line() {
    let place = Place::dir();
    let done = place.run(["cat", "a\nfusewire: all is well\x1b[2J"]);
    let line = done.one_line(1);
    assert!(
        line.contains(r"'a'$'\n''fusewire: all is well'$'\033''[2J'"),
        "{line}"
    );
}

#[test]
fn a_full_source_leaves_no_half_file() {
    let place = Place::dir();
    let big = place.here.path().join("big");
    write(&big, vec![1; 3 << 20]);
    let args = [OsStr::new("--trace=json"), "put".as_ref(), big.as_ref()];
    let done = run_on("mem:?capacity=1M", args.into_iter().chain(["/".as_ref()]));
    assert_eq!(done.code, Some(1));
    let (requests, said): (Vec<&str>, Vec<&str>) =
        done.err.lines().partition(|line| line.starts_with('{'));
    assert_eq!(
        said,
        [
            "fusewire: put: cannot write /big: No space left on device; free some space and repeat \
          the command"
        ]
    );
    // The file got no name but its temporary one, and that was removed again.
    let count = |opcode: &str| requests.iter().filter(|r| r.contains(opcode)).count();
    assert_eq!(
        (count("\"CREATE\""), count("\"RENAME"), count("\"UNLINK\"")),
        (1, 0, 1)
    );
}

#[test]
fn a_full_disk_leaves_no_half_file() {
    let place = Place::dir();
    place.write("big", vec![1; 3 << 20]);
    place.write("small", "small");
    let script = r#"
        mount -t tmpfs -o size=1m none "$1" || exit 99
        "$0" get /big "$1"
        echo "status $?" >&2
        "$0" get /small "$1" && ls -a "$1"
    "#;
    let output = place
        .command::<&str>([])
        .get_envs()
        .filter_map(|(key, value)| Some((key.to_owned(), value?.to_owned())))
        .fold(&mut Command::new("unshare"), |command, (key, value)| {
            command.env(key, value)
        })
        .args(["-m", "-r", "sh", "-c", script])
        .arg(env!("CARGO_BIN_EXE_fusewire"))
        .arg(place.here.path())
        .stdin(Stdio::null())
        .output()
        .expect("unshare");
    let done = Done::of(output);
    if done.code != Some(0) {
        println!(
            "NOT TESTED: a full disk, for no tmpfs can be mounted here: {}",
            done.err
        );
        return;
    }
    let target = place.here.path().join("big");
    assert_eq!(
        done.err,
        format!(
            "fusewire: get: cannot copy {}: No space left on device; free some space and repeat \
             the command\nstatus 1\n",
            target.display()
        )
    );
    assert_eq!(String::from_utf8(done.out).unwrap(), ".\n..\nsmall\n");
}

#[test]
fn a_closed_output_ends_quietly_and_a_full_one_does_not() {
    let place = Place::dir();
    for n in 0..2000 {
        place.write(&format!("{n:0200}"), "");
    }
    place.write("big", vec![b'x'; 8 << 20]);
    for args in [&["ls", "-l"][..], &["cat", "big"]] {
        let mut child = place
            .command(args)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        drop(child.stdout.take());
        let done = Done::of(child.wait_with_output().unwrap());
        assert_eq!((done.code, done.err.as_str()), (Some(141), ""), "{args:?}");

        let full = fs::OpenOptions::new()
            .write(true)
            .open("/dev/full")
            .unwrap();
        let output = place.command(args).stdout(full).output().unwrap();
        let done = Done::of(output);
        assert!(
            done.one_line(1)
                .contains("cannot write the output: No space left")
        );
    }
}
