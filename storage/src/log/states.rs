//! The state of the devices, and the additions of a sync.

use crate::device::{DurableExtent, State};

/// The state as noted last, and the additions of the sync under way.
#[derive(Debug, Default)]
pub(super) struct States {
    pub(super) noted: State,
    /// Whether notes keep the boots of the state that an opening has found.
    pub(super) keeps_boots: bool,
    pub(super) syncing: Reach,
}

/// How far the log reached when a sync began.
#[derive(Debug, Default)]
pub(super) struct Reach {
    pub(super) next_block: u64,
    /// For each device, how many blocks had a header.
    pub(super) used_blocks: Vec<u32>,
    /// How far the open blocks were filled.
    pub(super) open: Vec<DurableExtent>,
}
