//! How things are shown: pure functions from values to text.

pub mod columns;
pub mod json;
pub mod mode;
pub mod output;
pub mod people;
pub mod quote;
pub mod size;
pub mod time;
