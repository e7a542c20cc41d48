//! A device that breaks every rule of the ring. It ends in a named fault, never in a panic, and
//! nothing is believed after that.

use fusewire_transport::DeviceQueueId::{Hiprio, Request};
use fusewire_transport::{
    Completion, DeviceEnd, InProcOptions, InProcess, PeerFault, Submission, SubmitError, Transport,
    pair,
};
use proptest::prelude::*;

const QUEUE_SIZE: u16 = 8;

fn connect() -> (InProcess, DeviceEnd) {
    let options = InProcOptions {
        arena_bytes: 2 << 20,
        queue_size: QUEUE_SIZE,
    };
    pair(&options).unwrap()
}

fn submit(client: &InProcess, tag: u32) -> Result<(), SubmitError> {
    client.submit(&Submission {
        tag,
        head: &[0; 40],
        payload_out: &[],
        reply_head_bytes: 16,
        payload_in: &[],
    })
}

fn reap(client: &InProcess) -> Result<Vec<u32>, PeerFault> {
    let mut tags = Vec::new();
    client.reap(&mut |c: Completion<'_>| tags.push(c.tag))?;
    Ok(tags)
}

/// The fault that `misbehave` causes with requests 0 and 1 outstanding, of which the device holds
/// the ids.
fn fault(misbehave: impl FnOnce(&DeviceEnd, [u32; 2])) -> String {
    let (client, device) = connect();
    submit(&client, 0).unwrap();
    submit(&client, 1).unwrap();
    client.kick();
    let ids = [0, 1].map(|_| {
        let request = device.try_next().unwrap();
        let id = request.id();
        request.abandon();
        id
    });
    misbehave(&device, ids);
    let mut fault = None;
    for _ in 0..3 {
        match reap(&client) {
            Ok(_) => {}
            Err(found) => {
                // It stays, and nothing goes out any more.
                assert_eq!(reap(&client), Err(found.clone()));
                assert_eq!(submit(&client, 7), Err(SubmitError::Dead));
                client.wait();
                fault = Some(found);
                break;
            }
        }
    }
    fault.expect("the fault went unnoticed").to_string()
}

#[test]
fn an_id_that_is_not_outstanding() {
    let text = fault(|device, ids| {
        let other = (0..u32::from(QUEUE_SIZE))
            .find(|id| !ids.contains(id))
            .unwrap();
        device.raw().push_used(Request, other, 0);
    });
    assert!(text.contains("not outstanding"), "{text}");
}

#[test]
fn an_id_outside_the_queue() {
    for id in [u32::from(QUEUE_SIZE), 1 << 16, u32::MAX] {
        let text = fault(|device, _| device.raw().push_used(Request, id, 0));
        assert!(
            text.contains(&format!("used id {id} of a queue of 8")),
            "{text}"
        );
    }
}

#[test]
fn a_length_that_does_not_fit() {
    for len in [17, u32::MAX] {
        let text = fault(|device, ids| device.raw().push_used(Request, ids[1], len));
        assert!(text.contains(&format!("length {len} of 16")), "{text}");
    }
}

#[test]
fn an_id_used_twice() {
    let text = fault(|device, ids| {
        device.raw().push_used(Request, ids[0], 0);
        device.raw().push_used(Request, ids[0], 0);
    });
    assert!(text.contains("not outstanding"), "{text}");
}

#[test]
fn an_index_that_jumps() {
    for index in [3, 100, 32_768, u16::MAX] {
        let text = fault(|device, _| {
            device.raw().set_used_index(Request, index);
            device.raw().call();
        });
        assert!(text.contains(&format!("moved from 0 to {index}")), "{text}");
    }
}

#[test]
fn what_came_before_the_fault_is_delivered() {
    let (client, device) = connect();
    submit(&client, 0).unwrap();
    submit(&client, 1).unwrap();
    let ids = [0, 1].map(|_| {
        let request = device.try_next().unwrap();
        let id = request.id();
        request.abandon();
        id
    });
    device.raw().push_used(Request, ids[1], 16);
    device.raw().push_used(Request, 99, 16);
    let mut tags = Vec::new();
    let error = client
        .reap(&mut |c: Completion<'_>| tags.push(c.tag))
        .unwrap_err();
    assert_eq!(tags, [1]);
    assert!(error.to_string().contains("used id 99"), "{error}");
}

#[test]
fn lies_about_the_hiprio_queue_are_found_too() {
    for (id, len) in [(0, 1), (5, 0), (u32::MAX, 0)] {
        let (client, device) = connect();
        client.submit_oneway(&[0; 40]).unwrap();
        device.try_next().unwrap().abandon();
        device.raw().push_used(Hiprio, id, len);
        assert_eq!(client.submit_oneway(&[0; 40]), Err(SubmitError::Dead));
        let error = reap(&client).unwrap_err().to_string();
        assert!(error.contains(&format!("used id {id}")), "{error}");
    }
}

#[derive(Clone, Debug)]
enum Lie {
    Submit(u32),
    Oneway,
    Answer,
    Abandon,
    Push(bool, u32, u32),
    Entry(bool, u16, u32, u32),
    Index(bool, u16),
    Reap,
}

fn lie() -> impl Strategy<Value = Lie> {
    let word = || prop_oneof![0u32..20, any::<u32>()];
    prop_oneof![
        4 => (0u32..u32::from(QUEUE_SIZE)).prop_map(Lie::Submit),
        1 => Just(Lie::Oneway),
        3 => Just(Lie::Answer),
        1 => Just(Lie::Abandon),
        1 => (any::<bool>(), word(), word()).prop_map(|(q, id, len)| Lie::Push(q, id, len)),
        1 => (any::<bool>(), any::<u16>(), word(), word())
            .prop_map(|(q, at, id, len)| Lie::Entry(q, at, id, len)),
        1 => (any::<bool>(), prop_oneof![0u16..10, any::<u16>()]).prop_map(|(q, i)| Lie::Index(q, i)),
        3 => Just(Lie::Reap),
    ]
}

proptest! {
    /// No lie panics, and no tag comes back that was not in flight.
    #[test]
    fn no_lie_gets_through(lies in prop::collection::vec(lie(), 1..80)) {
        let (client, device) = connect();
        let mut in_flight = [false; QUEUE_SIZE as usize];
        let queue = |hiprio| if hiprio { Hiprio } else { Request };
        for lie in lies {
            match lie {
                Lie::Submit(tag) => {
                    if !in_flight[tag as usize] && submit(&client, tag).is_ok() {
                        in_flight[tag as usize] = true;
                    }
                }
                Lie::Oneway => drop(client.submit_oneway(&[0; 40])),
                Lie::Answer => drop(device.try_next()),
                Lie::Abandon => {
                    if let Some(request) = device.try_next() {
                        request.abandon();
                    }
                }
                Lie::Push(q, id, len) => device.raw().push_used(queue(q), id, len),
                Lie::Entry(q, at, id, len) => {
                    device.raw().write_used_entry(queue(q), at, id, len);
                }
                Lie::Index(q, index) => device.raw().set_used_index(queue(q), index),
                Lie::Reap => {
                    let mut wrong = None;
                    let _ = client.reap(&mut |c: Completion<'_>| {
                        if c.head.len() > 16 || c.payload_bytes != 0
                            || !std::mem::replace(&mut in_flight[c.tag as usize], false)
                        {
                            wrong = Some(c.tag);
                        }
                    });
                    prop_assert_eq!(wrong, None);
                }
            }
        }
    }
}
