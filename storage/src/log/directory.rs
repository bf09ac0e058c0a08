//! The directory of a block: which records have entries in it, apart from the entries themselves.
//!
//! It grows from the end of the block downwards, a sector of 512 bytes after the other, and is
//! written with every flush. It is read only after damage: it names the records of entries that can
//! no longer be read, so that exactly these records answer with an error, and no older version of
//! them is taken for the present one. `docs/format.md` has its layout.
//!
//! The identity of a record is its partition and its tag.

use crate::bytes::{put, take};
use crate::digest::Digest;
use crate::entry::{EntryHeader, EntryKind, EntryPlace, LSN_BITS, Lsn};
use crate::location::UNIT_BYTES;
use xxhash_rust::xxh3::xxh3_64_with_seed;

/// A sector of the directory: a disk writes it whole or not at all.
pub(crate) const SECTOR_BYTES: usize = 512;
const LINES_AT: usize = 16;
const LINE_BYTES: usize = 12;
/// Lines in a sector.
pub(crate) const LINES: usize = (SECTOR_BYTES - LINES_AT) / LINE_BYTES;

/// Distinguishes the checksum of a sector from any other.
const SECTOR_SEED: u64 = u64::from_le_bytes(*b"block-di");

const IDENTITY_LOW_BITS: u32 = 12;

pub(crate) type Sector = [u8; SECTOR_BYTES];

/// The directory's line of one entry.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) struct DirectoryLine {
    pub(crate) lsn: Lsn,
    pub(crate) kind: EntryKind,
    /// Partition (12 bits, low) and tag (24 bits) of a record.
    pub(crate) identity: u64,
}

impl DirectoryLine {
    /// The line of an entry.
    pub(crate) fn of(header: &EntryHeader) -> Self {
        Self {
            lsn: header.lsn,
            kind: header.kind,
            identity: identity_of(&header.digest),
        }
    }

    fn encode(self) -> [u8; LINE_BYTES] {
        let low = self.identity & ((1 << IDENTITY_LOW_BITS) - 1);
        let word = self.lsn.0 | ((self.kind as u64) << LSN_BITS) | (low << (LSN_BITS + 4));
        let high = (self.identity >> IDENTITY_LOW_BITS) as u32;
        let mut bytes = [0; LINE_BYTES];
        let (first, second) = bytes.split_at_mut(8);
        first.copy_from_slice(&word.to_le_bytes());
        second.copy_from_slice(&high.to_le_bytes());
        bytes
    }

    fn decode(bytes: &[u8; LINE_BYTES]) -> Option<Self> {
        let (word, high) = bytes.split_first_chunk::<8>()?;
        let word = u64::from_le_bytes(*word);
        let high = u32::from_le_bytes(*high.first_chunk::<4>()?);
        Some(Self {
            lsn: Lsn(word & ((1 << LSN_BITS) - 1)),
            kind: EntryKind::from_bits((word >> LSN_BITS) as u32 & 15)?,
            identity: (word >> (LSN_BITS + 4)) | (u64::from(high) << IDENTITY_LOW_BITS),
        })
    }
}

/// Partition and tag of a digest: 36 bits.
pub(crate) fn identity_of(digest: &Digest) -> u64 {
    let [a, b, ..] = digest.as_bytes();
    let partition = u64::from(*a) | (u64::from(*b & 0x0f) << 8);
    partition | (u64::from(digest.tag()) << IDENTITY_LOW_BITS)
}

/// Partition and tag again, of an identity.
pub(crate) fn split_identity(identity: u64) -> (usize, u32) {
    let partition = identity as usize & ((1 << IDENTITY_LOW_BITS) - 1);
    (
        partition % crate::digest::PARTITIONS,
        (identity >> IDENTITY_LOW_BITS) as u32 & 0x00ff_ffff,
    )
}

/// Returns the size in bytes of the directory of `entries` entries.
pub(crate) const fn directory_bytes(entries: usize) -> u64 {
    (entries.div_ceil(LINES) * SECTOR_BYTES) as u64
}

/// The directory of a block that is being filled.
#[derive(Clone, Debug)]
pub(crate) struct Directory {
    /// The block's place: `offset` is that of the block.
    block: EntryPlace,
    /// How many sectors have lines, and how many lines the last of these has. Every append asks for
    /// the size, which so takes no division.
    sectors: usize,
    last_lines: usize,
    /// Sectors from the end of the block downwards: the first is the last in memory, as on the
    /// device. Complete sectors that are on the device need not stay here; those from this number
    /// on are kept.
    kept_from: usize,
    kept: Vec<Sector>,
    /// Whether there is a line that is not on the device.
    is_dirty: bool,
}

