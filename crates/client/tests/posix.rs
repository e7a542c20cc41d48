//! What has no like in `std::fs`: paths that begin in directories, flags of open(2), raw offsets.

use fusewire::{Client, OpenOptions};
use fusewire_server::dir::{DirOptions, Directory};
use fusewire_server::mem::{MemOptions, Memory};
use fusewire_server::{Errno, FileSystem, ServerHandle, ServerOptions, start};
use rustix::fs::{AtFlags, CWD, Mode, OFlags, RenameFlags, ResolveFlags, linkat};
use std::ffi::OsString;
use std::io::{Seek, SeekFrom, Write};
use std::os::unix::fs::symlink;
use std::path::Path;
use std::time::{Duration, SystemTime};

fn serve<F: FileSystem>(fs: F) -> (Client, ServerHandle<F>) {
    let (transport, server) = start(fs, &ServerOptions::default()).unwrap();
    let client = Client::builder().umask(0o022).connect(transport).unwrap();
    (client, server)
}

fn memory() -> (Client, ServerHandle<Memory>) {
    serve(Memory::new(MemOptions::default()))
}

fn directory(path: &Path) -> (Client, ServerHandle<Directory>) {
    serve(Directory::new(path, DirOptions::default()).unwrap())
}

#[track_caller]
fn fails_with<T: std::fmt::Debug>(result: fusewire::Result<T>, errno: Errno) {
    let error = result.unwrap_err();
    assert_eq!(error.errno(), errno.raw_os_error(), "{error}");
}

#[test]
fn a_handle_stays_in_its_directory_whatever_becomes_of_the_name() {
    let (client, server) = memory();
    client.create_dir_all("/a/b/c").unwrap();
    client.write("/top", b"top").unwrap();
    let dir = client.at("/a/b").unwrap();
    dir.write("file", b"text").unwrap();
    client.rename("/a", "/z").unwrap();
    client.create_dir_all("/a/b").unwrap();
    assert_eq!(dir.read("file").unwrap(), b"text");
    assert!(dir.read_dir(".").unwrap().count() == 2);
    assert!(client.read_dir("/a/b").unwrap().count() == 0);
    // Absolute paths begin at the root, and `..` leads up to it.
    assert_eq!(dir.read("/top").unwrap(), b"top");
    assert_eq!(dir.read("../../top").unwrap(), b"top");
    assert_eq!(dir.at("c").unwrap().read("../file").unwrap(), b"text");
    assert_eq!(
        dir.dir_metadata().unwrap().ino(),
        client.metadata("/z/b").unwrap().ino()
    );
    fails_with(client.at("/top"), Errno::NOTDIR);
    fails_with(client.at("/none"), Errno::NOENT);
    fails_with(dir.metadata(""), Errno::NOENT);
    // A directory that is gone holds nothing.
    dir.remove_file("file").unwrap();
    dir.remove_dir("c").unwrap();
    client.remove_dir("/z/b").unwrap();
    fails_with(dir.create_dir("new"), Errno::NOENT);
    drop((dir, client));
    assert_eq!(server.join(), fusewire_server::Usage::default());
}

