//! The path of writes of several records that are known beforehand: lock all records in the order of their digests, edit each
//! where it lies, publish one group, unlock. The steps and the checks are a single write's (`write.rs`).

use std::sync::Arc;

use spikelet_storage::{BufferedVersion, Digest, EntryView, Lsn, RecordLock};

use super::core::{Core, expired};
use super::policy::DEFAULT_WRITE;
use super::set::OperateResult;
use super::transaction::{KnownWrite, TransactionPolicy, WriteAction};
use super::uncommitted::{Uncommitted, check_limit, update_time};
use super::write::{EditOutcome, WriteRefusal, seen_by_write, with_scratch, with_stored_key};
use crate::expression::RecordFacts;
use crate::operation::{Checked, Mode, Operation, OperationResults, merge};
use crate::record::RecordView;
use crate::{Error, Result};

/// A record as the writes of the group have left it.
struct Member {
    digest: Digest,
    /// Whether there was something to delete before the first write.
    was_there: bool,
    written: Option<Uncommitted>,
}

impl Member {
    fn new(write: &KnownWrite<'_>) -> Self {
        Self {
            digest: write.digest,
            was_there: false,
            written: None,
        }
    }
}

impl KnownWrite<'_> {
    /// Returns whether the write can be made in a group of this namespace: it does write, and none of its refusals is known
    /// before its record is.
    fn is_direct(&self, core: &Arc<Core>) -> bool {
        let is_write = match &self.action {
            WriteAction::Operate(operations) => operations.iter().any(Operation::is_write),
            WriteAction::Put(_) | WriteAction::Delete => true,
            WriteAction::Check => false,
        };
        is_write && Arc::ptr_eq(&self.set.core.namespace, core)
    }

    fn named(&self, error: Error) -> Error {
        self.set.about(&self.key, error)
    }
}

