//! The phases in which one call takes many records: batched reads and durable groups of writes.

use crate::Result;
use crate::draw::{Random, is_value_of, record_key, value};
use crate::measure::{Measured, measure};
use crate::plan::Phase;
use crate::records::wrong;
use crate::stores::{Key, PeerStore, Value};
use std::time::Duration;

/// Records of one call of `get_batch`.
pub const GET_RECORDS: u64 = 64;
/// Records of one call of `put_group`.
pub const GROUP_RECORDS: u64 = 100;

struct DrawnBatch {
    indexes: Vec<u64>,
    keys: Vec<Key>,
}

/// Reads uniformly drawn batches for `span`; an operation is a batch of [`GET_RECORDS`].
///
/// # Errors
/// Errors of the store; a missing record, or one with the value of another.
pub fn get(
    store: &dyn PeerStore,
    records: u64,
    threads: usize,
    round: usize,
    span: Duration,
) -> Result<Measured> {
    let measured = measure(threads, Some(span), |thread| {
        let mut random = Random::new(Phase::GetBatch as u64, round, thread);
        let draw = move || {
            let indexes: Vec<u64> = (0..GET_RECORDS).map(|_| random.below(records)).collect();
            let keys = indexes.iter().map(|index| record_key(*index)).collect();
            Some(DrawnBatch { indexes, keys })
        };
        (draw, |batch: &DrawnBatch| check_batch(store, batch))
    })?;
    Ok(in_records(measured, GET_RECORDS))
}

fn check_batch(store: &dyn PeerStore, batch: &DrawnBatch) -> Result<()> {
    let mut right = 0;
    let mut first_wrong = None;
    store.get_batch(
        &batch.keys,
        &mut |place, bytes| match batch.indexes.get(place) {
            Some(index) if is_value_of(*index, bytes) => right += 1,
            index => first_wrong = index.copied(),
        },
    )?;
    match (right == batch.indexes.len(), first_wrong) {
        (true, _) => Ok(()),
        (false, Some(index)) => Err(wrong(index)),
        (false, None) => {
            Err(format!("a batch of {GET_RECORDS} found {right}: one is missing").into())
        }
    }
}

/// Overwrites groups of uniformly drawn, distinct records for `span`, by one thread; an operation
/// is a group of [`GROUP_RECORDS`], or of all records if there are fewer.
///
/// # Errors
/// Errors of the store.
pub fn put_groups(
    store: &dyn PeerStore,
    records: u64,
    round: usize,
    span: Duration,
) -> Result<Measured> {
    let group_records = GROUP_RECORDS.min(records);
    let measured = measure(1, Some(span), |thread| {
        let mut random = Random::new(Phase::Groups as u64, round, thread);
        let draw = move || {
            // A record may be in a group once: stores with locks on records lock each of them.
            let mut indexes = Vec::with_capacity(group_records as usize);
            while (indexes.len() as u64) < group_records {
                let index = random.below(records);
                if !indexes.contains(&index) {
                    indexes.push(index);
                }
            }
            let write = |index: u64| (record_key(index), value(index, &mut random));
            Some(indexes.into_iter().map(write).collect())
        };
        (draw, |group: &Vec<(Key, Value)>| store.put_group(group))
    })?;
    Ok(in_records(measured, group_records))
}

/// Counts records instead of calls, so rates and costs are per record.
fn in_records(mut measured: Measured, records_a_call: u64) -> Measured {
    measured.operations *= records_a_call;
    measured
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::records::load;
    use crate::stores::{Commit, StoreName};

    const SPAN: Duration = Duration::from_millis(1);

    #[test]
    fn rates_of_batches_are_in_records_and_latencies_in_batches() {
        let dir = tempfile::tempdir().unwrap();
        let store = StoreName::Dashmap
            .open(dir.path(), Commit::Unsynced)
            .unwrap();
        load(store.as_ref(), 1_000, 1).unwrap();
        let read = get(store.as_ref(), 1_000, 2, 0, SPAN).unwrap();
        assert_eq!(read.operations, read.latency.len() * 64);
        let written = put_groups(store.as_ref(), 1_000, 0, SPAN).unwrap();
        assert_eq!(written.operations, written.latency.len() * 100);
    }

    #[test]
    fn a_batch_with_a_missing_or_a_wrong_record_ends_the_run() {
        let dir = tempfile::tempdir().unwrap();
        let store = StoreName::Dashmap
            .open(dir.path(), Commit::Unsynced)
            .unwrap();
        load(store.as_ref(), 100, 1).unwrap();
        let failed = get(store.as_ref(), 100_000, 1, 0, SPAN);
        assert!(failed.unwrap_err().to_string().contains("is missing"));
        for index in 0..100 {
            let another = value(index + 1, &mut Random::new(0, 0, 0));
            store.put(&record_key(index), &another).unwrap();
        }
        let failed = get(store.as_ref(), 100, 1, 0, SPAN);
        assert!(failed.unwrap_err().to_string().contains("another's value"));
    }

    #[test]
    fn a_group_is_no_larger_than_the_store() {
        let dir = tempfile::tempdir().unwrap();
        let store = StoreName::Dashmap
            .open(dir.path(), Commit::Unsynced)
            .unwrap();
        load(store.as_ref(), 7, 1).unwrap();
        let written = put_groups(store.as_ref(), 7, 0, SPAN).unwrap();
        assert_eq!(written.operations, written.latency.len() * 7);
    }
}
