//! One reading of all blocks, by a thread for each core: what lies in them goes to the index, and aside what has to be seen
//! as a whole.

use crate::device::ReadPattern;
use crate::digest::{Digest, PARTITIONS};
use crate::image::delta::Delta;
use crate::index::Index;
use crate::location::{Location, UNIT_BYTES};
use crate::log::Log;
use crate::log::block::BlockId;
use crate::log::directory::Line;
use crate::log::entry::Appended;
use crate::log::entry::{EntryView, Kind, Lsn};
use crate::log::group::read_commit;
use crate::options::{Opening, OpeningProgress, OpeningStep};
use crate::recovery::block_bytes::BlockBytes;
use crate::recovery::recovered_entries::{Damaged, Enterer, Found, Gleanings};
use crate::recovery::scan::scan_block;
use crate::recovery::sighting::{BlockEnd, Sighting, UsedBlock};
use std::collections::HashSet;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

/// Entries of 40 bytes that a thread gathers before it enters them by itself: this many, or a quarter of those in the
/// index if that is more, so that tables are not walked over more and more often as they grow.
const GATHERED_MIN: usize = 2 << 20;
const GATHERED_SHARE: u64 = 4;

/// Prefetch distance, in blocks.
const BLOCKS_AHEAD: usize = 2;

/// Partitions that a thread enters at a time.
const PARTITIONS_A_STEP: usize = 64;

/// The span that is counted for an entry that is lost: the least one can have. It keeps its block in use.
const LOST_UNITS: u32 = 4;

/// A delta that was never durable: what it builds on may be lost.
#[derive(Debug)]
pub(crate) struct YoungDelta {
    pub(crate) location: Location,
    pub(crate) lsn: Lsn,
    /// The version before.
    pub(crate) before: (Location, Lsn),
    pub(crate) group: Option<u64>,
}

/// What has to be seen as a whole after all blocks were read.
#[derive(Debug, Default)]
pub(crate) struct Aside {
    pub(crate) grouped: Vec<(u64, Found)>,
    /// Members that are damaged: what they say of their group may be what is.
    pub(crate) damaged_members: Vec<(u64, Lsn)>,
    pub(crate) commits: Vec<(u64, u32, Appended)>,
    pub(crate) metadata: Vec<(Lsn, Appended, Vec<u8>)>,
    /// Entries that were durable and cannot be made out any more.
    pub(crate) lost: Vec<(Location, Line)>,
    /// Entries that do not count, since what they need was lost before it was durable: to be made void, lest they be
    /// taken for good later.
    pub(crate) voids: Vec<Location>,
    /// Deltas, and their records.
    pub(crate) deltas: Vec<(Location, Digest)>,
    /// Those that were never durable.
    pub(crate) young_deltas: Vec<YoungDelta>,
    /// How each block ends.
    pub(crate) ends: Vec<(BlockId, BlockEnd)>,
    pub(crate) report: Opening,
    pub(crate) last_lsn: u64,
    /// No lost entry of an unknown owner has a higher number. `u64::MAX` if the limit is unknown.
    pub(crate) unknown_lsn: u64,
    /// No entry is of a set with a higher number.
    pub(crate) last_set: u16,
}

impl Aside {
    fn absorb(&mut self, mut other: Self) {
        self.grouped.append(&mut other.grouped);
        self.damaged_members.append(&mut other.damaged_members);
        self.commits.append(&mut other.commits);
        self.metadata.append(&mut other.metadata);
        self.lost.append(&mut other.lost);
        self.voids.append(&mut other.voids);
        self.deltas.append(&mut other.deltas);
        self.young_deltas.append(&mut other.young_deltas);
        self.ends.append(&mut other.ends);
        self.last_lsn = self.last_lsn.max(other.last_lsn);
        self.unknown_lsn = self.unknown_lsn.max(other.unknown_lsn);
        self.last_set = self.last_set.max(other.last_set);
        self.report.entries += other.report.entries;
        self.report.damaged_entries += other.report.damaged_entries;
        self.report.damaged_bytes += other.report.damaged_bytes;
        self.report.unknown_bytes += other.report.unknown_bytes;
    }
}

