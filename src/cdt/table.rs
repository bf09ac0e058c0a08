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

const READ: bool = false;
const WRITE: bool = true;

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

/// Selects with a fixed return type.
const fn fixed(by: SelectorKind, kind: ReturnKind, inverted: bool) -> ActionKind {
    ActionKind::Select(by, Some(Returns { kind, inverted }))
}

const ADD: Option<MapWriteFlags> = Some(MapWriteFlags::CREATE_ONLY);
const REPLACE: Option<MapWriteFlags> = Some(MapWriteFlags::UPDATE_ONLY);

/// Defines the numbers of the operations, as Aerospike has them, and the table. Those in braces
/// read and remove the same items, and take the return type first.
macro_rules! operations {
    (
        $($code:ident $number:literal $shape:ident $writes:ident($($description:expr),*);)*
        {$(
            $get:ident $get_number:literal, $remove:ident $remove_number:literal
            $pair_shape:ident($required:literal, $allowed:literal, $by:ident);
        )*}
    ) => {
        pub(crate) mod code {
            $(pub(crate) const $code: u8 = $number;)*
            $(pub(crate) const $get: u8 = $get_number;)*
            $(pub(crate) const $remove: u8 = $remove_number;)*
        }

        /// All operations.
        static TABLE: [OpSpec; 72] = [
            $(row(ItemShape::$shape, $writes, code::$code, $($description),*),)*
            $(
                row(ItemShape::$pair_shape, READ, code::$get, $required, $allowed, ActionKind::Select(SelectorKind::$by, None)),
                row(ItemShape::$pair_shape, WRITE, code::$remove, $required, $allowed, ActionKind::Select(SelectorKind::$by, None)),
            )*
        ];
    };
}

