//! A peer that does anything at all; docs/FAULTS.md has the rules.

mod awkward;
mod bodies;
mod calls;
mod errnos;
mod harness;
mod life;
mod minors;
#[path = "../common/random.rs"]
mod random;
mod sweeps;