/// openat2(2) of this host is asked the same.
#[test]
fn bounded_paths_are_those_of_openat2() {
    let top = tempfile::tempdir().unwrap();
    let at = |path: &str| top.path().join(path);
    std::fs::create_dir_all(at("in/below")).unwrap();
    std::fs::write(at("out"), "").unwrap();
    std::fs::write(at("in/below/file"), "").unwrap();
    for (target, link) in [
        ("below", "in/inside"),
        ("..", "in/up"),
        ("below/../..", "in/far-up"),
        ("/in", "in/absolute"),
        ("below/file", "in/file"),
        ("nowhere", "in/broken"),
        ("loop", "in/loop"),
    ] {
        symlink(target, at(link)).unwrap();
    }
    let (client, _server) = directory(top.path());
    let dir = client.at("/in").unwrap();
    let host = rustix::fs::open(at("in"), OFlags::PATH | OFlags::DIRECTORY, Mode::empty()).unwrap();
    let paths = [
        ".",
        "below",
        "below/file",
        "below/..",
        "below/../..",
        "..",
        "../in",
        "inside/file",
        "inside/..",
        "up",
        "up/in",
        "far-up",
        "file",
        "broken",
        "loop",
        "none",
        "below/none",
        "file/x",
        "./below/./file",
        "absolute",
        "absolute/below",
        "/in",
    ];
    for path in paths {
        for (how, ours, flags) in [
            ("beneath", dir.beneath(), ResolveFlags::BENEATH),
            ("no links", dir.no_symlinks(), ResolveFlags::NO_SYMLINKS),
            (
                "both",
                dir.beneath().no_symlinks(),
                ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS,
            ),
        ] {
            if flags == ResolveFlags::NO_SYMLINKS && path.starts_with("/") {
                // The root of this host is another one.
                continue;
            }
            let found = ours.metadata(path).map(|m| m.ino()).map_err(|e| e.errno());
            let expected = rustix::fs::openat2(&host, path, OFlags::PATH, Mode::empty(), flags)
                .and_then(rustix::fs::fstat)
                .map(|stat| stat.st_ino)
                .map_err(Errno::raw_os_error);
            assert_eq!(found, expected, "{path}, {how}");
        }
    }
}

#[test]
fn handles_of_one_directory_are_known_as_such() {
    let top = tempfile::tempdir().unwrap();
    std::fs::create_dir_all(top.path().join("a/b")).unwrap();
    symlink("a/b", top.path().join("link")).unwrap();
    let (client, _server) = directory(top.path());
    let (a, b) = (client.at("/a").unwrap(), client.at("/a/b").unwrap());
    assert!(b.is_same_dir(&a.beneath().at("b").unwrap()));
    assert!(b.is_same_dir(&client.at("/link").unwrap()));
    assert!(client.is_same_dir(&b.at("/").unwrap()));
    assert!(!a.is_same_dir(&b) && !a.is_same_dir(&client));
    let (other, _server) = directory(top.path());
    assert!(!client.is_same_dir(&other));
    // Going down step by step, the bound goes along.
    let below = client.beneath().at("a").unwrap().at("b").unwrap();
    assert_eq!(below.metadata("..").unwrap_err().errno(), 18);
}

#[test]
fn names_move_between_directories_of_one_client() {
    let (client, _server) = memory();
    client.create_dir("/a").unwrap();
    client.create_dir("/b").unwrap();
    client.write("/a/one", b"1").unwrap();
    client.write("/b/two", b"2").unwrap();
    let (a, b) = (client.at("/a").unwrap(), client.at("/b").unwrap());
    let no_replace = RenameFlags::NOREPLACE.bits();
    fails_with(a.rename_at("one", &b, "two", no_replace), Errno::EXIST);
    a.rename_at("one", &b, "one", no_replace).unwrap();
    b.rename_at("one", &b, "two", RenameFlags::EXCHANGE.bits())
        .unwrap();
    assert_eq!(client.read("/b/one").unwrap(), b"2");
    assert_eq!(client.read("/b/two").unwrap(), b"1");
    let both = (RenameFlags::EXCHANGE | RenameFlags::NOREPLACE).bits();
    fails_with(b.rename_at("one", &b, "two", both), Errno::INVAL);
    fails_with(b.rename_at("one", &b, "two", 1 << 20), Errno::INVAL);
    let (other, _other_server) = memory();
    fails_with(b.rename_at("one", &other, "one", 0), Errno::XDEV);
}

