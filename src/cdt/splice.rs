//! Splices of encoded items.

use std::borrow::Cow;

use super::segment::Segment;
use super::shape::{Shape, item_lens};

/// Items taken out at one place, and others put there.
#[derive(Clone, Debug)]
pub(super) struct Splice<'a> {
    /// What goes. May be empty: then only its place counts.
    pub(super) removed: Segment,
    /// What comes: `count` encoded items.
    pub(super) inserted: Cow<'a, [u8]>,
    pub(super) count: u32,
}

impl<'a> Splice<'a> {
    /// Items in place of others, or in a gap.
    pub(super) const fn new(removed: Segment, items: Cow<'a, [u8]>, count: u32) -> Self {
        Self {
            removed,
            inserted: items,
            count,
        }
    }

    /// Items to be taken out.
    pub(super) const fn remove(removed: Segment) -> Self {
        Self::new(removed, Cow::Borrowed(&[]), 0)
    }

    /// By how many bytes the items behind the splice move.
    pub(super) fn growth(&self) -> isize {
        self.inserted.len().cast_signed() - (self.removed.end - self.removed.start).cast_signed()
    }

    /// The encoded lengths of the inserted items.
    pub(super) fn inserted_lens(&self, shape: Shape) -> impl Iterator<Item = usize> {
        item_lens(shape, &self.inserted)
    }
}
