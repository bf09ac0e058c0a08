//! Defragmentation: the live entries of mostly dead blocks move to fresh ones, with their sequence
//! numbers, and the blocks are used again once no reader can see them and the versions that
//! superseded their entries are on stable storage.

use crate::core::defrag_state::{Defrag, Emptied};
use crate::core::{Core, CoreCounters};
use crate::entry::{Appended, EntryHeader, EntryKind, EntryView, Lsn, NewEntry};
use crate::epoch::{self, Guard};
use crate::error::{Error, Result};
use crate::index::{Candidate, IndexSlot};
use crate::location::{Location, UNIT_BYTES};
use crate::lock::HeldLocks;
use crate::log::block::{BlockId, BlockPhase, BlockState, ENTRIES_AT};
use crate::log::block_walk::{BlockLife, BlockWalk};
use crate::log::space::SpacePurpose;
use crate::log::volume::Volume;
use crate::maintenance::victims::Effort;

/// Prefetch distance, in entries, for index look-ups while a block is emptied.
const ENTRIES_AHEAD: usize = 16;

/// This many emptied blocks (512 MiB) share one checkpoint, or a quarter of the blocks in use if
/// that is less. Fewer do when space is short or the durability's own period is over.
const BLOCKS_A_CHECKPOINT: usize = 64;
const BLOCKS_A_CHECKPOINT_MIN: usize = 8;

impl Core {
    /// Has blocks tried again that could not be emptied: all, or only blocks with a record that was
    /// locked. Returns whether there is one.
    pub(crate) fn retry_stuck(&self, all: bool) -> bool {
        let is_tried = |block: &BlockState| block.is_stuck() && (all || !block.is_stuck_for_long());
        let tried = self.log.blocks().filter(|(_, block)| is_tried(block));
        tried.map(|(_, block)| block.retry()).count() > 0
    }

    /// Empties the block that is worth it most. Returns how many bytes were moved; `None` if no
    /// block is worth it. `bytes_max`: the most that may be moved.
    pub(crate) fn empty_next(&self, effort: Effort, bytes_max: u64) -> Result<Option<u64>> {
        let mut state = self.defrag.lock();
        self.check_open()?;
        self.log.check_writable(SpacePurpose::Defrag)?;
        loop {
            let Some(id) = state.next.pop() else {
                state.next = self.victims(effort, bytes_max);
                state.next.reverse();
                if state.next.is_empty() {
                    return Ok(None);
                }
                continue;
            };
            // Chosen a while ago: a follower may have begun in the block since.
            let closed =
                |block: &&BlockState| block.phase() == BlockPhase::Closed && !self.is_kept(block);
            let volume = self.log.volumes().get(id.device);
            if let Some(volume) = volume
                && let Some(block) = volume.block(id.index).filter(closed)
            {
                return self.empty_block(&mut state, volume, id, block).map(Some);
            }
        }
    }

    /// Moves the live entries of a closed block. Returns how many bytes were moved.
    fn empty_block(
        &self,
        state: &mut Defrag,
        volume: &Volume,
        id: BlockId,
        block: &BlockState,
    ) -> Result<u64> {
        let ready = self.lose_changes_of(block);
        if let Err(error) = ready.and_then(|()| self.await_durable(block)) {
            // Another block may need less.
            block.note_left(false);
            return match error {
                Error::NoSpace { .. } => Ok(0),
                error => Err(error),
            };
        }
        block.set_phase(BlockPhase::Draining);
        let life = BlockLife::of(volume, id, block);
        let drained = self.drain(life, &mut state.walk);
        let is_unreadable = state.walk.take_unreadable_bytes() > 0;
        let (moved, is_damaged) = match drained {
            Ok(drained) => drained,
            Err(error) => {
                block.set_phase(BlockPhase::Closed);
                // It was dearer than it looked; any other error may be gone at the next look.
                let is_dear = matches!(error, Error::NoSpace { .. });
                block.note_left(is_dear);
                return if is_dear { Ok(0) } else { Err(error) };
            }
        };
        if block.live_units() > 0 {
            block.set_phase(BlockPhase::Closed);
            block.note_left(is_damaged || is_unreadable);
            return Ok(moved);
        }
        state.emptied.push(Emptied {
            id,
            unseen: epoch::when_guards_have_left(),
            last_lsn: self.log.last_lsn(),
        });
        CoreCounters::add(&self.counters.defragmented_blocks, 1);
        Ok(moved)
    }

