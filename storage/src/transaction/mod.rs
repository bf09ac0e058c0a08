//! Optimistic transactions: the versions that a transaction has seen, and the check that they still
//! hold at the commit.
//!
//! - `buffered.rs`: a version that is not stored yet
//!
//! # The protocol
//! A transaction notes the [`RecordVersion`] of each record that it reads, absences too, and holds
//! nothing. At its commit it locks the records that it writes, in the order of their digests, and
//! only then compares the versions it has seen with the versions that are there. A record that it
//! has read and does not write must be as it was, and no other thread may hold its lock: an owner
//! may be about to publish it, and other members of the same group may have been published already.
//!
//! All that a transaction has read is therefore there unchanged at the moment at which it holds its
//! last lock; that moment is its place in the order of all transactions. A version never comes
//! back, so two equal looks mean that nothing came between.

pub(crate) mod buffered;

use crate::core::Core;
use crate::core::Namespace;
use crate::digest::Digest;
use crate::entry::EntryView;
use crate::epoch::{self, Guard};
use crate::error::ConflictCause;
use crate::error::{Error, Result};
use crate::index::{IndexSlot, PartitionGuard};
use crate::record_lock::space_wait::rest;
use crate::record_lock::{AHEAD, Change, GroupMember, RecordLock, WaitLimit};
use crate::rules::{StorageRule, keeps};
use crate::sync::hint;
use std::time::{Duration, Instant};

/// How often a commit looks at a record that another writer has locked before it gives up. A lock
/// is mostly held for less than a microsecond.
#[cfg(not(shuttle))]
const LOOKS: u32 = 64;
#[cfg(shuttle)]
const LOOKS: u32 = 2;

/// Which version of a record was seen, or which absence. Equal versions of one record mean that
/// nothing has changed in between, wherever defragmentation has moved it.
///
/// Good for this opening of the namespace.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct RecordVersion(u64);

/// With [`ABSENT`]: however many removals there have been.
const UNCOUNTED: u64 = 1 << 61;
/// With the number of the tombstone.
const DELETED: u64 = 1 << 62;
/// With the count of removals: neither a record nor a tombstone is there.
const ABSENT: u64 = 1 << 63;
/// The entry cannot be read.
const DAMAGED: RecordVersion = RecordVersion(u64::MAX - 1);
/// Seen while something was removed without a trace: equal to nothing.
const UNSTABLE: RecordVersion = RecordVersion(u64::MAX);

/// A record that a transaction has read, and the version that it saw.
#[derive(Clone, Copy, Debug)]
pub struct SeenRecord {
    /// The record.
    pub digest: Digest,
    /// The version that was seen.
    pub version: RecordVersion,
}

/// A transaction's write to a record.
#[derive(Clone, Copy, Debug)]
pub struct RecordChange<'a> {
    /// The record, and the version that was seen before the change.
    pub seen: SeenRecord,
    /// The change.
    pub change: Change<'a>,
}

