//! Selecting elements, by index or by value, and what is returned about them.
//!
//! The selected elements are either one range of positions (index ranges; values in ordered lists) or scattered (values
//! in lists without order). Results and removals are made from that alone.

use super::edit::{ListEdit, Splice};
use super::search::Matcher;
use super::view::{ListView, Segment};
use crate::cdt::range::clip;
use crate::cdt::{CdtError, ListReturn, ListReturnType, cost};
use crate::value::Value;
use crate::value::order::{compare, compare_total};

/// Selected by value, elements of a list without order have ranks but no positions in a row; selected by index, the
/// other way round; and inverted selections have neither.
const NO_RANGE: CdtError = CdtError::NotApplicable(
    "the selected elements are no range: ask for single positions or ranks instead",
);

/// Which elements to select.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Selector<'v> {
    /// At most `count` elements from position `start` on, which counts from the end if it is negative.
    IndexRange { start: i64, count: u64 },
    /// All elements equal to an encoded value, which may contain wildcards.
    Value(&'v [u8]),
}

/// Reads something about the selected elements. `None`: nothing was asked for.
pub(crate) fn get(
    view: &ListView<'_>,
    selector: Selector<'_>,
    returns: ListReturn,
) -> Result<Option<Value>, CdtError> {
    Selection::new(view, selector, returns)?.result(returns)
}

/// Removes the selected elements, and returns something about where and what they were. No edit: nothing was selected.
pub(crate) fn remove<'a>(
    view: ListView<'a>,
    selector: Selector<'_>,
    returns: ListReturn,
) -> Result<(Option<ListEdit<'a>>, Option<Value>), CdtError> {
    let selection = Selection::new(&view, selector, returns)?;
    let result = selection.result(returns)?;
    let removed = selection.segments(returns.inverted)?;
    if removed.is_empty() {
        return Ok((None, result));
    }
    let splices = removed.into_iter().map(Splice::remove).collect();
    Ok((Some(ListEdit::new(view, view.flags, splices)?), result))
}

/// Selected elements of a list.
#[derive(Debug)]
struct Selection<'l, 'a> {
    view: &'l ListView<'a>,
    by_value: bool,
    places: Places,
}

#[derive(Debug)]
enum Places {
    /// Consecutive elements. Their bytes are known if the search came by them.
    Range {
        at: u32,
        count: u32,
        segment: Option<Segment>,
    },
    /// Equal elements in a list without order: one segment each, and how many elements are less, if that was asked for.
    Scattered { matches: Vec<Segment>, rank: u32 },
}

impl<'l, 'a> Selection<'l, 'a> {
    fn new(
        view: &'l ListView<'a>,
        selector: Selector<'_>,
        returns: ListReturn,
    ) -> Result<Self, CdtError> {
        let rank_wanted = matches!(
            returns.kind,
            ListReturnType::Rank
                | ListReturnType::ReverseRank
                | ListReturnType::RankRange
                | ListReturnType::ReverseRankRange
        );
        let (by_value, places) = match selector {
            Selector::IndexRange { start, count } => {
                let (at, count) = clip(view.count, start, count);
                (
                    false,
                    Places::Range {
                        at,
                        count,
                        segment: None,
                    },
                )
            }
            Selector::Value(value) if view.is_ordered() => {
                let elements = view.elements()?;
                let at = elements.lower_bound(value, 0);
                let count = elements.upper_bound(value, at) - at;
                let segment = Some(elements.segment(at, count));
                (true, Places::Range { at, count, segment })
            }
            Selector::Value(value) => (true, scan(view, value, rank_wanted)?),
        };
        Ok(Self {
            view,
            by_value,
            places,
        })
    }

    /// How many elements are selected.
    fn count(&self) -> u32 {
        match &self.places {
            Places::Range { count, .. } => *count,
            Places::Scattered { matches, .. } => matches.len() as u32,
        }
    }

