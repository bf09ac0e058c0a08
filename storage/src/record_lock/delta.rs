//! Edits that write what they change in the version before, and not all of the record.

use super::{Change, NewVersion, RecordLock};
use crate::entry::{
    Appended, EntryHeader, EntryKind, FLAG_CHANGED_SET, FLAG_KEYED, Lsn, NewEntry, prefix_bytes,
};
use crate::error::{Error, Result};
use crate::image::delta::{BodySplice, diff, edit, encode};
use crate::image::{ChainPart, ImageContent, Images};
use crate::index::{IndexSlot, SIZE_UNITS_MAX};
use crate::location::Location;
use crate::log::block::entry_units_max;
use crate::log::chain::{
    DELTA_RECORD_BYTES_MIN, DELTA_SHARE, image_header, is_outgrown, should_fold,
};
use crate::log::space::SpacePurpose;
use crate::log::volume::HeldEntry;
use crate::sync::atomic::Ordering;
use std::cell::OnceCell;

/// An edit that is worth a delta.
pub(super) struct EditedRecord {
    delta: Vec<u8>,
    header: EntryHeader,
    /// Changes of the payload.
    splices: Vec<BodySplice>,
}

impl EditedRecord {
    pub(super) fn entry(&self) -> NewEntry<'_> {
        NewEntry {
            header: self.header,
            key: None,
            payload: &self.delta,
        }
    }
}

