//! Clients from their beginning to their end.

use super::cases;
use crate::check::{errno, io_errno, until};
use crate::session::Session;
use fusewire::{Client, OpenOptions};
use rustix::io::Errno;
use std::io::{Read, Write};

cases![
    what_was_agreed_can_be_seen,
    clones_are_one_client,
    an_open_file_keeps_the_connection,
    shutdown_ends_it_for_all,
    abort_ends_it_at_once,
    errors_name_operation_path_and_errno,
    two_clients_of_one_directory_see_each_other,
    requests_are_counted,
    clients_can_come_and_go,
];

fn what_was_agreed_can_be_seen(s: &Session) {
    let agreed = s.client.negotiated();
    assert!(agreed.max_write_bytes >= 4096, "{agreed:?}");
    assert!(agreed.max_pages >= 1, "{agreed:?}");
    let plus = fusewire_wire::InitFlags::DO_READDIRPLUS;
    if s.peer.cache == fusewire_server::CacheMode::Never && s.peer.is_embedded() {
        assert!(!agreed.flags.contains(plus));
    }
    // Asked for only once there is something that keeps what was written.
    assert!(
        !agreed
            .flags
            .contains(fusewire_wire::InitFlags::WRITEBACK_CACHE)
    );
}

fn clones_are_one_client(s: &Session) {
    let clone = s.client.clone();
    clone.write("file", "12345").unwrap();
    assert_eq!(s.client.read("file").unwrap(), b"12345");
    assert_eq!(clone.stats().open_handles, s.client.stats().open_handles);
    drop(clone);
    assert_eq!(s.client.ended(), None);
    assert_eq!(s.client.read("file").unwrap(), b"12345");
}

fn an_open_file_keeps_the_connection(s: &Session) {
    let host = tempfile::tempdir().unwrap();
    let other = s.another(host.path(), Client::builder());
    let mut file = {
        let clone = other.client.clone();
        clone.write("file", "12345").unwrap();
        let mut options = OpenOptions::new();
        options.read(true).write(true).open(&clone, "file").unwrap()
    };
    let mut text = String::new();
    file.read_to_string(&mut text).unwrap();
    file.write_all(b"67").unwrap();
    assert_eq!(other.client.read("file").unwrap(), b"1234567");
    drop(file);
    other.finish();
}

fn shutdown_ends_it_for_all(s: &Session) {
    let host = tempfile::tempdir().unwrap();
    let other = s.another(host.path(), Client::builder());
    let clone = other.client.clone();
    clone.write("file", "12345").unwrap();
    let mut file = clone.open("file").unwrap();
    let mut listing = clone.read_dir("/").unwrap();
    other.client.shutdown().unwrap();
    assert!(clone.ended().unwrap().contains("shut down"));
    assert_eq!(errno(clone.metadata("file")), Errno::NOTCONN);
    assert_eq!(errno(clone.open("file")), Errno::NOTCONN);
    assert_eq!(errno(clone.read_dir("/")), Errno::NOTCONN);
    assert_eq!(io_errno(file.read(&mut [0; 5])), Errno::NOTCONN);
    assert_eq!(errno(file.metadata()), Errno::NOTCONN);
    assert_eq!(errno(file.close()), Errno::NOTCONN);
    assert_eq!(errno(listing.next().unwrap()), Errno::NOTCONN);
    assert!(listing.next().is_none());
    let error = clone.create_dir("dir").unwrap_err().to_string();
    assert!(error.contains("shut down"), "{error}");
    drop(listing);
    until("the handles to go", || match clone.stats().open_handles {
        0 => Ok(()),
        open => Err(format!("{open} open")),
    });
    assert_eq!(errno(clone.shutdown()), Errno::NOTCONN);
}

fn abort_ends_it_at_once(s: &Session) {
    let host = tempfile::tempdir().unwrap();
    let other = s.another(host.path(), Client::builder());
    let c = other.client.clone();
    c.write("file", "12345").unwrap();
    let file = c.open("file").unwrap();
    c.abort();
    c.abort();
    assert!(c.ended().unwrap().contains("aborted"));
    assert_eq!(errno(c.metadata("/")), Errno::NOTCONN);
    assert_eq!(errno(file.read_at(&mut [0; 5], 0)), Errno::NOTCONN);
    drop(file);
    until("everything to end", || match c.stats() {
        stats if (stats.open_handles, stats.engine.orphans) == (0, 0) => Ok(()),
        stats => Err(format!("{stats:?}")),
    });
    assert_eq!(errno(c.shutdown()), Errno::NOTCONN);
}

