//! Where changes of records are published: of one record, and of several as a group.
//!
//! Every write of the engine comes through here with its records locked, so this is where secondary indexes follow: the
//! entries of new versions are added before, entries of superseded ones removed after, while the records are locked still.

use spikelet_storage::{Change, GroupMember, Lsn, RecordLock};

use super::core::NamespaceCore;
use super::policy::Acknowledge;
use crate::Result;
use crate::index::{GUARDS, IndexRule};
use crate::record::ShardRole;

impl NamespaceCore {
    /// Publishes a change and unlocks the record; waits until it is acknowledged. `None`: there was nothing to delete.
    /// Inlined, since a record lock is large.
    ///
    /// # Errors
    /// The errors of the indexes, [`crate::Error::StopWrites`], and storage's: nothing was changed unless the error
    /// says that it is in doubt.
    #[inline(always)]
    pub(super) fn publish(
        &self,
        lock: RecordLock<'_>,
        change: &Change<'_>,
        acknowledge: Acknowledge,
    ) -> Result<Option<Lsn>> {
        self.note_companion(change)?;
        let declares = self.declares(&lock, change)?;
        let lsn = if self.indexes.any() {
            self.publish_indexed(lock, change)
        } else {
            lock.apply(change).map_err(|error| self.not_written(error))
        };
        if declares {
            self.read_declarations();
        }
        self.acknowledge(lsn?, acknowledge)
    }

    #[inline(never)]
    fn publish_indexed(&self, lock: RecordLock<'_>, change: &Change<'_>) -> Result<Option<Lsn>> {
        let changes = self.change_indexes([(&lock, change)].into_iter())?;
        let published = match GUARDS.keep(IndexRule::RemovedUnderLock) {
            true => lock.apply_then(change, |is_published| changes.finish(is_published)),
            false => lock.apply(change).inspect(|_| changes.finish(true)),
        };
        published.map_err(|error| self.not_written(error))
    }

    /// Publishes changes of several records, which are recovered whole or not at all, and unlocks the records; waits for what
    /// is to be acknowledged. `None`: there was nothing to change.
    ///
    /// # Errors
    /// As for [`NamespaceCore::publish`].
    pub(super) fn publish_group(
        &self,
        members: Vec<GroupMember<'_, '_>>,
        acknowledge: Acknowledge,
    ) -> Result<Option<Lsn>> {
        let mut declares = false;
        for (lock, change) in &members {
            if let Some(change) = change {
                self.note_companion(change)?;
                declares |= self.declares(lock, change)?;
            }
        }
        let published = self.publish_members(members)?;
        if declares {
            self.read_declarations();
        }
        let lsn = published.map_err(|error| self.not_written(error))?;
        self.acknowledge(lsn, acknowledge)
    }

    fn publish_members(
        &self,
        members: Vec<GroupMember<'_, '_>>,
    ) -> Result<spikelet_storage::Result<Option<Lsn>>> {
        if !self.indexes.any() {
            return Ok(self.storage.apply_members(members, None::<fn(bool)>));
        }
        let changed = members.iter();
        let changed = changed.filter_map(|(lock, change)| Some((lock, change.as_ref()?)));
        let indexes = self.change_indexes(changed)?;
        let done = |is_published| indexes.finish(is_published);
        Ok(self.storage.apply_members(members, Some(done)))
    }

    /// Notes that a set has companions, before one is published. One look at the names of the new version's bins.
    #[inline]
    fn note_companion(&self, change: &Change<'_>) -> Result<()> {
        match change {
            Change::Put(version)
                if !self.companion_sets.contains(version.set_id)
                    && ShardRole::of(version.payload) == ShardRole::Companion =>
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

    /// Waits for what is to be acknowledged. No record is locked.
    #[inline]
    fn acknowledge(&self, lsn: Option<Lsn>, acknowledge: Acknowledge) -> Result<Option<Lsn>> {
        if let (Acknowledge::Durable, Some(lsn)) = (acknowledge, lsn) {
            self.storage.settle(lsn)?;
        }
        Ok(lsn)
    }
}
