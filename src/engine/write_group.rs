//! The path of writes of several records that are known beforehand: lock all records in the order of their digests, edit each
//! where it lies, publish one group, unlock. The steps are those of a single write (`write.rs`), whose checks decide here, too.

use std::ops::Range;
use std::sync::Arc;

use spikelet_storage::{BufferedVersion, Change, Digest, EntryView, Lsn, NewVersion, RecordLock};

use super::core::{Core, expired};
use super::policy::WritePolicy;
use super::set::OperateResult;
use super::transaction::{KnownWrite, TransactionPolicy, WriteAction};
use super::write::{
    EditOutcome, Plan, PlannedVersion, Target, WriteRefusal, deletes_unseen, seen_by_write,
    with_scratch,
};
use crate::operation::{Checked, Mode, OperationResults, merge};
use crate::{Error, Result};

/// A write that needs no transaction, ready to meet its record.
struct PreparedWrite<'w> {
    target: Target<'w>,
    policy: &'w WritePolicy,
    edit: PreparedEdit<'w>,
}

enum PreparedEdit<'w> {
    Operate(Checked<'w>),
    Put(&'w crate::record::Bins),
    Delete,
}

/// What the writes so far make of a record. Its bins are in the buffer that all members share.
#[derive(Default)]
struct Member<'w> {
    /// What was there before the first write: something to delete.
    was_there: bool,
    written: Option<Written<'w>>,
}

enum Written<'w> {
    Put(PlannedVersion<'w>, Range<usize>),
    Deleted,
}

impl<'w> Member<'w> {
    fn version<'v>(&'v self, bodies: &'v [u8]) -> Option<NewVersion<'v>> {
        match self.written.as_ref()? {
            Written::Put(version, at) => Some(version.with_body(bodies.get(at.clone())?)),
            Written::Deleted => None,
        }
    }

    /// What is to be published. `updated_ms`: one last-update time for all members, so that a truncation by time takes all
    /// of them or none.
    fn change<'v>(&'v self, bodies: &'v [u8], updated_ms: u64) -> Option<Change<'v>> {
        match self.written.as_ref()? {
            Written::Put(..) => self.version(bodies).map(|version| {
                Change::Put(NewVersion {
                    last_update_ms: updated_ms,
                    ..version
                })
            }),
            Written::Deleted => self.was_there.then_some(Change::Delete(updated_ms)),
        }
    }
}

