//! Defragmentation: the live entries of mostly dead blocks move to fresh ones, with their sequence numbers, and the
//! blocks are used again once no reader can see them and what superseded their entries is on stable storage.

use crate::changes::keep::KeptAfter;
use crate::core::{Core, Counters};
use crate::device::BLOCK_BYTES;
use crate::epoch::{self, Guard};
use crate::error::{Error, Result};
use crate::index::{Candidate, Slot};
use crate::location::{Location, UNIT_BYTES};
use crate::log::block::{BlockId, BlockState, Phase};
use crate::log::entry::Appended;
use crate::log::entry::{EntryView, FLAG_GROUPED, Header, Kind, Lsn};
use crate::log::group::read_commit;
use crate::log::space::Purpose;
use crate::log::volume::Volume;
use crate::maintenance::block_walk::{BlockWalk, WalkedBlock};
use crate::maintenance::defrag_state::{Defrag, Emptied};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// When space is short, blocks whose live share is below this percentage are worth moving.
const TIGHT_THRESHOLD_PERCENT: u64 = 95;

/// Prefetch distance, in entries, for index look-ups while a block is emptied.
const ENTRIES_AHEAD: usize = 16;

/// This many emptied blocks (512 MiB) share one checkpoint, or a quarter of the blocks in use if that is less. Fewer do
/// when space is short or the durability's own period is over.
const BLOCKS_A_CHECKPOINT: usize = 64;
const BLOCKS_A_CHECKPOINT_MIN: usize = 8;

/// Dead bytes beyond a block that cleaning needs to win one: entries that move do not fill blocks to the last byte.
const SPARE_DEAD_BYTES: u64 = 1 << 20;

/// A block with no more live than this (1 MiB), in units, is what a short life of the store has left.
const LEFTOVER_UNITS: u32 = (1 << 20) / UNIT_BYTES as u32;

/// One with no more than this (16 KiB) is brought together with any others.
const SMALL_LEFTOVER_UNITS: u32 = (16 << 10) / UNIT_BYTES as u32;
/// A whole block.
const BLOCK_UNITS: u32 = (BLOCK_BYTES / UNIT_BYTES) as u32;

/// Live bytes of leftovers that an opening moves; the last block may exceed it.
const GATHERED_BYTES_MAX: u64 = 3 << 20;
/// Limit on the leftover blocks of one opening, since a large store may have many that are dead.
const GATHERED_BLOCKS_MAX: usize = 64;
/// Where blocks are plenty, fewer leftovers than this stay as they are: each takes a few KiB of disk, while moving them
/// costs writes.
const LEFTOVERS_MIN: usize = 8;
/// With fewer blocks beside the reserve, two leftovers are one too many.
const LEFTOVERS_MAX: u64 = 24;

impl Core {
    /// Has the blocks tried again that could not be emptied.
    pub(crate) fn forget_stuck(&self) {
        self.defrag.lock().stuck.clear();
    }

    /// Brings together what earlier openings have left: each begins a block of its own, however little it writes, and a
    /// program that ends at once leaves no time to the thread that defragments. Empties 64 blocks and moves 4 MiB at most.
    /// Returns how many blocks were given back.
    pub(crate) fn gather_leftovers(&self) -> Result<u64> {
        let mut state = self.defrag.lock();
        self.check_open()?;
        self.log.check_writable(Purpose::Defrag)?;
        let mut moved = 0;
        let victims = self.leftovers(&state);
        for id in &victims {
            match self.empty_block(&mut state, *id) {
                Ok(bytes) => moved += bytes.unwrap_or_default(),
                // What is dead as a whole needs no room, and makes some.
                Err(Error::NoSpace { .. }) => break,
                Err(error) => return Err(error),
            }
            if moved >= GATHERED_BYTES_MAX {
                break;
            }
        }
        drop(state);
        match victims.len() {
            0 => Ok(0),
            _ => self.free_all_emptied(),
        }
    }