impl Directory {
    pub(crate) fn new(block: EntryPlace) -> Self {
        Self {
            block,
            sectors: 0,
            last_lines: 0,
            kept_from: 0,
            kept: Vec::new(),
            is_dirty: false,
        }
    }

    /// How many lines it has.
    pub(crate) const fn entries(&self) -> usize {
        self.sectors.saturating_sub(1) * LINES + self.last_lines
    }

    /// How many bytes it takes at most with `more` entries added, and ended.
    pub(crate) const fn bytes_with(&self, more: usize) -> u64 {
        let lines = self.last_lines + more + 2;
        let last_bytes = if lines <= LINES {
            SECTOR_BYTES as u64
        } else {
            directory_bytes(lines)
        };
        (self.sectors.saturating_sub(1) * SECTOR_BYTES) as u64 + last_bytes
    }

    pub(crate) const fn bytes(&self) -> u64 {
        (self.sectors * SECTOR_BYTES) as u64
    }

    /// How many bytes are not on the device as they are now.
    pub(crate) const fn pending_bytes(&self) -> u64 {
        (self.kept.len() * SECTOR_BYTES) as u64
    }

    /// Adds the line of an entry that begins `at_units` 16-byte units after the start of the block.
    #[inline(always)]
    pub(crate) fn push(&mut self, line: DirectoryLine, at_units: u32) {
        if self.sectors == 0 || self.last_lines == LINES {
            let mut sector = [0; SECTOR_BYTES];
            let number = self.sectors as u16;
            (self.sectors, self.last_lines) = (self.sectors + 1, 0);
            put(&mut sector, 10, &number.to_le_bytes());
            put(&mut sector, 12, &at_units.to_le_bytes());
            self.kept.push(sector);
        }
        let position = self.last_lines;
        self.last_lines += 1;
        self.is_dirty = true;
        if let Some(sector) = self.kept.last_mut() {
            put(sector, 8, &((position + 1) as u16).to_le_bytes());
            put(sector, LINES_AT + position * LINE_BYTES, &line.encode());
        }
    }

    /// Returns where the directory of the closed block begins, from the block's end, and the bytes
    /// to write there: one or two lines of fillers are added, so that its last sector is seen to be
    /// the last.
    pub(crate) fn ended(&self, at_units: u32) -> (u64, Vec<u8>) {
        let filler = DirectoryLine {
            lsn: Lsn(0),
            kind: EntryKind::Filler,
            identity: 0,
        };
        // A copy: where the close fails, entries go on, and their lines take the place of the
        // fillers.
        let mut ended = self.clone();
        ended.push(filler, at_units);
        if !ended.has_room() {
            ended.push(filler, at_units);
        }
        ended.encode()
    }

    /// Whether the last sector has room for a line.
    const fn has_room(&self) -> bool {
        0 < self.last_lines && self.last_lines < LINES
    }

    /// The sectors that are not on the device as they are now, in the device's order, and where
    /// they begin in the block. `None`: all are.
    pub(crate) fn pending(&mut self) -> Option<(u64, Vec<u8>)> {
        self.is_dirty.then(|| self.encode())
    }

    /// The device may have other sectors than the last ones reported to [`Directory::written`]:
    /// they are pending again.
    pub(crate) fn doubt(&mut self) {
        self.is_dirty = true;
    }

    fn encode(&mut self) -> (u64, Vec<u8>) {
        let mut bytes = Vec::with_capacity(self.kept.len() * SECTOR_BYTES);
        let kept_from = self.kept_from;
        for (at, sector) in self.kept.iter_mut().enumerate().rev() {
            let number = kept_from + at;
            let check = sector_check(sector, self.block, number);
            put(sector, 0, &check.to_le_bytes());
            bytes.extend_from_slice(sector);
        }
        (self.bytes(), bytes)
    }

    /// The result of [`Directory::pending`] is on the device. A sector that has room is kept to be
    /// written again.
    pub(crate) fn written(&mut self) {
        self.is_dirty = false;
        let partial = self.has_room();
        let last = self.kept.pop();
        self.kept_from += self.kept.len() + usize::from(!partial && last.is_some());
        self.kept.clear();
        self.kept.extend(last.filter(|_| partial));
    }
}

/// The readable part of a block's directory.
#[derive(Debug, Default)]
pub(crate) struct ReadDirectory {
    /// Lines of all sectors that hold, in the order of their entries.
    pub(crate) lines: Vec<DirectoryLine>,
    /// For each sector that holds: number, unit where its first entry begins, lines.
    sectors: Vec<(usize, u32, usize)>,
}

