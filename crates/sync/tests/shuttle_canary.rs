//! A planted bug that the shuttle job must find; see `loom_canary.rs`.
#![cfg(fusewire_sync = "shuttle")]

use fusewire_sync::{Arc, Mutex, Rank, thread};

#[test]
fn canary_must_fail_under_shuttle() {
    shuttle::check_random(
        || {
            let value = Arc::new(Mutex::new(Rank::LEAF, 0u32));
            let other = {
                let value = Arc::clone(&value);
                thread::spawn("other", move || {
                    // The bug: read and write back under two separate locks.
                    let seen = *value.lock();
                    *value.lock() = seen + 1;
                })
                .unwrap()
            };
            let seen = *value.lock();
            *value.lock() = seen + 1;
            other.join().unwrap();
            assert_eq!(*value.lock(), 2, "canary: lost update found");
        },
        1000,
    );
}
