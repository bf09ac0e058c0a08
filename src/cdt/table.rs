//! The table of operations on lists and maps: one row each.

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

/// Defines the numbers of the operations, as Aerospike has them, and the table.
macro_rules! operations {
    ($($code:ident $number:literal $row:ident($($description:expr),*);)*) => {
        pub(crate) mod code {
            $(pub(crate) const $code: u8 = $number;)*
        }

        /// All operations, by number.
        static TABLE: [OpSpec; 72] = [$($row(code::$code, $($description),*)),*];
    };
}

operations! {
    LIST_SET_TYPE 0 list(1, 1, ActionKind::SetType);
    LIST_APPEND 1 list(1, 3, ActionKind::Append(Arity::One));
    LIST_APPEND_ITEMS 2 list(1, 3, ActionKind::Append(Arity::Several));
    LIST_INSERT 3 list(2, 3, ActionKind::Insert(Arity::One));
    LIST_INSERT_ITEMS 4 list(2, 3, ActionKind::Insert(Arity::Several));
    LIST_POP 5 list(1, 1, fixed(SelectorKind::Index, ReturnKind::Value, false));
    LIST_POP_RANGE 6 list(1, 2, fixed(SelectorKind::IndexRange, ReturnKind::Value, false));
    LIST_REMOVE 7 list(1, 1, fixed(SelectorKind::Index, ReturnKind::Count, false));
    LIST_REMOVE_RANGE 8 list(1, 2, fixed(SelectorKind::IndexRange, ReturnKind::Count, false));
    LIST_SET 9 list(2, 3, ActionKind::Set);
    LIST_TRIM 10 list(2, 2, fixed(SelectorKind::IndexRange, ReturnKind::Count, true));
    LIST_CLEAR 11 list(0, 0, ActionKind::Clear);
    LIST_INCREMENT 12 list(1, 4, ActionKind::IncrementElement);
    LIST_SORT 13 list(0, 1, ActionKind::Sort);
    LIST_SIZE 16 list_read(0, 0, ActionKind::Size);
    LIST_GET 17 list_read(1, 1, fixed(SelectorKind::Index, ReturnKind::Value, false));
    LIST_GET_RANGE 18 list_read(1, 2, fixed(SelectorKind::IndexRange, ReturnKind::Value, false));
    LIST_GET_BY_INDEX 19 list_read(2, 2, by(SelectorKind::Index));
    LIST_GET_BY_VALUE 20 list_read(2, 2, by(SelectorKind::FirstValue));
    LIST_GET_BY_RANK 21 list_read(2, 2, by(SelectorKind::Rank));
    LIST_GET_ALL_BY_VALUE 22 list_read(2, 2, by(SelectorKind::Value));
    LIST_GET_BY_VALUE_LIST 23 list_read(2, 2, by(SelectorKind::Values));
    LIST_GET_BY_INDEX_RANGE 24 list_read(2, 3, by(SelectorKind::IndexRange));
    LIST_GET_BY_VALUE_INTERVAL 25 list_read(2, 3, by(SelectorKind::ValueInterval));
    LIST_GET_BY_RANK_RANGE 26 list_read(2, 3, by(SelectorKind::RankRange));
    LIST_GET_BY_VALUE_REL_RANK_RANGE 27 list_read(3, 4, by(SelectorKind::ValueRelative));
    LIST_REMOVE_BY_INDEX 32 list(2, 2, by(SelectorKind::Index));
    LIST_REMOVE_BY_VALUE 33 list(2, 2, by(SelectorKind::FirstValue));
    LIST_REMOVE_BY_RANK 34 list(2, 2, by(SelectorKind::Rank));
    LIST_REMOVE_ALL_BY_VALUE 35 list(2, 2, by(SelectorKind::Value));
    LIST_REMOVE_BY_VALUE_LIST 36 list(2, 2, by(SelectorKind::Values));
    LIST_REMOVE_BY_INDEX_RANGE 37 list(2, 3, by(SelectorKind::IndexRange));
    LIST_REMOVE_BY_VALUE_INTERVAL 38 list(2, 3, by(SelectorKind::ValueInterval));
    LIST_REMOVE_BY_RANK_RANGE 39 list(2, 3, by(SelectorKind::RankRange));
    LIST_REMOVE_BY_VALUE_REL_RANK_RANGE 40 list(3, 4, by(SelectorKind::ValueRelative));

    MAP_SET_TYPE 64 map(1, 1, ActionKind::SetType);
    MAP_ADD 65 map(2, 3, ActionKind::Put(Arity::One, ADD));
    MAP_ADD_ITEMS 66 map(1, 2, ActionKind::Put(Arity::Several, ADD));
    MAP_PUT 67 map(2, 4, ActionKind::Put(Arity::One, None));
    MAP_PUT_ITEMS 68 map(1, 3, ActionKind::Put(Arity::Several, None));
    MAP_REPLACE 69 map(2, 2, ActionKind::Put(Arity::One, REPLACE));
    MAP_REPLACE_ITEMS 70 map(1, 1, ActionKind::Put(Arity::Several, REPLACE));
    MAP_INCREMENT 73 map(1, 3, ActionKind::IncrementValue(Sign::Plus));
    MAP_DECREMENT 74 map(1, 3, ActionKind::IncrementValue(Sign::Minus));
    MAP_CLEAR 75 map(0, 0, ActionKind::Clear);
    MAP_REMOVE_BY_KEY 76 map(2, 2, by(SelectorKind::Key));
    MAP_REMOVE_BY_INDEX 77 map(2, 2, by(SelectorKind::Index));
    MAP_REMOVE_BY_VALUE 78 map(2, 2, by(SelectorKind::FirstValue));
    MAP_REMOVE_BY_RANK 79 map(2, 2, by(SelectorKind::Rank));
    MAP_REMOVE_BY_KEY_LIST 81 map(2, 2, by(SelectorKind::Keys));
    MAP_REMOVE_ALL_BY_VALUE 82 map(2, 2, by(SelectorKind::Value));
    MAP_REMOVE_BY_VALUE_LIST 83 map(2, 2, by(SelectorKind::Values));
    MAP_REMOVE_BY_KEY_INTERVAL 84 map(2, 3, by(SelectorKind::KeyInterval));
    MAP_REMOVE_BY_INDEX_RANGE 85 map(2, 3, by(SelectorKind::IndexRange));
    MAP_REMOVE_BY_VALUE_INTERVAL 86 map(2, 3, by(SelectorKind::ValueInterval));
    MAP_REMOVE_BY_RANK_RANGE 87 map(2, 3, by(SelectorKind::RankRange));
    MAP_REMOVE_BY_KEY_REL_INDEX_RANGE 88 map(3, 4, by(SelectorKind::KeyRelative));
    MAP_REMOVE_BY_VALUE_REL_RANK_RANGE 89 map(3, 4, by(SelectorKind::ValueRelative));
    MAP_SIZE 96 map_read(0, 0, ActionKind::Size);
    MAP_GET_BY_KEY 97 map_read(2, 2, by(SelectorKind::Key));
    MAP_GET_BY_INDEX 98 map_read(2, 2, by(SelectorKind::Index));
    MAP_GET_BY_VALUE 99 map_read(2, 2, by(SelectorKind::FirstValue));
    MAP_GET_BY_RANK 100 map_read(2, 2, by(SelectorKind::Rank));
    MAP_GET_ALL_BY_VALUE 102 map_read(2, 2, by(SelectorKind::Value));
    MAP_GET_BY_KEY_INTERVAL 103 map_read(2, 3, by(SelectorKind::KeyInterval));
    MAP_GET_BY_INDEX_RANGE 104 map_read(2, 3, by(SelectorKind::IndexRange));
    MAP_GET_BY_VALUE_INTERVAL 105 map_read(2, 3, by(SelectorKind::ValueInterval));
    MAP_GET_BY_RANK_RANGE 106 map_read(2, 3, by(SelectorKind::RankRange));
    MAP_GET_BY_KEY_LIST 107 map_read(2, 2, by(SelectorKind::Keys));
    MAP_GET_BY_VALUE_LIST 108 map_read(2, 2, by(SelectorKind::Values));
    MAP_GET_BY_KEY_REL_INDEX_RANGE 109 map_read(3, 4, by(SelectorKind::KeyRelative));
    MAP_GET_BY_VALUE_REL_RANK_RANGE 110 map_read(3, 4, by(SelectorKind::ValueRelative));
}

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
