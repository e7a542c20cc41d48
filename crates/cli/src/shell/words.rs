//! The words of a line, as a shell has them. Names are bytes, and whatever [`crate::show::quote`]
//! shows of one is read back, `$'…'` included; nothing is expanded.

use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;

/// A line that is none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Broken {
    /// A quote that is not closed.
    Quote,
    /// A backslash with nothing behind it.
    Backslash,
    /// What is an operator in other shells, such as a redirection.
    Operator,
}

impl Broken {
    pub fn remedy(self) -> &'static str {
        match self {
            Broken::Quote => "a quote is not closed; close it, or put a backslash in front of it",
            Broken::Operator => {
                "; | > < & mean nothing here; one command a line, and quotes around what is a name"
            }
            Broken::Backslash => "the line ends in a backslash; a command is one line",
        }
    }
}

/// A line under way.
#[derive(Debug, Default)]
pub struct Words {
    pub done: Vec<OsString>,
    /// The last word, which may go on, and where in the line it begins.
    pub open: Option<(usize, OsString)>,
}

impl Words {
    pub fn all(mut self) -> Vec<OsString> {
        self.done.extend(self.open.take().map(|(_, word)| word));
        self.done
    }
}

/// Splits a line. What follows a `#` at the beginning of a word is a remark.
pub fn split(line: &[u8]) -> Result<Words, (Broken, Words)> {
    let mut reader = Reader { line, at: 0 };
    let mut words = Words::default();
    loop {
        reader.skip_blanks();
        let start = reader.at;
        if reader.peek().is_none_or(|byte| byte == b'#') {
            return Ok(words);
        }
        let mut word = Vec::new();
        let read = reader.word(&mut word);
        let word = OsString::from_vec(word);
        if read.is_err() || reader.peek().is_none() {
            words.open = Some((start, word));
        } else {
            words.done.push(word);
        }
        if let Err(broken) = read {
            return Err((broken, words));
        }
    }
}

struct Reader<'a> {
    line: &'a [u8],
    at: usize,
}