impl RecordLock<'_> {
    /// Puts a version by what it changes in the one before. None: it is to be written whole.
    #[inline(never)]
    pub(super) fn put_delta(&mut self, version: &NewVersion<'_>) -> Result<Option<Lsn>> {
        let Some(edit) = self.edited(version) else {
            return Ok(None);
        };
        let log = &self.core.log;
        let known = self.truncations.known();
        let appended = log.append_since(known, SpacePurpose::Write, edit.entry())?;
        self.publish_delta(version, &edit, &appended)?;
        Ok(Some(appended.lsn))
    }

    /// Makes an appended delta the newest of the record's chain, and unlocks the record.
    ///
    /// # Errors
    /// [`Error::InDoubt`] beside a truncation, which has taken the version before and not this one,
    /// if this one cannot be written whole.
    pub(super) fn publish_delta(
        &mut self,
        version: &NewVersion<'_>,
        edit: &EditedRecord,
        appended: &Appended,
    ) -> Result<()> {
        let core = self.core;
        let header = EntryHeader {
            lsn: appended.lsn,
            ..edit.header
        };
        // Before the slot is published: a reader that finds the delta there sees this, too.
        core.any_deltas.store(true, Ordering::Relaxed);
        core.evict(&self.guard);
        // The image is edited where it is, if no other thread looks at it: this lock no longer
        // does.
        self.entry = OnceCell::new();
        let mut partition = core.index.lock(&self.digest);
        let hidden = core
            .sets
            .hides(header.set_id, appended.lsn, header.last_update_ms);
        // A locked record is not moved, but its image may have been evicted; and a truncation may
        // have made it a tombstone.
        let at = partition.find(self.digest.tag(), |slot| {
            !slot.tombstone && core.is_of(slot, &self.digest, &self.guard)
        });
        if at.is_none() && !hidden {
            drop(partition);
            return self.publish_whole(version, &header, appended);
        }
        let old = at.filter(|_| !hidden).map(|at| {
            let old = partition.get(at);
            let slot = IndexSlot {
                location: self.extend_image(&old, version, &header, &edit.splices, appended),
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
            // A truncation came between: it is as if the write had come before it.
            core.log.release(appended.location, appended.units);
            return Ok(());
        };
        core.sets.count(slot.set_id, 0, i64::from(appended.units));
        if let Some(number) = Images::number_of(old.location)
            && old.location != slot.location
        {
            core.log.images().remove(number, &self.guard);
        }
        Ok(())
    }

    /// Publishes an appended delta of a version that a truncation has taken since, with a lower
    /// number than the delta's: an opening would find the delta, and not always the version. So the
    /// record is written whole, with the delta's number.
    #[cold]
    fn publish_whole(
        &mut self,
        version: &NewVersion<'_>,
        header: &EntryHeader,
        appended: &Appended,
    ) -> Result<()> {
        let log = &self.core.log;
        let header = EntryHeader {
            kind: EntryKind::Record,
            ..header.copied()
        };
        let whole = NewEntry::new(header, version.key, version.payload);
        // A power failure must not take the delta and leave its copy.
        let synced = log.sync_to(appended.lsn);
        let whole = synced.and_then(|()| log.append(SpacePurpose::Fold, whole));
        log.release(appended.location, appended.units);
        match whole {
            Ok(whole) => {
                self.publish(&Change::Put(*version), &whole);
                Ok(())
            }
            Err(error) => {
                self.release(self.core.index.lock(&self.digest));
                let reason = error.to_string();
                Err(Error::InDoubt { reason })
            }
        }
    }

    /// Adds an appended delta to the record's image, or makes an image. Returns the location that
    /// names the record then. The caller has the partition locked.
    fn extend_image(
        &self,
        old: &IndexSlot,
        version: &NewVersion<'_>,
        header: &EntryHeader,
        splices: &[BodySplice],
        appended: &Appended,
    ) -> Location {
        let images = self.core.log.images();
        let part = ChainPart {
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
                self.core.log.chain_grew(&content.parts);
                images.count_edit(before, content.memory_bytes());
            })
        });
        if is_edited {
            return old.location;
        }
        let Some(mut parts) = self.core.parts_of_slot(old, &self.guard) else {
            return appended.location;
        };
        parts.push(part);
        self.core.log.chain_grew(&parts);
        let mut whole = NewEntry::new(*header, version.key, version.payload);
        let body = whole.with_parts(|_, parts| parts.concat());
        let raw = image_header(*header, body.len());
        let number = images.insert(ImageContent::new(raw, body, parts));
        number.map_or(appended.location, Images::location_of)
    }

    /// Returns the delta of an edit, if it is worth one.
    pub(super) fn edited(&self, version: &NewVersion<'_>) -> Option<EditedRecord> {
        if version.payload.len() < DELTA_RECORD_BYTES_MIN || !self.core.log.images().are_wanted() {
            return None;
        }
        let seen = self.seen.filter(|slot| slot.set_id == version.set_id)?;
        let old = self.entry().ok().flatten()?;
        if old.key() != version.key {
            return None;
        }
        let held = self.entry.get();
        let (location, whole_units) = match (Images::number_of(seen.location), held) {
            (Some(_), Some(HeldEntry::Image(image))) => {
                let content = image.content();
                let (whole, newest) = (content.parts.first()?, content.parts.last()?);
                if should_fold(content, self.had_image) {
                    return None;
                }
                (newest.location, whole.units)
            }
            // A chain without an image, or with one in use by an edit: that is for this lock's
            // owner alone.
            (Some(_), _) | (None, Some(HeldEntry::Built(_))) => return None,
            (None, _) => (seen.location, seen.size_units),
        };
        let body_bytes = prefix_bytes(version.key) + version.payload.len();
        if is_outgrown(whole_units, body_bytes) {
            return None;
        }
        // A chain of a record too large for one entry could never be folded.
        if EntryHeader::span_for(body_bytes) > entry_units_max(self.core.log.block_bytes()) {
            return None;
        }
        let splices = diff(old.payload(), version.payload, body_bytes / DELTA_SHARE)?;
        let before = (location, old.lsn());
        let prefix = prefix_bytes(version.key);
        let delta = encode(before, prefix, &splices, version.payload);
        if seen.size_units + EntryHeader::span_for(delta.len()) > SIZE_UNITS_MAX {
            return None;
        }
        let keyed = if version.key.is_some() { FLAG_KEYED } else { 0 };
        let header = EntryHeader {
            kind: EntryKind::Delta,
            flags: keyed | (old.flags() & FLAG_CHANGED_SET),
            last_update_ms: old.last_update_ms().max(version.last_update_ms),
            ..version.header(&self.digest)
        };
        Some(EditedRecord {
            delta,
            header,
            splices,
        })
    }
}
