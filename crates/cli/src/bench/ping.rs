//! GETATTR back and forth over a bare transport: the floor that everything above it is measured
//! against.

use super::harness::Problem;
use fusewire::WaitPolicy;
use fusewire::transport::{DeviceEnd, InProcOptions, InProcess, Submission, Transport, pair};
use fusewire_wire::Opcode;
use fusewire_wire::abi::{AttrOut, GetattrIn, InHeader, InitIn, InitOut, OutHeader};
use std::io;
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};
use zerocopy::IntoBytes;

/// Replies come within microseconds; a peer that takes this long gives none.
const PATIENCE: Duration = Duration::from_secs(10);

/// The root of every file system.
const ROOT: u64 = 1;

/// Greets the daemon behind `transport`, and takes the time of `count` GETATTRs of its root, one
/// outstanding at a time, each waited for as `policy` says.
pub fn times(
    transport: &dyn Transport,
    policy: WaitPolicy,
    count: usize,
) -> Result<Vec<Duration>, Problem> {
    let init = InitIn {
        major: 7,
        minor: 38,
        ..InitIn::default()
    };
    let init = message(Opcode::Init, 2, 0, init.as_bytes());
    round_trip(transport, &init, size_of::<InitOut>(), policy)?;
    let getattr = message(Opcode::Getattr, 4, ROOT, GetattrIn::default().as_bytes());
    (0..count)
        .map(|_| {
            let start = Instant::now();
            round_trip(transport, &getattr, size_of::<AttrOut>(), policy)?;
            Ok(start.elapsed())
        })
        .collect()
}

fn message(opcode: Opcode, unique: u64, nodeid: u64, body: &[u8]) -> Vec<u8> {
    let header = InHeader {
        len: (size_of::<InHeader>() + body.len()) as u32,
        opcode: opcode as u32,
        unique,
        nodeid,
        ..InHeader::default()
    };
    [header.as_bytes(), body].concat()
}

fn round_trip(
    transport: &dyn Transport,
    head: &[u8],
    reply_bytes: usize,
    policy: WaitPolicy,
) -> Result<(), Problem> {
    let request = Submission {
        tag: 0,
        head,
        payload_out: &[],
        reply_head_bytes: (size_of::<OutHeader>() + reply_bytes) as u32,
        payload_in: &[],
    };
    let failed = |why: String| Problem::Failed(format!("a bare ping: {why}"));
    transport
        .submit(&request)
        .map_err(|error| failed(format!("{error:?}")))?;
    transport.kick();
    let reap = || transport.reap(&mut |_| {}).map_err(|fault| failed(fault.0));
    if let WaitPolicy::Spin { budget_ns } = policy {
        let until = Instant::now() + Duration::from_nanos(budget_ns);
        loop {
            if reap()? > 0 {
                return Ok(());
            }
            if Instant::now() >= until {
                break;
            }
            thread::yield_now();
        }
    }
    let asleep = Instant::now();
    while reap()? == 0 {
        if asleep.elapsed() > PATIENCE {
            return Err(failed("there is no reply".to_owned()));
        }
        transport.wait();
    }
    Ok(())
}

/// A server on a thread of this process that answers everything with zeroes, awake for `poll_ns`
/// after each request. It ends when the transport is closed.
pub fn server(poll_ns: u64) -> io::Result<(InProcess, JoinHandle<()>)> {
    let (transport, device) = pair(&InProcOptions::default())?;
    device.set_poll_ns(poll_ns);
    let thread = thread::Builder::new()
        .name("bench-server".to_owned())
        .spawn(move || serve(&device))?;
    Ok((transport, thread))
}

fn serve(device: &DeviceEnd) {
    const REPLY: [u8; size_of::<OutHeader>() + size_of::<AttrOut>()] =
        [0; size_of::<OutHeader>() + size_of::<AttrOut>()];
    while let Some(request) = device.next() {
        let written = request.write_at(0, &REPLY);
        request.complete(written);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pings_come_back_asleep_and_awake() {
        for policy in [WaitPolicy::Sleep, WaitPolicy::Spin { budget_ns: 10_000 }] {
            let (transport, server) = server(0).unwrap();
            assert_eq!(times(&transport, policy, 50).unwrap().len(), 50);
            transport.close();
            server.join().unwrap();
        }
    }

    #[test]
    fn a_peer_that_is_gone_is_an_error() {
        let (transport, device) = pair(&InProcOptions::default()).unwrap();
        device.close();
        let error = times(&transport, WaitPolicy::Sleep, 1).unwrap_err();
        assert!(matches!(error, Problem::Failed(_)), "{error:?}");
    }
}
