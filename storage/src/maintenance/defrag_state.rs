//! Where defragmentation stands between its steps.

use crate::epoch;
use crate::log::Log;
use crate::log::block::BlockId;
use crate::maintenance::block_walk::BlockWalk;
use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// What is under way.
#[derive(Debug, Default)]
pub(crate) struct Defrag {
    pub(super) emptied: Vec<Emptied>,
    /// Blocks that could not be emptied (damage, or a write that was under way), with the live units they had: not tried
    /// again before that has changed, or somebody has asked for it.
    pub(super) stuck: HashMap<BlockId, u32>,
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
