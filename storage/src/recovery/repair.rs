//! What an opening to write puts in order in the headers of blocks.

use crate::device::DeviceError;
use crate::error::Result;
use crate::log::Log;
use crate::log::block::{BlockHeader, BlockUse};
use crate::log::volume::Volume;

/// Headers to be written anew: not the same in both copies, or not known to be durable.
#[derive(Debug, Default)]
pub(crate) struct Repair {
    pub(crate) headers: Vec<BlockHeader>,
}

impl Repair {
    /// The headers of blocks in use, as a snapshot knows them, that cannot be read in both copies.
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
        }
    }

    /// Writes the headers. Nothing is synced yet.
    pub(crate) fn run(&self, log: &Log) -> Result<()> {
        for header in &self.headers {
            if let Some(volume) = volume_of(log, header) {
                match volume.write_block_header(header) {
                    // A disk that is full has no page for a block that holds nothing. But a mirror that was never durable would
                    // be believed once younger blocks are.
                    Err(DeviceError::Full { .. }) if header.incarnation == 0 => {
                        volume.replace_block_header(header)?;
                    }
                    done => done?,
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
