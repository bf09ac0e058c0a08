//! Adding and replacing elements of lists: at a position, at the end, or in order; unique or not.

use std::borrow::Cow;

use smallvec::smallvec;

use super::cost;
use super::edit::CollectionEdit;
use super::elements::{Elements, Matcher, sorting, split};
use super::encoded::Encoded;
use super::policy::ListWriteFlags;
use super::range::{from_front, resolve};
use super::segment::ItemSegment;
use super::select::{WalkPosition, is_short_and_sorted};
use super::splice::{ItemSplice, Splices};
use super::view::CollectionView;
use crate::call::{CallError, MAX_COLLECTION_BYTES};
use crate::value::order::{compare, compare_total};

/// Encoded items of an argument, concatenated.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Items<'a> {
    pub(super) bytes: Encoded<'a>,
    pub(super) count: u32,
    /// A single value, as opposed to a list or map with one.
    pub(super) single: bool,
}

/// The edit of a list; `None` if nothing changes.
type Edited<'a> = Result<Option<CollectionEdit<'a>>, CallError>;

/// The greatest position that an insertion may fill up to.
const MAX_INDEX: i64 = i32::MAX as i64;

const ORDERED: CallError = CallError::NotApplicable(
    "elements of an ordered list cannot be put to a position: append them, or give the list no order",
);
const BEFORE_BEGINNING: CallError =
    CallError::NotApplicable("the index is before the beginning of the list");
const BEYOND_END: CallError = CallError::NotApplicable(
    "the index is beyond the end of the list: leave out INSERT_BOUNDED to fill the gap with nil",
);
const REPEATED: CallError = CallError::NotApplicable(
    "the items to be added repeat one another, and elements must be unique",
);

/// Appends items. Besides the copy of the bytes, for M items: O(M) without order, O(M log N) with
/// order and index, plus a walk without index; uniqueness costs O((M + N) log M) without order.
pub(super) fn append<'a>(
    view: CollectionView<'a>,
    items: Items<'a>,
    flags: ListWriteFlags,
) -> Edited<'a> {
    add(view, items, None, flags)
}

/// Inserts items before the element at `index`, or after the end, filling the gap with nil.
pub(super) fn insert<'a>(
    view: CollectionView<'a>,
    index: i64,
    items: Items<'a>,
    flags: ListWriteFlags,
) -> Edited<'a> {
    if view.is_ordered_list() {
        return Err(ORDERED);
    }
    match position(&view, index, flags)? {
        Some(at) => add(view, items, Some(at), flags),
        None => Ok(None),
    }
}

/// Replaces the element at `index`; beyond the end it is inserted.
pub(super) fn set<'a>(
    view: CollectionView<'a>,
    index: i64,
    item: Items<'a>,
    flags: ListWriteFlags,
) -> Edited<'a> {
    if view.is_ordered_list() {
        return Err(ORDERED);
    }
    match resolve(view.count, index) {
        Some(at) => {
            let element = view.segment(at, 1)?;
            replace(view, element, item.bytes.into(), flags)
        }
        None => insert(view, index, item, flags),
    }
}

/// Replaces an element. In an ordered list the new one moves to its place.
pub(super) fn replace<'a>(
    view: CollectionView<'a>,
    element: ItemSegment,
    value: Cow<'a, [u8]>,
    flags: ListWriteFlags,
) -> Edited<'a> {
    if flags.contains(ListWriteFlags::ADD_UNIQUE) && contains(&view, &value, Some(element.at))? {
        return violated(CallError::ElementExists, flags);
    }
    let splices = if view.is_ordered_list() {
        moved(&view, element, value)?
    } else {
        smallvec![ItemSplice::new(element, value, 1)]
    };
    CollectionEdit::new(view, view.flags, splices).map(Some)
}

/// Returns the splices that remove an element of an ordered list and insert another in order.
fn moved<'a>(
    view: &CollectionView<'a>,
    element: ItemSegment,
    value: Cow<'a, [u8]>,
) -> Result<Splices<'a>, CallError> {
    let elements = Elements::of(view)?;
    let at = elements.upper_bound(&value, 0);
    Ok(if at == element.at || at == element.at + 1 {
        smallvec![ItemSplice::new(element, value, 1)]
    } else {
        let insertion = ItemSplice::new(elements.gap(at), value, 1);
        let removal = ItemSplice::remove(element);
        // An edit takes its splices in the order of their places.
        if at < element.at {
            smallvec![insertion, removal]
        } else {
            smallvec![removal, insertion]
        }
    })
}

