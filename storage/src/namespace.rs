//! A namespace: the log, the index over it, and the record locks, as one store of bytes by digest.
//!
//! Reading takes no lock. Writing goes through [`Namespace::lock`]: whoever holds a [`RecordLock`] sees the record as it
//! is and may put a new version, or a tombstone, in its place.

use crate::defrag::Defrag;
use crate::digest::{Digest, PARTITIONS};
use crate::durability::Durability;
use crate::entry::{EntryView, FLAG_GROUPED, Header, Kind};
use crate::epoch::{self, Guard};
use crate::error::{Error, Result};
use crate::group::Groups;
use crate::hot_keys::{HotKey, HotKeys};
use crate::index::{Candidate, Index, Slot};
use crate::location::Location;
use crate::log::{Appended, Log, filler};
use crate::maintenance::Background;
use crate::options::Options;
use crate::record_lock::{Change, RecordLock};
use crate::recovery::METADATA_COPIES;
use crate::sets::{SetUsage, Sets, Truncate};
use crate::space::Purpose;
use crate::stats::Traffic;
use crate::sync::Mutex;
use crate::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::Arc;
use std::time::Duration;

/// A store of bytes by digest. Cheap to clone; all clones are the same store.
#[derive(Clone, Debug)]
pub struct Namespace {
    pub(crate) core: Arc<Core>,
    /// Ends the background threads when the last handle goes.
    pub(crate) background: Arc<Background>,
}

/// What the handles and the background threads share.
#[derive(Debug)]
pub(crate) struct Core {
    pub(crate) name: String,
    pub(crate) options: Options,
    pub(crate) log: Log,
    pub(crate) index: Index,
    pub(crate) sets: Sets,
    pub(crate) groups: Mutex<Groups>,
    pub(crate) hot_keys: HotKeys,
    pub(crate) counters: Counters,
    /// Where the copies of the metadata entry lie.
    pub(crate) metadata: Mutex<Vec<Appended>>,
    pub(crate) defrag: Mutex<Defrag>,
    /// What was written before this opening.
    pub(crate) earlier_traffic: Traffic,
    pub(crate) closed: AtomicBool,
    /// Whether the close has succeeded. Held during it, and by what must not run beside it.
    pub(crate) close_done: Mutex<bool>,
}

/// What has happened since the namespace was opened.
#[derive(Debug, Default)]
pub(crate) struct Counters {
    pub(crate) key_busy: AtomicU64,
    pub(crate) waits: AtomicU64,
    pub(crate) timeouts: AtomicU64,
    pub(crate) damaged: AtomicU64,
    pub(crate) expired: AtomicU64,
    pub(crate) defragmented_blocks: AtomicU64,
    pub(crate) dropped_tombstones: AtomicU64,
}

impl Counters {
    pub(crate) fn add(counter: &AtomicU64, count: u64) {
        counter.fetch_add(count, Ordering::Relaxed);
    }
}

