//! The index snapshot of a clean close: a file beside the devices, good for one opening
//! (`docs/format.md`).

use crate::bytes::slice;
use crate::core::Core;
use crate::device::NUMBER_MAX;
use crate::digest::{Digest, PARTITIONS};
use crate::entry::{Appended, Lsn};
use crate::epoch;
use crate::error::{Error, Result};
use crate::image::ChainPart;
use crate::index::{DigestIndex, IndexSlot};
use crate::location::Location;
use crate::log::Log;
use crate::log::block::{BlockHeader, BlockPhase, BlockUse, EndedBlock, can_hold};
use crate::log::volume::Volume;
use crate::options::{OpeningProgress, OpeningStep};
use crate::recovery::Recovered;
use crate::recovery::sighting::Chain;
use crate::sets::Sets;
use crate::stats::Traffic;
use crate::sync::atomic::Ordering;
use std::fs::File;
use std::io::{self, BufReader, BufWriter, Read, Take, Write};
use std::path::Path;
use xxhash_rust::xxh3::Xxh3;

const MAGIC: &[u8; 4] = b"SPKX";
const VERSION: u32 = 2;

/// Slots of a partition that are entered at once: 3 MiB of memory.
const SLOTS_AT_ONCE: usize = 64 << 10;

/// More than the metadata of all sets that there can be.
const METADATA_BYTES_MAX: usize = 4 << 20;
const NOTES_BYTES_MAX: usize = 64 << 10;

/// How much is written or read at a time.
const PIECE_BYTES: usize = 1 << 20;
const SUM_BYTES: u64 = 8;

/// The name of the file in the namespace's directory.
pub(crate) const FILE_NAME: &str = "index.snapshot";

/// A file with a sum over the bytes that pass, in pieces.
struct Summed<F> {
    file: F,
    sum: Xxh3,
}

impl<F: Write> Write for Summed<F> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let written = self.file.write(bytes)?;
        self.sum.update(slice(bytes, ..written));
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}

impl<F: Read> Read for Summed<F> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let read = self.file.read(into)?;
        self.sum.update(slice(into, ..read));
        Ok(read)
    }
}

/// A snapshot that is being written.
struct SnapshotWriter(BufWriter<Summed<File>>);

impl SnapshotWriter {
    fn put(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.0.write_all(bytes)
    }

    fn count(&mut self, count: usize) -> io::Result<()> {
        self.put(&(count as u32).to_le_bytes())
    }

    fn part(&mut self, location: Location, units: u32) -> io::Result<()> {
        self.put(&location.packed().to_le_bytes())?;
        self.put(&units.to_le_bytes())
    }
}

/// A snapshot that is being read. Its values count only if the sum at its end holds.
struct SnapshotReader(BufReader<Summed<Take<File>>>);

impl SnapshotReader {
    /// Opens a snapshot. `None`: it is missing, or too short to be one.
    fn open(path: &Path) -> Option<Self> {
        let file = File::open(path).ok()?;
        let bytes = file.metadata().ok()?.len().checked_sub(SUM_BYTES)?;
        let summed = Summed {
            file: file.take(bytes),
            sum: Xxh3::new(),
        };
        Some(Self(BufReader::with_capacity(PIECE_BYTES, summed)))
    }

    fn array<const N: usize>(&mut self) -> io::Result<[u8; N]> {
        let mut bytes = [0; N];
        self.0.read_exact(&mut bytes)?;
        Ok(bytes)
    }

