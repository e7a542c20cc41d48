//! Parsers take any bytes: they answer or refuse, and never panic. Valid replies are understood.

use fusewire_wire::abi::*;
use fusewire_wire::dirent::*;
use fusewire_wire::init::{LocalLimits, Offer, negotiate};
use fusewire_wire::notify::{Notification, NotifyError};
use fusewire_wire::reply::{self, Incoming, ReplyError, ReplyHeader};
use fusewire_wire::request::parse_header;
use fusewire_wire::*;
use proptest::prelude::*;
use zerocopy::IntoBytes;

fn bytes() -> impl Strategy<Value = Vec<u8>> {
    // Small numbers make lengths and counts that come close to the truth.
    let byte = prop_oneof![3 => 0u8..4, 2 => Just(b'a'), 1 => any::<u8>()];
    prop_oneof![
        proptest::collection::vec(byte, 0..400),
        proptest::collection::vec(any::<u8>(), 0..400)
    ]
}

/// A header whose length and opcode fit, so that parsing goes on into the arguments.
fn message() -> impl Strategy<Value = Vec<u8>> {
    (
        proptest::sample::select(Opcode::ALL),
        0u16..4,
        -2i64..3,
        bytes(),
    )
        .prop_map(|(opcode, extlen, off, body)| {
            let len = u32::try_from(40 + body.len() as i64 + off).unwrap();
            let header = InHeader {
                len,
                opcode: opcode as u32,
                total_extlen: extlen,
                unique: 2,
                ..InHeader::default()
            };
            [header.as_bytes(), &body].concat()
        })
}

