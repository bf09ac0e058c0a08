//! Conversions of lists and maps: order, persisted index, sorting.

use std::borrow::Cow;
use std::cmp::Ordering;

use smallvec::smallvec;

use super::edit::CollectionEdit;
use super::elements::sorting;
use super::index::ItemIndex;
use super::policy::ListSortFlags;
use super::shape::ItemShape;
use super::splice::ItemSplice;
use super::view::CollectionView;
use crate::call::CallError;
use crate::value::order::compare;
use crate::value::{FLAG_ORDERED, FLAG_PERSIST_INDEX};

/// Changes the flags of a list or map. O(1) plus the copy of the bytes; newly ordering a list sorts
/// it, a new index costs a walk, and a new order of a map's values sorts them. `None` if nothing
/// changes.
pub(super) fn set_type(
    view: CollectionView<'_>,
    flags: u8,
) -> Result<Option<CollectionEdit<'_>>, CallError> {
    // Values that were written as a whole by earlier versions have the flag alone.
    let lacks_index =
        view.count > 1 && flags & FLAG_PERSIST_INDEX != 0 && matches!(view.index, ItemIndex::None);
    if flags == view.flags && !lacks_index {
        return Ok(None);
    }
    // Maps are always stored in the order of keys.
    let sorts =
        view.shape == ItemShape::List && flags & FLAG_ORDERED != 0 && !view.is_ordered_list();
    let splices = if sorts {
        sorted(&view, sorting, false)?
    } else {
        None
    };
    CollectionEdit::new(view, flags, splices.into_iter().collect()).map(Some)
}

/// Sorts a list. `None` if nothing changes.
pub(super) fn sort(
    view: CollectionView<'_>,
    flags: ListSortFlags,
) -> Result<Option<CollectionEdit<'_>>, CallError> {
    let drops = flags.contains(ListSortFlags::DROP_DUPLICATES);
    let descends = flags.contains(ListSortFlags::DESCENDING) && !view.is_ordered_list();
    if view.count < 2 || view.is_ordered_list() && !drops {
        return Ok(None);
    }
    let splice = if descends {
        sorted(&view, |a, b| sorting(b, a), drops)?
    } else {
        sorted(&view, sorting, drops)?
    };
    if descends && drops && splice.as_ref().is_none_or(|splice| splice.count > 1) {
        return Err(CallError::parameter(
            "duplicates cannot be dropped while sorting in descending order: sort twice",
        ));
    }
    match splice {
        Some(splice) => CollectionEdit::new(view, view.flags, smallvec![splice]).map(Some),
        None => Ok(None),
    }
}

/// Returns the splice that sorts all elements, dropping duplicates if asked for; `None` if they are
/// sorted.
fn sorted<'a>(
    view: &CollectionView<'a>,
    order: impl Fn(&[u8], &[u8]) -> Ordering,
    drops_duplicates: bool,
) -> Result<Option<ItemSplice<'a>>, CallError> {
    let mut elements = Vec::with_capacity(view.count as usize);
    for element in view.walk() {
        elements.push(view.bytes(element?));
    }
    let in_order = elements.is_sorted_by(|a, b| order(a, b).is_le());
    if !in_order {
        elements.sort_by(|a, b| order(a, b));
    }
    if drops_duplicates {
        elements.dedup_by(|a, b| compare(a, b).is_eq());
    }
    if in_order && elements.len() == view.count as usize {
        return Ok(None);
    }
    let all = view.segment(0, view.count)?;
    let count = elements.len() as u32;
    Ok(Some(ItemSplice::new(
        all,
        Cow::Owned(elements.concat()),
        count,
    )))
}
