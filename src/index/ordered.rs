//! Sorted byte strings for many threads: a directory of leaves, each with its own lock.
//!
//! A thread holds the directory's lock for reading while it reads or edits a leaf. Only splitting
//! and joining leaves takes it for writing, once in some fifty edits. No lock is held while a
//! record is read.

use std::ops::Bound;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering::Relaxed};

use crate::sync::RwLock;

use super::directory::LeafDirectory;
use super::guards::{GUARDS, IndexRule};
use super::leaf::{GroupLen, Insertion, LEAF_BYTES_MAX, LEAF_BYTES_MIN, Leaf};

/// The most leaves read to count different keys.
const SAMPLED_LEAVES: usize = 1024;

/// Most entries are at most this long: 40 bytes of keys, and the digest.
const USUAL_BYTES: usize = 64;

/// Entries, sorted and without duplicates.
#[derive(Debug)]
pub(crate) struct OrderedEntries {
    leaves: RwLock<LeafDirectory>,
    of_group: GroupLen,
    entries: AtomicU64,
    memory_bytes: AtomicI64,
}

/// A range of entries, between two bounds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct EntryRange {
    pub(crate) start: Bound<Box<[u8]>>,
    pub(crate) end: Bound<Box<[u8]>>,
}

/// Copies of entries, concatenated. Most records have one entry in an index, which takes a single
/// allocation.
#[derive(Clone, Debug, Default)]
pub(crate) struct EntryList {
    bytes: Vec<u8>,
    /// The start of each entry but the first.
    starts: Vec<usize>,
    /// Set if there is a first entry.
    has_any: bool,
}

impl EntryRange {
    /// Returns the range of all entries with a prefix.
    pub(crate) fn with_prefix(prefix: &[u8]) -> Self {
        Self {
            start: Bound::Included(prefix.into()),
            end: end_of_prefix(prefix),
        }
    }

    /// Returns whether an entry is in the range.
    pub(crate) fn contains(&self, entry: &[u8]) -> bool {
        self.begins_by(entry) && self.ends_from(entry)
    }

    /// Returns whether an entry is not before the range.
    pub(super) fn begins_by(&self, entry: &[u8]) -> bool {
        match &self.start {
            Bound::Included(start) => **start <= *entry,
            Bound::Excluded(start) => **start < *entry,
            Bound::Unbounded => true,
        }
    }

    /// Returns whether an entry is not behind the range.
    pub(super) fn ends_from(&self, entry: &[u8]) -> bool {
        match &self.end {
            Bound::Included(end) => *entry <= **end,
            Bound::Excluded(end) => *entry < **end,
            Bound::Unbounded => true,
        }
    }

    /// Returns whether the range can hold no entry.
    pub(crate) fn is_empty(&self) -> bool {
        match (&self.start, &self.end) {
            (Bound::Unbounded, _) | (_, Bound::Unbounded) => false,
            (Bound::Included(start), Bound::Included(end)) => start > end,
            (
                Bound::Included(start) | Bound::Excluded(start),
                Bound::Included(end) | Bound::Excluded(end),
            ) => start >= end,
        }
    }
}

/// Returns the bound after all entries with a prefix.
pub(crate) fn end_of_prefix(prefix: &[u8]) -> Bound<Box<[u8]>> {
    let mut end = prefix.to_vec();
    while let Some(last) = end.pop() {
        if let Some(next) = last.checked_add(1) {
            end.push(next);
            return Bound::Excluded(end.into());
        }
    }
    Bound::Unbounded
}

impl EntryList {
    /// Makes a list with room for one entry of usual length.
    pub(crate) fn for_one() -> Self {
        Self {
            bytes: Vec::with_capacity(USUAL_BYTES),
            ..Self::default()
        }
    }

    pub(crate) fn clear(&mut self) {
        self.bytes.clear();
        self.starts.clear();
        self.has_any = false;
    }

    pub(crate) fn len(&self) -> usize {
        self.starts.len() + usize::from(self.has_any)
    }

    pub(crate) fn is_empty(&self) -> bool {
        !self.has_any
    }

    pub(crate) fn get(&self, at: usize) -> Option<&[u8]> {
        let start = match at.checked_sub(1) {
            None if !self.has_any => return None,
            None => 0,
            Some(before) => *self.starts.get(before)?,
        };
        let end = self.starts.get(at).copied();
        self.bytes.get(start..end.unwrap_or(self.bytes.len()))
    }

