//! The operations on lists and maps: one row each, with everything that tells them apart.

use super::code as c;
use super::policy::MapWriteFlags;
use super::returns::{Returns, What};
use super::view::Shape;

/// What an operation does, before its arguments are read.
#[derive(Clone, Copy, Debug)]
pub(super) enum Does {
    SetType,
    Size,
    Clear,
    Sort,
    /// Reads or removes what is selected. What is returned is the first argument, unless the operation fixes it.
    Select(By, Option<Returns>),
    /// One value or several, for the end of a list.
    Append(Many),
    /// One value or several, for a position in a list.
    Insert(Many),
    Set,
    IncrementElement,
    /// One entry or several. The flags of the older operations are fixed.
    Put(Many, Option<MapWriteFlags>),
    /// Adds to the value of a key, or subtracts.
    IncrementValue(Sign),
}

/// The selectors, by the arguments that they need.
#[derive(Clone, Copy, Debug)]
pub(super) enum By {
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
pub(super) enum Many {
    One,
    Several,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Sign {
    Plus,
    Minus,
}

/// An operation.
#[derive(Clone, Copy, Debug)]
pub(super) struct Row {
    pub(super) code: u8,
    pub(super) shape: Shape,
    pub(super) writes: bool,
    /// How many arguments it needs, and how many it can have.
    pub(super) required: u32,
    pub(super) allowed: u32,
    pub(super) does: Does,
}

/// The operation of a number.
pub(super) fn find(code: i64) -> Option<&'static Row> {
    let code = u8::try_from(code).ok()?;
    let at = TABLE.binary_search_by_key(&code, |row| row.code).ok()?;
    TABLE.get(at)
}

/// All operations, for tests that try each of them.
#[cfg(test)]
pub(super) fn rows() -> &'static [Row] {
    &TABLE
}

const fn list(code: u8, required: u32, allowed: u32, does: Does) -> Row {
    row(Shape::List, true, code, required, allowed, does)
}

const fn list_read(code: u8, required: u32, allowed: u32, does: Does) -> Row {
    row(Shape::List, false, code, required, allowed, does)
}

const fn map(code: u8, required: u32, allowed: u32, does: Does) -> Row {
    row(Shape::Map, true, code, required, allowed, does)
}

const fn map_read(code: u8, required: u32, allowed: u32, does: Does) -> Row {
    row(Shape::Map, false, code, required, allowed, does)
}

const fn row(shape: Shape, writes: bool, code: u8, required: u32, allowed: u32, does: Does) -> Row {
    Row {
        code,
        shape,
        writes,
        required,
        allowed,
        does,
    }
}

/// Selects, and returns what the first argument says.
const fn by(by: By) -> Does {
    Does::Select(by, None)
}

/// Selects, and returns always the same.
const fn fixed(by: By, what: What, inverted: bool) -> Does {
    Does::Select(by, Some(Returns { what, inverted }))
}

const ADD: Option<MapWriteFlags> = Some(MapWriteFlags::CREATE_ONLY);
const REPLACE: Option<MapWriteFlags> = Some(MapWriteFlags::UPDATE_ONLY);

