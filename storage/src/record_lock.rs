//! A locked record: its present version, and writing another one.
//!
//! - `acquire.rs`: locking a record
//! - `space_wait.rs`: waiting for space with records locked
//! - `group.rs`: changes of several records at once
//! - `delta.rs`: writing what an edit changes
//! - `fold.rs`: writing a record with a chain of deltas whole

mod acquire;
mod delta;
mod fold;
mod group;
pub(crate) mod space_wait;
#[cfg(all(test, not(shuttle)))]
mod tests;

use crate::core::Core;
use crate::digest::Digest;
use crate::entry::Appended;
use crate::entry::{
    EntryHeader, EntryKind, EntryView, FLAG_CHANGED_SET, FLAG_EXPIRED, Lsn, NewEntry, blank_header,
};
use crate::epoch::Guard;
use crate::error::{Error, Result};
use crate::index::{IndexSlot, PartitionGuard, TablePosition};
use crate::log::chain::DELTA_RECORD_BYTES_MIN;
use crate::log::space::SpacePurpose;
use crate::log::truncation::KnownTruncations;
use crate::log::volume::HeldEntry;
pub(crate) use group::AHEAD;
pub use group::GroupMember;
use std::cell::{Cell, OnceCell};
use std::time::{Duration, Instant};

/// A new version of a record.
///
/// A version never goes back in time: its last-update time is at least that of the version before,
/// deleted ones included.
#[derive(Clone, Copy, Debug)]
pub struct NewVersion<'a> {
    /// The generation, 1 to 65,535.
    pub generation: u16,
    /// When it expires, in seconds since 2010-01-01 UTC; 0 = never.
    pub void_time: u32,
    /// When it was made, in milliseconds since 2010-01-01 UTC (40 bits).
    pub last_update_ms: u64,
    /// The number of its set, from [`crate::Namespace::create_set`]; 0 = none.
    pub set_id: u16,
    /// The user key, if it is to be kept.
    pub key: Option<&'a [u8]>,
    /// What to store.
    pub payload: &'a [u8],
}

impl NewVersion<'_> {
    /// The header of this version of a record, written whole.
    #[inline(always)]
    pub(crate) const fn header(&self, digest: &Digest) -> EntryHeader {
        EntryHeader {
            generation: self.generation,
            last_update_ms: self.last_update_ms,
            void_time: self.void_time,
            set_id: self.set_id,
            digest: *digest,
            ..blank_header()
        }
    }
}

/// What to do with one record of a group.
#[derive(Clone, Copy, Debug)]
pub enum Change<'a> {
    /// Put this version.
    Put(NewVersion<'a>),
    /// Delete the record, at this time (ms since 2010).
    Delete(u64),
}

impl Change<'_> {
    /// Deletes go on when writes are stopped.
    pub(crate) const fn purpose(&self) -> SpacePurpose {
        match self {
            Self::Put(_) => SpacePurpose::Write,
            Self::Delete(_) => SpacePurpose::Delete,
        }
    }
}

/// How long a caller waits, for a lock and for space together.
#[derive(Clone, Copy, Debug)]
pub(crate) enum WaitLimit {
    Never,
    /// In nanoseconds from the moment on at which it begins to wait.
    After(u64),
    At(Instant),
}

impl WaitLimit {
    /// Up to 584 years.
    #[inline]
    pub(crate) fn after(timeout: Duration) -> Self {
        let whole = timeout.as_secs().saturating_mul(1_000_000_000);
        Self::After(whole.saturating_add(timeout.subsec_nanos().into()))
    }

    /// The moment at which a wait that begins now ends. There is no moment beyond the clock's
    /// range.
    fn ends(self) -> Option<Instant> {
        match self {
            Self::Never => None,
            Self::After(nanos) => Instant::now().checked_add(Duration::from_nanos(nanos)),
            Self::At(ends) => Some(ends),
        }
    }
}

