//! Selection of the items equal to one of several values.

use std::cmp::Ordering;
use std::collections::BTreeSet;

use super::elements::{ByRank, sorting};
use super::returns::Returns;
use super::segment::ItemSegment;
use super::view::CollectionView;
use crate::call::{CallError, MAX_COLLECTION_BYTES};
use crate::value::msgpack::{EXT_SPECIAL, Token, TokenReader};
use crate::value::order::{compare, compare_total};

/// The most comparisons of an element with a value that holds a wildcard: some seconds.
const MAX_COMPARISONS: u64 = 1 << 28;

/// The matches of a list of values.
#[derive(Debug)]
pub(super) struct ValueMatches {
    /// If the order is known (`in_order`): by value, with repetitions, neighbours joined; else one
    /// by one, by position.
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
/// M), and O(N) more for each value with a wildcard.
pub(super) fn select(
    view: &CollectionView<'_>,
    values: &[&[u8]],
    returns: Returns,
) -> Result<ValueMatches, CallError> {
    let rank_wanted = returns.wants_ranks();
    if values.is_empty() {
        return Ok(ValueMatches {
            items: Vec::new(),
            ranks: Vec::new(),
            in_order: true,
        });
    }
    match ByRank::of(view)? {
        Some(order) => ordered(&order, values, returns.repeats_items()),
        None => merged(view, values, rank_wanted),
    }
}

fn ordered(
    order: &ByRank<'_>,
    values: &[&[u8]],
    repeats_items: bool,
) -> Result<ValueMatches, CallError> {
    let (mut items, mut ranks) = (Vec::new(), Vec::new());
    let mut bytes = 0;
    for value in values {
        let rank = order.lower_bound(value, 0);
        let behind = order.upper_bound(value, rank);
        for rank in rank..behind {
            let item = order.elements.segment(order.position(rank), 1)?;
            bytes += if repeats_items {
                item.end - item.start
            } else {
                1
            };
            // Repeated values select their items again: the answer, or the work, can outgrow the
            // collection.
            if bytes > MAX_COLLECTION_BYTES {
                return Err(CallError::TooBig {
                    bytes: bytes as u64,
                });
            }
            item.join_or_push(&mut items);
        }
        ranks.push((rank, behind - rank));
    }
    Ok(ValueMatches {
        items,
        ranks,
        in_order: true,
    })
}

/// Returns whether a value is a wildcard, or a list or map with one.
fn holds_wildcard(value: &[u8]) -> bool {
    let mut tokens = TokenReader::new(value);
    std::iter::from_fn(|| tokens.token().ok())
        .any(|token| matches!(token, Token::Ext(EXT_SPECIAL, [0])))
}

/// Looks up every item among the sorted values, and compares it with each value that holds a
/// wildcard.
fn merged(
    view: &CollectionView<'_>,
    values: &[&[u8]],
    rank_wanted: bool,
) -> Result<ValueMatches, CallError> {
    let value = |at: &usize| values.get(*at).copied().unwrap_or_default();
    let (wild, mut sorted): (Vec<usize>, Vec<usize>) =
        (0..values.len()).partition(|at| holds_wildcard(value(at)));
    if wild.len() as u64 * u64::from(view.count) > MAX_COMPARISONS {
        return Err(CallError::parameter(format!(
            "{} values with wildcards for {} elements without order: ask for fewer",
            wild.len(),
            view.count
        )));
    }
    // The sort is stable: the first of several equal values selects their common matches.
    sorted.sort_by(|a, b| sorting(value(a), value(b)));
    let mut counts = vec![0_u32; sorted.len()];
    // The number of items between a sorted value and its predecessor.
    let mut between = vec![0_u32; sorted.len() + 1];
    let mut ranks = vec![(0, 0); values.len()];
    let mut items = Vec::new();
    for item in view.walk() {
        let item = item?;
        let element = view.value(item);
        let first = sorted.partition_point(|at| compare_total(value(at), element).is_lt());
        let mut selected = sorted
            .get(first)
            .is_some_and(|at| compare(value(at), element).is_eq());
        if selected {
            if let Some(count) = counts.get_mut(first) {
                *count += 1;
            }
        } else if rank_wanted && let Some(less) = between.get_mut(first) {
            *less += 1;
        }
        for at in &wild {
            if selected && !rank_wanted {
                break;
            }
            super::cost::visit();
            let order = compare(element, value(at));
            if let Some((rank, count)) = ranks.get_mut(*at) {
                *rank += u32::from(order.is_lt());
                *count += u32::from(order.is_eq());
            }
            selected |= order.is_eq();
        }
        if selected {
            items.push(item);
        }
    }
    let mut rank = 0;
    for ((at, count), less) in sorted.iter().zip(&counts).zip(&between) {
        rank += less;
        if let Some(slot) = ranks.get_mut(*at) {
            *slot = (rank, *count);
        }
        rank += count;
    }
    if rank_wanted && !wild.is_empty() {
        // An item selected by an earlier value is not selected again.
        let mut seen = BTreeSet::new();
        ranks = ranks
            .into_iter()
            .flat_map(|(rank, count)| rank..rank + count)
            .filter(|rank| seen.insert(*rank))
            .map(|rank| (rank, 1))
            .collect();
    }
    Ok(ValueMatches {
        items,
        ranks,
        in_order: false,
    })
}
