//! The path of a write, in the order of its steps: lock, read the record, check policy, filter and
//! key, edit, check the size, publish, unlock, durability. One record, one version: all of it or
//! nothing.
//!
//! Every write of one record publishes here with the record locked (groups: `write_group.rs`), so
//! this is where secondary indexes follow: the entries of the new version are added before, the
//! entries of the superseded one removed after, under the lock still.
//!
//! The order of the checks is Aerospike's (semantics.md#order-of-checks): the first that fails
//! decides.

use std::borrow::{Borrow, Cow};
use std::num::NonZeroU64;
use std::sync::atomic::Ordering;

use spikelet_storage::{Change, Digest, EntryView, Lsn, NewVersion, RecordLock};

use crate::error::ShardLoss;
use crate::expression::{Expression, RecordFacts};
use crate::index::{GUARDS, IndexRule};
use crate::operation::{Checked, ResultSink, merge};
use crate::record::{
    Bins, Key, Metadata, OwnedBins, RecordView, ShardRole, changes_sharded_bin, keeps_description,
    parse_with_role,
};
use crate::{Error, Result};

use super::core::{NamespaceCore, expired, metadata_of};
use super::entry::check_size;
use super::policy::{Acknowledge, Expiration, ShardAccess, WritePolicy};
use super::refusals::{check_key, wrong_set};

/// The result of an edit: the new body is in the buffer, or nothing is to be written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum EditOutcome {
    /// The buffer holds the new body, of this many bins.
    Body(u32),
    /// No bins are left, and that there were none before is no error.
    Emptied,
}

impl EditOutcome {
    /// Edits by a put: these bins are set, and the others stay.
    #[inline]
    pub(super) fn of_put(
        bins: &Bins,
        (old, facts): (Option<RecordView<'_>>, &RecordFacts<'_>),
        body: &mut Vec<u8>,
    ) -> Result<Self> {
        facts.owned.check_sets(bins.iter().map(|(name, _)| name))?;
        Ok(Self::Body(merge(old, bins, body)?))
    }

    /// Edits by operations, and hands their results to `results`.
    #[inline]
    pub(super) fn of_operations(
        operations: &Checked<'_>,
        (old, facts): (Option<RecordView<'_>>, &RecordFacts<'_>),
        body: &mut Vec<u8>,
        results: &mut dyn ResultSink,
    ) -> Result<Self> {
        let bin_count = operations.seeing(facts).execute(old, body, results)?;
        Ok(Self::Body(bin_count))
    }
}

/// The edit of a write. It gets the live record (its bins, or none if they are to be replaced) and
/// the facts for expressions: of the record as it will be, with the size that it has now; it
/// appends the new body to the buffer.
pub(super) type WriteEdit<'e> =
    dyn FnMut(Option<RecordView<'_>>, &RecordFacts<'_>, &mut Vec<u8>) -> Result<EditOutcome> + 'e;

/// The record that a write is about.
#[derive(Clone, Copy, Debug)]
pub(super) struct WriteTarget<'a> {
    pub(super) digest: Digest,
    /// Empty: in no set.
    pub(super) set_name: &'a str,
    /// The number of the set; `None`: there is no such set, and this write would not make it.
    pub(super) set_id: Option<u16>,
    /// The user key in its stored form, if it is known.
    pub(super) key: Option<&'a [u8]>,
    /// Whether a record that stores no key yet is to store this one.
    pub(super) store_key: bool,
    /// A condition on a record that exists.
    pub(super) filter: Option<&'a Expression>,
    /// The changes allowed to it if it belongs to a sharded collection.
    pub(super) shards: ShardAccess,
    /// Whether the write is refused if a wire client's transaction has the record locked: writes of
    /// other clients.
    #[cfg(feature = "server")]
    pub(super) yields: bool,
}

impl<'a> WriteTarget<'a> {
    /// The record's role in a sharded collection, where this write has to respect it.
    ///
    /// # Errors
    /// [`Error::ShardCompanion`].
    #[inline(always)]
    pub(super) fn concerning(&self, role: ShardRole) -> Result<ShardRole> {
        if role == ShardRole::None {
            return Ok(role);
        }
        self.concerning_shards(role)
    }

    fn concerning_shards(&self, role: ShardRole) -> Result<ShardRole> {
        match (role, self.shards) {
            (_, ShardAccess::Own) => Ok(ShardRole::None),
            (_, ShardAccess::Unsharded) => Err(Error::FilteredOut { record: None }),
            (ShardRole::Companion, access) if access.protects_shards() => {
                let (set, key) = self.names();
                Err(Error::ShardCompanion { set, key })
            }
            _ => Ok(role),
        }
    }