proptest! {
    #[test]
    fn requests(raw in bytes(), message in message()) {
        for bytes in [raw, message] {
            let header = parse_header(&bytes);
            if let Ok((parsed, request, ext)) = Request::parse(&bytes) {
                prop_assert_eq!(header.unwrap(), parsed);
                // What was understood can be said again, unless the sender used a forbidden id.
                let head = Head { unique: parsed.unique.max(1), nodeid: parsed.nodeid, caller: Caller::default() };
                let mut buf = [0; MAX_HEAD_BYTES];
                prop_assert!(request.encode(&head, &ext, &mut buf).is_ok() || ext.supp_groups == Some(u32::MAX));
            }
        }
    }

    #[test]
    fn replies(bytes in bytes()) {
        if let Ok(Incoming::Reply(ReplyHeader { len, error, unique })) = Incoming::parse(&bytes) {
            prop_assert!(len >= 16 && unique != 0);
            prop_assert!(error.is_none_or(|errno| (1..=511).contains(&errno)));
        }
        prop_assert_eq!(reply::entry(&bytes).is_ok(), bytes.len() == 128);
        prop_assert_eq!(reply::create(&bytes).is_ok(), bytes.len() == 144);
        prop_assert_eq!(reply::attr(&bytes).is_ok(), bytes.len() == 104);
        prop_assert_eq!(reply::open(&bytes).is_ok(), bytes.len() == 16);
        prop_assert_eq!(reply::write(&bytes).is_ok(), bytes.len() == 8);
        prop_assert_eq!(reply::copy_file_range_64(&bytes).is_ok(), bytes.len() == 8);
        prop_assert_eq!(reply::statfs(&bytes).is_ok(), bytes.len() == 80);
        prop_assert_eq!(reply::lseek(&bytes).is_ok(), bytes.len() == 8);
        prop_assert_eq!(reply::lk(&bytes).is_ok(), bytes.len() == 24);
        prop_assert_eq!(reply::statx(&bytes).is_ok(), bytes.len() == 288);
        prop_assert_eq!(reply::getxattr_size(&bytes).is_ok(), bytes.len() == 8);
        prop_assert_eq!(reply::bmap(&bytes).is_ok(), bytes.len() == 8);
        prop_assert_eq!(reply::ioctl(&bytes).is_ok(), bytes.len() == 16);
        prop_assert_eq!(reply::poll(&bytes).is_ok(), bytes.len() == 8);
        prop_assert_eq!(reply::empty(&bytes).is_ok(), bytes.is_empty());
    }

    #[test]
    fn directories(bytes in bytes()) {
        for entry in Dirents::new(&bytes).flatten() {
            prop_assert!(!entry.name.is_empty() && !entry.name.contains(&b'/') && !entry.name.contains(&0));
        }
        let plus: usize = DirentsPlus::new(&bytes).map(|entry| usize::from(entry.is_ok())).sum();
        prop_assert!(plus <= bytes.len() / 160);
    }

    #[test]
    fn notifications(code in -1i32..12, bytes in bytes()) {
        match Notification::parse(code, &bytes) {
            Err(NotifyError::UnknownCode(unknown)) => prop_assert!(unknown == code && !(1..=9).contains(&code)),
            Ok(Notification::Store { data, .. }) => prop_assert_eq!(data.len(), bytes.len() - 24),
            Ok(Notification::Prune(nodes)) => prop_assert_eq!(nodes.iter().count() * 8, bytes.len() - 16),
            _ => {}
        }
    }

    #[test]
    fn negotiation(bytes in bytes(), minor in 0u32..60, flags in any::<u64>(), pages in any::<u16>(), write in any::<u32>()) {
        let offer = Offer::new(131_072, InitFlags::from_bits_retain(flags));
        let limits = LocalLimits { max_pages: pages, max_write_bytes: write };
        let versioned = [7u32.as_bytes(), minor.as_bytes(), &bytes[..bytes.len().min(56)]].concat();
        for reply in [bytes, versioned] {
            if let Ok(agreed) = negotiate(&offer, &limits, &reply) {
                prop_assert!((19..=45).contains(&agreed.minor));
                prop_assert!(offer.sent_flags().contains(agreed.flags));
                prop_assert!((1..=pages.max(1)).contains(&agreed.max_pages));
                prop_assert!((4096..=write.max(4096)).contains(&agreed.max_write_bytes));
                prop_assert!(agreed.max_readahead_bytes <= 131_072);
                prop_assert!(agreed.max_background > 0 && agreed.congestion_threshold > 0);
                prop_assert!((1..=1_000_000_000).contains(&agreed.time_gran_ns));
                for &opcode in Opcode::ALL {
                    prop_assert!(!agreed.allows(opcode) || opcode.since_minor() <= agreed.minor);
                }
            }
        }
    }

    #[test]
    fn directories_come_back(
        names in proptest::collection::vec("[^/\0]{1,40}", 0..40),
        size in 0usize..3000,
        seed in any::<u64>(),
    ) {
        let entries: Vec<Entry<'_>> = names
            .iter()
            .enumerate()
            .map(|(i, name)| Entry { ino: seed ^ i as u64, off: i as u64 + 1, typ: 8, name: name.as_bytes() })
            .collect();
        let mut buf = vec![0xee; size];
        let mut writer = DirentWriter::new(&mut buf);
        let taken = entries.iter().take_while(|entry| writer.push(entry)).count();
        let len = writer.len();
        let read: Vec<_> = Dirents::new(&buf[..len]).collect::<Result<_, _>>().unwrap();
        prop_assert_eq!(&read[..], &entries[..taken]);

        let out = EntryOut { nodeid: seed, ..EntryOut::default() };
        let mut writer = DirentPlusWriter::new(&mut buf);
        let taken = entries.iter().take_while(|entry| writer.push(&out, entry)).count();
        let len = writer.len();
        let read: Vec<_> = DirentsPlus::new(&buf[..len]).collect::<Result<_, _>>().unwrap();
        prop_assert_eq!(read.len(), taken);
        for (read, &entry) in read.iter().zip(&entries) {
            prop_assert_eq!(*read, EntryPlus { entry_out: out, entry });
        }
    }
}

fn out_header(len: u32, error: i32, unique: u64) -> Result<ReplyHeader, ReplyError> {
    reply::parse_header(OutHeader { len, error, unique }.as_bytes())
}