impl ReadDirectory {
    /// Reads all sectors of a block's directory that hold. `tail` is the end of the block, `block`
    /// the block's place.
    pub(crate) fn read(tail: &[u8], block: EntryPlace) -> Self {
        let mut read = Self::default();
        let (_, sectors) = tail.as_rchunks::<SECTOR_BYTES>();
        for (number, sector) in sectors.iter().rev().enumerate() {
            // Most of a block is no directory: that shows without its checksum.
            let may_hold = u16::from_le_bytes(take(sector, 10)) == number as u16;
            let check = || sector_check(sector, block, number).to_le_bytes();
            if !may_hold || take(sector, 0) != check() {
                continue;
            }
            let count = u16::from_le_bytes(take(sector, 8));
            let (_, lines) = sector.split_at(LINES_AT);
            let (lines, _) = lines.as_chunks::<LINE_BYTES>();
            let lines = lines.iter().take(usize::from(count));
            let before = read.lines.len();
            read.lines.extend(lines.filter_map(DirectoryLine::decode));
            let first = u32::from_le_bytes(take(sector, 12));
            read.sectors
                .push((number, first, read.lines.len() - before));
        }
        read
    }

    /// Whether no line of a later sector is missing. `durable_entries`: how many lines there were
    /// when the block was last durable; `None`: it was closed, and its directory ends with a
    /// filler.
    pub(crate) fn is_complete(&self, durable_entries: Option<u32>) -> bool {
        match durable_entries {
            Some(entries) => {
                let last = self.sectors.last();
                last.map_or(0, |(number, _, lines)| number * LINES + lines) >= entries as usize
            }
            None => self
                .lines
                .last()
                .is_some_and(|line| line.kind == EntryKind::Filler),
        }
    }

    /// Whether every entry that began between these units of the block (`from` included) has its
    /// line here, given that the directory is complete or not.
    pub(crate) fn covers(&self, from: u32, to: u32, is_complete: bool) -> bool {
        // A gap is covered if it is between the first entries of sectors that follow one another
        // without one missing.
        let mut at = self
            .sectors
            .iter()
            .rposition(|(_, first, _)| *first <= from);
        while let Some((number, ..)) = at.and_then(|at| self.sectors.get(at)) {
            match at.and_then(|at| self.sectors.get(at + 1)) {
                None => return is_complete,
                Some((next, _, _)) if *next != number + 1 => return false,
                Some((_, first, _)) if *first >= to => return true,
                Some(_) => at = at.map(|at| at + 1),
            }
        }
        false
    }

    /// Returns the lines of the first `entries` entries, or all lines of a closed block, if every
    /// one of them is there.
    pub(crate) fn whole_lines(mut self, entries: Option<usize>) -> Option<Vec<DirectoryLine>> {
        let last = self.sectors.len().saturating_sub(1);
        let has_all = (self.sectors.iter().enumerate())
            .all(|(at, (number, _, lines))| *number == at && (*lines == LINES || at == last));
        let is_whole = has_all && self.is_complete(entries.map(|entries| entries as u32));
        self.lines.truncate(entries.unwrap_or(usize::MAX));
        is_whole.then_some(self.lines)
    }

    /// How many bytes of the block's end the sectors take that were found.
    pub(crate) fn bytes(&self) -> u64 {
        let sectors = self.sectors.last().map_or(0, |(number, ..)| number + 1);
        (sectors * SECTOR_BYTES) as u64
    }
}

