//! A request as the run of buffers that a chain is made of.

use fusewire_mem::Segment;

/// Flag of a descriptor: another follows.
pub(crate) const F_NEXT: u16 = 1;
/// Flag of a descriptor: the device may write it (else it may read it).
pub(crate) const F_WRITE: u16 = 2;
/// Flag of a descriptor: it holds a table of descriptors.
pub(crate) const F_INDIRECT: u16 = 4;

/// One descriptor without its link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Part {
    pub(crate) addr: u64,
    pub(crate) len: u32,
    /// [`F_WRITE`] or [`F_INDIRECT`] or 0.
    pub(crate) flags: u16,
}

/// Payload segments as parts, adjacent ones merged into one.
#[derive(Clone, Debug)]
pub(crate) struct Merged<'a> {
    segments: &'a [Segment],
    base: u64,
    flags: u16,
}

impl<'a> Merged<'a> {
    /// Parts of `segments`, which lie in memory that starts at address `base`.
    pub(crate) fn new(segments: &'a [Segment], base: u64, flags: u16) -> Self {
        Merged {
            segments,
            base,
            flags,
        }
    }
}

impl Iterator for Merged<'_> {
    type Item = Part;

    fn next(&mut self) -> Option<Part> {
        let (first, mut rest) = self.segments.split_first()?;
        let mut len = first.len;
        while let Some((next, after)) = rest.split_first()
            && next.offset == first.offset + u64::from(len)
            && let Some(both) = len.checked_add(next.len)
        {
            len = both;
            rest = after;
        }
        self.segments = rest;
        Some(Part {
            addr: self.base + first.offset,
            len,
            flags: self.flags,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn adjacent_segments_become_one() {
        let at = |offset, len| Segment { offset, len };
        let segments = [at(0, 4096), at(4096, 4096), at(16384, 10), at(8192, 1)];
        let parts: Vec<_> = Merged::new(&segments, 1 << 20, F_WRITE)
            .map(|p| (p.addr - (1 << 20), p.len))
            .collect();
        assert_eq!(parts, [(0, 8192), (16384, 10), (8192, 1)]);
        let huge = [at(0, u32::MAX), at(u64::from(u32::MAX), 1)];
        assert_eq!(Merged::new(&huge, 0, 0).count(), 2);
    }
}
