//! Provisional versions of records: what a wire client's transaction has written and not committed.
//!
//! - `locks.rs`: which records are locked by which transaction
//! - `commit.rs`: the versions of a transaction become records together
//! - `guards.rs`: what keeps them apart from transactions of this process; `interleavings.rs`
//!   checks each of it
//!
//! A provisional version is kept in memory by the server; the record stays as it is until the
//! commit, for readers, indexes and the log. Other clients' writes are refused meanwhile. Writes of
//! this process are not: the commit finds them, and is refused ([decision
//! 13](../../../docs/decisions/0013-transactions-on-the-wire.md)).

mod commit;
pub(super) mod guards;
#[cfg(all(test, shuttle))]
mod interleavings;
pub(crate) mod locks;

use std::num::NonZeroU64;
use std::sync::atomic::Ordering;

use spikelet_storage::{BufferedVersion, ConflictCause, Digest, EntryView, RecordVersion};

use super::by_digest::{DigestAddress, RemoteRecord};
use super::core::{expired, metadata_of};
use super::namespace::Namespace;
use super::policy::WritePolicy;
use super::refusals::{check_key, conflict};
use super::scratch::Scratch;
use super::write::{EditOutcome, WriteEdit, WriteOutcome, WritePlan, WriteRefusal, seen_by_write};
use crate::operation::{Checked, ResultSink};
use crate::{Error, Result};

/// A version of a record that its transaction alone sees.
#[derive(Debug)]
pub(crate) struct Provisional {
    /// The record that the transaction has met at its first write.
    base: Base,
    /// `None`: the transaction deletes the record.
    version: Option<BufferedVersion>,
    /// Whether a root loses the description of its shards.
    loses_shards: bool,
    /// The number of the relations' declarations by which it was judged.
    rules: u64,
}

/// The record when a transaction first writes it.
#[derive(Clone, Copy, Debug)]
enum Base {
    /// A live record.
    Live {
        version: RecordVersion,
        /// In seconds since 2010; 0: it does not expire.
        void_time: u32,
    },
    /// None, and which absence that is.
    Absent { stamp: u64 },
}

impl Provisional {
    /// The record as the transaction sees it; `None`: it has deleted it.
    pub(crate) fn record(&self) -> Option<RemoteRecord<'_>> {
        let version = self.version.as_ref()?;
        Some(RemoteRecord::new(version.view()))
    }

    /// Its approximate size in memory, in bytes.
    pub(crate) fn bytes(&self) -> usize {
        let version = self.version.as_ref().map_or(0, BufferedVersion::bytes);
        version + size_of::<Self>()
    }
}

/// What a write of a transaction is made on.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Before<'p> {
    /// The record, which it locks for the transaction.
    Record {
        /// The digest of its monitor.
        transaction: Digest,
        /// The stamp of the version that the transaction has read, if it has.
        read: Option<u64>,
    },
    /// The transaction's earlier write.
    Provisional(&'p Provisional),
    /// Nothing is there, and nothing is locked.
    Nothing,
}

/// A write of a transaction.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ProvisionalWrite<'a> {
    pub(crate) address: DigestAddress<'a>,
    pub(crate) policy: &'a WritePolicy,
    pub(crate) before: Before<'a>,
}

/// Expired records have the stamp of a live one, with this bit.
const EXPIRED_STAMP: u64 = 1 << 54;

/// A number for a version that a transaction has read: it fits into 55 bits, is never 0, and
/// another one for each version of the record, and for its absence.
fn stamp_of(version: RecordVersion, entry: Option<&EntryView<'_>>, now_ms: u64) -> u64 {
    let is_expired = entry.is_some_and(|entry| expired(entry, now_ms));
    version.stamp() | if is_expired { EXPIRED_STAMP } else { 0 }
}

