//! Sequences of operations drawn at random, on the client and on the kernel: the same results, the
//! same errors, and in the end the same tree.

use super::cases;
use crate::check::seed;
use crate::differ::Pair;
use crate::ops::{How, Op, SLOTS};
use crate::session::Session;
use fusewire::Client;
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::select;
use proptest::test_runner::{Config, RngAlgorithm, TestError, TestRng, TestRunner};
use std::io::SeekFrom;
use std::path::PathBuf;

cases![random_sequences_agree_with_the_kernel];

/// Operations of a sequence, at most.
const LENGTH: usize = 40;
/// Sequences per peer at full size, and their share in a short run.
const SEQUENCES: u32 = 500;
const SHORT: u32 = 50;

fn random_sequences_agree_with_the_kernel(s: &Session) {
    let soak = std::env::var_os("FUSEWIRE_SOAK").is_some_and(|value| value == "1");
    let cases = match std::env::var("PROPTEST_CASES") {
        Ok(_) => Config::default().cases,
        Err(_) if soak => SEQUENCES,
        Err(_) => SEQUENCES / SHORT,
    };
    let config = Config {
        cases,
        failure_persistence: None,
        // Each attempt at a smaller failure starts a peer.
        max_shrink_iters: 400,
        ..Config::default()
    };
    let seed = seed();
    let mut bytes = [0; 32];
    bytes[..8].copy_from_slice(&seed.to_le_bytes());
    let random = TestRng::from_seed(RngAlgorithm::ChaCha, &bytes);
    let mut runner = TestRunner::new_with_rng(config, random);
    let result = runner.run(&vec(operation(), 1..LENGTH), |ops| {
        sequence(s, &ops).map_err(TestCaseError::fail)
    });
    if let Err(TestError::Fail(how, _) | TestError::Abort(how)) = result {
        panic!("with FUSEWIRE_SEED={seed}: {how}");
    }
}

/// Carries a sequence out on a peer of its own.
pub fn sequence(s: &Session, ops: &[Op]) -> Result<(), String> {
    let host = tempfile::tempdir().unwrap();
    let permissions = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    std::fs::set_permissions(host.path(), permissions).unwrap();
    let other = s.another(host.path(), Client::builder());
    let mut pair = Pair::new(&other);
    for op in ops {
        pair.try_act(op)?;
    }
    let result = pair.compare_trees();
    drop(pair);
    result?;
    other.finish();
    Ok(())
}

/// Few names, so that they meet.
fn name() -> impl Strategy<Value = &'static str> {
    select(vec!["a", "b", "c", "d"])
}

fn component() -> impl Strategy<Value = &'static str> {
    prop_oneof![
        18 => name(),
        1 => Just("."),
        1 => Just(".."),
    ]
}

/// A path of up to three names.
fn path() -> impl Strategy<Value = PathBuf> {
    let start = prop_oneof![4 => Just(""), 1 => Just("/")];
    let end = prop_oneof![14 => Just(""), 1 => Just("/")];
    (start, vec(component(), 1..=3), end)
        .prop_map(|(start, names, end)| format!("{start}{}{end}", names.join("/")).into())
}

/// A path that ends in a name.
fn plain_path() -> impl Strategy<Value = PathBuf> {
    (vec(component(), 0..=1), name()).prop_map(|(dirs, name)| {
        let mut path: PathBuf = dirs.into_iter().collect();
        path.push(name);
        path
    })
}

fn mode() -> impl Strategy<Value = u32> {
    select(vec![
        0o700, 0o755, 0o644, 0o600, 0o777, 0o4755, 0o2775, 0o1777,
    ])
}

fn how() -> impl Strategy<Value = How> {
    (any::<[bool; 6]>(), prop::bool::weighted(0.1), mode()).prop_map(|(bits, nofollow, mode)| {
        let [read, write, append, truncate, create, create_new] = bits;
        How {
            read,
            write,
            // As often as not.
            append: append && !truncate,
            truncate: truncate && write,
            create: create && (write || append),
            create_new: create_new && create && (write || append) && mode == 0o700,
            nofollow,
            mode,
        }
    })
}

