//! Recovery of the devices' content without a snapshot: every block in use is read, in parallel,
//! and the newest valid entry of each digest wins.
//!
//! Read `open.rs` (what happens in which order), `scan.rs` (one block), `block_reader.rs` (all
//! blocks), `young.rs` (which entries count that were not durable), `recovered_entries.rs` (into
//! the index), `rescue.rs` (what an opening to write puts in order), `snapshot.rs`, `verify.rs`.

pub(crate) mod block_reader;
#[cfg(all(test, not(shuttle), feature = "simulated"))]
mod crafted_tests;
pub(crate) mod open;
pub(crate) mod recovered_entries;
pub(crate) mod rescue;
pub(crate) mod scan;
pub(crate) mod sighting;
pub(crate) mod snapshot;
pub(crate) mod verify;
pub(crate) mod young;

use crate::device::{DeviceState, DurableExtent};
use crate::digest::Digest;
use crate::entry::{Appended, EntryHeader, EntryKind, is_version, metadata_digest};
use crate::epoch;
use crate::error::{Error, Result};
use crate::index::{DigestIndex, SIZE_UNITS_MAX};
use crate::location::{Location, UNIT_BYTES};
use crate::log::Log;
use crate::log::block::{
    BlockHeader, BlockId, BlockPhase, BlockUse, ENTRIES_AT, HeaderCopy, can_hold,
};
use crate::log::chain::parts_of;
use crate::log::directory::{DirectoryLine, identity_of};
use crate::log::staging::Tenancy;
use crate::log::volume::Volume;
use crate::options::OpeningProgress;
pub(crate) use crate::recovery::block_reader::Recovered;
use crate::recovery::block_reader::{Sweep, for_all_partitions, lost_at};
use crate::recovery::recovered_entries::{Damaged, Enterer, FoundEntry};
use crate::recovery::sighting::{Chain, Flaw, UsedBlock};

pub(crate) use crate::recovery::sighting::KnownState;
use crate::recovery::young::Young;
use crate::sets::Sets;

/// Fewer records are counted before another thread has started.
const RECORDS_A_THREAD: u64 = 50_000;

/// How far sequence numbers skip ahead after a power failure: more than can have been given out and
/// lost.
const LSN_SKIP: u64 = 1 << 28;

impl Recovered {
    /// Enters the young entries into the index where they are: for an opening that writes nothing.
    pub(crate) fn enter_young(&mut self, log: &Log, index: &DigestIndex) {
        let mut enterer = Enterer::new(index, log, &self.damaged);
        let guard = epoch::pin();
        for young in self.young.iter().filter(|young| is_version(young.kind)) {
            let entry = log.entry(young.location, &guard);
            let Some(header) = entry.and_then(|entry| EntryHeader::decode(entry.view().raw()))
            else {
                continue;
            };
            let found = FoundEntry::new(young.location, &header, header.digest.as_bytes(), false);
            enterer.enter_one(found);
            if header.kind == EntryKind::Delta {
                self.deltas.push((young.location, header.digest));
            }
        }
        // Durable ones behind young ones are listed already.
        self.deltas.sort_unstable();
        self.deltas.dedup();
    }

    /// Has the records of lost entries answer with an error, unless newer versions are there. After
    /// all other entries.
    pub(crate) fn enter_lost(&self, log: &Log, index: &DigestIndex) {
        let enterer = Enterer::new(index, log, &self.damaged);
        for (location, line) in self.lost.iter().filter(|(_, line)| is_version(line.kind)) {
            enterer.enter_lost(lost_at(*location, line.lsn), line.identity);
        }
    }
}

