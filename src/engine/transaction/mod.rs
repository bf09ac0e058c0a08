//! Transactions over records of a namespace: optimistic, serializable.
//!
//! - `attempt.rs`: one attempt: what it reads, what it will write, its commit
//! - `set.rs`: the calls of a closure on records
//! - `together.rs`: writes of several records that are known beforehand
//! - `policy.rs`: how often, how long, how much
//!
//! The protocol of the commit, and why it is serializable, is in `spikelet_storage`'s module
//! `transaction`.

mod attempt;
mod policy;
mod set;
mod together;

use std::time::Instant;

use spikelet_storage::Lsn;

use crate::record::Key;
use crate::{Error, Result};

use super::activity::OperationKind;
use super::namespace::Namespace;
#[cfg(feature = "server")]
use super::policy::ShardAccess;
use super::policy::WritePolicy;
use super::set::Set;
use super::store::Store;
pub(super) use attempt::TransactionRun;
use attempt::{CommitFailure, Conflict};
pub(super) use policy::TransactionCounts;
pub use policy::{TransactionPolicy, TransactionStats};
pub use set::TransactionSet;
pub(super) use together::{KnownWrite, WriteAction};
pub use together::{TOKEN_SET, WriteGroup};

/// A transaction, as its closure gets it: see [`Namespace::transaction`].
#[derive(Clone, Copy, Debug)]
pub struct Transaction<'t> {
    attempt: &'t TransactionRun,
}

impl<'t> Transaction<'t> {
    pub(super) const fn of(attempt: &'t TransactionRun) -> Self {
        Self { attempt }
    }

    pub(super) const fn attempt(&self) -> &'t TransactionRun {
        self.attempt
    }

    /// Makes writes that belong together: takes all of them back if `make` fails.
    pub(crate) fn all_or_none<R>(&self, make: impl FnOnce() -> Result<R>) -> Result<R> {
        self.attempt.all_or_none(make)
    }

    /// The keys of records of a set that the transaction has written, and not deleted.
    pub(crate) fn written_keys(&self, set: &str) -> Vec<Key<'static>> {
        self.attempt.written_keys(set)
    }

    /// Returns a set of the namespace inside the transaction.
    ///
    /// # Errors
    /// [`Error::Parameter`] for a name that is not allowed.
    pub fn set(&self, name: &str) -> Result<TransactionSet<'t>> {
        Set::new(self.attempt.core(), name).map(|set| TransactionSet::new(self, set))
    }

    /// Returns this set, with its filter, inside the transaction.
    ///
    /// # Errors
    /// [`Error::Parameter`] for a set of another namespace.
    pub fn in_set(&self, set: &Set) -> Result<TransactionSet<'t>> {
        if std::sync::Arc::ptr_eq(&set.core.namespace, self.attempt.core()) {
            return Ok(TransactionSet::new(self, set.clone()));
        }
        Err(Error::parameter(format!(
            "a transaction of namespace {} cannot use set \"{}\" of namespace {}: a transaction has one namespace",
            self.attempt.core().storage.name(),
            set.name(),
            set.core.namespace.storage.name(),
        )))
    }
}