/// A record that no other thread can write. Dropping it unlocks the record and changes nothing.
#[derive(Debug)]
pub struct RecordLock<'n> {
    pub(crate) core: &'n Core,
    digest: Digest,
    /// The record, once it was looked at. Before the guard, which keeps it where it is.
    entry: OnceCell<HeldEntry<'static>>,
    pub(crate) guard: Guard,
    /// What the index held when the lock was granted. Only defragmentation can move it meanwhile.
    pub(crate) seen: Option<IndexSlot>,
    /// Where in the partition that was, if it was noted: a hint.
    position: TablePosition,
    hold: Hold,
    /// How many writers held the lock or waited for it when the owner came for it.
    queued_behind: u16,
    /// How long the owner waits from here on, for space too.
    pub(crate) limit: WaitLimit,
    /// The record had an image, or none was needed, when it was locked.
    had_image: bool,
    truncations: SeenTruncations,
}

/// Until when a record is locked.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Hold {
    /// It is not locked any more, or was borrowed from the owner of its lock.
    Released,
    /// Until its change is published.
    Change,
    /// Until the lock is dropped.
    Kept,
    /// As above; the change is the deletion of an expired record.
    Expiry,
}

impl Hold {
    /// Whether the lock outlives a change that is published.
    const fn is_kept(self) -> bool {
        matches!(self, Self::Kept | Self::Expiry)
    }
}

/// The truncations of which the owner of a lock knows, and, in the lowest bit, which is free,
/// whether the record was there when the owner looked at it.
#[derive(Clone, Debug)]
struct SeenTruncations(Cell<u32>);

impl SeenTruncations {
    fn known(&self) -> KnownTruncations {
        KnownTruncations(self.0.get() & !1)
    }

    fn has_shown_record(&self) -> bool {
        self.0.get() & 1 != 0
    }

    #[inline]
    fn show_record(&self) {
        self.0.set(self.0.get() | 1);
    }

    fn learn(&self, known: KnownTruncations) {
        self.0.set(known.0 | self.0.get() & 1);
    }
}

