//! The conditions of a query: ranges of an index, and conditions to test on each record.

use std::ops::Bound;

use super::entries::EntryReader;
use super::key::forms_len;
use super::ordered::{EntryList, EntryRange, OrderedEntries, end_of_prefix};
use crate::Result;
use crate::expression::RecordFacts;
use crate::geo::Geometry;
use crate::record::RecordView;

/// Ranges of entries, ascending and disjoint.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct EntryRanges(Vec<EntryRange>);

/// The entries of a query, and the records to show of them.
#[derive(Clone, Debug)]
pub(crate) struct EntrySelection {
    pub(crate) ranges: EntryRanges,
    /// Entries of geometries only narrow the search: the geometries still need comparing.
    pub(crate) geometry: Option<AskedGeometry>,
}

/// The condition on the geometries of a component.
#[derive(Clone, Debug)]
pub(crate) struct AskedGeometry {
    pub(crate) component: usize,
    pub(crate) geometry: Geometry,
}

impl EntryRanges {
    /// Takes ranges that are sorted and disjoint.
    pub(crate) fn new(ranges: Vec<EntryRange>) -> Self {
        Self(ranges)
    }

    /// Returns whether any range holds an entry.
    pub(crate) fn contains(&self, entry: &[u8]) -> bool {
        let behind = self.0.partition_point(|range| range.begins_by(entry));
        let last = behind.checked_sub(1).and_then(|at| self.0.get(at));
        last.is_some_and(|range| range.contains(entry))
    }

    /// Returns the number of entries in the ranges.
    pub(crate) fn count(&self, entries: &OrderedEntries) -> u64 {
        self.0.iter().map(|range| entries.count(range)).sum()
    }

    /// Cuts the ranges to the part after an entry, or before it if the order is descending.
    pub(crate) fn cut(&mut self, entry: &[u8], descending: bool) {
        for range in &mut self.0 {
            // An entry before a range leaves the range unchanged; one after it leaves nothing.
            if !descending && range.begins_by(entry) {
                range.start = Bound::Excluded(entry.into());
            } else if descending && range.ends_from(entry) {
                range.end = Bound::Excluded(entry.into());
            }
        }
        self.0.retain(|range| !range.is_empty());
    }

    /// Appends copies of the first entries to `out`, at most `most`, and keeps the rest for later.
    pub(crate) fn take(
        &mut self,
        entries: &OrderedEntries,
        descending: bool,
        most: usize,
        out: &mut EntryList,
    ) {
        let wanted = out.len() + most;
        while out.len() < wanted {
            let at = if descending {
                self.0.len().wrapping_sub(1)
            } else {
                0
            };
            let Some(range) = self.0.get_mut(at) else {
                return;
            };
            let before = out.len();
            entries.copy(range, descending, wanted - before, out);
            match out.last().filter(|_| out.len() == wanted) {
                None => drop(self.0.remove(at)),
                Some(last) if descending => range.end = Bound::Excluded(last.into()),
                Some(last) => range.start = Bound::Excluded(last.into()),
            }
        }
    }
}

impl From<EntryRange> for EntryRanges {
    fn from(range: EntryRange) -> Self {
        Self(vec![range])
    }
}

impl EntrySelection {
    /// Returns whether all entries of the selection have the same key, in an index with this many
    /// values an entry.
    pub(crate) fn is_one_key(&self, values: usize) -> bool {
        let [range] = &self.ranges.0[..] else {
            return false;
        };
        match &range.start {
            Bound::Included(key) => {
                self.geometry.is_none()
                    && forms_len(key, values) == Some(key.len())
                    && range.end == end_of_prefix(key)
            }
            _ => false,
        }
    }

    /// Returns whether a record with an entry in the ranges passes all remaining conditions; with
    /// `entry`, only a geometry that the ranges first meet at that entry counts.
    pub(crate) fn holds(
        &self,
        reader: &EntryReader,
        record: RecordView<'_>,
        facts: &RecordFacts<'_>,
        entry: Option<&[u8]>,
    ) -> Result<bool> {
        let Some(asked) = &self.geometry else {
            return Ok(true);
        };
        let wanted = (asked.component, &asked.geometry);
        // A geometry with several cells in the ranges is met at the first of them.
        reader.matches(record, facts, wanted, &|cells| {
            entry.is_none_or(|entry| {
                let first = cells.iter().find(|cell| self.ranges.contains(cell));
                first.is_some_and(|cell| entry.starts_with(cell))
            })
        })
    }
}

impl From<EntryRanges> for EntrySelection {
    fn from(ranges: EntryRanges) -> Self {
        Self {
            ranges,
            geometry: None,
        }
    }
}

impl From<EntryRange> for EntrySelection {
    fn from(range: EntryRange) -> Self {
        EntryRanges::from(range).into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn ranges_are_taken_piece_by_piece(
            bounds in prop::collection::btree_set(0_u8..60, 0..12),
            present in prop::collection::btree_set(0_u8..60, 0..60),
            cut in prop::option::of(0_u8..60),
            descending: bool,
            most in 1_usize..7,
        ) {
            let entries = OrderedEntries::new();
            for entry in &present {
                entries.insert(&[*entry]);
            }
            let bounds: Vec<u8> = bounds.into_iter().collect();
            let pairs: Vec<(u8, u8)> = bounds.chunks_exact(2).map(|two| (two[0], two[1])).collect();
            let range = |(first, behind): &(u8, u8)| EntryRange {
                start: Bound::Included(Box::new([*first])),
                end: Bound::Excluded(Box::new([*behind])),
            };
            let mut ranges = EntryRanges::new(pairs.iter().map(range).collect());
            let is_in = |entry: u8| pairs.iter().any(|(first, behind)| (*first..*behind).contains(&entry));
            for entry in 0..60 {
                prop_assert_eq!(ranges.contains(&[entry]), is_in(entry));
            }
            let mut wanted: Vec<u8> = present.iter().copied().filter(|entry| is_in(*entry)).collect();
            prop_assert_eq!(ranges.count(&entries), wanted.len() as u64);
            if let Some(cut) = cut {
                ranges.cut(&[cut], descending);
                wanted.retain(|entry| if descending { *entry < cut } else { *entry > cut });
            }
            if descending {
                wanted.reverse();
            }
            let mut found = EntryList::default();
            loop {
                let before = found.len();
                ranges.take(&entries, descending, most, &mut found);
                prop_assert!(found.len() - before <= most);
                if found.len() == before {
                    break;
                }
            }
            prop_assert_eq!(found.iter().map(|entry| entry[0]).collect::<Vec<_>>(), wanted);
        }
    }
}
