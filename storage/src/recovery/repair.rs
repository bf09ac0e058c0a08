//! What an opening to write puts in order in the headers of blocks.

use crate::device::DeviceError;
use crate::error::Result;
use crate::log::Log;
use crate::log::block::{BlockHeader, BlockUse};
use crate::log::volume::Volume;

/// Returns the headers of blocks in use, as a snapshot knows them, that cannot be read in both copies.
pub(crate) fn damaged_headers(log: &Log, known: Vec<(usize, BlockHeader)>) -> Vec<BlockHeader> {
    let is_whole = |(device, header): &(usize, BlockHeader)| {
        let whole = BlockUse::Used {
            header: *header,
            intact: true,
        };
        let volume = log.volumes().get(*device);
        volume.is_none_or(|volume| volume.block_use(header.index, u64::MAX, true) == whole)
    };
    let damaged = known.into_iter().filter(|known| !is_whole(known));
    damaged.map(|(_, header)| header).collect()
}

/// Writes headers of blocks anew. Nothing is synced yet.
pub(crate) fn write_headers(log: &Log, headers: &[BlockHeader]) -> Result<()> {
    for header in headers {
        let is_its = |volume: &&Volume| volume.device_id() == header.device_id;
        let Some(volume) = log.volumes().iter().find(is_its) else {
            continue;
        };
        match volume.write_block_header(header) {
            // A disk that is full has no page for a block that holds nothing. But a mirror that was never durable would
            // be believed once younger blocks are.
            Err(DeviceError::Full { .. }) if header.incarnation == 0 => {
                volume.replace_block_header(header)?;
            }
            done => done?,
        }
    }
    Ok(())
}
