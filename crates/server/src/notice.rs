//! What a server says of its own accord.

use crate::fs::{Errno, Result};
use fusewire_sync::Weak;
use fusewire_transport::DeviceEnd;
use fusewire_wire::InvalEntryFlags;
use fusewire_wire::abi::{
    NotifyDeleteOut, NotifyInvalEntryOut, NotifyInvalInodeOut, NotifyPollWakeupOut, NotifyPruneOut,
    NotifyRetrieveOut, NotifyStoreOut, OutHeader,
};
use fusewire_wire::notify::NotifyCode;
use zerocopy::IntoBytes;

/// A notification. Nothing is checked: a peer may say what it likes, and hears what the client
/// thinks of it.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Notice {
    /// A polled file is ready.
    Poll {
        /// Number that the client gave in its POLL.
        kh: u64,
    },
    /// Attributes and data of a node are stale.
    InvalInode {
        /// The node.
        node: u64,
        /// First stale byte; below 0, no data is.
        offset: i64,
        /// Stale bytes; 0 or less means to the end.
        len: i64,
    },
    /// A name is stale.
    InvalEntry {
        /// Directory.
        parent: u64,
        /// The name.
        name: Vec<u8>,
        /// How.
        flags: InvalEntryFlags,
    },
    /// A name was deleted.
    Delete {
        /// Directory.
        parent: u64,
        /// Node that was under the name.
        child: u64,
        /// The name.
        name: Vec<u8>,
    },
    /// Data for the client's cache.
    Store {
        /// The node.
        node: u64,
        /// Where the data belongs, in bytes.
        offset: u64,
        /// The data.
        data: Vec<u8>,
    },
    /// Data wanted from the client's cache, by a NOTIFY_REPLY.
    Retrieve {
        /// `unique` of the NOTIFY_REPLY.
        unique: u64,
        /// The node.
        node: u64,
        /// Where the data lies, in bytes.
        offset: u64,
        /// Most bytes wanted.
        size: u32,
    },
    /// All requests are wanted again.
    Resend,
    /// All names are stale.
    IncEpoch,
    /// Nodes to let go of if nobody uses them.
    Prune(Vec<u64>),
}

impl Notice {
    /// The message, header included, as [`DeviceEnd::tell`] takes it.
    #[must_use]
    pub fn message(&self) -> Vec<u8> {
        use NotifyCode as Code;
        match self {
            Notice::Poll { kh } => {
                let fixed = NotifyPollWakeupOut { kh: *kh };
                message(Code::Poll, &[fixed.as_bytes()])
            }
            Notice::InvalInode { node, offset, len } => {
                let fixed = NotifyInvalInodeOut {
                    ino: *node,
                    off: *offset,
                    len: *len,
                };
                message(Code::InvalInode, &[fixed.as_bytes()])
            }
            Notice::InvalEntry {
                parent,
                name,
                flags,
            } => {
                let fixed = NotifyInvalEntryOut {
                    parent: *parent,
                    namelen: name.len() as u32,
                    flags: flags.bits(),
                };
                message(Code::InvalEntry, &[fixed.as_bytes(), name, &[0]])
            }
            Notice::Delete {
                parent,
                child,
                name,
            } => {
                let fixed = NotifyDeleteOut {
                    parent: *parent,
                    child: *child,
                    namelen: name.len() as u32,
                    padding: 0,
                };
                message(Code::Delete, &[fixed.as_bytes(), name, &[0]])
            }
            Notice::Store { node, offset, data } => {
                let fixed = NotifyStoreOut {
                    nodeid: *node,
                    offset: *offset,
                    size: data.len() as u32,
                    padding: 0,
                };
                message(Code::Store, &[fixed.as_bytes(), data])
            }
            Notice::Retrieve {
                unique,
                node,
                offset,
                size,
            } => {
                let fixed = NotifyRetrieveOut {
                    notify_unique: *unique,
                    nodeid: *node,
                    offset: *offset,
                    size: *size,
                    padding: 0,
                };
                message(Code::Retrieve, &[fixed.as_bytes()])
            }
            Notice::Resend => message(Code::Resend, &[]),
            Notice::IncEpoch => message(Code::IncEpoch, &[]),
            Notice::Prune(nodes) => {
                let fixed = NotifyPruneOut {
                    count: nodes.len() as u32,
                    ..NotifyPruneOut::default()
                };
                message(Code::Prune, &[fixed.as_bytes(), nodes.as_bytes()])
            }
        }
    }
}

fn message(code: NotifyCode, parts: &[&[u8]]) -> Vec<u8> {
    let body = parts.concat();
    let header = OutHeader {
        len: (size_of::<OutHeader>() + body.len()) as u32,
        error: code as i32,
        unique: 0,
    };
    [header.as_bytes(), &body].concat()
}

/// Tells a client what it did not ask for; from any thread, also from inside of a file system that
/// answers a request. Clones tell the same client. None of this blocks, and the client has taken it
/// when a call returns.
///
/// All fail with what the client says of it: EINVAL for what is no notification, ENOENT for a node
/// or name that it does not know, ENOTCONN before it listens and after the end of the connection.
#[derive(Clone, Debug)]
pub struct Notifier {
    /// Weak: whoever can tell keeps no server alive.
    device: Weak<DeviceEnd>,
}

impl Notifier {
    pub(crate) fn new(device: Weak<DeviceEnd>) -> Self {
        Notifier { device }
    }

    /// Sends any notification.
    ///
    /// # Errors
    /// See [`Notifier`].
    pub fn send(&self, notice: &Notice) -> Result<()> {
        self.tell(&notice.message())
    }

