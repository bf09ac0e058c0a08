//! Scans: what they show, where they end, and what they say of damaged records.

#![allow(clippy::unwrap_used, missing_docs)]

use std::fs;
use std::ops::ControlFlow;
use std::path::Path;

use spikelet::{Error, Key, NamespaceConfig, RecordSet, Set, Store, Value};

const NAMES: [&str; 3] = ["alice", "bob", "carol"];

/// A store on disk with the same three records in two sets, of which bob of `hurt` has a wrong byte
/// in his bin.
fn damaged(dir: &Path) -> Store {
    let open = || {
        let mut config = NamespaceConfig::new("test");
        config.background = false;
        Store::builder().path(dir).namespace(config).open().unwrap()
    };
    let store = open();
    for (set, name) in ["hurt", "whole"]
        .iter()
        .flat_map(|set| NAMES.map(|name| (set, name)))
    {
        let text = format!("{name} of {set}, whom no other text names");
        store
            .set(set)
            .unwrap()
            .put(name, [("text", text.as_str())])
            .unwrap();
    }
    store.close().unwrap();
    drop(store);
    let device = dir.join("test/device-0");
    let mut bytes = fs::read(&device).unwrap();
    let text = b"bob of hurt";
    let found = bytes.windows(text.len()).position(|window| window == text);
    *bytes.get_mut(found.unwrap()).unwrap() ^= 0xff;
    fs::write(&device, bytes).unwrap();
    open()
}

/// Keys that a scan has shown, in order, and the errors that came between them.
fn seen(
    scan: impl FnOnce(&mut dyn FnMut(spikelet::Result<spikelet::ScannedRecord<'_>>)),
) -> (Vec<String>, Vec<Error>) {
    let (mut keys, mut errors) = (Vec::new(), Vec::new());
    scan(&mut |record| match record {
        Ok(record) => match record.key() {
            Some(Key::String(name)) => keys.push(name.into_owned()),
            other => panic!("{other:?}"),
        },
        Err(error) => errors.push(error),
    });
    keys.sort();
    (keys, errors)
}

fn seen_in(set: &Set) -> (Vec<String>, Vec<Error>) {
    seen(|read| {
        let _: ControlFlow<()> = set.scan(|record| {
            read(record);
            ControlFlow::Continue(())
        });
    })
}

#[test]
fn a_damaged_record_is_reported_in_its_place_and_the_scan_goes_on() {
    let dir = tempfile::tempdir().unwrap();
    let store = damaged(dir.path());
    let (keys, errors) = seen(|read| {
        let _: ControlFlow<()> = store.namespace("test").unwrap().scan(|record| {
            read(record);
            ControlFlow::Continue(())
        });
    });
    assert_eq!(keys, ["alice", "alice", "bob", "carol", "carol"]);
    let [error] = &errors[..] else {
        panic!("{errors:?}")
    };
    assert!(error.is_damage() && error.result_code() == 1, "{error}");
    assert!(error.to_string().contains("device 0, offset"), "{error}");
}

#[test]
fn a_set_reports_its_own_damage_and_not_that_of_others() {
    let dir = tempfile::tempdir().unwrap();
    let store = damaged(dir.path());
    let (keys, errors) = seen_in(&store.set("hurt").unwrap());
    assert_eq!((keys.len(), errors.len()), (2, 1));
    let (keys, errors) = seen_in(&store.set("whole").unwrap());
    assert_eq!((keys.len(), errors.len()), (3, 0));
}

#[test]
fn damage_that_is_replaced_is_reported_no_more() {
    let dir = tempfile::tempdir().unwrap();
    let set = damaged(dir.path()).set("hurt").unwrap();
    set.put_as("bob", &std::collections::BTreeMap::from([("text", "new")]))
        .unwrap();
    let (keys, errors) = seen_in(&set);
    assert_eq!(keys, NAMES);
    assert!(errors.is_empty(), "{errors:?}");
}

#[test]
fn damage_takes_no_place_of_a_record_within_a_limit() {
    let dir = tempfile::tempdir().unwrap();
    let set = damaged(dir.path()).set("hurt").unwrap();
    for limit in 1..=3 {
        let query = set.query_all().limit(limit);
        let page = query.records().unwrap();
        let (of_page, iterated) = (page.iter().filter(|it| it.is_ok()), query.iter());
        let iterated = iterated.filter(|it| it.is_ok()).count();
        assert_eq!((of_page.count(), iterated), (limit.min(2), limit.min(2)));
    }
}

#[test]
fn records_for_a_record_store_are_shown_before_the_damage_is_told() {
    let dir = tempfile::tempdir().unwrap();
    let set = damaged(dir.path()).set("hurt").unwrap();
    let mut shown = 0;
    let found = set.scan_records(&mut |_| shown += 1);
    assert!(found.unwrap_err().is_damage());
    assert_eq!(shown, 2);
}

#[test]
fn a_scan_ends_where_its_reader_breaks_off() {
    let set = Store::in_memory().unwrap().set("numbers").unwrap();
    for key in 0..100 {
        set.put(key, [("n", key)]).unwrap();
    }
    let mut shown = 0;
    let ended = set.scan(|record| {
        shown += 1;
        if shown == 7 {
            return ControlFlow::Break(record.unwrap().digest);
        }
        ControlFlow::Continue(())
    });
    assert!(ended.is_break());
    assert_eq!(shown, 7);
}

#[test]
fn a_scan_of_a_record_store_reports_single_records_and_ends_where_it_is_told() {
    let dir = tempfile::tempdir().unwrap();
    let set = damaged(dir.path()).set("hurt").unwrap();
    let (mut whole, mut hurt) = (0, 0);
    set.scan_each(&mut |record| {
        match record {
            Ok(_) => whole += 1,
            Err(error) => hurt += usize::from(error.is_damage()),
        }
        ControlFlow::Continue(())
    });
    assert_eq!((whole, hurt), (2, 1));
    let mut shown = 0;
    set.scan_each(&mut |_| {
        shown += 1;
        ControlFlow::Break(())
    });
    assert_eq!(shown, 1);
}

#[test]
fn records_and_results_of_queries_are_iterated_over() {
    let set = Store::in_memory().unwrap().set("users").unwrap();
    assert_eq!(set.iter().count(), 0);
    for id in 0..1_000_i64 {
        set.put(id, [("age", id % 10)]).unwrap();
    }
    let mut sum = 0;
    for user in set.iter() {
        let user = user.unwrap();
        let Some(Value::Int(age)) = user.record.get("age") else {
            panic!("{user:?}");
        };
        // It may be written meanwhile.
        set.put(user.record.key().unwrap(), [("age", age + 100)])
            .unwrap();
        sum += age;
    }
    assert_eq!(sum, 4_500);
    let ages = spikelet::query::IndexDefinition::new("by_age", ["age"]);
    set.create_index(ages).unwrap();
    let nines = set.query("by_age").unwrap().eq(109);
    assert_eq!(nines.iter().count(), 100);
    assert_eq!((&nines).into_iter().count(), 100);
    for limit in [0, 1, 99, 300] {
        assert_eq!(set.query_all().limit(limit).into_iter().count(), limit);
    }
    // An error of the query ends it.
    let unfit = set.query("by_age").unwrap().eq(1).eq(2);
    let mut found = unfit.iter();
    assert!(found.next().unwrap().is_err() && found.next().is_none());
}