/// One reading of all blocks.
#[derive(Debug)]
pub(crate) struct Sweep<'a> {
    pub(crate) log: &'a Log,
    pub(crate) index: &'a Index,
    pub(crate) damaged: &'a Damaged,
    pub(crate) blocks: &'a [UsedBlock],
    pub(crate) durable_lsn: u64,
    /// Entries that do not count, as an earlier reading has found.
    pub(crate) ignored: &'a HashSet<Location>,
    pub(crate) progress: &'a OpeningProgress,
}

impl Sweep<'_> {
    /// Enters the newest entry of each record into the index; returns what has to be seen as a whole. Entries of sets
    /// with higher numbers than `last_set` count only if they were durable.
    pub(crate) fn run(&self, last_set: u16) -> Aside {
        let mut aside = Aside::default();
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        let threads = cores.min(self.blocks.len());
        if threads == 0 {
            return aside;
        }
        let (next, done) = (AtomicUsize::new(0), AtomicU64::new(0));
        let mut gleanings = Vec::new();
        self.expect_reads(ReadPattern::InOrder);
        std::thread::scope(|scope| {
            let judges: Vec<_> = (0..threads)
                .map(|_| scope.spawn(|| self.judge(&next, last_set, &done)))
                .collect();
            for judge in judges {
                match judge.join() {
                    Ok((gleaned, seen)) => {
                        gleanings.push(gleaned);
                        aside.absorb(seen);
                    }
                    Err(panic) => std::panic::resume_unwind(panic),
                }
            }
        });
        self.expect_reads(ReadPattern::Scattered);
        for_all_partitions(threads, || {
            let mut enterer = Enterer::new(self.index, self.log, self.damaged);
            let gleanings = &gleanings;
            move |partition| enterer.enter(partition, gleanings)
        });
        aside
    }

    fn expect_reads(&self, pattern: ReadPattern) {
        for volume in self.log.volumes() {
            volume.device().expect_reads(pattern);
        }
    }

    fn judge(&self, next: &AtomicUsize, last_set: u16, done: &AtomicU64) -> (Gleanings, Aside) {
        let mut judge = Judge {
            sweep: self,
            last_set,
            gleanings: Gleanings::new(),
            aside: Aside::default(),
        };
        let mut bytes = BlockBytes::new();
        loop {
            let number = next.fetch_add(1, Ordering::Relaxed);
            let Some(block) = self.blocks.get(number) else {
                return (judge.gleanings, judge.aside);
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
            scope.spawn(work);
        }
        work();
    });
}

/// One thread that judges what lies in blocks.
struct Judge<'a> {
    sweep: &'a Sweep<'a>,
    last_set: u16,
    gleanings: Gleanings,
    aside: Aside,
}

