//! Answers that are rewritten when they are there already.

use crate::harness::{Setup, alone, connect, count, ends_clean};
use crate::rings::{garbage, tags};
use fusewire::{Client, OpenOptions, SetXattr};
use fusewire_mem::Arena;
use fusewire_server::mem::{MemOptions, Memory};
use fusewire_server::scripted::{Rules, ScriptedPeer, start};
use fusewire_server::{Caching, Errno, ServerOptions};
use fusewire_transport::DeviceQueueId::Request;
use fusewire_transport::{
    Completion, Death, InProcess, Inbox, Limits, PeerFault, RawDevice, SharedPart, Submission,
    SubmitError, Transport,
};
use fusewire_wire::Opcode;
use std::ffi::OsString;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};

type Garbage = fn(usize) -> Vec<u8>;

/// Rewrites the used entries and the heads of all replies. Nothing may be in flight.
fn rewrite_answers(raw: &RawDevice, garbage: Garbage) {
    let used = raw.shared(SharedPart::Used(Request));
    // Not how many there are, and not when the device wants a kick.
    let entries = used.slice(4, used.len() - 6);
    entries.copy_from(&garbage(entries.len()));
    for tag in tags(raw) {
        let head = raw.shared(SharedPart::ReplyHead(tag));
        head.copy_from(&garbage(head.len()));
    }
}

/// A client's end whose peer rewrites every answer as soon as the client has begun to take it.
struct Rewritten {
    inner: InProcess,
    peer: Weak<ScriptedPeer<Memory>>,
    garbage: Garbage,
}

impl std::fmt::Debug for Rewritten {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.inner.fmt(f)
    }
}

impl Transport for Rewritten {
    fn reap(&self, sink: &mut dyn FnMut(Completion<'_>)) -> Result<usize, PeerFault> {
        self.inner.reap(&mut |completion| {
            if let Some(peer) = self.peer.upgrade() {
                rewrite_answers(peer.device().raw(), self.garbage);
            }
            sink(completion);
        })
    }

    fn limits(&self) -> Limits {
        self.inner.limits()
    }
    fn arena(&self) -> &fusewire_sync::Arc<Arena> {
        self.inner.arena()
    }
    fn submit(&self, request: &Submission<'_>) -> Result<(), SubmitError> {
        self.inner.submit(request)
    }
    fn submit_oneway(&self, head: &[u8]) -> Result<(), SubmitError> {
        self.inner.submit_oneway(head)
    }
    fn kick(&self) {
        self.inner.kick();
    }
    fn wait(&self) {
        self.inner.wait();
    }
    fn wake(&self) {
        self.inner.wake();
    }
    fn listen(&self, inbox: fusewire_sync::Weak<dyn Inbox>) {
        self.inner.listen(inbox);
    }
    fn watch(&self) -> Death {
        self.inner.watch()
    }
    fn close(&self) {
        self.inner.close();
    }
}

#[test]
fn an_answer_counts_as_it_was_when_it_came() {
    let _alone = alone();
    for garbage in garbage() {
        let options = ServerOptions::default();
        let fs = Memory::new(MemOptions::default());
        let (inner, peer) = start(fs, Rules::new(), &options).unwrap();
        let peer = Arc::new(peer);
        let transport = Rewritten {
            inner,
            peer: Arc::downgrade(&peer),
            garbage,
        };
        let client = Client::builder().umask(0o022).connect(transport).unwrap();
        // One call at a time, and no RELEASE: else an answer to come would be rewritten, too.
        client.symlink("there", "/link").unwrap();
        let mut options = OpenOptions::new();
        options.read(true).write(true).create(true);
        let file = options.open(&client, "/file").unwrap();
        for n in 0..20_u32 {
            let bytes = vec![n as u8; 5000 + n as usize];
            assert_eq!(file.write_at(&bytes, 0).unwrap(), bytes.len());
            let mut back = vec![0; 9000];
            assert_eq!(file.read_at(&mut back, 0).unwrap(), bytes.len());
            assert!(back.starts_with(&bytes));
            assert_eq!(client.metadata("/file").unwrap().len(), bytes.len() as u64);
            assert_eq!(client.read_link("/link").unwrap().as_os_str(), "there");
            let name = format!("user.{n}");
            client
                .set_xattr("/file", &name, b"value", SetXattr::Any)
                .unwrap();
            let value = client.get_xattr("/file", &name).unwrap();
            assert_eq!(value.as_deref(), Some(&b"value"[..]));
            assert!(client.statfs("/").is_ok());
            assert!(!client.exists("/absent").unwrap());
        }
        drop(file);
        crate::harness::settled(&client);
        client.clone().shutdown().unwrap();
        assert_eq!(client.ended().as_deref(), Some("the client was shut down"));
        drop(peer);
    }
}

/// What has been taken is the client's own, whatever becomes of the memory that it came through.
#[test]
fn what_has_been_read_stays_what_it_was() {
    let _alone = alone();
    for garbage in garbage() {
        let setup = Setup {
            caching: Caching::always(),
            ..Setup::default()
        };
        let (client, peer) = connect(&setup, Rules::new());
        let names: Vec<_> = (0..8_u32).map(|n| OsString::from(n.to_string())).collect();
        for (n, name) in names.iter().enumerate() {
            client.write(name, vec![7; n]).unwrap();
        }
        let (first, value) = (&names[0], vec![9; 3000]);
        client
            .set_xattr(first, "user.a", &value, SetXattr::Any)
            .unwrap();
        client.drop_caches();
        crate::harness::settled(&client);

        let attribute = client.get_xattr(first, "user.a").unwrap();
        let mut listing = client.read_dir("/").unwrap();
        let mut seen = vec![listing.next().unwrap().unwrap().file_name().to_owned()];
        let raw = peer.device().raw();
        rewrite_answers(raw, garbage);
        let arena = raw.shared(SharedPart::Arena);
        arena.copy_from(&garbage(arena.len()));
        seen.extend(listing.map(|entry| entry.unwrap().file_name().to_owned()));
        seen.sort();
        assert_eq!(seen, names);
        assert!(attribute == Some(value));
        let asked = count(&peer, Opcode::Lookup) + count(&peer, Opcode::Getattr);
        for (n, name) in names.iter().enumerate() {
            assert_eq!(client.metadata(name).unwrap().len(), n as u64);
        }
        let asked_now = count(&peer, Opcode::Lookup) + count(&peer, Opcode::Getattr);
        assert_eq!(asked, asked_now, "attributes came with the listing");
        ends_clean(client, peer, "what has been read");
    }
}

/// How often each of two answers has to be met: a client that reads twice meets both in one call
/// well before, on a busy machine too.
const ROUNDS: u32 = 3000;

/// Where `marker` lies in memory.
fn places(raw: &RawDevice, marker: &[u8]) -> Vec<usize> {
    let arena = raw.shared(SharedPart::Arena).to_vec();
    let first = marker[0];
    let begins = arena.iter().enumerate().filter(|(_, byte)| **byte == first);
    begins
        .map(|(at, _)| at)
        .filter(|at| arena[*at..].starts_with(marker))
        .collect()
}

/// Makes a call whose answer alternates between a good and an impossible one while it is taken,
/// until both have been met several times. `call` says whether its result was the good one, and
/// knows no third.
fn alternates(client: &Client, raw: &RawDevice, marker: &[u8], bad: u8, call: fn(&Client) -> bool) {
    assert!(call(client));
    let at: Vec<_> = places(raw, marker)
        .into_iter()
        .map(|at| at + marker.len() - 1)
        .collect();
    assert!(!at.is_empty());
    let good = *marker.last().unwrap();
    let over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let arena = raw.shared(SharedPart::Arena);
            while !over.load(Ordering::Relaxed) {
                for byte in [bad, good] {
                    for at in &at {
                        arena.slice(*at, 1).copy_from(&[byte]);
                    }
                }
            }
        });
        // Also when a call panics.
        let _over = SetOnDrop(&over);
        let mut met = [0_u32; 2];
        while met.iter().any(|times| *times < ROUNDS) {
            met[usize::from(call(client))] += 1;
        }
    });
}

