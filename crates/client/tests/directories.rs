//! How directories are read, and taken away.

use fusewire::{Client, Identity};
use fusewire_server::dir::{DirOptions, Directory};
use fusewire_server::mem::{MemOptions, Memory};
use fusewire_server::scripted::{Rules, ScriptedPeer, start};
use fusewire_server::synthetic::{Shape, Synthetic, SyntheticOptions};
use fusewire_server::{Errno, FileSystem, ServerOptions};
use fusewire_wire::Opcode;
use rustix::fs::{RenameFlags, renameat_with};
use std::fs::{File, Permissions};
use std::os::unix::fs::{PermissionsExt, symlink};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

const FILES: usize = 3000;

fn connect<F: FileSystem>(fs: F) -> (Client, ScriptedPeer<F>) {
    let (transport, peer) = start(fs, Rules::new(), &ServerOptions::default()).unwrap();
    (Client::builder().connect(transport).unwrap(), peer)
}

/// Requests for names alone, for names with attributes, and for the attributes of one name.
fn asked<F: FileSystem>(peer: &ScriptedPeer<F>) -> [u64; 3] {
    [Opcode::Readdir, Opcode::Readdirplus, Opcode::Lookup].map(|opcode| peer.count(opcode))
}

#[track_caller]
fn fails_with<T: std::fmt::Debug>(result: fusewire::Result<T>, errno: Errno) {
    let error = result.unwrap_err();
    assert_eq!(error.errno(), errno.raw_os_error(), "{error}");
}

/// A daemon that leaves it to the client (READDIRPLUS_AUTO) holds no lookup for names that nobody
/// looks at, and is not asked again for those that somebody does.
#[test]
fn attributes_come_with_names_where_they_are_looked_at() {
    let (client, peer) = connect(Memory::new(MemOptions::default()));
    client.create_dir("/dir").unwrap();
    for n in 0..FILES {
        client.write(format!("/dir/{n:04}"), b"").unwrap();
    }
    let fresh = || {
        client.drop_caches();
        client.metadata("/dir").unwrap();
        let before = asked(&peer);
        move |peer: &ScriptedPeer<Memory>| {
            let mut new = asked(peer);
            new.iter_mut()
                .zip(before)
                .for_each(|(new, old)| *new -= old);
            new
        }
    };

    let since = fresh();
    assert_eq!(client.read_dir("/dir").unwrap().count(), FILES);
    let [names, with_attributes, lookups] = since(&peer);
    assert_eq!((with_attributes, lookups), (1, 0));
    assert!(names > 0);
    assert!(client.stats().live_nodes < FILES as u64 / 2);

    // Their types are no attributes.
    let since = fresh();
    let mut stream = client.read_dir("/dir").unwrap();
    assert!(stream.all(|entry| entry.unwrap().file_type().unwrap().is_file()));
    assert_eq!(since(&peer), [names, 1, 0]);

    let since = fresh();
    for entry in client.read_dir("/dir").unwrap() {
        assert!(entry.unwrap().metadata().unwrap().is_file());
    }
    let [none, all, lookups] = since(&peer);
    assert_eq!((none, lookups), (0, 0));
    assert!(all > names);

    // By their paths.
    let since = fresh();
    for entry in client.read_dir("/dir").unwrap() {
        client.metadata(entry.unwrap().path()).unwrap();
    }
    assert_eq!(since(&peer), [0, all, 0]);

    // Whoever says so gets them all.
    let since = fresh();
    let stream = client.read_dir("/dir").unwrap().with_attributes();
    let entries: Vec<_> = stream.map(|entry| entry.unwrap()).collect();
    assert!(entries.iter().all(|e| e.metadata().unwrap().is_file()));
    assert_eq!(since(&peer), [0, all, 0]);

    let since = fresh();
    client.remove_dir_all("/dir").unwrap();
    let [none, _, lookups] = since(&peer);
    assert_eq!(none, 0);
    assert!(lookups < 10, "{lookups}");
}

