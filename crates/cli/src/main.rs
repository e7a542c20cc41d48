//! The fusewire command.
fn main() {}
