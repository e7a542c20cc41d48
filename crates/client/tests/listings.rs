//! Listings that the daemon allows to be cached.

use fusewire::Client;
use fusewire_server::mem::{MemOptions, Memory};
use fusewire_server::scripted::{Action, Rules, ScriptedPeer, start};
use fusewire_server::{CacheMode, Caching, Errno, ServerOptions, Usage};
use fusewire_wire::Opcode;
use fusewire_wire::abi::{NotifyInvalInodeOut, OutHeader};
use std::ffi::OsString;
use zerocopy::IntoBytes;

type Peer = ScriptedPeer<Memory>;

fn connect(mode: CacheMode, rules: Rules) -> (Client, Peer) {
    let fs = Memory::new(MemOptions {
        caching: Caching {
            mode,
            ..Caching::always()
        },
        ..MemOptions::default()
    });
    let (transport, peer) = start(fs, rules, &ServerOptions::default()).unwrap();
    let client = Client::builder().connect(transport).unwrap();
    client.create_dir("/dir").unwrap();
    for n in 0..3000 {
        client.write(format!("/dir/{n:04}"), b"").unwrap();
    }
    (client, peer)
}

fn requests(peer: &Peer) -> usize {
    let log = peer.log();
    let reads = [Some(Opcode::Readdir), Some(Opcode::Readdirplus)];
    log.iter()
        .filter(|seen| reads.contains(&seen.opcode))
        .count()
}

fn names(client: &Client) -> Vec<OsString> {
    let entries = client.read_dir("/dir").unwrap();
    entries.map(|entry| entry.unwrap().file_name()).collect()
}

fn ends_clean(client: Client, peer: Peer) {
    while client.stats().engine.orphans > 0 {
        std::thread::yield_now();
    }
    client.drop_caches();
    client.shutdown().unwrap();
    assert_eq!(peer.join(), Usage::default());
}

#[test]
fn a_listing_is_read_once_until_something_changes() {
    let (client, peer) = connect(CacheMode::Always, Rules::new());
    let first = names(&client);
    let read = requests(&peer);
    assert_eq!(first.len(), 3000);
    assert!(read > 1);
    assert_eq!(names(&client), first);
    assert_eq!(requests(&peer), read);
    // Types are known, and everything can be looked at.
    for entry in client.read_dir("/dir").unwrap().take(10) {
        let entry = entry.unwrap();
        assert!(entry.file_type().unwrap().is_file());
        assert!(entry.metadata().unwrap().is_file());
    }
    assert_eq!(requests(&peer), read);
    // From any place in it.
    let mut stream = client.read_dir("/dir").unwrap();
    let middle = stream.nth(1499).unwrap().unwrap().next_offset();
    stream.seek(middle);
    assert_eq!(stream.count(), 1500);
    assert_eq!(requests(&peer), read);
    // Our own changes are seen at once.
    client.remove_file("/dir/0000").unwrap();
    assert_eq!(names(&client).len(), 2999);
    let again = requests(&peer);
    assert!(again > read);
    assert_eq!(names(&client).len(), 2999);
    assert_eq!(requests(&peer), again);
    client.write("/dir/new", b"").unwrap();
    assert_eq!(names(&client).len(), 3000);
    assert!(requests(&peer) > again);
    ends_clean(client, peer);
}

#[test]
fn a_listing_that_the_daemon_calls_stale_is_read_again() {
    let (client, peer) = connect(CacheMode::Always, Rules::new());
    let first = names(&client);
    let read = requests(&peer);
    let body = NotifyInvalInodeOut {
        ino: client.metadata("/dir").unwrap().ino(),
        off: 0,
        len: 0,
    };
    let header = OutHeader {
        len: (size_of::<OutHeader>() + body.as_bytes().len()) as u32,
        error: 2,
        unique: 0,
    };
    let message = [header.as_bytes(), body.as_bytes()].concat();
    peer.device().tell(&message).unwrap();
    assert_eq!(names(&client), first);
    assert_eq!(requests(&peer), 2 * read);
    ends_clean(client, peer);
}

#[test]
fn a_listing_is_cached_only_when_whole_and_allowed() {
    // Not allowed.
    let (client, peer) = connect(CacheMode::Auto, Rules::new());
    names(&client);
    let read = requests(&peer);
    names(&client);
    assert_eq!(requests(&peer), 2 * read);
    ends_clean(client, peer);
    // Not read to the end, or with an error on the way.
    let rules = Rules::new().nth(Opcode::Readdir, 1, Action::Errno(Errno::IO));
    let (client, peer) = connect(CacheMode::Always, rules);
    assert_eq!(client.read_dir("/dir").unwrap().take(10).count(), 10);
    let failed = client.read_dir("/dir").unwrap().any(|entry| entry.is_err());
    assert!(failed);
    assert_eq!(names(&client).len(), 3000);
    ends_clean(client, peer);
}

/// Two users of one client see the same listing, if they may read the directory.
#[test]
fn a_cached_listing_is_for_those_who_may_read() {
    use fusewire::Identity;
    use std::os::unix::fs::PermissionsExt;
    let (client, peer) = connect(CacheMode::Always, Rules::new());
    names(&client);
    client
        .set_permissions("/dir", std::fs::Permissions::from_mode(0o700))
        .unwrap();
    let other = client.with_identity(Identity::user(4001, 4001)).unwrap();
    let error = other.read_dir("/dir").unwrap_err();
    assert_eq!(error.errno(), Errno::ACCESS.raw_os_error());
    drop(other);
    ends_clean(client, peer);
}
