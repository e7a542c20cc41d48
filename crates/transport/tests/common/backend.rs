//! A vhost-user backend that answers by the book, except where it is told not to.

use rustix::fd::OwnedFd;
use rustix::net::{RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, recvmsg};
use std::io::{IoSliceMut, Write};
use std::mem::MaybeUninit;
use std::net::Shutdown;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::mpsc;
use std::thread::{self, JoinHandle};

pub const GET_FEATURES: u32 = 1;
pub const SET_FEATURES: u32 = 2;
pub const SET_OWNER: u32 = 3;
pub const SET_MEM_TABLE: u32 = 5;
pub const SET_VRING_NUM: u32 = 8;
pub const SET_VRING_ADDR: u32 = 9;
pub const SET_VRING_BASE: u32 = 10;
pub const SET_VRING_KICK: u32 = 12;
pub const SET_VRING_CALL: u32 = 13;
pub const GET_PROTOCOL_FEATURES: u32 = 15;
pub const SET_PROTOCOL_FEATURES: u32 = 16;
pub const GET_QUEUE_NUM: u32 = 17;
pub const SET_VRING_ENABLE: u32 = 18;
pub const GET_MAX_MEM_SLOTS: u32 = 36;

pub const VERSION_1: u64 = 1 << 32;
pub const INDIRECT_DESC: u64 = 1 << 28;
pub const EVENT_IDX: u64 = 1 << 29;
pub const PROTOCOL_FEATURES: u64 = 1 << 30;
/// MQ, REPLY_ACK, CONFIGURE_MEM_SLOTS.
pub const PROTOCOL: u64 = 1 | 1 << 3 | 1 << 15;

const REPLY: u32 = 1 << 2;
const NEED_REPLY: u32 = 1 << 3;

/// What the backend does when the request in question comes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Misbehaviour {
    /// Nothing wrong.
    None,
    HangUp,
    /// Closes one direction, and stays.
    HalfClose(Shutdown),
    /// Says nothing and stays.
    Silence,
    /// Half an answer, then nothing.
    HalfAnAnswer,
    /// Bytes of another protocol.
    Garbage,
    /// The answer to another question.
    WrongAnswer,
    /// A negative acknowledgement.
    Refusal,
}

#[derive(Clone, Copy, Debug)]
pub struct Backend {
    pub features: u64,
    pub protocol_features: u64,
    pub queues: u64,
    pub mem_slots: u64,
    pub max_queue_size: u32,
    /// The request that is answered wrongly.
    pub at: u32,
    pub how: Misbehaviour,
}

impl Default for Backend {
    fn default() -> Self {
        Backend {
            features: VERSION_1 | INDIRECT_DESC | EVENT_IDX | PROTOCOL_FEATURES,
            protocol_features: PROTOCOL,
            queues: 2,
            mem_slots: 32,
            max_queue_size: 1024,
            at: 0,
            how: Misbehaviour::None,
        }
    }
}

/// A backend that listens, and its thread.
pub struct Running {
    pub socket: PathBuf,
    directory: tempfile::TempDir,
    stop: mpsc::Sender<()>,
    thread: JoinHandle<Vec<OwnedFd>>,
}

impl Running {
    /// Has the backend hang up, and returns the eventfds it was given for its queues' kicks.
    pub fn stop(self) -> Vec<OwnedFd> {
        drop(self.stop);
        let kicks = self.thread.join().unwrap();
        drop(self.directory);
        kicks
    }
}

struct Message {
    request: u32,
    flags: u32,
    body: Vec<u8>,
    fds: Vec<OwnedFd>,
}