    fn result(&self, returns: ListReturn) -> Result<Option<Value>, CdtError> {
        use ListReturnType as Return;
        let len = self.view.count;
        let ListReturn { kind, inverted } = returns;
        let selected = if inverted {
            len - self.count()
        } else {
            self.count()
        };
        Ok(Some(match kind {
            Return::None => return Ok(None),
            Return::Count => Value::from(selected),
            // By value, inversion asks whether nothing is selected: not the same, if everything is.
            Return::Exists if inverted && self.by_value => (self.count() == 0).into(),
            Return::Exists => (selected > 0).into(),
            Return::Values => self.values(inverted)?,
            Return::Index => numbers(self.positions(inverted)),
            Return::ReverseIndex => match self.places {
                Places::Range { at, count, .. } if !inverted => numbers(mirrored(len, at, count)),
                _ => numbers(self.positions(inverted).map(|at| len - 1 - at)),
            },
            Return::Rank => numbers(self.ranks(inverted, selected)?.into_iter()),
            Return::ReverseRank => match self.rank_range() {
                Some((rank, count)) if !inverted => numbers(mirrored(len, rank, count)),
                _ if selected == len => numbers(0..len),
                _ => numbers(
                    self.ranks(inverted, selected)?
                        .into_iter()
                        .map(|r| len - 1 - r),
                ),
            },
            Return::IndexRange
            | Return::ReverseIndexRange
            | Return::RankRange
            | Return::ReverseRankRange
                if inverted =>
            {
                return Err(NO_RANGE);
            }
            Return::IndexRange => numbers(self.index_range()?.into_iter()),
            Return::ReverseIndexRange => {
                let [at, count] = self.index_range()?;
                numbers([len - at - count, count].into_iter())
            }
            Return::RankRange => {
                let (rank, count) = self.rank_range().ok_or(NO_RANGE)?;
                numbers([rank, count].into_iter())
            }
            Return::ReverseRankRange => {
                let (rank, count) = self.rank_range().ok_or(NO_RANGE)?;
                numbers([len - rank - count, count].into_iter())
            }
        }))
    }

    /// The selected positions, ascending; those of all others, if inverted.
    fn positions(&self, inverted: bool) -> impl Iterator<Item = u32> {
        let (range, matches): (_, &[Segment]) = match &self.places {
            Places::Range { at, count, .. } => (*at..at + count, &[]),
            Places::Scattered { matches, .. } => (0..0, matches),
        };
        let mut matches = matches.iter().map(|found| found.at).peekable();
        let all_in_range = !inverted && matches.peek().is_none();
        let candidates = if all_in_range {
            range.clone()
        } else {
            0..self.view.count
        };
        candidates.filter(move |at| {
            let selected = range.contains(at) || matches.next_if_eq(at).is_some();
            selected != inverted
        })
    }

    /// The position of the first selected element, and how many there are.
    const fn index_range(&self) -> Result<[u32; 2], CdtError> {
        match self.places {
            Places::Range { at, count, .. } => Ok([at, count]),
            Places::Scattered { .. } => Err(NO_RANGE),
        }
    }

    /// The ranks of the selected elements, if they are consecutive: the lowest, and how many.
    fn rank_range(&self) -> Option<(u32, u32)> {
        match &self.places {
            Places::Range { at, count, .. } => self.view.is_ordered().then_some((*at, *count)),
            Places::Scattered { matches, rank } => Some((*rank, matches.len() as u32)),
        }
    }

    /// The ranks of the selected elements (of all others, if inverted).
    fn ranks(&self, inverted: bool, selected: u32) -> Result<Vec<u32>, CdtError> {
        let len = self.view.count;
        if selected == len {
            return Ok((0..len).collect());
        }
        if let Some((rank, count)) = self.rank_range() {
            let range = rank..rank + count;
            return Ok((0..len)
                .filter(|rank| range.contains(rank) != inverted)
                .collect());
        }
        let ranks = ranks(self.view)?;
        Ok(self
            .positions(inverted)
            .filter_map(|at| ranks.get(at as usize).copied())
            .collect())
    }

