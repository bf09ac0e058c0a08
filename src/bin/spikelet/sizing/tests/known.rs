//! Stores with known answers.

use std::path::Path;
use std::time::Duration;

use spikelet::backup::{BackupOptions, save};
use spikelet::operations::lists;
use spikelet::{
    Expiration, ListOrder, ListPolicy, ListWriteFlags, NamespaceConfig, Store, Value, WritePolicy,
};
use tempfile::TempDir;

use super::{options, set, sized};
use crate::sizing::SizeRemedy;
use crate::verdict::Word;

/// Fills a store with records of up to 8 MiB, and closes it.
pub(super) fn filled(dir: &Path, fill: impl FnOnce(&Store)) {
    let mut config = NamespaceConfig::new("test");
    config.max_record_bytes = (8 << 20) - 64;
    config.background = false;
    let store = Store::builder().path(dir).namespace(config).open().unwrap();
    fill(&store);
    store.close().unwrap();
}

/// Returns a text that takes `element_bytes` as an element: its head, the type, itself.
fn text(element_bytes: usize) -> Value {
    let head = match element_bytes {
        ..=32 => 2,
        33..=257 => 3,
        _ => 4,
    };
    "x".repeat(element_bytes - head).into()
}

pub(super) fn list(count: usize, element_bytes: usize) -> Value {
    Value::List(vec![text(element_bytes); count].into())
}

#[test]
fn three_hundred_thousand_handles_of_fifteen_bytes_ask_for_thirty_five_shards() {
    let dir = TempDir::new().unwrap();
    filled(dir.path(), |store| {
        store
            .set("followers")
            .unwrap()
            .put("star", [("by", list(300_000, 15))])
            .unwrap();
    });
    let sizing = sized(dir.path(), &options(|_| {}));
    let found = set(&sizing, "followers");
    let bin = found.bins[0].collection.as_ref().unwrap();
    assert_eq!(
        (bin.count.p99, bin.element_bytes, bin.bytes.p99),
        (300_000, 15.0, 4_500_000)
    );
    assert_eq!((found.advice.shards, found.advice.shards_pow2), (35, 64));
    assert_eq!(
        (found.advice.bound_by, found.advice.elements_per_shard),
        ("size", Some(8_738))
    );
    assert_eq!(found.verdict.level, Word::Shard);
    assert_eq!(
        (found.verdict.decided_by, found.verdict.value),
        ("collection_bytes_p99", 4_500_000.0)
    );
    assert_eq!(found.verdict.bin.as_deref(), Some("by"));
    let half = found.what_if.iter().find(|row| row.shards == 64).unwrap();
    assert_eq!(half.bytes_per_shard, found.bytes.max.div_ceil(64) + 160);
    assert!(half.largest_bytes > half.bytes_per_shard + 1_000);
}

#[test]
fn the_documents_two_collections_of_six_hundred_are_judged_as_documented() {
    // 600 x 300 bytes is just beyond one record's 128 KiB, 600 x 5 KiB is far beyond, 100 x 15
    // bytes is nothing.
    let table = [
        ("small", 100, 15, Word::Ok, 1_500, 1),
        ("half", 300, 300, Word::Watch, 90_000, 1),
        ("soft", 600, 300, Word::Shard, 180_000, 2),
        ("hard", 600, 5_120, Word::Shard, 3_072_000, 64),
    ];
    let dir = TempDir::new().unwrap();
    filled(dir.path(), |store| {
        for (name, count, element, ..) in table {
            store
                .set(name)
                .unwrap()
                .put(1, [("list", list(count, element))])
                .unwrap();
        }
    });
    let sizing = sized(
        dir.path(),
        &options(|options| options.max_record_bytes = Some(8 << 20)),
    );
    for (name, _, _, level, bytes, made) in table {
        let found = set(&sizing, name);
        let collection = found.bins[0].collection.as_ref().unwrap();
        assert_eq!(collection.bytes.p99, bytes, "{name}");
        assert_eq!(
            found.verdict.level, level,
            "{name}: {}",
            found.verdict.sentence
        );
        assert_eq!(found.advice.shards_pow2, made, "{name}");
    }
    let order: Vec<&str> = sizing.sets.iter().map(|set| set.set.as_str()).collect();
    assert_eq!(
        order,
        ["hard", "soft", "half", "small"],
        "what is to be done comes first"
    );
}

