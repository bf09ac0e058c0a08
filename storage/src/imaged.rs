//! Records with chains of deltas: their images, built and dropped, and the entries that they
//! consist of.

use crate::core::Core;
use crate::digest::Digest;
use crate::entry::EntryKind;
use crate::epoch::Guard;
use crate::error::Result;
use crate::image::{ChainPart, Images};
use crate::index::IndexSlot;
use crate::location::Location;
use crate::log::chain::{content_of, parts_of};
use crate::log::volume::HeldEntry;
use std::sync::atomic::Ordering;

/// Images that one read or write evicts at most.
const EVICTIONS: usize = 8;

impl Core {
    /// The record with the delta at this location as newest version, from an image that stays
    /// behind.
    ///
    /// # Errors
    /// [`Error::Damaged`](crate::Error::Damaged) if an entry of the chain does not hold.
    pub(crate) fn imaged<'a>(
        &'a self,
        digest: &Digest,
        newest: Location,
        guard: &'a Guard,
    ) -> Result<HeldEntry<'a>> {
        let Some(content) = content_of(self.log.volumes(), newest, guard) else {
            return Err(self.damaged(newest));
        };
        self.evict(guard);
        let images = self.log.images();
        if let Some(number) = images.insert(content.clone()) {
            let mut partition = self.index.lock(digest);
            match partition.find(digest.tag(), |slot| slot.location == newest) {
                Some(at) => partition.update(at, |slot| {
                    slot.location = Images::location_of(number);
                    slot.unverified = false;
                }),
                // Another thread was quicker.
                None => images.remove(number, guard),
            }
        }
        Ok(HeldEntry::Built(Box::new(content)))
    }

    /// Drops some images without a look of late, if there are too many: their chains stay.
    pub(crate) fn evict(&self, guard: &Guard) {
        let images = self.log.images();
        for _ in 0..EVICTIONS {
            if !images.is_over_budget() {
                return;
            }
            let Some(number) = images.next_cold() else {
                return;
            };
            let Some(image) = images.get(number, guard) else {
                continue;
            };
            // One that is being edited is not cold.
            let Some(content) = image.read() else {
                continue;
            };
            let (newest, digest) = (image.newest(), *image.digest());
            let location = Images::location_of(number);
            let mut partition = self.index.lock(&digest);
            let Some(at) = partition.find(digest.tag(), |slot| slot.location == location) else {
                continue;
            };
            partition.update(at, |slot| slot.location = newest);
            drop(partition);
            drop(content);
            images.remove(number, guard);
        }
    }

    /// Whether the entry of a slot is a delta. `None`: its header cannot be read, or is damaged.
    /// Chains are rare: without them no entry needs a look.
    #[inline]
    pub(crate) fn is_delta(&self, slot: &IndexSlot, guard: &Guard) -> Option<bool> {
        if !self.any_deltas.load(Ordering::Relaxed) {
            return Some(false);
        }
        let entry = self.log.entry(slot.location, guard)?;
        let view = entry.view();
        (self.believes(slot, &view)).then(|| view.kind_is(EntryKind::Delta))
    }

    /// Returns the entries that a slot's version consists of, the whole record first. `slot`: found
    /// in the index under this guard. `None`: they are not known, since one of them is damaged.
    pub(crate) fn parts_of_slot(&self, slot: &IndexSlot, guard: &Guard) -> Option<Vec<ChainPart>> {
        if let Some(number) = Images::number_of(slot.location) {
            let image = self.log.images().get(number, guard);
            debug_assert!(image.is_some(), "image {number} of the index is gone");
            let image = image?;
            return match image.read() {
                Some(content) => Some(content.content().parts.clone()),
                // A writer edits it: the chain in the log has the same content.
                None => parts_of(self.log.volumes(), image.newest(), guard),
            };
        }
        if self.is_delta(slot, guard)? {
            return parts_of(self.log.volumes(), slot.location, guard);
        }
        Some(vec![ChainPart {
            location: slot.location,
            units: slot.size_units,
        }])
    }

    /// Returns what the slot would be if images were not kept, its location that of an entry, and
    /// the parts of its chain if it has one that can be read. `None`: the location of its entry is
    /// not known, since the chain of its image cannot be read.
    pub(crate) fn stored_slot(
        &self,
        slot: &IndexSlot,
        guard: &Guard,
    ) -> Option<(IndexSlot, Option<Vec<ChainPart>>)> {
        let Some(parts) = self.parts_of_slot(slot, guard) else {
            let is_entry = Images::number_of(slot.location).is_none();
            return is_entry.then_some((*slot, None));
        };
        Some(match parts.last() {
            Some(newest) if parts.len() > 1 => {
                let stored = IndexSlot {
                    location: newest.location,
                    size_units: newest.units,
                    ..*slot
                };
                (stored, Some(parts))
            }
            _ => (*slot, None),
        })
    }
}
