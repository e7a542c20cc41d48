//! FUSE 7.45 on the wire: structures, encoder, parsers, INIT negotiation.
//!
//! Pure functions over bytes: no I/O, no allocation, no `unsafe`, and no panic on any input.
//! Numbers are in native byte order, as the protocol wants them.
//!
//! - [`abi`]: the fixed structures; [`flags`]: their bits; [`Opcode`].
//! - [`request`]: [`Request`] encodes to, and parses from, the bytes before the payload.
//! - [`reply`]: reply header and bodies; [`dirent`]: directory batches; [`notify`].
//! - [`init`]: what to offer, and what a daemon's answer means.
//!
//! ```
//! use fusewire_wire::{Caller, Extensions, Head, MAX_HEAD_BYTES, Name, Request, abi};
//!
//! let request = Request::Lookup { name: Name::new(b"etc").unwrap() };
//! let head = Head { unique: 2, nodeid: abi::ROOT_ID, caller: Caller::default() };
//! let mut buf = [0; MAX_HEAD_BYTES];
//! let len = request.encode(&head, &Extensions::default(), &mut buf).unwrap();
//! assert_eq!(len, 40 + 4);
//! assert_eq!(request.reply().head_bytes, 16 + 128);
//!
//! let (header, parsed, _) = Request::parse(&buf[..len]).unwrap();
//! assert_eq!((header.unique, parsed), (2, request));
//! ```
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
