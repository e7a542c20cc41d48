//! A peer without a server, which answers by hand: daemons of every minor version.

use crate::calls::CALLS;
use crate::harness::alone;
use fusewire::Client;
use fusewire_server::Errno;
use fusewire_sync::thread::live;
use fusewire_transport::{DeviceRequest, InProcOptions, pair};
use fusewire_wire::abi::{
    Attr, AttrOut, EntryOut, InHeader, InitOut, KERNEL_MINOR_VERSION, OpenOut,
};
use fusewire_wire::init::MINOR_MIN;
use fusewire_wire::reply::{failure, success};
use fusewire_wire::{InitFlags, Opcode};
use zerocopy::{FromBytes, IntoBytes};

fn head(request: &DeviceRequest) -> InHeader {
    let mut bytes = [0; size_of::<InHeader>()];
    assert_eq!(request.copy_readable(0, &mut bytes), bytes.len());
    InHeader::read_from_bytes(&bytes).unwrap()
}

/// The answer of a daemon of that minor version, in which everything is a directory.
fn answer(header: &InHeader, minor: u32) -> Vec<u8> {
    let unique = header.unique;
    let directory = Attr {
        ino: 1,
        mode: 0o040_777,
        ..Attr::default()
    };
    let node = EntryOut {
        nodeid: header.nodeid + 1,
        attr: directory,
        ..EntryOut::default()
    };
    let attr = AttrOut {
        attr: directory,
        ..AttrOut::default()
    };
    let body = match Opcode::try_from(header.opcode).ok() {
        Some(Opcode::Init) => {
            let out = InitOut {
                major: 7,
                minor,
                flags: InitFlags::all().low(),
                flags2: InitFlags::all().high(),
                max_write: 1 << 20,
                ..InitOut::default()
            };
            // Before 7.23 the structure ended after `max_write`.
            let len = if minor < 23 { 24 } else { size_of::<InitOut>() };
            out.as_bytes()[..len].to_vec()
        }
        Some(Opcode::Lookup) => node.as_bytes().to_vec(),
        Some(Opcode::Getattr | Opcode::Setattr) => attr.as_bytes().to_vec(),
        Some(Opcode::Opendir) => OpenOut::default().as_bytes().to_vec(),
        Some(Opcode::Readdir | Opcode::Readdirplus | Opcode::Releasedir | Opcode::Destroy) => {
            Vec::new()
        }
        _ => {
            return failure(unique, Errno::PERM.raw_os_error())
                .as_bytes()
                .to_vec();
        }
    };
    let header = success(unique, body.len()).unwrap();
    [header.as_bytes(), &body].concat()
}

fn reply(request: DeviceRequest, minor: u32) {
    let bytes = match request.is_oneway() {
        true => Vec::new(),
        false => answer(&head(&request), minor),
    };
    let written = request.write_at(0, &bytes);
    request.complete(written);
}

/// A daemon is asked for nothing that came after it, whatever flags it has.
#[test]
fn old_daemons_are_asked_for_what_they_know() {
    let _alone = alone();
    for minor in MINOR_MIN..=KERNEL_MINOR_VERSION {
        let options = InProcOptions {
            arena_bytes: 2 << 20,
            queue_size: 16,
        };
        let (transport, device) = pair(&options).unwrap();
        let serve = || {
            let mut asked = Vec::new();
            while let Some(request) = device.next() {
                asked.push(Opcode::try_from(head(&request).opcode).unwrap());
                reply(request, minor);
            }
            asked
        };
        let asked = std::thread::scope(|scope| {
            let peer = scope.spawn(serve);
            let client = Client::builder().connect(transport).unwrap();
            assert_eq!(client.negotiated().minor, minor);
            for call in CALLS {
                let _ = (call.run)(&client);
            }
            assert!(client.metadata("/").unwrap().is_dir());
            drop(client);
            peer.join().unwrap()
        });
        assert_eq!(live(), 0, "threads");
        let new = [Opcode::Syncfs, Opcode::Tmpfile, Opcode::Statx];
        for opcode in new {
            let known = opcode.since_minor() <= minor;
            assert_eq!(asked.contains(&opcode), known, "{opcode:?} of 7.{minor}");
        }
        for opcode in asked {
            assert!(opcode.since_minor() <= minor, "{opcode:?} of 7.{minor}");
        }
    }
}
