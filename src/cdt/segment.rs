//! Consecutive items of a list or map: where they stand and where their bytes are.

/// Consecutive items: their positions and their bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Segment {
    pub(crate) at: u32,
    pub(crate) count: u32,
    pub(crate) start: usize,
    pub(crate) end: usize,
}

impl Segment {
    /// No items, in front of the one at a position.
    pub(super) const fn gap(at: u32, start: usize) -> Self {
        Self {
            at,
            count: 0,
            start,
            end: start,
        }
    }
}
