//! A line for each message.

use super::forward;
use super::record::{End, Outcome, Sent};
use crate::{Completion, PeerFault, Submission, SubmitError, Transport};
use fusewire_sync::time::Clock;
use fusewire_sync::{Mutex, Rank};
use fusewire_wire::reply::{self, ReplyError};
use std::io::Write;

/// How many one-way messages may wait for their line; more are only counted.
const MAX_UNWRITTEN: usize = 4096;

/// What a line of a trace looks like.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TraceFormat {
    /// `LOOKUP unique=2 node=1 name="a" request=42 reply=144 latency=9.5us ok`
    Text,
    /// One JSON object a line: `opcode`, `unique`, `nodeid`, names if there are any (`name`,
    /// `new_name`, `target`; `…_hex` when not UTF-8), `request_bytes`, and unless the message has
    /// no reply `reply_bytes`, `latency_us` and `result`.
    Json,
}

/// Writes a line for each message to a sink.
///
/// A line is written when the reply is reaped, before it is handed on: whoever sees a result can
/// rely on its line being written. Sizes are in bytes, head and payload together; the latency is
/// from submission to reaping; the result is `ok`, the name of the errno, `empty` for a reply of no
/// bytes, `malformed` for one that is none, or `unanswered` for what the end of the trace overtakes.
///
/// Lines are written by [`Transport::reap`], [`Transport::kick`] and the drop only, so with no
/// lock held but the sink's own; a sink that blocks holds these up. After its first error a sink
/// is not written to again.
pub struct Traced<T> {
    inner: T,
    clock: Clock,
    in_flight: Vec<Mutex<Option<Sent>>>,
    /// One-way messages are submitted under locks of the caller, where nothing may be written.
    oneway: Mutex<Unwritten>,
    out: Mutex<Out>,
}

#[derive(Debug, Default)]
struct Unwritten {
    sent: Vec<Sent>,
    unlisted: u64,
}

struct Out {
    sink: Option<Box<dyn Write + Send>>,
    format: TraceFormat,
    line: Vec<u8>,
}

impl<T: Transport> Traced<T> {
    /// Traces what goes through `inner`.
    pub fn new(inner: T, format: TraceFormat, sink: Box<dyn Write + Send>) -> Self {
        Self::with_clock(inner, format, sink, Clock::monotonic())
    }

    fn with_clock(
        inner: T,
        format: TraceFormat,
        sink: Box<dyn Write + Send>,
        clock: Clock,
    ) -> Self {
        let tags = inner.limits().max_in_flight;
        Traced {
            inner,
            clock,
            in_flight: (0..tags).map(|_| Mutex::new(Rank::LEAF, None)).collect(),
            oneway: Mutex::new(Rank::LEAF, Unwritten::default()),
            out: Mutex::new(
                Rank::LEAF,
                Out {
                    sink: Some(sink),
                    format,
                    line: Vec::with_capacity(256),
                },
            ),
        }
    }
}

impl<T> Traced<T> {
    fn set(&self, tag: u32, sent: Option<Sent>) -> Option<Sent> {
        let entry = self.in_flight.get(tag as usize)?;
        std::mem::replace(&mut *entry.lock(), sent)
    }

    fn write_oneway(&self) {
        let unwritten = std::mem::take(&mut *self.oneway.lock());
        if unwritten.sent.is_empty() {
            return;
        }
        let mut out = self.out.lock();
        for sent in &unwritten.sent {
            out.write(sent, &End::OneWay);
        }
        if unwritten.unlisted > 0 {
            out.write_note(unwritten.unlisted);
        }
    }

    fn replied(&self, completion: &Completion<'_>) {
        let now_ns = self.clock.now_ns();
        if let Some(sent) = self.set(completion.tag, None) {
            let end = End::Reply {
                reply_bytes: completion.head.len() as u64 + u64::from(completion.payload_bytes),
                latency_ns: now_ns.saturating_sub(sent.at_ns),
                outcome: match reply::parse_header(completion.head) {
                    Ok(header) => header.error.map_or(Outcome::Ok, Outcome::Errno),
                    Err(ReplyError::Short(0)) => Outcome::Empty,
                    Err(_) => Outcome::Malformed,
                },
            };
            self.out.lock().write(&sent, &end);
        }
    }
}

impl Out {
    fn write(&mut self, sent: &Sent, end: &End) {
        self.line.clear();
        let made = match self.format {
            TraceFormat::Text => sent.write_text(end, &mut self.line),
            TraceFormat::Json => sent.write_json(end, &mut self.line),
        };
        self.flush_line(made);
    }

    fn write_note(&mut self, count: u64) {
        self.line.clear();
        let made = match self.format {
            TraceFormat::Text => writeln!(self.line, "{count} more one-way messages"),
            TraceFormat::Json => writeln!(self.line, "{{\"more_oneway_messages\":{count}}}"),
        };
        self.flush_line(made);
    }

    fn flush_line(&mut self, made: std::io::Result<()>) {
        let Some(sink) = &mut self.sink else {
            return;
        };
        let written = made
            .and_then(|()| sink.write_all(&self.line))
            .and_then(|()| sink.flush());
        if written.is_err() {
            self.sink = None;
        }
    }
}

impl<T: Transport> Transport for Traced<T> {
    forward!(limits arena wait wake listen watch close);