impl Core {
    /// Makes these writes as one group. `None`: one of them takes a transaction, or is refused by itself.
    pub(super) fn write_known(
        self: &Arc<Self>,
        policy: &TransactionPolicy,
        writes: &[KnownWrite<'_>],
    ) -> Option<Result<Vec<OperateResult>>> {
        let (default, mut keys) = (WritePolicy::default(), Vec::new());
        let key_ends: Vec<usize> = writes
            .iter()
            .map(|write| {
                write.key.write_stored(&mut keys);
                keys.len()
            })
            .collect();
        let mut prepared = Vec::with_capacity(writes.len());
        let mut from = 0;
        for (write, end) in writes.iter().zip(key_ends) {
            let stored_key = keys.get(from..end)?;
            prepared.push(self.prepare(write, &default, stored_key)?);
            from = end;
        }
        Some(with_scratch(|bodies| {
            self.write_prepared(policy, writes, &prepared, bodies)
        }))
    }

    /// Looks at a write as far as it can be judged without its record. `None`: it takes a transaction, or is refused.
    fn prepare<'w>(
        self: &Arc<Self>,
        write: &'w KnownWrite<'_>,
        default: &'w WritePolicy,
        stored_key: &'w [u8],
    ) -> Option<PreparedWrite<'w>> {
        let set = write.set;
        if !Arc::ptr_eq(&set.core.namespace, self) {
            return None;
        }
        let policy = write.policy.unwrap_or(default);
        let (edit, set_id) = match &write.action {
            WriteAction::Operate(operations) => {
                let mode = Mode::of(policy.replaces());
                let checked = Checked::new(operations, mode).ok()?;
                if !checked.is_write() {
                    return None;
                }
                let set_id = set.id_for(policy, checked.must_exist()).ok()?;
                (PreparedEdit::Operate(checked), set_id)
            }
            WriteAction::Put(bins) => (PreparedEdit::Put(bins), set.id_for(policy, false).ok()?),
            WriteAction::Delete => (PreparedEdit::Delete, set.core.id()),
            WriteAction::Check => return None,
        };
        let digest = set.digest_of(&write.key);
        self.storage.prefetch(&digest);
        Some(PreparedWrite {
            target: set.target_of(policy, digest, set_id, stored_key),
            policy,
            edit,
        })
    }

    fn write_prepared(
        &self,
        policy: &TransactionPolicy,
        writes: &[KnownWrite<'_>],
        prepared: &[PreparedWrite<'_>],
        bodies: &mut Vec<u8>,
    ) -> Result<Vec<OperateResult>> {
        let mut digests: Vec<Digest> = prepared.iter().map(|write| write.target.digest).collect();
        digests.sort_unstable();
        digests.dedup();
        check_limit(digests.len(), policy.max_records, "records", "max_records")?;
        let locks = self.storage.lock_all(&digests, policy.total_timeout);
        let locks = locks.map_err(|(digest, error)| {
            let error = self.refused(error, policy.total_timeout);
            let mut with_targets = writes.iter().zip(prepared);
            match with_targets.find(|(_, prepared)| prepared.target.digest == digest) {
                Some((write, _)) => write.set.about(&write.key, error),
                None => error,
            }
        })?;

        let now_ms = self.clock.now_ms();
        let mut members: Vec<Member<'_>> = digests.iter().map(|_| Member::default()).collect();
        let mut results = Vec::with_capacity(writes.len());
        let (mut reasons, mut lost_roots, mut updated_ms) = (Vec::new(), 0_u64, now_ms);
        for (position, write) in prepared.iter().enumerate() {
            let Ok(at) = digests.binary_search(&write.target.digest) else {
                continue;
            };
            let (Some(lock), Some(member)) = (locks.get(at), members.get_mut(at)) else {
                continue;
            };
            match self.write_member(write, lock, member, bodies, now_ms) {
                Ok((result, loses_shards)) => {
                    lost_roots += u64::from(loses_shards);
                    results.push(result);
                }
                Err(refused) => reasons.push((position, refused.error)),
            }
            if let Some(version) = member.version(bodies) {
                updated_ms = updated_ms.max(version.last_update_ms);
            }
        }
        if !reasons.is_empty() {
            for (position, error) in &mut reasons {
                if let Some(write) = writes.get(*position) {
                    let bare = std::mem::replace(error, Error::not_found());
                    *error = write.set.about(&write.key, bare);
                }
            }
            return Err(Error::WritesRefused { reasons });
        }
        check_limit(bodies.len(), policy.max_bytes, "bytes", "max_bytes")?;

        let mut changes = Vec::with_capacity(locks.len());
        // Stay locked until the others are published: the group depends on what was seen of them.
        let mut unchanged = Vec::new();
        for (lock, member) in locks.into_iter().zip(&members) {
            match member.change(bodies, updated_ms) {
                Some(change) => changes.push((lock, change)),
                None => unchanged.push(lock),
            }
        }
        // A wire client's transaction that has locked one of them may not be committed in between. Those that have locked a
        // record which is written find it changed.
        #[cfg(feature = "server")]
        self.provisional_locks
            .overrule(unchanged.iter().map(RecordLock::digest));
        let published = if changes.is_empty() {
            Ok(None)
        } else {
            self.publish_group(changes, policy.acknowledge)
        };
        (0..lost_roots).for_each(|_| self.note_lost_root(true));
        let lsn = published?;
        drop(unchanged);
        for result in &mut results {
            result.lsn = result.lsn.and(lsn);
        }
        Ok(results)
    }

    /// Judges a write by the record as earlier writes of the group have left it, and notes what it makes of it. The number in
    /// the result is only a mark of something written. Returns whether a root loses the description of its shards, too.
    fn write_member<'w>(
        &self,
        write: &PreparedWrite<'w>,
        lock: &RecordLock<'_>,
        member: &mut Member<'w>,
        bodies: &mut Vec<u8>,
        now_ms: u64,
    ) -> std::result::Result<(OperateResult, bool), WriteRefusal> {
        let (target, policy) = (&write.target, write.policy);
        let pending = member
            .version(bodies)
            .map(|version| BufferedVersion::new(&target.digest, &version));
        let found = match (&member.written, &pending) {
            (None, _) => lock.entry(),
            (Some(_), pending) => Ok(pending.as_ref().map(BufferedVersion::view)),
        };
        if member.written.is_none() {
            let is_live = |entry: &EntryView<'_>| !expired(entry, now_ms);
            member.was_there = found
                .as_ref()
                .map_or(true, |found| found.as_ref().is_some_and(is_live));
        }
        if matches!(write.edit, PreparedEdit::Delete) {
            let deleted = match found {
                Err(error) if error.is_damage() && deletes_unseen(target, policy) => Ok(false),
                found => {
                    let live = found?.filter(|entry| !expired(entry, now_ms));
                    self.evaluate_delete(target, policy, live, now_ms)
                }
            };
            let mut result = OperateResult::gone();
            let loses_shards = match deleted {
                Ok(loses_shards) => loses_shards,
                Err(WriteRefusal {
                    error: Error::NotFound { .. },
                    ..
                }) => return Ok((result, false)),
                Err(refused) => return Err(refused),
            };
            result.lsn = Some(MARK);
            result.queued_behind = Some(lock.queued_behind());
            member.written = Some(Written::Deleted);
            return Ok((result, loses_shards));
        }

        let live = seen_by_write(found, target, policy)?.filter(|entry| !expired(entry, now_ms));
        let must_exist = match &write.edit {
            PreparedEdit::Operate(checked) => checked.must_exist(),
            PreparedEdit::Put(_) | PreparedEdit::Delete => false,
        };
        let from = bodies.len();
        let live = (live, now_ms);
        let evaluated = self.evaluate(
            bodies,
            target,
            policy,
            must_exist,
            live,
            |old, facts, body| match &write.edit {
                PreparedEdit::Operate(checked) => {
                    let outcome = checked.seeing(facts).execute(old, body)?;
                    Ok((EditOutcome::Body(outcome.bin_count), outcome.results))
                }
                PreparedEdit::Put(bins) => {
                    let count = merge(old, bins, body)?;
                    Ok((EditOutcome::Body(count), OperationResults::default()))
                }
                PreparedEdit::Delete => Ok((EditOutcome::Emptied, OperationResults::default())),
            },
        )?;
        let loses_shards = evaluated.loses_shards;
        let (plan, outcome) = evaluated.into_parts(lock.queued_behind(), Some(MARK));
        let mut result = outcome.into_result();
        match plan {
            Plan::Nothing => result.lsn = None,
            Plan::Delete => member.written = Some(Written::Deleted),
            Plan::Put(version) => {
                member.written = Some(Written::Put(version, from..bodies.len()));
            }
        }
        Ok((result, loses_shards))
    }
}

/// Stands for the number of the group until it has one.
const MARK: Lsn = Lsn::new(0);

fn check_limit(found: usize, limit: usize, what: &'static str, option: &'static str) -> Result<()> {
    if found <= limit {
        return Ok(());
    }
    Err(Error::TransactionLimit {
        what,
        limit: limit as u64,
        option,
    })
}
