//! Any bytes as a directory batch: what is read can be written, and reads back the same.

#![no_main]

use fusewire_wire::dirent::{DirentPlusWriter, DirentWriter, Dirents, DirentsPlus};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let entries: Vec<_> = Dirents::new(bytes).flatten().collect();
    let mut copy = vec![0; bytes.len()];
    let mut writer = DirentWriter::new(&mut copy);
    for entry in &entries {
        assert!(!entry.name.is_empty() && !entry.name.contains(&0) && !entry.name.contains(&b'/'));
        assert!(writer.push(entry), "what fitted once fits again");
    }
    let len = writer.len();
    let again: Vec<_> = Dirents::new(&copy[..len])
        .map(|entry| entry.expect("our own writing"))
        .collect();
    assert_eq!(entries, again);

    let entries: Vec<_> = DirentsPlus::new(bytes).flatten().collect();
    let mut writer = DirentPlusWriter::new(&mut copy);
    for plus in &entries {
        assert!(
            writer.push(&plus.entry_out, &plus.entry),
            "what fitted once fits again"
        );
    }
    let len = writer.len();
    let again: Vec<_> = DirentsPlus::new(&copy[..len])
        .map(|entry| entry.expect("our own writing"))
        .collect();
    assert_eq!(entries, again);
});