#[test]
fn a_hot_record_is_sharded_by_its_rate() {
    let dir = TempDir::new().unwrap();
    filled(dir.path(), |store| {
        store
            .set("counters")
            .unwrap()
            .put(1, [("list", list(10, 15))])
            .unwrap();
    });
    for (rate, level, shards) in [
        (10.0, Word::Ok, 1),
        (26.0, Word::Watch, 1),
        (400.0, Word::Shard, 8),
    ] {
        let sizing = sized(
            dir.path(),
            &options(|options| options.writes_per_s = vec![(None, rate)]),
        );
        let found = set(&sizing, "counters");
        assert_eq!(
            (found.verdict.level, found.advice.shards),
            (level, shards),
            "{rate}"
        );
    }
}

#[test]
fn percentiles_bins_and_largest_records_are_exact() {
    let dir = TempDir::new().unwrap();
    filled(dir.path(), |store| {
        let things = store.set("things").unwrap();
        for n in 1..=200_i64 {
            things
                .put(n, [("blob", Value::Blob(vec![0; n as usize * 100]))])
                .unwrap();
            if n % 4 == 0 {
                things
                    .operate(n, &[spikelet::operations::put("rare", 1)])
                    .unwrap();
            }
        }
    });
    let sizing = sized(dir.path(), &options(|options| options.top = 3));
    let found = set(&sizing, "things");
    assert_eq!((found.records, found.measured), (200, 200));
    // Header, type and bytes of the key, number of bins, then the bin with its head.
    let record = |n: u64| {
        56 + 9
            + 1
            + n * 100
            + 6
            + if n * 100 < 128 {
                1
            } else if n * 100 < 16_384 {
                2
            } else {
                3
            }
    };
    let rare = 8;
    assert_eq!(found.bytes.p50, record(100) + rare);
    assert_eq!(found.bytes.max, record(200) + rare);
    let bins: Vec<(&str, f64)> = found
        .bins
        .iter()
        .map(|bin| (bin.bin.as_str(), bin.presence))
        .collect();
    assert_eq!(bins, [("blob", 1.0), ("rare", 0.25)]);
    let largest: Vec<_> = sizing
        .largest
        .iter()
        .map(|record| record.key.as_deref().unwrap())
        .collect();
    assert_eq!(largest, ["200", "199", "198"]);
    let most = &sizing.most_written[0];
    assert_eq!(
        (most.generation, most.bin.as_deref().unwrap()),
        (Some(2), "blob")
    );
    assert!(most.last_update_ms > Some(0) && most.digest.is_some());
}

#[test]
fn what_is_worth_knowing_is_told() {
    let dir = TempDir::new().unwrap();
    filled(dir.path(), |store| {
        let set = store.set("s").unwrap();
        set.put("a:1", [("n", 1)]).unwrap();
        let expiring =
            WritePolicy::default().expiration(Expiration::After(Duration::from_secs(7_200)));
        set.put_with(&expiring, "b", [("n", 1)]).unwrap();
        set.put("c", [("plain", list(2_000, 15))]).unwrap();
        let policy =
            ListPolicy::new(ListOrder::Ordered, ListWriteFlags::empty()).persist_index(true);
        let items = (0..2_000).map(Value::from).collect::<Vec<_>>();
        set.operate("d", &[lists::append_items(&policy, "indexed", items)])
            .unwrap();
    });
    let sizing = sized(
        dir.path(),
        &options(|options| options.max_record_bytes = Some(20_000)),
    );
    let found: Vec<_> = sizing
        .lints
        .iter()
        .map(|lint| (lint.code, lint.bin.as_deref(), lint.records))
        .collect();
    assert_eq!(
        found,
        [
            ("record_too_big", None, 1),
            ("expiry_without_nsup", None, 1),
            ("colon_in_key", None, 1),
            ("large_collection_without_index", Some("plain"), 1),
        ]
    );
    assert_eq!(
        super::set(&sizing, "s").advice.time_to_live_s_p50,
        Some(7_200)
    );
}

