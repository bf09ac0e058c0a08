//! Writes of several records that are known beforehand: all of them are made, or none.

use std::borrow::Cow;

use smallvec::SmallVec;
use spikelet_storage::{Digest, Lsn};
use xxhash_rust::xxh3::xxh3_128;

use super::set::TransactionSet;
use super::{Transaction, TransactionPolicy};
use crate::engine::namespace::Namespace;
use crate::engine::policy::{Acknowledge, DEFAULT_WRITE, Expiration, WritePolicy};
use crate::engine::set::{OperateResult, RecordAccess, RecordCall, Set, name_bins};
use crate::engine::store::Store;
use crate::operation::Operation;
use crate::record::{Bins, Key};
use crate::value::Value;
use crate::{Error, Result};

/// The set that holds the tokens of [`Namespace::write_together_once`], a record each, which
/// expires.
pub const TOKEN_SET: &str = "<tokens";

/// The hash of the writes under a token.
const WRITES_BIN: &str = "writes";

/// Writes that are made all or none: what the closure of [`Namespace::write_together`] fills.
///
/// Writes are numbered in the order of the calls. Their results come in this order, and errors name
/// the number. A later write to a record meets it as the earlier ones have left it.
///
/// Of a [`WritePolicy`], the timeout and the acknowledgement do not count: the
/// [`TransactionPolicy`]'s do.
#[derive(Debug, Default)]
pub struct WriteGroup<'a> {
    /// Most groups have two: an edge, a transfer.
    writes: SmallVec<[KnownWrite<'a>; 2]>,
    /// Writes that no record need be asked about, by their numbers.
    refused: Vec<(usize, Error)>,
}

/// One write of a group.
#[derive(Debug)]
pub(in crate::engine) struct KnownWrite<'a> {
    pub(in crate::engine) set: &'a Set,
    pub(in crate::engine) key: Key<'a>,
    pub(in crate::engine) digest: Digest,
    pub(in crate::engine) policy: &'a WritePolicy,
    pub(in crate::engine) action: WriteAction<'a>,
}

impl KnownWrite<'_> {
    /// What makes it another write: not its namespace, nor how long it waits and for what.
    fn shown(&self) -> impl std::fmt::Debug {
        let policy = self.policy.clone();
        let policy = policy.total_timeout(None).acknowledge(Acknowledge::Applied);
        let set = (self.set.name(), &self.set.filter);
        (set, &self.key, policy, &self.action)
    }

    /// Whether it deletes its record, and does nothing else.
    fn is_deletion(&self) -> bool {
        match &self.action {
            WriteAction::Operate(operations) => operations.iter().all(Operation::deletes_record),
            WriteAction::Delete => true,
            WriteAction::Put(_) | WriteAction::Check => false,
        }
    }
}

/// What a write of a group does to its record.
#[derive(Debug)]
pub(in crate::engine) enum WriteAction<'a> {
    Operate(Cow<'a, [Operation]>),
    Put(Bins),
    Delete,
    /// Nothing but to ask what the policy demands.
    Check,
}

impl<'a> WriteGroup<'a> {
    /// Sets bins of a record, as [`Set::put`].
    pub fn put<N: AsRef<str>, V: Into<Value>>(
        &mut self,
        set: &'a Set,
        key: impl Into<Key<'a>>,
        bins: impl IntoIterator<Item = (N, V)>,
    ) {
        self.put_with(&DEFAULT_WRITE, set, key, bins);
    }

    /// Sets bins of a record by a policy, as [`Set::put_with`].
    pub fn put_with<N: AsRef<str>, V: Into<Value>>(
        &mut self,
        policy: &'a WritePolicy,
        set: &'a Set,
        key: impl Into<Key<'a>>,
        bins: impl IntoIterator<Item = (N, V)>,
    ) {
        let position = self.writes.len();
        self.push(set, key.into(), policy, WriteAction::Put(Bins::new()));
        let Some(write) = self.writes.last_mut() else {
            return;
        };
        if let WriteAction::Put(named) = &mut write.action
            && let Err(error) = name_bins(named, policy, bins)
        {
            self.refused.push((position, set.about(&write.key, error)));
        }
    }

