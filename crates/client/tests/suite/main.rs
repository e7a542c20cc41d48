//! One suite over all peers: every case of `cases` on every peer of `peers`, each a test of its
//! own called `peer::case`.
//!
//! When they run one at a time (`--test-threads=1`) each of them has to leave no thread behind;
//! together, all of them.

mod cases;
mod check;
mod differ;
mod ops;
mod peers;
mod session;
mod subject;
mod twin;

use cases::{Applies, Case};
use fusewire::Client;
use libtest_mimic::{Arguments, Trial};
use peers::{Missing, Peer};
use rustix::process::{Resource, getrlimit, setrlimit};
use session::Session;
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::Duration;

/// A case that takes longer is stuck. Generous: the machine may be busy with other things.
const LIMIT: Duration = Duration::from_secs(240);

fn main() -> std::process::ExitCode {
    let arguments = Arguments::from_args();
    let serial = arguments.test_threads == Some(1);
    raise_descriptor_limit();
    eprintln!("FUSEWIRE_SEED={}", check::seed());
    let mut trials = Vec::new();
    let (peers, missing) = peers::all();
    for peer in &peers {
        trials.extend(cases::all().filter_map(|case| trial(peer, case, serial)));
    }
    trials.extend(missing.iter().flat_map(untested));
    let conclusion = libtest_mimic::run(&arguments, trials);
    cases::clean_up();
    let left = fusewire_sync::thread::live();
    if left > 0 && !conclusion.has_failed() {
        eprintln!("{left} threads of fusewire are left");
        return std::process::ExitCode::FAILURE;
    }
    conclusion.exit_code()
}

/// Embedded servers hold a descriptor for each node that their client knows.
fn raise_descriptor_limit() {
    let mut limit = getrlimit(Resource::Nofile);
    limit.current = limit.maximum;
    setrlimit(Resource::Nofile, limit).unwrap();
}

fn trial(peer: &Peer, case: &'static Case, serial: bool) -> Option<Trial> {
    let name = format!("{}::{}", peer.name, case.name);
    match (case.applies)(peer) {
        Applies::Yes => {
            let peer = peer.clone();
            Some(Trial::test(name.clone(), move || {
                watched(&name, || run(&peer, case, serial));
                Ok(())
            }))
        }
        Applies::No => None,
        Applies::NotHere(reason) => {
            eprintln!("\n*** {name} IS NOT TESTED: {reason}\n");
            let trial = Trial::test(format!("{name} ({reason})"), move || Err(reason.into()));
            Some(trial.with_ignored_flag(true))
        }
    }
}

fn run(peer: &Peer, case: &Case, serial: bool) {
    let before = fusewire_sync::thread::live();
    let host = tempfile::tempdir().unwrap();
    let permissions = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    std::fs::set_permissions(host.path(), permissions).unwrap();
    let session = Session::start(peer, host.path(), Client::builder());
    (case.run)(&session);
    session.finish();
    if serial {
        assert_eq!(fusewire_sync::thread::live(), before, "threads are left");
    }
}

/// Ends the whole run when `body` does not end: a hang has to have a name.
fn watched(name: &str, body: impl FnOnce()) {
    let (done, watch) = channel::<()>();
    std::thread::scope(|scope| {
        scope.spawn(move || {
            if watch.recv_timeout(LIMIT) == Err(RecvTimeoutError::Timeout) {
                eprintln!("\n{name} has not ended within {LIMIT:?}");
                std::process::abort();
            }
        });
        // Dropped, by a panic too, when the body has ended.
        let _done = done;
        body();
    });
}

/// A missing peer is a failure where all are required, and is not passed over in silence.
fn untested(missing: &Missing) -> Vec<Trial> {
    let Missing {
        program,
        reason,
        peers,
    } = missing;
    eprintln!("\n*** PEER {program} IS MISSING, NOT TESTED: {reason}\n");
    let required = std::env::var_os("FUSEWIRE_REQUIRE_PEERS").is_some_and(|value| value == "1");
    let trial = |peer: &String| {
        let error = format!("the peer is missing: {reason}");
        let name = format!("{peer}::every_case ({reason})");
        Trial::test(name, move || Err(error.into())).with_ignored_flag(!required)
    };
    peers.iter().map(trial).collect()
}
