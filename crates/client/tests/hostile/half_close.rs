//! A virtiofsd that lives, behind a connection that is closed in one direction or both.

use crate::harness::{alone, fails_with, until};
use crate::peers::peer_program;
use fusewire::Client;
use fusewire::transport::vhost_user::{self, Options, VhostUser};
use fusewire_server::Errno;
use fusewire_sync::thread::live;
use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, recvmsg, sendmsg,
};
use rustix::process::{Pid, Signal, kill_process};
use std::io::{self, IoSlice, IoSliceMut, Read, Write};
use std::mem::MaybeUninit;
use std::net::Shutdown;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::{UnixListener, UnixStream};
use std::process::{Child, Command, Stdio};
use std::thread::{self, JoinHandle};

/// A daemon, and a go-between that passes on what is said on its socket. Rings and eventfds are the
/// daemon's own: it answers whatever becomes of the socket.
struct Between {
    /// To the client.
    near: UnixStream,
    /// To the daemon.
    far: UnixStream,
    passing: Vec<JoinHandle<()>>,
    daemon: Child,
    _tree: tempfile::TempDir,
}

impl Between {
    /// A transport that has been through the handshake, unless there is no daemon.
    fn start() -> Option<(VhostUser, Between)> {
        let program = peer_program("virtiofsd")?;
        let tree = tempfile::tempdir().unwrap();
        let at = |name: &str| tree.path().join(name);
        std::fs::create_dir(at("served")).unwrap();
        let daemon = Command::new(program)
            .arg("--socket-path")
            .arg(at("far"))
            .arg("--shared-dir")
            .arg(at("served"))
            .args(["--sandbox", "none", "--cache", "never"])
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let listener = UnixListener::bind(at("near")).unwrap();
        let near = at("near");
        let client = thread::spawn(move || {
            let options = Options {
                arena_bytes: 4 << 20,
                ..Options::default()
            };
            vhost_user::connect(&near, &options)
        });
        let far = loop {
            match UnixStream::connect(at("far")) {
                Ok(far) => break far,
                Err(_) => thread::yield_now(),
            }
        };
        let (near, _) = listener.accept().unwrap();
        let twin = |stream: &UnixStream| stream.try_clone().unwrap();
        let passing = vec![
            {
                let (from, to) = (twin(&near), twin(&far));
                thread::spawn(move || while pass_on(&from, &to).is_ok_and(|n| n > 0) {})
            },
            {
                let (mut from, mut to) = (twin(&far), twin(&near));
                thread::spawn(move || {
                    let mut bytes = [0; 4096];
                    while let Ok(n @ 1..) = from.read(&mut bytes) {
                        if to.write_all(&bytes[..n]).is_err() {
                            break;
                        }
                    }
                })
            },
        ];
        let between = Between {
            near,
            far,
            passing,
            daemon,
            _tree: tree,
        };
        Some((client.join().unwrap().unwrap(), between))
    }

    fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.daemon), signal).unwrap();
    }

    /// Has the daemon answer nothing, and live.
    fn pause(&self) {
        self.signal(Signal::STOP);
        let stat = format!("/proc/{}/stat", self.daemon.id());
        until(|| std::fs::read_to_string(&stat).unwrap().contains(") T "));
    }

    /// Ends it all, and checks that the daemon has lived until now.
    fn end(mut self) {
        assert!(self.daemon.try_wait().unwrap().is_none());
        self.signal(Signal::CONT);
        let _ = self.near.shutdown(Shutdown::Both);
        let _ = self.far.shutdown(Shutdown::Both);
        for passing in self.passing.drain(..) {
            passing.join().unwrap();
        }
        self.daemon.wait().unwrap();
        assert_eq!(live(), 0, "threads");
    }
}

impl Drop for Between {
    /// A test that failed leaves no daemon, not even a paused one.
    fn drop(&mut self) {
        let _ = self.daemon.kill();
        let _ = self.daemon.wait();
    }
}

