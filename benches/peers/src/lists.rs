//! The list phase: ADD_UNIQUE of random integers into many ordered lists, by one thread.

use crate::Result;
use crate::cost::{Cost, Meter};
use crate::draw::{Random, list_key};
use crate::measure::{Measured, measure};
use crate::stores::{PeerStore, edited};
use std::collections::BTreeSet;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// Elements of each list before the first edit.
pub const LIST_ELEMENTS: usize = 1_000;
/// Elements are drawn below this: five bytes each in MessagePack, and a duplicate is rare.
const ELEMENT_LIMIT: u64 = 1 << 32;
/// Seeds of the first elements and of the edits.
const ELEMENTS: u64 = 0xe1e;
const EDITS: u64 = 0xed17;

/// Stores `lists` lists, edits them for `span`, then counts the elements of every list.
///
/// The cost is that of the edits alone.
///
/// # Errors
/// Errors of the store; a list out of order, or with a lost or extra element.
pub fn run(
    store: &dyn PeerStore,
    dir: &Path,
    lists: u64,
    round: usize,
    span: Duration,
) -> Result<(Measured, Cost)> {
    for index in 0..lists {
        store.put_list(&list_key(index), &elements(index))?;
    }
    store.sync()?;
    let meter = Meter::start(store, dir)?;

    let added: Vec<AtomicU64> = (0..lists).map(|_| AtomicU64::new(0)).collect();
    let added = added.as_slice();
    let measured = measure(1, Some(span), |thread| {
        let mut random = Random::new(EDITS, round, thread);
        let draw = move || {
            let index = random.below(lists);
            let element = random.below(ELEMENT_LIMIT) as i64;
            Some((added.get(index as usize)?, list_key(index), element))
        };
        let operate = |(added, key, element): &(&AtomicU64, _, _)| {
            let new = store.add_unique(key, *element)?;
            added.fetch_add(new.into(), Ordering::Relaxed);
            Ok(())
        };
        (draw, operate)
    })?;

    let cost = meter.stop(store, dir, measured.operations)?;
    for (index, added) in (0..lists).zip(added) {
        check(store, index, added.load(Ordering::Relaxed))?;
    }
    Ok((measured, cost))
}

fn check(store: &dyn PeerStore, index: u64, added: u64) -> Result<()> {
    let list = store.list(&list_key(index))?;
    let (found, expected) = (list.len() as u64, LIST_ELEMENTS as u64 + added);
    if found != expected {
        return Err(format!("list {index} has {found} elements, not {expected}").into());
    }
    if !list.is_sorted_by(|left, right| left < right) {
        return Err(format!("list {index} is out of order").into());
    }
    Ok(())
}

fn elements(index: u64) -> Vec<i64> {
    let mut random = Random::new(ELEMENTS, index as usize, 0);
    let mut elements = BTreeSet::new();
    while elements.len() < LIST_ELEMENTS {
        elements.insert(random.below(ELEMENT_LIMIT) as i64);
    }
    elements.into_iter().collect()
}

/// Mean time of decode, insert and encode of one list by the peers' codec, in ns.
pub fn codec_ns() -> Result<f64> {
    const EDITS: u32 = 5_000;
    let encoded = rmp_serde::to_vec(&elements(0))?;
    let mut random = Random::new(0, 0, 0);
    let start = Instant::now();
    for _ in 0..EDITS {
        std::hint::black_box(edited(&encoded, random.below(ELEMENT_LIMIT) as i64)?);
    }
    Ok(start.elapsed().as_nanos() as f64 / f64::from(EDITS))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stores::tests::written_stores;
    use crate::stores::{Commit, StoreName};

    #[test]
    fn edits_add_up_in_every_store() {
        for name in written_stores() {
            let dir = tempfile::tempdir().unwrap();
            let store = name.open(dir.path(), Commit::Unsynced).unwrap();
            let span = Duration::from_millis(5);
            let (measured, cost) = run(store.as_ref(), dir.path(), 8, 0, span).unwrap();
            let traffic = cost.traffic;
            assert!(measured.operations > 0);
            if name != StoreName::Dashmap {
                assert!(traffic.dirtied > 0, "{name:?} {traffic:?}");
            }
        }
    }

    #[test]
    fn a_lost_a_gained_and_a_misplaced_element_are_noticed() {
        let dir = tempfile::tempdir().unwrap();
        let store = StoreName::Dashmap
            .open(dir.path(), Commit::Unsynced)
            .unwrap();
        let mut list = elements(0);
        store.put_list(&list_key(0), &list).unwrap();
        check(store.as_ref(), 0, 0).unwrap();
        let said = check(store.as_ref(), 0, 1).unwrap_err().to_string();
        assert_eq!(said, "list 0 has 1000 elements, not 1001");
        list.swap(3, 4);
        store.put_list(&list_key(0), &list).unwrap();
        let said = check(store.as_ref(), 0, 0).unwrap_err().to_string();
        assert_eq!(said, "list 0 is out of order");
    }
}
