//! Many records at once: all digests are computed first, then storage fetches the memory of a group
//! of records before it reads the first.

use spikelet_storage::EntryView;

use super::access::{RecordAccess, lend_unsharded};
use super::{OperateResult, Set, UnshardedRead};
use crate::Result;
use crate::engine::activity::OperationKind;
use crate::engine::core::{record_of, record_with_bins};
use crate::engine::policy::WritePolicy;
use crate::operation::{Operation, SingleRead};
use crate::record::{Key, Record, RecordView};

/// Calls with records that are fetched ahead together.
const CALLS_AHEAD: usize = 32;

/// Operations on one record, as [`RecordSet::operate_on_each`](crate::RecordSet::operate_on_each)
/// takes them.
///
/// ```
/// # fn main() -> spikelet::Result<()> {
/// use spikelet::operations::add;
/// use spikelet::{RecordCall, RecordSet, WritePolicy};
///
/// let pages = spikelet::Store::in_memory()?.set("pages")?;
/// let (policy, visit) = (WritePolicy::default(), [add("visits", 1)]);
/// let calls = ["home", "about"].map(|page| RecordCall {
///     policy: &policy,
///     key: page.into(),
///     operations: &visit,
/// });
/// for result in pages.operate_on_each(&calls) {
///     assert_eq!(result?.generation, 1);
/// }
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct RecordCall<'a> {
    /// How it is done.
    pub policy: &'a WritePolicy,
    /// The key of the record.
    pub key: Key<'a>,
    /// Its change.
    pub operations: &'a [Operation],
}

impl Set {
    /// Returns the records of these keys, in the order of the keys; `None` for a key without a
    /// record. Keys may repeat.
    ///
    /// This is the fast way to read related records: the cache misses of up to 32 records overlap,
    /// so a record beyond the processor's caches costs about a third of a [`Set::get`]. Each record
    /// takes one allocation; [`Set::read_batch`] takes none for records.
    ///
    /// ```
    /// # fn main() -> spikelet::Result<()> {
    /// let users = spikelet::Store::in_memory()?.set("users")?;
    /// users.put("alice", [("age", 42)])?;
    /// users.put("bob", [("age", 12)])?;
    /// let records: spikelet::Result<Vec<_>> =
    ///     users.get_batch(["alice", "nobody", "bob"]).into_iter().collect();
    /// let ages: Vec<_> = records?
    ///     .iter()
    ///     .map(|record| record.as_ref().and_then(|record| record.get("age")))
    ///     .collect();
    /// assert_eq!(ages, [Some(42.into()), None, Some(12.into())]);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// Each record has a result of its own, with the errors of [`Set::get`]: the others are read
    /// all the same.
    #[must_use = "each record has its own result"]
    pub fn get_batch<'k, K: Into<Key<'k>>>(
        &self,
        keys: impl IntoIterator<Item = K>,
    ) -> Vec<Result<Option<Record>>> {
        self.collect_batch(keys, |entry| record_of(&entry))
    }

    /// Returns the records of these keys as [`Set::get_batch`] does, each with the wanted bins that
    /// it has.
    ///
    /// # Errors
    /// As for [`Set::get_batch`].
    #[must_use = "each record has its own result"]
    pub fn get_batch_bins<'k, K: Into<Key<'k>>>(
        &self,
        keys: impl IntoIterator<Item = K>,
        bins: &[&str],
    ) -> Vec<Result<Option<Record>>> {
        self.collect_batch(keys, |entry| record_with_bins(&entry, bins))
    }

