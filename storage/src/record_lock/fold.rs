//! Writing a record with a chain of deltas whole.

use super::{Hold, RecordLock};
use crate::core::Core;
use crate::entry::{EntryHeader, EntryKind, Lsn, NewEntry};
use crate::epoch;
use crate::error::Result;
use crate::index::IndexSlot;
use crate::location::Location;
use crate::log::space::SpacePurpose;
use crate::sync::atomic::Ordering;

impl Core {
    /// Writes the record whole that has the entry at this location in its chain, if one has.
    /// Returns the units of the entry; `None`: the chain of the record cannot be read. `begun_at`:
    /// the last number when the block of that entry began to be emptied. A chain that was edited
    /// since is folded another time.
    pub(crate) fn fold_chain_with(
        &self,
        location: Location,
        header: &EntryHeader,
        begun_at: Lsn,
    ) -> Result<Option<u32>> {
        if !self.any_deltas.load(Ordering::Relaxed) {
            return Ok(Some(0));
        }
        let guard = epoch::pin();
        let slot = self.slot_in(&self.index.lock(&header.digest), &header.digest, &guard);
        let Some(slot) = slot.filter(|slot| !slot.tombstone) else {
            return Ok(Some(0));
        };
        let Some(parts) = self.parts_of_slot(&slot, &guard) else {
            return Ok(None);
        };
        if parts.len() < 2 || parts.iter().all(|part| part.location != location) {
            return Ok(Some(0));
        }
        // A sync takes long, and must not hold back blocks that others have retired.
        drop(guard);
        // One sync for a block.
        self.log.sync_to(begun_at)?;
        // The owner of its lock writes it anew, or the next look at this block finds it again.
        let lock = RecordLock::try_acquire(self, &header.digest, true);
        lock.map_or(Ok(Some(0)), RecordLock::fold)
    }
}

impl RecordLock<'_> {
    /// Writes a record with a chain whole, with the number of its newest version, and retires the
    /// chain. Unlocks it. Returns the span of the entry; 0: it has no chain any more, or is not on
    /// stable storage, or its owner, from whom it was borrowed, goes on; `None`: it is damaged.
    pub(crate) fn fold(mut self) -> Result<Option<u32>> {
        let core = self.core;
        let Some(seen) = self.seen.filter(|slot| !slot.tombstone) else {
            return Ok(Some(0));
        };
        let Some(parts) = core.parts_of_slot(&seen, &self.guard) else {
            return Ok(None);
        };
        if parts.len() < 2 {
            return Ok(Some(0));
        }
        let entry = self.entry().ok().flatten();
        let whole = entry.and_then(|entry| Some((entry, EntryHeader::decode(entry.raw())?)));
        let Some((entry, newest)) = whole else {
            return Ok(None);
        };
        // A power failure must not take the chain and leave its copy.
        if newest.lsn.0 > core.log.syncer().durable_lsn() {
            return Ok(Some(0));
        }
        let header = EntryHeader {
            kind: EntryKind::Record,
            ..newest.copied()
        };
        let whole = NewEntry::new(header, None, entry.body());
        let appended = core.log.append(SpacePurpose::Fold, whole)?;
        let mut partition = core.index.lock(&self.digest);
        let is_held = self.hold != Hold::Released;
        let may_replace = is_held || partition.held().is_resting(&self.digest);
        let at = partition.find(self.digest.tag(), |slot| {
            core.is_of(slot, &self.digest, &self.guard)
        });
        // The owner of a borrowed record may have edited it in between: that adds to its size.
        let at = at.filter(|at| may_replace && (is_held || partition.get(*at) == seen));
        let old = at.map(|at| {
            let old = partition.get(at);
            let whole = IndexSlot {
                location: appended.location,
                size_units: appended.units,
                unverified: false,
                ..old
            };
            partition.replace(at, whole);
            old
        });
        drop(partition);
        self.unlock();
        let Some(old) = old else {
            core.log.release(appended.location, appended.units);
            return Ok(Some(0));
        };
        let grown = i64::from(appended.units) - i64::from(old.size_units);
        core.sets.count(old.set_id, 0, grown);
        core.retire_uncounted(&old, &self.guard);
        Ok(Some(appended.units))
    }
}
