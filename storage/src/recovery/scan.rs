//! Reading a block from its first byte to its last: what recovery and `verify` share.
//!
//! A block is append-only, so up to where it was durable every byte of it must parse: all else is
//! damage, and the block's directory names the records of the lost entries. Above, the first bytes
//! that do not parse are the end: a write that was torn, or none.

use crate::bytes::prefetch_lines;
use crate::entry::{ENTRY_HEADER_BYTES, EntryHeader, EntryKind, EntryPlace};
use crate::location::UNIT_BYTES;
use crate::log::block::ENTRIES_AT;
use crate::log::block_walk::{BlockLife, BlockWalk, PIECE_BYTES};
use crate::log::directory::{DirectoryLine, ReadDirectory, unit_of};
use crate::log::staging::{BUFFER_BYTES_MAX, NamespaceStaging};
use crate::log::volume::Volume;
use crate::recovery::sighting::{BlockEnd, Flaw, Sighting, UsedBlock};
use std::collections::HashSet;
use std::ops::Range;

/// How far ahead of an entry its memory is fetched: a cache miss takes about as long as checking
/// ten small entries.
const AHEAD_BYTES: usize = 2 << 10;

/// One reading of a block.
struct BlockScan<'a, F> {
    life: BlockLife<'a>,
    block: &'a UsedBlock,
    staging: Option<&'a NamespaceStaging>,
    bytes: &'a mut BlockWalk,
    seen: F,
    /// Lines of the entries that hold, with the unit in which each begins.
    lines: Vec<(DirectoryLine, u32)>,
    /// Damaged bytes, from and to.
    damage: Vec<Range<u64>>,
    staged_from: Option<u64>,
    unknown: bool,
    last_lsn: u64,
    /// Nothing of the directory is before this.
    directory_at: u64,
}

