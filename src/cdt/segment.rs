//! Consecutive items of a list or map, by position and bytes.

/// Consecutive items: their positions and their bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ItemSegment {
    pub(crate) at: u32,
    pub(crate) count: u32,
    pub(crate) start: usize,
    pub(crate) end: usize,
}

impl ItemSegment {
    /// Returns the empty segment in front of the item at a position.
    pub(super) const fn gap(at: u32, start: usize) -> Self {
        Self {
            at,
            count: 0,
            start,
            end: start,
        }
    }
}