#[test]
fn reply_headers() {
    assert_eq!(
        out_header(16, 0, 2),
        Ok(ReplyHeader {
            len: 16,
            error: None,
            unique: 2
        })
    );
    assert_eq!(
        out_header(144, 0, 2),
        Ok(ReplyHeader {
            len: 144,
            error: None,
            unique: 2
        })
    );
    assert_eq!(
        out_header(16, -2, 2),
        Ok(ReplyHeader {
            len: 16,
            error: Some(2),
            unique: 2
        })
    );
    assert_eq!(
        out_header(16, -511, 2),
        Ok(ReplyHeader {
            len: 16,
            error: Some(511),
            unique: 2
        })
    );
    assert_eq!(out_header(16, -512, 2), Err(ReplyError::Error(-512)));
    assert_eq!(
        out_header(16, i32::MIN, 2),
        Err(ReplyError::Error(i32::MIN))
    );
    assert_eq!(out_header(16, 1, 2), Err(ReplyError::Error(1)));
    assert_eq!(out_header(24, -2, 2), Err(ReplyError::Length(24)));
    assert_eq!(out_header(15, 0, 2), Err(ReplyError::Length(15)));
    assert_eq!(out_header(16, 3, 0), Err(ReplyError::Notification(3)));
    assert_eq!(out_header(16, 0, 0), Err(ReplyError::Error(0)));
    assert_eq!(reply::parse_header(&[0; 15]), Err(ReplyError::Short(15)));
    for errno in [-5, 0, 512, i32::MIN] {
        assert_eq!(reply::failure(2, errno).error, -5);
    }
    assert_eq!(
        reply::success(2, 128),
        Some(OutHeader {
            len: 144,
            error: 0,
            unique: 2
        })
    );
    assert_eq!(reply::success(2, u32::MAX as usize), None);
}

#[test]
fn attributes_no_file_can_have() {
    let regular = Attr {
        mode: 0o100_644,
        size: i64::MAX as u64,
        ..Attr::default()
    };
    assert_eq!(regular.kind(), Ok(FileKind::Regular));
    assert_eq!(
        Attr {
            size: 1 << 63,
            ..regular
        }
        .kind(),
        Err(AttrError::Size(1 << 63))
    );
    assert_eq!(
        Attr {
            mode: 0o644,
            ..regular
        }
        .kind(),
        Err(AttrError::Kind(0o644))
    );
    assert_eq!(
        Attr {
            mode: 0o170_000,
            ..regular
        }
        .kind(),
        Err(AttrError::Kind(0o170_000))
    );
    for typ in 0..20 {
        if let Some(kind) = FileKind::from_dirent_type(typ) {
            assert_eq!(
                (
                    kind.dirent_type(),
                    FileKind::from_mode(kind.mode_bits() | 0o777)
                ),
                (typ, Some(kind))
            );
        }
    }
    let forever = EntryOut {
        entry_valid: u64::MAX,
        entry_valid_nsec: u32::MAX,
        ..EntryOut::default()
    };
    assert_eq!(
        forever.entry_timeout(),
        std::time::Duration::new(u64::MAX, 999_999_999)
    );
}

fn dirent(namelen: u32, name: &[u8]) -> Vec<u8> {
    let fixed = Dirent {
        ino: 1,
        off: 2,
        namelen,
        typ: 4,
    };
    let mut record = [fixed.as_bytes(), name].concat();
    record.resize(record.len().next_multiple_of(8), 0);
    record
}

#[test]
fn broken_directories() {
    fn first(bytes: &[u8]) -> Option<Result<Entry<'_>, DirentError>> {
        Dirents::new(bytes).next()
    }
    assert_eq!(first(&[]), None);
    assert_eq!(first(&[0; 10]), Some(Err(DirentError::Truncated(10))));
    assert_eq!(
        first(&dirent(0, b"")),
        Some(Err(DirentError::NameLength(0)))
    );
    assert_eq!(
        first(&dirent(1025, &[b'a'; 1025])),
        Some(Err(DirentError::NameLength(1025)))
    );
    assert_eq!(
        first(&dirent(u32::MAX, b"a")),
        Some(Err(DirentError::NameLength(u32::MAX)))
    );
    assert_eq!(
        first(&dirent(9, b"a")),
        Some(Err(DirentError::Truncated(32)))
    );
    assert_eq!(
        first(&dirent(3, b"a/b")),
        Some(Err(DirentError::NameByte(b'/')))
    );
    assert_eq!(
        first(&dirent(3, b"a\0b")),
        Some(Err(DirentError::NameByte(0)))
    );
    // A truncated last record ends the batch, an error ends the iteration.
    let whole = dirent(1, b"a");
    let two = [&whole[..], &whole[..31]].concat();
    assert_eq!(
        Dirents::new(&two)
            .map(|entry| entry.unwrap().name)
            .collect::<Vec<_>>(),
        [b"a"]
    );
    let bad = [whole.clone(), dirent(0, b""), whole].concat();
    let all: Vec<_> = Dirents::new(&bad).map(|entry| entry.is_ok()).collect();
    assert_eq!(all, [true, false]);
    // The writer does not write what the reader refuses.
    let mut buf = [0; 4096];
    let mut writer = DirentWriter::new(&mut buf);
    for name in [&b""[..], b"a/b", b"a\0", &[b'a'; 1025]] {
        assert!(!writer.push(&Entry {
            ino: 1,
            off: 1,
            typ: 8,
            name
        }));
    }
    assert!(writer.is_empty());
}

