//! File systems below the served one, as far as the daemon announces them.

use fusewire::Client;
use fusewire_server::mem::{MemOptions, Memory};
use fusewire_server::scripted::{Action, Seen, start};
use fusewire_server::{Errno, ServerOptions};
use fusewire_wire::abi::{Attr, EntryOut};
use fusewire_wire::{AttrFlags, InitFlags, Opcode};
use zerocopy::IntoBytes;

const TOP: u64 = 7000;
const BELOW: u64 = 7001;

/// `/mnt` is where another file system begins; `/mnt/dir` is in it.
fn script(seen: &Seen) -> Action {
    let (nodeid, flags) = match (seen.opcode, seen.node, seen.name.as_deref()) {
        (Some(Opcode::Lookup), 1, Some(b"mnt")) => (TOP, AttrFlags::SUBMOUNT),
        (Some(Opcode::Lookup), TOP, Some(b"dir")) => (BELOW, AttrFlags::empty()),
        (Some(Opcode::Lookup), TOP | BELOW, _) => return Action::Errno(Errno::NOENT),
        (Some(Opcode::Mkdir), TOP | BELOW, _) => (BELOW + 1, AttrFlags::empty()),
        _ => return Action::Answer,
    };
    let entry = EntryOut {
        nodeid,
        entry_valid: 100,
        attr_valid: 100,
        attr: Attr {
            ino: nodeid,
            mode: 0o040_777,
            nlink: 2,
            flags: flags.bits(),
            ..Attr::default()
        },
        ..EntryOut::default()
    };
    Action::Body(entry.as_bytes().to_vec())
}

fn connect(grant: InitFlags) -> Client {
    let options = ServerOptions {
        grant,
        ..ServerOptions::default()
    };
    let fs = Memory::new(MemOptions::default());
    let (transport, peer) = start(fs, script, &options).unwrap();
    // It ends with the connection.
    drop(std::thread::spawn(move || peer.join()));
    Client::builder().connect(transport).unwrap()
}

#[track_caller]
fn fails_with<T: std::fmt::Debug>(result: fusewire::Result<T>, errno: Errno) {
    let error = result.unwrap_err();
    assert_eq!(error.errno(), errno.raw_os_error(), "{error}");
}

#[test]
fn a_submount_is_another_device() {
    let client = connect(InitFlags::SUBMOUNTS);
    client.write("/file", b"text").unwrap();
    let root = client.metadata("/").unwrap();
    let top = client.metadata("/mnt").unwrap();
    let below = client.metadata("/mnt/dir").unwrap();
    assert!(!root.is_submount() && top.is_submount() && !below.is_submount());
    assert_eq!(client.metadata("/file").unwrap().dev(), root.dev());
    assert_ne!(top.dev(), root.dev());
    assert_eq!(top.dev(), below.dev());
    // Nothing goes from one to the other, and where it begins is in use.
    fails_with(client.rename("/file", "/mnt/file"), Errno::XDEV);
    fails_with(client.rename("/mnt/dir", "/dir"), Errno::XDEV);
    fails_with(client.hard_link("/file", "/mnt/file"), Errno::XDEV);
    fails_with(client.remove_dir("/mnt"), Errno::BUSY);
    fails_with(client.rename("/mnt", "/other"), Errno::BUSY);
    client.create_dir("/mnt/new").unwrap();
    assert_eq!(client.metadata("/mnt/new").unwrap().dev(), top.dev());
}

#[test]
fn what_was_not_agreed_on_means_nothing() {
    let client = connect(InitFlags::empty());
    let (root, top) = (
        client.metadata("/").unwrap(),
        client.metadata("/mnt").unwrap(),
    );
    assert!(!top.is_submount());
    assert_eq!(root.dev(), top.dev());
}
