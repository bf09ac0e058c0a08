//! A set of a cluster: operations on records, alone and in batches.

use std::borrow::Cow;
use std::collections::HashSet;
use std::ops::ControlFlow;
use std::sync::atomic::Ordering;
use std::sync::{Arc, LazyLock};
use std::time::Instant;

use aerospike::operations::exp::{ExpReadFlags, read_exp};
use aerospike::{self as theirs, PartitionFilter};

use super::batch::{self, BatchRow, Prepared};
use super::link::{self, Link};
use super::scan::Scanned;
use super::{policy, results};
use crate::expressions::{eq, record_size};
use crate::operation::OperationAction;
use crate::policy::RecordExistsAction;
use crate::storage::{Clock, HotRecord, SystemClock};
use crate::{
    Error, Expression, Key, OperateResult, Operation, Record, RecordCall, RecordSet, Result,
    WritePolicy,
};

/// The expression for the size of a record.
static RECORD_SIZE: LazyLock<Vec<u8>> =
    LazyLock::new(|| record_size().to_bytes().unwrap_or_default());

/// A set of a cluster. Cheap to clone.
#[derive(Clone, Debug)]
pub struct ClusterSet {
    pub(super) link: Arc<Link>,
    pub(super) name: Arc<str>,
    pub(super) filter: Option<Expression>,
    /// Whether calls ask for the size of the record, too.
    pub(super) asks_sizes: bool,
}

impl ClusterSet {
    /// Returns the name of the set.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns the set seen through a filter, as [`Set::filtered`](crate::Set::filtered) does:
    /// calls and scans by this handle are for records for which the expression holds. A policy with
    /// a filter of its own takes precedence.
    ///
    /// # Errors
    /// [`Error::Parameter`] if the expression is malformed, or its value is no truth value.
    pub fn filtered(&self, filter: Expression) -> Result<Self> {
        filter.filter()?;
        Ok(Self {
            filter: Some(filter),
            ..self.clone()
        })
    }

    pub(super) fn scanned(&self, records_per_second: Option<u32>) -> Scanned<'_> {
        Scanned {
            link: &self.link,
            set: &self.name,
            filter: self.filter.as_ref(),
            records_per_second,
            equal: None,
        }
    }

    fn prepare(
        &self,
        policy: &WritePolicy,
        key: &Key<'_>,
        operations: &[Operation],
    ) -> Result<Prepared> {
        let mut sent = Prepared::new(self.key(key)?, operations)?;
        sent.asks_size = self.asks_sizes && has_size_after(policy, operations);
        if sent.asks_size && !sent.operations.is_empty() {
            let size = theirs::expressions::from_packed_bytes(RECORD_SIZE.clone());
            let size = read_exp(results::SIZE, size, ExpReadFlags::EVAL_NO_FAIL);
            sent.operations.push(size);
        }
        Ok(sent)
    }

    fn key(&self, key: &Key<'_>) -> Result<theirs::Key> {
        theirs::Key::new(&*self.link.namespace, &*self.name, Self::user_key(key))
            .map_err(|error| Error::parameter(error.base_message()))
    }

    pub(super) fn user_key(key: &Key<'_>) -> theirs::Value {
        match key {
            Key::Integer(key) => theirs::Value::Int(*key),
            Key::String(key) => theirs::Value::String(key.clone().into_owned()),
            Key::Blob(key) => theirs::Value::Blob(key.clone().into_owned()),
        }
    }

    /// Does several operations on one record.
    pub(super) async fn operate(
        &self,
        policy: &WritePolicy,
        key: &Key<'_>,
        operations: &[Operation],
    ) -> Result<OperateResult> {
        let result = self.operate_unnamed(policy, key, operations).await;
        result.map_err(|error| error.about(&self.name, key))
    }

    /// [`ClusterSet::operate`] with errors that do not name the record.
    async fn operate_unnamed(
        &self,
        policy: &WritePolicy,
        key: &Key<'_>,
        operations: &[Operation],
    ) -> Result<OperateResult> {
        let sent = self.prepare(policy, key, operations)?;
        let policy = policy.filtered_by(self.filter.as_ref());
        let answer = batch::send_one(&self.link, &policy, operations, &sent).await?;
        results::decode(answer, operations, sent.asks_size)
    }

    /// Makes several such calls: one round trip to each node that has records of them. Calls that
    /// name a record twice are made one by one, since a server keeps no order within a batch.
    pub(super) async fn operate_each(
        &self,
        calls: &[RecordCall<'_>],
    ) -> Vec<Result<OperateResult>> {
        let mut keys = HashSet::new();
        let are_distinct = calls.iter().all(|call| keys.insert(&call.key));
        if !are_distinct || calls.len() < 2 {
            let mut results = Vec::with_capacity(calls.len());
            for call in calls {
                results.push(self.operate(call.policy, &call.key, call.operations).await);
            }
            return results;
        }
        let rows = calls.iter().map(|call| {
            let sent = self.prepare(call.policy, &call.key, call.operations)?;
            Ok(BatchRow {
                policy: call.policy.filtered_by(self.filter.as_ref()),
                operations: Cow::Borrowed(call.operations),
                sent,
            })
        });
        let results = batch::send(&self.link, rows.collect()).await;
        let named = results.into_iter().zip(calls);
        named
            .map(|(result, call)| result.map_err(|error| error.about(&self.name, &call.key)))
            .collect()
    }
}