/// linkat(2) of this host is asked the same.
#[test]
fn names_are_given_between_directories_as_linkat_does() {
    let (there, here) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    for top in [&there, &here] {
        for dir in ["from", "to", "from/dir"] {
            std::fs::create_dir(top.path().join(dir)).unwrap();
        }
        std::fs::write(top.path().join("from/file"), "text").unwrap();
        std::fs::write(top.path().join("to/taken"), "").unwrap();
        symlink("file", top.path().join("from/link")).unwrap();
        symlink("none", top.path().join("from/broken")).unwrap();
    }
    let (client, _server) = directory(there.path());
    let [from, to] = ["/from", "/to"].map(|path| client.at(path).unwrap());
    let [host_from, host_to] =
        ["from", "to"].map(|dir| std::fs::File::open(here.path().join(dir)).unwrap());
    let flags = [
        AtFlags::empty(),
        AtFlags::SYMLINK_FOLLOW,
        AtFlags::SYMLINK_NOFOLLOW,
        AtFlags::REMOVEDIR,
    ];
    let mut linked = 0;
    for original in ["file", "link", "broken", "dir", "none", "", "file/"] {
        for link in ["new", "taken", "none/new", "new/", ".", ""] {
            for flags in flags {
                let what = format!("{original} {link} {flags:?}");
                let found = from.link_at(original, &to, link, flags.bits());
                let found = found.map_err(|error| error.errno());
                let expected = linkat(&host_from, original, &host_to, link, flags);
                assert_eq!(found, expected.map_err(Errno::raw_os_error), "{what}");
                if found.is_ok() {
                    let kinds = [there.path(), here.path()].map(|top| {
                        let made = top.join("to").join(link);
                        let kind = made.symlink_metadata().unwrap().file_type();
                        std::fs::remove_file(made).unwrap();
                        kind
                    });
                    assert_eq!(kinds[0], kinds[1], "{what}");
                    client.drop_caches();
                    linked += 1;
                }
            }
        }
    }
    assert!(linked > 3, "{linked}");
    let (other, _other_server) = memory();
    fails_with(from.link_at("file", &other, "new", 0), Errno::XDEV);
}

/// open(2) of this host is asked the same.
#[test]
fn flags_are_those_of_open() {
    let (there, here) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    for top in [&there, &here] {
        std::fs::write(top.path().join("file"), "text").unwrap();
        std::fs::create_dir(top.path().join("dir")).unwrap();
        symlink("file", top.path().join("link")).unwrap();
        symlink("none", top.path().join("broken")).unwrap();
    }
    let (client, _server) = directory(there.path());
    let modes = [OFlags::RDONLY, OFlags::WRONLY, OFlags::RDWR];
    let flags = [
        OFlags::CREATE,
        OFlags::EXCL,
        OFlags::TRUNC,
        OFlags::APPEND,
        OFlags::NOFOLLOW,
        OFlags::DIRECTORY,
    ];
    for path in ["file", "link", "broken", "dir", "new", "file/", "none/x"] {
        for mode in modes {
            for set in 0..1 << flags.len() {
                let mut all = mode;
                for (n, flag) in flags.iter().enumerate() {
                    all.set(*flag, set & (1 << n) != 0);
                }
                // Without O_CREAT, O_EXCL means nothing.
                if all.contains(OFlags::EXCL) && !all.contains(OFlags::CREATE) {
                    continue;
                }
                let found = OpenOptions::from_flags(all.bits(), 0o640)
                    .and_then(|options| options.open(&client, path))
                    .and_then(|file| {
                        let len = file.metadata()?.len();
                        let written = file.write_at(b"new", 0);
                        Ok((len, written.map_err(|error| error.errno())))
                    })
                    .map_err(|error| error.errno());
                let expected = rustix::fs::openat(
                    CWD,
                    here.path().join(path),
                    all,
                    Mode::from_raw_mode(0o640),
                )
                .and_then(|fd| {
                    let stat = rustix::fs::fstat(&fd)?;
                    if rustix::fs::FileType::from_raw_mode(stat.st_mode).is_dir() {
                        // The client opens directories in another way.
                        return Err(Errno::ISDIR);
                    }
                    let written = match all.contains(OFlags::APPEND) {
                        true => rustix::io::write(&fd, b"new"),
                        false => rustix::io::pwrite(&fd, b"new", 0),
                    };
                    let written = written.map_err(Errno::raw_os_error);
                    Ok((stat.st_size as u64, written))
                })
                .map_err(Errno::raw_os_error);
                assert_eq!(found, expected, "{path} {all:?}");
                for name in ["new", "none"] {
                    let made = [&there, &here]
                        .map(|top| std::fs::remove_file(top.path().join(name)).is_ok());
                    assert_eq!(made[0], made[1], "{path} {all:?}");
                    if made[0] {
                        client.drop_caches();
                    }
                }
            }
        }
    }
    for wrong in [OFlags::PATH, OFlags::TMPFILE | OFlags::RDWR, OFlags::RWMODE] {
        fails_with(
            OpenOptions::from_flags(wrong.bits(), 0).map(drop),
            Errno::INVAL,
        );
    }
}

