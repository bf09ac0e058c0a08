//! Writing a record with a chain of deltas whole.

use super::RecordLock;
use crate::error::Result;
use crate::index::Slot;
use crate::log::entry::{FLAG_GROUPED, Header, Kind, blank_header};
use crate::log::space::Purpose;

impl RecordLock<'_> {
    /// Writes a record with a chain whole, with the number of its newest version, and retires the chain. Unlocks it. Returns
    /// the span of the entry; 0: it has no chain any more, or is damaged, or its owner, from whom it was borrowed, goes on.
    pub(crate) fn fold(mut self) -> Result<u32> {
        let core = self.core;
        let Some(seen) = self.seen.filter(|slot| !slot.tombstone) else {
            return Ok(0);
        };
        let parts = core.parts_of_slot(&seen, &self.guard).unwrap_or_default();
        let Some(newest) = parts.last().filter(|_| parts.len() > 1) else {
            return Ok(0);
        };
        let group = core.open_group_of(newest.location, &self.guard);
        let Some(entry) = self.entry().ok().flatten() else {
            return Ok(0);
        };
        let header = Header {
            kind: Kind::Record,
            flags: (entry.flags() & !FLAG_GROUPED) | group.map_or(0, |_| FLAG_GROUPED),
            lsn: entry.lsn(),
            generation: entry.generation(),
            last_update_ms: entry.last_update_ms(),
            void_time: entry.void_time(),
            set_id: entry.set_id(),
            digest: self.digest,
            ..blank_header()
        };
        let number = group.map(u64::to_le_bytes);
        let number = number.as_ref().map_or([].as_slice(), |number| number);
        let parts = [number, entry.record_body()];
        let appended = core.log.append(Purpose::Defrag, header, &parts, None)?;
        let mut partition = core.index.lock(&self.digest);
        let may_replace = self.held || partition.held().is_resting(&self.digest);
        let at = partition.find(self.digest.tag(), |slot| {
            core.is_of(slot, &self.digest, &self.guard)
        });
        // The owner of a borrowed record may have edited it in between: that adds to its size.
        let at = at.filter(|at| may_replace && (self.held || partition.get(*at) == seen));
        let old = at.map(|at| {
            let old = partition.get(at);
            let whole = Slot {
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
            return Ok(0);
        };
        // The newest delta leaves its group with the chain, and this entry is there for it.
        group.inspect(|number| core.groups.lock().join(*number));
        let grown = i64::from(appended.units) - i64::from(old.size_units);
        core.sets.count(old.set_id, 0, grown);
        core.retire_uncounted(&old, &self.guard);
        Ok(appended.units)
    }
}
