//! One attempt of a transaction: its reads, its writes, and its commit.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::fmt;
use std::ops::Range;
use std::sync::Arc;
use std::time::{Duration, Instant};

use spikelet_storage::{
    BufferedVersion, ConflictCause, Digest, EntryView, GroupMember, Lsn, RecordChange,
    RecordVersion, SeenRecord,
};

use crate::engine::core::{NamespaceCore, expired};
use crate::engine::policy::{Acknowledge, WritePolicy};
#[cfg(feature = "server")]
use crate::engine::provisional::guards::{CommitRule, GUARDS};
use crate::engine::scratch::Scratch;
use crate::engine::set::Set;
use crate::engine::uncommitted::{Uncommitted, check_limit, compact, update_time};
use crate::engine::write::{
    WriteEdit, WriteOutcome, WritePlan, WriteRefusal, WriteTarget, seen_by_write,
};
use crate::error::RecordId;
use crate::record::Key;
use crate::{Error, Result};

use super::policy::TransactionPolicy;

/// Memory that is taken for names at the first record, and for versions at the first write.
const NAMES_BYTES_AT_ONCE: usize = 128;
const BUFFER_BYTES_AT_ONCE: usize = 512;

/// What an attempt knows of a record.
struct Noted {
    /// Where the names have that of its set, and its user key in its stored form.
    set: Range<usize>,
    key: Range<usize>,
    /// The record at the first look.
    version: RecordVersion,
    /// Whether there is anything that a deletion would delete.
    was_there: bool,
    written: Option<Uncommitted>,
}

#[derive(Default)]
struct AttemptState {
    /// Where each record is among the notes. Apart from them, so that a node of the tree is small.
    records: BTreeMap<Digest, usize>,
    notes: Vec<Noted>,
    /// Keys and bins of the new versions.
    buffer: Vec<u8>,
    /// Names of sets and keys, one after the other.
    names: Vec<u8>,
    /// How many of them are written, and the bytes of the new versions.
    written: usize,
    bytes: usize,
    /// The earliest void-time of the records that were seen alive; 0: none of them expires.
    readable_until: u32,
    lost_roots: u64,
    conflict: Option<Conflict>,
    /// How many calls are being made that leave nothing behind where they fail.
    undoable: usize,
    /// The versions that their writes have replaced, in order.
    replaced: Vec<Replaced>,
    replaced_bytes: usize,
}

/// The version that a write has replaced.
struct Replaced {
    /// Where the record is among the notes.
    at: usize,
    written: Option<Uncommitted>,
    lost_roots: u64,
}

/// Where an attempt has met another writer.
#[derive(Clone, Debug)]
pub(super) struct Conflict {
    cause: ConflictCause,
    record: Option<Box<RecordId>>,
}

impl Conflict {
    pub(super) fn into_error(self, attempts: u32) -> Error {
        Error::Conflict {
            cause: self.cause,
            attempts,
            record: self.record,
        }
    }
}

/// Why an attempt was not committed.
pub(super) enum CommitFailure {
    Conflict(Conflict),
    Failed(Error),
}

/// One run of a transaction's closure.
pub(in crate::engine) struct TransactionRun {
    core: Arc<NamespaceCore>,
    pub(super) now_ms: u64,
    takes_writes: bool,
    max_records: usize,
    max_bytes: usize,
    #[cfg(feature = "server")]
    yields: bool,
    state: RefCell<AttemptState>,
}

/// Shows its namespace, and none of its records.
impl fmt::Debug for TransactionRun {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TransactionRun")
            .field("core", &self.core)
            .finish_non_exhaustive()
    }
}

impl TransactionRun {
    pub(super) fn new(
        core: &Arc<NamespaceCore>,
        policy: &TransactionPolicy,
        takes_writes: bool,
    ) -> Self {
        Self {
            core: Arc::clone(core),
            now_ms: core.clock.now_ms(),
            takes_writes,
            max_records: policy.max_records,
            max_bytes: policy.max_bytes,
            #[cfg(feature = "server")]
            yields: policy.yields,
            state: RefCell::default(),
        }
    }

    pub(in crate::engine) fn core(&self) -> &Arc<NamespaceCore> {
        &self.core
    }

    /// How many roots this attempt is about to take the description of their shards from.
    pub(super) fn lost_roots(&self) -> u64 {
        self.state.borrow().lost_roots
    }

