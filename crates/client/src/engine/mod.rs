//! The request engine: from a typed request to its reply, exactly once.
//!
//! ```text
//!  rpc ── reserve a slot, send ──▸ slot (Queued) ──▸ transport (Sent) ──▸ peer
//!   ▴                                                                       │
//!   └── wait ◂── slot (Done) ◂── the thread that holds the reaper token ◂───┘
//! ```
//! The engine knows opcodes, deadlines and slots; it knows no names, files or caches. What a
//! request refers to above comes in as [`Keep`] and stays until the peer is done with it.

mod abort;
mod cancel;
mod deadline;
mod forget;
mod inbox;
mod late;
mod oneway;
mod policy;
mod reaper;
mod slot;
mod stats;
mod wait;

#[cfg(all(test, fusewire_sync = "loom"))]
mod loom_tests;
#[cfg(all(test, any(fusewire_sync = "loom", fusewire_sync = "shuttle")))]
mod model_calls;
#[cfg(test)]
mod model_ring;
#[cfg(all(test, fusewire_sync = "shuttle"))]
mod shuttle_tests;

pub(crate) use abort::Ended;
pub(crate) use cancel::Token;
pub(crate) use inbox::Notified;
pub use policy::{Timeouts, WaitPolicy};
pub(crate) use slot::{Keep, Keeps, Payload, Reply};
pub use stats::{EngineStats, OpcodeStats};

use cancel::TokenId;
use forget::ForgetQueue;
use fusewire_mem::{Arena, ForkGuard};
use fusewire_sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use fusewire_sync::time::Clock;
use fusewire_sync::timer::Timer;
use fusewire_sync::{Arc, Mutex, OnceLock, Rank, Weak, thread};
use fusewire_transport::{Completion, Inbox, SubmitError, Transport};
use fusewire_wire::{Caller, Extensions, Head, Request, reply};
use oneway::OnewayQueue;
use reaper::Reaper;
use rustix::io::Errno;
use slot::{Outcome, PeerUse, SlotTable, State};
use stats::Counters;
use std::collections::VecDeque;
use std::io;
use std::time::Duration;

/// Everything about a request that the engine needs.
pub(crate) struct Call<'a> {
    pub(crate) nodeid: u64,
    pub(crate) request: Request<'a>,
    pub(crate) caller: Caller,
    pub(crate) extensions: Extensions<'a>,
    pub(crate) payload: Payload,
    pub(crate) keeps: Keeps,
    /// By which the caller may be cancelled.
    pub(crate) token: Option<&'a Token>,
}

/// One connection's engine.
pub(crate) struct Engine {
    transport: Arc<dyn Transport>,
    clock: Clock,
    timer: Timer,
    timeouts: Timeouts,
    wait_policy: WaitPolicy,
    slots: SlotTable,
    reaper: Reaper,
    forgets: ForgetQueue,
    oneway: OnewayQueue,
    notified: OnceLock<Weak<dyn Notified>>,
    /// Notifications wait for their second step.
    unsettled: AtomicBool,
    /// Slots the transport had no room for, oldest first, with the request each was queued for.
    backlog: Mutex<VecDeque<(u32, u64)>>,
    backlog_len: AtomicUsize,
    /// Slots whose answer came too late, for the completion thread.
    late: Mutex<Vec<u32>>,
    /// Requests that nobody waits for and that wait for a slot.
    deferred: Mutex<VecDeque<late::Deferred>>,
    deferred_len: AtomicUsize,
    sequence: AtomicU64,
    /// When the timer next looks for expired requests; `u64::MAX` for never.
    next_scan_ns: AtomicU64,
    ended: OnceLock<Ended>,
    stopping: AtomicBool,
    counters: Counters,
    fork: ForkGuard,
    me: Weak<Engine>,
}

impl std::fmt::Debug for Engine {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Engine").finish_non_exhaustive()
    }
}

/// A free slot, reserved for one request.
#[derive(Debug)]
pub(crate) struct Ticket<'e> {
    engine: &'e Engine,
    tag: u32,
}