    fn values(&self, inverted: bool) -> Result<Value, CdtError> {
        let mut values = Vec::new();
        for segment in self.segments(inverted)? {
            let mut bytes = self.view.bytes(segment);
            for _ in 0..segment.count {
                cost::visit();
                values.push(Value::decode_front(&mut bytes).map_err(CdtError::Stored)?);
            }
        }
        Ok(Value::List(values.into()))
    }

    /// The bytes of the selected elements (of all others, if inverted): segments in the order of their positions, none
    /// of them empty.
    fn segments(&self, inverted: bool) -> Result<Vec<Segment>, CdtError> {
        let mut segments = match &self.places {
            Places::Range { count: 0, .. } => Vec::new(),
            Places::Range { at, count, segment } => {
                vec![segment.map_or_else(|| self.view.segment(*at, *count), Ok)?]
            }
            Places::Scattered { matches, .. } => joined(matches),
        };
        if inverted {
            segments = gaps(self.view, &segments);
        }
        Ok(segments)
    }
}

/// The elements equal to `value`. O(N).
fn scan(view: &ListView<'_>, value: &[u8], rank_wanted: bool) -> Result<Places, CdtError> {
    let matcher = Matcher::new(value);
    let (mut matches, mut rank) = (Vec::new(), 0);
    for segment in view.walk() {
        let segment = segment?;
        let element = view.bytes(segment);
        if matcher.matches(element) {
            matches.push(segment);
        } else if rank_wanted && compare(element, value).is_lt() {
            rank += 1;
        }
    }
    Ok(Places::Scattered { matches, rank })
}

/// The rank of each element, by position; equal elements have the lowest of theirs. O(N log N).
fn ranks(view: &ListView<'_>) -> Result<Vec<u32>, CdtError> {
    let mut by_value = Vec::with_capacity(view.count as usize);
    for segment in view.walk() {
        let segment = segment?;
        by_value.push((segment.at, view.bytes(segment)));
    }
    by_value.sort_by(|a, b| compare_total(a.1, b.1));
    let mut ranks = vec![0; by_value.len()];
    let mut before: Option<(u32, &[u8])> = None;
    for (sorted_at, (at, element)) in by_value.iter().enumerate() {
        let rank = match before {
            Some((rank, equal)) if compare_total(equal, element).is_eq() => rank,
            _ => sorted_at as u32,
        };
        before = Some((rank, element));
        if let Some(slot) = ranks.get_mut(*at as usize) {
            *slot = rank;
        }
    }
    Ok(ranks)
}

/// Neighbouring segments as one.
fn joined(segments: &[Segment]) -> Vec<Segment> {
    let mut all: Vec<Segment> = Vec::new();
    for segment in segments {
        match all.last_mut() {
            Some(last) if last.end == segment.start => {
                last.count += segment.count;
                last.end = segment.end;
            }
            _ => all.push(*segment),
        }
    }
    all
}

/// What lies between, before and behind segments.
fn gaps(view: &ListView<'_>, segments: &[Segment]) -> Vec<Segment> {
    let end = Segment {
        at: view.count,
        count: 0,
        start: view.content.len(),
        end: view.content.len(),
    };
    let (mut at, mut start) = (0, 0);
    let mut gaps = Vec::new();
    for segment in segments.iter().chain([&end]) {
        if segment.at > at {
            gaps.push(Segment {
                at,
                count: segment.at - at,
                start,
                end: segment.start,
            });
        }
        (at, start) = (segment.at + segment.count, segment.end);
    }
    gaps
}

/// A range of positions, counted from the end: still ascending.
fn mirrored(len: u32, at: u32, count: u32) -> impl Iterator<Item = u32> {
    let start = len - at - count;
    start..start + count
}

fn numbers(numbers: impl Iterator<Item = u32>) -> Value {
    Value::List(numbers.map(Value::from).collect::<Vec<Value>>().into())
}
