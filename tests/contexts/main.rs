//! The rules of paths into nested lists and maps, as tables: a bin, an operation below a path, its
//! result, and the bin afterwards. The rules come from semantics.md#contexts-what-they-find and
//! semantics.md#contexts-what-they-create. "Client suite" marks an assertion of a test suite of
//! Aerospike's clients.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing)]

mod creation;
mod finding;
#[path = "../support/mod.rs"]
mod support;

use spikelet::operations::ctx::{
    Context, ListPad, list_index, list_index_create, list_rank, list_value, map_index, map_key,
    map_key_create, map_rank, map_value,
};
use spikelet::operations::lists::ListSortFlags;
use spikelet::operations::{self, lists, maps};
use spikelet::{
    ListOrder, ListPolicy, ListReturnType, ListWriteFlags, MapOrder, MapPolicy, MapReturnType,
    MapWriteFlags, Operation, Value,
};
use support::{
    ANY, BIN, MISSING, NIL, NOT_APPLICABLE, PARAMETER, WRONG_TYPE, by_key, by_key_and_value, check,
    entries, items, list, map, ordered, results, rule, text,
};

fn below(path: impl IntoIterator<Item = Context>, operation: Operation) -> Operation {
    operation.in_context(path)
}

fn append(value: impl Into<Value>) -> Operation {
    lists::append(&ListPolicy::default(), BIN, value)
}

fn append_ordered(value: impl Into<Value>) -> Operation {
    let policy = ListPolicy::new(ListOrder::Ordered, ListWriteFlags::empty());
    lists::append(&policy, BIN, value)
}

fn put(key: impl Into<Value>, value: impl Into<Value>) -> Operation {
    maps::put(&map_policy(MapOrder::Unordered), BIN, key, value)
}

fn map_policy(order: MapOrder) -> MapPolicy {
    MapPolicy::new(order, MapWriteFlags::empty())
}

fn all() -> Operation {
    lists::get_range_from(BIN, 0)
}

const BOUNDED: ListPad = ListPad::Bounded;
const PADDED: ListPad = ListPad::Padded;
const UNORDERED: ListOrder = ListOrder::Unordered;
const ORDERED: ListOrder = ListOrder::Ordered;