impl Drop for Ticket<'_> {
    fn drop(&mut self) {
        self.engine.free_slot(self.tag);
    }
}

/// A request on its way. Dropping it gives the request up: the peer still carries it out, and its
/// effect on our side is undone.
#[derive(Debug)]
#[must_use = "a request that nobody waits for is given up"]
pub(crate) struct Pending<'e> {
    engine: &'e Engine,
    tag: u32,
    unique: u64,
    spin_budget_ns: u64,
    deadline_ns: u64,
}

impl Pending<'_> {
    /// Waits for the end of the request.
    ///
    /// # Errors
    /// The peer's errno; ETIMEDOUT; ECONNABORTED when the connection ends meanwhile; EIO for a
    /// malformed reply; EINTR when the caller was cancelled.
    pub(crate) fn wait(self) -> Result<Reply, Errno> {
        let this = std::mem::ManuallyDrop::new(self);
        let result = this.engine.wait(this.tag, this.unique, this.spin_budget_ns);
        match result {
            // Nothing but its deadline or a cancellation takes a request from its owner.
            Err(Gone) if this.engine.clock.now_ns() < this.deadline_ns => Err(Errno::INTR),
            Err(Gone) => Err(Errno::TIMEDOUT),
            Ok(outcome) => outcome,
        }
    }
}

/// A request that is its owner's no longer.
struct Gone;

impl Drop for Pending<'_> {
    fn drop(&mut self) {
        self.engine.give_up(self.tag, self.unique);
    }
}

impl Engine {
    pub(crate) fn new(
        transport: Arc<dyn Transport>,
        clock: Clock,
        timer: Timer,
        timeouts: Timeouts,
        wait_policy: WaitPolicy,
    ) -> io::Result<Arc<Self>> {
        let slots = transport.limits().max_in_flight.max(1);
        let fork = ForkGuard::new()?;
        let engine = Arc::new_cyclic(|me| Engine {
            transport,
            clock,
            timer,
            timeouts,
            wait_policy,
            slots: SlotTable::new(slots),
            reaper: Reaper::new(),
            forgets: ForgetQueue::new(),
            oneway: OnewayQueue::new(),
            notified: OnceLock::new(),
            unsettled: AtomicBool::new(false),
            backlog: Mutex::new(Rank::SUBMIT_QUEUE, VecDeque::with_capacity(slots as usize)),
            backlog_len: AtomicUsize::new(0),
            late: Mutex::new(Rank::LATE, Vec::with_capacity(slots as usize)),
            deferred: Mutex::new(Rank::LATE, VecDeque::new()),
            deferred_len: AtomicUsize::new(0),
            sequence: AtomicU64::new(1),
            next_scan_ns: AtomicU64::new(u64::MAX),
            ended: OnceLock::new(),
            stopping: AtomicBool::new(false),
            counters: Counters::new(),
            fork,
            me: Weak::clone(me),
        });
        let inbox: Weak<dyn Inbox> = Weak::clone(&engine.me) as _;
        engine.transport.listen(inbox);
        Ok(engine)
    }

    pub(crate) fn clock(&self) -> &Clock {
        &self.clock
    }

    pub(crate) fn arena(&self) -> &Arc<Arena> {
        self.transport.arena()
    }

    pub(crate) fn transport(&self) -> &Arc<dyn Transport> {
        &self.transport
    }

    /// Whether this is a forked child of the process that made the engine, in which none of its
    /// threads exist.
    pub(crate) fn is_forked_child(&self) -> bool {
        self.fork.is_forked_child()
    }