    /// Lends the record as the transaction sees it to `read`: as it has left it, or as it was at
    /// the first look. An expired record is lent, too.
    pub(super) fn look<R, E: From<Error>>(
        &self,
        set: &Set,
        key: &Key<'_>,
        digest: &Digest,
        read: impl FnOnce(spikelet_storage::Result<Option<EntryView<'_>>>) -> std::result::Result<R, E>,
    ) -> std::result::Result<R, E> {
        let written = {
            let state = self.state.borrow();
            // The closure has passed over it: more reads would be of another moment than the first.
            if let Some(conflict) = &state.conflict {
                return Err(conflict.clone().into_error(1).into());
            }
            let written = state.noted(digest).and_then(|noted| noted.written.as_ref());
            // A copy: the closure may use other records of the transaction.
            written.map(|written| written.to_read(digest, &state.buffer))
        };
        match written {
            Some(version) => read(Ok(version.as_ref().map(BufferedVersion::view))),
            None => self.core.storage.get_versioned(digest, |version, found| {
                self.note(set, key, digest, version, &found)?;
                read(found)
            }),
        }
    }

    /// Notes the version of a record that was seen. It must be the one seen before.
    fn note(
        &self,
        set: &Set,
        key: &Key<'_>,
        digest: &Digest,
        version: RecordVersion,
        found: &spikelet_storage::Result<Option<EntryView<'_>>>,
    ) -> Result<()> {
        let live = found.as_ref().ok().copied().flatten();
        let live = live.filter(|entry| !expired(entry, self.now_ms));
        let mut guard = self.state.borrow_mut();
        let state = &mut *guard;
        if let Some(noted) = state.noted(digest) {
            if noted.version == version {
                return Ok(());
            }
            let conflict = Conflict {
                cause: ConflictCause::Changed,
                record: Some(Box::new(RecordId::new(&set.core.name, key))),
            };
            state.conflict = Some(conflict.clone());
            return Err(conflict.into_error(1));
        }
        if let Some(void_time) = live
            .map(|entry| entry.void_time())
            .filter(|time| *time != 0)
        {
            state.readable_until = match state.readable_until {
                0 => void_time,
                earliest => earliest.min(void_time),
            };
        }
        // Most transactions need no more.
        if state.names.is_empty() {
            state.names.reserve(NAMES_BYTES_AT_ONCE);
        }
        let from = state.names.len();
        state.names.extend_from_slice(set.core.name.as_bytes());
        let key_at = state.names.len();
        key.write_stored(&mut state.names);
        let noted = Noted {
            set: from..key_at,
            key: key_at..state.names.len(),
            version,
            // A damaged record counts as there: its deletion must be written.
            was_there: live.is_some() || found.is_err(),
            written: None,
        };
        state.records.insert(*digest, state.notes.len());
        state.notes.push(noted);
        Ok(())
    }

    /// Does a write as `NamespaceCore::write` does, and keeps the new version.
    pub(super) fn write(
        &self,
        set: &Set,
        key: &Key<'_>,
        target: &WriteTarget<'_>,
        policy: &WritePolicy,
        must_exist: bool,
        edit: &mut WriteEdit<'_>,
    ) -> std::result::Result<WriteOutcome, WriteRefusal> {
        self.check_takes_writes()?;
        let body = &mut Scratch::take();
        let evaluated = self.look(set, key, &target.digest, |found| {
            let entry = seen_by_write(found, target, policy)?;
            let live = entry.filter(|entry| !expired(entry, self.now_ms));
            let live = (live, self.now_ms);
            self.core
                .evaluate(body, target, policy, must_exist, live, edit)
        })?;
        let loses_shards = evaluated.loses_shards;
        self.keep(&target.digest, &evaluated.plan, body, loses_shards)?;
        Ok(evaluated.outcome(0, None))
    }

    /// Does a deletion as `NamespaceCore::delete` does, and keeps it.
    pub(super) fn delete(
        &self,
        set: &Set,
        key: &Key<'_>,
        target: &WriteTarget<'_>,
        policy: &WritePolicy,
    ) -> std::result::Result<(), WriteRefusal> {
        self.check_takes_writes()?;
        let judged = self.look(set, key, &target.digest, |found| {
            self.core.judge_deletion(target, policy, found, self.now_ms)
        })?;
        let loses_shards = judged.loses_shards;
        Ok(self.keep(&target.digest, &WritePlan::Delete, &[], loses_shards)?)
    }

    /// The keys of records of a set that the attempt has written, and not deleted.
    pub(super) fn written_keys(&self, set: &str) -> Vec<Key<'static>> {
        let state = self.state.borrow();
        let is_there = |noted: &&Noted| {
            let is_of_set = state.names.get(noted.set.clone()) == Some(set.as_bytes());
            is_of_set && matches!(&noted.written, Some(Uncommitted::Put(_)))
        };
        let stored = state.notes.iter().filter(is_there);
        stored
            .filter_map(|noted| Key::from_stored(state.names.get(noted.key.clone())?).ok())
            .map(Key::into_owned)
            .collect()
    }

