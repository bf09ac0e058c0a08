//! Consecutive items of a list or map, by position and bytes.

use std::ops::Range;

use crate::call::CallError;
use crate::value::CodecError;

/// Consecutive items: their positions and their bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ItemSegment {
    pub(crate) at: u32,
    pub(crate) count: u32,
    pub(crate) start: usize,
    pub(crate) end: usize,
}

impl ItemSegment {
    #[inline]
    pub(super) const fn new(at: u32, count: u32, bytes: Range<usize>) -> Self {
        Self {
            at,
            count,
            start: bytes.start,
            end: bytes.end,
        }
    }

    /// Returns the items at the bytes that a stored index names.
    #[inline]
    pub(super) const fn checked(
        at: u32,
        count: u32,
        bytes: Range<usize>,
        content: &[u8],
    ) -> Result<Self, CallError> {
        if bytes.start <= bytes.end && bytes.end <= content.len() {
            Ok(Self::new(at, count, bytes))
        } else {
            Err(CallError::Stored(CodecError::BadIndex))
        }
    }

    /// Joins the items to the last ones of `all` if they follow these, else appends them.
    pub(super) fn join_or_push(self, all: &mut Vec<Self>) {
        match all.last_mut() {
            Some(last) if last.end == self.start && last.at + last.count == self.at => {
                last.count += self.count;
                last.end = self.end;
            }
            _ => all.push(self),
        }
    }

    /// Returns the empty segment in front of the item at a position.
    pub(super) const fn gap(at: u32, start: usize) -> Self {
        Self::new(at, 0, start..start)
    }
}
