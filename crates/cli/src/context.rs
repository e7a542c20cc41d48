//! What every command works with.

use crate::report::Report;
use fusewire::Client;

/// A command at work.
#[derive(Clone, Copy)]
pub struct Context<'a> {
    pub client: &'a Client,
    pub report: &'a Report,
}
