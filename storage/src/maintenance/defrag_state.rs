//! Where defragmentation stands between its steps.

use crate::epoch;
use crate::log::Log;
use crate::log::block::BlockId;
use crate::maintenance::block_walk::BlockWalk;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// What is under way.
#[derive(Debug, Default)]
pub(crate) struct Defrag {
    /// Chosen to be emptied, the best last.
    pub(super) next: Vec<BlockId>,
    pub(super) emptied: Vec<Emptied>,
    /// The partition with which the next look at tombstones begins.
    pub(crate) tombstones_from: usize,
    /// The memory that blocks are read into.
    pub(crate) walk: BlockWalk,
}

#[derive(Debug)]
pub(super) struct Emptied {
    pub(super) id: BlockId,
    /// All readers that could see it are gone.
    pub(super) unseen: Arc<AtomicBool>,
    /// The last sequence number when it was empty: what superseded its entries has no higher one.
    pub(super) last_lsn: u64,
    /// Its header says that it is free.
    pub(super) noted: bool,
}

impl Emptied {
    /// Once true, it stays so: nobody finds the block in the index any more.
    pub(super) fn is_unseen(&self, log: &Log) -> bool {
        if !self.unseen.load(Ordering::SeqCst) && epoch::is_unseen(log.watched(self.id)) {
            self.unseen.store(true, Ordering::SeqCst);
        }
        self.unseen.load(Ordering::SeqCst)
    }
}