impl Reader<'_> {
    fn peek(&self) -> Option<u8> {
        self.line.get(self.at).copied()
    }

    fn next(&mut self) -> Option<u8> {
        let byte = self.peek()?;
        self.at += 1;
        Some(byte)
    }

    fn skip_blanks(&mut self) {
        while self.peek().is_some_and(|byte| byte.is_ascii_whitespace()) {
            self.at += 1;
        }
    }

    fn word(&mut self, word: &mut Vec<u8>) -> Result<(), Broken> {
        while let Some(byte) = self.peek() {
            if byte.is_ascii_whitespace() {
                break;
            }
            self.at += 1;
            match byte {
                b'\'' => self.until(b'\'', word, |_, byte, word| {
                    word.push(byte);
                    Ok(())
                })?,
                b'"' => self.until(b'"', word, |reader, byte, word| {
                    let escapes = byte == b'\\'
                        && reader.peek().is_some_and(|next| b"\"\\$`".contains(&next));
                    word.push(if escapes {
                        reader.next().unwrap_or(byte)
                    } else {
                        byte
                    });
                    Ok(())
                })?,
                b'$' if self.peek() == Some(b'\'') => {
                    self.at += 1;
                    self.until(b'\'', word, |reader, byte, word| match byte {
                        b'\\' => reader.escape(word),
                        byte => {
                            word.push(byte);
                            Ok(())
                        }
                    })?;
                }
                b'\\' => word.push(self.next().ok_or(Broken::Backslash)?),
                b';' | b'|' | b'>' | b'<' | b'&' => return Err(Broken::Operator),
                byte => word.push(byte),
            }
        }
        Ok(())
    }

    fn until(
        &mut self,
        end: u8,
        word: &mut Vec<u8>,
        take: impl Fn(&mut Self, u8, &mut Vec<u8>) -> Result<(), Broken>,
    ) -> Result<(), Broken> {
        loop {
            match self.next().ok_or(Broken::Quote)? {
                byte if byte == end => return Ok(()),
                byte => take(self, byte, word)?,
            }
        }
    }

    /// Behind a backslash in `$'…'`.
    fn escape(&mut self, word: &mut Vec<u8>) -> Result<(), Broken> {
        let byte = self.next().ok_or(Broken::Quote)?;
        let escaped = match byte {
            b'a' => 7,
            b'b' => 8,
            b'e' | b'E' => 0x1b,
            b'f' => 0x0c,
            b'n' => b'\n',
            b'r' => b'\r',
            b't' => b'\t',
            b'v' => 0x0b,
            b'0'..=b'7' => {
                self.at -= 1;
                self.number(8, 3)
            }
            b'x' => self.number(16, 2),
            b'\\' | b'\'' | b'"' | b'?' => byte,
            other => {
                word.push(b'\\');
                other
            }
        };
        word.push(escaped);
        Ok(())
    }

    /// At most so many digits; what is over 255 loses its high bits, as in a shell.
    fn number(&mut self, radix: u32, max_digits: usize) -> u8 {
        let mut number = 0_u32;
        for _ in 0..max_digits {
            let Some(digit) = self
                .peek()
                .and_then(|byte| char::from(byte).to_digit(radix))
            else {
                break;
            };
            self.at += 1;
            number = number * radix + digit;
        }
        number.to_le_bytes()[0]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::show::quote;
    use std::os::unix::ffi::OsStrExt;
    use std::process::Command;

    fn words(line: &str) -> Vec<Vec<u8>> {
        let words = split(line.as_bytes()).expect("words").all();
        words.into_iter().map(OsString::into_vec).collect()
    }

    #[test]
    fn words_are_those_of_a_shell() {
        for line in [
            "",
            "  a\t b ",
            "a'b c'd \"e f\" g\\ h '' \"\"",
            r#""a\"b\\c\d" '\' \\ "#,
            r"$'a\n\t\\\'\x41\101\e' $'\x4' a$'b'c",
            "a #b",
            "a#b '#' # c 'd",
        ] {
            let script = format!("for word in {line}\ndo printf '%s\\0' \"$word\"; done");
            let bash = Command::new("bash").args(["-c", &script]).output().unwrap();
            let expected: Vec<_> = bash.stdout.split(|byte| *byte == 0).collect();
            assert_eq!(words(line), expected[..expected.len() - 1], "{line}");
        }
    }

    #[test]
    fn what_is_shown_is_read_back() {
        let all: Vec<u8> = (1..=255).collect();
        for name in [
            &all[..],
            b"it's $1",
            b"a b",
            b"\xff",
            "\u{202e}'\"".as_bytes(),
            b"#x",
            b"~",
            b"a;b",
            b"a|b",
            b"a>b",
            b"<",
            b"&",
        ] {
            assert_eq!(words(&quote::for_terminal(name)), [name]);
        }
    }

    #[test]
    fn broken_lines_are_told_and_kept_for_completion() {
        for (line, broken, start, word) in [
            ("a 'b c", Broken::Quote, 2, "b c"),
            ("\"b", Broken::Quote, 0, "b"),
            ("a $'b\\", Broken::Quote, 2, "b"),
            ("a b\\", Broken::Backslash, 2, "b"),
            ("a;b", Broken::Operator, 0, "a"),
            ("a | b", Broken::Operator, 2, ""),
            ("a b>c", Broken::Operator, 2, "b"),
            ("a <", Broken::Operator, 2, ""),
            ("a &", Broken::Operator, 2, ""),
        ] {
            let (why, words) = split(line.as_bytes()).unwrap_err();
            assert_eq!(why, broken, "{line}");
            assert_eq!(words.open, Some((start, word.into())), "{line}");
        }
        assert_eq!(split(b"a b").unwrap().open, Some((2, "b".into())));
        assert_eq!(split(b"a b ").unwrap().open, None);
        assert_eq!(split(b"\xff").unwrap().all()[0].as_bytes(), b"\xff");
    }
}
