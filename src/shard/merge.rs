//! One order over several sorted shards: pages, ranges and counts, without reading the elements
//! before them.
//!
//! Everything here asks through [`SortedShards`], in batches, so that it is tested with plain
//! vectors that count what they are asked for. Values are unique within the whole collection:
//! elements of a set, keys of a map. Repeats that other programs have put there hide nothing else;
//! a read that begins at a value passes over all of its repeats.
//!
//! * [`page`]: the global rank is searched in all shards at once (`select`), then their slices are
//!   merged.
//! * [`range`]: begins at a value. Where one shard has less than its share, the others have more
//!   (`stream`).
//! * [`last`]: the same from the end on, backwards.
//! * [`pages`], [`in_pages`]: one page after the other.
//!
//! All of it is exact while there are no writes. Under concurrent writes it ends, after as many
//! rounds at most; what begins at a value then still shows every element exactly once that is there
//! during the whole of it.

mod select;
mod stream;
#[cfg(test)]
mod tests;

use std::cmp::Ordering;
use std::ops::Bound;

use crate::Error;
use crate::value::order::compare_total;
use crate::value::{EncodePurpose, Value, encode};

/// How many items [`pages`] reads at once.
const BATCH: u64 = 512;

/// Shards each of which is sorted.
pub(crate) trait SortedShards {
    /// The elements of the shards.
    type Item: Sorted;
    /// The error of a batch.
    type Error: From<Error>;

    /// Returns the number of shards.
    fn shards(&self) -> usize;

    /// Counts the elements of each of these shards that are not less than `from` (`None`: all), and
    /// less than `to` (`None`: all). One batch.
    fn counts(
        &mut self,
        shards: &[usize],
        from: Option<&Value>,
        to: Option<&Value>,
    ) -> Result<Vec<u64>, Self::Error>;

    /// Returns the elements of each of these slices, in order, in one batch. Fewer than asked for:
    /// there are no more.
    fn slices(&mut self, slices: &[ShardSlice]) -> Result<Vec<Vec<Self::Item>>, Self::Error>;
}

/// A run of elements of one shard.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct ShardSlice {
    pub(crate) shard: usize,
    pub(crate) start: RunStart,
    /// The most elements of the slice.
    pub(crate) limit: u64,
}

impl ShardSlice {
    /// Returns how many elements to read from its start: one more where the value it starts after
    /// may be there itself.
    pub(crate) const fn to_read(&self) -> u64 {
        match self.start {
            RunStart::After(_) => self.limit.saturating_add(1),
            RunStart::Rank(_) | RunStart::At(_) | RunStart::Before(_) => self.limit,
        }
    }

    /// Cuts the slice from a reading of `asked` elements at its start.
    ///
    /// # Errors
    /// [`Error::Malformed`] for a value that cannot be compared.
    pub(crate) fn of<T: Sorted>(&self, mut read: Vec<T>, asked: u64) -> Result<Cut<T>, Error> {
        if let RunStart::After(after) = &self.start {
            let key = ElementSortKey::of(after)?;
            let mut equal = 0;
            for item in &read {
                if ElementSortKey::of(item.sorted_by())? != key {
                    break;
                }
                equal += 1;
            }
            let behind = (read.len() - equal) as u64;
            if behind < self.limit && read.len() as u64 >= asked {
                // There may be more elements equal to `after`: the next request adds twice their
                // number to the limit, so requests double as long as they read nothing else.
                let more = (equal as u64).saturating_mul(2);
                return Ok(Cut::Ask(self.limit.saturating_add(more)));
            }
            read.drain(..equal);
        }
        read.truncate(usize::try_from(self.limit).unwrap_or(usize::MAX));
        Ok(Cut::Slice(read))
    }
}

/// A slice after its elements were read.
#[derive(Debug)]
pub(crate) enum Cut<T> {
    Slice(Vec<T>),
    /// More elements must be read from its start, this many: other programs have put the value that
    /// it starts after there more than once, and the repeats took the place of what follows.
    Ask(u64),
}

/// Where a run of elements begins.
#[derive(Clone, Debug, PartialEq)]
pub enum RunStart {
    /// At this position in the shard.
    Rank(u64),
    /// At the first element that is not less than this.
    At(Value),
    /// At the first element that is greater than this.
    After(Value),
    /// At the last element that is less than this (`None`: the last of all), and backwards from
    /// there.
    Before(Option<Value>),
}

impl RunStart {
    fn of(bound: Bound<&Value>) -> Self {
        match bound {
            Bound::Unbounded => Self::Rank(0),
            Bound::Included(value) => Self::At(value.clone()),
            Bound::Excluded(value) => Self::After(value.clone()),
        }
    }

    /// Returns where the run goes on behind the element that is sorted by this value.
    fn behind(&self, value: Value) -> Self {
        match self {
            Self::Before(_) => Self::Before(Some(value)),
            _ => Self::After(value),
        }
    }
}

/// An element of a shard, sorted by a value: itself in a list, its key in a map.
pub trait Sorted {
    /// Returns the value by which the element is sorted.
    fn sorted_by(&self) -> &Value;
}