impl Namespace {
    /// Runs `run` as a transaction: its reads and writes through the [`Transaction`] happen at one
    /// moment or not at all, for other transactions and snapshot reads, and after a crash.
    ///
    /// Reads take no lock, writes are kept in memory and seen by the transaction's own reads. At
    /// the end all that was read is looked at again, with the records that are written locked; if
    /// another writer came between, **`run` is run again**. So it must have no effect of its own
    /// that cannot be repeated, and should be short. A run that is going to be repeated may have
    /// read records of different moments. An error of `run` ends the transaction and writes
    /// nothing; it is returned only if the versions that `run` has read were there at one moment,
    /// else `run` is run again.
    ///
    /// ```
    /// # fn main() -> spikelet::Result<()> {
    /// use spikelet::Error;
    ///
    /// let store = spikelet::Store::in_memory()?;
    /// let accounts = store.set("accounts")?;
    /// accounts.put("alice", [("cents", 100)])?;
    /// accounts.put("bob", [("cents", 0)])?;
    /// store.transaction(|tx| {
    ///     let accounts = tx.set("accounts")?;
    ///     let alice = accounts.get("alice")?.and_then(|alice| alice.get("cents"));
    ///     if alice.and_then(|cents| cents.as_i64()) < Some(30) {
    ///         return Err(Error::Forbidden("not enough money".into()));
    ///     }
    ///     accounts.add("alice", [("cents", -30)])?;
    ///     accounts.add("bob", [("cents", 30)])
    /// })?;
    /// assert_eq!(accounts.get("bob")?.and_then(|bob| bob.get("cents")), Some(30.into()));
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// Calls of a [`Set`] inside `run` are no part of the transaction. Single reads elsewhere may
    /// see one record of the transaction before another: [`Namespace::snapshot_read`] does not.
    ///
    /// # Errors
    /// What `run` returns; [`Error::Conflict`] if other writers came between in every attempt; the
    /// errors of a commit: [`Error::StopWrites`] for want of space, [`Error::Storage`]. Nothing was
    /// written, unless [`Error::in_doubt`] says so.
    pub fn transaction<R>(&self, run: impl FnMut(&Transaction<'_>) -> Result<R>) -> Result<R> {
        self.transaction_with(&TransactionPolicy::default(), run)
    }

    /// [`Namespace::transaction`] by a policy.
    ///
    /// # Errors
    /// As for [`Namespace::transaction`].
    pub fn transaction_with<R>(
        &self,
        policy: &TransactionPolicy,
        run: impl FnMut(&Transaction<'_>) -> Result<R>,
    ) -> Result<R> {
        Ok(self.run_attempts(policy, true, run)?.0)
    }

    /// Runs `run` as a transaction that writes nothing: all that it returns was there at one
    /// moment. As with [`Namespace::transaction`], `run` is run again if another writer came
    /// between.
    ///
    /// ```
    /// # fn main() -> spikelet::Result<()> {
    /// let store = spikelet::Store::in_memory()?;
    /// let accounts = store.set("accounts")?;
    /// accounts.put("alice", [("cents", 70)])?;
    /// accounts.put("bob", [("cents", 30)])?;
    /// let sum: i64 = store.snapshot_read(|tx| {
    ///     let accounts = tx.set("accounts")?.get_batch(["alice", "bob"]);
    ///     let cents = |account: &spikelet::Record| account.get("cents")?.as_i64();
    ///     accounts.into_iter().map(|account| Ok(account?.as_ref().and_then(cents).unwrap_or(0))).sum()
    /// })?;
    /// assert_eq!(sum, 100);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// What `run` returns, [`Error::Conflict`], and [`Error::Forbidden`] for a write.
    pub fn snapshot_read<R>(&self, run: impl FnMut(&Transaction<'_>) -> Result<R>) -> Result<R> {
        self.snapshot_read_with(&TransactionPolicy::default(), run)
    }

    /// [`Namespace::snapshot_read`] by a policy: its attempts and its timeout count.
    ///
    /// # Errors
    /// As for [`Namespace::snapshot_read`].
    pub fn snapshot_read_with<R>(
        &self,
        policy: &TransactionPolicy,
        run: impl FnMut(&Transaction<'_>) -> Result<R>,
    ) -> Result<R> {
        Ok(self.run_attempts(policy, false, run)?.0)
    }

    /// The counts of this namespace's transactions since it was opened.
    #[must_use]
    pub fn transaction_stats(&self) -> TransactionStats {
        let latency = self.core.activity.latency(OperationKind::Transaction);
        self.core.transactions.stats(&latency)
    }

    /// Returns the result of `run` in the attempt that was committed, and the number of the commit,
    /// if it has written.
    fn run_attempts<R>(
        &self,
        policy: &TransactionPolicy,
        takes_writes: bool,
        run: impl FnMut(&Transaction<'_>) -> Result<R>,
    ) -> Result<(R, Option<Lsn>)> {
        self.tracked(|| self.repeat(policy, takes_writes, run))
    }

    /// Runs a transaction that is part of a write with this policy, which the write's call counts.
    pub(crate) fn transaction_of_call<R>(
        &self,
        policy: &WritePolicy,
        run: impl FnMut(&Transaction<'_>) -> Result<R>,
    ) -> Result<R> {
        let policy = TransactionPolicy {
            acknowledge: policy.acknowledge,
            total_timeout: policy.total_timeout,
            #[cfg(feature = "server")]
            yields: policy.access == ShardAccess::Remote,
            ..TransactionPolicy::default()
        };
        Ok(self.repeat(&policy, true, run)?.0)
    }

    /// Counts a transaction, and times it if it is committed.
    fn tracked<R>(&self, run: impl FnOnce() -> Result<R>) -> Result<R> {
        let activity = &self.core.activity;
        let began = activity.begin(OperationKind::Transaction);
        let done = run();
        let began = began.filter(|_| done.is_ok());
        activity.end(OperationKind::Transaction, began, done.as_ref().err());
        done
    }

    fn repeat<R>(
        &self,
        policy: &TransactionPolicy,
        takes_writes: bool,
        mut run: impl FnMut(&Transaction<'_>) -> Result<R>,
    ) -> Result<(R, Option<Lsn>)> {
        let counters = &self.core.transactions;
        let began = Instant::now();
        let ends = policy
            .total_timeout
            .and_then(|timeout| began.checked_add(timeout));
        let mut attempts = 1;
        loop {
            TransactionCounts::count(&counters.attempts);
            let conflict = match self.run_once(policy, takes_writes, ends, &mut run) {
                Ok(outcome) => return outcome,
                Err(conflict) => conflict,
            };
            // A task waits for the record itself, and makes all of it again.
            if spikelet_storage::Attempt::is_put_off() {
                return Err(conflict.into_error(attempts));
            }
            TransactionCounts::count(&counters.conflicts);
            let is_over = attempts >= policy.retry.max_attempts || !pause(policy, attempts, ends);
            if is_over {
                return Err(conflict.into_error(attempts));
            }
            attempts += 1;
            TransactionCounts::count(&counters.retries);
        }
    }

    /// Runs the closure once and commits. The outer error is a conflict.
    fn run_once<R>(
        &self,
        policy: &TransactionPolicy,
        takes_writes: bool,
        ends: Option<Instant>,
        run: &mut impl FnMut(&Transaction<'_>) -> Result<R>,
    ) -> std::result::Result<Result<(R, Option<Lsn>)>, Conflict> {
        let counters = &self.core.transactions;
        let attempt = TransactionRun::new(&self.core, policy, takes_writes);
        let outcome = run(&Transaction { attempt: &attempt });
        // An error of the closure is checked, too: it may come of records of different moments.
        match attempt.finish(outcome.is_ok(), policy.acknowledge, ends) {
            Ok(lsn) => {
                TransactionCounts::count(match outcome {
                    Ok(_) => &counters.commits,
                    Err(_) => &counters.aborts,
                });
                Ok(outcome.map(|returned| (returned, lsn)))
            }
            Err(CommitFailure::Conflict(conflict)) => Err(conflict),
            Err(CommitFailure::Failed(error)) => Ok(outcome.and(Err(error))),
        }
    }
}

/// Pauses before the next attempt. Returns false if there is no time for one.
fn pause(policy: &TransactionPolicy, attempts: u32, ends: Option<Instant>) -> bool {
    if ends.is_some_and(|ends| Instant::now() >= ends) {
        return false;
    }
    let sleep = || std::thread::sleep(policy.retry.pause_after(attempts - 1));
    match attempts {
        1 => std::thread::yield_now(),
        // The thread is a runtime's: another one serves its connections meanwhile.
        #[cfg(feature = "server")]
        _ if policy.yields => tokio::task::block_in_place(sleep),
        _ => sleep(),
    }
    true
}

impl Store {
    /// Runs a transaction in the store's default namespace: see [`Namespace::transaction`].
    ///
    /// # Errors
    /// As for [`Namespace::transaction`], and [`Error::Parameter`] if no namespace is the default.
    pub fn transaction<R>(&self, run: impl FnMut(&Transaction<'_>) -> Result<R>) -> Result<R> {
        self.default_namespace()?.transaction(run)
    }

    /// Runs a snapshot read in the store's default namespace: see [`Namespace::snapshot_read`].
    ///
    /// # Errors
    /// As for [`Namespace::snapshot_read`], and [`Error::Parameter`] if no namespace is the
    /// default.
    pub fn snapshot_read<R>(&self, run: impl FnMut(&Transaction<'_>) -> Result<R>) -> Result<R> {
        self.default_namespace()?.snapshot_read(run)
    }
}