    pub(crate) fn last(&self) -> Option<&[u8]> {
        self.get(self.len().checked_sub(1)?)
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &[u8]> {
        (0..self.len()).filter_map(|at| self.get(at))
    }

    /// Appends a copy of an entry.
    pub(crate) fn push(&mut self, entry: &[u8]) {
        self.push_with(|bytes| bytes.extend_from_slice(entry));
    }

    /// Appends an entry that `write` produces.
    pub(crate) fn push_with(&mut self, write: impl FnOnce(&mut Vec<u8>)) {
        self.push_if(|bytes| {
            write(bytes);
            true
        });
    }

    /// Like [`EntryList::push_with`]; drops the entry again if `write` returns `false`.
    pub(crate) fn push_if(&mut self, write: impl FnOnce(&mut Vec<u8>) -> bool) {
        let start = self.bytes.len();
        if !write(&mut self.bytes) {
            self.bytes.truncate(start);
        } else if self.has_any {
            self.starts.push(start);
        } else {
            self.has_any = true;
        }
    }

    /// Returns the entries only in `one` and the entries only in `other`. Both lists are sorted.
    pub(crate) fn differences(one: Self, other: Self) -> (Self, Self) {
        let is_disjoint = match (one.last(), other.last()) {
            (None, _) | (_, None) => true,
            (Some(only), Some(other_only)) => {
                one.len() == 1 && other.len() == 1 && only != other_only
            }
        };
        if is_disjoint {
            (one, other)
        } else {
            let (mut only, mut other_only) = (Self::default(), Self::default());
            one.without(&other).for_each(|entry| only.push(entry));
            other.without(&one).for_each(|entry| other_only.push(entry));
            (only, other_only)
        }
    }

    /// Returns the entries that `other` has not. Both lists are sorted.
    pub(crate) fn without<'e>(&'e self, other: &'e Self) -> impl Iterator<Item = &'e [u8]> {
        let mut others = other.iter().peekable();
        self.iter().filter(move |entry| {
            while others.next_if(|other| other < entry).is_some() {}
            others.peek() != Some(entry)
        })
    }

    pub(crate) fn contains(&self, entry: &[u8]) -> bool {
        self.iter().any(|known| known == entry)
    }
}

impl OrderedEntries {
    pub(crate) fn new() -> Self {
        Self::in_groups(<[u8]>::len)
    }

    /// Entries of which those with the same beginning are in one leaf, so that a reader sees all of
    /// a group at one moment. A group of some hundred entries and more may be split. `of_group`
    /// returns the length of the beginning.
    pub(crate) fn in_groups(of_group: GroupLen) -> Self {
        Self {
            leaves: RwLock::new(LeafDirectory::new()),
            of_group,
            entries: AtomicU64::new(0),
            memory_bytes: AtomicI64::new(0),
        }
    }

    /// Returns the number of entries. Exact while there are no writes.
    pub(crate) fn len(&self) -> u64 {
        self.entries.load(Relaxed)
    }

    /// Returns the memory used in bytes, without the allocator's overhead.
    pub(crate) fn memory_bytes(&self) -> u64 {
        u64::try_from(self.memory_bytes.load(Relaxed)).unwrap_or(0)
    }

    /// Adds an entry. Returns `false` if it exists already.
    pub(crate) fn insert(&self, entry: &[u8]) -> bool {
        let (inserted, is_too_long) = loop {
            // The directory's lock is held until the leaf is edited: a split in between would move
            // the entry's place to another leaf.
            let mut leaves = self.leaves.read();
            let place = leaves.place_of(entry);
            if !GUARDS.keep(IndexRule::OneDirectoryLock) {
                drop(leaves);
                leaves = self.leaves.read();
            }
            let Some(leaf) = leaves.leaf(place) else {
                return false;
            };
            let mut leaf = leaf.write();
            let before = leaf.memory_bytes();
            let insertion = leaf.insert(entry);
            if insertion == Insertion::NoRoom {
                drop(leaf);
                drop(leaves);
                let of_group = self.group_len();
                self.divide(entry, |_| true, |leaf| leaf.make_room(entry, of_group));
                continue;
            }
            self.count_memory(before, leaf.memory_bytes());
            let is_too_long = leaf.is_too_long(self.group_len());
            break (insertion == Insertion::Inserted, is_too_long);
        };
        if inserted {
            self.entries.fetch_add(1, Relaxed);
        }
        // Splitting needs the directory's lock for writing, so it happens after both locks are
        // released. Until then the leaf is merely large.
        if is_too_long {
            self.split(entry);
        }
        inserted
    }

