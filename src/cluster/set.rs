//! A set of a cluster: operations on records, alone and in batches.

use std::borrow::Cow;
use std::collections::HashSet;
use std::ops::ControlFlow;
use std::sync::atomic::Ordering;
use std::sync::{Arc, LazyLock};
use std::time::Instant;

use aerospike::operations::exp::{ExpReadFlags, read_exp};
use aerospike::{self as theirs, PartitionFilter};

use super::failure::FailedCall;
use super::link::{Link, failed};
use super::scan::Scanned;
use super::{operation, policy, results, scan};
use crate::expressions::{eq, record_size};
use crate::operation::WireOperation;
use crate::policy::RecordExistsAction;
use crate::query::IndexDefinition;
use crate::storage::{Clock, HotRecord, SystemClock};
use crate::{
    Error, Expression, IndexQuery, IndexedRecordSet, Key, KeyPage, OperateResult, Operation,
    Record, RecordCall, RecordSet, Result, WritePolicy,
};

/// What a record may take where the cluster does not say.
const MAX_RECORD_BYTES: u64 = 1 << 20;

/// The name under which the size of the record comes back; it is no bin.
const SIZE: &str = "record_size";

/// The expression for the size of a record.
static RECORD_SIZE: LazyLock<Vec<u8>> =
    LazyLock::new(|| record_size().to_bytes().unwrap_or_default());

/// A set of a cluster. Cheap to clone.
#[derive(Clone, Debug)]
pub struct ClusterSet {
    pub(super) link: Arc<Link>,
    pub(super) name: Arc<str>,
    pub(super) filter: Option<Expression>,
}

/// A call, as it is sent.
pub(super) struct Prepared {
    pub(super) key: theirs::Key,
    pub(super) operations: Vec<theirs::operations::Operation>,
    pub(super) writes: bool,
    /// Whether the last operation reads the size of the record.
    pub(super) asks_size: bool,
}

impl ClusterSet {
    /// Returns the name of the set.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns the set seen through a filter, as [`Set::filtered`](crate::Set::filtered) does: calls and scans by this handle
    /// are for records for which the expression holds. A policy with a filter of its own takes precedence.
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
        }
    }

    /// The policy of a call with the filter of the set, where it has none itself.
    fn policy<'p>(&self, policy: &'p WritePolicy) -> Cow<'p, WritePolicy> {
        match (&policy.filter, &self.filter) {
            (None, Some(filter)) => Cow::Owned(policy.clone().filter(filter.clone())),
            _ => Cow::Borrowed(policy),
        }
    }

    fn no_order(&self, index: &str) -> Error {
        let why = format!(
            "index {index:?} of set {:?}: a cluster has no index in the order of values; keep children in a list or map of their \
             parent (Layout::key_list, Layout::consolidated), and edges by ManyToMany",
            self.name
        );
        Error::Forbidden(why.into())
    }

    fn prepare(
        &self,
        policy: &WritePolicy,
        key: &Key<'_>,
        operations: &[Operation],
    ) -> Result<Prepared> {
        let mut sent = Vec::with_capacity(operations.len() + 1);
        for operation in operations {
            sent.push(operation::encode(operation)?);
        }
        let asks_size = self.link.tells_sizes && has_size_after(policy, operations);
        if asks_size && !sent.is_empty() {
            let size = theirs::expressions::from_packed_bytes(RECORD_SIZE.clone());
            sent.push(read_exp(SIZE, size, ExpReadFlags::EVAL_NO_FAIL));
        }
        Ok(Prepared {
            key: self.key(key)?,
            writes: operations.iter().any(Operation::is_write),
            operations: sent,
            asks_size,
        })
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

    pub(super) fn failed_call<'a>(
        &'a self,
        policy: &'a WritePolicy,
        operations: &'a [Operation],
        started: Instant,
    ) -> FailedCall<'a> {
        FailedCall {
            namespace: &self.link.namespace,
            policy,
            operations,
            max_record_bytes: self.link.max_record_bytes.unwrap_or(MAX_RECORD_BYTES),
            elapsed: started.elapsed(),
        }
    }

    fn operate(
        &self,
        policy: &WritePolicy,
        key: &Key<'_>,
        operations: &[Operation],
    ) -> Result<OperateResult> {
        let Prepared {
            key,
            operations: sent,
            writes,
            asks_size,
        } = self.prepare(policy, key, operations)?;
        let sent_policy = policy::single(&self.policy(policy), writes, self.link.read_retries)?;
        let client = Arc::clone(&self.link.client);
        let started = Instant::now();
        let answer = self
            .link
            .wait(async move { client.operate(&sent_policy, &key, &sent).await })?;
        match answer {
            Ok(record) => results::decode(record, operations, asks_size),
            Err(error) => Err(self.failed_call(policy, operations, started).error(&error)),
        }
    }

    /// Sends calls on different records as one batch.
    fn operate_batch(&self, calls: &[RecordCall<'_>]) -> Vec<Result<OperateResult>> {
        let prepared: Vec<Result<Prepared>> = calls
            .iter()
            .map(|call| self.prepare(call.policy, &call.key, call.operations))
            .collect();
        let mut rows = Vec::with_capacity(calls.len());
        // For each call that is sent its row, and whether it asks for the size.
        let mut sent: Vec<Result<(usize, bool)>> = Vec::with_capacity(calls.len());
        let mut writes = false;
        for (call, prepared) in calls.iter().zip(prepared) {
            sent.push(prepared.and_then(|prepared| {
                let asks_size = prepared.asks_size;
                writes |= prepared.writes;
                rows.push(row(&self.policy(call.policy), prepared)?);
                Ok((rows.len() - 1, asks_size))
            }));
        }
        let policies = calls.iter().map(|call| call.policy);
        let policy = policy::batch(policies, writes, self.link.read_retries);
        let client = Arc::clone(&self.link.client);
        let started = Instant::now();
        let answered = self.link.wait(async move {
            // A row that failed says so itself; rows that were never sent have the batch's error.
            let failed = client.batch(&policy, &mut rows).await.err();
            (rows, failed)
        });
        let (mut rows, failure) = match answered {
            Ok((rows, failure)) => (rows.into_iter().map(Some).collect::<Vec<_>>(), failure),
            Err(_) => return calls.iter().map(|_| Err(client_ended())).collect(),
        };
        calls
            .iter()
            .zip(sent)
            .map(|(call, sent)| {
                let (row, asks_size) = sent?;
                let row = rows.get_mut(row).and_then(Option::take);
                let failed = self.failed_call(call.policy, call.operations, started);
                row_result(row, failure.as_ref(), &failed, asks_size)
            })
            .collect()
    }
}