impl Sorted for Value {
    fn sorted_by(&self) -> &Value {
        self
    }
}

impl Sorted for (Value, Value) {
    fn sorted_by(&self) -> &Value {
        &self.0
    }
}

/// A value in the form in which values are compared.
#[derive(Clone, Debug, Default)]
pub(crate) struct ElementSortKey(Box<[u8]>);

impl ElementSortKey {
    /// # Errors
    /// [`Error::Malformed`] for a value that cannot be stored.
    pub(crate) fn of(value: &Value) -> Result<Self, Error> {
        let mut encoded = Vec::new();
        encode(value, EncodePurpose::Lookup, &mut encoded)
            .map_err(|error| Error::malformed("element", error))?;
        Ok(Self(encoded.into()))
    }
}

impl Ord for ElementSortKey {
    fn cmp(&self, other: &Self) -> Ordering {
        compare_total(&self.0, &other.0)
    }
}

impl PartialOrd for ElementSortKey {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for ElementSortKey {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for ElementSortKey {}

/// Returns whether items are in order. Encodes items of other types than integers and texts only.
///
/// # Errors
/// As for [`sort`].
pub(crate) fn is_in_order<T: Sorted>(items: &[T]) -> Result<bool, Error> {
    for (a, b) in items.iter().zip(items.iter().skip(1)) {
        let is_in_order = match (a.sorted_by(), b.sorted_by()) {
            (Value::Int(a), Value::Int(b)) => a <= b,
            (Value::String(a), Value::String(b)) => a <= b,
            (a, b) => ElementSortKey::of(a)? <= ElementSortKey::of(b)?,
        };
        if !is_in_order {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Sorts elements by their values.
///
/// # Errors
/// [`Error::Malformed`] for a value that cannot be stored.
pub(crate) fn sort<T: Sorted>(items: &mut Vec<T>) -> Result<(), Error> {
    let mut keyed = items
        .drain(..)
        .map(|item| Ok((ElementSortKey::of(item.sorted_by())?, item)))
        .collect::<Result<Vec<_>, Error>>()?;
    keyed.sort_by(|(a, _), (b, _)| a.cmp(b));
    items.extend(keyed.into_iter().map(|(_, item)| item));
    Ok(())
}

/// Returns a value that is there more than once, if there is one.
///
/// # Errors
/// As for [`sort`].
pub(crate) fn repeated(values: &[Value]) -> Result<Option<&Value>, Error> {
    let mut keyed = values
        .iter()
        .map(|value| Ok((ElementSortKey::of(value)?, value)))
        .collect::<Result<Vec<_>, Error>>()?;
    keyed.sort_by(|(a, _), (b, _)| a.cmp(b));
    let mut pairs = keyed.iter().zip(keyed.iter().skip(1));
    let repeated = pairs.find(|((a, _), (b, _))| a == b);
    Ok(repeated.map(|((_, value), _)| *value))
}

/// Returns all items in order, in pages that are not empty: `page` reads this many behind an item
/// (`None`: the first ones). Ends after an error.
pub(crate) fn pages<T: Clone>(
    mut page: impl FnMut(Option<&T>, u64) -> Result<Vec<T>, Error>,
) -> impl Iterator<Item = Result<Vec<T>, Error>> {
    let mut next = Some(None);
    std::iter::from_fn(move || {
        let after: Option<T> = next.take()?;
        let read = page(after.as_ref(), BATCH);
        if let Ok(items) = &read {
            let is_full = items.len() as u64 >= BATCH;
            next = items.last().filter(|_| is_full).cloned().map(Some);
        }
        Some(read).filter(|read| !matches!(read, Ok(items) if items.is_empty()))
    })
}

/// Returns all items in order, as [`pages`] has them.
pub(crate) fn in_pages<T: Clone>(
    page: impl FnMut(Option<&T>, u64) -> Result<Vec<T>, Error>,
) -> impl Iterator<Item = Result<T, Error>> {
    pages(page).flat_map(|page| match page {
        Ok(items) => items.into_iter().map(Ok).collect(),
        Err(error) => vec![Err(error)],
    })
}

/// Counts all elements, in one batch.
pub(crate) fn len<S: SortedShards>(shards: &mut S) -> Result<u64, S::Error> {
    count(shards, None, None)
}

/// Counts the elements that are not less than `from` (`None`: all), and less than `to` (`None`:
/// all). One batch.
pub(crate) fn count<S: SortedShards>(
    shards: &mut S,
    from: Option<&Value>,
    to: Option<&Value>,
) -> Result<u64, S::Error> {
    let all: Vec<usize> = (0..shards.shards()).collect();
    Ok(shards.counts(&all, from, to)?.iter().sum())
}

/// Returns at most `limit` elements from a position in the order of all shards. O(S log^2 N +
/// limit) visits in O(log N) rounds of two batches, usually two of them; one batch of a single
/// shard.
pub(crate) fn page<S: SortedShards>(
    shards: &mut S,
    offset: u64,
    limit: u64,
) -> Result<Vec<S::Item>, S::Error> {
    if limit == 0 {
        return Ok(Vec::new());
    }
    if shards.shards() == 1 {
        let run = ShardRun {
            start: RunStart::Rank(offset),
            first: limit,
        };
        return stream::merged(shards, vec![run], None, 0, limit);
    }
    let Some(windows) = select::windows(shards, offset)? else {
        return Ok(Vec::new());
    };
    let share = share(limit, shards.shards());
    let runs = windows.iter().map(|window| ShardRun {
        start: RunStart::Rank(window.from),
        first: window.len().saturating_add(share),
    });
    let skip = select::behind(&windows, offset);
    stream::merged(shards, runs.collect(), None, skip, limit)
}

/// Returns at most `limit` elements between two values. One batch as long as no shard has much more
/// than its share of them, and one more where both an end is given and `limit` is not small: then
/// no shard is asked for more than it has before the end. O(S log N + limit) visits.
pub(crate) fn range<S: SortedShards>(
    shards: &mut S,
    from: Bound<&Value>,
    to: Bound<&Value>,
    limit: u64,
) -> Result<Vec<S::Item>, S::Error> {
    if limit == 0 {
        return Ok(Vec::new());
    }
    let share = share(limit, shards.shards());
    let run = |first| ShardRun {
        start: RunStart::of(from),
        first,
    };
    let runs = match value_of(to) {
        Some(end) if share > SHARE_MIN => {
            let all: Vec<usize> = (0..shards.shards()).collect();
            let within = shards.counts(&all, value_of(from), Some(end))?;
            // One more, which shows the end.
            let first = within.iter().map(|count| share.min(count + 1));
            first.map(run).collect()
        }
        _ => (0..shards.shards()).map(|_| run(share)).collect(),
    };
    let end = stream::RangeEnd::of(to, stream::Front::forward)?;
    let found = stream::merged(shards, runs, end, 0, limit)?;
    check_begin(from, &found)?;
    Ok(found)
}

/// Refuses elements that begin before a range: stored behind its beginning, they are read as values
/// that stand before it, and whoever goes on from there comes here again.
fn check_begin<T: Sorted>(from: Bound<&Value>, found: &[T]) -> Result<(), Error> {
    let (Some(from), Some(first)) = (value_of(from), found.first()) else {
        return Ok(());
    };
    let first = first.sorted_by();
    if is_ambiguous(first) && ElementSortKey::of(first)? < ElementSortKey::of(from)? {
        return Err(Error::parameter(not_found_by(first)));
    }
    Ok(())
}

/// Whether an element of another stored form is read as this value, too: blobs of other languages
/// and texts that are not UTF-8 are read as blobs, integers above the signed ones as negative ones.
pub(crate) fn is_ambiguous(value: &Value) -> bool {
    match value {
        Value::Blob(_) => true,
        Value::Int(value) => *value < 0,
        Value::List(list) => list.iter().any(is_ambiguous),
        Value::Map(map) => map
            .iter()
            .any(|(key, value)| is_ambiguous(key) || is_ambiguous(value)),
        _ => false,
    }
}

/// Says that an element was read as a value by which it is not found.
pub(crate) fn not_found_by(value: &Value) -> String {
    format!(
        "another program has put an element there that is read as {value} and not found by that: remove it by its position"
    )
}

/// Returns at most `limit` elements from a value on that are less than another one (`None`: than
/// none), the greatest first. One batch as long as no shard has much more than its share of them.
pub(crate) fn last<S: SortedShards>(
    shards: &mut S,
    from: Bound<&Value>,
    before: Option<&Value>,
    limit: u64,
) -> Result<Vec<S::Item>, S::Error> {
    if limit == 0 {
        return Ok(Vec::new());
    }
    let run = |first| ShardRun {
        start: RunStart::Before(before.cloned()),
        first,
    };
    let share = share(limit, shards.shards());
    let runs = (0..shards.shards()).map(|_| run(share)).collect();
    stream::merged(
        shards,
        runs,
        stream::RangeEnd::of(from, stream::Front::Backward)?,
        0,
        limit,
    )
}

/// A run of elements of one shard, and how many of them are read first.
struct ShardRun {
    start: RunStart,
    first: u64,
}

/// The fewest elements that a shard is asked for, unless fewer are wanted.
const SHARE_MIN: u64 = 64;

/// Returns how many elements to ask each shard for so that a second batch is seldom needed: hashed
/// elements come from all shards in nearly equal parts.
pub(crate) fn share(limit: u64, shards: usize) -> u64 {
    let even = limit.div_ceil(shards.max(1) as u64);
    let usual = 4 * even.isqrt() + 8;
    limit.min(even.saturating_add(usual).max(SHARE_MIN))
}

/// The value at a bound.
pub(crate) const fn value_of(bound: Bound<&Value>) -> Option<&Value> {
    match bound {
        Bound::Unbounded => None,
        Bound::Included(value) | Bound::Excluded(value) => Some(value),
    }
}