    /// Syncs unless all that was written to a block is on stable storage: no copy must outlive an
    /// original that a power failure takes.
    fn await_durable(&self, block: &BlockState) -> Result<()> {
        let (first, last) = block.change_lsns();
        // Of a block that an earlier opening has left the last number is not known, and all is
        // durable.
        let has_changes = first <= last && last < u64::MAX;
        if has_changes && last > self.log.syncer().durable_lsn() {
            self.log.sync()
        } else {
            Ok(())
        }
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
        // The versions that superseded the entries must be durable before they go, and that the
        // block is free before its bytes are: a block that recovery takes for one in use must hold
        // what it held. Copies count once the state of the device that names them is durable, which
        // takes a second sync.
        self.log.sync()?;
        self.log.sync()?;
        let durable_lsn = self.log.syncer().durable_lsn();
        let is_free =
            |emptied: &&Emptied| emptied.is_unseen(&self.log) && emptied.last_lsn <= durable_lsn;
        let free = state.emptied.iter().filter(is_free);
        let free: Vec<BlockId> = free.map(|emptied| emptied.id).collect();
        self.log.note_all_free(&free)?;
        for id in &free {
            self.log.give_back(*id)?;
            state.emptied.retain(|emptied| emptied.id != *id);
        }
        self.log.release_surplus(usize::MAX)?;
        Ok(free.len())
    }

    pub(crate) fn has_emptied(&self) -> bool {
        !self.defrag.lock().emptied.is_empty()
    }

    /// Returns how many bytes were moved, and whether entries stay because of damage.
    fn drain(&self, life: BlockLife<'_>, walk: &mut BlockWalk) -> Result<(u64, bool)> {
        let BlockLife { volume, id, .. } = life;
        let (mut moved, mut is_damaged) = (0, false);
        if life.state().is_none_or(|block| block.live_units() == 0) {
            return Ok((0, false));
        }
        let begun_at = Lsn(self.log.last_lsn());
        let at_device = |offset| Location::new(id.device, offset);
        // Large entries that are dead are not read.
        let is_wanted = |offset: u64, header: &EntryHeader| match header.kind {
            EntryKind::Record | EntryKind::Tombstone => {
                self.is_indexed(at_device(offset), header, &epoch::pin())
            }
            EntryKind::Metadata => true,
            EntryKind::Delta | EntryKind::Filler | EntryKind::Void => false,
        };
        let mut at = id.offset_bytes() + ENTRIES_AT;
        volume.prefetch_block(id.index);
        while at < life.end() {
            at = walk.read_piece(life, (at, life.end()), is_wanted);
            for (number, (offset, header)) in walk.entries().iter().enumerate() {
                // Most entries are dead, and finding that out is a cache miss in the index.
                if let Some((_, ahead)) = walk.entries().get(number + ENTRIES_AHEAD) {
                    self.index.at(&ahead.digest).prefetch(&epoch::pin());
                }
                let location = at_device(*offset);
                // A damaged entry stays where it is, and its block with it: it is evidence, and its
                // record must go on to say so. A copy would get a check that holds.
                let whole = || walk.whole_entry(*offset, header);
                let units = match header.kind {
                    EntryKind::Record | EntryKind::Tombstone | EntryKind::Delta => {
                        self.move_record(location, header, begun_at, whole)?
                    }
                    EntryKind::Metadata => self.move_metadata(location, header, begun_at, whole)?,
                    EntryKind::Filler | EntryKind::Void => Some(0),
                };
                is_damaged |= units.is_none();
                moved += u64::from(units.unwrap_or_default()) * UNIT_BYTES;
            }
        }
        walk.shrink();
        Ok((moved, is_damaged))
    }

    /// Whether the index has this entry, or had it a moment ago. Takes no lock, and looks at one
    /// line of the index.
    fn is_indexed(&self, location: Location, header: &EntryHeader, guard: &Guard) -> bool {
        let here = |candidate: Candidate| (candidate.location == location).then_some(());
        let probe = self.index.at(&header.digest);
        probe.lookup(guard, here).is_some()
    }

