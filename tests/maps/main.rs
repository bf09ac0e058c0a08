//! The rules of maps, as tables: a bin, an operation, its result, and the bin afterwards.
//!
//! The rules come from semantics.md#maps-operations and the sections around it. Rules that look
//! accidental but that clients can observe are called QUIRK there and here. "Client suite" marks an
//! assertion of a test suite of Aerospike's clients. Lists and paths have files of their own.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing)]

mod bin;
mod places;
#[path = "../support/mod.rs"]
mod support;
mod values;
mod writes;

use spikelet::MapReturnType as R;
use spikelet::operations::{self, maps};
use spikelet::value::ParticleType;
use spikelet::{MapOrder, MapPolicy, MapWriteFlags, Value};
use support::{
    ANY, BIN, INF, MALFORMED, MISSING, NIL, NOT_APPLICABLE, NOT_FOUND, NOT_THERE, PARAMETER, THERE,
    WRONG_TYPE, by_key, by_key_and_value, check, empty_set, entries, float, items, list, map,
    ordered, results, rule, text,
};

fn plain() -> MapPolicy {
    MapPolicy::new(MapOrder::Unordered, MapWriteFlags::empty())
}

fn of(order: MapOrder) -> MapPolicy {
    MapPolicy::new(order, MapWriteFlags::empty())
}

fn with(flags: MapWriteFlags) -> MapPolicy {
    MapPolicy::new(MapOrder::Unordered, flags)
}

const CREATE: MapWriteFlags = MapWriteFlags::CREATE_ONLY;
const UPDATE: MapWriteFlags = MapWriteFlags::UPDATE_ONLY;
const NO_FAIL: MapWriteFlags = MapWriteFlags::NO_FAIL;
const PARTIAL: MapWriteFlags = MapWriteFlags::DO_PARTIAL;

const EVERY_ORDER: [MapOrder; 3] = [
    MapOrder::Unordered,
    MapOrder::KeyOrdered,
    MapOrder::KeyValueOrdered,
];

/// The same map in another order.
fn ordered_as(order: MapOrder, map: Value) -> Value {
    support::map_of(entries(map), order)
}

/// The scores of a client suite. In the order of keys their ranks are 0, 2, 3 and 1.
fn scores() -> Value {
    map! {"Charlie" => 55, "Harry" => 82, "Jim" => 94, "John" => 81}
}

/// The example of semantics.md#maps-results.
fn ages() -> Value {
    map! {0 => 17, 4 => 2, 5 => 15, 9 => 10}
}
