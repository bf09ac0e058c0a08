//! What becomes of records that exist, have expired, or are not wanted.

use std::fs;
use std::sync::Arc;

use spikelet::storage::ManualClock;
use spikelet::{Key, NamespaceConfig, Store};

use crate::common::{
    NOW_S, backup_of, file_of, namespace, options, record, records_of, restore, save_all, store,
};
use spikelet::backup::{RestoreOptions, RestoreSummary};
use spikelet::record::KeyHash;

/// Restores a record of generation 3 with the bins `b` = 2 and `c` = 2 over one that was written
/// `times` times with `a` = 1 and `b` = 1. Returns the summary, its generation and its bins.
fn over(times: u16, options: RestoreOptions) -> (RestoreSummary, u16, String) {
    let store = store();
    let set = store.set("demo").unwrap();
    for _ in 0..times {
        set.put(1, [("a", 1), ("b", 1)]).unwrap();
    }
    let saved = record(1, 3, NOW_S + 50, &["I b 2", "I c 2"]);
    let (_dir, path) = file_of(backup_of(&[saved]));
    let summary = restore(&path, &store, options).unwrap();
    let record = set.get(1).unwrap().unwrap();
    let bins: Vec<String> = record
        .bins()
        .map(|(name, value)| format!("{name}={}", value.as_i64().unwrap()))
        .collect();
    (summary, record.generation(), bins.join(" "))
}

#[test]
fn the_newer_generation_is_kept_and_bins_are_written_into_an_older_one() {
    type Change = fn(&mut RestoreOptions);
    let replace: Change = |options| options.replace = true;
    let unique: Change = |options| options.unique = true;
    let any: Change = |options| options.no_generation = true;
    let replace_any: Change = |options| {
        options.replace = true;
        options.no_generation = true;
    };
    let plain: Change = |_| {};
    // Options, generation that is there, which count it is in, generation and bins afterwards.
    let table: [(&str, Change, u16, &str, u16, &str); 12] = [
        ("plain", plain, 0, "restored", 3, "b=2 c=2"),
        ("plain", plain, 2, "restored", 3, "a=1 b=2 c=2"),
        ("plain", plain, 3, "fresher", 3, "a=1 b=1"),
        ("plain", plain, 4, "fresher", 4, "a=1 b=1"),
        ("replace", replace, 2, "restored", 3, "b=2 c=2"),
        ("replace", replace, 3, "fresher", 3, "a=1 b=1"),
        ("unique", unique, 0, "restored", 3, "b=2 c=2"),
        ("unique", unique, 1, "existed", 1, "a=1 b=1"),
        ("any generation", any, 4, "restored", 3, "a=1 b=2 c=2"),
        ("any generation", any, 1, "restored", 3, "a=1 b=2 c=2"),
        ("replace any", replace_any, 4, "restored", 3, "b=2 c=2"),
        ("replace any", replace_any, 1, "restored", 3, "b=2 c=2"),
    ];
    for (name, change, times, counted, generation, bins) in table {
        let (summary, found, found_bins) = over(times, options(change));
        let count = match counted {
            "restored" => summary.restored,
            "fresher" => summary.fresher,
            _ => summary.existed,
        };
        assert_eq!((count, summary.records), (1, 1), "{name} over {times}");
        assert_eq!(
            (found, found_bins.as_str()),
            (generation, bins),
            "{name} over {times}"
        );
    }
}

#[test]
fn generation_and_expiry_are_those_of_the_backup() {
    let store = store();
    let saved = [
        record(1, 65_535, 0, &["I n 1"]),
        record(2, 7, NOW_S + 1, &["I n 2"]),
    ];
    let (_dir, path) = file_of(backup_of(&saved));
    restore(&path, &store, options(|_| {})).unwrap();
    let set = store.set("demo").unwrap();
    let header = |key: i64| set.get_header(key).unwrap().unwrap();
    assert_eq!((header(1).generation, header(1).void_time), (65_535, 0));
    assert_eq!(
        (header(2).generation, u64::from(header(2).void_time)),
        (7, NOW_S + 1)
    );
    assert_eq!(header(2).last_update_ms, NOW_S * 1000);
    set.put(1, [("n", 2)]).unwrap();
    assert_eq!(
        header(1).generation,
        1,
        "after the last generation comes the first"
    );
}

