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
struct TruncatedCollection {
    /// The set and key of its root; `None`: there is none, and they are leftovers.
    root: Option<(Box<str>, Box<str>)>,
    goes: bool,
    stays: bool,
}

impl NamespaceCore {
    /// Refuses to truncate a sharded collection in part, and returns whether one goes. Damaged
    /// records do not count. O(records of the sets that have companions); memory for each root.
    ///
    /// # Errors
    /// [`Error::ShardRoot`] with the first such root that is found.
    pub(super) fn check_collections(&self, what: Truncate, before_ms: u64) -> Result<bool> {
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
        let takes_any = collections.values().any(|found| found.goes);
        let is_torn = |found: &TruncatedCollection| found.goes && found.stays;
        let torn = collections.into_values().filter(is_torn);
        match torn.filter_map(|found| found.root).next() {
            Some((set, key)) => Err(Error::ShardRoot {
                set,
                key,
                loses: ShardLoss::Part,
            }),
            None => Ok(takes_any),
        }
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
            found.goes = true;
        } else {
            found.stays = true;
        }
    }
}
