//! Reads a block by calls of the system, for cleaning and for the tombstone pass: an unreadable range is damage of the
//! entries there, and not a signal.

use crate::entry::{ENTRY_HEADER_BYTES, EntryView, Header, Kind};
use crate::location::UNIT_BYTES;
use crate::log::block::BlockId;
use crate::log::directory::{Line, ReadDirectory, SECTOR_BYTES};
use crate::log::volume::Volume;

/// How much is read by one call: little enough to stay in the processor's cache while it is looked at.
const PIECE_BYTES: u64 = 256 << 10;
/// The size of a page, read again alone where a larger piece cannot be read.
const PAGE_BYTES: usize = 4096;
/// Memory beyond this is given back after a large entry.
const KEPT_BYTES: usize = 1 << 20;

/// Memory for parts of blocks, used again and again.
#[derive(Debug, Default)]
pub(crate) struct BlockWalk {
    bytes: Vec<u8>,
    /// The offset of the bytes in the device, and how many there are.
    offset: u64,
    len: usize,
    /// The entries of the piece that was read last: offsets in the device.
    entries: Vec<(u64, Header)>,
    /// Bytes that could not be read.
    unreadable_bytes: u64,
}

/// The range of a walk: a block of this life, up to an offset in its device.
#[derive(Clone, Copy, Debug)]
pub(crate) struct WalkedBlock<'a> {
    pub(crate) volume: &'a Volume,
    pub(crate) id: BlockId,
    pub(crate) incarnation: u64,
    pub(crate) end: u64,
}

impl BlockWalk {
    /// Reads the next piece of a block and finds the entries with headers that hold. Returns where the piece after it begins.
    /// A body is read as far as the piece goes, and beyond if it is wanted.
    pub(crate) fn read_piece(
        &mut self,
        block: WalkedBlock<'_>,
        from: u64,
        is_wanted: impl Fn(u64, &Header) -> bool,
    ) -> u64 {
        self.entries.clear();
        let WalkedBlock { volume, end, .. } = block;
        self.fill(volume, from, (end - from).min(PIECE_BYTES));
        let mut at = from;
        while at < end {
            let Some(raw) = self.bytes_at(at).first_chunk::<ENTRY_HEADER_BYTES>() else {
                // The rest is too short for an entry, or begins the next piece.
                return if at == from || self.end() >= end {
                    end
                } else {
                    at
                };
            };
            let place = volume.place(block.incarnation, at);
            let Some(header) = Header::decode_checked(raw, place) else {
                at += UNIT_BYTES;
                continue;
            };
            let next = at + u64::from(header.span_units) * UNIT_BYTES;
            let body_end = at + ENTRY_HEADER_BYTES as u64 + u64::from(header.body_bytes);
            if body_end > self.end() && body_end <= end && is_wanted(at, &header) {
                if at > from {
                    return at;
                }
                self.fill(volume, from, body_end - from);
            }
            self.entries.push((at, header));
            if header.kind == Kind::Filler {
                // The directory follows.
                return end;
            }
            at = next;
        }
        end
    }

    /// The entries of the piece: offset in the device, header.
    pub(crate) fn entries(&self) -> &[(u64, Header)] {
        &self.entries
    }

    /// An entry of the piece, if it holds as a whole.
    pub(crate) fn whole_entry(&self, offset: u64, header: &Header) -> Option<EntryView<'_>> {
        let bytes = self.bytes_at(offset);
        let (raw, after) = bytes.split_first_chunk::<ENTRY_HEADER_BYTES>()?;
        let body = after.get(..header.body_bytes as usize)?;
        header
            .body_holds(raw, body)
            .then(|| EntryView::new(raw, body))
    }

    /// Reads the directory of a block: the lines of the first `sectors` sectors. `None`: not all of them hold.
    pub(crate) fn read_directory(
        &mut self,
        block: WalkedBlock<'_>,
        sectors: usize,
    ) -> Option<Vec<Line>> {
        let bytes = (sectors * SECTOR_BYTES) as u64;
        let offset = block.id.offset_bytes();
        if bytes > block.id.bytes() {
            return None;
        }
        self.fill(block.volume, offset + block.id.bytes() - bytes, bytes);
        let place = block.volume.place(block.incarnation, offset);
        let directory = ReadDirectory::read(self.bytes_at(self.offset), place);
        directory.has_sectors(sectors).then_some(directory.lines)
    }

    /// Returns how many sectors the directory of a closed block has, which begins behind the filler that ends the entries.
    /// `None`: the filler does not hold.
    pub(crate) fn sectors_of_closed(
        &mut self,
        block: WalkedBlock<'_>,
        entries_end: u64,
    ) -> Option<usize> {
        let offset = block.id.offset_bytes();
        let at = offset + entries_end;
        let left = block.id.bytes().checked_sub(entries_end)?;
        self.fill(block.volume, at, left.min(ENTRY_HEADER_BYTES as u64));
        let place = block.volume.place(block.incarnation, at);
        let header = self
            .bytes_at(at)
            .first_chunk::<ENTRY_HEADER_BYTES>()
            .and_then(|raw| Header::decode_checked(raw, place));
        let directory_bytes = match header.filter(|header| header.kind == Kind::Filler) {
            Some(filler) => left.checked_sub(u64::from(filler.span_units) * UNIT_BYTES)?,
            // Too little was left for a filler.
            None => left - left % SECTOR_BYTES as u64,
        };
        let between = left - directory_bytes;
        let is_filled = header.is_some() || between < u64::from(Header::span_for(0)) * UNIT_BYTES;
        is_filled.then_some(directory_bytes as usize / SECTOR_BYTES)
    }

    /// How many bytes could not be read since this was asked last.
    pub(crate) fn take_unreadable_bytes(&mut self) -> u64 {
        std::mem::take(&mut self.unreadable_bytes)
    }

    /// Gives memory back that a large entry has taken.
    pub(crate) fn shrink(&mut self) {
        if self.bytes.len() > KEPT_BYTES {
            self.bytes = Vec::new();
            self.len = 0;
        }
    }

    fn end(&self) -> u64 {
        self.offset + self.len as u64
    }

    fn bytes_at(&self, offset: u64) -> &[u8] {
        let read = self.bytes.get(..self.len).unwrap_or_default();
        let from = offset.checked_sub(self.offset);
        from.and_then(|from| read.get(from as usize..))
            .unwrap_or_default()
    }

    /// Reads a range of the device. Unreadable bytes are zero, and noted.
    fn fill(&mut self, volume: &Volume, offset: u64, bytes: u64) {
        self.offset = offset;
        self.len = bytes as usize;
        if self.bytes.len() < self.len {
            self.bytes.resize(self.len, 0);
        }
        let Some(target) = self.bytes.get_mut(..self.len) else {
            return;
        };
        self.unreadable_bytes += volume.read_readable(offset, target, PAGE_BYTES);
    }
}
