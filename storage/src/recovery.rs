//! Finding out what is on the devices when there is no snapshot: every block in use is read, in parallel, and the newest
//! valid entry of each digest wins.

use crate::block::{BlockId, BlockState, BlockUse, Phase};
use crate::digest::{Digest, PARTITIONS};
use crate::entry::{Header, Kind, Lsn};
use crate::epoch;
use crate::error::{Error, Result};
use crate::group::{Groups, read_commit};
use crate::index::{Index, Slot};
use crate::location::{Location, UNIT_BYTES};
use crate::log::{Appended, Log, filler};
use crate::options::{Opening, OpeningProgress, OpeningStep};
use crate::scan::{Sighting, scan_block};
use crate::sets::{SETS_MAX, Sets};
use crate::sync::Mutex;
use crate::volume::{Extent, Volume};
use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

/// Entries a thread gathers before it enters them: 48 bytes each.
const GATHERED_MAX: usize = 2 << 20;

/// The metadata is stored in so many copies, lest one damaged entry cost every set its name.
pub(crate) const METADATA_COPIES: usize = 2;

/// A record's entry, or the damaged remains of one.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Found {
    digest: Digest,
    void_time: u32,
    location: Location,
    lsn: Lsn,
    units: u32,
    set_id: u16,
    tombstone: bool,
    damaged: bool,
}

impl Found {
    fn new(location: Location, header: &Header, damaged: bool) -> Self {
        Self {
            digest: header.digest,
            void_time: header.void_time,
            location,
            lsn: header.lsn,
            units: header.span_units,
            set_id: header.set_id,
            tombstone: header.kind == Kind::Tombstone,
            damaged,
        }
    }

    fn slot(&self) -> Slot {
        Slot {
            location: self.location,
            unverified: self.damaged,
            size_units: self.units,
            void_time: self.void_time,
            tombstone: self.tombstone,
            set_id: self.set_id,
        }
    }

    /// Newer wins; of two copies of one version, the whole one.
    fn rank(&self) -> (Lsn, bool) {
        (self.lsn, !self.damaged)
    }
}

/// What the scan has brought to light.
#[derive(Debug, Default)]
pub(crate) struct Recovered {
    pub(crate) last_lsn: u64,
    pub(crate) groups: Groups,
    pub(crate) metadata: Vec<Appended>,
    pub(crate) report: Opening,
}

#[derive(Debug, Default)]
struct Aside {
    grouped: Vec<(u64, Found)>,
    commits: Vec<(u64, u32, Appended)>,
    metadata: Vec<(Lsn, Appended, Vec<u8>)>,
    /// What damaged entries were: what lies on the device cannot be trusted to say.
    damaged: HashMap<Location, (Lsn, Digest)>,
    /// What holds no entry that counts (device, offset, bytes): to be closed, lest it be taken for one later.
    gaps: Vec<(usize, u64, u64)>,
    report: Opening,
    last_lsn: u64,
}

/// Reads all blocks of the volumes into the index and the sets, both empty. The phases of blocks are set. `repair` also
/// closes gaps with fillers, so that from then on a gap is damage, and writes flipped block headers anew.
pub(crate) fn recover(
    log: &Log,
    index: &Index,
    sets: &Sets,
    durable_lsn: u64,
    repair: bool,
    progress: &OpeningProgress,
) -> Result<Recovered> {
    let used = used_blocks(log.volumes(), repair);
    let sweep = Sweep {
        log,
        index,
        blocks: &used.blocks,
        durable_lsn,
        progress,
    };
    let mut aside = sweep.run(SETS_MAX as u16);
    let mut groups = settle_groups(log, index, &mut aside, durable_lsn);
    let metadata = restore_metadata(log, sets, &mut aside)?;
    if unknown_set(index, sets).is_some() {
        // Their set was noted before them, so they were never durable. What they superseded may be.
        let last_lsn = aside.last_lsn;
        (0..PARTITIONS).for_each(|partition| {
            index.lock_partition(partition).update_each(|_, _| false);
        });
        aside = sweep.run(sets.last_number());
        aside.last_lsn = last_lsn;
        groups = settle_groups(log, index, &mut aside, durable_lsn);
    }
    if let Some(set) = unknown_set(index, sets) {
        return Err(Error::DamagedMetadata {
            namespace: log.namespace().to_owned(),
            reason: format!("there are records of set number {set}, whose name is lost"),
        });
    }
    if repair {
        close_gaps(log, &aside.gaps);
    }
    let report = Opening {
        blocks: used.blocks.len() as u64,
        damaged_blocks: used.unreadable,
        ..aside.report
    };
    Ok(Recovered {
        last_lsn: aside.last_lsn.max(durable_lsn),
        groups,
        metadata,
        report,
    })
}

