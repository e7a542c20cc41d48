//! Walks and copies, on good trees and on bad ones.

use fusewire::{Client, WalkEntry, Walker};
use fusewire_server::dir::{DirOptions, Directory};
use fusewire_server::mem::{MemOptions, Memory};
use fusewire_server::synthetic::{Shape, Synthetic, SyntheticOptions};
use fusewire_server::{FileSystem, ServerHandle, ServerOptions, start};
use rustix::io::Errno;
use std::collections::BTreeMap;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

fn serve<F: FileSystem>(fs: F, max_cached_nodes: usize) -> (Client, ServerHandle<F>) {
    let (transport, server) = start(fs, &ServerOptions::default()).unwrap();
    let builder = Client::builder().max_cached_nodes(max_cached_nodes);
    (builder.connect(transport).unwrap(), server)
}

fn memory() -> (Client, ServerHandle<Memory>) {
    serve(Memory::new(MemOptions::default()), 65_536)
}

/// A tree that is made up, listed with attributes and without.
fn synthetic(shape: Shape, test: impl Fn(&Client, &Synthetic)) {
    for readdirplus in [true, false] {
        let options = SyntheticOptions {
            readdirplus,
            ..SyntheticOptions::default()
        };
        let (client, server) = serve(Synthetic::new(shape, options), 1000);
        test(&client, server.fs());
        client.shutdown().unwrap();
        let left = server.join();
        assert_eq!((left.lookups, left.open_handles), (0, 0), "{shape}");
    }
}

fn shown(entry: &WalkEntry) -> String {
    String::from_utf8_lossy(entry.path().as_os_str().as_bytes()).into_owned()
}

/// The paths in order, and the errors by their paths.
fn walked(walk: impl IntoIterator<Item = fusewire::Result<WalkEntry>>) -> (Vec<String>, Errors) {
    let (mut paths, mut errors) = (Vec::new(), Errors::new());
    for item in walk {
        match item {
            Ok(entry) => paths.push(shown(&entry)),
            Err(error) => {
                let path = error.path().display().to_string();
                let errno = Errno::from_raw_os_error(error.errno());
                let again = errors.insert(path, errno);
                assert_eq!(again, None, "{error} came twice");
            }
        }
    }
    (paths, errors)
}

type Errors = BTreeMap<String, Errno>;

fn errors(of: &[(&str, Errno)]) -> Errors {
    of.iter()
        .map(|(path, errno)| ((*path).to_owned(), *errno))
        .collect()
}

/// A small tree: memory lists names in the order in which they were made.
fn small() -> (Client, ServerHandle<Memory>) {
    let (client, server) = memory();
    for dir in ["/a", "/a/b", "/c"] {
        client.create_dir(dir).unwrap();
    }
    for file in ["/a/x", "/a/b/y", "/z"] {
        client.write(file, file).unwrap();
    }
    client.symlink("a", "/link").unwrap();
    client.symlink("..", "/a/up").unwrap();
    (client, server)
}

#[test]
fn a_walk_goes_everywhere_once_and_through_no_link() {
    let (client, _server) = small();
    let all = [
        "/", "/a", "/a/b", "/a/b/y", "/a/x", "/a/up", "/c", "/z", "/link",
    ];
    assert_eq!(
        walked(client.walk("/")),
        (all.map(str::to_owned).into(), Errors::new())
    );
    let last = [
        "/a/b/y", "/a/b", "/a/x", "/a/up", "/a", "/c", "/z", "/link", "/",
    ];
    let walk = client.walk("/").contents_first(true);
    assert_eq!(walked(walk).0, last);
    assert_eq!(walked(client.walk("link")).0, ["link"]);
    assert_eq!(walked(client.walk("link/")).0.len(), 5, "a slash follows");
    assert_eq!(walked(client.walk("/z")).0, ["/z"]);
    let gone = errors(&[("/no", Errno::NOENT)]);
    assert_eq!(walked(client.walk("/no")), (vec![], gone));
}

