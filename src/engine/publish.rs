//! Where changes of records are published: of one record, and of several as a group.
//!
//! Every write of the engine comes through here with its records locked. The version that a change replaces can be read from
//! the lock ([`RecordLock::entry`]) until then.

use spikelet_storage::{Change, Lsn, Namespace, RecordLock, Result};

use super::policy::Acknowledge;

/// Publishes a change and unlocks the record; waits for what is to be acknowledged. `None`: there was nothing to delete.
#[inline]
pub(super) fn publish(
    lock: RecordLock<'_>,
    change: Change<'_>,
    acknowledge: Acknowledge,
) -> Result<Option<Lsn>> {
    match (acknowledge, change) {
        (Acknowledge::Applied, change) => lock.apply(&change),
        (Acknowledge::Durable, Change::Put(version)) => lock.put(&version).map(Some),
        (Acknowledge::Durable, Change::Delete(now_ms)) => lock.delete(now_ms),
    }
}

/// Publishes changes of several records, which are recovered whole or not at all, and unlocks the records; waits for what
/// is to be acknowledged.
pub(super) fn publish_group(
    storage: &Namespace,
    mut changes: Vec<(RecordLock<'_>, Change<'_>)>,
    acknowledge: Acknowledge,
) -> Result<Option<Lsn>> {
    // One change is whole by itself, and needs no commit entry.
    if changes.len() == 1
        && let Some((lock, change)) = changes.pop()
    {
        return publish(lock, change, acknowledge);
    }
    match acknowledge {
        Acknowledge::Applied => storage.apply_group(changes),
        Acknowledge::Durable => storage.commit_group(changes),
    }
}
