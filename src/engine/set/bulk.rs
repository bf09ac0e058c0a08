//! Many records at once.

use std::ops::ControlFlow;

use spikelet_storage::Lsn;

use super::Set;
use super::access::RecordAccess;
use super::write::bins_to_put;
use crate::Result;
use crate::engine::activity::OperationKind;
use crate::engine::policy::{Acknowledge, WritePolicy};
use crate::record::Key;
use crate::value::Value;

/// Records between two waits for durability.
const RECORDS_A_BATCH: usize = 4_096;

/// The number of records that have their memory fetched ahead together.
const RECORDS_AHEAD: usize = 32;

/// How far a call that writes many edges or records has come.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct BulkProgress {
    /// Edges or records that were taken from the input and are written.
    pub taken: u64,
    /// How many of them were not there before.
    pub new: u64,
    /// Whether all of the input was taken; false: the observer has stopped the call.
    pub complete: bool,
}

impl Set {
    /// Puts many records, each as by [`Set::put`]: by itself and in their order. Waits for
    /// durability once for 4,096 of them, calls `observe` then, and stops if it breaks off. Returns
    /// the final progress.
    ///
    /// Each record is locked by itself, and 32 of them are in memory. A call with the same records
    /// after a stop or an error writes them again, which changes their generations and times.
    ///
    /// ```
    /// # fn main() -> spikelet::Result<()> {
    /// use std::ops::ControlFlow;
    ///
    /// let users = spikelet::Store::in_memory()?.set("users")?;
    /// let records = (0..10_000).map(|id| (id, [("visits", 0)]));
    /// let done = users.put_all(records, |progress| {
    ///     println!("{} of 10,000", progress.taken);
    ///     ControlFlow::Continue(())
    /// })?;
    /// assert_eq!((done.taken, done.new, done.complete), (10_000, 10_000, true));
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// As for [`Set::put`], at the first record that is refused: those before it are written.
    pub fn put_all<
        'k,
        K: Into<Key<'k>>,
        N: AsRef<str>,
        V: Into<Value>,
        B: IntoIterator<Item = (N, V)>,
    >(
        &self,
        records: impl IntoIterator<Item = (K, B)>,
        observe: impl FnMut(BulkProgress) -> ControlFlow<()>,
    ) -> Result<BulkProgress> {
        self.put_all_with(&WritePolicy::default(), records, observe)
    }

    /// [`Set::put_all`] by a policy. With [`Acknowledge::Applied`] nothing is waited for.
    ///
    /// # Errors
    /// As for [`Set::put_all`].
    pub fn put_all_with<
        'k,
        K: Into<Key<'k>>,
        N: AsRef<str>,
        V: Into<Value>,
        B: IntoIterator<Item = (N, V)>,
    >(
        &self,
        policy: &WritePolicy,
        records: impl IntoIterator<Item = (K, B)>,
        mut observe: impl FnMut(BulkProgress) -> ControlFlow<()>,
    ) -> Result<BulkProgress> {
        let applied = policy.clone().acknowledge(Acknowledge::Applied);
        let mut records = records.into_iter().peekable();
        let mut progress = BulkProgress::default();
        while records.peek().is_some() {
            let (mut last, mut failed) = (None, None);
            let batch_end = progress.taken + RECORDS_A_BATCH as u64;
            while progress.taken < batch_end && failed.is_none() && records.peek().is_some() {
                let ahead = records.by_ref().take(RECORDS_AHEAD);
                let ahead: Vec<(Key<'k>, B)> =
                    ahead.map(|(key, bins)| (key.into(), bins)).collect();
                let put = self.put_ahead(&applied, ahead, &mut progress, &mut last);
                failed = put.err();
            }
            if let (Acknowledge::Durable, Some(lsn)) = (policy.acknowledge, last) {
                self.core.namespace.storage.settle(lsn)?;
            }
            if let Some(error) = failed {
                return Err(error);
            }
            if observe(progress).is_break() {
                return Ok(progress);
            }
        }
        progress.complete = true;
        Ok(progress)
    }

    /// Puts records, and fetches the memory of all of them first.
    fn put_ahead<N: AsRef<str>, V: Into<Value>, B: IntoIterator<Item = (N, V)>>(
        &self,
        policy: &WritePolicy,
        records: Vec<(Key<'_>, B)>,
        progress: &mut BulkProgress,
        last: &mut Option<Lsn>,
    ) -> Result<()> {
        let namespace = &self.core.namespace;
        let digests = namespace
            .key_hash
            .digests(&self.core.name, &records, |(key, _)| key);
        namespace.storage.prefetch_batch(&digests);
        for ((key, bins), digest) in records.into_iter().zip(digests) {
            let bins = bins_to_put(policy, bins).map_err(|error| self.about(&key, error))?;
            let put = || self.merge_at(policy, &key, digest, &bins);
            let put = namespace.activity.track(OperationKind::Write, put)?;
            progress.taken += 1;
            progress.new += u64::from(put.is_new);
            *last = (*last).max(put.lsn);
        }
        Ok(())
    }
}
