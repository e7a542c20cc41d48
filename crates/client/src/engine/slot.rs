//! Request slots: where a request lives from its start until nobody can touch it any more.

use super::cancel::TokenId;
use fusewire_mem::{FRAME_BYTES, Frames, Segment};
use fusewire_sync::thread::Thread;
use fusewire_sync::{Arc, Condvar, Mutex, MutexGuard, Rank};
use fusewire_transport::Submission;
use fusewire_wire::{MAX_HEAD_BYTES, MAX_REPLY_HEAD_BYTES, Opcode, ReplyShape};
use rustix::io::Errno;

/// Something that a request refers to and that must stay until the request has ended for the peer
/// too: a node, an open file.
pub(crate) trait Keep: Send + Sync {
    /// The answer came after everybody had stopped waiting for it, so its effect on this object is
    /// unknown: whatever is cached of it is stale.
    fn answered_late(&self);
}

/// Up to two objects that a request refers to.
pub(crate) type Keeps = [Option<Arc<dyn Keep>>; 2];

/// Data beyond the head of a request or reply.
#[derive(Debug, Default)]
pub(crate) enum Payload {
    /// None in either direction.
    #[default]
    None,
    /// So many bytes go out after the head.
    Out(Frames, u32),
    /// Up to so many bytes come in after the reply's head.
    In(Frames, u32),
    /// So many bytes go out, and up to so many come in from [`Payload::in_offset`] of the frames on.
    Both(Frames, u32, u32),
}

impl Payload {
    /// Where in the frames of [`Payload::Both`] the incoming part begins.
    pub(crate) const fn in_offset(out_bytes: u32) -> u32 {
        out_bytes.next_multiple_of(FRAME_BYTES as u32)
    }
}

/// A reply's head as the waiter gets it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ReplyHead {
    bytes: [u8; MAX_REPLY_HEAD_BYTES],
    len: usize,
}

impl ReplyHead {
    pub(crate) const EMPTY: ReplyHead = ReplyHead {
        bytes: [0; MAX_REPLY_HEAD_BYTES],
        len: 0,
    };

    /// Keeps the first bytes of `head`; a reply is never larger than what was reserved for it.
    pub(super) fn copy_of(head: &[u8]) -> Self {
        let mut copy = ReplyHead::EMPTY;
        copy.len = head.len().min(MAX_REPLY_HEAD_BYTES);
        copy.bytes[..copy.len].copy_from_slice(&head[..copy.len]);
        copy
    }

    /// FUSE header and fixed arguments.
    pub(crate) fn all(&self) -> &[u8] {
        &self.bytes[..self.len]
    }

    /// What follows the FUSE header.
    pub(crate) fn body(&self) -> &[u8] {
        self.all()
            .get(size_of::<fusewire_wire::abi::OutHeader>()..)
            .unwrap_or(&[])
    }
}

/// A successful reply.
#[derive(Debug)]
pub(crate) struct Reply {
    pub(crate) head: ReplyHead,
    /// The frames of an `In` payload, and how many bytes of them the peer filled.
    pub(crate) payload: Option<(Frames, usize)>,
}

/// How a request ended.
pub(super) type Outcome = Result<(ReplyHead, u32), Errno>;

/// State of a slot. Each change is made under the slot's lock.
#[derive(Debug)]
pub(super) enum State {
    /// Nobody's. → Queued by the starter.
    Free,
    /// Prepared, not with the peer yet. → Sent by the submitter; → Done by abort or deadline;
    /// → Free when its owner gives it up.
    Queued,
    /// With the peer, somebody waits for it. → Done by the reaper or abort; → Orphan by deadline
    /// or when its owner gives it up.
    Sent,
    /// Ended; the owner has yet to take the outcome. → Free, or Abandoned when the peer may still
    /// use its payload.
    Done(Outcome, PeerUse),
    /// With the peer, nobody waits. Keeps payload and references until the peer answers. → Late by
    /// the reaper; → Abandoned by abort.
    Orphan,
    /// Answered after all; the completion thread undoes the effect. → Free.
    Late(Outcome),
    /// The connection ended while the peer may be alive and may use the payload: never reused.
    Abandoned,
}

