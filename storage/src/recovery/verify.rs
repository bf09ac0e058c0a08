//! The offline check: every block, every entry, and whether the index snapshot agrees with the log.

use crate::core::Namespace;
use crate::device::damaged_parts;
use crate::digest::PARTITIONS;
use crate::entry::{ENTRY_HEADER_BYTES, EntryHeader, EntryKind, is_version};
use crate::epoch;
use crate::error::Result;
use crate::index::{DigestIndex, IndexSlot};
use crate::log::Log;
use crate::log::block::{BLOCK_HEADER_BYTES, BlockId};
use crate::log::block_walk::{BlockLife, BlockWalk};
use crate::log::chain::parts_of;
use crate::log::directory::SECTOR_BYTES;
use crate::options::{OpeningProgress, Options, Storage};
use crate::recovery::open::{log_of, open_read_only};
use crate::recovery::sighting::{Flaw, UsedBlock};
use crate::recovery::{recover, snapshot};
use crate::sets::Sets;

/// The most places of damage that are listed; all are counted.
const PLACES_MAX: usize = 100;

/// A place that is not as it was written.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub struct Damage {
    /// Number of the device in the namespace.
    pub device: usize,
    /// Offset in the device, in bytes.
    pub offset: u64,
    /// How many bytes.
    pub bytes: u64,
    /// A description.
    pub what: String,
}

/// What [`Namespace::verify`] found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub struct Verification {
    /// The namespace was closed cleanly.
    #[cfg_attr(feature = "serde", serde(rename = "clean_close"))]
    pub clean: bool,
    /// Blocks in use.
    pub blocks: u64,
    /// Valid entries, superseded ones included.
    pub entries: u64,
    /// Records that an opening would find.
    pub records: u64,
    /// Deleted records that are remembered.
    pub tombstones: u64,
    /// Headers of devices and blocks, and directories of blocks, with changed bytes. Each header
    /// has another copy, from which the next opening mends it; the entries of a block that has lost
    /// both are lost. Without its directory a block holds what it held, but damage to its entries
    /// could no longer be attributed.
    pub damaged_headers: u64,
    /// Entries with changed bytes, and with them a record, a group or the metadata.
    pub damaged_entries: u64,
    /// Damaged entries of which the record has a newer version that is whole. No record loses
    /// anything by them.
    pub leftover_entries: u64,
    /// Durable bytes that hold no entry any more. Never a write that a crash has torn.
    pub damaged_bytes: u64,
    /// Records about which snapshot and log disagree; 1 where the snapshot of a clean close is
    /// missing or damaged. 0 after any other end.
    pub index_disagreements: u64,
    /// The first places of damage.
    pub places: Vec<Damage>,
}

impl Verification {
    /// Whether anything is wrong.
    #[must_use]
    pub fn is_damaged(&self) -> bool {
        self.damaged_entries > 0
            || self.damaged_headers > 0
            || self.index_disagreements > 0
            || self.damaged_bytes > 0
    }

    /// Counts a header or a directory, and lists it.
    fn note_header(&mut self, device: usize, offset: u64, bytes: u64, what: String) {
        self.damaged_headers += 1;
        self.note(device, offset, bytes, what);
    }

    fn note(&mut self, device: usize, offset: u64, bytes: u64, what: String) {
        if self.places.len() < PLACES_MAX {
            self.places.push(Damage {
                device,
                offset,
                bytes,
                what,
            });
        }
    }
}

impl Namespace {
    /// Checks the files of a namespace that is not open, and changes nothing. Reads everything;
    /// takes the memory of two indexes.
    ///
    /// # Errors
    /// Devices that cannot be opened: locked, foreign, truncated, damaged in their headers.
    pub fn verify(options: &Options) -> Result<Verification> {
        options.check()?;
        let (devices, _) = open_read_only(options)?;
        let (log, known) = log_of(devices, options)?;
        let clean_close = Some(known.state.clean_close).filter(|id| *id != 0);
        let (index, sets) = (DigestIndex::new(), Sets::new());
        let mut recovered = recover(&log, &index, &sets, &known, &options.progress)?;
        recovered.enter_young(&log, &index);
        recovered.enter_lost(&log, &index);
        let mut found = Verification {
            clean: clean_close.is_some(),
            blocks: recovered.report.blocks,
            entries: recovered.whole,
            ..Verification::default()
        };
        for volume in log.volumes() {
            for (offset, bytes, what) in damaged_parts(volume.device().as_ref()) {
                let what = format!("{what}, changed since it was written");
                found.note_header(volume.number(), offset, bytes, what);
            }
        }
        let flaws = &mut recovered.flaws;
        flaws.sort_by_key(|(id, flaw)| (*id, flaw.offset()));
        for (id, flaw) in flaws {
            found.judge(&log, &index, *id, flaw);
        }
        let mut walk = BlockWalk::default();
        for UsedBlock {
            id,
            durable_entries,
            ..
        } in recovered.ends.iter().map(|end| end.block)
        {
            if let Some(volume) = log.volumes().get(id.device)
                && let Some(block) = volume.block(id.index)
                && let life = BlockLife::of(volume, id, block)
                && walk.lines_of(life, durable_entries).is_none()
            {
                let first = SECTOR_BYTES as u64;
                let what = format!(
                    "directory of block {}, changed since it was written",
                    id.index
                );
                found.note_header(id.device, life.end() - first, first, what);
            }
        }
        for partition in 0..PARTITIONS {
            let guard = epoch::pin();
            index.lock_partition(partition).update_each(|_, slot| {
                let entry = log
                    .entry(slot.location, &guard)
                    .filter(|_| !slot.tombstone && !slot.unverified);
                !entry.is_some_and(|entry| {
                    let entry = entry.view();
                    // An opening takes truncated records out of its index: they are no records here
                    // either.
                    sets.hides(slot.set_id, entry.lsn(), entry.last_update_ms())
                })
            });
            for (_, slot) in index.lock_partition(partition).iter() {
                *(if slot.tombstone {
                    &mut found.tombstones
                } else {
                    &mut found.records
                }) += 1;
            }
        }
        if let Some((id, Storage::Files { dir, .. })) = clean_close.zip(Some(&options.storage)) {
            let (claimed, sets) = (DigestIndex::new(), Sets::new());
            let quiet = OpeningProgress::default();
            match snapshot::read(dir, id, &log, &claimed, &sets, &quiet)? {
                Some(_) => found.compare(&log, &index, &claimed),
                None => {
                    let what = format!(
                        "{}: missing, or damaged; opening reads the log",
                        snapshot::FILE_NAME
                    );
                    found.places.push(Damage {
                        device: 0,
                        offset: 0,
                        bytes: 0,
                        what,
                    });
                    found.index_disagreements += 1;
                }
            }
        }
        Ok(found)
    }
}

