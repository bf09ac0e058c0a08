//! A locked record: what it is now, and putting something else in its place.
//!
//! - `acquire.rs`: locking a record
//! - `space_wait.rs`: waiting for space with records locked
//! - `group.rs`: changes of several records at once
//! - `fold.rs`: writing a record with a chain of deltas whole

mod acquire;
mod fold;
mod group;
pub(crate) mod space_wait;

use crate::bytes::Varint;
use crate::core::Core;
use crate::digest::Digest;
use crate::epoch::Guard;
use crate::error::{Error, Result};
use crate::image::delta::{Splice, diff, edit, encode};
use crate::image::{Content, Image, Images, Part};
use crate::index::{PartitionGuard, Slot};
use crate::location::Location;
use crate::log::chain::{DELTA_RECORD_BYTES_MIN, DELTA_SHARE, image_header, should_fold};
use crate::log::entry::Appended;
use crate::log::entry::{
    EntryView, FLAG_CHANGED_SET, FLAG_GROUPED, FLAG_KEYED, Header, Kind, Lsn, blank_header,
};
use crate::log::space::Purpose;
use crate::log::volume::OwnedEntry;
use crate::sync::atomic::Ordering;
use std::cell::OnceCell;

/// A new version of a record.
///
/// A version never goes back in time: its last-update time is at least that of the version before, deleted ones included.
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

/// An edit that is worth a delta.
struct EditedRecord {
    delta: Vec<u8>,
    header: Header,
    /// Changes of the payload.
    splices: Vec<Splice>,
}

/// What to do with one record of a group.
#[derive(Clone, Copy, Debug)]
pub enum Change<'a> {
    /// Put this version.
    Put(NewVersion<'a>),
    /// Delete the record, at this time (ms since 2010).
    Delete(u64),
}

/// A record that nobody else can write. Dropping it unlocks the record and changes nothing.
#[derive(Debug)]
pub struct RecordLock<'n> {
    pub(crate) core: &'n Core,
    digest: Digest,
    /// The record, once it was looked at. Before the guard, which keeps it where it is.
    entry: OnceCell<OwnedEntry>,
    pub(crate) guard: Guard,
    /// What the index held when the lock was granted. Only defragmentation can move it meanwhile.
    pub(crate) seen: Option<Slot>,
    held: bool,
    /// Whether the lock outlives a change that is published.
    keeps: bool,
    /// How many writers held the lock or waited for it when the owner came for it.
    queued_behind: usize,
    /// The record had an image, or none was needed, when it was locked.
    had_image: bool,
}

impl<'n> RecordLock<'n> {
    /// Returns the digest of the record.
    #[must_use]
    pub fn digest(&self) -> &Digest {
        &self.digest
    }

    /// Returns how many writers held the lock or waited for it when the owner of this one came; 0: it was free.
    #[must_use]
    pub const fn queued_behind(&self) -> usize {
        self.queued_behind
    }

