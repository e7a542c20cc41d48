//! Every request: what the encoder writes, the parser reads back, and nothing shorter or longer.

use fusewire_wire::abi::*;
use fusewire_wire::request::{
    EncodeError, LABEL_MAX_BYTES, MAX_FORGETS, MAX_REMOVEMAPPINGS, SecurityContext,
};
use fusewire_wire::*;
use proptest::prelude::*;
use zerocopy::{FromBytes, FromZeros};

/// Raw material from which a request of any opcode can be built.
#[derive(Clone, Debug)]
struct Parts {
    opcode: Opcode,
    name: Vec<u8>,
    new_name: Vec<u8>,
    target: Vec<u8>,
    xattr: Vec<u8>,
    label: Vec<u8>,
    bytes: [u8; 128],
    n: [u32; 5],
    wide: u64,
    flag: bool,
    forgets: Vec<ForgetOne>,
    mappings: Vec<RemovemappingOne>,
    ext: u8,
    head: Head,
}

fn name() -> impl Strategy<Value = Vec<u8>> {
    let byte = any::<u8>().prop_map(|b| if b == 0 || b == b'/' { b'x' } else { b });
    prop_oneof![
        proptest::collection::vec(byte.clone(), 1..20),
        proptest::collection::vec(byte, NAME_MAX_BYTES - 2..=NAME_MAX_BYTES),
    ]
    .prop_filter("dots", |name| name != b"." && name != b"..")
}

fn without_nul(len: std::ops::RangeInclusive<usize>) -> impl Strategy<Value = Vec<u8>> {
    proptest::collection::vec(1u8.., len)
}

fn parts() -> impl Strategy<Value = Parts> {
    let names = (name(), name(), without_nul(1..=4095), without_nul(1..=255));
    let label = proptest::collection::vec(any::<u8>(), 1..=LABEL_MAX_BYTES);
    let numbers = (
        any::<[u8; 32]>(),
        any::<[u32; 5]>(),
        any::<u64>(),
        any::<bool>(),
    );
    let lists = (1..=MAX_FORGETS, 1..=MAX_REMOVEMAPPINGS, any::<[u64; 2]>()).prop_map(
        |(forgets, mappings, [a, b])| {
            let forget = |i| ForgetOne {
                nodeid: a ^ i as u64,
                nlookup: b,
            };
            let mapping = |i| RemovemappingOne {
                moffset: a,
                len: b ^ i as u64,
            };
            (
                (0..forgets).map(forget).collect::<Vec<_>>(),
                (0..mappings).map(mapping).collect::<Vec<_>>(),
            )
        },
    );
    let head = (1u64.., any::<u64>(), 0..u32::MAX, 0..u32::MAX, any::<u32>()).prop_map(
        |(unique, nodeid, uid, gid, pid)| Head {
            unique,
            nodeid,
            caller: Caller { uid, gid, pid },
        },
    );
    (names, label, numbers, lists, 0u8..6, head).prop_map(
        |(
            (name, new_name, target, xattr),
            label,
            (seed, n, wide, flag),
            (forgets, mappings),
            ext,
            head,
        )| {
            let mut bytes = [0; 128];
            bytes
                .chunks_mut(32)
                .for_each(|chunk| chunk.copy_from_slice(&seed));
            Parts {
                opcode: Opcode::Lookup,
                name,
                new_name,
                target,
                xattr,
                label,
                bytes,
                n,
                wide,
                flag,
                forgets,
                mappings,
                ext,
                head,
            }
        },
    )
}

impl Parts {
    fn arg<T: FromBytes>(&self) -> T {
        T::read_from_prefix(&self.bytes)
            .expect("128 bytes suffice")
            .0
    }

    /// Sizes of payloads small enough to append for real.
    fn size(&self) -> u32 {
        self.n[0] % 100
    }

