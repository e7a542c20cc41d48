//! Any bytes as a request: what parses must encode again to the bytes it came from.

#![no_main]

use fusewire_wire::abi::INVALID_UIDGID;
use fusewire_wire::{Caller, Head, MAX_HEAD_BYTES, Opcode, Replies, Request};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let Ok((header, request, ext)) = Request::parse(bytes) else {
        return;
    };
    let head = Head {
        unique: header.unique,
        nodeid: header.nodeid,
        caller: Caller {
            uid: header.uid,
            gid: header.gid,
            pid: header.pid,
        },
    };
    let mut ours = [0; MAX_HEAD_BYTES];
    let len = match request.encode(&head, &ext, &mut ours) {
        Ok(len) => len,
        // Values that arrive but are never sent.
        Err(_) => {
            let forbidden_id = [header.uid, header.gid].contains(&INVALID_UIDGID)
                || ext.supp_groups == Some(INVALID_UIDGID);
            let zero_unique = header.unique == 0 && request.opcode().replies() != Replies::Never;
            assert!(
                forbidden_id || zero_unique,
                "{request:?} parses but cannot be encoded"
            );
            return;
        }
    };
    // The encoder is canonical where senders have a choice: short INIT, TMPFILE's name.
    if !matches!(request.opcode(), Opcode::Init | Opcode::Tmpfile) {
        assert_eq!(
            len as u64 + u64::from(request.payload_out_bytes()),
            u64::from(header.len)
        );
    }
    // The second reading equals the first.
    let mut aligned = [0u64; MAX_HEAD_BYTES / 8 + 1];
    let again: &mut [u8] = zerocopy::IntoBytes::as_mut_bytes(&mut aligned[..]);
    again[..len].copy_from_slice(&ours[..len]);
    let (_, second, second_ext) = Request::parse(&again[..len]).expect("our own encoding parses");
    assert_eq!((second, second_ext), (request, ext));
    // A daemon must find room for its answer.
    let shape = request.reply();
    assert_eq!(
        shape.head_bytes == 0,
        request.opcode().replies() == Replies::Never
    );
});
