//! The rules of lists, as tables: a bin, an operation, its result, and the bin afterwards.
//!
//! The rules come from semantics.md#lists-operations and the sections around it. Rules that look
//! accidental but that clients can observe are called QUIRK there and here. "Client suite" marks an
//! assertion of a test suite of Aerospike's clients. Maps and paths have files of their own.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing)]

mod bin;
mod positions;
mod returns;
#[path = "../support/mod.rs"]
mod support;
mod values;
mod writes;

use spikelet::ListReturnType as R;
use spikelet::operations::lists::ListSortFlags;
use spikelet::operations::{self, lists};
use spikelet::value::ParticleType;
use spikelet::{Error, ListOrder, ListPolicy, ListWriteFlags, Operation, Value};
use support::{
    ANY, BIN, INF, MALFORMED, MISSING, NIL, NOT_APPLICABLE, NOT_FOUND, PARAMETER, THERE,
    WRONG_TYPE, by_key, check, empty_set, float, items, list, map, ordered, results, rule, text,
};

const TO_THE_END: u64 = u64::MAX;

fn plain() -> ListPolicy {
    ListPolicy::default()
}

fn sorted() -> ListPolicy {
    ListPolicy::new(ListOrder::Ordered, ListWriteFlags::empty())
}

fn with(flags: ListWriteFlags) -> ListPolicy {
    ListPolicy::new(ListOrder::Unordered, flags)
}

fn sorted_with(flags: ListWriteFlags) -> ListPolicy {
    ListPolicy::new(ListOrder::Ordered, flags)
}

const UNIQUE: ListWriteFlags = ListWriteFlags::ADD_UNIQUE;
const BOUNDED: ListWriteFlags = ListWriteFlags::INSERT_BOUNDED;
const NO_FAIL: ListWriteFlags = ListWriteFlags::NO_FAIL;
const PARTIAL: ListWriteFlags = ListWriteFlags::DO_PARTIAL;
