//! A client and a server in one process, over the ring.

use fusewire_transport::{
    Completion, Death, DeviceEnd, InProcOptions, InProcess, Submission, SubmitError, Transport,
    pair,
};
use std::sync::Arc;
use std::thread;

fn small(queue_size: u16) -> (Arc<InProcess>, DeviceEnd) {
    let options = InProcOptions {
        arena_bytes: 8 << 20,
        queue_size,
    };
    let (client, device) = pair(&options).unwrap();
    (Arc::new(client), device)
}

/// A reply: tag, head, payload length.
type Reply = (u32, Vec<u8>, u32);

fn reap(client: &InProcess) -> Vec<Reply> {
    let mut replies = Vec::new();
    let n = client
        .reap(&mut |c: Completion<'_>| replies.push((c.tag, c.head.to_vec(), c.payload_bytes)))
        .unwrap();
    assert_eq!(n, replies.len());
    replies
}

fn reap_waiting(client: &InProcess, count: usize) -> Vec<Reply> {
    let mut replies = Vec::new();
    while replies.len() < count {
        replies.extend(reap(client));
        if replies.len() < count {
            client.wait();
        }
    }
    replies
}

fn request(tag: u32, head: &[u8]) -> Submission<'_> {
    Submission {
        tag,
        head,
        payload_out: &[],
        reply_head_bytes: 64,
        payload_in: &[],
    }
}

#[test]
fn heads_and_payloads_go_both_ways() {
    let (client, device) = small(16);
    let server = thread::spawn(move || {
        let mut seen = Vec::new();
        while let Some(request) = device.next() {
            let mut bytes = vec![0; request.readable_len()];
            assert_eq!(request.copy_readable(0, &mut bytes), bytes.len());
            assert_eq!(request.writable_len(), 64 + 8192);
            let answer: Vec<u8> = bytes.iter().rev().copied().collect();
            assert_eq!(request.write_at(0, &[9; 64]), 64);
            assert_eq!(request.write_at(64, &answer), answer.len());
            seen.push(bytes);
            request.complete(64 + answer.len());
        }
        seen
    });
    let out = client.arena().alloc(1).unwrap();
    let back = client.arena().alloc(1).unwrap();
    let payload: Vec<u8> = (0..8192).map(|i| (i % 251) as u8).collect();
    out.bytes(0, 8192).copy_from(&payload);
    let head = [7; 100];
    client
        .submit(&Submission {
            tag: 3,
            head: &head,
            payload_out: &[out.segment(8092)],
            reply_head_bytes: 64,
            payload_in: &[back.segment(8192)],
        })
        .unwrap();
    client.kick();
    let replies = reap_waiting(&client, 1);
    assert_eq!(replies, [(3, vec![9; 64], 8192)]);
    let mut expected: Vec<u8> = head.to_vec();
    expected.extend_from_slice(&payload[..8092]);
    client.close();
    assert_eq!(server.join().unwrap(), [expected.clone()]);
    expected.reverse();
    assert_eq!(back.bytes(0, 8192).to_vec(), expected);
}

#[test]
fn every_tag_can_be_in_flight_and_comes_back_once() {
    let (client, device) = small(64);
    let limits = client.limits();
    assert_eq!(limits.max_in_flight, 64);
    let device = Arc::new(device);
    let servers: Vec<_> = (0..3)
        .map(|_| {
            let device = Arc::clone(&device);
            thread::spawn(move || {
                while let Some(request) = device.next() {
                    let mut tag = [0; 4];
                    request.copy_readable(40, &mut tag);
                    request.write_at(0, &[0; 16]);
                    request.write_at(16, &tag);
                    request.complete(20);
                }
            })
        })
        .collect();
    drop(device);
    for _ in 0..200 {
        for tag in 0..limits.max_in_flight {
            let mut head = [0; 44];
            head[40..].copy_from_slice(&tag.to_ne_bytes());
            client.submit(&request(tag, &head)).unwrap();
            if tag % 7 == 0 {
                client.kick();
            }
        }
        client.kick();
        let mut replies = reap_waiting(&client, limits.max_in_flight as usize);
        replies.sort();
        for (tag, (replied, head, payload)) in (0..limits.max_in_flight).zip(replies) {
            assert_eq!((tag, payload), (replied, 0));
            assert_eq!(head[16..], tag.to_ne_bytes());
        }
    }
    client.close();
    for server in servers {
        server.join().unwrap();
    }
}

