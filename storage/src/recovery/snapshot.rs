//! The index snapshot of a clean close: a file beside the devices, good for one opening.
//!
//! ```text
//! "SPKX" | u32 version (2) | u64 id | u64 last log sequence number | u64 durable log sequence number
//! u64 next block sequence | u64 requested, appended, moved bytes
//! u32 metadata length, metadata | u32 n, n * place | u32 length, notes of the observer
//! u32 blocks in use, each (u8 device, u32 block, u64 incarnation, u64 sequence, u32 filled units, 2 * u64 where an
//!   opening has ended it, u8 1: cleaning has filled it)
//! u32 chains of deltas, each (digest, u16 entries, each (u64 location, u32 units))
//! u32 partitions that hold something, each (u32 number, u32 n, n * (u64 head, u64 tail))
//! u64 xxh3_64 of everything before
//! place: u64 location, u32 units, u64 log sequence number
//! ```

use crate::core::Core;
use crate::digest::{Digest, PARTITIONS};
use crate::entry::Appended;
use crate::entry::Lsn;
use crate::epoch;
use crate::error::{Error, Result};
use crate::image::Part;
use crate::index::{Index, Slot};
use crate::location::Location;
use crate::log::Log;
use crate::log::block::{BlockHeader, EndedBlock, Phase};
use crate::options::{OpeningProgress, OpeningStep};
use crate::recovery::Chain;
use crate::recovery::snapshot_reader::SnapshotReader;
use crate::sets::Sets;
use crate::stats::Traffic;
use crate::sync::atomic::Ordering;
use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::Path;
use xxhash_rust::xxh3::Xxh3;

const MAGIC: &[u8; 4] = b"SPKX";
const VERSION: u32 = 2;

/// Slots of a partition that are entered at once: 3 MiB of memory.
const SLOTS_AT_ONCE: usize = 64 << 10;

/// More than the metadata of all sets that there can be.
const METADATA_BYTES_MAX: usize = 4 << 20;
const NOTES_BYTES_MAX: usize = 64 << 10;

/// The name of the file in the namespace's directory.
pub(crate) const FILE_NAME: &str = "index.snapshot";

/// The content of a snapshot beside the index and the sets.
#[derive(Debug, Default)]
pub(crate) struct Restored {
    pub(crate) last_lsn: u64,
    pub(crate) durable_lsn: u64,
    pub(crate) traffic: Traffic,
    pub(crate) metadata: Vec<Appended>,
    /// What the observer noted.
    pub(crate) notes: Vec<u8>,
    pub(crate) next_block: u64,
    pub(crate) chains: Vec<Chain>,
    /// Of the blocks in use: device, header. Blocks without a readable header are left out.
    pub(crate) headers: Vec<(usize, BlockHeader)>,
}

struct Summing<W> {
    inner: W,
    sum: Xxh3,
}

impl<W: Write> Summing<W> {
    fn put(&mut self, bytes: &[u8]) -> std::io::Result<()> {
        self.sum.update(bytes);
        self.inner.write_all(bytes)
    }

    fn count(&mut self, count: usize) -> std::io::Result<()> {
        self.put(&(count as u32).to_le_bytes())
    }

    fn place(&mut self, at: &Appended) -> std::io::Result<()> {
        self.put(&at.location.packed().to_le_bytes())?;
        self.put(&at.units.to_le_bytes())?;
        self.put(&at.lsn.0.to_le_bytes())
    }
}

