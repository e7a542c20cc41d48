//! A peer that does anything at all; docs/FAULTS.md has the rules.

mod awkward;
mod bodies;
mod calls;
mod errnos;
mod half_close;
mod harness;
mod life;
mod minors;
#[path = "../common/peers.rs"]
mod peers;
#[path = "../common/random.rs"]
mod random;
mod rewritten;
mod rings;
mod sweeps;