fn sector_check(sector: &Sector, block: EntryPlace, number: usize) -> u64 {
    let (_, content) = sector.split_at(8);
    let seed = SECTOR_SEED ^ block.seed() ^ (number as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    xxh3_64_with_seed(content, seed)
}

/// The unit of a block that has a byte offset of it.
pub(crate) const fn unit_of(in_block: u64) -> u32 {
    (in_block / UNIT_BYTES) as u32
}

#[cfg(all(test, not(shuttle)))]
mod tests {
    use super::*;
    use crate::device::BLOCK_BYTES;

    fn place() -> EntryPlace {
        EntryPlace {
            device_id: 7,
            incarnation: 9,
            offset: 65_536,
        }
    }

    fn line(number: u64) -> DirectoryLine {
        DirectoryLine {
            lsn: Lsn(1000 + number),
            kind: if number.is_multiple_of(3) {
                EntryKind::Tombstone
            } else {
                EntryKind::Record
            },
            identity: number.wrapping_mul(0x1_2345_6789) & ((1 << 36) - 1),
        }
    }

    /// Returns the end of a block with a directory of `entries` entries, 10 units each from unit 64
    /// on, flushed every `flush` entries.
    fn written(entries: u64, flush: u64) -> Vec<u8> {
        let mut block = vec![0; BLOCK_BYTES as usize];
        let mut directory = Directory::new(place());
        for number in 0..entries {
            directory.push(line(number), 64 + 10 * number as u32);
            if number % flush == flush - 1 || number == entries - 1 {
                let (from_end, bytes) = directory.pending().unwrap();
                let at = BLOCK_BYTES - from_end;
                block[at as usize..at as usize + bytes.len()].copy_from_slice(&bytes);
                directory.written();
            }
        }
        assert_eq!(directory.bytes(), directory_bytes(entries as usize));
        block
    }

    #[test]
    fn every_line_comes_back_however_often_it_was_flushed() {
        for flush in [1, 7, 41, 1000] {
            for entries in [1, 40, 41, 42, 500] {
                let read = ReadDirectory::read(&written(entries, flush), place());
                let expected: Vec<DirectoryLine> = (0..entries).map(line).collect();
                assert_eq!(
                    read.lines, expected,
                    "{entries} entries, flushed every {flush}"
                );
                let bytes = directory_bytes(entries as usize);
                assert_eq!(read.bytes(), bytes);
            }
        }
    }

    #[test]
    fn a_gap_is_covered_unless_a_sector_in_question_is_lost() {
        let mut block = written(200, 1000);
        let whole = ReadDirectory::read(&block, place());
        assert!(
            whole.covers(64, 100, true)
                && whole.covers(500, 2000, true)
                && whole.covers(2000, 4000, true)
        );
        // Sector 2 begins with entry 82.
        let at = BLOCK_BYTES as usize - 3 * SECTOR_BYTES;
        block[at + 100] ^= 0xff;
        let damaged = ReadDirectory::read(&block, place());
        assert_eq!(damaged.lines.len(), 200 - LINES);
        let unit = |entry: u32| 64 + 10 * entry;
        assert!(
            damaged.covers(unit(0), unit(40), true) && damaged.covers(unit(130), unit(140), true)
        );
        assert!(
            !damaged.covers(unit(70), unit(90), true) && !damaged.covers(unit(90), unit(100), true)
        );
    }

    #[test]
    fn lines_are_whole_if_every_sector_holds() {
        let mut block = written(120, 1000);
        let whole = |block: &[u8], entries| {
            let read = ReadDirectory::read(block, place());
            read.whole_lines(Some(entries)).map(|lines| lines.len())
        };
        let sector = |number: usize| BLOCK_BYTES as usize - (number + 1) * SECTOR_BYTES;
        assert_eq!(whole(&block, 120), Some(120));
        assert_eq!(whole(&block, 121), None, "one is missing");
        block[sector(1) + 30] ^= 1;
        assert_eq!(whole(&block, 120), None);
        assert_eq!(whole(&block[sector(0)..], 30), Some(30));
    }

    #[test]
    fn a_directory_that_fell_back_to_fewer_lines_is_not_complete() {
        let read = ReadDirectory::read(&written(50, 7), place());
        assert!(read.is_complete(Some(50)) && read.is_complete(Some(49)));
        assert!(!read.is_complete(Some(51)), "a line is missing");
        assert!(!read.is_complete(None), "nothing ends it");
        assert!(read.covers(64, 1000, true) && !read.covers(64, 1000, false));
        assert!(read.covers(64, 100, false), "the next sector is there");
    }

    #[test]
    fn a_directory_of_another_life_or_block_is_not_believed() {
        let block = written(50, 50);
        let other_life = EntryPlace {
            incarnation: 11,
            ..place()
        };
        let other_block = EntryPlace {
            offset: 65_536 + BLOCK_BYTES,
            ..place()
        };
        for place in [other_life, other_block] {
            assert_eq!(ReadDirectory::read(&block, place).lines, []);
        }
    }

    #[test]
    fn an_identity_gives_back_partition_and_tag() {
        let mut bytes = [0; Digest::LEN];
        for round in 0..=255u8 {
            for (at, byte) in (0..).zip(&mut bytes) {
                *byte = round.wrapping_mul(31).wrapping_add(83u8.wrapping_mul(at)) ^ 0x5a;
            }
            let digest = Digest::new(bytes);
            let expected = (digest.partition(), digest.tag());
            assert_eq!(split_identity(identity_of(&digest)), expected);
        }
    }
}
