//! What one line of a trace says.

use fusewire_wire::{Opcode, Request, errno, request};
use std::io::Write;

/// A message as it went out.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Sent {
    pub(super) opcode: u32,
    pub(super) unique: u64,
    pub(super) nodeid: u64,
    /// Names in the request, each with what it is.
    pub(super) names: Vec<(&'static str, Vec<u8>)>,
    /// Head and payload.
    pub(super) request_bytes: u64,
    pub(super) at_ns: u64,
}

/// How it ended.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum End {
    /// A message without a reply.
    OneWay,
    Reply {
        reply_bytes: u64,
        latency_ns: u64,
        outcome: Outcome,
    },
    /// The connection ended first.
    Unanswered,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Outcome {
    Ok,
    /// A positive errno.
    Errno(i32),
    /// Nothing at all: virtiofsd answers DESTROY so.
    Empty,
    /// No reply that FUSE knows.
    Malformed,
}

impl Sent {
    pub(super) fn new(head: &[u8], payload_bytes: u64, at_ns: u64) -> Self {
        let request_bytes = head.len() as u64 + payload_bytes;
        match request::parse_header(head) {
            Ok(header) => Sent {
                opcode: header.opcode,
                unique: header.unique,
                nodeid: header.nodeid,
                names: Request::parse(head).map_or_else(|_| Vec::new(), |(_, r, _)| names(&r)),
                request_bytes,
                at_ns,
            },
            Err(_) => Sent {
                opcode: 0,
                unique: 0,
                nodeid: 0,
                names: Vec::new(),
                request_bytes,
                at_ns,
            },
        }
    }

    /// `LOOKUP unique=2 node=1 name="a" request=42 reply=144 latency=9.5us ok`
    pub(super) fn write_text(&self, end: &End, line: &mut Vec<u8>) -> std::io::Result<()> {
        match Opcode::try_from(self.opcode) {
            Ok(opcode) => write!(line, "{opcode}")?,
            Err(_) => write!(line, "opcode {}", self.opcode)?,
        }
        write!(line, " unique={} node={}", self.unique, self.nodeid)?;
        for (what, name) in &self.names {
            write!(line, " {what}=\"{}\"", name.escape_ascii())?;
        }
        write!(line, " request={}", self.request_bytes)?;
        match end {
            End::OneWay => {}
            End::Unanswered => write!(line, " unanswered")?,
            End::Reply {
                reply_bytes,
                latency_ns,
                outcome,
            } => {
                let latency = Micros(*latency_ns);
                write!(line, " reply={reply_bytes} latency={latency}us {outcome}")?;
            }
        }
        line.push(b'\n');
        Ok(())
    }

    /// One JSON object. A name that is not UTF-8 is given as `…_hex`, the hexadecimal digits of
    /// its bytes.
    pub(super) fn write_json(&self, end: &End, line: &mut Vec<u8>) -> std::io::Result<()> {
        line.extend_from_slice(b"{\"opcode\":");
        match Opcode::try_from(self.opcode) {
            Ok(opcode) => write!(line, "\"{opcode}\"")?,
            Err(_) => write!(line, "{}", self.opcode)?,
        }
        write!(
            line,
            ",\"unique\":{},\"nodeid\":{}",
            self.unique, self.nodeid
        )?;
        for (what, name) in &self.names {
            match std::str::from_utf8(name) {
                Ok(name) => write!(line, ",\"{what}\":{}", JsonString(name))?,
                Err(_) => {
                    write!(line, ",\"{what}_hex\":\"")?;
                    for byte in name {
                        write!(line, "{byte:02x}")?;
                    }
                    line.push(b'"');
                }
            }
        }
        write!(line, ",\"request_bytes\":{}", self.request_bytes)?;
        match end {
            End::OneWay => {}
            End::Unanswered => write!(line, ",\"result\":\"unanswered\"")?,
            End::Reply {
                reply_bytes,
                latency_ns,
                outcome,
            } => {
                let latency = Micros(*latency_ns);
                write!(line, ",\"reply_bytes\":{reply_bytes}")?;
                write!(
                    line,
                    ",\"latency_us\":{latency},\"result\":{}",
                    JsonString(&outcome.to_string())
                )?;
            }
        }
        line.extend_from_slice(b"}\n");
        Ok(())
    }
}