#[derive(Debug, Default)]
struct UsedBlocks {
    /// With their incarnations.
    blocks: Vec<(BlockId, u64)>,
    unreadable: u64,
}

fn used_blocks(volumes: &[Volume], repair: bool) -> UsedBlocks {
    let mut used = UsedBlocks::default();
    for volume in volumes {
        for (index, state) in (0..volume.allocated_blocks()).zip(volume.blocks()) {
            match volume.block_use(index) {
                BlockUse::Free => {}
                BlockUse::Used { header, intact } => {
                    if repair && !intact {
                        volume.write_block_header(&header);
                    }
                    state.begin(header.incarnation, Phase::Closed);
                    used.blocks
                        .push((volume.block_id(index), header.incarnation));
                }
                BlockUse::Unreadable => {
                    state.set_unreadable();
                    used.unreadable += 1;
                }
            }
        }
    }
    used
}

/// One reading of all blocks, in parallel.
#[derive(Debug)]
struct Sweep<'a> {
    log: &'a Log,
    index: &'a Index,
    blocks: &'a [(BlockId, u64)],
    durable_lsn: u64,
    progress: &'a OpeningProgress,
}

impl Sweep<'_> {
    /// Enters the newest entry of each record into the index; returns what has to be seen as a whole. Entries of sets
    /// with higher numbers than `last_set` count only if they were durable.
    fn run(&self, last_set: u16) -> Aside {
        let shared = Mutex::new(Aside::default());
        let next = AtomicUsize::new(0);
        let done = AtomicU64::new(0);
        let total = self.blocks.len();
        let threads = std::thread::available_parallelism()
            .map_or(1, usize::from)
            .min(total);
        std::thread::scope(|scope| {
            for _ in 0..threads {
                scope.spawn(|| {
                    let mut gatherer = Gatherer::new(self, &shared, last_set);
                    while let Some((id, life)) =
                        self.blocks.get(next.fetch_add(1, Ordering::Relaxed))
                    {
                        gatherer.read(*id, *life);
                        let done = done.fetch_add(1, Ordering::Relaxed) + 1;
                        self.progress.report(OpeningStep::Scan, done, total as u64);
                    }
                    gatherer.finish();
                });
            }
        });
        std::mem::take(&mut *shared.lock())
    }
}

/// One thread's gleanings, by partition.
struct Gatherer<'a> {
    sweep: &'a Sweep<'a>,
    shared: &'a Mutex<Aside>,
    last_set: u16,
    partitions: Vec<Vec<Found>>,
    gathered: usize,
    aside: Aside,
}

impl<'a> Gatherer<'a> {
    fn new(sweep: &'a Sweep<'a>, shared: &'a Mutex<Aside>, last_set: u16) -> Self {
        let partitions = (0..PARTITIONS).map(|_| Vec::new()).collect();
        Self {
            sweep,
            shared,
            last_set,
            partitions,
            gathered: 0,
            aside: Aside::default(),
        }
    }

