//! Developer commands of fusewire.
fn main() {}