    fn request(&self) -> Request<'_> {
        let name = Name::new(&self.name).unwrap();
        let new_name = Name::new(&self.new_name).unwrap();
        let xattr = XattrName::new(&self.xattr).unwrap();
        let [a, b, c, d, _] = self.n;
        let wide = self.wide;
        match self.opcode {
            Opcode::Lookup => Request::Lookup { name },
            Opcode::Forget => Request::Forget { nlookup: wide },
            Opcode::Getattr => Request::Getattr {
                fh: self.flag.then_some(wide),
            },
            Opcode::Setattr => Request::Setattr(self.arg()),
            Opcode::Readlink => Request::Readlink,
            Opcode::Symlink => Request::Symlink {
                name,
                target: Target::new(&self.target).unwrap(),
            },
            Opcode::Mknod => Request::Mknod {
                name,
                mode: a,
                rdev: b,
                umask: c,
            },
            Opcode::Mkdir => Request::Mkdir {
                name,
                mode: a,
                umask: b,
            },
            Opcode::Unlink => Request::Unlink { name },
            Opcode::Rmdir => Request::Rmdir { name },
            Opcode::Rename => Request::Rename {
                new_dir: wide,
                name,
                new_name,
            },
            Opcode::Link => Request::Link {
                old_node: wide,
                new_name,
            },
            Opcode::Open => Request::Open {
                flags: a,
                open_flags: b,
            },
            Opcode::Read => Request::Read(self.arg()),
            Opcode::Write => Request::Write(WriteIn {
                size: self.size(),
                ..self.arg()
            }),
            Opcode::Statfs => Request::Statfs,
            Opcode::Release => Request::Release(self.arg()),
            Opcode::Fsync => Request::Fsync(self.arg()),
            Opcode::Setxattr => Request::Setxattr {
                name: xattr,
                size: self.size(),
                flags: a,
                setxattr_flags: if self.flag { b } else { 0 },
                ext: self.flag,
            },
            Opcode::Getxattr => Request::Getxattr {
                name: xattr,
                size: a,
            },
            Opcode::Listxattr => Request::Listxattr { size: a },
            Opcode::Removexattr => Request::Removexattr { name: xattr },
            Opcode::Flush => Request::Flush(self.arg()),
            Opcode::Init => Request::Init(self.arg()),
            Opcode::Opendir => Request::Opendir {
                flags: a,
                open_flags: b,
            },
            Opcode::Readdir => Request::Readdir(self.arg()),
            Opcode::Releasedir => Request::Releasedir(self.arg()),
            Opcode::Fsyncdir => Request::Fsyncdir(self.arg()),
            Opcode::Getlk => Request::Getlk(self.arg()),
            Opcode::Setlk => Request::Setlk(self.arg()),
            Opcode::Setlkw => Request::Setlkw(self.arg()),
            Opcode::Access => Request::Access { mask: a },
            Opcode::Create => Request::Create {
                name,
                flags: a,
                mode: b,
                umask: c,
                open_flags: d,
            },
            Opcode::Interrupt => Request::Interrupt { unique: wide },
            Opcode::Bmap => Request::Bmap(self.arg()),
            Opcode::Destroy => Request::Destroy,
            Opcode::Ioctl => Request::Ioctl(IoctlIn {
                in_size: self.size(),
                ..self.arg()
            }),
            Opcode::Poll => Request::Poll(self.arg()),
            Opcode::NotifyReply => Request::NotifyReply(NotifyRetrieveIn {
                size: self.size(),
                ..self.arg()
            }),
            Opcode::BatchForget => Request::BatchForget(&self.forgets),
            Opcode::Fallocate => Request::Fallocate(self.arg()),
            Opcode::Readdirplus => Request::Readdirplus(self.arg()),
            Opcode::Rename2 => Request::Rename2 {
                new_dir: wide,
                flags: a,
                name,
                new_name,
            },
            Opcode::Lseek => Request::Lseek(self.arg()),
            Opcode::CopyFileRange => Request::CopyFileRange(self.arg()),
            Opcode::Setupmapping => Request::Setupmapping(self.arg()),
            Opcode::Removemapping => Request::Removemapping(&self.mappings),
            Opcode::Syncfs => Request::Syncfs,
            Opcode::Tmpfile => Request::Tmpfile {
                flags: a,
                mode: b,
                umask: c,
                open_flags: d,
            },
            Opcode::Statx => Request::Statx(self.arg()),
            Opcode::CopyFileRange64 => Request::CopyFileRange64(self.arg()),
            Opcode::CuseInit => Request::CuseInit(self.arg()),
        }
    }

    fn extensions(&self) -> Extensions<'_> {
        let creates = [
            Opcode::Mknod,
            Opcode::Mkdir,
            Opcode::Symlink,
            Opcode::Create,
            Opcode::Tmpfile,
        ];
        if !creates.contains(&self.opcode) {
            return Extensions::default();
        }
        let label = SecurityContext::Label {
            name: XattrName::new(&self.xattr).unwrap(),
            value: &self.label,
        };
        Extensions {
            secctx: [
                SecurityContext::NotNegotiated,
                SecurityContext::Unlabelled,
                label,
            ][usize::from(self.ext % 3)],
            supp_groups: (self.ext >= 3).then_some(self.n[4].min(u32::MAX - 1)),
        }
    }
}

