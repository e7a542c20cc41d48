//! A client just large enough to test servers with: it encodes, submits, reaps, and keeps count of
//! the lookups it was given.

use fusewire_mem::{Frames, Segment};
use fusewire_server::dir::{DirOptions, Directory};
use fusewire_server::mem::{MemOptions, Memory};
use fusewire_server::{FileSystem, ServerHandle, ServerOptions, Usage, start};
use fusewire_transport::{Death, InProcOptions, InProcess, Inbox, Refusal, Submission, Transport};
use fusewire_wire::abi::*;
use fusewire_wire::dirent::{Dirents, DirentsPlus};
use fusewire_wire::reply::{self, ReplyHeader};
use fusewire_wire::{
    Caller, Extensions, Head, InitFlags, MAX_HEAD_BYTES, Name, Replies, Request, SetattrValid,
    Target,
};
use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::os::unix::fs::PermissionsExt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, Weak};
use zerocopy::{FromBytes, IntoBytes};

/// What a call may come back with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Failure {
    /// The reply's errno.
    Errno(i32),
    /// The connection ended before the reply.
    Dead,
    /// The peer broke the transport.
    Fault,
    /// The reply makes no sense.
    Garbled,
}

impl Failure {
    pub fn errno(self) -> i32 {
        match self {
            Failure::Errno(errno) => errno,
            other => panic!("expected an errno, got {other:?}"),
        }
    }
}

pub type Answer<T> = Result<T, Failure>;

struct InFlight {
    unique: u64,
    /// The peer's to read until it answers.
    _payload: Vec<Frames>,
    /// The peer's to write until it answers, and how many bytes of each.
    room: Vec<(Frames, usize)>,
}

pub struct Raw {
    pub transport: Arc<InProcess>,
    pub caller: Cell<Caller>,
    unique: Cell<u64>,
    in_flight: RefCell<HashMap<u32, InFlight>>,
    done: RefCell<HashMap<u32, Answer<Vec<u8>>>>,
    broken: Cell<bool>,
    dead: Arc<AtomicBool>,
    watcher: Option<std::thread::JoinHandle<Death>>,
    /// Lookups to give back.
    pub known: RefCell<HashMap<u64, u64>>,
}

pub fn me() -> Caller {
    Caller {
        uid: rustix::process::geteuid().as_raw(),
        gid: rustix::process::getegid().as_raw(),
        pid: std::process::id(),
    }
}

pub fn small() -> ServerOptions {
    ServerOptions {
        connection: InProcOptions {
            arena_bytes: 8 << 20,
            queue_size: 64,
        },
        ..ServerOptions::default()
    }
}

pub fn name(bytes: &[u8]) -> Name<'_> {
    Name::new(bytes).expect("a good name")
}

impl Raw {
    pub fn new(transport: InProcess) -> Self {
        let transport = Arc::new(transport);
        let dead = Arc::new(AtomicBool::new(false));
        let watcher = {
            let (transport, dead) = (Arc::clone(&transport), Arc::clone(&dead));
            std::thread::spawn(move || {
                let death = transport.watch();
                dead.store(true, Ordering::Release);
                transport.wake();
                death
            })
        };
        Raw {
            transport,
            caller: Cell::new(me()),
            unique: Cell::new(2),
            in_flight: RefCell::default(),
            done: RefCell::default(),
            broken: Cell::new(false),
            dead,
            watcher: Some(watcher),
            known: RefCell::default(),
        }
    }

    /// A client that has said INIT with everything a client can offer.
    pub fn connected(transport: InProcess) -> Self {
        let raw = Raw::new(transport);
        raw.init(InitFlags::all()).expect("INIT");
        raw
    }

    pub fn init(&self, flags: InitFlags) -> Answer<InitOut> {
        let arg = InitIn {
            major: 7,
            minor: 45,
            max_readahead: 1 << 20,
            flags: (flags | InitFlags::INIT_EXT).low(),
            flags2: flags.high(),
            unused: [0; 11],
        };
        let body = self.call(0, &Request::Init(arg), &[])?;
        Ok(InitOut::read_from_bytes(&body).expect("64 bytes"))
    }

    fn frames(&self, bytes: usize) -> Frames {
        let arena = self.transport.arena();
        arena
            .alloc(fusewire_mem::order_for(bytes))
            .expect("room in the arena")
    }

