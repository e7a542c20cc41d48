//! Names for people: nothing that a peer chose can steer a terminal or break a line.

use std::fmt::Write;

/// A name for a message: as it is, or quoted if it holds anything that does not print.
pub fn for_message(name: &[u8]) -> String {
    match std::str::from_utf8(name) {
        Ok(text) if !text.is_empty() && text.chars().all(prints) => text.to_owned(),
        _ => quoted(name),
    }
}

/// A name for a terminal: as it is, or quoted in the way a shell takes it, as `ls` of coreutils
/// does, if it holds anything that does not print or that a shell would not take as it is.
pub fn for_terminal(name: &[u8]) -> String {
    match std::str::from_utf8(name) {
        Ok(text) if !text.is_empty() && is_plain(text) => text.to_owned(),
        _ => quoted(name),
    }
}

/// Whether a shell takes the name as it is.
fn is_plain(name: &str) -> bool {
    let special = |c: char| prints(c) && !" \"'\\$`!&|;<>()*?[]={}^".contains(c);
    name.chars().all(special) && !name.starts_with(['~', '#'])
}

/// Whether a character shows itself and does nothing else.
fn prints(c: char) -> bool {
    !c.is_control()
        && !matches!(c,
            // Line ends, and what turns or hides the text around it.
            '\u{2028}' | '\u{2029}' | '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}'
            | '\u{2060}'..='\u{206f}' | '\u{feff}' | '\u{61c}')
}

/// In single quotes, or double ones where that spares escapes; what does not print as `$'\n'`.
fn quoted(name: &[u8]) -> String {
    if let Ok(text) = std::str::from_utf8(name)
        && text.chars().all(prints)
    {
        return if !text.contains('\'') {
            format!("'{text}'")
        } else if !text.contains(['"', '\\', '$', '`', '!']) {
            format!("\"{text}\"")
        } else {
            format!("'{}'", text.replace('\'', r"'\''"))
        };
    }
    let mut out = Segments::default();
    for chunk in name.utf8_chunks() {
        for c in chunk.valid().chars() {
            if prints(c) {
                out.shown(c);
            } else {
                out.escaped(c.encode_utf8(&mut [0; 4]).as_bytes());
            }
        }
        out.escaped(chunk.invalid());
    }
    out.finish()
}

#[derive(Default)]
struct Segments {
    text: String,
    state: Segment,
}

#[derive(Clone, Copy, Default, PartialEq)]
enum Segment {
    #[default]
    None,
    Shown,
    Escaped,
}

impl Segments {
    fn enter(&mut self, state: Segment) {
        if self.state == state {
            return;
        }
        self.text.push_str(match (self.state, state) {
            (Segment::None, Segment::Shown) => "'",
            (Segment::None, Segment::Escaped) => "$'",
            (_, Segment::Shown) => "''",
            (_, Segment::Escaped) => "'$'",
            (_, Segment::None) => "'",
        });
        self.state = state;
    }

    fn shown(&mut self, c: char) {
        self.enter(Segment::Shown);
        if c == '\'' {
            self.text.push_str(r"'\''");
        } else {
            self.text.push(c);
        }
    }

    fn escaped(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.enter(Segment::Escaped);
            match byte {
                b'\n' => self.text.push_str(r"\n"),
                b'\t' => self.text.push_str(r"\t"),
                b'\r' => self.text.push_str(r"\r"),
                // Octal, because only its length is bounded.
                _ => write!(self.text, "\\{byte:03o}").expect("a String takes everything"),
            }
        }
    }

    fn finish(mut self) -> String {
        if self.text.is_empty() {
            return "''".to_owned();
        }
        self.enter(Segment::None);
        self.text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plain_names_stay_as_they_are() {
        for name in ["a", "a.txt", "été", "日本", "a-b_c+d,e:f@g%h"] {
            assert_eq!(for_terminal(name.as_bytes()), name);
            assert_eq!(for_message(name.as_bytes()), name);
        }
        assert_eq!(for_message(b"a b"), "a b");
    }

    #[test]
    fn a_terminal_gets_what_a_shell_would_take() {
        for (name, shown) in [
            ("a b", "'a b'"),
            ("it's", "\"it's\""),
            ("it's $1", r"'it'\''s $1'"),
            ("~x", "'~x'"),
            ("a~", "a~"),
            ("", "''"),
        ] {
            assert_eq!(for_terminal(name.as_bytes()), shown);
        }
    }

    #[test]
    fn what_does_not_print_is_spelled_out() {
        for (name, shown) in [
            (&b"a\nb"[..], r"'a'$'\n''b'"),
            (b"\x1b[2J", r"$'\033''[2J'"),
            (b"\xff", r"$'\377'"),
            (b"a'\t", r"'a'\'''$'\t'"),
            ("x\u{202e}y".as_bytes(), r"'x'$'\342\200\256''y'"),
            ("\u{9b}".as_bytes(), r"$'\302\233'"),
        ] {
            assert_eq!(for_terminal(name), shown);
            assert_eq!(for_message(name), shown);
        }
        assert_eq!(for_message(b""), "''");
    }

    #[test]
    fn every_byte_comes_back_from_a_shell() {
        // All but NUL, which no name has.
        let name: Vec<u8> = (1..=255).collect();
        for name in [name, b"$'\\n' `x` \"y\"!".to_vec()] {
            let script = format!("printf %s {}", for_terminal(&name));
            let shell = std::process::Command::new("bash")
                .args(["-c", &script])
                .output()
                .expect("bash");
            assert_eq!(shell.stdout, name);
        }
    }
}
