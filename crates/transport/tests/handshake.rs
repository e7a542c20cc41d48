//! The vhost-user handshake against backends that fail at every step in every way.

#[path = "common/backend.rs"]
mod backend;

use backend::*;
use fusewire_transport::vhost_user::{ConnectError, Options, Step, Virtiofsd, connect, spawn};
use fusewire_transport::{Death, Submission, Transport};
use rustix::fs::{OFlags, fcntl_getfl, fcntl_setfl};
use std::net::Shutdown;
use std::path::Path;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

/// In the order in which they are sent.
const STEPS: [(u32, Step); 14] = [
    (GET_FEATURES, Step::GetFeatures),
    (GET_PROTOCOL_FEATURES, Step::GetProtocolFeatures),
    (SET_PROTOCOL_FEATURES, Step::SetProtocolFeatures),
    (SET_OWNER, Step::SetOwner),
    (GET_QUEUE_NUM, Step::GetQueueNum),
    (GET_MAX_MEM_SLOTS, Step::GetMaxMemSlots),
    (SET_FEATURES, Step::SetFeatures),
    (SET_VRING_NUM, Step::SetVringNum),
    (SET_MEM_TABLE, Step::SetMemTable),
    (SET_VRING_BASE, Step::SetVringBase),
    (SET_VRING_ADDR, Step::SetVringAddr),
    (SET_VRING_CALL, Step::SetVringCall),
    (SET_VRING_KICK, Step::SetVringKick),
    (SET_VRING_ENABLE, Step::SetVringEnable),
];

fn options() -> Options {
    Options {
        arena_bytes: 2 << 20,
        ..Options::default()
    }
}

/// For peers that do not answer, however long one waits.
fn impatient() -> Options {
    Options {
        handshake_timeout: Duration::from_millis(50),
        ..options()
    }
}

/// How connecting to a backend fails that misbehaves when `at` comes.
fn failure(at: u32, how: Misbehaviour, options: &Options) -> ConnectError {
    let running = Backend {
        at,
        how,
        ..Backend::default()
    }
    .start();
    let error = connect(&running.socket, options).map(|_| ()).unwrap_err();
    let text = error.to_string();
    assert!(
        text.contains("backend.sock") && !text.contains('\n'),
        "{text}"
    );
    running.stop();
    error
}

/// SET_PROTOCOL_FEATURES is not acknowledged, so that its failure shows in the next step.
fn acknowledged(at: u32) -> bool {
    at != SET_PROTOCOL_FEATURES
}

#[test]
fn hanging_up_at_any_step_is_said() {
    for (at, expected) in STEPS {
        match failure(at, Misbehaviour::HangUp, &options()) {
            ConnectError::HungUp { step, .. } if acknowledged(at) => assert_eq!(step, expected),
            ConnectError::HungUp { step, .. } => assert_eq!(step, Step::SetOwner),
            other => panic!("{expected}: {other}"),
        }
    }
}

/// The socket is open, and so are the eventfds.
#[test]
fn closing_one_direction_at_any_step_is_said() {
    for (at, expected) in STEPS {
        let how = Misbehaviour::HalfClose(Shutdown::Write);
        match failure(at, how, &options()) {
            ConnectError::HungUp { step, .. } if acknowledged(at) => assert_eq!(step, expected),
            ConnectError::HungUp { step, .. } => assert_eq!(step, Step::SetOwner),
            other => panic!("{expected}: {other}"),
        }
    }
    // One that hears nothing more has answered; the next step cannot be said.
    let next = STEPS.iter().skip(1).map(|(_, step)| *step);
    for ((at, _), next) in STEPS.into_iter().zip(next.chain([Step::SetVringEnable])) {
        if !acknowledged(at) {
            continue;
        }
        let expected = match at {
            SET_MEM_TABLE => Step::SetVringNum,
            // Of the second queue.
            SET_VRING_KICK => Step::SetVringBase,
            _ => next,
        };
        match failure(at, Misbehaviour::HalfClose(Shutdown::Read), &options()) {
            ConnectError::HungUp { step, .. } => assert_eq!(step, expected),
            other => panic!("{expected}: {other}"),
        }
    }
}

