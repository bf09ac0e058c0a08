//! Reads a block by calls of the system: an unreadable range is damage of the entries there, and
//! not a signal.
//!
//! Recovery and `verify` scan a block entry by entry on these bytes; cleaning, the tombstone pass
//! and readers of changes walk over entries with headers that hold, a piece at a time.

use crate::entry::{ENTRY_HEADER_BYTES, EntryHeader, EntryKind, EntryView};
use crate::location::UNIT_BYTES;
use crate::log::block::{BlockId, BlockState};
use crate::log::directory::{DirectoryLine, ReadDirectory, directory_bytes};
use crate::log::volume::Volume;

/// How much is read by one call: little enough to stay in the processor's cache while it is looked
/// at.
pub(crate) const PIECE_BYTES: u64 = 256 << 10;
/// The size of a page, read again alone where a larger piece cannot be read.
const PAGE_BYTES: usize = 4096;
/// Memory beyond this is given back after a large entry.
const KEPT_BYTES: usize = 1 << 20;
/// A block in one of its lives.
#[derive(Clone, Copy, Debug)]
pub(crate) struct BlockLife<'a> {
    pub(crate) volume: &'a Volume,
    pub(crate) id: BlockId,
    pub(crate) incarnation: u64,
}

impl<'a> BlockLife<'a> {
    /// The present life of a block.
    pub(crate) fn of(volume: &'a Volume, id: BlockId, block: &BlockState) -> Self {
        Self {
            volume,
            id,
            incarnation: block.incarnation(),
        }
    }

    pub(crate) fn state(&self) -> Option<&'a BlockState> {
        self.volume.block(self.id.index)
    }

    /// The first byte behind the block, as an offset in the device.
    pub(crate) const fn end(&self) -> u64 {
        self.id.offset_bytes() + self.id.bytes()
    }
}

/// Memory for parts of blocks, used again and again.
#[derive(Debug, Default)]
pub(crate) struct BlockWalk {
    bytes: Vec<u8>,
    /// The offset of the bytes in the device, and how many there are.
    offset: u64,
    len: usize,
    /// The entries of the piece that was read last: offsets in the device.
    entries: Vec<(u64, EntryHeader)>,
    /// Bytes that could not be read.
    unreadable_bytes: u64,
}

impl BlockWalk {
    /// Forgets all bytes. The next ones begin at this offset of the device.
    pub(crate) fn begin(&mut self, offset: u64) {
        (self.offset, self.len) = (offset, 0);
    }

    /// Reads on up to an offset of the device. Bytes that cannot be read are zero, and noted.
    pub(crate) fn reach(&mut self, volume: &Volume, to: u64) {
        let from = self.end();
        if to <= from {
            return;
        }
        let len = (to - self.offset) as usize;
        if self.bytes.len() < len {
            self.bytes.resize(len, 0);
        }
        let inside = volume.device().len_bytes().saturating_sub(from);
        if let Some(target) = self.bytes.get_mut(self.len..len) {
            let (target, beyond) = target.split_at_mut(inside.min(to - from) as usize);
            beyond.fill(0);
            self.unreadable_bytes += volume.read_readable(from, target, PAGE_BYTES);
        }
        self.len = len;
    }

    /// Replaces the bytes from this offset of the device on.
    pub(crate) fn overlay(&mut self, offset: u64, bytes: &[u8]) {
        let at = (offset - self.offset) as usize;
        self.len = self.len.max(at + bytes.len());
        if self.bytes.len() < self.len {
            self.bytes.resize(self.len, 0);
        }
        let target = self.bytes.get_mut(at..).unwrap_or_default().iter_mut();
        target.zip(bytes).for_each(|(to, from)| *to = *from);
    }

    fn end(&self) -> u64 {
        self.offset + self.len as u64
    }

    /// The bytes that were read from this offset of the device on.
    pub(crate) fn at(&self, offset: u64) -> &[u8] {
        let read = self.bytes.get(..self.len).unwrap_or_default();
        let from = offset.checked_sub(self.offset);
        from.and_then(|from| read.get(from as usize..))
            .unwrap_or_default()
    }

    /// The header of the entry at an offset of the device, if it holds.
    pub(crate) fn header_at(&self, block: BlockLife<'_>, offset: u64) -> Option<EntryHeader> {
        let raw = self.at(offset).first_chunk::<ENTRY_HEADER_BYTES>()?;
        let place = block.volume.place(block.incarnation, offset);
        let header = EntryHeader::decode_checked(raw, place)?;
        let end = offset + header.span_bytes();
        (end <= block.end()).then_some(header)
    }

    /// An entry that was read, if it holds as a whole.
    pub(crate) fn whole_entry(&self, offset: u64, header: &EntryHeader) -> Option<EntryView<'_>> {
        let (raw, after) = self.at(offset).split_first_chunk::<ENTRY_HEADER_BYTES>()?;
        let body = after.get(..header.body_bytes as usize)?;
        header
            .body_holds(raw, body)
            .then(|| EntryView::new(raw, body))
    }

    /// Reads the next piece of a block, up to `end` at most, and finds the entries with headers
    /// that hold. Returns where the piece after it begins. A body is read as far as the piece goes,
    /// and beyond if it is wanted.
    pub(crate) fn read_piece(
        &mut self,
        block: BlockLife<'_>,
        (from, end): (u64, u64),
        is_wanted: impl Fn(u64, &EntryHeader) -> bool,
    ) -> u64 {
        self.entries.clear();
        self.begin(from);
        self.reach(block.volume, end.min(from + PIECE_BYTES));
        let mut at = from;
        while at < end {
            if self.at(at).len() < ENTRY_HEADER_BYTES {
                // The rest is too short for an entry, or begins the next piece.
                return if at == from || self.end() >= end {
                    end
                } else {
                    at
                };
            }
            let Some(header) = self.header_at(block, at) else {
                // Damage hides where the next entry begins: the first header that holds shows it.
                at += UNIT_BYTES;
                continue;
            };
            let next = at + header.span_bytes();
            let body_end = at + ENTRY_HEADER_BYTES as u64 + u64::from(header.body_bytes);
            if body_end > self.end() && body_end <= end && is_wanted(at, &header) {
                if at > from {
                    return at;
                }
                self.reach(block.volume, body_end);
            }
            self.entries.push((at, header));
            if header.kind == EntryKind::Filler {
                // The directory follows.
                return end;
            }
            at = next;
        }
        end
    }

    /// The entries of the piece: offset in the device, header.
    pub(crate) fn entries(&self) -> &[(u64, EntryHeader)] {
        &self.entries
    }

    /// Reads the lines of all entries that count in a block that is not being filled.
    /// `durable_entries`: how many an opening has found there, unless it was closed. `None`: not
    /// all of its directory holds.
    pub(crate) fn lines_of(
        &mut self,
        life: BlockLife<'_>,
        durable_entries: Option<u32>,
    ) -> Option<Vec<DirectoryLine>> {
        let block = life.state()?;
        let ended = block.ended().map(|ended| ended.entries);
        let entries = durable_entries.or(ended).map(|entries| entries as usize);
        let begin = match entries {
            Some(entries) => life.end() - directory_bytes(entries),
            // How long it is, only the directory of a closed block itself says.
            None => life.id.offset_bytes() + block.directory_behind(),
        };
        self.begin(begin);
        self.reach(life.volume, life.end());
        let place = life.volume.place(life.incarnation, life.id.offset_bytes());
        ReadDirectory::read(self.at(begin), place).whole_lines(entries)
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
}
