//! One reading of all blocks, by a thread for each core: durable versions go to the index, and
//! aside everything that has to be judged as a whole.

use crate::digest::{Digest, PARTITIONS};
use crate::entry::{
    Appended, EntryHeader, EntryKind, EntryView, FLAG_COPIED, FLAG_REAPPENDED, Lsn, is_version,
};
use crate::epoch;
use crate::index::DigestIndex;
use crate::location::{Location, UNIT_BYTES};
use crate::log::Log;
use crate::log::block::{BlockHeader, BlockId, ENTRIES_AT};
use crate::log::block_walk::BlockWalk;
use crate::log::directory::DirectoryLine;
use crate::log::volume::Volume;
use crate::options::{Opening, OpeningProgress, OpeningStep};
use crate::recovery::recovered_entries::{Damaged, Enterer, FoundEntry, Gleanings};
use crate::recovery::scan::scan_block;
use crate::recovery::sighting::{BlockEnd, Chain, Flaw, KnownState, Sighting, UsedBlock};
use crate::recovery::young::Young;
use crate::stats::Traffic;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::thread::Builder;

/// Entries of 40 bytes that a thread gathers before it enters them by itself: this many, or a
/// quarter of the entries in the index if that is more, so that tables are not walked over more and
/// more often as they grow.
const GATHERED_MIN: usize = 2 << 20;
const GATHERED_SHARE: u64 = 4;

/// Prefetch distance, in blocks.
const BLOCKS_AHEAD: usize = 2;

/// Partitions that a thread enters at a time.
const PARTITIONS_A_STEP: usize = 64;

/// The span that is counted for an entry that is lost: the least one can have. It keeps its block
/// in use.
const LOST_UNITS: u32 = 4;

/// The findings of an opening that reads the log, or the index snapshot.
#[derive(Debug, Default)]
pub(crate) struct Recovered {
    pub(crate) last_lsn: u64,
    /// No lost entry of an unknown owner has a higher number; 0 if no such entry is lost.
    pub(crate) unknown_lsn: u64,
    pub(crate) next_block: u64,
    /// No durable entry is of a set with a higher number.
    pub(super) last_set: u16,
    /// The copies of the metadata that count.
    pub(crate) metadata: Vec<Appended>,
    /// All copies, and what they say.
    pub(super) metadata_bodies: Vec<(Appended, Vec<u8>)>,
    pub(crate) report: Opening,
    /// As of [`KnownState`].
    pub(crate) sync_failed: bool,
    /// Of each block that was read, where its durable numbers end.
    pub(crate) ends: Vec<EndOfBlock>,
    /// Entries to be appended again: durable ones behind the end of their block, and entries that
    /// were not durable and count.
    pub(crate) young: Vec<Young>,
    /// Durable entries behind young ones of their block.
    pub(super) stranded: Vec<Young>,
    /// Versions among the young with changed bytes.
    pub(super) damaged_young: Vec<FoundEntry>,
    pub(crate) damaged: Damaged,
    /// Deltas that were durable, and their records.
    pub(crate) deltas: Vec<(Location, Digest)>,
    /// Entries that cannot be made out any more.
    pub(super) lost: Vec<(Location, DirectoryLine)>,
    /// The damage of each block, and the number of whole entries, those included that do not count:
    /// for [`Namespace::verify`](crate::Namespace::verify).
    pub(crate) flaws: Vec<(BlockId, Flaw)>,
    pub(crate) whole: u64,
    /// Headers of blocks to be written anew: not the same in both copies, or not known to be
    /// durable.
    pub(crate) headers: Vec<BlockHeader>,
    /// Of the snapshot: the number up to which all was durable, the traffic of earlier openings,
    /// the notes of the observer, and the records with chains of deltas.
    pub(crate) durable_lsn: u64,
    pub(crate) traffic: Traffic,
    pub(crate) notes: Vec<u8>,
    pub(crate) chains: Option<Vec<Chain>>,
}

/// Where the durable numbers of a block end.
#[derive(Clone, Debug)]
pub(crate) struct EndOfBlock {
    pub(crate) block: UsedBlock,
    /// From the start of the block, in bytes.
    pub(crate) end: u64,
    /// How many entries are before it.
    pub(crate) entries: u32,
    /// None of them has a higher number.
    pub(crate) last_lsn: Lsn,
    /// From here on staging memory has the entries alone.
    pub(crate) staged_from: Option<u64>,
    /// Whether its header has to say so.
    pub(crate) is_new: bool,
    /// Where the end was moved over entries that were not durable: the lines of all entries that
    /// were found, those behind it included.
    pub(crate) lines: Vec<(DirectoryLine, u32)>,
}