/// Writes the snapshot and has it on stable storage when it returns.
pub(crate) fn write(core: &Core, dir: &Path, id: u64) -> std::io::Result<()> {
    let path = dir.join(FILE_NAME);
    let new = dir.join("index.snapshot.new");
    let mut out = Summing {
        inner: BufWriter::with_capacity(1 << 20, File::create(&new)?),
        sum: Xxh3::new(),
    };
    out.put(MAGIC)?;
    out.put(&VERSION.to_le_bytes())?;
    let (last, durable) = (core.log.last_lsn(), core.log.syncer().durable_lsn());
    for number in [id, last, durable, core.log.next_block()] {
        out.put(&number.to_le_bytes())?;
    }
    let Traffic {
        requested_bytes,
        appended_bytes,
        moved_bytes,
    } = core.traffic();
    for number in [requested_bytes, appended_bytes, moved_bytes] {
        out.put(&number.to_le_bytes())?;
    }
    let metadata = core.sets.encoded();
    out.count(metadata.len())?;
    out.put(&metadata)?;
    {
        let places = core.metadata.lock();
        out.count(places.len())?;
        places.iter().try_for_each(|place| out.place(place))?;
    }
    let notes = core.options.observer.as_ref();
    let mut notes = notes.map_or_else(Vec::new, |observer| observer.notes());
    notes.truncate(NOTES_BYTES_MAX);
    out.count(notes.len())?;
    out.put(&notes)?;
    let blocks = core.log.blocks();
    let used: Vec<_> = blocks
        .filter(|(_, state)| state.phase() != Phase::Free)
        .collect();
    out.count(used.len())?;
    for (id, state) in used {
        out.put(&[id.device as u8])?;
        out.put(&id.index.to_le_bytes())?;
        out.put(&state.incarnation().to_le_bytes())?;
        out.put(&state.sequence().to_le_bytes())?;
        out.put(&state.filled_units().to_le_bytes())?;
        for word in EndedBlock::words(state.ended()) {
            out.put(&word.to_le_bytes())?;
        }
        out.put(&[u8::from(state.holds_copies())])?;
    }
    let held = |number: &usize| core.index.lock_partition(*number).len() > 0;
    let partitions: Vec<usize> = (0..PARTITIONS).filter(held).collect();
    let chains = chains_of(core, &partitions);
    out.count(chains.len())?;
    for Chain { digest, parts } in chains {
        out.put(digest.as_bytes())?;
        out.put(&(parts.len() as u16).to_le_bytes())?;
        for part in parts {
            out.put(&part.location.packed().to_le_bytes())?;
            out.put(&part.units.to_le_bytes())?;
        }
    }
    out.count(partitions.len())?;
    let total = partitions.len() as u64;
    for (done, number) in (1..).zip(partitions) {
        let guard = epoch::pin();
        let stored = |(tag, slot): (u32, Slot)| {
            let stored = core.stored_slot(&slot, &guard).ok_or_else(no_entry)?;
            Ok((tag, stored.0))
        };
        let slots = core.slots_of(number).into_iter().map(stored);
        let slots = slots.collect::<std::io::Result<Vec<_>>>()?;
        out.count(number)?;
        out.count(slots.len())?;
        for (tag, slot) in slots {
            out.put(&slot.head(tag).to_le_bytes())?;
            out.put(&slot.tail().to_le_bytes())?;
        }
        let progress = &core.options.progress;
        progress.report(OpeningStep::WriteSnapshot, done, total);
    }
    let sum = out.sum.digest();
    out.inner.write_all(&sum.to_le_bytes())?;
    out.inner
        .into_inner()
        .map_err(std::io::IntoInnerError::into_error)?
        .sync_all()?;
    std::fs::rename(&new, &path)?;
    File::open(dir)?.sync_all()
}

/// A slot that the snapshot cannot name: without a snapshot the next opening reads the log, and finds the damage.
fn no_entry() -> std::io::Error {
    std::io::Error::new(
        std::io::ErrorKind::InvalidData,
        "a record with an image has a damaged chain of entries",
    )
}

/// The chains of deltas, of records that are there.
fn chains_of(core: &Core, partitions: &[usize]) -> Vec<Chain> {
    if !core.any_deltas.load(Ordering::Relaxed) {
        return Vec::new();
    }
    let mut chains = Vec::new();
    for number in partitions {
        let guard = epoch::pin();
        for (_, slot) in core.slots_of(*number) {
            if let Some((_, Some(parts))) = core.stored_slot(&slot, &guard)
                && let Some(entry) = core.log.entry(slot.location, &guard)
            {
                let digest = entry.view().digest();
                chains.push(Chain { digest, parts });
            }
        }
    }
    chains
}

/// A block in use, as the snapshot knows it.
struct KnownBlock {
    device: usize,
    /// Incarnation 0: its header was lost already.
    header: BlockHeader,
    filled_units: u32,
}

/// Reads the snapshot with this id, in pieces. `None` if it is missing, damaged, or another one: the caller then reads the
/// log, with another index and other sets.
pub(crate) fn read(
    dir: &Path,
    id: u64,
    log: &Log,
    index: &Index,
    sets: &Sets,
    progress: &OpeningProgress,
) -> Result<Option<Restored>> {
    let Some(mut reader) = SnapshotReader::open(&dir.join(FILE_NAME)) else {
        return Ok(None);
    };
    let decoded = decode(&mut reader, id, log, index, sets, progress);
    if matches!(decoded, Ok(None)) || !reader.holds() {
        return Ok(None);
    }
    // The sum holds: an undecodable value was written so, by a fault of the format, not of the disk.
    let decoded = decoded.map_err(|reason| Error::DamagedMetadata {
        namespace: log.namespace().to_owned(),
        reason: format!("{FILE_NAME}: {reason}"),
    })?;
    Ok(decoded.map(|(mut restored, blocks)| {
        for known in blocks {
            let KnownBlock { device, header, .. } = known;
            let volume = log.volumes().get(device);
            let Some(block) = volume.and_then(|volume| volume.block(header.index)) else {
                continue;
            };
            if header.incarnation == 0 {
                block.set_unreadable();
                continue;
            }
            block.begin(&header, Phase::Closed);
            block.note_closed(known.filled_units, header.sequence);
            restored.headers.push((device, header));
        }
        restored
    }))
}

