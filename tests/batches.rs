//! Reads of many records: `get_batch` and its kin answer as single reads of the same keys do, in
//! their order.

#![allow(clippy::unwrap_used, clippy::indexing_slicing, missing_docs)]

use std::ops::ControlFlow;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use proptest::prelude::*;
use spikelet::record::KeyHash;
use spikelet::storage::ManualClock;
use spikelet::{
    Error, Expiration, Key, NamespaceConfig, Record, RecordCall, RecordSet, Set, Store,
    WritePolicy, operations,
};

const HASHES: [KeyHash; 2] = [KeyHash::Xxh3, KeyHash::Ripemd160];

fn store(hash: KeyHash) -> Store {
    let mut config = NamespaceConfig::new("test");
    config.key_hash = hash;
    Store::builder().namespace(config).open().unwrap()
}

fn numbers(set: &Set, count: i64) {
    for number in 0..count {
        set.put(number, [("n", number), ("half", number / 2)])
            .unwrap();
    }
}

/// The bin `n` of each record; `None` for a key without a record.
fn values(records: Vec<spikelet::Result<Option<Record>>>) -> Vec<Option<i64>> {
    let value = |record: Record| record.view().bin("n").and_then(|value| value.as_i64());
    records
        .into_iter()
        .map(|record| record.unwrap().and_then(value))
        .collect()
}

