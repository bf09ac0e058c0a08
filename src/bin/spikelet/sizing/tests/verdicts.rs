//! The rules that decide about a set, and the remedies.

use std::path::Path;
use std::time::{Duration, SystemTime};

use spikelet::operations::lists;
use spikelet::shard::{ShardPolicy, TimeWidth};
use spikelet::value::Map;
use spikelet::{
    ListOrder, ListPolicy, ListWriteFlags, MapOrder, NamespaceConfig, ShardedList, Store,
    TimeShards, Value, WritePolicy,
};
use tempfile::TempDir;

use super::known::{filled, list};
use super::{options, set, sized};
use crate::sizing::{SizeRemedy, Sizing};
use crate::verdict::Word;

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
    // The largest one is near the bound.
    assert_eq!(
        found.verdict.level,
        Word::Watch,
        "{}",
        found.verdict.sentence
    );
    assert_eq!(found.verdict.decided_by, "record_bytes_max");
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
        &options(|options| options.max_record_bytes = Some(8 << 20)),
    );
    for (name, level, remedy, words) in [
        (
            "element",
            Word::Remodel,
            SizeRemedy::RecordPerEntry,
            "a record of its own",
        ),
        (
            "nested",
            Word::Remodel,
            SizeRemedy::NestedToOwnBin,
            "a bin of its own",
        ),
        (
            "maps",
            Word::Remodel,
            SizeRemedy::SeveralRecords,
            "several records",
        ),
        (
            "text",
            Word::Remodel,
            SizeRemedy::StoreElsewhere,
            "elsewhere",
        ),
        (
            "list",
            Word::Shard,
            SizeRemedy::Shard,
            "Hash-shard its bin l by 8",
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
        let is_sharded = level == Word::Shard;
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
    assert_eq!(sizing.verdict.shards, Some(8));
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
pub(super) fn fought_over(dir: &Path, write: impl Fn(&Store, i64) -> spikelet::Result<()> + Sync) {
    let mut config = NamespaceConfig::new("test");
    config.max_waiters = 0;
    config.background = false;
    let store = Store::builder().path(dir).namespace(config).open().unwrap();
    store.set("calm").unwrap().put(1, [("n", 1)]).unwrap();
    store.set("calm").unwrap().put(1, [("n", 2)]).unwrap();
    let namespace = store.namespace("test").unwrap();
    // A quick machine reaches the refusals before a lane has come far.
    (0..7).for_each(|n| write(&store, n).unwrap());
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
        &options(|options| options.writes_per_s = vec![(None, 400.0)]),
    );
    let found = set(&sizing, "hot");
    assert_eq!(found.verdict.decided_by, "key_busy");
    assert_eq!(found.verdict.level, Word::Shard, "{:?}", found.verdict);
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
    assert_eq!((calm.verdict.level, calm.writes_per_s), (Word::Ok, None));
    let named = vec![(Some("calm".to_owned()), 400.0)];
    let sizing = sized(dir.path(), &options(|options| options.writes_per_s = named));
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
            list.shards().activate(2).map(|_| ())?;
        }
        list.add(n % 7).map(|_| ())
    });
    let sizing = sized(dir.path(), &options(|_| {}));
    let feeds = set(&sizing, "feeds");
    let one = &feeds.sharded[0];
    assert_eq!(
        (one.key.as_str(), one.stats.shards, one.stats.companions),
        ("alice", 2, 2)
    );
    assert_eq!((one.stats.elements, feeds.sharded.len()), (7, 1));
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
            .policy(ShardPolicy::manual());
        list.add(0).unwrap();
        list.shards().activate(2).unwrap();
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
    // In 4 shards the largest would be near the bound.
    assert_eq!(found.verdict.helps, "Split it into 8 shards.");
    assert_eq!(sizing.verdict.shards, Some(8));
    filled(dir.path(), |store| {
        let list = ShardedList::new(store, "feeds", "alice", "by").unwrap();
        let list = list.policy(ShardPolicy::manual());
        while list.shards().split().unwrap().shards < 8 {}
    });
    let split = sized(dir.path(), &options(|_| {}));
    assert_eq!(split.verdict.level, Word::Ok, "{:?}", split.verdict);
    assert_eq!(
        (
            found.sharded[0].stats.elements,
            found.sharded[0].stats.shards
        ),
        (401, 2)
    );
    assert!(found.sharded[0].stats.bytes > 400_000);
}

#[test]
fn time_shards_are_counted_without_their_directory_and_keep_their_layout() {
    const HOUR: Duration = Duration::from_secs(3_600);
    let dir = TempDir::new().unwrap();
    let begin = SystemTime::UNIX_EPOCH + HOUR * 490_000;
    filled(dir.path(), |store| {
        let feed = TimeShards::new(store, "feeds", "alice", "by", TimeWidth::Hourly).unwrap();
        for hour in 0..20 {
            feed.add(begin + HOUR * hour, i64::from(hour)).unwrap();
        }
        for number in 0..20 {
            let text = format!("{number}-{}", "x".repeat(10_000));
            feed.add(begin + HOUR * 20, text).unwrap();
        }
    });
    let sizing = sized(dir.path(), &options(|_| {}));
    let found = set(&sizing, "feeds");
    let feed = &found.sharded[0].stats;
    assert_eq!((feed.companions, feed.elements), (21, 40));
    assert!(feed.by_time && feed.shards == 1, "{feed:?}");
    assert_eq!(found.verdict.decided_by, "shard_bytes_max");
    let helps = &found.verdict.helps;
    assert!(helps.contains("narrower buckets"), "{helps}");
    assert_eq!(sizing.verdict.shards, None);
}

