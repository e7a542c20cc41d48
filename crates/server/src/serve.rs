//! Running a file system on threads of this process.

use crate::dispatch::{HeadBuffer, Session};
use crate::fs::{FileSystem, Usage};
use crate::notice::Notifier;
use fusewire_sync::Arc;
use fusewire_sync::thread::{self, JoinHandle};
use fusewire_transport::{DeviceEnd, DeviceRequest, InProcOptions, InProcess, pair};
use fusewire_wire::{InitFlags, Opcode, OpenOutFlags};
use std::io;

/// How a server runs.
#[derive(Clone, Debug)]
pub struct ServerOptions {
    /// Worker threads, at least 1. With more than one, requests in flight at once are answered in
    /// any order, as by virtiofsd with a thread pool.
    pub threads: usize,
    /// Whether locks of files are kept here, in a table of the server's own; if not, they are left
    /// to the client. Default on.
    pub locks: bool,
    /// Flags of INIT that are granted beyond those of the file system, to clients that offer them:
    /// for what a script does by itself.
    pub grant: InitFlags,
    /// Flags of INIT that are not granted whatever else is said, to see how a client does without.
    /// Without INIT_EXT there is no flag beyond the lower 32. Default none.
    pub without: InitFlags,
    /// Flags that files are opened with, in place of the file system's own. Default its own.
    pub file_flags: Option<OpenOutFlags>,
    /// The same for directories.
    pub dir_flags: Option<OpenOutFlags>,
    /// Size of the connection.
    pub connection: InProcOptions,
    /// How long an idle worker looks for requests before it sleeps, in nanoseconds. Pays only when
    /// client and server have a CPU each.
    pub poll_ns: u64,
}

impl Default for ServerOptions {
    fn default() -> Self {
        ServerOptions {
            threads: 1,
            locks: true,
            grant: InitFlags::empty(),
            without: InitFlags::empty(),
            file_flags: None,
            dir_flags: None,
            connection: InProcOptions::default(),
            poll_ns: 0,
        }
    }
}

/// Starts serving `fs`; returns the client's end of the connection, and the server.
///
/// # Errors
/// EINVAL for sizes that cannot be had; what the system says when it has no memory, descriptors or
/// threads left.
pub fn start<F: FileSystem>(
    fs: F,
    options: &ServerOptions,
) -> io::Result<(InProcess, ServerHandle<F>)> {
    start_shared(Arc::new(fs), options)
}

/// As [`start`], with a file system that others hold too: to look into it from outside, or to
/// serve it again after a first client has gone.
///
/// # Errors
/// As [`start`].
pub fn start_shared<F: FileSystem>(
    fs: Arc<F>,
    options: &ServerOptions,
) -> io::Result<(InProcess, ServerHandle<F>)> {
    let session = Arc::new(Session::new(fs, options));
    let answer = {
        let session = Arc::clone(&session);
        move |request: DeviceRequest, buffer: &mut HeadBuffer| {
            session.perform(request, buffer);
        }
    };
    let (client, workers) = Workers::start(options, answer)?;
    Ok((client, ServerHandle { workers, session }))
}

/// A running server. Dropping it ends the server, and with it the connection: for the client that
/// is the death of its daemon.
#[derive(Debug)]
pub struct ServerHandle<F> {
    workers: Workers,
    session: Arc<Session<F>>,
}

impl<F: FileSystem> ServerHandle<F> {
    /// Waits until the client has closed the connection and everything it asked for is done, and
    /// returns what it still holds: nothing, if it gave back what it got.
    pub fn join(mut self) -> Usage {
        self.workers.join();
        self.session.fs.usage()
    }

    /// The file system.
    #[must_use]
    pub fn fs(&self) -> &Arc<F> {
        &self.session.fs
    }

    /// What the client holds now.
    #[must_use]
    pub fn usage(&self) -> Usage {
        self.session.fs.usage()
    }

    /// Tells the client what it did not ask for.
    #[must_use]
    pub fn notifier(&self) -> Notifier {
        self.workers.notifier()
    }

    /// How many SETLKW wait for their lock.
    #[must_use]
    pub fn waiting_for_locks(&self) -> usize {
        self.session.waiting()
    }

    /// How many requests of that kind were answered.
    #[must_use]
    pub fn count(&self, opcode: Opcode) -> u64 {
        self.session.count(opcode)
    }
}

/// The threads behind a connection.
#[derive(Debug)]
pub(crate) struct Workers {
    device: Arc<DeviceEnd>,
    threads: Vec<JoinHandle<()>>,
}

impl Workers {
    /// Starts threads that hand every request to `answer`, until the connection ends.
    pub(crate) fn start(
        options: &ServerOptions,
        answer: impl Fn(DeviceRequest, &mut HeadBuffer) + Send + Sync + 'static,
    ) -> io::Result<(InProcess, Self)> {
        let (client, device) = pair(&options.connection)?;
        device.set_poll_ns(options.poll_ns);
        let mut workers = Workers {
            device: Arc::new(device),
            threads: Vec::new(),
        };
        let answer = Arc::new(answer);
        for n in 0..options.threads.max(1) {
            let end = EndOnDrop(Arc::clone(&workers.device));
            let answer = Arc::clone(&answer);
            let thread = thread::spawn(&format!("fw-server-{n}"), move || {
                let mut buffer = HeadBuffer::new();
                while let Some(request) = end.0.next() {
                    answer(request, &mut buffer);
                }
            })?;
            workers.threads.push(thread);
        }
        Ok((client, workers))
    }

    pub(crate) fn device(&self) -> &Arc<DeviceEnd> {
        &self.device
    }

    pub(crate) fn notifier(&self) -> Notifier {
        Notifier::new(Arc::downgrade(&self.device))
    }

    pub(crate) fn join(&mut self) {
        for thread in self.threads.drain(..) {
            // A worker's panic has been reported by its own thread and has ended the connection.
            let _ = thread.join();
        }
    }
}

impl Drop for Workers {
    fn drop(&mut self) {
        self.device.close();
        self.join();
    }
}

/// Ends the connection when a worker ends, even by a panic: no client waits for a dead server.
struct EndOnDrop(Arc<DeviceEnd>);

impl Drop for EndOnDrop {
    fn drop(&mut self) {
        self.0.close();
    }
}
