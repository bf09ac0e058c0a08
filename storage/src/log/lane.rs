//! Append lanes: each fills a block of its own, so that many writers append at once.

use crate::log::block::BlockId;
use crate::log::recycle::{FreeSlot, FreeSlots};
use crate::sync::Mutex;
use crate::sync::atomic::{AtomicU64, Ordering};
use crossbeam_utils::CachePadded;

/// How many writers of one lane may be copying their bytes at the same time. Copying takes about a microsecond.
pub(crate) const IN_FLIGHT_MAX: usize = 16;

/// So many retired slots, or so many of their units (1 MiB), wait together for the readers' epoch to pass. Handing them
/// over takes a microsecond or two: with so many at a time that is in 1 of 256 overwrites, and not in the 99th percentile.
#[cfg(not(shuttle))]
const LIMBO_SLOTS: usize = 256;
/// The model checker should see slots come back soon.
#[cfg(shuttle)]
const LIMBO_SLOTS: usize = 1;
const LIMBO_UNITS: u32 = (1 << 20) / 16;

/// The block that a lane is filling.
#[derive(Clone, Copy, Debug)]
pub(crate) struct OpenBlock {
    pub(crate) id: BlockId,
    pub(crate) incarnation: u64,
    /// Next free byte and end, as offsets in the device.
    pub(crate) next: u64,
    pub(crate) end: u64,
}

/// What a lane owns, under its lock.
#[derive(Debug, Default)]
pub(crate) struct LaneState {
    pub(crate) open: Option<OpenBlock>,
    pub(crate) free: FreeSlots,
    limbo: Vec<FreeSlot>,
    limbo_units: u32,
    pub(crate) counters: LaneCounters,
}

/// What a lane has done since the namespace was opened.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct LaneCounters {
    /// Units of fresh log taken.
    pub(crate) appended_units: u64,
    /// Units of recycled slots taken.
    pub(crate) recycled_units: u64,
    pub(crate) entries: u64,
    /// Bytes of headers and bodies that callers asked to store.
    pub(crate) requested_bytes: u64,
}

impl LaneState {
    /// Puts a slot aside until no reader can see it. Returns a batch when it is time to hand one to the epoch.
    pub(crate) fn set_aside(&mut self, slot: FreeSlot) -> Option<Vec<FreeSlot>> {
        self.limbo.push(slot);
        self.limbo_units += slot.units;
        if self.limbo.len() < LIMBO_SLOTS && self.limbo_units < LIMBO_UNITS {
            return None;
        }
        self.limbo_units = 0;
        Some(std::mem::replace(
            &mut self.limbo,
            Vec::with_capacity(LIMBO_SLOTS),
        ))
    }
}

/// One lane.
#[derive(Debug, Default)]
pub(crate) struct Lane {
    pub(crate) state: Mutex<LaneState>,
    /// For each writer that is copying: a lower bound of its sequence number; 0 = nobody.
    in_flight: [CachePadded<AtomicU64>; IN_FLIGHT_MAX],
}

impl Lane {
    /// The slots of a batch whose epoch has passed.
    pub(crate) fn absorb(&self, batch: Vec<FreeSlot>) {
        let mut state = self.state.lock();
        for slot in batch {
            state.free.put(slot);
        }
    }

    /// Announces a writer before it draws its sequence number. None: too many are copying.
    pub(crate) fn announce(&self, lower_bound: u64) -> Option<usize> {
        let free = self
            .in_flight
            .iter()
            .position(|slot| slot.load(Ordering::Relaxed) == 0)?;
        self.in_flight
            .get(free)?
            .store(lower_bound, Ordering::Relaxed);
        Some(free)
    }

    /// The writer's bytes are complete.
    pub(crate) fn retract(&self, ticket: usize) {
        if let Some(slot) = self.in_flight.get(ticket) {
            slot.store(0, Ordering::Release);
        }
    }

    /// The lowest sequence number that may still be incomplete in this lane.
    pub(crate) fn lowest_in_flight(&self) -> Option<u64> {
        self.in_flight
            .iter()
            .map(|slot| slot.load(Ordering::SeqCst))
            .filter(|lsn| *lsn != 0)
            .min()
    }
}
