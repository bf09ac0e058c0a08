//! The table of operations on lists and maps: one row each.

use super::code as c;
use super::policy::MapWriteFlags;
use super::returns::{ReturnKind, Returns};
use super::shape::ItemShape;

/// The kind of an operation, before its arguments are parsed.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum ActionKind {
    SetType,
    Size,
    Clear,
    Sort,
    /// Reads or removes selected items. The first argument is the return type, unless the operation
    /// fixes it.
    Select(SelectorKind, Option<Returns>),
    /// Appends one value or several to a list.
    Append(Arity),
    /// Inserts one value or several at a position of a list.
    Insert(Arity),
    Set,
    IncrementElement,
    /// Puts one entry or several. The older operations have fixed flags.
    Put(Arity, Option<MapWriteFlags>),
    /// Adds to the value of a key, or subtracts from it.
    IncrementValue(Sign),
}

/// The selectors, by their arguments.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum SelectorKind {
    Index,
    IndexRange,
    Rank,
    RankRange,
    Key,
    Keys,
    KeyInterval,
    KeyRelative,
    FirstValue,
    Value,
    Values,
    ValueInterval,
    ValueRelative,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Arity {
    One,
    Several,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Sign {
    Plus,
    Minus,
}

/// The description of an operation.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct OpSpec {
    pub(super) code: u8,
    pub(super) shape: ItemShape,
    pub(super) writes: bool,
    /// The least and the greatest number of arguments.
    pub(super) required: u32,
    pub(super) allowed: u32,
    pub(super) kind: ActionKind,
}

/// Returns the operation with a number.
pub(super) fn find(code: i64) -> Option<&'static OpSpec> {
    let at = PLACES.get(usize::try_from(code).ok()?)?;
    TABLE.get(usize::from(*at))
}

/// Returns all operations, for tests that try each of them.
#[cfg(test)]
pub(super) fn rows() -> &'static [OpSpec] {
    &TABLE
}

const fn list(code: u8, required: u32, allowed: u32, kind: ActionKind) -> OpSpec {
    row(ItemShape::List, true, code, required, allowed, kind)
}

const fn list_read(code: u8, required: u32, allowed: u32, kind: ActionKind) -> OpSpec {
    row(ItemShape::List, false, code, required, allowed, kind)
}

const fn map(code: u8, required: u32, allowed: u32, kind: ActionKind) -> OpSpec {
    row(ItemShape::Map, true, code, required, allowed, kind)
}

const fn map_read(code: u8, required: u32, allowed: u32, kind: ActionKind) -> OpSpec {
    row(ItemShape::Map, false, code, required, allowed, kind)
}

const fn row(
    shape: ItemShape,
    writes: bool,
    code: u8,
    required: u32,
    allowed: u32,
    kind: ActionKind,
) -> OpSpec {
    OpSpec {
        code,
        shape,
        writes,
        required,
        allowed,
        kind,
    }
}

/// Selects with the return type from the first argument.
const fn by(by: SelectorKind) -> ActionKind {
    ActionKind::Select(by, None)
}

/// Selects with a fixed return type.
const fn fixed(by: SelectorKind, kind: ReturnKind, inverted: bool) -> ActionKind {
    ActionKind::Select(by, Some(Returns { kind, inverted }))
}

const ADD: Option<MapWriteFlags> = Some(MapWriteFlags::CREATE_ONLY);
const REPLACE: Option<MapWriteFlags> = Some(MapWriteFlags::UPDATE_ONLY);

