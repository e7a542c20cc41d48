//! Replies, as bytes.

use crate::fs::{Errno, Reply};
use fusewire_transport::DeviceRequest;
use fusewire_wire::abi::{
    CopyFileRangeOut, GetxattrOut, IoctlOut, LseekOut, OUT_HEADER_BYTES, PollOut, WriteOut,
};
use fusewire_wire::reply::{failure, success};
use fusewire_wire::{MAX_REPLY_HEAD_BYTES, Request};
use zerocopy::IntoBytes;

/// Whether `reply` is what `request` asks for.
pub(crate) fn fits(reply: &Reply, request: &Request<'_>) -> bool {
    let head = request.reply().head_bytes - OUT_HEADER_BYTES;
    match reply {
        Reply::Payload(len) => head == 0 && *len <= request.reply().payload_max_bytes as usize,
        Reply::Ioctl { len, .. } => {
            head as usize == size_of::<IoctlOut>()
                && *len <= request.reply().payload_max_bytes as usize
        }
        _ => head as usize == body(reply, |bytes| bytes.len()),
    }
}

/// Hands the fixed part of a reply to `f`.
fn body<T>(reply: &Reply, f: impl FnOnce(&[u8]) -> T) -> T {
    match reply {
        Reply::Done | Reply::Payload(_) => f(&[]),
        Reply::Entry(entry) => f(entry.as_bytes()),
        Reply::Attr(attr) => f(attr.as_bytes()),
        Reply::Open(open) => f(open.as_bytes()),
        Reply::Created(entry, open) => {
            let mut both = [0; MAX_REPLY_HEAD_BYTES];
            let (first, second) = (entry.as_bytes(), open.as_bytes());
            both[..first.len()].copy_from_slice(first);
            both[first.len()..first.len() + second.len()].copy_from_slice(second);
            f(&both[..first.len() + second.len()])
        }
        Reply::Written(size) => f(WriteOut {
            size: *size,
            padding: 0,
        }
        .as_bytes()),
        Reply::Copied(bytes_copied) => f(CopyFileRangeOut {
            bytes_copied: *bytes_copied,
        }
        .as_bytes()),
        Reply::Offset(offset) => f(LseekOut { offset: *offset }.as_bytes()),
        Reply::Size(size) => f(GetxattrOut {
            size: *size,
            padding: 0,
        }
        .as_bytes()),
        Reply::Lock(lk) => f(lk.as_bytes()),
        Reply::Ready(revents) => f(PollOut {
            revents: *revents,
            padding: 0,
        }
        .as_bytes()),
        Reply::Ioctl { result, .. } => f(IoctlOut {
            result: *result,
            ..IoctlOut::default()
        }
        .as_bytes()),
        Reply::Statfs(statfs) => f(statfs.as_bytes()),
        Reply::Statx(statx) => f(statx.as_bytes()),
    }
}

/// Writes a reply; returns its length.
pub(crate) fn write_reply(request: &DeviceRequest, unique: u64, reply: &Reply) -> usize {
    // The payload is in place already, behind what is written here.
    let payload = match reply {
        Reply::Payload(len) | Reply::Ioctl { len, .. } => *len,
        _ => 0,
    };
    body(reply, |bytes| {
        match success(unique, bytes.len() + payload) {
            Some(header) => {
                let n = request.write_at(0, header.as_bytes());
                request.write_at(n, bytes);
                header.len as usize
            }
            None => write_error(request, unique, Errno::IO),
        }
    })
}

pub(crate) fn write_message(request: &DeviceRequest, unique: u64, body: &[u8]) -> usize {
    match success(unique, body.len()) {
        Some(header) => {
            let n = request.write_at(0, header.as_bytes());
            n + request.write_at(n, body)
        }
        None => write_error(request, unique, Errno::IO),
    }
}

pub(crate) fn write_error(request: &DeviceRequest, unique: u64, errno: Errno) -> usize {
    if request.writable_len() < OUT_HEADER_BYTES as usize {
        return 0;
    }
    request.write_at(0, failure(unique, errno.raw_os_error()).as_bytes())
}
