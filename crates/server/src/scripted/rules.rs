//! What a scripted peer does, and when.

use super::gate::Gate;
use super::log::Seen;
use crate::fs::Errno;
use crate::notice::Notice;
use fusewire_wire::Opcode;

/// What to do with a request.
#[derive(Clone, Debug)]
pub enum Action {
    /// Answer normally.
    Answer,
    /// Answer with an error; the file system does not hear of the request. For an INTERRUPT this is
    /// the answer that there may be: EAGAIN (no such request yet) or ENOSYS (never).
    Errno(Errno),
    /// Answer success with this body; the file system does not hear of the request.
    Body(Vec<u8>),
    /// Answer with these bytes, header and all, as many as fit; the file system does not hear of
    /// the request.
    Raw(Vec<u8>),
    /// Answer normally, but move at most so many bytes of payload: a short READ, WRITE or READDIR.
    Limit(u32),
    /// Do nothing until the gate lets the request through, and then answer normally.
    HoldBefore(Gate),
    /// Do it now, and keep the reply until the gate lets it through.
    HoldAfter(Gate),
    /// Do nothing until an INTERRUPT of the request comes, and then answer EINTR.
    HoldUntilInterrupted,
    /// Do nothing until an INTERRUPT of the request comes, and then answer normally.
    AnswerOnceInterrupted,
    /// Send these notifications, then go on with the other action: a daemon that notifies from
    /// inside of a handler. [`ScriptedPeer::told`](super::ScriptedPeer::told) knows what the client
    /// said of them.
    Notify(Vec<Notice>, Box<Action>),
    /// Do it now, send these notifications, and only then answer.
    NotifyAfter(Vec<Notice>),
    /// Take it and do nothing about it: for messages that have no answer, such as INTERRUPT.
    Ignore,
    /// Never answer.
    Never,
    /// Answer normally, to another request.
    WrongUnique(u64),
    /// Answer normally, but say in the ring that only so many bytes were written.
    CutTo(u32),
    /// Answer normally, with another length in the header.
    WrongLength(u32),
    /// Answer normally, with another length in the ring; more than there is room for breaks the
    /// ring.
    UsedLength(u32),
    /// Answer normally, but return the buffer twice; this breaks the ring.
    Twice,
    /// End the connection.
    Die,
}

/// Decides about every request; called by all worker threads at once. Any
/// `Fn(&Seen) -> Action` is one, and so are [`Rules`].
pub trait Script: Send + Sync + 'static {
    /// What to do with this request.
    fn action(&self, seen: &Seen) -> Action;
}

impl<F: Fn(&Seen) -> Action + Send + Sync + 'static> Script for F {
    fn action(&self, seen: &Seen) -> Action {
        self(seen)
    }
}

/// A script as a table: the first rule that fits decides, and without one the answer is normal.
#[derive(Clone, Debug, Default)]
pub struct Rules(Vec<Rule>);

#[derive(Clone, Debug)]
struct Rule {
    opcode: Opcode,
    /// Which requests of that kind, counted from 1; `None` means all.
    nth: Option<u64>,
    action: Action,
}

impl Rules {
    /// No rules: everything is answered normally.
    #[must_use]
    pub fn new() -> Self {
        Rules::default()
    }

    /// The `n`-th request of a kind, counted from 1.
    #[must_use]
    pub fn nth(mut self, opcode: Opcode, n: u64, action: Action) -> Self {
        self.0.push(Rule {
            opcode,
            nth: Some(n),
            action,
        });
        self
    }

    /// Every request of a kind.
    #[must_use]
    pub fn every(mut self, opcode: Opcode, action: Action) -> Self {
        self.0.push(Rule {
            opcode,
            nth: None,
            action,
        });
        self
    }
}

impl Script for Rules {
    fn action(&self, seen: &Seen) -> Action {
        self.0
            .iter()
            .find(|rule| {
                seen.opcode == Some(rule.opcode) && rule.nth.is_none_or(|nth| nth == seen.nth)
            })
            .map_or(Action::Answer, |rule| rule.action.clone())
    }
}
