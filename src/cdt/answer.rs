//! Replies about selected items, built from encoded bytes, and the segments that a removal takes
//! out.

use std::borrow::Cow;

use super::elements::ByRank;
use super::returns::{ReturnKind, Returns};
use super::segment::ItemSegment;
use super::select::{SelectedBy, SelectedPlaces, Selector, has, select};
use super::shape::ItemShape;
use super::value_list::{ValueMatches, by_value};
use super::view::CollectionView;
use crate::call::{CallError, CallReply};
use crate::value::msgpack::{
    element_len, write_array_header, write_flags_header, write_int, write_map_header,
};
use crate::value::order::{compare, compare_total};
use crate::value::{CodecError, FLAG_ORDERED};

/// The flag of a map in a reply that has its entries in the order of the selection. Never stored.
const FLAG_PRESERVE_ORDER: u8 = 0x08;

const NOT_SUPPORTED: CallError = CallError::NotApplicable(
    "this return type does not apply to this selection: ask for single indexes or ranks, or for values",
);

/// A selection and its return type.
#[derive(Debug)]
pub(super) struct TypedSelection<'l, 'a> {
    view: &'l CollectionView<'a>,
    by: SelectedBy,
    single: bool,
    returns: Returns,
    places: SelectedPlaces,
}

impl<'l, 'a> TypedSelection<'l, 'a> {
    /// Replies to a read.
    pub(super) fn read(
        view: &'l CollectionView<'a>,
        selector: &Selector<'_>,
        returns: Returns,
    ) -> Result<CallReply<'a>, CallError> {
        // The first equal element decides, wherever the last one is.
        if let (Selector::Value(value), ReturnKind::Exists) = (selector, returns.kind)
            && let Some(found) = has(view, value)?
        {
            return Ok(CallReply::Bool(found != returns.inverted));
        }
        Self::new(view, selector, returns)?.reply()
    }

    /// Selects, unless the return type does not apply to such a selection
    /// (semantics.md#return-types).
    pub(super) fn new(
        view: &'l CollectionView<'a>,
        selector: &Selector<'_>,
        mut returns: Returns,
    ) -> Result<Self, CallError> {
        let (by, single) = (selector.by(), selector.is_single());
        if !is_supported(view, by, single, returns) {
            return Err(NOT_SUPPORTED);
        }
        let places = select(view, selector, &mut returns)?;
        Ok(Self {
            view,
            by,
            single,
            returns,
            places,
        })
    }

    /// Finds the bytes of the selected items, which a removal always needs.
    pub(super) fn located(mut self) -> Result<Self, CallError> {
        if let SelectedPlaces::Row { at, count, segment } = &mut self.places
            && segment.is_none()
            && *count > 0
        {
            *segment = Some(self.view.segment(*at, *count)?);
        }
        Ok(self)
    }

    /// Builds the reply.
    pub(super) fn reply(&self) -> Result<CallReply<'a>, CallError> {
        let Returns {
            kind: what,
            inverted,
        } = self.returns;
        let len = self.view.count;
        let count = self.count();
        let selected = if inverted { len - count } else { count };
        Ok(match what {
            ReturnKind::None => CallReply::Nil,
            ReturnKind::Count => CallReply::Int(i64::from(selected)),
            // For one value or rank, inversion asks whether nothing is selected, not whether other
            // items are.
            ReturnKind::Exists
                if inverted && matches!(self.by, SelectedBy::Value | SelectedBy::Rank) =>
            {
                CallReply::Bool(count == 0)
            }
            ReturnKind::Exists => CallReply::Bool(selected > 0),
            ReturnKind::Index
            | ReturnKind::ReverseIndex
            | ReturnKind::Rank
            | ReturnKind::ReverseRank => {
                let numbers = match what {
                    ReturnKind::Index | ReturnKind::ReverseIndex => self.indexes(),
                    _ => self.ranks(selected)?,
                };
                match numbers.first() {
                    None if self.single => CallReply::Int(-1),
                    Some(number) if self.single => CallReply::Int(i64::from(*number)),
                    _ => int_list(numbers.iter().map(|number| i64::from(*number))),
                }
            }
            ReturnKind::IndexRange
            | ReturnKind::ReverseIndexRange
            | ReturnKind::RankRange
            | ReturnKind::ReverseRankRange => {
                let from_end = matches!(
                    what,
                    ReturnKind::ReverseIndexRange | ReturnKind::ReverseRankRange
                );
                let start = i64::from(self.first());
                let start = match count {
                    0 if self.is_nowhere() => -1,
                    0 => start,
                    _ if from_end => i64::from(len - count) - start,
                    _ => start,
                };
                int_list([start, i64::from(count)].into_iter())
            }
            ReturnKind::Key | ReturnKind::Value if self.single => match self.segments()?.first() {
                Some(item) => CallReply::Element(Cow::Borrowed(self.part(*item, what)?)),
                None => CallReply::Nil,
            },
            ReturnKind::Value if self.view.shape == ItemShape::List && self.is_row() => {
                self.row()?
            }
            ReturnKind::Key
            | ReturnKind::Value
            | ReturnKind::KeyValue
            | ReturnKind::UnorderedMap
            | ReturnKind::OrderedMap => self.content(what)?,
        })
    }

    /// Returns whether the selection is a row of consecutive positions.
    fn is_row(&self) -> bool {
        !self.returns.inverted && matches!(self.places, SelectedPlaces::Row { .. })
    }

    /// Returns the elements of a row, borrowed from the list.
    fn row(&self) -> Result<CallReply<'a>, CallError> {
        let SelectedPlaces::Row { at, count, segment } = &self.places else {
            return self.content(ReturnKind::Value);
        };
        let segment = match segment {
            _ if *count == 0 => ItemSegment::gap(*at, 0),
            Some(segment) => *segment,
            None => self.view.segment(*at, *count)?,
        };
        super::cost::visits(segment.count);
        Ok(CallReply::Elements {
            count: segment.count,
            bytes: self.view.bytes(segment),
        })
    }

    /// Returns the number of selected items, without inversion.
    fn count(&self) -> u32 {
        match &self.places {
            SelectedPlaces::Row { count, .. } => *count,
            SelectedPlaces::Ranked { items, .. } | SelectedPlaces::Scattered { items, .. } => {
                items.len() as u32
            }
            SelectedPlaces::Listed(listed) if !listed.in_order => listed.items.len() as u32,
            SelectedPlaces::Listed(listed) => {
                let items = sorted(&listed.items);
                items.iter().map(|item| item.count).sum()
            }
        }
    }

    /// Returns the first index or rank of a range.
    fn first(&self) -> u32 {
        match &self.places {
            SelectedPlaces::Row { at, .. } => *at,
            SelectedPlaces::Ranked { rank, .. } | SelectedPlaces::Scattered { rank, .. } => *rank,
            SelectedPlaces::Listed(_) => 0,
        }
    }

    /// Returns whether nothing was found and the missing item has no position either.
    fn is_nowhere(&self) -> bool {
        self.view.shape == ItemShape::Map
            && match self.by {
                SelectedBy::Index => self.single,
                SelectedBy::Value => self.view.count == 0,
                _ => false,
            }
    }

    /// Returns the selected items (all others, if inverted) by position, neighbours joined.
    pub(super) fn segments(&self) -> Result<Vec<ItemSegment>, CallError> {
        let segments = match &self.places {
            SelectedPlaces::Row { count: 0, .. } => Vec::new(),
            SelectedPlaces::Row { at, count, segment } => match segment {
                Some(segment) => vec![*segment],
                None => vec![self.view.segment(*at, *count)?],
            },
            SelectedPlaces::Scattered { items, .. } => joined(items),
            SelectedPlaces::Ranked { items, .. } => sorted(items),
            SelectedPlaces::Listed(listed) if listed.in_order => sorted(&listed.items),
            SelectedPlaces::Listed(listed) => joined(&listed.items),
        };
        Ok(if self.returns.inverted {
            gaps(self.view, &segments)
        } else {
            segments
        })
    }

    /// Returns the positions in the order of the reply.
    fn indexes(&self) -> Vec<u32> {
        let len = self.view.count;
        let from_end = self.returns.kind == ReturnKind::ReverseIndex;
        let mirror = |at: u32| if from_end { len - 1 - at } else { at };
        if self.returns.inverted {
            return self.others().map(mirror).collect();
        }
        match &self.places {
            SelectedPlaces::Row { at, count, .. } => mirrored(len, *at, *count, from_end).collect(),
            SelectedPlaces::Listed(ValueMatches {
                ranks,
                in_order: true,
                ..
            }) if self.view.shape == ItemShape::List => ranks
                .iter()
                .flat_map(|(at, count)| mirrored(len, *at, *count, from_end))
                .collect(),
            places => {
                let mut positions = places.positions();
                if let (SelectedPlaces::Ranked { .. }, ItemShape::List) = (places, self.view.shape)
                {
                    positions.sort_unstable();
                }
                positions.into_iter().map(mirror).collect()
            }
        }
    }

    /// Iterates over all positions that are not selected.
    fn others(&self) -> impl Iterator<Item = u32> {
        let mut selected = self.places.positions();
        selected.sort_unstable();
        (0..self.view.count).filter(move |at| selected.binary_search(at).is_err())
    }

    /// Returns the ranks in the order of the reply. `selected` is their number.
    fn ranks(&self, selected: u32) -> Result<Vec<u32>, CallError> {
        let len = self.view.count;
        let Returns {
            kind: what,
            inverted,
        } = self.returns;
        let from_end = what == ReturnKind::ReverseRank;
        let mirror = |rank: u32| if from_end { len - 1 - rank } else { rank };
        if let SelectedPlaces::Row { .. } = self.places
            && selected == len
            && self.view.shape == ItemShape::List
            && !self.single
        {
            // All items are selected: their ranks are simply numbered
            // (semantics.md#order-of-results).
            return Ok(if from_end && inverted {
                (0..len).rev().collect()
            } else {
                (0..len).collect()
            });
        }
        let ranges: &[(u32, u32)] = match &self.places {
            SelectedPlaces::Row { at, count, .. } if self.view.is_ordered_list() => {
                &[(*at, *count)]
            }
            SelectedPlaces::Row { .. } => return self.ranks_of_positions(mirror),
            SelectedPlaces::Ranked { rank, items } | SelectedPlaces::Scattered { rank, items } => {
                &[(*rank, items.len() as u32)]
            }
            SelectedPlaces::Listed(listed) => &listed.ranks,
        };
        if inverted {
            let mut ranges = ranges.to_vec();
            ranges.sort_unstable();
            let (mut ranges, mut behind) = (ranges.into_iter().peekable(), 0);
            let others = (0..len).filter(|rank| {
                while let Some((first, count)) = ranges.next_if(|(first, _)| first <= rank) {
                    super::cost::visit();
                    behind = behind.max(first + count);
                }
                *rank >= behind
            });
            return Ok(others.map(mirror).collect());
        }
        let scattered = matches!(&self.places, SelectedPlaces::Listed(listed) if !listed.in_order);
        Ok(ranges
            .iter()
            .flat_map(|(rank, count)| {
                let rows = mirrored(len, *rank, *count, from_end && !scattered);
                rows.map(move |rank| if scattered { mirror(rank) } else { rank })
            })
            .collect())
    }

    /// Computes the ranks of items selected by position or key. In lists, equal elements share the
    /// lowest of their ranks; in maps, position breaks ties.
    fn ranks_of_positions(&self, mirror: impl Fn(u32) -> u32) -> Result<Vec<u32>, CallError> {
        let positions: Vec<u32> = if self.returns.inverted {
            self.others().collect()
        } else {
            self.places.positions()
        };
        let ranks: Vec<u32> = match (positions.as_slice(), ByRank::of(self.view)?) {
            ([], _) => Vec::new(),
            (_, Some(order)) => positions.iter().map(|at| order.rank_of(*at)).collect(),
            ([at], None) => vec![rank_of(self.view, *at)?],
            (_, None) => {
                let all = all_ranks(self.view)?;
                positions
                    .iter()
                    .filter_map(|at| all.get(*at as usize).copied())
                    .collect()
            }
        };
        Ok(ranks.into_iter().map(mirror).collect())
    }

    /// Builds keys, values or both: a list or map of the selected items in the order of the reply.
    fn content(&self, what: ReturnKind) -> Result<CallReply<'a>, CallError> {
        let mut segments = match &self.places {
            SelectedPlaces::Ranked { items, .. }
            | SelectedPlaces::Listed(ValueMatches { items, .. })
                if !self.returns.inverted && what != ReturnKind::OrderedMap =>
            {
                joined(items)
            }
            _ => self.segments()?,
        };
        if let (SelectedPlaces::Ranked { rank, items }, ItemShape::List) =
            (&self.places, self.view.shape)
            && !self.returns.inverted
        {
            // The lower half of an unordered list comes in descending order
            // (semantics.md#lists-order-of-results-by-rank).
            segments.clone_from(items);
            let above = self.view.count - rank - items.len() as u32;
            if *rank <= above {
                segments.reverse();
            }
        }
        let count: u32 = segments.iter().map(|segment| segment.count).sum();
        let bytes: usize = segments.iter().map(|s| s.end - s.start).sum();
        let mut out = Vec::with_capacity(bytes + 16);
        match what {
            ReturnKind::UnorderedMap => write_map_header(&mut out, count),
            ReturnKind::KeyValue | ReturnKind::OrderedMap => {
                // The flags are an entry of the map, before all others.
                write_map_header(&mut out, count + 1);
                let flags = if what == ReturnKind::OrderedMap {
                    FLAG_ORDERED
                } else {
                    FLAG_PRESERVE_ORDER
                };
                write_flags_header(&mut out, flags, 0);
                out.push(0xc0);
            }
            _ => write_array_header(&mut out, count),
        }
        let whole = self.view.shape == ItemShape::List
            || !matches!(what, ReturnKind::Key | ReturnKind::Value);
        for segment in segments {
            if whole {
                super::cost::visits(segment.count);
                out.extend_from_slice(self.view.bytes(segment));
                continue;
            }
            // Keys or values alone are not adjacent in the content, so each item is walked.
            let mut start = segment.start;
            for at in segment.at..segment.at + segment.count {
                super::cost::visit();
                let rest = self.view.content.get(start..).unwrap_or_default();
                let len = ItemShape::Map.item_len(rest).map_err(CallError::Stored)?;
                let end = start + len;
                let item = ItemSegment::new(at, 1, start..end);
                out.extend_from_slice(self.part(item, what)?);
                start = end;
            }
        }
        Ok(CallReply::Element(Cow::Owned(out)))
    }

    /// Returns the key or the value of one item.
    fn part(&self, item: ItemSegment, what: ReturnKind) -> Result<&'a [u8], CallError> {
        let bytes = self.view.bytes(item);
        let key = match self.view.shape {
            ItemShape::List => 0,
            ItemShape::Map => element_len(bytes).map_err(CallError::Stored)?,
        };
        let (key, value) = bytes
            .split_at_checked(key)
            .ok_or(CallError::Stored(CodecError::Truncated))?;
        Ok(if what == ReturnKind::Key { key } else { value })
    }
}

