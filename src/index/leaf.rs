//! A leaf of the ordered entries: a few kilobytes of sorted byte strings, their common prefix
//! stored once.

use std::cmp::Ordering;

/// A leaf above this size is split, if it has several entries.
pub(super) const LEAF_BYTES_MAX: usize = 4096;
/// A leaf below this size is joined with a neighbour, if both fit.
pub(super) const LEAF_BYTES_MIN: usize = LEAF_BYTES_MAX / 4;
/// A group of entries that is larger than this is split. Below 64 KiB, since [`Leaf::ends`] are 16
/// bits.
const GROUP_BYTES_MAX: usize = 4 * LEAF_BYTES_MAX;

/// The most bytes that a leaf has.
const ENDS_MAX: usize = u16::MAX as usize;

/// Memory grows in steps of this size: doubling would leave a quarter of it unused.
const GROWTH_BYTES: usize = 512;
const GROWTH_ENTRIES: usize = 16;

/// Entries, sorted and without duplicates.
#[derive(Debug, Default)]
pub(super) struct Leaf {
    /// The common prefix, then the rest of each entry.
    bytes: Vec<u8>,
    /// The end of each entry in `bytes`. `u16` suffices for any two entries, of
    /// [`super::ENTRY_BYTES_MAX`] each.
    ends: Vec<u16>,
    prefix: usize,
}

/// The result of inserting an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Insertion {
    Inserted,
    /// The entry exists already.
    Known,
    /// Nothing was inserted: [`Leaf::ends`] are too small for it. See [`Leaf::make_room`].
    NoRoom,
}

/// Returns how many bytes of an entry name its group: the entries that stand in one leaf.
pub(super) type GroupLen = fn(&[u8]) -> usize;

impl Leaf {
    pub(super) fn len(&self) -> usize {
        self.ends.len()
    }

    /// Returns the bytes of the entries, without room to grow.
    pub(super) fn content_bytes(&self) -> usize {
        self.bytes.len() + size_of_val(self.ends.as_slice())
    }

    /// Returns the memory used.
    pub(super) fn memory_bytes(&self) -> usize {
        size_of::<Self>() + self.bytes.capacity() + self.ends.capacity() * size_of::<u16>()
    }

    /// Whether it should be split, and can be.
    pub(super) fn is_too_long(&self, of_group: GroupLen) -> bool {
        let length = self.content_bytes();
        length > LEAF_BYTES_MAX
            && self.len() > 1
            && (length > GROUP_BYTES_MAX || {
                let (first, last) = (self.entry(0), self.entry(self.len() - 1));
                !is_of_group(&first, &last, of_group)
            })
    }

    fn prefix(&self) -> &[u8] {
        self.bytes.get(..self.prefix).unwrap_or_default()
    }

    fn end(&self, at: usize) -> usize {
        self.ends
            .get(at)
            .map_or(self.bytes.len(), |end| *end as usize)
    }

    fn start(&self, at: usize) -> usize {
        match at.checked_sub(1) {
            Some(before) => self.end(before),
            None => self.prefix,
        }
    }

    fn suffix(&self, at: usize) -> &[u8] {
        self.bytes
            .get(self.start(at)..self.end(at))
            .unwrap_or_default()
    }

    /// Appends an entry to `out`.
    pub(super) fn write(&self, at: usize, out: &mut Vec<u8>) {
        out.extend_from_slice(self.prefix());
        out.extend_from_slice(self.suffix(at));
    }

    fn entry(&self, at: usize) -> Vec<u8> {
        let mut entry = Vec::with_capacity(self.prefix + self.suffix(at).len());
        self.write(at, &mut entry);
        entry
    }

    /// Returns the position of the first entry not below `bytes`, and whether it equals `bytes`.
    pub(super) fn seek(&self, bytes: &[u8]) -> (usize, bool) {
        match bytes.strip_prefix(self.prefix()) {
            Some(suffix) => self.seek_suffix(suffix),
            None if bytes < self.prefix() => (0, false),
            None => (self.len(), false),
        }
    }

    /// Like [`Leaf::seek`], for an entry without the common prefix.
    fn seek_suffix(&self, wanted: &[u8]) -> (usize, bool) {
        let word = wanted.first_chunk().copied().map(u64::from_be_bytes);
        let (mut low, mut high) = (0, self.len());
        while low < high {
            let middle = low.midpoint(high);
            match compare(self.suffix(middle), wanted, word) {
                Ordering::Less => low = middle + 1,
                Ordering::Equal => return (middle, true),
                Ordering::Greater => high = middle,
            }
        }
        (low, false)
    }

