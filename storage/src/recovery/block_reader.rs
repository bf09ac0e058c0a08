//! One reading of all blocks, as quick as the devices are: a thread for each device reads ahead, from its first block to
//! its last, and the others judge the blocks that are in memory already.

use crate::device::ReadPattern;
use crate::digest::PARTITIONS;
use crate::index::Index;
use crate::location::{Location, UNIT_BYTES};
use crate::log::block::BlockId;
use crate::log::entry::{Kind, Lsn};
use crate::log::group::read_commit;
use crate::log::volume::Volume;
use crate::log::{Appended, Log};
use crate::options::{Opening, OpeningProgress, OpeningStep};
use crate::recovery::recovered_entries::{Damaged, Enterer, Found, Gleanings};
use crate::recovery::scan::{Sighting, scan_block};
use crate::sync::Mutex;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};

/// Entries a thread gathers, 40 bytes each, before it enters them by itself: so many, or a quarter of those that are in
/// the index, so that tables are not walked over more and more often as they grow.
const GATHERED_MIN: usize = 2 << 20;
const GATHERED_SHARE: u64 = 4;

/// Blocks that are in memory and not judged yet: more would not be quicker, and could drive each other out.
const BLOCKS_AHEAD: usize = 4;

/// Partitions that a thread enters at a time.
const PARTITIONS_A_STEP: usize = 64;

/// A block in use, and its life.
pub(crate) type UsedBlock = (BlockId, u64);

/// What has to be seen as a whole after all blocks were read.
#[derive(Debug, Default)]
pub(crate) struct Aside {
    pub(crate) grouped: Vec<(u64, Found)>,
    pub(crate) commits: Vec<(u64, u32, Appended)>,
    pub(crate) metadata: Vec<(Lsn, Appended, Vec<u8>)>,
    /// What holds no entry that counts (device, offset, bytes): to be closed, lest it be taken for one later.
    pub(crate) gaps: Vec<(usize, u64, u64)>,
    pub(crate) report: Opening,
    pub(crate) last_lsn: u64,
    /// No entry is of a set with a higher number.
    pub(crate) last_set: u16,
}

impl Aside {
    fn absorb(&mut self, mut other: Self) {
        self.grouped.append(&mut other.grouped);
        self.commits.append(&mut other.commits);
        self.metadata.append(&mut other.metadata);
        self.gaps.append(&mut other.gaps);
        self.last_lsn = self.last_lsn.max(other.last_lsn);
        self.last_set = self.last_set.max(other.last_set);
        self.report.entries += other.report.entries;
        self.report.damaged_entries += other.report.damaged_entries;
        self.report.unreadable_bytes += other.report.unreadable_bytes;
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
        let done = AtomicU64::new(0);
        let mut gleanings = Vec::new();
        std::thread::scope(|scope| {
            let (ready, to_judge) = sync_channel(BLOCKS_AHEAD);
            for volume in self.log.volumes() {
                let ready = ready.clone();
                scope.spawn(move || self.read_ahead(volume, &ready));
            }
            drop(ready);
            let to_judge = Arc::new(Mutex::new(to_judge));
            let judges: Vec<_> = (0..threads)
                .map(|_| {
                    let (to_judge, done) = (Arc::clone(&to_judge), &done);
                    scope.spawn(move || self.judge(&to_judge, last_set, done))
                })
                .collect();
            // The readers end when nobody is left to judge.
            drop(to_judge);
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
        for_all_partitions(threads, || {
            let mut enterer = Enterer::new(self.index, self.log, self.damaged);
            let gleanings = &gleanings;
            move |partition| enterer.enter(partition, gleanings)
        });
        aside
    }

    fn read_ahead(&self, volume: &Volume, ready: &SyncSender<UsedBlock>) {
        volume.device().expect_reads(ReadPattern::InOrder);
        let own = |(id, _): &&UsedBlock| id.device == volume.number();
        for block in self.blocks.iter().filter(own) {
            volume.touch_block(block.0.index);
            if ready.send(*block).is_err() {
                break;
            }
        }
        volume.device().expect_reads(ReadPattern::Scattered);
    }

    fn judge(
        &self,
        to_judge: &Mutex<Receiver<UsedBlock>>,
        last_set: u16,
        done: &AtomicU64,
    ) -> (Gleanings, Aside) {
        let mut judge = Judge {
            sweep: self,
            last_set,
            gleanings: Gleanings::new(),
            aside: Aside::default(),
        };
        loop {
            let next = to_judge.lock().recv();
            let Ok((id, life)) = next else {
                return (judge.gleanings, judge.aside);
            };
            judge.read(id, life);
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

/// Has so many threads go over all partitions, each with a visitor of its own.
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
    fn read(&mut self, id: BlockId, incarnation: u64) {
        let Some(volume) = self.sweep.log.volumes().get(id.device) else {
            return;
        };
        let durable_lsn = self.sweep.durable_lsn;
        scan_block(volume, id.index, incarnation, durable_lsn, |sighting| {
            self.see(id, sighting);
        });
    }

    fn see(&mut self, id: BlockId, sighting: Sighting<'_>) {
        let durable_lsn = self.sweep.durable_lsn;
        match sighting {
            Sighting::Entry { offset, header, .. } | Sighting::Damaged { offset, header, .. }
                if header.set_id > self.last_set && header.lsn.0 > durable_lsn =>
            {
                let bytes = u64::from(header.span_units) * UNIT_BYTES;
                self.aside.gaps.push((id.device, offset, bytes));
            }
            Sighting::Entry {
                offset,
                header,
                entry,
            } => {
                self.aside.last_lsn = self.aside.last_lsn.max(header.lsn.0);
                let location = Location::new(id.device, offset);
                let at = Appended {
                    location,
                    units: header.span_units,
                    lsn: header.lsn,
                };
                match header.kind {
                    Kind::Record | Kind::Tombstone => {
                        self.aside.report.entries += 1;
                        self.aside.last_set = self.aside.last_set.max(header.set_id);
                        let found = Found::new(location, header, entry.digest_bytes(), false);
                        match entry.group() {
                            Some(group) => self.aside.grouped.push((group, found)),
                            None => self.gleanings.add(found),
                        }
                    }
                    Kind::Filler => {}
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
                commit,
            } => {
                self.aside.report.damaged_entries += 1;
                self.aside.last_lsn = self.aside.last_lsn.max(header.lsn.0);
                let location = Location::new(id.device, offset);
                if matches!(header.kind, Kind::Record | Kind::Tombstone) {
                    self.aside.last_set = self.aside.last_set.max(header.set_id);
                    let found = Found::new(location, header, header.digest.as_bytes(), true);
                    self.sweep.damaged.note(&found);
                    self.gleanings.add(found);
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
            Sighting::Gap { offset, bytes } => {
                self.aside.report.unreadable_bytes += bytes;
                self.aside.gaps.push((id.device, offset, bytes));
            }
        }
    }
}