    /// Removes an entry. Returns `false` if it does not exist.
    pub(crate) fn remove(&self, entry: &[u8]) -> bool {
        let is_too_short = {
            let leaves = self.leaves.read();
            let Some(leaf) = leaves.leaf(leaves.place_of(entry)) else {
                return false;
            };
            let mut leaf = leaf.write();
            let before = leaf.content_bytes();
            if !leaf.remove(entry) {
                return false;
            }
            // Only on crossing the limit: a small leaf between full ones would retry at each
            // removal.
            leaf.len() == 0 || before >= LEAF_BYTES_MIN && leaf.content_bytes() < LEAF_BYTES_MIN
        };
        self.entries.fetch_sub(1, Relaxed);
        if is_too_short {
            self.join(entry);
        }
        true
    }

    fn group_len(&self) -> GroupLen {
        if GUARDS.keep(IndexRule::GroupsInOneLeaf) {
            self.of_group
        } else {
            <[u8]>::len
        }
    }

    fn count_memory(&self, before: usize, after: usize) {
        if before != after {
            let change = after as i64 - before as i64;
            self.memory_bytes.fetch_add(change, Relaxed);
        }
    }

    fn split(&self, entry: &[u8]) {
        let of_group = self.group_len();
        // Another thread may have split the leaf meanwhile.
        let is_too_long = |leaf: &Leaf| leaf.is_too_long(of_group);
        self.divide(entry, is_too_long, |leaf| leaf.split(of_group));
    }

    /// Makes two leaves of the one of an entry, if it should be.
    fn divide(
        &self,
        entry: &[u8],
        should_be: impl FnOnce(&Leaf) -> bool,
        divide: impl FnOnce(&mut Leaf) -> (Box<[u8]>, Leaf),
    ) {
        let mut leaves = self.leaves.write();
        let place = leaves.place_of(entry);
        let (bound, upper) = {
            let Some(leaf) = leaves.leaf(place) else {
                return;
            };
            let mut leaf = leaf.write();
            if !should_be(&leaf) {
                return;
            }
            let before = leaf.memory_bytes();
            let (bound, upper) = divide(&mut leaf);
            let after = leaf.memory_bytes() + upper.memory_bytes();
            self.count_memory(before, after + LeafDirectory::memory_bytes(&bound));
            (bound, upper)
        };
        leaves.insert_behind(place, &bound, upper);
    }

    /// Joins the leaf of an entry with the next one, or removes it if it is empty.
    fn join(&self, entry: &[u8]) {
        let mut leaves = self.leaves.write();
        let place = leaves.place_of(entry);
        let Some(leaf) = leaves.leaf(place) else {
            return;
        };
        // The first leaf stays: its bound is empty, so that every entry has a leaf.
        let taken_away = if leaf.read().len() == 0 && place != leaves.first() {
            place
        } else {
            let Some((next_place, next)) = leaves
                .next(place)
                .and_then(|next| Some((next, leaves.leaf(next)?)))
            else {
                return;
            };
            let (mut leaf, next) = (leaf.write(), next.read());
            // Leaves room, or the next entry would split the leaf again.
            if leaf.bytes_with(&next) > LEAF_BYTES_MAX * 3 / 4 {
                return;
            }
            let before = leaf.memory_bytes();
            leaf.append(&next);
            self.count_memory(before, leaf.memory_bytes());
            next_place
        };
        let directory_bytes = LeafDirectory::memory_bytes(leaves.bound(taken_away));
        if let Some(gone) = leaves.remove(taken_away) {
            self.count_memory(gone.memory_bytes() + directory_bytes, 0);
        }
    }

    /// Appends copies of the first entries of a range to `out`, at most `most`, in order or from
    /// the end.
    pub(crate) fn copy(
        &self,
        range: &EntryRange,
        descending: bool,
        most: usize,
        out: &mut EntryList,
    ) {
        let mut left = most;
        self.visit(range, descending, |leaf, first, behind| {
            let wanted = left.min(behind - first);
            left -= wanted;
            let mut copy = |at| out.push_with(|bytes| leaf.write(at, bytes));
            if descending {
                (behind - wanted..behind).rev().for_each(&mut copy);
            } else {
                (first..first + wanted).for_each(&mut copy);
            }
            left > 0
        });
    }