    /// A slot for one request; waits for one. Whoever holds a [`Pending`] or a [`Ticket`] must not
    /// call this, but [`Engine::try_reserve`].
    ///
    /// # Errors
    /// ENOTCONN when the connection has ended, or in a forked child; EINTR when `token` is
    /// cancelled meanwhile.
    pub(crate) fn reserve(&self, token: Option<&Token>) -> Result<Ticket<'_>, Errno> {
        self.check_usable()?;
        self.let_forgets_go(token);
        let tag = self.slots.take(|| token.is_some_and(Token::is_cancelled))?;
        Ok(Ticket { engine: self, tag })
    }

    /// A slot for one more request, if there is one now.
    pub(crate) fn try_reserve(&self) -> Option<Ticket<'_>> {
        self.check_usable().ok()?;
        let tag = self.slots.try_take()?;
        Some(Ticket { engine: self, tag })
    }

    fn check_usable(&self) -> Result<(), Errno> {
        if self.ended.get().is_some() || self.is_forked_child() {
            return Err(Errno::NOTCONN);
        }
        Ok(())
    }

    /// Sends a request and waits for its reply.
    ///
    /// # Errors
    /// As [`Engine::send`] and [`Pending::wait`].
    pub(crate) fn call(&self, call: Call<'_>) -> Result<Reply, Errno> {
        let ticket = self.reserve(call.token)?;
        self.send(ticket, call)?.wait()
    }

    /// Sends a request.
    ///
    /// # Errors
    /// What the encoder refuses (EINVAL, ENAMETOOLONG, EOVERFLOW); ECONNABORTED when the connection
    /// has just ended; EINTR when the caller is cancelled.
    pub(crate) fn send<'e>(
        &'e self,
        ticket: Ticket<'e>,
        call: Call<'_>,
    ) -> Result<Pending<'e>, Errno> {
        let tag = ticket.tag;
        let spin_budget_ns = self.wait_policy.budget_ns(&call.request);
        let (unique, deadline_ns) = self.prepare(tag, call)?;
        // From here on the slot belongs to the request.
        std::mem::forget(ticket);
        let pending = Pending {
            engine: self,
            tag,
            unique,
            spin_budget_ns,
            deadline_ns,
        };
        self.watch_deadline(deadline_ns);
        self.submit(tag, unique);
        Ok(pending)
    }

    /// Encodes the request into its slot.
    fn prepare(&self, tag: u32, call: Call<'_>) -> Result<(u64, u64), Errno> {
        let unique = self.next_unique(tag);
        let opcode = call.request.opcode();
        let shape = call.request.reply();
        let deadline_ns = self.timeouts.deadline_ns(opcode, self.clock.now_ns());
        debug_assert!(match &call.payload {
            Payload::None => call.request.payload_out_bytes() == 0 && shape.payload_max_bytes == 0,
            Payload::Out(_, len) => call.request.payload_out_bytes() == *len,
            Payload::In(_, len) => shape.payload_max_bytes <= *len,
            Payload::Both(_, out, into) =>
                call.request.payload_out_bytes() == *out && shape.payload_max_bytes <= *into,
        });
        let mut slot = self.slots.lock(tag);
        if call.token.is_some_and(Token::is_cancelled) {
            return Err(Errno::INTR);
        }
        let head = Head {
            unique,
            nodeid: call.nodeid,
            caller: call.caller,
        };
        let buf = &mut slot.head[..];
        slot.head_len = call
            .request
            .encode(&head, &call.extensions, buf)
            .map_err(|error| Errno::from_raw_os_error(error.errno()))?;
        slot.state = State::Queued;
        slot.unique = unique;
        slot.nodeid = call.nodeid;
        slot.opcode = opcode;
        slot.shape = shape;
        slot.deadline_ns = deadline_ns;
        slot.payload = call.payload;
        slot.keeps = call.keeps;
        slot.by = TokenId::of(call.token);
        slot.interrupted = false;
        slot.interrupt_tries = 0;
        slot.detached = false;
        drop(slot);
        self.counters.request(opcode);
        Ok((unique, deadline_ns))
    }

    /// Even, as INTERRUPT takes the number plus one, and never the same twice; a transport without
    /// tags of its own finds the slot in it.
    fn next_unique(&self, tag: u32) -> u64 {
        let sequence = self.sequence.fetch_add(1, Ordering::Relaxed);
        (sequence * u64::from(self.slots.len()) + u64::from(tag)) * 2
    }

    /// The slot of a request with that number, if it is one of ours.
    fn tag_of(&self, unique: u64) -> u32 {
        (unique / 2 % u64::from(self.slots.len())) as u32
    }

    /// Gives a queued request to the transport, or to the backlog when there is no room. A
    /// detached one becomes an orphan right there: nobody waits for it.
    fn submit(&self, tag: u32, unique: u64) {
        // Whoever waits already goes first.
        let full = self.backlog_len.load(Ordering::Acquire) > 0 || {
            let mut slot = self.slots.lock(tag);
            self.submit_slot(&mut slot, tag) == Err(SubmitError::Full)
        };
        if full {
            self.counters.ring_full.count();
            {
                let mut backlog = self.backlog.lock();
                backlog.push_back((tag, unique));
                self.backlog_len.store(backlog.len(), Ordering::Release);
            }
            // What filled the transport may have ended before we queued; then nobody else looks.
            self.drain_backlog();
        }
        self.transport.kick();
    }

    fn submit_slot(&self, slot: &mut slot::Slot, tag: u32) -> Result<(), SubmitError> {
        // The sweep of `abort` sets `ended` before it locks any slot, so a request either sees it
        // here or is seen by the sweep.
        let submitted = if self.ended.get().is_some() {
            Err(SubmitError::Dead)
        } else {
            slot.with_submission(tag, |request| self.transport.submit(request))
        };
        match submitted {
            Ok(()) => {
                slot.state = if slot.detached {
                    State::Orphan
                } else {
                    State::Sent
                };
                if let Payload::Out(_, len) | Payload::Both(_, len, _) = &slot.payload {
                    self.counters.bytes_out.add(u64::from(*len));
                }
            }
            Err(SubmitError::Dead) if slot.detached => {
                slot.state = State::Abandoned;
                self.reaper.detached_ended();
            }
            Err(SubmitError::Dead) => {
                let outcome = Err(Errno::CONNABORTED);
                slot.finish(outcome, PeerUse::Over).wake();
            }
            Err(SubmitError::Full) => {}
        }
        submitted
    }

    /// Submits what waits in the backlog, as far as there is room.
    fn drain_backlog(&self) {
        let mut submitted = false;
        let mut backlog = self.backlog.lock();
        while let Some((tag, unique)) = backlog.front().copied() {
            let mut slot = self.slots.lock(tag);
            let current = slot.unique == unique && matches!(slot.state, State::Queued);
            if current && self.submit_slot(&mut slot, tag) == Err(SubmitError::Full) {
                break;
            }
            drop(slot);
            backlog.pop_front();
            submitted = true;
        }
        self.backlog_len.store(backlog.len(), Ordering::Release);
        drop(backlog);
        if submitted {
            self.transport.kick();
        }
    }

    /// Handles every reply that has arrived; only the holder of the token may call it. Returns
    /// whether there were any.
    fn reap(&self) -> bool {
        match self
            .transport
            .reap(&mut |completion| self.complete(&completion))
        {
            Ok(0) => false,
            Ok(_) => {
                if self.backlog_len.load(Ordering::Acquire) > 0 {
                    self.drain_backlog();
                }
                true
            }
            Err(fault) => {
                self.abort(Ended::Fault(fault.0));
                true
            }
        }
    }

    fn complete(&self, completion: &Completion<'_>) {
        let tag = completion.tag;
        let Some(mut slot) = self.slots.get(tag) else {
            return;
        };
        let outcome = outcome_of(completion, &slot);
        if outcome.is_err() {
            self.counters.error(slot.opcode);
        }
        self.counters
            .bytes_in
            .add(u64::from(completion.payload_bytes));
        match slot.state {
            State::Sent => {
                let owner = slot.finish(outcome, PeerUse::Over);
                drop(slot);
                owner.wake();
            }
            State::Orphan => {
                slot.state = State::Late(outcome);
                drop(slot);
                self.queue_late(tag);
            }
            // Ended meanwhile by abort; the transport delivers each tag once, so nothing else can
            // be here.
            _ => {}
        }
    }

    /// Queues a FORGET of `nlookup` references.
    pub(crate) fn forget(&self, nodeid: u64, nlookup: u64) {
        if nlookup == 0 || self.check_usable().is_err() {
            return;
        }
        match self.forgets.push(nodeid, nlookup) {
            1 => self.arm_timer(self.clock.now_ns() + FORGET_DELAY_NS),
            n if n >= forget::BATCH => self.flush_forgets(),
            _ => {}
        }
    }

    /// Gives a peer time that takes FORGETs more slowly than we make them: it holds what they are
    /// of. Not for ever, for it may never take any more.
    fn let_forgets_go(&self, token: Option<&Token>) {
        for _ in 0..FORGET_PAUSES {
            if self.forgets.len() <= MAX_FORGETS {
                return;
            }
            self.flush_forgets();
            if self.check_usable().is_err() || token.is_some_and(Token::is_cancelled) {
                return;
            }
            thread::sleep(FORGET_PAUSE);
        }
    }

    /// Sends the FORGETs that wait, as far as there is room; the timer comes for the rest.
    pub(crate) fn flush_forgets(&self) {
        let sent = self.forgets.drain(|nodeid, nlookup| {
            let mut head = [0; FORGET_BYTES];
            let request = Request::Forget { nlookup };
            let Ok(len) = request.encode(
                &Head {
                    unique: 0,
                    nodeid,
                    caller: Caller::default(),
                },
                &Extensions::default(),
                &mut head,
            ) else {
                // A node id that cannot be encoded was never a node of the peer's.
                return true;
            };
            // Where there never will be room, they are not kept: the connection has ended, or the
            // next reply finds that it has.
            self.transport.submit_oneway(&head[..len]) != Err(SubmitError::Full)
        });
        if sent > 0 {
            self.counters.forgets.add(sent as u64);
            self.transport.kick();
        }
        if self.forgets.len() > 0 && self.ended.get().is_none() {
            self.arm_timer(self.clock.now_ns() + FULL_DELAY_NS);
        }
    }

    pub(crate) fn stats(&self) -> EngineStats {
        let c = &self.counters;
        EngineStats {
            by_opcode: c.by_opcode(),
            bytes_out: c.bytes_out.get(),
            bytes_in: c.bytes_in.get(),
            forgets: c.forgets.get(),
            interrupts: c.interrupts.get(),
            notifications: c.notifications.get(),
            timeouts: c.timeouts.get(),
            late_replies: c.late_replies.get(),
            ring_full: c.ring_full.get(),
            spins: c.spins.get(),
            spin_hits: c.spin_hits.get(),
            sleeps: c.sleeps.get(),
            slots_busy: self.slots.busy() as u64,
            orphans: u64::from(self.reaper.detached()),
            forgets_queued: self.forgets.len() as u64,
            oneway_queued: self.oneway.len() as u64,
        }
    }
}

/// How long a FORGET waits for company.
const FORGET_DELAY_NS: u64 = 100_000_000;
/// How long FORGETs wait when there was no room for them.
const FULL_DELAY_NS: u64 = 1_000_000;
/// So many FORGETs may wait before further requests do.
const MAX_FORGETS: usize = 1024;
/// How long, about the time that a peer takes for the FORGETs in a ring.
const FORGET_PAUSE: Duration = Duration::from_micros(50);
/// And how often at most.
const FORGET_PAUSES: u32 = 256;
const FORGET_BYTES: usize = 64;

/// What a reply means for its request; EIO for anything malformed.
fn outcome_of(completion: &Completion<'_>, slot: &slot::Slot) -> Outcome {
    let header = reply::parse_header(completion.head).map_err(|_| Errno::IO)?;
    let received = completion.head.len() as u64 + u64::from(completion.payload_bytes);
    if header.unique != slot.unique || u64::from(header.len) != received {
        return Err(Errno::IO);
    }
    match header.error {
        Some(errno) => Err(Errno::from_raw_os_error(errno)),
        None => Ok((
            slot::ReplyHead::copy_of(completion.head),
            completion.payload_bytes,
        )),
    }
}
