//! The persisted order of values, of a map ordered by key and value: maps ranks to entries.
//!
//! It precedes the offsets in the index data of the map: for each rank the position of its entry,
//! little-endian, in 1, 2 or 4 bytes, the fewest that hold every position. Position breaks ties of
//! equal values.

use super::packed::{Packed, width_of};
use crate::value::CodecError;

/// Positions by rank, in stored form.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ranks<'a>(Packed<'a>);

impl<'a> Ranks<'a> {
    /// Splits the ranks of `count` entries from the front of index data.
    pub(super) fn split(
        data: &'a [u8],
        count: u32,
    ) -> Result<(Option<Self>, &'a [u8]), CodecError> {
        let width = entry_width(count);
        let (entries, rest) = (count as usize)
            .checked_mul(width)
            .and_then(|len| data.split_at_checked(len))
            .ok_or(CodecError::BadIndex)?;
        Ok((Packed::of(width, entries).map(Self), rest))
    }

    /// Returns the position of the entry with a valid rank. Damaged data may yield an invalid
    /// position.
    #[inline]
    pub(super) fn position(&self, rank: u32) -> u32 {
        let position = self.0.load(rank as usize);
        position.map_or(u32::MAX, |position| position as u32)
    }
}

/// Returns the fewest bytes that hold every position of `count` entries.
pub(super) const fn entry_width(count: u32) -> usize {
    width_of(count.saturating_sub(1) as usize)
}
