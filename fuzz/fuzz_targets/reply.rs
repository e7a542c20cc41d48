//! Any bytes as a reply: its header, and its body as every kind of reply.

#![no_main]

use fusewire_wire::reply::{self, Incoming};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    if let Ok(Incoming::Reply(header)) = Incoming::parse(bytes) {
        assert!(header.len >= 16 && header.unique != 0);
        assert!(
            header
                .error
                .is_none_or(|errno| (1..=reply::ERRNO_MAX).contains(&errno) && header.len == 16)
        );
    }
    let body = bytes.get(16..).unwrap_or_default();
    if let Ok(entry) = reply::entry(body) {
        if entry.attr.kind().is_ok() {
            assert!(entry.attr.size <= i64::MAX as u64);
        }
        assert!(entry.entry_timeout().subsec_nanos() < 1_000_000_000);
        let _ = entry.attr_timeout();
    }
    if let Ok((entry, _)) = reply::create(body) {
        let _ = entry.attr.kind();
    }
    if let Ok(attr) = reply::attr(body) {
        let _ = (attr.attr.kind(), attr.attr_timeout());
    }
    if let Ok(statx) = reply::statx(body) {
        let _ = statx.attr_timeout();
    }
    let _ = (
        reply::open(body),
        reply::write(body),
        reply::copy_file_range_64(body),
        reply::statfs(body),
        reply::lseek(body),
        reply::lk(body),
        reply::getxattr_size(body),
        reply::bmap(body),
        reply::ioctl(body),
        reply::poll(body),
        reply::empty(body),
    );
});