    fn read(&mut self, id: BlockId, incarnation: u64) {
        let Some(volume) = self.sweep.log.volumes().get(id.device) else {
            return;
        };
        let durable_lsn = self.sweep.durable_lsn;
        scan_block(
            volume,
            id.index,
            incarnation,
            durable_lsn,
            |sighting| match sighting {
                Sighting::Entry { offset, header, .. }
                | Sighting::Damaged { offset, header, .. }
                    if header.set_id > self.last_set && header.lsn.0 > durable_lsn =>
                {
                    self.aside.gaps.push((
                        id.device,
                        offset,
                        u64::from(header.span_units) * UNIT_BYTES,
                    ));
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
                        Kind::Filler => {}
                        Kind::Metadata => {
                            self.aside
                                .metadata
                                .push((header.lsn, at, entry.body().to_vec()));
                        }
                        Kind::Commit => {
                            if let Some((group, members)) = read_commit(entry.body()) {
                                self.aside.commits.push((group, members, at));
                            }
                        }
                        Kind::Record | Kind::Tombstone => {
                            self.aside.report.entries += 1;
                            let found = Found::new(location, &header, false);
                            match entry.group() {
                                Some(group) => self.aside.grouped.push((group, found)),
                                None => self.gather(found),
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
                        let found = Found::new(location, &header, true);
                        self.aside
                            .damaged
                            .insert(location, (found.lsn, found.digest));
                        self.gather(found);
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
            },
        );
        if self.gathered >= GATHERED_MAX {
            self.enter_all();
        }
    }

    fn gather(&mut self, found: Found) {
        if let Some(partition) = self.partitions.get_mut(found.digest.partition()) {
            partition.push(found);
            self.gathered += 1;
        }
    }

    fn enter_all(&mut self) {
        self.shared
            .lock()
            .damaged
            .extend(self.aside.damaged.drain());
        for (number, found) in self.partitions.iter_mut().enumerate() {
            enter(self.sweep.index, self.sweep.log, self.shared, number, found);
            found.clear();
        }
        self.gathered = 0;
    }

    fn finish(mut self) {
        self.enter_all();
        let mut shared = self.shared.lock();
        shared.grouped.append(&mut self.aside.grouped);
        shared.commits.append(&mut self.aside.commits);
        shared.metadata.append(&mut self.aside.metadata);
        shared.gaps.append(&mut self.aside.gaps);
        shared.last_lsn = shared.last_lsn.max(self.aside.last_lsn);
        shared.report.entries += self.aside.report.entries;
        shared.report.damaged_entries += self.aside.report.damaged_entries;
        shared.report.unreadable_bytes += self.aside.report.unreadable_bytes;
    }
}

/// Enters the newest of what was found in one partition.
fn enter(
    index: &Index,
    log: &Log,
    shared: &Mutex<Aside>,
    partition: usize,
    found: &mut Vec<Found>,
) {
    if found.is_empty() {
        return;
    }
    found.sort_unstable_by_key(|found| {
        (
            found.digest.tag(),
            found.digest,
            std::cmp::Reverse(found.rank()),
        )
    });
    found.dedup_by_key(|found| found.digest);
    let guard = epoch::pin();
    let mut partition = index.lock_partition(partition);
    let mut fresh: Vec<(u32, Slot)> = Vec::with_capacity(found.len());
    let empty = partition.len() == 0;
    for found in found.iter() {
        let tag = found.digest.tag();
        let at = (!empty).then(|| {
            partition.find(tag, |slot| {
                if slot.unverified {
                    let of = shared
                        .lock()
                        .damaged
                        .get(&slot.location)
                        .map(|(_, digest)| *digest);
                    return of == Some(found.digest);
                }
                log.entry(slot.location, &guard)
                    .is_some_and(|entry| entry.has_digest(&found.digest))
            })
        });
        let Some(at) = at.flatten() else {
            fresh.push((tag, found.slot()));
            continue;
        };
        let present = partition.get(at);
        let lsn = if present.unverified {
            shared
                .lock()
                .damaged
                .get(&present.location)
                .map(|(lsn, _)| *lsn)
        } else {
            log.entry(present.location, &guard).map(|entry| entry.lsn())
        };
        if lsn.is_none_or(|lsn| found.rank() > (lsn, !present.unverified)) {
            partition.replace(at, found.slot());
        }
    }
    partition.insert_many(&mut fresh);
}

/// Enters the members of groups that are whole: those whose commit entry was durable, and younger ones that are all there.
fn settle_groups(log: &Log, index: &Index, aside: &mut Aside, durable_lsn: u64) -> Groups {
    let mut members: HashMap<u64, Vec<Found>> = HashMap::new();
    for (group, found) in aside.grouped.drain(..) {
        let members = members.entry(group).or_default();
        // Defragmentation may have been interrupted between a copy and the freeing of its original.
        if !members.iter().any(|known| known.lsn == found.lsn) {
            members.push(found);
        }
    }
    // The same holds for its commit entry.
    let mut commits: HashMap<u64, (u32, Vec<Appended>)> = HashMap::new();
    for (group, count, at) in aside.commits.drain(..) {
        commits
            .entry(group)
            .or_insert((count, Vec::new()))
            .1
            .push(at);
    }
    let mut whole = Vec::new();
    for (group, (count, copies)) in commits {
        let found = members.remove(&group).unwrap_or_default();
        match copies.first() {
            Some(at) if at.lsn.0 <= durable_lsn || found.len() as u32 == count => {
                whole.push((group, *at, found));
            }
            _ => {
                aside.report.rolled_back_groups += 1;
                // Once later entries are durable, a commit entry that stayed would be believed: it goes.
                aside.gaps.extend(copies.iter().map(|at| {
                    let bytes = u64::from(at.units) * UNIT_BYTES;
                    (at.location.device(), at.location.offset_bytes(), bytes)
                }));
            }
        }
    }
    // Members without a commit entry: a group that was cut off, or an old one whose members are all superseded.
    let cut_off = |found: &Vec<Found>| found.iter().any(|found| found.lsn.0 > durable_lsn);
    aside.report.rolled_back_groups +=
        members.values().filter(|found| cut_off(found)).count() as u64;
    let shared = Mutex::new(std::mem::take(aside));
    for (_, _, found) in &whole {
        for found in found {
            enter(
                index,
                log,
                &shared,
                found.digest.partition(),
                &mut vec![*found],
            );
        }
    }
    *aside = std::mem::take(&mut *shared.lock());
    let mut groups = Groups::default();
    for (group, commit, found) in whole {
        let current = found
            .iter()
            .filter(|found| is_current(index, found))
            .count();
        if current > 0 {
            groups.add(group, commit, current as u32);
        }
    }
    groups
}

fn is_current(index: &Index, found: &Found) -> bool {
    let partition = index.lock(&found.digest);
    partition
        .find(found.digest.tag(), |slot| slot.location == found.location)
        .is_some()
}

fn restore_metadata(log: &Log, sets: &Sets, aside: &mut Aside) -> Result<Vec<Appended>> {
    aside
        .metadata
        .sort_by_key(|(lsn, _, _)| std::cmp::Reverse(*lsn));
    let Some((_, _, newest)) = aside.metadata.first() else {
        return Ok(Vec::new());
    };
    sets.restore(newest)
        .map_err(|reason| Error::DamagedMetadata {
            namespace: log.namespace().to_owned(),
            reason,
        })?;
    Ok(aside
        .metadata
        .iter()
        .filter(|(_, _, copy)| copy == newest)
        .map(|(_, at, _)| *at)
        .collect())
}

/// A set of which there are records and which the metadata does not know.
fn unknown_set(index: &Index, sets: &Sets) -> Option<u16> {
    let last = sets.last_number();
    (0..PARTITIONS).find_map(|partition| {
        index
            .lock_partition(partition)
            .iter()
            .map(|(_, slot)| slot.set_id)
            .find(|set| *set > last)
    })
}

fn close_gaps(log: &Log, gaps: &[(usize, u64, u64)]) {
    for (device, offset, bytes) in gaps {
        let (Some(volume), true) = (
            log.volumes().get(*device),
            *bytes >= UNIT_BYTES * u64::from(Header::span_for(0)),
        ) else {
            continue;
        };
        let id = BlockId::containing(*device, *offset);
        let extent = Extent {
            location: Location::new(*device, *offset),
            units: (bytes / UNIT_BYTES) as u32,
            incarnation: volume.block(id.index).map_or(0, BlockState::incarnation),
        };
        volume.fill(&extent, &mut filler(), &[]);
    }
}

/// Counts what the index holds: live units of blocks and usage of sets. Runs once, after recovery or from a snapshot.
pub(crate) fn count_live(log: &Log, index: &Index, sets: &Sets) {
    for partition in 0..PARTITIONS {
        for (_, slot) in index.lock_partition(partition).iter() {
            log.count_live(slot.location, slot.size_units);
            if !slot.tombstone {
                sets.count(slot.set_id, 1, i64::from(slot.size_units));
            }
        }
    }
}