    fn submit(&self, request: &Submission<'_>) -> Result<(), SubmitError> {
        let payload_bytes = request
            .payload_out
            .iter()
            .map(|segment| u64::from(segment.len))
            .sum();
        // Before the request itself: its reply may be reaped before `submit` returns.
        let sent = Sent::new(request.head, payload_bytes, self.clock.now_ns());
        self.set(request.tag, Some(sent));
        let submitted = self.inner.submit(request);
        if submitted.is_err() {
            self.set(request.tag, None);
        }
        submitted
    }

    fn submit_oneway(&self, head: &[u8]) -> Result<(), SubmitError> {
        self.inner.submit_oneway(head)?;
        let sent = Sent::new(head, 0, self.clock.now_ns());
        let mut unwritten = self.oneway.lock();
        if unwritten.sent.len() < MAX_UNWRITTEN {
            unwritten.sent.push(sent);
        } else {
            unwritten.unlisted += 1;
        }
        Ok(())
    }

    fn kick(&self) {
        self.inner.kick();
        self.write_oneway();
    }

    fn reap(&self, sink: &mut dyn FnMut(Completion<'_>)) -> Result<usize, PeerFault> {
        self.inner.reap(&mut |completion| {
            self.replied(&completion);
            sink(completion);
        })
    }
}

impl<T> Drop for Traced<T> {
    fn drop(&mut self) {
        self.write_oneway();
        for tag in 0..self.in_flight.len() {
            if let Some(sent) = self.set(tag as u32, None) {
                self.out.lock().write(&sent, &End::Unanswered);
            }
        }
    }
}

impl<T: std::fmt::Debug> std::fmt::Debug for Traced<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Traced")
            .field("inner", &self.inner)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{Fake, Shared, lookup, release};
    use super::*;
    use fusewire_wire::errno::ENOENT;

    fn traced(sink: &Shared) -> (Traced<Fake>, Clock) {
        let clock = Clock::manual();
        let traced = Traced::with_clock(
            Fake::new(4),
            TraceFormat::Text,
            Box::new(sink.clone()),
            clock.clone(),
        );
        (traced, clock)
    }

    #[test]
    fn a_line_is_there_before_the_reply_is_seen() {
        let sink = Shared::default();
        let (traced, clock) = traced(&sink);
        lookup(&traced, 0, 2, b"a b").unwrap();
        lookup(&traced, 1, 4, b"c").unwrap();
        traced.kick();
        assert_eq!(sink.text(), "");
        clock.advance(1500);
        traced.inner.reply_error(0, ENOENT);
        let mut seen = Vec::new();
        let reaped = traced
            .reap(&mut |completion| {
                assert!(sink.text().ends_with(" ENOENT\n"));
                seen.push(completion.tag);
            })
            .unwrap();
        assert_eq!((reaped, seen), (1, vec![0]));
        assert_eq!(
            sink.text(),
            "LOOKUP unique=2 node=1 name=\"a b\" request=44 reply=16 latency=1.5us ENOENT\n"
        );
        drop(traced);
        assert!(
            sink.text()
                .ends_with("LOOKUP unique=4 node=1 name=\"c\" request=42 unanswered\n")
        );
    }

    #[test]
    fn one_way_messages_are_written_at_the_kick_and_bounded() {
        let sink = Shared::default();
        let (traced, _clock) = traced(&sink);
        for _ in 0..MAX_UNWRITTEN + 3 {
            release(&traced, 7);
        }
        assert_eq!(sink.text(), "");
        traced.kick();
        let text = sink.text();
        assert_eq!(text.lines().count(), MAX_UNWRITTEN + 1);
        assert!(text.starts_with("FORGET unique=0 node=7 request=48\n"));
        assert!(text.ends_with("3 more one-way messages\n"));
    }

    #[test]
    fn a_request_that_was_not_taken_leaves_no_line() {
        let sink = Shared::default();
        let (traced, _clock) = traced(&sink);
        traced.inner.refuse(SubmitError::Full);
        assert_eq!(lookup(&traced, 0, 2, b"a"), Err(SubmitError::Full));
        drop(traced);
        assert_eq!(sink.text(), "");
    }

    #[test]
    fn a_reply_without_a_header_is_called_malformed() {
        let sink = Shared::default();
        let (traced, _clock) = traced(&sink);
        lookup(&traced, 0, 2, b"a").unwrap();
        traced.inner.reply(0, &[1, 2, 3], 0);
        traced.reap(&mut |_| {}).unwrap();
        assert!(sink.text().ends_with("reply=3 latency=0.0us malformed\n"));
        lookup(&traced, 0, 4, b"a").unwrap();
        traced.inner.reply(0, &[], 0);
        traced.reap(&mut |_| {}).unwrap();
        assert!(sink.text().ends_with("reply=0 latency=0.0us empty\n"));
    }

    #[test]
    fn a_sink_that_fails_is_left_alone() {
        let sink = Shared::failing();
        let (traced, _clock) = traced(&sink);
        for unique in [2, 4] {
            lookup(&traced, 0, unique, b"a").unwrap();
            traced.inner.reply_error(0, ENOENT);
            assert_eq!(traced.reap(&mut |_| {}), Ok(1));
        }
        assert_eq!(sink.writes(), 1);
    }
}
