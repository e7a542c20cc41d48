//! Any bytes as a message that nobody asked for, and as a notification: the first four are the
//! code, the rest the body.

#![no_main]

use fusewire_wire::notify::{Message, Notification, NotifyCode};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    if let Err(error) = Message::parse(bytes) {
        assert!(!error.to_string().is_empty());
    }
    let Some((code, body)) = bytes.split_first_chunk() else {
        return;
    };
    let code = i32::from_ne_bytes(*code);
    match Notification::parse(code, body) {
        Ok(notification) => {
            assert!(NotifyCode::try_from(code).is_ok());
            match notification {
                Notification::Store { data, .. } => assert!(data.len() < body.len()),
                Notification::Prune(nodes) => assert_eq!(nodes.iter().len(), nodes.len()),
                _ => {}
            }
        }
        Err(error) => assert!(!error.to_string().is_empty()),
    }
});