    /// The key of the new version. When both keys exist they are equal; borrow the caller's to
    /// avoid a copy.
    #[inline(always)]
    fn key_to_store(&self, stored: Option<&[u8]>) -> Option<Cow<'a, [u8]>> {
        match (self.key, stored) {
            (Some(key), Some(_)) => Some(Cow::Borrowed(key)),
            (None, Some(stored)) => Some(Cow::Owned(stored.to_vec())),
            (key, None) => key.filter(|_| self.store_key).map(Cow::Borrowed),
        }
    }

    /// The expiration of a record of a sharded collection, which does not expire by the way.
    #[cold]
    fn shard_expiration(&self, role: ShardRole, wanted: Expiration) -> Result<Expiration> {
        if let (ShardRole::Root, Expiration::After(_)) = (role, wanted) {
            self.check_root(ShardLoss::Later)?;
        }
        Ok(wanted.of_shards())
    }

    /// Whether the root of sharded collections loses their description by an edit. Refuses that,
    /// and other contents of their bins, unless the target allows it.
    #[cold]
    fn check_description(
        &self,
        live: &EntryView<'_>,
        edited: EditOutcome,
        body: &[u8],
    ) -> Result<bool> {
        if edited == EditOutcome::Emptied || !keeps_description(live.payload(), body) {
            return self.check_root(ShardLoss::Now).map(|()| true);
        }
        if changes_sharded_bin(live.payload(), body) {
            self.check_root(ShardLoss::Beside)?;
        }
        Ok(false)
    }

    /// Refuses to take the description of its shards from a root.
    pub(super) fn check_root(&self, loses: ShardLoss) -> Result<()> {
        if !self.shards.protects_shards() {
            return Ok(());
        }
        let (set, key) = self.names();
        Err(Error::ShardRoot { set, key, loses })
    }

    /// Names of set and key, for a message.
    fn names(&self) -> (Box<str>, Box<str>) {
        let key = self.key.and_then(|key| Key::from_stored(key).ok());
        let key = key.map_or_else(|| self.digest.to_string(), |key| key.bare());
        (self.set_name.into(), key.into())
    }
}

/// The result of a write.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct WriteOutcome {
    /// 0 if the record is gone.
    pub(crate) generation: u16,
    /// When it expires, in seconds since 2010; 0: never.
    pub(crate) void_time: u32,
    /// Its size in bytes, as [`record_bytes`](super::entry::record_bytes) counts; 0 if it is gone.
    pub(crate) record_bytes: u64,
    /// How many writers held the record or waited for it when this one came.
    pub(crate) queued_behind: usize,
    /// `None`: there was nothing to write.
    pub(crate) lsn: Option<Lsn>,
    /// Whether there was no record before.
    pub(crate) is_new: bool,
}

/// Why a request was refused, and the record that it met.
#[derive(Debug)]
pub(crate) struct WriteRefusal {
    pub(crate) error: Error,
    #[cfg_attr(
        not(feature = "server"),
        expect(dead_code, reason = "told to wire clients only")
    )]
    pub(crate) found: Option<Metadata>,
    /// The record that a transaction has met, for a refusal that it relies on.
    #[cfg_attr(
        not(feature = "server"),
        expect(dead_code, reason = "told to wire clients only")
    )]
    pub(crate) stamp: Option<NonZeroU64>,
}

impl Borrow<Error> for WriteRefusal {
    fn borrow(&self) -> &Error {
        &self.error
    }
}

impl<E: Into<Error>> From<E> for WriteRefusal {
    fn from(error: E) -> Self {
        Self {
            error: error.into(),
            found: None,
            stamp: None,
        }
    }
}

impl WriteRefusal {
    pub(super) fn having_found(found: Option<Metadata>) -> impl Fn(Error) -> Self {
        move |error| Self {
            error,
            found,
            stamp: None,
        }
    }
}

/// The plan of a write for a record.
#[derive(Debug)]
pub(super) enum WritePlan<'a> {
    /// There was no record, and there will be none.
    Nothing,
    /// The record goes.
    Delete,
    /// The new version. Its body is in the buffer of the write.
    Put(PlannedVersion<'a>),
}

