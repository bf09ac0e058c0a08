//! The state of defragmentation between its steps.

use crate::epoch;
use crate::log::Log;
use crate::log::block::BlockId;
use crate::log::block_walk::BlockWalk;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// The work under way.
#[derive(Debug, Default)]
pub(crate) struct Defrag {
    /// Chosen to be emptied, the best last.
    pub(crate) next: Vec<BlockId>,
    pub(crate) emptied: Vec<Emptied>,
    /// The partition with which the next look at tombstones begins.
    pub(crate) tombstones_from: usize,
    /// The memory that blocks are read into.
    pub(crate) walk: BlockWalk,
}

#[derive(Debug)]
pub(crate) struct Emptied {
    pub(crate) id: BlockId,
    /// All readers that could see it are gone.
    pub(crate) unseen: Arc<AtomicBool>,
    /// The last sequence number when it was empty: versions that superseded its entries have no
    /// higher one.
    pub(crate) last_lsn: u64,
}

impl Emptied {
    /// Once true, it stays so: the index no longer names the block.
    pub(crate) fn is_unseen(&self, log: &Log) -> bool {
        if !self.unseen.load(Ordering::SeqCst) && epoch::is_unseen(log.watched(self.id)) {
            self.unseen.store(true, Ordering::SeqCst);
        }
        self.unseen.load(Ordering::SeqCst)
    }
}