    /// Returns how many different keys the entries have; `key_len` returns how many bytes of an
    /// entry are its key. Exact up to [`SAMPLED_LEAVES`] leaves, some 2 MiB, without writes
    /// meanwhile. Beyond that every other leaf is read, or every third and so on, and the pairs of
    /// neighbours in those show how often the key changes: an estimate, at most the number of
    /// entries.
    pub(crate) fn distinct_keys(&self, key_len: impl Fn(&[u8]) -> usize) -> u64 {
        let step = self.leaves.read().len().div_ceil(SAMPLED_LEAVES).max(1);
        self.distinct_keys_in(step, key_len)
    }

    /// Counts in every `step`-th leaf.
    fn distinct_keys_in(&self, step: usize, key_len: impl Fn(&[u8]) -> usize) -> u64 {
        let (mut pairs, mut changes, mut met, mut has_last) = (0_u64, 0_u64, 0, false);
        let (mut last, mut entry) = (Vec::new(), Vec::new());
        self.visit(
            &EntryRange::with_prefix(&[]),
            false,
            |leaf, first, behind| {
                met += 1;
                if met % step != 0 {
                    return true;
                }
                // The next leaf is skipped, so the pair across the border is unknown.
                has_last &= step == 1;
                for at in first..behind {
                    std::mem::swap(&mut last, &mut entry);
                    entry.clear();
                    leaf.write(at, &mut entry);
                    entry.truncate(key_len(&entry));
                    pairs += u64::from(has_last);
                    changes += u64::from(has_last && last != entry);
                    has_last = true;
                }
                true
            },
        );
        match self.len() {
            0 => 0,
            // Every pair was read, so the count is exact.
            _ if step == 1 => 1 + changes,
            entries if pairs == 0 => entries,
            entries => {
                let changes = u128::from(entries - 1) * u128::from(changes);
                let pairs = u128::from(pairs);
                1 + ((changes + pairs / 2) / pairs) as u64
            }
        }
    }

    /// Counts the entries in a range. Reads each leaf that the range touches, some fifty entries
    /// each.
    pub(crate) fn count(&self, range: &EntryRange) -> u64 {
        let mut count = 0;
        self.visit(range, false, |_, first, behind| {
            count += (behind - first) as u64;
            true
        });
        count
    }

    /// Passes each leaf that a range touches to `visit`, with the positions of the range's entries
    /// in it, in order or from the end, until `visit` returns `false`.
    fn visit(
        &self,
        range: &EntryRange,
        descending: bool,
        mut visit: impl FnMut(&Leaf, usize, usize) -> bool,
    ) {
        if range.is_empty() {
            return;
        }
        let leaves = self.leaves.read();
        let place_of = |bound: &Bound<Box<[u8]>>| match bound {
            Bound::Included(entry) | Bound::Excluded(entry) => Some(leaves.place_of(entry)),
            Bound::Unbounded => None,
        };
        let first = place_of(&range.start).unwrap_or(leaves.first());
        let last = place_of(&range.end).unwrap_or(leaves.last());
        let (mut place, end) = if descending {
            (last, first)
        } else {
            (first, last)
        };
        // One lock on the directory for the whole range keeps leaves from moving under the walk;
        // leaves are locked one at a time.
        while let Some(leaf) = leaves.leaf(place) {
            let goes_on = {
                let leaf = leaf.read();
                let (first, behind) = positions(&leaf, range);
                visit(&leaf, first, behind)
            };
            let next = if descending {
                leaves.previous(place)
            } else {
                leaves.next(place)
            };
            match next {
                Some(next) if goes_on && place != end => place = next,
                _ => return,
            }
        }
    }
}

/// Returns the positions in a leaf where a range begins and ends.
fn positions(leaf: &Leaf, range: &EntryRange) -> (usize, usize) {
    let behind_of = |entry: &[u8]| {
        let (at, is_there) = leaf.seek(entry);
        at + usize::from(is_there)
    };
    let first = match &range.start {
        Bound::Included(start) => leaf.seek(start).0,
        Bound::Excluded(start) => behind_of(start),
        Bound::Unbounded => 0,
    };
    let behind = match &range.end {
        Bound::Excluded(end) => leaf.seek(end).0,
        Bound::Included(end) => behind_of(end),
        Bound::Unbounded => leaf.len(),
    };
    (first, behind.max(first))
}

#[cfg(test)]
mod tests;