/// A version of a record, but for its body.
#[derive(Debug)]
pub(super) struct PlannedVersion<'a> {
    metadata: Metadata,
    set_id: u16,
    key: Option<Cow<'a, [u8]>>,
    record_bytes: u64,
}

impl PlannedVersion<'_> {
    /// The version with its body.
    #[inline]
    pub(super) fn with_body<'v>(&'v self, body: &'v [u8]) -> NewVersion<'v> {
        NewVersion {
            generation: self.metadata.generation,
            void_time: self.metadata.void_time,
            last_update_ms: self.metadata.last_update_ms,
            set_id: self.set_id,
            key: self.key.as_deref(),
            payload: body,
        }
    }
}

/// The judgement of a write by the record that it meets.
#[derive(Debug)]
pub(super) struct Evaluated<'a> {
    pub(super) plan: WritePlan<'a>,
    /// The record that the write has met.
    found: Option<Metadata>,
    /// Whether a root loses the description of its shards.
    pub(super) loses_shards: bool,
}

impl Evaluated<'_> {
    /// The outcome, once the plan is carried out.
    #[inline]
    pub(super) fn outcome(&self, queued_behind: usize, lsn: Option<Lsn>) -> WriteOutcome {
        let mut outcome = WriteOutcome {
            queued_behind,
            lsn,
            is_new: self.found.is_none(),
            ..WriteOutcome::default()
        };
        if let WritePlan::Put(version) = &self.plan {
            outcome.generation = version.metadata.generation;
            outcome.void_time = version.metadata.void_time;
            outcome.record_bytes = version.record_bytes;
        }
        outcome
    }
}

impl NamespaceCore {
    /// Writes one record. `must_exist`: refuse under any policy if there is no record. The new body
    /// is written to `body`.
    #[inline(always)]
    pub(super) fn write(
        &self,
        body: &mut Vec<u8>,
        target: &WriteTarget<'_>,
        policy: &WritePolicy,
        must_exist: bool,
        edit: &mut WriteEdit<'_>,
    ) -> std::result::Result<WriteOutcome, WriteRefusal> {
        let (queued_behind, evaluated);
        let published = {
            // The lock stays where it is made, since it is large.
            let mut locked = self.storage.lock(&target.digest, policy.total_timeout);
            let lock = match locked {
                Ok(ref mut lock) => lock,
                Err(error) => return Err(self.refused(error, policy.total_timeout).into()),
            };
            #[cfg(feature = "server")]
            self.check_not_provisional(target)?;
            queued_behind = lock.queued_behind();
            // Behind the wait for the lock, in which the record may have expired.
            let now_ms = self.clock.now_ms();
            let entry = seen_by_write(lock.entry(), target, policy)?;
            let live = entry.filter(|entry| !expired(entry, now_ms));
            evaluated = self.evaluate(body, target, policy, must_exist, (live, now_ms), edit)?;
            let change = match &evaluated.plan {
                WritePlan::Nothing => return Ok(evaluated.outcome(queued_behind, None)),
                WritePlan::Delete => Change::Delete(now_ms),
                WritePlan::Put(version) => Change::Put(version.with_body(body)),
            };
            self.note_lost_roots(evaluated.loses_shards.into());
            self.publish(lock, &change)
        };
        self.note_lost_roots(evaluated.loses_shards.into());
        // A thread that waits for a sync holds back no memory that others have retired.
        let lsn = published.and_then(|lsn| self.acknowledge(lsn, policy.acknowledge));
        match lsn {
            Ok(lsn) => Ok(evaluated.outcome(queued_behind, lsn)),
            Err(error) => Err(WriteRefusal::having_found(evaluated.found)(error)),
        }
    }