#[test]
fn depths_are_limited_as_asked() {
    let (client, _server) = small();
    let depths = |min, max, contents_first| {
        let walk = client.walk("/").contents_first(contents_first);
        walked(walk.min_depth(min).max_depth(max)).0
    };
    for contents_first in [false, true] {
        assert_eq!(depths(0, 0, contents_first), ["/"]);
        assert_eq!(depths(1, 1, contents_first), ["/a", "/c", "/z", "/link"]);
        assert_eq!(depths(3, 9, contents_first), ["/a/b/y"]);
        assert!(depths(4, 9, contents_first).is_empty());
    }
    for entry in client.walk("/") {
        let entry = entry.unwrap();
        let depth = entry.path().components().count() - 1;
        assert_eq!(entry.depth(), depth, "{entry:?}");
        let meta = client.symlink_metadata(entry.path()).unwrap();
        assert_eq!(entry.metadata().unwrap().ino(), meta.ino());
        assert_eq!(entry.file_type(), meta.file_type());
        let path = entry.path();
        let name = path.file_name().unwrap_or(path.as_os_str());
        assert_eq!(entry.file_name(), name);
    }
}

#[test]
fn directories_can_be_skipped() {
    let (client, _server) = small();
    let walk = |contents_first, at: &str| {
        let walk = client.walk("/").contents_first(contents_first);
        let mut walk: Walker = walk.into_iter();
        let mut paths = Vec::new();
        while let Some(entry) = walk.next() {
            let path = shown(&entry.unwrap());
            if path == at {
                walk.skip_current_dir();
            }
            paths.push(path);
        }
        paths
    };
    assert_eq!(walk(false, "/a"), ["/", "/a", "/c", "/z", "/link"]);
    assert_eq!(walk(false, "/a/b/y").len(), 9, "there was nothing more");
    let without = ["/", "/a", "/a/b", "/a/b/y", "/a/x", "/c", "/z", "/link"];
    assert_eq!(walk(false, "/a/x"), without);
    assert_eq!(walk(false, "/"), ["/"]);
    assert_eq!(
        walk(true, "/a/b/y"),
        walk(true, ""),
        "nothing more here, too"
    );
    let without = ["/a/b/y", "/a/b", "/a", "/c", "/z", "/link", "/"];
    assert_eq!(walk(true, "/a/b"), without);
}

#[test]
fn a_walk_is_not_led_elsewhere_by_a_link_put_above_it() {
    let tree = tempfile::tempdir().unwrap();
    let at = |path: &str| tree.path().join(path);
    for dir in ["a/b/c", "elsewhere/c"] {
        std::fs::create_dir_all(at(dir)).unwrap();
    }
    std::fs::write(at("a/b/c/inside"), "").unwrap();
    std::fs::write(at("elsewhere/c/outside"), "").unwrap();
    let (client, _server) = serve(
        Directory::new(tree.path(), DirOptions::default()).unwrap(),
        1000,
    );
    let mut paths = Vec::new();
    for entry in client.walk("/a") {
        let path = shown(&entry.unwrap());
        if path == "/a/b/c" {
            std::fs::rename(at("a/b"), at("away")).unwrap();
            std::os::unix::fs::symlink("../elsewhere", at("a/b")).unwrap();
            client.drop_caches();
        }
        paths.push(path);
    }
    assert_eq!(paths, ["/a", "/a/b", "/a/b/c", "/a/b/c/inside"]);
}

#[test]
fn directories_inside_themselves_are_an_error_once() {
    synthetic(Shape::Cycle, |client, _| {
        let (paths, found) = walked(client.walk("/"));
        let all = [
            "/",
            "/a",
            "/a/b",
            "/a/b/a",
            "/a/b/g",
            "/a/f",
            "/self",
            "/self/self",
            "/self/h",
            "/z",
        ];
        let known = |path: &str| paths.iter().any(|found| found == path);
        assert!(
            all.iter()
                .filter(|path| **path != "/self/self")
                .all(|path| known(path))
        );
        assert!(paths.len() <= all.len(), "{paths:?}");
        let circles = [("/a/b/a", Errno::LOOP), ("/self/self", Errno::LOOP)];
        assert_eq!(found, errors(&circles));
        let (behind, found) = walked(client.walk("/").contents_first(true));
        assert_eq!(behind.len(), paths.len());
        assert_eq!(found, errors(&circles));
    });
}

