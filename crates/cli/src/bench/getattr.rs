//! How long a caller waits for attributes: the whole client against the bare ring below it.
//!
//! The daemon allows nothing to be cached, so each call is one GETATTR and its reply. Every arm of a
//! row has the same daemon with the same settings, started anew for each session.

use super::harness::{Better, Comparison, Floor, Metric, Problem, Row, Session};
use super::placement::{Cpus, Placement};
use super::stats::quantile;
use super::{Bench, Size, ping};
use fusewire::transport::vhost_user::{self, Cache, VhostUser, Virtiofsd};
use fusewire::transport::{InProcess, Transport};
use fusewire::{Client, WaitPolicy};
use fusewire_server::dir::{DirOptions, Directory};
use fusewire_server::{Caching, ServerHandle, ServerOptions};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// Timed calls of a session.
const CALLS: Size = Size {
    full: 10_000,
    quick: 2_000,
};

/// Calls before those that are timed.
const WARM_UP: usize = 1_000;

/// How long a spinning arm looks for the reply before it sleeps: the client's default.
const SPIN: WaitPolicy = WaitPolicy::Spin { budget_ns: 40_000 };

/// How long a server that is to be found awake stays so.
const AWAKE_NS: u64 = 1_000_000;

/// A caller may wait 1.3 times as long as a bare ping takes.
const MOST_OVER_BARE: f64 = 1.3;

const METRICS: &[Metric] = &[
    Metric {
        name: "p50",
        unit: "µs",
        better: Better::Lower,
    },
    Metric {
        name: "p90",
        unit: "µs",
        better: Better::Lower,
    },
];

/// Over vhost-user.
pub const VHOST: Row = Row {
    name: "getattr_vhost",
    placements: &[Placement::SameCpu, Placement::TwoCpus, Placement::Unpinned],
    metrics: METRICS,
    arms: &["ping_sleep", "client_sleep", "ping_spin", "client_spin"],
    comparisons: &[
        Comparison {
            name: "getattr_vs_bare_ping",
            metric: "p50",
            first: "client_sleep",
            second: "ping_sleep",
            goal: Some(1.0 / MOST_OVER_BARE),
            report: None,
            floor: None,
        },
        Comparison {
            name: "getattr_spin_vs_bare_spin",
            metric: "p50",
            first: "client_spin",
            second: "ping_spin",
            goal: Some(1.0 / MOST_OVER_BARE),
            report: None,
            floor: None,
        },
        Comparison {
            name: "getattr_spin_vs_sleep",
            metric: "p50",
            first: "client_spin",
            second: "client_sleep",
            goal: None,
            report: None,
            floor: Some(Floor {
                of: "ping_sleep",
                at_least: 1.0 / MOST_OVER_BARE,
            }),
        },
    ],
    prepare: vhost,
};

/// Over the ring to an embedded server that is awake.
pub const INPROC: Row = Row {
    name: "getattr_inproc",
    placements: &[Placement::TwoCpus],
    metrics: METRICS,
    arms: &["ping", "client"],
    comparisons: &[Comparison {
        name: "getattr_inproc_vs_bare_ping",
        metric: "p50",
        first: "client",
        second: "ping",
        goal: None,
        report: None,
        floor: None,
    }],
    prepare: inproc,
};

fn vhost(bench: &Bench, cpus: &Cpus) -> Result<Vec<Session>, Problem> {
    bench.check_daemon()?;
    let calls = bench.size(&CALLS);
    let session = |run: fn(VhostUser, WaitPolicy, usize) -> Outcome, policy| -> Session {
        let (dir, cpus) = (bench.files.path().to_owned(), cpus.clone());
        Box::new(move || {
            let transport = cpus.on_peer(|| daemon(&dir))??;
            cpus.on_client(|| run(transport, policy, calls))?
        })
    };
    let bare = |transport: VhostUser, policy, calls| time_pings(&transport, policy, calls);
    Ok(vec![
        session(bare, WaitPolicy::Sleep),
        session(time_client, WaitPolicy::Sleep),
        session(bare, SPIN),
        session(time_client, SPIN),
    ])
}

fn inproc(bench: &Bench, cpus: &Cpus) -> Result<Vec<Session>, Problem> {
    let calls = bench.size(&CALLS);
    let dir = bench.files.path().to_owned();
    let (bare, client) = (cpus.clone(), cpus.clone());
    Ok(vec![
        Box::new(move || {
            let (transport, server) = bare
                .on_peer(|| ping::server(AWAKE_NS))?
                .map_err(no_server)?;
            let times = bare.on_client(|| time_pings(&transport, SPIN, calls))?;
            transport.close();
            let joined = server.join();
            joined.map_err(|_| Problem::Failed("the bare server panicked".to_owned()))?;
            times
        }),
        Box::new(move || {
            let (transport, server) = client.on_peer(|| embedded(&dir))??;
            let times = client.on_client(|| time_client(transport, SPIN, calls))?;
            server.join();
            times
        }),
    ])
}

type Outcome = Result<Vec<f64>, Problem>;

fn no_server(error: std::io::Error) -> Problem {
    Problem::Failed(format!("cannot start the embedded server: {error}"))
}

fn daemon(dir: &Path) -> Result<VhostUser, Problem> {
    let mut virtiofsd = Virtiofsd::new(dir);
    virtiofsd.cache = Cache::Never;
    vhost_user::spawn(&virtiofsd, &vhost_user::Options::default())
        .map_err(|error| Problem::Failed(error.to_string()))
}

fn embedded(dir: &PathBuf) -> Result<(InProcess, ServerHandle<Directory>), Problem> {
    let served = DirOptions {
        caching: Caching::never(),
        ..DirOptions::default()
    };
    let options = ServerOptions {
        poll_ns: AWAKE_NS,
        ..ServerOptions::default()
    };
    let dir = Directory::new(dir, served).map_err(no_server)?;
    fusewire_server::start(dir, &options).map_err(no_server)
}

fn time_pings(transport: &dyn Transport, policy: WaitPolicy, calls: usize) -> Outcome {
    let times = ping::times(transport, policy, WARM_UP + calls)?;
    Ok(summary(&times[WARM_UP..]))
}

fn time_client(transport: impl Transport + 'static, policy: WaitPolicy, calls: usize) -> Outcome {
    let failed = |error: fusewire::Error| Problem::Failed(format!("the client: {error}"));
    let client = Client::builder()
        .wait_policy(policy)
        .connect(transport)
        .map_err(failed)?;
    let call = || {
        let start = Instant::now();
        client.metadata("/").map(|_| start.elapsed())
    };
    let times: Result<Vec<Duration>, _> = (0..WARM_UP + calls).map(|_| call()).collect();
    let times = times.map_err(failed)?;
    client.shutdown().map_err(failed)?;
    Ok(summary(&times[WARM_UP..]))
}

/// A value for each of [`METRICS`].
fn summary(times: &[Duration]) -> Vec<f64> {
    let micros: Vec<f64> = times.iter().map(|time| time.as_secs_f64() * 1e6).collect();
    vec![quantile(&micros, 0.5), quantile(&micros, 0.9)]
}
