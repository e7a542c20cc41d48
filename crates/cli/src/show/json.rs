//! Output for programs: one JSON object on a line.

use serde_json::{Map, Value};
use std::io::{self, Write};

/// An object on its way to a line.
#[derive(Debug, Default)]
pub struct Object(Map<String, Value>);

impl Object {
    /// A number or a text.
    pub fn put(mut self, key: &str, value: impl Into<Value>) -> Self {
        self.0.insert(key.to_owned(), value.into());
        self
    }

    /// A name or a path. One that is not UTF-8 is given as `…_hex`, the hexadecimal digits of its
    /// bytes.
    pub fn name(self, key: &str, bytes: &[u8]) -> Self {
        match std::str::from_utf8(bytes) {
            Ok(text) => self.put(key, text),
            Err(_) => {
                let digits: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
                self.put(&format!("{key}_hex"), digits)
            }
        }
    }

    /// Writes the line.
    ///
    /// # Errors
    /// What the output says.
    pub fn write(self, out: &mut impl Write) -> io::Result<()> {
        serde_json::to_writer(&mut *out, &Value::Object(self.0))?;
        out.write_all(b"\n")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_that_are_no_text_are_spelled_out() {
        let mut line = Vec::new();
        let object = Object::default().put("size", 7).name("path", b"a\n");
        object.name("name", b"\xff/a").write(&mut line).unwrap();
        let text = String::from_utf8(line).unwrap();
        let expected = "{\"name_hex\":\"ff2f61\",\"path\":\"a\\n\",\"size\":7}\n";
        assert_eq!(text, expected);
    }
}
