//! Splices of encoded items.

use std::borrow::Cow;

use smallvec::SmallVec;

use super::segment::ItemSegment;
use super::shape::{ItemShape, item_lens};

/// Splices by position. Most edits make one.
pub(super) type Splices<'a> = SmallVec<[ItemSplice<'a>; 1]>;

/// Items removed at one place, and others inserted there.
#[derive(Clone, Debug)]
pub(super) struct ItemSplice<'a> {
    /// The removed items. May be empty: then only its place counts.
    pub(super) removed: ItemSegment,
    /// The inserted items: `count` of them, encoded.
    pub(super) inserted: Cow<'a, [u8]>,
    pub(super) count: u32,
}

impl<'a> ItemSplice<'a> {
    /// Puts items in place of others, or into a gap.
    pub(super) const fn new(removed: ItemSegment, items: Cow<'a, [u8]>, count: u32) -> Self {
        Self {
            removed,
            inserted: items,
            count,
        }
    }

    /// Removes items.
    pub(super) const fn remove(removed: ItemSegment) -> Self {
        Self::new(removed, Cow::Borrowed(&[]), 0)
    }

    /// Returns by how many bytes later items move.
    pub(super) fn growth(&self) -> isize {
        self.inserted.len().cast_signed() - (self.removed.end - self.removed.start).cast_signed()
    }

    /// Iterates over the encoded lengths of the inserted items.
    pub(super) fn inserted_lens(&self, shape: ItemShape) -> impl Iterator<Item = usize> {
        item_lens(shape, &self.inserted)
    }
}