    /// Submits and kicks; returns the tag to wait for.
    pub fn send(&self, node: u64, request: &Request<'_>, payload: &[u8]) -> u32 {
        self.send_with(node, request, &Extensions::default(), payload)
    }

    pub fn send_with(
        &self,
        node: u64,
        request: &Request<'_>,
        extensions: &Extensions<'_>,
        payload: &[u8],
    ) -> u32 {
        let unique = self.unique.replace(self.unique.get() + 2);
        let head = Head {
            unique,
            nodeid: node,
            caller: self.caller.get(),
        };
        let mut bytes = [0; MAX_HEAD_BYTES];
        let len = request
            .encode(&head, extensions, &mut bytes)
            .expect("a request that can be sent");
        let shape = request.reply();
        let reply_payload = shape.payload_max_bytes as usize;
        self.submit(
            unique,
            &bytes[..len],
            payload,
            shape.head_bytes,
            reply_payload,
        )
    }

    /// Submits any bytes at all.
    pub fn submit(
        &self,
        unique: u64,
        head: &[u8],
        payload: &[u8],
        reply_head_bytes: u32,
        room: usize,
    ) -> u32 {
        let tag = (0..self.transport.limits().max_in_flight)
            .find(|tag| {
                !self.in_flight.borrow().contains_key(tag) && !self.done.borrow().contains_key(tag)
            })
            .expect("a free tag");
        let mut sent = InFlight {
            unique,
            _payload: Vec::new(),
            room: Vec::new(),
        };
        let mut payload_out = Vec::new();
        // Two pieces, so that payloads that are not in one piece are always tried.
        let (first, second) = payload.split_at(payload.len() / 3);
        for piece in [first, second]
            .into_iter()
            .filter(|piece| !piece.is_empty())
        {
            let frames = self.frames(piece.len());
            frames.bytes(0, piece.len()).copy_from(piece);
            payload_out.push(frames.segment(piece.len() as u32));
            sent._payload.push(frames);
        }
        let mut payload_in: Vec<Segment> = Vec::new();
        for piece in [room / 3, room - room / 3].into_iter().filter(|n| *n > 0) {
            let frames = self.frames(piece);
            payload_in.push(frames.segment(piece as u32));
            sent.room.push((frames, piece));
        }
        let submission = Submission {
            tag,
            head,
            payload_out: &payload_out,
            reply_head_bytes,
            payload_in: &payload_in,
        };
        match self.transport.submit(&submission) {
            Ok(()) => {
                self.in_flight.borrow_mut().insert(tag, sent);
                self.transport.kick();
            }
            Err(_) => {
                self.done.borrow_mut().insert(tag, Err(Failure::Dead));
            }
        }
        tag
    }

    fn reap(&self) {
        let mut done = Vec::new();
        let reaped = self.transport.reap(&mut |completion| {
            let Some(sent) = self.in_flight.borrow_mut().remove(&completion.tag) else {
                return;
            };
            let mut payload = Vec::new();
            let mut left = completion.payload_bytes as usize;
            for (frames, room) in &sent.room {
                let n = left.min(*room);
                payload.extend(frames.bytes(0, n).to_vec());
                left -= n;
            }
            done.push((
                completion.tag,
                parse(sent.unique, completion.head, &payload),
            ));
        });
        self.done.borrow_mut().extend(done);
        if reaped.is_err() {
            self.broken.set(true);
        }
    }

    /// A reply, if it is there.
    pub fn try_finish(&self, tag: u32) -> Option<Answer<Vec<u8>>> {
        self.reap();
        self.done.borrow_mut().remove(&tag)
    }

    /// Waits for a reply; its body.
    pub fn finish(&self, tag: u32) -> Answer<Vec<u8>> {
        loop {
            if let Some(answer) = self.done.borrow_mut().remove(&tag) {
                return answer;
            }
            let dead = self.dead.load(Ordering::Acquire);
            self.reap();
            if self.done.borrow().contains_key(&tag) {
                continue;
            }
            if self.broken.get() {
                return Err(Failure::Fault);
            }
            if dead {
                return Err(Failure::Dead);
            }
            self.transport.wait();
        }
    }
}

