//! A client whose peer answers whatever comes to its mind, and tells it things.
//!
//! The input is a list of what the peer does with one request each: it answers properly, with an
//! errno, or with any bytes. Whatever that is, no call panics or hangs, and in the end the client
//! holds nothing.

#![no_main]

use fusewire::{Access, Allocate, Client, LockKind, OpenOptions, Result, SetXattr, Timeouts};
use fusewire_server::mem::{MemOptions, Memory};
use fusewire_server::scripted::{Action, ScriptedPeer, Seen, start};
use fusewire_server::{Caching, Errno, ServerOptions};
use fusewire_sync::thread::live;
use fusewire_transport::InProcOptions;
use fusewire_wire::Opcode;
use fusewire_wire::abi::{Attr, Dirent, EntryOut, OutHeader, StatfsOut, StatxOut};
use libfuzzer_sys::fuzz_target;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use zerocopy::IntoBytes;

/// Most entries of one listing that are looked at: it may have no end.
const ENTRIES: usize = 50;

type Calls = &'static [fn(&Client) -> Result<()>];

const CALLS: Calls = &[
    |c| c.metadata("/dir/file").map(drop),
    |c| c.metadata("/link/x").map(drop),
    |c| {
        let mut entries = c.walk("/").into_iter().take(ENTRIES);
        entries.try_for_each(|entry| entry.map(drop))
    },
    |c| c.write("/dir/new", b"text"),
    |c| c.read_link("/link").map(drop),
    |c| {
        let mut options = OpenOptions::new();
        let file = options.read(true).write(true).open(c, "/dir/file")?;
        file.read_at(&mut [0; 5000], 0)?;
        file.write_at(&[7; 5000], 100)?;
        file.seek_data(0)?;
        file.allocate(0, 100, Allocate::Zero)?;
        file.lock_range(0..5, LockKind::Write)?;
        file.test_lock_range(.., LockKind::Write)?;
        let _ = file.try_lock();
        file.ioctl(0xc004_0001, &mut [1; 4])?;
        file.bmap(0, 512)?;
        file.created()?;
        file.sync_all()?;
        file.close()
    },
    |c| c.get_xattr("/dir/file", "user.a").map(drop),
    |c| c.list_xattr("/dir/file").map(drop),
    |c| c.set_xattr("/dir/file", "user.b", b"2", SetXattr::Any),
    |c| c.access("/dir", Access::WRITE),
    |c| c.copy("/dir/file", "/copy").map(drop),
    |c| c.hard_link("/dir/file", "/hard"),
    |c| c.rename("/dir/file", "/dir/other"),
    |c| c.truncate("/dir/other", 9),
    |c| c.statfs("/").map(drop),
    |c| c.create_dir_all("/a/b"),
    |c| c.remove_file("/dir/other"),
    |c| c.remove_dir("/dir"),
    |c| c.sync_dir("/"),
];

/// What the peer does with one request: 8 bytes of the input.
#[derive(Clone, Copy)]
struct Whim<'a> {
    kind: u8,
    at: u8,
    value: &'a [u8; 6],
}

