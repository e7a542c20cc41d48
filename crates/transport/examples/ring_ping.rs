//! GETATTR back and forth over the bare ring, one outstanding, sleeping in between: the floor that
//! everything above the transport is measured against.
//!
//! `cargo run --release -p fusewire-transport --example ring_ping [PROGRAM]` starts virtiofsd
//! (`PROGRAM`, or the one found as usual) for an empty directory and prints the median and the 90th
//! percentile of a round trip, with client and daemon on the same CPU and on two, and of one to a
//! server in this process.

use fusewire_sync::thread;
use fusewire_sync::time::Clock;
use fusewire_transport::vhost_user::{Options, Virtiofsd, spawn};
use fusewire_transport::{InProcOptions, Submission, Transport, pair};
use fusewire_wire::Opcode;
use fusewire_wire::abi::{AttrOut, GetattrIn, InHeader, InitIn, InitOut, OutHeader};
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};
use std::error::Error;
use zerocopy::IntoBytes;

const WARM_UP: usize = 2_000;
const SAMPLES: usize = 20_000;

fn main() -> Result<(), Box<dyn Error>> {
    let directory = tempfile::tempdir()?;
    let mut virtiofsd = Virtiofsd::new(directory.path());
    virtiofsd.program = std::env::args_os().nth(1).map(Into::into);
    let allowed = sched_getaffinity(None)?;
    let cpus: Vec<usize> = (0..CpuSet::MAX_CPU)
        .filter(|c| allowed.is_set(*c))
        .collect();
    let (first, last) = match (cpus.first(), cpus.last()) {
        (Some(first), Some(last)) => (*first, *last),
        _ => return Err("no CPU to run on".into()),
    };

    for (placement, daemon_cpu) in [("same CPU", first), ("two CPUs", last)] {
        if placement == "two CPUs" && first == last {
            println!("virtiofsd, two CPUs: there is only one");
            continue;
        }
        // The daemon keeps the CPU that its parent has at that moment.
        pin(daemon_cpu)?;
        let transport = spawn(&virtiofsd, &Options::default())?;
        pin(first)?;
        round_trip(&transport, &init(), size_of::<InitOut>());
        print(
            &format!("virtiofsd, {placement}, asleep"),
            ping(&transport, false),
        );
        print(
            &format!("virtiofsd, {placement}, awake"),
            ping(&transport, true),
        );
    }

    for (placement, server_cpu) in [("same CPU", first), ("two CPUs", last)] {
        let (transport, device) = pair(&InProcOptions::default())?;
        device.set_poll_ns(if server_cpu == first { 0 } else { 200_000 });
        pin(server_cpu)?;
        let server = thread::spawn("fw-ping-server", move || {
            while let Some(request) = device.next() {
                request.write_at(0, &[0; size_of::<OutHeader>() + size_of::<AttrOut>()]);
                request.complete(size_of::<OutHeader>() + size_of::<AttrOut>());
            }
        })?;
        pin(first)?;
        print(
            &format!("in process, {placement}, asleep"),
            ping(&transport, false),
        );
        print(
            &format!("in process, {placement}, awake"),
            ping(&transport, true),
        );
        transport.close();
        server.join().map_err(|_| "the server panicked")?;
    }
    Ok(())
}

fn pin(cpu: usize) -> Result<(), rustix::io::Errno> {
    let mut set = CpuSet::new();
    set.set(cpu);
    sched_setaffinity(None, &set)
}

fn header(opcode: Opcode, unique: u64, nodeid: u64, body_bytes: usize) -> InHeader {
    InHeader {
        len: (size_of::<InHeader>() + body_bytes) as u32,
        opcode: opcode as u32,
        unique,
        nodeid,
        ..InHeader::default()
    }
}

fn init() -> Vec<u8> {
    let body = InitIn {
        major: 7,
        minor: 38,
        ..InitIn::default()
    };
    let header = header(Opcode::Init, 2, 0, size_of::<InitIn>());
    [header.as_bytes(), body.as_bytes()].concat()
}

/// Nanoseconds of each round trip.
fn ping(transport: &dyn Transport, awake: bool) -> Vec<u64> {
    let clock = Clock::monotonic();
    let header = header(Opcode::Getattr, 4, 1, size_of::<GetattrIn>());
    let request = [header.as_bytes(), GetattrIn::default().as_bytes()].concat();
    let mut samples = Vec::with_capacity(SAMPLES);
    for i in 0..WARM_UP + SAMPLES {
        let start_ns = clock.now_ns();
        if awake {
            round_trip_awake(transport, &request);
        } else {
            round_trip(transport, &request, size_of::<AttrOut>());
        }
        if i >= WARM_UP {
            samples.push(clock.now_ns() - start_ns);
        }
    }
    samples
}

fn submit(transport: &dyn Transport, head: &[u8], reply_bytes: usize) {
    let submitted = transport.submit(&Submission {
        tag: 0,
        head,
        payload_out: &[],
        reply_head_bytes: (size_of::<OutHeader>() + reply_bytes) as u32,
        payload_in: &[],
    });
    assert_eq!(submitted, Ok(()));
    transport.kick();
}

fn reap(transport: &dyn Transport) -> usize {
    match transport.reap(&mut |_| {}) {
        Ok(count) => count,
        Err(fault) => panic!("{fault}"),
    }
}

fn round_trip(transport: &dyn Transport, head: &[u8], reply_bytes: usize) {
    submit(transport, head, reply_bytes);
    while reap(transport) == 0 {
        transport.wait();
    }
}

fn round_trip_awake(transport: &dyn Transport, head: &[u8]) {
    submit(transport, head, size_of::<AttrOut>());
    while reap(transport) == 0 {
        thread::yield_now();
    }
}

fn print(row: &str, mut samples: Vec<u64>) {
    samples.sort_unstable();
    let at = |percent: usize| samples[samples.len() * percent / 100] as f64 / 1000.0;
    println!("{row:36} p50 {:6.2} µs   p90 {:6.2} µs", at(50), at(90));
}