/// Whether the peer may still touch a request's payload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum PeerUse {
    Over,
    Possible,
}

/// The owner of a request that has ended, if it is parked. To be woken when no lock is held that it
/// is going to take, or it runs into that at once.
#[derive(Debug)]
#[must_use]
pub(super) struct Waiter(Option<Thread>);

impl Waiter {
    pub(super) fn wake(self) {
        if let Some(thread) = self.0 {
            thread.unpark();
        }
    }
}

/// One request.
pub(super) struct Slot {
    pub(super) state: State,
    /// Identifies the request; never reused, so whoever finds another number knows that its own
    /// request has left the slot.
    pub(super) unique: u64,
    pub(super) nodeid: u64,
    pub(super) opcode: Opcode,
    pub(super) shape: ReplyShape,
    /// When it ends by itself; `u64::MAX` for never.
    pub(super) deadline_ns: u64,
    /// Whose calls it is one of.
    pub(super) by: TokenId,
    /// The peer was told to end it.
    pub(super) interrupted: bool,
    /// INTERRUPTs that the peer had no request for.
    pub(super) interrupt_tries: u8,
    /// Whether nobody waits for it from the start.
    pub(super) detached: bool,
    pub(super) head: Box<[u8; MAX_HEAD_BYTES]>,
    pub(super) head_len: usize,
    pub(super) payload: Payload,
    pub(super) keeps: Keeps,
    /// Parked owner, to be unparked when the request ends.
    pub(super) waiter: Option<Thread>,
}

impl std::fmt::Debug for Slot {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Slot")
            .field("state", &self.state)
            .field("unique", &self.unique)
            .field("opcode", &self.opcode)
            .finish_non_exhaustive()
    }
}

impl Slot {
    fn new() -> Self {
        Slot {
            state: State::Free,
            unique: 0,
            nodeid: 0,
            opcode: Opcode::Init,
            shape: ReplyShape {
                head_bytes: 0,
                payload_max_bytes: 0,
            },
            deadline_ns: u64::MAX,
            by: TokenId::NONE,
            interrupted: false,
            interrupt_tries: 0,
            detached: false,
            head: Box::new([0; MAX_HEAD_BYTES]),
            head_len: 0,
            payload: Payload::None,
            keeps: [None, None],
            waiter: None,
        }
    }