    /// Makes writes that belong together: takes all of them back if `make` fails, since the closure
    /// may go on then.
    pub(in crate::engine) fn all_or_none<R>(&self, make: impl FnOnce() -> Result<R>) -> Result<R> {
        let from = {
            let mut state = self.state.borrow_mut();
            state.undoable += 1;
            state.replaced.len()
        };
        let made = make();
        let mut state = self.state.borrow_mut();
        state.undoable -= 1;
        if made.is_err() {
            state.take_back(from);
        }
        if state.undoable == 0 {
            state.replaced.clear();
            state.replaced_bytes = 0;
        }
        made
    }

    pub(in crate::engine) fn check_takes_writes(&self) -> Result<()> {
        if self.takes_writes {
            return Ok(());
        }
        Err(Error::Forbidden(
            "a snapshot read writes nothing: use transaction(..)".into(),
        ))
    }

    /// Keeps the result of a write. `body`: the bins of a new version.
    fn keep(
        &self,
        digest: &Digest,
        plan: &WritePlan<'_>,
        body: &[u8],
        loses_shards: bool,
    ) -> Result<()> {
        let mut guard = self.state.borrow_mut();
        let state = &mut *guard;
        // A few small records need no more.
        if state.buffer.is_empty() {
            state.buffer.reserve(body.len().max(BUFFER_BYTES_AT_ONCE));
        }
        let from = state.buffer.len();
        state.buffer.extend_from_slice(body);
        let Some(written) = Uncommitted::of(plan, from, &mut state.buffer) else {
            return Ok(());
        };
        let at = state.records.get(digest).copied();
        let Some((at, noted)) = at.and_then(|at| Some((at, state.notes.get_mut(at)?))) else {
            debug_assert!(false, "a write of {digest:?}, which was not looked at");
            return Err(Error::Forbidden(
                "a transaction wrote a record that it had not read: the write was not kept".into(),
            ));
        };
        let before = noted.written.as_ref();
        let records = state.written + usize::from(before.is_none());
        let bytes = state.bytes - before.map_or(0, Uncommitted::bytes) + written.bytes();
        let checked = check_limit(records, self.max_records, "records", "max_records")
            .and_then(|()| check_limit(bytes, self.max_bytes, "bytes", "max_bytes"));
        if let Err(over) = checked {
            state.buffer.truncate(from);
            return Err(over);
        }
        let before = noted.written.replace(written);
        if state.undoable > 0 {
            state.replaced_bytes += before.as_ref().map_or(0, Uncommitted::bytes);
            state.replaced.push(Replaced {
                at,
                written: before,
                lost_roots: state.lost_roots,
            });
        }
        (state.written, state.bytes) = (records, bytes);
        state.lost_roots += u64::from(loses_shards);
        let replaced = state.replaced.iter_mut().map(|it| &mut it.written);
        let written = state.notes.iter_mut().map(|noted| &mut noted.written);
        let kept = written.chain(replaced).filter_map(Option::as_mut);
        compact(&mut state.buffer, bytes + state.replaced_bytes, kept);
        Ok(())
    }

