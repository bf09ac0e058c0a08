//! What an opening to write puts in order after a crash, before it calls anything durable.
//!
//! A failed write-back leaves pages in the system's memory that are nowhere else, and that nobody will write again: what is
//! not known to be durable is therefore written once more, then synced. After that every byte of every block parses.

use crate::device::{BLOCK_BYTES, DeviceError};
use crate::error::{Error, Result};
use crate::location::{Location, UNIT_BYTES};
use crate::log::Log;
use crate::log::block::{BlockHeader, BlockId, BlockUse, Format};
use crate::log::directory::{directory_bytes, unit_of};
use crate::log::entry::{ENTRY_HEADER_BYTES, EntryView, Header, Kind, Lsn, filler};
use crate::log::lane::OpenBlock;
use crate::log::volume::Volume;
use crate::recovery::sighting::{BlockEnd, UsedBlock};
use std::ops::Range;

/// How much is written again at a time.
const PIECE_BYTES: u64 = 1 << 20;
/// What is written again alone where a larger piece cannot be read.
const PAGE_BYTES: usize = 4096;

/// See the module.
#[derive(Debug, Default)]
pub(crate) struct Repair {
    pub(crate) blocks: Vec<UsedBlock>,
    pub(crate) headers: Vec<BlockHeader>,
    pub(crate) ends: Vec<(BlockId, BlockEnd)>,
    /// Entries to be made void.
    pub(crate) voids: Vec<Location>,
}

impl Repair {
    /// Of the headers of all blocks in use, as a snapshot knows them, those that cannot be read in both copies.
    pub(crate) fn of_headers(log: &Log, known: Vec<(usize, BlockHeader)>) -> Self {
        let is_whole = |(device, header): &(usize, BlockHeader)| {
            log.volumes().get(*device).is_none_or(|volume| {
                let found = volume.block_use(header.index, u64::MAX, true);
                found
                    == BlockUse::Used {
                        header: *header,
                        intact: true,
                    }
            })
        };
        let damaged = known.into_iter().filter(|known| !is_whole(known));
        Self {
            headers: damaged.map(|(_, header)| header).collect(),
            ..Self::default()
        }
    }

    /// Writes what is to be written. Nothing is synced yet. `rewrite_old`: blocks of format 1 may hold pages that never
    /// reached the device.
    pub(crate) fn run(mut self, log: &Log, rewrite_old: bool) -> Result<()> {
        for header in &self.headers {
            if let Some(volume) = volume_of(log, header) {
                match volume.write_block_header(header) {
                    // A disk that is full has no page for a block that holds nothing.
                    Err(DeviceError::Full { .. }) if header.incarnation == 0 => {}
                    done => done?,
                }
            }
        }
        let voids = std::mem::take(&mut self.voids);
        for (id, end) in std::mem::take(&mut self.ends) {
            let block = self.blocks.iter().find(|block| block.id == id);
            let (Some(block), Some(volume)) = (block, log.volumes().get(id.device)) else {
                continue;
            };
            match block.format {
                Format::Two => complete(log, volume, block, end, &voids)?,
                Format::One => {
                    let voids = voids_in(&voids, id);
                    void_all(volume, block, &voids)?;
                    fill_gaps(volume, block, &end.gaps)?;
                    if rewrite_old {
                        let offset = id.offset_bytes();
                        rewrite(volume, offset, offset + BLOCK_BYTES)?;
                    }
                }
            }
        }
        Ok(())
    }
}

fn volume_of<'a>(log: &'a Log, header: &BlockHeader) -> Option<&'a Volume> {
    let is_it = |volume: &&Volume| volume.device_id() == header.device_id;
    log.volumes().iter().find(is_it)
}

fn voids_in(voids: &[Location], id: BlockId) -> Vec<Location> {
    let of = |location: &Location| BlockId::containing(location.device(), location.offset_bytes());
    voids.iter().copied().filter(|at| of(at) == id).collect()
}