impl Namespace {
    /// Lends the record with this digest to `read` as [`Namespace::get`] does, `None` if there is
    /// none, with the version that this is. An error comes with a version, too, since a transaction
    /// depends on what it could not read as well.
    pub fn get_versioned<R>(
        &self,
        digest: &Digest,
        read: impl FnOnce(RecordVersion, Result<Option<EntryView<'_>>>) -> R,
    ) -> R {
        let core = &self.core;
        loop {
            let guard = epoch::pin();
            let found = core.visible(digest, &guard);
            if let Ok(Some(found)) = &found {
                guard.narrow(core.watched_by(found));
                let view = found.view();
                return read(RecordVersion(view.lsn().0), Ok(Some(view)));
            }
            // Before the look at the index: a removal that begins after this changes the count by
            // the commit.
            let settled = core.removals.settled();
            let partition = core.index.lock(digest);
            let looked = core.version_in(&partition, digest, &guard);
            drop(partition);
            let version = match looked {
                // Removals may have been under way when the absence was looked at.
                None => RecordVersion::absent(settled),
                // It has come in between.
                Some(version) if found.is_ok() && !version.is_deleted() => continue,
                Some(version) => version,
            };
            return read(version, found.map(|_| None));
        }
    }

    /// Locks the records that a transaction writes, in the order of their digests, which must be
    /// strictly ascending, and checks that nothing has changed since the transaction has seen it:
    /// neither those records nor the ones that it only reads. Returns the locked records with their
    /// changes for [`Namespace::commit_group`]; all that the transaction has seen holds at the
    /// moment at which this has locked the last one.
    ///
    /// `readable_until`: the earliest void-time of the records that were seen alive, in seconds
    /// since 2010; 0 = never. `timeout`: how long locks are waited for in all, and space at the
    /// commit; `None`: as long as it takes. While a lock is waited for, nothing is kept from being
    /// moved or freed.
    ///
    /// # Errors
    /// [`Error::Conflict`] names the record and the cause; [`Error::KeyBusy`] and
    /// [`Error::Timeout`] as for [`Namespace::lock`]. No lock is held then, and nothing was
    /// changed.
    pub fn lock_unchanged<'n, 'c>(
        &'n self,
        reads: &[SeenRecord],
        writes: &[RecordChange<'c>],
        readable_until: u32,
        timeout: Option<Duration>,
    ) -> Result<Vec<GroupMember<'n, 'c>>> {
        let core = &*self.core;
        check_order(writes.iter().map(|write| &write.seen.digest))?;
        // A namespace that is closed can still be read.
        core.check_not_forked()?;
        let ends = timeout.and_then(|timeout| Instant::now().checked_add(timeout));
        let limit = ends.map_or(WaitLimit::Never, WaitLimit::At);
        let mut locked: Vec<GroupMember<'n, 'c>> = Vec::with_capacity(writes.len());
        for write in writes {
            let others = locked.iter_mut().map(|(lock, _)| lock);
            let lock = lock_beside(core, others, &write.seen.digest, limit)?;
            // Final already: while the next lock is waited for, others may move the record, not
            // change it.
            if keeps(StorageRule::WrittenUnchanged) && !lock.is_still(write.seen.version) {
                return Err(conflict(write.seen.digest, ConflictCause::Changed));
            }
            locked.push((lock, Some(write.change)));
        }
        let guard = epoch::pin();
        for read in reads {
            core.check_read(read, &guard)
                .map_err(|cause| conflict(read.digest, cause))?;
        }
        // Behind the last lock: that moment is the place of the transaction in the order of all.
        let now_s = core.options.clock.now_ms() / 1000;
        if readable_until != 0 && u64::from(readable_until) < now_s {
            let digest = reads.first().map(|read| read.digest);
            let digest = digest.or(writes.first().map(|write| write.seen.digest));
            return Err(conflict(
                digest.unwrap_or(Digest::NONE),
                ConflictCause::Expired,
            ));
        }
        Ok(locked)
    }

    /// Locks the records with these digests, which must be strictly ascending, for
    /// [`Namespace::apply_group`], without changes yet. `timeout`: how long all locks together, and
    /// space at the commit, are waited for; `None`: as long as it takes. While one lock is waited
    /// for, records that are locked already may be moved.
    ///
    /// # Errors
    /// As for [`Namespace::lock`], with the record that could not be locked. No lock is held then.
    pub fn lock_all<'n, 'c>(
        &'n self,
        digests: &[Digest],
        timeout: Option<Duration>,
    ) -> std::result::Result<Vec<GroupMember<'n, 'c>>, (Digest, Error)> {
        check_order(digests.iter()).map_err(|error| (Digest::NONE, error))?;
        let mut limit = timeout.map_or(WaitLimit::Never, WaitLimit::after);
        let mut locked: Vec<GroupMember<'n, 'c>> = Vec::with_capacity(digests.len());
        for ahead in digests.chunks(AHEAD) {
            // A few records are locked before their memory could come.
            if digests.len() > AHEAD {
                self.prefetch_batch(ahead);
            }
            for digest in ahead {
                let others = locked.iter_mut().map(|(lock, _)| lock);
                let lock = lock_beside(&self.core, others, digest, limit);
                let lock = lock.map_err(|error| (*digest, error))?;
                // The first wait sets the end of all.
                limit = lock.limit;
                locked.push((lock, None));
            }
        }
        Ok(locked)
    }
}

/// Locks one more record. `others`, which are locked already, may be moved while this one is waited
/// for.
fn lock_beside<'n: 'l, 'l>(
    core: &'n Core,
    others: impl Iterator<Item = &'l mut RecordLock<'n>>,
    digest: &Digest,
    limit: WaitLimit,
) -> Result<RecordLock<'n>> {
    RecordLock::acquire_waiting(core, digest, limit, |waiter, ends| {
        let mut granted = false;
        let mut locks: Vec<_> = others.collect();
        rest(core, &mut locks, || granted = waiter.wait(ends));
        granted
    })
}

/// Refuses one record twice, and an order in which two callers could wait for each other.
fn check_order<'d>(digests: impl Iterator<Item = &'d Digest> + Clone) -> Result<()> {
    let is_ascending = digests
        .clone()
        .zip(digests.clone().skip(1))
        .all(|(one, next)| one < next);
    if is_ascending {
        return Ok(());
    }
    Err(Error::BadOption {
        option: "writes",
        value: format!("{} changes", digests.count()),
        rule: "one change a record, in the order of the digests",
    })
}

const fn conflict(digest: Digest, cause: ConflictCause) -> Error {
    Error::Conflict { digest, cause }
}

