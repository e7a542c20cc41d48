//! Files to be copied, and a hash to see that they arrived.

use super::stats::Rng;
use std::fs::{self, File};
use std::hash::{DefaultHasher, Hasher};
use std::io::{self, Read, Write};
use std::ops::Range;
use std::path::Path;

/// Bytes written and read at once.
const CHUNK_BYTES: usize = 1 << 20;

/// Makes a file of `bytes` bytes that are neither zero nor alike.
pub fn make_file(path: &Path, bytes: usize, rng: &mut Rng) -> io::Result<()> {
    let mut file = File::create_new(path)?;
    let mut left = bytes;
    while left > 0 {
        let words = (0..CHUNK_BYTES.min(left).div_ceil(8)).map(|_| rng.next());
        let chunk: Vec<u8> = words.flat_map(u64::to_le_bytes).collect();
        let chunk = &chunk[..chunk.len().min(left)];
        file.write_all(chunk)?;
        left -= chunk.len();
    }
    Ok(())
}

/// Makes a directory with `directories` directories of `files` files each, of sizes out of `bytes`.
pub fn make_tree(
    path: &Path,
    (directories, files): (usize, usize),
    bytes: Range<usize>,
    rng: &mut Rng,
) -> io::Result<()> {
    fs::create_dir(path)?;
    for directory in 0..directories {
        let directory = path.join(format!("d{directory:03}"));
        fs::create_dir(&directory)?;
        for file in 0..files {
            let size = bytes.start + rng.below(bytes.len());
            make_file(&directory.join(format!("f{file:03}")), size, rng)?;
        }
    }
    Ok(())
}

/// A hash over names, kinds and contents of what is at `path`, read with nothing but system calls.
pub fn hash(path: &Path) -> io::Result<u64> {
    let mut hasher = DefaultHasher::new();
    add(path, &mut hasher)?;
    Ok(hasher.finish())
}

fn add(path: &Path, hasher: &mut impl Hasher) -> io::Result<()> {
    let kind = fs::symlink_metadata(path)?.file_type();
    if kind.is_dir() {
        let mut names = fs::read_dir(path)?
            .map(|entry| entry.map(|entry| entry.file_name()))
            .collect::<io::Result<Vec<_>>>()?;
        names.sort_unstable();
        hasher.write_usize(names.len());
        for name in names {
            hasher.write_usize(name.len());
            hasher.write(name.as_encoded_bytes());
            add(&path.join(name), hasher)?;
        }
        return Ok(());
    }
    if !kind.is_file() {
        let text = format!("{} is neither file nor directory", path.display());
        return Err(io::Error::other(text));
    }
    let mut file = File::open(path)?;
    let mut chunk = vec![0; CHUNK_BYTES];
    let mut total = 0;
    loop {
        let read = file.read(&mut chunk)?;
        if read == 0 {
            break;
        }
        hasher.write(&chunk[..read]);
        total += read;
    }
    hasher.write_usize(total);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_hash_sees_contents_names_and_kinds() {
        let dir = tempfile::tempdir().unwrap();
        let tree = |name: &str, seed| {
            let path = dir.path().join(name);
            make_tree(&path, (3, 4), 1..3000, &mut Rng::new(seed)).unwrap();
            path
        };
        let (first, same, other) = (tree("a", 1), tree("b", 1), tree("c", 2));
        let original = hash(&first).unwrap();
        assert_eq!(original, hash(&same).unwrap());
        assert_ne!(original, hash(&other).unwrap());

        let file = same.join("d001").join("f002");
        let mut bytes = fs::read(&file).unwrap();
        bytes[0] ^= 1;
        fs::write(&file, &bytes).unwrap();
        assert_ne!(original, hash(&same).unwrap(), "one bit");
        bytes[0] ^= 1;
        fs::write(&file, &bytes).unwrap();
        assert_eq!(original, hash(&same).unwrap());
        fs::rename(&file, same.join("d001").join("x")).unwrap();
        assert_ne!(original, hash(&same).unwrap(), "another name");
    }

    #[test]
    fn a_file_has_its_size_and_no_zeroes_to_leave_out() {
        let dir = tempfile::tempdir().unwrap();
        for bytes in [0, 1, 4096, CHUNK_BYTES + 9] {
            let path = dir.path().join(bytes.to_string());
            make_file(&path, bytes, &mut Rng::new(1)).unwrap();
            let made = fs::read(&path).unwrap();
            assert_eq!(made.len(), bytes);
            assert!(
                made.chunks(4096)
                    .all(|block| block.iter().any(|byte| *byte != 0))
            );
        }
    }
}