impl Core {
    /// Makes these writes as one group. `None`: one of them only reads, or is of another namespace.
    pub(super) fn write_known(
        self: &Arc<Self>,
        policy: &TransactionPolicy,
        writes: &[KnownWrite<'_>],
    ) -> Option<Result<Vec<OperateResult>>> {
        let is_direct = writes.iter().all(|write| write.is_direct(self));
        is_direct.then(|| with_scratch(|buffer| self.write_members(policy, writes, buffer)))
    }

    fn write_members(
        &self,
        policy: &TransactionPolicy,
        writes: &[KnownWrite<'_>],
        buffer: &mut Vec<u8>,
    ) -> Result<Vec<OperateResult>> {
        let mut members: Vec<Member> = writes.iter().map(Member::new).collect();
        members.sort_unstable_by_key(|member| member.digest);
        members.dedup_by_key(|member| member.digest);
        check_limit(members.len(), policy.max_records, "records", "max_records")?;
        let digests = members.iter().map(|member| &member.digest);
        let locked = self.storage.lock_all(digests, policy.total_timeout);
        let mut locked = locked.map_err(|(digest, error)| {
            let error = self.refused(error, policy.total_timeout);
            match writes.iter().find(|write| write.digest == digest) {
                Some(write) => write.named(error),
                None => error,
            }
        })?;

        let now_ms = self.clock.now_ms();
        let mut results = Vec::with_capacity(writes.len());
        let (mut reasons, mut lost_roots) = (Vec::new(), 0_u64);
        for (position, write) in writes.iter().enumerate() {
            let at = members.binary_search_by_key(&write.digest, |member| member.digest);
            let at = at
                .ok()
                .and_then(|at| Some((locked.get(at)?, members.get_mut(at)?)));
            let Some(((lock, _), member)) = at else {
                continue;
            };
            match self.write_member(write, lock, member, buffer, now_ms) {
                Ok((result, loses_shards)) => {
                    lost_roots += u64::from(loses_shards);
                    results.push(result);
                    // Before the next one, so that the buffer stays within the limit.
                    check_limit(buffer.len(), policy.max_bytes, "bytes", "max_bytes")?;
                }
                Err(refused) => reasons.push((position, write.named(refused.error))),
            }
        }
        if !reasons.is_empty() {
            return Err(Error::WritesRefused { reasons });
        }
        let written = || members.iter().filter_map(|member| member.written.as_ref());
        let updated_ms = update_time(written(), now_ms);
        for ((_, change), member) in locked.iter_mut().zip(&members) {
            let written = member.written.as_ref();
            *change =
                written.and_then(|written| written.change(buffer, member.was_there, updated_ms));
        }
        #[cfg(feature = "server")]
        self.overrule_unchanged(&locked);
        let published = self.publish_group(locked, policy.acknowledge);
        (0..lost_roots).for_each(|_| self.note_lost_root(true));
        let lsn = published?;
        for result in &mut results {
            result.lsn = result.lsn.and(lsn);
        }
        Ok(results)
    }

    /// Keeps wire clients' transactions from being committed that have locked a record which the group has seen and leaves as it is.
    /// Others that have locked a written record find it changed.
    #[cfg(feature = "server")]
    fn overrule_unchanged(&self, locked: &[spikelet_storage::GroupMember<'_, '_>]) {
        let unchanged = locked.iter().filter(|(_, change)| change.is_none());
        self.provisional_locks
            .overrule(unchanged.map(|(lock, _)| lock.digest()));
    }

    /// Judges a write by the record as earlier writes of the group have left it, and notes the result. The number in
    /// the result is only a mark of something written. Returns whether a root loses the description of its shards, too.
    fn write_member(
        &self,
        write: &KnownWrite<'_>,
        lock: &RecordLock<'_>,
        member: &mut Member,
        buffer: &mut Vec<u8>,
        now_ms: u64,
    ) -> std::result::Result<(OperateResult, bool), WriteRefusal> {
        let is_live = |entry: &EntryView<'_>| !expired(entry, now_ms);
        let written = member.written.as_ref();
        let pending = written.and_then(|written| written.to_read(&write.digest, buffer));
        let found = match written {
            Some(_) => Ok(pending.as_ref().map(BufferedVersion::view)),
            None => {
                let found = lock.entry();
                member.was_there = match &found {
                    Ok(entry) => entry.as_ref().is_some_and(is_live),
                    Err(_) => true,
                };
                found
            }
        };
        let policy = write.policy.unwrap_or(&DEFAULT_WRITE);
        let checked = match &write.action {
            WriteAction::Operate(operations) => {
                Some(Checked::new(operations, Mode::of(policy.replaces()))?)
            }
            _ => None,
        };
        let must_exist = checked.is_some_and(|checked| checked.must_exist());
        let is_delete = matches!(write.action, WriteAction::Delete);
        let set_id = if is_delete {
            write.set.core.id()
        } else {
            write.set.id_for(policy, must_exist)?
        };
        let judge = |stored_key: &[u8]| {
            let target = write
                .set
                .target_of(policy, write.digest, set_id, stored_key);
            if is_delete {
                let mut result = OperateResult::gone();
                result.queued_behind = Some(lock.queued_behind());
                return match self.judge_deletion(&target, policy, found, now_ms) {
                    Ok(loses_shards) => {
                        result.lsn = Some(MARK);
                        Ok((Some(Uncommitted::Deleted), result, loses_shards))
                    }
                    Err(refused) if matches!(refused.error, Error::NotFound { .. }) => {
                        Ok((None, result, false))
                    }
                    Err(refused) => Err(refused),
                };
            }
            let live = seen_by_write(found, &target, policy)?.filter(is_live);
            let live = (live, now_ms);
            let from = buffer.len();
            let edit = |old: Option<RecordView<'_>>,
                        facts: &RecordFacts<'_>,
                        body: &mut Vec<u8>| match (&checked, &write.action) {
                (Some(checked), _) => {
                    let outcome = checked.seeing(facts).execute(old, body)?;
                    Ok((EditOutcome::Body(outcome.bin_count), outcome.results))
                }
                (None, WriteAction::Put(bins)) => {
                    facts.owned.check_sets(bins.iter().map(|(name, _)| name))?;
                    let count = merge(old, bins, body)?;
                    Ok((EditOutcome::Body(count), OperationResults::default()))
                }
                (None, _) => Ok((EditOutcome::Emptied, OperationResults::default())),
            };
            let evaluated = self.evaluate(buffer, &target, policy, must_exist, live, edit)?;
            let loses_shards = evaluated.loses_shards;
            let written = Uncommitted::of(&evaluated.plan, from, buffer);
            let lsn = written.is_some().then_some(MARK);
            let outcome = evaluated.outcome(lock.queued_behind(), lsn);
            Ok((written, outcome.into_result(), loses_shards))
        };
        let judged: std::result::Result<_, WriteRefusal> = with_stored_key(&write.key, judge);
        let (written, result, loses_shards) = judged?;
        if written.is_some() {
            member.written = written;
        }
        Ok((result, loses_shards))
    }
}

/// Stands for the number of the group until it has one.
const MARK: Lsn = Lsn::new(0);