    /// Judges a write by the live record that it meets at this time, and appends the new body to
    /// `body`. Changes nothing. Inlined: the result is large.
    #[inline(always)]
    pub(super) fn evaluate<'a>(
        &self,
        body: &mut Vec<u8>,
        target: &WriteTarget<'a>,
        policy: &WritePolicy,
        must_exist: bool,
        (live, now_ms): (Option<EntryView<'_>>, u64),
        edit: &mut WriteEdit<'_>,
    ) -> std::result::Result<Evaluated<'a>, WriteRefusal> {
        let found = live.map(|entry| metadata_of(&entry));
        let met = (live.as_ref(), found, now_ms);
        let judged = self.judge(body, target, policy, must_exist, met, edit);
        let (plan, loses_shards) = judged.map_err(WriteRefusal::having_found(found))?;
        Ok(Evaluated {
            plan,
            found,
            loses_shards,
        })
    }

    /// The checks in the order of semantics.md#order-of-checks, with the edit among them.
    #[inline(always)]
    fn judge<'a>(
        &self,
        body: &mut Vec<u8>,
        target: &WriteTarget<'a>,
        policy: &WritePolicy,
        must_exist: bool,
        (live, found, now_ms): (Option<&EntryView<'_>>, Option<Metadata>, u64),
        edit: &mut WriteEdit<'_>,
    ) -> Result<(WritePlan<'a>, bool)> {
        if must_exist && live.is_none() {
            return Err(Error::not_found());
        }
        policy.check(found.map(|found| found.generation))?;
        if let Some(live) = live
            && !self.is_in_set(target.set_name, target.set_id, live)
        {
            return Err(wrong_set(target.set_name));
        }
        let set_id = live.map(EntryView::set_id).or(target.set_id);
        let set_id = set_id.ok_or_else(|| wrong_set(target.set_name))?;
        let (stored_key, payload) = live.map_or((None, &[][..]), EntryView::key_and_payload);
        if let (Some(live), Some(_)) = (live, target.filter) {
            self.check_filter(target.filter, live, target.set_name, now_ms)?;
        }
        check_key(target.key, stored_key)?;
        let (parsed, role) = parse_with_role(payload);
        let role = target.concerning(role)?;
        let expiration = match role {
            ShardRole::None => policy.expiration,
            role => target.shard_expiration(role, policy.expiration)?,
        };
        let metadata = Metadata {
            generation: found.map_or(1, |found| found.generation.checked_add(1).unwrap_or(1)),
            void_time: expiration.void_time(
                now_ms,
                self.default_ttl.load(Ordering::Relaxed),
                found.map(|found| found.void_time),
            )?,
            // Never backwards on one record.
            last_update_ms: now_ms.max(found.map_or(0, |found| found.last_update_ms)),
        };
        let key = target.key_to_store(stored_key);
        let rules = self.rules_for(set_id, target.shards);
        let facts = RecordFacts {
            digest: target.digest,
            set_name: target.set_name,
            key: key.as_deref(),
            metadata,
            now_ms,
            stored_bytes: live.map_or(0, EntryView::stored_bytes),
            in_memory: self.in_memory,
            owned: match &rules {
                Some(rules) => rules.protected_from(target.shards),
                None => OwnedBins::NONE,
            },
        };
        // Other members of a group have their bodies before this one.
        let from = body.len();
        // A replaced record is not read. Policy violations take precedence over a malformed record.
        let old = match (parsed, live) {
            _ if policy.replaces() => None,
            (None, Some(_)) => return Err(RecordView::malformed(payload)),
            (parsed, _) => parsed,
        };
        let edited = edit(old, &facts, body)?;
        let edited = match &rules {
            Some(rules) => rules.judge(target, policy, live.copied(), (body, from), edited)?,
            None => edited,
        };
        let body = body.get(from..).unwrap_or_default();
        let loses_shards = match live {
            Some(live) if role == ShardRole::Root => {
                target.check_description(live, edited, body)?
            }
            _ => false,
        };
        let plan = match edited {
            // Without bins there is no record.
            EditOutcome::Body(0) if live.is_none() => return Err(Error::not_found()),
            EditOutcome::Emptied if live.is_none() => WritePlan::Nothing,
            EditOutcome::Body(0) | EditOutcome::Emptied => WritePlan::Delete,
            EditOutcome::Body(_) => WritePlan::Put(PlannedVersion {
                metadata,
                set_id,
                record_bytes: check_size(self.max_record_bytes, key.as_deref(), body)?,
                key,
            }),
        };
        Ok((plan, loses_shards))
    }

    /// Refuses a write that yields to a wire client's transaction which has the record locked. The
    /// caller has the record's own lock, under which transactions lock records, too.
    #[cfg(feature = "server")]
    pub(super) fn check_not_provisional(&self, target: &WriteTarget<'_>) -> Result<()> {
        if target.yields && self.provisional_locks.owner(&target.digest).is_some() {
            let cause = spikelet_storage::ConflictCause::Locked;
            return Err(super::refusals::conflict(cause));
        }
        Ok(())
    }

    /// Publishes a change and unlocks the record. `None`: there was nothing to delete.
    ///
    /// # Errors
    /// The errors of the indexes, [`crate::Error::StopWrites`], and storage's: nothing was changed
    /// unless the error says that it is in doubt.
    #[inline(always)]
    pub(super) fn publish(
        &self,
        lock: &mut RecordLock<'_>,
        change: &Change<'_>,
    ) -> Result<Option<Lsn>> {
        self.note_companion(change)?;
        let declares = self.declares(lock, change)?;
        // Asked with the record locked: the build of an index that is declared later meets this
        // record.
        let lsn = if self.indexes.any() {
            self.publish_indexed(lock, change)
        } else {
            lock.apply(change).map_err(|error| self.not_written(error))
        };
        if declares {
            self.read_declarations();
        }
        lsn
    }

    #[inline(never)]
    fn publish_indexed(
        &self,
        lock: &mut RecordLock<'_>,
        change: &Change<'_>,
    ) -> Result<Option<Lsn>> {
        let changes = self.change_indexes([(&*lock, Some(change))].into_iter())?;
        let published = if GUARDS.keep(IndexRule::RemovedUnderLock) {
            lock.apply_then(change, |is_published| changes.finish(is_published))
        } else {
            lock.apply(change).inspect(|_| changes.finish(true))
        };
        published.map_err(|error| self.not_written(error))
    }

    /// Notes that a set has companions, before one is published. One look at the names of the new
    /// version's bins.
    #[inline]
    pub(super) fn note_companion(&self, change: &Change<'_>) -> Result<()> {
        match change {
            Change::Put(version)
                if !self.companion_sets.contains(version.set_id)
                    && ShardRole::of(version.payload) == ShardRole::Companion =>
            {
                self.note_companion_set(version.set_id)
            }
            _ => Ok(()),
        }
    }

    /// Keeps in the catalog that a set has companions.
    #[cold]
    fn note_companion_set(&self, set_id: u16) -> Result<()> {
        let name: Box<str> = self.storage.set_name(set_id).unwrap_or_default().into();
        self.change_catalog(|catalog| {
            if !catalog.companions.contains(&name) {
                catalog.companions.push(name);
            }
            Ok(())
        })?;
        // Behind the catalog: where that cannot be written, the next companion tries again.
        self.companion_sets.add(set_id);
        Ok(())
    }

    /// Waits as the policy's acknowledgement asks. No record is locked.
    #[inline(always)]
    pub(super) fn acknowledge(
        &self,
        lsn: Option<Lsn>,
        acknowledge: Acknowledge,
    ) -> Result<Option<Lsn>> {
        if let (Acknowledge::Durable, Some(lsn)) = (acknowledge, lsn) {
            self.storage.settle(lsn)?;
        }
        Ok(lsn)
    }

    /// Has handles of sharded collections look at their roots again. Called before the publication,
    /// so that a handle that sees the new record has dropped its route, and behind it, for a handle
    /// that has looked in between. Not behind the acknowledgement, which may take a sync.
    pub(super) fn note_lost_roots(&self, lost: u64) {
        if lost > 0 {
            self.lost_roots.fetch_add(lost, Ordering::Release);
        }
    }

    /// Refuses a record of another set than the one named. A caller that names none takes any.
    pub(super) fn check_set(
        &self,
        set_name: &str,
        set_id: Option<u16>,
        entry: &EntryView<'_>,
    ) -> Result<()> {
        if set_name.is_empty() || self.is_in_set(set_name, set_id, entry) {
            Ok(())
        } else {
            Err(wrong_set(set_name))
        }
    }

    /// Whether a record is in this set. `set_id`: its number; where there was no such set when the
    /// call began, another writer may have made it with the record since.
    fn is_in_set(&self, set_name: &str, set_id: Option<u16>, entry: &EntryView<'_>) -> bool {
        set_id.or_else(|| self.storage.set_id(set_name)) == Some(entry.set_id())
    }
}

/// The record that a write may see, of the one that storage has found. One that is replaced unseen
/// may be damaged.
#[inline]
pub(super) fn seen_by_write<'a>(
    entry: spikelet_storage::Result<Option<EntryView<'a>>>,
    target: &WriteTarget<'_>,
    policy: &WritePolicy,
) -> spikelet_storage::Result<Option<EntryView<'a>>> {
    match entry {
        Ok(entry) => Ok(entry),
        Err(error) if error.is_damage() && policy.replaces_unseen() && target.filter.is_none() => {
            Ok(None)
        }
        Err(error) => Err(error),
    }
}