    /// Sends any message at all, header included.
    pub(crate) fn tell(&self, message: &[u8]) -> Result<()> {
        let device = self.device.upgrade().ok_or(Errno::NOTCONN)?;
        let told = device.tell(message);
        told.map_err(|refusal| Errno::from_raw_os_error(refusal.0))
    }

    /// A polled file is ready: [`Notice::Poll`].
    ///
    /// # Errors
    /// See [`Notifier`].
    pub fn poll(&self, kh: u64) -> Result<()> {
        self.send(&Notice::Poll { kh })
    }

    /// Attributes and data are stale: [`Notice::InvalInode`].
    ///
    /// # Errors
    /// See [`Notifier`].
    pub fn inval_inode(&self, node: u64, offset: i64, len: i64) -> Result<()> {
        self.send(&Notice::InvalInode { node, offset, len })
    }

    /// A name is stale: [`Notice::InvalEntry`].
    ///
    /// # Errors
    /// See [`Notifier`]; ENOTDIR when the parent is no directory.
    pub fn inval_entry(&self, parent: u64, name: &[u8], flags: InvalEntryFlags) -> Result<()> {
        let name = name.to_vec();
        self.send(&Notice::InvalEntry {
            parent,
            name,
            flags,
        })
    }

    /// A name was deleted: [`Notice::Delete`].
    ///
    /// # Errors
    /// See [`Notifier`]; ENOTEMPTY when the client knows names in it, ENOENT when another node is
    /// under the name.
    pub fn delete(&self, parent: u64, child: u64, name: &[u8]) -> Result<()> {
        let name = name.to_vec();
        self.send(&Notice::Delete {
            parent,
            child,
            name,
        })
    }

    /// Data for the cache: [`Notice::Store`].
    ///
    /// # Errors
    /// See [`Notifier`]; EFBIG past the largest file.
    pub fn store(&self, node: u64, offset: u64, data: &[u8]) -> Result<()> {
        let data = data.to_vec();
        self.send(&Notice::Store { node, offset, data })
    }

    /// Data wanted from the cache: [`Notice::Retrieve`]. The answer comes as a NOTIFY_REPLY, which
    /// only a [scripted peer](crate::scripted) looks at.
    ///
    /// # Errors
    /// See [`Notifier`].
    pub fn retrieve(&self, unique: u64, node: u64, offset: u64, size: u32) -> Result<()> {
        self.send(&Notice::Retrieve {
            unique,
            node,
            offset,
            size,
        })
    }

    /// All requests are wanted again: [`Notice::Resend`].
    ///
    /// # Errors
    /// See [`Notifier`].
    pub fn resend(&self) -> Result<()> {
        self.send(&Notice::Resend)
    }

    /// All names are stale: [`Notice::IncEpoch`].
    ///
    /// # Errors
    /// See [`Notifier`].
    pub fn inc_epoch(&self) -> Result<()> {
        self.send(&Notice::IncEpoch)
    }

    /// Nodes to let go of: [`Notice::Prune`].
    ///
    /// # Errors
    /// See [`Notifier`].
    pub fn prune(&self, nodes: &[u64]) -> Result<()> {
        self.send(&Notice::Prune(nodes.to_vec()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use fusewire_wire::Name;
    use fusewire_wire::notify::{Message, Notification};

    /// What the client would read.
    fn read(message: &[u8]) -> Notification<'_> {
        match Message::parse(message) {
            Ok(Message::Notification(notification)) => notification,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn what_is_written_is_what_is_read() {
        let message = Notice::Poll { kh: 7 }.message();
        assert_eq!(read(&message), Notification::Poll { kh: 7 });
        let message = Notice::InvalInode {
            node: 2,
            offset: -1,
            len: 9,
        }
        .message();
        let fixed = NotifyInvalInodeOut {
            ino: 2,
            off: -1,
            len: 9,
        };
        assert_eq!(read(&message), Notification::InvalInode(fixed));
        let message = Notice::InvalEntry {
            parent: 3,
            name: b"name".to_vec(),
            flags: InvalEntryFlags::EXPIRE_ONLY,
        }
        .message();
        let name = Name::new(b"name").unwrap();
        let entry = Notification::InvalEntry {
            parent: 3,
            name,
            flags: InvalEntryFlags::EXPIRE_ONLY,
        };
        assert_eq!(read(&message), entry);
        let message = Notice::Delete {
            parent: 3,
            child: 4,
            name: b"name".to_vec(),
        }
        .message();
        let deleted = Notification::Delete {
            parent: 3,
            child: 4,
            name,
        };
        assert_eq!(read(&message), deleted);
        let message = Notice::Store {
            node: 5,
            offset: 10,
            data: b"data".to_vec(),
        }
        .message();
        let stored = Notification::Store {
            nodeid: 5,
            offset: 10,
            data: b"data",
        };
        assert_eq!(read(&message), stored);
        let message = Notice::Retrieve {
            unique: 6,
            node: 5,
            offset: 10,
            size: 20,
        }
        .message();
        let wanted = NotifyRetrieveOut {
            notify_unique: 6,
            nodeid: 5,
            offset: 10,
            size: 20,
            padding: 0,
        };
        assert_eq!(read(&message), Notification::Retrieve(wanted));
        assert_eq!(read(&Notice::Resend.message()), Notification::Resend);
        assert_eq!(read(&Notice::IncEpoch.message()), Notification::IncEpoch);
        match read(&Notice::Prune(vec![8, 9]).message()) {
            Notification::Prune(nodes) => assert!(nodes.iter().eq([8, 9])),
            other => panic!("{other:?}"),
        }
    }
}