#[test]
fn a_store_its_backup_and_its_json_lines_are_sized_alike() {
    let home = TempDir::new().unwrap();
    let (backup, json) = (home.path().join("all.asb"), home.path().join("all.jsonl"));
    filled(&home.path().join("store"), |store| {
        let mut lines = String::new();
        for n in 0..500_i64 {
            let (set, tags) = (if n % 3 == 0 { "a" } else { "b" }, n % 40);
            let tags: Vec<Value> = (0..tags).map(Value::from).collect();
            let bins = [("n", Value::Int(n)), ("tags", Value::List(tags.into()))];
            lines +=
            &serde_json::json!({"set": set, "key": n, "bins": {"n": bins[0].1, "tags": bins[1].1}})
                .to_string();
            lines.push('\n');
            store.set(set).unwrap().put(n, bins).unwrap();
        }
        save(store, &backup, &BackupOptions::default(), &mut |_| {}).unwrap();
        std::fs::write(&json, lines).unwrap();
    });
    let [store, backup, json] =
        [home.path().join("store"), backup, json].map(|path| sized(&path, &options(|_| {})));
    let kinds = [&store, &backup, &json].map(|sizing| sizing.source_kind);
    assert_eq!(kinds, ["store", "backup", "json-lines"]);
    for name in ["a", "b"] {
        let expected = set(&store, name);
        for sizing in [&backup, &json] {
            let found = set(sizing, name);
            assert_eq!(
                found.records, expected.records,
                "{name} {}",
                sizing.source_kind
            );
            assert_eq!(found.bytes, expected.bytes, "{name} {}", sizing.source_kind);
            assert_eq!(found.bins, expected.bins, "{name} {}", sizing.source_kind);
            assert_eq!(
                found.shares, expected.shares,
                "{name} {}",
                sizing.source_kind
            );
        }
    }
    assert!(store.namespaces[0].index_bytes_per_record > Some(0.0));
    assert_eq!(set(&store, "a").index.aerospike_bytes, 167 * 128);
    assert!(json.namespaces.is_empty() && set(&json, "a").index.bytes.is_none());
}

#[test]
fn a_sample_says_how_far_it_can_be_trusted_and_claims_no_maximum() {
    let dir = TempDir::new().unwrap();
    filled(dir.path(), |store| {
        let things = store.set("things").unwrap();
        for n in 1..=5_000_i64 {
            things
                .put(n, [("blob", Value::Blob(vec![0; (n % 1_000) as usize]))])
                .unwrap();
        }
    });
    let all = sized(dir.path(), &options(|_| {}));
    let sample = |seed| {
        sized(
            dir.path(),
            &options(|options| (options.sample, options.seed) = (Some(500), seed)),
        )
    };
    let (first, again, other) = (sample(1), sample(1), sample(2));
    assert_eq!(first, again);
    assert_ne!(first.sets, other.sets);
    let (found, truth) = (set(&first, "things"), set(&all, "things"));
    assert_eq!((found.records, found.measured), (5_000, 500));
    assert!(found.bytes.max <= truth.bytes.max);
    // An interval of 95 % fails once in 20 times: of 40 samples, 30 hold at the very least.
    let held = (0..40).filter(|seed| {
        let sizing = sample(*seed);
        let interval = set(&sizing, "things").intervals.clone().unwrap();
        (interval.p50.0..=interval.p50.1).contains(&truth.bytes.p50)
    });
    assert!(held.count() >= 30);
    assert!(set(&all, "things").intervals.is_none());
}

#[test]
fn a_small_list_beside_a_large_text_is_not_to_be_sharded() {
    let dir = TempDir::new().unwrap();
    filled(dir.path(), |store| {
        let (mixed, lists) = (store.set("mixed").unwrap(), store.set("lists").unwrap());
        let large: Value = "x".repeat(900_000).into();
        for n in 0..100_i64 {
            mixed
                .put(n, [("text", large.clone()), ("l", list(2, 20))])
                .unwrap();
        }
        lists
            .put(0, [("text", large), ("l", list(10_000, 40))])
            .unwrap();
    });
    let sizing = sized(dir.path(), &options(|_| {}));
    let found = set(&sizing, "mixed");
    assert_eq!(found.verdict.level, Word::Remodel);
    assert_eq!(found.verdict.remedy, SizeRemedy::StoreElsewhere);
    assert!(
        found.verdict.sentence.contains("no list or map"),
        "{}",
        found.verdict.sentence
    );
    let advice = &found.advice;
    assert_eq!(
        (
            advice.total_bytes,
            advice.shards,
            advice.shards_p99,
            advice.bound_by
        ),
        (40, 1, 1, "nothing")
    );
    assert_eq!(
        advice.sentence,
        "Shards do not help. Keep the large value of its largest bin elsewhere, in a record of its own or in pieces."
    );
    assert!(found.what_if.is_empty());
    // 400,000 bytes of elements in shards of 131,072, and not the 1,300,000 of the record.
    let found = set(&sizing, "lists");
    let advice = &found.advice;
    assert_eq!(found.verdict.level, Word::Shard);
    assert_eq!(
        (
            advice.total_bytes,
            advice.shards,
            advice.shards_pow2,
            advice.bound_by
        ),
        (400_000, 4, 8, "size")
    );
}

#[test]
fn an_empty_store_is_sized() {
    let dir = TempDir::new().unwrap();
    filled(dir.path(), |_| {});
    let sizing = sized(dir.path(), &options(|_| {}));
    assert_eq!((sizing.records, sizing.sets.len()), (0, 0));
    assert!(sizing.to_report().to_text().contains("There is no record."));
}
