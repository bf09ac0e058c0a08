//! Items by position or rank, and positions by key or value.

use std::cmp::Ordering;

use super::cost;
use super::index::ItemIndex;
use super::ranks::Ranks;
use super::segment::ItemSegment;
use super::shape::ItemShape;
use super::view::CollectionView;
use crate::call::CallError;
use crate::value::CodecError;
use crate::value::msgpack::{WILDCARD, element_len, front_int};
use crate::value::order::{compare, compare_lookups, compare_total};

/// Random access to the items of a list or map.
#[derive(Debug)]
pub(super) struct Elements<'a> {
    shape: ItemShape,
    content: &'a [u8],
    count: u32,
    starts: Starts<'a>,
}

#[derive(Debug)]
enum Starts<'a> {
    Index(ItemIndex<'a>),
    Walked(Vec<u32>),
}

impl<'a> Elements<'a> {
    /// Prepares access: O(1) with an index, one walk over all items without.
    pub(super) fn of(view: &CollectionView<'a>) -> Result<Self, CallError> {
        let starts = match view.index {
            ItemIndex::None => {
                let mut starts = Vec::with_capacity(view.count as usize);
                for item in view.walk() {
                    starts.push(item?.start as u32);
                }
                Starts::Walked(starts)
            }
            index => Starts::Index(index),
        };
        Ok(Self {
            shape: view.shape,
            content: view.content,
            count: view.count,
            starts,
        })
    }

    /// Returns the start of the item at a position; the position after the last item gives the end.
    #[inline]
    pub(super) fn start_of(&self, at: u32) -> usize {
        if at >= self.count {
            return self.content.len();
        }
        match &self.starts {
            Starts::Index(index) => index.start_of(at).unwrap_or(self.content.len()),
            Starts::Walked(starts) => starts
                .get(at as usize)
                .map_or(self.content.len(), |start| *start as usize),
        }
    }

    /// Returns the content from the item at a position on. Comparisons read the front element only.
    #[inline]
    pub(super) fn from(&self, at: u32) -> &'a [u8] {
        cost::visit();
        self.content.get(self.start_of(at)..).unwrap_or_default()
    }

    /// Returns the content from the value of the item at a position on.
    #[inline]
    pub(super) fn value(&self, at: u32) -> &'a [u8] {
        self.shape.value_of(self.from(at))
    }

    /// Returns consecutive items.
    pub(super) fn segment(&self, at: u32, count: u32) -> Result<ItemSegment, CallError> {
        let (start, end) = (self.start_of(at), self.start_of(at.saturating_add(count)));
        if at.saturating_add(count) > self.count {
            return Err(CallError::Stored(CodecError::BadIndex));
        }
        ItemSegment::checked(at, count, start..end, self.content)
    }

    /// Returns the gap in front of an item.
    pub(super) fn gap(&self, at: u32) -> ItemSegment {
        ItemSegment::gap(at, self.start_of(at))
    }

    /// Returns the first position, from `from` on, with a front not less than `front`, where items
    /// are sorted by their front (lists by value, maps by key). O(log N).
    #[inline]
    pub(super) fn lower_bound(&self, front: &[u8], from: u32) -> u32 {
        self.partition(from, self.count, |at| {
            compare_total(self.from(at), front).is_lt()
        })
    }

    /// Returns the first position, from `from` on, with a front greater than `front`. O(log N).
    #[inline]
    pub(super) fn upper_bound(&self, front: &[u8], from: u32) -> u32 {
        self.partition(from, self.count, |at| {
            compare_total(self.from(at), front).is_le()
        })
    }

    /// Returns the first number from `low` on at which `before` is false, at most `high`.
    #[inline]
    pub(super) fn partition(&self, low: u32, high: u32, before: impl Fn(u32) -> bool) -> u32 {
        let (mut low, mut high) = (low, high);
        while low < high {
            let middle = low + (high - low) / 2;
            if before(middle) {
                low = middle + 1;
            } else {
                high = middle;
            }
        }
        low
    }

    /// Returns the position of an item with this front, or the one where it belongs, where items
    /// are sorted by their front. O(log N).
    #[inline]
    pub(super) fn find(&self, front: &[u8], from: u32) -> Result<u32, u32> {
        let at = self.lower_bound(front, from);
        if at < self.count && compare(self.from(at), front).is_eq() {
            Ok(at)
        } else {
            Err(at)
        }
    }
}

/// Finds a key in a map: its entry, or the gap where it belongs. O(log N) with an index, a walk up
/// to it without.
pub(super) fn find_key(
    view: &CollectionView<'_>,
    key: &[u8],
) -> Result<Result<ItemSegment, ItemSegment>, CallError> {
    if !matches!(view.index, ItemIndex::None) {
        let elements = Elements::of(view)?;
        return match elements.find(key, 0) {
            Ok(_) if key == WILDCARD => Ok(Err(view.end())),
            Ok(at) => elements.segment(at, 1).map(Ok),
            Err(at) => Ok(Err(elements.gap(at))),
        };
    }
    for item in view.walk() {
        let item = item?;
        let order = compare(view.bytes(item), key);
        if order.is_eq() {
            // A wildcard is no key, and finds none.
            if key == WILDCARD {
                break;
            }
            return Ok(Ok(item));
        }
        if order.is_gt() {
            return Ok(Err(ItemSegment::gap(item.at, item.start)));
        }
    }
    Ok(Err(view.end()))
}

