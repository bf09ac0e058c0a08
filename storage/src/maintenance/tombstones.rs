//! Forgetting tombstones of which no older version is on any device.

use crate::core::defrag_state::Defrag;
use crate::core::{Core, CoreCounters};
use crate::digest::{Digest, PARTITIONS};
use crate::entry::{EntryKind, Lsn, is_version};
use crate::epoch;
use crate::error::Result;
use crate::index::IndexSlot;
use crate::location::Location;
use crate::log::FilledBlock;
use crate::log::block::{BlockPhase, ENTRIES_AT};
use crate::log::block_walk::{BlockLife, BlockWalk};
use crate::log::directory::identity_of;
use std::collections::HashMap;
use std::collections::hash_map::Entry as Place;
use std::sync::atomic::Ordering;

/// Tombstones looked at in one pass: about 64 bytes of memory each.
const TOMBSTONES_A_PASS: usize = 1 << 20;

/// How often the pass looks whether others have ended their work.
const LOOKS: usize = 4;

/// A tombstone that may be forgotten.
#[derive(Clone, Copy, Debug)]
struct ForgettableTombstone {
    digest: Digest,
    lsn: Lsn,
    location: Location,
}

/// The tombstones that may be forgotten, by the identity that a block's directory has of a record.
/// Of two records that are the same to it, one is looked at in each pass.
type Candidates = HashMap<u64, ForgettableTombstone>;

impl Core {
    /// Forgets tombstones of which no older version is on any device. Returns how many.
    ///
    /// Reads the directories of the blocks that hold anything superseded, 12 bytes an entry, and
    /// the headers of entries where there is no directory yet. An older version of another record
    /// that has the same partition and tag keeps a tombstone.
    pub(crate) fn drop_tombstones(&self) -> Result<u64> {
        // Defragmentation must not move anything meanwhile: a copy could appear in a block that has
        // been looked at.
        let mut defrag = self.defrag.lock();
        self.check_open()?;
        let mut candidates = self.tombstone_candidates(&mut defrag);
        if candidates.is_empty() {
            return Ok(0);
        }
        // Who has written a tombstone takes the older versions out of the counts afterwards, and
        // before its guard goes.
        let counts_hold = self.unknown_below_lsn == 0
            && others_have_left()
            && !self.counts_dead.load(Ordering::SeqCst);
        // Entries appended from here on are younger than all of them.
        let open = self.log.flush_lanes()?;
        let mut walk = std::mem::take(&mut defrag.walk);
        let is_read = self.rule_out_all(&mut candidates, &open, counts_hold, &mut walk);
        walk.shrink();
        defrag.walk = walk;
        if !is_read || candidates.is_empty() {
            return Ok(0);
        }
        // Removals in memory are on the devices after this, too.
        self.log.sync()?;
        let drop_it = |candidate| u64::from(self.drop_tombstone(candidate));
        let dropped = candidates.into_values().map(drop_it).sum();
        CoreCounters::add(&self.counters.dropped_tombstones, dropped);
        Ok(dropped)
    }

    fn tombstone_candidates(&self, defrag: &mut Defrag) -> Candidates {
        let mut candidates = Candidates::new();
        let from = defrag.tombstones_from;
        for step in 0..PARTITIONS {
            if candidates.len() >= TOMBSTONES_A_PASS {
                defrag.tombstones_from = (from + step) % PARTITIONS;
                break;
            }
            let _guard = epoch::pin();
            let slots = self.slots_of((from + step) % PARTITIONS);
            for (_, slot) in slots.iter().filter(|(_, slot)| slot.tombstone) {
                let location = slot.location;
                let volume = self.log.volume(location);
                let Some(header) = volume.and_then(|volume| volume.read_entry_header(location))
                else {
                    continue;
                };
                if let Place::Vacant(place) = candidates.entry(identity_of(&header.digest)) {
                    place.insert(ForgettableTombstone {
                        digest: header.digest,
                        lsn: header.lsn,
                        location,
                    });
                }
            }
        }
        candidates
    }

    /// Takes those out of the candidates of which an older version may be somewhere. `counts_hold`:
    /// no such version is among the live bytes of a block. False: not all that matters could be
    /// read.
    fn rule_out_all(
        &self,
        candidates: &mut Candidates,
        open: &[FilledBlock],
        counts_hold: bool,
        walk: &mut BlockWalk,
    ) -> bool {
        for volume in self.log.volumes() {
            for (id, block) in volume.blocks() {
                let filled = open.iter().find(|filled| filled.id == id);
                let is_younger = block.phase() == BlockPhase::Open && filled.is_none();
                let is_all_live =
                    counts_hold && filled.is_none() && block.live_units() >= block.filled_units();
                if block.phase() == BlockPhase::Free || is_younger || is_all_live {
                    continue;
                }
                let life = BlockLife::of(volume, id, block);
                if !rule_out(candidates, life, filled, walk) {
                    return false;
                }
                if candidates.is_empty() {
                    return true;
                }
            }
        }
        true
    }

    fn drop_tombstone(&self, candidate: ForgettableTombstone) -> bool {
        let guard = epoch::pin();
        let mut partition = self.index.lock(&candidate.digest);
        // A writer that has the record locked has seen the tombstone and counts on it.
        if partition.held().is_held(&candidate.digest) {
            return false;
        }
        // Its block is not used again meanwhile, so no other entry is there.
        let is_it = |slot: &IndexSlot| slot.tombstone && slot.location == candidate.location;
        let Some(at) = partition.find(candidate.digest.tag(), is_it) else {
            return false;
        };
        let slot = partition.get(at);
        let removal = self.removals.begin();
        partition.remove(at);
        drop(partition);
        drop(removal);
        self.retire(&slot, &guard);
        true
    }
}

/// Takes candidates out that may have an older version in a block. False: the block cannot be read.
fn rule_out(
    candidates: &mut Candidates,
    life: BlockLife<'_>,
    filled: Option<&FilledBlock>,
    walk: &mut BlockWalk,
) -> bool {
    let mut meet = |kind: EntryKind, identity: u64, lsn: Lsn| {
        if is_version(kind)
            && let Place::Occupied(candidate) = candidates.entry(identity)
            && lsn < candidate.get().lsn
        {
            candidate.remove();
        }
    };
    // The directory of a block that is being filled is written at this moment, entries are not.
    if filled.is_none()
        && let Some(lines) = walk.lines_of(life, None)
    {
        for line in lines {
            meet(line.kind, line.identity, line.lsn);
        }
        return true;
    }
    // An unreadable entry is found again below, if it matters.
    walk.take_unreadable_bytes();
    let begin = life.id.offset_bytes();
    let end = filled.map_or(life.end(), |filled| begin + filled.end);
    let mut at = begin + ENTRIES_AT;
    while at < end {
        at = walk.read_piece(life, (at, end), |_, _| false);
        for (_, header) in walk.entries() {
            meet(header.kind, identity_of(&header.digest), header.lsn);
        }
    }
    walk.take_unreadable_bytes() == 0
}

/// Whether everything has ended that others were doing when this was called. False, too, if it
/// takes long.
fn others_have_left() -> bool {
    let left = epoch::when_guards_have_left();
    for _ in 0..LOOKS {
        if left.load(Ordering::SeqCst) {
            return true;
        }
        epoch::advance();
        crate::sync::thread::yield_now();
    }
    left.load(Ordering::SeqCst)
}
