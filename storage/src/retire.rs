//! Taking entries out of the counts once the index no longer holds them, and truncated records out
//! of the index.

use crate::core::Core;
use crate::digest::PARTITIONS;
use crate::entry::{EntryHeader, FLAG_CHANGED_SET};
use crate::epoch::{self, Guard};
use crate::image::Images;
use crate::index::IndexSlot;
use crate::sync::atomic::Ordering;

impl Core {
    /// Takes an entry out of the counts. `superseded`: the slot that the index no longer has.
    pub(crate) fn retire(&self, superseded: &IndexSlot, guard: &Guard) {
        if !superseded.tombstone {
            self.sets
                .count(superseded.set_id, -1, -i64::from(superseded.size_units));
        }
        self.retire_uncounted(superseded, guard);
    }

    /// Takes an entry out of the counts of its block alone. Of a chain that cannot be read only the
    /// newest entry is taken, as far as its size is known: a block that counts too much stays
    /// longer than it must, and never goes too early.
    pub(crate) fn retire_uncounted(&self, superseded: &IndexSlot, guard: &Guard) {
        let image = Images::number_of(superseded.location);
        if image.is_none() && self.is_delta(superseded, guard) == Some(false) {
            self.log.release(superseded.location, superseded.size_units);
            return;
        }
        self.retire_chain(superseded, image, guard);
    }

    /// Takes the entries that a record with deltas consists of out of the counts of their blocks,
    /// and its image away.
    fn retire_chain(&self, superseded: &IndexSlot, image: Option<u32>, guard: &Guard) {
        let parts = match (self.parts_of_slot(superseded, guard), image) {
            (Some(parts), _) => parts,
            (None, Some(_)) => Vec::new(),
            (None, None) => {
                self.counts_dead.store(true, Ordering::SeqCst);
                let units = self.own_units(superseded, guard);
                self.log.release(superseded.location, units);
                return;
            }
        };
        self.log.chain_ended(&parts);
        for part in parts {
            self.log.release(part.location, part.units);
        }
        if let Some(number) = image {
            self.log.images().remove(number, guard);
        }
    }

    /// The size of a chain's newest entry alone, or the least that it can be: the slot counts all
    /// of the chain, unless an opening has found it damaged.
    fn own_units(&self, slot: &IndexSlot, guard: &Guard) -> u32 {
        let entry = self.log.entry(slot.location, guard);
        let header = entry.and_then(|entry| self.log.checked_header(slot.location, &entry.view()));
        let least = EntryHeader::span_for(0).min(slot.size_units);
        header.map_or(least, |header| header.span_units)
    }

    /// Takes truncated records out of the index. Returns how many.
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
        let (mut removed, mut buried) = (Vec::new(), Vec::new());
        self.index.lock_partition(partition).update_each(|_, slot| {
            if slot.tombstone {
                return true;
            }
            // The header alone decides: a record with a damaged body is truncated like any other.
            let Some(entry) = self.log.entry(slot.location, &guard) else {
                return true;
            };
            let view = entry.view();
            if !self.believes(slot, &view) || !self.hides(&view) {
                return true;
            }
            if view.flags() & FLAG_CHANGED_SET != 0 {
                // Older versions are of another set, which this truncation does not hide: the entry
                // stays as a tombstone.
                buried.push(*slot);
                slot.tombstone = true;
                return true;
            }
            removed.push(*slot);
            false
        });
        for slot in &buried {
            self.sets
                .count(slot.set_id, -1, -i64::from(slot.size_units));
        }
        for slot in &removed {
            self.retire(slot, &guard);
        }
        (removed.len() + buried.len()) as u64
    }
}
