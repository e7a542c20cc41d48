//! INIT negotiation on the answers of old, new and odd daemons.

use fusewire_wire::abi::{InitIn, InitOut};
use fusewire_wire::init::{InitError, LocalLimits, Negotiated, Offer, negotiate};
use fusewire_wire::request::SecurityContext;
use fusewire_wire::{InitFlags, Opcode};
use zerocopy::IntoBytes;

const LIMITS: LocalLimits = LocalLimits {
    max_pages: 256,
    max_write_bytes: 1 << 20,
};

fn offer() -> Offer {
    Offer::new(128 << 10, InitFlags::all() - InitFlags::INIT_RESERVED)
}

/// A daemon that takes all it knows.
fn out(minor: u32, flags: InitFlags) -> InitOut {
    InitOut {
        major: 7,
        minor,
        max_readahead: 1 << 20,
        flags: flags.low(),
        flags2: flags.high(),
        max_background: 64,
        congestion_threshold: 48,
        max_write: 1 << 20,
        time_gran: 1,
        max_pages: 256,
        ..InitOut::default()
    }
}

fn agree(out: &InitOut) -> Negotiated {
    negotiate(&offer(), &LIMITS, out.as_bytes()).unwrap()
}

#[test]
fn the_offer_on_the_wire() {
    let sent: InitIn = offer().to_init_in();
    assert_eq!(
        (sent.major, sent.minor, sent.max_readahead),
        (7, 45, 128 << 10)
    );
    assert_eq!(
        InitFlags::from_halves(sent.flags, sent.flags2),
        offer().flags
    );
    // High bits bring INIT_EXT along; without them it stays out.
    let high = Offer::new(0, InitFlags::SECURITY_CTX).to_init_in();
    assert_eq!((high.flags, high.flags2), (InitFlags::INIT_EXT.low(), 1));
    let low = Offer::new(0, InitFlags::BIG_WRITES).to_init_in();
    assert_eq!((low.flags, low.flags2), (1 << 5, 0));
}

#[test]
fn a_new_daemon() {
    let flags = InitFlags::INIT_EXT
        | InitFlags::BIG_WRITES
        | InitFlags::MAX_PAGES
        | InitFlags::SECURITY_CTX
        | InitFlags::CREATE_SUPP_GROUP;
    let agreed = agree(&out(45, flags));
    assert_eq!(agreed.flags, flags);
    assert_eq!(
        (agreed.minor, agreed.max_pages, agreed.max_write_bytes),
        (45, 256, 1 << 20)
    );
    assert_eq!(
        (agreed.max_background, agreed.congestion_threshold),
        (64, 48)
    );
    assert_eq!(agreed.max_readahead_bytes, 128 << 10);
    assert!(agreed.allows(Opcode::CopyFileRange64));
    assert!(!agreed.allows(Opcode::CuseInit));
    let ext = agreed.extensions(Some(7));
    assert_eq!(
        (ext.secctx, ext.supp_groups),
        (SecurityContext::Unlabelled, Some(7))
    );
}

#[test]
fn virtiofsd_7_38() {
    let flags = InitFlags::INIT_EXT
        | InitFlags::BIG_WRITES
        | InitFlags::MAX_PAGES
        | InitFlags::DO_READDIRPLUS;
    let agreed = agree(&out(38, flags));
    assert!(agreed.allows(Opcode::Tmpfile) && agreed.allows(Opcode::Syncfs));
    assert!(!agreed.allows(Opcode::Statx) && !agreed.allows(Opcode::CopyFileRange64));
    assert_eq!(agreed.extensions(Some(7)), Default::default());
}

#[test]
fn short_replies() {
    // libfuse 2.9: 7.19, 24 bytes; everything after max_write is zero.
    let old = out(19, InitFlags::BIG_WRITES | InitFlags::MAX_PAGES);
    let agreed = negotiate(&offer(), &LIMITS, &old.as_bytes()[..24]).unwrap();
    assert_eq!(
        (agreed.minor, agreed.max_write_bytes, agreed.max_background),
        (19, 4096, 64)
    );
    assert_eq!((agreed.max_pages, agreed.time_gran_ns), (1, 1));
    assert!(agreed.allows(Opcode::Fallocate) && agreed.allows(Opcode::BatchForget));
    assert!(!agreed.allows(Opcode::Readdirplus) && !agreed.allows(Opcode::Rename2));
    let plain = out(19, InitFlags::BIG_WRITES);
    let agreed = negotiate(&offer(), &LIMITS, &plain.as_bytes()[..24]).unwrap();
    assert_eq!((agreed.max_pages, agreed.max_write_bytes), (32, 128 << 10));
    // 8 bytes: a version and nothing else.
    let agreed = negotiate(&offer(), &LIMITS, &old.as_bytes()[..8]).unwrap();
    assert_eq!(
        (
            agreed.flags,
            agreed.max_write_bytes,
            agreed.max_readahead_bytes
        ),
        (InitFlags::empty(), 4096, 0)
    );
    assert_eq!(
        (
            agreed.max_pages,
            agreed.max_background,
            agreed.congestion_threshold
        ),
        (32, 12, 9)
    );
    for len in [0, 7, 65, 80] {
        assert_eq!(
            negotiate(&offer(), &LIMITS, &vec![0; len]),
            Err(InitError::Length(len))
        );
    }
}