    /// Lends the records of these keys to `read` without a copy, each with the position of its key,
    /// in the order of the keys. `read` is called once for every key: with `None` if there is no
    /// record, with an error for this record alone.
    ///
    /// Copies no record and takes no lock; costs some 40 ns a record less than [`Set::get_batch`].
    /// Keep `read` short: space cannot be used again while it runs for up to 32 records. A version
    /// written meanwhile may be seen or not.
    ///
    /// ```
    /// # fn main() -> spikelet::Result<()> {
    /// let users = spikelet::Store::in_memory()?.set("users")?;
    /// users.put("alice", [("age", 42)])?;
    /// users.put("bob", [("age", 12)])?;
    /// let mut sum = 0;
    /// users.read_batch(["alice", "nobody", "bob"], |_, user| {
    ///     if let Ok(Some(user)) = user {
    ///         sum += user.bin("age").and_then(|age| age.as_i64()).unwrap_or(0);
    ///     }
    /// });
    /// assert_eq!(sum, 54);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// Passed to `read`: as for [`Set::get`].
    pub fn read_batch<'k, K: Into<Key<'k>>>(
        &self,
        keys: impl IntoIterator<Item = K>,
        mut read: impl FnMut(usize, Result<Option<RecordView<'_>>>),
    ) {
        let keys: Vec<Key<'k>> = keys.into_iter().map(Into::into).collect();
        self.read_entries(&keys, |position, entry| {
            read(
                position,
                entry.and_then(|entry| {
                    entry
                        .map(|entry| RecordView::parse(entry.payload()))
                        .transpose()
                }),
            );
        });
    }

    fn collect_batch<'k, K: Into<Key<'k>>>(
        &self,
        keys: impl IntoIterator<Item = K>,
        mut make: impl FnMut(EntryView<'_>) -> Result<Record>,
    ) -> Vec<Result<Option<Record>>> {
        let keys: Vec<Key<'k>> = keys.into_iter().map(Into::into).collect();
        let mut records = Vec::with_capacity(keys.len());
        self.read_entries(&keys, |_, entry| {
            records.push(entry.and_then(|entry| entry.map(&mut make).transpose()));
        });
        records
    }

    /// Lends each of these records to `read`, as the set's readers may see it, in the order of the
    /// keys.
    fn read_entries(
        &self,
        keys: &[Key<'_>],
        mut read: impl FnMut(usize, Result<Option<EntryView<'_>>>),
    ) {
        let namespace = &self.core.namespace;
        let began = namespace.activity.begin(OperationKind::Batch);
        let digests = namespace.key_hash.digests(&self.core.name, keys, |key| key);
        let mut keys = keys.iter();
        namespace.storage.get_batch(&digests, |position, found| {
            let Some(key) = keys.next() else { return };
            let entry = match found {
                Ok(Some(entry)) => {
                    let filter = self.filter.as_ref();
                    self.checked(filter, key, entry, || namespace.clock.now_ms())
                }
                Ok(None) => Ok(None),
                Err(error) => Err(error.into()),
            };
            let failed = |error| {
                namespace.activity.failed(&error);
                self.about(key, error)
            };
            read(position, entry.map_err(failed));
        });
        namespace.activity.end(OperationKind::Batch, began, None);
    }

    /// Lends what a read of a list or map of each of these records returns to `show`, in the order
    /// of the keys.
    pub(crate) fn read_each_unsharded(
        &self,
        keys: &[Key<'_>],
        operation: SingleRead<'_>,
        show: &mut dyn FnMut(usize, Result<UnshardedRead<'_>>),
    ) {
        if let [key] = keys {
            let digest = self.digest_of(key);
            let activity = &self.core.namespace.activity;
            let began = activity.begin(OperationKind::Read);
            self.read_unsharded_at(key, &digest, operation, |read| {
                activity.end(OperationKind::Read, began, read.as_ref().err());
                show(0, read);
            });
            return;
        }
        self.read_entries(keys, |position, entry| match entry {
            Ok(Some(entry)) => {
                let lent = lend_unsharded(&entry, operation, |read| show(position, Ok(read)));
                if let (Err(error), Some(key)) = (lent, keys.get(position)) {
                    show(position, Err(self.about(key, error)));
                }
            }
            Ok(None) => show(position, Ok(UnshardedRead::NotFound)),
            Err(error) => show(position, Err(error)),
        });
    }

    /// Makes these calls one after the other.
    pub(crate) fn operate_each(&self, calls: &[RecordCall<'_>]) -> Vec<Result<OperateResult>> {
        let namespace = &self.core.namespace;
        let digests = namespace
            .key_hash
            .digests(&self.core.name, calls, |call| &call.key);
        let began = namespace.activity.begin(OperationKind::Batch);
        let mut results = Vec::with_capacity(calls.len());
        for (calls, digests) in calls.chunks(CALLS_AHEAD).zip(digests.chunks(CALLS_AHEAD)) {
            namespace.storage.prefetch_batch(digests);
            results.extend(calls.iter().zip(digests).map(|(call, digest)| {
                let done = self.operate_at(call.policy, &call.key, *digest, call.operations);
                done.inspect_err(|error| namespace.activity.failed(error))
            }));
        }
        namespace.activity.end(OperationKind::Batch, began, None);
        results
    }
}
