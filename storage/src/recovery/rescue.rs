//! Appending entries again that were not durable.
//!
//! Their pages may be in the system's memory alone, after a write-back that has failed, and are
//! then never written again: an opening must not call them durable. So the entries go to fresh
//! blocks, with their numbers. The old places end where their durable numbers end, and count until
//! the new ones are durable.

use crate::entry::{
    Appended, EntryHeader, EntryKind, FLAG_COPIED, FLAG_HAS_NEXT, FLAG_REAPPENDED, Lsn, is_version,
};
use crate::epoch;
use crate::error::{Error, Result};
use crate::image::ChainPart;
use crate::image::delta::{Delta, rebase};
use crate::index::DigestIndex;
use crate::location::{Location, UNIT_BYTES};
use crate::log::Log;
use crate::log::assembled::Assembled;
use crate::log::block::{BlockHeader, BlockId, BlockState, ENTRIES_AT, EndedBlock};
use crate::log::block_walk::BlockWalk;
use crate::log::chain::parts_of;
use crate::log::directory::{Directory, DirectoryLine, directory_bytes, identity_of, unit_of};
use crate::log::lane::LaneState;
use crate::log::staging::PAGE_BYTES;
use crate::log::volume::Volume;
use crate::recovery::block_reader::EndOfBlock;
use crate::recovery::recovered_entries::{Enterer, FoundEntry};
use crate::recovery::scan::scan_block;
use crate::recovery::young::Young;
use crate::recovery::{Recovered, chains};
use std::collections::{HashMap, HashSet};

/// How much is written at a time.
const BATCH_BYTES: u64 = 256 << 10;

/// Entries that are written together.
#[derive(Default)]
struct RescueBatch {
    headers: Vec<EntryHeader>,
    entries: Assembled,
    /// Where they are now.
    from: Vec<Location>,
    /// Identities of their records: a delta on one of them needs its new location.
    identities: HashSet<u64>,
}

/// An opening that appends entries again.
struct Rescue<'a> {
    log: &'a Log,
    index: &'a DigestIndex,
    recovered: &'a mut Recovered,
    young: Vec<Young>,
    /// How many of them have been written.
    written: usize,
    /// Of the groups up to this number all members are written, or were durable.
    whole_to: u64,
    /// A lane of its own: the staging memory of the others holds entries that are not rescued yet.
    lane: LaneState,
    batch: RescueBatch,
    /// Where entries were, and where they are.
    moved: HashMap<Location, Location>,
}

impl Recovered {
    /// Ends the blocks that were not closed, appends the young entries again, enters them into the
    /// index, and syncs.
    ///
    /// # Errors
    /// [`Error::NoSpace`] or [`Error::StopWrites`] if there is no room for them.
    pub(crate) fn rescue(&mut self, log: &Log, index: &DigestIndex) -> Result<()> {
        let mut young = std::mem::take(&mut self.young);
        if !self.sync_failed && self.ends.iter().all(|end| !end.is_new) && young.is_empty() {
            return Ok(());
        }
        young.extend(self.built_on(log, index, &young));
        young.sort_unstable_by_key(|young| young.lsn);
        // Before the first sync: its state names none of the old extents, and a block without an
        // end would count up to its last byte then.
        self.note_ends(log)?;
        if self.sync_failed {
            log.renew_free_blocks()?;
        }
        let last_lsn = self.last_lsn;
        let mut rescue = Rescue {
            log,
            index,
            recovered: self,
            young,
            written: 0,
            whole_to: log.syncer().durable_lsn(),
            lane: LaneState::new(0, None),
            batch: RescueBatch::default(),
            moved: HashMap::new(),
        };
        rescue.run()?;
        // Writing has set it back, batch by batch; the sync that follows calls all numbers durable.
        log.set_last_lsn(last_lsn);
        self.release_ends(log)
    }