fn slot() -> impl Strategy<Value = usize> {
    0..SLOTS
}

/// Mostly small, sometimes past a request or past 4 GiB.
fn len() -> impl Strategy<Value = usize> {
    prop_oneof![6 => 0..200usize, 3 => 0..9000usize, 1 => 0..300_000usize]
}

fn offset() -> impl Strategy<Value = u64> {
    prop_oneof![6 => 0..300u64, 3 => 0..20_000u64, 1 => 0..400_000u64]
}

fn seek() -> impl Strategy<Value = SeekFrom> {
    prop_oneof![
        offset().prop_map(SeekFrom::Start),
        (-300..300i64).prop_map(SeekFrom::Current),
        (-300..300i64).prop_map(SeekFrom::End),
    ]
}

fn operation() -> BoxedStrategy<Op> {
    prop_oneof![
        3 => on_names(),
        2 => on_attributes(),
        4 => on_files(),
    ]
    .boxed()
}

fn on_names() -> impl Strategy<Value = Op> {
    prop_oneof![
        4 => (path(), mode()).prop_map(|(path, mode)| Op::Mkdir(path, mode)),
        1 => path().prop_map(Op::MkdirAll),
        1 => (path(), select(vec![0o010_644, 0o100_600, 0o140_600]))
            .prop_map(|(path, mode)| Op::Mknod(path, mode)),
        2 => (path(), path()).prop_map(|(target, link)| Op::Symlink(target, link)),
        2 => (path(), path()).prop_map(|(original, link)| Op::Link(original, link)),
        4 => (path(), path()).prop_map(|(from, to)| Op::Rename(from, to)),
        3 => path().prop_map(Op::Unlink),
        2 => path().prop_map(Op::Rmdir),
        1 => plain_path().prop_map(Op::RemoveAll),
        3 => (path(), len(), 0..100u64).prop_map(|(path, len, seed)| Op::WriteFile(path, len, seed)),
    ]
}

fn on_attributes() -> impl Strategy<Value = Op> {
    prop_oneof![
        3 => path().prop_map(Op::Stat),
        3 => path().prop_map(Op::Lstat),
        1 => path().prop_map(Op::Exists),
        2 => path().prop_map(Op::ReadDir),
        1 => path().prop_map(Op::ReadLink),
        3 => path().prop_map(Op::ReadFile),
        1 => (path(), offset()).prop_map(|(path, len)| Op::Truncate(path, len)),
        1 => (path(), mode()).prop_map(|(path, mode)| Op::Chmod(path, mode)),
        1 => (path(), any::<bool>(), 0..900_000_000i64, 0..1_000_000_000u32)
            .prop_map(|(path, follow, secs, nanos)| Op::SetTime(path, follow, secs, nanos)),
    ]
}

fn on_files() -> impl Strategy<Value = Op> {
    prop_oneof![
        6 => (slot(), path(), how()).prop_map(|(slot, path, how)| Op::Open(slot, path, how)),
        1 => slot().prop_map(Op::Close),
        2 => (slot(), len()).prop_map(|(slot, len)| Op::Read(slot, len)),
        3 => (slot(), len(), 0..100u64).prop_map(|(slot, len, seed)| Op::Write(slot, len, seed)),
        2 => (slot(), offset(), len()).prop_map(|(slot, at, len)| Op::ReadAt(slot, at, len)),
        2 => (slot(), offset(), len(), 0..100u64)
            .prop_map(|(slot, at, len, seed)| Op::WriteAt(slot, at, len, seed)),
        2 => (slot(), seek()).prop_map(|(slot, to)| Op::Seek(slot, to)),
        1 => (slot(), offset()).prop_map(|(slot, len)| Op::SetLen(slot, len)),
        2 => slot().prop_map(Op::Fstat),
        1 => (slot(), mode()).prop_map(|(slot, mode)| Op::Fchmod(slot, mode)),
        1 => slot().prop_map(Op::Sync),
    ]
}
