//! Time shards: elements by hours and days.

mod backwards;
mod concurrent;
mod deletion;
mod random;
mod reads;
mod refused;
mod retention;

use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use spikelet::shard::TimeWidth;
use spikelet::storage::ManualClock;
use spikelet::{Key, Record, RecordSet, RecordStore, Store, TimeShards, Value, WritePolicy};

const HOUR: u64 = 3_600;
const DAY: u64 = 24 * HOUR;

/// 2010-01-01T00:00:00Z: where the store's clock begins.
const BEGIN: u64 = 1_262_304_000;

/// 2024-02-28T00:00:00Z, the day before a leap day.
const FEBRUARY_28: u64 = 1_709_078_400;

/// 2024-01-01T00:00:00Z.
const JANUARY_1: u64 = 1_704_067_200;

fn at(second: u64) -> SystemTime {
    UNIX_EPOCH + Duration::from_secs(second)
}

/// A store with its clock at this second.
fn store_at(second: u64) -> (Store, Arc<ManualClock>) {
    let clock = Arc::new(ManualClock::at((second - BEGIN) * 1000));
    let store = Store::builder().clock(clock.clone()).open().unwrap();
    (store, clock)
}

/// The chat of these tests.
fn chat<S: RecordStore>(store: &S, width: TimeWidth) -> TimeShards<S::Records> {
    let policy = WritePolicy::default().total_timeout(None);
    TimeShards::new_with(store, "chats", "lobby", "said", width, &policy).unwrap()
}

/// The keys of all records but the pages of the directory, sorted.
fn keys(store: &Store) -> Vec<String> {
    let mut keys = all_keys(store);
    keys.retain(|key| !key.ends_with(":buckets"));
    keys
}

/// The keys of all records, sorted.
fn all_keys(store: &Store) -> Vec<String> {
    let mut keys = Vec::new();
    let records = store.records("chats").unwrap();
    let mut note = |record: &Record| match record.key() {
        Some(Key::String(key)) => keys.push(key.to_string()),
        key => panic!("{key:?}"),
    };
    records.scan_records(&mut note).unwrap();
    keys.sort();
    keys
}

/// Removes expired records.
fn maintain(store: &Store) {
    let namespace = store.namespace(spikelet::DEFAULT_NAMESPACE).unwrap();
    namespace.maintain().unwrap();
}

fn timed(second: u64, element: i64) -> (SystemTime, Value) {
    (at(second), element.into())
}