/// A message buffer aligned as heap and slot memory are.
#[derive(FromZeros)]
#[repr(C, align(8))]
struct Buffer([u8; MAX_HEAD_BYTES + 128]);

proptest! {
    // Every case tries every opcode.
    #![proptest_config(ProptestConfig { cases: ProptestConfig::default().cases / 4, ..ProptestConfig::default() })]

    #[test]
    fn encode_then_parse_is_identity(mut parts in parts()) {
        for &opcode in Opcode::ALL {
            parts.opcode = opcode;
            comes_back(&parts)?;
        }
    }

    #[test]
    fn a_short_buffer_is_refused_with_the_need(mut parts in parts(), cut in any::<prop::sample::Index>()) {
        for &opcode in Opcode::ALL {
            parts.opcode = opcode;
            let (request, ext) = (parts.request(), parts.extensions());
            let mut buffer = Buffer::new_zeroed();
            let need_bytes = request.encode(&parts.head, &ext, &mut buffer.0).unwrap();
            prop_assert!(need_bytes <= MAX_HEAD_BYTES);
            let have_bytes = cut.index(need_bytes);
            let error = request.encode(&parts.head, &ext, &mut buffer.0[..have_bytes]).unwrap_err();
            prop_assert_eq!(error, EncodeError::BufferTooSmall { need_bytes, have_bytes });
        }
    }
}

fn comes_back(parts: &Parts) -> Result<(), TestCaseError> {
    let (request, ext) = (parts.request(), parts.extensions());
    prop_assert_eq!(request.opcode(), parts.opcode);
    let mut buffer = Buffer::new_zeroed();
    let len = request
        .encode(&parts.head, &ext, &mut buffer.0[..MAX_HEAD_BYTES])
        .unwrap();
    let payload_bytes = request.payload_out_bytes() as usize;
    buffer.0[len..len + payload_bytes].fill(0xa5);

    let header = InHeader::read_from_prefix(&buffer.0).unwrap().0;
    prop_assert_eq!(header.len as usize, len + payload_bytes);
    let Head {
        unique,
        nodeid,
        caller,
    } = parts.head;
    prop_assert_eq!(
        (header.unique, header.nodeid, header.padding),
        (unique, nodeid, 0)
    );
    prop_assert_eq!(
        Caller {
            uid: header.uid,
            gid: header.gid,
            pid: header.pid
        },
        caller
    );
    // From the head alone to the whole message, everything is understood and the same.
    for end in [len, len + payload_bytes / 2, len + payload_bytes] {
        prop_assert_eq!(
            Request::parse(&buffer.0[..end]).unwrap(),
            (header, request, ext)
        );
    }
    // No part of a head is a head, and no byte may follow the message.
    for end in (0..len)
        .rev()
        .take(64)
        .chain([0, 16, 39, 40].into_iter().filter(|&end| end < len))
    {
        prop_assert!(
            Request::parse(&buffer.0[..end]).is_err(),
            "{} of {} bytes",
            end,
            len
        );
    }
    prop_assert!(Request::parse(&buffer.0[..len + payload_bytes + 1]).is_err());
    // A wrong length in the header is noticed.
    for wrong in [header.len - 1, header.len + 1, header.len + 8, 0, u32::MAX] {
        buffer.0[..4].copy_from_slice(&wrong.to_ne_bytes());
        prop_assert!(
            Request::parse(&buffer.0[..len]).is_err(),
            "length {}",
            wrong
        );
    }
    Ok(())
}

