//! Putting entries into maps.

use std::borrow::Cow;
use std::ops::Range;

use super::edit::CollectionEdit;
use super::elements::{Elements, find_key};
use super::encoded::Encoded;
use super::insert::Items;
use super::policy::MapWriteFlags;
use super::segment::ItemSegment;
use super::shape::ItemShape;
use super::splice::ItemSplice;
use super::view::CollectionView;
use crate::call::CallError;
use crate::value::CodecError;
use crate::value::msgpack::TokenReader;

/// Puts entries with distinct, sorted keys. Besides the copy of the bytes, for M entries: O(M log
/// N) with index, plus a walk without. `None` if nothing changes.
pub(super) fn put<'a>(
    view: CollectionView<'a>,
    items: Items<'a>,
    flags: MapWriteFlags,
) -> Result<Option<CollectionEdit<'a>>, CallError> {
    let no_fail = flags.contains(MapWriteFlags::NO_FAIL);
    let partial = no_fail && flags.contains(MapWriteFlags::DO_PARTIAL) && !items.single;
    // An empty map then takes all entries, in spite of the flags (semantics.md#maps-write-flags).
    let unchecked = partial && view.count == 0 && !flags.contains(MapWriteFlags::CREATE_ONLY);
    let mut places = AscendingPlaces::of(&view, &items)?;
    let mut changes: Vec<PlannedPut> = Vec::new();
    let mut start = 0;
    while start < items.bytes.len() {
        let entry = items.bytes.get(start..).unwrap_or_default();
        check_key(entry)?;
        let len = ItemShape::Map
            .item_len(entry)
            .map_err(CallError::Argument)?;
        let bytes = start..start + len;
        start = bytes.end;
        let place = places.next(entry)?;
        let violation = match place {
            _ if unchecked => None,
            Ok(_) if flags.contains(MapWriteFlags::CREATE_ONLY) => Some(CallError::ElementExists),
            Err(_) if flags.contains(MapWriteFlags::UPDATE_ONLY) => {
                Some(CallError::ElementNotFound)
            }
            _ => None,
        };
        match violation {
            None => add(&mut changes, place, bytes),
            Some(_) if partial => {}
            Some(_) if no_fail => return Ok(None),
            Some(error) => return Err(error),
        }
    }
    if changes.is_empty() {
        return Ok(None);
    }
    let splices = changes
        .into_iter()
        .map(|change| {
            ItemSplice::new(
                change.removed,
                piece(&items.bytes, change.entries),
                change.count,
            )
        })
        .collect();
    CollectionEdit::new(view, view.flags, splices).map(Some)
}

/// A planned splice: entries of the argument in place of a present one, or in a gap.
struct PlannedPut {
    removed: ItemSegment,
    entries: Range<usize>,
    count: u32,
}

fn add(
    changes: &mut Vec<PlannedPut>,
    place: Result<ItemSegment, ItemSegment>,
    entries: Range<usize>,
) {
    let (Ok(removed) | Err(removed)) = place;
    // Consecutive new entries of one gap form one splice, so that the edit copies them at once.
    match changes.last_mut() {
        Some(last)
            if last.removed == removed
                && removed.count == 0
                && last.entries.end == entries.start =>
        {
            last.entries.end = entries.end;
            last.count += 1;
        }
        _ => changes.push(PlannedPut {
            removed,
            entries,
            count: 1,
        }),
    }
}

fn piece<'a>(bytes: &Encoded<'a>, range: Range<usize>) -> Cow<'a, [u8]> {
    match bytes {
        Encoded::Lent(bytes) => Cow::Borrowed(bytes.get(range).unwrap_or_default()),
        owned => Cow::Owned(owned.get(range).unwrap_or_default().to_vec()),
    }
}

/// Finds the places of ascending keys.
enum AscendingPlaces<'l, 'a> {
    One(&'l CollectionView<'a>),
    Several(Elements<'a>, u32),
}

impl<'l, 'a> AscendingPlaces<'l, 'a> {
    fn of(view: &'l CollectionView<'a>, items: &Items<'_>) -> Result<Self, CallError> {
        Ok(if items.count > 1 {
            Self::Several(Elements::of(view)?, 0)
        } else {
            Self::One(view)
        })
    }

    /// Returns the entry with the key at the front of `entry`, or the gap where it belongs.
    fn next(&mut self, entry: &[u8]) -> Result<Result<ItemSegment, ItemSegment>, CallError> {
        match self {
            Self::One(view) => find_key(view, entry),
            Self::Several(elements, from) => {
                let found = elements.find(entry, *from);
                let (Ok(at) | Err(at)) = found;
                *from = at;
                match found {
                    Ok(at) => elements.segment(at, 1).map(Ok),
                    Err(at) => Ok(Err(elements.gap(at))),
                }
            }
        }
    }
}

/// Fails unless the element at the front is a valid key.
pub(super) fn check_key(bytes: &[u8]) -> Result<(), CallError> {
    let front = TokenReader::new(bytes).token();
    if front.map_err(CallError::Argument)?.is_key() {
        Ok(())
    } else {
        Err(CallError::Argument(CodecError::IllegalKey))
    }
}
