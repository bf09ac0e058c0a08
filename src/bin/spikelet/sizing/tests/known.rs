//! Stores whose answers are known.

use std::path::Path;
use std::time::Duration;

use spikelet::backup::{BackupOptions, save};
use spikelet::operations::lists;
use spikelet::shard::ShardPolicy;
use spikelet::value::Map;
use spikelet::{
    Expiration, ListOrder, ListPolicy, ListWriteFlags, MapOrder, NamespaceConfig, ShardedList,
    Store, Value, WritePolicy,
};
use tempfile::TempDir;

use super::{options, set, sized};
use crate::sizing::{Band, Remedy, Sample};

/// Fills a store whose records may have 8 MiB, and closes it.
fn filled(dir: &Path, fill: impl FnOnce(&Store)) {
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

fn list(count: usize, element_bytes: usize) -> Value {
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
    assert_eq!(found.verdict.level, Band::Shard);
    assert_eq!(
        (found.verdict.decided_by, found.verdict.value),
        ("collection_bytes_p99", 4_500_000.0)
    );
    assert_eq!(found.verdict.bin.as_deref(), Some("by"));
    let half = found.what_if.iter().find(|row| row.shards == 64).unwrap();
    assert_eq!(half.bytes_per_shard, found.bytes.max.div_ceil(64));
}

#[test]
fn the_documents_two_collections_of_six_hundred_are_judged_as_documented() {
    // 600 x 300 bytes is just beyond one record's 128 KiB, 600 x 5 KiB is far beyond, 100 x 15
    // bytes is nothing.
    let table = [
        ("small", 100, 15, Band::Ok, 1_500, 1),
        ("half", 300, 300, Band::Watch, 90_000, 1),
        ("soft", 600, 300, Band::Shard, 180_000, 2),
        ("hard", 600, 5_120, Band::Shard, 3_072_000, 32),
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
        &options(|options| options.max_record_bytes = 8 << 20),
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
        (10.0, Band::Ok, 1),
        (26.0, Band::Watch, 1),
        (400.0, Band::Shard, 8),
    ] {
        let sizing = sized(
            dir.path(),
            &options(|options| options.writes_per_s = Some(rate)),
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
        (
            most.generation,
            most.largest_bin.as_ref().unwrap().0.as_str()
        ),
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
        &options(|options| options.max_record_bytes = 20_000),
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
            ("large_collection_without_index", Some("plain"), 1),
            ("expiry_without_nsup", None, 1),
            ("colon_in_key", None, 1),
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
    assert!(store.namespaces[0].index_bytes_per_record > 0.0);
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
        let sample = Sample { records: 500, seed };
        sized(
            dir.path(),
            &options(|options| options.sample = Some(sample)),
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
    assert_eq!(found.verdict.level, Band::Remodel);
    assert_eq!(found.verdict.remedy, Remedy::StoreElsewhere);
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
    assert_eq!(found.verdict.level, Band::Shard);
    assert_eq!(
        (
            advice.total_bytes,
            advice.shards,
            advice.shards_pow2,
            advice.bound_by
        ),
        (400_000, 4, 4, "size")
    );
}

#[test]
fn a_collection_is_judged_by_what_it_takes_and_not_by_the_mean_element_of_others() {
    let dir = TempDir::new().unwrap();
    filled(dir.path(), |store| {
        let set = store.set("s").unwrap();
        // Lists of 26 KB with 1,733 small elements, and one with 20 large ones: a p99 count times
        // the mean element of all made half a megabyte of it.
        for n in 0..400_i64 {
            set.put(n, [("l", list(1_733, 15))]).unwrap();
        }
        for n in 400..404_i64 {
            set.put(n, [("l", list(20, 6_000))]).unwrap();
        }
    });
    let sizing = sized(dir.path(), &options(|_| {}));
    let found = set(&sizing, "s");
    let collection = found.bins[0].collection.as_ref().unwrap();
    assert_eq!(
        (collection.bytes.p50, collection.bytes.p99),
        (25_995, 25_995)
    );
    assert_eq!(collection.bytes.max, 120_000);
    assert_eq!(found.verdict.level, Band::Ok, "{}", found.verdict.sentence);
}

#[test]
fn what_cannot_be_spread_is_remodelled_and_not_sharded() {
    let entry = |n: i64| (Value::from(format!("k{n}")), Value::from(n));
    let small_map = || {
        Value::Map(Map::new(
            (0..1_200).map(entry).collect(),
            MapOrder::KeyOrdered,
        ))
    };
    let events = Value::Map(Map::new(
        vec![("events".into(), Value::List((0..100_000).collect()))],
        MapOrder::KeyOrdered,
    ));
    let dir = TempDir::new().unwrap();
    filled(dir.path(), |store| {
        let put = |set: &str, bins: Vec<(String, Value)>| {
            let set = store.set(set).unwrap();
            set.put(
                1,
                bins.iter()
                    .map(|(name, value)| (name.as_str(), value.clone())),
            )
            .unwrap();
        };
        let bin = |name: &str, value: Value| vec![(name.to_owned(), value)];
        let large = Value::List(vec!["x".repeat(700_000).into()].into());
        put("element", bin("l", large));
        put("nested", bin("m", events));
        let maps = (0..60).map(|n| (format!("m{n}"), small_map()));
        put("maps", maps.collect());
        put("text", bin("t", "x".repeat(700_000).into()));
        put("list", bin("l", list(10_000, 40)));
    });
    let sizing = sized(
        dir.path(),
        &options(|options| options.max_record_bytes = 8 << 20),
    );
    for (name, level, remedy, words) in [
        (
            "element",
            Band::Remodel,
            Remedy::RecordPerEntry,
            "a record of its own",
        ),
        (
            "nested",
            Band::Remodel,
            Remedy::NestedToOwnBin,
            "a bin of its own",
        ),
        (
            "maps",
            Band::Remodel,
            Remedy::SeveralRecords,
            "several records",
        ),
        ("text", Band::Remodel, Remedy::StoreElsewhere, "elsewhere"),
        (
            "list",
            Band::Shard,
            Remedy::Shard,
            "Hash-shard its bin l by 4",
        ),
    ] {
        let found = set(&sizing, name);
        let verdict = &found.verdict;
        assert_eq!(
            (verdict.level, verdict.remedy),
            (level, remedy),
            "{name}: {verdict:?}"
        );
        assert!(verdict.helps.contains(words), "{name}: {}", verdict.helps);
        let is_sharded = level == Band::Shard;
        assert_eq!(
            found.advice.shards_pow2 > 1,
            is_sharded,
            "{name}: {:?}",
            found.advice
        );
        assert_eq!(!found.what_if.is_empty(), is_sharded, "{name}");
    }
    assert!(
        sizing
            .verdict
            .sentence
            .starts_with("Key 1 of set list takes 390"),
        "{:?}",
        sizing.verdict
    );
    assert_eq!(sizing.verdict.shards, Some(4));
    let alone = sized(
        dir.path(),
        &options(|options| options.set = Some("nested".into())),
    );
    let said = &alone.verdict.sentence;
    assert!(
        said.starts_with("Sharding does not help set nested.")
            && said.contains("the list at \"events\""),
        "{said}"
    );
}

/// Lets writers of one record be refused, and closes the store.
fn fought_over(dir: &Path, write: impl Fn(&Store, i64) -> spikelet::Result<()> + Sync) {
    let mut config = NamespaceConfig::new("test");
    config.max_waiters = 0;
    config.background = false;
    let store = Store::builder().path(dir).namespace(config).open().unwrap();
    store.set("calm").unwrap().put(1, [("n", 1)]).unwrap();
    store.set("calm").unwrap().put(1, [("n", 2)]).unwrap();
    let namespace = store.namespace("test").unwrap();
    let refused = || namespace.stats().key_busy;
    std::thread::scope(|scope| {
        for lane in 0..4_i64 {
            let (store, write, refused) = (&store, &write, &refused);
            scope.spawn(move || {
                for n in 0_i64.. {
                    match write(store, lane * 10_000_000 + n) {
                        Ok(()) | Err(spikelet::Error::KeyBusy { .. }) => {}
                        Err(error) => panic!("{error}"),
                    }
                    if refused() >= 400 {
                        return;
                    }
                }
            });
        }
    });
    store.close().unwrap();
}

#[test]
fn measured_refusals_decide_and_a_rate_is_of_the_hottest_record() {
    let dir = TempDir::new().unwrap();
    fought_over(dir.path(), |store, _| {
        let add = spikelet::operations::add("hits", 1);
        store.set("hot")?.operate("page", &[add]).map(|_| ())
    });
    let sizing = sized(
        dir.path(),
        &options(|options| options.writes_per_s = Some(400.0)),
    );
    let found = set(&sizing, "hot");
    assert_eq!(found.verdict.decided_by, "key_busy");
    assert_eq!(found.verdict.level, Band::Shard, "{:?}", found.verdict);
    assert_eq!(
        (found.writes_per_s, found.advice.shards_pow2),
        (Some(400.0), 8)
    );
    let hot = &sizing.contended[0];
    assert_eq!(
        (hot.set.as_deref(), hot.key.as_deref()),
        (Some("hot"), Some("page"))
    );
    let said = &sizing.verdict.sentence;
    assert!(
        said.contains("Writers of key page were refused with KEY_BUSY"),
        "{said}"
    );
    assert!(said.contains("Hash-shard its bin hits by 8"), "{said}");
    assert!(said.contains("Time shards alone do not help"), "{said}");
    // The rate is not that of every set.
    let calm = set(&sizing, "calm");
    assert_eq!((calm.verdict.level, calm.writes_per_s), (Band::Ok, None));
    let named = vec![("calm".to_owned(), 400.0)];
    let sizing = sized(
        dir.path(),
        &options(|options| options.writes_per_s_of = named),
    );
    assert_eq!(set(&sizing, "calm").verdict.decided_by, "writes_per_s");
    assert_eq!(set(&sizing, "hot").writes_per_s, None);
    assert!(!sizing.writes_per_s_unassigned);
}

#[test]
fn a_sharded_collection_is_judged_as_one() {
    let dir = TempDir::new().unwrap();
    fought_over(dir.path(), |store, n| {
        let list = ShardedList::new(store, "feeds", "alice", "by")?;
        if list.add(0).is_ok() {
            list.activate(2).map(|_| ())?;
        }
        list.add(n % 7).map(|_| ())
    });
    let sizing = sized(dir.path(), &options(|_| {}));
    let feeds = set(&sizing, "feeds");
    let one = &feeds.sharded[0];
    assert_eq!(
        (one.key.as_str(), one.shards, one.companions),
        ("alice", 2, 2)
    );
    assert_eq!((one.elements, feeds.sharded.len()), (7, 1));
    let hot: Vec<_> = sizing
        .contended
        .iter()
        .filter(|hot| hot.shards.is_some())
        .collect();
    assert!(
        hot.iter().all(|hot| hot.key.as_deref() == Some("alice")),
        "{hot:?}"
    );
    assert!(hot.len() <= 1, "{hot:?}");
}

#[test]
fn shards_that_have_grown_too_large_ask_for_more() {
    let dir = TempDir::new().unwrap();
    filled(dir.path(), |store| {
        let list = ShardedList::new(store, "feeds", "alice", "by")
            .unwrap()
            .policy(ShardPolicy::by_hand());
        list.add(0).unwrap();
        list.activate(2).unwrap();
        let texts = (0..400).map(|n| Value::from(format!("{n}-{}", "x".repeat(1_000))));
        for text in texts {
            list.add(text).unwrap();
        }
    });
    let sizing = sized(dir.path(), &options(|_| {}));
    let found = set(&sizing, "feeds");
    assert_eq!(
        found.verdict.decided_by, "shard_bytes_max",
        "{:?}",
        found.verdict
    );
    assert_eq!(found.verdict.helps, "Split it into 4 shards.");
    assert_eq!(
        (found.sharded[0].elements, found.sharded[0].shards),
        (401, 2)
    );
    assert!(found.sharded[0].bytes > 400_000);
}

#[test]
fn a_rate_of_no_known_record_is_in_no_figure_and_this_is_told() {
    let dir = TempDir::new().unwrap();
    let file = dir.path().join("two.jsonl");
    let line = |set: &str| format!("{{\"set\":\"{set}\",\"key\":1,\"bins\":{{\"a\":[1]}}}}\n");
    std::fs::write(&file, line("a") + &line("b")).unwrap();
    let sizing = sized(
        &file,
        &options(|options| options.writes_per_s = Some(400.0)),
    );
    assert!(sizing.writes_per_s_unassigned);
    assert!(sizing.sets.iter().all(|set| set.verdict.level == Band::Ok));
    let text = sizing.to_report().to_text();
    assert!(text.contains("--writes-per-s SET=W"), "{text}");
}

#[test]
fn an_empty_store_is_sized() {
    let dir = TempDir::new().unwrap();
    filled(dir.path(), |_| {});
    let sizing = sized(dir.path(), &options(|_| {}));
    assert_eq!((sizing.records, sizing.sets.len()), (0, 0));
    assert!(sizing.to_report().to_text().contains("There is no record."));
}