    /// Returns the units of the copy; `None`: the entry, or another one of its chain, is damaged.
    fn move_record<'a>(
        &self,
        location: Location,
        header: &EntryHeader,
        begun_at: Lsn,
        whole: impl FnOnce() -> Option<EntryView<'a>>,
    ) -> Result<Option<u32>> {
        // Like every writer: emptied blocks are not given back while one is under way.
        let guard = epoch::pin();
        let tag = header.digest.tag();
        let current = |slot: &IndexSlot| slot.location == location;
        let is_indexed = self.is_indexed(location, header, &guard);
        // Who has it locked may be writing a delta against it where it is, unless it waits for
        // space.
        let may_move =
            |held: &HeldLocks| !held.is_held(&header.digest) || held.is_resting(&header.digest);
        // Most are dead.
        let live = is_indexed.then(|| {
            let mut partition = self.index.lock(&header.digest);
            let may_move = may_move(partition.held());
            let at = partition.find(tag, current)?;
            Some((partition.get(at), may_move))
        });
        let live = live.flatten();
        let Some((old, is_free)) = live.filter(|_| header.kind != EntryKind::Delta) else {
            return self.fold_chain_with(location, header, begun_at);
        };
        if !is_free {
            return Ok(Some(0));
        }
        let Some(entry) = whole() else {
            CoreCounters::add(&self.counters.damaged, 1);
            return Ok(None);
        };
        let new = self.append_copy(header, entry.body(), begun_at)?;
        let replaced = {
            let mut partition = self.index.lock(&header.digest);
            let may_move = may_move(partition.held());
            let at = partition.find(tag, current).filter(|_| may_move);
            if let Some(at) = at {
                partition.update(at, |slot| {
                    (slot.location, slot.size_units) = (new.location, new.units);
                    slot.unverified = false;
                });
            }
            at.is_some()
        };
        if !replaced {
            self.log.release(new.location, new.units);
            return Ok(Some(0));
        }
        self.log.release(location, old.size_units);
        Ok(Some(new.units))
    }

    /// Appends a copy of an entry, with its number. Only durable entries are copied: a power
    /// failure must not take the original, and earlier versions, and leave the copy.
    fn append_copy(&self, header: &EntryHeader, body: &[u8], begun_at: Lsn) -> Result<Appended> {
        if header.lsn.0 > self.log.syncer().durable_lsn() {
            self.log.sync_to(begun_at)?;
        }
        let entry = NewEntry::new(header.copied(), None, body);
        self.log.append(SpacePurpose::Defrag, entry)
    }

    fn move_metadata<'a>(
        &self,
        location: Location,
        header: &EntryHeader,
        begun_at: Lsn,
        whole: impl FnOnce() -> Option<EntryView<'a>>,
    ) -> Result<Option<u32>> {
        let _guard = epoch::pin();
        let mut places = self.metadata.lock();
        let Some(place) = places.iter_mut().find(|place| place.location == location) else {
            return Ok(Some(0));
        };
        let Some(entry) = whole() else {
            return Ok(None);
        };
        let new = self.append_copy(header, entry.body(), begun_at)?;
        let old = std::mem::replace(place, new);
        self.log.release(old.location, old.units);
        Ok(Some(new.units))
    }
}

#[cfg(all(test, not(shuttle)))]
mod tests {
    use super::*;
    use crate::core::Namespace;
    use crate::device::{HEADER_BYTES, SMALL_BLOCK_BYTES};
    use crate::digest::Digest;
    use crate::options::{Options, Storage};
    use crate::record_lock::NewVersion;
    #[cfg(feature = "simulated")]
    use std::sync::Arc;

    fn digest(record: u32) -> Digest {
        let mut bytes = [0; Digest::LEN];
        bytes[..4].copy_from_slice(&record.wrapping_mul(0x9e37_79b9).to_le_bytes());
        Digest::new(bytes)
    }

    const BLOCKS: u64 = 10;
    const PAYLOAD: [u8; 16 << 10] = [1; 16 << 10];

    fn options(storage: Storage) -> Options {
        Options {
            background: false,
            write_lanes: 1,
            max_device_bytes: HEADER_BYTES + BLOCKS * SMALL_BLOCK_BYTES,
            ..Options::new("test", storage)
        }
    }

    fn open(storage: Storage) -> Namespace {
        Namespace::open(options(storage)).unwrap().0
    }

