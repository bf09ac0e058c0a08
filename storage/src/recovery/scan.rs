//! Reading a block from its first byte to its last: what recovery and `verify` share.
//!
//! A block is append-only, so up to where it was durable every byte of it must parse: all else is damage,
//! and the block's directory names the records of the lost entries. Above, the first bytes that do not parse are the end: a write
//! that was torn, or none.

use crate::bytes::prefetch_lines;
use crate::entry::{ENTRY_HEADER_BYTES, EntryView, Header, Kind, Place, corrected};
use crate::location::UNIT_BYTES;
use crate::log::block::ENTRIES_AT;
use crate::log::directory::{Line, ReadDirectory, SECTOR_BYTES, directory_bytes, unit_of};
use crate::log::staging::{BUFFER_BYTES_MAX, Staging};
use crate::log::volume::Volume;
use crate::recovery::block_bytes::BlockBytes;
use crate::recovery::sighting::{BlockEnd, Sighting, UsedBlock, body_of, fits, zero_units};
use std::collections::HashSet;
use std::ops::Range;

/// How far ahead of an entry its memory is fetched: a cache miss takes about as long as checking ten small entries.
const AHEAD_BYTES: usize = 2 << 10;

/// One reading of a block.
struct BlockScan<'a, F> {
    volume: &'a Volume,
    block: &'a UsedBlock,
    staging: Option<&'a Staging>,
    bytes: &'a mut BlockBytes,
    seen: F,
    /// Lines of the entries that hold, with the unit in which each begins.
    lines: Vec<(Line, u32)>,
    /// Damaged bytes, from and to.
    damage: Vec<Range<u64>>,
    staged_from: Option<u64>,
    unknown: bool,
    last_lsn: u64,
    directory_at: u64,
}

