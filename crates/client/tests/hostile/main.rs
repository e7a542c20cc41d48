//! A peer that does anything at all; docs/FAULTS.md has the rules.

mod bodies;
mod calls;
mod errnos;
mod harness;
#[path = "../common/random.rs"]
mod random;
mod sweeps;
