//! The commit: the records a transaction has read are looked at again, and its writes become
//! visible, all of them at once.

use std::sync::atomic::Ordering;
use std::time::Duration;

use spikelet_storage::{
    Change, ConflictCause, Digest, Error as StorageError, GroupMember, NewVersion, RecordChange,
    RecordVersion, SeenRecord,
};

use super::guards::{CommitRule, GUARDS};
use super::{Base, Provisional, stamp_of};
use crate::engine::by_digest::DigestAddress;
use crate::engine::core::{NamespaceCore, expired};
use crate::engine::namespace::Namespace;
use crate::engine::policy::{Acknowledge, ShardAccess};
use crate::engine::refusals::conflict;
use crate::{Error, Result};

impl Provisional {
    /// The commit's change of the record; `None`: there was no record, and there is to be none. The
    /// generation goes up once more, as Aerospike's does.
    fn change(&self, updated_ms: u64) -> Option<Change<'_>> {
        match &self.version {
            Some(version) => {
                let version = version.version();
                Some(Change::Put(NewVersion {
                    generation: version.generation.checked_add(1).unwrap_or(1),
                    last_update_ms: updated_ms,
                    ..version
                }))
            }
            None => matches!(self.base, Base::Live { .. }).then_some(Change::Delete(updated_ms)),
        }
    }
}

impl Namespace {
    /// Whether a record has the version that a transaction has read, and no other transaction is
    /// about to change it.
    ///
    /// # Errors
    /// [`Error::Parameter`] for a record of another set; the errors of storage. A record that
    /// cannot be read has changed.
    pub(crate) fn is_unchanged(&self, address: &DigestAddress<'_>, stamp: u64) -> Result<bool> {
        let (core, digest) = (&self.core, &address.digest);
        // Looked at first: who has committed in between has changed the record by then.
        if core.provisional_locks.owner(digest).is_some() {
            return Ok(false);
        }
        let now_ms = core.clock.now_ms();
        let seen = core.storage.get_versioned(digest, |version, found| {
            let Ok(entry) = found else {
                return Ok(None);
            };
            if let Some(entry) = &entry {
                core.check_set(address.set, None, entry)?;
            }
            Ok::<_, Error>((stamp_of(version, entry.as_ref(), now_ms) == stamp).then_some(version))
        });
        let Some(version) = seen? else {
            return Ok(false);
        };
        let seen = SeenRecord {
            digest: *digest,
            version,
        };
        match core.storage.lock_unchanged(&[seen], &[], 0, None) {
            Ok(_) => Ok(true),
            Err(StorageError::Conflict { .. }) => Ok(false),
            Err(error) => Err(error.into()),
        }
    }

    /// Makes all that a transaction has written visible: one group, which is recovered whole or not
    /// at all. `writes` are in the order of their digests. The records stay locked for the
    /// transaction.
    ///
    /// # Errors
    /// [`Error::Conflict`] if a record is not as the transaction has met it, or a transaction of
    /// this process has read one meanwhile; as for [`NamespaceCore::publish_group`]. Nothing was
    /// changed, unless [`Error::in_doubt`] says so.
    pub(crate) fn commit_provisionals(
        &self,
        writes: &[(Digest, &Provisional)],
        timeout: Duration,
    ) -> Result<()> {
        let core = &self.core;
        // One time for all, as of a transaction of the process: a truncation by time takes all or
        // none, and no record goes back behind a version that the client has seen.
        let updated = writes.iter().filter_map(|(_, write)| {
            let version = write.version.as_ref();
            version.map(|version| version.view().last_update_ms())
        });
        let updated_ms = updated.fold(core.clock.now_ms(), u64::max);
        let (mut reads, mut changes) = (Vec::new(), Vec::with_capacity(writes.len()));
        for (digest, write) in writes {
            let seen = SeenRecord {
                digest: *digest,
                version: match write.base {
                    Base::Live { version, .. } => version,
                    Base::Absent { stamp } => core.absence_of(digest, stamp)?,
                },
            };
            match write.change(updated_ms) {
                Some(change) => changes.push(RecordChange { seen, change }),
                None => reads.push(seen),
            }
        }
        let timeout = Some(timeout);
        let (storage, locks) = (&core.storage, &core.provisional_locks);
        let check_overruled = || {
            if writes.iter().any(|(digest, _)| locks.is_overruled(digest)) {
                Err(conflict(ConflictCause::Changed))
            } else {
                Ok(())
            }
        };
        if !GUARDS.keep(CommitRule::AsksUnderLocks) {
            check_overruled()?;
        }
        let locked = storage.lock_unchanged(&reads, &changes, readable_until(writes), timeout);
        let locked = locked.map_err(|error| match error {
            StorageError::Conflict { cause, .. } => conflict(cause),
            error => core.not_written(error),
        })?;
        if GUARDS.keep(CommitRule::AsksUnderLocks) {
            check_overruled()?;
        }
        if locked.is_empty() {
            return Ok(());
        }
        let rules = core.relations.epoch.load(Ordering::Acquire);
        let is_as_judged = writes.iter().all(|(_, write)| write.rules == rules);
        let deleted =
            |(_, change): &&GroupMember<'_, '_>| matches!(change, Some(Change::Delete(_)));
        for (lock, _) in locked.iter().filter(deleted).filter(|_| !is_as_judged) {
            if let Some(live) = lock.entry()? {
                let checked = core.check_edges(ShardAccess::Remote, &live);
                checked.map_err(|_| conflict(ConflictCause::Changed))?;
            }
        }
        let lost_roots = writes.iter().filter(|(_, write)| write.loses_shards);
        let lost_roots = lost_roots.count() as u64;
        core.publish_group(locked, Acknowledge::Durable, lost_roots)
            .map(drop)
    }
}

impl NamespaceCore {
    /// The version of an absence that a transaction has met before.
    fn absence_of(&self, digest: &Digest, met: u64) -> Result<RecordVersion> {
        let now_ms = self.clock.now_ms();
        self.storage.get_versioned(digest, |version, found| {
            let entry = found?;
            let is_live = entry.is_some_and(|entry| !expired(&entry, now_ms));
            if is_live || stamp_of(version, entry.as_ref(), now_ms) != met {
                return Err(conflict(ConflictCause::Changed));
            }
            // Removals of other records say nothing about this one.
            Ok(if met == RecordVersion::UNCOUNTED_ABSENCE.stamp() {
                RecordVersion::UNCOUNTED_ABSENCE
            } else {
                version
            })
        })
    }
}

/// When the first of the records that the transaction has met expires, in seconds since 2010; 0:
/// none does.
fn readable_until(writes: &[(Digest, &Provisional)]) -> u32 {
    let void_times = writes.iter().map(|(_, write)| match write.base {
        Base::Live { void_time, .. } => void_time,
        Base::Absent { .. } => 0,
    });
    void_times.filter(|time| *time != 0).min().unwrap_or(0)
}
