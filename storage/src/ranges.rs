//! Sets of byte ranges of a device: its unreadable parts, or the memory that it takes.

use crate::sync::Mutex;
use crate::sync::atomic::{AtomicBool, Ordering};
use std::collections::BTreeMap;

/// Ranges of one device. Asking costs one load while there are none.
#[derive(Debug, Default)]
pub(crate) struct ByteRanges {
    any: AtomicBool,
    /// Start and end, in bytes. They do not overlap.
    parts: Mutex<BTreeMap<u64, u64>>,
}

impl ByteRanges {
    /// Adds a range of the device.
    pub(crate) fn insert(&self, offset: u64, bytes: u64) {
        let mut parts = self.parts.lock();
        let (mut from, mut to) = (offset, offset + bytes);
        // Ranges that touch this one become one with it.
        while let Some((start, end)) = parts.range(..=to).next_back().map(|(s, e)| (*s, *e))
            && end >= from
        {
            parts.remove(&start);
            (from, to) = (from.min(start), to.max(end));
        }
        parts.insert(from, to);
        self.any.store(true, Ordering::Relaxed);
    }

    /// Removes a range of the device.
    pub(crate) fn remove(&self, offset: u64, bytes: u64) {
        if !self.is_any() {
            return;
        }
        let mut parts = self.parts.lock();
        let end_of_range = offset + bytes;
        while let Some((start, end)) = parts
            .range(..end_of_range)
            .next_back()
            .map(|(s, e)| (*s, *e))
            && end > offset
        {
            parts.remove(&start);
            if start < offset {
                parts.insert(start, offset);
            }
            if end > end_of_range {
                parts.insert(end_of_range, end);
            }
        }
        self.any.store(!parts.is_empty(), Ordering::Relaxed);
    }

    /// Whether there are any.
    #[inline]
    pub(crate) fn is_any(&self) -> bool {
        self.any.load(Ordering::Relaxed)
    }

    /// Whether a range of the device overlaps one of them.
    #[inline]
    pub(crate) fn overlap(&self, offset: u64, bytes: u64) -> bool {
        self.is_any() && self.find_overlap(offset, bytes)
    }

    #[cold]
    fn find_overlap(&self, offset: u64, bytes: u64) -> bool {
        let parts = self.parts.lock();
        let last = parts.range(..offset + bytes).next_back();
        last.is_some_and(|(_, end)| *end > offset)
    }

    /// How many bytes they have.
    pub(crate) fn bytes(&self) -> u64 {
        self.parts.lock().iter().map(|(from, to)| to - from).sum()
    }
}

#[cfg(all(test, not(shuttle)))]
mod tests {
    use super::*;

    #[test]
    fn ranges_that_touch_become_one_and_parts_of_them_can_go() {
        let count = |ranges: &ByteRanges| ranges.parts.lock().len();
        let ranges = ByteRanges::default();
        assert!(!ranges.overlap(0, 1000));
        ranges.insert(100, 50);
        ranges.insert(300, 50);
        assert!(ranges.overlap(149, 1) && !ranges.overlap(150, 150));
        assert!(ranges.overlap(0, 101) && !ranges.overlap(0, 100));
        assert_eq!(ranges.bytes(), 100);
        ranges.insert(140, 170);
        assert_eq!((count(&ranges), ranges.bytes()), (1, 250));
        ranges.insert(350, 10);
        assert_eq!((count(&ranges), ranges.bytes()), (1, 260));
        ranges.remove(200, 20);
        assert!(ranges.overlap(199, 1) && !ranges.overlap(200, 20));
        assert!(ranges.overlap(220, 1));
        assert_eq!(ranges.bytes(), 240);
        ranges.remove(0, 1000);
        assert!(!ranges.is_any());
    }
}