    const fn version(payload: &[u8]) -> NewVersion<'_> {
        NewVersion {
            generation: 1,
            void_time: 0,
            last_update_ms: 1,
            set_id: 0,
            key: None,
            payload,
        }
    }

    /// Of how many records each eighth one is left, in six blocks beside which there is none.
    fn fill(namespace: &Namespace) -> u32 {
        let version = version(&PAYLOAD);
        let lock = |record| namespace.lock(&digest(record), None).unwrap();
        // Five blocks and a part of a sixth.
        let records = (5 * SMALL_BLOCK_BYTES / PAYLOAD.len() as u64) as u32 + 10;
        for record in 0..records {
            lock(record).put(&version).unwrap();
        }
        let log = &namespace.core.log;
        let take = || log.space().take(log.volumes(), SpacePurpose::Defrag);
        while take().unwrap().is_some() {}
        assert_eq!(namespace.stats().available_blocks, 0);
        for record in (0..records).filter(|record| record % 8 > 0) {
            assert!(lock(record).delete(2).unwrap().is_some());
        }
        records
    }

    fn check(namespace: &Namespace, records: std::ops::Range<u32>) {
        for record in records {
            let found = namespace.get(&digest(record), |entry| entry.payload() == PAYLOAD);
            let expected = (record % 8 == 0).then_some(true);
            assert_eq!(found.unwrap(), expected, "record {record}");
        }
    }

    #[test]
    fn a_store_without_a_free_block_gets_well_by_the_room_in_open_blocks() {
        let namespace = open(Storage::Memory);
        let records = fill(&namespace);
        let before = namespace.stats().traffic;
        namespace.maintain().unwrap();
        let stats = namespace.stats();
        assert!(stats.traffic.moved_bytes > before.moved_bytes);
        // No writer has asked for the copies in its block.
        assert_eq!(stats.traffic.appended_bytes, before.appended_bytes);
        // All but the one that is being filled, and another one.
        assert!(stats.available_blocks >= 4, "{stats:?}");
        check(&namespace, 0..records);
    }

    /// A sync may note a number from before a write, and a length from after it.
    #[cfg(feature = "simulated")]
    #[test]
    fn copies_behind_a_write_that_is_not_durable_are_found_where_an_opening_moves_them() {
        use crate::device::header_of_small;
        use crate::device::{SimulatedDevice, read_state, write_state};
        let header = header_of_small(BLOCKS);
        let disk = Arc::new(SimulatedDevice::new(&header).unwrap());
        let namespace = open(Storage::Devices(vec![Arc::clone(&disk) as _]));
        let records = fill(&namespace);
        let lock = namespace.lock(&digest(0), None).unwrap();
        assert!(lock.delete(2).unwrap().is_some());
        let last = namespace.last_lsn().get();
        namespace.maintain().unwrap();
        namespace.sync().unwrap();
        assert!(namespace.stats().traffic.moved_bytes > 0);
        let killed = Arc::new(disk.kill().unwrap());
        let mut state = read_state(killed.as_ref()).unwrap();
        (state.durable_lsn, state.sequence) = (last - 1, state.sequence + 1);
        write_state(killed.as_ref(), &state).unwrap();
        let namespace = open(Storage::Devices(vec![killed]));
        check(&namespace, 1..records);
    }

    /// One left for a locked record would be tried again all the time while space is short.
    #[cfg(feature = "simulated")]
    #[test]
    fn a_block_with_a_chain_that_cannot_be_read_is_left_for_long() {
        use crate::device::{Device, SimulatedDevice, header_of_small};
        const MARK: &[u8] = b"the edit that cannot be read";
        let disk = Arc::new(SimulatedDevice::new(&header_of_small(BLOCKS)).unwrap());
        let (namespace, _) = Namespace::open(Options {
            image_bytes_max: 1,
            ..options(Storage::Devices(vec![Arc::clone(&disk) as _]))
        })
        .unwrap();
        let put = |record, mark: &[u8]| {
            let mut payload = PAYLOAD;
            payload[..mark.len()].copy_from_slice(mark);
            let lock = namespace.lock(&digest(record), None).unwrap();
            lock.put(&version(&payload)).unwrap();
        };
        // The image of a record goes with the next edit of another one.
        (1..=3).for_each(|record| put(record, &[]));
        (1..=3).for_each(|record| put(record, MARK));
        (4..200).for_each(|record| put(record, &[]));
        for record in 4..200 {
            let lock = namespace.lock(&digest(record), None).unwrap();
            assert!(lock.delete(2).unwrap().is_some());
        }
        namespace.sync().unwrap();
        let bytes = disk.snapshot_range(0..disk.len_bytes());
        let mark = bytes.windows(MARK.len()).position(|bytes| bytes == MARK);
        disk.invert_byte(mark.unwrap() as u64);
        namespace.maintain().unwrap();
        let stuck = namespace.core.log.blocks();
        assert_eq!(stuck.filter(|(_, block)| block.is_stuck()).count(), 1);
        assert!(!namespace.core.retry_stuck(false));
    }
}