impl Recovered {
    fn absorb(&mut self, mut other: Self) {
        self.young.append(&mut other.young);
        self.stranded.append(&mut other.stranded);
        self.damaged_young.append(&mut other.damaged_young);
        self.metadata_bodies.append(&mut other.metadata_bodies);
        self.lost.append(&mut other.lost);
        self.flaws.append(&mut other.flaws);
        self.whole += other.whole;
        self.deltas.append(&mut other.deltas);
        self.ends.append(&mut other.ends);
        self.last_lsn = self.last_lsn.max(other.last_lsn);
        self.unknown_lsn = self.unknown_lsn.max(other.unknown_lsn);
        self.last_set = self.last_set.max(other.last_set);
        self.report.entries += other.report.entries;
        self.report.damaged_entries += other.report.damaged_entries;
        self.report.damaged_bytes += other.report.damaged_bytes;
        self.report.unknown_bytes += other.report.unknown_bytes;
    }

    /// Adds the metadata that was not durable and counts.
    pub(crate) fn take_metadata(&mut self, log: &Log, counted: &[Young]) {
        let guard = epoch::pin();
        for young in counted
            .iter()
            .filter(|young| young.kind == EntryKind::Metadata)
        {
            if let Some(entry) = log.entry(young.location, &guard) {
                let view = entry.view();
                let at = Appended {
                    location: young.location,
                    units: view.span_units(),
                    lsn: young.lsn,
                };
                self.metadata_bodies.push((at, view.body().to_vec()));
            }
        }
    }
}

/// One reading of all blocks.
#[derive(Debug)]
pub(crate) struct Sweep<'a> {
    pub(crate) log: &'a Log,
    pub(crate) index: &'a DigestIndex,
    pub(crate) damaged: &'a Damaged,
    pub(crate) blocks: &'a [UsedBlock],
    pub(crate) known: &'a KnownState,
    pub(crate) progress: &'a OpeningProgress,
}

impl Sweep<'_> {
    /// Enters the newest durable entry of each record into the index; returns the findings that are
    /// judged as a whole.
    pub(crate) fn run(&self) -> Recovered {
        let mut found = Recovered::default();
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        let threads = cores.min(self.blocks.len());
        if threads == 0 {
            return found;
        }
        let (next, done) = (AtomicUsize::new(0), AtomicU64::new(0));
        let mut gleanings = Vec::new();
        std::thread::scope(|scope| {
            let work = || self.judge(&next, &done);
            // Where the system refuses a thread, this one does its work.
            let judges = (1..threads).map(|_| Builder::new().spawn_scoped(scope, work));
            let judges: Vec<_> = judges.filter_map(Result::ok).collect();
            let mut note = |(gleaned, seen)| {
                gleanings.push(gleaned);
                found.absorb(seen);
            };
            note(work());
            for judge in judges {
                match judge.join() {
                    Ok(judged) => note(judged),
                    Err(panic) => std::panic::resume_unwind(panic),
                }
            }
        });
        for_all_partitions(threads, || {
            let mut enterer = Enterer::new(self.index, self.log, self.damaged);
            let gleanings = &gleanings;
            move |partition| enterer.enter(partition, gleanings)
        });
        found
    }

    fn judge(&self, next: &AtomicUsize, done: &AtomicU64) -> (Gleanings, Recovered) {
        let mut judge = Judge {
            sweep: self,
            gleanings: Gleanings::new(),
            found: Recovered::default(),
            young_at: u64::MAX,
        };
        let mut bytes = BlockWalk::default();
        loop {
            let number = next.fetch_add(1, Ordering::Relaxed);
            let Some(block) = self.blocks.get(number) else {
                return (judge.gleanings, judge.found);
            };
            if let Some(ahead) = self.blocks.get(number + BLOCKS_AHEAD)
                && let Some(volume) = self.log.volumes().get(ahead.id.device)
            {
                volume.prefetch_block(ahead.id.index);
            }
            judge.read(block, &mut bytes);
            let limit = GATHERED_MIN.max((self.index.len() / GATHERED_SHARE) as usize);
            if judge.gleanings.len() >= limit {
                let gleaned = std::mem::replace(&mut judge.gleanings, Gleanings::new());
                let mut enterer = Enterer::new(self.index, self.log, self.damaged);
                (0..PARTITIONS)
                    .for_each(|number| enterer.enter(number, std::slice::from_ref(&gleaned)));
            }
            let done = done.fetch_add(1, Ordering::Relaxed) + 1;
            let total = self.blocks.len() as u64;
            self.progress.report(OpeningStep::Scan, done, total);
        }
    }
}

