//! Appending: at the end of a list without order, at its place in an ordered one.

use std::borrow::Cow;

use super::edit::{ListEdit, Splice};
use super::search::{Matcher, split};
use super::view::ListView;
use crate::cdt::{CdtError, ListWriteFlags};
use crate::value::order::{compare, compare_total};

/// What an append came to: the new list, unless nothing changes, and the number of elements afterwards.
pub(crate) type Appended<'a> = (Option<ListEdit<'a>>, u32);

/// Why items may not be written, when they must be unique.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Violation {
    /// Equal to an element of the list.
    Exists,
    /// Equal to an earlier item of the argument.
    Repeated,
}

impl Violation {
    const fn error(self) -> CdtError {
        match self {
            Self::Exists => CdtError::ElementExists,
            Self::Repeated => CdtError::NotApplicable(
                "the items to be appended repeat one another, and elements must be unique",
            ),
        }
    }
}

/// Appends one encoded value. Beside the copy of the bytes: O(1) without order, O(log N) with order and index, a walk
/// otherwise.
pub(crate) fn append<'a>(
    view: ListView<'a>,
    value: &'a [u8],
    flags: ListWriteFlags,
) -> Result<Appended<'a>, CdtError> {
    let unique = flags.contains(ListWriteFlags::ADD_UNIQUE);
    let place = if view.is_ordered() {
        let elements = view.elements()?;
        let found = if unique {
            elements.find(value)
        } else {
            Err(elements.upper_bound(value, 0))
        };
        found.map_err(|at| (at, elements.start_of(at)))
    } else if unique && contains(&view, value)? {
        Ok(0)
    } else {
        Err((view.count, view.content.len()))
    };
    match place {
        Ok(_) if flags.contains(ListWriteFlags::NO_FAIL) => Ok((None, view.count)),
        Ok(_) => Err(Violation::Exists.error()),
        Err((at, start)) => finish(
            view,
            vec![Splice::insert(at, start, Cow::Borrowed(value), 1)],
        ),
    }
}

fn contains(view: &ListView<'_>, value: &[u8]) -> Result<bool, CdtError> {
    let matcher = Matcher::new(value);
    for element in view.walk() {
        if matcher.matches(view.bytes(element?)) {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Appends `items`, encoded values one after the other. M items into N elements, beside the copy of the bytes: O(M)
/// without order; O(M log N) with order and index, a walk more without index; uniqueness costs O((M + N) log M) without
/// order.
pub(crate) fn append_items<'a>(
    view: ListView<'a>,
    items: &'a [u8],
    flags: ListWriteFlags,
) -> Result<Appended<'a>, CdtError> {
    let mut items = split(items)?;
    if flags.contains(ListWriteFlags::ADD_UNIQUE) {
        let violations = violations(&view, &items)?;
        if let Some(first) = violations.iter().flatten().next() {
            if !flags.contains(ListWriteFlags::NO_FAIL) {
                return Err(first.error());
            }
            if !flags.contains(ListWriteFlags::DO_PARTIAL) {
                return Ok((None, view.count));
            }
        }
        let mut violations = violations.iter();
        items.retain(|_| violations.next().is_none_or(Option::is_none));
    }
    let splices = if view.is_ordered() {
        items.sort_by(|a, b| compare_total(a, b));
        places(&view, &items)?
    } else if items.is_empty() {
        Vec::new()
    } else {
        let elements = Cow::Owned(items.concat());
        vec![Splice::insert(
            view.count,
            view.content.len(),
            elements,
            items.len() as u32,
        )]
    };
    finish(view, splices)
}

/// Which items violate uniqueness, and how, in the order of the items.
fn violations(view: &ListView<'_>, items: &[&[u8]]) -> Result<Vec<Option<Violation>>, CdtError> {
    let mut violations = vec![None; items.len()];
    let item = |at: &usize| items.get(*at).copied().unwrap_or_default();
    let mut by_value: Vec<usize> = (0..items.len()).collect();
    by_value.sort_by(|a, b| compare_total(item(a), item(b)));
    // The sort is stable: of equal items the earliest comes first, and is not a repetition.
    for pair in by_value.windows(2) {
        if let [before, at] = pair
            && compare(item(before), item(at)).is_eq()
            && let Some(slot) = violations.get_mut(*at)
        {
            *slot = Some(Violation::Repeated);
        }
    }
    let mut exists = |at: usize| {
        if let Some(slot) = violations.get_mut(at) {
            *slot = Some(Violation::Exists);
        }
    };
    if view.is_ordered() {
        let elements = view.elements()?;
        for (at, item) in items.iter().enumerate() {
            if elements.find(item).is_ok() {
                exists(at);
            }
        }
    } else {
        for element in view.walk() {
            let element = view.bytes(element?);
            let first = by_value.partition_point(|at| compare_total(item(at), element).is_lt());
            let equal = by_value.iter().skip(first);
            equal
                .take_while(|at| compare(item(at), element).is_eq())
                .for_each(|at| exists(*at));
        }
    }
    Ok(violations)
}

/// Where sorted items belong in an ordered list: one splice for all that go to the same place.
fn places<'a>(view: &ListView<'a>, items: &[&'a [u8]]) -> Result<Vec<Splice<'a>>, CdtError> {
    let mut splices: Vec<Splice<'a>> = Vec::new();
    if items.is_empty() {
        return Ok(splices);
    }
    let elements = view.elements()?;
    let mut at = 0;
    for item in items {
        at = elements.upper_bound(item, at);
        match splices.last_mut() {
            Some(last) if last.removed.at == at => {
                last.inserted.to_mut().extend_from_slice(item);
                last.count += 1;
            }
            _ => {
                let start = elements.start_of(at);
                splices.push(Splice::insert(at, start, Cow::Borrowed(item), 1));
            }
        }
    }
    Ok(splices)
}

fn finish<'a>(view: ListView<'a>, splices: Vec<Splice<'a>>) -> Result<Appended<'a>, CdtError> {
    if splices.is_empty() {
        return Ok((None, view.count));
    }
    let edit = ListEdit::new(view, view.flags, splices)?;
    let count = edit.count();
    Ok((Some(edit), count))
}
