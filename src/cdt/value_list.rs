//! Selection of the items equal to one of several values.

use std::cmp::Ordering;
use std::collections::BTreeSet;

use super::elements::{ByRank, Matcher, sorting};
use super::segment::ItemSegment;
use super::view::CollectionView;
use crate::call::{CallError, MAX_COLLECTION_BYTES};
use crate::value::msgpack::WILDCARD;
use crate::value::order::{compare, compare_total};

/// The matches of a list of values.
#[derive(Debug)]
pub(super) struct ValueMatches {
    /// If the order is known (`in_order`): by value, with repetitions; else by position.
    pub(super) items: Vec<ItemSegment>,
    /// For each value in turn, the ranks of its matches: the lowest, and the number.
    pub(super) ranks: Vec<(u32, u32)>,
    pub(super) in_order: bool,
}

/// Compares items by value, then by position.
pub(super) fn by_value(a: &(ItemSegment, &[u8]), b: &(ItemSegment, &[u8])) -> Ordering {
    sorting(a.1, b.1).then(a.0.at.cmp(&b.0.at))
}

/// Selects the items equal to one of `values`. O(M log N) if the order is known, else O((M + N) log
/// M); O(M N) if a value contains a wildcard.
pub(super) fn select(
    view: &CollectionView<'_>,
    values: &[&[u8]],
    rank_wanted: bool,
) -> Result<ValueMatches, CallError> {
    if values.is_empty() {
        return Ok(ValueMatches {
            items: Vec::new(),
            ranks: Vec::new(),
            in_order: true,
        });
    }
    match ByRank::of(view)? {
        Some(order) => ordered(&order, values),
        None if values.iter().any(|value| may_match_several(value)) => one_by_one(view, values),
        None => merged(view, values, rank_wanted),
    }
}

fn ordered(order: &ByRank<'_>, values: &[&[u8]]) -> Result<ValueMatches, CallError> {
    let (mut items, mut ranks) = (Vec::new(), Vec::new());
    for value in values {
        let rank = order.lower_bound(value, 0);
        let behind = order.upper_bound(value, rank);
        for rank in rank..behind {
            items.push(order.elements.segment(order.position(rank), 1)?);
        }
        // Repeated values select their items again, so the selection can outgrow the collection.
        if items.len() > MAX_COLLECTION_BYTES {
            return Err(CallError::TooBig {
                bytes: items.len() as u64,
            });
        }
        ranks.push((rank, behind - rank));
    }
    Ok(ValueMatches {
        items,
        ranks,
        in_order: true,
    })
}

/// Returns whether the bytes of a wildcard occur in a value, possibly by chance.
fn may_match_several(value: &[u8]) -> bool {
    value
        .windows(WILDCARD.len())
        .any(|window| window == WILDCARD)
}

/// Compares every item with every value.
fn one_by_one(view: &CollectionView<'_>, values: &[&[u8]]) -> Result<ValueMatches, CallError> {
    let matchers: Vec<Matcher<'_>> = values.iter().map(|value| Matcher::new(value)).collect();
    let mut rows = vec![(0, 0); values.len()];
    let mut items = Vec::new();
    for item in view.walk() {
        let item = item?;
        let value = view.value(item);
        let mut selected = false;
        for ((matcher, sought), (rank, count)) in matchers.iter().zip(values).zip(&mut rows) {
            if matcher.matches(value) {
                *count += 1;
                selected = true;
            } else if compare(value, sought).is_lt() {
                *rank += 1;
            }
        }
        if selected {
            items.push(item);
        }
    }
    // An item selected by an earlier value is not selected again.
    let mut seen = BTreeSet::new();
    let ranks = rows
        .into_iter()
        .flat_map(|(rank, count)| rank..rank + count)
        .filter(|rank| seen.insert(*rank))
        .map(|rank| (rank, 1))
        .collect();
    Ok(ValueMatches {
        items,
        ranks,
        in_order: false,
    })
}

/// Looks up every item among the sorted values.
fn merged(
    view: &CollectionView<'_>,
    values: &[&[u8]],
    rank_wanted: bool,
) -> Result<ValueMatches, CallError> {
    let value = |at: &usize| values.get(*at).copied().unwrap_or_default();
    let mut sorted: Vec<usize> = (0..values.len()).collect();
    // The sort is stable: the first of several equal values selects their common matches.
    sorted.sort_by(|a, b| sorting(value(a), value(b)));
    let mut counts = vec![0_u32; sorted.len()];
    // The number of items between a sorted value and its predecessor.
    let mut between = vec![0_u32; sorted.len() + 1];
    let mut items = Vec::new();
    for item in view.walk() {
        let item = item?;
        let element = view.value(item);
        let first = sorted.partition_point(|at| compare_total(value(at), element).is_lt());
        let equal = sorted
            .get(first)
            .is_some_and(|at| compare(value(at), element).is_eq());
        if equal {
            items.push(item);
            if let Some(count) = counts.get_mut(first) {
                *count += 1;
            }
        } else if rank_wanted && let Some(less) = between.get_mut(first) {
            *less += 1;
        }
    }
    let mut ranks = vec![(0, 0); values.len()];
    let mut rank = 0;
    for ((at, count), less) in sorted.iter().zip(&counts).zip(&between) {
        rank += less;
        if let Some(slot) = ranks.get_mut(*at) {
            *slot = (rank, *count);
        }
        rank += count;
    }
    Ok(ValueMatches {
        items,
        ranks,
        in_order: false,
    })
}