impl<'a> Whim<'a> {
    fn of(input: &'a [u8]) -> impl Iterator<Item = Whim<'a>> {
        input.chunks_exact(8).filter_map(|chunk| {
            let ([kind, at], value) = chunk.split_first_chunk()?;
            Some(Whim {
                kind: *kind,
                at: *at,
                value: value.try_into().ok()?,
            })
        })
    }

    fn action(self, opcode: Opcode) -> Action {
        match self.kind {
            0..=63 => Action::Answer,
            64..=95 => Action::Errno(Errno::from_raw_os_error(1 + i32::from(self.at))),
            _ => Action::Body(self.change(likely_body(opcode, self.value[0]))),
        }
    }

    /// A notification, or something like it.
    fn message(self) -> Vec<u8> {
        let body = self.change(vec![0; 16 + usize::from(self.kind % 5) * 8]);
        let header = OutHeader {
            len: 16 + body.len() as u32,
            error: i32::from(self.kind % 10),
            unique: 0,
        };
        [header.as_bytes(), &body].concat()
    }

    /// Puts the value somewhere, or makes the body longer or shorter.
    fn change(self, mut body: Vec<u8>) -> Vec<u8> {
        let at = usize::from(self.at) % (body.len() + 1);
        match self.kind % 8 {
            0 => body.truncate(at),
            1 => body.extend_from_slice(self.value),
            _ => {
                let len = self.value.len().min(body.len() - at);
                body[at..at + len].copy_from_slice(&self.value[..len]);
            }
        }
        body
    }
}

fn likely_entry(which: u8) -> EntryOut {
    EntryOut {
        nodeid: 2 + u64::from(which % 8),
        entry_valid: u64::from(which & 1),
        attr: Attr {
            mode: [0o040_755, 0o100_644, 0o120_777][usize::from(which) % 3],
            ..Attr::default()
        },
        ..EntryOut::default()
    }
}

/// A body of the right size, as a rule.
fn likely_body(opcode: Opcode, which: u8) -> Vec<u8> {
    let entry = likely_entry(which);
    let name = [b"file    ", b"dir     ", b"..      "][usize::from(which) % 3];
    let dirent = Dirent {
        ino: entry.nodeid,
        off: 1 + u64::from(which),
        namelen: [4, 3, 2][usize::from(which) % 3],
        typ: 8,
    };
    match opcode {
        Opcode::Lookup | Opcode::Mkdir | Opcode::Mknod | Opcode::Symlink | Opcode::Link => {
            entry.as_bytes().to_vec()
        }
        Opcode::Create | Opcode::Tmpfile => [entry.as_bytes(), &[0; 16]].concat(),
        Opcode::Readdirplus => [entry.as_bytes(), dirent.as_bytes(), name].concat(),
        Opcode::Readdir => [dirent.as_bytes(), name].concat(),
        Opcode::Readlink => b"dir/file".to_vec(),
        Opcode::Getattr | Opcode::Setattr => [&[0; 16], entry.attr.as_bytes()].concat(),
        Opcode::Statx => vec![0; size_of::<StatxOut>()],
        Opcode::Statfs => vec![0; size_of::<StatfsOut>()],
        Opcode::Read => vec![which; usize::from(which)],
        Opcode::Getlk => vec![0; 24],
        Opcode::Open | Opcode::Opendir | Opcode::Ioctl => vec![0; 16],
        Opcode::Write
        | Opcode::Lseek
        | Opcode::CopyFileRange
        | Opcode::CopyFileRange64
        | Opcode::Getxattr
        | Opcode::Listxattr
        | Opcode::Poll
        | Opcode::Bmap => u64::from(which).to_ne_bytes().to_vec(),
        _ => Vec::new(),
    }
}

/// What the peer answers, once it has begun to.
#[derive(Default)]
struct Answers {
    begun: bool,
    whims: Vec<u8>,
    next: usize,
}

impl Answers {
    fn action(&mut self, opcode: Opcode) -> Action {
        // Without an answer to these there is no connection, and no end of one.
        let none = [Opcode::Init, Opcode::Destroy, Opcode::Forget];
        if !self.begun || none.contains(&opcode) {
            return Action::Answer;
        }
        let whims = self.whims.get(self.next..).unwrap_or_default();
        let whim = Whim::of(whims).next();
        self.next += 8;
        whim.map_or(Action::Answer, |whim| whim.action(opcode))
    }
}

fn connect(
    script: impl Fn(&Seen) -> Action + Send + Sync + 'static,
) -> (Client, ScriptedPeer<Memory>) {
    let fs = Memory::new(MemOptions {
        caching: Caching::always(),
        ..MemOptions::default()
    });
    let options = ServerOptions {
        connection: InProcOptions {
            arena_bytes: 2 << 20,
            queue_size: 8,
        },
        ..ServerOptions::default()
    };
    let (transport, peer) = start(fs, script, &options).expect("a connection");
    let builder = Client::builder().timeouts(Timeouts {
        metadata: Some(Duration::from_secs(5)),
        data: Some(Duration::from_secs(5)),
    });
    (builder.connect(transport).expect("a client"), peer)
}

fuzz_target!(|input: &[u8]| {
    // What the peer says on its own, then what it answers.
    let (messages, whims) = input.split_at(input.len() / 32 * 8);
    let answers = Arc::new(Mutex::new(Answers {
        whims: whims.to_vec(),
        ..Answers::default()
    }));
    let locked = || answers.lock().expect("no panic");
    let script = {
        let answers = Arc::clone(&answers);
        move |seen: &Seen| {
            seen.opcode.map_or(Action::Answer, |opcode| {
                answers.lock().expect("no panic").action(opcode)
            })
        }
    };
    let (client, peer) = connect(script);
    client.create_dir("/dir").expect("a proper answer");
    client
        .write("/dir/file", [1; 9000])
        .expect("a proper answer");
    client.symlink("dir", "/link").expect("a proper answer");
    client.drop_caches();
    locked().begun = true;
    let mut messages = Whim::of(messages);
    for call in CALLS {
        let _ = call(&client);
        if let Some(message) = messages.next() {
            let _ = peer.device().tell(&message.message());
        }
    }
    locked().begun = false;
    while client.stats().engine.orphans > 0 {
        std::thread::yield_now();
    }
    client.drop_caches();
    let stats = client.stats();
    let held = (stats.live_nodes, stats.open_handles, stats.frames_used);
    assert_eq!(held, (1, 0, 0));
    client.shutdown().expect("it has not ended");
    drop(peer);
    assert_eq!(live(), 0);
});