impl Verification {
    fn judge(&mut self, log: &Log, index: &DigestIndex, id: BlockId, flaw: &Flaw) {
        let offset = flaw.offset();
        match flaw {
            Flaw::Entry { header, .. } if is_superseded(log, index, header) => {
                self.leftover_entries += 1;
            }
            Flaw::Entry { header, .. } => {
                self.damaged_entries += 1;
                let (kind, digest) = (header.kind, header.digest);
                let what = format!("{kind:?} of {digest}, changed since it was written");
                let bytes = ENTRY_HEADER_BYTES as u64 + u64::from(header.body_bytes);
                self.note(id.device, offset, bytes, what);
            }
            Flaw::Lost { line, .. } => {
                self.damaged_entries += 1;
                let what = format!("{:?} number {}, unreadable", line.kind, line.lsn.0);
                self.note(id.device, offset, 0, what);
            }
            Flaw::Bytes { bytes, unknown, .. } => {
                self.damaged_bytes += bytes;
                let what = if *unknown {
                    "no entry can be read here, and nobody can say whose they were"
                } else {
                    "no entry can be read here; the block's directory tells whose they were"
                };
                self.note(id.device, offset, *bytes, what.to_owned());
            }
            Flaw::Header { lost, .. } => {
                let what = if *lost {
                    "unreadable: what lies in the block is lost"
                } else {
                    "changed since it was written: its mirror holds"
                };
                let what = format!("header of block {}, {what}", id.index);
                self.note_header(id.device, offset, BLOCK_HEADER_BYTES, what);
            }
        }
    }

    /// Records are the same if their newest entries have one sequence number: of an entry that
    /// defragmentation has moved, the log may hold both copies.
    fn compare(&mut self, log: &Log, scanned: &DigestIndex, snapshot: &DigestIndex) {
        let guard = epoch::pin();
        for partition in 0..PARTITIONS {
            let versions = |index: &DigestIndex| -> Vec<_> {
                let version = |(tag, slot): (u32, IndexSlot)| {
                    let entry = log.entry(slot.location, &guard);
                    let whole = entry.filter(|entry| log.holds(slot.location, &entry.view()));
                    // Damage is damage, wherever it is.
                    let version = whole.map(|entry| entry.view().lsn());
                    (tag, slot.tombstone, version, slot.void_time, slot.set_id)
                };
                let mut versions: Vec<_> = index
                    .lock_partition(partition)
                    .iter()
                    .map(version)
                    .collect();
                versions.sort_unstable();
                versions
            };
            let (mut scanned, snapshot) = (versions(scanned), versions(snapshot));
            let unknown = missing(&snapshot, &scanned);
            // A tombstone that nothing depends on any more is forgotten long before its bytes are
            // overwritten.
            scanned.retain(|(_, tombstone, ..)| !tombstone);
            self.index_disagreements += unknown.max(missing(&scanned, &snapshot));
        }
    }
}

/// Whether a version of the record is whole that is as new as this entry, or newer.
fn is_superseded(log: &Log, index: &DigestIndex, header: &EntryHeader) -> bool {
    let guard = epoch::pin();
    let newer = |slot: &IndexSlot| {
        let entry = log.entry(slot.location, &guard);
        !slot.unverified
            && entry.is_some_and(|entry| {
                let entry = entry.view();
                // A chain needs the versions before.
                let is_whole = || parts_of(log.volumes(), slot.location, &guard).is_some();
                entry.has_digest(&header.digest)
                    && entry.lsn() >= header.lsn
                    && (!entry.kind_is(EntryKind::Delta) || is_whole())
            })
    };
    is_version(header.kind)
        && index
            .lock(&header.digest)
            .find(header.digest.tag(), newer)
            .is_some()
}

/// How many of `from` are not in `of`, which is sorted.
fn missing<T: Ord>(from: &[T], of: &[T]) -> u64 {
    from.iter()
        .filter(|one| of.binary_search(one).is_err())
        .count() as u64
}