    /// Calls `f` with the request as the transport takes it.
    pub(super) fn with_submission<R>(&self, tag: u32, f: impl FnOnce(&Submission<'_>) -> R) -> R {
        let (segment, second): ([Segment; 1], [Segment; 1]);
        let (payload_out, payload_in): (&[Segment], &[Segment]) = match &self.payload {
            Payload::None => (&[], &[]),
            Payload::Out(frames, len) => {
                segment = [frames.segment(*len)];
                (&segment, &[])
            }
            Payload::In(frames, len) => {
                segment = [frames.segment(*len)];
                (&[], &segment)
            }
            Payload::Both(frames, out, into) => {
                let at = Payload::in_offset(*out);
                segment = [frames.segment(*out)];
                second = [Segment {
                    offset: frames.offset() + u64::from(at),
                    len: *into,
                }];
                (&segment, &second)
            }
        };
        f(&Submission {
            tag,
            head: &self.head[..self.head_len],
            payload_out,
            reply_head_bytes: self.shape.head_bytes,
            payload_in,
        })
    }

    /// Ends the request for its owner, and returns who has to be woken.
    pub(super) fn finish(&mut self, outcome: Outcome, peer: PeerUse) -> Waiter {
        self.state = State::Done(outcome, peer);
        self.take_waiter()
    }

    /// The owner, to be woken because the request is its no longer.
    pub(super) fn take_waiter(&mut self) -> Waiter {
        Waiter(self.waiter.take())
    }

    /// The connection has ended while the peer may be alive: the payload stays, because the peer
    /// may use it. What else the request held is returned, because it refers to the connection,
    /// which would keep itself alive.
    pub(super) fn abandon(&mut self) -> Keeps {
        self.state = State::Abandoned;
        std::mem::take(&mut self.keeps)
    }

    /// Drops what the request held.
    pub(super) fn clear(&mut self) -> (Payload, Keeps) {
        self.state = State::Free;
        self.detached = false;
        self.waiter = None;
        (
            std::mem::take(&mut self.payload),
            std::mem::take(&mut self.keeps),
        )
    }
}

/// All slots of a connection. A slot's number is the tag of its request.
#[derive(Debug)]
pub(super) struct SlotTable {
    slots: Box<[Mutex<Slot>]>,
    free: Mutex<FreeList>,
    freed: Condvar,
}

#[derive(Debug)]
struct FreeList {
    /// Most recently used last: its memory is warm.
    tags: Vec<u32>,
    waiting: usize,
    closed: bool,
}

impl SlotTable {
    pub(super) fn new(count: u32) -> Self {
        SlotTable {
            slots: (0..count)
                .map(|_| Mutex::new(Rank::SLOT, Slot::new()))
                .collect(),
            free: Mutex::new(
                Rank::SLOT_FREE,
                FreeList {
                    tags: (0..count).rev().collect(),
                    waiting: 0,
                    closed: false,
                },
            ),
            freed: Condvar::new(),
        }
    }

    pub(super) fn len(&self) -> u32 {
        self.slots.len() as u32
    }

    pub(super) fn lock(&self, tag: u32) -> MutexGuard<'_, Slot> {
        self.slots[tag as usize].lock()
    }

    pub(super) fn get(&self, tag: u32) -> Option<MutexGuard<'_, Slot>> {
        self.slots.get(tag as usize).map(Mutex::lock)
    }

    /// A free slot, without waiting.
    pub(super) fn try_take(&self) -> Option<u32> {
        self.free.lock().tags.pop()
    }

    /// A free slot; waits for one.
    ///
    /// # Errors
    /// ENOTCONN once the table is closed; EINTR when `stop` says so, which is asked again after
    /// [`SlotTable::wake_waiting`].
    ///
    /// Only callers that hold no slot may wait: else threads that each hold some could wait for
    /// each other for ever.
    pub(super) fn take(&self, stop: impl Fn() -> bool) -> Result<u32, Errno> {
        let mut free = self.free.lock();
        loop {
            if free.closed {
                return Err(Errno::NOTCONN);
            }
            if stop() {
                return Err(Errno::INTR);
            }
            if let Some(tag) = free.tags.pop() {
                return Ok(tag);
            }
            free.waiting += 1;
            free = self.freed.wait(free);
            free.waiting -= 1;
        }
    }

    pub(super) fn give_back(&self, tag: u32) {
        let mut free = self.free.lock();
        free.tags.push(tag);
        if free.waiting > 0 {
            self.freed.notify_one();
        }
    }

    /// Has those who wait for a slot look whether they still want to.
    pub(super) fn wake_waiting(&self) {
        // Under the lock: nobody is between looking and waiting.
        let _free = self.free.lock();
        self.freed.notify_all();
    }

    /// Ends every wait for a slot.
    pub(super) fn close(&self) {
        self.free.lock().closed = true;
        self.freed.notify_all();
    }

    /// Whether a slot is free now.
    pub(super) fn has_free(&self) -> bool {
        !self.free.lock().tags.is_empty()
    }

    /// Slots that hold a request, whatever its state.
    pub(super) fn busy(&self) -> usize {
        self.slots.len() - self.free.lock().tags.len()
    }
}