// A lock is moved by value; up to this size no call is needed for that.
#[cfg(not(shuttle))]
const _: () = assert!(size_of::<RecordLock<'_>>() <= 128);

impl<'n> RecordLock<'n> {
    /// Returns the digest of the record.
    #[must_use]
    pub fn digest(&self) -> &Digest {
        &self.digest
    }

    /// Returns how many writers held the lock or waited for it when the owner of this one came; 0:
    /// it was free.
    #[must_use]
    pub const fn queued_behind(&self) -> usize {
        self.queued_behind as usize
    }

    /// Has the first lines of the record's entry fetched, for a look at it a little later.
    #[inline]
    pub fn prefetch(&self) {
        if let Some(slot) = self.seen {
            self.core.log.prefetch_start(slot.location);
        }
    }

    /// The record as it is. None: it does not exist, was deleted or truncated. It may have expired.
    ///
    /// # Errors
    /// [`Error::Damaged`] if the stored bytes do not match their checksum. It can be deleted or
    /// overwritten all the same.
    pub fn entry(&self) -> Result<Option<EntryView<'_>>> {
        let Some(slot) = self.seen else {
            return self.core.absent();
        };
        if slot.tombstone {
            return Ok(None);
        }
        let entry = match self.entry.get() {
            Some(entry) => entry.view(),
            None => self.checked_entry(&slot)?,
        };
        let entry = self.core.current(entry)?;
        let is_there = !self.core.hides(&entry);
        if is_there {
            self.truncations.show_record();
        }
        Ok(is_there.then_some(entry))
    }

    /// The entry of the slot that was seen, if it was looked at since.
    pub(crate) fn kept_entry(&self) -> Option<EntryView<'_>> {
        self.entry.get().map(HeldEntry::view)
    }

    /// The entry of the slot that was seen, checked unless it was before, and kept from here on.
    #[inline(never)]
    fn checked_entry(&self, slot: &IndexSlot) -> Result<EntryView<'_>> {
        let entry = self.core.checked_entry(slot, &self.guard)?;
        // SAFETY: the lock's guard lives as long as the lock, and is dropped after the entry; where
        // it is let go in between, the entry is dropped first.
        let own = unsafe { entry.kept() };
        Ok(self.entry.get_or_init(|| own).view())
    }

    /// Puts a new version in the record's place and unlocks it. Returns its number when it is as
    /// durable as the namespace promises.
    ///
    /// # Errors
    /// Nothing was changed, except for [`Error::InDoubt`]: the version is in place, but its sync
    /// failed; or the device refused it, and the next opening shows whether it is there.
    #[inline]
    pub fn put(mut self, version: &NewVersion<'_>) -> Result<Lsn> {
        let core = self.core;
        // Only a deletion may have nothing to write.
        let lsn = self.apply(&Change::Put(*version))?;
        debug_assert!(lsn.is_some(), "a put has a number");
        let lsn = lsn.unwrap_or_default();
        // A wait keeps no memory from being used again.
        drop(self);
        core.acknowledge(lsn)?;
        Ok(lsn)
    }

    /// Puts a new version in the record's place, or deletes the record, and unlocks it, without
    /// waiting until that is durable. Returns the number of the write, for
    /// [`crate::Namespace::wait_durable`] and [`crate::Namespace::durable`]; `None` if there was
    /// nothing to delete.
    ///
    /// A power failure may cost the change until it is durable; readers and writers see it at once,
    /// and what they write in the meantime has higher numbers, so it never outlives the change.
    ///
    /// # Errors
    /// As for [`RecordLock::put`] and [`RecordLock::delete`], and [`Error::BadOption`] for a second
    /// change by one lock. Readers see no change.
    #[inline]
    pub fn apply(&mut self, change: &Change<'_>) -> Result<Option<Lsn>> {
        // Borrowed and not moved: a lock is large.
        if self.hold == Hold::Released {
            let rule = "one change by one lock: lock the record again";
            return Err(bad_option("lock", &self.digest, rule));
        }
        let applied = self.write(change);
        if !matches!(applied, Ok(Some(_))) && !self.hold.is_kept() {
            self.unlock();
        }
        applied
    }

    /// Does as [`RecordLock::apply`] does, and calls `done` with whether anything was changed
    /// before the record is unlocked: for work that has to follow the record's versions one by one.
    ///
    /// # Errors
    /// As for [`RecordLock::apply`].
    pub fn apply_then(
        &mut self,
        change: &Change<'_>,
        done: impl FnOnce(bool),
    ) -> Result<Option<Lsn>> {
        self.hold = Hold::Kept;
        let applied = self.apply(change);
        done(matches!(applied, Ok(Some(_))));
        self.unlock();
        applied
    }

    /// Appends a change and publishes it, without waiting for space. `None`: there is nothing to
    /// delete.
    fn try_write(&mut self, change: &Change<'_>) -> Result<Option<Lsn>> {
        self.core.check_open()?;
        self.core.log.check_writable(change.purpose())?;
        match change {
            Change::Put(version) => {
                if version.payload.len() >= DELTA_RECORD_BYTES_MIN
                    && let Some(lsn) = self.put_delta(version)?
                {
                    return Ok(Some(lsn));
                }
                self.check_set(change)?;
            }
            Change::Delete(_) if self.seen.is_none_or(|slot| slot.tombstone) => return Ok(None),
            Change::Delete(_) => {}
        }
        let entry = self.entry_of(change);
        let log = &self.core.log;
        let known = match change {
            Change::Put(_) => self.truncations.known(),
            Change::Delete(_) => KnownTruncations::default(),
        };
        let appended = log.append_since(known, change.purpose(), entry)?;
        self.publish(change, &appended);
        Ok(Some(appended.lsn))
    }

    /// Deletes the record: a tombstone takes its place until no older version is left on any
    /// device. Returns the number of the deletion when it is as durable as the namespace promises;
    /// `None` if there was nothing. `now_ms`: ms since 2010.
    ///
    /// # Errors
    /// As for [`RecordLock::put`]; deleting goes on when writes are stopped.
    pub fn delete(mut self, now_ms: u64) -> Result<Option<Lsn>> {
        let core = self.core;
        let lsn = self.apply(&Change::Delete(now_ms))?;
        drop(self);
        lsn.map_or(Ok(()), |lsn| core.acknowledge(lsn))?;
        Ok(lsn)
    }

    /// Deletes without waiting for durability: for the expiry pass. Then shows the record, unless it
    /// is damaged, to `done`, before it is unlocked.
    pub(crate) fn bury(mut self, now_ms: u64, done: impl FnOnce(&EntryView<'_>)) -> Result<()> {
        self.hold = Hold::Expiry;
        let can_be_shown = matches!(self.entry(), Ok(Some(_)));
        self.apply(&Change::Delete(now_ms))?;
        if let Some(entry) = self.kept_entry().filter(|_| can_be_shown) {
            done(&entry);
        }
        Ok(())
    }

    /// The void-time of a live record, in seconds since 2010; 0 = never.
    pub(crate) fn void_time(&self) -> Option<u32> {
        self.seen
            .filter(|slot| !slot.tombstone)
            .map(|slot| slot.void_time)
    }

    /// When the version before was made, deleted ones included, in milliseconds since 2010; 0:
    /// there was none. The next version gets no earlier time.
    #[must_use]
    pub fn last_update_ms(&self) -> u64 {
        self.last_update().0
    }

    /// When the version before was made, deleted ones included, and its flags. A record never goes
    /// back in time: a truncation by time hides the older versions with the newest one.
    #[inline]
    fn last_update(&self) -> (u64, u8) {
        if let Some(entry @ (HeldEntry::Lent(_) | HeldEntry::Copied(_))) = self.entry.get() {
            let entry = entry.view();
            return (entry.last_update_ms(), entry.flags());
        }
        let header = self
            .seen
            .and_then(|slot| self.core.believed_header(&slot, &self.guard));
        header.unwrap_or_default()
    }

    /// Whether a version is larger than the one before, or that cannot be read.
    fn makes_larger(&self, version: &NewVersion<'_>) -> bool {
        let Ok(Some(before)) = self.entry() else {
            return true;
        };
        let length = |key: Option<&[u8]>| key.map_or(0, <[u8]>::len);
        let (key, payload) = before.key_and_payload();
        version.payload.len() > payload.len() || length(version.key) > length(key)
    }

    #[inline]
    fn check_set(&self, change: &Change<'_>) -> Result<()> {
        match change {
            Change::Put(version) if version.set_id > self.core.sets.last_number() => {
                let rule = "0, or a number that create_set of this namespace has returned";
                Err(bad_option("set_id", &version.set_id, rule))
            }
            _ => Ok(()),
        }
    }

    /// Returns the entry that a change writes: the whole record, or a tombstone.
    #[inline(always)]
    fn entry_of<'a>(&'a self, change: &Change<'a>) -> NewEntry<'a> {
        let (least_ms, seen_flags) = self.last_update();
        // Older versions may be of other sets than the one before.
        let inherited = seen_flags & FLAG_CHANGED_SET;
        match change {
            Change::Delete(now_ms) => {
                let set_id = self.seen.map_or(0, |slot| slot.set_id);
                // Followers of the set are given the key.
                let is_fed = self.core.sets.is_fed(set_id);
                let deleted = is_fed.then(|| self.entry().ok().flatten()).flatten();
                let key = deleted.and_then(|entry| entry.key());
                let expired = match self.hold {
                    Hold::Expiry => FLAG_EXPIRED,
                    _ => 0,
                };
                NewEntry::new(
                    EntryHeader {
                        kind: EntryKind::Tombstone,
                        flags: inherited | expired,
                        last_update_ms: least_ms.max(*now_ms),
                        set_id,
                        digest: self.digest,
                        ..blank_header()
                    },
                    key,
                    &[],
                )
            }
            Change::Put(version) => {
                let moves = self.seen.is_some_and(|slot| slot.set_id != version.set_id);
                NewEntry::new(
                    EntryHeader {
                        flags: inherited | if moves { FLAG_CHANGED_SET } else { 0 },
                        last_update_ms: least_ms.max(version.last_update_ms),
                        ..version.header(&self.digest)
                    },
                    version.key,
                    version.payload,
                )
            }
        }
    }

    /// Makes an appended entry the record, unlocks it, and retires the version before.
    fn publish(&mut self, change: &Change<'_>, appended: &Appended) {
        let core = self.core;
        let (tombstone, void_time, set_id) = match change {
            Change::Delete(_) => (true, 0, self.seen.map_or(0, |slot| slot.set_id)),
            Change::Put(new) => (false, new.void_time, new.set_id),
        };
        let slot = IndexSlot {
            location: appended.location,
            unverified: false,
            size_units: appended.units,
            void_time,
            tombstone,
            set_id,
        };
        let tag = self.digest.tag();
        let mut partition = core.index.lock(&self.digest);
        // Looked at under the partition's lock: a truncation that begins later comes by and finds
        // the record.
        let hidden = match change {
            Change::Delete(_) => false,
            Change::Put(new) => {
                let hides = |time| core.sets.hides(set_id, appended.lsn, time);
                // The entry has the time of the version before, if that is later.
                hides(new.last_update_ms) && hides(new.last_update_ms.max(self.last_update().0))
            }
        };
        let at = self.seen.and_then(|seen| {
            partition
                .find_near(self.position, tag, seen.location)
                // Moved by defragmentation, or gone by a truncation.
                .or_else(|| partition.find(tag, |slot| core.is_of(slot, &self.digest, &self.guard)))
        });
        let superseded = match at {
            // A truncation came between: it is as if the write had come before it.
            _ if hidden => None,
            Some(at) => {
                let old = partition.get(at);
                partition.replace(at, slot);
                Some(old)
            }
            None => {
                partition.insert(tag, slot);
                None
            }
        };
        self.release(partition);
        if hidden {
            // The entry stays in the log; the truncation hides it.
            core.retire_uncounted(&slot, &self.guard);
            return;
        }
        if !tombstone {
            let units = i64::from(slot.size_units);
            match superseded.filter(|old| !old.tombstone && old.set_id == set_id) {
                // The common case touches no shared counter: same set, same size.
                Some(old) => {
                    core.sets
                        .count(set_id, 0, units - i64::from(old.size_units));
                    core.retire_uncounted(&old, &self.guard);
                    return;
                }
                None => core.sets.count(set_id, 1, units),
            }
        }
        if let Some(old) = superseded {
            core.retire(&old, &self.guard);
        }
    }

    /// Unlocks the record, unless the lock is to outlive the change. The partition is locked.
    #[inline(always)]
    fn release(&mut self, mut partition: PartitionGuard<'_>) {
        let next = if self.hold.is_kept() {
            None
        } else {
            self.hold = Hold::Released;
            partition.held().release(&self.digest)
        };
        self.core.hand_over(partition, next);
    }

    #[inline]
    fn unlock(&mut self) {
        if self.hold != Hold::Released {
            self.hold = Hold::Change;
            let core = self.core;
            self.release(core.index.lock(&self.digest));
        }
    }
}

#[cold]
fn bad_option(option: &'static str, value: &dyn ToString, rule: &'static str) -> Error {
    let value = value.to_string();
    Error::BadOption {
        option,
        value,
        rule,
    }
}

impl Drop for RecordLock<'_> {
    fn drop(&mut self) {
        self.unlock();
    }
}