/// All operations, by number.
#[rustfmt::skip]
static TABLE: [Row; 72] = [
    list(c::LIST_SET_TYPE, 1, 1, Does::SetType),
    list(c::LIST_APPEND, 1, 3, Does::Append(Many::One)),
    list(c::LIST_APPEND_ITEMS, 1, 3, Does::Append(Many::Several)),
    list(c::LIST_INSERT, 2, 3, Does::Insert(Many::One)),
    list(c::LIST_INSERT_ITEMS, 2, 3, Does::Insert(Many::Several)),
    list(c::LIST_POP, 1, 1, fixed(By::Index, What::Value, false)),
    list(c::LIST_POP_RANGE, 1, 2, fixed(By::IndexRange, What::Value, false)),
    list(c::LIST_REMOVE, 1, 1, fixed(By::Index, What::Count, false)),
    list(c::LIST_REMOVE_RANGE, 1, 2, fixed(By::IndexRange, What::Count, false)),
    list(c::LIST_SET, 2, 3, Does::Set),
    list(c::LIST_TRIM, 2, 2, fixed(By::IndexRange, What::Count, true)),
    list(c::LIST_CLEAR, 0, 0, Does::Clear),
    list(c::LIST_INCREMENT, 1, 4, Does::IncrementElement),
    list(c::LIST_SORT, 0, 1, Does::Sort),
    list_read(c::LIST_SIZE, 0, 0, Does::Size),
    list_read(c::LIST_GET, 1, 1, fixed(By::Index, What::Value, false)),
    list_read(c::LIST_GET_RANGE, 1, 2, fixed(By::IndexRange, What::Value, false)),
    list_read(c::LIST_GET_BY_INDEX, 2, 2, by(By::Index)),
    list_read(c::LIST_GET_BY_VALUE, 2, 2, by(By::FirstValue)),
    list_read(c::LIST_GET_BY_RANK, 2, 2, by(By::Rank)),
    list_read(c::LIST_GET_ALL_BY_VALUE, 2, 2, by(By::Value)),
    list_read(c::LIST_GET_BY_VALUE_LIST, 2, 2, by(By::Values)),
    list_read(c::LIST_GET_BY_INDEX_RANGE, 2, 3, by(By::IndexRange)),
    list_read(c::LIST_GET_BY_VALUE_INTERVAL, 2, 3, by(By::ValueInterval)),
    list_read(c::LIST_GET_BY_RANK_RANGE, 2, 3, by(By::RankRange)),
    list_read(c::LIST_GET_BY_VALUE_REL_RANK_RANGE, 3, 4, by(By::ValueRelative)),
    list(c::LIST_REMOVE_BY_INDEX, 2, 2, by(By::Index)),
    list(c::LIST_REMOVE_BY_VALUE, 2, 2, by(By::FirstValue)),
    list(c::LIST_REMOVE_BY_RANK, 2, 2, by(By::Rank)),
    list(c::LIST_REMOVE_ALL_BY_VALUE, 2, 2, by(By::Value)),
    list(c::LIST_REMOVE_BY_VALUE_LIST, 2, 2, by(By::Values)),
    list(c::LIST_REMOVE_BY_INDEX_RANGE, 2, 3, by(By::IndexRange)),
    list(c::LIST_REMOVE_BY_VALUE_INTERVAL, 2, 3, by(By::ValueInterval)),
    list(c::LIST_REMOVE_BY_RANK_RANGE, 2, 3, by(By::RankRange)),
    list(c::LIST_REMOVE_BY_VALUE_REL_RANK_RANGE, 3, 4, by(By::ValueRelative)),

    map(c::MAP_SET_TYPE, 1, 1, Does::SetType),
    map(c::MAP_ADD, 2, 3, Does::Put(Many::One, ADD)),
    map(c::MAP_ADD_ITEMS, 1, 2, Does::Put(Many::Several, ADD)),
    map(c::MAP_PUT, 2, 4, Does::Put(Many::One, None)),
    map(c::MAP_PUT_ITEMS, 1, 3, Does::Put(Many::Several, None)),
    map(c::MAP_REPLACE, 2, 2, Does::Put(Many::One, REPLACE)),
    map(c::MAP_REPLACE_ITEMS, 1, 1, Does::Put(Many::Several, REPLACE)),
    map(c::MAP_INCREMENT, 1, 3, Does::IncrementValue(Sign::Plus)),
    map(c::MAP_DECREMENT, 1, 3, Does::IncrementValue(Sign::Minus)),
    map(c::MAP_CLEAR, 0, 0, Does::Clear),
    map(c::MAP_REMOVE_BY_KEY, 2, 2, by(By::Key)),
    map(c::MAP_REMOVE_BY_INDEX, 2, 2, by(By::Index)),
    map(c::MAP_REMOVE_BY_VALUE, 2, 2, by(By::FirstValue)),
    map(c::MAP_REMOVE_BY_RANK, 2, 2, by(By::Rank)),
    map(c::MAP_REMOVE_BY_KEY_LIST, 2, 2, by(By::Keys)),
    map(c::MAP_REMOVE_ALL_BY_VALUE, 2, 2, by(By::Value)),
    map(c::MAP_REMOVE_BY_VALUE_LIST, 2, 2, by(By::Values)),
    map(c::MAP_REMOVE_BY_KEY_INTERVAL, 2, 3, by(By::KeyInterval)),
    map(c::MAP_REMOVE_BY_INDEX_RANGE, 2, 3, by(By::IndexRange)),
    map(c::MAP_REMOVE_BY_VALUE_INTERVAL, 2, 3, by(By::ValueInterval)),
    map(c::MAP_REMOVE_BY_RANK_RANGE, 2, 3, by(By::RankRange)),
    map(c::MAP_REMOVE_BY_KEY_REL_INDEX_RANGE, 3, 4, by(By::KeyRelative)),
    map(c::MAP_REMOVE_BY_VALUE_REL_RANK_RANGE, 3, 4, by(By::ValueRelative)),
    map_read(c::MAP_SIZE, 0, 0, Does::Size),
    map_read(c::MAP_GET_BY_KEY, 2, 2, by(By::Key)),
    map_read(c::MAP_GET_BY_INDEX, 2, 2, by(By::Index)),
    map_read(c::MAP_GET_BY_VALUE, 2, 2, by(By::FirstValue)),
    map_read(c::MAP_GET_BY_RANK, 2, 2, by(By::Rank)),
    map_read(c::MAP_GET_ALL_BY_VALUE, 2, 2, by(By::Value)),
    map_read(c::MAP_GET_BY_KEY_INTERVAL, 2, 3, by(By::KeyInterval)),
    map_read(c::MAP_GET_BY_INDEX_RANGE, 2, 3, by(By::IndexRange)),
    map_read(c::MAP_GET_BY_VALUE_INTERVAL, 2, 3, by(By::ValueInterval)),
    map_read(c::MAP_GET_BY_RANK_RANGE, 2, 3, by(By::RankRange)),
    map_read(c::MAP_GET_BY_KEY_LIST, 2, 2, by(By::Keys)),
    map_read(c::MAP_GET_BY_VALUE_LIST, 2, 2, by(By::Values)),
    map_read(c::MAP_GET_BY_KEY_REL_INDEX_RANGE, 3, 4, by(By::KeyRelative)),
    map_read(c::MAP_GET_BY_VALUE_REL_RANK_RANGE, 3, 4, by(By::ValueRelative)),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_operation_is_found_by_its_number() {
        assert!(TABLE.is_sorted_by_key(|row| row.code));
        for row in &TABLE {
            assert_eq!(find(i64::from(row.code)).unwrap().code, row.code);
            assert!(row.required <= row.allowed);
            assert_eq!(row.shape == Shape::List, row.code < 64);
        }
        for unused in [
            -1, 14, 15, 28, 31, 41, 63, 71, 72, 80, 90, 95, 101, 111, 256,
        ] {
            assert!(find(unused).is_none(), "{unused}");
        }
    }
}
