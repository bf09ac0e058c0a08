//! Finding a global position in all shards at once.
//!
//! The *cut* of a shard is how many of its elements come before the position; the cuts add up to
//! it. A window holds what a cut may still be. A round draws one element from each window, takes
//! one of them as the pivot, asks every shard for its rank, and knows for all windows on which side
//! of the pivot their cut is.
//!
//! Hashed shards are alike in their order, so the draw goes to where the cut would be if the
//! windows were equal; that leaves about the square root of the elements. Where it leaves more than
//! half, the next draw is from the middle: then at least a quarter goes, for any order of elements
//! and any writes meanwhile.

use super::{ElementSortKey, RunStart, ShardSlice, Sorted, SortedShards};
use crate::value::Value;

/// So many positions a shard may be left when the search ends: reading them costs less than another
/// round.
const LEFT_PER_SHARD: u64 = 16;

/// Where the cut of a shard may be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct CutWindow {
    pub(super) from: u64,
    /// The highest cut of the window, included.
    pub(super) to: u64,
}

impl CutWindow {
    pub(super) const fn len(self) -> u64 {
        self.to.saturating_sub(self.from)
    }

    /// The cut is not before this.
    fn raise(&mut self, from: u64) {
        self.from = from.clamp(self.from, self.to);
    }

    /// The cut is not behind this.
    fn lower(&mut self, to: u64) {
        self.to = to.clamp(self.from, self.to);
    }
}

/// How many elements from the beginnings of these windows to the position.
pub(super) fn behind(windows: &[CutWindow], position: u64) -> u64 {
    let before: u64 = windows.iter().map(|window| window.from).sum();
    position.saturating_sub(before).min(total(windows))
}

/// Small windows around the cuts of a position; `None` if there are fewer elements than that.
pub(super) fn windows<S: SortedShards>(
    shards: &mut S,
    position: u64,
) -> Result<Option<Vec<CutWindow>>, S::Error> {
    let window = |to| CutWindow { from: 0, to };
    if position <= LEFT_PER_SHARD {
        return Ok(Some(vec![window(position); shards.shards()]));
    }
    let all: Vec<usize> = (0..shards.shards()).collect();
    let lengths = shards.counts(&all, None, None)?;
    if position >= lengths.iter().sum() {
        return Ok(None);
    }
    let mut windows: Vec<CutWindow> = lengths.into_iter().map(window).collect();
    tighten(&mut windows, position);
    let enough = LEFT_PER_SHARD * windows.len() as u64;
    let mut draw = Draw::Alike;
    loop {
        let left = total(&windows);
        if left <= enough {
            return Ok(Some(windows));
        }
        round(shards, &mut windows, position, draw)?;
        tighten(&mut windows, position);
        let remaining = total(&windows);
        if remaining >= left {
            // Shards that answer another question.
            return Ok(Some(windows));
        }
        draw = if draw == Draw::Alike && remaining > left / 2 {
            Draw::Middle
        } else {
            Draw::Alike
        };
    }
}

fn total(windows: &[CutWindow]) -> u64 {
    windows.iter().map(|window| window.len()).sum()
}

/// The cuts add up to the position: what the other windows leave bounds each of them.
fn tighten(windows: &mut [CutWindow], position: u64) {
    let from: u64 = windows.iter().map(|window| window.from).sum();
    let above = position.saturating_sub(from);
    for window in windows.iter_mut() {
        window.lower(window.from.saturating_add(above));
    }
    let to: u64 = windows.iter().map(|window| window.to).sum();
    let below = to.saturating_sub(position);
    for window in windows {
        window.raise(window.to.saturating_sub(below));
    }
}

/// Where in a window an element is drawn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Draw {
    /// Where the cut is if all windows are alike.
    Alike,
    Middle,
}

/// An element drawn from a window.
struct DrawnElement {
    shard: usize,
    rank: u64,
    /// The number of its positions.
    weight: u64,
    key: ElementSortKey,
    value: Value,
}

/// Draws, asks, and narrows the windows. The pivot's own window loses at least the pivot under any
/// ranks: so windows shrink even while elements come and go.
fn round<S: SortedShards>(
    shards: &mut S,
    windows: &mut [CutWindow],
    position: u64,
    draw: Draw,
) -> Result<(), S::Error> {
    let share = match draw {
        Draw::Alike => behind(windows, position) as f64 / total(windows) as f64,
        Draw::Middle => 0.5,
    };
    let drawn = drawn(shards, windows, share)?;
    let Some(pivot) = middle(&drawn) else {
        return Ok(());
    };
    let open: Vec<usize> = windows
        .iter()
        .enumerate()
        .filter(|(_, window)| window.len() > 0)
        .map(|(shard, _)| shard)
        .collect();
    let ranks = shards.counts(&open, None, Some(&pivot.value))?;
    let closed = windows.iter().filter(|window| window.len() == 0);
    let rank = closed.map(|window| window.from).sum::<u64>() + ranks.iter().sum::<u64>();
    for (shard, rank_here) in open.into_iter().zip(ranks) {
        let Some(window) = windows.get_mut(shard) else {
            continue;
        };
        // At equality both close the window: the pivot is the element at the position.
        if rank <= position {
            window.raise(rank_here);
        }
        if rank >= position {
            window.lower(rank_here);
        }
    }
    for other in &drawn {
        let Some(window) = windows.get_mut(other.shard) else {
            continue;
        };
        if rank < position && other.key <= pivot.key {
            window.raise(other.rank + 1);
        } else if rank >= position && other.key >= pivot.key {
            window.lower(other.rank);
        }
    }
    Ok(())
}

/// One element of each window that is not empty, in order. A window that reaches behind its shard's
/// end is cut.
fn drawn<S: SortedShards>(
    shards: &mut S,
    windows: &mut [CutWindow],
    share: f64,
) -> Result<Vec<DrawnElement>, S::Error> {
    let places: Vec<(usize, u64, u64)> = windows
        .iter()
        .enumerate()
        .filter(|(_, window)| window.len() > 0)
        .map(|(shard, window)| {
            let into = (window.len() as f64 * share) as u64;
            let rank = window.from + into.min(window.len() - 1);
            (shard, rank, window.len())
        })
        .collect();
    let slices: Vec<ShardSlice> = places
        .iter()
        .map(|&(shard, rank, _)| ShardSlice {
            shard,
            start: RunStart::Rank(rank),
            limit: 1,
        })
        .collect();
    let mut drawn = Vec::with_capacity(places.len());
    for ((shard, rank, weight), items) in places.into_iter().zip(shards.slices(&slices)?) {
        match (items.first(), windows.get_mut(shard)) {
            (Some(item), _) => {
                let value = item.sorted_by().clone();
                drawn.push(DrawnElement {
                    shard,
                    rank,
                    weight,
                    key: ElementSortKey::of(&value)?,
                    value,
                });
            }
            (None, Some(window)) => window.lower(rank),
            (None, None) => {}
        }
    }
    drawn.sort_by(|a, b| a.key.cmp(&b.key));
    Ok(drawn)
}

/// The element in the middle of the weight.
fn middle(drawn: &[DrawnElement]) -> Option<&DrawnElement> {
    let all: u64 = drawn.iter().map(|drawn| drawn.weight).sum();
    let mut before = 0;
    drawn.iter().find(|drawn| {
        before += drawn.weight;
        before >= all.div_ceil(2)
    })
}
