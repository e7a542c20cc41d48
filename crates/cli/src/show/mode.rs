//! A mode as `ls -l` shows it.

/// Type and permission bits as ten characters, such as `drwxr-xr-x`.
pub fn symbolic(mode: u32) -> String {
    let kind = match mode & 0o170_000 {
        0o040_000 => 'd',
        0o100_000 => '-',
        0o120_000 => 'l',
        0o020_000 => 'c',
        0o060_000 => 'b',
        0o010_000 => 'p',
        0o140_000 => 's',
        _ => '?',
    };
    let mut text = String::with_capacity(10);
    text.push(kind);
    for (shift, special, set) in [(6, 0o4000, 's'), (3, 0o2000, 's'), (0, 0o1000, 't')] {
        let bits = mode >> shift;
        text.push(if bits & 4 != 0 { 'r' } else { '-' });
        text.push(if bits & 2 != 0 { 'w' } else { '-' });
        text.push(match (mode & special != 0, bits & 1 != 0) {
            (false, false) => '-',
            (false, true) => 'x',
            (true, true) => set,
            (true, false) => set.to_ascii_uppercase(),
        });
    }
    text
}

/// What a mode's type is called by `stat`.
pub fn kind(mode: u32, size: u64) -> &'static str {
    match mode & 0o170_000 {
        0o040_000 => "directory",
        0o100_000 if size == 0 => "regular empty file",
        0o100_000 => "regular file",
        0o120_000 => "symbolic link",
        0o020_000 => "character special file",
        0o060_000 => "block special file",
        0o010_000 => "fifo",
        0o140_000 => "socket",
        _ => "weird file",
    }
}

/// A type by its letter in `find`: one of `fdlbcps`, or `?`.
pub fn letter(kind: fusewire::FileType) -> char {
    match kind {
        kind if kind.is_file() => 'f',
        kind if kind.is_dir() => 'd',
        kind if kind.is_symlink() => 'l',
        kind if kind.is_block_device() => 'b',
        kind if kind.is_char_device() => 'c',
        kind if kind.is_fifo() => 'p',
        kind if kind.is_socket() => 's',
        _ => '?',
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn modes_look_as_in_coreutils() {
        for (mode, text) in [
            (0o040_755, "drwxr-xr-x"),
            (0o100_644, "-rw-r--r--"),
            (0o120_777, "lrwxrwxrwx"),
            (0o104_755, "-rwsr-xr-x"),
            (0o104_644, "-rwSr--r--"),
            (0o102_755, "-rwxr-sr-x"),
            (0o102_644, "-rw-r-Sr--"),
            (0o041_777, "drwxrwxrwt"),
            (0o041_776, "drwxrwxrwT"),
            (0o020_000, "c---------"),
            (0o060_000, "b---------"),
            (0o010_000, "p---------"),
            (0o140_000, "s---------"),
            (0, "?---------"),
        ] {
            assert_eq!(symbolic(mode), text);
        }
    }
}
