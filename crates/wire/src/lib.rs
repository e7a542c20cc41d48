//! FUSE 7.45 on the wire: structures, encoder, parsers, INIT negotiation.
//!
//! Pure functions over bytes: no I/O, no allocation, no `unsafe`, and no panic on any input.
//! Numbers are in native byte order, as the protocol wants them.
//!
//! - [`abi`]: the fixed structures; [`flags`]: their bits; [`Opcode`].
//! - [`request`]: [`Request`] encodes to, and parses from, the bytes before the payload.
//! - [`reply`]: reply header and bodies; [`dirent`]: directory batches; [`notify`].
//! - [`init`]: what to offer, and what a daemon's answer means.
#![no_std]
#![forbid(unsafe_code)]

#[cfg(test)]
extern crate std;

pub mod abi;
pub mod dirent;
pub mod errno;
pub mod flags;
pub mod init;
pub mod name;
pub mod notify;
mod opcode;
pub mod reply;
pub mod request;

pub use flags::*;
pub use name::{NAME_MAX_BYTES, Name, NameError, Target, XattrName};
pub use opcode::{Opcode, Replies, UnknownOpcode};
pub use request::{
    Caller, Extensions, Head, MAX_HEAD_BYTES, MAX_REPLY_HEAD_BYTES, ReplyShape, Request,
};