    /// Does operations on one record, as [`Set::operate`]: a vector of them, or borrowed ones that
    /// outlive the call.
    pub fn operate(
        &mut self,
        set: &'a Set,
        key: impl Into<Key<'a>>,
        operations: impl Into<Cow<'a, [Operation]>>,
    ) {
        self.operate_with(&DEFAULT_WRITE, set, key, operations);
    }

    /// Does operations on one record by a policy, as [`Set::operate_with`].
    pub fn operate_with(
        &mut self,
        policy: &'a WritePolicy,
        set: &'a Set,
        key: impl Into<Key<'a>>,
        operations: impl Into<Cow<'a, [Operation]>>,
    ) {
        let action = WriteAction::Operate(operations.into());
        self.push(set, key.into(), policy, action);
    }

    /// Deletes a record, as [`Set::delete`]: it is no error if there is none.
    pub fn delete(&mut self, set: &'a Set, key: impl Into<Key<'a>>) {
        self.delete_with(&DEFAULT_WRITE, set, key);
    }

    /// Deletes a record by a policy, as [`Set::delete_with`].
    pub fn delete_with(&mut self, policy: &'a WritePolicy, set: &'a Set, key: impl Into<Key<'a>>) {
        self.push(set, key.into(), policy, WriteAction::Delete);
    }

    /// Refuses all the writes unless a record is as the policy demands: its existence action,
    /// generation and filter. Writes nothing to this record.
    pub fn check(&mut self, policy: &'a WritePolicy, set: &'a Set, key: impl Into<Key<'a>>) {
        self.push(set, key.into(), policy, WriteAction::Check);
    }

    /// Makes each of these calls.
    pub(crate) fn operate_all(&mut self, calls: &'a [(&'a Set, RecordCall<'a>)]) {
        self.writes.reserve_exact(calls.len());
        for (set, call) in calls {
            self.operate_with(call.policy, set, &call.key, call.operations);
        }
    }

    fn push(
        &mut self,
        set: &'a Set,
        key: Key<'a>,
        policy: &'a WritePolicy,
        action: WriteAction<'a>,
    ) {
        let digest = set.target(&key);
        self.writes.push(KnownWrite {
            set,
            key,
            digest,
            policy,
            action,
        });
    }

    /// Returns the writes that `name` names.
    ///
    /// # Errors
    /// [`Error::WritesRefused`] for writes that cannot be made with any record.
    #[inline]
    fn named(&mut self, name: impl FnOnce(&mut Self)) -> Result<&[KnownWrite<'a>]> {
        name(self);
        if self.refused.is_empty() {
            return Ok(&self.writes);
        }
        Err(Error::WritesRefused {
            reasons: std::mem::take(&mut self.refused),
        })
    }
}

impl Namespace {
    /// Writes several records that are known beforehand, all of them or none. `name` names the
    /// writes; nothing is done before it returns. Returns a result for each write, in their order.
    ///
    /// The form to choose where no record need be read first: it costs about half of
    /// [`Namespace::transaction`], and meets no conflicts. All records are locked, each is looked
    /// up once, and their new versions become one group of the log. It is serializable with
    /// transactions and with other groups, and all members have one [`Lsn`](crate::Lsn).
    ///
    /// ```
    /// # fn main() -> spikelet::Result<()> {
    /// use spikelet::operations::add;
    /// use spikelet::policy::RecordExistsAction;
    /// use spikelet::{Error, WritePolicy};
    ///
    /// let store = spikelet::Store::in_memory()?;
    /// let (orders, stock) = (store.set("orders")?, store.set("stock")?);
    /// stock.put("pen", [("n", 1)])?;
    /// let new = WritePolicy::default().record_exists_action(RecordExistsAction::CreateOnly);
    /// let order = || {
    ///     store.write_together(|writes| {
    ///         writes.put_with(&new, &orders, 17, [("pens", 1)]);
    ///         writes.operate(&stock, "pen", vec![add("n", -1)]);
    ///     })
    /// };
    /// let results = order()?;
    /// assert_eq!((results[0].generation, results[1].generation), (1, 2));
    /// // The order is there already, so no pen is taken.
    /// let Err(Error::WritesRefused { reasons }) = order() else { panic!() };
    /// assert!(matches!(reasons[..], [(0, Error::RecordExists { .. })]));
    /// assert_eq!(stock.get("pen")?.and_then(|pen| pen.get("n")), Some(0.into()));
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// [`Error::WritesRefused`] with the reason for each write that its record, or its policy,
    /// refused; each reason names the record. [`Error::KeyBusy`] and [`Error::Timeout`], with the
    /// record that was fought over; [`Error::TransactionLimit`], [`Error::StopWrites`]. Nothing was
    /// written, unless [`Error::in_doubt`] says so.
    pub fn write_together<'a>(
        &self,
        name: impl FnOnce(&mut WriteGroup<'a>),
    ) -> Result<Vec<OperateResult>> {
        self.write_together_with(&TransactionPolicy::default(), name)
    }

