//! The used rings in the hands of a hostile device, interleaved with what an engine does.
#![no_main]

use fusewire_transport::DeviceQueueId::{Hiprio, Request};
use fusewire_transport::{
    Completion, DeviceRequest, InProcOptions, Submission, SubmitError, Transport, pair,
};
use libfuzzer_sys::fuzz_target;

const QUEUE_SIZE: u16 = 8;
const REPLY_HEAD_BYTES: u32 = 16;

/// Numbers out of the fuzzer's bytes, 0 once they are used up.
struct Numbers<'a>(&'a [u8]);

impl Numbers<'_> {
    fn next<const N: usize>(&mut self) -> [u8; N] {
        let mut bytes = [0; N];
        let n = N.min(self.0.len());
        let (now, later) = self.0.split_at(n);
        bytes[..n].copy_from_slice(now);
        self.0 = later;
        bytes
    }

    fn byte(&mut self) -> u8 {
        self.next::<1>()[0]
    }

    /// Small as a rule, so that it means something.
    fn word(&mut self) -> u32 {
        let [kind, value] = self.next();
        if kind < 200 {
            u32::from(value)
        } else {
            u32::from_le_bytes(self.next())
        }
    }
}

fuzz_target!(|data: &[u8]| {
    let options = InProcOptions {
        arena_bytes: 2 << 20,
        queue_size: QUEUE_SIZE,
    };
    let (client, device) = pair(&options).expect("memory for a connection");
    let frames = client.arena().alloc(0).expect("a frame");
    let mut in_flight = [None; QUEUE_SIZE as usize];
    let mut held: Vec<DeviceRequest> = Vec::new();
    let mut numbers = Numbers(data);
    while !numbers.0.is_empty() {
        let choice = numbers.byte();
        let queue = if choice & 0x80 == 0 { Request } else { Hiprio };
        match choice & 0x7f {
            0..=31 => {
                let tag = u32::from(choice) % u32::from(QUEUE_SIZE);
                let payload = numbers.word() % 4097;
                let segments = [frames.segment(payload.max(1))];
                let payload_in = if payload == 0 { &[][..] } else { &segments[..] };
                let free = in_flight[tag as usize].is_none();
                if free {
                    let submitted = client.submit(&Submission {
                        tag,
                        head: &[0; 40],
                        payload_out: &[],
                        reply_head_bytes: REPLY_HEAD_BYTES,
                        payload_in,
                    });
                    match submitted {
                        Ok(()) => in_flight[tag as usize] = Some(payload),
                        Err(SubmitError::Full | SubmitError::Dead) => {}
                    }
                    client.kick();
                }
            }
            32..=39 => {
                let _ = client.submit_oneway(&[0; 40]);
                client.kick();
            }
            40..=59 => held.extend(device.try_next()),
            60..=69 => {
                if let Some(request) = held.pop() {
                    let room = request.writable_len();
                    request.complete((numbers.word() as usize).min(room));
                }
            }
            70..=74 => {
                if let Some(request) = held.pop() {
                    request.abandon();
                }
            }
            75..=89 => device
                .raw()
                .push_used(queue, numbers.word(), numbers.word()),
            90..=99 => {
                let at = numbers.word() as u16;
                let (id, len) = (numbers.word(), numbers.word());
                device.raw().write_used_entry(queue, at, id, len);
            }
            100..=107 => device.raw().set_used_index(queue, numbers.word() as u16),
            _ => {
                let _ = client.reap(&mut |c: Completion<'_>| {
                    // Each tag comes back once, with no more than it asked for.
                    let payload = in_flight[c.tag as usize].take().expect("not in flight");
                    assert!(c.head.len() <= REPLY_HEAD_BYTES as usize);
                    assert!(c.payload_bytes <= payload);
                });
            }
        }
    }
});