#[test]
fn silence_at_any_step_ends_at_the_deadline_and_names_the_step() {
    let options = Options {
        // All the steps before the silent one have to fit, on any machine.
        handshake_timeout: Duration::from_secs(2),
        ..options()
    };
    // Side by side: each takes as long as the deadline.
    thread::scope(|scope| {
        for how in [Misbehaviour::Silence, Misbehaviour::HalfAnAnswer] {
            for (at, expected) in STEPS {
                let options = &options;
                scope.spawn(move || match failure(at, how, options) {
                    ConnectError::Timeout { step, .. } if acknowledged(at) => {
                        assert_eq!(step, expected);
                    }
                    ConnectError::Timeout { step, .. } => assert_eq!(step, Step::SetOwner),
                    other => panic!("{expected}: {other}"),
                });
            }
        }
    });
}

#[test]
fn another_protocol_is_recognised() {
    for how in [Misbehaviour::Garbage, Misbehaviour::WrongAnswer] {
        for (at, expected) in STEPS {
            match failure(at, how, &options()) {
                ConnectError::NotVhostUser { step, .. } if acknowledged(at) => {
                    assert_eq!(step, expected);
                }
                ConnectError::NotVhostUser { step, .. } => assert_eq!(step, Step::SetOwner),
                other => panic!("{expected}: {other}"),
            }
        }
    }
}

#[test]
fn a_refusal_is_said() {
    let acknowledged = STEPS.into_iter().filter(|(_, step)| {
        !matches!(
            step,
            Step::GetFeatures
                | Step::GetProtocolFeatures
                | Step::SetProtocolFeatures
                | Step::GetQueueNum
                | Step::GetMaxMemSlots
        )
    });
    for (at, expected) in acknowledged {
        match failure(at, Misbehaviour::Refusal, &options()) {
            ConnectError::Refused { step, .. } => assert_eq!(step, expected),
            other => panic!("{expected}: {other}"),
        }
    }
}

#[test]
fn an_unsuitable_backend_is_named_with_what_it_lacks() {
    let lacking = |backend: Backend| {
        let running = backend.start();
        let error = connect(&running.socket, &options())
            .map(|_| ())
            .unwrap_err();
        assert!(matches!(error, ConnectError::Unsuitable { .. }), "{error}");
        running.stop();
        error.to_string()
    };
    let no_version = lacking(Backend {
        features: PROTOCOL_FEATURES,
        ..Backend::default()
    });
    assert!(no_version.contains("VERSION_1"), "{no_version}");
    let one_queue = lacking(Backend {
        queues: 1,
        ..Backend::default()
    });
    assert!(one_queue.contains("1 of the 2 queues"), "{one_queue}");
    let one_slot = lacking(Backend {
        mem_slots: 1,
        ..Backend::default()
    });
    assert!(one_slot.contains("1 of the 2 memory regions"), "{one_slot}");
}

#[test]
fn what_is_not_offered_is_done_without() {
    let running = Backend {
        features: VERSION_1,
        ..Backend::default()
    }
    .start();
    let transport = connect(&running.socket, &options()).unwrap();
    let info = transport.info();
    assert_eq!(info.features, ["VERSION_1"]);
    assert_eq!((info.pid, info.max_mem_slots), (None, None));
    // Each request takes two descriptors then.
    assert_eq!(transport.limits().max_in_flight, 128);
    running.stop();
}

#[test]
fn a_queue_that_is_too_large_is_made_smaller() {
    let running = Backend {
        max_queue_size: 64,
        ..Backend::default()
    }
    .start();
    let transport = connect(&running.socket, &options()).unwrap();
    assert_eq!(transport.info().queue_size, 64);
    assert_eq!(transport.limits().max_in_flight, 64);
    assert_eq!(transport.info().features.len(), 7);
    running.stop();
}