#[test]
fn every_minor_gets_only_its_opcodes() {
    for minor in 0..60 {
        match negotiate(&offer(), &LIMITS, out(minor, InitFlags::empty()).as_bytes()) {
            Ok(agreed) => {
                assert_eq!(agreed.minor, minor.min(45));
                for &opcode in Opcode::ALL {
                    let want = opcode != Opcode::CuseInit && opcode.since_minor() <= minor;
                    assert_eq!(agreed.allows(opcode), want, "{opcode} with 7.{minor}");
                }
            }
            Err(error) => {
                assert!(minor < 19);
                assert_eq!(error, InitError::PeerTooOld { minor });
                assert!(error.to_string().contains(&format!("7.{minor},")));
            }
        }
    }
}

#[test]
fn other_majors() {
    for (peer_major, remedy) in [
        (8, "send INIT again with major 7"),
        (6, "use a newer daemon"),
        (0, "newer"),
    ] {
        let reply = InitOut {
            major: peer_major,
            ..out(0, InitFlags::empty())
        };
        let error = negotiate(&offer(), &LIMITS, &reply.as_bytes()[..8]).unwrap_err();
        assert_eq!(error, InitError::MajorMismatch { peer_major });
        assert!(error.to_string().contains(remedy), "{error}");
    }
}

#[test]
fn only_what_was_offered_counts() {
    let offer = Offer::new(4096, InitFlags::BIG_WRITES | InitFlags::SECURITY_CTX);
    let all = negotiate(&offer, &LIMITS, out(45, InitFlags::all()).as_bytes()).unwrap();
    assert_eq!(
        all.flags,
        InitFlags::BIG_WRITES | InitFlags::SECURITY_CTX | InitFlags::INIT_EXT
    );
    // flags2 without INIT_EXT is noise.
    let noise = agree(&out(45, InitFlags::all() - InitFlags::INIT_EXT));
    assert_eq!(noise.flags.high(), 0);
}

#[test]
fn capabilities_that_exclude_or_need_each_other() {
    let inval = InitFlags::AUTO_INVAL_DATA | InitFlags::EXPLICIT_INVAL_DATA;
    assert_eq!(agree(&out(45, inval)).flags, InitFlags::AUTO_INVAL_DATA);
    let explicit = InitFlags::EXPLICIT_INVAL_DATA;
    assert_eq!(agree(&out(45, explicit)).flags, explicit);
    assert!(
        agree(&out(45, InitFlags::READDIRPLUS_AUTO))
            .flags
            .is_empty()
    );
    let passthrough = InitFlags::INIT_EXT | InitFlags::PASSTHROUGH;
    let deep = |flags| InitOut {
        max_stack_depth: 1,
        ..out(45, flags)
    };
    assert_eq!(agree(&deep(passthrough)).flags, passthrough);
    assert_eq!(agree(&out(45, passthrough)).flags, InitFlags::INIT_EXT);
    let both = passthrough | InitFlags::WRITEBACK_CACHE;
    assert_eq!(
        agree(&deep(both)).flags,
        InitFlags::INIT_EXT | InitFlags::WRITEBACK_CACHE
    );
}

#[test]
fn limits() {
    let flags = InitFlags::BIG_WRITES | InitFlags::MAX_PAGES;
    let base = out(45, flags);
    let small = |out: InitOut| {
        let agreed = agree(&out);
        (agreed.max_pages, agreed.max_write_bytes)
    };
    assert_eq!(
        small(InitOut {
            max_write: 100,
            ..base
        }),
        (256, 4096)
    );
    assert_eq!(
        small(InitOut {
            max_write: 0,
            max_pages: 0,
            ..base
        }),
        (1, 4096)
    );
    assert_eq!(
        small(InitOut {
            max_pages: u16::MAX,
            max_write: u32::MAX,
            ..base
        }),
        (256, 1 << 20)
    );
    assert_eq!(
        small(InitOut {
            max_pages: 8,
            ..base
        }),
        (8, 32 << 10)
    );
    assert_eq!(small(out(45, InitFlags::BIG_WRITES)), (32, 128 << 10));
    assert_eq!(small(out(45, InitFlags::MAX_PAGES)), (256, 4096));
    // Our own side may allow less still.
    let tight = LocalLimits {
        max_pages: 10,
        max_write_bytes: 20_000,
    };
    let agreed = negotiate(&offer(), &tight, base.as_bytes()).unwrap();
    assert_eq!((agreed.max_pages, agreed.max_write_bytes), (10, 20_000));
    let none = LocalLimits {
        max_pages: 0,
        max_write_bytes: 0,
    };
    let agreed = negotiate(&offer(), &none, base.as_bytes()).unwrap();
    assert_eq!((agreed.max_pages, agreed.max_write_bytes), (1, 4096));
    for (sent, want) in [
        (0, 1),
        (1_000_000_000, 1_000_000_000),
        (1_000_000_001, 1),
        (100, 100),
    ] {
        assert_eq!(
            agree(&InitOut {
                time_gran: sent,
                ..base
            })
            .time_gran_ns,
            want
        );
    }
}

#[test]
fn optional_numbers_need_their_flag() {
    let numbers = InitOut {
        map_alignment: 21,
        request_timeout: 30,
        ..out(45, InitFlags::INIT_EXT)
    };
    let without = agree(&numbers);
    assert_eq!(
        (without.map_alignment, without.request_timeout_secs),
        (None, None)
    );
    let flags = InitFlags::INIT_EXT | InitFlags::MAP_ALIGNMENT | InitFlags::REQUEST_TIMEOUT;
    let with = agree(&InitOut {
        flags: flags.low(),
        flags2: flags.high(),
        ..numbers
    });
    assert_eq!(
        (with.map_alignment, with.request_timeout_secs),
        (Some(21), Some(30))
    );
}