/// Whether the record has a size that can be asked for in the same call.
fn has_size_after(policy: &WritePolicy, operations: &[Operation]) -> bool {
    let updates = !matches!(
        policy.record_exists_action,
        RecordExistsAction::Replace | RecordExistsAction::ReplaceOnly
    );
    let leaves_it = |operation: &Operation| {
        use OperationAction::{DeleteAll, ReadAll};
        !matches!(operation.action(), ReadAll | DeleteAll)
    };
    updates && operations.iter().all(leaves_it)
}

impl RecordSet for ClusterSet {
    fn operate_on(
        &self,
        policy: &WritePolicy,
        key: &Key<'_>,
        operations: &[Operation],
    ) -> Result<OperateResult> {
        link::wait(self.operate(policy, key, operations))
    }

    /// One round trip to each node that has records of the calls. Calls that name a record twice
    /// are made one by one, since a server keeps no order within a batch.
    fn operate_on_each(&self, calls: &[RecordCall<'_>]) -> Vec<Result<OperateResult>> {
        link::wait(self.operate_each(calls))
    }

    fn scan_each(&self, each: &mut dyn FnMut(Result<Record>) -> ControlFlow<()>) {
        link::wait(self.scanned(None).records(PartitionFilter::all(), each));
    }

    /// The time of this machine's clock.
    fn now_ms(&self) -> u64 {
        SystemClock.now_ms()
    }

    fn max_record_bytes(&self) -> Option<u64> {
        self.link.max_record_bytes
    }

    /// Asks the servers to delete a record that no filter lets through: servers of the Community
    /// Edition refuse every durable delete, and namespaces that are strongly consistent every other
    /// one. One round trip for each cluster and kind of delete.
    fn check_deletes(&self, policy: &WritePolicy) -> Result<()> {
        let known = if policy.durable_delete {
            &self.link.takes_durable_deletes
        } else {
            &self.link.takes_deletes
        };
        if known.load(Ordering::Relaxed) {
            return Ok(());
        }
        let policy = WritePolicy::default()
            .durable_delete(policy.durable_delete)
            .total_timeout(policy.total_timeout)
            .filter(eq(1, 0));
        let sent_policy = policy::single(&policy, true, self.link.read_retries)?;
        let key = self.key(&Key::from(""))?;
        let started = Instant::now();
        let answer = self
            .link
            .wait(self.link.client.delete(&sent_policy, &key))?;
        if let Err(error) = answer {
            let failed = self.link.failed_call(&policy, &[], started).error(&error);
            if !matches!(failed, Error::FilteredOut { .. }) {
                return Err(failed);
            }
        }
        known.store(true, Ordering::Relaxed);
        Ok(())
    }

    fn may_bring_back(&self, policy: &WritePolicy) -> bool {
        !policy.durable_delete
    }

    /// Returns `None`: servers do not say.
    fn contention_on(&self, _: &Key<'_>) -> Option<HotRecord> {
        None
    }
}