    /// The blocks with little live in them that are worth emptying: all that hold much that is dead; and of the others, with
    /// the least first, those that together win blocks. One with more in it than all before it is left out, lest it be moved
    /// again and again to be joined by a few records.
    fn leftovers(&self, state: &Defrag) -> Vec<BlockId> {
        let kept_after = self.kept_after();
        let (mut dead, mut leftovers) = (Vec::new(), Vec::new());
        for volume in self.log.volumes() {
            for (index, block) in (0u32..).zip(volume.blocks()) {
                let (id, live) = (volume.block_id(index), block.live_units());
                let is_leftover = block.phase() == Phase::Closed && live <= LEFTOVER_UNITS;
                if !is_leftover || state.stuck.get(&id) == Some(&live) || kept_after.holds(block) {
                    continue;
                }
                match block.filled_units() > live + LEFTOVER_UNITS {
                    true => dead.push(id),
                    false => leftovers.push((live, id)),
                }
            }
        }
        leftovers.sort_unstable();
        let space = self.log.space().usage();
        let has_room = space.available_blocks > space.reserve_blocks + LEFTOVERS_MAX;
        let mut gathered = Vec::new();
        let mut units = 0;
        for (live, id) in leftovers {
            if has_room && live > units.max(SMALL_LEFTOVER_UNITS) {
                break;
            }
            units += live;
            gathered.push(id);
        }
        // One alone has nothing to go with.
        let least = if has_room { LEFTOVERS_MIN } else { 2 };
        if dead.len() + gathered.len() >= least {
            dead.append(&mut gathered);
        }
        dead.truncate(GATHERED_BLOCKS_MAX);
        dead
    }

    /// Moves the live entries of one block, if the namespace as a whole holds so much that is dead, or space is short: to
    /// empty blocks one by one as they fall below the threshold would move four times as much. Returns how many bytes were
    /// moved; None if nothing is to be done.
    pub(crate) fn defrag_if_worth(&self) -> Result<Option<u64>> {
        let (live, filled) = self.fill();
        let threshold = u64::from(self.options.defrag_threshold_percent);
        if !self.log.space().usage().tight && live * 100 >= filled * threshold {
            return Ok(None);
        }
        // A single block that is nearly full is not worth it, whatever the others are.
        self.defrag_one(TIGHT_THRESHOLD_PERCENT)
    }

    /// Units that are live, and units that entries take, over all blocks that are closed and may be emptied.
    pub(crate) fn fill(&self) -> (u64, u64) {
        let kept_after = self.kept_after();
        let blocks = self.log.volumes().iter().flat_map(Volume::blocks);
        let closed =
            blocks.filter(|block| block.phase() == Phase::Closed && !kept_after.holds(block));
        closed.fold((0, 0), |(live, filled), block| {
            let units = u64::from(block.filled_units());
            (
                live + u64::from(block.live_units()).min(units),
                filled + units,
            )
        })
    }

    /// Whether cleaning can make room for new versions, or just has: a block is being emptied or waits to be given back,
    /// or enough is dead for a block, together with what the block that others are emptied into has left: emptying all
    /// wins as many blocks as they hold dead bytes. Takes no lock that is held while a block is emptied.
    pub(crate) fn can_win_space(&self) -> bool {
        let (live, filled) = self.fill();
        let dead = filled.saturating_sub(live) * UNIT_BYTES + self.log.defrag_room_bytes();
        if dead >= BLOCK_BYTES + SPARE_DEAD_BYTES {
            return true;
        }
        let (mut draining, mut free) = (false, 0);
        for block in self.log.volumes().iter().flat_map(Volume::blocks) {
            draining |= block.phase() == Phase::Draining;
            free += u64::from(block.phase() == Phase::Free);
        }
        // A block that was emptied may be free already and not yet to be had.
        draining
            || free > self.log.space().usage().available_blocks
            || !self.log.space().writes_are_stopped()
    }

    /// Moves the live entries of one block that is below the threshold by itself. Returns how many bytes were moved; None
    /// if no block is.
    pub(crate) fn defrag_step(&self) -> Result<Option<u64>> {
        let threshold = match self.log.space().usage().tight {
            true => TIGHT_THRESHOLD_PERCENT,
            false => u64::from(self.options.defrag_threshold_percent),
        };
        self.defrag_one(threshold)
    }

