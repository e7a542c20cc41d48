//! Reading directories.

use super::cases;
use crate::check::errno;
use crate::session::Session;
use fusewire::Client;
use rustix::io::Errno;
use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use tempfile::TempDir;

cases![
    ten_thousand_entries_are_each_seen_once,
    entries_that_stay_are_seen_while_others_go,
    entries_that_stay_are_seen_while_others_come,
    a_listing_can_remove_what_it_shows,
    names_of_255_bytes_fill_many_batches,
    an_empty_directory_has_no_entries,
    an_entry_knows_its_name_path_type_and_attributes,
    an_entry_that_is_gone_says_so,
    what_is_no_directory_is_not_read,
    a_listing_may_be_left_unread,
    a_directory_can_be_read_by_many_at_once,
    a_listing_outlives_its_client,
];

const MANY: usize = 10_000;

/// Makes `count` names in `dir`. On the host, where there is one, they are names of one file: that
/// is quicker, and makes no difference to a directory.
fn fill(s: &Session, dir: &str, count: usize) -> BTreeSet<OsString> {
    s.client.create_dir(dir).unwrap();
    let names: BTreeSet<OsString> = (0..count).map(|n| format!("file-{n:05}").into()).collect();
    let host = s.host(dir);
    let mut first: Option<PathBuf> = None;
    for name in &names {
        match (&host, &first) {
            (Some(host), Some(first)) => std::fs::hard_link(first, host.join(name)).unwrap(),
            (Some(host), None) => {
                std::fs::write(host.join(name), "").unwrap();
                first = Some(host.join(name));
            }
            (None, _) => {
                let path = Path::new(dir).join(name);
                s.client.mknod(path, 0o100_644, 0).unwrap();
            }
        }
    }
    s.client.drop_caches();
    names
}

/// A directory of the host with many files, made once for all peers.
static SHARED: Mutex<Option<TempDir>> = Mutex::new(None);

fn shared() -> PathBuf {
    let mut shared = SHARED.lock().unwrap();
    let directory = shared.get_or_insert_with(|| {
        let directory = tempfile::tempdir().unwrap();
        std::fs::create_dir(directory.path().join("dir")).unwrap();
        for n in 0..MANY {
            std::fs::write(directory.path().join(format!("dir/file-{n:05}")), "").unwrap();
        }
        directory
    });
    directory.path().to_owned()
}

/// Removes what cases have shared.
pub fn clean_up() {
    drop(SHARED.lock().unwrap().take());
}

fn names(s: &Session, dir: &str) -> Vec<OsString> {
    let entries = s.client.read_dir(dir).unwrap();
    entries.map(|entry| entry.unwrap().file_name()).collect()
}

fn ten_thousand_entries_are_each_seen_once(s: &Session) {
    if !s.peer.has_host() {
        fill(s, "dir", MANY);
        return all_are_seen(s);
    }
    let other = s.another(&shared(), Client::builder());
    all_are_seen(&other);
    other.finish();
}

fn all_are_seen(s: &Session) {
    let mut seen = BTreeSet::new();
    for entry in s.client.read_dir("dir").unwrap() {
        let entry = entry.unwrap();
        assert!(entry.file_type().unwrap().is_file());
        assert!(seen.insert(entry.file_name()), "{entry:?} was seen twice");
    }
    assert_eq!(seen.len(), MANY);
    assert!((0..MANY).all(|n| seen.contains(&*OsString::from(format!("file-{n:05}")))));
}

fn entries_that_stay_are_seen_while_others_go(s: &Session) {
    let mut expected = fill(s, "dir", MANY);
    let mut seen = BTreeMap::new();
    let mut removed = BTreeSet::new();
    for (n, entry) in s.client.read_dir("dir").unwrap().enumerate() {
        *seen.entry(entry.unwrap().file_name()).or_insert(0) += 1;
        // Ahead and behind.
        if n % 50 == 0 {
            for name in [format!("file-{n:05}"), format!("file-{:05}", MANY - 1 - n)] {
                s.client.remove_file(Path::new("dir").join(&name)).unwrap();
                removed.insert(OsString::from(name));
            }
        }
    }
    assert!(seen.values().all(|times| *times == 1), "seen twice");
    expected.retain(|name| !removed.contains(name));
    for name in &expected {
        assert!(seen.contains_key(name), "{name:?} was not seen");
    }
    assert_eq!(names(s, "dir").len(), expected.len());
}

fn entries_that_stay_are_seen_while_others_come(s: &Session) {
    let expected = fill(s, "dir", 2000);
    let mut seen = BTreeMap::new();
    for (n, entry) in s.client.read_dir("dir").unwrap().enumerate() {
        *seen.entry(entry.unwrap().file_name()).or_insert(0) += 1;
        if n % 10 == 0 && n < 2000 {
            s.client.write(format!("dir/new-{n}"), "").unwrap();
        }
    }
    assert!(seen.values().all(|times| *times == 1), "seen twice");
    assert!(expected.iter().all(|name| seen.contains_key(name)));
    assert_eq!(names(s, "dir").len(), 2200);
}

fn a_listing_can_remove_what_it_shows(s: &Session) {
    fill(s, "dir", 1200);
    for entry in s.client.read_dir("dir").unwrap() {
        s.client.remove_file(entry.unwrap().path()).unwrap();
    }
    assert_eq!(names(s, "dir").len(), 0);
    s.client.remove_dir("dir").unwrap();
}

