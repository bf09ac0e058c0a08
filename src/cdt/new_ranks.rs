//! The ranks that an edit writes, planned before the first byte.
//!
//! `ranks` describes and reads the stored form.

use std::cmp::Ordering;

use super::cost;
use super::elements::{Elements, sorting};
use super::packed::write_number;
use super::ranks::{Ranks, entry_width};
use super::shape::ItemShape;
use super::splice::ItemSplice;
use super::view::CollectionView;
use crate::call::CallError;
use crate::value::CodecError;

/// The ranks that an edit will write.
#[derive(Debug, Default)]
pub(super) struct NewRanks {
    positions: Vec<u32>,
}

impl NewRanks {
    /// Plans the ranks of `old` after `splices`. With old ranks: O(log N) comparisons for each new
    /// entry, and one pass over numbers; without: a sort.
    pub(super) fn plan(
        old: &CollectionView<'_>,
        splices: &[ItemSplice<'_>],
    ) -> Result<Self, CallError> {
        let moves = Moves::of(splices);
        let mut news = inserted(old.shape, splices)?;
        let old_ranks = match old.ranks {
            Some(ranks) => ranks,
            // Without old ranks every value must be compared anyway: sort all of them.
            None => {
                for item in old.walk() {
                    let item = item?;
                    if let ItemMove::At(at) = moves.place(item.at) {
                        news.push((old.value(item), at));
                    }
                }
                news.sort_by(by_value);
                let positions = news.iter().map(|(_, at)| *at).collect();
                return Ok(Self { positions });
            }
        };
        // Merge: the new entries in order, and between them the old ranks up to each new one's
        // place.
        news.sort_by(by_value);
        let elements = Elements::of(old)?;
        let mut positions = Vec::with_capacity(old.count as usize + news.len());
        let mut copied = 0;
        let mut copy_up_to = |positions: &mut Vec<u32>, rank: u32| -> Result<(), CallError> {
            for rank in std::mem::replace(&mut copied, rank)..rank {
                let at = ranks_position(&old_ranks, rank, old.count)?;
                if let ItemMove::At(at) = moves.place(at) {
                    positions.push(at);
                }
            }
            Ok(())
        };
        for new in &news {
            let rank = elements.partition(0, old.count, |rank| {
                // Ties are broken by position, and by the position after the edit: an earlier
                // insertion moves the old entry.
                let at = old_ranks.position(rank);
                let (ItemMove::At(place) | ItemMove::Gone(place)) = moves.place(at);
                let value = old.shape.value_of(elements.from(at));
                by_value(&(value, place), new).is_lt()
            });
            copy_up_to(&mut positions, rank)?;
            positions.push(new.1);
        }
        copy_up_to(&mut positions, old.count)?;
        Ok(Self { positions })
    }

    /// Returns the number of bytes that [`NewRanks::write`] writes.
    pub(super) fn len(&self) -> usize {
        self.positions.len() * entry_width(self.positions.len() as u32)
    }

    /// Appends the ranks.
    pub(super) fn write(&self, out: &mut Vec<u8>) {
        cost::copy(self.len());
        let width = entry_width(self.positions.len() as u32);
        for at in &self.positions {
            write_number(*at as usize, width, out);
        }
    }
}

fn by_value(a: &(&[u8], u32), b: &(&[u8], u32)) -> Ordering {
    sorting(a.0, b.0).then(a.1.cmp(&b.1))
}

fn ranks_position(ranks: &Ranks<'_>, rank: u32, count: u32) -> Result<u32, CallError> {
    let at = ranks.position(rank);
    if at < count {
        Ok(at)
    } else {
        Err(CallError::Stored(CodecError::BadIndex))
    }
}

/// Returns the values of the inserted entries, and their new positions.
fn inserted<'s>(
    shape: ItemShape,
    splices: &'s [ItemSplice<'_>],
) -> Result<Vec<(&'s [u8], u32)>, CallError> {
    let mut news = Vec::new();
    let mut moved = 0_i64;
    for splice in splices {
        let mut at = (i64::from(splice.removed.at) + moved) as u32;
        let mut rest = &*splice.inserted;
        while !rest.is_empty() {
            let len = shape.item_len(rest).map_err(CallError::Stored)?;
            let (item, behind) = rest.split_at_checked(len).unwrap_or((rest, &[]));
            news.push((shape.value_of(item), at));
            at += 1;
            rest = behind;
        }
        moved += i64::from(splice.count) - i64::from(splice.removed.count);
    }
    Ok(news)
}

/// The position of an old item after an edit.
enum ItemMove {
    At(u32),
    /// Removed; the position is where it would be.
    Gone(u32),
}

/// The new positions of old items: the shift after each splice.
struct Moves {
    /// For each splice: first removed position, first position after it, the latter's new position.
    splices: Vec<(u32, u32, u32)>,
}

impl Moves {
    fn of(splices: &[ItemSplice<'_>]) -> Self {
        let mut moved = 0_i64;
        let splices = splices
            .iter()
            .map(|ItemSplice { removed, count, .. }| {
                moved += i64::from(*count) - i64::from(removed.count);
                let behind = removed.at + removed.count;
                (removed.at, behind, (i64::from(behind) + moved) as u32)
            })
            .collect();
        Self { splices }
    }

    #[inline]
    fn place(&self, at: u32) -> ItemMove {
        let before = self.splices.partition_point(|splice| splice.0 <= at);
        match before
            .checked_sub(1)
            .and_then(|last| self.splices.get(last))
        {
            None => ItemMove::At(at),
            Some((_, behind, becomes)) if at < *behind => ItemMove::Gone(*becomes),
            Some((_, behind, becomes)) => ItemMove::At(at - behind + becomes),
        }
    }
}