    /// Inserts an entry in order.
    pub(super) fn insert(&mut self, entry: &[u8]) -> Insertion {
        if self.ends.is_empty() {
            *self = Self::of([entry].into_iter(), entry.len());
            return Insertion::Inserted;
        }
        // An entry without the common prefix shortens it, which rewrites the leaf once; later
        // entries of this kind fit.
        let Some(suffix) = entry.strip_prefix(self.prefix()) else {
            let common = common_prefix(self.prefix(), entry);
            let bytes = self.entry_bytes() + entry.len();
            if bytes - self.len() * common > ENDS_MAX {
                return Insertion::NoRoom;
            }
            let entries: Vec<Vec<u8>> = (0..self.len()).map(|at| self.entry(at)).collect();
            *self = Self::of(entries.iter().map(Vec::as_slice), common);
            return self.insert(entry);
        };
        let (at, is_there) = self.seek_suffix(suffix);
        if is_there {
            return Insertion::Known;
        }
        if self.bytes.len() + suffix.len() > ENDS_MAX {
            return Insertion::NoRoom;
        }
        let start = self.start(at);
        if self.bytes.capacity() - self.bytes.len() < suffix.len() {
            self.bytes.reserve_exact(suffix.len() + GROWTH_BYTES);
        }
        if self.ends.capacity() == self.ends.len() {
            self.ends.reserve_exact(GROWTH_ENTRIES);
        }
        let (length, gap) = (self.bytes.len(), start + suffix.len());
        self.bytes.resize(length + suffix.len(), 0);
        self.bytes.copy_within(start..length, gap);
        if let Some(place) = self.bytes.get_mut(start..gap) {
            place.copy_from_slice(suffix);
        }
        let added = suffix.len() as u16;
        self.ends.insert(at, start as u16);
        self.ends.iter_mut().skip(at).for_each(|end| *end += added);
        Insertion::Inserted
    }

    /// Returns the bytes of all entries, each with its prefix.
    fn entry_bytes(&self) -> usize {
        self.len() * self.prefix + self.bytes.len() - self.prefix
    }

    /// Returns the bytes of this leaf and the following one together.
    pub(super) fn bytes_with(&self, behind: &Self) -> usize {
        let common = match (self.len(), behind.len().checked_sub(1)) {
            (1.., Some(last)) => common_prefix(&self.entry(0), &behind.entry(last)),
            _ => return self.content_bytes() + behind.content_bytes(),
        };
        let (bytes, count) = (
            self.entry_bytes() + behind.entry_bytes(),
            self.len() + behind.len(),
        );
        bytes - (count - 1) * common + count * size_of::<u16>()
    }

    /// Makes two leaves of this one, so that an entry for which it has no room fits into one of
    /// them. Returns the upper one and its bound. No group is split for an entry below or above all
    /// others.
    pub(super) fn make_room(&mut self, entry: &[u8], of_group: GroupLen) -> (Box<[u8]>, Self) {
        match self.seek(entry).0 {
            0 => (separator(entry, &self.entry(0)), std::mem::take(self)),
            at if at == self.len() => (separator(&self.entry(at - 1), entry), Self::default()),
            _ => self.split(of_group),
        }
    }

    /// Removes an entry. Returns `false` if it does not exist.
    pub(super) fn remove(&mut self, entry: &[u8]) -> bool {
        let (at, is_there) = self.seek(entry);
        if !is_there {
            return false;
        }
        let (start, end) = (self.start(at), self.end(at));
        self.bytes.drain(start..end);
        self.ends.remove(at);
        let removed = (end - start) as u16;
        self.ends
            .iter_mut()
            .skip(at)
            .for_each(|end| *end -= removed);
        true
    }

    /// Keeps the lower half of the bytes. Returns the upper half and its bound: the shortest bytes
    /// above every kept entry and not above any moved one. Needs at least two entries.
    /// Splits no group where there is a border between two.
    pub(super) fn split(&mut self, of_group: GroupLen) -> (Box<[u8]>, Self) {
        let middle_bytes = self.prefix + (self.bytes.len() - self.prefix) / 2;
        let entries: Vec<Vec<u8>> = (0..self.len()).map(|at| self.entry(at)).collect();
        let below = self
            // At least one entry for each half, even if one entry exceeds half of the bytes.
            .ends
            .partition_point(|end| (*end as usize) <= middle_bytes);
        let below = below.clamp(1, entries.len() - 1);
        let is_border = |at: &usize| match entries.get(at - 1..=*at) {
            Some([last, first]) => !is_of_group(last, first, of_group),
            _ => false,
        };
        let borders = (1..entries.len()).filter(is_border);
        let nearest = borders.min_by_key(|at| at.abs_diff(below));
        let (lower, upper) = entries.split_at(nearest.unwrap_or(below));
        let bound = match (lower.last(), upper.first()) {
            (Some(last), Some(first)) => separator(last, first),
            _ => Box::default(),
        };
        let upper = Self::of_sorted(upper);
        *self = Self::of_sorted(lower);
        (bound, upper)
    }