    /// Notes in the headers of blocks where they end.
    fn note_ends(&self, log: &Log) -> Result<()> {
        let mut moved = self.ends.iter().filter(|end| !end.lines.is_empty());
        moved.try_for_each(|end| end.store(log))?;
        if self.ends.iter().any(|end| !end.lines.is_empty()) {
            // A header that names an end must not be on a device before all entries up to there.
            log.volumes().iter().try_for_each(Volume::sync)?;
        }
        self.ends.iter().try_for_each(|end| end.note(log))
    }

    /// Gives up the places behind the ends of blocks, once their entries are durable elsewhere.
    fn release_ends(&self, log: &Log) -> Result<()> {
        log.sync()?;
        // The second sync makes the state durable by which the new places count: until then a power
        // failure leaves the old ones.
        log.sync()?;
        for end in &self.ends {
            end.release_rest(log, self.sync_failed)?;
            if let Some(block) = log.block(end.block.id) {
                // Nothing is left in its staging memory that counts.
                block.set_all_flushed();
            }
        }
        let empty = self.ends.iter().filter(|end| end.end <= ENTRIES_AT);
        free(log, &empty.map(|end| end.block.id).collect::<Vec<_>>())
    }

    /// Ends the blocks that were not closed behind the young entries, which stay where they are,
    /// enters those into the index, and syncs. For an opening that has no room to append them
    /// again: a sync of the pages in which they were found does instead.
    ///
    /// # Errors
    /// [`Error::NoSpace`] after a failed sync, or if an entry builds on a version that a power
    /// failure has taken.
    pub(crate) fn adopt(
        &mut self,
        log: &Log,
        index: &DigestIndex,
        may_have_lost: bool,
    ) -> Result<()> {
        if self.sync_failed {
            return Err(log.no_space());
        }
        let mut stay: Vec<(Location, u64)> = Vec::with_capacity(self.young.len());
        let place = |part: &ChainPart| (part.location, u64::from(part.units) * UNIT_BYTES);
        let guard = epoch::pin();
        for young in &self.young {
            stay.push(young.place());
            if young.kind == EntryKind::Delta {
                // A base may be a copy that no sync has made durable.
                match parts_of(log.volumes(), young.location, &guard) {
                    Some(parts) => stay.extend(parts.iter().map(place)),
                    None if may_have_lost => return Err(log.no_space()),
                    None => {}
                }
            }
        }
        let own: HashSet<Location> = self.young.iter().map(|young| young.location).collect();
        for end in &mut self.ends {
            let before = end.end;
            end.extend_over(log, &stay);
            let start = end.block.id.offset_bytes();
            // A void entry holds nothing.
            let changes = end.lines_before(end.end);
            let changes = changes.filter(|(line, _)| line.kind != EntryKind::Void);
            let places = changes.map(|(_, at)| u64::from(*at) * UNIT_BYTES);
            let mut places = places.filter(|at| *at >= before);
            let device = end.block.id.device;
            // The base of a copy that no sync has made durable may be lost.
            if may_have_lost && places.any(|at| !own.contains(&Location::new(device, start + at))) {
                return Err(log.no_space());
            }
        }
        self.note_ends(log)?;
        self.release_ends(log)?;
        self.enter_young(log, index);
        self.young.clear();
        Ok(())
    }

    /// Returns the durable deltas of records that build on durable entries among the young: their
    /// bases move, so they are appended again, too.
    fn built_on(&self, log: &Log, index: &DigestIndex, young: &[Young]) -> Vec<Young> {
        let durable_lsn = log.syncer().durable_lsn();
        let bases = young
            .iter()
            .filter(|young| young.lsn.0 <= durable_lsn && is_version(young.kind));
        let bases: HashSet<Location> = bases.map(|young| young.location).collect();
        if bases.is_empty() {
            return Vec::new();
        }
        let guard = epoch::pin();
        let mut found = Vec::new();
        for chain in chains(log, index, &self.deltas) {
            let parts = chain.parts.iter().map(|part| part.location);
            let from_base = parts.skip_while(|location| !bases.contains(location));
            for location in from_base.filter(|location| !bases.contains(location)) {
                let entry = log.entry(location, &guard);
                let header = entry.and_then(|entry| EntryHeader::decode(entry.view().raw()));
                // The change feed has the original.
                let copied = header.map(|header| EntryHeader {
                    flags: header.flags | FLAG_COPIED,
                    ..header
                });
                found.extend(copied.map(|header| Young::new(location, &header, true)));
            }
        }
        found
    }
}

