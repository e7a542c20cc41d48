//! The completion thread: reaps for requests without an owner, and undoes what came too late.

use super::slot::{Keeps, Payload, Slot, State};
use super::{Engine, Outcome};
use fusewire_sync::atomic::Ordering;
use fusewire_sync::thread;
use fusewire_wire::abi::ReleaseIn;
use fusewire_wire::dirent::DirentsPlus;
use fusewire_wire::{Caller, Extensions, Head, Opcode, Request, reply};

/// What a reply gave us that nobody wants.
#[derive(Default)]
struct Undo {
    /// Nodes with one reference more.
    nodes: Vec<u64>,
    /// An open handle: node, handle, and whether it is a directory.
    handle: Option<(u64, u64, bool)>,
}

impl Engine {
    /// Body of the completion thread; returns after [`Engine::stop`].
    pub(crate) fn run_completion(&self) {
        self.reaper.register_completion();
        while !self.stopping.load(Ordering::Acquire) {
            self.undo_late();
            if !self.reaper.completion_holds() {
                thread::park();
            } else if !self.late.lock().is_empty() {
                // Queued by whoever had the token before us, after we looked.
            } else if self.ended.get().is_some() || self.reaper.detached() == 0 {
                self.reaper.completion_leaves();
            } else if !self.reap() {
                self.transport.wait();
            }
        }
        self.reaper.completion_leaves();
    }

    pub(super) fn queue_late(&self, tag: u32) {
        self.counters.late_replies.count();
        self.late.lock().push(tag);
        self.wake_completion();
    }

    /// Wakes the completion thread, wherever it sleeps.
    pub(super) fn wake_completion(&self) {
        if self.reaper.wake_completion() {
            self.transport.wake();
        }
    }

    fn undo_late(&self) {
        loop {
            let Some(tag) = self.late.lock().pop() else {
                return;
            };
            let mut slot = self.slots.lock(tag);
            let State::Late(outcome) = slot.state else {
                // Swept by abort.
                continue;
            };
            let undo = undo_of(&slot, &outcome);
            let unique = self.next_unique(tag);
            let release = undo
                .handle
                .and_then(|(nodeid, fh, dir)| encode_release(&mut slot, unique, nodeid, fh, dir));
            // An open file stays for its RELEASE, which goes out in this very slot.
            let (payload, keeps): (Payload, Keeps) = if release.is_some() {
                (std::mem::take(&mut slot.payload), [None, None])
            } else {
                slot.clear()
            };
            drop(slot);
            drop(payload);
            for keep in keeps.iter().flatten() {
                keep.answered_late();
            }
            drop(keeps);
            for nodeid in undo.nodes {
                self.forget(nodeid, 1);
            }
            match release {
                Some(()) => self.submit(tag, unique),
                None => {
                    self.slots.give_back(tag);
                    self.reaper.detached_ended();
                }
            }
        }
    }
}

/// What has to be given back of a reply that nobody takes.
fn undo_of(slot: &Slot, outcome: &Outcome) -> Undo {
    let mut undo = Undo::default();
    let Ok((head, payload_bytes)) = outcome else {
        return undo;
    };
    let body = head.body();
    match slot.opcode {
        Opcode::Lookup | Opcode::Symlink | Opcode::Mknod | Opcode::Mkdir | Opcode::Link => {
            undo.nodes.extend(reply::entry(body).ok().map(|e| e.nodeid));
        }
        Opcode::Create | Opcode::Tmpfile => {
            if let Ok((entry, open)) = reply::create(body) {
                undo.nodes.push(entry.nodeid);
                undo.handle = Some((entry.nodeid, open.fh, false));
            }
        }
        Opcode::Open | Opcode::Opendir => {
            let dir = slot.opcode == Opcode::Opendir;
            undo.handle = reply::open(body).ok().map(|o| (slot.nodeid, o.fh, dir));
        }
        Opcode::Readdirplus => undo.nodes = granted_nodes(&slot.payload, *payload_bytes as usize),
        _ => {}
    }
    undo.nodes.retain(|nodeid| *nodeid != 0);
    undo
}

/// Nodes that a READDIRPLUS reply gave a reference to.
fn granted_nodes(payload: &Payload, len: usize) -> Vec<u64> {
    let Payload::In(frames, _) = payload else {
        return Vec::new();
    };
    let batch = frames.bytes(0, len.min(frames.len())).to_vec();
    DirentsPlus::new(&batch)
        .map_while(Result::ok)
        .filter(|e| e.entry.name != b"." && e.entry.name != b"..")
        .map(|e| e.entry_out.nodeid)
        .collect()
}

fn encode_release(slot: &mut Slot, unique: u64, nodeid: u64, fh: u64, dir: bool) -> Option<()> {
    let arg = ReleaseIn {
        fh,
        ..ReleaseIn::default()
    };
    let request = if dir {
        Request::Releasedir(arg)
    } else {
        Request::Release(arg)
    };
    let head = Head {
        unique,
        nodeid,
        caller: Caller::default(),
    };
    slot.head_len = request
        .encode(&head, &Extensions::default(), &mut slot.head[..])
        .ok()?;
    slot.state = State::Queued;
    slot.unique = unique;
    slot.nodeid = nodeid;
    slot.opcode = request.opcode();
    slot.shape = request.reply();
    slot.deadline_ns = u64::MAX;
    slot.detached = true;
    Some(())
}