#[test]
fn a_backend_that_hangs_up_later_is_death() {
    let running = Backend::default().start();
    let transport = Arc::new(connect(&running.socket, &options()).unwrap());
    let waiter = {
        let transport = Arc::clone(&transport);
        thread::spawn(move || transport.wait())
    };
    running.stop();
    match transport.watch() {
        Death::Peer(why) => assert!(why.contains("backend.sock"), "{why}"),
        Death::Closed => panic!("not by us"),
    }
    waiter.join().unwrap();
}

#[test]
fn a_backend_that_blocks_its_kicks_cannot_keep_us() {
    let running = Backend::default().start();
    let transport = Arc::new(connect(&running.socket, &options()).unwrap());
    for kick in running.stop() {
        // The flag is the open file's, which both sides have.
        let flags = fcntl_getfl(&kick).unwrap();
        fcntl_setfl(&kick, flags - OFlags::NONBLOCK).unwrap();
        rustix::io::write(&kick, &(u64::MAX - 1).to_ne_bytes()).unwrap();
    }
    let kickers: Vec<_> = (0..2)
        .map(|tag| {
            let transport = Arc::clone(&transport);
            thread::spawn(move || {
                let request = Submission {
                    tag,
                    head: &[0; 40],
                    payload_out: &[],
                    reply_head_bytes: 16,
                    payload_in: &[],
                };
                // Either may come too late.
                let _ = transport.submit(&request);
                let _ = transport.submit_oneway(&[0; 40]);
                transport.kick();
            })
        })
        .collect();
    transport.close();
    transport.wait();
    for kicker in kickers {
        kicker.join().unwrap();
    }
}

#[test]
fn sockets_that_are_none() {
    let directory = tempfile::tempdir().unwrap();
    let at = |name: &str| directory.path().join(name);
    let error = |path: &Path| connect(path, &options()).map(|_| ()).unwrap_err();

    assert!(matches!(
        error(&at("absent")),
        ConnectError::NoSuchSocket(_)
    ));
    std::fs::write(at("file"), "").unwrap();
    assert!(matches!(error(&at("file")), ConnectError::NotASocket(_)));
    assert!(matches!(
        error(directory.path()),
        ConnectError::NotASocket(_)
    ));
    drop(std::os::unix::net::UnixListener::bind(at("old")).unwrap());
    assert!(matches!(error(&at("old")), ConnectError::NobodyListens(_)));
    drop(std::os::unix::net::UnixDatagram::bind(at("datagram")).unwrap());
    let long = at(&"x".repeat(200));
    assert!(matches!(error(&long), ConnectError::PathTooLong(_)));
    let _full = full_backlog(&at("busy"));
    match connect(&at("busy"), &impatient()).map(|_| ()).unwrap_err() {
        ConnectError::Timeout { step, .. } => assert_eq!(step, Step::Connect),
        other => panic!("{other}"),
    }
}

#[test]
fn programs_that_are_none() {
    let directory = tempfile::tempdir().unwrap();
    let error = |program: &Path, options: &Options| {
        let config = Virtiofsd {
            program: Some(program.to_owned()),
            ..Virtiofsd::new(directory.path())
        };
        spawn(&config, options).map(|_| ()).unwrap_err()
    };
    let absent = error(&directory.path().join("absent"), &options());
    assert!(matches!(absent, ConnectError::ProgramNotFound { .. }));
    assert!(absent.to_string().contains("install"), "{absent}");
    let script = directory.path().join("script");
    std::fs::write(&script, "no program").unwrap();
    assert!(matches!(
        error(&script, &options()),
        ConnectError::ProgramNotFound { .. }
    ));
    // Programs that are no virtiofsd: one ends at once, one never answers.
    match error(Path::new("/bin/false"), &options()) {
        ConnectError::DaemonExited { status, .. } => assert_eq!(status, "exit code 1"),
        other => panic!("{other}"),
    }
    std::fs::write(
        &script,
        "#!/bin/sh\necho what is this >&2\nexec sleep 1000\n",
    )
    .unwrap();
    let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    std::fs::set_permissions(&script, mode).unwrap();
    assert!(matches!(
        error(&script, &impatient()),
        ConnectError::Timeout { .. }
    ));
}
