//! Finding out what is on the devices when there is no snapshot: every block in use is read, in parallel, and the newest
//! valid entry of each digest wins.

pub(crate) mod block_reader;
pub(crate) mod open;
pub(crate) mod recovered_entries;
pub(crate) mod scan;
pub(crate) mod snapshot;
pub(crate) mod verify;

use crate::digest::PARTITIONS;
use crate::error::{Error, Result};
use crate::index::{Index, Slot};
use crate::location::{Location, UNIT_BYTES};
use crate::log::block::{BlockId, BlockState, BlockUse, Phase};
use crate::log::entry::Header;
use crate::log::group::Groups;
use crate::log::volume::{Extent, Volume};
use crate::log::{Appended, Log, filler};
use crate::options::{Opening, OpeningProgress};
use crate::recovery::block_reader::{Aside, Sweep, UsedBlock, for_all_partitions};
use crate::recovery::recovered_entries::{Damaged, Enterer, Found};
use crate::sets::{SETS_MAX, Sets};
use std::collections::HashMap;

/// The metadata is stored in so many copies, lest one damaged entry cost every set its name.
pub(crate) const METADATA_COPIES: usize = 2;

/// Fewer records are counted before another thread has started.
const RECORDS_A_THREAD: u64 = 50_000;

/// What the scan has brought to light.
#[derive(Debug, Default)]
pub(crate) struct Recovered {
    pub(crate) last_lsn: u64,
    pub(crate) groups: Groups,
    pub(crate) metadata: Vec<Appended>,
    pub(crate) report: Opening,
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
    let damaged = Damaged::default();
    let sweep = Sweep {
        log,
        index,
        damaged: &damaged,
        blocks: &used.blocks,
        durable_lsn,
        progress,
    };
    let mut aside = sweep.run(SETS_MAX as u16);
    let mut groups = settle_groups(log, index, &damaged, &mut aside, durable_lsn);
    let metadata = restore_metadata(log, sets, &mut aside)?;
    if unknown_set(index, sets, aside.last_set).is_some() {
        // Their set was noted before them, so they were never durable. What they superseded may be.
        let last_lsn = aside.last_lsn;
        (0..PARTITIONS).for_each(|partition| {
            index.lock_partition(partition).update_each(|_, _| false);
        });
        aside = sweep.run(sets.last_number());
        aside.last_lsn = last_lsn;
        groups = settle_groups(log, index, &damaged, &mut aside, durable_lsn);
    }
    if let Some(set) = unknown_set(index, sets, aside.last_set) {
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
    blocks: Vec<UsedBlock>,
    unreadable: u64,
}

fn used_blocks(volumes: &[Volume], repair: bool) -> UsedBlocks {
    let mut used = UsedBlocks::default();
    for volume in volumes {
        volume.prefetch_block_headers();
        for (index, state) in (0..volume.allocated_blocks()).zip(volume.blocks()) {
            match volume.peek_block_use(index) {
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

/// Enters the members of groups that are whole: those whose commit entry was durable, and younger ones that are all there.
fn settle_groups(
    log: &Log,
    index: &Index,
    damaged: &Damaged,
    aside: &mut Aside,
    durable_lsn: u64,
) -> Groups {
    let mut members: HashMap<u64, Vec<Found>> = HashMap::new();
    for (group, found) in aside.grouped.drain(..) {
        let members = members.entry(group).or_default();
        // Defragmentation may have been interrupted between a copy and the freeing of its original.
        if !members.iter().any(|known| known.lsn() == found.lsn()) {
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
    let cut_off = |found: &Vec<Found>| found.iter().any(|found| found.lsn().0 > durable_lsn);
    aside.report.rolled_back_groups +=
        members.values().filter(|found| cut_off(found)).count() as u64;
    let mut enterer = Enterer::new(index, log, damaged);
    for (_, _, found) in &whole {
        found.iter().for_each(|found| enterer.enter_one(*found));
    }
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
    let partition = index.lock(&found.digest());
    let location = found.slot().location;
    partition
        .find(found.digest().tag(), |slot| slot.location == location)
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

/// A set of which there are records and which the metadata does not know. `last_seen`: none has a higher number.
fn unknown_set(index: &Index, sets: &Sets, last_seen: u16) -> Option<u16> {
    let last = sets.last_number();
    if last_seen <= last {
        return None;
    }
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
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let threads = cores.min((index.len() / RECORDS_A_THREAD) as usize);
    for_all_partitions(threads, || {
        let mut tally = Tally::new(log, sets);
        move |partition| {
            for (_, slot) in index.lock_partition(partition).iter() {
                tally.add(&slot);
            }
        }
    });
}

/// What one thread has counted. Sums of its own, since the counters themselves are shared: they are added at the end.
struct Tally<'a> {
    log: &'a Log,
    sets: &'a Sets,
    /// Units by device and block.
    blocks: Vec<Vec<u32>>,
    /// Records and units of the set of the last record, which is mostly that of the next one, too.
    set: (u16, i64, i64),
}

impl<'a> Tally<'a> {
    fn new(log: &'a Log, sets: &'a Sets) -> Self {
        let blocks = log.volumes().iter();
        Self {
            log,
            sets,
            blocks: blocks
                .map(|volume| vec![0; volume.allocated_blocks() as usize])
                .collect(),
            set: (0, 0, 0),
        }
    }

    fn add(&mut self, slot: &Slot) {
        let id = BlockId::containing(slot.location.device(), slot.location.offset_bytes());
        let blocks = self.blocks.get_mut(id.device);
        if let Some(units) = blocks.and_then(|blocks| blocks.get_mut(id.index as usize)) {
            *units += slot.size_units;
        }
        if slot.tombstone {
            return;
        }
        if self.set.0 != slot.set_id {
            self.add_set();
            self.set = (slot.set_id, 0, 0);
        }
        self.set.1 += 1;
        self.set.2 += i64::from(slot.size_units);
    }

    fn add_set(&self) {
        let (set, records, units) = self.set;
        self.sets.count(set, records, units);
    }
}

impl Drop for Tally<'_> {
    fn drop(&mut self) {
        self.add_set();
        for (volume, blocks) in self.log.volumes().iter().zip(&self.blocks) {
            for (block, units) in volume.blocks().iter().zip(blocks) {
                if *units > 0 {
                    block.add_live(*units);
                }
            }
        }
    }
}