/// The body of a reply, as the client would check it.
fn parse(unique: u64, head: &[u8], payload: &[u8]) -> Answer<Vec<u8>> {
    let ReplyHeader {
        len,
        error,
        unique: answered,
    } = reply::parse_header(head).map_err(|_| Failure::Garbled)?;
    if answered != unique || len as usize != head.len() + payload.len() {
        return Err(Failure::Garbled);
    }
    match error {
        Some(errno) => Err(Failure::Errno(errno)),
        None => Ok([&head[16..], payload].concat()),
    }
}

/// The operations, one call each.
impl Raw {
    pub fn call(&self, node: u64, request: &Request<'_>, payload: &[u8]) -> Answer<Vec<u8>> {
        self.finish(self.send(node, request, payload))
    }

    fn fixed<T: FromBytes>(&self, node: u64, request: &Request<'_>) -> Answer<T> {
        let body = self.call(node, request, &[])?;
        T::read_from_bytes(&body).map_err(|_| Failure::Garbled)
    }

    fn empty(&self, node: u64, request: &Request<'_>, payload: &[u8]) -> Answer<()> {
        match self.call(node, request, payload)?.is_empty() {
            true => Ok(()),
            false => Err(Failure::Garbled),
        }
    }

    fn count(&self, node: u64) {
        if node > ROOT_ID {
            *self.known.borrow_mut().entry(node).or_default() += 1;
        }
    }

    fn entry(&self, node: u64, request: &Request<'_>) -> Answer<EntryOut> {
        let entry: EntryOut = self.fixed(node, request)?;
        self.count(entry.nodeid);
        Ok(entry)
    }

    pub fn lookup(&self, dir: u64, n: &[u8]) -> Answer<EntryOut> {
        self.entry(dir, &Request::Lookup { name: name(n) })
    }

    pub fn mkdir(&self, dir: u64, n: &[u8], mode: u32) -> Answer<EntryOut> {
        let (name, umask) = (name(n), 0);
        self.entry(dir, &Request::Mkdir { name, mode, umask })
    }

    pub fn mknod(&self, dir: u64, n: &[u8], mode: u32, rdev: u32) -> Answer<EntryOut> {
        let request = Request::Mknod {
            name: name(n),
            mode,
            rdev,
            umask: 0,
        };
        self.entry(dir, &request)
    }

    pub fn symlink(&self, dir: u64, n: &[u8], target: &[u8]) -> Answer<EntryOut> {
        let target = Target::new(target).expect("a good target");
        let name = name(n);
        self.entry(dir, &Request::Symlink { name, target })
    }

    pub fn link(&self, old_node: u64, dir: u64, n: &[u8]) -> Answer<EntryOut> {
        let new_name = name(n);
        self.entry(dir, &Request::Link { old_node, new_name })
    }

    pub fn readlink(&self, node: u64) -> Answer<Vec<u8>> {
        self.call(node, &Request::Readlink, &[])
    }

    pub fn unlink(&self, dir: u64, n: &[u8]) -> Answer<()> {
        self.empty(dir, &Request::Unlink { name: name(n) }, &[])
    }

    pub fn rmdir(&self, dir: u64, n: &[u8]) -> Answer<()> {
        self.empty(dir, &Request::Rmdir { name: name(n) }, &[])
    }

    pub fn rename(&self, from: (u64, &[u8]), to: (u64, &[u8]), flags: u32) -> Answer<()> {
        let (name, new_name, new_dir) = (name(from.1), name(to.1), to.0);
        let request = if flags == 0 {
            Request::Rename {
                new_dir,
                name,
                new_name,
            }
        } else {
            Request::Rename2 {
                new_dir,
                flags,
                name,
                new_name,
            }
        };
        self.empty(from.0, &request, &[])
    }

    pub fn getattr(&self, node: u64, fh: Option<u64>) -> Answer<Attr> {
        let out: AttrOut = self.fixed(node, &Request::Getattr { fh })?;
        Ok(out.attr)
    }

    pub fn setattr(&self, node: u64, valid: SetattrValid, arg: SetattrIn) -> Answer<Attr> {
        let valid = valid.bits();
        let out: AttrOut = self.fixed(node, &Request::Setattr(SetattrIn { valid, ..arg }))?;
        Ok(out.attr)
    }

    pub fn truncate(&self, node: u64, size: u64) -> Answer<Attr> {
        let arg = SetattrIn {
            size,
            ..SetattrIn::default()
        };
        self.setattr(node, SetattrValid::SIZE, arg)
    }

