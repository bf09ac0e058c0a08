//! Calls of operations on a list or map.

use spikelet::{ListOrder, MapOrder, Value};

/// An operation on what a path leads to.
#[derive(Clone, Debug)]
pub struct Call {
    pub path: Vec<Step>,
    pub operation: Operation,
}

#[derive(Clone, Debug)]
pub enum Operation {
    List(ListOperation),
    Map(MapOperation),
}

/// One level of a path (semantics.md#contexts-what-they-find).
#[derive(Clone, Debug)]
pub enum Step {
    ListIndex(i64, Option<ListCreation>),
    ListRank(i64),
    ListValue(Value),
    MapIndex(i64),
    MapRank(i64),
    MapKey(Value, Option<MapOrder>),
    MapValue(Value),
}

/// The list in which a missing element is made.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum ListCreation {
    Unordered,
    /// Unordered, and filled up with nil if the element is to stand beyond the end.
    Padded,
    Ordered,
}

/// The form of a list that a write makes if it is missing, and the write's flags.
#[derive(Clone, Copy, Debug)]
pub struct ListPolicy {
    pub order: ListOrder,
    pub persist: bool,
    pub flags: u8,
}

/// The write flags of lists (semantics.md#lists-flags).
pub const ADD_UNIQUE: u8 = 1;
pub const INSERT_BOUNDED: u8 = 2;
/// Of lists and maps.
pub const NO_FAIL: u8 = 4;
/// Of lists and maps.
pub const DO_PARTIAL: u8 = 8;
/// The write flags of maps (semantics.md#maps-write-flags).
pub const CREATE_ONLY: u8 = 1;
pub const UPDATE_ONLY: u8 = 2;

/// The flags of a sort (semantics.md#lists-flags).
pub const DESCENDING: u8 = 1;
pub const DROP_DUPLICATES: u8 = 2;

#[derive(Clone, Debug)]
pub enum ListOperation {
    SetType { order: ListOrder, persist: bool },
    Append(ListPolicy, Value),
    AppendItems(ListPolicy, Vec<Value>),
    Insert(ListPolicy, i64, Value),
    InsertItems(ListPolicy, i64, Vec<Value>),
    Pop(i64),
    PopRange(i64, u64),
    Remove(i64),
    RemoveRange(i64, u64),
    Set(ListPolicy, i64, Value),
    Trim(i64, u64),
    Clear,
    Increment(ListPolicy, i64, Value),
    Sort(u8),
    Size,
    Get(i64),
    GetRange(i64, u64),
    GetBy(ListSelector, Return),
    RemoveBy(ListSelector, Return),
}

#[derive(Clone, Debug)]
pub enum ListSelector {
    Index(i64),
    IndexRange(i64, u64),
    Rank(i64),
    RankRange(i64, u64),
    /// All elements equal to a value.
    Value(Value),
    ValueList(Vec<Value>),
    /// From a value up to, but without, another; `None`: no bound.
    ValueRange(Option<Value>, Option<Value>),
    ValueRelativeRankRange(Value, i64, u64),
}

/// The form of a map that a write makes if it is missing, and the write's flags.
#[derive(Clone, Copy, Debug)]
pub struct MapPolicy {
    pub order: MapOrder,
    pub persist: bool,
    pub flags: u8,
}

#[derive(Clone, Debug)]
pub enum MapOperation {
    SetType { order: MapOrder, persist: bool },
    Put(MapPolicy, Value, Value),
    PutItems(MapPolicy, Vec<(Value, Value)>),
    Increment(MapPolicy, Value, Value),
    Decrement(MapPolicy, Value, Value),
    Clear,
    Size,
    GetBy(MapSelector, Return),
    RemoveBy(MapSelector, Return),
}

#[derive(Clone, Debug)]
pub enum MapSelector {
    Key(Value),
    KeyList(Vec<Value>),
    KeyRange(Option<Value>, Option<Value>),
    KeyRelativeIndexRange(Value, i64, u64),
    Index(i64),
    IndexRange(i64, u64),
    Rank(i64),
    RankRange(i64, u64),
    /// All entries with a value equal to this one.
    Value(Value),
    ValueList(Vec<Value>),
    ValueRange(Option<Value>, Option<Value>),
    ValueRelativeRankRange(Value, i64, u64),
}

/// The return type of the elements that were picked (semantics.md#return-types).
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Return {
    pub kind: ReturnKind,
    /// Those not picked are meant.
    pub inverted: bool,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub enum ReturnKind {
    None,
    Index,
    ReverseIndex,
    Rank,
    ReverseRank,
    Count,
    Key,
    Value,
    KeyValue,
    IndexRange,
    ReverseIndexRange,
    RankRange,
    ReverseRankRange,
    Exists,
    UnorderedMap,
    OrderedMap,
}
