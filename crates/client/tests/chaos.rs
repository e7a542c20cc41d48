//! A daemon killed or stopped at random points: no call hangs, nothing panics, nothing leaks.
//!
//! 1/50 of the points in an ordinary run, all 200 with `FUSEWIRE_SOAK=1`. `FUSEWIRE_SEED` repeats
//! a run.

mod common;

use common::{Rng, peer_program};
use fusewire::transport::vhost_user::{self, Cache, Options, Virtiofsd};
use fusewire::{Client, Timeouts};
use rustix::io::Errno;
use rustix::process::{Pid, Signal, kill_process};
use std::io::{Read, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

const POINTS: u64 = 200;
const WORKERS: u64 = 4;
/// How long a request may take here.
const TIMEOUT: Duration = Duration::from_millis(200);
/// Death ends every call within this.
const DEATH_LIMIT: Duration = Duration::from_secs(1);

struct Run {
    client: Client,
    pid: Pid,
    /// Operations that have ended, successfully or not.
    done: Arc<AtomicU64>,
    timeouts: Arc<AtomicU64>,
    stop: Arc<AtomicBool>,
    workers: Vec<std::thread::JoinHandle<Result<(), String>>>,
    _tree: tempfile::TempDir,
}

/// Starts a daemon with a tree, and workers that do whatever there is until told to stop or until
/// the connection has ended.
fn start(program: &std::path::Path, seed: u64) -> Run {
    let tree = tempfile::tempdir().unwrap();
    for worker in 0..WORKERS {
        std::fs::create_dir(tree.path().join(format!("d{worker}"))).unwrap();
        std::fs::write(tree.path().join(format!("d{worker}/big")), vec![7; 3 << 20]).unwrap();
    }
    let mut daemon = Virtiofsd::new(tree.path());
    daemon.program = Some(program.to_path_buf());
    daemon.cache = Cache::Never;
    let options = Options {
        arena_bytes: 32 << 20,
        ..Options::default()
    };
    let transport = vhost_user::spawn(&daemon, &options).unwrap();
    let pid = Pid::from_raw(transport.info().pid.unwrap() as i32).unwrap();
    let client = Client::builder()
        .timeouts(Timeouts {
            metadata: Some(TIMEOUT),
            data: Some(TIMEOUT),
        })
        .connect(transport)
        .unwrap();
    let done = Arc::new(AtomicU64::new(0));
    let timeouts = Arc::new(AtomicU64::new(0));
    let stop = Arc::new(AtomicBool::new(false));
    let workers = (0..WORKERS)
        .map(|worker| {
            let client = client.clone();
            let (done, timeouts, stop) = (done.clone(), timeouts.clone(), stop.clone());
            let mut rng = Rng::new(seed ^ (worker + 1).wrapping_mul(0x9e37_79b9));
            std::thread::spawn(move || {
                while !stop.load(Ordering::Acquire) {
                    let result = step(&client, worker, &mut rng);
                    done.fetch_add(1, Ordering::AcqRel);
                    match result {
                        Ok(()) => {}
                        Err(error) if error.raw == Errno::TIMEDOUT.raw_os_error() => {
                            timeouts.fetch_add(1, Ordering::AcqRel);
                        }
                        Err(error) if connection_ended(error.raw) => return Ok(()),
                        // A timed-out operation of before may have been carried out late.
                        Err(error) if timeouts.load(Ordering::Acquire) > 0 => drop(error),
                        Err(error) => return Err(error.text),
                    }
                }
                Ok(())
            })
        })
        .collect();
    Run {
        client,
        pid,
        done,
        timeouts,
        stop,
        workers,
        _tree: tree,
    }
}

fn connection_ended(errno: i32) -> bool {
    [Errno::NOTCONN, Errno::CONNABORTED]
        .iter()
        .any(|e| e.raw_os_error() == errno)
}

#[derive(Debug)]
struct StepError {
    raw: i32,
    text: String,
}

impl From<fusewire::Error> for StepError {
    fn from(error: fusewire::Error) -> Self {
        StepError {
            raw: error.errno(),
            text: error.to_string(),
        }
    }
}

impl From<std::io::Error> for StepError {
    fn from(error: std::io::Error) -> Self {
        let inner = error
            .get_ref()
            .and_then(|e| e.downcast_ref::<fusewire::Error>());
        StepError {
            raw: inner.map_or(0, fusewire::Error::errno),
            text: error.to_string(),
        }
    }
}

/// One random operation in the worker's own directory.
fn step(client: &Client, worker: u64, rng: &mut Rng) -> Result<(), StepError> {
    let dir = format!("/d{worker}");
    let name = format!("{dir}/f{}", rng.below(4));
    match rng.below(8) {
        0 => {
            client.write(&name, vec![1; rng.below(300_000) as usize])?;
        }
        1 => {
            let mut file = client.open(format!("{dir}/big"))?;
            let mut buf = vec![0; 2 << 20];
            file.read_exact(&mut buf)?;
        }
        2 => {
            client.metadata(format!("{dir}/big"))?;
        }
        3 => {
            for entry in client.read_dir(&dir)? {
                entry?;
            }
        }
        4 => match client.remove_file(&name) {
            Err(error) if error.errno() == Errno::NOENT.raw_os_error() => {}
            result => result?,
        },
        5 => {
            client.exists(format!("{dir}/missing"))?;
        }
        6 => {
            let mut file = client.create(&name)?;
            file.write_all(&[2; 10_000])?;
            file.sync_all()?;
            file.close()?;
        }
        _ => {
            client.write(format!("{dir}/t"), b"x")?;
            client.rename(format!("{dir}/t"), &name)?;
        }
    }
    Ok(())
}

impl Run {
    /// Waits until the workers have done `n` operations more.
    fn progress(&self, n: u64) {
        let target = self.done.load(Ordering::Acquire) + n;
        let limit = Instant::now() + Duration::from_secs(20);
        while self.done.load(Ordering::Acquire) < target {
            assert!(Instant::now() < limit, "no progress: a call hangs");
            std::thread::yield_now();
        }
    }

    fn join(&mut self) {
        self.stop.store(true, Ordering::Release);
        for worker in self.workers.drain(..) {
            worker
                .join()
                .expect("no worker panics")
                .expect("only expected errors");
        }
    }
}

fn points() -> u64 {
    if std::env::var_os("FUSEWIRE_SOAK").is_some() {
        POINTS
    } else {
        POINTS / 50
    }
}

#[test]
fn a_daemon_killed_at_random_points() {
    let Some(program) = peer_program("virtiofsd") else {
        return;
    };
    let seed = common::seed("a_daemon_killed_at_random_points");
    let mut rng = Rng::new(seed);
    for point in 0..points() {
        let mut run = start(&program, rng.next());
        run.progress(1 + rng.below(200));
        kill_process(run.pid, Signal::KILL).unwrap();
        let killed = Instant::now();
        run.join();
        let took = killed.elapsed();
        assert!(
            took < DEATH_LIMIT,
            "point {point}: calls ended after {took:?}"
        );
        let stats = run.client.stats();
        assert_eq!(stats.engine.slots_busy, 0, "point {point}: {stats:?}");
        assert_eq!(stats.engine.orphans, 0, "point {point}: {stats:?}");
        assert_eq!(stats.frames_used, 0, "point {point}: {stats:?}");
        // The transport may know of the death before the client does.
        let over = [Errno::NOTCONN, Errno::CONNABORTED].map(Errno::raw_os_error);
        let error = run.client.metadata("/").unwrap_err();
        assert!(over.contains(&error.errno()), "{error}");
        assert!(error.to_string().contains("daemon"), "{error}");
    }
}

#[test]
fn a_daemon_stopped_at_random_points() {
    let Some(program) = peer_program("virtiofsd") else {
        return;
    };
    let seed = common::seed("a_daemon_stopped_at_random_points");
    let mut rng = Rng::new(seed);
    for point in 0..points() {
        let mut run = start(&program, rng.next());
        run.progress(1 + rng.below(200));
        kill_process(run.pid, Signal::STOP).unwrap();
        // Somebody times out; whoever waits without a deadline (FLUSH, RELEASE, FSYNC) goes on
        // waiting, as with a slow disk.
        let before = run.timeouts.load(Ordering::Acquire);
        let limit = Instant::now() + 5 * TIMEOUT;
        while run.timeouts.load(Ordering::Acquire) == before && Instant::now() < limit {
            std::thread::yield_now();
        }
        kill_process(run.pid, Signal::CONT).unwrap();
        run.join();
        // Late answers come in and are undone; then the client is as good as new.
        let limit = Instant::now() + Duration::from_secs(20);
        loop {
            let stats = run.client.stats();
            if stats.engine.orphans == 0 && stats.engine.slots_busy == 0 {
                assert_eq!(stats.frames_used, 0, "point {point}: {stats:?}");
                assert_eq!(stats.open_handles, 0, "point {point}: {stats:?}");
                break;
            }
            assert!(
                Instant::now() < limit,
                "point {point}: orphans stay: {stats:?}"
            );
            std::thread::yield_now();
        }
        assert_eq!(run.client.ended(), None, "point {point}");
        assert_eq!(run.client.read("/d0/big").unwrap().len(), 3 << 20);
        run.client.drop_caches();
        assert_eq!(run.client.stats().live_nodes, 1, "point {point}");
    }
}

#[test]
fn a_stopped_daemon_does_not_hold_up_abort() {
    let Some(program) = peer_program("virtiofsd") else {
        return;
    };
    let mut run = start(&program, 1);
    run.progress(10);
    kill_process(run.pid, Signal::STOP).unwrap();
    let begun = Instant::now();
    run.client.abort();
    run.join();
    assert!(begun.elapsed() < DEATH_LIMIT, "{:?}", begun.elapsed());
}
