//! Driver side of a split virtqueue (virtio 1.2, section 2.7), and what both sides share of it.
//!
//! [`layout`] says where everything lies, [`memory`] how shared words are accessed, [`shadow`] what
//! is outstanding. All three are told apart because the peer can write to the ring at any time:
//! what we believe lives in the shadow, in private memory; what the ring says is checked against it.
//! [`driver`] is one queue, [`queues`] the two queues of a FUSE device with the cells that heads
//! are copied through.

pub(crate) mod driver;
pub(crate) mod layout;
pub(crate) mod memory;
pub(crate) mod parts;
pub(crate) mod queues;
pub(crate) mod shadow;
#[cfg(all(test, not(any(fusewire_sync = "loom", fusewire_sync = "shuttle"))))]
mod tests;

pub use layout::{MAX_HEAD_BYTES, MAX_REPLY_HEAD_BYTES};

/// Whether an index that moved from `old` to `new` has passed `event`, the index at which the other
/// side asked to be told (VIRTIO_F_EVENT_IDX, virtio 1.2, 2.7.7.1 and 2.7.10.1).
pub(crate) fn passed(event: u16, new: u16, old: u16) -> bool {
    new.wrapping_sub(event).wrapping_sub(1) < new.wrapping_sub(old)
}

#[cfg(test)]
mod event_tests {
    use super::passed;

    #[test]
    fn an_event_is_passed_exactly_when_its_entry_is_among_the_new_ones() {
        for old in [0u16, 1, 7, 65_530, 65_535] {
            for step in 0..12u16 {
                let new = old.wrapping_add(step);
                for ahead in 0..24u16 {
                    let event = old.wrapping_add(ahead).wrapping_sub(6);
                    let among = (0..step).any(|i| old.wrapping_add(i) == event);
                    assert_eq!(passed(event, new, old), among, "{event} {new} {old}");
                }
            }
        }
    }
}
