//! A connection to the source, for the length of one command.

use crate::args::{Common, Format};
use crate::source::Source;
use fusewire::transport::middleware::{TraceFormat, Traced};
use fusewire::transport::vhost_user::{self, VhostUser, VhostUserInfo, Virtiofsd};
use fusewire::transport::{Limits, Transport};
use fusewire::{Client, Identity};
use fusewire_server::dir::{DirOptions, Directory};
use fusewire_server::mem::{MemOptions, Memory};
use fusewire_server::synthetic::{Synthetic, SyntheticOptions};
use fusewire_server::{FileSystem, ServerOptions};
use std::any::Any;
use std::fmt::Display;
use std::io;

/// An open connection.
pub struct Session {
    pub client: Client,
    pub source: Source,
    pub limits: Limits,
    /// What is known of a vhost-user daemon.
    pub daemon: Option<VhostUserInfo>,
    /// An embedded server; ends after the client.
    server: Option<Box<dyn Any>>,
}

/// How to connect.
pub struct Connect {
    trace: Option<Format>,
    /// The umask of new files, if not the process's.
    umask: Option<u32>,
    identity: Option<Identity>,
}

impl Connect {
    pub fn new(common: &Common, umask: Option<u32>) -> Self {
        Connect {
            trace: common.trace,
            umask,
            identity: common.identity.clone(),
        }
    }

    /// Connects to `source`.
    ///
    /// # Errors
    /// One line for the user.
    pub fn open(&self, source: &Source) -> Result<Session, String> {
        match source {
            Source::Dir(path) => {
                let options = DirOptions {
                    xattr: true,
                    ..DirOptions::default()
                };
                let directory = Directory::new(path, options).map_err(one_line)?;
                self.serve(source, directory)
            }
            Source::Mem { capacity_bytes } => {
                let mut options = MemOptions::default();
                if let Some(bytes) = *capacity_bytes {
                    options.capacity_bytes = bytes;
                }
                self.serve(source, Memory::new(options))
            }
            Source::Synthetic(shape) => {
                self.serve(source, Synthetic::new(*shape, SyntheticOptions::default()))
            }
            Source::VhostUser(socket) => {
                let transport = vhost_user::connect(socket, &vhost_user::Options::default());
                self.attach(source, transport.map_err(one_line)?)
            }
            Source::Virtiofsd(directory) => {
                let mut daemon = Virtiofsd::new(directory);
                daemon.xattr = true;
                let transport = vhost_user::spawn(&daemon, &vhost_user::Options::default());
                self.attach(source, transport.map_err(one_line)?)
            }
        }
    }

    fn serve<F: FileSystem>(&self, source: &Source, fs: F) -> Result<Session, String> {
        let (transport, server) =
            fusewire_server::start(fs, &ServerOptions::default()).map_err(one_line)?;
        let mut session = self.connect(source, transport)?;
        session.server = Some(Box::new(server));
        Ok(session)
    }

    fn attach(&self, source: &Source, transport: VhostUser) -> Result<Session, String> {
        let info = transport.info();
        let mut session = self.connect(source, transport)?;
        session.daemon = Some(info);
        Ok(session)
    }

    fn connect<T: Transport + 'static>(
        &self,
        source: &Source,
        transport: T,
    ) -> Result<Session, String> {
        let limits = transport.limits();
        let mut builder = Client::builder();
        if let Some(umask) = self.umask {
            builder = builder.umask(umask);
        }
        if let Some(identity) = &self.identity {
            builder = builder.identity(identity.clone());
        }
        let client = match self.trace {
            None => builder.connect(transport),
            Some(format) => {
                let format = match format {
                    Format::Text => TraceFormat::Text,
                    Format::Json => TraceFormat::Json,
                };
                builder.connect(Traced::new(transport, format, Box::new(io::stderr())))
            }
        };
        Ok(Session {
            client: client.map_err(one_line)?,
            source: source.clone(),
            limits,
            daemon: None,
            server: None,
        })
    }
}

fn one_line(error: impl Display) -> String {
    error.to_string()
}

impl Session {
    /// Says goodbye to the daemon, as far as there still is one, and waits for its end if it is
    /// ours.
    pub fn close(self) {
        // That the connection had ended is known from the calls that failed.
        let _ = self.client.shutdown();
        drop(self.server);
    }
}