#[test]
fn notifications_of_every_code() {
    fn parse(code: i32, body: &[u8]) -> Result<Notification<'_>, NotifyError> {
        Notification::parse(code, body)
    }
    assert_eq!(parse(1, 9u64.as_bytes()), Ok(Notification::Poll { kh: 9 }));
    let inode = NotifyInvalInodeOut {
        ino: 3,
        off: -1,
        len: 0,
    };
    assert_eq!(
        parse(2, inode.as_bytes()),
        Ok(Notification::InvalInode(inode))
    );
    let name = Name::new(b"name").unwrap();
    let entry = NotifyInvalEntryOut {
        parent: 1,
        namelen: 4,
        flags: 1,
    };
    assert_eq!(
        parse(3, &[entry.as_bytes(), b"name\0"].concat()),
        Ok(Notification::InvalEntry {
            parent: 1,
            name,
            flags: InvalEntryFlags::EXPIRE_ONLY
        })
    );
    let store = NotifyStoreOut {
        nodeid: 2,
        offset: 5,
        size: 3,
        padding: 0,
    };
    assert_eq!(
        parse(4, &[store.as_bytes(), b"abc"].concat()),
        Ok(Notification::Store {
            nodeid: 2,
            offset: 5,
            data: b"abc"
        })
    );
    let retrieve = NotifyRetrieveOut {
        notify_unique: 8,
        nodeid: 2,
        offset: 0,
        size: 9,
        padding: 0,
    };
    assert_eq!(
        parse(5, retrieve.as_bytes()),
        Ok(Notification::Retrieve(retrieve))
    );
    let delete = NotifyDeleteOut {
        parent: 1,
        child: 7,
        namelen: 4,
        padding: 0,
    };
    assert_eq!(
        parse(6, &[delete.as_bytes(), b"name\0"].concat()),
        Ok(Notification::Delete {
            parent: 1,
            child: 7,
            name
        })
    );
    assert_eq!(parse(7, b""), Ok(Notification::Resend));
    assert_eq!(parse(8, b""), Ok(Notification::IncEpoch));
    let prune = NotifyPruneOut {
        count: 2,
        padding: 0,
        spare: 0,
    };
    match parse(
        9,
        &[prune.as_bytes(), 4u64.as_bytes(), 5u64.as_bytes()].concat(),
    ) {
        Ok(Notification::Prune(nodes)) => assert_eq!(nodes.iter().collect::<Vec<_>>(), [4, 5]),
        other => panic!("{other:?}"),
    }
    // Lengths that lie, and names that are none.
    assert!(parse(1, &[0; 7]).is_err());
    assert!(parse(2, &[0; 25]).is_err());
    assert!(parse(3, &[entry.as_bytes(), b"name"].concat()).is_err());
    assert!(parse(3, &[entry.as_bytes(), b"na/e\0"].concat()).is_err());
    assert!(parse(4, &[store.as_bytes(), b"ab"].concat()).is_err());
    assert!(
        parse(
            6,
            &[
                NotifyDeleteOut {
                    namelen: u32::MAX,
                    ..delete
                }
                .as_bytes(),
                b"name\0"
            ]
            .concat()
        )
        .is_err()
    );
    assert!(
        parse(
            9,
            &[
                NotifyPruneOut {
                    count: u32::MAX,
                    ..prune
                }
                .as_bytes(),
                4u64.as_bytes()
            ]
            .concat()
        )
        .is_err()
    );
}
