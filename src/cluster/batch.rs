//! Calls as they are sent: one, or several as one batch.

use std::borrow::Cow;
use std::pin::pin;
use std::time::Instant;

use aerospike as theirs;

use super::link::{Link, pinnable};
use super::{operation, policy, results};
use crate::{OperateResult, Operation, Result, WritePolicy};

/// A call, as it is sent.
#[derive(Debug)]
pub(super) struct Prepared {
    pub(super) key: theirs::Key,
    pub(super) operations: Vec<theirs::operations::Operation>,
    pub(super) writes: bool,
    /// Whether the last operation reads the size of the record.
    pub(super) asks_size: bool,
}

impl Prepared {
    pub(super) fn new(key: theirs::Key, operations: &[Operation]) -> Result<Self> {
        let encoded: Result<Vec<_>> = operations.iter().map(operation::encode).collect();
        Ok(Self {
            key,
            operations: encoded?,
            writes: operations.iter().any(Operation::is_write),
            asks_size: false,
        })
    }
}

/// A call of a batch.
#[derive(Debug)]
pub(super) struct BatchRow<'a> {
    pub(super) policy: Cow<'a, WritePolicy>,
    pub(super) operations: Cow<'a, [Operation]>,
    pub(super) sent: Prepared,
}

impl BatchRow<'_> {
    fn take_row(&mut self) -> Result<theirs::BatchOperation> {
        let operations = std::mem::take(&mut self.sent.operations);
        let key = self.sent.key.clone();
        Ok(if self.sent.writes {
            theirs::BatchOperation::write(&policy::row_write(&self.policy)?, key, operations)
        } else {
            theirs::BatchOperation::read_ops(&policy::row_read(&self.policy)?, key, operations)
        })
    }

    /// The result of this call. `batch`: the error of the whole batch, which rows have that were
    /// never sent.
    fn result(
        &self,
        link: &Link,
        row: Option<theirs::BatchOperation>,
        batch: Option<&theirs::Error>,
        started: Instant,
    ) -> Result<OperateResult> {
        let mut row = row.map(theirs::BatchOperation::into_batch_record);
        let record = row.as_mut().and_then(|row| row.record.take());
        let error = row.as_ref().and_then(theirs::BatchRecord::error).or(batch);
        let failed_call = link.failed_call(&self.policy, &self.operations, started);
        match (record, error) {
            (Some(record), _) => results::decode(record, &self.operations, self.sent.asks_size),
            (None, Some(error)) => Err(failed_call.error(error)),
            // A row without a record and an error of its own: the server has not answered it.
            (None, None) => Err(failed_call.unanswered("the server left out a row of a batch")),
        }
    }
}

/// Sends a call on one record.
pub(super) async fn send_one(
    link: &Link,
    policy: &WritePolicy,
    operations: &[Operation],
    sent: &Prepared,
) -> Result<theirs::Record> {
    let mut sent_policy = policy::single(policy, sent.writes, link.read_retries)?;
    // Of several answers the places must be known.
    sent_policy.respond_per_each_op = sent.operations.len() > 1;
    let started = Instant::now();
    let (key, sent) = (&sent.key, &sent.operations);
    let call = pin!(pinnable(link.client.operate(&sent_policy, key, sent)));
    let answer = link.run(call).await;
    let failed = || link.failed_call(policy, operations, started);
    match answer {
        Ok(answer) => answer.map_err(|error| failed().error(&error)),
        Err(ended) => Err(failed().given_up(&ended)),
    }
}

/// The rows of one batch. Servers refuse a batch of more: their `batch-max-requests`, 5,000 unless
/// configured.
const BATCH_ROWS_MAX: usize = 5_000;

/// Sends calls on different records, and returns their results in the order of the calls. One that
/// could not be prepared keeps its error.
pub(super) async fn send(
    link: &Link,
    calls: Vec<Result<BatchRow<'_>>>,
) -> Vec<Result<OperateResult>> {
    let mut results = Vec::with_capacity(calls.len());
    let mut left = calls.into_iter();
    while left.len() > 0 {
        let batch = left.by_ref().take(BATCH_ROWS_MAX).collect();
        results.extend(send_batch(link, batch).await);
    }
    results
}

/// Sends at most [`BATCH_ROWS_MAX`] calls.
async fn send_batch(
    link: &Link,
    mut calls: Vec<Result<BatchRow<'_>>>,
) -> Vec<Result<OperateResult>> {
    let mut rows = Vec::with_capacity(calls.len());
    for call in &mut calls {
        let row = call.as_mut().ok().map(BatchRow::take_row);
        match row {
            Some(Ok(row)) => rows.push(row),
            Some(Err(error)) => *call = Err(error),
            None => {}
        }
    }
    let sent = || calls.iter().flatten();
    let policies = sent().map(|call| &*call.policy);
    let writes = sent().any(|call| call.sent.writes);
    let policy = policy::batch(policies, writes, link.read_retries);
    let started = Instant::now();
    let batch = link.client.batch(&policy, &mut rows);
    let answered = link.run(pin!(pinnable(batch))).await;
    let failure = match answered {
        Ok(answered) => answered.err(),
        Err(ended) => {
            let unanswered = |call: Result<BatchRow<'_>>| {
                let call = call?;
                let call = link.failed_call(&call.policy, &call.operations, started);
                Err(call.given_up(&ended))
            };
            return calls.into_iter().map(unanswered).collect();
        }
    };
    let mut rows = rows.into_iter();
    let results = calls.into_iter();
    results
        .map(|call| call?.result(link, rows.next(), failure.as_ref(), started))
        .collect()
}