impl Namespace {
    /// The name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.core.name
    }

    /// What the namespace was opened with.
    #[must_use]
    pub fn options(&self) -> &Options {
        &self.core.options
    }

    /// Lends the record with this digest to `read`, without a copy and without a lock. None: there is no such record, or
    /// it was deleted or truncated. Whether it has expired is for the caller to see ([`EntryView::void_time`]).
    ///
    /// Costs one probe of the index and one look at the log. Space cannot be recycled while `read` runs: keep it short.
    ///
    /// # Errors
    /// [`Error::Damaged`] if the stored bytes do not match their checksum (looked at once for each entry after opening).
    pub fn get<R>(
        &self,
        digest: &Digest,
        read: impl FnOnce(EntryView<'_>) -> R,
    ) -> Result<Option<R>> {
        let guard = epoch::pin();
        Ok(self.core.visible(digest, &guard)?.map(read))
    }

    /// Has the memory fetched that `get` of this digest will touch first. For a record that is needed soon;
    /// [`Namespace::get_batch`] reads many.
    pub fn prefetch(&self, digest: &Digest) {
        self.core.index.prefetch(digest, &epoch::pin());
    }

    /// Locks a record, whether it exists or not, for a read-modify-write. Writers that find it locked queue in FIFO
    /// order. Other records are not disturbed. Space cannot be recycled while a lock is held: keep it short.
    ///
    /// # Errors
    /// [`Error::KeyBusy`] at once if `max_waiters` writers queue already; [`Error::Timeout`] after `timeout` in the
    /// queue (None = wait as long as it takes). In both cases nothing was changed.
    pub fn lock(&self, digest: &Digest, timeout: Option<Duration>) -> Result<RecordLock<'_>> {
        RecordLock::acquire(&self.core, digest, timeout)
    }

    /// Lends every record of a partition (0..4096) to `read`, in no particular order. Records written meanwhile may or
    /// may not be among them. Damaged records are passed over.
    pub fn scan_partition(&self, partition: usize, mut read: impl FnMut(EntryView<'_>)) {
        let guard = epoch::pin();
        let slots = self.core.slots_of(partition);
        let location = |(_, slot): &(u32, Slot)| (!slot.tombstone).then_some(slot.location);
        for (_, slot) in self.core.prefetching(&slots, location) {
            if slot.tombstone {
                continue;
            }
            if let Ok(Some(entry)) = self
                .core
                .checked_entry(slot.location, slot.unverified, &guard)
                && !self.core.sets.hides(entry.set_id(), entry.last_update_ms())
            {
                read(entry);
            }
        }
    }

    /// Applies changes to several locked records, all of this namespace and each of another record: after a crash or a
    /// power failure all of them are there, or none. Readers may see them appear one after the other.
    ///
    /// # Errors
    /// Nothing was changed, except for [`Error::InDoubt`].
    pub fn commit_group(&self, changes: Vec<(RecordLock<'_>, Change<'_>)>) -> Result<()> {
        self.core.commit_group(changes)
    }

    /// The number of a set; None if nothing was ever written to it. 0 is the empty name, "no set".
    #[must_use]
    pub fn set_id(&self, name: &str) -> Option<u16> {
        self.core.sets.number_of(name)
    }

    /// The number of a set, which is created if need be. Sets are never removed.
    ///
    /// # Errors
    /// A name that is not allowed, the 4,096th set, or no space to note the set.
    pub fn create_set(&self, name: &str) -> Result<u16> {
        self.core
            .sets
            .create(name, |metadata| self.core.store_metadata(&metadata))
    }

    /// The name of a set by its number.
    #[must_use]
    pub fn set_name(&self, id: u16) -> Option<String> {
        self.core.sets.name_of(id)
    }

    /// What each set holds, "no set" first.
    #[must_use]
    pub fn sets(&self) -> Vec<SetUsage> {
        self.core.sets.usage()
    }

    /// Records and stored bytes of one set. Exact while nobody writes.
    #[must_use]
    pub fn set_usage(&self, id: u16) -> (u64, u64) {
        self.core.sets.usage_of(id)
    }

    /// The time before which records of this set are truncated (ms since 2010): a new record must be at least as young.
    #[must_use]
    pub fn truncated_before_ms(&self, set_id: u16) -> u64 {
        self.core.sets.truncated_before_ms(set_id)
    }

    /// The latest time of all truncations, in ms since 2010; 0: there was none. Records are never older than the truncation
    /// after which they were written, so one that was written within the same millisecond has this time.
    #[must_use]
    pub fn latest_truncation_ms(&self) -> u64 {
        self.core.sets.latest_truncation_ms()
    }

    /// Removes every record that was last updated before `before_ms` (ms since 2010). Returns how many; they and their
    /// counts are gone when the call returns, and they do not come back.
    ///
    /// # Errors
    /// If the truncation cannot be noted in the log, nothing is removed.
    pub fn truncate(&self, what: Truncate, before_ms: u64) -> Result<u64> {
        // A snapshot must not be taken between the two halves.
        let _not_beside_a_close = self.core.close_done.lock();
        self.core.check_open()?;
        self.core.log.check_writable(Purpose::Delete)?;
        self.core.sets.truncate(what, before_ms, |metadata| {
            self.core.store_metadata(&metadata)
        })?;
        let removed = self.core.remove_all_truncated();
        self.core.settle()?;
        Ok(removed)
    }

    /// Keys on which writers have waited or were refused, the most contended first. An event counts half after 5 minutes.
    #[must_use]
    pub fn hot_keys(&self, most: usize) -> Vec<HotKey> {
        let now_ms = self.core.options.clock.now_ms();
        self.core.hot_keys.top(most, now_ms)
    }

    /// Everything acknowledged before this call is on stable storage when it returns.
    ///
    /// # Errors
    /// [`Error::ReadOnly`] if a sync fails, now or earlier.
    pub fn sync(&self) -> Result<()> {
        self.core.log.sync()?;
        if !self.core.closed.load(Ordering::SeqCst) {
            // Damage to what was just synced is then told from a torn write, whatever becomes of the process.
            self.core.log.write_states(0)?;
        }
        Ok(())
    }

    /// Closes the namespace: no more writes, a last sync, and a snapshot of the index, so that opening does not need to
    /// read the log. Other handles get [`Error::Closed`] for writes from now on. Dropping all handles without it is
    /// safe: the next opening reads the log.
    ///
    /// # Errors
    /// If the sync or the snapshot fails. The data is as safe as before.
    pub fn close(&self) -> Result<()> {
        // Whoever comes second waits for the first, and tries again what that could not do.
        let mut done = self.core.close_done.lock();
        if *done {
            return Ok(());
        }
        self.core.closed.store(true, Ordering::SeqCst);
        self.background.stop();
        // Whoever defragments at this moment ends first; later ones are refused.
        drop(self.core.defrag.lock());
        self.core.close()?;
        *done = true;
        Ok(())
    }
}

