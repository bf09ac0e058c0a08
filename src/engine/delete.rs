//! The path of a delete: lock, look at the record, check as a write does
//! (semantics.md#order-of-checks), put the tombstone, unlock.

use spikelet_storage::{Attempt, Change, EntryView, Lsn};

use super::core::{NamespaceCore, expired, metadata_of};
use super::policy::{GenerationPolicy, WritePolicy};
use super::refusals::check_key;
use super::write::{WriteRefusal, WriteTarget};
use crate::Error;
use crate::error::ShardLoss;
use crate::record::ShardRole;

/// A deletion that nothing refuses.
#[derive(Debug)]
pub(super) struct JudgedDeletion {
    /// Whether a root loses the description of its shards.
    pub(super) loses_shards: bool,
    /// The damage of a record that is deleted unseen.
    damage: Option<spikelet_storage::Error>,
}

impl NamespaceCore {
    /// Deletes a record: [`Error::NotFound`] if there is none. Of the policy, generation, timeout
    /// and acknowledgement count.
    pub(super) fn delete(
        &self,
        target: &WriteTarget<'_>,
        policy: &WritePolicy,
    ) -> Result<Lsn, WriteRefusal> {
        // One in steps that was put off between two of them goes on: the policy was asked before.
        if Attempt::has_begun(&target.digest) {
            let (relations, record) = (Vec::new(), None);
            return Err(Error::HasEdges { relations, record }.into());
        }
        let mut lock = self
            .storage
            .lock(&target.digest, policy.total_timeout)
            .map_err(|error| self.refused(error, policy.total_timeout))?;
        #[cfg(feature = "server")]
        self.check_not_provisional(target)?;
        let now_ms = self.clock.now_ms();
        let judged = self.judge_deletion(target, policy, lock.entry(), now_ms)?;
        self.note_lost_roots(judged.loses_shards.into());
        let published = self.publish(&mut lock, &Change::Delete(now_ms));
        // No record stays locked during a wait for a sync.
        drop(lock);
        self.note_lost_roots(judged.loses_shards.into());
        let deleted = published.and_then(|lsn| self.acknowledge(lsn, policy.acknowledge));
        match (deleted?, judged.damage) {
            (Some(lsn), _) => Ok(lsn),
            // Nothing to delete, but the lost bytes may have been this record.
            (None, Some(damage)) => Err(damage.into()),
            (None, None) => Err(Error::not_found().into()),
        }
    }

    /// Judges a deletion by what it meets at this time, damage included. Changes nothing.
    pub(super) fn judge_deletion(
        &self,
        target: &WriteTarget<'_>,
        policy: &WritePolicy,
        found: spikelet_storage::Result<Option<EntryView<'_>>>,
        now_ms: u64,
    ) -> Result<JudgedDeletion, WriteRefusal> {
        let live = found.map(|entry| entry.filter(|entry| !expired(entry, now_ms)));
        self.judge_live_deletion(target, policy, live, now_ms)
    }

    /// Judges the deletion of a record that lives for its writer, and returns whether shards are
    /// lost with it: a wire transaction's own version lives for it until its end.
    pub(super) fn judge_live_deletion(
        &self,
        target: &WriteTarget<'_>,
        policy: &WritePolicy,
        live: spikelet_storage::Result<Option<EntryView<'_>>>,
        now_ms: u64,
    ) -> Result<JudgedDeletion, WriteRefusal> {
        let live = match live {
            Err(error) if error.is_damage() && deletes_unseen(target, policy) => {
                return Ok(JudgedDeletion {
                    loses_shards: false,
                    damage: Some(error),
                });
            }
            live => live?.ok_or_else(Error::not_found)?,
        };
        let judge = || {
            self.check_set(target.set_name, target.set_id, &live)?;
            policy.check_generation(live.generation())?;
            self.check_filter(target.filter, &live, target.set_name, now_ms)?;
            check_key(target.key, live.key())?;
            let role = target.concerning(ShardRole::of(live.payload()))?;
            self.check_edges(target.shards, &live)?;
            if role == ShardRole::Root {
                target.check_root(ShardLoss::Now)?;
            }
            Ok(JudgedDeletion {
                loses_shards: role == ShardRole::Root,
                damage: None,
            })
        };
        judge().map_err(WriteRefusal::having_found(Some(metadata_of(&live))))
    }
}

/// Whether a record with damaged bytes can be deleted: if nothing depends on them.
fn deletes_unseen(target: &WriteTarget<'_>, policy: &WritePolicy) -> bool {
    policy.generation == GenerationPolicy::None && target.filter.is_none()
}