impl Judge<'_> {
    fn read(&mut self, block: &UsedBlock, bytes: &mut BlockBytes) {
        let Some(volume) = self.sweep.log.volumes().get(block.id.device) else {
            return;
        };
        let (staging, durable_lsn) = (self.sweep.log.staging(), self.sweep.durable_lsn);
        let end = scan_block(volume, block, staging, durable_lsn, bytes, |sighting| {
            self.see(block, sighting);
        });
        if let (Some(at), Some((lane, start))) = (end.staged_from, block.staged)
            && let (Some(state), Some(staging)) = (volume.block(block.id.index), staging)
        {
            // Until it is on the device, it is read where it is.
            let address = staging.address(lane).wrapping_sub(start as usize);
            state.stage((at / UNIT_BYTES) as u32, address);
        }
        if let Some(state) = volume.block(block.id.index).filter(|_| end.sealed) {
            let filled = end.end.saturating_sub(block.format.entries_at());
            state.note_closed((filled / UNIT_BYTES) as u32, block.sequence);
        }
        if end.unknown {
            let last_lsn = match end.last_lsn {
                0 => u64::MAX,
                last_lsn => last_lsn,
            };
            self.aside.unknown_lsn = self.aside.unknown_lsn.max(last_lsn);
        }
        self.aside.ends.push((block.id, end));
    }

    /// Notes what a delta builds on, if that may be lost.
    fn note_young(&mut self, location: Location, entry: &EntryView<'_>) {
        let is_young = entry.lsn().0 > self.sweep.durable_lsn;
        if let Some(delta) = Delta::decode(entry.record_body()).filter(|_| is_young) {
            self.aside.young_deltas.push(YoungDelta {
                location,
                lsn: entry.lsn(),
                before: (delta.before, delta.before_lsn),
                group: entry.group(),
            });
        }
    }

    fn see(&mut self, block: &UsedBlock, sighting: Sighting<'_>) {
        let device = block.id.device;
        let durable_lsn = self.sweep.durable_lsn;
        match sighting {
            Sighting::Entry { offset, header, .. } | Sighting::Damaged { offset, header, .. }
                if (header.set_id > self.last_set && header.lsn.0 > durable_lsn)
                    || self.sweep.ignored.contains(&Location::new(device, offset)) =>
            {
                self.aside.last_lsn = self.aside.last_lsn.max(header.lsn.0);
                self.aside.voids.push(Location::new(device, offset));
            }
            Sighting::Entry {
                offset,
                header,
                entry,
            } => {
                self.aside.last_lsn = self.aside.last_lsn.max(header.lsn.0);
                let location = Location::new(device, offset);
                let at = Appended {
                    location,
                    units: header.span_units,
                    lsn: header.lsn,
                };
                match header.kind {
                    Kind::Record | Kind::Tombstone | Kind::Delta => {
                        if header.kind == Kind::Delta {
                            self.aside.deltas.push((location, header.digest));
                            self.note_young(location, &entry);
                        }
                        self.aside.report.entries += 1;
                        self.aside.last_set = self.aside.last_set.max(header.set_id);
                        let found = Found::new(location, header, entry.digest_bytes(), false);
                        match entry.group() {
                            Some(group) => self.aside.grouped.push((group, found)),
                            None => self.gleanings.add(found),
                        }
                    }
                    Kind::Filler | Kind::Void => {}
                    Kind::Metadata => {
                        let body = entry.body().to_vec();
                        self.aside.metadata.push((header.lsn, at, body));
                    }
                    Kind::Commit => {
                        if let Some((group, members)) = read_commit(entry.body()) {
                            self.aside.commits.push((group, members, at));
                        }
                    }
                }
            }
            Sighting::Damaged {
                offset,
                header,
                group,
                commit,
            } => {
                self.aside.report.damaged_entries += 1;
                self.aside.last_lsn = self.aside.last_lsn.max(header.lsn.0);
                let location = Location::new(device, offset);
                if is_version(header.kind) {
                    self.aside.last_set = self.aside.last_set.max(header.set_id);
                    let found = Found::new(location, header, header.digest.as_bytes(), true);
                    self.sweep.damaged.note(&found);
                    self.gleanings.add(found);
                    let member = group.map(|group| (group, header.lsn));
                    self.aside.damaged_members.extend(member);
                }
                if let Some((group, members)) = commit {
                    let at = Appended {
                        location,
                        units: header.span_units,
                        lsn: header.lsn,
                    };
                    self.aside.commits.push((group, members, at));
                }
            }
            Sighting::Lost { offset, line } => {
                self.aside.report.damaged_entries += 1;
                self.aside.last_lsn = self.aside.last_lsn.max(line.lsn.0);
                self.aside.lost.push((Location::new(device, offset), line));
            }
            Sighting::Damage { bytes, unknown, .. } => {
                self.aside.report.damaged_bytes += bytes;
                if unknown {
                    self.aside.report.unknown_bytes += bytes;
                    // The block is never emptied: with it, what is known of the loss would go.
                    let volume = self.sweep.log.volumes().get(device);
                    if let Some(state) = volume.and_then(|volume| volume.block(block.id.index)) {
                        state.add_live(LOST_UNITS);
                    }
                }
            }
        }
    }
}

/// Whether an entry of this kind is a version of a record.
pub(crate) const fn is_version(kind: Kind) -> bool {
    matches!(kind, Kind::Record | Kind::Tombstone | Kind::Delta)
}

/// A lost entry as it is counted: it takes the least an entry can take, at an offset of its own in the damaged bytes.
pub(crate) fn lost_at(location: Location, lsn: Lsn) -> Appended {
    Appended {
        location,
        units: LOST_UNITS,
        lsn,
    }
}