#[test]
fn what_is_wrong_with_an_entry_is_an_error_and_the_rest_is_seen() {
    synthetic(Shape::Crooked, |client, _| {
        let (paths, found) = walked(client.walk("/"));
        for good in [
            "/good",
            "/bell\x07\x1b[2J\n",
            "/huge",
            "/dots/ok",
            "/slash/ok",
            "/sub/last",
        ] {
            assert!(paths.iter().any(|path| path == good), "{good} in {paths:?}");
        }
        for path in &paths {
            assert!(!path.contains("escape") && !path.contains("/../"), "{path}");
            let inside = path.strip_prefix("/root");
            assert!(
                inside.is_none_or(str::is_empty),
                "the root is not below itself"
            );
        }
        assert_eq!(found.get("/root"), Some(&Errno::IO), "{found:?}");
        assert_eq!(found.get("/slash"), Some(&Errno::IO), "{found:?}");
        // What was listed as a directory and is none.
        let lied = found.get("/not-a-directory");
        assert!(lied.is_none() || lied == Some(&Errno::NOTDIR), "{found:?}");
        // A type that changes makes another file of it, and what is open stays what it was or is an error.
        let open = (0..4).find_map(|_| {
            client.drop_caches();
            client.open("/changing").ok()
        });
        let open = open.unwrap();
        let directory = (0..4).any(|_| {
            client.drop_caches();
            client.metadata("/changing").is_ok_and(|meta| meta.is_dir())
        });
        assert!(directory);
        let still = open.metadata();
        assert!(still.is_err() || still.unwrap().is_file());
        let meta = client.metadata("/huge").unwrap();
        assert_eq!(meta.len(), i64::MAX as u64);
        assert_eq!(client.read("/huge").unwrap(), b"xxxxx");
    });
}

#[test]
fn a_directory_without_end_is_taken_as_it_comes() {
    synthetic(Shape::EndlessWidth, |client, server| {
        let seen = client
            .walk("/")
            .into_iter()
            .take(20_001)
            .map(Result::unwrap);
        assert_eq!(shown(&seen.last().unwrap()), "/f19999");
        assert!(server.peak().lookups < 5_000, "{:?}", server.peak());
        assert_eq!(server.peak().open_handles, 1);
    });
}

#[test]
fn a_tree_without_bottom_ends_where_paths_do() {
    synthetic(Shape::EndlessDepth, |client, server| {
        let (mut files, mut deepest) = (0, 0);
        let mut found = Errors::new();
        for item in client.walk("/") {
            match item {
                Ok(entry) if entry.file_type().is_file() => files += 1,
                Ok(entry) => deepest = deepest.max(entry.depth()),
                Err(error) => {
                    let errno = Errno::from_raw_os_error(error.errno());
                    found.insert(error.path().display().to_string(), errno);
                }
            }
        }
        let (path, errno) = found.pop_first().unwrap();
        assert_eq!((errno, found.len()), (Errno::NAMETOOLONG, 0), "{path}");
        // `/d` is two bytes.
        assert_eq!(deepest, (16 << 10) / 2 + 1);
        assert_eq!(files, deepest, "a file beside each directory");
        assert!(server.peak().open_handles <= 66, "{:?}", server.peak());
        // Those on the way down are needed, and those that are cached.
        assert!(
            server.peak().live_nodes < 8_192 + 2_000,
            "{:?}",
            server.peak()
        );
    });
}

