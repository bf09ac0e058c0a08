//! Which records transactions of wire clients have locked.

use std::collections::HashMap;
use std::collections::hash_map::Entry;

use spikelet_storage::Digest;

use crate::sync::Mutex;
use crate::sync::atomic::{AtomicUsize, Ordering};

/// How large an empty table is kept.
const OWNERS_KEPT: usize = 4_096;

/// The records that are locked, each by one transaction. A look costs one load while there are
/// none.
///
/// A record is locked here under its own lock, and looked up by writers under the same lock.
#[derive(Debug, Default)]
pub(crate) struct ProvisionalLocks {
    /// How many there are. Changed under the mutex.
    count: AtomicUsize,
    owners: Mutex<HashMap<Digest, LockOwner>>,
}

#[derive(Debug)]
struct LockOwner {
    /// The transaction, by the digest of its monitor.
    transaction: Digest,
    /// A transaction of this process has read the record since: the owner must not be committed.
    is_overruled: bool,
}

impl ProvisionalLocks {
    /// The transaction that has a record locked.
    pub(in crate::engine) fn owner(&self, digest: &Digest) -> Option<Digest> {
        if self.count.load(Ordering::Acquire) == 0 {
            return None;
        }
        let owners = self.owners.lock();
        owners.get(digest).map(|owner| owner.transaction)
    }

    /// Locks a record for a transaction, unless another has it.
    pub(super) fn lock(&self, digest: Digest, transaction: Digest) {
        let mut owners = self.owners.lock();
        if let Entry::Vacant(free) = owners.entry(digest) {
            free.insert(LockOwner {
                transaction,
                is_overruled: false,
            });
            // Under the mutex, so that counts are stored in the order of the changes.
            self.count.store(owners.len(), Ordering::Release);
        }
    }

    /// Unlocks a record of a transaction.
    pub(super) fn unlock(&self, digest: &Digest, transaction: &Digest) {
        let mut owners = self.owners.lock();
        let is_its = |owner: &LockOwner| owner.transaction == *transaction;
        if owners.get(digest).is_some_and(is_its) {
            owners.remove(digest);
            self.count.store(owners.len(), Ordering::Release);
            // Clients that have died may have left a large table.
            if owners.is_empty() && owners.capacity() > OWNERS_KEPT {
                *owners = HashMap::default();
            }
        }
    }

    /// Keeps the transactions that have these records locked from being committed.
    pub(in crate::engine) fn overrule<'d>(&self, digests: impl Iterator<Item = &'d Digest>) {
        if self.count.load(Ordering::Acquire) == 0 {
            return;
        }
        let mut owners = self.owners.lock();
        for digest in digests {
            if let Some(owner) = owners.get_mut(digest) {
                owner.is_overruled = true;
            }
        }
    }

    /// Whether the transaction that has a record locked must not be committed.
    pub(super) fn is_overruled(&self, digest: &Digest) -> bool {
        let owners = self.owners.lock();
        owners.get(digest).is_some_and(|owner| owner.is_overruled)
    }
}
