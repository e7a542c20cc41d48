//! The built command, over every kind of source there is.

mod attributes;
mod bench;
mod changing;
mod copying;
mod daemon;
mod habits;
mod hostile;
mod input;
mod listing;
mod places;
mod removing;
mod shell;
mod signals;
mod terminal;
mod tracing;
mod trees;