    pub fn chmod(&self, node: u64, mode: u32) -> Answer<Attr> {
        let arg = SetattrIn {
            mode,
            ..SetattrIn::default()
        };
        self.setattr(node, SetattrValid::MODE, arg)
    }

    pub fn open(&self, node: u64, flags: i32) -> Answer<OpenOut> {
        let request = Request::Open {
            flags: flags as u32,
            open_flags: 0,
        };
        self.fixed(node, &request)
    }

    fn created(&self, node: u64, request: &Request<'_>) -> Answer<(EntryOut, OpenOut)> {
        let body = self.call(node, request, &[])?;
        let (entry, open) = reply::create(&body).map_err(|_| Failure::Garbled)?;
        self.count(entry.nodeid);
        Ok((entry, open))
    }

    pub fn create(&self, dir: u64, n: &[u8], flags: i32, mode: u32) -> Answer<(EntryOut, OpenOut)> {
        let request = Request::Create {
            name: name(n),
            flags: flags as u32,
            mode,
            umask: 0,
            open_flags: 0,
        };
        self.created(dir, &request)
    }

    pub fn tmpfile(&self, dir: u64, flags: i32, mode: u32) -> Answer<(EntryOut, OpenOut)> {
        let request = Request::Tmpfile {
            flags: flags as u32,
            mode,
            umask: 0,
            open_flags: 0,
        };
        self.created(dir, &request)
    }

    pub fn read(&self, fh: u64, offset: u64, size: u32) -> Answer<Vec<u8>> {
        let arg = ReadIn {
            fh,
            offset,
            size,
            ..ReadIn::default()
        };
        self.call(ROOT_ID, &Request::Read(arg), &[])
    }

    pub fn write_with(&self, fh: u64, offset: u64, data: &[u8], write_flags: u32) -> Answer<u32> {
        let arg = WriteIn {
            fh,
            offset,
            size: data.len() as u32,
            write_flags,
            ..WriteIn::default()
        };
        let body = self.call(ROOT_ID, &Request::Write(arg), data)?;
        let out = reply::write(&body).map_err(|_| Failure::Garbled)?;
        Ok(out.size)
    }

    pub fn write(&self, fh: u64, offset: u64, data: &[u8]) -> Answer<u32> {
        self.write_with(fh, offset, data, 0)
    }

    pub fn release(&self, fh: u64) -> Answer<()> {
        let arg = ReleaseIn {
            fh,
            ..ReleaseIn::default()
        };
        self.empty(ROOT_ID, &Request::Release(arg), &[])
    }

    pub fn releasedir(&self, fh: u64) -> Answer<()> {
        let arg = ReleaseIn {
            fh,
            ..ReleaseIn::default()
        };
        self.empty(ROOT_ID, &Request::Releasedir(arg), &[])
    }

    pub fn flush(&self, fh: u64) -> Answer<()> {
        let arg = FlushIn {
            fh,
            ..FlushIn::default()
        };
        self.empty(ROOT_ID, &Request::Flush(arg), &[])
    }

    pub fn fsync(&self, fh: u64, fsync_flags: u32) -> Answer<()> {
        let padding = 0;
        let arg = FsyncIn {
            fh,
            fsync_flags,
            padding,
        };
        self.empty(ROOT_ID, &Request::Fsync(arg), &[])
    }

    pub fn fallocate(&self, fh: u64, mode: u32, offset: u64, length: u64) -> Answer<()> {
        let padding = 0;
        let arg = FallocateIn {
            fh,
            offset,
            length,
            mode,
            padding,
        };
        self.empty(ROOT_ID, &Request::Fallocate(arg), &[])
    }

    pub fn lseek(&self, fh: u64, offset: u64, whence: u32) -> Answer<u64> {
        let padding = 0;
        let arg = LseekIn {
            fh,
            offset,
            whence,
            padding,
        };
        let out: LseekOut = self.fixed(ROOT_ID, &Request::Lseek(arg))?;
        Ok(out.offset)
    }

    pub fn copy(&self, from: (u64, u64), to: (u64, u64), len: u64) -> Answer<u64> {
        let arg = CopyFileRangeIn {
            fh_in: from.0,
            off_in: from.1,
            nodeid_out: ROOT_ID,
            fh_out: to.0,
            off_out: to.1,
            len,
            flags: 0,
        };
        let out: CopyFileRangeOut = self.fixed(ROOT_ID, &Request::CopyFileRange64(arg))?;
        Ok(out.bytes_copied)
    }