fn errors_name_operation_path_and_errno(s: &Session) {
    let c = &s.client;
    c.write("file", "").unwrap();
    let error = c.metadata("some/where").unwrap_err();
    assert_eq!(error.operation(), "stat");
    assert_eq!(error.path(), std::path::Path::new("some/where"));
    assert_eq!(error.errno(), Errno::NOENT.raw_os_error());
    assert_eq!(error.kind(), std::io::ErrorKind::NotFound);
    let io = std::io::Error::from(error.clone());
    assert_eq!(io.kind(), std::io::ErrorKind::NotFound);
    for error in [
        error,
        c.open("some/where").unwrap_err(),
        c.read("some/where").unwrap_err(),
        c.write("some/where", "").unwrap_err(),
        c.create_dir("some/where").unwrap_err(),
        c.mknod("some/where", 0o010_600, 0).unwrap_err(),
        c.symlink("x", "some/where").unwrap_err(),
        c.read_link("some/where").unwrap_err(),
        c.read_dir("some/where").unwrap_err(),
        c.remove_file("some/where").unwrap_err(),
        c.remove_dir("some/where").unwrap_err(),
        c.remove_dir_all("some/where").unwrap_err(),
        c.rename("some/where", "x").unwrap_err(),
        c.rename("file", "some/where").unwrap_err(),
        c.hard_link("some/where", "x").unwrap_err(),
        c.hard_link("file", "some/where").unwrap_err(),
        c.truncate("some/where", 0).unwrap_err(),
        c.statfs("some/where").unwrap_err(),
        c.chown("some/where", None, Some(1)).unwrap_err(),
    ] {
        let text = error.to_string();
        assert!(text.starts_with(error.operation()), "{text}");
        assert!(text.contains("some/where"), "{text}");
        assert!(text.contains("No such file"), "{text}");
    }
}

fn two_clients_of_one_directory_see_each_other(s: &Session) {
    let Some(root) = s.host("/") else {
        return;
    };
    let caching = fusewire_server::Caching::never();
    let other = Session::start_with(&s.peer, &root, Client::builder(), caching);
    s.client.write("from-first", "1").unwrap();
    other.client.write("from-second", "2").unwrap();
    assert_eq!(other.client.read("from-first").unwrap(), b"1");
    assert_eq!(s.client.read("from-second").unwrap(), b"2");
    other.finish();
}

fn requests_are_counted(s: &Session) {
    let c = &s.client;
    let before = c.stats().engine;
    c.write("file", vec![1; 5000]).unwrap();
    assert_eq!(c.read("file").unwrap().len(), 5000);
    let after = c.stats().engine;
    assert_eq!(after.bytes_out - before.bytes_out, 5000);
    assert!(after.bytes_in - before.bytes_in >= 5000);
    assert_eq!(s.requests("CREATE"), 1);
    assert_eq!(s.requests("WRITE"), 1);
    assert_eq!(s.requests("RENAME"), 0);
    let errors = |opcode: &str| {
        let stats = c.stats().engine;
        let found = stats.by_opcode.iter().find(|o| o.opcode == opcode);
        found.map_or(0, |o| o.errors)
    };
    let lookups = errors("LOOKUP");
    assert!(!c.exists("missing").unwrap());
    assert_eq!(errors("LOOKUP"), lookups + 1);
}

fn clients_can_come_and_go(s: &Session) {
    let host = tempfile::tempdir().unwrap();
    for round in 0..3 {
        let other = s.another(host.path(), Client::builder());
        let path = format!("file-{round}");
        other.client.write(&path, "x").unwrap();
        let files = other.client.read_dir("/").unwrap().count();
        assert_eq!(files, if s.peer.has_host() { round + 1 } else { 1 });
        other.finish();
    }
}
