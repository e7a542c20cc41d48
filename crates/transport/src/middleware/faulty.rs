//! Requests that go wrong, repeatably.

use super::forward;
use crate::{Completion, PeerFault, Submission, SubmitError, Transport};
use fusewire_sync::atomic::{AtomicU64, Ordering};
use fusewire_sync::{Mutex, Rank};
use fusewire_wire::abi::{OUT_HEADER_BYTES, OutHeader};
use fusewire_wire::{Opcode, reply, request};
use zerocopy::{FromBytes, IntoBytes};

/// What goes wrong with a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// It ends with this errno (1 to 511), and the peer never sees it, as if the peer had refused
    /// it: no reference is taken, no file opened.
    Errno(i32),
    /// A READ with at least two bytes of data brings fewer, but at least one. Other replies are
    /// left alone.
    ShortRead,
    /// The peer carries it out and its reply is lost.
    DropReply,
}

/// A fault, where it strikes and how often.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Rule {
    /// Requests of this kind.
    pub opcode: Opcode,
    /// Share of them, 0 (none) to 1 (all).
    pub probability: f64,
    /// What happens.
    pub fault: Fault,
}

/// Lets requests go wrong by rules: the first rule that strikes decides. Which requests they
/// strike depends on the seed and on the order of submission alone. Messages without a reply are
/// left alone.
#[derive(Debug)]
pub struct Faulty<T> {
    inner: T,
    rules: Vec<Rule>,
    seed: u64,
    submitted: AtomicU64,
    /// What is planned for the request in flight, by tag.
    planned: Vec<Mutex<Option<Plan>>>,
    /// Errors that were made up here and not reaped yet.
    refused: Mutex<Vec<(u32, OutHeader)>>,
}

#[derive(Clone, Copy, Debug)]
enum Plan {
    ShortRead { random: u64 },
    DropReply,
}

impl<T: Transport> Faulty<T> {
    /// Applies `rules` to what goes through `inner`.
    pub fn new(inner: T, seed: u64, rules: Vec<Rule>) -> Self {
        let tags = inner.limits().max_in_flight;
        Faulty {
            inner,
            rules,
            seed,
            submitted: AtomicU64::new(0),
            planned: (0..tags).map(|_| Mutex::new(Rank::LEAF, None)).collect(),
            refused: Mutex::new(Rank::LEAF, Vec::new()),
        }
    }
}

/// The fault that strikes the `nth` request, and a random number for it.
fn strike(rules: &[Rule], seed: u64, nth: u64, opcode: u32) -> Option<(Fault, u64)> {
    let mut random = Random(seed ^ nth.wrapping_mul(0xd1b5_4a32_d192_ed03));
    rules
        .iter()
        .filter(|rule| rule.opcode as u32 == opcode)
        .find(|rule| random.unit() < rule.probability)
        .map(|rule| (rule.fault, random.next()))
}

/// SplitMix64.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// In 0..1.
    fn unit(&mut self) -> f64 {
        (self.next() >> 11) as f64 / (1_u64 << 53) as f64
    }
}

impl<T> Faulty<T> {
    fn set(&self, tag: u32, plan: Option<Plan>) -> Option<Plan> {
        let entry = self.planned.get(tag as usize)?;
        std::mem::replace(&mut *entry.lock(), plan)
    }
}

/// The same reply with 1 to `payload_bytes - 1` bytes of data, if there are that many.
fn shortened(completion: &Completion<'_>, random: u64) -> Option<(OutHeader, u32)> {
    let header = OutHeader::read_from_bytes(completion.head).ok()?;
    let fewer = u64::from(completion.payload_bytes).checked_sub(1)?;
    let payload_bytes = 1 + u32::try_from(random.checked_rem(fewer)?).ok()?;
    let header = OutHeader {
        len: OUT_HEADER_BYTES + payload_bytes,
        ..header
    };
    Some((header, payload_bytes))
}

impl<T: Transport> Transport for Faulty<T> {
    forward!(limits arena submit_oneway kick wait wake listen watch close);

    fn submit(&self, submission: &Submission<'_>) -> Result<(), SubmitError> {
        let Ok(header) = request::parse_header(submission.head) else {
            return self.inner.submit(submission);
        };
        let nth = self.submitted.fetch_add(1, Ordering::Relaxed);
        let plan = match strike(&self.rules, self.seed, nth, header.opcode) {
            Some((Fault::Errno(errno), _)) => {
                let failure = reply::failure(header.unique, errno);
                self.refused.lock().push((submission.tag, failure));
                self.inner.wake();
                return Ok(());
            }
            Some((Fault::ShortRead, random)) => Some(Plan::ShortRead { random }),
            Some((Fault::DropReply, _)) => Some(Plan::DropReply),
            None => None,
        };
        self.set(submission.tag, plan);
        let submitted = self.inner.submit(submission);
        if submitted.is_err() {
            self.set(submission.tag, None);
        }
        submitted
    }