    /// Commits the attempt's writes, or, without `writes`, only checks that the versions it has
    /// read were there at one moment. Returns the number of the commit, if there was anything to
    /// write.
    pub(super) fn finish(
        self,
        writes: bool,
        acknowledge: Acknowledge,
        ends: Option<Instant>,
    ) -> std::result::Result<Option<Lsn>, CommitFailure> {
        let state = self.state.into_inner();
        if let Some(conflict) = state.conflict {
            return Err(CommitFailure::Conflict(conflict));
        }
        let (mut reads, mut changes) = (Vec::new(), Vec::with_capacity(state.written));
        let written = state.notes.iter();
        let written = written.filter_map(|noted| noted.written.as_ref());
        let updated_ms = update_time(written, self.now_ms);
        // In the order of the digests: two commits that lock in it never wait for each other.
        for (digest, position) in &state.records {
            let Some(noted) = state.notes.get(*position) else {
                continue;
            };
            let seen = SeenRecord {
                digest: *digest,
                version: noted.version,
            };
            let written = noted.written.as_ref().filter(|_| writes);
            let change =
                |written: &Uncommitted| written.change(&state.buffer, noted.was_there, updated_ms);
            match written.and_then(change) {
                Some(change) => changes.push(RecordChange { seen, change }),
                None => reads.push(seen),
            }
        }
        let left = ends.map(|ends| ends.saturating_duration_since(Instant::now()));
        // Wire clients' transactions are overruled between the two: records they have locked by
        // then are seen here, and those that lock records later find ours locked or changed
        // (`provisional/interleavings.rs`). A call that yields is refused there instead.
        #[cfg(feature = "server")]
        let overrule = || {
            if !self.yields {
                let read = reads.iter().map(|read| &read.digest);
                self.core.provisional_locks.overrule(read);
            }
        };
        #[cfg(feature = "server")]
        if !GUARDS.keep(CommitRule::LocksBeforeOverruling) {
            overrule();
        }
        let locked = lock_unchanged(&self.core, &state, (&[], &changes), left)?;
        #[cfg(feature = "server")]
        if self.yields {
            // Under the records' own locks, as clients' transactions lock them.
            let written = changes.iter().map(|change| &change.seen.digest);
            let mut met = written.chain(reads.iter().map(|read| &read.digest));
            let locks = &self.core.provisional_locks;
            if let Some(digest) = met.find(|digest| locks.owner(digest).is_some()) {
                let conflict = Conflict {
                    cause: ConflictCause::Locked,
                    record: state.record_id(digest),
                };
                return Err(CommitFailure::Failed(conflict.into_error(1)));
            }
        }
        if !reads.is_empty() {
            #[cfg(feature = "server")]
            if GUARDS.keep(CommitRule::LocksBeforeOverruling)
                && GUARDS.keep(CommitRule::OverrulesBeforeLooking)
            {
                overrule();
            }
            lock_unchanged(&self.core, &state, (&reads, &[]), left)?;
            #[cfg(feature = "server")]
            if !GUARDS.keep(CommitRule::OverrulesBeforeLooking) {
                overrule();
            }
        }
        if locked.is_empty() {
            return Ok(None);
        }
        let lost_roots = state.lost_roots;
        let published = self.core.publish_group(locked, acknowledge, lost_roots);
        published.map_err(|error| match error {
            // A truncation has come between.
            Error::Conflict { cause, record, .. } => {
                CommitFailure::Conflict(Conflict { cause, record })
            }
            // Another writer has the record of a unique key.
            Error::KeyBusy { record, .. } => CommitFailure::Conflict(Conflict {
                cause: ConflictCause::Locked,
                record,
            }),
            error => CommitFailure::Failed(error),
        })
    }
}

impl AttemptState {
    fn noted(&self, digest: &Digest) -> Option<&Noted> {
        self.notes.get(*self.records.get(digest)?)
    }

    /// Takes back the writes that have replaced these and later versions.
    fn take_back(&mut self, from: usize) {
        let bytes = |written: &Option<Uncommitted>| written.as_ref().map_or(0, Uncommitted::bytes);
        while self.replaced.len() > from {
            // The last one first: a record that was written twice gets its first version back.
            let Some(replaced) = self.replaced.pop() else {
                return;
            };
            let Some(noted) = self.notes.get_mut(replaced.at) else {
                continue;
            };
            let before = bytes(&replaced.written);
            self.replaced_bytes -= before;
            self.bytes = self.bytes + before - bytes(&noted.written);
            self.written -= usize::from(replaced.written.is_none());
            self.lost_roots = replaced.lost_roots;
            noted.written = replaced.written;
        }
    }

    /// Names a record.
    fn record_id(&self, digest: &Digest) -> Option<Box<RecordId>> {
        let noted = self.noted(digest)?;
        let set = std::str::from_utf8(self.names.get(noted.set.clone())?).ok()?;
        let key = Key::from_stored(self.names.get(noted.key.clone())?).ok()?;
        Some(Box::new(RecordId::new(set, &key)))
    }
}

/// Locks the written records and checks all that were seen.
fn lock_unchanged<'n, 'c>(
    core: &'n NamespaceCore,
    state: &AttemptState,
    (reads, changes): (&[SeenRecord], &[RecordChange<'c>]),
    timeout: Option<Duration>,
) -> std::result::Result<Vec<GroupMember<'n, 'c>>, CommitFailure> {
    use spikelet_storage::Error as StorageError;
    // The last look of all says whether the versions that were read are still there.
    let is_last = !reads.is_empty() || changes.len() == state.records.len();
    let readable_until = if is_last { state.readable_until } else { 0 };
    let locked = core
        .storage
        .lock_unchanged(reads, changes, readable_until, timeout);
    locked.map_err(|error| match error {
        StorageError::Conflict { digest, cause } => CommitFailure::Conflict(Conflict {
            cause,
            record: state.record_id(&digest),
        }),
        StorageError::KeyBusy { .. } | StorageError::Timeout => CommitFailure::Conflict(Conflict {
            cause: ConflictCause::Locked,
            record: None,
        }),
        error => CommitFailure::Failed(core.not_written(error)),
    })
}
