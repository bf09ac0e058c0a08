//! A small store goes on in the block that it was filling when it was closed or killed. Each opening would take a fresh
//! one otherwise, and a store that is opened for a single write each time would grow by 8 MiB each time.

use crate::block::{BLOCK_HEADER_BYTES, BlockId, Phase};
use crate::device::BLOCK_BYTES;
use crate::entry::{ENTRY_HEADER_BYTES, Header, Kind};
use crate::lane::OpenBlock;
use crate::location::UNIT_BYTES;
use crate::log::Log;
use crate::space::SMALL_BLOCKS;
use crate::volume::Volume;

/// Less is not worth it.
const REST_BYTES_MIN: u64 = 64 << 10;

impl Log {
    /// Gives the first lane the block with the most room left in it, if the store is small: for another one the rest of a
    /// block is nothing, and each look reads a block. To be called before the first
    /// write, and after recovery has made durable what it changed.
    pub(crate) fn resume(&self) {
        let in_use: Vec<BlockId> = self
            .volumes()
            .iter()
            .flat_map(|volume| {
                let blocks = (0..volume.allocated_blocks()).zip(volume.blocks());
                let used = blocks.filter(|(_, block)| block.phase() != Phase::Free);
                used.map(|(index, _)| volume.block_id(index))
            })
            .take(SMALL_BLOCKS + 1)
            .collect();
        if in_use.len() > SMALL_BLOCKS {
            return;
        }
        let rests = in_use.into_iter().filter_map(|id| {
            let next = self
                .volumes()
                .get(id.device)
                .and_then(|volume| rest_of(volume, id))?;
            Some((id, next))
        });
        // The most room: the lowest offset within its block.
        if let Some((id, next)) = rests.min_by_key(|(id, next)| next - id.offset_bytes()) {
            self.reopen_block(id, next);
        }
    }

    fn reopen_block(&self, id: BlockId, next: u64) {
        let (Some(block), Some(lane)) = (self.block(id), self.first_lane()) else {
            return;
        };
        let start = id.offset_bytes();
        // What was filled before holds no tombstones to come: it counts as if it were in another block.
        let unreserved_bytes = self.space().unreserved_bytes(self.volumes(), next - start);
        let open = OpenBlock::new(id, block.incarnation(), next, unreserved_bytes);
        block.set_phase(Phase::Open);
        lane.state.lock().open = Some(open);
    }
}

/// Where the last entry of a block ends, if all before it is whole, and nothing was ever written behind it but the filler
/// that closed the block: so nothing that lies there can be of use to anybody, or come back.
fn rest_of(volume: &Volume, id: BlockId) -> Option<u64> {
    let block = volume.block(id.index)?;
    if block.phase() != Phase::Closed || block.incarnation() == 0 {
        return None;
    }
    let bytes = volume.quiet_block(id.index)?;
    let start = id.offset_bytes();
    let mut at = BLOCK_HEADER_BYTES;
    while at + REST_BYTES_MIN <= BLOCK_BYTES {
        let (raw, behind) = bytes
            .get(at as usize..)?
            .split_first_chunk::<ENTRY_HEADER_BYTES>()?;
        let header = Header::decode_checked(raw, volume.place(block.incarnation(), start + at))?;
        let end = at + u64::from(header.span_units) * UNIT_BYTES;
        let is_last = header.kind == Kind::Filler && end + UNIT_BYTES > BLOCK_BYTES;
        if is_last {
            let untouched = behind.iter().all(|byte| *byte == 0);
            return untouched.then_some(start + at);
        }
        at = end;
    }
    None
}