#[test]
fn a_tree_without_any_end_takes_little() {
    synthetic(Shape::Endless, |client, server| {
        let mut refused = 0;
        // The first of each directory is a directory: this goes down, and the rest of those above
        // is kept as far as there is room.
        for item in client.walk("/").into_iter().take(200) {
            if let Err(error) = item {
                assert_eq!(error.errno(), Errno::NOBUFS.raw_os_error(), "{error}");
                refused += 1;
            }
        }
        assert_eq!(refused, 0, "errors come where the rest would");
        assert!(server.peak().open_handles <= 66, "{:?}", server.peak());
        assert!(server.peak().lookups < 100_000, "{:?}", server.peak());
    });
}

#[test]
fn what_is_left_out_above_a_deep_tree_is_said() {
    synthetic(Shape::Endless, |client, _| {
        let mut walk = client.walk("/").max_depth(70).into_iter();
        let (mut down, mut left_out) = (true, Vec::new());
        while let Some(item) = walk.next() {
            match item {
                Ok(entry) => {
                    down &= entry.depth() < 70;
                    // Up again, as fast as can be, but through all that is in the top.
                    if !down && (entry.depth() > 1 || entry.file_type().is_dir()) {
                        walk.skip_current_dir();
                    }
                }
                Err(error) => {
                    assert_eq!(error.errno(), Errno::NOBUFS.raw_os_error(), "{error}");
                    left_out.push(error.path().components().count() - 1);
                    if left_out.last() == Some(&0) {
                        break;
                    }
                }
            }
        }
        // 70 directories, of which 64 stay open.
        assert_eq!(left_out, [5, 4, 3, 2, 1, 0]);
    });
}

#[test]
fn what_a_wide_tree_holds_stays_level() {
    let soak = std::env::var_os("FUSEWIRE_SOAK").is_some_and(|value| value == "1");
    let dirs = if soak { 1000 } else { 20 };
    let shape = Shape::Wide { dirs, files: 1000 };
    synthetic(shape, |client, server| {
        let mut seen = 0_u64;
        for entry in client.walk("/") {
            entry.unwrap();
            seen += 1;
        }
        assert_eq!(seen, 1 + u64::from(dirs) * 1001);
        // 1000 names are cached, and each of two open directories has a batch on its way.
        let peak = server.peak();
        assert!(peak.live_nodes < 5_000, "{peak:?}");
        assert!(peak.open_handles <= 4, "{peak:?}");
        assert!(client.stats().live_nodes < 5_000);
    });
}

#[test]
fn copies_have_the_contents_and_the_rights() {
    let tree = tempfile::tempdir().unwrap();
    let directory = || Directory::new(tree.path(), DirOptions::default()).unwrap();
    let test = |client: &Client| {
        let large: Vec<u8> = (0..3_000_001_u32).map(|n| (n / 5) as u8).collect();
        client.write("/large", &large).unwrap();
        let mode = std::fs::Permissions::from_mode(0o751);
        client.set_permissions("/large", mode).unwrap();
        client.write("/copy", vec![1; 4_000_000]).unwrap();
        assert_eq!(client.copy("/large", "/copy").unwrap(), 3_000_001);
        assert!(client.read("/copy").unwrap() == large);
        assert_eq!(client.metadata("/copy").unwrap().mode() & 0o7777, 0o751);
        assert_eq!(client.copy("/large", "/new").unwrap(), 3_000_001);
        assert!(client.read("/new").unwrap() == large);
        client.write("/empty", "").unwrap();
        assert_eq!(client.copy("/empty", "/new").unwrap(), 0);
        assert!(client.read("/new").unwrap().is_empty());
        // One file by two names is not emptied.
        client.hard_link("/large", "/other").unwrap();
        for to in ["/large", "/other"] {
            let error = client.copy("/large", to).unwrap_err();
            assert_eq!(error.errno(), Errno::INVAL.raw_os_error());
        }
        assert!(client.read("/large").unwrap() == large);
        for (from, to, errno) in [
            ("/", "/x", Errno::ISDIR),
            ("/no", "/x", Errno::NOENT),
            ("/large", "/", Errno::ISDIR),
        ] {
            let error = client.copy(from, to).unwrap_err();
            assert_eq!(error.errno(), errno.raw_os_error(), "{from} {to}");
        }
        assert!(!client.exists("/x").unwrap());
    };
    test(&memory().0);
    test(&serve(directory(), 1000).0);
}

