//! The check that a truncation by time tears no sharded collection: each of its records has a last
//! update of its own.

use std::collections::HashMap;
use std::ops::ControlFlow;

use spikelet_storage::{Digest, EntryView, PARTITIONS, Truncate};

use super::core::{NamespaceCore, expired, key_of};
use crate::error::ShardLoss;
use crate::record::{RecordView, ShardRole, named_root};
use crate::{Error, Result};

/// The effect of a truncation on the records of a collection.
#[derive(Default)]
pub(super) struct TruncatedCollection {
    /// The set and key of its root; `None`: there is none, and they are leftovers.
    root: Option<(Box<str>, Box<str>)>,
    /// The records that go.
    going: Vec<Digest>,
    stays: bool,
}

impl TruncatedCollection {
    /// # Errors
    /// [`Error::ShardRoot`]: a part of the collection stays.
    fn torn(&self) -> Result<()> {
        match &self.root {
            Some((set, key)) => Err(Error::ShardRoot {
                set: set.clone(),
                key: key.clone(),
                loses: ShardLoss::Part,
            }),
            None => Ok(()),
        }
    }
}

impl NamespaceCore {
    /// Returns the sharded collections that a truncation takes, and refuses one that takes a part
    /// of one. Damaged records do not count. O(records of the sets that have companions); memory
    /// for each of these records.
    ///
    /// # Errors
    /// [`Error::ShardRoot`] with the first such root that is found.
    pub(super) fn going_collections(
        &self,
        what: Truncate,
        before_ms: u64,
    ) -> Result<Vec<TruncatedCollection>> {
        let is_wanted = |id| {
            let is_truncated = match what {
                Truncate::Namespace => true,
                Truncate::Set(set_id) => set_id == id,
            };
            is_truncated && self.companion_sets.contains(id)
        };
        let mut collections = HashMap::new();
        let now_ms = self.clock.now_ms();
        for partition in 0..PARTITIONS {
            let _ = self.storage.scan_sets(partition, is_wanted, |entry| {
                if let Ok(entry) = entry
                    && !expired(&entry, now_ms)
                {
                    self.note_truncated(&entry, before_ms, &mut collections);
                }
                ControlFlow::<()>::Continue(())
            });
        }
        let goes = |found: &TruncatedCollection| !found.going.is_empty();
        let going: Vec<_> = collections.into_values().filter(goes).collect();
        let mut torn = going.iter().filter(|found| found.stays);
        torn.try_for_each(TruncatedCollection::torn)?;
        Ok(going)
    }

    /// Refuses to take these collections if one has been written to since the look at them. Every
    /// change of its records writes one of those that there were. O(records).
    ///
    /// # Errors
    /// [`Error::ShardRoot`] with the first such root that is found.
    pub(super) fn check_going(&self, going: &[TruncatedCollection], before_ms: u64) -> Result<()> {
        let stays = |digest: &Digest| {
            let written = |entry: EntryView<'_>| entry.last_update_ms() >= before_ms;
            let read = self.storage.get(digest, written);
            matches!(read, Ok(Some(true)))
        };
        let mut torn = going.iter().filter(|found| found.going.iter().any(stays));
        torn.try_for_each(TruncatedCollection::torn)
    }

    /// Notes a root or companion at the digest of its root.
    fn note_truncated(
        &self,
        entry: &EntryView<'_>,
        before_ms: u64,
        collections: &mut HashMap<Digest, TruncatedCollection>,
    ) {
        let set = self.storage.set_name(entry.set_id()).unwrap_or_default();
        let found = match ShardRole::of(entry.payload()) {
            ShardRole::None => return,
            ShardRole::Companion => {
                let record = RecordView::parse(entry.payload()).ok();
                let named = record.and_then(|record| named_root(self.key_hash, &set, record));
                let Some((_, root)) = named else {
                    return;
                };
                collections.entry(root).or_default()
            }
            ShardRole::Root => {
                let found = collections.entry(entry.digest()).or_default();
                let key = key_of(entry).map(|key| key.bare());
                let key = key.unwrap_or_else(|| entry.digest().to_string());
                found.root = Some((set.into(), key.into()));
                found
            }
        };
        if entry.last_update_ms() < before_ms {
            found.going.push(entry.digest());
        } else {
            found.stays = true;
        }
    }
}
