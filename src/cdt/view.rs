//! An encoded list or map, its head parsed.
//!
//! Lists and maps have the same view: a row of *items*. A list's item is one element; a map's item
//! is a key followed by its value.

use super::cost;
use super::index::ItemIndex;
use super::ranks::Ranks;
use super::segment::ItemSegment;
use super::shape::ItemShape;
use crate::call::CallError;
use crate::value::msgpack::element_len;
use crate::value::{CodecError, Container, FLAG_ORDERED, FLAG_VALUE_ORDERED, ParticleType};

/// An encoded list or map. Cheap to copy.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CollectionView<'a> {
    pub(crate) shape: ItemShape,
    /// Number of items.
    pub(crate) count: u32,
    /// Order, and the flag of a persisted index.
    pub(crate) flags: u8,
    pub(super) index: ItemIndex<'a>,
    /// The items by value, if persisted.
    pub(super) ranks: Option<Ranks<'a>>,
    /// Exactly the encoded items.
    pub(super) content: &'a [u8],
}

impl<'a> CollectionView<'a> {
    /// Parses the head of a list or map. O(1).
    pub(crate) fn parse(shape: ItemShape, bytes: &'a [u8]) -> Result<Self, CallError> {
        let head = Container::of(shape, bytes).map_err(CallError::Stored)?;
        if head.count as usize > head.content.len() {
            return Err(CallError::Stored(CodecError::Truncated));
        }
        let ranked = shape == ItemShape::Map && head.flags & FLAG_VALUE_ORDERED != 0;
        let (ranks, data) = if ranked && !head.index.is_empty() {
            Ranks::split(head.index, head.count).map_err(CallError::Stored)?
        } else {
            (None, head.index)
        };
        let index =
            ItemIndex::parse(data, head.count, head.content.len()).map_err(CallError::Stored)?;
        Ok(Self {
            shape,
            count: head.count,
            flags: head.flags,
            index,
            ranks,
            content: head.content,
        })
    }

    /// Parses the head of the list or map in a bin of this type and value.
    #[inline]
    pub(crate) fn of_bin(
        shape: ItemShape,
        kind: ParticleType,
        bin: &'a [u8],
    ) -> Result<Self, CallError> {
        if kind == shape.kind() {
            Self::parse(shape, bin)
        } else {
            Err(wrong_type(shape, kind))
        }
    }

    /// Returns a list or map without items.
    pub(crate) const fn empty(shape: ItemShape, flags: u8) -> Self {
        Self {
            shape,
            count: 0,
            flags,
            index: ItemIndex::None,
            ranks: None,
            content: &[],
        }
    }

    /// Returns whether this is a list that keeps its elements sorted.
    pub(crate) fn is_ordered_list(&self) -> bool {
        self.shape == ItemShape::List && self.flags & FLAG_ORDERED != 0
    }

    /// Iterates over the items with their positions and bytes, front to back.
    pub(crate) const fn walk(&self) -> ItemWalk<'a> {
        ItemWalk {
            shape: self.shape,
            content: self.content,
            at: 0,
            count: self.count,
            start: 0,
        }
    }

    /// Returns the bytes of `count` items from position `at`, a valid range. O(1) with an index,
    /// O(at + count) without.
    pub(super) fn segment(&self, at: u32, count: u32) -> Result<ItemSegment, CallError> {
        let end_at = at.saturating_add(count);
        let (start, end) = match (self.start_of(at), self.start_of(end_at)) {
            (Some(start), Some(end)) => (start, end),
            (start, _) => {
                let mut walk = self.walk();
                let start = match start {
                    Some(start) => walk.jump(at, start),
                    None => walk.skip_to(at)?,
                };
                (start, walk.skip_to(end_at)?)
            }
        };
        ItemSegment::checked(at, count, start..end, self.content)
    }

    /// Returns the start of an item if it is known without a walk. The position after the last item
    /// gives the end.
    #[inline]
    pub(super) fn start_of(&self, at: u32) -> Option<usize> {
        if at == 0 {
            Some(0)
        } else if at >= self.count {
            Some(self.content.len())
        } else {
            self.index.start_of(at)
        }
    }

    /// Returns the bytes of a segment.
    pub(crate) fn bytes(&self, segment: ItemSegment) -> &'a [u8] {
        self.content
            .get(segment.start..segment.end)
            .unwrap_or_default()
    }

    /// Returns the value of a segment of one item.
    pub(crate) fn value(&self, segment: ItemSegment) -> &'a [u8] {
        self.shape.value_of(self.bytes(segment))
    }

    /// Returns the key of a segment of one item; `None` in a list.
    pub(crate) fn key(&self, segment: ItemSegment) -> Option<&'a [u8]> {
        match self.shape {
            ItemShape::List => None,
            ItemShape::Map => {
                let entry = self.bytes(segment);
                entry.get(..element_len(entry).ok()?)
            }
        }
    }

    /// Returns the gap after the last item.
    pub(super) const fn end(&self) -> ItemSegment {
        ItemSegment::gap(self.count, self.content.len())
    }
}

/// Returns the error of an operation on a value of another shape.
pub(super) const fn wrong_type(shape: ItemShape, found: ParticleType) -> CallError {
    let operation = match shape {
        ItemShape::List => "a list operation",
        ItemShape::Map => "a map operation",
    };
    CallError::WrongType { found, operation }
}

/// Iterates over the items of a list or map. Ends after a malformed item.
#[derive(Clone, Debug)]
pub(crate) struct ItemWalk<'a> {
    shape: ItemShape,
    content: &'a [u8],
    at: u32,
    count: u32,
    start: usize,
}

impl ItemWalk<'_> {
    /// Continues at an item with a known start, and returns the start.
    const fn jump(&mut self, at: u32, start: usize) -> usize {
        self.at = at;
        self.start = start;
        start
    }

    /// Walks to a position and returns the start of its item.
    fn skip_to(&mut self, at: u32) -> Result<usize, CallError> {
        while self.at < at.min(self.count) {
            self.step()?;
        }
        Ok(self.start)
    }

    #[inline]
    fn step(&mut self) -> Result<ItemSegment, CallError> {
        cost::visit();
        let start = self.start;
        let rest = self.content.get(start..).unwrap_or_default();
        let len = self.shape.item_len(rest).map_err(CallError::Stored)?;
        let segment = ItemSegment::new(self.at, 1, start..start + len);
        self.at += 1;
        self.start = segment.end;
        Ok(segment)
    }
}

impl Iterator for ItemWalk<'_> {
    type Item = Result<ItemSegment, CallError>;

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        if self.at >= self.count {
            return None;
        }
        let item = self.step();
        if item.is_err() {
            self.at = self.count;
        }
        Some(item)
    }
}
