//! A planted bug that the loom job must find: were it not found, the facade would be checking
//! std's types and every other loom test would be worth nothing.
#![cfg(fusewire_sync = "loom")]

use fusewire_sync::atomic::{AtomicU32, Ordering};
use fusewire_sync::{Arc, thread};

#[test]
fn canary_must_fail_under_loom() {
    loom::model(|| {
        let data = Arc::new(AtomicU32::new(0));
        let ready = Arc::new(AtomicU32::new(0));
        let writer = {
            let (data, ready) = (Arc::clone(&data), Arc::clone(&ready));
            thread::spawn("writer", move || {
                data.store(1, Ordering::Relaxed);
                // The bug: publishes without release.
                ready.store(1, Ordering::Relaxed);
            })
            .unwrap()
        };
        if ready.load(Ordering::Relaxed) == 1 {
            assert_eq!(data.load(Ordering::Relaxed), 1, "canary: stale read found");
        }
        writer.join().unwrap();
    });
}