    pub fn opendir(&self, node: u64) -> Answer<u64> {
        let request = Request::Opendir {
            flags: 0,
            open_flags: 0,
        };
        let out: OpenOut = self.fixed(node, &request)?;
        Ok(out.fh)
    }

    /// One READDIR: (next offset, inode number, type, name) of each entry.
    pub fn readdir(&self, node: u64, fh: u64, offset: u64, size: u32) -> Answer<Vec<Listed>> {
        let arg = ReadIn {
            fh,
            offset,
            size,
            ..ReadIn::default()
        };
        let body = self.call(node, &Request::Readdir(arg), &[])?;
        Dirents::new(&body)
            .map(|entry| {
                let entry = entry.map_err(|_| Failure::Garbled)?;
                Ok(Listed {
                    next: entry.off,
                    ino: entry.ino,
                    typ: entry.typ,
                    name: entry.name.to_vec(),
                    entry: None,
                })
            })
            .collect()
    }

    pub fn readdirplus(&self, node: u64, fh: u64, offset: u64, size: u32) -> Answer<Vec<Listed>> {
        let arg = ReadIn {
            fh,
            offset,
            size,
            ..ReadIn::default()
        };
        let body = self.call(node, &Request::Readdirplus(arg), &[])?;
        DirentsPlus::new(&body)
            .map(|plus| {
                let plus = plus.map_err(|_| Failure::Garbled)?;
                let entry = plus.entry;
                if !matches!(entry.name, b"." | b"..") {
                    self.count(plus.entry_out.nodeid);
                }
                Ok(Listed {
                    next: entry.off,
                    ino: entry.ino,
                    typ: entry.typ,
                    name: entry.name.to_vec(),
                    entry: Some(plus.entry_out),
                })
            })
            .collect()
    }

    /// All entries, without "." and "..", sorted by name.
    pub fn list(&self, node: u64, size: u32, plus: bool) -> Answer<Vec<Listed>> {
        let fh = self.opendir(node)?;
        let mut all: Vec<Listed> = Vec::new();
        let mut offset = 0;
        let result = loop {
            let batch = if plus {
                self.readdirplus(node, fh, offset, size)
            } else {
                self.readdir(node, fh, offset, size)
            };
            match batch {
                Ok(batch) if batch.is_empty() => break Ok(()),
                Ok(batch) => {
                    offset = batch.last().expect("not empty").next;
                    all.extend(batch);
                }
                Err(failure) => break Err(failure),
            }
        };
        self.releasedir(fh)?;
        result?;
        all.retain(|listed| !matches!(&*listed.name, b"." | b".."));
        all.sort_by(|a, b| a.name.cmp(&b.name));
        Ok(all)
    }

    pub fn statfs(&self, node: u64) -> Answer<Kstatfs> {
        let out: StatfsOut = self.fixed(node, &Request::Statfs)?;
        Ok(out.st)
    }

    pub fn statx(&self, node: u64) -> Answer<Statx> {
        let arg = StatxIn {
            sx_mask: 0xfff,
            ..StatxIn::default()
        };
        let out: StatxOut = self.fixed(node, &Request::Statx(arg))?;
        Ok(out.stat)
    }

    pub fn done(&self, node: u64, request: &Request<'_>, payload: &[u8]) -> Answer<()> {
        self.empty(node, request, payload)
    }

    /// A message without a reply.
    pub fn tell(&self, node: u64, request: &Request<'_>) {
        assert_eq!(request.opcode().replies(), Replies::Never);
        self.oneway(0, node, request);
    }

    /// The number that the request behind a tag has.
    pub fn unique_of(&self, tag: u32) -> u64 {
        self.in_flight.borrow()[&tag].unique
    }

    /// The number of the next request.
    pub fn next_unique(&self) -> u64 {
        self.unique.get()
    }

    /// An INTERRUPT.
    pub fn interrupt(&self, unique: u64) {
        self.oneway(unique | 1, 0, &Request::Interrupt { unique });
    }

    /// Sends a message by the queue that has no answers.
    pub fn oneway(&self, unique: u64, node: u64, request: &Request<'_>) {
        self.oneway_with(unique, node, request, &[]);
    }