    /// Takes bytes with their length before them, `most` at most.
    fn bytes(&mut self, most: usize) -> io::Result<Vec<u8>> {
        let length = self.u32()? as usize;
        if length > most {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        let mut bytes = vec![0; length];
        self.0.read_exact(&mut bytes)?;
        Ok(bytes)
    }

    fn u32(&mut self) -> io::Result<u32> {
        self.array().map(u32::from_le_bytes)
    }

    fn u64(&mut self) -> io::Result<u64> {
        self.array().map(u64::from_le_bytes)
    }

    fn part(&mut self) -> io::Result<ChainPart> {
        Ok(ChainPart {
            location: Location::from_packed(self.u64()?),
            units: self.u32()?,
        })
    }

    /// Reads the rest. Returns whether the sum holds.
    fn holds(mut self) -> bool {
        let mut sum = [0; SUM_BYTES as usize];
        let is_read = io::copy(&mut self.0, &mut io::sink()).is_ok();
        let Summed { file, sum: of_file } = self.0.into_inner();
        let is_read = is_read && file.into_inner().read_exact(&mut sum).is_ok();
        is_read && of_file.digest() == u64::from_le_bytes(sum)
    }
}

/// Writes the snapshot and has it on stable storage when it returns.
pub(crate) fn write(core: &Core, dir: &Path, id: u64) -> io::Result<()> {
    let path = dir.join(FILE_NAME);
    let new = dir.join("index.snapshot.new");
    let summed = Summed {
        file: File::create(&new)?,
        sum: Xxh3::new(),
    };
    let mut out = SnapshotWriter(BufWriter::with_capacity(PIECE_BYTES, summed));
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
        for place in places.iter() {
            out.part(place.location, place.units)?;
            out.put(&place.lsn.0.to_le_bytes())?;
        }
    }
    let notes = core.options.observer.as_ref();
    let mut notes = notes.map_or_else(Vec::new, |observer| observer.notes());
    notes.truncate(NOTES_BYTES_MAX);
    out.count(notes.len())?;
    out.put(&notes)?;
    let blocks = core.log.blocks();
    let used: Vec<_> = blocks
        .filter(|(_, state)| state.phase() != BlockPhase::Free)
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
            out.part(part.location, part.units)?;
        }
    }
    out.count(partitions.len())?;
    let total = partitions.len() as u64;
    for (done, number) in (1..).zip(partitions) {
        let guard = epoch::pin();
        let stored = |(tag, slot): (u32, IndexSlot)| {
            let stored = core.stored_slot(&slot, &guard).ok_or_else(no_entry)?;
            Ok((tag, stored.0))
        };
        let slots = core.slots_of(number).into_iter().map(stored);
        let slots = slots.collect::<io::Result<Vec<_>>>()?;
        out.count(number)?;
        out.count(slots.len())?;
        for (tag, slot) in slots {
            out.put(&slot.head(tag).to_le_bytes())?;
            out.put(&slot.tail().to_le_bytes())?;
        }
        let progress = &core.options.progress;
        progress.report(OpeningStep::WriteSnapshot, done, total);
    }
    let summed = out.0.into_inner().map_err(io::IntoInnerError::into_error)?;
    let Summed { mut file, sum } = summed;
    file.write_all(&sum.digest().to_le_bytes())?;
    file.sync_all()?;
    // Synced before: under its name it is whole, whenever the power fails.
    std::fs::rename(&new, &path)?;
    File::open(dir)?.sync_all()
}

/// A slot that the snapshot cannot name: without a snapshot the next opening reads the log, and
/// finds the damage.
fn no_entry() -> io::Error {
    io::Error::other("a record with an image has a damaged chain of entries")
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

/// Reads the snapshot with this id, in pieces. `None` if it is missing, damaged, or another one:
/// the caller then reads the log, with another index and other sets.
pub(crate) fn read(
    dir: &Path,
    id: u64,
    log: &Log,
    index: &DigestIndex,
    sets: &Sets,
    progress: &OpeningProgress,
) -> Result<Option<Recovered>> {
    let Some(mut reader) = SnapshotReader::open(&dir.join(FILE_NAME)) else {
        return Ok(None);
    };
    let decoded = decode(&mut reader, id, log, index, sets, progress);
    if matches!(decoded, Ok(None)) || !reader.holds() {
        return Ok(None);
    }
    // The sum holds: an undecodable value was written so, by a fault of the format, not of the
    // disk.
    let decoded = decoded.map_err(|error| Error::DamagedMetadata {
        namespace: log.namespace().to_owned(),
        reason: format!("{FILE_NAME}: {error}"),
    })?;
    Ok(decoded.map(|(mut recovered, blocks)| {
        for (volume, header, filled_units) in blocks {
            match volume.block(header.index) {
                // Its header was lost already.
                Some(block) if header.incarnation == 0 => block.set_unreadable(),
                Some(block) => {
                    block.begin(&header, BlockPhase::Closed);
                    block.note_closed(filled_units, header.sequence);
                    recovered.report.blocks += 1;
                    let intact = true;
                    let whole = BlockUse::Used { header, intact };
                    // A clean close has made every header durable in both copies.
                    if volume.block_use(header.index, u64::MAX, true) != whole {
                        recovered.headers.push(header);
                    }
                }
                None => {}
            }
        }
        recovered
    }))
}

/// A block in use: its volume and header, and how many units its entries take.
type KnownBlock<'a> = (&'a Volume, BlockHeader, u32);