impl Core {
    pub(crate) fn check_open(&self) -> Result<()> {
        if self.closed.load(Ordering::Relaxed) {
            return Err(Error::Closed {
                namespace: self.name.clone(),
            });
        }
        Ok(())
    }

    /// The record with this digest, as readers see it.
    #[inline]
    pub(crate) fn visible<'a>(
        &'a self,
        digest: &Digest,
        guard: &'a Guard,
    ) -> Result<Option<EntryView<'a>>> {
        let found = self.index.lookup(digest, guard, |candidate| {
            let entry = self.log.entry(candidate.location, guard);
            if candidate.unverified {
                return self
                    .may_be(digest, candidate.location, entry.as_ref())
                    .then_some((candidate, entry));
            }
            entry
                .filter(|entry| entry.has_digest(digest))
                .map(|entry| (candidate, Some(entry)))
        });
        let Some((candidate, entry)) = found else {
            return Ok(None);
        };
        let entry = match candidate.unverified {
            true => self.checked_entry(candidate.location, true, guard)?,
            false => entry,
        };
        let Some(entry) = entry else { return Ok(None) };
        Ok(self.shows(&entry).then_some(entry))
    }

    /// Whether readers see what this entry holds: a record that is not truncated.
    #[inline]
    pub(crate) fn shows(&self, entry: &EntryView<'_>) -> bool {
        entry.kind_is(Kind::Record) && !self.sets.hides(entry.set_id(), entry.last_update_ms())
    }

    /// Counts a wait for a record's lock, or a `KeyBusy`.
    pub(crate) fn note_contention(&self, digest: &Digest, busy: bool) {
        let now_ms = self.options.clock.now_ms();
        self.hot_keys.note(digest, busy, now_ms);
    }

    /// Has the entry fetched that is likely this record's, while the caller goes for the locks.
    pub(crate) fn prefetch_entry(&self, digest: &Digest, guard: &Guard) {
        let fetch = |candidate: Candidate| -> Option<()> {
            self.log.prefetch_start(candidate.location);
            None
        };
        self.index.lookup(digest, guard, fetch);
    }

    /// Whether an entry that nobody has checked yet is this record's. With a damaged header it may be: its tag fits, and
    /// its digest cannot be trusted to say otherwise.
    #[cold]
    fn may_be(&self, digest: &Digest, location: Location, entry: Option<&EntryView<'_>>) -> bool {
        entry.is_none_or(|entry| {
            entry.has_digest(digest) || self.log.checked_header(location, entry).is_none()
        })
    }

    /// The entry at a location of the index; its checks are looked at if nobody has done so yet. None only if the
    /// location is no place for an entry at all and was not to be checked.
    pub(crate) fn checked_entry<'a>(
        &'a self,
        location: Location,
        unverified: bool,
        guard: &'a Guard,
    ) -> Result<Option<EntryView<'a>>> {
        let entry = self.log.entry(location, guard);
        if !unverified {
            return Ok(entry);
        }
        match entry.filter(|entry| self.log.holds(location, entry)) {
            Some(entry) => {
                self.mark_verified(&entry.digest(), location);
                Ok(Some(entry))
            }
            None => {
                Counters::add(&self.counters.damaged, 1);
                Err(Error::Damaged {
                    device: location.device(),
                    offset: location.offset_bytes(),
                })
            }
        }
    }

    /// The entry of a slot, unless it is damaged: then nothing in it is believed, and its record goes on to say so.
    pub(crate) fn believed_entry<'a>(
        &'a self,
        slot: &Slot,
        guard: &'a Guard,
    ) -> Option<EntryView<'a>> {
        let entry = self.log.entry(slot.location, guard)?;
        (!slot.unverified || self.log.holds(slot.location, &entry)).then_some(entry)
    }

    fn mark_verified(&self, digest: &Digest, location: Location) {
        let mut partition = self.index.lock(digest);
        if let Some(at) = partition.find(digest.tag(), |slot| slot.location == location) {
            let slot = partition.get(at);
            partition.replace(
                at,
                Slot {
                    unverified: false,
                    ..slot
                },
            );
        }
    }

    pub(crate) fn slots_of(&self, partition: usize) -> Vec<(u32, Slot)> {
        self.index.lock_partition(partition).iter().collect()
    }

    /// Waits until what was just published is as durable as the namespace promises.
    pub(crate) fn settle(&self) -> Result<()> {
        if self.options.durability != Durability::Commit {
            return Ok(());
        }
        self.log.sync().map_err(|error| match error {
            Error::ReadOnly { reason, .. } => Error::InDoubt { reason },
            other => other,
        })
    }

    /// Writes the metadata entries anew. Their predecessors live until the new ones are there.
    pub(crate) fn store_metadata(&self, metadata: &[u8]) -> Result<()> {
        let mut current = self.metadata.lock();
        // Like every writer: emptied blocks are not given back while one is under way (see `Groups`).
        let _guard = epoch::pin();
        self.check_open()?;
        self.log.check_writable(Purpose::Delete)?;
        let header = Header {
            kind: Kind::Metadata,
            ..blank_header()
        };
        let mut copies = Vec::with_capacity(METADATA_COPIES);
        for _ in 0..METADATA_COPIES {
            match self.log.append(Purpose::Delete, header, &[metadata]) {
                Ok(copy) => copies.push(copy),
                Err(error) => {
                    copies.iter().for_each(|copy| self.log.abandon(copy));
                    return Err(error);
                }
            }
        }
        for old in std::mem::replace(&mut *current, copies) {
            self.log.release(old.location, old.units);
        }
        Ok(())
    }

    /// Takes an entry out of the counts and hands its slot to the log. `superseded`: what the index no longer holds.
    pub(crate) fn retire(&self, superseded: &Slot, guard: &Guard) {
        if !superseded.tombstone {
            self.sets
                .count(superseded.set_id, -1, -i64::from(superseded.size_units));
        }
        self.retire_uncounted(superseded, guard);
    }

    /// The same, for who has counted already.
    pub(crate) fn retire_uncounted(&self, superseded: &Slot, guard: &Guard) {
        let entry = self.believed_entry(superseded, guard);
        if let Some(entry) = entry.filter(|entry| entry.flags() & FLAG_GROUPED != 0) {
            self.leave_group(&entry);
        }
        self.log
            .retire(superseded.location, superseded.size_units, entry, guard);
    }

    /// A member of a group is superseded; with the last one the commit entry goes, too.
    pub(crate) fn leave_group(&self, entry: &EntryView<'_>) {
        let Some(group) = entry.group() else { return };
        if let Some(commit) = self.groups.lock().leave(group) {
            self.log.release(commit.location, commit.units);
        }
    }

    /// Takes what is truncated out of the index. Returns how many records that were.
    pub(crate) fn remove_all_truncated(&self) -> u64 {
        if !self.sets.any_truncated() {
            return 0;
        }
        (0..PARTITIONS)
            .map(|partition| self.remove_truncated(partition))
            .sum()
    }

    fn remove_truncated(&self, partition: usize) -> u64 {
        let guard = epoch::pin();
        let mut removed = Vec::new();
        self.index.lock_partition(partition).update_each(|_, slot| {
            // The header alone decides: a record whose body is damaged is truncated like any other.
            let entry = self.log.entry(slot.location, &guard);
            let hidden = entry.is_some_and(|entry| {
                !slot.tombstone
                    && (!slot.unverified
                        || self.log.checked_header(slot.location, &entry).is_some())
                    && self.sets.hides(slot.set_id, entry.last_update_ms())
            });
            if hidden {
                removed.push(*slot);
            }
            !hidden
        });
        for slot in &removed {
            self.retire(slot, &guard);
        }
        removed.len() as u64
    }
}

/// The header of a record about which nothing is known yet: sequence number and sizes are filled in by the log.
pub(crate) fn blank_header() -> Header {
    Header {
        kind: Kind::Record,
        ..filler()
    }
}
