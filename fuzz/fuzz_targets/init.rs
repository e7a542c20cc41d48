//! Any bytes as offer, limits and INIT reply: what is agreed keeps within both sides' bounds.

#![no_main]

use fusewire_wire::init::{LocalLimits, MINOR_MIN, Offer, negotiate};
use fusewire_wire::{InitFlags, Opcode};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: ([u8; 8], u32, u32, u16, Vec<u8>)| {
    let (flags, max_readahead_bytes, max_write_bytes, max_pages, reply) = input;
    let offer = Offer::new(
        max_readahead_bytes,
        InitFlags::from_bits_retain(u64::from_ne_bytes(flags)),
    );
    let limits = LocalLimits {
        max_pages,
        max_write_bytes,
    };
    let Ok(agreed) = negotiate(&offer, &limits, &reply) else {
        return;
    };
    assert!((MINOR_MIN..=offer.minor).contains(&agreed.minor));
    assert!(offer.sent_flags().contains(agreed.flags));
    assert!(agreed.max_readahead_bytes <= max_readahead_bytes);
    assert!((4096..=max_write_bytes.max(4096)).contains(&agreed.max_write_bytes));
    assert!((1..=max_pages.max(1)).contains(&agreed.max_pages));
    assert!(agreed.max_write_bytes <= u32::from(agreed.max_pages) * 4096);
    assert!(agreed.max_background > 0 && agreed.congestion_threshold > 0);
    assert!((1..=1_000_000_000).contains(&agreed.time_gran_ns));
    for &opcode in Opcode::ALL {
        assert!(!agreed.allows(opcode) || opcode.since_minor() <= agreed.minor);
    }
});