/// Brings a block of format 2 to the device as it was found, ends it, and writes again what was not durable.
fn complete(
    log: &Log,
    volume: &Volume,
    block: &UsedBlock,
    end: BlockEnd,
    voids: &[Location],
) -> Result<()> {
    let offset = block.id.offset_bytes();
    let voids = voids_in(voids, block.id);
    if block.durable_to >= BLOCK_BYTES && end.sealed && end.staged_from.is_none() {
        // A commit entry may have reached the device between the start of a sync and its lane, and a member not.
        return void_all(volume, block, &voids);
    }
    // What staging memory alone holds.
    if let (Some(at), Some((lane, start)), Some(staging)) =
        (end.staged_from, block.staged, log.staging())
    {
        let device = volume.device();
        device.reserve(offset + at, end.end - at)?;
        device.write(
            offset + at,
            &[staging.bytes(lane, at - start, end.end - start)],
        )?;
        if let Some(state) = volume.block(block.id.index) {
            state.set_all_flushed();
        }
    }
    void_all(volume, block, &voids)?;
    rewrite(volume, offset + block.durable_to, offset + end.end)?;
    if end.unknown {
        // A directory that was made of what is left would seem to name everything: the next opening must find, too, that
        // entries are missing. But it should not take what is written from now on for older than what is lost.
        return bound(log, volume, block, &end);
    }
    // The rest of the block: its filler and its directory, which are the same if they were there.
    let mut open = OpenBlock::new(volume, block.id, block.incarnation, end.end);
    for (mut line, at_units) in end.lines {
        let location = Location::new(block.id.device, offset + u64::from(at_units) * UNIT_BYTES);
        if voids.contains(&location) {
            line.kind = Kind::Void;
        }
        open.directory.push(line, at_units);
    }
    debug_assert!(end.end + directory_bytes(0) <= BLOCK_BYTES);
    log.seal(open)
}

/// Ends a block of which entries are lost by a filler with the last number that was given out. What there is of the
/// directory stays.
fn bound(log: &Log, volume: &Volume, block: &UsedBlock, end: &BlockEnd) -> Result<()> {
    let units = unit_of(end.directory_at.saturating_sub(end.end));
    if end.sealed || units < Header::span_for(0) {
        return Ok(());
    }
    let offset = block.id.offset_bytes() + end.end;
    let header = Header {
        span_units: units,
        lsn: Lsn(log.last_lsn()),
        ..filler()
    };
    let raw = header.encode(volume.place(block.incarnation, offset), &[]);
    match volume.device().write(offset, &[&raw]) {
        // A disk that is full has no page for it: the next opening does not know the number, no more.
        Err(DeviceError::Full { .. }) => Ok(()),
        done => done.map_err(Error::Device),
    }
}

/// Writes a range of a device again as it is: pages that were read may never have reached it. What cannot be read stays so.
fn rewrite(volume: &Volume, from: u64, to: u64) -> Result<()> {
    let mut at = from;
    let mut piece = vec![0; PIECE_BYTES as usize];
    while at < to {
        let len = (to - at).min(PIECE_BYTES) as usize;
        let Some(bytes) = piece.get_mut(..len) else {
            break;
        };
        if volume.device().read(at, bytes).is_ok() {
            volume.device().write(at, &[bytes])?;
        } else {
            rewrite_pages(volume, at, bytes)?;
        }
        at += len as u64;
    }
    Ok(())
}

/// Writes the pages of a piece again that can be read.
fn rewrite_pages(volume: &Volume, from: u64, piece: &mut [u8]) -> Result<()> {
    for (at, page) in (from..)
        .step_by(PAGE_BYTES)
        .zip(piece.chunks_mut(PAGE_BYTES))
    {
        match volume.device().read(at, page) {
            Ok(()) => volume.device().write(at, &[page])?,
            Err(_) => volume.unreadable().note(at, page.len() as u64),
        }
    }
    Ok(())
}

/// Puts fillers over the gaps of a block of format 1. What was torn there, before it was durable, would pass for damage
/// once entries with higher numbers are durable.
fn fill_gaps(volume: &Volume, block: &UsedBlock, gaps: &[Range<u64>]) -> Result<()> {
    for gap in gaps {
        let units = ((gap.end - gap.start) / UNIT_BYTES) as u32;
        if units < Header::span_for(0) {
            continue;
        }
        let offset = block.id.offset_bytes() + gap.start;
        let header = Header {
            span_units: units,
            ..filler()
        };
        let raw = header.encode(volume.place(block.incarnation, offset), &[]);
        volume
            .device()
            .write(offset, &[&raw])
            .map_err(Error::Device)?;
    }
    Ok(())
}

/// Turns entries into ones that count for nothing. They were never durable, so a power failure in between changes nothing
/// that was promised.
fn void_all(volume: &Volume, block: &UsedBlock, voids: &[Location]) -> Result<()> {
    for location in voids {
        let offset = location.offset_bytes();
        let mut raw = [0; ENTRY_HEADER_BYTES];
        volume.device().read(offset, &mut raw)?;
        let place = volume.place(block.incarnation, offset);
        let Some(header) = Header::decode_checked(&raw, place) else {
            continue;
        };
        let kind = match block.format {
            Format::One => Kind::Filler,
            Format::Two => Kind::Void,
        };
        // The body stays, and so does its check.
        let void = Header { kind, ..header };
        let raw = void.encode_with(place, EntryView::new(&raw, &[]).body_check());
        volume
            .device()
            .write(offset, &[&raw])
            .map_err(Error::Device)?;
    }
    Ok(())
}
