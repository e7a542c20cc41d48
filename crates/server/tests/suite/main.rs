//! The embedded servers, driven through their wire by a client of a few hundred lines.

mod common;
mod descriptors;
mod locks;
mod model;
mod notices;
mod operations;
mod scripted;
mod session;
mod special;
mod synthetic;
