//! The record phases: loads, reads, overwrites and a mix, of single records of 100 B.

use crate::draw::{Random, is_value_of, record_key, value};
use crate::measure::{Measured, measure};
use crate::plan::Phase;
use crate::stores::{Key, PeerStore, Value};
use crate::{Error, Result};
use std::time::Duration;

/// Records of one call of `load`.
pub const BATCH_RECORDS: u64 = 1_000;

/// Loads `records` records; an operation is a batch of [`BATCH_RECORDS`].
pub fn load(store: &dyn PeerStore, records: u64, threads: usize) -> Result<Measured> {
    let batches = records.div_ceil(BATCH_RECORDS);
    let mut loaded = measure(threads, None, |thread| {
        let mut mine = (thread as u64..batches).step_by(threads);
        let mut random = Random::new(LOAD, 0, thread);
        let mut batch = Vec::with_capacity(BATCH_RECORDS as usize);
        let draw = move || mine.next();
        let operate = move |number: &u64| {
            let first = number * BATCH_RECORDS;
            let indexes = first..records.min(first + BATCH_RECORDS);
            batch.clear();
            batch.extend(indexes.map(|index| (record_key(index), value(index, &mut random))));
            store.load(&batch)
        };
        (draw, operate)
    })?;
    // The rate of a load is in records.
    loaded.operations = records;
    Ok(loaded)
}

/// Seeds of the load and of the phases differ, so that no phase follows the order of another:
/// in a log, that would turn random reads into sequential ones.
const LOAD: u64 = 0x10ad;

/// Added to a phase's seed for its warm-up, so that the phase does not draw the same records again.
const WARM_UP: u64 = 0x3a53;

struct Drawn {
    index: u64,
    key: Key,
    write: Option<Value>,
}

/// Runs one phase of single records over a loaded store for `span`.
///
/// # Errors
/// Errors of the store; a missing record, or one with the value of another.
pub fn run(
    store: &dyn PeerStore,
    phase: Phase,
    records: u64,
    threads: usize,
    round: usize,
    span: Duration,
) -> Result<Measured> {
    run_seeded(store, phase, phase as u64, records, threads, round, span)
}

/// Runs a phase without taking its times, and returns the operations done. The sync before a phase
/// leaves all pages clean, and a mapped store faults at the first store into each of them; in a
/// service that is spread over the half minute between two syncs by the kernel.
///
/// # Errors
/// As for [`run`].
pub fn warm_up(
    store: &dyn PeerStore,
    phase: Phase,
    records: u64,
    threads: usize,
    round: usize,
    span: Duration,
) -> Result<u64> {
    let seed = WARM_UP + phase as u64;
    Ok(run_seeded(store, phase, seed, records, threads, round, span)?.operations)
}

fn run_seeded(
    store: &dyn PeerStore,
    phase: Phase,
    seed: u64,
    records: u64,
    threads: usize,
    round: usize,
    span: Duration,
) -> Result<Measured> {
    measure(threads, Some(span), |thread| {
        let mut random = Random::new(seed, round, thread);
        let draw = move || {
            let index = random.below(records);
            let writes = match phase {
                Phase::Overwrite | Phase::Durable1 | Phase::Durable8 => true,
                Phase::Mix => random.below(2) == 0,
                _ => false,
            };
            let write = writes.then(|| value(index, &mut random));
            Some(Drawn {
                index,
                key: record_key(index),
                write,
            })
        };
        (draw, move |drawn: &Drawn| operate(store, phase, drawn))
    })
}

fn operate(store: &dyn PeerStore, phase: Phase, drawn: &Drawn) -> Result<()> {
    let right = match &drawn.write {
        Some(value) => return store.put(&drawn.key, value),
        None if phase == Phase::GetRef => {
            let mut right = false;
            store.get_ref(&drawn.key, &mut |bytes| {
                right = is_value_of(drawn.index, bytes)
            })?;
            right
        }
        None => store
            .get(&drawn.key)?
            .is_some_and(|bytes| is_value_of(drawn.index, &bytes)),
    };
    if right {
        Ok(())
    } else {
        Err(wrong(drawn.index))
    }
}

/// Returns the error of a read that found another value than the stored one.
pub fn wrong(index: u64) -> Error {
    format!("record {index} is missing or holds another's value").into()
}

/// Mean time of an operation that does nothing, in ns: draw, clock and counting.
pub fn loop_ns(records: u64) -> Result<f64> {
    let span = Duration::from_millis(300);
    let idle = measure(1, Some(span), |thread| {
        let mut random = Random::new(0, 0, thread);
        let draw = move || {
            let index = random.below(records);
            Some(Drawn {
                index,
                key: record_key(index),
                write: None,
            })
        };
        (draw, |drawn: &Drawn| {
            std::hint::black_box(drawn);
            Ok(())
        })
    })?;
    Ok(1e9 / idle.rate())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stores::{Commit, StoreName};

    #[test]
    fn every_record_is_loaded_by_one_of_the_threads() {
        let dir = tempfile::tempdir().unwrap();
        let store = StoreName::Dashmap
            .open(dir.path(), Commit::Unsynced)
            .unwrap();
        let loaded = load(store.as_ref(), 2_500, 2).unwrap();
        assert_eq!(loaded.operations, 2_500);
        for index in 0..2_500 {
            assert!(is_value_of(
                index,
                &store.get(&record_key(index)).unwrap().unwrap()
            ));
        }
        assert_eq!(store.get(&record_key(2_500)).unwrap(), None);
    }

    #[test]
    fn a_record_that_is_not_there_ends_a_phase_with_an_error() {
        let dir = tempfile::tempdir().unwrap();
        let store = StoreName::Dashmap
            .open(dir.path(), Commit::Unsynced)
            .unwrap();
        load(store.as_ref(), 100, 1).unwrap();
        for phase in [Phase::Get, Phase::GetRef, Phase::Mix] {
            let span = Duration::from_millis(1);
            run(store.as_ref(), phase, 100, 2, 0, span).unwrap();
            assert!(warm_up(store.as_ref(), phase, 100, 2, 0, span).unwrap() > 0);
            let failed = run(store.as_ref(), phase, 100_000, 1, 0, span);
            assert!(
                failed.unwrap_err().to_string().contains("is missing"),
                "{phase:?}"
            );
        }
    }
}
