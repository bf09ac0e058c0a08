//! The state of the devices, as noted last.

use crate::device::State;

/// What the log keeps of the state.
#[derive(Debug, Default)]
pub(super) struct States {
    pub(super) noted: State,
    /// Whether notes keep the boots of the state that an opening has found.
    pub(super) keeps_boots: bool,
}
