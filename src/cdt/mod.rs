//! Lists and maps inside bins: operations on their encoded bytes.
//!
//! Nothing here decodes a list or map to read or edit a part of it. A call goes through these
//! steps:
//!
//! 1. `dispatch` finds the operation (`table`) and parses its arguments (`action`).
//!    Operations built in this process have them parsed already.
//! 2. `context` follows the call's path into nested lists and maps, if it has one.
//! 3. [`CollectionView`] parses the head of the list or map: count, flags, index data (`index`,
//!    `ranks`, `packed`), start of the items. Lists and maps are both rows of items (`shape`,
//!    `segment`); a map's item is a key with its value.
//! 4. `select` finds items by index, key, rank or value (`elements`, `range`, `value_list`), at the
//!    costs that the index allows.
//! 5. The operation replies about the selected items (`answer`, built from encoded bytes), removes
//!    them, or replaces them (`insert`, `put`, `number`, `convert`). A change is an
//!    [`CollectionEdit`]: splices of encoded items (`splice`). Its length and new index
//!    (`new_index`, `new_ranks`) are known before it is written.
//! 6. The executor of operations lets the edit write itself, once, straight into the new record.
//!
//! Input is the bytes of a bin's value and of an encoded call; output is edits and replies. May
//! import values and calls, but neither records nor bins.

mod action;
mod answer;
mod context;
mod convert;
mod cost;
mod dispatch;
mod edit;
mod elements;
mod encoded;
mod index;
mod insert;
mod new_index;
mod new_ranks;
mod number;
mod packed;
mod policy;
mod put;
mod range;
mod ranks;
mod returns;
mod segment;
mod select;
mod selections;
mod shape;
mod splice;
mod table;
mod value_list;
mod view;

#[cfg(test)]
mod cost_tests;
#[cfg(test)]
pub(crate) mod testing;
#[cfg(test)]
mod tests;

pub use policy::{ListPolicy, ListSortFlags, ListWriteFlags, MapPolicy, MapWriteFlags};
pub use returns::{ListReturn, ListReturnType, MapReturn, MapReturnType};

pub(crate) use action::Action;
pub(crate) use context::level_number;
pub(crate) use dispatch::PreparedCall;
pub(crate) use edit::CollectionEdit;
pub(crate) use encoded::Encoded;
pub(crate) use insert::Items;
pub(crate) use number::Number;
pub(crate) use range::resolve;
pub(crate) use returns::{ReturnKind, Returns};
pub(crate) use select::{Selector, locate};
pub(crate) use selections::{list_selections, map_selections};
pub(crate) use shape::ItemShape;
pub(crate) use table::code;
pub(crate) use view::CollectionView;

use dispatch::UnreadCall;
use splice::Splices;

use crate::call::{CallError, CallReply, PathCall};
use crate::value::{CodecError, FLAG_PERSIST_INDEX, MAX_NESTING, ParticleType};

/// Executes a reading call. `current` is the type and stored value of the bin.
pub(crate) fn read<'a>(
    current: (ParticleType, &'a [u8]),
    call: &PathCall<'a>,
) -> Result<CallReply<'a>, CallError> {
    let (kind, bin) = current;
    let unread = UnreadCall::parse(call, false)?;
    let (_, reply) = if call.path.levels() > 0 {
        context::read(unread, kind, bin, call.path)?
    } else {
        let view = CollectionView::of_bin(unread.shape(), kind, bin)?;
        unread.on(view, false)?
    };
    Ok(reply)
}

/// Checks a call before there is a bin: the operation, the number of its arguments, and the path.
pub(crate) fn check(call: &PathCall<'_>, writes: bool) -> Result<(), CallError> {
    UnreadCall::parse(call, writes)?;
    context::levels(call.path).map(drop)
}

/// Executes a writing call. Returns the edit, which the caller writes, or none if nothing changes.
/// May create a missing bin.
pub(crate) fn modify<'a>(
    current: Option<(ParticleType, &'a [u8])>,
    call: &PathCall<'a>,
) -> Result<(Option<CollectionEdit<'a>>, CallReply<'a>), CallError> {
    let unread = UnreadCall::parse(call, true)?;
    let levels = call.path.levels();
    if levels > 0 {
        if call
            .arguments
            .nests_deeper_than(MAX_NESTING.saturating_sub(levels + 1))
        {
            return Err(CallError::Argument(CodecError::TooDeep));
        }
        return context::modify(unread, current, call.path);
    }
    match current {
        Some((kind, bin)) => {
            let view = CollectionView::of_bin(unread.shape(), kind, bin)?;
            unread.on(view, false)
        }
        None => unread.on_nothing(false),
    }
}

/// Returns a value in its stored form, which a list or map has in normal form, with the data of the
/// persisted index that its flags ask for.
pub(crate) fn with_index(kind: ParticleType, normal: Vec<u8>) -> Result<Vec<u8>, CallError> {
    with_flags(kind, normal, 0)
}

/// As [`with_index`], of a list or map that gets these flags as well.
pub(crate) fn with_flags(
    kind: ParticleType,
    normal: Vec<u8>,
    added: u8,
) -> Result<Vec<u8>, CallError> {
    let Some(shape) = ItemShape::of_kind(kind) else {
        return Ok(normal);
    };
    let view = CollectionView::parse(shape, &normal)?;
    let flags = view.flags | added;
    if flags & FLAG_PERSIST_INDEX == 0 {
        return Ok(normal);
    }
    Ok(CollectionEdit::new(view, flags, Splices::new())?.to_bytes())
}

/// Returns whether the operation with a number changes a list or map.
pub(crate) fn writes(code: u8) -> bool {
    table::find(i64::from(code)).is_some_and(|spec| spec.writes)
}