fn client_ended() -> Error {
    failed("the client ended in the middle of a batch")
}

/// A call as a row of a batch.
pub(super) fn row(policy: &WritePolicy, prepared: Prepared) -> Result<theirs::BatchOperation> {
    let Prepared {
        key,
        operations,
        writes,
        ..
    } = prepared;
    Ok(if writes {
        theirs::BatchOperation::write(&policy::row_write(policy)?, key, operations)
    } else {
        theirs::BatchOperation::read_ops(&policy::row_read(policy)?, key, operations)
    })
}

pub(super) fn row_result(
    row: Option<theirs::BatchOperation>,
    batch: Option<&theirs::Error>,
    failed_call: &FailedCall<'_>,
    asks_size: bool,
) -> Result<OperateResult> {
    let mut row = row.map(theirs::BatchOperation::into_batch_record);
    let record = row.as_mut().and_then(|row| row.record.take());
    let error = row.as_ref().and_then(theirs::BatchRecord::error).or(batch);
    // A row without a record and an error of its own: the server has not answered it.
    match (record, error) {
        (Some(record), _) => results::decode(record, failed_call.operations, asks_size),
        (None, Some(error)) => Err(failed_call.error(error)),
        (None, None) => Err(failed("the server left out a row of a batch")),
    }
}

/// Whether the record has a size that can be asked for in the same call.
fn has_size_after(policy: &WritePolicy, operations: &[Operation]) -> bool {
    let updates = !matches!(
        policy.record_exists_action,
        RecordExistsAction::Replace | RecordExistsAction::ReplaceOnly
    );
    let leaves_it = |operation: &Operation| {
        !matches!(
            operation.on_wire(),
            Ok((_, WireOperation::DeleteAll | WireOperation::ReadAll))
        )
    };
    updates && operations.iter().all(leaves_it)
}

/// Relations that keep their children or edges in an index run on a cluster in their other layouts only: servers keep no
/// index in the order of values, so there is none to page by.
impl IndexedRecordSet for ClusterSet {
    /// # Errors
    /// [`Error::Forbidden`] always.
    fn ensure_index(&self, definition: IndexDefinition) -> Result<()> {
        Err(self.no_order(definition.name()))
    }

    /// # Errors
    /// [`Error::Forbidden`] always.
    fn query_keys(&self, query: &IndexQuery<'_>) -> Result<KeyPage> {
        Err(self.no_order(query.index))
    }
}

impl RecordSet for ClusterSet {
    fn operate_on(
        &self,
        policy: &WritePolicy,
        key: &Key<'_>,
        operations: &[Operation],
    ) -> Result<OperateResult> {
        self.operate(policy, key, operations)
            .map_err(|error| error.about(&self.name, key))
    }

    /// One round trip to each node that has records of the calls. Calls that name a record twice are made one by one, since
    /// a server keeps no order within a batch.
    fn operate_on_each(&self, calls: &[RecordCall<'_>]) -> Vec<Result<OperateResult>> {
        let mut keys = HashSet::new();
        let are_distinct = calls.iter().all(|call| keys.insert(&call.key));
        if !are_distinct || calls.len() < 2 {
            return calls
                .iter()
                .map(|call| self.operate_on(call.policy, &call.key, call.operations))
                .collect();
        }
        let results = self.operate_batch(calls);
        let named = results.into_iter().zip(calls);
        named
            .map(|(result, call)| result.map_err(|error| error.about(&self.name, &call.key)))
            .collect()
    }

    fn scan_each(&self, each: &mut dyn FnMut(Result<Record>) -> ControlFlow<()>) {
        scan::records(self.scanned(None), PartitionFilter::all(), each);
    }

    /// The time of this machine's clock.
    fn now_ms(&self) -> u64 {
        SystemClock.now_ms()
    }

    fn max_record_bytes(&self) -> Option<u64> {
        self.link.max_record_bytes
    }

    /// Asks the servers to delete a record that no filter lets through: those of the Community Edition refuse every durable
    /// delete, and namespaces that are strongly consistent every other one. One round trip for each cluster and kind of delete.
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
        let client = Arc::clone(&self.link.client);
        let started = Instant::now();
        let answer = self
            .link
            .wait(async move { client.delete(&sent_policy, &key).await })?;
        if let Err(error) = answer {
            let failed = self.failed_call(&policy, &[], started).error(&error);
            if !matches!(failed, Error::FilteredOut { .. }) {
                return Err(failed);
            }
        }
        known.store(true, Ordering::Relaxed);
        Ok(())
    }

    /// `None`: servers do not tell it.
    fn contention_on(&self, _: &Key<'_>) -> Option<HotRecord> {
        None
    }
}