    fn reap(&self, sink: &mut dyn FnMut(Completion<'_>)) -> Result<usize, PeerFault> {
        let refused = std::mem::take(&mut *self.refused.lock());
        let mut count = refused.len();
        for (tag, failure) in refused {
            sink(Completion {
                tag,
                head: failure.as_bytes(),
                payload_bytes: 0,
            });
        }
        self.inner.reap(&mut |completion| {
            match self.set(completion.tag, None) {
                Some(Plan::DropReply) => return,
                Some(Plan::ShortRead { random }) => match shortened(&completion, random) {
                    Some((header, payload_bytes)) => sink(Completion {
                        tag: completion.tag,
                        head: header.as_bytes(),
                        payload_bytes,
                    }),
                    None => sink(completion),
                },
                None => sink(completion),
            }
            count += 1;
        })?;
        Ok(count)
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{Fake, lookup, read};
    use super::*;
    use fusewire_wire::errno::EIO;

    fn always(opcode: Opcode, fault: Fault) -> Rule {
        Rule {
            opcode,
            probability: 1.0,
            fault,
        }
    }

    fn reaped(transport: &impl Transport) -> Vec<(u32, Option<i32>, u32)> {
        let mut seen = Vec::new();
        let count = transport
            .reap(&mut |completion| {
                let header = reply::parse_header(completion.head).unwrap();
                assert_eq!(
                    u64::from(header.len),
                    completion.head.len() as u64 + u64::from(completion.payload_bytes)
                );
                seen.push((completion.tag, header.error, completion.payload_bytes));
            })
            .unwrap();
        assert_eq!(count, seen.len());
        seen
    }

    #[test]
    fn an_errno_never_reaches_the_peer_and_wakes_the_waiter() {
        let rules = vec![always(Opcode::Lookup, Fault::Errno(EIO))];
        let faulty = Faulty::new(Fake::new(2), 1, rules);
        lookup(&faulty, 0, 2, b"a").unwrap();
        read(&faulty, 1, 4).unwrap();
        assert_eq!(faulty.inner.in_flight(), [1]);
        assert_eq!(faulty.inner.wakes(), 1);
        assert_eq!(reaped(&faulty), [(0, Some(EIO), 0)]);
        faulty.inner.reply_payload(1, 4096);
        assert_eq!(reaped(&faulty), [(1, None, 4096)]);
    }

    #[test]
    fn a_short_read_has_fewer_bytes_but_some() {
        let rules = vec![always(Opcode::Read, Fault::ShortRead)];
        let faulty = Faulty::new(Fake::new(1), 7, rules);
        for nth in 0..200 {
            read(&faulty, 0, 2 + nth * 2).unwrap();
            faulty.inner.reply_payload(0, 3);
            let (_, error, payload_bytes) = reaped(&faulty)[0];
            assert_eq!(error, None);
            assert!((1..3).contains(&payload_bytes), "{payload_bytes}");
        }
        // Nothing can be taken from one byte, none, or an error.
        for (reply, expected) in [(Some(1), (0, None, 1)), (Some(0), (0, None, 0))]
            .into_iter()
            .chain([(None, (0, Some(EIO), 0))])
        {
            read(&faulty, 0, 1000).unwrap();
            match reply {
                Some(bytes) => faulty.inner.reply_payload(0, bytes),
                None => faulty.inner.reply_error(0, EIO),
            }
            assert_eq!(reaped(&faulty), [expected]);
        }
    }

    #[test]
    fn a_dropped_reply_is_gone_and_its_tag_is_free() {
        let rules = vec![always(Opcode::Lookup, Fault::DropReply)];
        let faulty = Faulty::new(Fake::new(1), 1, rules);
        lookup(&faulty, 0, 2, b"a").unwrap();
        faulty.inner.reply_error(0, EIO);
        assert!(reaped(&faulty).is_empty());
        read(&faulty, 0, 4).unwrap();
        faulty.inner.reply_payload(0, 1);
        assert_eq!(reaped(&faulty), [(0, None, 1)]);
    }

    #[test]
    fn a_refused_request_keeps_no_plan() {
        let rules = vec![always(Opcode::Lookup, Fault::DropReply)];
        let faulty = Faulty::new(Fake::new(1), 1, rules);
        faulty.inner.refuse(SubmitError::Full);
        assert_eq!(lookup(&faulty, 0, 2, b"a"), Err(SubmitError::Full));
        assert!(faulty.planned[0].lock().is_none());
    }

    #[test]
    fn the_share_follows_the_probability_and_the_seed_repeats() {
        let rules = [Rule {
            opcode: Opcode::Read,
            probability: 0.25,
            fault: Fault::ShortRead,
        }];
        let read = Opcode::Read as u32;
        let struck = |seed| -> Vec<u64> {
            (0..10_000)
                .filter(|nth| strike(&rules, seed, *nth, read).is_some())
                .collect()
        };
        assert_eq!(struck(1), struck(1));
        assert_ne!(struck(1), struck(2));
        assert!((2300..2700).contains(&struck(3).len()));
        assert!((0..100).all(|nth| strike(&rules, 1, nth, Opcode::Write as u32).is_none()));
    }
}