#[test]
fn what_has_expired_or_has_no_bins_is_passed_over() {
    let store = store();
    let saved = [
        record(1, 1, NOW_S - 1, &["I n 1"]),
        // It can be read during the whole second in which it expires.
        record(2, 1, NOW_S, &["I n 2"]),
        record(3, 1, 0, &[]),
        record(4, 1, 0, &["N n"]),
    ];
    let (_dir, path) = file_of(backup_of(&saved));
    let summary = restore(&path, &store, options(|_| {})).unwrap();
    assert_eq!(
        (
            summary.records,
            summary.restored,
            summary.expired,
            summary.without_bins
        ),
        (4, 1, 1, 2)
    );
    assert_eq!(records_of(&store), 1);
}

#[test]
fn an_expired_record_does_not_stand_in_the_way() {
    let clock = Arc::new(ManualClock::at(NOW_S * 1000));
    let builder = Store::builder().namespace(namespace(KeyHash::Ripemd160));
    let store = builder.clock(Arc::clone(&clock) as _).open().unwrap();
    let (_dir, path) = file_of(backup_of(&[record(1, 5, NOW_S + 1, &["I old 1"])]));
    restore(&path, &store, options(|_| {})).unwrap();
    clock.advance_ms(2_000);
    fs::write(&path, backup_of(&[record(1, 2, 0, &["I new 1"])])).unwrap();
    assert_eq!(restore(&path, &store, options(|_| {})).unwrap().restored, 1);
    let found = store.set("demo").unwrap().get(1).unwrap().unwrap();
    assert_eq!((found.generation(), found.view().len()), (2, 1));
}

#[test]
fn a_deleted_record_comes_back_from_a_backup_and_stays() {
    let dir = tempfile::tempdir().unwrap();
    let open = || {
        Store::builder()
            .path(dir.path().join("store"))
            .namespace(namespace(KeyHash::Ripemd160))
            .open()
    };
    let store = open().unwrap();
    let set = store.set("demo").unwrap();
    set.put(1, [("n", 1)]).unwrap();
    let out = dir.path().join("saved.asb");
    save_all(&store, &out);
    set.delete(1).unwrap();
    store.set("demo").unwrap().truncate(None).unwrap();
    assert_eq!(restore(&out, &store, options(|_| {})).unwrap().restored, 1);
    drop((store, set));
    let store = open().unwrap();
    assert!(store.set("demo").unwrap().exists(1).unwrap());
}

#[test]
fn only_the_namespaces_and_sets_that_are_wanted_are_restored() {
    let saved = [
        record(1, 1, 0, &["I n 1"]),
        "+ n cache\n+ d AAAAAAAAAAAAAAAAAAAAAAAAAAA=\n+ g 1\n+ t 0\n+ b 1\n- I n 1\n".to_owned(),
    ];
    let (_dir, path) = file_of(backup_of(&saved));
    let store = store();
    let error = restore(&path, &store, options(|_| {})).unwrap_err();
    assert!(
        error.to_string().contains("unknown namespace \"cache\""),
        "{error}"
    );
    assert_eq!(records_of(&store), 0);

    let cache = options(|options| {
        options.namespace = Some("cache".to_owned());
        options.into_namespace = Some("test".to_owned());
    });
    let summary = restore(&path, &store, cache).unwrap();
    assert_eq!((summary.restored, summary.left_out), (1, 1));
    assert!(!store.set("demo").unwrap().exists(1).unwrap());

    store
        .create_namespace(NamespaceConfig::new("cache"))
        .unwrap();
    let demo = options(|options| options.sets = vec!["demo".to_owned()]);
    let summary = restore(&path, &store, demo).unwrap();
    assert_eq!((summary.restored, summary.left_out), (1, 1));
}

#[test]
fn another_key_under_the_same_digest_is_refused() {
    let saved = record(1, 9, 0, &["I n 1"]);
    let (_dir, path) = file_of(backup_of(&[saved.replace("+ k I 1", "+ k I 2")]));
    let store = store();
    store
        .set("demo")
        .unwrap()
        .put(Key::from(1), [("n", 1)])
        .unwrap();
    let trusting = options(|options| options.trust_digests = true);
    let error = restore(&path, &store, trusting).unwrap_err().to_string();
    assert!(
        error.contains("the record at line 3: the record stores another user key"),
        "{error}"
    );
    assert!(
        error.ends_with("0 records had been restored before"),
        "{error}"
    );
}
