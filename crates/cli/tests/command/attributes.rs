//! Extended attributes of files of the host.

use crate::daemon::KilledOnDrop;
use crate::places::{Place, daemons, everywhere, run_on, until};

#[test]
fn attributes_are_those_that_the_host_has() {
    everywhere(|place| {
        place.write("a.txt", "");
        place
            .run(["xattr", "set", "user.comment", "hi", "/a.txt"])
            .ok();
        let mut value = [0; 16];
        let got = rustix::fs::getxattr(place.at("a.txt"), "user.comment", &mut value[..]);
        assert_eq!(&value[..got.expect("it is there")], b"hi", "{place}");
        let listed = place.run(["xattr", "list", "-v", "/a.txt"]).ok();
        assert!(listed.contains("user.comment=hi\n"), "{place}: {listed}");
    });
}

#[test]
fn a_daemon_without_attributes_is_told_how_to_have_them() {
    for place in daemons() {
        place.write("a", "");
        let socket = place.here.path().join("socket");
        let mut daemon = KilledOnDrop(place.daemon(&socket).spawn().expect("the daemon starts"));
        let mut done = None;
        until("the daemon", || {
            let source = format!("vhost-user:{}", socket.display());
            let tried = run_on(&source, ["xattr", "set", "user.a", "b", "/a"]);
            let connected = !tried.err.contains("cannot connect");
            done = connected.then_some(tried);
            connected
        });
        let done = done.expect("it has connected");
        assert!(
            done.one_line(1).contains("--xattr"),
            "{place}: {}",
            done.err
        );
        daemon.0.wait().expect("the daemon ends");
    }
}

#[test]
fn what_cannot_be_listed_has_no_heading() {
    let place = Place::dir();
    place.write("a", "");
    let done = place.run(["xattr", "list", "/a", "/nope"]);
    assert!(done.one_line(1).contains("/nope"), "{}", done.err);
    let out = String::from_utf8(done.out).unwrap();
    assert!(out.starts_with("/a:\n") && !out.contains("nope"), "{out}");
}