/// Whether an append was refused for want of space.
fn is_full(error: &Error) -> bool {
    matches!(error, Error::NoSpace { .. } | Error::StopWrites { .. })
}

/// Gives blocks back that hold nothing, once the next opening is sure to know that.
fn free(log: &Log, blocks: &[BlockId]) -> Result<()> {
    if blocks.is_empty() {
        return Ok(());
    }
    log.sync()?;
    log.note_all_free(blocks)?;
    blocks.iter().try_for_each(|id| log.give_back(*id))
}

impl EndOfBlock {
    /// Notes in the header of the block where it ends.
    fn note(&self, log: &Log) -> Result<()> {
        let id = self.block.id;
        let Some(volume) = log.volumes().get(id.device).filter(|_| self.is_new) else {
            return Ok(());
        };
        let ended = Some(EndedBlock {
            units: unit_of(self.end),
            entries: self.entries,
            last_lsn: self.last_lsn,
        });
        let header = self.block.header;
        volume.write_block_header(&BlockHeader { ended, ..header })?;
        if let Some(state) = volume.block(id.index) {
            state.set_ended(ended);
            let filled = unit_of(self.end.saturating_sub(ENTRIES_AT));
            state.note_closed(filled, header.sequence);
        }
        Ok(())
    }

    /// Gives the disk space back behind the end of the block: nothing counts there, and the file
    /// system may have given pages up that are used again later.
    fn release_rest(&self, log: &Log, sync_failed: bool) -> Result<()> {
        let id = self.block.id;
        let ended = log.block(id).and_then(BlockState::ended);
        let ended = ended.filter(|_| self.is_new || sync_failed);
        let Some((ended, volume)) = ended.zip(log.volumes().get(id.device)) else {
            return Ok(());
        };
        let from = (u64::from(ended.units) * UNIT_BYTES).next_multiple_of(PAGE_BYTES);
        let to = (id.bytes() - directory_bytes(ended.entries as usize)) / PAGE_BYTES * PAGE_BYTES;
        let bytes = to.saturating_sub(from);
        volume.device().release(id.offset_bytes() + from, bytes)?;
        if self.end <= ENTRIES_AT {
            log.renew_first_page(id)?;
        }
        Ok(())
    }
}

