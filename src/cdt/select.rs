//! Selection of items by index or key, by rank or value: one, several, or a range.
//!
//! A selection has one of a few forms, which serve replies (`answer`), removals, and the steps of a
//! path. Its form depends on the order: an ordered list, and a map with a persisted order of
//! values, are searched; in all others, values are compared one by one.

use std::cmp::Ordering;

use super::cost;
use super::elements::{ByRank, Elements, Matcher, find_key, split};
use super::encoded::Encoded;
use super::index::ItemIndex;
use super::range::{clip, clip_relative, resolve};
use super::returns::{ReturnKind, Returns};
use super::segment::ItemSegment;
use super::shape::ItemShape;
use super::value_list;
use super::view::CollectionView;
use crate::call::CallError;
use crate::value::CodecError;
use crate::value::msgpack::{WILDCARD, element_len, front_int};
use crate::value::order::{compare, compare_total};

/// The items to select. Starts of ranges count from the end if negative, unless they are relative
/// to a value.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Selector<'a> {
    Index(i64),
    IndexRange {
        start: i64,
        count: u64,
    },
    Key(Encoded<'a>),
    /// Encoded keys, concatenated.
    Keys(Encoded<'a>),
    /// From the first key on, up to the second if given.
    KeyInterval(Encoded<'a>, Option<Encoded<'a>>),
    KeyRelative {
        key: Encoded<'a>,
        index: i64,
        count: u64,
    },
    Rank(i64),
    RankRange {
        start: i64,
        count: u64,
    },
    /// The first item with this value.
    FirstValue(Encoded<'a>),
    /// All items with this value.
    Value(Encoded<'a>),
    /// Encoded values, concatenated.
    Values(Encoded<'a>),
    /// From the first value on, up to the second if given.
    ValueInterval(Encoded<'a>, Option<Encoded<'a>>),
    ValueRelative {
        value: Encoded<'a>,
        rank: i64,
        count: u64,
    },
}

/// The criterion of a selection, as far as it limits the possible return types.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum SelectedBy {
    Index,
    Keys,
    Rank,
    Value,
    Values,
}

impl Selector<'_> {
    /// Returns whether a single item is requested: it must exist (by index and rank), and replies
    /// are not lists.
    pub(super) const fn is_single(&self) -> bool {
        matches!(
            self,
            Self::Index(_) | Self::Rank(_) | Self::Key(_) | Self::FirstValue(_)
        )
    }

    pub(super) const fn by(&self) -> SelectedBy {
        match self {
            Self::Index(_)
            | Self::IndexRange { .. }
            | Self::Key(_)
            | Self::KeyInterval(..)
            | Self::KeyRelative { .. } => SelectedBy::Index,
            Self::Keys(_) => SelectedBy::Keys,
            Self::Rank(_) | Self::RankRange { .. } | Self::ValueRelative { .. } => SelectedBy::Rank,
            Self::FirstValue(_) | Self::Value(_) | Self::ValueInterval(..) => SelectedBy::Value,
            Self::Values(_) => SelectedBy::Values,
        }
    }
}

/// Selected items.
#[derive(Debug)]
pub(super) enum SelectedPlaces {
    /// Consecutive positions. Their bytes are known if the search found them on its way.
    Row {
        at: u32,
        count: u32,
        segment: Option<ItemSegment>,
    },
    /// Consecutive ranks, from the lowest on.
    Ranked { rank: u32, items: Vec<ItemSegment> },
    /// Ascending positions. In a selection by value, their ranks are consecutive from `rank` on, if
    /// it was requested.
    Scattered { rank: u32, items: Vec<ItemSegment> },
    /// The matches of each value in a list of values, in turn.
    Listed(value_list::ValueMatches),
}

impl SelectedPlaces {
    const fn row(at: u32, count: u32) -> Self {
        Self::Row {
            at,
            count,
            segment: None,
        }
    }

    /// Returns the selected positions, in the order of the selection.
    pub(super) fn positions(&self) -> Vec<u32> {
        match self {
            Self::Row { at, count, .. } => (*at..*at + *count).collect(),
            Self::Ranked { items, .. }
            | Self::Scattered { items, .. }
            | Self::Listed(value_list::ValueMatches { items, .. }) => {
                let positions = items.iter().map(|item| item.at..item.at + item.count);
                positions.flatten().collect()
            }
        }
    }

    /// Returns the form of a single selection.
    fn only(segment: Option<ItemSegment>) -> Self {
        match segment {
            Some(segment) => Self::Row {
                at: segment.at,
                count: 1,
                segment: Some(segment),
            },
            None => Self::row(0, 0),
        }
    }
}

/// Selects items. `returns` says whether to compute ranks that the selection itself does not need.
/// If an inverted selection is one range, selects that range and clears the inversion in `returns`.
pub(super) fn select(
    view: &CollectionView<'_>,
    selector: &Selector<'_>,
    returns: &mut Returns,
) -> Result<SelectedPlaces, CallError> {
    let rank_wanted = returns.wants_ranks();
    match selector {
        Selector::Index(index) => {
            let at = resolve(view.count, *index).ok_or(OUT_OF_RANGE)?;
            Ok(SelectedPlaces::row(at, 1))
        }
        Selector::IndexRange { start, count } => {
            let (at, count) = clip(view.count, *start, *count);
            Ok(SelectedPlaces::row(at, count))
        }
        Selector::Key(key) => Ok(SelectedPlaces::only(find_key(view, key)?.ok())),
        Selector::Keys(keys) => by_keys(view, &split(keys)?),
        Selector::KeyInterval(begin, end) => {
            let elements = Elements::of(view)?;
            let at = elements.lower_bound(begin, 0);
            let behind = match end {
                Some(_) if is_empty(begin, end) => at,
                Some(end) => elements.lower_bound(end, at),
                None => view.count,
            };
            row_of(&elements, at, behind - at)
        }
        Selector::KeyRelative { key, index, count } => {
            let elements = Elements::of(view)?;
            let base = elements.lower_bound(key, 0);
            let (at, count) = clip_relative(view.count, base, *index, *count);
            row_of(&elements, at, count)
        }
        Selector::Rank(rank) => {
            let rank = resolve(view.count, *rank).ok_or(OUT_OF_RANGE)?;
            by_rank(view, rank, 1)
        }
        Selector::RankRange { start, count } => {
            let (rank, count) = turned(view, clip(view.count, *start, *count), returns);
            by_rank(view, rank, count)
        }
        Selector::ValueRelative { value, rank, count } => {
            let order = ByRank::of(view)?;
            let base = match &order {
                Some(order) => order.lower_bound(value, 0),
                None => count_less(view, value)?,
            };
            let range = clip_relative(view.count, base, *rank, *count);
            let (rank, count) = turned(view, range, returns);
            match order {
                Some(order) => ranked(view, &order, rank, count),
                None => sorted_out(view, rank, count),
            }
        }
        Selector::FirstValue(value) => {
            let matcher = Matcher::new(value);
            match ByRank::of(view)? {
                Some(order) => {
                    let rank = order.lower_bound(value, 0);
                    let found = rank < view.count
                        && compare(order.elements.value(order.position(rank)), value).is_eq();
                    ranked(view, &order, rank, u32::from(found))
                }
                None => scan(
                    view,
                    |item| matcher.matches(item),
                    |item| rank_wanted && compare(item, value).is_lt(),
                    // A rank needs the count of all smaller values; without one, the first match
                    // ends the scan.
                    if rank_wanted {
                        Stop::Never
                    } else {
                        Stop::AtFirst
                    },
                )
                .map(first_only),
            }
        }
        Selector::Value(value) if is_short_and_sorted(view) => run_of(view, value),
        Selector::Value(value) => {
            let matcher = Matcher::new(value);
            match ByRank::of(view)? {
                Some(order) => {
                    let rank = order.lower_bound(value, 0);
                    let behind = order.run_end(value, rank);
                    ranked(view, &order, rank, behind - rank)
                }
                None => scan(
                    view,
                    |item| matcher.matches(item),
                    |item| rank_wanted && compare(item, value).is_lt(),
                    Stop::Never,
                ),
            }
        }
        Selector::ValueInterval(begin, end) => match ByRank::of(view)? {
            Some(order) => {
                let rank = order.lower_bound(begin, 0);
                let behind = match end {
                    Some(_) if is_empty(begin, end) => rank,
                    Some(end) => order.lower_bound(end, rank),
                    None => view.count,
                };
                ranked(view, &order, rank, behind - rank)
            }
            None => scan(
                view,
                // Unlike a search, does not test `is_empty`: wildcards can make the bounds equal
                // and an item within them (semantics.md#index-rank-and-count).
                |item| {
                    compare(item, begin).is_ge()
                        && end.as_ref().is_none_or(|end| compare(item, end).is_lt())
                },
                |item| rank_wanted && compare(item, begin).is_lt(),
                Stop::Never,
            ),
        },
        Selector::Values(values) => {
            value_list::select(view, &split(values)?, *returns).map(SelectedPlaces::Listed)
        }
    }
}

const OUT_OF_RANGE: CallError =
    CallError::NotApplicable("there is no element at this index or rank");

/// Finds the item of a single selection.
pub(crate) fn locate(
    view: &CollectionView<'_>,
    selector: &Selector<'_>,
) -> Result<Option<ItemSegment>, CallError> {
    if let Selector::Index(at) | Selector::Rank(at) = selector
        && resolve(view.count, *at).is_none()
    {
        return Ok(None);
    }
    let places = select(view, selector, &mut Returns::new(ReturnKind::None))?;
    match places {
        SelectedPlaces::Row { count: 0, .. } => Ok(None),
        SelectedPlaces::Row {
            segment: Some(segment),
            ..
        } => Ok(Some(segment)),
        SelectedPlaces::Row { at, .. } => view.segment(at, 1).map(Some),
        SelectedPlaces::Ranked { items, .. } | SelectedPlaces::Scattered { items, .. } => {
            Ok(items.first().copied())
        }
        SelectedPlaces::Listed(_) => Ok(None),
    }
}

/// Returns whether the end of an interval is not above its begin. A search then selects nothing,
/// even where wildcards in the bounds would match.
fn is_empty(begin: &[u8], end: &Option<Encoded<'_>>) -> bool {
    end.as_ref().is_some_and(|end| compare(begin, end).is_ge())
}

/// Turns "everything but a range of ranks" in a map into a range, if it is one: the entries then
/// come by rank, as clients expect. Other inversions stay unchanged.
fn turned(
    view: &CollectionView<'_>,
    (rank, count): (u32, u32),
    returns: &mut Returns,
) -> (u32, u32) {
    let len = view.count;
    let other = match (rank, count) {
        (_, 0) => (0, len),
        (0, _) => (count, len - count),
        _ if rank + count == len => (0, rank),
        _ => return (rank, count),
    };
    if view.shape != ItemShape::Map || !returns.inverted {
        return (rank, count);
    }
    returns.inverted = false;
    other
}

/// A sorted list without index is walked instead of searched up to this length: cheaper than
/// collecting the starts of its elements for a binary search.
const WALKED_MAX: u32 = 32;

pub(super) fn is_short_and_sorted(view: &CollectionView<'_>) -> bool {
    view.count <= WALKED_MAX && view.is_ordered_list() && matches!(view.index, ItemIndex::None)
}

/// Selects the elements equal to a value, in one walk that stops after them.
fn run_of(view: &CollectionView<'_>, value: &[u8]) -> Result<SelectedPlaces, CallError> {
    let less = skip_while(view, view.content, 0, value, Ordering::Less)?;
    let equal = skip_while(view, less.rest, less.at, value, Ordering::Equal)?;
    let (at, count) = (less.at, equal.at - less.at);
    let bytes = view.content.len() - less.rest.len()..view.content.len() - equal.rest.len();
    Ok(SelectedPlaces::Row {
        at,
        count,
        segment: Some(ItemSegment::new(at, count, bytes)),
    })
}

/// Whether a list has a value; `None` if it has no order.
pub(super) fn has(view: &CollectionView<'_>, value: &[u8]) -> Result<Option<bool>, CallError> {
    if is_short_and_sorted(view) {
        let WalkPosition { at, rest } = skip_while(view, view.content, 0, value, Ordering::Less)?;
        return Ok(Some(at < view.count && compare_total(rest, value).is_eq()));
    }
    let order = view.is_ordered_list().then(|| ByRank::of(view));
    let order = order.transpose()?.flatten();
    Ok(order.map(|order| order.has(value)))
}

/// A position, and the content from its element on.
pub(super) struct WalkPosition<'a> {
    at: u32,
    rest: &'a [u8],
}

impl<'a> WalkPosition<'a> {
    /// Begins at the front.
    pub(super) const fn front(view: &CollectionView<'a>) -> Self {
        Self {
            at: 0,
            rest: view.content,
        }
    }

    /// Walks on to the gap of a short ordered list where a value belongs, behind equal ones.
    /// `None`: it must be unique, and the list has it.
    pub(super) fn place_of(
        &mut self,
        view: &CollectionView<'a>,
        value: &[u8],
        unique: bool,
    ) -> Result<Option<ItemSegment>, CallError> {
        *self = skip_while(view, self.rest, self.at, value, Ordering::Less)?;
        if unique && self.at < view.count && compare(self.rest, value).is_eq() {
            return Ok(None);
        }
        if !unique {
            *self = skip_while(view, self.rest, self.at, value, Ordering::Equal)?;
        }
        let start = view.content.len() - self.rest.len();
        Ok(Some(ItemSegment::gap(self.at, start)))
    }
}

/// The least integer encoded in one byte, as itself.
const SMALL_INT_MIN: i8 = -0x20;

/// Skips, from a position on, all elements with this ordering relative to a value.
#[inline]
fn skip_while<'a>(
    view: &CollectionView<'_>,
    mut rest: &'a [u8],
    mut at: u32,
    value: &[u8],
    order: Ordering,
) -> Result<WalkPosition<'a>, CallError> {
    let sought = front_int(value);
    while at < view.count {
        cost::visit();
        let element = rest.first().map(|first| first.cast_signed());
        if let (Some(element @ SMALL_INT_MIN..), Some(sought)) = (element, sought) {
            if i64::from(element).cmp(&sought) != order {
                break;
            }
            rest = rest.get(1..).unwrap_or_default();
            at += 1;
            continue;
        }
        let len = element_len(rest).map_err(CallError::Stored)?;
        let found = match (front_int(rest), sought) {
            (Some(element), Some(sought)) => element.cmp(&sought),
            _ => compare_total(rest, value),
        };
        if found != order {
            break;
        }
        let behind = rest.split_at_checked(len);
        let (_, behind) = behind.ok_or(CallError::Stored(CodecError::Truncated))?;
        rest = behind;
        at += 1;
    }
    Ok(WalkPosition { at, rest })
}