operations! {
    LIST_SET_TYPE 0 List WRITE(1, 1, ActionKind::SetType);
    LIST_APPEND 1 List WRITE(1, 3, ActionKind::Append(Arity::One));
    LIST_APPEND_ITEMS 2 List WRITE(1, 3, ActionKind::Append(Arity::Several));
    LIST_INSERT 3 List WRITE(2, 3, ActionKind::Insert(Arity::One));
    LIST_INSERT_ITEMS 4 List WRITE(2, 3, ActionKind::Insert(Arity::Several));
    LIST_POP 5 List WRITE(1, 1, fixed(SelectorKind::Index, ReturnKind::Value, false));
    LIST_POP_RANGE 6 List WRITE(1, 2, fixed(SelectorKind::IndexRange, ReturnKind::Value, false));
    LIST_REMOVE 7 List WRITE(1, 1, fixed(SelectorKind::Index, ReturnKind::Count, false));
    LIST_REMOVE_RANGE 8 List WRITE(1, 2, fixed(SelectorKind::IndexRange, ReturnKind::Count, false));
    LIST_SET 9 List WRITE(2, 3, ActionKind::Set);
    LIST_TRIM 10 List WRITE(2, 2, fixed(SelectorKind::IndexRange, ReturnKind::Count, true));
    LIST_CLEAR 11 List WRITE(0, 0, ActionKind::Clear);
    LIST_INCREMENT 12 List WRITE(1, 4, ActionKind::IncrementElement);
    LIST_SORT 13 List WRITE(0, 1, ActionKind::Sort);
    LIST_SIZE 16 List READ(0, 0, ActionKind::Size);
    LIST_GET 17 List READ(1, 1, fixed(SelectorKind::Index, ReturnKind::Value, false));
    LIST_GET_RANGE 18 List READ(1, 2, fixed(SelectorKind::IndexRange, ReturnKind::Value, false));

    MAP_SET_TYPE 64 Map WRITE(1, 1, ActionKind::SetType);
    MAP_ADD 65 Map WRITE(2, 3, ActionKind::Put(Arity::One, ADD));
    MAP_ADD_ITEMS 66 Map WRITE(1, 2, ActionKind::Put(Arity::Several, ADD));
    MAP_PUT 67 Map WRITE(2, 4, ActionKind::Put(Arity::One, None));
    MAP_PUT_ITEMS 68 Map WRITE(1, 3, ActionKind::Put(Arity::Several, None));
    MAP_REPLACE 69 Map WRITE(2, 2, ActionKind::Put(Arity::One, REPLACE));
    MAP_REPLACE_ITEMS 70 Map WRITE(1, 1, ActionKind::Put(Arity::Several, REPLACE));
    MAP_INCREMENT 73 Map WRITE(1, 3, ActionKind::IncrementValue(Sign::Plus));
    MAP_DECREMENT 74 Map WRITE(1, 3, ActionKind::IncrementValue(Sign::Minus));
    MAP_CLEAR 75 Map WRITE(0, 0, ActionKind::Clear);
    MAP_SIZE 96 Map READ(0, 0, ActionKind::Size);

    {
        LIST_GET_BY_INDEX 19, LIST_REMOVE_BY_INDEX 32 List(2, 2, Index);
        LIST_GET_BY_VALUE 20, LIST_REMOVE_BY_VALUE 33 List(2, 2, FirstValue);
        LIST_GET_BY_RANK 21, LIST_REMOVE_BY_RANK 34 List(2, 2, Rank);
        LIST_GET_ALL_BY_VALUE 22, LIST_REMOVE_ALL_BY_VALUE 35 List(2, 2, Value);
        LIST_GET_BY_VALUE_LIST 23, LIST_REMOVE_BY_VALUE_LIST 36 List(2, 2, Values);
        LIST_GET_BY_INDEX_RANGE 24, LIST_REMOVE_BY_INDEX_RANGE 37 List(2, 3, IndexRange);
        LIST_GET_BY_VALUE_INTERVAL 25, LIST_REMOVE_BY_VALUE_INTERVAL 38 List(2, 3, ValueInterval);
        LIST_GET_BY_RANK_RANGE 26, LIST_REMOVE_BY_RANK_RANGE 39 List(2, 3, RankRange);
        LIST_GET_BY_VALUE_REL_RANK_RANGE 27, LIST_REMOVE_BY_VALUE_REL_RANK_RANGE 40 List(3, 4, ValueRelative);
        MAP_GET_BY_KEY 97, MAP_REMOVE_BY_KEY 76 Map(2, 2, Key);
        MAP_GET_BY_INDEX 98, MAP_REMOVE_BY_INDEX 77 Map(2, 2, Index);
        MAP_GET_BY_VALUE 99, MAP_REMOVE_BY_VALUE 78 Map(2, 2, FirstValue);
        MAP_GET_BY_RANK 100, MAP_REMOVE_BY_RANK 79 Map(2, 2, Rank);
        MAP_GET_ALL_BY_VALUE 102, MAP_REMOVE_ALL_BY_VALUE 82 Map(2, 2, Value);
        MAP_GET_BY_KEY_INTERVAL 103, MAP_REMOVE_BY_KEY_INTERVAL 84 Map(2, 3, KeyInterval);
        MAP_GET_BY_INDEX_RANGE 104, MAP_REMOVE_BY_INDEX_RANGE 85 Map(2, 3, IndexRange);
        MAP_GET_BY_VALUE_INTERVAL 105, MAP_REMOVE_BY_VALUE_INTERVAL 86 Map(2, 3, ValueInterval);
        MAP_GET_BY_RANK_RANGE 106, MAP_REMOVE_BY_RANK_RANGE 87 Map(2, 3, RankRange);
        MAP_GET_BY_KEY_LIST 107, MAP_REMOVE_BY_KEY_LIST 81 Map(2, 2, Keys);
        MAP_GET_BY_VALUE_LIST 108, MAP_REMOVE_BY_VALUE_LIST 83 Map(2, 2, Values);
        MAP_GET_BY_KEY_REL_INDEX_RANGE 109, MAP_REMOVE_BY_KEY_REL_INDEX_RANGE 88 Map(3, 4, KeyRelative);
        MAP_GET_BY_VALUE_REL_RANK_RANGE 110, MAP_REMOVE_BY_VALUE_REL_RANK_RANGE 89 Map(3, 4, ValueRelative);
    }
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
        for row in &TABLE {
            assert!(std::ptr::eq(find(i64::from(row.code)).unwrap(), row));
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