/// Reads all blocks of the volumes into the index and the sets, both empty. The phases of blocks
/// are set. Nothing is written; [`Recovered::headers`] should be.
pub(crate) fn recover(
    log: &Log,
    index: &DigestIndex,
    sets: &Sets,
    known: &KnownState,
    progress: &OpeningProgress,
) -> Result<Recovered> {
    let used = used_blocks(log, known);
    let damaged = Damaged::default();
    let sweep = Sweep {
        log,
        index,
        damaged: &damaged,
        blocks: &used.blocks,
        known,
        progress,
    };
    let mut found = sweep.run();
    found.flaws.extend(used.flaws);
    let judged = young::judge(
        std::mem::take(&mut found.young),
        known.state.durable_lsn,
        known.may_have_lost,
    );
    if !judged.damaged.is_empty() {
        // Damage must be found again, so the block ends behind it.
        let damaged: Vec<_> = judged.damaged.iter().map(Young::place).collect();
        for end in &mut found.ends {
            end.extend_over(log, &damaged);
        }
    }
    found.lost.retain(|(_, line)| line.lsn < judged.cut);
    found.take_metadata(log, &judged.counted);
    found.metadata = restore_metadata(log, sets, &mut found)?;
    let last_set = judged.last_set().max(found.last_set);
    if last_set > sets.last_number() {
        return Err(Error::DamagedMetadata {
            namespace: log.namespace().to_owned(),
            reason: format!("there are records of set number {last_set}, whose name is lost"),
        });
    }
    let mut enterer = Enterer::new(index, log, &damaged);
    let young = found.damaged_young.iter();
    for found in young.filter(|found| found.lsn() < judged.cut) {
        damaged.note(found);
        enterer.enter_one(*found);
    }
    let report = &mut found.report;
    report.blocks = used.blocks.len() as u64;
    report.damaged_blocks = used.unreadable;
    report.rolled_back_groups = judged.cut_groups;
    report.entries += judged.counted.len() as u64;
    report.unknown_bytes += used.unreadable * log.block_bytes();
    report.damaged_bytes += used.unreadable * log.block_bytes();
    // The lost bytes were durable.
    let durable_lsn = known.state.durable_lsn;
    found.unknown_lsn = match (report.unknown_bytes, used.unreadable) {
        (0, _) => 0,
        (_, 0) => found.unknown_lsn.min(durable_lsn).max(1),
        _ => durable_lsn.max(1),
    };
    // The entries with the last durable numbers may be gone with their blocks.
    found.last_lsn = found.last_lsn.max(durable_lsn);
    if known.may_have_lost {
        // Followers may have seen numbers that are lost: they must not name other changes later.
        found.last_lsn += LSN_SKIP;
    }
    found.young = std::mem::take(&mut found.stranded);
    found.young.extend(judged.counted);
    Ok(Recovered {
        next_block: used.next_block,
        damaged,
        sync_failed: known.sync_failed,
        headers: used.headers,
        ..found
    })
}

/// Records with a delta as newest version. Damaged ones are left out: a read says so.
pub(crate) fn chains(log: &Log, index: &DigestIndex, deltas: &[(Location, Digest)]) -> Vec<Chain> {
    let mut chains = Vec::new();
    let guard = epoch::pin();
    for (location, digest) in deltas {
        let is_current = index
            .lock(digest)
            .find(digest.tag(), |slot| slot.location == *location)
            .is_some();
        if !is_current {
            continue;
        }
        if let Some(parts) = parts_of(log.volumes(), *location, &guard) {
            chains.push(Chain {
                digest: *digest,
                parts,
            });
        }
    }
    chains
}

/// Counts the entries of chains, of which the index knows the newest alone. After [`count_live`].
pub(crate) fn count_chains(log: &Log, index: &DigestIndex, sets: &Sets, chains: &[Chain]) {
    for Chain { digest, parts } in chains {
        let Some((newest, older)) = parts.split_last() else {
            continue;
        };
        let mut partition = index.lock(digest);
        let Some(at) = partition.find(digest.tag(), |slot| slot.location == newest.location) else {
            continue;
        };
        let units: u32 = parts.iter().map(|part| part.units).sum();
        // Edits that an opening has put behind folded ones may come to more than a slot can hold.
        let units = units.min(SIZE_UNITS_MAX);
        partition.update(at, |slot| slot.size_units = units);
        let older_units = i64::from(units) - i64::from(newest.units);
        sets.count(partition.get(at).set_id, 0, older_units);
        for part in older {
            log.count_live(part.location, part.units);
        }
        (2..=parts.len()).for_each(|count| log.chain_grew(parts.get(..count).unwrap_or_default()));
    }
}