impl RecordVersion {
    /// Returns a number below 2^54, never 0, for callers that keep versions elsewhere. It is the
    /// number of the entry, a tombstone's with bit 52; an absence without a tombstone has bit 53
    /// alone. So it outlives this opening, and says less of absences: two of them without a
    /// tombstone look the same.
    ///
    /// ```
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// use spikelet_storage::{Digest, Namespace, NewVersion, Options, Storage};
    ///
    /// let (namespace, _) = Namespace::open(Options::new("test", Storage::Memory))?;
    /// let digest = Digest::new([7; Digest::LEN]);
    /// let stamp = || namespace.get_versioned(&digest, |version, _| version.stamp());
    /// let absent = stamp();
    /// let version = NewVersion { generation: 1, void_time: 0, last_update_ms: 1, set_id: 0, key: None, payload: b"x" };
    /// let lsn = namespace.lock(&digest, None)?.put(&version)?;
    /// assert_ne!(stamp(), absent);
    /// assert_eq!(stamp(), lsn.get());
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub const fn stamp(self) -> u64 {
        const DELETED_STAMP: u64 = 1 << 52;
        const ABSENT_STAMP: u64 = 1 << 53;
        match self.0 {
            number if number & ABSENT != 0 => ABSENT_STAMP,
            number if number & DELETED != 0 => DELETED_STAMP | (number & !DELETED),
            number => number,
        }
    }

    /// An absence without a tombstone, whether or not a record was removed without a trace since:
    /// for a record that is written, where it is enough that it is absent again at the commit.
    pub const UNCOUNTED_ABSENCE: Self = Self(ABSENT | UNCOUNTED);

    /// `settled`: the count of removals, if none was under way.
    fn absent(settled: Option<u64>) -> Self {
        settled.map_or(UNSTABLE, |removals| Self(ABSENT | removals))
    }

    fn is_deleted(self) -> bool {
        self != DAMAGED && self != UNSTABLE && self.0 & (DELETED | ABSENT) == DELETED
    }
}

impl Core {
    /// The version of a record that readers see at this moment; `None`: neither a record nor a
    /// tombstone is there. The caller has the partition locked.
    fn version_in(
        &self,
        partition: &PartitionGuard<'_>,
        digest: &Digest,
        guard: &Guard,
    ) -> Option<RecordVersion> {
        let slot = self.slot_in(partition, digest, guard)?;
        self.version_of(&slot, guard)
    }

    fn version_of(&self, slot: &IndexSlot, guard: &Guard) -> Option<RecordVersion> {
        match self.log.entry(slot.location, guard) {
            Some(entry) => self.version_at(slot, &entry.view()),
            None => Some(DAMAGED),
        }
    }

    /// The version of a slot with this entry.
    #[inline]
    fn version_at(&self, slot: &IndexSlot, view: &EntryView<'_>) -> Option<RecordVersion> {
        match self.believes(slot, view) {
            false => Some(DAMAGED),
            true if slot.tombstone => Some(RecordVersion(DELETED | view.lsn().0)),
            // A truncation has taken it, and will remove it.
            true if self.hides(view) => None,
            true => Some(RecordVersion(view.lsn().0)),
        }
    }

    /// Whether the index still has the version that was seen. The removals are counted after the
    /// look.
    fn is_same(&self, seen: RecordVersion, looked: Option<RecordVersion>) -> bool {
        seen != UNSTABLE
            && match looked {
                Some(version) => version == seen,
                None if seen == RecordVersion::UNCOUNTED_ABSENCE => true,
                None if !keeps(StorageRule::AbsencesCounted) => seen.0 & ABSENT != 0,
                None => RecordVersion(ABSENT | self.removals.begun()) == seen,
            }
    }

    fn check_read(
        &self,
        read: &SeenRecord,
        guard: &Guard,
    ) -> std::result::Result<(), ConflictCause> {
        if !keeps(StorageRule::ReadsUnchanged) {
            return Ok(());
        }
        for _ in 0..LOOKS {
            let mut partition = self.index.lock(&read.digest);
            if partition.held().is_held(&read.digest) && keeps(StorageRule::ReadsUnlocked) {
                drop(partition);
                // The owner needs the partition to publish, so it was unlocked.
                hint::spin_loop();
                continue;
            }
            let looked = self.version_in(&partition, &read.digest, guard);
            drop(partition);
            return if self.is_same(read.version, looked) {
                Ok(())
            } else {
                Err(ConflictCause::Changed)
            };
        }
        Err(ConflictCause::Locked)
    }
}

impl RecordLock<'_> {
    /// Whether the record is as it was when this version was seen.
    fn is_still(&self, version: RecordVersion) -> bool {
        let looked = match (&self.seen, self.kept_entry()) {
            (Some(slot), Some(entry)) => self.core.version_at(slot, &entry),
            (Some(slot), None) => self.core.version_of(slot, &self.guard),
            (None, _) => None,
        };
        self.core.is_same(version, looked)
    }
}

#[cfg(all(test, shuttle))]
mod shuttle_tests;
