//! The completion thread: reaps for requests without an owner, and undoes what came too late.

use super::slot::{Keep, Payload, Slot, State};
use super::{Call, Engine, Outcome, Ticket};
use fusewire_sync::Arc;
use fusewire_sync::atomic::Ordering;
use fusewire_sync::thread;
use fusewire_wire::abi::{FileLock, LkIn, ReleaseIn};
use fusewire_wire::dirent::DirentsPlus;
use fusewire_wire::{Caller, Extensions, Opcode, Request, reply};

/// Type of a lock that is given up, as in fcntl(2).
const F_UNLCK: u32 = 2;

/// What a reply gave us that nobody wants.
#[derive(Default)]
struct Undo {
    /// Nodes with one reference more.
    nodes: Vec<u64>,
    /// Closes an open handle or ends a lock, and the node that it is of.
    release: Option<(u64, Request<'static>)>,
}

/// A request to be sent when there is a slot.
pub(super) struct Deferred {
    nodeid: u64,
    request: Request<'static>,
    keep: Arc<dyn Keep>,
}

impl Engine {
    /// Body of the completion thread; returns after [`Engine::stop`].
    pub(crate) fn run_completion(&self) {
        self.reaper.register_completion();
        while !self.stopping.load(Ordering::Acquire) {
            self.undo_late();
            self.settle();
            self.send_deferred();
            if !self.reaper.completion_holds() {
                thread::park();
            } else if self.has_completion_work() {
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
        self.late.lock().push(tag);
        self.wake_completion();
    }

    fn has_completion_work(&self) -> bool {
        let can_send = self.deferred_len.load(Ordering::Acquire) > 0 && self.slots.has_free();
        can_send || self.unsettled.load(Ordering::Acquire) || !self.late.lock().is_empty()
    }

    /// Makes a slot free whose request has ended for everybody.
    pub(super) fn free_slot(&self, tag: u32) {
        self.slots.give_back(tag);
        if self.deferred_len.load(Ordering::Acquire) > 0 {
            self.wake_completion();
        }
    }

    /// Wakes the completion thread, wherever it sleeps.
    pub(super) fn wake_completion(&self) {
        if self.reaper.wake_completion() {
            self.transport.wake();
        }
    }

    /// Sends a request that nobody waits for: at once if there is a slot, so that what the caller
    /// does next comes after it, else when there is one. Does not block. Its outcome is not looked
    /// at.
    pub(crate) fn send_later(&self, nodeid: u64, request: Request<'static>, keep: Arc<dyn Keep>) {
        let deferred = Deferred {
            nodeid,
            request,
            keep,
        };
        if self.deferred_len.load(Ordering::Acquire) == 0
            && let Some(ticket) = self.try_reserve()
        {
            self.reaper.count_detached();
            self.send_detached(ticket, deferred);
            return;
        }
        let mut queue = self.deferred.lock();
        // Looked at under the lock: what comes in here is found by `drop_deferred`.
        if self.check_usable().is_err() {
            drop(queue);
            drop(deferred);
            return;
        }
        self.reaper.count_detached();
        queue.push_back(deferred);
        self.deferred_len.store(queue.len(), Ordering::Release);
        drop(queue);
        self.wake_completion();
    }

    /// Waits until nothing is detached and every FORGET is on its way: the last thing before
    /// DESTROY, so that it does not overtake a RELEASE. A peer that does not answer is given as long as for any
    /// other operation without data.
    pub(crate) fn quiesce(&self) {
        let until_ns = self.timeouts.goodbye_ns(self.clock.now_ns());
        self.arm_timer(until_ns);
        self.flush_forgets();
        self.reaper.quiesce(|| {
            (self.reaper.detached() > 0 || self.forgets.len() > 0)
                && self.ended.get().is_none()
                && self.clock.now_ns() < until_ns
        });
    }

    /// Sends what was deferred, as far as there are slots; the next one to become free comes here
    /// again.
    fn send_deferred(&self) {
        while self.deferred_len.load(Ordering::Acquire) > 0 {
            if self.check_usable().is_err() {
                self.drop_deferred();
                return;
            }
            let Some(ticket) = self.try_reserve() else {
                return;
            };
            let next = {
                let mut queue = self.deferred.lock();
                let next = queue.pop_front();
                self.deferred_len.store(queue.len(), Ordering::Release);
                next
            };
            let Some(deferred) = next else {
                return;
            };
            self.send_detached(ticket, deferred);
        }
    }

    /// The connection has ended: what waits to be sent never will be.
    pub(super) fn drop_deferred(&self) {
        let dropped = {
            let mut queue = self.deferred.lock();
            self.deferred_len.store(0, Ordering::Release);
            std::mem::take(&mut *queue)
        };
        for deferred in dropped {
            self.reaper.detached_ended();
            drop(deferred);
        }
    }

    fn send_detached(&self, ticket: Ticket<'_>, deferred: Deferred) {
        let tag = ticket.tag;
        let call = Call {
            nodeid: deferred.nodeid,
            request: deferred.request,
            caller: Caller::default(),
            extensions: Extensions::default(),
            payload: Payload::None,
            keeps: [Some(deferred.keep), None],
            token: None,
        };
        let Ok((unique, deadline_ns)) = self.prepare(tag, call) else {
            // What cannot be encoded was never open at the peer.
            self.reaper.detached_ended();
            return;
        };
        std::mem::forget(ticket);
        self.slots.lock(tag).detached = true;
        self.submit(tag, unique);
        self.watch_deadline(deadline_ns);
        self.reaper.appoint();
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
            // What nobody was ever to wait for has changed nothing that is cached.
            let expected = slot.detached;
            let (payload, keeps) = slot.clear();
            drop(slot);
            drop(payload);
            if !expected {
                self.counters.late_replies.count();
                for keep in keeps.iter().flatten() {
                    keep.answered_late();
                }
            }
            for nodeid in undo.nodes {
                self.forget(nodeid, 1);
            }
            // The last one is there for that, where there are two.
            let keep = keeps.iter().flatten().next_back();
            if let (Some((nodeid, request)), Some(keep)) = (undo.release, keep) {
                self.send_later(nodeid, request, Arc::clone(keep));
            }
            drop(keeps);
            self.reaper.detached_ended();
            self.free_slot(tag);
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
                undo.release = Some((entry.nodeid, Request::Release(release_of(open.fh))));
            }
        }
        Opcode::Open => {
            let open = reply::open(body).ok();
            undo.release = open.map(|o| (slot.nodeid, Request::Release(release_of(o.fh))));
        }
        Opcode::Opendir => {
            let open = reply::open(body).ok();
            undo.release = open.map(|o| (slot.nodeid, Request::Releasedir(release_of(o.fh))));
        }
        Opcode::Setlk | Opcode::Setlkw => {
            let unlock = unlock_of(&slot.head[..slot.head_len]);
            undo.release = unlock.map(|unlock| (slot.nodeid, unlock));
        }
        Opcode::Readdirplus => undo.nodes = granted_nodes(&slot.payload, *payload_bytes as usize),
        _ => {}
    }
    undo.nodes.retain(|nodeid| *nodeid != 0);
    undo
}

/// Ends the lock that a request took.
fn unlock_of(head: &[u8]) -> Option<Request<'static>> {
    let Ok((_, Request::Setlk(arg) | Request::Setlkw(arg), _)) = Request::parse(head) else {
        return None;
    };
    (arg.lk.typ != F_UNLCK).then_some(Request::Setlk(LkIn {
        lk: FileLock {
            typ: F_UNLCK,
            pid: 0,
            ..arg.lk
        },
        ..arg
    }))
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

fn release_of(fh: u64) -> ReleaseIn {
    ReleaseIn {
        fh,
        ..ReleaseIn::default()
    }
}