#[test]
fn what_is_not_complete_has_no_set_id_bits() {
    let options = MemOptions {
        capacity_bytes: 1 << 20,
        ..MemOptions::default()
    };
    let (client, _server) = serve(Memory::new(options), 1000);
    let set = |path: &str, mode| {
        let mode = std::fs::Permissions::from_mode(mode);
        client.set_permissions(path, mode).unwrap();
    };
    let mode = |path: &str| client.metadata(path).unwrap().mode() & 0o7777;
    client.write("/small", "text").unwrap();
    set("/small", 0o6755);
    for to in ["/new", "/new"] {
        assert_eq!(client.copy("/small", to).unwrap(), 4);
        assert_eq!(mode(to), 0o6755);
    }
    // There is no room for a copy of it.
    client.write("/large", vec![1; 600 << 10]).unwrap();
    set("/large", 0o6755);
    client.write("/there", "text").unwrap();
    set("/there", 0o6711);
    for (to, left) in [("/gone", 0o700), ("/there", 0o711)] {
        let error = client.copy("/large", to).unwrap_err();
        assert_eq!(error.errno(), Errno::NOSPC.raw_os_error());
        assert_eq!(mode(to), left, "{to}");
        client.remove_file(to).unwrap();
    }
    assert_eq!(mode("/large"), 0o6755);
    client.copy("/large", "/large").unwrap_err();
    assert_eq!(mode("/large"), 0o6755);
}

#[test]
fn copies_keep_holes() {
    let tree = tempfile::tempdir().unwrap();
    let directory = Directory::new(tree.path(), DirOptions::default()).unwrap();
    let (client, _server) = serve(directory, 1000);
    let file = client.create("/sparse").unwrap();
    file.set_len(1 << 30).unwrap();
    file.write_all_at(b"start", 0).unwrap();
    file.write_all_at(b"middle", 500 << 20).unwrap();
    file.close().unwrap();
    assert_eq!(client.copy("/sparse", "/copy").unwrap(), 1 << 30);
    let meta = client.metadata("/copy").unwrap();
    assert_eq!(meta.len(), 1 << 30);
    assert!(meta.blocks() < 2048, "{} blocks", meta.blocks());
    let copy = client.open("/copy").unwrap();
    let mut middle = [0; 6];
    copy.read_exact_at(&mut middle, 500 << 20).unwrap();
    assert_eq!(&middle, b"middle");
    copy.read_exact_at(&mut middle, 0).unwrap();
    assert_eq!(&middle, b"start\0");
}

#[test]
fn texts_are_utf_8() {
    let (client, _server) = memory();
    client.write("/text", "für").unwrap();
    client.write("/bytes", b"\xff").unwrap();
    assert_eq!(client.read_to_string("/text").unwrap(), "für");
    let error = client.read_to_string("/bytes").unwrap_err();
    assert_eq!(error.errno(), Errno::ILSEQ.raw_os_error());
}

#[test]
fn real_paths_have_no_links() {
    let (client, _server) = small();
    client.symlink("/a/b/../../link/b", "/a/way").unwrap();
    client.symlink("loop", "/loop").unwrap();
    for (path, real) in [
        ("/", "/"),
        ("a/./b", "/a/b"),
        ("/link/x", "/a/x"),
        ("/link/up/c/", "/c"),
        ("/a/way/y", "/a/b/y"),
        ("/../../z", "/z"),
    ] {
        assert_eq!(
            client.canonicalize(path).unwrap(),
            Path::new(real),
            "{path}"
        );
    }
    for (path, errno) in [
        ("/no", Errno::NOENT),
        ("/no/../z", Errno::NOENT),
        ("/z/x", Errno::NOTDIR),
        ("/z/", Errno::NOTDIR),
        ("/loop", Errno::LOOP),
        ("", Errno::NOENT),
    ] {
        let error = client.canonicalize(path).unwrap_err();
        assert_eq!(error.errno(), errno.raw_os_error(), "{path}");
    }
}