/// All operations, by number.
#[rustfmt::skip]
static TABLE: [OpSpec; 72] = [
    list(c::LIST_SET_TYPE, 1, 1, ActionKind::SetType),
    list(c::LIST_APPEND, 1, 3, ActionKind::Append(Arity::One)),
    list(c::LIST_APPEND_ITEMS, 1, 3, ActionKind::Append(Arity::Several)),
    list(c::LIST_INSERT, 2, 3, ActionKind::Insert(Arity::One)),
    list(c::LIST_INSERT_ITEMS, 2, 3, ActionKind::Insert(Arity::Several)),
    list(c::LIST_POP, 1, 1, fixed(SelectorKind::Index, ReturnKind::Value, false)),
    list(c::LIST_POP_RANGE, 1, 2, fixed(SelectorKind::IndexRange, ReturnKind::Value, false)),
    list(c::LIST_REMOVE, 1, 1, fixed(SelectorKind::Index, ReturnKind::Count, false)),
    list(c::LIST_REMOVE_RANGE, 1, 2, fixed(SelectorKind::IndexRange, ReturnKind::Count, false)),
    list(c::LIST_SET, 2, 3, ActionKind::Set),
    list(c::LIST_TRIM, 2, 2, fixed(SelectorKind::IndexRange, ReturnKind::Count, true)),
    list(c::LIST_CLEAR, 0, 0, ActionKind::Clear),
    list(c::LIST_INCREMENT, 1, 4, ActionKind::IncrementElement),
    list(c::LIST_SORT, 0, 1, ActionKind::Sort),
    list_read(c::LIST_SIZE, 0, 0, ActionKind::Size),
    list_read(c::LIST_GET, 1, 1, fixed(SelectorKind::Index, ReturnKind::Value, false)),
    list_read(c::LIST_GET_RANGE, 1, 2, fixed(SelectorKind::IndexRange, ReturnKind::Value, false)),
    list_read(c::LIST_GET_BY_INDEX, 2, 2, by(SelectorKind::Index)),
    list_read(c::LIST_GET_BY_VALUE, 2, 2, by(SelectorKind::FirstValue)),
    list_read(c::LIST_GET_BY_RANK, 2, 2, by(SelectorKind::Rank)),
    list_read(c::LIST_GET_ALL_BY_VALUE, 2, 2, by(SelectorKind::Value)),
    list_read(c::LIST_GET_BY_VALUE_LIST, 2, 2, by(SelectorKind::Values)),
    list_read(c::LIST_GET_BY_INDEX_RANGE, 2, 3, by(SelectorKind::IndexRange)),
    list_read(c::LIST_GET_BY_VALUE_INTERVAL, 2, 3, by(SelectorKind::ValueInterval)),
    list_read(c::LIST_GET_BY_RANK_RANGE, 2, 3, by(SelectorKind::RankRange)),
    list_read(c::LIST_GET_BY_VALUE_REL_RANK_RANGE, 3, 4, by(SelectorKind::ValueRelative)),
    list(c::LIST_REMOVE_BY_INDEX, 2, 2, by(SelectorKind::Index)),
    list(c::LIST_REMOVE_BY_VALUE, 2, 2, by(SelectorKind::FirstValue)),
    list(c::LIST_REMOVE_BY_RANK, 2, 2, by(SelectorKind::Rank)),
    list(c::LIST_REMOVE_ALL_BY_VALUE, 2, 2, by(SelectorKind::Value)),
    list(c::LIST_REMOVE_BY_VALUE_LIST, 2, 2, by(SelectorKind::Values)),
    list(c::LIST_REMOVE_BY_INDEX_RANGE, 2, 3, by(SelectorKind::IndexRange)),
    list(c::LIST_REMOVE_BY_VALUE_INTERVAL, 2, 3, by(SelectorKind::ValueInterval)),
    list(c::LIST_REMOVE_BY_RANK_RANGE, 2, 3, by(SelectorKind::RankRange)),
    list(c::LIST_REMOVE_BY_VALUE_REL_RANK_RANGE, 3, 4, by(SelectorKind::ValueRelative)),

    map(c::MAP_SET_TYPE, 1, 1, ActionKind::SetType),
    map(c::MAP_ADD, 2, 3, ActionKind::Put(Arity::One, ADD)),
    map(c::MAP_ADD_ITEMS, 1, 2, ActionKind::Put(Arity::Several, ADD)),
    map(c::MAP_PUT, 2, 4, ActionKind::Put(Arity::One, None)),
    map(c::MAP_PUT_ITEMS, 1, 3, ActionKind::Put(Arity::Several, None)),
    map(c::MAP_REPLACE, 2, 2, ActionKind::Put(Arity::One, REPLACE)),
    map(c::MAP_REPLACE_ITEMS, 1, 1, ActionKind::Put(Arity::Several, REPLACE)),
    map(c::MAP_INCREMENT, 1, 3, ActionKind::IncrementValue(Sign::Plus)),
    map(c::MAP_DECREMENT, 1, 3, ActionKind::IncrementValue(Sign::Minus)),
    map(c::MAP_CLEAR, 0, 0, ActionKind::Clear),
    map(c::MAP_REMOVE_BY_KEY, 2, 2, by(SelectorKind::Key)),
    map(c::MAP_REMOVE_BY_INDEX, 2, 2, by(SelectorKind::Index)),
    map(c::MAP_REMOVE_BY_VALUE, 2, 2, by(SelectorKind::FirstValue)),
    map(c::MAP_REMOVE_BY_RANK, 2, 2, by(SelectorKind::Rank)),
    map(c::MAP_REMOVE_BY_KEY_LIST, 2, 2, by(SelectorKind::Keys)),
    map(c::MAP_REMOVE_ALL_BY_VALUE, 2, 2, by(SelectorKind::Value)),
    map(c::MAP_REMOVE_BY_VALUE_LIST, 2, 2, by(SelectorKind::Values)),
    map(c::MAP_REMOVE_BY_KEY_INTERVAL, 2, 3, by(SelectorKind::KeyInterval)),
    map(c::MAP_REMOVE_BY_INDEX_RANGE, 2, 3, by(SelectorKind::IndexRange)),
    map(c::MAP_REMOVE_BY_VALUE_INTERVAL, 2, 3, by(SelectorKind::ValueInterval)),
    map(c::MAP_REMOVE_BY_RANK_RANGE, 2, 3, by(SelectorKind::RankRange)),
    map(c::MAP_REMOVE_BY_KEY_REL_INDEX_RANGE, 3, 4, by(SelectorKind::KeyRelative)),
    map(c::MAP_REMOVE_BY_VALUE_REL_RANK_RANGE, 3, 4, by(SelectorKind::ValueRelative)),
    map_read(c::MAP_SIZE, 0, 0, ActionKind::Size),
    map_read(c::MAP_GET_BY_KEY, 2, 2, by(SelectorKind::Key)),
    map_read(c::MAP_GET_BY_INDEX, 2, 2, by(SelectorKind::Index)),
    map_read(c::MAP_GET_BY_VALUE, 2, 2, by(SelectorKind::FirstValue)),
    map_read(c::MAP_GET_BY_RANK, 2, 2, by(SelectorKind::Rank)),
    map_read(c::MAP_GET_ALL_BY_VALUE, 2, 2, by(SelectorKind::Value)),
    map_read(c::MAP_GET_BY_KEY_INTERVAL, 2, 3, by(SelectorKind::KeyInterval)),
    map_read(c::MAP_GET_BY_INDEX_RANGE, 2, 3, by(SelectorKind::IndexRange)),
    map_read(c::MAP_GET_BY_VALUE_INTERVAL, 2, 3, by(SelectorKind::ValueInterval)),
    map_read(c::MAP_GET_BY_RANK_RANGE, 2, 3, by(SelectorKind::RankRange)),
    map_read(c::MAP_GET_BY_KEY_LIST, 2, 2, by(SelectorKind::Keys)),
    map_read(c::MAP_GET_BY_VALUE_LIST, 2, 2, by(SelectorKind::Values)),
    map_read(c::MAP_GET_BY_KEY_REL_INDEX_RANGE, 3, 4, by(SelectorKind::KeyRelative)),
    map_read(c::MAP_GET_BY_VALUE_REL_RANK_RANGE, 3, 4, by(SelectorKind::ValueRelative)),
];

/// The row of each number in the table; beyond its end for unused numbers.
static PLACES: [u8; 256] = {
    let mut places = [u8::MAX; 256];
    let mut at = 0;
    while at < TABLE.len() {
        #[expect(
            clippy::indexing_slicing,
            reason = "bounded by the lengths, at compile time"
        )]
        {
            places[TABLE[at].code as usize] = at as u8;
        }
        at += 1;
    }
    places
};

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_operation_is_found_by_its_number() {
        assert!(TABLE.is_sorted_by_key(|row| row.code));
        for row in &TABLE {
            assert_eq!(find(i64::from(row.code)).unwrap().code, row.code);
            assert!(row.required <= row.allowed);
            assert_eq!(row.shape == ItemShape::List, row.code < 64);
        }
        for unused in [
            -1, 14, 15, 28, 31, 41, 63, 71, 72, 80, 90, 95, 101, 111, 256,
        ] {
            assert!(find(unused).is_none(), "{unused}");
        }
    }
}