    /// Empties the block that is worth it most, of those below the threshold.
    fn defrag_one(&self, threshold: u64) -> Result<Option<u64>> {
        let mut state = self.defrag.lock();
        self.check_open()?;
        self.log.check_writable(Purpose::Defrag)?;
        // Of what entries took, not of the whole block: large entries leave a tail that moving them would not win back.
        // Leftovers win a block each when they go together, however much of what they hold is live.
        let is_stuck = |id: &BlockId, live: u32| state.stuck.get(id) == Some(&live);
        let kept_after = self.kept_after();
        let is_leftover = |id: &BlockId, block: &BlockState| {
            let live = block.live_units();
            let may_go = block.phase() == Phase::Closed && !kept_after.holds(block);
            may_go && live <= LEFTOVER_UNITS && !is_stuck(id, live)
        };
        let leftovers = self.log.volumes().iter().flat_map(|volume| {
            let blocks = (0u32..).zip(volume.blocks());
            blocks.filter(|(index, block)| is_leftover(&volume.block_id(*index), block))
        });
        let gather = leftovers.take(2).count() == 2;
        let is_dead =
            |filled: u32, live: u32| u64::from(live) * 100 < u64::from(filled) * threshold;
        let pair_live_max = self.pair_live_max(kept_after, |id, filled, live| {
            !is_dead(filled, live) && !is_stuck(id, live)
        });
        let may_join = |live: u32| pair_live_max.is_some_and(|most| live <= most);
        let worth = |id: &BlockId, filled: u32, live: u32| {
            let is_leftover = gather && live <= LEFTOVER_UNITS;
            (is_dead(filled, live) || is_leftover || may_join(live)) && !is_stuck(id, live)
        };
        let now = self.log.next_block();
        let mut best = None;
        for volume in self.log.volumes() {
            for (index, block) in (0u32..).zip(volume.blocks()) {
                if block.phase() != Phase::Closed || kept_after.holds(block) {
                    continue;
                }
                let id = volume.block_id(index);
                let (filled, live) = (block.filled_units(), block.live_units());
                if !worth(&id, filled, live) {
                    continue;
                }
                let filled = if may_join(live) { BLOCK_UNITS } else { filled };
                let merit = merit_of(filled, live, now.saturating_sub(block.closed_at()));
                if best.is_none_or(|(most, _)| merit > most) {
                    best = Some((merit, id));
                }
            }
        }
        match best {
            Some((_, id)) => self.empty_block(&mut state, id),
            None => Ok(None),
        }
    }

    /// Moves the live entries of a closed block. Returns how many bytes were moved.
    fn empty_block(&self, state: &mut Defrag, id: BlockId) -> Result<Option<u64>> {
        let Some(volume) = self.log.volumes().get(id.device) else {
            return Ok(None);
        };
        let Some(block) = volume.block(id.index) else {
            return Ok(None);
        };
        self.lose_changes_of(block)?;
        block.set_phase(Phase::Draining);
        let moved = match self.drain(volume, id, block, &mut state.walk) {
            Ok(moved) => moved,
            Err(error) => {
                block.set_phase(Phase::Closed);
                return Err(error);
            }
        };
        let left = block.live_units();
        if left > 0 {
            block.set_phase(Phase::Closed);
            state.stuck.insert(id, left);
            return Ok(Some(moved));
        }
        state.stuck.remove(&id);
        let unseen = Arc::new(AtomicBool::new(false));
        let guard = epoch::pin();
        let flag = Arc::clone(&unseen);
        guard.defer(move || flag.store(true, Ordering::SeqCst));
        guard.flush();
        drop(guard);
        let last_lsn = self.log.last_lsn();
        state.emptied.push(Emptied {
            id,
            unseen,
            last_lsn,
            noted: false,
        });
        Counters::add(&self.counters.defragmented_blocks, 1);
        Ok(Some(moved))
    }

    /// The most live units that a block has of two that one block can hold together, if there are two and space is short.
    /// Every opening ends the blocks that were open before, which may hold little, all of it live: no share of
    /// what they hold is dead, but the rest of the block is lost as long as they are there.
    fn pair_live_max(
        &self,
        kept_after: KeptAfter,
        may_join: impl Fn(&BlockId, u32, u32) -> bool,
    ) -> Option<u32> {
        if !self.log.space().usage().tight {
            return None;
        }
        let mut least = [u32::MAX; 2];
        for volume in self.log.volumes() {
            for (index, block) in (0u32..).zip(volume.blocks()) {
                let live = block.live_units();
                let is_closed = block.phase() == Phase::Closed && !kept_after.holds(block);
                if is_closed && may_join(&volume.block_id(index), block.filled_units(), live) {
                    let [first, second] = least;
                    least = [first.min(live), second.min(live.max(first))];
                }
            }
        }
        let [first, second] = least;
        // Not to the last byte: the next entry may not fit.
        let is_one_block = first.saturating_add(second) <= BLOCK_UNITS - LEFTOVER_UNITS;
        is_one_block.then_some(second)
    }