impl Backend {
    /// Serves one connection.
    pub fn start(self) -> Running {
        let directory = tempfile::tempdir().unwrap();
        let socket = directory.path().join("backend.sock");
        let listener = UnixListener::bind(&socket).unwrap();
        let (stop, stopped) = mpsc::channel();
        let thread = thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            let kicks = self.serve(&mut stream);
            if kicks.is_some() {
                // Connected, or silent: stays until it is told to go.
                let _ = stopped.recv();
            }
            kicks.unwrap_or_default()
        });
        Running {
            socket,
            directory,
            stop,
            thread,
        }
    }

    /// Answers until the handshake is through, or it hangs up (`None`).
    fn serve(self, stream: &mut UnixStream) -> Option<Vec<OwnedFd>> {
        let mut kicks = Vec::new();
        let mut enabled = 0;
        let mut stays = false;
        loop {
            let Some(message) = receive(stream) else {
                return stays.then_some(kicks);
            };
            if message.request == self.at {
                match self.how {
                    Misbehaviour::None => {}
                    Misbehaviour::Refusal => {
                        answer(stream, message.request, 1);
                        continue;
                    }
                    Misbehaviour::HangUp => return None,
                    Misbehaviour::HalfClose(direction) => {
                        // It is answered all the same, where that is still possible.
                        stream.shutdown(direction).unwrap();
                        stays = true;
                    }
                    Misbehaviour::Silence => return Some(kicks),
                    Misbehaviour::HalfAnAnswer => {
                        let _ = stream.write_all(&message.request.to_ne_bytes());
                        return Some(kicks);
                    }
                    Misbehaviour::Garbage => {
                        let _ = stream.write_all(b"HTTP/1.1 400 Bad Request\r\n\r\n");
                        return Some(kicks);
                    }
                    Misbehaviour::WrongAnswer => {
                        answer(stream, message.request + 1, 0);
                        return Some(kicks);
                    }
                }
            }
            let value = match message.request {
                GET_FEATURES => Some(self.features),
                GET_PROTOCOL_FEATURES => Some(self.protocol_features),
                GET_QUEUE_NUM => Some(self.queues),
                GET_MAX_MEM_SLOTS => Some(self.mem_slots),
                SET_VRING_NUM => {
                    let size = u32::from_ne_bytes(message.body[4..8].try_into().unwrap());
                    (message.flags & NEED_REPLY != 0).then_some((size > self.max_queue_size).into())
                }
                _ => (message.flags & NEED_REPLY != 0).then_some(0),
            };
            if let Some(value) = value {
                answer(stream, message.request, value);
            }
            match message.request {
                SET_VRING_KICK => kicks.extend(message.fds),
                SET_VRING_ENABLE => enabled += 1,
                _ => {}
            }
            let protocol = self.features & PROTOCOL_FEATURES != 0;
            if (protocol && enabled == 2) || (!protocol && kicks.len() == 2) {
                return Some(kicks);
            }
        }
    }
}

fn answer(stream: &mut UnixStream, request: u32, value: u64) {
    let mut bytes = Vec::new();
    for word in [request, 1 | REPLY, 8] {
        bytes.extend(word.to_ne_bytes());
    }
    bytes.extend(value.to_ne_bytes());
    let _ = stream.write_all(&bytes);
}

fn receive(stream: &mut UnixStream) -> Option<Message> {
    let mut header = [0; 12];
    let fds = read_all(stream, &mut header)?;
    let word = |at: usize| u32::from_ne_bytes(header[at..at + 4].try_into().unwrap());
    let mut body = vec![0; word(8) as usize];
    let mut more = read_all(stream, &mut body)?;
    more.extend(fds);
    Some(Message {
        request: word(0),
        flags: word(4),
        body,
        fds: more,
    })
}

fn read_all(stream: &UnixStream, mut to: &mut [u8]) -> Option<Vec<OwnedFd>> {
    let mut fds = Vec::new();
    while !to.is_empty() {
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(8))];
        let mut ancillary = RecvAncillaryBuffer::new(&mut space);
        let mut place = [IoSliceMut::new(to)];
        let got = recvmsg(stream, &mut place, &mut ancillary, RecvFlags::empty()).ok()?;
        for message in ancillary.drain() {
            if let RecvAncillaryMessage::ScmRights(passed) = message {
                fds.extend(passed);
            }
        }
        if got.bytes == 0 {
            return None;
        }
        to = &mut to[got.bytes..];
    }
    Some(fds)
}

/// A socket at which nobody accepts, with its backlog full.
pub fn full_backlog(path: &Path) -> (OwnedFd, Vec<UnixStream>) {
    use rustix::net::{AddressFamily, SocketAddrUnix, SocketType, bind, listen, socket};
    let listener = socket(AddressFamily::UNIX, SocketType::STREAM, None).unwrap();
    bind(&listener, &SocketAddrUnix::new(path).unwrap()).unwrap();
    listen(&listener, 0).unwrap();
    let waiting = UnixStream::connect(path).unwrap();
    (listener, vec![waiting])
}
