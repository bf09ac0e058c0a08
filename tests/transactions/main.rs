//! Transactions: what they promise, seen through the public API.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing)]

mod attacks;
mod bank;
mod basics;
mod histories;
mod shards;
mod tokens;

use spikelet::{Error, Namespace, NamespaceConfig, Result, Set, Store, TransactionPolicy};

/// For threads that may meet one another any number of times, on a machine of any speed.
fn patient() -> TransactionPolicy {
    TransactionPolicy::default()
        .max_attempts(u32::MAX)
        .total_timeout(None)
}

fn store() -> (Store, Namespace, Set) {
    store_with(NamespaceConfig::new("test"))
}

fn store_with(config: NamespaceConfig) -> (Store, Namespace, Set) {
    let store = Store::builder().namespace(config).open().unwrap();
    let (namespace, set) = (
        store.namespace("test").unwrap(),
        store.set("accounts").unwrap(),
    );
    (store, namespace, set)
}

fn number(record: Option<spikelet::Record>) -> Option<i64> {
    record?.get("n")?.as_i64()
}

fn n(set: &Set, key: &str) -> Option<i64> {
    number(set.get(key).unwrap())
}

fn is_conflict<T: std::fmt::Debug>(result: &Result<T>) -> bool {
    matches!(result, Err(Error::Conflict { .. }))
}
