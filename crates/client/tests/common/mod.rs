//! Shared by the tests with real daemons.

mod peers;
mod random;

pub use peers::peer_program;
pub use random::{Rng, seed};