fn names(request: &Request<'_>) -> Vec<(&'static str, Vec<u8>)> {
    let (first, second) = match request {
        Request::Lookup { name }
        | Request::Mknod { name, .. }
        | Request::Mkdir { name, .. }
        | Request::Unlink { name }
        | Request::Rmdir { name }
        | Request::Create { name, .. } => (("name", name.as_bytes()), None),
        Request::Symlink { name, target } => (
            ("name", name.as_bytes()),
            Some(("target", target.as_bytes())),
        ),
        Request::Rename { name, new_name, .. } | Request::Rename2 { name, new_name, .. } => (
            ("name", name.as_bytes()),
            Some(("new_name", new_name.as_bytes())),
        ),
        Request::Link { new_name, .. } => (("name", new_name.as_bytes()), None),
        Request::Getxattr { name, .. }
        | Request::Setxattr { name, .. }
        | Request::Removexattr { name } => (("name", name.as_bytes()), None),
        _ => return Vec::new(),
    };
    [Some(first), second]
        .into_iter()
        .flatten()
        .map(|(what, name)| (what, name.to_vec()))
        .collect()
}

impl std::fmt::Display for Outcome {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match *self {
            Outcome::Ok => f.write_str("ok"),
            Outcome::Empty => f.write_str("empty"),
            Outcome::Malformed => f.write_str("malformed"),
            Outcome::Errno(number) => match errno::name(number) {
                Some(name) => f.write_str(name),
                None => write!(f, "errno {number}"),
            },
        }
    }
}

/// Nanoseconds shown in microseconds, to a tenth.
struct Micros(u64);

impl std::fmt::Display for Micros {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}.{}", self.0 / 1000, self.0 % 1000 / 100)
    }
}

/// Text as a JSON string. All that is not printable ASCII is escaped, so it is safe on a terminal.
struct JsonString<'a>(&'a str);

impl std::fmt::Display for JsonString<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("\"")?;
        for c in self.0.chars() {
            match c {
                '"' | '\\' => write!(f, "\\{c}")?,
                ' '..='~' => write!(f, "{c}")?,
                _ => {
                    for unit in c.encode_utf16(&mut [0; 2]) {
                        write!(f, "\\u{unit:04x}")?;
                    }
                }
            }
        }
        f.write_str("\"")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(sent: &Sent, end: &End, json: bool) -> String {
        let mut line = Vec::new();
        if json {
            sent.write_json(end, &mut line).unwrap();
        } else {
            sent.write_text(end, &mut line).unwrap();
        }
        String::from_utf8(line).unwrap()
    }

    fn lookup(name: &[u8]) -> Sent {
        Sent {
            opcode: 1,
            unique: 2,
            nodeid: 1,
            names: vec![("name", name.to_vec())],
            request_bytes: 42,
            at_ns: 0,
        }
    }

    #[test]
    fn a_text_line_quotes_what_a_terminal_would_obey() {
        let end = End::Reply {
            reply_bytes: 16,
            latency_ns: 12_345,
            outcome: Outcome::Errno(2),
        };
        assert_eq!(
            line(&lookup(b"a\x1b[2J\n"), &end, false),
            "LOOKUP unique=2 node=1 name=\"a\\x1b[2J\\n\" request=42 reply=16 latency=12.3us ENOENT\n"
        );
        assert_eq!(
            line(&lookup(b"a"), &End::Unanswered, false),
            "LOOKUP unique=2 node=1 name=\"a\" request=42 unanswered\n"
        );
        assert_eq!(
            line(&lookup(b"a"), &End::OneWay, false),
            "LOOKUP unique=2 node=1 name=\"a\" request=42\n"
        );
    }

    #[test]
    fn a_json_line_keeps_every_name_apart() {
        let end = End::Reply {
            reply_bytes: 144,
            latency_ns: 999,
            outcome: Outcome::Ok,
        };
        assert_eq!(
            line(&lookup("a\"\u{1b}é😀".as_bytes()), &end, true),
            "{\"opcode\":\"LOOKUP\",\"unique\":2,\"nodeid\":1,\
             \"name\":\"a\\\"\\u001b\\u00e9\\ud83d\\ude00\",\"request_bytes\":42,\
             \"reply_bytes\":144,\"latency_us\":0.9,\"result\":\"ok\"}\n"
        );
        assert!(line(&lookup(b"\xff\x01"), &end, true).contains("\"name_hex\":\"ff01\""));
        assert!(line(&lookup(b"a"), &End::Unanswered, true).contains("\"result\":\"unanswered\""));
    }

    #[test]
    fn unknown_numbers_are_shown_as_numbers() {
        let end = End::Reply {
            reply_bytes: 16,
            latency_ns: 0,
            outcome: Outcome::Errno(500),
        };
        let sent = Sent::new(&[], 0, 0);
        assert!(line(&sent, &end, false).starts_with("opcode 0 unique=0 "));
        assert!(line(&sent, &end, false).ends_with(" errno 500\n"));
        assert!(line(&sent, &end, true).starts_with("{\"opcode\":0,"));
    }
}