/// Returns the position to insert at; `None` if the policy refuses it silently.
fn position(
    view: &CollectionView<'_>,
    index: i64,
    flags: ListWriteFlags,
) -> Result<Option<u32>, CallError> {
    let at = from_front(view.count, index);
    if at < 0 {
        return Err(BEFORE_BEGINNING);
    }
    if at > MAX_INDEX {
        return Err(BEYOND_END);
    }
    if at > i64::from(view.count) && flags.contains(ListWriteFlags::INSERT_BOUNDED) {
        return if flags.contains(ListWriteFlags::NO_FAIL) {
            Ok(None)
        } else {
            Err(BEYOND_END)
        };
    }
    Ok(Some(at as u32))
}

fn violated<'a>(error: CallError, flags: ListWriteFlags) -> Edited<'a> {
    if flags.contains(ListWriteFlags::NO_FAIL) {
        Ok(None)
    } else {
        Err(error)
    }
}

fn add<'a>(
    view: CollectionView<'a>,
    items: Items<'a>,
    at: Option<u32>,
    flags: ListWriteFlags,
) -> Edited<'a> {
    let unique = flags.contains(ListWriteFlags::ADD_UNIQUE);
    let (bytes, count) = (Cow::from(items.bytes), items.count);
    // The most common case, without collecting items.
    if items.single && view.is_ordered_list() {
        return add_one_in_order(view, bytes, flags);
    }
    if items.single {
        if unique && contains(&view, &bytes, None)? {
            return violated(CallError::ElementExists, flags);
        }
        return put_at(view, at, bytes, 1);
    }
    if !unique && !view.is_ordered_list() {
        return put_at(view, at, bytes, count);
    }
    // The items must be looked at one by one: to compare them, or to sort them into the list.
    let mut values: Vec<Cow<'a, [u8]>> = match bytes {
        Cow::Borrowed(bytes) => split(bytes)?.into_iter().map(Cow::Borrowed).collect(),
        Cow::Owned(bytes) => {
            let values = split(&bytes)?.into_iter();
            values.map(|value| Cow::Owned(value.to_vec())).collect()
        }
    };
    // Rising items do not repeat one another: one pass finds their places, and the ones that exist.
    if unique && view.is_ordered_list() && is_rising(&values) {
        let (splices, exists) = in_order(&view, values, unique)?;
        if exists && !flags.contains(ListWriteFlags::NO_FAIL | ListWriteFlags::DO_PARTIAL) {
            return violated(CallError::ElementExists, flags);
        }
        return spliced(view, splices);
    }
    if unique {
        let violations = violations(&view, &values)?;
        if let Some(first) = violations.iter().flatten().next()
            && !(flags.contains(ListWriteFlags::NO_FAIL | ListWriteFlags::DO_PARTIAL))
        {
            return violated(first.clone(), flags);
        }
        // `retain` visits the values in order, as `violations` is.
        let mut violations = violations.iter();
        values.retain(|_| violations.next().is_none_or(Option::is_none));
    }
    if view.is_ordered_list() {
        values.sort_by(|a, b| sorting(a, b));
        let (splices, _) = in_order(&view, values, false)?;
        return spliced(view, splices);
    }
    put_at(view, at, Cow::Owned(values.concat()), values.len() as u32)
}

fn spliced<'a>(view: CollectionView<'a>, splices: Splices<'a>) -> Edited<'a> {
    if splices.is_empty() {
        return Ok(None);
    }
    CollectionEdit::new(view, view.flags, splices).map(Some)
}

/// Returns whether each item is above the one before, so that none repeats another: in a large
/// batch they come so.
fn is_rising(items: &[Cow<'_, [u8]>]) -> bool {
    items.is_sorted_by(|a, b| compare(a, b).is_lt())
}

/// The way through an ordered list along which rising items find their places.
enum Places<'a> {
    Walked(WalkPosition<'a>),
    Searched(Elements<'a>, u32),
}

impl<'a> Places<'a> {
    fn of(view: &CollectionView<'a>) -> Result<Self, CallError> {
        if is_short_and_sorted(view) {
            return Ok(Self::Walked(WalkPosition::front(view)));
        }
        Ok(Self::Searched(Elements::of(view)?, 0))
    }

    /// Returns the gap where an item belongs. `None`: it must be unique, and the list has it.
    fn next(
        &mut self,
        view: &CollectionView<'a>,
        item: &[u8],
        unique: bool,
    ) -> Result<Option<ItemSegment>, CallError> {
        let (elements, at) = match self {
            Self::Walked(position) => return position.place_of(view, item, unique),
            Self::Searched(elements, at) => (elements, at),
        };
        *at = if unique {
            match elements.find(item, *at) {
                Ok(_) => return Ok(None),
                Err(place) => place,
            }
        } else {
            elements.upper_bound(item, *at)
        };
        Ok(Some(elements.gap(*at)))
    }
}

/// Adds one element in order, the most common addition. O(log N) with an index.
fn add_one_in_order<'a>(
    view: CollectionView<'a>,
    value: Cow<'a, [u8]>,
    flags: ListWriteFlags,
) -> Edited<'a> {
    let unique = flags.contains(ListWriteFlags::ADD_UNIQUE);
    let Some(gap) = Places::of(&view)?.next(&view, &value, unique)? else {
        return violated(CallError::ElementExists, flags);
    };
    CollectionEdit::new(view, view.flags, smallvec![ItemSplice::new(gap, value, 1)]).map(Some)
}