#[test]
fn directories_can_be_read_from_any_offset() {
    let (client, _server) = memory();
    for n in 0..1000 {
        client.write(format!("/{n:04}"), b"").unwrap();
    }
    let mut stream = client.read_dir("/").unwrap().with_dots();
    let mut seen: Vec<(OsString, u64)> = Vec::new();
    assert_eq!(stream.tell(), 0);
    while let Some(entry) = stream.next() {
        let entry = entry.unwrap();
        assert_eq!(stream.tell(), entry.next_offset());
        seen.push((entry.file_name(), entry.next_offset()));
    }
    assert_eq!(seen.len(), 1002);
    assert!(seen[0].0 == "." && seen[1].0 == "..");
    // From there on, in this stream and in another.
    for n in [0, 1, 500, 1000, 1001] {
        let mut another = client.read_dir("/").unwrap().with_dots();
        for stream in [&mut stream, &mut another] {
            stream.seek(seen[n].1);
            let rest: Vec<_> = stream.map(|entry| entry.unwrap().file_name()).collect();
            let expected: Vec<_> = seen[n + 1..].iter().map(|(name, _)| name.clone()).collect();
            assert_eq!(rest, expected, "{n}");
        }
    }
    stream.seek(0);
    assert_eq!(stream.count(), 1002);
}

#[test]
fn a_tree_is_removed_in_pieces_and_by_no_path() {
    let (client, server) = memory();
    client.create_dir_all("/tree/a/b/c").unwrap();
    let mut long = String::from("/tree/a");
    // Longer than what one path can name, step by step.
    let mut dir = client.at("/tree/a").unwrap();
    for _ in 0..300 {
        let name = "n".repeat(200);
        dir.create_dir(&name).unwrap();
        let mut file = dir.create("file").unwrap();
        file.write_all(b"text").unwrap();
        drop(file);
        dir = dir.at(&name).unwrap();
        long.push_str(&name);
    }
    for n in 0..9000 {
        client.write(format!("/tree/{n}"), b"").unwrap();
    }
    client.symlink("/", "/tree/link").unwrap();
    drop(dir);
    client.remove_dir_all("/tree").unwrap();
    assert_eq!(client.read_dir("/").unwrap().count(), 0);
    client.drop_caches();
    drop(client);
    assert_eq!(server.join(), fusewire_server::Usage::default());
}

#[test]
fn nothing_is_made_in_a_directory_that_is_gone() {
    let top = tempfile::tempdir().unwrap();
    let (memory, _server) = memory();
    let (directory, _other) = directory(top.path());
    for client in [memory, directory] {
        client.create_dir("/gone").unwrap();
        let gone = client.at("/gone").unwrap();
        client.remove_dir("/gone").unwrap();
        fails_with(gone.write("x", b""), Errno::NOENT);
        fails_with(gone.create_dir("x"), Errno::NOENT);
    }
}

#[test]
fn an_empty_write_moves_nothing() {
    let (client, _server) = memory();
    client.write("/f", b"0123456789").unwrap();
    let mut options = OpenOptions::new();
    let mut file = options.append(true).read(true).open(&client, "/f").unwrap();
    file.seek(SeekFrom::Start(2)).unwrap();
    assert_eq!(file.write(b"").unwrap(), 0);
    assert_eq!(file.stream_position().unwrap(), 2);
}

#[test]
fn what_std_has_for_files_is_there_by_its_names() {
    let (client, _server) = memory();
    let mut file = client.create_new("/f").unwrap();
    fails_with(client.create_new("/f"), Errno::EXIST);
    file.write_all(b"0123").unwrap();
    let mut second = file.try_clone().unwrap();
    second.write_all(b"45").unwrap();
    file.rewind().unwrap();
    assert_eq!(std::io::read_to_string(&file).unwrap(), "012345");
    let then = SystemTime::UNIX_EPOCH + Duration::new(1_000_000_000, 5);
    let accessed = file.metadata().unwrap().accessed();
    file.set_modified(then).unwrap();
    let now = file.metadata().unwrap();
    assert_eq!((now.modified(), now.accessed()), (then, accessed));
}
