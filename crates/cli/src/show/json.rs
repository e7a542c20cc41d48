//! Output for programs: one JSON object on a line.

use super::mode;
use crate::context::Context;
use fusewire::Metadata;
use rustix::fs::{major, minor};
use serde_json::{Map, Value};
use std::io::{self, Write};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

/// What [`Object::attributes`] puts into an object, for people.
const ATTRIBUTES: &str = "type (a letter as for find), size_bytes, mode (permission bits), links, \
    uid, gid, inode, blocks (of 512 bytes), atime_secs, atime_nanos, mtime_secs, mtime_nanos, \
    ctime_secs, ctime_nanos, and device_major and device_minor of devices";

/// Help about `--json`, for an object with these fields.
pub fn help(fields: &str) -> String {
    format!(
        "Write one JSON object a line: {fields}. Instead of a name that is no UTF-8 there is …_hex, \
         its bytes in hexadecimal digits"
    )
}

/// The same for fields besides the attributes of a file.
pub fn help_with_attributes(fields: &str) -> String {
    help(&format!("{fields}, {ATTRIBUTES}"))
}

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

    /// What is known of a file.
    pub fn attributes(self, meta: &Metadata) -> Self {
        let kind = meta.file_type();
        let device = (kind.is_block_device() || kind.is_char_device()).then(|| meta.rdev().into());
        let object = match device {
            Some(device) => self
                .put("device_major", major(device))
                .put("device_minor", minor(device)),
            None => self,
        };
        object
            .put("type", mode::letter(kind).to_string())
            .put("size_bytes", meta.len())
            .put("mode", meta.mode() & 0o7777)
            .put("links", meta.nlink())
            .put("uid", meta.uid())
            .put("gid", meta.gid())
            .put("inode", meta.ino())
            .put("blocks", meta.blocks())
            .put("atime_secs", meta.atime())
            .put("atime_nanos", meta.atime_nsec())
            .put("mtime_secs", meta.mtime())
            .put("mtime_nanos", meta.mtime_nsec())
            .put("ctime_secs", meta.ctime())
            .put("ctime_nanos", meta.ctime_nsec())
    }

    /// Where a symbolic link at `path` leads. One that cannot be read is reported and left out.
    pub fn target(self, meta: &Metadata, path: &Path, context: &Context<'_>) -> Self {
        if !meta.is_symlink() {
            return self;
        }
        match context.client.read_link(path) {
            Ok(target) => self.name("target", target.as_os_str().as_bytes()),
            Err(error) => {
                context.report.problem(error.into());
                self
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
