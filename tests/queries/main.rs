//! Secondary indexes and queries by them.

#![allow(clippy::unwrap_used, missing_docs)]

mod background;
mod beside_writers;
mod builds;
mod clocks;
mod entries;
mod geometry;
mod indexes;
mod model;
mod pairs;
mod transactions;

use spikelet::query::Query;
use spikelet::{Key, Namespace, Store};

/// The user keys that a query has found, in its order.
fn keys(query: &Query) -> Vec<Key<'static>> {
    let found = query.keys().unwrap().into_records().unwrap();
    found.into_iter().map(|found| found.key.unwrap()).collect()
}

fn namespace(store: &Store) -> Namespace {
    store.namespace("test").unwrap()
}