/// Returns whether a return type applies to a selection.
fn is_supported(view: &CollectionView<'_>, by: SelectedBy, single: bool, returns: Returns) -> bool {
    use ReturnKind as W;
    let Returns {
        kind: what,
        inverted,
    } = returns;
    let index_range = matches!(what, W::IndexRange | W::ReverseIndexRange);
    let rank_range = matches!(what, W::RankRange | W::ReverseRankRange);
    let range = index_range || rank_range;
    if inverted && (single || range) {
        return false;
    }
    match view.shape {
        ItemShape::List => {
            let of_maps = matches!(what, W::Key | W::KeyValue | W::UnorderedMap | W::OrderedMap);
            let ordered = view.is_ordered_list();
            !of_maps
                && match by {
                    SelectedBy::Index => ordered || !rank_range,
                    SelectedBy::Rank | SelectedBy::Value => ordered || !index_range,
                    SelectedBy::Values | SelectedBy::Keys => !range,
                }
        }
        ItemShape::Map => match by {
            SelectedBy::Index => !rank_range,
            SelectedBy::Keys => !range && !matches!(what, W::Rank | W::ReverseRank),
            SelectedBy::Rank | SelectedBy::Value => !index_range,
            SelectedBy::Values => !range,
        },
    }
}

/// Computes the rank of the item at a position. O(N).
fn rank_of(view: &CollectionView<'_>, at: u32) -> Result<u32, CallError> {
    let value = view.value(view.segment(at, 1)?);
    let mut rank = 0;
    for item in view.walk() {
        let item = item?;
        let order = compare(view.value(item), value);
        let tie = view.shape == ItemShape::Map && item.at < at;
        rank += u32::from(order.is_lt() || order.is_eq() && tie);
    }
    Ok(rank)
}