fn names_of_255_bytes_fill_many_batches(s: &Session) {
    const LEN: usize = 255;
    s.client.write("0", "").unwrap();
    let expected: BTreeSet<OsString> = (0..400)
        .map(|n| format!("{n:0>width$}", width = 1 + n % LEN).into())
        .chain((0..600).map(|n| format!("{n:x>LEN$}").into()))
        .collect();
    let host = s.host("/");
    for name in expected.iter().filter(|name| *name != "0") {
        match &host {
            Some(host) => std::fs::hard_link(host.join("0"), host.join(name)).unwrap(),
            None => s.client.hard_link("0", name).unwrap(),
        }
    }
    let seen = names(s, "/");
    assert_eq!(seen.len(), expected.len());
    assert_eq!(seen.into_iter().collect::<BTreeSet<_>>(), expected);
}

fn an_empty_directory_has_no_entries(s: &Session) {
    let c = &s.client;
    assert_eq!(c.read_dir("/").unwrap().count(), 0);
    c.create_dir("dir").unwrap();
    let mut listing = c.read_dir("dir").unwrap();
    assert!(listing.next().is_none());
    // The end stays the end.
    c.write("dir/file", "").unwrap();
    assert!(listing.next().is_none());
    assert_eq!(c.read_dir("dir").unwrap().count(), 1);
}

fn an_entry_knows_its_name_path_type_and_attributes(s: &Session) {
    let c = &s.client;
    c.create_dir_all("dir/sub").unwrap();
    c.write("dir/file", "12345").unwrap();
    c.symlink("file", "dir/link").unwrap();
    c.symlink("missing", "dir/dangling").unwrap();
    c.mknod("dir/pipe", 0o010_600, 0).unwrap();
    c.mknod("dir/socket", 0o140_600, 0).unwrap();
    c.hard_link("dir/file", "dir/second").unwrap();
    let mut seen = 0;
    for entry in c.read_dir("/dir").unwrap() {
        let entry = entry.unwrap();
        let path = Path::new("/dir").join(entry.file_name());
        assert_eq!(entry.path(), path);
        let found = entry.metadata().unwrap();
        let expected = c.symlink_metadata(&path).unwrap();
        assert_eq!(found, expected, "{path:?}");
        assert_eq!(entry.file_type().unwrap(), expected.file_type());
        assert_eq!(entry.ino(), expected.ino());
        seen += 1;
    }
    assert_eq!(seen, 7);
    let through: Vec<PathBuf> = {
        c.symlink("dir", "to-dir").unwrap();
        let entries = c.read_dir("to-dir/../to-dir").unwrap();
        entries.map(|entry| entry.unwrap().path()).collect()
    };
    assert!(
        through
            .iter()
            .all(|path| path.starts_with("to-dir/../to-dir"))
    );
    assert!(through.iter().all(|path| c.symlink_metadata(path).is_ok()));
}

fn an_entry_that_is_gone_says_so(s: &Session) {
    let c = &s.client;
    c.create_dir("dir").unwrap();
    c.write("dir/file", "12345").unwrap();
    let entry = c.read_dir("dir").unwrap().next().unwrap().unwrap();
    c.remove_file("dir/file").unwrap();
    assert!(entry.file_type().unwrap().is_file());
    // Attributes came with the directory, or there are none.
    match entry.metadata() {
        Ok(metadata) => assert_eq!(metadata.len(), 5),
        Err(error) => assert_eq!(error.errno(), Errno::NOENT.raw_os_error()),
    }
}

fn what_is_no_directory_is_not_read(s: &Session) {
    let c = &s.client;
    c.write("file", "").unwrap();
    c.symlink("file", "link").unwrap();
    c.mknod("pipe", 0o010_600, 0).unwrap();
    for path in ["file", "link", "pipe", "file/x"] {
        assert_eq!(errno(c.read_dir(path)), Errno::NOTDIR, "{path}");
    }
    assert_eq!(errno(c.read_dir("missing")), Errno::NOENT);
}

fn a_listing_may_be_left_unread(s: &Session) {
    fill(s, "dir", 1500);
    for taken in [0, 1, 100] {
        let listing = s.client.read_dir("dir").unwrap();
        assert_eq!(listing.take(taken).count(), taken);
    }
    s.all_closed();
    let mut listing = s.client.read_dir("dir").unwrap();
    assert_eq!(s.client.stats().open_handles, 1);
    assert_eq!(listing.by_ref().count(), 1500);
    assert!(listing.next().is_none());
    drop(listing);
    s.all_closed();
}

fn a_directory_can_be_read_by_many_at_once(s: &Session) {
    let expected = fill(s, "dir", 1500);
    std::thread::scope(|scope| {
        for _ in 0..3 {
            scope.spawn(|| {
                let seen = names(s, "dir");
                assert_eq!(seen.len(), 1500);
                assert_eq!(seen.into_iter().collect::<BTreeSet<_>>(), expected);
            });
        }
    });
}

fn a_listing_outlives_its_client(s: &Session) {
    let host = tempfile::tempdir().unwrap();
    let other = s.another(host.path(), Client::builder());
    fill(&other, "dir", 1500);
    let mut listing = other.client.clone().read_dir("dir").unwrap();
    let first = listing.next().unwrap().unwrap();
    let second = other.client.clone();
    assert_eq!(listing.count(), 1499);
    assert!(first.metadata().is_ok());
    drop(first);
    drop(second);
    other.finish();
}