    /// Gives emptied blocks back. `now`: without waiting until enough of them are together.
    pub(crate) fn free_emptied(&self, now: bool) -> Result<usize> {
        let mut state = self.defrag.lock();
        self.check_open()?;
        let count = state
            .emptied
            .iter()
            .filter(|emptied| emptied.is_unseen(&self.log))
            .count();
        let enough =
            (self.log.used_blocks() / 4).clamp(BLOCKS_A_CHECKPOINT_MIN, BLOCKS_A_CHECKPOINT);
        if count == 0 || (count < enough && !now) {
            return Ok(0);
        }
        // What superseded the entries must be durable before they go, and that the block is free before its bytes are: a
        // block that recovery takes for one in use must hold what it held.
        self.log.sync()?;
        let durable_lsn = self.log.syncer().durable_lsn();
        let free =
            |emptied: &Emptied| emptied.is_unseen(&self.log) && emptied.last_lsn <= durable_lsn;
        for emptied in state.emptied.iter_mut().filter(|emptied| free(emptied)) {
            if !emptied.noted {
                self.log.note_free(emptied.id)?;
                emptied.noted = true;
            }
        }
        self.log.sync()?;
        let mut freed = 0;
        while let Some(at) = state.emptied.iter().position(|emptied| emptied.noted) {
            let emptied = state.emptied.swap_remove(at);
            if let Err(error) = self.log.give_back(emptied.id) {
                state.emptied.push(emptied);
                return Err(error);
            }
            freed += 1;
        }
        self.log.release_surplus()?;
        Ok(freed)
    }

    pub(crate) fn has_emptied(&self) -> bool {
        !self.defrag.lock().emptied.is_empty()
    }

    fn drain(
        &self,
        volume: &Volume,
        id: BlockId,
        block: &BlockState,
        walk: &mut BlockWalk,
    ) -> Result<u64> {
        let mut moved = 0;
        if block.live_units() == 0 {
            return Ok(0);
        }
        let begun_at = Lsn(self.log.last_lsn());
        let walked = WalkedBlock {
            volume,
            id,
            format: block.format(),
            incarnation: block.incarnation(),
            end: id.offset_bytes() + BLOCK_BYTES,
        };
        let at_device = |offset| Location::new(id.device, offset);
        // Large entries that are dead are not read.
        let is_wanted = |offset: u64, header: &Header| match header.kind {
            Kind::Record | Kind::Tombstone => {
                self.is_indexed(at_device(offset), header, &epoch::pin())
            }
            Kind::Commit | Kind::Metadata => true,
            Kind::Delta | Kind::Filler | Kind::Void => false,
        };
        let mut at = id.offset_bytes() + block.format().entries_at();
        volume.prefetch_block(id.index);
        while at < walked.end {
            at = walk.read_piece(walked, at, is_wanted);
            for (number, (offset, header)) in walk.entries().iter().enumerate() {
                // Most entries are dead, and finding that out is a cache miss in the index.
                if let Some((_, ahead)) = walk.entries().get(number + ENTRIES_AHEAD) {
                    self.index.prefetch(&ahead.digest, &epoch::pin());
                }
                let location = at_device(*offset);
                // A damaged entry stays where it is, and its block with it: it is evidence, and its record must go on to say
                // so. What is written anew gets a check that holds.
                let whole = || walk.whole_entry(*offset, header);
                let units = match header.kind {
                    Kind::Record | Kind::Tombstone | Kind::Delta => {
                        self.move_record(location, header, begun_at, whole)?
                    }
                    Kind::Commit => self.move_commit(location, header, whole)?,
                    Kind::Metadata => self.move_metadata(location, header, whole)?,
                    Kind::Filler | Kind::Void => 0,
                };
                moved += u64::from(units) * UNIT_BYTES;
            }
        }
        walk.shrink();
        Ok(moved)
    }

    /// Whether the index has this entry, or had it a moment ago. Takes no lock, and looks at one line of the index.
    fn is_indexed(&self, location: Location, header: &Header, guard: &Guard) -> bool {
        let here = |candidate: Candidate| (candidate.location == location).then_some(());
        self.index.lookup(&header.digest, guard, here).is_some()
    }