/// Computes the rank of each item, by position. O(N log N).
fn all_ranks(view: &CollectionView<'_>) -> Result<Vec<u32>, CallError> {
    let mut items = Vec::with_capacity(view.count as usize);
    for item in view.walk() {
        let item = item?;
        items.push((item, view.value(item)));
    }
    items.sort_unstable_by(by_value);
    let mut ranks = vec![0; items.len()];
    let mut before: Option<(u32, &[u8])> = None;
    for (sorted_at, (item, value)) in items.iter().enumerate() {
        let rank = match before {
            Some((rank, equal))
                if view.shape == ItemShape::List && compare_total(equal, value).is_eq() =>
            {
                rank
            }
            _ => sorted_at as u32,
        };
        before = Some((rank, value));
        if let Some(slot) = ranks.get_mut(item.at as usize) {
            *slot = rank;
        }
    }
    Ok(ranks)
}

/// Sorts segments by position, and joins neighbouring and overlapping ones.
fn sorted(segments: &[ItemSegment]) -> Vec<ItemSegment> {
    let mut segments = segments.to_vec();
    segments.sort_unstable_by_key(|segment| segment.at);
    let mut all: Vec<ItemSegment> = Vec::new();
    for segment in segments {
        let behind = segment.at + segment.count;
        match all.last_mut() {
            Some(last) if segment.at <= last.at + last.count => {
                last.count = last.count.max(behind - last.at);
                last.end = last.end.max(segment.end);
            }
            _ => all.push(segment),
        }
    }
    all
}

