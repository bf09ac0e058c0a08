//! The path of writes of several records that are known beforehand: lock all records in the order
//! of their digests, edit each in place, publish one group, unlock. The steps and the checks are a
//! single write's (`write.rs`).

use std::sync::Arc;

use smallvec::SmallVec;
use spikelet_storage::{BufferedVersion, Digest, EntryView, GroupMember, Lsn, RecordLock};

use super::core::{NamespaceCore, expired};
use super::policy::Acknowledge;
use super::scratch::Scratch;
use super::set::OperateResult;
use super::transaction::{KnownWrite, TransactionPolicy, WriteAction};
use super::uncommitted::{Uncommitted, check_limit, compact, update_time};
use super::write::{EditOutcome, WriteRefusal, seen_by_write};
use crate::expression::RecordFacts;
use crate::operation::{Checked, Mode, Operation};
use crate::record::RecordView;
use crate::{Error, Result};

/// A record of a group, as its writes have left it.
#[derive(Default)]
struct WrittenMember {
    /// Whether there was something to delete before the first write.
    was_there: bool,
    written: Option<Uncommitted>,
    /// Whether a write takes the description of its shards from the record.
    loses_shards: bool,
}

impl WrittenMember {
    fn bytes(&self) -> usize {
        self.written.as_ref().map_or(0, Uncommitted::bytes)
    }
}