#[derive(Debug, Default)]
struct UsedBlocks {
    blocks: Vec<UsedBlock>,
    /// Headers to be written anew: not the same in both copies, or not known to be durable. A
    /// header that was never durable must not be believed later, when younger blocks are.
    headers: Vec<BlockHeader>,
    flaws: Vec<(BlockId, Flaw)>,
    unreadable: u64,
    next_block: u64,
}

fn used_blocks(log: &Log, known: &KnownState) -> UsedBlocks {
    let mut used = UsedBlocks::default();
    let tenancies = log.staging().map(|staging| staging.tenancies());
    let tenancies = tenancies.unwrap_or_default();
    let mut all_free = Vec::new();
    let flawed = |id: BlockId, lost| {
        let offset = id.offset_bytes();
        (id, Flaw::Header { offset, lost })
    };
    let state = &known.state;
    used.next_block = state.next_block;
    for volume in log.volumes() {
        let reach = state.devices.get(volume.number());
        let known_used = reach.map_or(0, |reach| reach.used_blocks);
        let mut free = Vec::new();
        let reachable = volume.reachable_blocks();
        let count = volume.blocks().len() as u32;
        for (id, block) in volume.blocks() {
            let index = id.index;
            // The last block has its mirror in the first.
            if index > reachable && index + 1 < count {
                continue;
            }
            let is_known_used = index < known_used;
            let copies = volume.header_copies(index);
            let [own, mirror] = copies;
            for header in copies.iter().filter_map(HeaderCopy::header) {
                // One that was written after the last state has used its number up.
                used.next_block = used.next_block.max(header.sequence + 1);
            }
            if index >= reachable {
                // A power failure may have left a header, or its mirror, and not the block, which
                // counts for nothing, and must not count once the device is longer. No such block
                // is known to be used: the state that says so promises the device's length, too,
                // and a shorter device is refused.
                let is_free = |header: BlockHeader| header.incarnation == 0;
                let counts = |copy: &HeaderCopy| {
                    *copy != HeaderCopy::Blank && !copy.header().is_some_and(is_free)
                };
                if copies.iter().any(counts) {
                    free.push((volume, index, false));
                }
                continue;
            }
            let is_noted = |header: BlockHeader| {
                let whole = HeaderCopy::Header(header);
                // A header that a failed sync was to write may be in the system's memory alone.
                let is_written = header.sequence < state.next_block && !known.sync_failed;
                own == whole && mirror == whole && is_written
            };
            let header = match BlockUse::judge(own, mirror, state.next_block, is_known_used) {
                BlockUse::Free => {
                    if !own.header().is_some_and(is_noted) {
                        free.push((volume, index, own == HeaderCopy::Blank && mirror == own));
                    }
                    continue;
                }
                BlockUse::Unreadable => {
                    block.set_unreadable();
                    used.unreadable += 1;
                    used.flaws.push(flawed(id, true));
                    continue;
                }
                BlockUse::Used { header, intact } => {
                    // A failed sync may have cost a copy, which the next opening writes anew.
                    if !intact && !state.sync_failed {
                        used.flaws.push(flawed(id, false));
                    }
                    if !is_noted(header) {
                        used.headers.push(header);
                    }
                    header
                }
            };
            // Never open again: bytes behind its end may be torn, and each is written once in a
            // life.
            block.begin(&header, BlockPhase::Closed);
            let (durable_to, durable_entries) = durable_to(id, &header, state);
            used.blocks.push(UsedBlock {
                id,
                header,
                durable_to,
                durable_entries,
                staged: staged(&tenancies, volume, id, &header),
            });
        }
        // One that was never used counts as free without a header, but only behind all that are in
        // use.
        let last = (volume.blocks())
            .rposition(|(_, block)| block.phase() != BlockPhase::Free)
            .unwrap_or(0);
        free.retain(|(_, index, blank)| !blank || (*index as usize) < last);
        all_free.extend(free.into_iter().map(|(volume, index, _)| (volume, index)));
    }
    for (volume, index) in all_free {
        let free = BlockHeader::free(index, volume.device_id(), used.next_block);
        used.headers.push(free);
        used.next_block += 1;
    }
    used
}