#[test]
fn messages_without_a_reply_arrive_and_a_full_queue_recovers() {
    let (client, device) = small(8);
    let mut sent = 0u32;
    while client.submit_oneway(&sent.to_ne_bytes()).is_ok() {
        sent += 1;
    }
    assert_eq!(sent, 8);
    client.kick();
    assert_eq!(client.submit_oneway(&[1]), Err(SubmitError::Full));
    for expected in 0..sent {
        let message = device.next().unwrap();
        assert!(message.is_oneway());
        let mut bytes = [0; 4];
        message.copy_readable(0, &mut bytes);
        assert_eq!(u32::from_ne_bytes(bytes), expected);
    }
    // The room that appeared ends a wait although no reply is due.
    client.wait();
    client.submit_oneway(&[1]).unwrap();
    client.kick();
    assert_eq!(device.next().unwrap().readable_len(), 1);
}

#[test]
fn an_unanswered_request_comes_back_empty() {
    let (client, device) = small(8);
    client.submit(&request(0, &[0; 40])).unwrap();
    client.kick();
    drop(device.next().unwrap());
    assert_eq!(reap_waiting(&client, 1), [(0, vec![], 0)]);
}

#[test]
fn the_end_of_the_server_is_death() {
    let (client, device) = small(8);
    client.submit(&request(0, &[0; 40])).unwrap();
    let waiter = {
        let client = Arc::clone(&client);
        thread::spawn(move || client.wait())
    };
    let watcher = {
        let client = Arc::clone(&client);
        thread::spawn(move || client.watch())
    };
    drop(device);
    waiter.join().unwrap();
    assert!(matches!(watcher.join().unwrap(), Death::Peer(_)));
    assert_eq!(client.submit(&request(1, &[0; 40])), Err(SubmitError::Dead));
    assert_eq!(client.submit_oneway(&[0; 40]), Err(SubmitError::Dead));
    client.wait();
    client.close();
    assert!(matches!(client.watch(), Death::Peer(_)));
}

#[test]
fn close_ends_everybody() {
    let (client, device) = small(8);
    let device = Arc::new(device);
    let servers: Vec<_> = (0..2)
        .map(|_| {
            let device = Arc::clone(&device);
            thread::spawn(move || device.next().is_none())
        })
        .collect();
    let waiter = {
        let client = Arc::clone(&client);
        thread::spawn(move || client.wait())
    };
    client.close();
    client.close();
    waiter.join().unwrap();
    assert_eq!(client.watch(), Death::Closed);
    for server in servers {
        assert!(server.join().unwrap());
    }
    assert!(device.try_next().is_none());
    assert_eq!(client.submit(&request(0, &[0; 40])), Err(SubmitError::Dead));
}

#[test]
fn wake_ends_the_next_wait() {
    let (client, _device) = small(8);
    client.wake();
    client.wait();
}

#[test]
fn a_polling_server_serves() {
    let (client, device) = small(8);
    device.set_poll_ns(100_000);
    let server = thread::spawn(move || {
        while let Some(request) = device.next() {
            request.complete(16);
        }
    });
    for _ in 0..1000 {
        client.submit(&request(0, &[0; 40])).unwrap();
        client.kick();
        reap_waiting(&client, 1);
    }
    client.close();
    server.join().unwrap();
}

#[test]
fn bad_sizes_are_refused_with_what_to_choose() {
    for queue_size in [0, 4, 100] {
        let options = InProcOptions {
            arena_bytes: 2 << 20,
            queue_size,
        };
        let error = pair(&options).unwrap_err();
        assert!(error.to_string().contains("power of two"), "{error}");
    }
}