fn place(reader: &mut SnapshotReader) -> Option<Appended> {
    Some(Appended {
        location: Location::from_packed(reader.u64()?),
        units: reader.u32()?,
        lsn: Lsn(reader.u64()?),
    })
}

/// Decodes bytes that may be damaged: nothing is believed before the sum was checked.
fn decode(
    reader: &mut SnapshotReader,
    id: u64,
    log: &Log,
    index: &Index,
    sets: &Sets,
    progress: &OpeningProgress,
) -> std::result::Result<Option<(Restored, Vec<KnownBlock>)>, String> {
    let short = || "it ends early".to_owned();
    let is_it = reader.array() == Some(*MAGIC) && reader.u32() == Some(VERSION);
    if !is_it || reader.u64() != Some(id) {
        return Ok(None);
    }
    let mut restored = Restored {
        last_lsn: reader.u64().ok_or_else(short)?,
        durable_lsn: reader.u64().ok_or_else(short)?,
        next_block: reader.u64().ok_or_else(short)?,
        traffic: Traffic {
            requested_bytes: reader.u64().ok_or_else(short)?,
            appended_bytes: reader.u64().ok_or_else(short)?,
            moved_bytes: reader.u64().ok_or_else(short)?,
        },
        ..Restored::default()
    };
    let length = reader.u32().ok_or_else(short)?;
    let metadata = reader.bytes(length as usize, METADATA_BYTES_MAX);
    sets.restore(&metadata.ok_or_else(short)?)?;
    for _ in 0..reader.u32().ok_or_else(short)? {
        restored.metadata.push(place(reader).ok_or_else(short)?);
    }
    let length = reader.u32().ok_or_else(short)?;
    let notes = reader.bytes(length as usize, NOTES_BYTES_MAX);
    restored.notes = notes.ok_or_else(short)?;
    let mut blocks = Vec::new();
    for _ in 0..reader.u32().ok_or_else(short)? {
        let device = usize::from(reader.u8().ok_or_else(short)?);
        let number = reader.u32().ok_or_else(short)?;
        let incarnation = reader.u64().ok_or_else(short)?;
        let sequence = reader.u64().ok_or_else(short)?;
        let filled_units = reader.u32().ok_or_else(short)?;
        let ended = reader.u64().zip(reader.u64()).ok_or_else(short)?;
        let holds_copies = reader.u8().ok_or_else(short)? == 1;
        let volume = log.volumes().get(device);
        let volume = volume.filter(|volume| number < volume.reachable_blocks());
        let volume = volume.ok_or_else(|| {
            format!("it names block {number} of device {device}, which is not there")
        })?;
        let header = BlockHeader {
            index: number,
            incarnation,
            device_id: volume.device_id(),
            sequence,
            ended: EndedBlock::from_words(ended.into()),
            holds_copies,
        };
        blocks.push(KnownBlock {
            device,
            header,
            filled_units,
        });
    }
    for _ in 0..reader.u32().ok_or_else(short)? {
        let digest = Digest::new(reader.array().ok_or_else(short)?);
        let mut parts = Vec::new();
        for _ in 0..reader.u16().ok_or_else(short)? {
            parts.push(Part {
                location: Location::from_packed(reader.u64().ok_or_else(short)?),
                units: reader.u32().ok_or_else(short)?,
            });
        }
        restored.chains.push(Chain { digest, parts });
    }
    let partitions = reader.u32().ok_or_else(short)?;
    for done in 1..=partitions {
        let number = reader.u32().ok_or_else(short)? as usize;
        let count = reader.u32().ok_or_else(short)? as usize;
        if number >= PARTITIONS {
            return Err(format!("it names partition {number}"));
        }
        let mut slots = Vec::with_capacity(count.min(SLOTS_AT_ONCE));
        for left in (0..count).rev() {
            let (head, tail) = reader.u64().zip(reader.u64()).ok_or_else(short)?;
            let (tag, slot) = Slot::unpack(head, tail);
            if log.volume(slot.location).is_none() {
                return Err("it names an entry of a device that is not there".to_owned());
            }
            let unverified = true;
            slots.push((tag, Slot { unverified, ..slot }));
            if left == 0 || slots.len() == SLOTS_AT_ONCE {
                index.lock_partition(number).insert_many(&mut slots);
                slots.clear();
            }
        }
        progress.report(
            OpeningStep::ReadSnapshot,
            u64::from(done),
            u64::from(partitions),
        );
    }
    Ok(Some((restored, blocks)))
}
