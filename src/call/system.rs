//! The executors of calls.

/// The executor of a call, with its number in expressions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CallSystem {
    /// Lists and maps.
    Collections = 0,
    /// Bits of blobs.
    Bits = 1,
    /// HyperLogLog sketches.
    Hll = 2,
}

impl CallSystem {
    pub(crate) const fn from_number(number: i64) -> Option<Self> {
        Some(match number {
            0 => Self::Collections,
            1 => Self::Bits,
            2 => Self::Hll,
            _ => return None,
        })
    }
}