    pub fn oneway_with(&self, unique: u64, node: u64, request: &Request<'_>, payload: &[u8]) {
        let head = Head {
            unique,
            nodeid: node,
            caller: me(),
        };
        let mut bytes = [0; MAX_HEAD_BYTES];
        let len = request
            .encode(&head, &Extensions::default(), &mut bytes)
            .expect("a message that can be sent");
        self.transport
            .submit_oneway(&[&bytes[..len], payload].concat())
            .expect("room in the queue");
        self.transport.kick();
    }

    /// Gives all lookups of `node` back.
    pub fn forget(&self, node: u64) {
        if let Some(nlookup) = self.known.borrow_mut().remove(&node) {
            self.tell(node, &Request::Forget { nlookup });
        }
        self.fence();
    }

    /// Returns after everything that was told before has been heard.
    pub fn fence(&self) {
        self.statfs(ROOT_ID).expect("STATFS");
    }

    /// Gives everything back, and says goodbye.
    pub fn leave(&self) {
        let known: Vec<u64> = self.known.borrow().keys().copied().collect();
        for node in known {
            self.forget(node);
        }
        self.empty(0, &Request::Destroy, &[]).expect("DESTROY");
        self.transport.close();
    }
}

impl Drop for Raw {
    fn drop(&mut self) {
        self.transport.close();
        if let Some(watcher) = self.watcher.take() {
            let _ = watcher.join();
        }
    }
}

#[derive(Clone, Debug)]
pub struct Listed {
    pub next: u64,
    pub ino: u64,
    pub typ: u32,
    pub name: Vec<u8>,
    /// Of READDIRPLUS.
    pub entry: Option<EntryOut>,
}

/// Runs `test` against `fs`, and checks that everything was given back at its end.
pub fn over<F: FileSystem>(fs: F, test: impl FnOnce(&Raw, &ServerHandle<F>)) {
    let (client, server) = start(fs, &small()).expect("a server");
    let raw = Raw::connected(client);
    test(&raw, &server);
    raw.leave();
    assert_eq!(server.join(), Usage::default());
}

pub fn memory() -> Memory {
    Memory::new(MemOptions::default())
}

/// A served directory that goes away with the guard.
pub fn directory(options: DirOptions) -> (tempfile::TempDir, Directory) {
    let temp = tempfile::tempdir().expect("a temporary directory");
    // Whatever this process masks at the moment.
    std::fs::set_permissions(temp.path(), PermissionsExt::from_mode(0o755)).expect("chmod");
    let served = Directory::new(temp.path(), options).expect("a served directory");
    (temp, served)
}

/// Runs `test` against every file system there is.
pub fn over_each(test: impl Fn(&Raw)) {
    over(memory(), |raw, _| test(raw));
    let (_temp, served) = directory(DirOptions {
        xattr: true,
        ..DirOptions::default()
    });
    over(served, |raw, _| test(raw));
}

/// Takes what a server says of its own accord, and refuses what it is told to.
#[derive(Default)]
pub struct Heard {
    messages: Mutex<Vec<Vec<u8>>>,
    refuse: Mutex<Option<i32>>,
}

impl Heard {
    /// Listens to the server of `raw`.
    pub fn by(raw: &Raw) -> Arc<Self> {
        let heard = Arc::new(Heard::default());
        let inbox: Weak<dyn Inbox> = Arc::downgrade(&(Arc::clone(&heard) as Arc<dyn Inbox>));
        raw.transport.listen(inbox);
        heard
    }

    /// Everything heard since the last call.
    pub fn take(&self) -> Vec<Vec<u8>> {
        std::mem::take(&mut self.messages.lock().unwrap())
    }

    pub fn refuse(&self, errno: i32) {
        *self.refuse.lock().unwrap() = Some(errno);
    }
}

impl Inbox for Heard {
    fn message(&self, message: &[u8]) -> Result<(), Refusal> {
        self.messages.lock().unwrap().push(message.to_vec());
        match *self.refuse.lock().unwrap() {
            Some(errno) => Err(Refusal(errno)),
            None => Ok(()),
        }
    }
}

/// `bytes` as one fixed structure.
pub fn bytes_of<T: IntoBytes + zerocopy::Immutable>(value: &T) -> Vec<u8> {
    value.as_bytes().to_vec()
}