impl Namespace {
    /// Executes operations that write, and keeps the new version apart from the record.
    ///
    /// # Errors
    /// [`Error::Conflict`]: [`ConflictCause::Locked`] if another transaction has the record locked,
    /// [`ConflictCause::Changed`] if it is not the version that the transaction has read. Else as
    /// for [`Namespace::write_at`].
    pub(crate) fn write_provisional(
        &self,
        write: &ProvisionalWrite<'_>,
        operations: &Checked<'_>,
        results: &mut dyn ResultSink,
    ) -> std::result::Result<(Provisional, WriteOutcome), WriteRefusal> {
        let ProvisionalWrite {
            address, policy, ..
        } = write;
        let set_id = self.set_to_write(address.set, policy, operations)?;
        let body = &mut Scratch::take();
        let target = address.target(set_id);
        self.keep_provisional(write, |found, now_ms| {
            let must_exist = operations.must_exist();
            let live = (seen_by_write(found, &target, policy)?, now_ms);
            let edit: &mut WriteEdit<'_> = &mut |old, facts, body| {
                EditOutcome::of_operations(operations, (old, facts), body, results)
            };
            let core = &self.core;
            let evaluated = core.evaluate(body, &target, policy, must_exist, live, edit)?;
            let written = match &evaluated.plan {
                // Operations always leave a body, if only an empty one.
                WritePlan::Nothing | WritePlan::Delete => None,
                WritePlan::Put(version) => Some(BufferedVersion::new(
                    &target.digest,
                    &version.with_body(body),
                )),
            };
            let loses_shards = evaluated.loses_shards;
            Ok((written, loses_shards, evaluated.outcome(0, None)))
        })
    }

    /// Deletes a record for its transaction alone.
    ///
    /// # Errors
    /// [`Error::Conflict`] as for [`Namespace::write_provisional`], else as for
    /// [`Namespace::delete_at`].
    pub(crate) fn delete_provisional(
        &self,
        write: &ProvisionalWrite<'_>,
    ) -> std::result::Result<Provisional, WriteRefusal> {
        let address = &write.address;
        let target = address.target(self.set_number(address.set));
        let deleted = self.keep_provisional(write, |found, now_ms| {
            let core = &self.core;
            let judged = core.judge_live_deletion(&target, write.policy, found, now_ms)?;
            Ok((None, judged.loses_shards, ()))
        })?;
        Ok(deleted.0)
    }

    /// Lends the record to `judge`, and keeps the result in its place.
    fn keep_provisional<R>(
        &self,
        write: &ProvisionalWrite<'_>,
        judge: impl FnOnce(
            spikelet_storage::Result<Option<EntryView<'_>>>,
            u64,
        )
            -> std::result::Result<(Option<BufferedVersion>, bool, R), WriteRefusal>,
    ) -> std::result::Result<(Provisional, R), WriteRefusal> {
        let core = &self.core;
        let rules = core.relations.epoch.load(Ordering::Acquire);
        let keep = |base, (version, loses_shards, result): (_, bool, _)| {
            let provisional = Provisional {
                base,
                version,
                loses_shards,
                rules,
            };
            (provisional, result)
        };
        let (transaction, read) = match write.before {
            Before::Nothing => {
                let base = Base::Absent {
                    stamp: self.stamp_at(&write.address.digest),
                };
                return Ok(keep(base, judge(Ok(None), core.clock.now_ms())?));
            }
            Before::Provisional(before) => {
                let view = before.version.as_ref().map(BufferedVersion::view);
                let (written, loses, result) = judge(Ok(view), core.clock.now_ms())?;
                let loses = loses || before.loses_shards;
                return Ok(keep(before.base, (written, loses, result)));
            }
            Before::Record { transaction, read } => (transaction, read),
        };
        let digest = write.address.digest;
        let lock = core
            .storage
            .lock(&digest, write.policy.total_timeout)
            .map_err(|error| core.refused(error, write.policy.total_timeout))?;
        // Under the record's own lock, until the record is noted as this transaction's: another
        // client's write comes before the look, or finds the note.
        let owner = core.provisional_locks.owner(&digest);
        if owner.is_some_and(|owner| owner != transaction) {
            return Err(conflict(ConflictCause::Locked).into());
        }
        let now_ms = core.clock.now_ms();
        let kept = core.storage.get_versioned(&digest, |version, found| {
            let entry = found.as_ref().ok().and_then(Option::as_ref);
            let stamp = stamp_of(version, entry, now_ms);
            if read.is_some_and(|read| read != stamp) {
                return Err(conflict(ConflictCause::Changed).into());
            }
            let found = found.map(|entry| entry.filter(|entry| !expired(entry, now_ms)));
            let void_time = match &found {
                Ok(live) => live.as_ref().map(EntryView::void_time),
                // A damaged record is there, too.
                Err(_) => Some(0),
            };
            let base = void_time.map_or(Base::Absent { stamp }, |void_time| Base::Live {
                version,
                void_time,
            });
            match judge(found, now_ms) {
                Ok(judged) => Ok(keep(base, judged)),
                // The client relies on the reason of its refusal.
                Err(refused) => Err(WriteRefusal {
                    stamp: NonZeroU64::new(stamp),
                    ..refused
                }),
            }
        })?;
        core.provisional_locks.lock(digest, transaction);
        drop(lock);
        Ok(kept)
    }

    /// The stamp of a digest's record. An unreadable record has the stamp of its version, too.
    fn stamp_at(&self, digest: &Digest) -> u64 {
        let now_ms = self.core.clock.now_ms();
        self.core.storage.get_versioned(digest, |version, found| {
            stamp_of(version, found.ok().flatten().as_ref(), now_ms)
        })
    }

    /// Lends a record to `read`, with the stamp of its version, which comes back, too: absences
    /// have one as well, and refusals.
    ///
    /// # Errors
    /// As for [`Namespace::read_at`].
    pub(crate) fn read_stamped<R>(
        &self,
        address: &DigestAddress<'_>,
        read: impl FnOnce(&RemoteRecord<'_>, u64) -> Result<R>,
    ) -> (Option<u64>, std::result::Result<R, WriteRefusal>) {
        let now_ms = self.core.clock.now_ms();
        let storage = &self.core.storage;
        storage.get_versioned(&address.digest, |version, found| {
            let entry = match found {
                Ok(entry) => entry,
                Err(error) => return (None, Err(error.into())),
            };
            let stamp = stamp_of(version, entry.as_ref(), now_ms);
            let live = entry.filter(|entry| !expired(entry, now_ms));
            let result = match live {
                Some(live) => self.lend(live, address, |record| read(record, stamp)),
                None => Err(Error::not_found().into()),
            };
            (Some(stamp), result)
        })
    }

    /// Lends a record as its transaction sees it to `read`.
    ///
    /// # Errors
    /// As for [`Namespace::read_at`].
    pub(crate) fn read_provisional<R>(
        &self,
        provisional: &Provisional,
        address: &DigestAddress<'_>,
        read: impl FnOnce(&RemoteRecord<'_>) -> Result<R>,
    ) -> std::result::Result<R, WriteRefusal> {
        match &provisional.version {
            Some(version) => self.lend(version.view(), address, read),
            None => Err(Error::not_found().into()),
        }
    }

    fn lend<R>(
        &self,
        entry: EntryView<'_>,
        address: &DigestAddress<'_>,
        read: impl FnOnce(&RemoteRecord<'_>) -> Result<R>,
    ) -> std::result::Result<R, WriteRefusal> {
        let record = RemoteRecord::new(entry);
        self.core
            .check_set(address.set, self.set_number(address.set), &entry)
            .and_then(|()| self.check_filter(address.filter, &record, address.set))
            .and_then(|()| check_key(address.key, entry.key()))
            .and_then(|()| read(&record))
            .map_err(WriteRefusal::having_found(Some(metadata_of(&entry))))
    }

    /// The transaction that has a record locked, by the digest of its monitor.
    pub(crate) fn provisional_owner(&self, digest: &Digest) -> Option<Digest> {
        self.core.provisional_locks.owner(digest)
    }

    /// Unlocks records that a transaction has locked.
    pub(crate) fn unlock_provisionals<'d>(
        &self,
        transaction: &Digest,
        digests: impl Iterator<Item = &'d Digest>,
    ) {
        digests.for_each(|digest| self.core.provisional_locks.unlock(digest, transaction));
    }
}