#[test]
fn a_daemon_that_leaves_no_choice_gives_all_attributes() {
    let shape = Shape::Wide {
        dirs: 1,
        files: FILES as u32,
    };
    for readdirplus in [true, false] {
        let options = SyntheticOptions {
            readdirplus,
            ..SyntheticOptions::default()
        };
        let (client, peer) = connect(Synthetic::new(shape, options));
        assert_eq!(client.read_dir("/d0").unwrap().count(), FILES);
        let [names, with_attributes, _] = asked(&peer);
        assert_eq!(names == 0, readdirplus);
        assert_eq!(with_attributes > 0, readdirplus);
    }
}

/// path_resolution(7): to list a directory is not to be allowed to search it, not even for itself.
#[test]
fn a_directory_is_searched_for_every_name_in_it() {
    let (client, _peer) = connect(Memory::new(MemOptions::default()));
    let other = client.with_identity(Identity::user(4001, 4001)).unwrap();
    client.create_dir_all("/list/dir").unwrap();
    client.write("/list/file", b"text").unwrap();
    let mode = Permissions::from_mode(0o744);
    client.set_permissions("/list", mode).unwrap();
    client.drop_caches();
    for path in ["/list", "/list/"] {
        assert!(other.metadata(path).unwrap().is_dir());
    }
    for path in [
        "/list/.",
        "/list/./",
        "/list/..",
        "/list/file",
        "/list/none",
    ] {
        fails_with(other.metadata(path), Errno::ACCESS);
    }
    fails_with(other.read_dir("/list/."), Errno::ACCESS);
    fails_with(other.create_dir("/list/./new"), Errno::ACCESS);
    let entries: Vec<_> = other
        .read_dir("/list")
        .unwrap()
        .map(|e| e.unwrap())
        .collect();
    assert_eq!(entries.len(), 2);
    for entry in entries {
        assert_eq!(
            entry.file_type().unwrap().is_dir(),
            entry.file_name() == "dir"
        );
        fails_with(entry.metadata(), Errno::ACCESS);
    }
}

/// Whatever others do to a tree that is being removed, nothing outside of it goes.
#[test]
fn a_tree_whose_directories_become_links_leads_nowhere_else() {
    let host = tempfile::tempdir().unwrap();
    let at = |path: &str| host.path().join(path);
    let precious = ["outside/a", "outside/dir/b", "outside/dir/dir/c"];
    for path in precious {
        std::fs::create_dir_all(at(path).parent().unwrap()).unwrap();
        std::fs::write(at(path), "precious").unwrap();
    }
    let fs = Directory::new(host.path(), DirOptions::default()).unwrap();
    let (client, _peer) = connect(fs);
    let mut swaps = 0;
    for round in 0..30 {
        let tree = |path: &str| at(&format!("tree{round}/{path}"));
        std::fs::create_dir_all(tree("dir/dir/dir")).unwrap();
        std::fs::write(tree("dir/dir/file"), "").unwrap();
        symlink("../outside", tree("link")).unwrap();
        symlink("../../outside/dir", tree("dir/link")).unwrap();
        // Whoever moves them about does it in these directories, wherever they are.
        let above = ["", "dir"].map(|path| File::open(tree(path)).unwrap());
        let done = AtomicBool::new(false);
        thread::scope(|scope| {
            let swapping = scope.spawn(|| {
                let mut swaps = 0;
                while !done.load(Ordering::Relaxed) {
                    for dir in &above {
                        // Either may be gone.
                        let swapped = renameat_with(dir, "dir", dir, "link", RenameFlags::EXCHANGE);
                        swaps += u32::from(swapped.is_ok());
                    }
                }
                swaps
            });
            // It may fail, as a name may be anything at any time.
            let _ = client.remove_dir_all(format!("/tree{round}"));
            done.store(true, Ordering::Relaxed);
            swaps += swapping.join().unwrap();
        });
        for path in precious {
            assert_eq!(std::fs::read(at(path)).unwrap(), b"precious");
        }
        client.drop_caches();
        if client.exists(format!("/tree{round}")).unwrap() {
            client.remove_dir_all(format!("/tree{round}")).unwrap();
        }
        assert!(!tree("").exists());
    }
    assert!(swaps > 30, "{swaps}");
}