/// Sizes written down by hand from the protocol, not from our structures.
#[test]
fn reply_room_is_what_a_daemon_needs() {
    let name = Name::new(b"n").unwrap();
    let xattr = XattrName::new(b"user.a").unwrap();
    let read = ReadIn {
        size: 4096,
        ..ReadIn::default()
    };
    let ioctl = IoctlIn {
        out_size: 64,
        ..IoctlIn::default()
    };
    for (request, head_bytes, payload_max_bytes) in [
        (Request::Lookup { name }, 144, 0),
        (Request::Forget { nlookup: 1 }, 0, 0),
        (Request::BatchForget(&[]), 0, 0),
        (Request::NotifyReply(NotifyRetrieveIn::default()), 0, 0),
        (Request::Interrupt { unique: 2 }, 16, 0),
        (Request::Getattr { fh: None }, 120, 0),
        (Request::Readlink, 16, 4095),
        (
            Request::Open {
                flags: 0,
                open_flags: 0,
            },
            32,
            0,
        ),
        (
            Request::Create {
                name,
                flags: 0,
                mode: 0,
                umask: 0,
                open_flags: 0,
            },
            160,
            0,
        ),
        (Request::Read(read), 16, 4096),
        (Request::Readdirplus(read), 16, 4096),
        (Request::Write(WriteIn::default()), 24, 0),
        (Request::Statfs, 96, 0),
        (Request::Init(InitIn::default()), 80, 0),
        (
            Request::Getxattr {
                name: xattr,
                size: 0,
            },
            24,
            0,
        ),
        (
            Request::Getxattr {
                name: xattr,
                size: 100,
            },
            16,
            100,
        ),
        (Request::Listxattr { size: 0 }, 24, 0),
        (Request::Listxattr { size: 100 }, 16, 100),
        (Request::Getlk(LkIn::default()), 40, 0),
        (Request::Setlk(LkIn::default()), 16, 0),
        (Request::Ioctl(ioctl), 32, 64),
        (Request::Lseek(LseekIn::default()), 24, 0),
        (Request::CopyFileRange(CopyFileRangeIn::default()), 24, 0),
        (Request::Statx(StatxIn::default()), 304, 0),
        (Request::CuseInit(CuseInitIn::default()), 88, 4096),
        (Request::Unlink { name }, 16, 0),
        (Request::Destroy, 16, 0),
    ] {
        assert_eq!(
            request.reply(),
            ReplyShape {
                head_bytes,
                payload_max_bytes
            },
            "{request:?}"
        );
        assert!(head_bytes as usize <= MAX_REPLY_HEAD_BYTES);
    }
}

fn encode(request: &Request<'_>, head: &Head, ext: &Extensions<'_>) -> Result<usize, EncodeError> {
    request.encode(head, ext, &mut [0; MAX_HEAD_BYTES])
}

fn head(unique: u64) -> Head {
    Head {
        unique,
        nodeid: 1,
        caller: Caller::default(),
    }
}

#[test]
fn what_daemons_die_of_is_refused() {
    let none = Extensions::default();
    assert_eq!(
        encode(&Request::Statfs, &head(0), &none),
        Err(EncodeError::ZeroUnique(Opcode::Statfs))
    );
    assert_eq!(
        encode(&Request::Forget { nlookup: 1 }, &head(0), &none),
        Ok(48)
    );
    for caller in [
        Caller {
            uid: u32::MAX,
            gid: 0,
            pid: 0,
        },
        Caller {
            uid: 0,
            gid: u32::MAX,
            pid: 0,
        },
    ] {
        let head = Head { caller, ..head(2) };
        assert_eq!(
            encode(&Request::Statfs, &head, &none),
            Err(EncodeError::InvalidId)
        );
    }
    let group = Extensions {
        supp_groups: Some(5),
        ..none
    };
    assert_eq!(
        encode(&Request::Statfs, &head(2), &group),
        Err(EncodeError::UnexpectedExtension(Opcode::Statfs))
    );
    let mkdir = Request::Mkdir {
        name: Name::new(b"d").unwrap(),
        mode: 0o755,
        umask: 0o22,
    };
    let nobody = Extensions {
        supp_groups: Some(u32::MAX),
        ..none
    };
    assert_eq!(
        encode(&mkdir, &head(2), &nobody),
        Err(EncodeError::InvalidId)
    );
    for len in [0, LABEL_MAX_BYTES + 1] {
        let value = vec![1; len];
        let name = XattrName::new(b"security.selinux").unwrap();
        let ext = Extensions {
            secctx: SecurityContext::Label {
                name,
                value: &value,
            },
            ..none
        };
        assert_eq!(
            encode(&mkdir, &head(2), &ext),
            Err(EncodeError::LabelLength(len))
        );
    }
    for len in [0, MAX_FORGETS + 1] {
        let nodes = vec![ForgetOne::default(); len];
        let error = encode(&Request::BatchForget(&nodes), &head(2), &none).unwrap_err();
        assert_eq!(
            error,
            EncodeError::ListLength {
                opcode: Opcode::BatchForget,
                len,
                max: MAX_FORGETS
            }
        );
    }
    let write = Request::Write(WriteIn {
        size: u32::MAX - 79,
        ..WriteIn::default()
    });
    assert_eq!(
        encode(&write, &head(2), &none),
        Err(EncodeError::PayloadTooLarge(u32::MAX - 79))
    );
    let name = XattrName::new(b"user.a").unwrap();
    let compat = Request::Setxattr {
        name,
        size: 1,
        flags: 0,
        setxattr_flags: 1,
        ext: false,
    };
    assert_eq!(
        encode(&compat, &head(2), &none),
        Err(EncodeError::SetxattrFlags)
    );
}