/// Joins adjacent segments.
fn joined(segments: &[ItemSegment]) -> Vec<ItemSegment> {
    let mut all = Vec::new();
    for segment in segments {
        segment.join_or_push(&mut all);
    }
    all
}

/// Returns the segments between, before and after the given ones.
fn gaps(view: &CollectionView<'_>, segments: &[ItemSegment]) -> Vec<ItemSegment> {
    let (mut at, mut start) = (0, 0);
    let mut gaps = Vec::new();
    for segment in segments.iter().chain([&view.end()]) {
        if segment.at > at {
            gaps.push(ItemSegment::new(at, segment.at - at, start..segment.start));
        }
        (at, start) = (segment.at + segment.count, segment.end);
    }
    gaps
}

/// Returns a range of numbers below `len`, counted from the end if asked for, but always ascending.
fn mirrored(len: u32, at: u32, count: u32, from_end: bool) -> impl Iterator<Item = u32> {
    let start = if from_end { len - at - count } else { at };
    start..start + count
}

fn int_list<'a>(numbers: impl ExactSizeIterator<Item = i64>) -> CallReply<'a> {
    let mut out = Vec::with_capacity(numbers.len() + 5);
    write_array_header(&mut out, numbers.len() as u32);
    numbers.for_each(|number| write_int(&mut out, number));
    CallReply::Element(Cow::Owned(out))
}