/// Visits all partitions with `threads` threads, each with a visitor of its own.
pub(crate) fn for_all_partitions<V: FnMut(usize)>(threads: usize, visitor: impl Fn() -> V + Sync) {
    let next = AtomicUsize::new(0);
    let work = || {
        let mut visit = visitor();
        loop {
            let from = next.fetch_add(PARTITIONS_A_STEP, Ordering::Relaxed);
            if from >= PARTITIONS {
                return;
            }
            (from..PARTITIONS.min(from + PARTITIONS_A_STEP)).for_each(&mut visit);
        }
    };
    std::thread::scope(|scope| {
        for _ in 1..threads {
            let _ = Builder::new().spawn_scoped(scope, work);
        }
        work();
    });
}

/// One thread that judges the entries of blocks.
struct Judge<'a> {
    sweep: &'a Sweep<'a>,
    gleanings: Gleanings,
    found: Recovered,
    /// The offset in the device of the block's first entry that was not durable, or does not count.
    young_at: u64,
}

/// The standing of an entry, by the last sync.
#[derive(Clone, Copy, PartialEq, Eq)]
enum SyncStanding {
    Durable,
    /// It was appended after the last sync.
    Young,
    /// Another entry with its number counts, or none.
    Void,
}

impl Judge<'_> {
    fn read(&mut self, block: &UsedBlock, bytes: &mut BlockWalk) {
        let Some(volume) = self.sweep.log.volumes().get(block.id.device) else {
            return;
        };
        self.young_at = u64::MAX;
        let staging = self.sweep.log.staging();
        let end = scan_block(volume, block, staging, bytes, |sighting| {
            self.see(block, sighting);
        });
        if let (Some(at), Some((lane, start))) = (end.staged_from, block.staged)
            && let (Some(state), Some(staging)) = (volume.block(block.id.index), staging)
        {
            // It is read where it is.
            let address = staging.address(lane).wrapping_sub(start as usize);
            state.stage((at / UNIT_BYTES) as u32, address);
        }
        if end.unknown {
            let last_lsn = match end.last_lsn {
                0 => u64::MAX,
                last_lsn => last_lsn,
            };
            self.found.unknown_lsn = self.found.unknown_lsn.max(last_lsn);
        }
        self.note_end(volume, block, &end);
    }

    fn note_end(&mut self, volume: &Volume, block: &UsedBlock, scanned: &BlockEnd) {
        let offset = block.id.offset_bytes();
        let is_cut = self.young_at != u64::MAX;
        // At the first entry that was not durable: the ones behind it, durable or not, move.
        let end = scanned.end.min(self.young_at.saturating_sub(offset));
        if let Some(state) = volume.block(block.id.index) {
            let filled = end.saturating_sub(ENTRIES_AT) / UNIT_BYTES;
            state.note_closed(filled as u32, block.header.sequence);
        }
        let lines = scanned.lines.iter();
        let before_end = lines.filter(|(_, at_units)| u64::from(*at_units) * UNIT_BYTES < end);
        let is_new = match block.header.ended {
            // An opening that was interrupted may have ended it behind entries that do not count.
            Some(ended) => end < u64::from(ended.units) * UNIT_BYTES,
            None => is_cut || block.durable_entries.is_some(),
        };
        self.found.ends.push(EndOfBlock {
            block: *block,
            end,
            entries: before_end.count() as u32,
            last_lsn: Lsn(self.sweep.known.state.durable_lsn),
            staged_from: scanned.staged_from,
            is_new,
            lines: Vec::new(),
        });
    }

    fn standing(&self, block: &UsedBlock, offset: u64, lsn: Lsn, flags: u8) -> SyncStanding {
        let known = self.sweep.known;
        let was_durable = lsn.0 <= known.state.durable_lsn;
        let has_original = flags & (FLAG_COPIED | FLAG_REAPPENDED) != 0;
        if offset < block.id.offset_bytes() + block.durable_to {
            match (was_durable, has_original) {
                (true, _) => SyncStanding::Durable,
                // The original goes when the state of the device is durable that calls the number
                // durable.
                (false, true) => SyncStanding::Void,
                (false, false) => SyncStanding::Young,
            }
        } else if has_original || was_durable {
            // Behind the end of its block, an entry with a durable number was appended again.
            SyncStanding::Void
        } else {
            SyncStanding::Young
        }
    }

    fn see(&mut self, block: &UsedBlock, sighting: Sighting<'_>) {
        let device = block.id.device;
        match sighting {
            Sighting::Entry {
                offset,
                header,
                entry,
            } => {
                self.found.whole += 1;
                self.found.last_lsn = self.found.last_lsn.max(header.last_number());
                let location = Location::new(device, offset);
                match self.standing(block, offset, header.lsn, header.flags) {
                    SyncStanding::Durable => {
                        if offset > self.young_at {
                            // Cleaning has gone on in the block of a writer, which ends before it.
                            let stranded = Young::new(location, header, true);
                            self.found.stranded.push(stranded);
                        }
                        self.enter(location, header, &entry);
                    }
                    SyncStanding::Young => {
                        self.young_at = self.young_at.min(offset);
                        self.found.young.push(Young::new(location, header, true));
                    }
                    // No entry that an opening has appended again before it died may count later.
                    SyncStanding::Void
                        if header.flags & FLAG_REAPPENDED == 0
                            && offset < block.id.offset_bytes() + block.durable_to => {}
                    SyncStanding::Void => self.young_at = self.young_at.min(offset),
                }
            }
            Sighting::Damage(flaw) => {
                self.found.flaws.push((block.id, flaw));
                self.see_flaw(block, flaw);
            }
        }
    }

    fn see_flaw(&mut self, block: &UsedBlock, flaw: Flaw) {
        let device = block.id.device;
        match flaw {
            Flaw::Entry { offset, header } => {
                self.found.report.damaged_entries += 1;
                self.found.last_lsn = self.found.last_lsn.max(header.last_number());
                let location = Location::new(device, offset);
                let standing = self.standing(block, offset, header.lsn, header.flags);
                if header.kind == EntryKind::Metadata && standing != SyncStanding::Void {
                    // An older copy must not replace it.
                    self.found.lost.push((location, DirectoryLine::of(&header)));
                }
                if standing == SyncStanding::Young {
                    self.young_at = self.young_at.min(offset);
                    self.found.young.push(Young::new(location, &header, false));
                }
                if is_version(header.kind) {
                    let found = FoundEntry::new(location, &header, header.digest.as_bytes(), true);
                    match standing {
                        SyncStanding::Durable => {
                            self.found.last_set = self.found.last_set.max(header.set_id);
                            self.sweep.damaged.note(&found);
                            self.gleanings.add(found);
                        }
                        SyncStanding::Young => self.found.damaged_young.push(found),
                        SyncStanding::Void => {}
                    }
                }
            }
            Flaw::Lost { offset, line } => {
                self.found.report.damaged_entries += 1;
                self.found.last_lsn = self.found.last_lsn.max(line.lsn.0);
                let location = Location::new(device, offset);
                // It was there: its number is not a missing one, at which a power failure would cut
                // the log.
                if line.lsn.0 > self.sweep.known.state.durable_lsn {
                    self.young_at = self.young_at.min(offset);
                    self.found
                        .young
                        .push(Young::lost(location, &line, LOST_UNITS));
                }
                self.found.lost.push((location, line));
            }
            Flaw::Bytes { bytes, unknown, .. } => {
                self.found.report.damaged_bytes += bytes;
                if unknown {
                    self.found.report.unknown_bytes += bytes;
                    // The block is never emptied: with it, the record of the loss would go.
                    let volume = self.sweep.log.volumes().get(device);
                    if let Some(state) = volume.and_then(|volume| volume.block(block.id.index)) {
                        state.add_live(LOST_UNITS);
                    }
                }
            }
            Flaw::Header { .. } => {}
        }
    }

    /// Takes an entry that was durable.
    fn enter(&mut self, location: Location, header: &EntryHeader, entry: &EntryView<'_>) {
        match header.kind {
            EntryKind::Record | EntryKind::Tombstone | EntryKind::Delta => {
                if header.kind == EntryKind::Delta {
                    self.found.deltas.push((location, header.digest));
                }
                self.found.report.entries += 1;
                self.found.last_set = self.found.last_set.max(header.set_id);
                let found = FoundEntry::new(location, header, entry.digest_bytes(), false);
                self.gleanings.add(found);
            }
            EntryKind::Metadata => {
                let at = Appended::new(location, header);
                let body = entry.body().to_vec();
                self.found.metadata_bodies.push((at, body));
            }
            EntryKind::Filler | EntryKind::Void => {}
        }
    }
}

/// A lost entry as it is counted: it takes the least an entry can take, at an offset of its own in
/// the damaged bytes.
pub(crate) fn lost_at(location: Location, lsn: Lsn) -> Appended {
    Appended {
        location,
        units: LOST_UNITS,
        lsn,
    }
}
