//! The headers of blocks and their mirrors, as they are on the device.

use super::Volume;
use crate::device::DeviceError;
use crate::log::block::{
    BLOCK_HEADER_BYTES, BlockHeader, BlockId, BlockUse, Format, HeaderCopy, MIRROR_AT, Phase,
    RawBlockHeader,
};

impl Volume {
    fn read_header_copy(&self, offset: u64, index: u32) -> HeaderCopy {
        let mut raw: RawBlockHeader = [0; BLOCK_HEADER_BYTES as usize];
        if offset + BLOCK_HEADER_BYTES > self.device.len_bytes() {
            return HeaderCopy::Blank;
        }
        match self.device.read(offset, &mut raw) {
            Ok(()) => HeaderCopy::read(&raw, self.device_id, index),
            Err(_) => HeaderCopy::Unreadable,
        }
    }

    /// Where the mirror of a block's header lies: in the next block, that of the last one in the first.
    pub(crate) fn mirror_offset(&self, index: u32) -> u64 {
        let next = if (index as usize) + 1 < self.blocks.len() {
            index + 1
        } else {
            0
        };
        self.block_id(next).offset_bytes() + MIRROR_AT
    }

    /// Both copies of the header of a block, its own and the mirror, and whether there should be a mirror.
    pub(crate) fn header_copies(
        &self,
        index: u32,
        next_block: u64,
    ) -> (HeaderCopy, HeaderCopy, bool) {
        let own = self.read_header_copy(self.block_id(index).offset_bytes(), index);
        let mirror = self.read_header_copy(self.mirror_offset(index), index);
        let is_mirrored = matches!(mirror, HeaderCopy::Header { .. })
            || self.may_hold_mirror(self.mirror_holder(index), next_block);
        let mirror = match mirror {
            // Entries of format 1 lie there, or lay there until a moment ago.
            HeaderCopy::Unreadable if !is_mirrored => HeaderCopy::Blank,
            found => found,
        };
        (own, mirror, is_mirrored)
    }

    /// What is known of a block, see [`BlockUse::judge`].
    pub(crate) fn block_use(&self, index: u32, next_block: u64, is_known_used: bool) -> BlockUse {
        let (own, mirror, is_mirrored) = self.header_copies(index, next_block);
        BlockUse::judge(own, mirror, next_block, is_known_used, is_mirrored)
    }

    /// The block in which the mirror of a block's header lies.
    fn mirror_holder(&self, index: u32) -> u32 {
        BlockId::containing(self.number, self.mirror_offset(index)).index
    }

    /// Whether the header of a block says that another one's mirror lies in it: not while it holds entries of format 1,
    /// nor after it held them as long as what has become of it was not durable.
    fn may_hold_mirror(&self, holder: u32, next_block: u64) -> bool {
        let found = self.read_header_copy(self.block_id(holder).offset_bytes(), holder);
        found.header().is_none_or(|header| match header.format {
            Format::One => false,
            Format::Two => header.sequence < next_block,
        })
    }

    /// Writes the header of a block, and its mirror unless that lies in a block of format 1.
    pub(crate) fn write_block_header(&self, header: &BlockHeader) -> Result<(), DeviceError> {
        let _one_at_a_time = self.headers.lock();
        let raw = header.encode();
        self.device
            .write(self.block_id(header.index).offset_bytes(), &[&raw])?;
        let mirror = self.mirror_offset(header.index);
        let holder = self.block(self.mirror_holder(header.index));
        let is_old = holder
            .is_some_and(|block| block.format() == Format::One && block.phase() != Phase::Free);
        if is_old || mirror + BLOCK_HEADER_BYTES > self.device.len_bytes() {
            return Ok(());
        }
        self.device.write(mirror, &[&raw])
    }

    /// Writes the mirror that lies in a block where entries of format 1 were, once that block counts as one of format 2.
    pub(crate) fn write_missing_mirror(&self, holder: u32) -> Result<(), DeviceError> {
        let _one_at_a_time = self.headers.lock();
        let before = match holder {
            0 => self.blocks.len() as u32 - 1,
            _ => holder - 1,
        };
        let own = self.read_header_copy(self.block_id(before).offset_bytes(), before);
        let raw = match own.header() {
            Some(header) if header.format == Format::Two => header.encode(),
            // It gets a mirror with its first header of format 2.
            _ => [0; BLOCK_HEADER_BYTES as usize],
        };
        self.device.write(self.mirror_offset(before), &[&raw])
    }
}