/// Inserts elements at a position of an unordered list, or at its end.
fn put_at<'a>(
    view: CollectionView<'a>,
    at: Option<u32>,
    elements: Cow<'a, [u8]>,
    count: u32,
) -> Edited<'a> {
    if count == 0 {
        return Ok(None);
    }
    let splice = match at {
        Some(at) if at < view.count => ItemSplice::new(view.segment(at, 0)?, elements, count),
        Some(at) if at > view.count => {
            let gap = at - view.count;
            // Each nil takes a byte: refused before any memory is taken for them.
            if gap as usize > MAX_COLLECTION_BYTES {
                return Err(CallError::TooBig {
                    bytes: u64::from(gap),
                });
            }
            // 0xc0: nil in MessagePack.
            let mut padded = vec![0xc0; gap as usize];
            padded.extend_from_slice(&elements);
            ItemSplice::new(view.end(), Cow::Owned(padded), gap + count)
        }
        _ => ItemSplice::new(view.end(), elements, count),
    };
    CollectionEdit::new(view, view.flags, smallvec![splice]).map(Some)
}

/// Returns whether an element equals `value`, at another position than `except`. O(N); O(log N)
/// with order and index.
fn contains(
    view: &CollectionView<'_>,
    value: &[u8],
    except: Option<u32>,
) -> Result<bool, CallError> {
    if view.is_ordered_list() {
        let elements = Elements::of(view)?;
        let first = elements.lower_bound(value, 0);
        let mut equals = (first..view.count)
            .take(2)
            .take_while(|at| compare(elements.from(*at), value).is_eq());
        return Ok(equals.any(|at| Some(at) != except));
    }
    let matcher = Matcher::new(value);
    for element in view.walk() {
        let element = element?;
        if matcher.matches(view.bytes(element)) && Some(element.at) != except {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Returns the items that violate uniqueness, and how, in the order of the items.
fn violations(
    view: &CollectionView<'_>,
    items: &[Cow<'_, [u8]>],
) -> Result<Vec<Option<CallError>>, CallError> {
    let mut violations = vec![None; items.len()];
    let item = |at: &usize| items.get(*at).map_or(&[][..], |item| item);
    let mut by_value: Vec<usize> = (0..items.len()).collect();
    by_value.sort_by(|a, b| sorting(item(a), item(b)));
    // The sort is stable: of equal items the earliest comes first and counts as no repetition.
    for pair in by_value.windows(2) {
        if let [before, at] = pair
            && compare(item(before), item(at)).is_eq()
            && let Some(slot) = violations.get_mut(*at)
        {
            *slot = Some(REPEATED);
        }
    }
    let mut exists = |at: usize| {
        cost::visit();
        if let Some(slot) = violations.get_mut(at) {
            *slot = Some(CallError::ElementExists);
        }
    };
    if view.is_ordered_list() {
        let elements = Elements::of(view)?;
        for (at, item) in items.iter().enumerate() {
            if elements.find(item, 0).is_ok() {
                exists(at);
            }
        }
    } else {
        for element in view.walk() {
            let element = view.bytes(element?);
            let first = by_value.partition_point(|at| compare_total(item(at), element).is_lt());
            // The items that repeat the first equal one violate uniqueness already.
            let equal = by_value.get(first);
            if let Some(at) = equal.filter(|at| compare(item(at), element).is_eq()) {
                exists(*at);
            }
        }
    }
    Ok(violations)
}

/// Finds the places of sorted items in an ordered list: one splice for all items of one place. With
/// `unique`, leaves out items that the list has, and returns whether it has any.
fn in_order<'a>(
    view: &CollectionView<'a>,
    items: Vec<Cow<'a, [u8]>>,
    unique: bool,
) -> Result<(Splices<'a>, bool), CallError> {
    let (mut splices, mut exists) = (Splices::with_capacity(items.len()), false);
    let mut places = Places::of(view)?;
    for item in items {
        let Some(gap) = places.next(view, &item, unique)? else {
            exists = true;
            continue;
        };
        match splices.last_mut() {
            Some(last) if last.removed.at == gap.at => {
                last.inserted.to_mut().extend_from_slice(&item);
                last.count += 1;
            }
            _ => splices.push(ItemSplice::new(gap, item, 1)),
        }
    }
    Ok((splices, exists))
}
