//! A set for async programs.

use std::ops::ControlFlow;

use aerospike::PartitionFilter;

use super::set::ClusterSet;
use crate::error::if_there;
use crate::operations::{self, delete_all_bins};
use crate::store::{reads_of, record_read};
use crate::{
    Expression, Key, OperateResult, Operation, Record, RecordCall, Result, Value, WritePolicy,
};

/// A set of a cluster whose calls are futures, for programs with an async runtime of any kind.
/// Cheap to clone. From [`Cluster::async_set`](super::Cluster::async_set).
///
/// The calls are the ones of [`ClusterSet`], with its errors and its rules for writes in doubt. A
/// future that is dropped before it has ended may have written. [`OperateResult::record_bytes`] is
/// 0: a call that wants the size reads the expression
/// [`record_size`](crate::expressions::record_size) by [`operations::exp::read`].
///
/// ```no_run
/// # async fn follow() -> spikelet::Result<()> {
/// use spikelet::cluster::Cluster;
/// use spikelet::operations;
///
/// let cluster = Cluster::builder("10.0.0.1:3000").connect_async().await?;
/// let users = cluster.async_set("users")?;
/// users.put("alice", [("name", "Alice")]).await?;
/// let visit = [operations::add("visits", 1), operations::get_bin("visits")];
/// let visits = users.operate("alice", &visit).await?;
/// assert!(users.get("alice").await?.is_some());
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct AsyncSet {
    set: ClusterSet,
}

impl AsyncSet {
    pub(super) fn new(set: ClusterSet) -> Self {
        let asks_sizes = false;
        Self {
            set: ClusterSet { asks_sizes, ..set },
        }
    }

    /// Returns the name of the set.
    #[must_use]
    pub fn name(&self) -> &str {
        self.set.name()
    }

    /// Returns the set seen through a filter: [`ClusterSet::filtered`].
    ///
    /// # Errors
    /// As for [`ClusterSet::filtered`].
    pub fn filtered(&self, filter: Expression) -> Result<Self> {
        self.set.filtered(filter).map(Self::new)
    }

    /// Does several operations on one record, in order, atomically. One round trip.
    ///
    /// # Errors
    /// As for [`Set::operate`](crate::Set::operate); [`Error::in_doubt`](crate::Error::in_doubt)
    /// says of a lost answer whether the call may have written.
    pub async fn operate<'k>(
        &self,
        key: impl Into<Key<'k>>,
        operations: &[Operation],
    ) -> Result<OperateResult> {
        let policy = WritePolicy::default();
        self.set.operate(&policy, &key.into(), operations).await
    }

    /// [`AsyncSet::operate`] by a policy.
    ///
    /// # Errors
    /// As for [`AsyncSet::operate`].
    pub async fn operate_with<'k>(
        &self,
        policy: &WritePolicy,
        key: impl Into<Key<'k>>,
        operations: &[Operation],
    ) -> Result<OperateResult> {
        self.set.operate(policy, &key.into(), operations).await
    }

    /// Makes several such calls, and returns their results in the order of the calls: one round
    /// trip to each node that has records of them; one by one where they name a record twice.
    pub async fn operate_each(&self, calls: &[RecordCall<'_>]) -> Vec<Result<OperateResult>> {
        self.set.operate_each(calls).await
    }

    /// Returns a record; `None` if there is none. One round trip.
    ///
    /// # Errors
    /// As for [`Set::get`](crate::Set::get).
    pub async fn get<'k>(&self, key: impl Into<Key<'k>>) -> Result<Option<Record>> {
        let key = key.into();
        record_read(&key, self.operate(&key, &reads_of(None)).await)
    }

    /// Returns the records of these keys, in their order; `None` for a key without a record. One
    /// round trip to each node that has any of them.
    pub async fn get_batch<'k, K: Into<Key<'k>>>(
        &self,
        keys: impl IntoIterator<Item = K>,
    ) -> Vec<Result<Option<Record>>> {
        let keys: Vec<Key<'k>> = keys.into_iter().map(Into::into).collect();
        let (policy, operations) = (WritePolicy::default(), reads_of(None));
        let call = |key| RecordCall {
            policy: &policy,
            key: Key::from(key),
            operations: &operations,
        };
        let calls: Vec<RecordCall<'_>> = keys.iter().map(call).collect();
        let results = self.set.operate_each(&calls).await;
        let read = keys.iter().zip(results);
        read.map(|(key, result)| record_read(key, result)).collect()
    }

    /// Writes bins of a record; others that it has stay. One round trip.
    ///
    /// # Errors
    /// As for [`AsyncSet::operate`].
    pub async fn put<'k, N: AsRef<str>, V: Into<Value>>(
        &self,
        key: impl Into<Key<'k>>,
        bins: impl IntoIterator<Item = (N, V)>,
    ) -> Result<OperateResult> {
        let bins = bins.into_iter();
        let puts: Vec<Operation> = bins
            .map(|(name, value)| operations::put(name.as_ref(), value))
            .collect();
        self.operate(key, &puts).await
    }

    /// Deletes a record. Returns whether there was one. One round trip.
    ///
    /// # Errors
    /// As for [`AsyncSet::operate`].
    pub async fn delete<'k>(&self, key: impl Into<Key<'k>>) -> Result<bool> {
        let deleted = if_there(self.operate(key, &[delete_all_bins()]).await)?;
        Ok(deleted.is_some())
    }

    /// Returns whether there is a record of this key. One round trip.
    ///
    /// # Errors
    /// As for [`Set::get`](crate::Set::get).
    pub async fn exists<'k>(&self, key: impl Into<Key<'k>>) -> Result<bool> {
        let key = key.into();
        let read = self.operate(&key, &reads_of(Some(&[]))).await;
        Ok(record_read(&key, read)?.is_some())
    }

    /// Passes every record of the set to `each`, in no particular order, until `each` breaks. An
    /// error ends it.
    pub async fn scan(&self, each: impl FnMut(Result<Record>) -> ControlFlow<()>) {
        let all = PartitionFilter::all();
        self.set.scanned(None).records(all, each).await;
    }
}
