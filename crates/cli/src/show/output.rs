//! Standard output: quoted on a terminal, byte for byte elsewhere.

use super::quote;
use std::io::{self, BufWriter, IsTerminal, StdoutLock, Write};

/// Standard output, and what it is.
pub struct Output {
    out: BufWriter<StdoutLock<'static>>,
    terminal: bool,
}

impl Output {
    pub fn new() -> Self {
        let stdout = io::stdout();
        Output {
            terminal: stdout.is_terminal(),
            out: BufWriter::with_capacity(64 << 10, stdout.lock()),
        }
    }

    pub fn is_terminal(&self) -> bool {
        self.terminal
    }

    /// Writes a name that somebody else has chosen.
    ///
    /// # Errors
    /// What the output says.
    pub fn name(&mut self, name: &[u8]) -> io::Result<()> {
        if self.terminal {
            self.out.write_all(quote::for_terminal(name).as_bytes())
        } else {
            self.out.write_all(name)
        }
    }

    /// Ends a line; people see it at once.
    ///
    /// # Errors
    /// What the output says.
    pub fn end_line(&mut self) -> io::Result<()> {
        self.out.write_all(b"\n")?;
        if self.terminal {
            self.out.flush()?;
        }
        Ok(())
    }
}

impl Write for Output {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.out.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }
}
