//! The headers of blocks and their mirrors, as they are on the device.

use super::Volume;
use crate::device::{DeviceError, DeviceResult};
use crate::log::block::{
    BLOCK_HEADER_BYTES, BlockHeader, BlockId, BlockUse, HeaderCopy, MIRROR_AT, RawBlockHeader,
};
use crate::log::staging::PAGE_BYTES;

impl Volume {
    fn read_header_copy(&self, offset: u64, index: u32) -> HeaderCopy {
        let mut raw: RawBlockHeader = [0; BLOCK_HEADER_BYTES as usize];
        if offset + BLOCK_HEADER_BYTES > self.device.len_bytes() {
            // Never written: the device grows with its blocks. Or a power failure has taken the
            // end.
            return HeaderCopy::Blank;
        }
        match self.device.read(offset, &mut raw) {
            Ok(()) => HeaderCopy::read(&raw, self.device_id, index, self.block_bytes),
            Err(_) => HeaderCopy::Unreadable,
        }
    }

    /// The offset of the mirror of a block's header: in the next block, that of the last one in the
    /// first.
    fn mirror_offset(&self, index: u32) -> u64 {
        self.mirror_block(index).offset_bytes() + MIRROR_AT
    }

    /// Returns the block with the mirror: the next one, and of the last the first.
    pub(crate) fn mirror_block(&self, index: u32) -> BlockId {
        let next = if (index as usize) + 1 < self.blocks.len() {
            index + 1
        } else {
            0
        };
        self.block_id(next)
    }

    /// Both copies of the header of a block, its own and the mirror.
    pub(crate) fn header_copies(&self, index: u32) -> [HeaderCopy; 2] {
        [
            self.block_id(index).offset_bytes(),
            self.mirror_offset(index),
        ]
        .map(|offset| self.read_header_copy(offset, index))
    }

    /// The use of a block, see [`BlockUse::judge`].
    pub(crate) fn block_use(&self, index: u32, next_block: u64, is_known_used: bool) -> BlockUse {
        let [own, mirror] = self.header_copies(index);
        BlockUse::judge(own, mirror, next_block, is_known_used)
    }

    /// Makes the device long enough for the mirror of a block's header. Costs no disk space.
    pub(crate) fn reach_mirror(&self, index: u32) -> DeviceResult<()> {
        let end = self.mirror_block(index).offset_bytes() + PAGE_BYTES;
        if self.device.len_bytes() < end {
            self.device.extend(end)?;
        }
        Ok(())
    }

    /// Writes the header of a block and its mirror. A free block needs no copy beyond the end of
    /// the device, and on a full disk one copy is enough. But a copy that was never durable must
    /// go: it would be believed once younger blocks are.
    pub(crate) fn write_block_header(&self, header: &BlockHeader) -> DeviceResult<()> {
        let _one_at_a_time = self.headers.lock();
        let (raw, is_free) = (header.encode(), header.incarnation == 0);
        let own = self.block_id(header.index).offset_bytes();
        let (mut is_written, mut full) = (false, Ok(()));
        for offset in [own, self.mirror_offset(header.index)] {
            if offset + BLOCK_HEADER_BYTES > self.device.len_bytes() {
                if is_free {
                    continue;
                }
                // A power failure has taken the end of the device, and left the header.
                self.reach_mirror(header.index)?;
            }
            let is_blank = || self.read_header_copy(offset, header.index) == HeaderCopy::Blank;
            match self.device.write(offset, &raw) {
                Err(error @ DeviceError::Full { .. }) if is_free && is_blank() => full = Err(error),
                done => {
                    done?;
                    is_written = true;
                }
            }
        }
        // Without any copy, the block would count as lost once a state promises that it had one.
        if is_written { Ok(()) } else { full }
    }
}