struct SetOnDrop<'a>(&'a AtomicBool);

impl Drop for SetOnDrop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

const LONG: &str = "a-marker-of-which-there-is-no-other-in-all-of-the-memory-that-both-sides-have-";

#[test]
fn an_answer_that_changes_while_it_is_read_is_one_or_the_other() {
    let _alone = alone();
    let (client, peer) = connect(&Setup::default(), Rules::new());
    let raw = peer.device().raw();
    client.create_dir("/dir").unwrap();
    client.symlink(LONG.repeat(40), "/dir/link").unwrap();
    client.create_dir("/names").unwrap();
    client.write(format!("/names/{LONG}"), b"").unwrap();
    crate::harness::settled(&client);

    // A target with a NUL is none.
    let target = LONG.repeat(40);
    alternates(&client, raw, target.as_bytes(), 0, |client| {
        match client.read_link("/dir/link") {
            Ok(found) => {
                assert!(found.as_os_str() == LONG.repeat(40).as_str(), "a third");
                true
            }
            Err(error) => {
                assert_eq!(error.errno(), Errno::IO.raw_os_error(), "{error}");
                false
            }
        }
    });
    // A name with a slash is none.
    alternates(&client, raw, LONG.as_bytes(), b'/', |client| {
        let found: fusewire::Result<Vec<_>> = client.read_dir("/names").unwrap().collect();
        match found {
            Ok(entries) => {
                let names: Vec<_> = entries.iter().map(|entry| entry.file_name()).collect();
                assert_eq!(names, [LONG]);
                true
            }
            Err(error) => {
                assert_eq!(error.errno(), Errno::IO.raw_os_error(), "{error}");
                false
            }
        }
    });
    crate::harness::lets_go(client, peer, "alternating answers");
}