    /// [`Namespace::write_together`] by a policy.
    ///
    /// # Errors
    /// As for [`Namespace::write_together`].
    pub fn write_together_with<'a>(
        &self,
        policy: &TransactionPolicy,
        name: impl FnOnce(&mut WriteGroup<'a>),
    ) -> Result<Vec<OperateResult>> {
        let mut group = WriteGroup::default();
        let writes = group.named(name)?;
        self.tracked(|| {
            match self.core.write_known(policy, writes) {
                // Records are deleted with their edges in a transaction, which finds their other
                // ends.
                Some(Err(Error::WritesRefused { reasons }))
                    if reasons.iter().any(|reason| deletes_edges(writes, reason)) => {}
                Some(results) => return results,
                None => {}
            }
            let (made, lsn) = self.repeat(policy, true, |tx| make_all(tx, writes))?;
            Ok(numbered(made, lsn))
        })
    }

    /// Writes several records as [`Namespace::write_together`] does, but only once for a token: for
    /// callers who do not know whether an earlier attempt has arrived. `None`: these writes were
    /// made before under this token.
    ///
    /// The token is written with the records, in the same transaction, and forgotten after
    /// [`TransactionPolicy::token_time_to_live`]: a record of the set [`TOKEN_SET`], which counts
    /// as one of the transaction's.
    ///
    /// ```
    /// # fn main() -> spikelet::Result<()> {
    /// use spikelet::TransactionPolicy;
    /// use spikelet::operations::add;
    ///
    /// let store = spikelet::Store::in_memory()?;
    /// let stock = store.set("stock")?;
    /// let namespace = store.namespace("test")?;
    /// let order = || {
    ///     namespace.write_together_once(&TransactionPolicy::default(), "order 17", |writes| {
    ///         writes.operate(&stock, "pen", vec![add("n", -1)]);
    ///     })
    /// };
    /// assert!(order()?.is_some());
    /// assert!(order()?.is_none()); // it has arrived before
    /// assert_eq!(stock.get("pen")?.and_then(|pen| pen.get("n")), Some((-1).into()));
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// As for [`Namespace::write_together`] and [`Namespace::transaction`], and
    /// [`Error::Parameter`] for a token under which other writes were made. Writes are compared as
    /// this build of the library shows them, so a program that was built anew meanwhile may be
    /// refused.
    pub fn write_together_once<'a>(
        &self,
        policy: &TransactionPolicy,
        token: &str,
        name: impl FnOnce(&mut WriteGroup<'a>),
    ) -> Result<Option<Vec<OperateResult>>> {
        let mut group = WriteGroup::default();
        let writes = group.named(name)?;
        let tokens = self.set(TOKEN_SET)?;
        let shown: Vec<_> = writes.iter().map(KnownWrite::shown).collect();
        let hash = xxh3_128(format!("{shown:?}").as_bytes()).to_le_bytes();
        let hash = Value::Blob(hash.to_vec());
        let kept = WritePolicy::default().expiration(Expiration::After(policy.token_time_to_live));
        let (made, lsn) = self.run_attempts(policy, true, |tx| {
            let tokens = tx.in_set(&tokens)?;
            if let Some(known) = tokens.get(token)? {
                if known.get(WRITES_BIN).as_ref() == Some(&hash) {
                    return Ok(None);
                }
                return Err(Error::parameter(format!(
                    "token {token:?} stands for other writes: use a new token for each group"
                )));
            }
            let made = make_all(tx, writes)?;
            tokens.put_with(&kept, token, [(WRITES_BIN, hash.clone())])?;
            Ok(Some(made))
        })?;
        Ok(made.map(|made| numbered(made, lsn)))
    }
}