impl Rescue<'_> {
    fn run(&mut self) -> Result<()> {
        for number in 0..self.young.len() {
            if let Some(young) = self.young.get(number).copied() {
                self.append(&young)?;
            }
        }
        self.write()
    }

    fn append(&mut self, young: &Young) -> Result<()> {
        let guard = epoch::pin();
        let log = self.log;
        let entry = log.entry(young.location, &guard);
        let view = entry.as_ref().map(|entry| entry.view());
        let header = view.and_then(|view| Some((view, EntryHeader::decode(view.raw())?)));
        let Some((view, mut header)) = header.filter(|(view, _)| log.holds(young.location, view))
        else {
            return Err(Error::damaged_at(young.location));
        };
        let identity = identity_of(&header.digest);
        let is_full = self.batch.entries.bytes() + header.span_bytes() > BATCH_BYTES;
        if is_full || self.batch.identities.contains(&identity) {
            self.write()?;
        }
        let mut body = view.body();
        let moved;
        if header.kind == EntryKind::Delta
            && let Some(delta) = Delta::decode(body)
            && let Some(before) = self.location_of(&header, &delta)
        {
            moved = rebase(body, before);
            body = &moved;
        }
        // A copy goes on as one: its original was durable, so followers have it.
        header.flags |= if young.is_copy() {
            FLAG_COPIED
        } else {
            FLAG_REAPPENDED
        };
        let batch = &mut self.batch;
        batch
            .entries
            .push(&mut header, &[body], log.block_bytes())?;
        batch.headers.push(header);
        batch.from.push(young.location);
        batch.identities.insert(identity);
        Ok(())
    }

    /// Returns where the version is by now that a delta builds on. If it has not moved, the delta
    /// may name a copy that cleaning has made and no sync has made durable: the original counts.
    fn location_of(&self, of: &EntryHeader, delta: &Delta<'_>) -> Option<Location> {
        if let Some(moved) = self.moved.get(&delta.before) {
            return Some(*moved);
        }
        let guard = epoch::pin();
        let partition = self.index.lock(&of.digest);
        let at = partition.find(of.digest.tag(), |slot| {
            let entry = self.log.entry(slot.location, &guard);
            entry.is_some_and(|entry| {
                let view = entry.view();
                view.has_digest(&of.digest) && view.lsn() == delta.before_lsn
            })
        });
        at.map(|at| partition.get(at).location)
    }

    /// Writes the batch, and enters its entries.
    fn write(&mut self) -> Result<()> {
        match self.write_batch() {
            Err(full) if is_full(&full) => {
                self.make_room(full)?;
                self.write_batch()
            }
            written => written,
        }
    }

    fn write_batch(&mut self) -> Result<()> {
        let Some((first, last)) = self.batch.headers.first().zip(self.batch.headers.last()) else {
            return Ok(());
        };
        let (first, last) = (first.lsn.0, last.lsn.0);
        // No entry of a block that is closed for want of room has a higher number.
        self.log.set_last_lsn(first - 1);
        let batch = &mut self.batch;
        self.log.swap_open(&mut self.lane);
        let appended =
            self.log
                .append_rescued(&mut self.lane, &mut batch.headers, &mut batch.entries);
        // A sync names the block that was filled.
        self.log.swap_open(&mut self.lane);
        let location = appended?;
        self.log.set_last_lsn(last);
        self.written += self.batch.headers.len();
        let mut headers = self.batch.headers.iter().rev();
        if let Some(end) = headers.find(|header| header.flags & FLAG_HAS_NEXT == 0) {
            self.whole_to = self.whole_to.max(end.lsn.0);
        }
        // Not before it is appended: without room it is tried again.
        let batch = std::mem::take(&mut self.batch);
        // Every entry of the index is counted later.
        self.log.release(location, unit_of(batch.entries.bytes()));
        let mut enterer = Enterer::new(self.index, self.log, &self.recovered.damaged);
        let moved = Appended::side_by_side(location, &batch.headers);
        let entries = batch.headers.iter().zip(&batch.from);
        for ((header, from), to) in entries.zip(moved.map(|moved| moved.location)) {
            self.moved.insert(*from, to);
            if is_version(header.kind) {
                let found = FoundEntry::new(to, header, header.digest.as_bytes(), false);
                let mut partition = self.index.lock(&header.digest);
                let tag = header.digest.tag();
                match partition.find(tag, |slot| slot.location == *from) {
                    // A durable copy, of which the first place is given up.
                    Some(at) => partition.replace(at, found.slot()),
                    None => {
                        drop(partition);
                        enterer.enter_one(found);
                    }
                }
            }
            if header.kind == EntryKind::Delta {
                self.recovered.deltas.push((to, header.digest));
            }
            let places = self.recovered.metadata.iter_mut();
            for place in places.filter(|place| place.location == *from) {
                place.location = to;
            }
        }
        Ok(())
    }

    /// Gives blocks back of which nothing is needed any more: they hold no durable number, and all
    /// that counts in them is durable elsewhere. `full`: why.
    #[cold]
    fn make_room(&mut self, full: Error) -> Result<()> {
        // A sync calls whole groups durable, and the first places of the others count.
        let whole = (self.young).partition_point(|young| young.lsn.0 <= self.whole_to);
        let left = self.young.get(whole.min(self.written)..);
        let left = left.unwrap_or_default();
        let (volumes, guard) = (self.log.volumes(), epoch::pin());
        // Should it come to adopting them, their chains have to be there, too.
        let chains = left.iter().map(|young| young.location);
        let chains = chains.filter_map(|at| parts_of(volumes, at, &guard));
        let places = left.iter().map(|young| young.location);
        let places = places.chain(chains.flatten().map(|part| part.location));
        let needed: HashSet<BlockId> = places.map(|at| self.log.block_id_of(at)).collect();
        drop(guard);
        let is_gone = |end: &EndOfBlock| end.end <= ENTRIES_AT && !needed.contains(&end.block.id);
        let ends = &mut self.recovered.ends;
        let gone: Vec<EndOfBlock> = ends.extract_if(.., |end| is_gone(end)).collect();
        if gone.is_empty() {
            return Err(full);
        }
        self.log.set_last_lsn(self.whole_to);
        // Twice, as in `release_ends`: until the second is done, a power failure leaves the old
        // places.
        self.log.sync()?;
        self.log.sync()?;
        for end in &gone {
            end.release_rest(self.log, self.recovered.sync_failed)?;
        }
        free(
            self.log,
            &gone.iter().map(|end| end.block.id).collect::<Vec<_>>(),
        )
    }
}