/// Decodes bytes that may be damaged: nothing is believed before the sum was checked.
fn decode<'a>(
    reader: &mut SnapshotReader,
    id: u64,
    log: &'a Log,
    index: &DigestIndex,
    sets: &Sets,
    progress: &OpeningProgress,
) -> io::Result<Option<(Recovered, Vec<KnownBlock<'a>>)>> {
    let is_it = reader.array()? == *MAGIC && reader.u32()? == VERSION;
    if !is_it || reader.u64()? != id {
        return Ok(None);
    }
    let mut recovered = Recovered {
        last_lsn: reader.u64()?,
        durable_lsn: reader.u64()?,
        next_block: reader.u64()?,
        traffic: Traffic {
            requested_bytes: reader.u64()?,
            appended_bytes: reader.u64()?,
            moved_bytes: reader.u64()?,
        },
        ..Recovered::default()
    };
    let (last_lsn, durable_lsn) = (recovered.last_lsn, recovered.durable_lsn);
    if last_lsn.max(durable_lsn).max(recovered.next_block) > NUMBER_MAX {
        return Err(io::Error::other("its numbers are higher than any store's"));
    }
    recovered.report.from_snapshot = true;
    let metadata = reader.bytes(METADATA_BYTES_MAX)?;
    sets.restore(&metadata).map_err(io::Error::other)?;
    for _ in 0..reader.u32()? {
        let ChainPart { location, units } = reader.part()?;
        recovered.metadata.push(Appended {
            location,
            units,
            lsn: Lsn(reader.u64()?),
        });
    }
    recovered.notes = reader.bytes(NOTES_BYTES_MAX)?;
    let mut blocks = Vec::new();
    for _ in 0..reader.u32()? {
        let ([device], index) = (reader.array()?, reader.u32()?);
        let volume = log.volumes().get(usize::from(device));
        let volume = volume.filter(|volume| index < volume.reachable_blocks());
        let volume = volume.ok_or_else(|| {
            let block = format!("block {index} of device {device}");
            io::Error::other(format!("it names {block}, which is not there"))
        })?;
        let (incarnation, sequence) = (reader.u64()?, reader.u64()?);
        let filled_units = reader.u32()?;
        let header = BlockHeader {
            index,
            incarnation,
            device_id: volume.device_id(),
            sequence,
            ended: EndedBlock::from_words([reader.u64()?, reader.u64()?]),
            holds_copies: reader.array()? == [1],
        };
        if !header.fits(volume.block_bytes()) || !can_hold(volume.block_bytes(), filled_units, 0) {
            return Err(io::Error::other("it says what no block can hold"));
        }
        blocks.push((volume, header, filled_units));
    }
    let mut chains = Vec::new();
    for _ in 0..reader.u32()? {
        let digest = Digest::new(reader.array()?);
        let parts = (0..u16::from_le_bytes(reader.array()?)).map(|_| reader.part());
        let parts = parts.collect::<io::Result<_>>()?;
        chains.push(Chain { digest, parts });
    }
    recovered.chains = Some(chains);
    let partitions = reader.u32()?;
    for done in 1..=partitions {
        let (number, count) = (reader.u32()? as usize, reader.u32()? as usize);
        if number >= PARTITIONS {
            return Err(io::Error::other(format!("it names partition {number}")));
        }
        // The count may be damaged, and takes no memory by itself.
        let mut slots = Vec::with_capacity(count.min(SLOTS_AT_ONCE));
        for left in (0..count).rev() {
            let (tag, slot) = IndexSlot::unpack(reader.u64()?, reader.u64()?);
            if log.volume(slot.location).is_none() {
                let reason = "it names an entry of a device that is not there";
                return Err(io::Error::other(reason));
            }
            // No entry was looked at: each is checked at its first use.
            let unverified = true;
            let slot = IndexSlot { unverified, ..slot };
            slots.push((slot.head(tag), slot.tail()));
            if left == 0 || slots.len() == SLOTS_AT_ONCE {
                // They are in this order, if they are not damaged.
                slots.sort_unstable();
                index.lock_partition(number).insert_sorted(&slots);
                slots.clear();
            }
        }
        let (done, total) = (u64::from(done), u64::from(partitions));
        progress.report(OpeningStep::ReadSnapshot, done, total);
    }
    Ok(Some((recovered, blocks)))
}
