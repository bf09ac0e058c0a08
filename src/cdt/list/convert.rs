//! Changing what a list is: its order, and whether its index is persisted.

use std::borrow::Cow;

use super::edit::{ListEdit, Splice};
use super::view::ListView;
use crate::cdt::CdtError;
use crate::value::FLAG_ORDERED;
use crate::value::order::compare_total;

/// Gives a list other flags. O(1) beside the copy of the bytes, but for sorting a list that gets ordered, and a walk over
/// one that gets an index. `None` if nothing changes.
pub(crate) fn set_type(view: ListView<'_>, flags: u8) -> Result<Option<ListEdit<'_>>, CdtError> {
    if flags == view.flags {
        return Ok(None);
    }
    let sorts = flags & FLAG_ORDERED != 0 && !view.is_ordered() && view.count > 1;
    let splices = if sorts {
        sorted(&view)?.into_iter().collect()
    } else {
        Vec::new()
    };
    ListEdit::new(view, flags, splices).map(Some)
}

/// The splice that puts all elements in order; `None` if they are.
fn sorted<'a>(view: &ListView<'a>) -> Result<Option<Splice<'a>>, CdtError> {
    let mut elements = Vec::with_capacity(view.count as usize);
    for element in view.walk() {
        elements.push(view.bytes(element?));
    }
    if elements.is_sorted_by(|a, b| compare_total(a, b).is_le()) {
        return Ok(None);
    }
    elements.sort_by(|a, b| compare_total(a, b));
    let removed = view.segment(0, view.count)?;
    Ok(Some(Splice {
        removed,
        inserted: Cow::Owned(elements.concat()),
        count: view.count,
    }))
}
