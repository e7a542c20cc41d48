//! A virtiofsd that dies or stops under the command.

use crate::places::{
    Done, EACH_BYTES, Place, daemons, is_temporary, large, many, names, run_on, until,
};
use std::ffi::OsStr;
use std::fs;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

fn start<S: AsRef<OsStr>>(place: &Place, args: impl IntoIterator<Item = S>) -> Child {
    place
        .command(args)
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the command starts")
}

/// The process groups of the daemons that a command has started: each has one of its own.
fn daemon_groups(child: &Child) -> Vec<String> {
    let pid = child.id();
    let threads = fs::read_dir(format!("/proc/{pid}/task"));
    threads
        .into_iter()
        .flatten()
        .flatten()
        .filter_map(|thread| fs::read_to_string(thread.path().join("children")).ok())
        .flat_map(|text| {
            text.split_whitespace()
                .map(str::to_owned)
                .collect::<Vec<_>>()
        })
        .collect()
}

fn kill(signal: &str, groups: &[String]) {
    assert!(!groups.is_empty(), "the command has started a daemon");
    let groups = groups.iter().map(|group| format!("-{group}"));
    let status = Command::new("kill")
        .args(["-s", signal, "--"])
        .args(groups)
        .status();
    assert!(status.expect("kill").success());
}

fn end_within(child: Child, limit: Duration) -> Done {
    let start = Instant::now();
    let done = Done::of(child.wait_with_output().expect("the command ends"));
    assert!(start.elapsed() < limit, "it took {:?}", start.elapsed());
    done
}

/// A daemon that a failing test does not leave behind.
pub struct KilledOnDrop(pub Child);

impl Drop for KilledOnDrop {
    fn drop(&mut self) {
        // Fails when it has ended by itself.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn a_running_daemon_is_reached_by_its_socket() {
    for place in daemons() {
        place.write("a", "contents");
        let socket = place.here.path().join("socket");
        let source = format!("vhost-user:{}", socket.display());
        let mut daemon = KilledOnDrop(place.daemon(&socket).spawn().expect("the daemon starts"));
        until("the socket", || socket.exists());
        // It may not listen yet when its socket is there.
        let mut listed = run_on(&source, ["cat", "/a"]);
        until("the daemon", || {
            if listed.err.contains("nobody listens") {
                listed = run_on(&source, ["cat", "/a"]);
                return false;
            }
            true
        });
        assert_eq!(listed.ok(), "contents", "{place}");
        // One client is all it serves.
        daemon.0.wait().expect("the daemon ends");
        let again = run_on(&source, ["ls"]);
        assert!(again.one_line(1).contains("cannot connect"), "{place}");
    }
}

#[test]
fn a_killed_daemon_ends_a_get_within_a_second() {
    for place in daemons() {
        large(&place.at("large"));
        let target = place.here.path().join("copy");
        let child = start(
            &place,
            [OsStr::new("get"), "/large".as_ref(), target.as_ref()],
        );
        until("the temporary file", || {
            names(place.here.path()).iter().any(is_temporary)
        });
        kill("KILL", &daemon_groups(&child));
        let done = end_within(child, Duration::from_secs(1));
        let line = done.one_line(1);
        assert!(
            line.starts_with("fusewire: get: the daemon is gone"),
            "{line}"
        );
        assert!(names(place.here.path()).is_empty(), "{place}");
    }
}

#[test]
fn a_killed_daemon_ends_a_put_within_a_second() {
    for place in daemons() {
        let here = place.here.path().join("t");
        many(&here);
        let child = start(
            &place,
            [
                OsStr::new("put"),
                "-r".as_ref(),
                here.as_ref(),
                "/t".as_ref(),
            ],
        );
        until("the first file", || {
            names(&place.at("t")).iter().any(|name| !is_temporary(name))
        });
        kill("KILL", &daemon_groups(&child));
        let done = end_within(child, Duration::from_secs(1));
        let line = done.one_line(1);
        assert!(
            line.starts_with("fusewire: put: the daemon is gone"),
            "{line}"
        );
        let got = names(&place.at("t"));
        // What it could not remove any more has a temporary name, and the message gives it.
        if got.iter().any(is_temporary) {
            assert!(
                line.contains("unfinished files called .fusewire-"),
                "{line}"
            );
        }
        for name in got.iter().filter(|name| !is_temporary(name)) {
            let size = fs::metadata(place.at("t").join(name)).unwrap().len();
            assert_eq!(size, EACH_BYTES, "{name} on {place}");
        }
    }
}

#[test]
fn ctrl_c_is_heard_while_the_daemon_hangs() {
    for place in daemons() {
        large(&place.at("large"));
        let target = place.here.path().join("copy");
        let child = start(
            &place,
            [OsStr::new("get"), "/large".as_ref(), target.as_ref()],
        );
        until("the temporary file", || {
            names(place.here.path()).iter().any(is_temporary)
        });
        let groups = daemon_groups(&child);
        kill("STOP", &groups);
        // The first asks, the second insists.
        for _ in 0..2 {
            let mut kill = Command::new("kill");
            kill.args(["-s", "INT", &child.id().to_string()]);
            assert!(kill.status().unwrap().success());
        }
        // A stopped daemon is given some time to end, then killed.
        let done = end_within(child, Duration::from_secs(10));
        assert!(done.one_line(130).contains("interrupted"), "{place}");
        assert!(names(place.here.path()).is_empty(), "{place}");
    }
}