    fn move_record<'a>(
        &self,
        location: Location,
        header: &Header,
        begun_at: Lsn,
        whole: impl FnOnce() -> Option<EntryView<'a>>,
    ) -> Result<u32> {
        // Like every writer: emptied blocks are not given back while one is under way.
        let guard = epoch::pin();
        let tag = header.digest.tag();
        let current = |slot: &Slot| slot.location == location;
        let is_indexed = self.is_indexed(location, header, &guard);
        // Most are dead.
        let live = is_indexed.then(|| {
            let partition = self.index.lock(&header.digest);
            partition.find(tag, current).map(|at| partition.get(at))
        });
        let live = live.flatten();
        let Some(old) = live.filter(|_| header.kind != Kind::Delta) else {
            return self.fold_chain_with(location, header, begun_at);
        };
        let Some(entry) = whole() else {
            Counters::add(&self.counters.damaged, 1);
            return Ok(0);
        };
        let mut header = *header;
        let mut body = entry.body();
        let settled = entry.group().filter(|group| self.is_settled(*group));
        if settled.is_some() {
            // The whole group is on stable storage: from here on the entry stands alone.
            header.flags &= !FLAG_GROUPED;
            body = entry.record_body();
        }
        let new = self.log.append(Purpose::Defrag, header, &[body], None)?;
        let replaced = {
            let mut partition = self.index.lock(&header.digest);
            // Who has it locked may be writing a delta against it where it is, unless it waits for space.
            let held = partition.held();
            let may_move = !held.is_held(&header.digest) || held.is_resting(&header.digest);
            let at = partition.find(tag, current).filter(|_| may_move);
            if let Some(at) = at {
                let slot = partition.get(at);
                let moved = Slot {
                    location: new.location,
                    size_units: new.units,
                    unverified: false,
                    ..slot
                };
                partition.replace(at, moved);
            }
            at.is_some()
        };
        if !replaced {
            self.log.abandon(&new);
            return Ok(0);
        }
        self.log.release(location, old.size_units);
        if !old.tombstone && old.size_units != new.units {
            self.sets.count(
                old.set_id,
                0,
                i64::from(new.units) - i64::from(old.size_units),
            );
        }
        if settled.is_some() {
            self.leave_group(&entry);
        }
        Ok(new.units)
    }

    /// Whether a power failure cannot undo a group any more.
    pub(crate) fn is_settled(&self, group: u64) -> bool {
        let commit = self.groups.lock().commit_of(group);
        commit.is_some_and(|commit| commit.lsn.0 <= self.log.syncer().durable_lsn())
    }

    fn move_commit<'a>(
        &self,
        location: Location,
        header: &Header,
        whole: impl FnOnce() -> Option<EntryView<'a>>,
    ) -> Result<u32> {
        let _guard = epoch::pin();
        let Some(entry) = whole() else {
            return Ok(0);
        };
        let Some((group, _)) = read_commit(entry.body()) else {
            return Ok(0);
        };
        let mut groups = self.groups.lock();
        let Some(old) = groups
            .commit_of(group)
            .filter(|commit| commit.location == location)
        else {
            return Ok(0);
        };
        self.append_anew(old, header, entry.body(), Some(group), |new| {
            groups.moved(group, new);
        })
    }

    fn move_metadata<'a>(
        &self,
        location: Location,
        header: &Header,
        whole: impl FnOnce() -> Option<EntryView<'a>>,
    ) -> Result<u32> {
        let _guard = epoch::pin();
        let mut places = self.metadata.lock();
        let Some(place) = places.iter_mut().find(|place| place.location == location) else {
            return Ok(0);
        };
        let Some(entry) = whole() else {
            return Ok(0);
        };
        self.append_anew(*place, header, entry.body(), None, |new| *place = new)
    }

    /// Appends an entry anew, has `publish` put it in the place of `old`, and counts `old` as dead. Returns the span of the
    /// new entry. The caller holds the lock under which `old` is the current one.
    fn append_anew(
        &self,
        old: Appended,
        header: &Header,
        body: &[u8],
        group: Option<u64>,
        publish: impl FnOnce(Appended),
    ) -> Result<u32> {
        let new = self.log.append(Purpose::Defrag, *header, &[body], group)?;
        publish(new);
        self.log.release(old.location, old.units);
        Ok(new.units)
    }
}

/// What emptying a block is worth: the space it wins, for the longer the older the block is, by what it costs to read it
/// and to write what is live (cost-benefit cleaning: Rosenblum and Ousterhout, The Design and Implementation of a
/// Log-Structured File System, 1992).
fn merit_of(filled_units: u32, live_units: u32, age: u64) -> f64 {
    if live_units == 0 {
        // To win it costs nothing, not even room, which the others may need.
        return f64::INFINITY;
    }
    let live = (f64::from(live_units) / f64::from(filled_units.max(1))).min(1.0);
    (1.0 - live) * (age + 1) as f64 / (1.0 + live)
}
