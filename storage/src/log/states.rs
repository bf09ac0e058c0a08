//! What the devices' headers say of how far they are durable, and what a sync under way adds.

use crate::device::{DurableExtent, State};

/// What the devices' headers say of how far they are durable.
#[derive(Debug, Default)]
pub(super) struct States {
    /// As noted last, one for each device.
    pub(super) noted: Vec<State>,
    /// What the sync under way will make durable.
    pub(super) syncing: Reach,
}

/// How far the log reached when a sync began.
#[derive(Debug, Default)]
pub(super) struct Reach {
    pub(super) next_block: u64,
    /// For each device: blocks that had a header, and how far the open ones were filled.
    pub(super) devices: Vec<(u32, Vec<DurableExtent>)>,
}