/// Walks over a block without writers.
pub(crate) fn scan_block(
    volume: &Volume,
    block: &UsedBlock,
    staging: Option<&Staging>,
    bytes: &mut BlockBytes,
    seen: impl FnMut(Sighting<'_>),
) -> BlockEnd {
    bytes.clear();
    BlockScan {
        volume,
        block,
        staging,
        bytes,
        seen,
        lines: Vec::new(),
        damage: Vec::new(),
        staged_from: None,
        unknown: false,
        last_lsn: block.ended.map_or(0, |ended| ended.last_lsn.0),
        directory_at: block.id.bytes(),
    }
    .run()
}

/// Finds the sectors of a block's directory that were durable and do not hold: offsets in the device. `bytes` is what
/// [`scan_block`] has read the block into, and `end` its result.
pub(crate) fn damaged_directory(
    volume: &Volume,
    block: &UsedBlock,
    bytes: &mut BlockBytes,
    end: &BlockEnd,
) -> Vec<u64> {
    let start = block.id.offset_bytes();
    let durable_tail;
    let sectors;
    let tail = match block.durable_entries {
        None => {
            bytes.read(volume, block.id, block.id.bytes());
            let is_known = end.sealed && end.directory_at < block.id.bytes();
            let from = if is_known {
                end.directory_at
            } else {
                ENTRIES_AT
            };
            sectors = is_known.then_some((block.id.bytes() - from) as usize / SECTOR_BYTES);
            bytes.from(from)
        }
        // The continuation in staging memory was put over the rest.
        Some(entries) => {
            let mut read = vec![0; directory_bytes(entries as usize) as usize];
            let at = start + block.id.bytes() - read.len() as u64;
            volume.read_readable(at, &mut read, SECTOR_BYTES);
            sectors = Some(read.len() / SECTOR_BYTES);
            durable_tail = read;
            durable_tail.as_slice()
        }
    };
    let directory = ReadDirectory::read(tail, volume.place(block.incarnation, start));
    let damaged = directory.damaged_sectors(sectors).into_iter();
    let offset = |number| start + block.id.bytes() - (number as u64 + 1) * SECTOR_BYTES as u64;
    damaged.map(offset).collect()
}

/// The next item of a block.
enum Next {
    /// An entry of this span, in bytes, or damage of it.
    Step(u64),
    /// A filler begins here, or the directory.
    Sealed,
    /// The entries end here.
    End,
}

impl<F: FnMut(Sighting<'_>)> BlockScan<'_, F> {
    fn run(mut self) -> BlockEnd {
        let mut at = ENTRIES_AT;
        let sealed = loop {
            if at >= self.block.id.bytes() {
                break true;
            }
            match self.next(at) {
                Next::Step(bytes) => at += bytes,
                Next::Sealed => break true,
                Next::End => break false,
            }
        };
        self.tell_damage();
        BlockEnd {
            end: at,
            sealed,
            staged_from: self.staged_from,
            unknown: self.unknown,
            last_lsn: self.last_lsn,
            directory_at: self.directory_at,
            lines: self.lines,
        }
    }

    fn offset(&self, at: u64) -> u64 {
        self.block.id.offset_bytes() + at
    }

    fn place(&self, at: u64) -> Place {
        self.volume.place(self.block.incarnation, self.offset(at))
    }

    fn next(&mut self, at: u64) -> Next {
        self.bytes
            .read(self.volume, self.block.id, at + ENTRY_HEADER_BYTES as u64);
        let raw = self.bytes.from(at).first_chunk::<ENTRY_HEADER_BYTES>();
        let header = raw
            .and_then(|raw| Header::decode_checked(raw, self.place(at)))
            .filter(|header| fits(at, header, self.block.id.bytes()));
        match header {
            Some(header) if header.kind == Kind::Filler => {
                self.last_lsn = header.lsn.0;
                // Below it there may be sectors of a directory that an interrupted recovery wrote.
                self.directory_at = at + u64::from(header.span_units) * UNIT_BYTES;
                Next::Sealed
            }
            Some(header) => self.entry(at, &header),
            None => self.no_header(at),
        }
    }

    /// An entry with a header that holds.
    fn entry(&mut self, at: u64, header: &Header) -> Next {
        let span = u64::from(header.span_units) * UNIT_BYTES;
        self.bytes.read(self.volume, self.block.id, at + span);
        let offset = self.offset(at);
        let Some((raw, after)) = self
            .bytes
            .from(at)
            .split_first_chunk::<ENTRY_HEADER_BYTES>()
        else {
            return Next::End;
        };
        // Large entries need no help: the processor guesses how their lines follow each other.
        let ahead = (span as usize).min(AHEAD_BYTES);
        prefetch_lines(after.as_ptr().wrapping_add(AHEAD_BYTES), ahead);
        let body = body_of(after, header);
        if header.body_holds(raw, body) {
            let entry = EntryView::new(raw, body);
            self.lines.push((Line::of(header), unit_of(at)));
            (self.seen)(Sighting::Entry {
                offset,
                header,
                entry,
            });
            return Next::Step(span);
        }
        if at >= self.block.durable_to {
            return if self.take_staged(at) {
                Next::Step(0)
            } else {
                Next::End
            };
        }
        self.damaged(at, header);
        Next::Step(span)
    }

    fn damaged(&mut self, at: u64, header: &Header) {
        self.lines.push((Line::of(header), unit_of(at)));
        let offset = self.offset(at);
        (self.seen)(Sighting::Damaged { offset, header });
    }

    /// Goes on in staging memory, if it has not done so and that continues the block here. Only behind the durable part:
    /// of that the block has all, and staging memory may have less after a power failure.
    fn take_staged(&mut self, at: u64) -> bool {
        let (Some(staging), Some((lane, start)), None) =
            (self.staging, self.block.staged, self.staged_from)
        else {
            return false;
        };
        if !(start..start + BUFFER_BYTES_MAX).contains(&at) {
            return false;
        }
        // It must be an entry there: here it may be torn.
        let copy = staging.bytes(lane, at - start, BUFFER_BYTES_MAX);
        let continues = copy
            .first_chunk::<ENTRY_HEADER_BYTES>()
            .and_then(|raw| Header::decode_checked(raw, self.place(at)))
            .is_some();
        if continues {
            self.staged_from = Some(at);
            self.bytes.overlay(staging, lane, start, at);
        }
        continues
    }

    /// Where an entry should begin and no header holds: the end, or damage.
    fn no_header(&mut self, at: u64) -> Next {
        if at >= self.block.durable_to {
            return if self.take_staged(at) {
                Next::Step(0)
            } else {
                Next::End
            };
        }
        if self.block.is_durable() && self.is_at_directory(at) {
            return Next::Sealed;
        }
        // Only where an entry must begin: content that resembles a header is not worth the trials.
        let raw = self.bytes.from(at).first_chunk::<ENTRY_HEADER_BYTES>();
        let repaired = raw
            .and_then(|raw| corrected(raw, self.place(at)))
            .filter(|(_, header)| {
                fits(at, header, self.block.id.bytes()) && header.kind != Kind::Filler
            });
        if let Some((_, header)) = repaired {
            let span = u64::from(header.span_units) * UNIT_BYTES;
            self.bytes.read(self.volume, self.block.id, at + span);
            self.damaged(at, &header);
            return Next::Step(span);
        }
        let to = self.next_header_after(at);
        self.damage.push(at..to);
        Next::Step(to - at)
    }

    /// Whether the gap between the entries and the directory is too short for a filler.
    fn is_at_directory(&mut self, at: u64) -> bool {
        let begins_at = self.directory_begins_at();
        at <= begins_at && begins_at - at < u64::from(Header::span_for(0)) * UNIT_BYTES
    }

    fn directory_begins_at(&mut self) -> u64 {
        self.block.id.bytes() - self.directory().bytes()
    }

    fn directory(&mut self) -> ReadDirectory {
        self.bytes
            .read(self.volume, self.block.id, self.block.id.bytes());
        let from = if self.directory_at == self.block.id.bytes() {
            ENTRIES_AT
        } else {
            self.directory_at
        };
        let tail = self.bytes.bytes.get(from as usize..);
        let block = self.place(0);
        ReadDirectory::read(tail.unwrap_or_default(), block)
    }

    /// Where the next header begins that holds; at the latest where the durable part of the block ends.
    fn next_header_after(&mut self, at: u64) -> u64 {
        self.bytes
            .read(self.volume, self.block.id, self.block.id.bytes());
        let end = if self.block.is_durable() {
            self.directory_begins_at()
        } else {
            self.block.durable_to
        };
        let end = end.max(at + UNIT_BYTES);
        let mut to = at + UNIT_BYTES;
        while to < end {
            let zeros = zero_units(self.bytes.from(to));
            if zeros > 0 {
                to += zeros * UNIT_BYTES;
                continue;
            }
            let raw = self.bytes.from(to).first_chunk::<ENTRY_HEADER_BYTES>();
            let header = raw.and_then(|raw| Header::decode_checked(raw, self.place(to)));
            if header.is_some_and(|header| fits(to, &header, self.block.id.bytes())) {
                return to;
            }
            to += UNIT_BYTES;
        }
        end
    }

    /// Reports damaged bytes, and the entries that the directory names and the scan has not met.
    fn tell_damage(&mut self) {
        if self.damage.is_empty() {
            return;
        }
        let directory = self.directory();
        self.directory_at = self
            .directory_at
            .min(self.block.id.bytes() - directory.bytes());
        let is_complete = directory.is_complete(self.block.durable_entries);
        for range in std::mem::take(&mut self.damage) {
            let covered = directory.covers(unit_of(range.start), unit_of(range.end), is_complete);
            let offset = self.offset(range.start);
            self.unknown |= !covered;
            (self.seen)(Sighting::Damage {
                offset,
                bytes: range.end - range.start,
                unknown: !covered,
            });
            self.damage.push(range);
        }
        let known: HashSet<Line> = self.lines.iter().map(|(line, _)| *line).collect();
        // Lines behind the last entry that was seen may be of entries that were torn, not damaged: they count only if the
        // block was durable as a whole, or the damage reaches to the end of the durable part.
        let reaches_end = self.block.is_durable()
            || self
                .damage
                .last()
                .is_some_and(|range| range.end >= self.block.durable_to);
        let last = directory
            .lines
            .iter()
            .rposition(|line| known.contains(line));
        let certain = if reaches_end {
            directory.lines.len()
        } else {
            last.map_or(directory.lines.len(), |last| last + 1)
        };
        // An opening has appended again what the other lines name.
        let certain = match self.block.ended {
            Some(ended) => certain.min(ended.entries as usize),
            None => certain,
        };
        let mut places = self
            .damage
            .iter()
            .flat_map(|range| (range.start..range.end).step_by(UNIT_BYTES as usize))
            .collect::<Vec<u64>>()
            .into_iter();
        let lost = directory.lines.iter().take(certain);
        let lost = lost.filter(|line| line.kind != Kind::Filler && !known.contains(line));
        for line in lost {
            let Some(at) = places.next() else {
                continue;
            };
            self.lines.push((*line, unit_of(at)));
            (self.seen)(Sighting::Lost {
                offset: self.block.id.offset_bytes() + at,
                line: *line,
            });
        }
        self.lines.sort_by_key(|(_, at_units)| *at_units);
    }
}