#[test]
fn a_rate_of_no_known_record_is_in_no_figure_and_this_is_told() {
    let dir = TempDir::new().unwrap();
    let file = dir.path().join("two.jsonl");
    let line = |set: &str| format!("{{\"set\":\"{set}\",\"key\":1,\"bins\":{{\"a\":[1]}}}}\n");
    std::fs::write(&file, line("a") + &line("b")).unwrap();
    let sizing = sized(
        &file,
        &options(|options| options.writes_per_s = vec![(None, 400.0)]),
    );
    assert!(sizing.writes_per_s_unassigned);
    assert!(sizing.sets.iter().all(|set| set.verdict.level == Word::Ok));
    let said = &sizing.verdict.sentence;
    assert!(said.ends_with("--writes-per-s SET=W."), "{said}");
}

#[test]
fn a_set_that_is_sharded_as_advised_is_ok_in_the_next_run() {
    // Elements and their bytes: just beyond a record, just below 4, 8 and 64 shards' worth, far
    // beyond, few large ones, and some of each.
    let tables: [(&str, Vec<(i64, usize)>); 6] = [
        ("beyond", vec![(1_400, 100)]),
        ("four", vec![(5_200, 100)]),
        ("eight", vec![(260, 4_000)]),
        ("most", vec![(70_000, 100)]),
        ("few", vec![(130, 16_000)]),
        ("mixed", vec![(6_000, 20), (60, 9_000)]),
    ];
    for (name, elements) in tables {
        let dir = TempDir::new().unwrap();
        let sharded = |store: &Store, shards: Option<u64>| {
            let list = ShardedList::new(store, "feeds", "alice", "by")
                .unwrap()
                .policy(ShardPolicy::manual());
            if let Some(shards) = shards {
                list.shards().activate(shards).unwrap();
                return;
            }
            list.add("0").unwrap();
            let policy = ListPolicy::new(ListOrder::Ordered, ListWriteFlags::ADD_UNIQUE);
            for (kind, (count, size)) in elements.iter().enumerate() {
                let value = |n: i64| Value::from(format!("{kind}-{n:08}-{}", "x".repeat(*size)));
                let values: Vec<Value> = (0..*count).map(value).collect();
                let append = lists::append_items(&policy, "by", values);
                let set = store.set("feeds").unwrap();
                set.operate_with(
                    &WritePolicy::default().override_shards(true),
                    "alice",
                    &[append],
                )
                .unwrap();
            }
        };
        filled(dir.path(), |store| sharded(store, None));
        let before = sized(dir.path(), &options(|_| {}));
        assert_eq!(
            before.verdict.level,
            Word::Shard,
            "{name}: {:?}",
            before.verdict
        );
        let advised = before.verdict.shards.unwrap();
        filled(dir.path(), |store| sharded(store, Some(advised)));
        let after = sized(dir.path(), &options(|_| {}));
        assert_eq!(
            after.verdict.level,
            Word::Ok,
            "{name} in {advised}: {:?}",
            set(&after, "feeds").verdict
        );
        let expected = set(&before, "feeds").advice.largest_shard_bytes;
        let found = set(&after, "feeds").sharded[0].stats.largest_bytes;
        assert!(
            found <= expected + expected / 20,
            "{name} in {advised}: {found}, and {expected} was expected"
        );
    }
}

#[test]
fn shards_are_said_to_take_what_they_take_with_their_headers_and_in_the_index() {
    const SHARDS: u64 = 32;
    let dir = TempDir::new().unwrap();
    filled(dir.path(), |store| {
        store
            .set("feeds")
            .unwrap()
            .put("alice", [("by", list(1_400, 100))])
            .unwrap();
    });
    let before = sized(dir.path(), &options(|_| {}));
    let rows = &set(&before, "feeds").what_if;
    let told = rows.iter().find(|row| row.shards == SHARDS).unwrap();
    let sharded = TempDir::new().unwrap();
    filled(sharded.path(), |store| {
        let list = ShardedList::new(store, "feeds", "alice", "by")
            .unwrap()
            .policy(ShardPolicy::manual());
        list.add("0").unwrap();
        list.shards().activate(SHARDS).unwrap();
        for n in 0..1_400 {
            list.add(format!("{n:098}")).unwrap();
        }
    });
    let after = sized(sharded.path(), &options(|_| {}));
    let found = &set(&after, "feeds").sharded[0].stats;
    // The header and the description of a shard are 4 % of it: leaving them out would be seen.
    let (told_bytes, mean) = (
        told.bytes_per_shard as f64,
        found.bytes as f64 / SHARDS as f64,
    );
    assert!(
        (told_bytes / mean - 1.0).abs() < 0.02,
        "{told_bytes} told, {mean} found"
    );
    // Most of the index is there without a record: its growth counts.
    let index = |sizing: &Sizing| sizing.namespaces[0].index_bytes.unwrap();
    let (told, grown) = (told.index_bytes.unwrap(), index(&after) - index(&before));
    assert!(
        (grown / 4..=grown * 4).contains(&told),
        "{told} told, grown by {grown}"
    );
}

