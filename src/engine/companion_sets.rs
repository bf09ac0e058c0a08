//! Which sets have, or had, records that hold shards of collections: scans, counts and queries pass over those. The catalog says so before
//! the first such record of a set is published.

use std::sync::atomic::{AtomicU64, Ordering};

use spikelet_storage::{Change, EntryView};

use super::core::Core;
use crate::Result;
use crate::record::ShardRole;

/// One bit for each number that a set can have: 4,095 sets, and none.
const WORDS: usize = 64;

/// A bit for each set.
#[derive(Debug)]
pub(super) struct CompanionSets([AtomicU64; WORDS]);

impl CompanionSets {
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

    fn add(&self, set_id: u16) {
        if let Some(word) = self.0.get(usize::from(set_id) / 64) {
            word.fetch_or(1 << (set_id % 64), Ordering::AcqRel);
        }
    }
}

/// Whether a record holds a shard of a collection.
pub(super) fn is_companion(entry: &EntryView<'_>) -> bool {
    ShardRole::of(entry.payload()) == ShardRole::Companion
}

impl Core {
    /// Notes that a set has companions, before one is published. One look at the names of the new version's bins.
    #[inline]
    pub(super) fn note_companion(&self, change: &Change<'_>) -> Result<()> {
        match change {
            Change::Put(version)
                if ShardRole::of(version.payload) == ShardRole::Companion
                    && !self.companion_sets.contains(version.set_id) =>
            {
                self.note_companion_set(version.set_id)
            }
            _ => Ok(()),
        }
    }

    #[cold]
    fn note_companion_set(&self, set_id: u16) -> Result<()> {
        let name: Box<str> = self.storage.set_name(set_id).unwrap_or_default().into();
        self.change_catalog(|catalog| {
            if !catalog.companions.contains(&name) {
                catalog.companions.push(name);
            }
            Ok(())
        })?;
        self.companion_sets.add(set_id);
        Ok(())
    }

    /// How many records of a set hold shards. O(records of the set), where the set has ever had any; else O(1).
    pub(super) fn count_companions(&self, set_id: u16) -> u64 {
        if !self.companion_sets.contains(set_id) {
            return 0;
        }
        let mut count = 0;
        for partition in 0..spikelet_storage::PARTITIONS {
            let is_wanted = |id| id == set_id;
            let _ = self.storage.scan_sets(partition, is_wanted, |entry| {
                count += u64::from(entry.is_ok_and(|entry| is_companion(&entry)));
                std::ops::ControlFlow::<()>::Continue(())
            });
        }
        count
    }
}
