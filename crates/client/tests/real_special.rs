//! What few daemons have, asked of real ones.

#[path = "common/peers.rs"]
mod peers;

use fusewire::transport::vhost_user::{self, Options, Virtiofsd};
use fusewire::{Access, Allocate, Client, Events, File, LockKind, OpenOptions, SetXattr};
use peers::peer_program;
use rustix::io::Errno;
use std::fs::TryLockError;
use std::io::Write;
use std::path::Path;
use std::time::{Duration, SystemTime};

/// Both virtiofsds, with all that they have to be told to have, and the directory that they serve.
fn each(test: impl Fn(&str, &Client, &Path)) {
    let peers: [(&str, &[&str]); 2] = [
        ("virtiofsd", &[]),
        ("virtiofsd-c", &["-o", "posix_lock", "-o", "flock"]),
    ];
    for (name, arguments) in peers {
        let Some(program) = peer_program(name) else {
            continue;
        };
        let tree = tempfile::tempdir().unwrap();
        let mut daemon = Virtiofsd::new(tree.path());
        daemon.program = Some(program);
        daemon.xattr = true;
        daemon.extra_args = arguments.iter().map(Into::into).collect();
        let options = Options {
            arena_bytes: 32 << 20,
            ..Options::default()
        };
        let transport = vhost_user::spawn(&daemon, &options).unwrap();
        let client = Client::builder().umask(0).connect(transport).unwrap();
        test(name, &client, tree.path());
        client.shutdown().unwrap();
    }
}

#[track_caller]
fn fails_with<T: std::fmt::Debug>(result: fusewire::Result<T>, errno: Errno, what: &str) {
    let error = result.unwrap_err();
    assert_eq!(error.errno(), errno.raw_os_error(), "{what}: {error}");
}

fn for_both_ways(client: &Client, path: &str) -> File {
    let mut options = OpenOptions::new();
    options.read(true).write(true).create(true);
    options.open(client, path).unwrap()
}

#[test]
fn attributes_arrive_on_the_host() {
    each(|name, client, host| {
        client.write("/f", b"").unwrap();
        for (value, how) in [
            (&b"1"[..], SetXattr::Create),
            (&[7; 3000], SetXattr::Replace),
            (b"", SetXattr::Any),
        ] {
            client.set_xattr("/f", "user.a", value, how).unwrap();
            let mut there = [0; 4000];
            let there_bytes =
                rustix::fs::getxattr(host.join("f"), "user.a", &mut there[..]).unwrap();
            assert_eq!(&there[..there_bytes], value, "{name}");
            assert_eq!(client.get_xattr("/f", "user.a").unwrap().unwrap(), value);
        }
        client.remove_xattr("/f", "user.a").unwrap();
        assert_eq!(client.get_xattr("/f", "user.a").unwrap(), None, "{name}");
    });
}

#[test]
fn what_a_daemon_lacks_is_said_as_the_kernel_says_it() {
    let before = SystemTime::now() - Duration::from_secs(5);
    each(|name, client, host| {
        let mut file = for_both_ways(client, "/f");
        file.write_all(b"0123456789").unwrap();
        for _ in 0..2 {
            // Told by a daemon that has STATX, and by no other.
            if let Some(created) = client.created("/f").unwrap() {
                assert!(created >= before && created <= SystemTime::now(), "{name}");
                assert_eq!(file.created().unwrap(), Some(created), "{name}");
            }
            // A regular file is always ready.
            assert_eq!(file.poll_wait(Events::READ).unwrap(), Events::READ);
            assert_eq!(file.bmap(0, 4096).unwrap(), None, "{name}");
            client.access("/f", Access::READ).unwrap();
            fails_with(file.ioctl(0x7a04, &mut []), Errno::NOTTY, name);
            fails_with(file.inode_flags(), Errno::NOTTY, name);
            let mut unnamed = OpenOptions::new();
            match unnamed.read(true).write(true).open_unnamed(client, "/") {
                Ok(mut unnamed) => {
                    unnamed.write_all(b"text").unwrap();
                    client.link_file(&unnamed, "/named").unwrap();
                    assert_eq!(std::fs::read(host.join("named")).unwrap(), b"text");
                    client.remove_file("/named").unwrap();
                }
                Err(error) => {
                    assert_eq!(error.errno(), Errno::OPNOTSUPP.raw_os_error(), "{name}");
                }
            }
        }
        assert_eq!(file.seek_data(3).unwrap(), Some(3), "{name}");
        assert_eq!(file.seek_hole(3).unwrap(), Some(10), "{name}");
        file.allocate(0, 4, Allocate::ZeroKeepSize).unwrap();
        assert_eq!(file.copy_range(4, &file, 10, 100).unwrap(), 6, "{name}");
        fails_with(file.copy_range(0, &file, 1, 5), Errno::INVAL, name);
        let contents = std::fs::read(host.join("f")).unwrap();
        assert_eq!(contents, b"\0\0\0\x00456789456789", "{name}");
    });
}

/// The daemon in C keeps locks, and takes them on the host; for the one in Rust the client does.
#[test]
fn locks_exclude_others() {
    each(|name, client, host| {
        let at_daemon = name == "virtiofsd-c";
        let (a, b) = (for_both_ways(client, "/f"), for_both_ways(client, "/f"));
        a.try_lock().unwrap();
        assert!(matches!(b.try_lock_shared(), Err(TryLockError::WouldBlock)));
        let on_host = std::fs::File::open(host.join("f")).unwrap();
        assert_eq!(on_host.try_lock().is_err(), at_daemon, "{name}");
        on_host.unlock().unwrap();
        a.unlock().unwrap();
        b.try_lock_shared().unwrap();
        drop(b);
        // The RELEASE of the other may still be on its way.
        while a.try_lock().is_err() {
            std::thread::yield_now();
        }
        let other = client.separate();
        let (c, d) = (for_both_ways(&other, "/f"), for_both_ways(client, "/f"));
        c.try_lock_range(2..5, LockKind::Write).unwrap();
        assert!(matches!(
            d.try_lock_range(4.., LockKind::Read),
            Err(TryLockError::WouldBlock)
        ));
        d.try_lock_range(5.., LockKind::Write).unwrap();
        let found = d.test_lock_range(.., LockKind::Write).unwrap().unwrap();
        assert_eq!(found.range, 2..5, "{name}");
        c.close().unwrap();
        d.try_lock_range(.., LockKind::Write).unwrap();
    });
}
