//! Where everything lies in the region that a FUSE device's two queues live in: arithmetic only.

/// Bytes of a descriptor.
pub(crate) const DESC_BYTES: u64 = 16;

/// Longest head (FUSE header, arguments, names) of one request.
pub const MAX_HEAD_BYTES: usize = 8192;

/// Longest reply head (FUSE header and fixed arguments).
pub const MAX_REPLY_HEAD_BYTES: usize = 512;

/// Descriptors of a request beside its payload: its head and its reply head.
const HEAD_PARTS: u32 = 2;

/// Smallest and largest queue that can be asked for.
pub(crate) const QUEUE_SIZES: std::ops::RangeInclusive<u16> = 8..=32_768;

/// More payload segments than this are refused by daemons (it is the system's IOV_MAX).
const MAX_CHAIN: u32 = 1024;

/// Apart by at least a cache line, so that the two sides do not slow each other down.
const LINE: u64 = 64;

/// Offsets of one split ring.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RingLayout {
    /// Entries; a power of two.
    pub(crate) size: u16,
    /// Descriptor table.
    pub(crate) desc: u64,
    /// Available ring, written by the driver.
    pub(crate) avail: u64,
    /// Used ring, written by the device.
    pub(crate) used: u64,
}

impl RingLayout {
    /// A ring of `size` entries at `at`, and the first offset behind it.
    pub(crate) fn new(size: u16, at: u64) -> (Self, u64) {
        let entries = u64::from(size);
        let desc = at.next_multiple_of(LINE);
        let avail = (desc + DESC_BYTES * entries).next_multiple_of(LINE);
        let used = (avail + 6 + 2 * entries).next_multiple_of(LINE);
        let ring = RingLayout {
            size,
            desc,
            avail,
            used,
        };
        (ring, used + 6 + 8 * entries)
    }

    fn slot(self, index: u16) -> u64 {
        u64::from(index & (self.size - 1))
    }

    pub(crate) fn desc_at(self, id: u16) -> u64 {
        self.desc + DESC_BYTES * u64::from(id)
    }

    pub(crate) fn avail_flags(self) -> u64 {
        self.avail
    }

    pub(crate) fn avail_idx(self) -> u64 {
        self.avail + 2
    }

    /// The entry that avail index `index` goes to.
    pub(crate) fn avail_entry(self, index: u16) -> u64 {
        self.avail + 4 + 2 * self.slot(index)
    }

    /// Behind the available ring: the used index at which the driver wants a call.
    pub(crate) fn used_event(self) -> u64 {
        self.avail + 4 + 2 * u64::from(self.size)
    }

    pub(crate) fn used_flags(self) -> u64 {
        self.used
    }

    pub(crate) fn used_idx(self) -> u64 {
        self.used + 2
    }

    /// The entry that used index `index` goes to: id, then length.
    pub(crate) fn used_entry(self, index: u16) -> u64 {
        self.used + 4 + 8 * self.slot(index)
    }

    /// Behind the used ring: the avail index at which the device wants a kick.
    pub(crate) fn avail_event(self) -> u64 {
        self.used + 4 + 8 * u64::from(self.size)
    }
}

/// The whole region: both rings, a cell for each message without a reply, and for each tag a cell
/// for its reply head, its indirect table and its head.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Plan {
    pub(crate) hiprio: RingLayout,
    pub(crate) request: RingLayout,
    /// Payload segments of one request.
    pub(crate) max_segments: u32,
    oneway: u64,
    tags: u64,
    tag_stride: u64,
    table_bytes: u64,
    /// Bytes in all.
    pub(crate) total: u64,
}

impl Plan {
    /// A plan for queues of `queue_size` entries.
    pub(crate) fn new(queue_size: u16) -> Self {
        // A chain must not be longer than the queue, not even an indirect one (virtio 1.2, 2.7.5.3).
        let max_segments = u32::from(queue_size).min(MAX_CHAIN) - HEAD_PARTS;
        let (hiprio, end) = RingLayout::new(queue_size.min(64), 0);
        let (request, end) = RingLayout::new(queue_size, end);
        let oneway = end.next_multiple_of(LINE);
        let tags = oneway + u64::from(hiprio.size) * MAX_HEAD_BYTES as u64;
        let table_bytes = DESC_BYTES * u64::from(max_segments + HEAD_PARTS);
        let cell = (MAX_REPLY_HEAD_BYTES as u64 + table_bytes).next_multiple_of(LINE)
            + MAX_HEAD_BYTES as u64;
        // One line more than needed: cells a power of two apart would share their cache sets.
        let tag_stride = cell + LINE;
        Plan {
            hiprio,
            request,
            max_segments,
            oneway,
            tags,
            tag_stride,
            table_bytes,
            total: tags + tag_stride * u64::from(queue_size),
        }
    }

    /// Cell of the message without a reply that descriptor `id` of the hiprio queue carries.
    pub(crate) fn oneway_cell(&self, id: u16) -> u64 {
        self.oneway + u64::from(id) * MAX_HEAD_BYTES as u64
    }

    /// Reply cell of `tag`.
    pub(crate) fn reply_cell(&self, tag: u32) -> u64 {
        self.tags + u64::from(tag) * self.tag_stride
    }

    /// Indirect table of `tag`.
    pub(crate) fn table(&self, tag: u32) -> u64 {
        self.reply_cell(tag) + MAX_REPLY_HEAD_BYTES as u64
    }

    /// Bytes of an indirect table.
    pub(crate) fn table_bytes(&self) -> u64 {
        self.table_bytes
    }

    /// Head cell of `tag`.
    pub(crate) fn head_cell(&self, tag: u32) -> u64 {
        (self.table(tag) + self.table_bytes).next_multiple_of(LINE)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rings(plan: &Plan) -> Vec<(u64, u64)> {
        [plan.hiprio, plan.request]
            .into_iter()
            .flat_map(|r| {
                let n = u64::from(r.size);
                [
                    (r.desc, r.desc + 16 * n),
                    (r.avail, r.used_event() + 2),
                    (r.used, r.avail_event() + 2),
                ]
            })
            .collect()
    }

    #[test]
    fn nothing_overlaps_and_everything_is_aligned() {
        for size in [8u16, 64, 256, 1024, 32_768] {
            let plan = Plan::new(size);
            let mut ranges = rings(&plan);
            for id in 0..plan.hiprio.size {
                let at = plan.oneway_cell(id);
                ranges.push((at, at + MAX_HEAD_BYTES as u64));
            }
            for tag in 0..u32::from(size) {
                let reply = plan.reply_cell(tag);
                let table = plan.table(tag);
                let head = plan.head_cell(tag);
                assert_eq!(table % 16, 0);
                ranges.push((reply, reply + MAX_REPLY_HEAD_BYTES as u64));
                ranges.push((
                    table,
                    table + 16 * u64::from(plan.max_segments + HEAD_PARTS),
                ));
                ranges.push((head, head + MAX_HEAD_BYTES as u64));
            }
            ranges.sort_unstable();
            assert!(ranges.windows(2).all(|w| w[0].1 <= w[1].0), "size {size}");
            assert!(ranges.last().is_some_and(|r| r.1 <= plan.total));
            for r in [plan.hiprio, plan.request] {
                assert_eq!((r.desc % 16, r.avail % 2, r.used % 4), (0, 0, 0));
            }
        }
    }

    #[test]
    fn indices_wrap_into_the_ring() {
        let (ring, _) = RingLayout::new(8, 0);
        assert_eq!(ring.avail_entry(8), ring.avail_entry(0));
        assert_eq!(ring.used_entry(65_535), ring.used_entry(7));
    }
}