    /// Appends all entries of the following leaf.
    pub(super) fn append(&mut self, behind: &Self) {
        let mut entries: Vec<Vec<u8>> = (0..self.len()).map(|at| self.entry(at)).collect();
        entries.extend((0..behind.len()).map(|at| behind.entry(at)));
        *self = Self::of_sorted(&entries);
    }

    fn of_sorted(entries: &[Vec<u8>]) -> Self {
        let prefix = match (entries.first(), entries.last()) {
            (Some(first), Some(last)) => common_prefix(first, last),
            _ => 0,
        };
        Self::of(entries.iter().map(Vec::as_slice), prefix)
    }

    /// Builds a leaf from sorted entries with a common prefix of `prefix` bytes.
    fn of<'e>(entries: impl Iterator<Item = &'e [u8]> + Clone, prefix: usize) -> Self {
        let suffixes: usize = entries.clone().map(|entry| entry.len() - prefix).sum();
        let count = entries.clone().count();
        let mut leaf = Self {
            bytes: Vec::with_capacity(prefix + suffixes),
            ends: Vec::with_capacity(count),
            prefix,
        };
        for entry in entries {
            let (common, suffix) = entry.split_at(prefix);
            if leaf.ends.is_empty() {
                leaf.bytes.extend_from_slice(common);
            }
            leaf.bytes.extend_from_slice(suffix);
            leaf.ends.push(leaf.bytes.len() as u16);
        }
        leaf
    }
}

/// Compares like slices, without a call if the first eight bytes decide, as they usually do. `word`
/// is the first eight bytes of `wanted`, if it has eight.
#[inline]
fn compare(known: &[u8], wanted: &[u8], word: Option<u64>) -> Ordering {
    if let (Some(first), Some(word)) = (known.first_chunk().copied(), word) {
        let first = u64::from_be_bytes(first);
        if first != word {
            return first.cmp(&word);
        }
    }
    known.cmp(wanted)
}

/// Whether two entries are of one group.
fn is_of_group(one: &[u8], other: &[u8], of_group: GroupLen) -> bool {
    one.get(..of_group(one)) == other.get(..of_group(other))
}

/// Returns the shortest bytes above one entry and not above the next one. A short bound fits inline
/// in the directory, and compares faster than a whole entry.
fn separator(last: &[u8], first: &[u8]) -> Box<[u8]> {
    let common = common_prefix(last, first);
    first.get(..=common).unwrap_or(first).into()
}

/// Returns the length of two entries' common prefix.
fn common_prefix(one: &[u8], other: &[u8]) -> usize {
    one.iter()
        .zip(other)
        .take_while(|(one, other)| one == other)
        .count()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    fn entries_of(leaf: &Leaf) -> Vec<Vec<u8>> {
        (0..leaf.len()).map(|at| leaf.entry(at)).collect()
    }

    proptest! {
        #[test]
        fn entries_are_compared_as_their_bytes(
            common in prop::collection::vec(any::<u8>(), 0..12),
            rests in [prop::collection::vec(0_u8..3, 0..12), prop::collection::vec(0_u8..3, 0..12)],
        ) {
            let [one, other] = rests.map(|rest| [&*common, &rest].concat());
            let word = other.first_chunk().copied().map(u64::from_be_bytes);
            prop_assert_eq!(compare(&one, &other, word), one.cmp(&other));
        }

        #[test]
        fn a_leaf_is_a_set_in_order(
            edits in prop::collection::vec((any::<bool>(), prop::collection::vec(0_u8..3, 0..6)), 0..120),
            probe in prop::collection::vec(0_u8..3, 0..6),
        ) {
            let (mut leaf, mut model) = (Leaf::default(), BTreeSet::new());
            for (inserts, entry) in edits {
                if inserts {
                    let inserted = leaf.insert(&entry) == Insertion::Inserted;
                    prop_assert_eq!(inserted, model.insert(entry));
                } else {
                    prop_assert_eq!(leaf.remove(&entry), model.remove(&entry));
                }
                prop_assert_eq!(entries_of(&leaf), model.iter().cloned().collect::<Vec<_>>());
            }
            let below = model.range(..probe.clone()).count();
            prop_assert_eq!(leaf.seek(&probe), (below, model.contains(&probe)));
            if leaf.len() > 1 {
                let (separator, upper) = leaf.split(<[u8]>::len);
                let (lower, upper_entries) = (entries_of(&leaf), entries_of(&upper));
                prop_assert!(lower.last().unwrap()[..] < separator[..]);
                prop_assert!(separator[..] <= upper_entries[0][..]);
                leaf.append(&upper);
                prop_assert_eq!(entries_of(&leaf), model.into_iter().collect::<Vec<_>>());
            }
        }
    }
}
