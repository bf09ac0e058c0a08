//! The directory of leaves: finds the leaf of an entry. Two levels of arrays: a search in a few
//! adjacent kilobytes waits for memory two or three times, a search down a tree a dozen times.

use crate::sync::RwLock;

use super::leaf::Leaf;

/// A group that reaches this many leaves is split.
const GROUP_LEAVES_MAX: usize = 256;

/// Bounds up to this length are stored inline, which saves memory and a cache miss a comparison.
const INLINE_BYTES: usize = 38;

/// The lowest entry that a leaf may hold.
#[derive(Debug)]
enum LeafBound {
    Inline(u8, [u8; INLINE_BYTES]),
    Heap(Box<[u8]>),
}

/// Consecutive leaves and their bounds.
#[derive(Debug)]
struct LeafGroup {
    bounds: Vec<LeafBound>,
    leaves: Vec<RwLock<Leaf>>,
}

/// All leaves in order. There is always one; the bound of the first is empty.
#[derive(Debug)]
pub(super) struct LeafDirectory {
    groups: Vec<LeafGroup>,
}

/// The position of a leaf in the directory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct LeafPlace {
    group: usize,
    leaf: usize,
}

impl LeafBound {
    fn new(bytes: &[u8]) -> Self {
        let mut inline = [0; INLINE_BYTES];
        match inline.get_mut(..bytes.len()) {
            Some(front) => {
                front.copy_from_slice(bytes);
                Self::Inline(bytes.len() as u8, inline)
            }
            None => Self::Heap(bytes.into()),
        }
    }

    #[inline]
    fn as_bytes(&self) -> &[u8] {
        match self {
            // The length never exceeds the array.
            Self::Inline(length, bytes) => bytes.get(..usize::from(*length)).unwrap_or(bytes),
            Self::Heap(bytes) => bytes,
        }
    }

    /// Returns whether the bound is at or below an entry, so the leaf may hold the entry. Bounds
    /// share long prefixes, for which a call of `memcmp` costs more than this comparison.
    #[inline]
    fn is_at_most(&self, entry: &[u8]) -> bool {
        if let Self::Inline(_, bytes) = self {
            let (words, _) = bytes.as_chunks::<8>();
            let (entry_words, _) = entry.as_chunks::<8>();
            for (word, of_entry) in words.iter().zip(entry_words) {
                // The zeros padding a bound that ends here compare at or below the entry's bytes.
                if word != of_entry {
                    return u64::from_be_bytes(*word) < u64::from_be_bytes(*of_entry);
                }
            }
        }
        self.as_bytes() <= entry
    }

    fn memory_bytes(&self) -> usize {
        let heap = match self {
            Self::Inline(..) => 0,
            Self::Heap(bytes) => bytes.len(),
        };
        size_of::<Self>() + heap
    }
}

impl LeafGroup {
    /// Returns the last leaf that may hold an entry.
    fn leaf_of(&self, entry: &[u8]) -> usize {
        let behind = self.bounds.partition_point(|bound| bound.is_at_most(entry));
        behind.saturating_sub(1)
    }

    /// Returns whether the group's first leaf may hold an entry, or a later one.
    fn begins_by(&self, entry: &[u8]) -> bool {
        let first = self.bounds.first();
        first.is_none_or(|bound| bound.is_at_most(entry))
    }
}

impl LeafDirectory {
    pub(super) fn new() -> Self {
        let first = LeafGroup {
            bounds: vec![LeafBound::new(&[])],
            leaves: vec![RwLock::default()],
        };
        Self {
            groups: vec![first],
        }
    }

    /// Returns the memory of another leaf with this bound.
    pub(super) fn memory_bytes(bound: &[u8]) -> usize {
        // Each leaf also has a lock.
        LeafBound::new(bound).memory_bytes() + size_of::<RwLock<()>>()
    }