/// Passes on what comes next, descriptors and all; returns how many bytes.
fn pass_on(from: &UnixStream, to: &UnixStream) -> io::Result<usize> {
    let mut bytes = [0; 4096];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(8))];
    let mut ancillary = RecvAncillaryBuffer::new(&mut space);
    let mut place = [IoSliceMut::new(&mut bytes)];
    let got = recvmsg(from, &mut place, &mut ancillary, RecvFlags::CMSG_CLOEXEC)?.bytes;
    let descriptors: Vec<OwnedFd> = ancillary
        .drain()
        .filter_map(|message| match message {
            RecvAncillaryMessage::ScmRights(passed) => Some(passed),
            _ => None,
        })
        .flatten()
        .collect();
    let descriptors: Vec<_> = descriptors.iter().map(AsFd::as_fd).collect();
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(8))];
    let mut ancillary = SendAncillaryBuffer::new(&mut space);
    if !descriptors.is_empty() {
        assert!(ancillary.push(SendAncillaryMessage::ScmRights(&descriptors)));
    }
    if got > 0 {
        sendmsg(
            to,
            &[IoSlice::new(&bytes[..got])],
            &mut ancillary,
            SendFlags::NOSIGNAL,
        )?;
    }
    Ok(got)
}

/// It will say nothing more: that is its death, though it is there and could answer, and the
/// eventfd by which it calls is open.
#[test]
fn a_peer_that_closes_its_sending_side_has_ended() {
    let _alone = alone();
    for direction in [Shutdown::Write, Shutdown::Both] {
        let Some((transport, between)) = Between::start() else {
            return;
        };
        let client = Client::builder().connect(transport).unwrap();
        client.write("/file", b"data").unwrap();
        between.pause();
        let caller = {
            let client = client.clone();
            thread::spawn(move || client.metadata("/file").map(drop))
        };
        until(|| client.stats().engine.slots_busy > 0);
        between.near.shutdown(direction).unwrap();
        let error = caller.join().unwrap().unwrap_err();
        assert_eq!(error.errno(), Errno::CONNABORTED.raw_os_error(), "{error}");
        assert!(
            error.to_string().contains("closed the connection"),
            "{error}"
        );
        fails_with(client.metadata("/file"), Errno::NOTCONN, "after the end");
        assert!(client.ended().unwrap().contains("closed the connection"));
        drop(client);
        between.end();
    }
}

/// The same before INIT has been answered.
#[test]
fn a_peer_that_closes_its_sending_side_at_init_has_ended() {
    let _alone = alone();
    for direction in [Shutdown::Write, Shutdown::Both] {
        let Some((transport, between)) = Between::start() else {
            return;
        };
        between.pause();
        let client = thread::spawn(move || Client::builder().connect(transport));
        between.near.shutdown(direction).unwrap();
        let error = client.join().unwrap().unwrap_err();
        // Whether INIT is on its way by then is up to chance.
        let ends = [Errno::CONNABORTED, Errno::NOTCONN].map(Errno::raw_os_error);
        assert!(ends.contains(&error.errno()), "{error}");
        between.end();
    }
}

/// Nothing is said to it after the handshake, so nothing is missed.
#[test]
fn a_peer_that_closes_its_receiving_side_goes_on() {
    let _alone = alone();
    let Some((transport, between)) = Between::start() else {
        return;
    };
    let client = Client::builder().connect(transport).unwrap();
    between.near.shutdown(Shutdown::Read).unwrap();
    for n in 0..100_u32 {
        client.write("/file", n.to_ne_bytes()).unwrap();
        assert_eq!(client.read("/file").unwrap(), n.to_ne_bytes());
    }
    // Then the other one, too.
    between.near.shutdown(Shutdown::Write).unwrap();
    until(|| client.ended().is_some());
    fails_with(client.metadata("/"), Errno::NOTCONN, "after the end");
    drop(client);
    between.end();
}