/// How far a block was durable, in bytes from its start, and how many entries that has, unless it
/// is all of the block.
fn durable_to(id: BlockId, header: &BlockHeader, state: &DeviceState) -> (u64, Option<u32>) {
    let is_it = |extent: &&DurableExtent| {
        (usize::from(extent.device), extent.block) == (id.device, id.index)
            && extent.incarnation == header.incarnation
    };
    let extent = state.open.iter().find(is_it);
    let extent = extent.map(|extent| (extent.durable_units, extent.entries));
    let extent = extent.filter(|(units, entries)| can_hold(id.bytes(), *units, *entries));
    let ended = header.ended.map(|ended| (ended.units, ended.entries));
    // With both, an opening died before its state was durable. Behind the end that it has noted,
    // entries count up to the extent: their new places do not yet.
    match extent.or(ended) {
        Some((units, entries)) => (u64::from(units) * UNIT_BYTES, Some(entries)),
        None if header.sequence < state.next_block => (id.bytes(), None),
        None => (ENTRIES_AT, Some(0)),
    }
}

fn staged(
    tenancies: &[(usize, Tenancy)],
    volume: &Volume,
    id: BlockId,
    header: &BlockHeader,
) -> Option<(usize, u64)> {
    let (lane, tenancy) = tenancies.iter().find(|(_, tenancy)| {
        tenancy.block == (id.device, id.index)
            && tenancy.device_id == volume.device_id()
            && tenancy.incarnation == header.incarnation
    })?;
    Some((*lane, tenancy.start))
}

/// Restores sets and truncations from the newest metadata entry. An older one does not do: records
/// truncated after it would come back.
fn restore_metadata(log: &Log, sets: &Sets, found: &mut Recovered) -> Result<Vec<Appended>> {
    let refuse = |reason| Error::DamagedMetadata {
        namespace: log.namespace().to_owned(),
        reason,
    };
    let copies = &mut found.metadata_bodies;
    copies.sort_by_key(|(at, _)| std::cmp::Reverse(at.lsn));
    let is_metadata = |(_, line): &&(_, DirectoryLine)| line.kind == EntryKind::Metadata;
    // A lost copy of the same change does no harm.
    let newest = copies.first();
    let newest = newest.map(|(at, body)| (at.lsn, identity_of(&metadata_digest(body))));
    let is_newer = |line: &DirectoryLine| {
        newest.is_none_or(|(lsn, change)| line.lsn > lsn && line.identity != change)
    };
    let mut lost = found.lost.iter().filter(is_metadata);
    if lost.any(|(_, line)| is_newer(line)) {
        return Err(refuse(
            "its newest copies are damaged: names of sets, and truncations, may be missing in older ones".to_owned(),
        ));
    }
    let Some((_, newest)) = copies.first() else {
        return Ok(Vec::new());
    };
    sets.restore(newest).map_err(refuse)?;
    let copies = copies.iter().filter(|(_, copy)| copy == newest);
    Ok(copies.map(|(at, _)| *at).collect())
}

/// Counts from the index: live units of blocks and usage of sets. Runs once, after recovery or from
/// a snapshot.
pub(crate) fn count_live(log: &Log, index: &DigestIndex, sets: &Sets) {
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let threads = cores.min((index.len() / RECORDS_A_THREAD) as usize);
    for_all_partitions(threads, || {
        |partition| {
            // Records and units of the set of the last record, which is mostly that of the next
            // one, too.
            let mut of_set = (0, 0, 0);
            for (_, slot) in index.lock_partition(partition).iter() {
                log.count_live(slot.location, slot.size_units);
                if slot.tombstone {
                    continue;
                }
                if of_set.0 != slot.set_id {
                    let (set, records, units) = std::mem::replace(&mut of_set, (slot.set_id, 0, 0));
                    sets.count(set, records, units);
                }
                of_set.1 += 1;
                of_set.2 += i64::from(slot.size_units);
            }
            let (set, records, units) = of_set;
            sets.count(set, records, units);
        }
    });
}