    /// Returns the place of the leaf that holds an entry, or would hold it.
    pub(super) fn place_of(&self, entry: &[u8]) -> LeafPlace {
        let behind = self.groups.partition_point(|group| group.begins_by(entry));
        let group = behind.saturating_sub(1);
        let leaf = self
            .groups
            .get(group)
            .map_or(0, |group| group.leaf_of(entry));
        LeafPlace { group, leaf }
    }

    pub(super) const fn first(&self) -> LeafPlace {
        LeafPlace { group: 0, leaf: 0 }
    }

    pub(super) fn last(&self) -> LeafPlace {
        let group = self.groups.len() - 1;
        let leaf = self.groups.last().map_or(0, |group| group.leaves.len() - 1);
        LeafPlace { group, leaf }
    }

    pub(super) fn leaf(&self, place: LeafPlace) -> Option<&RwLock<Leaf>> {
        self.groups.get(place.group)?.leaves.get(place.leaf)
    }

    pub(super) fn bound(&self, place: LeafPlace) -> &[u8] {
        let group = self.groups.get(place.group);
        let bound = group.and_then(|group| group.bounds.get(place.leaf));
        bound.map_or(&[], LeafBound::as_bytes)
    }

    pub(super) fn next(&self, place: LeafPlace) -> Option<LeafPlace> {
        let LeafPlace { group, leaf } = place;
        let next = LeafPlace {
            group,
            leaf: leaf + 1,
        };
        if self.leaf(next).is_some() {
            return Some(next);
        }
        let next = LeafPlace {
            group: group + 1,
            leaf: 0,
        };
        self.leaf(next).map(|_| next)
    }

    pub(super) fn previous(&self, place: LeafPlace) -> Option<LeafPlace> {
        let LeafPlace { group, leaf } = place;
        if let Some(leaf) = leaf.checked_sub(1) {
            return Some(LeafPlace { group, leaf });
        }
        let group = group.checked_sub(1)?;
        let leaf = self.groups.get(group)?.leaves.len() - 1;
        Some(LeafPlace { group, leaf })
    }

    /// Inserts a leaf after the one at `place`.
    pub(super) fn insert_behind(&mut self, place: LeafPlace, bound: &[u8], leaf: Leaf) {
        let Some(group) = self.groups.get_mut(place.group) else {
            return;
        };
        group.bounds.insert(place.leaf + 1, LeafBound::new(bound));
        group.leaves.insert(place.leaf + 1, RwLock::new(leaf));
        if group.leaves.len() >= GROUP_LEAVES_MAX {
            let half = group.leaves.len() / 2;
            let upper = LeafGroup {
                bounds: group.bounds.split_off(half),
                leaves: group.leaves.split_off(half),
            };
            self.groups.insert(place.group + 1, upper);
        }
    }

    /// Removes a leaf, which must not be the first.
    pub(super) fn remove(&mut self, place: LeafPlace) -> Option<Leaf> {
        if place == self.first() {
            return None;
        }
        let group = self.groups.get_mut(place.group)?;
        if place.leaf >= group.leaves.len() {
            return None;
        }
        group.bounds.remove(place.leaf);
        let leaf = group.leaves.remove(place.leaf);
        if group.leaves.is_empty() {
            self.groups.remove(place.group);
        }
        Some(leaf.into_inner())
    }

    /// Returns the number of leaves.
    pub(super) fn len(&self) -> usize {
        self.groups.iter().map(|group| group.leaves.len()).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn bytes() -> impl Strategy<Value = Vec<u8>> {
        // Zeros, which also pad bounds, and long common prefixes.
        (0_usize..50, prop::collection::vec(0_u8..3, 0..12))
            .prop_map(|(common, rest)| [&vec![0; common], &*rest].concat())
    }

    proptest! {
        #[test]
        fn bounds_are_compared_as_their_bytes(bound in bytes(), entry in bytes()) {
            prop_assert_eq!(LeafBound::new(&bound).is_at_most(&entry), bound <= entry);
        }
    }
}
