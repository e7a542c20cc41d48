//! loom: every observer sees every error once, whatever the order.
#![cfg(fusewire_sync = "loom")]

use fusewire_sync::{Arc, ErrSeq, thread};

#[test]
fn two_writers_two_observers() {
    loom::model(|| {
        let seq = Arc::new(ErrSeq::new());
        let mut mine = seq.sample();
        let mut theirs = seq.sample();
        let writer = {
            let seq = Arc::clone(&seq);
            thread::spawn("writer", move || seq.set(5)).unwrap()
        };
        let observer = {
            let seq = Arc::clone(&seq);
            thread::spawn("observer", move || {
                let during = seq.check_and_advance(&mut theirs);
                (during, theirs)
            })
            .unwrap()
        };
        let during = seq.check_and_advance(&mut mine);
        writer.join().unwrap();
        let (their_during, mut theirs) = observer.join().unwrap();
        let after = seq.check_and_advance(&mut mine);
        let their_after = seq.check_and_advance(&mut theirs);
        assert_eq!(
            during.into_iter().chain(after).collect::<Vec<_>>(),
            [5],
            "the error is seen exactly once by the first observer"
        );
        assert_eq!(
            their_during
                .into_iter()
                .chain(their_after)
                .collect::<Vec<_>>(),
            [5]
        );
        assert_eq!(seq.check_and_advance(&mut mine), None);
    });
}

#[test]
fn an_error_after_a_report_is_a_new_error() {
    loom::model(|| {
        let seq = Arc::new(ErrSeq::new());
        let mut cursor = seq.sample();
        seq.set(5);
        let writer = {
            let seq = Arc::clone(&seq);
            thread::spawn("writer", move || seq.set(28)).unwrap()
        };
        let first = seq.check_and_advance(&mut cursor);
        writer.join().unwrap();
        let second = seq.check_and_advance(&mut cursor);
        match (first, second) {
            (Some(5), Some(28)) | (Some(28), None) => {}
            other => panic!("lost or repeated report: {other:?}"),
        }
    });
}