/// The same by the form that lends; positions must come in order.
fn lent(set: &Set, keys: &[Key<'_>]) -> Vec<Option<i64>> {
    let mut seen = Vec::new();
    set.read_batch(keys, |position, record| {
        assert_eq!(position, seen.len());
        let value = record.unwrap().and_then(|view| view.bin("n"));
        seen.push(value.and_then(|value| value.as_i64()));
    });
    seen
}

#[test]
fn records_come_in_the_order_of_their_keys_whatever_the_size_of_the_batch() {
    for hash in HASHES {
        let set = store(hash).set("numbers").unwrap();
        numbers(&set, 300);
        for size in [0, 1, 2, 7, 8, 9, 31, 32, 33, 64, 65, 299] {
            let keys: Vec<i64> = (0..size).map(|position| (position * 7919) % 300).collect();
            let expected: Vec<_> = keys.iter().copied().map(Some).collect();
            assert_eq!(
                values(set.get_batch(keys.iter().copied())),
                expected,
                "{hash:?}, {size} keys"
            );
            let keys: Vec<Key<'_>> = keys.into_iter().map(Key::from).collect();
            assert_eq!(lent(&set, &keys), expected, "{hash:?}, {size} keys, lent");
        }
    }
}

#[test]
fn missing_deleted_and_repeated_keys_are_answered_like_any_other() {
    for hash in HASHES {
        let set = store(hash).set("numbers").unwrap();
        numbers(&set, 50);
        set.delete(7).unwrap();
        let keys = [3, 999, 7, 3, -1, 49, 3];
        let expected = [Some(3), None, None, Some(3), None, Some(49), Some(3)];
        assert_eq!(values(set.get_batch(keys)), expected, "{hash:?}");
        assert_eq!(lent(&set, &keys.map(Key::from)), expected, "{hash:?}");
        let never_written = store(hash).set("never written").unwrap();
        assert_eq!(values(never_written.get_batch(keys)), [None; 7]);
    }
}

#[test]
fn keys_of_every_type_and_length_are_found_beside_each_other() {
    for hash in HASHES {
        let set = store(hash).set("a name of some length").unwrap();
        let keys: Vec<Key<'static>> = (0..90)
            .flat_map(|length| {
                [
                    Key::from("k".repeat(length)),
                    Key::from(vec![b'k'; length]),
                    Key::from(length as i64),
                ]
            })
            .chain([Key::from("long ".repeat(100))])
            .collect();
        for (number, key) in (0_i64..).zip(&keys) {
            set.put(key, [("n", number)]).unwrap();
        }
        let expected: Vec<_> = (0..keys.len() as i64).map(Some).collect();
        assert_eq!(values(set.get_batch(&keys)), expected, "{hash:?}");
    }
}

#[test]
fn a_batch_reads_its_own_set_and_namespace_only() {
    let store = Store::builder()
        .namespace(NamespaceConfig::new("one"))
        .namespace(NamespaceConfig::new("other"))
        .open()
        .unwrap();
    let set = |namespace, name| store.namespace(namespace).unwrap().set(name).unwrap();
    let sets = [set("one", "a"), set("one", "b"), set("other", "a")];
    for (number, set) in (0_i64..).zip(&sets) {
        set.put("key", [("n", number)]).unwrap();
        set.put(number, [("n", 10 + number)]).unwrap();
    }
    for (number, set) in (0_i64..).zip(&sets) {
        let mut expected = vec![Some(number), None, None, None];
        expected[1 + number as usize] = Some(10 + number);
        let keys = [Key::from("key"), 0.into(), 1.into(), 2.into()];
        assert_eq!(values(set.get_batch(&keys)), expected, "{number}");
    }
}

#[test]
fn expired_records_are_missing_and_truncated_ones_too() {
    let clock = Arc::new(ManualClock::at(1_000_000_000));
    let store = Store::builder()
        .namespace(NamespaceConfig::new("test"))
        .clock(clock.clone())
        .open()
        .unwrap();
    let set = store.set("numbers").unwrap();
    let soon = WritePolicy::default().expiration(Expiration::After(Duration::from_secs(10)));
    for number in 0..40_i64 {
        let policy = if number % 2 == 0 {
            soon.clone()
        } else {
            WritePolicy::default()
        };
        set.put_with(&policy, number, [("n", number)]).unwrap();
    }
    clock.advance_ms(12_000);
    let expected: Vec<_> = (0..40).map(|n| (n % 2 == 1).then_some(n)).collect();
    assert_eq!(values(set.get_batch(0..40)), expected);
    set.truncate(None).unwrap();
    assert_eq!(values(set.get_batch(0..40)), [None; 40]);
}

#[test]
fn a_selection_of_bins_leaves_the_others_out() {
    let set = Store::in_memory().unwrap().set("numbers").unwrap();
    numbers(&set, 3);
    let records = set.get_batch_bins([2, 9, 1], &["half", "none"]);
    let halves: Vec<_> = records
        .into_iter()
        .map(|record| {
            record.unwrap().map(|record| {
                assert_eq!(record.bins().count(), 1);
                record.get("half")
            })
        })
        .collect();
    assert_eq!(halves, [Some(Some(1.into())), None, Some(Some(0.into()))]);
}

fn invert(file: &Path, text: &str) {
    let mut bytes = std::fs::read(file).unwrap();
    let at = bytes
        .windows(text.len())
        .position(|window| window == text.as_bytes());
    bytes[at.unwrap()] ^= 0xff;
    std::fs::write(file, bytes).unwrap();
}

#[test]
fn a_damaged_record_is_an_error_of_its_own() {
    let dir = tempfile::tempdir().unwrap();
    let builder = || {
        Store::builder()
            .path(dir.path())
            .namespace(NamespaceConfig::new("test"))
    };
    let store = builder().open().unwrap();
    let set = store.set("texts").unwrap();
    for number in 0..40 {
        set.put(number, [("text", format!("this is text {number:03}"))])
            .unwrap();
    }
    store.close().unwrap();
    drop((set, store));
    invert(&dir.path().join("test/device-0"), "this is text 021");

    let store = builder().open().unwrap();
    let set = store.set("texts").unwrap();
    for round in 0..2 {
        let failed: Vec<_> = (0..)
            .zip(set.get_batch(0..40))
            .filter_map(|(number, record)| match record {
                Ok(record) => {
                    let text = record.unwrap().get("text");
                    assert_eq!(text, Some(format!("this is text {number:03}").into()));
                    None
                }
                Err(error) => Some((number, error)),
            })
            .collect();
        assert!(
            matches!(failed.as_slice(), [(21, Error::Damaged { .. })]),
            "round {round}: {failed:?}"
        );
    }
}

#[test]
fn calls_of_a_batch_see_what_earlier_ones_have_written() {
    for hash in HASHES {
        let set = store(hash).set("counters").unwrap();
        let policy = WritePolicy::default();
        let add = [operations::add("n", 1), operations::get_bin("n")];
        let read = [operations::get_bin("n")];
        let calls: Vec<_> = (0..100_i64)
            .map(|number| RecordCall {
                policy: &policy,
                key: Key::from(number / 2 % 40),
                operations: if number % 2 == 0 { &add } else { &read },
            })
            .chain([RecordCall {
                policy: &policy,
                key: Key::from("nobody"),
                operations: &read,
            }])
            .collect();
        let mut results = set.operate_on_each(&calls);
        let missing = results.pop().unwrap();
        assert!(
            matches!(missing, Err(Error::NotFound { .. })),
            "{missing:?}"
        );
        for (number, operated) in (0..).zip(results) {
            let value = operated.unwrap().bin("n").cloned();
            let expected = 1 + i64::from(number >= 80);
            assert_eq!(value, Some(expected.into()), "{hash:?}, call {number}");
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    #[test]
    fn a_batch_answers_as_single_reads_do(
        ripemd in any::<bool>(),
        written in prop::collection::vec((0..200_i64, any::<bool>()), 0..200),
        read in prop::collection::vec(0..200_i64, 0..150),
    ) {
        let hash = if ripemd { KeyHash::Ripemd160 } else { KeyHash::Xxh3 };
        let set = store(hash).set("numbers").unwrap();
        for (number, (key, keep)) in (0_i64..).zip(written) {
            if keep {
                set.put(key, [("n", number)]).unwrap();
            } else {
                set.delete(key).unwrap();
            }
        }
        let single: Vec<_> = read.iter().map(|key| set.get(*key).unwrap()).collect();
        let batch: Vec<_> = set.get_batch(read.iter().copied()).into_iter().map(Result::unwrap).collect();
        prop_assert_eq!(&batch, &single);
        let keys: Vec<Key<'_>> = read.iter().copied().map(Key::from).collect();
        prop_assert_eq!(lent(&set, &keys), values(single.into_iter().map(Ok).collect()));
    }
}

#[test]
fn records_put_together_are_those_put_one_by_one() {
    let store = Store::in_memory().unwrap();
    let (set, single) = (store.set("all").unwrap(), store.set("single").unwrap());
    set.put(5, [("kept", 1)]).unwrap();
    single.put(5, [("kept", 1)]).unwrap();
    // Some keys come twice: the later bins are added to the earlier ones.
    let records = || (0..10_000_i64).map(|at| (at % 9_000, [("n", at)]));
    let mut seen = Vec::new();
    let done = set
        .put_all(records(), |progress| {
            seen.push(progress.taken);
            ControlFlow::Continue(())
        })
        .unwrap();
    for (key, bins) in records() {
        single.put(key, bins).unwrap();
    }
    assert_eq!((done.taken, done.new, done.complete), (10_000, 8_999, true));
    assert_eq!(seen, [4_096, 8_192, 10_000]);
    for key in 0..9_000 {
        let of = |set: &Set| {
            set.get(key)
                .unwrap()
                .map(|record| (record.generation(), record.into_bins().unwrap()))
        };
        assert_eq!(of(&set), of(&single));
    }
}

#[test]
fn putting_many_stops_where_the_observer_or_a_record_says() {
    let set = Store::in_memory().unwrap().set("all").unwrap();
    let records = || (0..9_000_i64).map(|key| (key, [("n", key)]));
    let stopped = set.put_all(records(), |_| ControlFlow::Break(())).unwrap();
    assert_eq!((stopped.taken, stopped.complete), (4_096, false));
    assert_eq!(set.len(), 4_096);
    let new = WritePolicy::default()
        .record_exists_action(spikelet::policy::RecordExistsAction::CreateOnly);
    let refused = set.put_all_with(
        &new,
        (4_090..5_000_i64).rev().map(|key| (key, [("n", key)])),
        |_| ControlFlow::Continue(()),
    );
    assert!(
        matches!(refused, Err(Error::RecordExists { .. })),
        "{refused:?}"
    );
    assert_eq!(set.len(), 5_000);
}

#[test]
fn putting_many_durably_takes_one_sync_for_thousands() {
    let dir = tempfile::tempdir().unwrap();
    let mut config = NamespaceConfig::new("test");
    config.durability = spikelet::Durability::Commit;
    let store = Store::builder()
        .path(dir.path())
        .namespace(config)
        .open()
        .unwrap();
    let namespace = store.namespace("test").unwrap();
    let before = namespace.stats().syncs;
    let records = (0..8_192_i64).map(|key| (key, [("n", key)]));
    let done = namespace
        .set("all")
        .unwrap()
        .put_all(records, |_| ControlFlow::Continue(()));
    assert_eq!(done.unwrap().new, 8_192);
    let syncs = namespace.stats().syncs - before;
    assert!((2..10).contains(&syncs), "{syncs} syncs");
    assert!(namespace.durable_lsn() >= namespace.last_lsn());
}