fn row_of(elements: &Elements<'_>, at: u32, count: u32) -> Result<SelectedPlaces, CallError> {
    Ok(SelectedPlaces::Row {
        at,
        count,
        segment: Some(elements.segment(at, count)?),
    })
}

/// Selects consecutive ranks where the order is known. O(M).
fn ranked(
    view: &CollectionView<'_>,
    order: &ByRank<'_>,
    rank: u32,
    count: u32,
) -> Result<SelectedPlaces, CallError> {
    if view.is_ordered_list() {
        return row_of(&order.elements, rank, count);
    }
    let items = (rank..rank + count)
        .map(|rank| order.elements.segment(order.position(rank), 1))
        .collect::<Result<_, _>>()?;
    Ok(SelectedPlaces::Ranked { rank, items })
}

/// Selects consecutive ranks.
fn by_rank(view: &CollectionView<'_>, rank: u32, count: u32) -> Result<SelectedPlaces, CallError> {
    match ByRank::of(view)? {
        Some(order) => ranked(view, &order, rank, count),
        None => sorted_out(view, rank, count),
    }
}

/// Selects consecutive ranks where the order is unknown: O(N + M log M). Equal values rank by
/// position.
fn sorted_out(
    view: &CollectionView<'_>,
    rank: u32,
    count: u32,
) -> Result<SelectedPlaces, CallError> {
    let (low, high) = (rank as usize, (rank + count) as usize);
    let mut items: Vec<(ItemSegment, &[u8])> = Vec::with_capacity(view.count as usize);
    if count > 0 {
        for item in view.walk() {
            let item = item?;
            items.push((item, view.value(item)));
        }
    }
    if low < items.len() && low > 0 {
        items.select_nth_unstable_by(low, value_list::by_value);
    }
    let mut items = items.split_off(low.min(items.len()));
    let count = high - low;
    if count > 0 && count < items.len() {
        items.select_nth_unstable_by(count - 1, value_list::by_value);
    }
    items.truncate(count);
    items.sort_unstable_by(value_list::by_value);
    let items = items.into_iter().map(|(item, _)| item).collect();
    Ok(SelectedPlaces::Ranked { rank, items })
}