impl EndOfBlock {
    /// Moves the end of the block behind the last of these entries in it.
    pub(crate) fn extend_over(&mut self, log: &Log, entries: &[(Location, u64)]) {
        let id = self.block.id;
        let in_block = entries.iter().filter(|(at, _)| id.holds(*at));
        let behind = in_block.map(|(at, bytes)| at.offset_bytes() + bytes - id.offset_bytes());
        let end = behind.max().unwrap_or_default();
        let Some(volume) = log.volumes().get(id.device).filter(|_| end > self.end) else {
            return;
        };
        let mut bytes = BlockWalk::default();
        self.lines = scan_block(volume, &self.block, log.staging(), &mut bytes, |_| {}).lines;
        self.end = end;
        self.entries = self.lines_before(end).count() as u32;
        let highest = self.lines_before(end).map(|(line, _)| line.lsn).max();
        self.last_lsn = self.last_lsn.max(highest.unwrap_or(Lsn(0)));
        self.is_new = true;
    }

    /// The lines of the entries that begin before this byte of the block.
    fn lines_before(&self, end: u64) -> impl Iterator<Item = &(DirectoryLine, u32)> {
        let begins_before = move |at: u32| u64::from(at) * UNIT_BYTES < end;
        (self.lines.iter()).filter(move |(_, at)| begins_before(*at))
    }

    /// Writes the bytes of the block up to its end that staging memory alone has, and the directory,
    /// if it has not all lines.
    fn store(&self, log: &Log) -> Result<()> {
        let id = self.block.id;
        let Some(volume) = log.volumes().get(id.device) else {
            return Ok(());
        };
        let (device, offset) = (volume.device(), id.offset_bytes());
        if let (Some((lane, start)), Some(from), Some(staging)) =
            (self.block.staged, self.staged_from, log.staging())
            && from < self.end
        {
            let bytes = staging.bytes(lane, from - start, self.end - start);
            // The disk space is there: it was reserved before the entries were staged.
            device.write(offset + from, bytes)?;
        }
        // Until a header that names this end is durable, and a state without the block's extent, the
        // next opening wants what the directory has now: the filler of a closed block, or the lines
        // of all entries up to the extent. So lines behind the end are written, too.
        let entries = Some(self.lines.len() as u32);
        let lines = BlockWalk::default().lines_of(self.block.life(volume), entries);
        if lines.is_some_and(|lines| lines.iter().eq(self.lines.iter().map(|(line, _)| line))) {
            return Ok(());
        }
        let mut directory = Directory::new(volume.place(self.block.header.incarnation, offset));
        for (line, at_units) in &self.lines {
            directory.push(*line, *at_units);
        }
        if let Some((from_end, bytes)) = directory.pending() {
            device.write(offset + id.bytes() - from_end, &bytes)?;
        }
        Ok(())
    }
}