#[test]
fn a_sample_is_not_called_ok_and_its_total_is_that_of_all() {
    let dir = TempDir::new().unwrap();
    filled(dir.path(), |store| {
        let set = store.set("s").unwrap();
        for n in 0..2_000_i64 {
            set.put(n, [("b", Value::Blob(vec![0; 100]))]).unwrap();
        }
        set.put(2_000, [("b", Value::Blob(vec![0; 900_000]))])
            .unwrap();
    });
    let sample = |records| {
        sized(
            dir.path(),
            &options(|options| options.sample = Some(records)),
        )
    };
    let some = sample(100);
    let found = set(&some, "s");
    assert_eq!(
        (found.verdict.level, found.verdict.decided_by),
        (Word::Watch, "sample")
    );
    let words = "The largest record of the 100 records sampled of 2,001";
    assert!(some.verdict.sentence.contains(words), "{:?}", some.verdict);
    assert_eq!(
        found.total_bytes.estimate,
        (found.bytes.mean * 2_001.0).round() as u64
    );
    assert!(found.total_bytes.interval.is_some());
    // A sample of everything is no sample.
    let all = sample(5_000);
    assert_ne!(set(&all, "s").verdict.decided_by, "sample");
    assert_eq!(set(&all, "s").total_bytes.interval, None);
}

#[test]
fn claims_are_about_the_record_that_is_meant_and_end_where_shards_do() {
    let texts = |count: usize, bytes: usize| {
        let each = |n: usize| Value::from(format!("{n}-{}", "x".repeat(bytes)));
        Value::List((0..count).map(each).collect::<Vec<_>>().into())
    };
    let dir = TempDir::new().unwrap();
    filled(dir.path(), |store| {
        let put = |set: &str, key: &str, bins: Vec<(&str, Value)>| {
            store.set(set).unwrap().put(key, bins).unwrap();
        };
        // The largest record has no large list: another key is meant.
        put("meant", "text", vec![("t", "x".repeat(300_000).into())]);
        put("meant", "list", vec![("l", texts(200, 1_000))]);
        put("element", "one", vec![("l", texts(1, 400_000))]);
        put(
            "two",
            "one",
            vec![
                ("a", texts(150, 1_000)),
                ("b", texts(140, 1_000)),
                ("c", texts(2, 100)),
            ],
        );
        put("near", "one", vec![("l", texts(120, 1_000))]);
        for n in 0..200 {
            put("outlier", &format!("{n}"), vec![("l", texts(1, 10))]);
        }
        put("outlier", "one", vec![("t", "x".repeat(118_000).into())]);
    });
    let of = |name: &str, rate: Option<f64>| {
        let only = options(|options| {
            options.set = Some(name.to_owned());
            options.writes_per_s = rate.map(|rate| (None, rate)).into_iter().collect();
        });
        sized(dir.path(), &only)
    };
    let meant = of("meant", None);
    assert!(
        meant
            .verdict
            .sentence
            .starts_with("Key list of set meant takes 19"),
        "{:?}",
        meant.verdict
    );
    // Shards do not help an element that no shard holds, at any rate.
    for rate in [None, Some(400.0)] {
        let element = of("element", rate);
        assert_eq!(
            (element.verdict.level, element.verdict.shards),
            (Word::Remodel, None)
        );
        assert_eq!(set(&element, "element").advice.shards_pow2, 1);
    }
    let two = of("two", None);
    assert_eq!(set(&two, "two").verdict.remedy, SizeRemedy::SeveralRecords);
    assert!(
        two.verdict.sentence.contains("a 52 %, b 48 %, c 0 %"),
        "{:?}",
        two.verdict
    );
    for name in ["near", "outlier"] {
        let near = of(name, None);
        assert_eq!(
            near.verdict.level,
            Word::Watch,
            "{name}: {:?}",
            near.verdict
        );
    }
    // A rate of which no record is known names no key.
    let rate = of("near", Some(400.0));
    assert!(
        rate.verdict.keys.is_empty() && !rate.verdict.sentence.contains("Key"),
        "{:?}",
        rate.verdict
    );
    // A store that holds records beyond the default has another limit.
    let large = TempDir::new().unwrap();
    filled(large.path(), |store| {
        store
            .set("s")
            .unwrap()
            .put("k", [("t", "x".repeat(2 << 20))])
            .unwrap();
    });
    let text = sized(large.path(), &options(|_| {})).to_report().to_text();
    assert!(!text.contains("code 13"), "{text}");
}