    /// The record as it is. None: it does not exist, was deleted or truncated. It may have expired.
    ///
    /// # Errors
    /// [`Error::Damaged`] if the stored bytes do not match their checksum. It can be deleted or overwritten all the same.
    pub fn entry(&self) -> Result<Option<EntryView<'_>>> {
        let Some(slot) = self.seen else {
            return self.core.absent();
        };
        if slot.tombstone {
            return Ok(None);
        }
        let entry = match self.entry.get() {
            Some(entry) => entry.view(),
            None => match self.checked_entry(&slot)? {
                Some(entry) => entry,
                None => return Ok(None),
            },
        };
        let entry = self.core.current(entry)?;
        Ok((!self.core.hides(&entry)).then_some(entry))
    }

    /// The entry of the slot that was seen, checked if nobody has done so yet, and kept from here on.
    #[inline(never)]
    fn checked_entry(&self, slot: &Slot) -> Result<Option<EntryView<'_>>> {
        let core = self.core;
        let checked = core.checked_entry(slot.location, slot.unverified, &self.guard)?;
        Ok(checked.map(|entry| {
            // SAFETY: the lock's guard lives as long as the lock, and is dropped after the entry; where it is let go in
            // between, the entry is dropped first.
            let own = unsafe { entry.kept() };
            self.entry.get_or_init(|| own).view()
        }))
    }

    /// Puts a new version in the record's place and unlocks it. Returns its number when it is as durable as the namespace
    /// promises.
    ///
    /// # Errors
    /// Nothing was changed, except for [`Error::InDoubt`]: the version is in place, but its sync failed.
    #[inline]
    pub fn put(mut self, version: &NewVersion<'_>) -> Result<Lsn> {
        let core = self.core;
        let lsn = self.apply_put(version)?;
        drop(self);
        core.settle(lsn)?;
        Ok(lsn)
    }

    /// Puts a new version in the record's place, or deletes the record, and unlocks it, without waiting until that is
    /// durable. Returns the number of the write, for [`crate::Namespace::wait_durable`] and [`crate::Namespace::durable`];
    /// `None` if there was nothing to delete.
    ///
    /// A power failure may cost the change until it is durable; readers and writers see it at once, and what they write in
    /// the meantime has higher numbers, so it never outlives the change.
    ///
    /// # Errors
    /// As for [`RecordLock::put`] and [`RecordLock::delete`]. Nothing was changed.
    #[inline]
    pub fn apply(mut self, change: &Change<'_>) -> Result<Option<Lsn>> {
        self.apply_change(change)
    }

    /// Does as [`RecordLock::apply`] does, and calls `done` with whether anything was changed before the record is unlocked:
    /// for what has to follow the record's versions one by one.
    ///
    /// # Errors
    /// As for [`RecordLock::apply`].
    pub fn apply_then(
        mut self,
        change: &Change<'_>,
        done: impl FnOnce(bool),
    ) -> Result<Option<Lsn>> {
        self.keeps = true;
        let applied = self.apply_change(change);
        done(matches!(applied, Ok(Some(_))));
        applied
    }

    fn apply_change(&mut self, change: &Change<'_>) -> Result<Option<Lsn>> {
        match change {
            Change::Put(version) => self.apply_put(version).map(Some),
            Change::Delete(now_ms) => self.apply_delete(*now_ms),
        }
    }

    fn try_put(&mut self, version: &NewVersion<'_>) -> Result<Lsn> {
        self.core.check_open()?;
        self.core.log.check_writable(Purpose::Write)?;
        let is_small = version.payload.len() < DELTA_RECORD_BYTES_MIN;
        if !is_small
            && self.core.log.images().are_wanted()
            && let Some(lsn) = self.put_delta(version)?
        {
            return Ok(lsn);
        }
        let change = Change::Put(*version);
        let appended = self.append(&change, None)?;
        self.publish(&change, &appended);
        Ok(appended.lsn)
    }

    /// Deletes the record: a tombstone takes its place until no older version is left on any device. Returns the number of
    /// the deletion when it is as durable as the namespace promises; `None` if there was nothing. `now_ms`: ms since 2010.
    ///
    /// # Errors
    /// As for [`RecordLock::put`]; deleting goes on when writes are stopped.
    pub fn delete(mut self, now_ms: u64) -> Result<Option<Lsn>> {
        let core = self.core;
        let lsn = self.apply_delete(now_ms)?;
        drop(self);
        lsn.map_or(Ok(()), |lsn| core.settle(lsn))?;
        Ok(lsn)
    }

    fn apply_delete(&mut self, now_ms: u64) -> Result<Option<Lsn>> {
        self.core.check_open()?;
        self.core.log.check_writable(Purpose::Delete)?;
        if self.seen.is_none_or(|slot| slot.tombstone) {
            return Ok(None);
        }
        let appended = self.append(&Change::Delete(now_ms), None)?;
        self.publish(&Change::Delete(now_ms), &appended);
        Ok(Some(appended.lsn))
    }

    /// Deletes without waiting for durability: for the expiry pass.
    pub(crate) fn bury(mut self, now_ms: u64) -> Result<()> {
        let change = Change::Delete(now_ms);
        let appended = self.append(&change, None)?;
        self.publish(&change, &appended);
        Ok(())
    }

    /// The void-time of a live record, in seconds since 2010; 0 = never.
    pub(crate) fn void_time(&self) -> Option<u32> {
        self.seen
            .filter(|slot| !slot.tombstone)
            .map(|slot| slot.void_time)
    }

    /// When the version before was made, deleted ones included, and its flags. A record never goes back in time: a
    /// truncation by time hides the older versions with the newest one.
    fn last_update(&self) -> (u64, u8) {
        if let Some(OwnedEntry::Lent(_) | OwnedEntry::Copied(_)) = self.entry.get()
            && let Some(entry) = self.entry.get().map(OwnedEntry::view)
        {
            return (entry.last_update_ms(), entry.flags());
        }
        let header = self
            .seen
            .and_then(|slot| self.core.believed_header(&slot, &self.guard));
        header.unwrap_or_default()
    }

    /// Appends without publishing.
    fn append(&self, change: &Change<'_>, group: Option<u64>) -> Result<Appended> {
        let number = group.unwrap_or_default().to_le_bytes();
        let (mut flags, number): (u8, &[u8]) = match group {
            Some(_) => (FLAG_GROUPED, &number),
            None => (0, &[]),
        };
        let (least_ms, seen_flags) = self.last_update();
        let header = Header {
            digest: self.digest,
            ..blank_header()
        };
        match change {
            Change::Delete(now_ms) => {
                let header = Header {
                    kind: Kind::Tombstone,
                    // Older versions may be of other sets than this one, which is that of the version deleted.
                    flags: flags | (seen_flags & FLAG_CHANGED_SET),
                    last_update_ms: least_ms.max(*now_ms),
                    set_id: self.seen.map_or(0, |slot| slot.set_id),
                    ..header
                };
                self.core
                    .log
                    .append(Purpose::Delete, header, &[number], None)
            }
            Change::Put(version) => {
                if version.set_id > self.core.sets.last_number() {
                    return Err(no_such_set(version.set_id));
                }
                let key = version.key.unwrap_or_default();
                let length = Varint::new(key.len());
                let length = match version.key {
                    Some(_) => length.bytes(),
                    None => &[],
                };
                flags |= if version.key.is_some() { FLAG_KEYED } else { 0 };
                if self.seen.is_some_and(|slot| slot.set_id != version.set_id) {
                    flags |= FLAG_CHANGED_SET;
                }
                flags |= seen_flags & FLAG_CHANGED_SET;
                let header = Header {
                    flags,
                    generation: version.generation,
                    last_update_ms: least_ms.max(version.last_update_ms),
                    void_time: version.void_time,
                    set_id: version.set_id,
                    ..header
                };
                let parts = [number, length, key, version.payload];
                let (_, without_group) = parts.split_at(1);
                let parts = match group {
                    Some(_) => &parts,
                    None => without_group,
                };
                self.core.log.append(Purpose::Write, header, parts, None)
            }
        }
    }

    /// Puts a version by what it changes in the one before. None: it is to be written whole.
    #[inline(never)]
    fn put_delta(&mut self, version: &NewVersion<'_>) -> Result<Option<Lsn>> {
        let core = self.core;
        let Some(EditedRecord {
            delta,
            mut header,
            splices,
        }) = self.edited(version)
        else {
            return Ok(None);
        };
        core.any_deltas.store(true, Ordering::Relaxed);
        let appended = core.log.append(Purpose::Write, header, &[&delta], None)?;
        header.lsn = appended.lsn;
        core.evict(&self.guard);
        // The image is edited where it is, if nobody else looks at it: this lock no longer does.
        self.entry = OnceCell::new();
        let mut partition = core.index.lock(&self.digest);
        let hidden = core
            .sets
            .hides(header.set_id, appended.lsn, header.last_update_ms);
        // Nobody moves a record that is locked, but its image may have been evicted.
        let at = partition.find(self.digest.tag(), |slot| {
            core.is_of(slot, &self.digest, &self.guard)
        });
        let old = at.filter(|_| !hidden).map(|at| {
            let old = partition.get(at);
            let slot = Slot {
                location: self.extend_image(&old, version, &header, &splices, &appended),
                unverified: false,
                size_units: old.size_units + appended.units,
                void_time: version.void_time,
                ..old
            };
            partition.replace(at, slot);
            (old, slot)
        });
        self.release(partition);
        let Some((old, slot)) = old else {
            // A truncation came between, and has retired the chain: it is as if the write had come before it.
            core.log.release(appended.location, appended.units);
            return Ok(Some(appended.lsn));
        };
        core.sets.count(slot.set_id, 0, i64::from(appended.units));
        if let Some(number) = Images::number_of(old.location)
            && old.location != slot.location
        {
            core.log.images().remove(number, &self.guard);
        }
        Ok(Some(appended.lsn))
    }

    /// Adds an appended delta to the record's image, or makes an image. Returns the location that stands for the record then.
    /// The caller has the partition locked.
    fn extend_image(
        &self,
        old: &Slot,
        version: &NewVersion<'_>,
        header: &Header,
        splices: &[Splice],
        appended: &Appended,
    ) -> Location {
        let images = self.core.log.images();
        let part = Part {
            location: appended.location,
            units: appended.units,
        };
        let prefix_bytes = prefix_bytes(version.key);
        let body_bytes = prefix_bytes + version.payload.len();
        let number = Images::number_of(old.location);
        let image = number.and_then(|number| images.get(number, &self.guard));
        let is_edited = image.is_some_and(|image| {
            image.edit(|content| {
                let before = content.memory_bytes();
                let mut payload = splices.to_vec();
                payload
                    .iter_mut()
                    .for_each(|splice| splice.at += prefix_bytes);
                edit(&mut content.body, &payload, version.payload);
                content.raw = image_header(*header, body_bytes);
                content.push(part);
                images.count_edit(before, content.memory_bytes());
            })
        });
        if is_edited {
            return old.location;
        }
        let mut parts = self.core.parts_of_slot(old, &self.guard);
        if parts.is_empty() {
            return appended.location;
        }
        parts.push(part);
        let mut body = Vec::with_capacity(body_bytes);
        if let Some(key) = version.key {
            body.extend_from_slice(Varint::new(key.len()).bytes());
            body.extend_from_slice(key);
        }
        body.extend_from_slice(version.payload);
        let raw = image_header(*header, body.len());
        let number = images.insert(Image::new(Content::new(raw, body, parts)));
        number.map_or(appended.location, Images::location_of)
    }

    /// What an edit writes, if it is worth a delta.
    fn edited(&self, version: &NewVersion<'_>) -> Option<EditedRecord> {
        let seen = self.seen.filter(|slot| slot.set_id == version.set_id)?;
        let old = self.entry().ok().flatten()?;
        // A member of a group may still be undone.
        if old.flags() & FLAG_GROUPED != 0 || old.key() != version.key {
            return None;
        }
        let held = self.entry.get();
        let newest = match (Images::number_of(seen.location), held) {
            (Some(_), Some(OwnedEntry::Held(image))) => {
                let content = image.content();
                let parts = &content.parts;
                (!should_fold(content, self.had_image))
                    .then(|| (parts.len(), parts.last().map(|part| part.location)))?
            }
            // A chain whose image could not be kept, or is in use by an edit: that is for this lock's owner alone.
            (Some(_), _) | (None, Some(OwnedEntry::Built(_))) => return None,
            (None, _) => (1, Some(seen.location)),
        };
        let (count, location) = newest;
        let body_bytes = prefix_bytes(version.key) + version.payload.len();
        let splices = diff(old.payload(), version.payload, body_bytes / DELTA_SHARE)?;
        let before = (location?, old.lsn());
        let prefix = prefix_bytes(version.key);
        let delta = encode(before, count, prefix, &splices, version.payload);
        let keyed = if version.key.is_some() { FLAG_KEYED } else { 0 };
        let header = Header {
            kind: Kind::Delta,
            flags: keyed | (old.flags() & FLAG_CHANGED_SET),
            generation: version.generation,
            last_update_ms: old.last_update_ms().max(version.last_update_ms),
            void_time: version.void_time,
            set_id: version.set_id,
            digest: self.digest,
            ..blank_header()
        };
        Some(EditedRecord {
            delta,
            header,
            splices,
        })
    }

    /// Makes an appended entry the record, unlocks it, and retires what was there.
    fn publish(&mut self, change: &Change<'_>, appended: &Appended) {
        let core = self.core;
        let (tombstone, void_time, set_id) = match change {
            Change::Delete(_) => (true, 0, self.seen.map_or(0, |slot| slot.set_id)),
            Change::Put(new) => (false, new.void_time, new.set_id),
        };
        let slot = Slot {
            location: appended.location,
            unverified: false,
            size_units: appended.units,
            void_time,
            tombstone,
            set_id,
        };
        let tag = self.digest.tag();
        let mut partition = core.index.lock(&self.digest);
        // Looked at under the partition's lock: a truncation that begins later comes by and finds the record.
        let hidden = match change {
            Change::Delete(_) => false,
            Change::Put(new) => core.sets.hides(set_id, appended.lsn, new.last_update_ms),
        };
        let at = self.seen.and_then(|seen| {
            partition
                .find(tag, |slot| slot.location == seen.location)
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
            // The entry stays as it is, since a group may need it to be whole; the truncation hides it.
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

    /// Unlocks the record, whose partition is locked, unless the lock is to outlive the change.
    #[inline]
    fn release(&mut self, mut partition: PartitionGuard<'_>) {
        if self.keeps {
            return;
        }
        let next = partition.held().release(&self.digest);
        self.held = false;
        drop(partition);
        if let Some(waiter) = next {
            waiter.notify();
        }
    }

    fn unlock(&mut self) {
        if !std::mem::replace(&mut self.held, false) {
            return;
        }
        let next = self
            .core
            .index
            .lock(&self.digest)
            .held()
            .release(&self.digest);
        if let Some(waiter) = next {
            waiter.notify();
        }
    }
}

#[cold]
fn no_such_set(set_id: u16) -> Error {
    Error::BadOption {
        option: "set_id",
        value: set_id.to_string(),
        rule: "0, or a number that create_set of this namespace has returned",
    }
}

/// What the key takes in front of the payload.
fn prefix_bytes(key: Option<&[u8]>) -> usize {
    key.map_or(0, |key| Varint::new(key.len()).len() + key.len())
}

impl Drop for RecordLock<'_> {
    fn drop(&mut self) {
        self.unlock();
    }
}

impl Core {
    /// Whether a slot with this digest's tag is its record's. The header of an entry that was never checked may be
    /// damaged; then the tag decides.
    pub(crate) fn is_of(&self, slot: &Slot, digest: &Digest, guard: &Guard) -> bool {
        if let Some(image) = self.log.image(slot.location, guard) {
            return image.digest() == digest;
        }
        match self.log.entry(slot.location, guard) {
            Some(entry) if entry.view().has_digest(digest) => true,
            Some(entry) => {
                slot.unverified
                    && self
                        .log
                        .checked_header(slot.location, &entry.view())
                        .is_none()
            }
            None => true,
        }
    }
}