/// The bytes themselves, so that encoder and parser cannot be wrong together.
#[test]
fn mkdir_with_extensions_byte_by_byte() {
    let request = Request::Mkdir {
        name: Name::new(b"dir").unwrap(),
        mode: 0o755,
        umask: 0o22,
    };
    let head = Head {
        unique: 6,
        nodeid: 3,
        caller: Caller {
            uid: 1000,
            gid: 1001,
            pid: 77,
        },
    };
    let ext = Extensions {
        secctx: SecurityContext::Unlabelled,
        supp_groups: Some(44),
    };
    let mut buf = [0xee; 128];
    let len = request.encode(&head, &ext, &mut buf).unwrap();
    let mut want = Vec::new();
    for word in [76u32, 9] {
        want.extend(word.to_ne_bytes());
    }
    for wide in [6u64, 3] {
        want.extend(wide.to_ne_bytes());
    }
    for word in [1000u32, 1001, 77] {
        want.extend(word.to_ne_bytes());
    }
    for half in [3u16, 0] {
        want.extend(half.to_ne_bytes());
    }
    for word in [0o755u32, 0o22] {
        want.extend(word.to_ne_bytes());
    }
    want.extend(b"dir\0");
    for word in [8u32, 0, 16, 32, 1, 44] {
        want.extend(word.to_ne_bytes());
    }
    assert_eq!(&buf[..len], &want[..]);
    assert_eq!(buf[len], 0xee);
}

#[test]
fn names_are_checked() {
    assert_eq!(Name::new(b""), Err(NameError::Empty));
    assert_eq!(Name::new(b"."), Err(NameError::Dots));
    assert_eq!(Name::new(b".."), Err(NameError::Dots));
    assert_eq!(Name::new(b"a/b"), Err(NameError::Slash(1)));
    assert_eq!(Name::new(b"ab\0"), Err(NameError::Nul(2)));
    assert!(Name::new(b"...").is_ok());
    assert!(Name::new(&[0xff; NAME_MAX_BYTES]).is_ok());
    let long = Name::new(&[b'a'; NAME_MAX_BYTES + 1]).unwrap_err();
    assert_eq!(long.errno(), 36);
    assert_eq!(NameError::Empty.errno(), 2);
    assert_eq!(NameError::Dots.errno(), 22);
    assert!(Target::new(b"../a/./b").is_ok());
    assert!(Target::new(&[b'a'; 4096]).is_err());
    assert!(Target::new(b"").is_err());
    assert!(XattrName::new(&[b'a'; 256]).is_err());
    assert!(XattrName::new(b"").is_err());
    assert_eq!(Name::new(b"a\x1b[31m").unwrap().to_string(), "a\\x1b[31m");
}

#[test]
fn opcodes_know_their_age() {
    for &opcode in Opcode::ALL {
        assert_eq!(Opcode::try_from(opcode as u32), Ok(opcode));
    }
    for unused in [0, 7, 19, 54, 4095, 4097, u32::MAX] {
        assert_eq!(Opcode::try_from(unused), Err(UnknownOpcode(unused)));
    }
    assert_eq!(Opcode::ALL.len(), 52);
    assert_eq!(Opcode::Rename2.since_minor(), 23);
    assert_eq!(Opcode::CopyFileRange64.to_string(), "COPY_FILE_RANGE_64");
}