/// Items by rank, for containers with a known order of values.
#[derive(Debug)]
pub(super) struct ByRank<'a> {
    pub(super) elements: Elements<'a>,
    /// `None` if ranks are positions.
    ranks: Option<Ranks<'a>>,
    count: u32,
}

impl<'a> ByRank<'a> {
    /// Prepares access; `None` for an unordered list, and for a map without a persisted order of
    /// values.
    pub(super) fn of(view: &CollectionView<'a>) -> Result<Option<Self>, CallError> {
        if !view.is_ordered_list() && view.ranks.is_none() {
            return Ok(None);
        }
        Ok(Some(Self {
            elements: Elements::of(view)?,
            ranks: view.ranks,
            count: view.count,
        }))
    }

    /// Returns the position of a rank.
    #[inline]
    pub(super) fn position(&self, rank: u32) -> u32 {
        match &self.ranks {
            None => rank,
            Some(ranks) => ranks.position(rank),
        }
    }

    fn value(&self, rank: u32) -> &'a [u8] {
        self.elements.value(self.position(rank))
    }

    /// Returns the lowest rank, from `from` on, with a value not less than `value`. O(log N).
    pub(super) fn lower_bound(&self, value: &[u8], from: u32) -> u32 {
        self.elements.partition(from, self.count, |rank| {
            compare_total(self.value(rank), value).is_lt()
        })
    }

    /// Returns the lowest rank, from `from` on, with a value greater than `value`. O(log N).
    pub(super) fn upper_bound(&self, value: &[u8], from: u32) -> u32 {
        self.elements.partition(from, self.count, |rank| {
            compare_total(self.value(rank), value).is_le()
        })
    }

    /// Returns whether an item has this value. O(log N).
    pub(super) fn has(&self, value: &[u8]) -> bool {
        let rank = self.lower_bound(value, 0);
        rank < self.count && compare_total(self.value(rank), value).is_eq()
    }

    /// Returns the lowest rank, from `rank` on, with a greater value. `rank` is the lower bound of
    /// `value`. O(1) if the value occurs at most once, as most do; else O(log N).
    pub(super) fn run_end(&self, value: &[u8], rank: u32) -> u32 {
        let is_equal = |rank| rank < self.count && compare_total(self.value(rank), value).is_eq();
        if !is_equal(rank) {
            rank
        } else if !is_equal(rank + 1) {
            rank + 1
        } else {
            self.upper_bound(value, rank + 2)
        }
    }

    /// Returns the rank of the item at a position. O(log N).
    pub(super) fn rank_of(&self, at: u32) -> u32 {
        if self.ranks.is_none() {
            return at;
        }
        let value = self.elements.value(at);
        self.elements.partition(0, self.count, |rank| {
            let other = self.position(rank);
            let order = compare_total(self.elements.value(other), value);
            order.then(other.cmp(&at)).is_lt()
        })
    }
}

/// Finds values equal to one value in unsorted items.
///
/// Stored text, bytes, nil and truth values have one encoding each, so comparing bytes suffices;
/// integers compare as integers; the other types (and wildcards) need the full comparison.
#[derive(Clone, Copy, Debug)]
pub(super) enum Matcher<'v> {
    Integer(i64),
    Bytes(&'v [u8]),
    Any(&'v [u8]),
}

impl<'v> Matcher<'v> {
    pub(super) fn new(value: &'v [u8]) -> Self {
        match (front_int(value), value.first()) {
            (Some(value), _) => Self::Integer(value),
            (None, Some(0xa0..=0xc3 | 0xd9..=0xdb)) => Self::Bytes(value),
            _ => Self::Any(value),
        }
    }

    #[inline]
    pub(super) fn matches(&self, value: &[u8]) -> bool {
        match self {
            Self::Integer(sought) => front_int(value) == Some(*sought),
            _ => self.matches_other(value),
        }
    }

    /// Kept out of line so that the comparison of integers is inlined.
    #[inline(never)]
    fn matches_other(&self, value: &[u8]) -> bool {
        match self {
            Self::Bytes(sought) => value == *sought,
            Self::Integer(_) => false,
            Self::Any(sought) => compare(value, sought).is_eq(),
        }
    }
}

/// Compares for sorting, like `compare_total`, with a valid order even if a damaged bin holds a
/// wildcard.
#[inline]
pub(super) fn sorting(a: &[u8], b: &[u8]) -> Ordering {
    match (front_int(a), front_int(b)) {
        (Some(a), Some(b)) => a.cmp(&b),
        _ => compare_lookups(a, b),
    }
}

/// Splits concatenated elements.
pub(super) fn split(mut bytes: &[u8]) -> Result<Vec<&[u8]>, CallError> {
    let mut elements = Vec::new();
    while !bytes.is_empty() {
        let len = element_len(bytes).map_err(CallError::Argument)?;
        let (element, rest) = bytes.split_at_checked(len).unwrap_or((bytes, &[]));
        elements.push(element);
        bytes = rest;
    }
    Ok(elements)
}
