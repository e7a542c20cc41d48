//! Trees that exist by rule.

use crate::common::{Failure, Raw, small};
use fusewire_server::synthetic::{Shape, Synthetic, SyntheticOptions};
use fusewire_server::{ServerHandle, Usage, start};
use fusewire_wire::Request;
use fusewire_wire::abi::*;

const S_IFDIR: u32 = 0o040_000;

fn over(shape: Shape, test: impl FnOnce(&Raw, &ServerHandle<Synthetic>)) {
    let fs = Synthetic::new(shape, SyntheticOptions::default());
    let (client, server) = start(fs, &small()).unwrap();
    let raw = Raw::connected(client);
    test(&raw, &server);
    raw.leave();
    assert_eq!(server.join(), Usage::default());
}

fn names(raw: &Raw, node: u64) -> Vec<Vec<u8>> {
    let fh = raw.opendir(node).unwrap();
    let listed = raw.readdir(node, fh, 2, 4096).unwrap();
    raw.releasedir(fh).unwrap();
    listed.into_iter().map(|listed| listed.name).collect()
}

#[test]
fn a_wide_tree_has_exactly_what_was_asked_for() {
    over(Shape::Wide { dirs: 7, files: 30 }, |raw, _| {
        let mut nodes = Vec::new();
        for dir in raw.list(ROOT_ID, 500, true).unwrap() {
            for file in raw.list(dir.ino, 500, false).unwrap() {
                let found = raw.lookup(dir.ino, &file.name).unwrap();
                assert_eq!(found.nodeid, file.ino);
                nodes.push(file.ino);
            }
        }
        nodes.sort_unstable();
        nodes.dedup();
        assert_eq!(nodes.len(), 7 * 30);
    });
}

#[test]
fn what_was_held_at_most_is_remembered() {
    over(Shape::Wide { dirs: 3, files: 3 }, |raw, server| {
        let handles: Vec<u64> = (0..4).map(|_| raw.opendir(ROOT_ID).unwrap()).collect();
        for name in [b"d0", b"d0", b"d1"] {
            raw.lookup(ROOT_ID, name).unwrap();
        }
        let most = Usage {
            live_nodes: 2,
            lookups: 3,
            open_handles: 4,
        };
        assert_eq!(server.usage(), most);
        for fh in handles {
            raw.releasedir(fh).unwrap();
        }
        raw.forget(2);
        assert_eq!(server.usage().lookups, 1);
        assert_eq!(server.fs().peak(), most);
        assert_eq!(raw.releasedir(1), Err(Failure::Errno(9)));
    });
}

#[test]
fn width_and_depth_have_no_end() {
    over(Shape::EndlessWidth, |raw, _| {
        let fh = raw.opendir(ROOT_ID).unwrap();
        let mut offset = 0;
        for _ in 0..50 {
            let batch = raw.readdir(ROOT_ID, fh, offset, 4096).unwrap();
            offset = batch.last().unwrap().next;
        }
        assert!(offset > 1000);
        // At the end of the numbers there is nothing more, and nothing breaks.
        let last = raw.readdir(ROOT_ID, fh, u64::MAX - 3, 4096).unwrap();
        assert!(last.len() < 4);
        assert!(raw.readdir(ROOT_ID, fh, u64::MAX, 4096).unwrap().is_empty());
        raw.releasedir(fh).unwrap();
    });
    over(Shape::EndlessDepth, |raw, _| {
        let mut dir = ROOT_ID;
        for _ in 0..200 {
            let below = raw.lookup(dir, b"d").unwrap();
            assert_eq!(below.attr.mode & S_IFMT, S_IFDIR);
            assert!(below.nodeid > dir);
            dir = below.nodeid;
        }
    });
}

#[test]
fn nodes_that_nobody_was_told_of_break_nothing() {
    let shapes = [
        Shape::Wide {
            dirs: u32::MAX,
            files: u32::MAX,
        },
        Shape::EndlessWidth,
        Shape::EndlessDepth,
        Shape::Endless,
        Shape::Cycle,
        Shape::Crooked,
        Shape::Undead,
    ];
    for shape in shapes {
        over(shape, |raw, _| {
            let fh = raw.opendir(ROOT_ID).unwrap();
            for node in [0, 1, 2, 3, 1 << 33, u64::MAX - 1, u64::MAX] {
                raw.getattr(node, None).unwrap();
                for name in [&b"d"[..], b"f0", b"d18446744073709551615", b"\xff\xff"] {
                    let _ = raw.lookup(node, name);
                }
                for offset in [0, 2, 1 << 40, u64::MAX] {
                    raw.readdir(node, fh, offset, 4096).unwrap();
                    raw.readdirplus(node, fh, offset, 4096).unwrap();
                }
            }
            raw.releasedir(fh).unwrap();
        });
    }
}