/// Selects the entries of several keys, by position. O(M log N + M log M), plus a walk without
/// index.
fn by_keys(view: &CollectionView<'_>, keys: &[&[u8]]) -> Result<SelectedPlaces, CallError> {
    let mut items = Vec::new();
    if !keys.is_empty() {
        let elements = Elements::of(view)?;
        for key in keys.iter().filter(|key| **key != WILDCARD) {
            if let Ok(at) = elements.find(key, 0) {
                items.push(elements.segment(at, 1)?);
            }
        }
    }
    items.sort_unstable_by_key(|item| item.at);
    items.dedup();
    Ok(SelectedPlaces::Scattered { rank: 0, items })
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Stop {
    Never,
    AtFirst,
}

/// Selects the items with matching values, and counts the smaller ones. O(N).
fn scan(
    view: &CollectionView<'_>,
    matches: impl Fn(&[u8]) -> bool,
    less: impl Fn(&[u8]) -> bool,
    stop: Stop,
) -> Result<SelectedPlaces, CallError> {
    let (mut items, mut rank) = (Vec::new(), 0);
    for item in view.walk() {
        let item = item?;
        let value = view.value(item);
        if matches(value) {
            items.push(item);
            if stop == Stop::AtFirst {
                break;
            }
        } else if less(value) {
            rank += 1;
        }
    }
    Ok(SelectedPlaces::Scattered { rank, items })
}

fn first_only(places: SelectedPlaces) -> SelectedPlaces {
    match places {
        SelectedPlaces::Scattered { rank, mut items } => {
            items.truncate(1);
            SelectedPlaces::Scattered { rank, items }
        }
        places => places,
    }
}

/// Counts the values less than `value`. O(N).
fn count_less(view: &CollectionView<'_>, value: &[u8]) -> Result<u32, CallError> {
    let mut less = 0;
    for item in view.walk() {
        less += u32::from(compare(view.value(item?), value).is_lt());
    }
    Ok(less)
}
