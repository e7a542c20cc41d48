//! What a driver knows about its descriptors, in memory that no peer can reach.

/// A chain that the device has.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Chain {
    /// The driver's name for it.
    pub(crate) token: u32,
    /// How many of the writable bytes are the reply head's.
    pub(crate) reply_head_bytes: u32,
    /// Bytes that the device may write.
    pub(crate) writable_bytes: u32,
}

#[derive(Clone, Copy, Debug)]
enum State {
    Free,
    /// Part of a chain, but not its first.
    Inner,
    /// First of a chain of `count` descriptors that ends at `last`.
    Head {
        chain: Chain,
        count: u16,
        last: u16,
    },
}

#[derive(Clone, Copy, Debug)]
struct Slot {
    state: State,
    /// The next in the free list or in the chain; meaningless in the last.
    next: u16,
}

/// Descriptors: which are free, which form chains, and what each chain allows the device.
#[derive(Debug)]
pub(crate) struct Shadow {
    slots: Vec<Slot>,
    first_free: u16,
    free: u16,
    outstanding: u16,
}

/// Why a used entry is not believed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum UsedError {
    #[error("used id {0} of a queue of {1}")]
    OutOfRange(u32, u16),
    #[error("used id {0} is not outstanding")]
    NotOutstanding(u32),
    #[error("used id {id}: length {len} of {writable} writable bytes")]
    TooLong { id: u32, len: u32, writable: u32 },
}

impl Shadow {
    /// All of `size` descriptors free.
    pub(crate) fn new(size: u16) -> Self {
        Shadow {
            slots: (0..size)
                .map(|id| Slot {
                    state: State::Free,
                    next: id.wrapping_add(1) % size,
                })
                .collect(),
            first_free: 0,
            free: size,
            outstanding: 0,
        }
    }

    /// Chains that the device has.
    pub(crate) fn outstanding(&self) -> u16 {
        self.outstanding
    }

    /// Which descriptor the next chain will start with, if one is free.
    pub(crate) fn first_free(&self) -> Option<u16> {
        (self.free > 0).then_some(self.first_free)
    }

    /// The descriptor behind `id` in its chain.
    pub(crate) fn next(&self, id: u16) -> u16 {
        self.slots[usize::from(id)].next
    }

    /// Takes `count` (≥ 1) descriptors, the most recently freed first, and returns the first.
    pub(crate) fn take(&mut self, count: u16, chain: Chain) -> Option<u16> {
        if count == 0 || count > self.free {
            return None;
        }
        let head = self.first_free;
        let mut last = head;
        for _ in 1..count {
            last = self.next(last);
            self.slots[usize::from(last)].state = State::Inner;
        }
        self.first_free = self.next(last);
        self.free -= count;
        self.outstanding += 1;
        self.slots[usize::from(head)].state = State::Head { chain, count, last };
        Some(head)
    }

    /// Checks what the device says of chain `id`, and takes the chain back.
    pub(crate) fn give_back(&mut self, id: u32, len: u32) -> Result<Chain, UsedError> {
        let size = self.slots.len() as u16;
        let head = u16::try_from(id)
            .ok()
            .filter(|head| *head < size)
            .ok_or(UsedError::OutOfRange(id, size))?;
        let State::Head { chain, count, last } = self.slots[usize::from(head)].state else {
            return Err(UsedError::NotOutstanding(id));
        };
        if len > chain.writable_bytes {
            return Err(UsedError::TooLong {
                id,
                len,
                writable: chain.writable_bytes,
            });
        }
        let mut at = head;
        for _ in 0..count {
            self.slots[usize::from(at)].state = State::Free;
            at = self.next(at);
        }
        self.slots[usize::from(last)].next = self.first_free;
        self.first_free = head;
        self.free += count;
        self.outstanding -= 1;
        Ok(chain)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn chain(token: u32) -> Chain {
        Chain {
            token,
            reply_head_bytes: 16,
            writable_bytes: 100,
        }
    }

    #[test]
    fn what_the_device_may_not_say_is_refused() {
        let mut shadow = Shadow::new(8);
        let head = u32::from(shadow.take(3, chain(1)).unwrap());
        assert_eq!(shadow.give_back(8, 0), Err(UsedError::OutOfRange(8, 8)));
        assert_eq!(
            shadow.give_back(u32::MAX, 0),
            Err(UsedError::OutOfRange(u32::MAX, 8))
        );
        for id in (0..8).filter(|id| *id != head) {
            assert_eq!(shadow.give_back(id, 0), Err(UsedError::NotOutstanding(id)));
        }
        assert!(matches!(
            shadow.give_back(head, 101),
            Err(UsedError::TooLong { .. })
        ));
        assert_eq!(shadow.give_back(head, 100), Ok(chain(1)));
        assert_eq!(
            shadow.give_back(head, 0),
            Err(UsedError::NotOutstanding(head))
        );
    }

    proptest! {
        #[test]
        fn chains_are_disjoint_and_all_descriptors_come_back(
            ops in prop::collection::vec((1u16..6, any::<prop::sample::Index>(), any::<bool>()), 1..200),
        ) {
            let mut shadow = Shadow::new(16);
            let mut held: Vec<(u16, u32, Vec<u16>)> = Vec::new();
            let mut token = 0;
            for (count, pick, give) in ops {
                if give && !held.is_empty() {
                    let (head, token, _) = held.swap_remove(pick.index(held.len()));
                    prop_assert_eq!(shadow.give_back(head.into(), 7).map(|c| c.token), Ok(token));
                } else {
                    token += 1;
                    let expected = shadow.first_free();
                    let used: usize = held.iter().map(|(_, _, ids)| ids.len()).sum();
                    match shadow.take(count, chain(token)) {
                        Some(head) => {
                            prop_assert_eq!(Some(head), expected);
                            let mut ids = vec![head];
                            for _ in 1..count { ids.push(shadow.next(*ids.last().unwrap())); }
                            for id in &ids {
                                prop_assert!(held.iter().all(|(_, _, other)| !other.contains(id)));
                            }
                            held.push((head, token, ids));
                        }
                        None => prop_assert!(used + usize::from(count) > 16),
                    }
                }
                prop_assert_eq!(usize::from(shadow.outstanding()), held.len());
            }
            for (head, _, _) in held { shadow.give_back(head.into(), 0).unwrap(); }
            prop_assert!(shadow.take(16, chain(0)).is_some());
        }
    }
}