impl KnownWrite<'_> {
    /// Returns whether the write can be made in a group of this namespace: it does write, and none
    /// of its refusals is known before its record is.
    fn is_direct(&self, core: &Arc<NamespaceCore>) -> bool {
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

impl NamespaceCore {
    /// Makes these writes as one group. `None`: one of them only reads, or is of another namespace.
    pub(super) fn write_known(
        self: &Arc<Self>,
        policy: &TransactionPolicy,
        writes: &[KnownWrite<'_>],
    ) -> Option<Result<Vec<OperateResult>>> {
        let is_direct = writes.iter().all(|write| write.is_direct(self));
        is_direct.then(|| {
            loop {
                match self.write_members(policy, writes, &mut Scratch::take()) {
                    // A truncation has come between the look at the records and their change.
                    Err(Error::Conflict { .. }) => {}
                    done => return done,
                }
            }
        })
    }

    fn write_members(
        &self,
        policy: &TransactionPolicy,
        writes: &[KnownWrite<'_>],
        buffer: &mut Vec<u8>,
    ) -> Result<Vec<OperateResult>> {
        // Writes to one record stay in the order of the calls.
        let mut order = SmallVec::<[(Digest, usize); 2]>::new();
        order.extend(writes.iter().map(|write| write.digest).zip(0..));
        order.sort_unstable();
        let mut digests = SmallVec::<[Digest; 2]>::new();
        digests.extend(order.iter().map(|(digest, _)| *digest));
        digests.dedup();
        check_limit(digests.len(), policy.max_records, "records", "max_records")?;
        let locked = self.storage.lock_all(&digests, policy.total_timeout);
        let mut locked = locked.map_err(|(digest, error)| {
            let error = self.refused(error, policy.total_timeout);
            match writes.iter().find(|write| write.digest == digest) {
                Some(write) => write.named(error),
                None => error,
            }
        })?;

        let now_ms = self.clock.now_ms();
        let mut results = Vec::with_capacity(writes.len());
        results.resize_with(writes.len(), OperateResult::default);
        let mut reasons = Vec::new();
        let mut members = SmallVec::<[WrittenMember; 2]>::new();
        members.reserve_exact(digests.len());
        let mut bytes = 0;
        // In the order of the locks, since a large group is beyond the processor's caches.
        let mut left = order.iter().peekable();
        for (at, (lock, _)) in locked.iter().enumerate() {
            if let Some((ahead, _)) = locked.get(at + AHEAD) {
                ahead.prefetch();
            }
            let mut member = WrittenMember::default();
            while let Some((_, position)) = left.next_if(|(digest, _)| digest == lock.digest()) {
                let slot = writes.get(*position).zip(results.get_mut(*position));
                let Some((write, result)) = slot else {
                    continue;
                };
                let (at, before) = ((lock, now_ms), member.bytes());
                if let Err(refused) = self.write_member(write, at, &mut member, buffer, result) {
                    reasons.push((*position, write.named(refused.error)));
                }
                // Before the next one, so that the buffer stays within a multiple of the limit.
                bytes = bytes - before + member.bytes();
                check_limit(bytes, policy.max_bytes, "bytes", "max_bytes")?;
                let written = members.iter_mut().chain([&mut member]);
                let written = written.filter_map(|member| member.written.as_mut());
                compact(buffer, bytes, written);
            }
            members.push(member);
        }
        if !reasons.is_empty() {
            reasons.sort_unstable_by_key(|(position, _)| *position);
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
        // With the records locked: the commit of a client asks whether it was overruled with its
        // own locked.
        self.overrule_unchanged(&locked);
        let lost_roots = members.iter().filter(|member| member.loses_shards);
        let lost_roots = lost_roots.count() as u64;
        let lsn = self.publish_group(locked, policy.acknowledge, lost_roots)?;
        for result in &mut results {
            result.lsn = result.lsn.and(lsn);
        }
        Ok(results)
    }

    /// Keeps wire clients' transactions from being committed that have locked a record which the
    /// group has seen and leaves as it is. Others that have locked a written record find it
    /// changed.
    #[cfg(feature = "server")]
    fn overrule_unchanged(&self, locked: &[GroupMember<'_, '_>]) {
        let unchanged = locked.iter().filter(|(_, change)| change.is_none());
        self.provisional_locks
            .overrule(unchanged.map(|(lock, _)| lock.digest()));
    }

    /// Judges a write by the record as earlier writes of the group have left it, and notes the
    /// result. The number in the result is only a mark of something written.
    fn write_member(
        &self,
        write: &KnownWrite<'_>,
        (lock, now_ms): (&RecordLock<'_>, u64),
        member: &mut WrittenMember,
        buffer: &mut Vec<u8>,
        result: &mut OperateResult,
    ) -> std::result::Result<(), WriteRefusal> {
        let is_live = |entry: &EntryView<'_>| !expired(entry, now_ms);
        let written = member.written.as_ref();
        let pending = written.and_then(|written| written.to_read(&write.digest, buffer));
        let is_first = written.is_none();
        let found = if is_first {
            lock.entry()
        } else {
            Ok(pending.as_ref().map(BufferedVersion::view))
        };
        if is_first {
            // A damaged record is there, too: without an entry for its deletion it would stay.
            member.was_there = match &found {
                Ok(entry) => entry.as_ref().is_some_and(is_live),
                Err(_) => true,
            };
        }
        let policy = write.policy;
        let stored_key = write.key.stored();
        let target = |set_id| {
            let set = write.set;
            set.target_of(policy, write.digest, set_id, &stored_key)
        };
        let checked = match &write.action {
            WriteAction::Delete => {
                let target = target(write.set.core.id());
                result.queued_behind = Some(lock.queued_behind());
                match self.judge_deletion(&target, policy, found, now_ms) {
                    Ok(judged) => {
                        result.lsn = Some(MARK);
                        member.written = Some(Uncommitted::Deleted);
                        member.loses_shards |= judged.loses_shards;
                    }
                    Err(refused) if matches!(refused.error, Error::NotFound { .. }) => {}
                    Err(refused) => return Err(refused),
                }
                return Ok(());
            }
            WriteAction::Operate(operations) => {
                Some(Checked::new(operations, Mode::of(policy.replaces()))?)
            }
            WriteAction::Put(_) | WriteAction::Check => None,
        };
        let must_exist = checked.is_some_and(|checked| checked.must_exist());
        let target = target(write.set.id_for(policy, must_exist)?);
        let live = seen_by_write(found, &target, policy)?.filter(is_live);
        let from = buffer.len();
        let mut edit = |old: Option<RecordView<'_>>,
                        facts: &RecordFacts<'_>,
                        body: &mut Vec<u8>| match (&checked, &write.action) {
            (Some(checked), _) => {
                EditOutcome::of_operations(checked, (old, facts), body, &mut result.results)
            }
            (None, WriteAction::Put(bins)) => EditOutcome::of_put(bins, (old, facts), body),
            (None, _) => Ok(EditOutcome::Emptied),
        };
        let live = (live, now_ms);
        let evaluated = self.evaluate(buffer, &target, policy, must_exist, live, &mut edit)?;
        member.loses_shards |= evaluated.loses_shards;
        let written = Uncommitted::of(&evaluated.plan, from, buffer);
        let lsn = written.is_some().then_some(MARK);
        if written.is_some() {
            member.written = written;
        }
        evaluated.outcome(lock.queued_behind(), lsn).note_in(result);
        Ok(())
    }

    /// Publishes changes of several records, which are recovered whole or not at all, and unlocks
    /// the records; waits for what is to be acknowledged. `None`: there was nothing to change.
    /// `lost_roots`: how many roots of sharded collections lose their description.
    ///
    /// # Errors
    /// As for [`NamespaceCore::publish`]; [`Error::Conflict`] if a truncation has begun since the
    /// records were locked.
    pub(super) fn publish_group(
        &self,
        members: Vec<GroupMember<'_, '_>>,
        acknowledge: Acknowledge,
        lost_roots: u64,
    ) -> Result<Option<Lsn>> {
        let mut declares = false;
        for (lock, change) in &members {
            if let Some(change) = change {
                self.note_companion(change)?;
                declares |= self.declares(lock, change)?;
            }
        }
        self.note_lost_roots(lost_roots);
        let published = self.publish_members(members)?;
        if declares {
            self.read_declarations();
        }
        // After a failure, too, which may leave the group written: handles look once too often at
        // worst.
        self.note_lost_roots(lost_roots);
        let lsn = published.map_err(|error| self.not_written(error))?;
        self.acknowledge(lsn, acknowledge)
    }

    fn publish_members(
        &self,
        members: Vec<GroupMember<'_, '_>>,
    ) -> Result<spikelet_storage::Result<Option<Lsn>>> {
        if !self.indexes.any() {
            return Ok(self.storage.apply_members(members, None::<fn(bool)>));
        }
        let members_and_changes = members.iter().map(|(lock, change)| (lock, change.as_ref()));
        let indexes = self.change_indexes(members_and_changes)?;
        let done = |is_published| indexes.finish(is_published);
        Ok(self.storage.apply_members(members, Some(done)))
    }
}

/// How many records of a large group the memory is fetched for ahead.
const AHEAD: usize = 8;

/// Stands for the number of the group until it has one.
const MARK: Lsn = Lsn::new(0);