/// Walks over a block without writers.
pub(crate) fn scan_block(
    volume: &Volume,
    block: &UsedBlock,
    staging: Option<&NamespaceStaging>,
    bytes: &mut BlockWalk,
    seen: impl FnMut(Sighting<'_>),
) -> BlockEnd {
    bytes.begin(block.id.offset_bytes());
    BlockScan {
        life: block.life(volume),
        block,
        staging,
        bytes,
        seen,
        lines: Vec::new(),
        damage: Vec::new(),
        staged_from: None,
        unknown: false,
        last_lsn: block.header.ended.map_or(0, |ended| ended.last_lsn.0),
        directory_at: ENTRIES_AT,
    }
    .run()
}

impl<F: FnMut(Sighting<'_>)> BlockScan<'_, F> {
    fn run(mut self) -> BlockEnd {
        let mut at = ENTRIES_AT;
        while at < self.block.id.bytes()
            && let Some(bytes) = self.next(at)
        {
            at += bytes;
        }
        self.tell_damage();
        BlockEnd {
            end: at,
            staged_from: self.staged_from,
            unknown: self.unknown,
            last_lsn: self.last_lsn,
            lines: self.lines,
        }
    }

    fn offset(&self, at: u64) -> u64 {
        self.block.id.offset_bytes() + at
    }

    fn place(&self, at: u64) -> EntryPlace {
        let volume = self.life.volume;
        volume.place(self.block.header.incarnation, self.offset(at))
    }

    /// Reads the block on until at least `to` bytes of it are here.
    fn reach(&mut self, to: u64) {
        let to = to.next_multiple_of(PIECE_BYTES).min(self.block.id.bytes());
        self.bytes.reach(self.life.volume, self.offset(to));
    }

    fn header(&self, at: u64) -> Option<EntryHeader> {
        self.bytes.header_at(self.life, self.offset(at))
    }

    /// Visits the next item, an entry or damage. Returns its span, in bytes. `None`: the entries
    /// end here.
    fn next(&mut self, at: u64) -> Option<u64> {
        self.reach(at + ENTRY_HEADER_BYTES as u64);
        match self.header(at) {
            Some(header) if header.kind == EntryKind::Filler => {
                self.last_lsn = header.lsn.0;
                // Below it there may be sectors of a directory that an interrupted recovery wrote.
                self.directory_at = at + header.span_bytes();
                None
            }
            Some(header) => self.entry(at, &header),
            None => self.no_header(at),
        }
    }

    /// An entry with a header that holds.
    fn entry(&mut self, at: u64, header: &EntryHeader) -> Option<u64> {
        let span = header.span_bytes();
        self.reach(at + span);
        let offset = self.offset(at);
        // Large entries need no help: the processor guesses how their lines follow each other.
        let body = self.bytes.at(offset + ENTRY_HEADER_BYTES as u64).as_ptr();
        let ahead = (span as usize).min(AHEAD_BYTES);
        prefetch_lines(body.wrapping_add(AHEAD_BYTES), ahead);
        if let Some(entry) = self.bytes.whole_entry(offset, header) {
            self.lines.push((DirectoryLine::of(header), unit_of(at)));
            (self.seen)(Sighting::Entry {
                offset,
                header,
                entry,
            });
            return Some(span);
        }
        if at >= self.block.durable_to {
            return self.behind_durable(at);
        }
        self.damaged(at, header);
        Some(span)
    }

    fn damaged(&mut self, at: u64, header: &EntryHeader) {
        self.lines.push((DirectoryLine::of(header), unit_of(at)));
        let (offset, header) = (self.offset(at), *header);
        (self.seen)(Sighting::Damage(Flaw::Entry { offset, header }));
    }

    /// Behind the durable part, where no entry holds: goes on in staging memory, if it has not done
    /// so and that continues the block here. Of the durable part the block has all, and staging
    /// memory may have less after a power failure.
    fn behind_durable(&mut self, at: u64) -> Option<u64> {
        let (Some(staging), Some((lane, start)), None) =
            (self.staging, self.block.staged, self.staged_from)
        else {
            return None;
        };
        if !(start..start + BUFFER_BYTES_MAX).contains(&at) {
            return None;
        }
        // It must be an entry there: here it may be torn.
        let staged = |to: u64| staging.filled_bytes(lane, at - start, to.saturating_sub(start));
        let raw = staged(at + ENTRY_HEADER_BYTES as u64).first_chunk();
        if raw.is_none_or(|raw| EntryHeader::decode_checked(raw, self.place(at)).is_none()) {
            return None;
        }
        self.staged_from = Some(at);
        // The rest of the buffer, with bytes of earlier entries, may reach over the directory.
        let end = self.directory_begins_at();
        self.bytes.overlay(self.offset(at), staged(end));
        Some(0)
    }

    /// Where an entry should begin and no header holds: the end, or damage.
    fn no_header(&mut self, at: u64) -> Option<u64> {
        if at >= self.block.durable_to {
            return self.behind_durable(at);
        }
        if self.block.is_durable() && self.is_at_directory(at) {
            return None;
        }
        let to = self.next_header_after(at);
        self.damage.push(at..to);
        Some(to - at)
    }

    /// Whether the gap between the entries and the directory is too short for a filler.
    fn is_at_directory(&mut self, at: u64) -> bool {
        let begins_at = self.directory_begins_at();
        at <= begins_at && begins_at - at < u64::from(EntryHeader::span_for(0)) * UNIT_BYTES
    }

    fn directory_begins_at(&mut self) -> u64 {
        self.block.id.bytes() - self.directory().bytes()
    }

    fn directory(&mut self) -> ReadDirectory {
        self.reach(self.block.id.bytes());
        ReadDirectory::read(self.bytes.at(self.offset(self.directory_at)), self.place(0))
    }

    /// Where the next header begins that holds; at the latest where the durable part of the block
    /// ends.
    fn next_header_after(&mut self, at: u64) -> u64 {
        self.reach(self.block.id.bytes());
        let end = if self.block.is_durable() {
            self.directory_begins_at()
        } else {
            self.block.durable_to
        };
        let end = end.max(at + UNIT_BYTES);
        let mut to = at + UNIT_BYTES;
        while to < end {
            // No header begins with zeros, as it is where nothing was ever written.
            let (units, _) = self
                .bytes
                .at(self.offset(to))
                .as_chunks::<{ UNIT_BYTES as usize }>();
            let zeros = units
                .iter()
                .take_while(|unit| **unit == [0; UNIT_BYTES as usize]);
            match zeros.count() as u64 {
                0 if self.header(to).is_some() => return to,
                zeros => to += zeros.max(1) * UNIT_BYTES,
            }
        }
        end
    }

    /// Reports damaged bytes, and the entries that the directory names and the scan has not met.
    fn tell_damage(&mut self) {
        if self.damage.is_empty() {
            return;
        }
        let directory = self.directory();
        let is_complete = directory.is_complete(self.block.durable_entries);
        for range in std::mem::take(&mut self.damage) {
            let covered = directory.covers(unit_of(range.start), unit_of(range.end), is_complete);
            let offset = self.offset(range.start);
            self.unknown |= !covered;
            (self.seen)(Sighting::Damage(Flaw::Bytes {
                offset,
                bytes: range.end - range.start,
                unknown: !covered,
            }));
            self.damage.push(range);
        }
        let known: HashSet<DirectoryLine> = self.lines.iter().map(|(line, _)| *line).collect();
        // Lines behind the last entry that was seen may be of entries that were torn, not damaged:
        // they count only if the block was durable as a whole, or the damage reaches to the end of
        // the durable part.
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
        let certain = match self.block.header.ended {
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
        let lost = lost.filter(|line| line.kind != EntryKind::Filler && !known.contains(line));
        for line in lost {
            let Some(at) = places.next() else {
                continue;
            };
            self.lines.push((*line, unit_of(at)));
            let (offset, line) = (self.block.id.offset_bytes() + at, *line);
            (self.seen)(Sighting::Damage(Flaw::Lost { offset, line }));
        }
        // Lost entries came last. An opening that keeps the block makes its directory anew from
        // these.
        self.lines.sort_by_key(|(_, at_units)| *at_units);
    }
}