#[test]
fn directories_are_inside_themselves() {
    over(Shape::Cycle, |raw, _| {
        let a = raw.lookup(ROOT_ID, b"a").unwrap().nodeid;
        let b = raw.lookup(a, b"b").unwrap().nodeid;
        assert_eq!(raw.lookup(b, b"a").unwrap().nodeid, a);
        let own = raw.lookup(ROOT_ID, b"self").unwrap().nodeid;
        assert_eq!(raw.lookup(own, b"self").unwrap().nodeid, own);
    });
}

#[test]
fn crooked_entries_are_what_no_entry_may_be() {
    over(Shape::Crooked, |raw, _| {
        let all = names(raw, ROOT_ID);
        assert!(all.iter().any(|name| name.contains(&0x1b)));
        assert_eq!(raw.lookup(ROOT_ID, b"root").unwrap().nodeid, ROOT_ID);
        let huge = raw.lookup(ROOT_ID, b"huge").unwrap();
        assert_eq!(huge.attr.size, i64::MAX as u64);
        let request = Request::Open {
            flags: 0,
            open_flags: 0,
        };
        let body = raw.call(huge.nodeid, &request, &[]).unwrap();
        assert_eq!(body.len(), size_of::<OpenOut>());
        let arg = ReadIn {
            size: 100,
            ..ReadIn::default()
        };
        let read = raw.call(huge.nodeid, &Request::Read(arg), &[]).unwrap();
        assert_eq!(read, b"xxxxx");
        raw.release(0).unwrap();
        // What the directory says, and what the node is.
        let fh = raw.opendir(ROOT_ID).unwrap();
        let listed = raw.readdir(ROOT_ID, fh, 0, 4096).unwrap();
        raw.releasedir(fh).unwrap();
        let liar = listed
            .iter()
            .find(|entry| entry.name == b"not-a-directory")
            .unwrap();
        let found = raw.lookup(ROOT_ID, b"not-a-directory").unwrap();
        assert_eq!(liar.typ << 12, S_IFDIR);
        assert_ne!(found.attr.mode & S_IFMT, S_IFDIR);
        let kinds: Vec<u32> = (0..2)
            .map(|_| raw.lookup(ROOT_ID, b"changing").unwrap().attr.mode & S_IFMT)
            .collect();
        assert_ne!(kinds[0], kinds[1]);
        // Names that are paths come as they are; a reader of directories stops at them.
        let slash = raw.lookup(ROOT_ID, b"slash").unwrap().nodeid;
        let fh = raw.opendir(slash).unwrap();
        let arg = ReadIn {
            fh,
            size: 4096,
            ..ReadIn::default()
        };
        let raw_bytes = raw.call(slash, &Request::Readdir(arg), &[]).unwrap();
        raw.releasedir(fh).unwrap();
        let path = b"../../escape";
        assert!(raw_bytes.windows(path.len()).any(|part| part == path));
        let dots = raw.lookup(ROOT_ID, b"dots").unwrap().nodeid;
        assert_eq!(names(raw, dots), [&b".."[..], b".", b"ok"]);
    });
}

#[test]
fn the_undead_are_removed_and_still_there() {
    over(Shape::Undead, |raw, _| {
        let dir = raw.lookup(ROOT_ID, b"d").unwrap().nodeid;
        raw.unlink(dir, b"x").unwrap();
        assert!(names(raw, dir).contains(&b"x".to_vec()));
    });
    over(Shape::EndlessWidth, |raw, _| {
        raw.unlink(ROOT_ID, b"f5").unwrap();
        assert_eq!(raw.lookup(ROOT_ID, b"f5"), Err(Failure::Errno(2)));
        assert!(!names(raw, ROOT_ID).contains(&b"f5".to_vec()));
    });
}