impl Store {
    /// Writes several records of the store's default namespace, all of them or none: see
    /// [`Namespace::write_together`].
    ///
    /// # Errors
    /// As for [`Namespace::write_together`], and [`Error::Parameter`] if no namespace is the
    /// default.
    pub fn write_together<'a>(
        &self,
        name: impl FnOnce(&mut WriteGroup<'a>),
    ) -> Result<Vec<OperateResult>> {
        self.default_namespace()?.write_together(name)
    }

    /// [`Store::write_together`] by a policy.
    ///
    /// # Errors
    /// As for [`Store::write_together`].
    pub fn write_together_with<'a>(
        &self,
        policy: &TransactionPolicy,
        name: impl FnOnce(&mut WriteGroup<'a>),
    ) -> Result<Vec<OperateResult>> {
        self.default_namespace()?.write_together_with(policy, name)
    }
}

/// Whether a deletion was refused for the edges of its record.
fn deletes_edges(writes: &[KnownWrite<'_>], (position, reason): &(usize, Error)) -> bool {
    let is_deletion = writes.get(*position).is_some_and(KnownWrite::is_deletion);
    is_deletion && matches!(reason, Error::HasEdges { .. })
}

/// The result of a write in a transaction, and whether there is anything to commit.
type Made = (OperateResult, bool);

/// Gives the number of the commit to its writes.
fn numbered(made: Vec<Made>, lsn: Option<Lsn>) -> Vec<OperateResult> {
    let numbered = made.into_iter().map(|(mut result, wrote)| {
        result.lsn = lsn.filter(|_| wrote);
        result
    });
    numbered.collect()
}

/// Makes the writes in a transaction, or says why they are refused.
fn make_all(tx: &Transaction<'_>, writes: &[KnownWrite<'_>]) -> Result<Vec<Made>> {
    let mut made = Vec::with_capacity(writes.len());
    let mut reasons = Vec::new();
    for (position, write) in writes.iter().enumerate() {
        let set = tx.in_set(write.set).map(|set| {
            if write.is_deletion() {
                set
            } else {
                set.keeping_edges()
            }
        });
        match set.and_then(|set| make(&set, write)) {
            Ok(result) => made.push(result),
            // They are of the whole transaction, and not of this write.
            Err(error @ (Error::Conflict { .. } | Error::TransactionLimit { .. })) => {
                return Err(error);
            }
            Err(error) => reasons.push((position, error)),
        }
    }
    if reasons.is_empty() {
        return Ok(made);
    }
    Err(Error::WritesRefused { reasons })
}

fn make(set: &TransactionSet<'_>, write: &KnownWrite<'_>) -> Result<Made> {
    let (policy, key) = (write.policy, &write.key);
    match &write.action {
        WriteAction::Operate(operations) => {
            let result = set.operate_with(policy, key, operations)?;
            let wrote = operations.iter().any(Operation::is_write);
            Ok((result, wrote))
        }
        WriteAction::Put(bins) => {
            let digest = set.base().digest_of(key);
            let put = set.merge_at(policy, key, digest, bins)?;
            let mut result = OperateResult::default();
            put.note_in(&mut result);
            // There was no wait yet.
            result.queued_behind = None;
            Ok((result, true))
        }
        WriteAction::Delete => {
            let deleted = set.delete_with(policy, key)?;
            Ok((OperateResult::default(), deleted))
        }
        WriteAction::Check => Ok((set.check(policy, key)?, false)),
    }
}
