//! The sets that have, or had, records with shards of collections: scans, counts and queries pass
//! over such records. The catalog says so before the first such record of a set is published.

use std::sync::atomic::{AtomicU64, Ordering};

use spikelet_storage::EntryView;

use crate::record::ShardRole;

/// One bit for each number that a set can have: 4,095 sets, and none.
const WORDS: usize = 64;

/// A bit for each set.
#[derive(Debug)]
pub(super) struct SetBits([AtomicU64; WORDS]);

impl SetBits {
    pub(super) fn new(set_ids: impl Iterator<Item = u16>) -> Self {
        let sets = Self([const { AtomicU64::new(0) }; WORDS]);
        set_ids.for_each(|id| sets.add(id));
        sets
    }

    #[inline]
    pub(super) fn contains(&self, set_id: u16) -> bool {
        let word = self.0.get(usize::from(set_id) / 64);
        word.is_some_and(|word| word.load(Ordering::Acquire) >> (set_id % 64) & 1 == 1)
    }

    pub(super) fn clear(&self) {
        self.0
            .iter()
            .for_each(|word| word.store(0, Ordering::Release));
    }

    pub(super) fn add(&self, set_id: u16) {
        if let Some(word) = self.0.get(usize::from(set_id) / 64) {
            word.fetch_or(1 << (set_id % 64), Ordering::AcqRel);
        }
    }
}

impl Default for SetBits {
    fn default() -> Self {
        Self::new(std::iter::empty())
    }
}

/// Whether a record holds a shard of a collection.
pub(super) fn is_companion(entry: &EntryView<'_>) -> bool {
    ShardRole::of(entry.payload()) == ShardRole::Companion
}
