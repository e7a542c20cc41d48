//! Where files come from: the value of `--source`.

use fusewire_server::synthetic::Shape;
use std::ffi::{OsStr, OsString};
use std::fmt;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

/// A place with files.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Source {
    /// A directory of this host, served in process.
    Dir(PathBuf),
    /// An empty file system in memory, gone when the command ends.
    Mem {
        /// Room for contents, if it is bounded.
        capacity_bytes: Option<u64>,
    },
    /// A daemon that listens on this socket.
    VhostUser(PathBuf),
    /// A virtiofsd to be started for this directory.
    Virtiofsd(PathBuf),
    /// A tree made up by rule, for tests of programs.
    Synthetic(Shape),
}

const FORMS: &str = "give dir:PATH, mem:, vhost-user:SOCKET, virtiofsd:PATH or synthetic:SHAPE";

impl Source {
    /// Reads the form `KIND:REST`.
    ///
    /// # Errors
    /// One line for the user.
    pub fn parse(text: OsString) -> Result<Self, String> {
        let bytes = text.as_bytes();
        let Some(colon) = bytes.iter().position(|byte| *byte == b':') else {
            return Err(format!("it has no kind; {FORMS}"));
        };
        let (kind, rest) = (&bytes[..colon], &bytes[colon + 1..]);
        let path = || {
            if rest.is_empty() {
                return Err("the path is missing behind the colon".to_owned());
            }
            Ok(PathBuf::from(OsString::from_vec(rest.to_vec())))
        };
        match kind {
            b"dir" => Ok(Source::Dir(path()?)),
            b"vhost-user" => Ok(Source::VhostUser(path()?)),
            b"virtiofsd" => Ok(Source::Virtiofsd(path()?)),
            b"mem" => memory(rest),
            b"synthetic" => {
                let shape = std::str::from_utf8(rest)
                    .unwrap_or_default()
                    .parse::<Shape>();
                Ok(Source::Synthetic(shape?))
            }
            _ => Err(format!("there is no such kind; {FORMS}")),
        }
    }

    /// The served directory, if it is one of this host.
    pub fn host_path(&self) -> Option<&Path> {
        match self {
            Source::Dir(path) | Source::Virtiofsd(path) => Some(path),
            Source::Mem { .. } | Source::VhostUser(_) | Source::Synthetic(_) => None,
        }
    }

    /// The kind, as it is spelled on the command line.
    pub fn kind(&self) -> &'static str {
        match self {
            Source::Dir(_) => "dir",
            Source::Mem { .. } => "mem",
            Source::VhostUser(_) => "vhost-user",
            Source::Virtiofsd(_) => "virtiofsd",
            Source::Synthetic(_) => "synthetic",
        }
    }
}

impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:", self.kind())?;
        match self {
            Source::Dir(path) | Source::VhostUser(path) | Source::Virtiofsd(path) => {
                write!(f, "{}", path.display())
            }
            Source::Synthetic(shape) => write!(f, "{shape}"),
            Source::Mem { capacity_bytes } => match capacity_bytes {
                Some(bytes) => write!(f, "?capacity={bytes}"),
                None => Ok(()),
            },
        }
    }
}

fn memory(options: &[u8]) -> Result<Source, String> {
    if options.is_empty() {
        return Ok(Source::Mem {
            capacity_bytes: None,
        });
    }
    let size = options
        .strip_prefix(b"?capacity=")
        .ok_or("mem: takes nothing but ?capacity=SIZE behind it, such as mem:?capacity=1M")?;
    let bytes = parse_size(OsStr::from_bytes(size))
        .ok_or("the capacity is a number of bytes, with K, M or G for powers of 1024")?;
    Ok(Source::Mem {
        capacity_bytes: Some(bytes),
    })
}

/// `4096`, `64K`, `1M`, `2G`: bytes.
fn parse_size(text: &OsStr) -> Option<u64> {
    let text = text.to_str()?;
    let (digits, unit) = match text.bytes().last()? {
        b'K' => (&text[..text.len() - 1], 1 << 10),
        b'M' => (&text[..text.len() - 1], 1 << 20),
        b'G' => (&text[..text.len() - 1], 1 << 30),
        _ => (text, 1),
    };
    if digits.starts_with('+') {
        return None;
    }
    digits.parse::<u64>().ok()?.checked_mul(unit)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_is_read() {
        let parse = |text: &str| Source::parse(text.into());
        assert_eq!(parse("dir:."), Ok(Source::Dir(".".into())));
        assert_eq!(parse("dir:a:b?c"), Ok(Source::Dir("a:b?c".into())));
        assert_eq!(
            parse("vhost-user:/run/v.sock"),
            Ok(Source::VhostUser("/run/v.sock".into()))
        );
        assert_eq!(
            parse("virtiofsd:/srv"),
            Ok(Source::Virtiofsd("/srv".into()))
        );
        assert_eq!(
            parse("synthetic:wide?dirs=2&files=3"),
            Ok(Source::Synthetic(Shape::Wide { dirs: 2, files: 3 }))
        );
        for (text, capacity_bytes) in [
            ("mem:", None),
            ("mem:?capacity=0", Some(0)),
            ("mem:?capacity=4096", Some(4096)),
            ("mem:?capacity=64K", Some(65_536)),
            ("mem:?capacity=1M", Some(1 << 20)),
            ("mem:?capacity=2G", Some(2 << 30)),
        ] {
            assert_eq!(parse(text), Ok(Source::Mem { capacity_bytes }), "{text}");
        }
    }

    #[test]
    fn bytes_that_are_no_text_stay_in_a_path() {
        let text = OsString::from_vec(b"dir:\xff".to_vec());
        let path = PathBuf::from(OsString::from_vec(vec![0xff]));
        assert_eq!(Source::parse(text), Ok(Source::Dir(path)));
    }

    #[test]
    fn everything_else_is_refused() {
        for text in [
            "",
            "/srv",
            "dir:",
            "virtiofsd:",
            "vhost-user:",
            "nfs:x",
            "DIR:.",
            "mem:x",
            "synthetic:",
            "synthetic:round",
            "mem:?capacity=",
            "mem:?capacity=1T",
            "mem:?capacity=+1",
            "mem:?capacity=-1",
            "mem:?capacity=99999999999999999999",
            "mem:?capacity=99999999999999G",
        ] {
            assert!(Source::parse(text.into()).is_err(), "{text}");
        }
    }
}
